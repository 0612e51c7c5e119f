-- Failure: an error ends its process alone, the handle tells, and what nobody asked for is printed once.
local mare = require "mare"
local proc = require "spec.support.proc"
local process, channel = mare.process, mare.channel

local pack = table.pack

describe("an error", function()
  it("ends its process alone: wait gives false, the error and a traceback", function()
    local p = process.spawn { name = "x", main = function()
      local function inner() error("broken") end
      inner()
    end }
    local ok, err, trace = p:wait()
    assert.is_false(ok)
    assert.matches("failure_spec.lua:%d+: broken$", err)
    assert.matches("^stack traceback:\n", trace)
    assert.matches("in local 'inner'", trace)
    assert.equal("failed", p:status())
  end)

  it("may be any value: a table, nil, false, a number, a channel", function()
    assert.same({ code = 7, list = { 1, 2 } }, select(2, process.spawn(function() error({ code = 7, list = { 1, 2 } }) end):wait()))
    local r = pack(process.spawn(function() error(nil) end):wait())
    assert.same({ false, nil }, { r[1], r[2] })
    assert.is_string(r[3])
    assert.equal(false, select(2, process.spawn(function() error(false) end):wait()))
    assert.equal(42, select(2, process.spawn(function() error(42) end):wait()))
    assert.equal("integer", math.type(select(2, process.spawn(function() error(42) end):wait())))
    local c = channel.new()
    assert.equal(c, select(2, process.spawn(function() error(c) end):wait()))
    assert.same({}, select(2, process.spawn(function() error({}) end):wait()))
  end)

  it("keeps the metatable of its value", function()
    local _, err = process.spawn(function()
      error(setmetatable({ code = 5 }, { __tostring = function(e) return "E" .. e.code end }))
    end):wait()
    assert.equal(5, err.code)
    assert.equal("E5", tostring(err))
  end)

  it("that can't travel is replaced by its text", function()
    local ok, err = process.spawn(function() error(io.stdout) end):wait()
    assert.is_false(ok)
    assert.matches("^file %(", err)
    ok, err = process.spawn(function() error({ coroutine.create(print) }) end):wait()
    assert.is_false(ok)
    assert.is_string(err)
  end)

  it("in __tostring of the error value, or a __tostring without a string, does no harm", function()
    for _, f in ipairs { function() error("again") end, function() return 5 end, function(t) return tostring(t) end } do
      local ok, err = process.spawn(function() error(setmetatable({}, { __tostring = f })) end):wait()
      assert.is_false(ok)
      assert.not_nil(err)
    end
  end)

  it("is given to every waiter, each its own copy", function()
    local gate = channel.new()
    local p = process.spawn(function()
      gate:receive()
      error({ 1 })
    end)
    local list = {}
    for i = 1, 5 do
      list[i] = process.spawn(function()
        local ok, err = p:wait()
        err[1] = err[1] + i
        return ok, err[1]
      end)
    end
    gate:send(1)
    for i = 1, 5 do assert.same(pack(true, false, 1 + i), pack(list[i]:wait())) end
    assert.same({ 1 }, select(2, p:wait()))
  end)

  it("in one process leaves others and their messages alone", function()
    local c = channel.new(10)
    local p = process.spawn(function()
      c:send("before")
      error("x", 0)
    end)
    assert.equal("x", select(2, p:wait()))
    assert.equal("before", c:receive())
  end)

  it("runs pending to-be-closed variables before the end is known", function()
    local c = channel.new(10)
    local p = process.spawn(function()
      local _ <close> = setmetatable({}, { __close = function(_, e) c:try_send("closed", e) end })
      error("x", 0)
    end)
    p:wait()
    assert.same(pack("closed", "x"), pack(c:try_receive()))
  end)

  it("in a __close takes the place of the first", function()
    local ok, err = process.spawn(function()
      local _ <close> = setmetatable({}, { __close = function() error("second", 0) end })
      error("first", 0)
    end):wait()
    assert.same({ false, "second" }, { ok, err })
  end)

  it("of stack overflow is an ordinary one", function()
    if proc.config ~= "tsan" then                -- each interruption goes through all levels: there it takes half a minute
      local ok, err = process.spawn(function()
        local function f() return 1 + f() end
        return f()
      end):wait()
      assert.is_false(ok)
      assert.matches("stack overflow", err)
    end
    local ok, err = process.spawn(function()
      local function f() return pcall(f) end
      return f()
    end):wait()
    assert.is_true(ok)
    assert.is_boolean(err)
    ok, err = process.spawn(function()
      local t = {}
      for i = 1, 300 do t = setmetatable({}, { __index = t, n = i }) end
      local function nest(n) return n == 0 and 0 or coroutine.wrap(nest)(n - 1) end
      return nest(250)
    end):wait()
    assert.is_false(ok)
    assert.matches("C stack overflow", err)
  end)

  it("in results that can't travel names them", function()
    local ok, err = process.spawn(function() return 1, { deep = { print, io.stdout } } end):wait()
    assert.is_false(ok)
    assert.matches("result%[2%]%.deep%[2%]: userdata 'FILE%*'", err)
  end)

  it("when the main function yields outside of every coroutine is like that of a main script", function()
    local ok, err = process.spawn(function() coroutine.yield(1) end):wait()
    assert.is_false(ok)
    assert.matches("attempt to yield from outside a coroutine", err)
  end)
end)

describe("an error in a finaliser", function()
  it("is a warning, as in lua, and harms nobody", function()
    for _ = 1, 20 do
      assert.same(pack(true, "fine"), pack(process.spawn(function()
        setmetatable({}, { __gc = function() error("in gc") end })
        collectgarbage()
        setmetatable({}, { __gc = function() error({}) end })
        setmetatable({}, { __gc = function() local x <close> = 5 end }) -- luacheck: ignore
        setmetatable({}, { __gc = 1 })
        return "fine"
      end):wait()))
    end
  end)

  it("at the end of a process is too, and the other finalisers run", function()
    local c = channel.new(10)
    process.spawn(function()
      setmetatable({}, { __gc = function() c:try_send("first made") end })
      setmetatable({}, { __gc = function() error("bad") end })
      setmetatable({}, { __gc = function() c:try_send("last made") end })
    end):wait()
    assert.same({ "last made", "first made" }, { (c:try_receive()), (c:try_receive()) })
  end)

  it("that computes for ever at the end does not keep others", function()
    local r = proc.lua([[
      local mare = require "mare"
      mare.process.spawn(function() setmetatable({}, { __gc = function() while true do end end }) end)
      mare.process.spawn(function() mare.sleep(0.05) print("other") end):wait()
      os.exit(0)
    ]])
    assert.equal("other\n", r.out)
    assert.equal(0, r.code)
  end)

  it("finalisers run before the end is known", function()
    for _ = 1, 20 do
      local c = channel.new(10)
      process.spawn(function() setmetatable({}, { __gc = function() c:try_send("ran") end }) end):wait()
      assert.equal("ran", c:try_receive())
    end
  end)
end)

describe("a failure nobody waited for", function()
  local function count(text, what) return select(2, text:gsub(what, "")) end

  local function both(text, check, options)
    local r = proc.lua(text, {}, options)
    check(r, "lua")
    check(proc.mare(text, {}, options), "mare")
  end

  it("is printed once with the process's name and a traceback when its last handle goes", function()
    both([[
      local mare = require "mare"
      local c = mare.channel.new()
      do
        local p = mare.process.spawn { name = "worker", main = function() c:receive() error("oh no") end }
        c:send(1)
        while p:status() ~= "failed" do mare.process.yield() end
      end
      io.stderr:write("collect\n")
      collectgarbage() collectgarbage()
      io.stderr:write("collected\n")
    ]], function(r)
      assert.equal(0, r.code)
      assert.matches("^collect\nmare: process 'worker' %(#%d+%) failed: .-:4: oh no\nstack traceback:.-collected\n$", r.err)
      assert.equal(1, count(r.err, "oh no"))
    end)
  end)

  it("is printed at the latest at the end, whether the program returns or calls os.exit", function()
    for _, ending in ipairs { "", "os.exit(0)", "os.exit(true, true)" } do
      both([[
        local mare = require "mare"
        P = mare.process.spawn(function() error({}) end)
        Q = mare.process.spawn(function() error("text", 0) end)
        while P:status() ~= "failed" or Q:status() ~= "failed" do mare.sleep(0.001) end
      ]] .. ending, function(r, how)
        assert.equal(0, r.code, how .. ending .. r.err)
        assert.equal(2, count(r.err, "failed: "), how .. " " .. ending .. ": " .. r.err)
        assert.equal(1, count(r.err, "failed: text\n"))
        assert.equal(1, count(r.err, "error object is a table value"))
      end)
    end
  end)

  it("is printed when it was spawned and forgotten", function()
    both([[
      local mare = require "mare"
      for i = 1, 3 do mare.process.spawn(function() error("lost" .. i, 0) end) end
      collectgarbage() collectgarbage()
    ]], function(r)
      for i = 1, 3 do assert.equal(1, count(r.err, "failed: lost" .. i .. "\n"), r.err) end
      assert.equal(0, r.code)
    end)
  end)

  it("is not printed when somebody has waited, before or after the end", function()
    both([[
      local mare = require "mare"
      print(mare.process.spawn(function() error("x", 0) end):wait())
      local p = mare.process.spawn(function() error("x", 0) end)
      while p:status() ~= "failed" do mare.sleep(0.001) end
      p:wait()
    ]], function(r)
      assert.equal("", r.err)
      assert.equal(0, r.code)
    end)
  end)

  it("a timeout of wait is not having waited", function()
    both([[
      local mare = require "mare"
      local c = mare.channel.new()
      local p = mare.process.spawn(function() c:receive() error("unseen", 0) end)
      assert(p:wait(0.001) == nil)
      c:send(1)
    ]], function(r) assert.equal(1, count(r.err, "failed: unseen\n"), r.err) end)
  end)
end)

describe("mare run", function()
  it("ends with 1 and the message if the main process failed, with 0 if another did", function()
    local r = proc.mare [[error("main failed")]]
    assert.equal(1, r.code)
    assert.matches("main failed", r.err)
    assert.matches("stack traceback", r.err)
    r = proc.mare [[require "mare".process.spawn(function() error("other") end)]]
    assert.equal(0, r.code)
    r = proc.mare [[error({})]]
    assert.equal(1, r.code)
    r = proc.mare [[error()]]
    assert.equal(1, r.code)
  end)

  it("ends when every process has", function()
    local r = proc.mare [[
      local mare = require "mare"
      mare.process.spawn(function() mare.sleep(0.05) print("last") end)
      print("main")
    ]]
    assert.equal("main\nlast\n", r.out)
    assert.equal(0, r.code)
  end)

  it("runs on after the main process failed, until every process has ended", function()
    local r = proc.mare [[
      local mare = require "mare"
      mare.process.spawn(function() mare.sleep(0.05) print("last") end)
      error("main failed")
    ]]
    assert.equal("last\n", r.out)
    assert.equal(1, r.code)
  end)
end)
