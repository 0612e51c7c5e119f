-- Time limits, cancellation and futures of calls; the server does what the test says: spec/support/peer.lua.
-- luacheck: ignore 211/broker   (they are kept to be closed)
local mare = require "mare"
local orb = require "mare.orb"
local calling = require "spec.support.calling"
local peer = require "spec.support.peer"
local proc = require "spec.support.proc"
local fiber, channel = mare.fiber, mare.channel
local LIMIT = peer.LIMIT

local IDL = "interface Echo { string say(in string who); long add(in long a, in long b); sequence<octet> bytes(in sequence<octet> data); };"

local pack = table.pack

local function client(options) return calling.broker(IDL, options) end
local function echo_of(ref, options) return calling.proxy(IDL, "Echo", ref, options) end

local function what(e) return ("%s %s"):format(orb.exception.is_system(e) or tostring(e), e.completed) end

local function raised(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  return what(e)
end

-- Calls f with a time limit for calls that are never answered. When the limit was over before the request had been written, which f tells by giving
-- false, it is called again with a longer one.
local function once_written(f)
  local soon = 0.1
  repeat
    local fine = f(soon) ~= false
    soon = soon * 4
  until fine or soon > 60
  assert.is_true(soon <= 60, "no request is written in a minute")
end

local UNWRITTEN, MAYBE = "TIMEOUT COMPLETED_NO", "TIMEOUT COMPLETED_MAYBE"

-- A server whose first request stays without an answer until the gate opens; it gives the types and ids of what came.
local function slow(log, gate)
  return function(c)
    local first
    for m in function() return c:message() end do
      log[#log + 1] = m.type .. " " .. tostring(m.id)
      if m.type == "Request" then
        if not first then first = m else c:reply(m, m.body) end
      elseif m.type == "CancelRequest" and gate then
        gate:send(true)
        c:reply(first, first.body)                     -- too late
      end
    end
  end
end

describe("a time limit", function()
  it("is TIMEOUT COMPLETED_MAYBE with a CancelRequest, and the late reply is nobody's", function() once_written(function(soon)
    local log, gate = {}, channel.new(1)
    local server <close> = peer.serve(slow(log, gate))
    local broker <close>, hello = echo_of(server.ref)
    local said = raised(function() hello:_with { timeout = soon }:say("x") end)
    if said == UNWRITTEN then return false end
    assert.equal(MAYBE, said)
    gate:receive()
    for i = 1, 3 do assert.equal("y" .. i, hello:say("y" .. i)) end
    assert.same({ "Request 1", "CancelRequest 1", "Request 2", "Request 3", "Request 4" }, log)
    assert.equal(1, server.accepted)
    local link = calling.link(broker, server)
    assert.is_nil(next(link.abandoned))
  end) end)

  it("of the broker holds for every call, -ORBclientCallTimeOutPeriod in milliseconds, and _with changes it", function() once_written(function(soon)
    local server <close> = peer.serve(slow({}))
    local broker <close>, hello = echo_of(server.ref, { args = { "-ORBclientCallTimeOutPeriod", ("%d"):format(soon * 1000 // 1) } })
    local said = raised(hello.say, hello, "x")
    if said == UNWRITTEN then return false end
    assert.equal(MAYBE, said)
    assert.equal("y", hello:_with { timeout = 0 }:say("y"))
    assert.equal("y", hello:_with { timeout = LIMIT }:say("y"))
  end) end)

  it("of one call doesn't end others on the connection, whoever reads it", function() once_written(function(soon)
    local go = channel.new()
    local server <close> = peer.serve(function(c)
      local q = {}
      for i = 1, 4 do
        q[i] = c:request()
        if not q[i] then return end
      end
      go:receive()
      for i = 1, 4 do c:reply(q[i], q[i].body) end
      peer.echo(c)
    end)
    local broker <close>, hello = echo_of(server.ref)
    local hasty = hello:_with { timeout = soon }
    local list = { hasty._async:say("1"), hello._async:say("2"), hasty._async:say("3"), hello._async:say("4") }
    for _, i in ipairs { 1, 3 } do
      local ok, e = list[i]:wait()
      assert.is_false(ok)
      if what(e) == UNWRITTEN then
        go:close()
        for k = 1, 4 do list[k]:cancel() end
        return false
      end
      assert.equal(MAYBE, what(e))
    end
    go:close()
    assert.same(pack(true, "2"), pack(list[2]:wait(LIMIT)))
    assert.same(pack(true, "4"), pack(list[4]:wait(LIMIT)))
    assert.equal("5", hello:say("5"))
    assert.equal(1, server.accepted)
  end) end)

  it("holds for a request that can't be written, and nothing more goes over that connection", function()
    local gate = channel.new()
    local server <close> = peer.serve(function(c, n)
      if n == 1 then gate:receive() else peer.echo(c) end
    end)
    local broker <close>, hello = echo_of(server.ref)
    assert.equal("TIMEOUT COMPLETED_NO", raised(function() hello:_with { timeout = 0.05 }:bytes(("x"):rep(32 << 20)) end))
    assert.equal("y", hello:say("y"))
    assert.equal(2, server.accepted)
    gate:close()
  end)

  it("is checked", function()
    local server <close> = peer.serve(peer.echo)
    local broker <close>, hello = echo_of(server.ref)
    assert.error_matches(function() hello:_with { timeout = -1 } end, "timeout is a number of seconds")
    assert.error_matches(function() hello:_with { timout = 1 } end, "_with has no option 'timout'; did you mean 'timeout'%?")
    assert.error_matches(function() hello:_with(1) end, "_with takes a table")
  end)
end)

describe("a cancelled fiber", function()
  it("that reads the connection leaves it to the next one", function()
    local go, there, cancelled = channel.new(), channel.new(3), {}
    local server <close> = peer.serve(function(c)
      local q = {}
      for i = 1, 3 do
        q[i] = c:request()
        there:send(i)
      end
      go:receive()
      for i = 1, 2 do cancelled[i] = c:message() end
      for i = 1, 3 do c:reply(q[i], q[i].body) end
      peer.echo(c)
    end)
    local broker <close>, hello = echo_of(server.ref)
    local list = { hello._async:say("1"), hello._async:say("2"), hello._async:say("3") }
    for _ = 1, 3 do there:receive() end
    assert.is_true(list[1]:cancel())                    -- the leader
    assert.is_false((list[1]:wait(LIMIT)))
    assert.is_true(list[2]:cancel())                    -- the new one, or a follower
    assert.is_false((list[2]:wait(LIMIT)))
    go:close()
    assert.same(pack(true, "3"), pack(list[3]:wait(LIMIT)))
    assert.equal("4", hello:say("4"))
    assert.equal(1, server.accepted)
    for i = 1, 2 do assert.same({ "CancelRequest", i }, { cancelled[i].type, cancelled[i].id }) end
    local link = calling.link(broker, server)
    assert.is_false(link.leader)
    assert.equal(0, link.count)
  end)

  it("that has written half a request ends the connection, and others know", function()
    local gate, there = channel.new(), channel.new(1)
    local server <close> = peer.serve(function(c, n)
      if n > 1 then return peer.echo(c) end
      c:request()
      there:send(true)
      gate:receive()
    end)
    local broker <close>, hello = echo_of(server.ref)
    local waits = hello._async:say("x")
    there:receive()
    local writes = hello._async:bytes(("x"):rep(32 << 20))
    writes:cancel()
    assert.is_false((writes:wait(LIMIT)))
    local ok, e = waits:wait(LIMIT)
    assert.is_false(ok)
    assert.equal("COMM_FAILURE COMPLETED_MAYBE", what(e))
    assert.equal("y", hello:say("y"))
    gate:close()
  end)
end)

describe("cancelled requests", function()
  it("are remembered no longer than it can matter", function() once_written(function(soon)
    local server <close> = peer.serve(function(c)
      for m in function() return c:message() end do
        if m.type == "Request" and not peer.text(m.body):find("never") then c:reply(m, m.body) end
      end
    end)
    local broker <close>, hello = echo_of(server.ref)
    assert.equal("x", hello:say("x"))
    local link = calling.link(broker, server)
    link.nabandoned = 9999                             -- as if so many had been
    for _ = 1, 3 do
      local said = raised(function() hello:_with { timeout = soon }:say("never") end)
      if said == UNWRITTEN then return false end
      assert.equal(MAYBE, said)
    end
    assert.equal(2, link.nabandoned)
    assert.same({ [3] = true, [4] = true }, link.abandoned)
    assert.equal("y", hello:say("y"))
  end) end)
end)

describe("a future", function()
  it("gives the results, or the exception, or nothing yet", function()
    local gate = channel.new()
    local server <close> = peer.serve(function(c)
      local q = c:request()
      gate:receive()
      c:reply(q, q.body)
      q = c:request()
      c:reply(q, peer.system("NO_PERMISSION", 7, 1), 2)
      peer.echo(c)
    end)
    local broker <close>, hello = echo_of(server.ref)
    local f = hello._async:say("x")
    assert.same(pack(nil, "timeout"), pack(f:wait(0.01)))
    gate:close()
    assert.same(pack(true, "x"), pack(f:wait(LIMIT)))
    local g = hello._async:say("y")
    local ok, e = g:wait(LIMIT)
    assert.is_false(ok)
    assert.matches("^CORBA::NO_PERMISSION %(minor 0x7, COMPLETED_NO%): Echo::say at 127.0.0.1:%d+$", tostring(e))
  end)

  it("whose failure nobody has seen is told by what the exception says", function()
    local r = proc.mare(([[
      local broker = require "mare.orb".init()
      broker:load %q
      broker:proxy("corbaloc:iiop:1.2@127.0.0.1:%d/key", "Echo")._async:say("x")
    ]]):format(IDL, peer.nobody()))
    assert.matches("^mare: fiber #%d+ of the main process failed: CORBA::TRANSIENT %(OMG minor 2: no address of the reference answers", r.err)
    assert.equal(0, r.code)
  end)

  it("can be selected, and requests go out at once and in order", function()
    local seen = {}
    local server <close> = peer.serve(function(c)
      for q in function() return c:request() end do
        seen[#seen + 1] = peer.text(q.body)
        if #seen == 3 then c:reply(q, q.body) end
      end
    end)
    local broker <close>, hello = echo_of(server.ref)
    local f = { hello._async:say("a"), hello._async:say("b"), hello._async:say("c") }
    assert.same(pack(3, true, "c"), pack(mare.select { f[1], f[2], f[3], timeout = LIMIT }))
    assert.same({ "a", "b", "c" }, seen)
    f[1]:cancel() f[2]:cancel()
    f[1]:wait(LIMIT) f[2]:wait(LIMIT)
  end)
end)

describe("closing a broker", function()
  it("ends calls in progress with COMM_FAILURE, later ones with BAD_INV_ORDER", function()
    local there = channel.new(1)
    local server <close> = peer.serve(function(c)
      c:request()
      there:send(true)
      c:request()
    end)
    local broker = client()
    local hello = broker:proxy(server.ref, "Echo")
    local f = fiber.spawn(hello.say, hello, "x")
    there:receive()
    broker:close()
    local ok, e = f:wait(LIMIT)
    assert.is_false(ok)
    assert.equal("COMM_FAILURE COMPLETED_MAYBE", what(e))
    assert.equal("BAD_INV_ORDER COMPLETED_NO", raised(hello.say, hello, "x"))
    assert.equal("broker (closed)", tostring(broker))
    broker:close()
  end)
end)
