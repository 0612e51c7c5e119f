-- Connections that nobody uses: they are closed after a time, never under a call, and keep no process alive.
-- luacheck: ignore 211/broker   (they are kept to be closed)
local mare = require "mare"
local options = require "mare.orb.options"
local calling = require "spec.support.calling"
local peer = require "spec.support.peer"
local proc = require "spec.support.proc"
local subprocess = require "mare.subprocess"
local temporary = require "spec.support.temporary"
local fiber, channel = mare.fiber, mare.channel
local LIMIT = peer.LIMIT

local IDL = "interface Echo { string say(in string who); oneway void keep(in sequence<octet> data); };"

local function client(ref, unused) return calling.proxy(IDL, "Echo", ref, { limits = { unused = unused } }) end

-- Answers, and tells how its connections end.
local function echo(ends)
  return function(c)
    local q, _, code
    repeat
      q, _, code = c:request()
      if q then c:reply(q, q.body) end
    until not q
    ends:send(code .. " " .. #c.others)
    c:close()
  end
end

describe("a connection that nobody uses", function()
  it("is closed, without a word, and made again for the next call", function()
    local ends = channel.new(9)
    local server <close> = peer.serve(echo(ends))
    local broker <close>, hello = client(server.ref, 0.05)
    for n = 1, 3 do
      assert.equal("x", hello:say("x"))
      assert.equal("EOF 0", ends:receive(LIMIT))
      assert.is_nil(next(broker.transport.links))
      assert.equal(n, server.accepted)
    end
  end)

  it("is one of several: each has its own time", function()
    local unused = 0.25
    local longest
    repeat                                           -- until nothing has kept us that long between two calls
      unused, longest = unused * 2, 0
      local ends, other_ends = channel.new(9), channel.new(9)
      local server <close> = peer.serve(echo(ends))
      local other <close> = peer.serve(echo(other_ends))
      local broker <close>, hello = client(server.ref, unused)
      local used = broker:proxy(other.ref, "Echo")
      assert.equal("x", hello:say("x"))
      local last
      while not ends:try_receive() do
        assert.equal("y", used:say("y"))
        local now = mare.clock()
        last, longest = now, math.max(longest, now - (last or now))
        mare.sleep(0.01)
      end
      local once = other.accepted == 1
      assert.equal("EOF 0", other_ends:receive(LIMIT))
      if longest < unused / 2 then assert.is_true(once, "it was closed though it was used") end
    until longest < unused / 2
  end)

  it("is not one on which a call waits for its reply", function()
    local gate = channel.new()
    local server <close> = peer.serve(function(c)
      local q = c:request()
      gate:receive()
      c:reply(q, q.body)
      peer.echo(c)
    end)
    local broker <close>, hello = client(server.ref, 0.02)
    local list = { hello._async:say("1"), hello._async:say("2") }
    mare.sleep(0.1)
    gate:close()
    for i = 1, 2 do assert.same({ true, tostring(i) }, { list[i]:wait(LIMIT) }) end
    assert.equal(1, server.accepted)
  end)

  it("is not one on which a request is being written", function()
    local gate, got = channel.new(), channel.new(1)
    local server <close> = peer.serve(function(c)
      gate:receive()
      got:send(#assert(c:request()).body)
      peer.echo(c)
    end)
    local broker <close>, hello = client(server.ref, 0.02)
    local keeps = hello._async:keep(("x"):rep(32 << 20))
    mare.sleep(0.1)
    gate:close()
    assert.is_true(got:receive(LIMIT) >= 32 << 20)
    assert.is_true((keeps:wait(LIMIT)))
    assert.equal(1, server.accepted)
  end)

  it("is closed under no call that begins at that moment", function()
    local server <close> = peer.serve(peer.echo)
    local broker <close>, hello = client(server.ref, 0.002)
    local list, limit = {}, mare.clock() + 2
    for i = 1, 8 do
      list[i] = fiber.spawn(function()
        local n = 0
        repeat                                       -- until one was closed indeed, which a loaded machine puts off
          n = n + 1
          local text = i .. ":" .. n
          assert(hello:say(text) == text)
          mare.sleep(0.001 * ((i * n) % 5))
        until n >= 60 and (server.accepted > 1 or mare.clock() > limit)
        return i
      end)
    end
    for i = 1, 8 do assert.same({ true, i }, { list[i]:wait() }) end
    while next(broker.transport.links) do mare.sleep(0.001) end
    assert.equal("x", hello:say("x"))
    assert.is_true(server.accepted > 1)
  end)

  it("keeps no process alive, and the broker's end leaves nothing", function()
    local server <close> = peer.serve(peer.echo)
    local before = fiber.count()
    local broker, hello = client(server.ref, 3600)
    assert.equal("x", hello:say("x"))
    broker:close()
    fiber.yield()
    assert.is_true(fiber.count() <= before + 1)          -- the server's connection
    local script = ([[
      local broker = require "mare.orb".init()
      broker:load %q
      print(broker:proxy(%q, "Echo"):say("over"))
    ]]):format(IDL, server.ref)
    local path = temporary()
    local file = assert(io.open(path, "w"))
    file:write(script)
    file:close()
    local r = assert(subprocess.run { proc.bin, "run", path, timeout = math.min(LIMIT, 100), stderr = "pipe" })
    os.remove(path)
    assert.same({ "over\n", 0 }, { r.out, r.code }, r.err)
  end)
end)

describe("-ORBoutConScanPeriod", function()
  it("is the time in seconds: 120, 0 for ever; limits.unused counts more", function()
    assert.equal(120, options.read({}).unused)
    assert.equal(7, options.read { args = { "-ORBoutConScanPeriod", "7" } }.unused)
    assert.is_nil(options.read { args = { "-ORBoutConScanPeriod", "0" } }.unused)
    assert.equal(0.5, options.read { ORBoutConScanPeriod = 9, limits = { unused = 0.5 } }.unused)
    assert.is_nil(options.read { limits = { unused = false } }.unused)
    assert.error_matches(function() options.read { args = { "-ORBoutConScanPeriod", "soon" } } end, "takes a number from 0 on")
  end)
end)
