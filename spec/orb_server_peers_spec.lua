-- Requests that are cancelled, bytes that are no GIOP, and clients that take no replies: what the server makes of them.
local mare = require "mare"
local core = require "mare.orb.giop.core"
local giop = require "spec.support.iiop"
local serving = require "spec.support.serving"
local channel = mare.channel
local with_server, echo, eventually = serving.with, serving.echo, serving.eventually

describe("a cancelled request", function()
  it("ends its servant's fiber where that waits, gets no reply, and disturbs no other", function()
    local begun, gate, ended = channel.new(1), channel.new(), channel.new(1)
    local servant = { say = echo.say }
    function servant.wait(_, n)
      local guard <close> = setmetatable({}, { __close = function(_, err) ended:send(tostring(err)) end })
      begun:send(n)
      gate:receive()
      return guard and n
    end
    with_server(servant, nil, function(broker, port, log)
      local c <close> = giop.connect(port)
      local other = c:request("wait", "echo", string.pack("<i4", 1))
      assert.equal(1, begun:receive(20))
      local id = c:request("wait", "echo", string.pack("<i4", 2))
      assert.equal(2, begun:receive(20))
      c:cancel(id)
      assert.matches("cancelled", ended:receive(20))
      assert.equal("hello, you", giop.text(c:call("say", "echo", giop.string "you").body))
      c:cancel(id)                               -- again, and one that never was
      c:cancel(77777)
      gate:send(true)
      assert.equal(other, c:receive().id)
      assert.equal("hello, you", giop.text(c:call("say", "echo", giop.string "you").body))
      assert.same({}, log)
      assert.equal(0, (next(broker.server.pool.peers)).n)
    end)
  end)

  it("that was answered before its servant ran is none any more, also when its id is used again", function()
    local begun, gate, ended = channel.new(9), channel.new(), channel.new(9)
    local servant = { say = echo.say }
    function servant.note(_, text)
      local guard <close> = setmetatable({}, { __close = function(_, err) ended:send(text .. ": " .. tostring(err)) end })
      begun:send(text)
      gate:receive()
      return guard
    end
    with_server(servant, nil, function(broker, port, log)
      local c <close> = giop.connect(port)
      assert.equal(5, c:call("note", "echo", giop.string "early", { response = 1, id = 5 }).id)
      assert.equal("early", begun:receive(20))
      c:cancel(5)
      assert.equal("hello, you", giop.text(c:call("say", "echo", giop.string "you", { id = 6 }).body))
      assert.equal(0, #ended)
      c:request("note", "echo", giop.string "again", { id = 5 })
      assert.equal("again", begun:receive(20))
      c:cancel(5)
      assert.matches("^again: .*cancelled", ended:receive(20))
      gate:close()
      assert.equal("early: nil", ended:receive(20))
      assert.equal("hello, you", giop.text(c:call("say", "echo", giop.string "you").body))
      assert.same({}, log)
      eventually(function() return (next(broker.server.pool.peers)).n == 0 end, "nothing in progress")
    end)
  end)
end)

describe("a client that takes no replies", function()
  it("for too long gets no more, rather than something behind half a reply", function()
    local big = ("x"):rep(15 << 20)                  -- more than the system takes for somebody who reads nothing
    local servant = { say = function() return big end, note = function() end }
    for _, how in ipairs { "at once", "early", "later" } do
      local early, later = how == "early", how == "later"
      with_server(servant, { limits = { reply = 0.2 } }, function(broker, port)
        local c <close> = giop.connect(port)
        for id = 1, 2 do
          c:request("say", "echo", giop.string "x", { id = id })
          if later then mare.sleep(0.13) end           -- the second may still be written when the first may not
        end
        if early then
          for id = 3, 60 do c:request("note", "echo", giop.string(("n"):rep(100)), { id = id, response = 1 }) end
        end
        local pool = broker.server.pool
        if not later then eventually(function() return pool.accepted == 1 and pool.count == 0 end, "the connection is gone") end
        local r, _, code
        repeat r, _, code = c:receive() until not r
        assert.is_true(code == "EOF" or code == "ECONNRESET")
      end)
    end
  end)
end)

-- What the server says to bytes, until it closes: the types of its messages.
local function says(port, bytes)
  local c <close> = giop.connect(port)
  c:write(bytes)
  local said = {}
  while true do
    local r, _, code = c:receive(20)
    if not r then return said, code end
    said[#said + 1] = r.type
  end
end

describe("bytes that are no GIOP", function()
  local bad = {
    ["a wrong magic"] = "GET / HTTP/1.1\r\n\r\n",
    ["a wrong major version"] = "GIOP\2\0\1\0\0\0\0\0",
    ["a higher minor version"] = "GIOP\1\3\1\0\0\0\0\0",
    ["an unknown type"] = "GIOP\1\2\1\8\0\0\0\0",
    ["a size beyond the limit"] = "GIOP\1\2\1\0\255\255\255\127",
    ["a request of no bytes"] = "GIOP\1\2\1\0\0\0\0\0",
    ["a reply"] = core.reply(2, true, 1, 0),
    ["a locate reply"] = core.locate_reply(2, true, 1, 1),
    ["a fragment of nothing"] = "GIOP\1\2\1\7\4\0\0\0\1\0\0\0",
  }
  for name, bytes in pairs(bad) do
    it(("get MessageError and the end of the connection: %s"):format(name), function()
      with_server(echo, nil, function(_, port)
        local good <close> = giop.connect(port)
        assert.equal("hello, you", giop.text(good:call("say", "echo", giop.string "you").body))
        local said = says(port, bytes)
        assert.same({ "MessageError" }, said)
        assert.equal("hello, you", giop.text(good:call("say", "echo", giop.string "you").body))
      end)
    end)
  end

  it("cut off, by any length, leave nothing behind", function()
    with_server(echo, nil, function(broker, port)
      local c <close> = giop.connect(port)
      local message = c:message("say", "echo", giop.string "you")
      for n = 0, #message - 1 do
        local half <close> = giop.connect(port)
        half:write(message:sub(1, n))
      end
      assert.equal("hello, you", giop.text(c:call("say", "echo", giop.string "you").body))
      eventually(function() return broker.server.pool.count == 1 end, "only the good one is left")
    end)
  end)

  it("end a connection when the client says that it closes, or complains", function()
    with_server(echo, nil, function(_, port)
      assert.same({}, (says(port, core.close(2, true))))
      assert.same({}, (says(port, core.error(2, true))))
    end)
  end)
end)
