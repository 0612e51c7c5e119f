-- Output: every print and every io.write call appears whole, whoever writes at the same time; input and commands hold up nobody.
-- runs under: mare
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

-- Runs a script whose standard input is a fifo, F, in which nothing comes but what the script writes to it itself: who is held up by somebody that
-- reads waits for ever. G is a second one.
local function with_fifos(text, workers)
  local base = temporary()
  local fifo, other, script = base .. ".f", base .. ".g", base .. ".lua"
  local file <close> = assert(io.open(script, "w"))
  file:write(("local F, G = %q, %q\n"):format(fifo, other), text)
  file:close()
  local command = "mkfifo '%s' '%s' && exec 3<>'%s' && '%s' run -w %d '%s' <&3"
  local r = proc.run(command:format(fifo, other, fifo, proc.bin, workers, script), { timeout = 60 })
  for _, name in ipairs { base, fifo, other, script } do os.remove(name) end
  assert.is_false(r.timeout, "held up: " .. r.out .. r.err)
  return r
end

describe("concurrent output", function()
  local function whole(write)
    local r = proc.mare(([[
      local process = require "mare.process"
      process.workers(4)
      for i = 1, 8 do
        process.spawn(function()
          local text = ("x"):rep(97)
          for n = 1, 500 do %s end
        end)
      end]]):format(write))
    assert.equal(0, r.code, r.err)
    local n = 0
    for line in r.out:gmatch("[^\n]*\n") do
      n = n + 1
      if not line:find("^%d\t%d+\tx+\tend\n$") or #line < 102 then error("broken line: " .. line) end
    end
    assert.equal(4000, n)
  end
  it("of print is whole", function() whole("print(i, n, text, 'end')") end)
  it("of print with values that have to be converted is whole", function()
    whole([[
      local function as(s) return setmetatable({}, { __tostring = function() return tostring(s) end }) end
      print(as(i), n, text, as('end'))]])
  end)
  it("of io.write is whole", function() whole("io.write(i, '\\t', n, '\\t', text, '\\tend\\n')") end)
  it("of file:write is whole", function() whole("io.stdout:write(i, '\\t', n, '\\t', text, '\\t', 'end', '\\n')") end)
  it("of warn is whole", function()
    local r = proc.mare([[
      local process = require "mare.process"
      process.workers(4)
      for _ = 1, 4 do process.spawn(function() warn("@on") for _ = 1, 300 do warn("a", ("b"):rep(50), "c") end end) end]])
    local n = 0
    for line in r.err:gmatch("[^\n]*\n") do
      n = n + 1
      assert.equal("Lua warning: a" .. ("b"):rep(50) .. "c\n", line)
    end
    assert.equal(1200, n)
  end)
  it("writes nothing when an argument can't be written", function()
    local r = proc.mare([[
      print(pcall(io.write, 'lost', {}))
      print(pcall(print, 'lost', setmetatable({}, { __tostring = function() error('x', 0) end })))]])
    assert.equal("false\tbad argument #2 to 'io.write' (string expected, got table)\nfalse\tx\n", r.out)
  end)
end)

describe("a process that reads", function()
  it("holds up nobody else, on one worker", function()
    local r = with_fifos([[
      local process, channel, mare = require "mare.process", require "mare.channel", require "mare"
      local c = channel.new(10)
      process.spawn(function() c:send("reads") c:send("read " .. io.read()) end)
      print(c:receive())
      process.spawn(function() for i = 1, 3 do mare.sleep(0.02) c:send(i) end end)
      for i = 1, 3 do print(c:receive()) end
      local f = io.open(F, "w") f:write "line\n" f:close()
      print(c:receive())]], 1)
    assert.equal("reads\n1\n2\n3\nread line\n", r.out, r.err)
  end)
  it("does not hold up a command that another process starts", function()
    local r = with_fifos([[
      local process, channel, mare = require "mare.process", require "mare.channel", require "mare"
      local c = channel.new(10)
      process.spawn(function() c:send("reads") c:send("read " .. io.read()) end)
      print(c:receive())
      mare.sleep(0.1)                                -- it does by now, most likely
      process.spawn(function() c:send(io.popen("echo popen"):read()) os.execute("true") c:send("executed") end)
      for i = 1, 2 do print(c:receive()) end
      local f = io.open(F, "w") f:write "line\n" f:close()
      print(c:receive())]], 2)
    assert.equal("reads\npopen\nexecuted\nread line\n", r.out, r.err)
  end)
end)

describe("a command", function()
  it("holds up nobody else", function()
    local r = with_fifos([[
      local process, channel, mare = require "mare.process", require "mare.channel", require "mare"
      local c, go = channel.new(10), { F, G }
      process.spawn(function() os.execute("read x <" .. F) c:send("executed") end)
      process.spawn(function() c:send(io.popen("read x <" .. G .. "; echo popen"):read()) end)
      for i = 1, 3 do mare.sleep(0.02) print(i) end
      for i = 1, 2 do local f = io.open(go[i], "w") f:write "go\n" f:close() end
      c:receive() c:receive() print "both"]], 1)
    assert.equal("1\n2\n3\nboth\n", r.out, r.err)
  end)
  it("does not inherit blocked signals", function()
    local r = proc.mare([[print(select(2, require "mare.process".spawn(function()
      local a = { os.execute("kill -TERM $$; sleep 60") }
      local b = { io.popen("kill -INT $$; sleep 60"):close() }
      return a[2], a[3], b[2], b[3]
    end):wait()))]])
    assert.equal("signal\t15\tsignal\t2\n", r.out, r.err)
  end)
  it("does not inherit pipes of other commands", function()
    local r = proc.mare([[
      local function count() return io.popen("ls /proc/self/fd | wc -l"):read("n") end
      local before = count()
      local p = io.popen("cat >/dev/null", "w")
      print(count() == before, p:close())]])
    assert.equal("true\ttrue\texit\t0\n", r.out, r.err)
  end)
  it("sees what was written before it", function()
    local r = proc.mare([[
      io.write('then ')
      local p = io.popen('cat', 'w')
      p:write('popen\n')
      p:close()]])
    assert.equal("then popen\n", r.out)
  end)
end)

describe("os.exit", function()
  for _, case in ipairs { { "os.exit()", 0 }, { "os.exit(true)", 0 }, { "os.exit(false)", 1 }, { "os.exit(7)", 7 }, { "os.exit(7, true)", 7 } } do
    it("ends the program: " .. case[1], function()
      for _, text in ipairs { "io.write('out') %s", "io.write('out') coroutine.wrap(function() %s end)()",
                              "io.write('out') table.sort({ 1, 2 }, function() %s end)",
                              "require 'mare.process'.spawn(function() while true do end end) io.write('out') %s",
                              "require 'mare.process'.spawn(function() io.write('out') %s end) require 'mare.channel'.new():receive()" } do
        local r = proc.mare(text:format(case[1]))
        assert.same({ case[2], "out", "" }, { r.code, r.out, r.err }, text)
      end
    end)
  end
  it("with close = true runs the process's finalisers and pending close handlers", function()
    local r = proc.mare([[
      local x <close> = setmetatable({}, { __close = function() print "closed" end })
      keep = setmetatable({}, { __gc = function() print "finalised" end })
      os.exit(3, true)]])
    assert.same({ 3, "closed\nfinalised\n", "" }, { r.code, r.out, r.err })
  end)
  it("without it runs none", function()
    local r = proc.mare("keep = setmetatable({}, { __gc = function() print 'finalised' end }) os.exit(3)")
    assert.same({ 3, "", "" }, { r.code, r.out, r.err })
  end)
end)
