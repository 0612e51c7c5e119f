-- Ordinary calls over TLS go through the functions in C, too (src/module/orb_call.c, orb_serve.c); and what only TLS brings into them: records that
-- the kernel does not take, keys that change, ends without a goodbye.
local mare = require "mare"
local orb = require "mare.orb"
local subprocess = require "mare.subprocess"
local core = require "mare.orb.giop.core"
local certificates = require "spec.support.certificates"
local proc = require "spec.support.proc"
local eventually = require "spec.support.serving".eventually

local channel, fiber, process = mare.channel, mare.fiber, mare.process
local LIMIT = 30 * proc.slow
local IDL = [[
  interface Taker {
    string where(); long add(in long a, in long b); string echo(in string s); long wait(in double seconds); void hold(in double seconds);
    oneway void note(in string s);
  };
]]

local c
setup(function() c = certificates() end)
teardown(function() c.remove() end)

-- A server in a process of its own; f gets a proxy, the client's broker and the port.
local function with(f)
  local ready, over = channel.new(1), channel.new()
  local server = process.spawn(function(idl, to, stop, own)
    local sleep, clock = mare.sleep, mare.clock
    local broker = require "mare.orb".init { args = { "-ORBendPoint", "giop:ssl:127.0.0.1:" }, tls = own, log = function() end }
    broker:load(idl)
    local servant = { add = function(_, a, b) return a + b end, echo = function(_, s) return s end, where = function() return debug.traceback() end }
    function servant.note() end
    function servant.wait(_, seconds) sleep(seconds) return 1 end
    function servant.hold(_, seconds)            -- nothing is read meanwhile
      local till = clock() + seconds
      while clock() < till do end
    end
    to:send(tostring(broker:serve(servant, "Taker", { key = "taker" })), broker.server.opened[1].port)
    stop:receive()
    broker:shutdown()
  end, IDL, ready, over, { cert = c.cert, key = c.key, ca = c.ca })
  local reference, port = ready:receive()
  local client = orb.init { tls = { ca = c.ca } }
  client:load(IDL)
  local fine, why = pcall(f, client:proxy(reference, "Taker"), client, port)
  client:close()
  over:close()
  assert(server:wait())
  if not fine then error(why, 0) end
end

local function link_of(client)
  local found
  for _, link in pairs(client.transport.links) do found = link end
  return assert(found)
end

-- The Lua functions of the broker that f runs.
local function functions_of(f)
  local seen = {}
  debug.sethook(function()
    local source = debug.getinfo(2, "S").source
    if source:find "mare/orb" then seen[#seen + 1] = source end
  end, "c")
  f()
  debug.sethook()
  return seen
end

describe("an ordinary call over TLS", function()
  it("runs no Lua of the broker at its caller, and none between the reader and the servant", function()
    with(function(taker)
      for _ = 1, 5 do assert.equal(3, taker:add(1, 2)) end
      local seen = {}
      for _ = 1, 50 do                             -- a caller that was kept waiting for 50 ms looks at its link first
        seen = functions_of(function() assert.equal(7, taker:add(3, 4)) end)
        if #seen == 0 then break end
      end
      assert.same({}, seen)
      taker:where()
      local traceback = taker:where()
      assert.matches("leader", traceback)
      assert.is_nil((traceback:find("dispatch", 1, true)))
    end)
  end)

  it("carries what fits into one record, into several, and what is too long for the straight way", function()
    with(function(taker)
      for _, n in ipairs { 0, 1, 16000, 16384, 17000, 33000, 65000, 66000, 300000 } do
        local text = ("x"):rep(n - 1) .. (n > 0 and "y" or "")
        assert.equal(text, taker:echo(text))
        assert.equal(3, taker:add(1, 2))
      end
    end)
  end)

  it("waits, too, where the kernel takes all but the end of its only record", function()
    with(function(taker, client)
      taker:add(1, 1)
      assert(link_of(client).socket:option("sndbuf", 4096))
      local text, note = ("0123456789abcdef"):rep(900), ("n"):rep(1000)
      for notes = 90, 240, 3 do                    -- in some of these tries the kernel has room for a part of the record
        local busy = fiber.spawn(function() return taker:_with { timeout = LIMIT }:hold(0.02) end)
        mare.sleep(0)
        for _ = 1, notes do taker:note(note) end
        assert.equal(text, taker:_with { timeout = LIMIT }:echo(text))
        assert.is_true((busy:wait()))
      end
    end)
  end)
  it("waits where the kernel does not take its record", function()
    with(function(taker, client)
      taker:add(1, 1)
      assert(link_of(client).socket:option("sndbuf", 4096))
      local text = ("0123456789abcdef"):rep(3500)
      for _ = 1, 3 do
        local busy = fiber.spawn(function() return taker:_with { timeout = LIMIT }:hold(0.01) end)
        assert.equal(text, taker:echo(text))
        assert.is_true((busy:wait()))
        assert.equal(text, taker:echo(text))
      end
    end)
  end)

  it("may be one of many at once, of which some give up", function()
    with(function(taker)
      taker:add(1, 1)
      local quitter = fiber.spawn(function() return taker:wait(60) end)
      fiber.yield()
      local all = {}
      for i = 1, 50 do all[i] = fiber.spawn(function() return taker:add(i, 1) end) end
      fiber.yield()
      quitter:cancel()
      for i = 1, 50 do assert.same({ true, i + 1 }, { all[i]:wait() }) end
      local quick = taker:_with { timeout = 0.5 }          -- for each call: a busy machine may take some 10 ms
      local fine, e = pcall(quick.wait, quick, 60)
      assert.is_false(fine)
      assert.matches("TIMEOUT", tostring(e))
      for i = 1, 50 do assert.equal(i + 1, quick:add(i, 1)) end
    end)
  end)
end)

-- One GIOP message out of a pipe that ends no message early.
local function message_of(pipe)
  local head = assert(pipe:read(12, LIMIT))
  return head .. pipe:read((string.unpack("<I4", head, 9)), LIMIT)
end

describe("a peer with another OpenSSL", function()
  local function request(id, a, b)
    return core.request(2, true, 3, "taker", "add", nil, id, string.pack("<i4i4", a, b))
  end

  it("may change its keys between requests", function()
    with(function(_, _, port)
      local peer <close> = assert(subprocess.spawn { "openssl", "s_client", "-brief", "-tls1_3", "-CAfile", c.ca,
                                                     "-connect", "127.0.0.1:" .. port, stderr = "pipe" })
      local told = ""
      while not told:find "Verification: OK" do told = told .. assert(peer.stderr:read(nil, LIMIT)) end
      for id = 1, 12 do
        if id % 3 == 0 then
          peer.stdin:write(id % 2 == 0 and "K\n" or "k\n")   -- K: ours are to change, too
          repeat told = told .. assert(peer.stderr:read(nil, LIMIT)) until told:find "KEYUPDATE"
          told = ""
        end
        peer.stdin:write(request(id, id, 100))
        local reply = message_of(peer.stdout)
        assert.equal(id + 100, (string.unpack("<i4", reply, #reply - 3)))
      end
    end)
  end)

  it("may end without a word, before or after its handshake, while others are served", function()
    with(function(taker, _, port)
      for round = 1, 3 do
        local peer <close> = assert(subprocess.spawn { "openssl", "s_client", "-brief", "-CAfile", c.ca, "-connect", "127.0.0.1:" .. port,
                                                       stderr = "pipe" })
        local told = ""
        while not told:find "Verification: OK" do told = told .. assert(peer.stderr:read(nil, LIMIT)) end
        if round > 1 then
          peer.stdin:write(request(1, 1, 2):sub(1, round == 2 and 20 or -1))
          if round == 3 then message_of(peer.stdout) end
        end
        peer:kill "KILL"
        peer:wait()
        assert.equal(5, taker:add(2, 3))
      end
    end)
  end)
end)

describe("a server that ends TLS in the middle of a call", function()
  it("is a lost connection, said so in the error", function()
    local tls = require "mare.tls"
    local listener = assert(tls.listen("127.0.0.1:0", { cert = c.cert, key = c.key }))
    local reference = ("corbaloc:ssliop:1.2@127.0.0.1:%d/taker"):format(select(2, listener:address()))
    local serving = fiber.spawn(function()
      local conn = listener:accept()
      conn:handshake(LIMIT)
      for _ = 1, 3 do
        local message = assert(core.receive(conn, 1 << 20, LIMIT))
        local _, _, _, id = core.parse(message)
        conn:write(core.reply(2, 1, id, 0, nil, string.pack("<i4", id)))
      end
      assert(core.receive(conn, 1 << 20, LIMIT))
      conn:cut()                                   -- no goodbye is written any more
      conn:close(0)
    end)
    local client <close> = orb.init { tls = { ca = c.ca }, timeout = LIMIT }
    client:load(IDL)
    local taker = client:proxy(reference, "Taker")
    for i = 2, 3 do assert.equal(i, taker:add(1, 1)) end   -- the first one was to ask what it is
    local fine, e = pcall(taker.add, taker, 1, 1)
    assert.is_false(fine)
    assert.matches("COMM_FAILURE.*COMPLETED_MAYBE", tostring(e))
    assert.is_true((serving:wait()))
    listener:close()
    eventually(function() return next(client.transport.links) == nil end, "its link is forgotten")
  end)
end)
