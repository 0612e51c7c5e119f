-- Integers that processes share, and what is done once.
local mare = require "mare"
local proc = require "spec.support.proc"
local parked = require "spec.support.parked"
local unique = require "spec.support.unique"
local process, channel, fiber, atomic, select = mare.process, mare.channel, mare.fiber, mare.atomic, mare.select

local pack = table.pack

local function script(text)
  local r = proc.mare("local mare = require 'mare' local atomic, process = mare.atomic, mare.process\n" .. text)
  assert.is_false(r.timeout, "it hangs:\n" .. r.out .. r.err)
  return r.out, r.err, r.code
end

describe("an atomic", function()
  it("is added to, taken from, set, exchanged", function()
    local a = atomic.new()
    assert.equal(0, a:get())
    assert.equal(1, a:add())
    assert.equal(11, a:add(10))
    assert.equal(10, a:sub())
    assert.equal(-5, a:sub(15))
    assert.same(pack(), pack(a:set(7)))
    assert.equal(7, a:exchange(8))
    assert.equal(8, a:get())
    assert.equal(-3, atomic.new(-3):get())
    assert.equal("integer", math.type(atomic.new(2.0):get()))
  end)

  it("wraps around", function()
    local a = atomic.new(math.maxinteger)
    assert.equal(math.mininteger, a:add())
    assert.equal(math.maxinteger, a:sub())
    assert.equal(-1, a:add(math.mininteger))
    assert.equal(math.maxinteger, a:sub(math.mininteger))
  end)

  it("is compared and set, raised and lowered", function()
    local a = atomic.new(5)
    assert.same(pack(false, 5), pack(a:cas(4, 6)))
    assert.same(pack(true), pack(a:cas(5, 6)))
    assert.equal(6, a:max(3))
    assert.equal(9, a:max(9))
    assert.equal(9, a:min(10))
    assert.equal(-1, a:min(-1))
    assert.equal(-1, a:get())
  end)

  it("holds integers only", function()
    local a = atomic.new()
    for _, f in ipairs { "add", "sub", "set", "exchange", "max", "min", "wait" } do
      assert.error(function() a[f](a, 1.5) end)
      assert.error(function() a[f](a, {}) end)
    end
    assert.error(function() a:set() end)
    assert.error(function() a:cas(1) end)
    assert.error(function() atomic.new(0.5) end)
    assert.equal(0, a:get())
  end)

  it("is one for all processes, sent or by its name", function()
    local a, name = atomic.new(), "atomic " .. unique()
    local list = {}
    for i = 1, 4 do
      list[i] = process.spawn(function()
        local b = atomic.named(name, 100)
        for k = 1, 5000 do
          a:add()
          b:sub(2)
          a:max(k)
        end
        return b:name()
      end)
    end
    for i = 1, 4 do assert.same(pack(true, name), pack(list[i]:wait())) end
    assert.is_true(a:get() >= 5000)
    assert.equal(100 - 40000, atomic.named(name):get())
    assert.equal(atomic.named(name), atomic.named(name, 5))
    assert.is_nil(a:name())
    assert.is_true(atomic.drop(name))
    assert.is_false(atomic.drop(name))
    assert.equal(3, atomic.named(name, 3):get())
    assert.is_true(atomic.drop(name))
  end)

  it("loses nothing", function()
    local a, b, list = atomic.new(), atomic.new(), {}
    for i = 1, 4 do
      list[i] = process.spawn(function()
        for _ = 1, 5000 do
          a:add(3)
          local v = b:get()
          while true do
            local done, now = b:cas(v, v + 1)
            if done then break end
            v = now
          end
        end
      end)
    end
    for i = 1, 4 do assert.is_true(list[i]:wait()) end
    assert.equal(60000, a:get())
    assert.equal(20000, b:get())
  end)

  it("can be waited for", function()
    local a = atomic.new(1)
    assert.same(pack(1), pack(a:wait(0)))
    assert.same(pack(nil, "timeout"), pack(a:wait(1, 0.001)))
    for _, change in ipairs { function() a:add() end, function() a:sub() end, function() a:set(9) end, function() a:exchange(1) end,
                              function() a:cas(1, 2) end, function() a:max(5) end, function() a:min(1) end } do
      local old, list = a:get(), {}
      for i = 1, 4 do list[i] = process.spawn(function() return a:wait(old) end) end
      for i = 1, 4 do parked(list[i]) end
      a:set(old)
      for i = 1, 4 do parked(list[i]) end
      change()
      for i = 1, 4 do assert.same(pack(true, a:get()), pack(list[i]:wait())) end
    end
  end)

  it("can be waited for in select, and by who is killed", function()
    local a, c = atomic.new(1), channel.new()
    assert.same(pack(nil, "timeout"), pack(select { c, a:changing(1), timeout = 0.001 }))
    assert.same(pack(2, 1), pack(select { c, a:changing(0) }))
    local p = process.spawn(function() mare.sleep(0.002) a:add() end)
    assert.same(pack(2, 2), pack(select { c, a:changing(1) }))
    p:wait()
    local f = fiber.spawn(function() return a:wait(2) end)
    fiber.yield()
    f:cancel()
    assert.is_false((f:wait()))
    p = process.spawn(function() return a:wait(2) end)
    parked(p)
    p:kill()
    p:wait()
    a:add()
    assert.equal(3, a:get())
  end)

  it("misses no change, however they fall", function()
    local a = atomic.new()
    local function player(mine)
      for _ = 1, 300 do
        local v = a:get()
        while v % 2 ~= mine do v = a:wait(v) end
        a:add()
      end
    end
    local p, q = process.spawn(player, 0), process.spawn(player, 1)
    assert.same(pack(true), pack(p:wait()))
    assert.same(pack(true), pack(q:wait()))
    assert.equal(600, a:get())
  end)

  it("that nobody will change is a deadlock", function()
    local _, err, code = script "atomic.named('gate'):wait(0)"
    assert.equal(1, code)
    assert.matches("wait for an atomic.*atomic 'gate'", err)
  end)
end)

describe("atomic.once with a name", function()
  it("calls the function once in the program, and gives its results to all", function()
    local name, calls, list = "once " .. unique(), atomic.new(), {}
    for i = 1, 8 do
      list[i] = process.spawn(function()
        return atomic.once(name, function(...)
          calls:add()
          mare.sleep(0.005)
          return { loaded = true }, nil, _G.select("#", ...), nil
        end, i, nil)
      end)
    end
    for i = 1, 8 do assert.same(pack(true, { loaded = true }, nil, 2, nil), pack(list[i]:wait())) end
    assert.equal(1, calls:get())
    assert.same(pack({ loaded = true }, nil, 2, nil), pack(atomic.once(name, error)))
    assert.is_true(atomic.drop(name))
    assert.equal("again", atomic.once(name, function() return "again" end))
    assert.is_true(atomic.drop(name))
  end)

  it("gives an error to all who wait, and then tries again", function()
    local name, gate = "once " .. unique(), channel.new()
    local p = process.spawn(function()
      return pcall(atomic.once, name, function()
        gate:receive()
        error { code = 42 }
      end)
    end)
    parked(p)
    local list = {}
    for i = 1, 3 do list[i] = process.spawn(function() return pcall(atomic.once, name, function() return "mine" end) end) end
    for i = 1, 3 do parked(list[i]) end
    gate:send(true)
    for i = 1, 3 do
      local _, ok, e = list[i]:wait()
      assert.is_false(ok)
      assert.equal(42, e.code)
    end
    assert.is_false((_G.select(2, p:wait())))
    assert.equal("now", atomic.once(name, function() return "now" end))
    atomic.drop(name)
  end)

  it("lets the next one try when who did it is killed, cancelled, or never goes on", function()
    for _, way in ipairs { "kill", "cancel" } do
      local name, started = "once " .. unique(), channel.new(1)
      local p = process.spawn(function()
        atomic.once(name, function()
          started:send(true)
          mare.sleep(3600)
        end)
      end)
      started:receive()
      local list = {}
      for i = 1, 3 do list[i] = process.spawn(function() return atomic.once(name, function() return i end) end) end
      for i = 1, 3 do parked(list[i]) end
      p[way](p)
      local _, first = list[1]:wait()
      for i = 1, 3 do assert.same(pack(true, first), pack(list[i]:wait())) end
      p:wait()
      atomic.drop(name)
    end
    local name = "once " .. unique()
    local co = coroutine.create(function() atomic.once(name, coroutine.yield) end)
    assert(coroutine.resume(co))
    local p = process.spawn(function() return atomic.once(name, function() return "other" end) end)
    parked(p)
    coroutine.close(co)
    assert.same(pack(true, "other"), pack(p:wait()))
    atomic.drop(name)
  end)

  it("is done once, and by one at a time, whoever is killed and wherever", function()
    for round = 1, 40 do
      local name, inside, done, list = "once " .. unique(), atomic.new(), atomic.new(), {}
      local function body(i)
        return atomic.once(name, function()
          inside:add()
          for _ = 1, round % 7 do process.yield() end
          if i % 3 == 0 then error(i, 0) end
          done:add()
          return "done"
        end)
      end
      for i = 1, 6 do list[i] = process.spawn(body, i) end
      for _ = 1, round % 5 do process.yield() end
      for i = 1, 4 do list[1 + (i * round) % 6]:kill() end
      for i = 1, 6 do
        local ok, v = list[i]:wait()
        assert(ok and v == "done" or not ok and (math.type(v) or v.kind == "killed"), v)
      end
      assert.equal("done", body(1))
      assert.equal("done", atomic.once(name, error))
      assert.is_true(done:get() >= 1 and done:get() <= inside:get())
      atomic.drop(name)
    end
  end)

  it("refuses results that can't be sent, and being called inside itself", function()
    local name = "once " .. unique()
    assert.error_matches(function() atomic.once(name, function() return { coroutine.create(print) } end) end, "result%[1%]: coroutine cannot be sent")
    assert.error_matches(function() atomic.once(name, function() return atomic.once(name, print) end) end, "called inside its own function")
    assert.equal("thread", type(_G.select(2, pcall(atomic.once, name, function() error(coroutine.create(print)) end))))
    assert.same(pack(), pack(atomic.once(name, function() end)))
    assert.same(pack(), pack(atomic.once(name, error)))
    atomic.drop(name)
    assert.error_matches(function() atomic.once(name) end, "function expected")
    assert.error_matches(function() atomic.once() end, "name and function, or function expected")
  end)
end)

describe("what was done once", function()
  it("counts in the memory budget of the process that did it, as long as it is kept", function()
    local prefix = unique()
    local function hoard(n)
      for i = 1, n do
        mare.atomic.once(prefix .. i, function() return ("x"):rep(1 << 20) .. i end)
        collectgarbage()
      end
      for i = 1, n do mare.atomic.drop(prefix .. i) end
    end
    local done, e = process.spawn { memory = { 32 << 20, tree = true }, main = hoard, args = { 100 } }:wait()
    assert.is_false(done)
    assert.matches("not enough memory", tostring(e))
    for i = 1, 100 do atomic.drop(prefix .. i) end
    assert.same(pack(true), pack(process.spawn { memory = { 32 << 20, tree = true }, main = function()
      for _ = 1, 10 do hoard(8) end
    end }:wait()))
  end)
end)

describe("atomic.once of a function", function()
  it("is called once, wherever it was sent", function()
    local calls, list = atomic.new(), {}
    local n = 5
    local init = atomic.once(function(more) calls:add() return n + (more or 0) end)
    assert.is_false(init:done())
    for i = 1, 6 do list[i] = process.spawn(function() return init(), init() end) end
    for i = 1, 6 do assert.same(pack(true, 5, 5), pack(list[i]:wait())) end
    assert.same(pack(5), pack(init(100)))
    assert.is_true(init:done())
    assert.equal(1, calls:get())
  end)

  it("tries again after an error", function()
    local calls = atomic.new()
    local init = atomic.once(function() if calls:add() == 1 then error "first" end return "second" end)
    assert.error_matches(init, "first")
    assert.is_false(init:done())
    assert.equal("second", init())
    assert.error_matches(function() atomic.once(function() return coroutine.create(print) end)() end, "result: coroutine cannot be sent")
    local co = coroutine.create(print)
    assert.error_matches(function() atomic.once(function() return co end) end, "argument: upvalue 'co': coroutine cannot be sent")
  end)

  it("may be waited for in callbacks, and by fibers", function()
    local init = atomic.once(function() mare.sleep(0.003) return 1 end)
    local f = fiber.spawn(function() return init() end)
    fiber.yield()
    assert.equal("1", (("x"):gsub("x", function() return init() end)))
    assert.same(pack(true, 1), pack(f:wait()))
    local again = atomic.once(function() mare.sleep(0.001) return 2 end)
    assert.equal("2", (("x"):gsub("x", function() return again() end)))
  end)
end)
