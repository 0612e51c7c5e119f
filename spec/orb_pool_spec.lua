-- One object in several processes: serve(factory, interface, { processes = n }).
local mare = require "mare"
local orb = require "mare.orb"
local ior = require "mare.orb.giop.ior"
local giop = require "spec.support.iiop"
local proc = require "spec.support.proc"

local SLOW = proc.slow
local IDL = [[
  interface Sink { void take(in long n); };
  interface Counter {
    long next();
    long member();
    long wait(in long milliseconds);
    void die();
    string label();
    Counter me();
    Sink own();
    void call(in Sink s, in long n);
  };
]]

-- A servant of one process: what it counts is its own.
local function factory(broker, index, label)
  local process = require "mare".process
  local counter, count = {}, 0
  function counter.next() count = count + 1 return count end
  function counter.member() return index end
  function counter.wait(_, ms)
    local mare = require "mare"                  -- luacheck: ignore
    mare.channel.named("orb_pool_spec.begun", math.huge):send(ms)
    mare.sleep(ms / 1000)
    return ms
  end
  function counter.label() return (label or "none") .. " in " .. process.self().name end
  function counter.me() return counter end
  function counter.call(_, s, n) s:take(n) end
  function counter.own()
    counter.kept = counter.kept or { take = function(_, n) count = count + n end }
    return counter.kept
  end
  function counter.die()                         -- the process's main function fails at its next connection
    function broker.server.pool.room() error("died as it was told", 0) end
  end
  return counter
end

local function serve(processes, options)
  local log = {}
  local point = options and options.point
  local broker = orb.init { host = not point and "127.0.0.1" or nil, ORBendPoint = point, limits = options and options.limits,
                            log = function(_, text) log[#log + 1] = text end }
  broker:load(IDL)
  local ref = broker:serve(options and options.factory or factory, "Counter",
    { key = options and options.key, processes = processes, args = options and options.args })
  return broker, ref, log
end

local function client(ref)
  local broker = orb.init()
  broker:load(IDL)
  return broker, broker:proxy(tostring(ref), "Counter")
end

describe("an object in several processes", function()
  it("has one reference; connections go to its members in turn, each with a state of its own", function()
    local broker, ref = serve(3, { args = { "hello" } })
    local seen, brokers = {}, {}
    for i = 1, 6 do
      local other, p = client(ref)
      brokers[i] = other
      local member = p:member()
      seen[member] = (seen[member] or 0) + 1
      assert.equal(seen[member] * 2 - 1, p:next())
      assert.equal(seen[member] * 2, p:next())
      assert.equal(member, p:member())
      assert.equal(("hello in orb Counter #%d"):format(member), p:label())
    end
    assert.same({ 2, 2, 2 }, seen)
    for i = 1, 6 do brokers[i]:shutdown() end
    broker:shutdown(true)
    assert.equal("closed", broker.server.state)
  end)

  it("is forwarded to from the main endpoint, for requests and for questions, also by a lasting name", function()
    local broker, ref = serve(2, { key = "counter" })
    local main = broker.server.opened[1].port
    local profile = ior.parse((ior.destring(tostring(ref)))).profiles[1]
    assert.same({ main, "counter" }, { profile.port, profile.key })
    local c <close> = giop.connect(main)
    local r = c:call("next", "counter")
    assert.equal(3, r.status)
    local there = ior.parse((ior.canonical("\1\0\0\0" .. r.body)))
    assert.equal("IDL:Counter:1.0", there.type_id)
    assert.is_false(there.profiles[1].port == main)
    assert.equal(2, c:locate("counter").status)
    local direct <close> = giop.connect(there.profiles[1].port)
    assert.equal(1, direct:locate("counter").status)
    assert.equal(1, (string.unpack("<i4", direct:call("next", there.profiles[1].key).body)))
    assert.equal("OBJECT_NOT_EXIST", (giop.system(direct:call("next", "nobody"))))
    local other, p = client(("corbaloc::127.0.0.1:%d/counter"):format(main))
    assert.is_true(p:_is_a("IDL:Counter:1.0"))
    assert.is_true(p:next() >= 1)
    assert.is_true(ref:next() >= 1)              -- in the process that serves it, too
    other:shutdown()
    broker:shutdown(true)
  end)

  it("has members that pass themselves, and objects of their own which stay theirs", function()
    local broker, ref = serve(2)
    local other, p = client(ref)
    local me = p:me()
    assert.is_true(me == p)
    local sink = p:own()
    local before = p:next()
    sink:take(100)
    sink:take(10)
    assert.equal(before + 111, p:next())
    local taken = {}
    p:call({ take = function(_, n) taken[#taken + 1] = n end }, 7)
    assert.same({ 7 }, taken)
    other:shutdown()
    broker:shutdown(true)
  end)

  it("has all its references at the host that was asked for", function()
    local broker, ref = serve(2, { point = "giop:tcp:localhost:" })
    local other, p = client(ref)
    local function host(object) return ior.parse((ior.destring(tostring(object)))).profiles[1].host end
    assert.same({ "localhost", "localhost" }, { host(ref), host(p:own()) })
    local c <close> = giop.connect(broker.server.opened[1].port, "localhost")
    local key = ior.parse((ior.destring(tostring(ref)))).profiles[1].key
    local there = ior.parse((ior.canonical("\1\0\0\0" .. c:call("next", key).body)))
    assert.equal("localhost", there.profiles[1].host)
    other:shutdown()
    broker:shutdown(true)
  end)

  it("gets another process for one that fails, which is logged; the others go on", function()
    local broker, ref, log = serve(2)
    local a, p = client(ref)
    local b, q = client(ref)
    local first, second = p:member(), q:member()
    assert.is_false(first == second)
    assert.equal(1, p:next())
    p:die()
    assert.equal(1, q:next())
    local deadline = mare.clock() + 30 * SLOW
    local again, value
    repeat                                       -- until a connection reaches the new one; the one that kills it is lost
      local c, r = client(ref)
      local ok, err = pcall(function() again, value = r:member(), r:next() end)
      assert.is_true(ok or orb.exception.is(err, "IDL:omg.org/CORBA/COMM_FAILURE:1.0"), tostring(err))
      c:shutdown()
    until again == first and value == 1 and #log > 0 or mare.clock() > deadline
    assert.same({ first, 1 }, { again, value })
    assert.matches(("process %d of 'Counter' ended: died as it was told.*another takes its place"):format(first), table.concat(log, "\n"))
    assert.is_true(p:next() >= 1)                -- its connection went with the process, it makes another
    assert.is_true(q:next() >= 2)
    a:shutdown()
    b:shutdown()
    broker:shutdown(true)
  end)

  it("ends gracefully: calls in progress have their replies", function()
    local broker, ref = serve(2)
    local brokers, calls = {}, {}
    for i = 1, 4 do
      local other, p = client(ref)
      brokers[i] = other
      p:next()
      for k = 1, 3 do calls[#calls + 1] = p._async:wait(100 + k) end
    end
    local before, begun = mare.process.count(), mare.channel.named("orb_pool_spec.begun", math.huge)
    for _ = 1, 6 do assert.is_number(begun:receive(20 * SLOW)) end       -- those that have not begun get TRANSIENT
    broker:shutdown(true)
    local replies = 0
    for _, call in ipairs(calls) do
      local ok, ms = call:wait(20 * SLOW)
      if ok then
        assert.is_true(ms > 100)
        replies = replies + 1
      else
        assert.same({ "IDL:omg.org/CORBA/TRANSIENT:1.0", "COMPLETED_NO" }, { ms._repid, ms.completed })
      end
    end
    assert.is_true(replies >= 6)
    begun:close()
    while mare.process.count() > before - 2 do mare.sleep(0.002) end
    for i = 1, 4 do brokers[i]:shutdown() end
  end)

  it("ends within a time when that is asked, and when it is deactivated", function()
    local broker, ref = serve(2, { key = "short" })
    local other, p = client(ref)
    local call = p._async:wait(60000)
    p:next()
    local start = mare.clock()
    broker:shutdown(0.1)
    assert.is_true(mare.clock() - start < 30 * SLOW)
    assert.is_false((call:wait(20 * SLOW)))
    other:shutdown()
    broker, ref = serve(2, { key = "gone" })
    other, p = client(ref)
    assert.equal(1, p:next())
    assert.is_true(broker:deactivate("gone"))
    assert.equal(0, broker:objects())
    local c <close> = giop.connect(broker.server.opened[1].port)
    assert.equal("OBJECT_NOT_EXIST", (giop.system(c:call("next", "gone"))))
    other:shutdown()
    broker:shutdown(true)
  end)

  it("that can't start is an error that tells why, and leaves nothing", function()
    local before = mare.process.count()
    local broker = orb.init { host = "127.0.0.1", log = function() end }
    broker:load(IDL)
    local ok, err = pcall(broker.serve, broker, function(_, index) if index == 2 then error("no such disk", 0) end return {} end, "Counter",
      { processes = 3 })
    assert.is_false(ok)
    assert.matches("no such disk", tostring(err))
    assert.equal(0, broker:objects())
    for _, bad in ipairs { 0, 257, 1.5, "two" } do
      ok, err = pcall(broker.serve, broker, factory, "Counter", { processes = bad })
      assert.is_false(ok)
      assert.matches("'processes' is a number from 1 to 256", tostring(err))
    end
    ok, err = pcall(broker.serve, broker, {}, "Counter", { processes = 2 })
    assert.is_false(ok)
    assert.matches("a function that makes a servant", tostring(err))
    broker:shutdown(true)
    while mare.process.count() > before do mare.sleep(0.002) end
  end)

  it("serves on several cores at once, from plain Lua as well", function()
    local script = ([[
      local orb = require "mare.orb"
      local broker = orb.init { host = "127.0.0.1" }
      broker:load(%q)
      local ref = broker:serve(function(_, index) return { member = function() return index end, next = function() return 1 end } end,
        "Counter", { processes = 2 })
      local other = orb.init()
      other:load(%q)
      print(other:proxy(tostring(ref)):member())
      other:shutdown()
      broker:shutdown(true)
      print "over"
    ]]):format(IDL, IDL)
    for _, run in ipairs(proc.config == "plain" and { proc.mare, proc.lua } or { proc.mare }) do
      local r = run(script)
      assert.equal("", r.err)
      assert.matches("^[12]\nover\n$", r.out)
      assert.equal(0, r.code)
    end
  end)
end)
