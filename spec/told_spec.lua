-- What a program says of its end, and of failures that nobody learnt of, where errors are objects (mare.error).
local proc = require "spec.support.proc"

-- stderr without tracebacks, stdout, exit code.
local function script(text)
  local r = proc.mare("local mare = require 'mare' local process, fiber, errors = mare.process, mare.fiber, require 'mare.error'\n" .. text)
  assert.is_false(r.timeout, "it hangs:\n" .. r.out .. r.err)
  return r.err:gsub("stack traceback:\n", ""):gsub("\t[^\n]*\n", ""):gsub("%S*stdin", "stdin"), r.out, r.code
end

describe("the main process", function()
  it("tells an error object by where it was raised, its message and its reason", function()
    local err, _, code = script "process.deadline(0.01, mare.sleep, 1000)"
    assert.matches("^mare: [^\n]*:2: the deadline is over\n$", err)
    assert.equal(1, code)
    err, _, code = script "error(errors.new{ kind = 'lost', message = 'no key', reason = 'too dark' })"
    assert.matches("^mare: [^\n]*:2: no key: too dark\n$", err)
    assert.equal(1, code)
  end)

  it("that is cancelled says so, also when pcall has caught it", function()
    local err, _, code = script "process.self():cancel('enough')"
    assert.matches("^mare: [^\n]*:2: the process was cancelled: enough\n$", err)
    assert.equal(1, code)
    local out
    err, out, code = script [[
      local main = process.self()
      process.spawn(function() repeat mare.sleep(0.01) until main:status() == 'waiting' main:cancel() end)
      print(pcall(mare.sleep, 1000))
      mare.sleep(1000)]]
    assert.matches("^false\t[^\n]*:4: the process was cancelled\n$", out)
    assert.matches("^mare: the process was cancelled\n$", err)
    assert.equal(1, code)
  end)

  it("that is killed says so, and nothing of it runs any more", function()
    local err, out, code = script "local c <close> = setmetatable({}, { __close = function() print 'closed' end }) process.self():kill() print 'on'"
    assert.equal("mare: the process was killed\n", err)
    assert.equal("", out)
    assert.equal(1, code)
  end)

  it("that fails with a linked process tells which", function()
    local err, _, code = script [[
      process.trap()
      local a = process.spawn { name = "a", main = function() error("broken", 0) end }
      pcall(a.wait, a)
      local _, err = process.spawn { name = "c", main = function() a:link() mare.sleep(1000) end }:wait()
      error(err)]]
    assert.matches("^mare: [^\n]*:5: linked process #%d+ 'a' failed: broken\n$", err)
    assert.equal(1, code)
  end)

  it("gets Ctrl-C in a deadline and in a mask, and ends", function()
    for _, how in ipairs { "deadline", "masked" } do
      local r = proc.mare(("io.stdout:setvbuf 'no' print 'begun' require 'mare'.process.%s(1000, require 'mare'.sleep, 1000)"):format(how), {},
        { signals = { { after = "begun", name = "INT" } } })
      assert.is_false(r.timeout)
      assert.matches("interrupted!", r.err)
      assert.equal(1, r.code)
    end
  end)
end)

describe("a failure that nobody learnt of", function()
  it("is told with who spawned it, unless that is the main process", function()
    local err = script [[
      process.spawn { name = "parent", main = function()
        process.spawn { name = "child", main = function() error("one", 0) end }
        process.spawn(function() error("two", 0) end)
      end }:wait()
      process.spawn(function() error("three", 0) end)]]
    local lines = {}
    for line in err:gmatch("[^\n]+") do lines[#lines + 1] = line:gsub("#%d+", "#n", 1) end
    table.sort(lines)
    assert.same({ "mare: process #n (spawned by #2) failed: two", "mare: process #n failed: three",
                  "mare: process 'child' (#n, spawned by #2) failed: one" }, lines)
  end)

  it("that is an error object is told in one line", function()
    local err = script "process.spawn { name = 'late', main = function() process.deadline(0.01, mare.sleep, 1000) end }"
    assert.matches("^mare: process 'late' %(#2%) failed: [^\n]*:2: the deadline is over\n$", err)
  end)

  it("is none if somebody cancelled or killed it", function()
    local err, _, code = script [[
      local a, b = process.spawn(mare.sleep, 1000), process.spawn(mare.sleep, 1000)
      a:cancel() b:kill()]]
    assert.equal("", err)
    assert.equal(0, code)
  end)
end)
