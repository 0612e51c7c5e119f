-- WebSocket on mare.http: RFC 6455 case by case, by a client that can do everything wrong; and other people's clients.
-- needs: llhttp
-- runs under: mare
local mare = require "mare"
local http = require "mare.http"
local certificates = require "spec.support.certificates"
local websocket = require "spec.support.websocket"
local frame = websocket.frame

local function echo(ws)
  for message, kind in ws:messages() do
    if message == "fail" then error "a bug of the handler" end
    if message == "leave" then return ws:close(4000, "left") end
    if message == "end" then return end
    ws:send(message, kind)
  end
end

local codes = mare.channel.new(math.huge)
local function handler(req)
  local fiber, channel = require "mare".fiber, require "mare".channel
  local path = req.path
  if path == "/echo" then
    return echo(req:websocket())
  elseif path == "/few" then
    local ws = req:websocket { message_bytes = 100, protocols = { "b", "a" }, fields = { ["Set-Cookie"] = "x=1" } }
    echo(ws)
    codes:send(ws.code, ws.reason)
  elseif path == "/list" then
    return echo(req:websocket { origin = { "https://me.example" } })
  elseif path == "/any" then
    return echo(req:websocket { origin = "any" })
  elseif path == "/pings" then
    local ws = req:websocket { ping = 0.02 }
    echo(ws)
    codes:send(ws.code, ws.reason)
  elseif path == "/many" then
    local ws, done = req:websocket(), channel.new()
    for i = 1, 4 do
      fiber.spawn(function()
        for _ = 1, 50 do assert(ws:send(tostring(i):rep(i * 10000))) end
        done:send(true)
      end)
    end
    for _ = 1, 4 do done:receive() end
  elseif path == "/waits" then
    local ws = req:websocket()
    codes:send("waits")
    local message, why, code = ws:receive()
    codes:send(message or why, code)
  elseif path == "/polls" then
    local ws = req:websocket()
    local n = 0
    while select(2, ws:receive(0.001)) == "timeout" do n = n + 1 end
    return ws:close(4001, n > 0 and "polled" or "at once")
  elseif path == "/bad" then
    local ws = req:websocket()
    for _, case in ipairs { { "\xff" }, { 1 }, { "a", "b" } } do assert(not pcall(ws.send, ws, table.unpack(case))) end
    for _, case in ipairs { { 1005 }, { 999 }, { 5000 }, { 1000, ("x"):rep(124) }, { 1000, "\xff" } } do
      assert(not pcall(ws.close, ws, table.unpack(case)))
    end
    assert(not pcall(ws.ping, ws, ("x"):rep(126)))
    assert(not pcall(function() return ws.recieve end))
    assert(not pcall(req.websocket, req))
    ws:send("fine", "binary")
    ws:send(require "mare".buffer.new("bytes"):seal())
    return ws:close()
  end
end

describe("a websocket", function()
  local server, c, secure
  setup(function()
    c = certificates()
    server = assert(http.serve("127.0.0.1:0", handler, { workers = 1, limits = { head = 60, drain = 60 }, report = function() end }))
    secure = assert(http.serve("127.0.0.1:0", handler, { workers = 1, tls = { cert = c.cert, key = c.key }, limits = { head = 60, drain = 60 } }))
  end)
  teardown(function()
    server:stop()
    secure:stop()
    c.remove()
  end)

  local function connect(path, fields) return websocket.connect(server, path or "/echo", fields) end
  local function back(client, opcode, data)
    assert.same({ opcode, data }, { client:next() })
  end

  it("begins with what section 4 asks for, and nothing else", function()
    for _, case in ipairs {
      { 426, { Upgrade = false } }, { 426, { Upgrade = "h2c" } }, { 426, { Connection = "keep-alive" } },
      { 426, { ["Sec-WebSocket-Version"] = "8" }, "\r\nSec%-WebSocket%-Version: 13\r\n" }, { 426, { ["Sec-WebSocket-Version"] = false } },
      { 400, { ["Sec-WebSocket-Key"] = false } }, { 400, { ["Sec-WebSocket-Key"] = "c2hvcnQ=" } }, { 400, { ["Sec-WebSocket-Key"] = ("="):rep(24) } },
      { 403, { Origin = "http://other" } }, { 403, { Origin = "null" } }, { 101, { Origin = "http://me" } }, { 101, { Upgrade = "h2c, WebSocket" } },
      { 403, { Origin = "http://me.example" }, path = "/list" }, { 101, { Origin = "https://me.example" }, path = "/list" },
      { 101, { Origin = "null" }, path = "/any" },
    } do
      local client <close> = websocket.ask(server, case.path or "/echo", case[2])
      assert.equal(case[1], client.status, client.head)
      assert.matches(case[3] or (case[1] == 426 and "\r\nUpgrade: websocket\r\n" or ""), client.head)
    end
    local client <close> = connect("/few", { ["Sec-WebSocket-Protocol"] = "c, a,b" })
    assert.matches("\r\nSec%-WebSocket%-Protocol: b\r\n", client.head)
    assert.matches("\r\nSet%-Cookie: x=1\r\n", client.head)
    client:send(8, "")
    assert.equal(1005, client:closed())
    assert.same({ 1005, "" }, { codes:receive() })
    local none <close> = connect("/few", { ["Sec-WebSocket-Protocol"] = "c" })
    assert.is_nil(none.head:find "Sec%-WebSocket%-Protocol")
    none:send(8, (">I2"):pack(3999) .. "bye")
    assert.equal(3999, none:closed())
    assert.same({ 3999, "bye" }, { codes:receive() })
  end)

  it("carries messages of every length and both kinds", function()
    local client <close> = connect()
    for _, n in ipairs { 0, 1, 7, 8, 9, 125, 126, 127, 1023, 1024, 1025, 65535, 65536, 300000 } do
      local data = ("abcdefg"):rep(n // 7 + 1):sub(1, n)
      client:send(2, data)
      back(client, 2, data)
      client:send(1, data)
      back(client, 1, data)
    end
    for _, text in ipairs { "Hello-\xC2\xB5@\xC3\x9F\xC3\xB6\xE4", "\xF4\x8F\xBF\xBF", "\xED\x9F\xBF", "\0" } do
      if utf8.len(text) then
        client:send(1, text)
        back(client, 1, text)
      end
    end
    client:raw(frame(1, "together") .. frame(1, "with") .. frame(1, "others"))
    for _, text in ipairs { "together", "with", "others" } do back(client, 1, text) end
  end)

  it("puts fragments together, and answers control frames between them", function()
    local client <close> = connect()
    client:send(1, "Hel", { fin = false })
    client:send(9, "ping")
    back(client, 10, "ping")
    client:send(0, "", { fin = false })
    client:send(10, "nobody has asked")
    client:send(0, "lo")
    back(client, 1, "Hello")
    for _, byte in ipairs { "\xCE", "\xBA", "" } do                       -- a character over two fragments
      client:send(byte == "\xCE" and 1 or 0, byte, { fin = byte == "" })
    end
    back(client, 1, "\xCE\xBA")
    local text = ("0123456789"):rep(60)
    for i = 1, #text do client:send(i == 1 and 2 or 0, text:sub(i, i), { fin = i == #text }) end
    back(client, 2, text)
    for byte in frame(1, "byte by byte"):gmatch "." do client:raw(byte) end
    back(client, 1, "byte by byte")
  end)

  it("is ended by the code that says what was wrong", function()
    local part = { fin = false }
    for name, case in pairs {
      ["a reserved bit"] = { 1002, frame(1, "x", { rsv = 4 }) }, ["the second"] = { 1002, frame(1, "x", { rsv = 2 }) },
      ["the third, of a ping"] = { 1002, frame(9, "", { rsv = 1 }) },
      ["opcode 3"] = { 1002, frame(3, "") }, ["opcode 7"] = { 1002, frame(7, "x") }, ["opcode 11"] = { 1002, frame(11, "") },
      ["opcode 15"] = { 1002, frame(15, "") }, ["no mask"] = { 1002, frame(1, "x", { mask = false }) },
      ["a ping in fragments"] = { 1002, frame(9, "", part) }, ["a close in fragments"] = { 1002, frame(8, "", part) },
      ["a long ping"] = { 1002, frame(9, ("x"):rep(126)) }, ["a long close"] = { 1002, frame(8, "\3\xe8" .. ("x"):rep(124)) },
      ["a length that is too long"] = { 1002, frame(1, "x", { long = 2 }) }, ["and another"] = { 1002, frame(1, ("x"):rep(300), { long = 8 }) },
      ["a length without an end"] = { 1002, "\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff" },
      ["half a bad frame"] = { 1002, "\x83" }, ["nothing to go on"] = { 1002, frame(0, "x") },
      ["a message in a message"] = { 1002, frame(1, "a", part) .. frame(1, "b") },
      ["another kind in it"] = { 1002, frame(1, "a", part) .. frame(2, "b", part) },
      ["a close of one byte"] = { 1002, frame(8, "x") },
      ["bytes as text"] = { 1007, frame(1, "\xff") }, ["half a character"] = { 1007, frame(1, "a\xC3") },
      ["a surrogate"] = { 1007, frame(1, "12345678\xED\xA0\x80") }, ["an overlong one"] = { 1007, frame(1, "\xC0\xAF") },
      ["beyond Unicode"] = { 1007, frame(1, "\xF4\x90\x80\x80") }, ["over fragments"] = { 1007, frame(1, "\xCE", part) .. frame(0, "x") },
      ["a bad reason"] = { 1007, frame(8, "\3\xe8\xff") },
      ["too long"] = { 1009, frame(2, ("x"):rep(101)), "/few" }, ["much too long"] = { 1009, frame(2, "x", { length = 1 << 40 }), "/few" },
      ["too long together"] = { 1009, frame(1, ("x"):rep(60), part) .. frame(0, ("x"):rep(60)), "/few" },
    } do
      local client <close> = connect(case[3])
      client:raw(case[2])
      local code, reason = client:closed()
      assert.equal(case[1], code, name .. ": " .. tostring(reason))
      if case[3] then assert.equal(1009, (codes:receive())) end
    end
    for _, code in ipairs { 0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535 } do
      local client <close> = connect()
      client:send(8, (">I2"):pack(code))
      assert.equal(1002, client:closed(), code)
    end
    for _, code in ipairs { 1000, 1001, 1003, 1007, 1014, 3000, 4999 } do
      local client <close> = connect()
      client:send(8, (">I2"):pack(code) .. "why")
      assert.equal(code, client:closed())
    end
  end)

  it("ends with its handler, and by close", function()
    for message, expected in pairs { ["end"] = { 1000, "" }, leave = { 4000, "left" }, fail = { 1011, "" } } do
      local client <close> = connect()
      client:send(1, message)
      assert.same(expected, { client:closed() })
    end
    local client <close> = connect "/bad"
    back(client, 2, "fine")
    back(client, 2, "bytes")
    assert.equal(1000, client:closed())
    local late <close> = connect()
    late:send(8, "\3\xe8")
    late:send(1, "after the close")
    assert.equal(1000, late:closed())
    local polled <close> = connect "/polls"
    polled:send(9, "")
    back(polled, 10, "")
    polled:send(1, "now")
    assert.equal(4001, polled:closed())
  end)

  it("sees that a client is gone, or silent", function()
    do
      local client <close> = connect "/few"
      client:send(1, "there")
      back(client, 1, "there")
    end
    assert.same({ 1006, "the connection was lost" }, { codes:receive() })
    local client <close> = connect "/pings"
    back(client, 9, "")
    assert.equal(1011, client:closed())
    assert.same({ 1011, "no answer to a ping" }, { codes:receive() })
    local asked = 0
    repeat                                           -- on a busy machine an answer may come too late
      local again <close> = connect "/pings"
      for i = 1, 3 do
        asked = again:next() == 9 and i or 0
        if asked == 0 then break end
        again:send(10, "")
      end
      again.conn:close()
      codes:receive()
    until asked == 3
  end)

  it("lets many fibers send, and keeps what each sends together", function()
    local client <close> = connect "/many"
    local n = 0
    for _ = 1, 200 do
      local opcode, data = client:next()
      assert.is_true(opcode == 1 and data == data:sub(1, 1):rep(#data) and #data == tonumber(data:sub(1, 1)) * 10000)
      n = n + #data
    end
    assert.equal(50 * 100000, n)
    assert.equal(1000, client:closed())
  end)

  it("leaves others their turn beside a client that sends without an end", function()
    local host, port = server:address()
    for _, flood in ipairs { { "", frame(1, "x") }, { "", frame(9, "") }, { frame(1, "", { fin = false }), frame(0, "", { fin = false }) } } do
      local stop, begun = mare.channel.new(1), mare.channel.new(1)
      local flooding = mare.process.spawn(function()
        local m = require "mare"
        local conn = assert(m.net.connect(host, port))
        conn:option("sndbuf", 16384)
        conn:write(websocket.request "/echo", flood[1])
        m.fiber.spawn(function() while conn:read() do end end)
        repeat
          conn:write(flood[2]:rep(2000))
          begun:try_send(true)
        until stop:try_receive()
        conn:close(0)
      end)
      begun:receive(60)
      for _ = 1, 3 do
        local client <close> = connect()
        client:send(1, "beside it")
        back(client, 1, "beside it")
      end
      stop:send(true)
      assert.is_true((flooding:wait(60)))
    end
  end)

  it("goes on over TLS", function()
    local client <close> = websocket.connect(secure, "/echo", { Host = "localhost", Origin = "https://localhost" }, c.ca)
    for _, n in ipairs { 5, 1024, 70000 } do
      client:send(2, ("s"):rep(n))
      back(client, 2, ("s"):rep(n))
    end
    client:send(8, "\3\xe8")
    assert.equal(1000, client:closed())
  end)

  it("is told 1001 when the server stops", function()
    local stopped = assert(http.serve("127.0.0.1:0", handler, { workers = 1, limits = { grace = 60, drain = 60 } }))
    local client <close> = websocket.connect(stopped, "/waits")
    assert.equal("waits", (codes:receive()))
    local stopping = mare.fiber.spawn(stopped.stop, stopped)
    assert.same({ 1001, "the server stops" }, { client:closed() })
    assert.same({ "closed", 1001 }, { codes:receive() })
    assert.is_true(stopping:wait())
  end)

  it("gives a message in fragments no longer than a body", function()
    local strict = assert(http.serve("127.0.0.1:0", handler, { workers = 1, limits = { body = 0.05 } }))
    for _, begun in ipairs { frame(1, "a", { fin = false }), frame(1, "abc"):sub(1, 8), "\x81" } do
      local client <close> = websocket.connect(strict, "/echo")
      client:raw(begun)
      assert.same({ 1008, "a message did not come in time" }, { client:closed() })
    end
    strict:stop()
  end)

  for _, peer in ipairs { "websockets", "wsproto" } do
    it("is understood by Python's " .. peer, function()
      local program, port = ("spec/support/websocket_%s.py"):format(peer), tostring(select(2, server:address()))
      local r = assert(mare.subprocess.run { "/usr/bin/python3", program, port, timeout = 60 })
      assert.same({ 0, "done\n" }, { r.code, r.out }, r.err)
    end)
  end
end)
