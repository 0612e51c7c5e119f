-- Calls and servers under control: deadlines, cancelled and killed fibers and processes. The client's server is a script: spec/support/peer.lua.
-- luacheck: ignore 211/broker   (they are kept to be closed)
-- time limit: 240 s
local mare = require "mare"
local orb = require "mare.orb"
local net = require "mare.net"
local errors = require "mare.error"
local calling = require "spec.support.calling"
local peer = require "spec.support.peer"
local proc = require "spec.support.proc"
local serving = require "spec.support.serving"
local fiber, channel, process = mare.fiber, mare.channel, mare.process
local LIMIT = peer.LIMIT
local SOON = 0.3 * proc.slow         -- seconds in which a call has surely been written

local IDL = "interface Echo { string say(in string who); sequence<octet> bytes(in sequence<octet> data); };"
local LARGE = 32 << 20               -- more than a socket takes when nobody reads

local pack = table.pack

local function echo_of(ref, options) return calling.proxy(IDL, "Echo", ref, options) end

-- A call in a fiber of its own, in a deadline.
local function within(seconds, f, ...) return fiber.spawn(process.deadline, seconds, f, ...) end

local function kind(ok, e)
  assert.is_false(ok)
  return errors.is(e) and e.kind or orb.exception.is_system(e) and ("%s %s"):format(orb.exception.is_system(e), e.completed) or tostring(e)
end

-- Nobody waits for anything on the connection.
local function idle(broker, server)
  local link = calling.link(broker, server)
  assert.same({ 0, false, nil }, { link.count, link.leader, next(link.waiting) })
end

-- A server that reads n requests, says so, and answers them and all that follows when the gate opens.
local function late(n, there, gate, others)
  return function(c)
    local q = {}
    for i = 1, n do
      q[i] = c:request()
      there:send(i)
    end
    gate:receive()
    for i = 1, n do c:reply(q[i], q[i].body) end
    peer.echo(c)
    for _, m in ipairs(others and c.others or {}) do others[#others + 1] = m.type .. " " .. m.id end
  end
end

describe("a deadline", function()
  it("ends a call by its own error, tells the server, and leaves the connection to others", function()
    local there, gate, others = channel.new(9), channel.new(), {}
    do
      local server <close> = peer.serve(late(1, there, gate, others))
      local broker <close>, hello = echo_of(server.ref)
      assert.equal("deadline", kind(pcall(process.deadline, SOON, hello.say, hello, "x")))
      gate:close()
      for i = 1, 3 do assert.equal("y" .. i, hello:say("y" .. i)) end
      assert.equal(1, server.accepted)
      idle(broker, server)
      assert.is_nil(next(calling.link(broker, server).abandoned))
    end
    assert.same({ "CancelRequest 1" }, others)
  end)

  it("and a call's own time limit: the earlier one counts, each with its own error", function()
    local server <close> = peer.serve(function(c) while c:message() do end end)
    local broker <close>, hello = echo_of(server.ref)
    local function call(limit, seconds)
      return kind(pcall(process.deadline, seconds, function() return hello:_with { timeout = limit }:say("x") end))
    end
    assert.equal("TIMEOUT COMPLETED_MAYBE", call(SOON, LIMIT))
    assert.equal("deadline", call(LIMIT, SOON))
    assert.equal("deadline", kind(pcall(process.deadline, LIMIT, process.deadline, SOON, hello.say, hello, "x")))
  end)

  it("of who reads for others, or waits for who reads, is no limit of theirs", function()
    local there, gate = channel.new(9), channel.new()
    local server <close> = peer.serve(late(4, there, gate))
    local broker <close>, hello = echo_of(server.ref)
    local list = { within(SOON, hello.say, hello, "1") }
    there:receive()
    for i = 2, 4 do list[i] = i == 3 and within(SOON, hello.say, hello, "3") or hello._async:say(tostring(i)) end
    for _ = 2, 4 do there:receive() end
    for _, i in ipairs { 1, 3 } do assert.equal("deadline", kind(list[i]:wait(LIMIT))) end
    gate:close()
    for _, i in ipairs { 2, 4 } do assert.same(pack(true, tostring(i)), pack(list[i]:wait(LIMIT))) end
    assert.equal("5", hello:say("5"))
    assert.equal(1, server.accepted)
    idle(broker, server)
  end)

  it("in the middle of a request costs those who have asked nothing, and who waits for his turn writes elsewhere", function()
    local there, gate = channel.new(9), channel.new()
    local server <close> = peer.serve(function(c, n)
      if n > 1 then return peer.echo(c) end
      local q = c:request()
      there:send(true)
      gate:receive()
      c:reply(q, q.body)
      while c.socket:read(1 << 16, 0.5) do end
    end)
    local broker <close>, hello = echo_of(server.ref)
    local first = hello._async:say("first")
    there:receive()
    local writes = within(SOON, hello.bytes, hello, ("x"):rep(LARGE))
    fiber.yield()
    local queued = hello._async:say("queued")
    assert.equal("deadline", kind(writes:wait(LIMIT)))
    gate:close()
    assert.same(pack(true, "first"), pack(first:wait(LIMIT)))
    assert.same(pack(true, "queued"), pack(queued:wait(LIMIT)))
    assert.equal(2, server.accepted)
  end)

  it("of who waits for his turn to write disturbs nobody", function()
    local there, gate = channel.new(9), channel.new()
    local server <close> = peer.serve(late(1, there, gate))
    local broker <close>, hello = echo_of(server.ref)
    local first = hello._async:say("first")
    there:receive()
    local data = ("x"):rep(LARGE)
    local writes = hello._async:bytes(data)
    assert.equal("deadline", kind(pcall(process.deadline, SOON, hello.say, hello, "queued")))
    gate:close()
    assert.same(pack(true, "first"), pack(first:wait(LIMIT)))
    local ok, got = writes:wait(LIMIT)
    assert.is_true(ok and got == data)
    assert.equal(1, server.accepted)
    idle(broker, server)
  end)

  it("of who connects is none of who waits for that connection", function()
    local server <close> = peer.serve(peer.echo)
    local broker <close>, hello = echo_of(server.ref)
    local connect, n = net.connect, 0
    local back <close> = setmetatable({}, { __close = function() net.connect = connect end })   -- luacheck: ignore
    function net.connect(...)                                                                   -- luacheck: ignore
      n = n + 1
      if n == 1 then mare.sleep(math.huge) end
      return connect(...)
    end
    local connects = within(SOON, hello.say, hello, "1")
    fiber.yield()
    local waits = hello._async:say("2")
    assert.equal("deadline", kind(connects:wait(LIMIT)))
    assert.same(pack(true, "2"), pack(waits:wait(LIMIT)))
    assert.equal("3", process.deadline(LIMIT, hello.say, hello, "3"))
    assert.equal(1, server.accepted)
    assert.is_nil(next(broker.transport.attempts))
  end)

  it("ends a call also while replies that are nobody's keep coming", function()
    local server <close> = peer.serve(function(c)
      c:request()
      local n = 1000
      while c:reply(n, "") do n = n + 1 end
    end)
    local broker, hello = echo_of(server.ref)
    assert.equal("deadline", kind(pcall(process.deadline, SOON, hello.say, hello, "x")))
    broker:close()
  end)

  it("does not reach a call that is masked, nor one that is done", function()
    local server <close> = peer.serve(peer.echo)
    local broker <close>, hello = echo_of(server.ref)
    assert.equal("deadline", kind(pcall(process.deadline, 0, hello.say, hello, "x")))
    assert.equal("y", process.deadline(0, process.masked, LIMIT, hello.say, hello, "y"))
    assert.equal("z", process.deadline(LIMIT, hello.say, hello, "z"))
    assert.is_nil(process.remaining())
    local function call() return (hello:say("x")) end
    assert.matches("^[^\n]*orb_control_spec.lua:%d+$", select(2, pcall(process.deadline, 0, call)).where)
    idle(broker, server)
  end)

  it("of a call into this process is the servant's", function()
    serving.with({ say = function(_, who) mare.sleep(math.huge) return who end }, nil, function(broker, port)
      local here = broker:proxy(("corbaloc::127.0.0.1:%d/echo"):format(port), "Spec::Echo")
      assert.equal("deadline", kind(pcall(process.deadline, 0.01, here.say, here, "x")))
    end)
  end)

  it("that a servant let pass is TIMEOUT for its client, and the server serves on", function()
    local servant = { say = function(_, who)
      return process.deadline(who == "late" and 0.01 or 1000, function()
        if who == "late" then mare.sleep(math.huge) end
        return who
      end)
    end }
    serving.with(servant, nil, function(_, port, log)
      local broker <close>, hello = calling.proxy(serving.IDL, "Spec::Echo", ("corbaloc::127.0.0.1:%d/echo"):format(port))
      assert.equal("TIMEOUT COMPLETED_MAYBE", kind(pcall(hello.say, hello, "late")))
      assert.equal("soon", hello:say("soon"))
      assert.matches("deadline", table.concat(log, "\n"))
    end)
  end)
end)

describe("a cancelled fiber", function()
  it("may make calls in its clean-up when it is masked there", function()
    local there, gate = channel.new(9), channel.new()
    local server <close> = peer.serve(late(1, there, gate))
    local p = process.spawn(function(ref)                      -- in plain Lua's main script the server could not run meanwhile
      local calling = require "spec.support.calling"           -- luacheck: ignore
      local mare = require "mare"                              -- luacheck: ignore
      local broker, hello = calling.proxy(IDL, "Echo", ref)
      local masked
      local f = mare.fiber.spawn(function()
        local guard <close> = setmetatable({}, { __close = function()
          pcall(hello.say, hello, "unmasked")
          masked = mare.process.masked(LIMIT, hello.say, hello, "masked")
        end })
        pcall(hello.say, hello, "x")
        return guard, mare.sleep(LIMIT)
      end)
      there:receive()
      f:cancel("enough")
      gate:close()
      local ok, e = f:wait(LIMIT)
      local link = broker.transport.links[next(broker.transport.links)]
      return ok, e, masked, hello:say("after"), link.count, link.leader, next(link.waiting)
    end, server.ref)
    local r = pack(p:wait(LIMIT))
    assert.equal("cancelled", kind(r[2], r[3]))
    assert.equal("enough", r[3].reason)
    assert.same(pack(true, "masked", "after", 0, false, nil), pack(r[1], table.unpack(r, 4, r.n)))
    assert.equal(1, server.accepted)
  end)
end)

-- A process of a client with some calls that are not answered yet; `tell` gets what its on_exit has to say.
local function busy_client(ref, tell)
  return process.spawn(function()
    local calling = require "spec.support.calling"             -- luacheck: ignore
    local mare = require "mare"                                -- luacheck: ignore
    local broker, hello = calling.proxy(IDL, "Echo", ref)
    mare.process.on_exit(function()
      tell:send(pcall(hello.say, hello, "good-bye"))
      broker:close()
    end)
    for i = 1, 5 do
      mare.fiber.spawn(function() while true do pcall(hello.say, hello, tostring(i)) end end)
    end
    hello:say("main")
  end)
end

describe("a process of a client", function()
  it("that is cancelled ends all its calls, and can say good-bye", function()
    local there, gate, tell = channel.new(9), channel.new(), channel.new(1)
    local server <close> = peer.serve(late(6, there, gate))
    local p = busy_client(server.ref, tell)
    for _ = 1, 6 do there:receive() end
    p:cancel("no more")
    gate:close()
    local ok, e = p:wait(LIMIT)
    assert.equal("cancelled", kind(ok, e))
    assert.equal("no more", e.reason)
    assert.same(pack(true, "good-bye"), pack(tell:receive(LIMIT)))
    assert.equal(1, server.accepted)
  end)

  it("that is killed is gone, its connection closed", function()
    local there, gate, tell, over = channel.new(9), channel.new(), channel.new(1), channel.new(1)
    local server <close> = peer.serve(function(c)
      late(6, there, gate)(c)
      over:send(true)
    end)
    local p = busy_client(server.ref, tell)
    for _ = 1, 6 do there:receive() end
    p:kill()
    assert.equal("killed", kind(p:wait(LIMIT)))
    gate:close()
    assert.is_true(over:receive(LIMIT))
    assert.is_nil((tell:try_receive()))
  end)
end)

-- A server in a process of its own; its servant waits when it is told to, and will not be stopped when it is told "deaf".
local function serve(where, begun)
  return process.spawn(function()
    local mare = require "mare"                                -- luacheck: ignore
    local broker = require "mare.orb".init { host = "127.0.0.1", log = function() end }
    broker:load(IDL)
    local ref = broker:serve({ say = function(_, who)
      begun:send(who)
      if who == "deaf" then while true do pcall(mare.sleep, 1000) end end
      if who == "busy" then while true do end end
      if who ~= "soon" then mare.sleep(math.huge) end
      return who
    end }, "Echo")
    where:send(tostring(ref))
    broker:run()
  end)
end

local ENDS = {
  cancelled = { function(p) return p:cancel() end, { "wait", "deaf", "wait" } },
  killed = { function(p) return p:kill() end, { "wait", "deaf", "wait" } },
  ["cancelled while it computes"] = { function(p) return p:cancel() end, { "wait", "busy" } },
  ["killed while it computes"] = { function(p) return p:kill() end, { "wait", "busy" } },
}

describe("a process of a server", function()
  for name, how in pairs(ENDS) do
    it("that is " .. name .. " is to its clients as one that has crashed", function()
      local where, begun = channel.new(1), channel.new(9)
      local p = serve(where, begun)
      local ref = where:receive()
      local broker <close>, hello = echo_of(ref)
      assert.equal("soon", hello:say("soon"))
      assert.equal("soon", begun:receive())
      local calls = {}
      for i, text in ipairs(how[2]) do
        calls[i] = hello._async:say(text)
        assert.equal(text, begun:receive(LIMIT))
      end
      how[1](p)
      assert.equal(name:match "^%a+", kind(p:wait(LIMIT)))
      for i = 1, #calls do assert.equal("COMM_FAILURE COMPLETED_MAYBE", kind(calls[i]:wait(LIMIT))) end
      assert.equal("TRANSIENT COMPLETED_NO", kind(pcall(hello.say, hello, "soon")))
    end)
  end
end)

local function pool(n, begun)
  local broker = orb.init { host = "127.0.0.1", log = function() end }
  broker:load(IDL)
  local ref = broker:serve(function(_, index)
    return { say = function(_, who)
      if who == "wait" then
        begun:send(index)
        require "mare".sleep(math.huge)
      end
      return tostring(index)
    end }
  end, "Echo", { key = "pool", processes = n })
  return broker, tostring(ref)
end

describe("an object in several processes", function()
  for name, stop in pairs { killed = "kill", cancelled = "cancel" } do
    it("serves on when one of them is " .. name .. " in the middle of a request", function()
      local begun = channel.new(9)
      local server, ref = pool(2, begun)
      local group = server.server.adapter.objects.pool.group
      local clients, calls = {}, {}
      for i = 1, 2 do
        local broker, hello = echo_of(ref)
        clients[i] = broker
        calls[i] = { hello = hello, call = hello._async:say("wait") }
        calls[i].index = begun:receive(LIMIT)
      end
      assert.are_not.equal(calls[1].index, calls[2].index)
      local before = group[calls[1].index].process
      before[stop](before)
      assert.equal("COMM_FAILURE COMPLETED_MAYBE", kind(calls[1].call:wait(LIMIT)))
      assert.equal(tostring(calls[2].index), calls[2].hello:say("soon"))
      serving.eventually(function() return group[calls[1].index].process ~= before end, "another process")
      local again = {}
      for i = 1, 4 do                                           -- connections go to each in turn
        local broker, hello = echo_of(ref)
        clients[#clients + 1] = broker
        again[hello:say("soon")] = i
      end
      assert.is_truthy(again["1"] and again["2"])
      calls[2].call:cancel()
      calls[2].call:wait(LIMIT)                                 -- its server is told
      for _, broker in ipairs(clients) do broker:close() end
      server:shutdown(LIMIT)
    end)

    it("ends when the process to which they belong is " .. name, function()
      local where, begun = channel.new(1), channel.new(9)
      local p = process.spawn(function()
        local broker, ref = pool(2, begun)
        where:send(ref)
        broker:run()
      end)
      local broker <close>, hello = echo_of(where:receive())
      assert.matches("^%d$", hello:say("soon"))
      local count = process.count()
      p[stop](p)
      assert.equal(name, kind(p:wait(LIMIT)))
      serving.eventually(function() return process.count() <= count - 3 end, "the end of its members")
      serving.eventually(function()                             -- a first call may find that its connection was lost
        return kind(pcall(hello.say, hello, "soon")) == "TRANSIENT COMPLETED_NO"
      end, "no answer there, nor where it was forwarded from")
    end)
  end
end)
