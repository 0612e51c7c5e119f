-- Fibers that share a connection and write long requests, while others give up in the middle of theirs: what the server reads stays GIOP,
-- and who did not give up has his own answer.
-- luacheck: ignore 211/broker   (they are kept to be closed)
local mare = require "mare"
local orb = require "mare.orb"
local calling = require "spec.support.calling"
local peer = require "spec.support.peer"
local proc = require "spec.support.proc"
local fiber, channel, process = mare.fiber, mare.channel, mare.process
local LIMIT = peer.LIMIT

local IDL = [[
  interface Store {
    sequence<octet> echo(in sequence<octet> data);
    string say(in string who);
    oneway void keep(in sequence<octet> data);
  };
]]
local LARGE = 32 << 20                               -- more than a socket takes when nobody reads

local pack = table.pack

local function client(ref) return calling.proxy(IDL, "Store", ref) end

local function what(ok, e)
  assert.is_false(ok)
  return ("%s %s"):format(orb.exception.is_system(e) or tostring(e), type(e) == "table" and e.completed or "")
end

-- A broker in a process of its own: its reference, and a function that ends it and gives what it has logged.
local function serve()
  local place, quit, logs = channel.new(1), channel.new(), channel.new(math.huge)
  local p = process.spawn(function()
    local broker = require "mare.orb".init { host = "127.0.0.1", log = function(_, text) logs:send(text) end }
    broker:load(IDL)
    local function same(_, value) return value end
    place:send(tostring(broker:serve({ echo = same, say = same, keep = same }, "Store")))
    quit:receive()
    broker:shutdown(5)
  end)
  return place:receive(), function()
    quit:close()
    assert(p:wait(LIMIT))
    local said = {}
    for text in logs.try_receive, logs do said[#said + 1] = text end
    return said
  end
end

-- Bytes that no other call has.
local function bytes(i, j, size) return (string.pack("<I4I4", i, j) .. ("."):rep(56)):rep(size // 64) end

describe("long requests on one connection", function()
  it("have their own answers while others are cancelled or out of time in the middle of theirs", function()
    local ref, ending = serve()
    local broker <close>, store = client(ref)
    local random, largest, rounds, cuts = math.random, (3 << 20) // proc.slow // proc.slow, proc.slow > 1 and 2 or 4, 2
    math.randomseed(7)
    local steady, working = {}, 12
    for i = 1, working do
      steady[i] = fiber.spawn(function()
        local leave <close> = setmetatable({}, { __close = function() working = working - 1 end })
        local j = 0
        repeat                                       -- until connections were cut off indeed
          j = j + 1
          local data = bytes(i, j, random(largest))
          local got = store:echo(data)
          if got ~= data then error(("%d:%d of %d bytes got %d bytes"):format(i, j, #data, #got), 0) end
        until j >= rounds and broker.transport.opened > cuts or j == 100 * rounds
        return leave and i
      end)
    end
    local cancelled, n = 0, 0
    while working > 0 do
      n = n + 1
      local data = bytes(1000, n, 8 << 20)             -- long enough to be in the middle of it
      if n % 4 == 0 then
        local ok, e = pcall(store.echo, store:_with { timeout = random() * 0.1 }, data)
        if not ok then
          assert.equal("TIMEOUT", orb.exception.is_system(e), tostring(e))
        end
      else
        local hasty = fiber.spawn(store.echo, store, data)
        mare.sleep(random() * 0.1)
        if hasty:cancel() then cancelled = cancelled + 1 end
        local ok, e = hasty:wait(LIMIT)
        if ok then assert.is_true(e == data) else assert.matches("cancelled", tostring(e)) end
      end
    end
    for i = 1, 12 do
      local ok, value = steady[i]:wait(LIMIT)
      if not ok then error(value, 0) end
      assert.equal(i, value)
    end
    assert.is_true(cancelled > 0)
    assert.is_true(broker.transport.opened > 1)
    assert.equal("after", store:say("after"))
    broker:close()
    assert.same({}, ending())
  end)
end)

-- A server that reads one request, says so, and does no more on its first connection before the gate opens; then it answers as `f` wants.
local function stubborn(there, gate, f)
  return function(c, n)
    if n > 1 then return peer.echo(c) end
    local q = c:request()
    there:send(true)
    gate:receive()
    return f(c, q)
  end
end

-- The reply, then what stays unread of a long request.
local function answer_and_drain(c, q)
  c:reply(q, q.body)
  while c.socket:read(1 << 16, 0.5) do end
end

-- A broker with a call whose request is out.
local function asked(server, there)
  local broker, store = client(server.ref)
  local first = store._async:say("first")
  there:receive()
  return broker, store, first
end

describe("a fiber that is cancelled", function()
  it("while it waits for its turn to write disturbs nobody", function()
    local gate, there = channel.new(), channel.new(1)
    local server <close> = peer.serve(stubborn(there, gate, function(c, q)
      c:reply(q, q.body)
      peer.echo(c)
    end))
    local broker <close>, store, first = asked(server, there)
    local data = bytes(1, 1, LARGE)
    local writes, queued = store._async:echo(data), store._async:echo(data)
    queued:cancel()
    assert.is_false((queued:wait(LIMIT)))
    gate:close()
    assert.same(pack(true, "first"), pack(first:wait(LIMIT)))
    local ok, got = writes:wait(LIMIT)
    assert.is_true(ok and got == data)
    assert.equal(1, server.accepted)
  end)

  it("in the middle of its request costs those who have asked nothing, if the server answers", function()
    local gate, there = channel.new(), channel.new(1)
    local server <close> = peer.serve(stubborn(there, gate, answer_and_drain))
    local broker <close>, store, first = asked(server, there)
    local data = bytes(1, 1, LARGE)
    local writes, queued = store._async:echo(data), store._async:say("queued")
    writes:cancel()
    assert.is_false((writes:wait(LIMIT)))
    gate:close()
    assert.same(pack(true, "first"), pack(first:wait(LIMIT)))
    assert.same(pack(true, "queued"), pack(queued:wait(LIMIT)))       -- on a new connection
    assert.equal(2, server.accepted)
  end)
end)

describe("a time limit", function()
  it("that ends in the middle of a request costs others nothing, and is no limit of theirs", function()
    local gate, there = channel.new(), channel.new(1)
    local server <close> = peer.serve(stubborn(there, gate, answer_and_drain))
    local broker <close>, store, first = asked(server, there)
    local data = bytes(1, 1, LARGE)
    local hasty = store:_with { timeout = 0.1 }._async:echo(data)
    local queued = { store._async:say("queued"), store._async:echo(data) }
    assert.equal("TIMEOUT COMPLETED_NO", what(hasty:wait(LIMIT)))
    gate:close()
    assert.same(pack(true, "first"), pack(first:wait(LIMIT)))
    assert.same(pack(true, "queued"), pack(queued[1]:wait(LIMIT)))
    local ok, got = queued[2]:wait(LIMIT)
    assert.is_true(ok and got == data, tostring(got):sub(1, 100))
    assert.equal(2, server.accepted)
  end)

  it("of one who writes is none of one who writes after him on the same connection", function()
    local gate = channel.new()
    local server <close> = peer.serve(function(c)
      local q = c:request()
      c:reply(q, q.body)
      gate:receive()
      peer.echo(c)
    end)
    local broker <close>, store = client(server.ref)
    assert.equal("a", store:_with { timeout = LIMIT }:say("a"))
    local data = bytes(1, 1, LARGE)
    local patient = store:_with { timeout = LIMIT }._async:echo(data)     -- writes as long as nobody reads
    local hasty = store:_with { timeout = 0.02 }._async:say("hasty")      -- waits for its turn
    local third = store._async:say("third")
    assert.equal("TIMEOUT COMPLETED_NO", what(hasty:wait(LIMIT)))
    local fourth = store._async:say("fourth")
    mare.sleep(0.05)
    gate:close()
    local ok, got = patient:wait(LIMIT)
    assert.is_true(ok and got == data, tostring(got):sub(1, 100))
    assert.same(pack(true, "third"), pack(third:wait(LIMIT)))
    assert.same(pack(true, "fourth"), pack(fourth:wait(LIMIT)))
    assert.equal(1, server.accepted)
  end)
end)

describe("the request that tells the code sets", function()
  it("is the first that is written, also when the one that was to be is too large, or given up before its turn", function()
    local gate, there, seen = channel.new(), channel.new(1), {}
    local server <close> = peer.serve(function(c, n)
      if n == 1 then
        there:send(true)
        gate:receive()
      end
      for q in function() return c:request() end do
        seen[#seen + 1] = ("%d %s %s"):format(n, q.operation, q.contexts and q.contexts[1] and "tells" or "does not")
        if q.response ~= 0 then c:reply(q, q.body) end
      end
    end)
    local _, full = peer.reference({ { "127.0.0.1", server.port } })
    local broker <close>, store = calling.proxy(IDL, "Store", full, { ORBgiopMaxMsgSize = LARGE + 4096 })
    local plain = broker:proxy(server.ref, "Store")                  -- a corbaloc: of no code sets
    local keeps = plain._async:keep(bytes(1, 1, LARGE))              -- writes as long as nobody reads
    there:receive()
    assert.equal("MARSHAL COMPLETED_NO", what(pcall(store.echo, store, bytes(1, 2, LARGE + 8192))))
    local first, second = store._async:say("wörld"), store._async:say("ä")
    first:cancel()
    assert.is_false((first:wait(LIMIT)))
    assert.same(pack(true, "ä"), pack(second:wait(LIMIT)))
    assert.is_true((keeps:wait(LIMIT)))                                -- sent again: it had not been written whole
    assert.equal("b", store:say("b"))
    table.sort(seen)
    assert.same({ "2 keep does not", "2 say does not", "2 say tells" }, seen)
    gate:close()
  end)
end)
