-- The server's limits: on requests, connections, idle time, messages and their fragments.
local mare = require "mare"
local orb = require "mare.orb"
local giop = require "spec.support.iiop"
local serving = require "spec.support.serving"
local channel = mare.channel
local with_server, echo, eventually = serving.with, serving.echo, serving.eventually

describe("limits", function()
  it("on requests of a connection hold back what is beyond them, and all are answered", function()
    local running, most, gate = 0, 0, channel.new()
    local servant = {}
    function servant.wait(_, n)
      running = running + 1
      most = math.max(most, running)
      gate:receive()
      running = running - 1
      return n
    end
    with_server(servant, { limits = { requests = 3 } }, function(broker, port)
      local c <close> = giop.connect(port)
      for n = 1, 20 do c:request("wait", "echo", string.pack("<i4", n), { id = n }) end
      local seen = {}
      for _ = 1, 20 do
        gate:send(true)
        seen[c:receive().id] = true
      end
      assert.equal(20, #seen)
      assert.equal(3, most)
      assert.equal(0, (next(broker.server.pool.peers)).n)
    end)
  end)

  it("on requests don't stop the others while one of them waits", function()
    local gate = channel.new()
    with_server({ wait = function(_, n) if n == 1 then gate:receive() end return n end }, { limits = { requests = 2 } }, function(_, port)
      local c <close> = giop.connect(port)
      for n = 1, 10 do c:request("wait", "echo", string.pack("<i4", n), { id = n }) end
      for n = 2, 10 do assert.equal(n, c:receive().id) end
      gate:send(true)
      assert.equal(1, c:receive().id)
    end)
  end)

  it("on connections: an idle one is closed properly for a newcomer, which waits while all are busy", function()
    local gate, begun = channel.new(), channel.new(9)
    with_server({ wait = function(_, n) begun:send(n) gate:receive() return n end, say = echo.say }, { limits = { connections = 2 } },
      function(broker, port)
        local a <close> = giop.connect(port)
        local b <close> = giop.connect(port)
        a:request("wait", "echo", string.pack("<i4", 1))
        assert.equal(1, begun:receive(20))
        assert.equal("hello, b", giop.text(b:call("say", "echo", giop.string "b").body))
        local c <close> = giop.connect(port)
        c:request("wait", "echo", string.pack("<i4", 3))
        assert.equal("CloseConnection", b:receive().type)
        b:close()
        assert.equal(3, begun:receive(20))
        local d <close> = giop.connect(port)
        d:request("say", "echo", giop.string "d")
        assert.is_nil(d:receive(0.05))
        assert.equal(2, broker.server.pool.count)
        gate:send(true)
        assert.equal("Reply", a:receive().type)
        assert.equal("CloseConnection", a:receive().type)
        a:close()
        assert.equal("hello, d", giop.text(d:receive().body))
        gate:send(true)
        assert.equal("Reply", c:receive().type)
      end)
  end)

  it("on idle time: CloseConnection, but never while a request is in progress", function()
    local gate, begun = channel.new(), channel.new(1)
    local IDLE = 1                               -- longer than a loaded machine keeps us from writing a request
    with_server({ wait = function(_, n) begun:send(n) gate:receive() return n end }, { limits = { idle = IDLE } }, function(broker, port)
      local busy <close> = giop.connect(port)
      busy:request("wait", "echo", string.pack("<i4", 1))
      assert.equal(1, begun:receive(20))
      local idle <close> = giop.connect(port)
      local half <close> = giop.connect(port)
      half:write("GIOP\1\2\1")
      assert.equal("CloseConnection", idle:receive().type)
      assert.equal("EOF", select(3, idle:receive()))
      assert.equal("CloseConnection", half:receive().type)
      assert.is_nil(busy:receive(IDLE + 0.2))
      gate:send(true)
      assert.equal("Reply", busy:receive().type)
      assert.equal("CloseConnection", busy:receive().type)
      idle:close()
      busy:close()
      eventually(function() return broker.server.pool.count <= 1 end, "two connections closed")
    end)
  end)

  it("on messages are what a client may send: beyond them MessageError", function()
    with_server(echo, { limits = { message = 1000 } }, function(_, port)
      local c <close> = giop.connect(port)
      assert.equal(900 + #"hello, ", #giop.text(c:call("say", "echo", giop.string(("x"):rep(900))).body))
      c:request("say", "echo", giop.string(("x"):rep(2000)))
      assert.equal("MessageError", c:receive().type)
      assert.is_nil((c:receive()))
    end)
  end)

  it("on messages in fragments: how many, and how large together", function()
    with_server(echo, { limits = { unfinished = 3, pending = 4096, message = 100000 } }, function(_, port)
      local function fragments(c, n, size)
        for id = 1, n do
          local whole = c:message("say", "echo", giop.string(("x"):rep(size)), { id = id })
          local cut = 12 + (#whole - 12) // 2 // 8 * 8 + 4
          cut = cut - cut % 8
          c:write("GIOP\1\2\3\0" .. string.pack("<I4", cut - 12) .. whole:sub(13, cut))
        end
      end
      for _, case in ipairs { { 4, 40 }, { 2, 8000 } } do
        local c <close> = giop.connect(port)
        fragments(c, table.unpack(case))
        assert.equal("MessageError", c:receive().type)
        assert.is_nil((c:receive()))
      end
      local c <close> = giop.connect(port)
      fragments(c, 3, 40)
      local whole = c:message("say", "echo", giop.string(("x"):rep(40)), { id = 2 })
      local cut = 12 + (#whole - 12) // 2 // 8 * 8 + 4
      cut = cut - cut % 8
      local rest = whole:sub(cut + 1)
      c:write("GIOP\1\2\1\7" .. string.pack("<I4I4", #rest + 4, 2) .. rest)
      local r = c:receive()
      assert.same({ "Reply", 2, "hello, " .. ("x"):rep(40) }, { r.type, r.id, giop.text(r.body) })
    end)
  end)

  it("are checked when the broker is made", function()
    for _, limits in ipairs { { requests = 0 }, { requests = "many" }, { clients = 3 } } do
      assert.has_error(function() orb.init { limits = limits, host = "127.0.0.1" } end)
    end
  end)
end)
