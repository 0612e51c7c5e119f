-- Peers that lie: malformed GIOP to the reader, and over sockets. What is wrong is named with its offset; MessageError follows, then the end; memory
-- and time are bounded by the bytes that came.
local mare = require "mare"
local net = require "mare.net"
local core = require "mare.orb.giop.core"
local connection = require "mare.orb.giop.connection"
local giop = require "spec.support.giop_bytes"
local sockets = require "spec.support.sockets"
local fiber = mare.fiber
local pack, pair = sockets.pack, sockets.pair

local function le(n) return string.pack("<I4", n) end

-- The message with other bytes at an offset; its size is made right again.
local function with(message, offset, bytes)
  return message:sub(1, offset) .. bytes .. message:sub(offset + #bytes + 1)
end
local function resized(message) return with(message, 8, le(#message - 12)) end

local function refused(why, offset, message)
  assert.same(pack(nil, why, offset), pack(core.parse(message)))
end

describe("the reader of messages", function()
  local request = giop.request { minor = 2, little = true, id = 1, key = "key1", operation = "op", contexts = { { 1, "abcd" } }, body = "12345678" }
  -- 12 id, 16 flags, 20 addressing, 24 length of the key, 28 key, 32 length of the operation, 36 "op\0", 40 contexts, 44 id, 48 length, 52 data

  it("names what is wrong with a header", function()
    refused("a header has 12 bytes", 0, "")
    refused("a header has 12 bytes", 11, request:sub(1, 11))
    refused('it does not begin with "GIOP"', 0, "giop" .. request:sub(5))
    refused("its major version is not 1", 0, with(request, 4, "\2"))
    refused("its version is above 1.2", 0, with(request, 5, "\3"))
    refused("its size is not what its header says", 8, request .. "x")
    refused("its size is not what its header says", 8, request:sub(1, -2))
    refused("its size is not what its header says", 8, with(request, 8, "\255\255\255\255"))
    refused("an unknown type of message", 7, with(request, 7, "\8"))
    refused("an unknown type of message", 7, with(core.close(0, true), 7, "\7"))
    refused("a message of this type can't be fragmented", 7, with(core.cancel(2, true, 1), 6, "\3"))
    refused("a message of this type can't be fragmented", 7, with(core.locate_request(1, true, 1, "k"), 6, "\3"))
  end)

  it("names the length that is wrong", function()
    refused("the bytes end before the value does", 24, with(request, 24, le(0xffffffff)))
    refused("the bytes end before the value does", 24, with(request, 24, le(0x7fffffff)))
    refused("the bytes end before the value does", 32, with(request, 32, le(1000)))
    refused("the bytes end before the value does", 48, with(request, 48, le(13)))
    refused("an unknown way to address the object", 20, with(request, 20, "\3\0"))
    refused("a string without the zero that ends it", 32, with(request, 32, le(0)))
    refused("a string without the zero that ends it", 32, with(request, 36, "opq"))
    refused("a string has a zero byte inside", 32, with(request, 36, "\0p\0"))
  end)

  it("does not believe a number of service contexts", function()
    local began = mare.clock()
    for _, n in ipairs { 3, 0x10000, 0x7fffffff, 0xffffffff } do
      assert.is_nil((core.parse(with(request, 40, le(n)))))
    end
    assert.is_true(mare.clock() - began < 5)
  end)

  it("does not believe a reference inside a request", function()
    local profile = string.pack("<!4I1I1I1s4I2s4", 1, 1, 0, "host\0", 77, "its key")
    local function message(index, list)
      return giop.request { minor = 2, little = true, id = 5, operation = "x", reference = { index, "IDL:T:1.0", list } }
    end
    assert.is_nil((core.parse(message(1, { { 0, profile } }))))
    assert.is_nil((core.parse(message(0, {}))))
    assert.is_nil((core.parse(message(0xffffffff, { { 0, profile } }))))
    for n = 0, #profile - 1 do                             -- a broken profile has no key, which is no reason to refuse the message
      local r = pack(core.parse(message(0, { { 0, profile:sub(1, n) } })))
      assert.same({ 0, 5, false, 5, 3 }, table.move(r, 1, 5, 1, {}))
      assert.is_nil(r[6])
      assert.equal("x", r[7])
    end
  end)

  it("refuses every message that was cut off", function()
    local list = { request, giop.reply { minor = 0, little = true, id = 1, status = 2, contexts = { { 1, "abc" } } },
      giop.request { minor = 1, little = true, id = 1, key = "key", operation = "op", contexts = { { 1, "abc" } } },
      core.locate_request(2, true, 1, "key"), core.locate_reply(0, true, 1, 2), core.cancel(1, true, 1),
      giop.locate_request { minor = 2, little = true, id = 1, profile = { 0, "abc" } } }
    for _, whole in ipairs(list) do
      local at = select(8, core.parse(whole))
      local needed = whole == request and at - 1 or #whole
      for n = 12, needed - 1 do
        local ok, why, offset = core.parse(resized(whole:sub(1, n)))
        if whole ~= request or n < 56 then
          assert.is_nil(ok)
          assert.is_string(why)
          assert.is_true(offset >= 12 and offset <= n)
        end
      end
    end
  end)

  it("refuses an unknown status", function()
    for minor = 0, 2 do
      local last = minor == 2 and 5 or 3
      assert.equal(1, (core.parse(core.reply(minor, true, 1, last))))
      refused("an unknown status of a reply", minor == 2 and 16 or 20, core.reply(minor, true, 1, last + 1))
      last = minor == 2 and 5 or 2
      assert.equal(4, (core.parse(core.locate_reply(minor, true, 1, last))))
      refused("an unknown status of a locate reply", 16, core.locate_reply(minor, true, 1, last + 1))
    end
  end)

  it("survives every byte changed to some values", function()
    local list = { request, giop.reply { minor = 2, little = false, id = 1, status = 0, contexts = { { 1, "abc" } }, body = "x" },
      giop.request { minor = 0, little = false, id = 1, key = "key", operation = "op", contexts = { { 1, "abc" }, { 2, "" } } },
      giop.request { minor = 2, little = true, id = 5, operation = "x", reference = { 0, "IDL:T:1.0", { { 0, "abcdefgh" }, { 1, "" } } } } }
    local read = 0
    for _, whole in ipairs(list) do
      for at = 0, #whole - 1 do
        for _, byte in ipairs { "\0", "\1", "\4", "\7", "\8", "\127", "\128", "\255" } do
          if core.parse(with(whole, at, byte)) then read = read + 1 end
        end
      end
    end
    assert.is_true(read > 100)
  end)
end)

-- A server as simple as can be: answers requests with their body. Counts its connections and why they ended.
local function with_server(limits, f)
  local server = assert(net.listen("127.0.0.1:0"))
  local ended = mare.channel.new(100)
  local function serve(socket)
    local c = connection.new(socket, { role = "server", limits = limits })
    while true do
      local message, type, bits, id, _, _, _, at = c:receive(20)
      if not message then
        c:close(1)
        return ended:send(bits, type)                       -- code, message
      end
      if type == 0 then c:send(core.reply(bits >> 1, bits & 1, id, 0, nil, message:sub(at))) end
    end
  end
  local accepting = fiber.spawn(function()
    for socket in server:connections() do fiber.spawn(serve, socket) end
  end)
  local host, port = server:address()
  local ok, err = pcall(f, function() return connection.new(assert(net.connect(host, port))) end, ended)
  server:close()
  accepting:wait()
  if not ok then error(err, 0) end
end

local function good(connect)
  local c = connect()
  assert(c:send(core.request(2, true, 3, "key", "echo", nil, 9, "still here")))
  local message, type, _, id, _, at = c:receive(20)
  assert.same({ 1, 9, "still here" }, { type, id, message:sub(at) })
  c:close()
end

-- The server says MessageError, in its highest version, and ends the connection.
local function ended_by_error(c)
  local message, type = c:receive(20)
  assert.equal(6, type)
  assert.equal("GIOP\1\2", message:sub(1, 6))
  local none, _, code = c:receive(20)
  assert.is_nil(none)
  assert.is_true(code == "EOF" or code == "ECONNRESET")
  c:close()
end

describe("a server with peers that lie", function()
  local m = giop.request { minor = 2, little = true, id = 5, key = "some key", operation = "operation", body = ("x"):rep(256) }

  local function lie(bytes, code, text, limits)
    with_server(limits, function(connect, ended)
      local c = connect()
      assert(c:send(bytes))
      ended_by_error(c)
      local why, said = ended:receive(20)
      assert.equal(code, why)
      assert.matches(text, said, 1, true)
      good(connect)
    end)
  end

  it("answers what is no GIOP with MessageError and ends the connection, alone", function()
    lie("GET / HTTP/1.1\r\nHost: here\r\n\r\n", "EPROTO", 'does not begin with "GIOP"')
    lie("\22\3\1\2\0\1\0\1\252\3\3", "EPROTO", 'does not begin with "GIOP"')
    lie(with(m, 4, "\2"), "EPROTO", "major version")
    lie(with(m, 5, "\3"), "EPROTO", "version is above 1.2")
    lie(with(m, 7, "\9"), "EPROTO", "an unknown type of message at offset 7")
    lie(with(m, 24, le(0x7fffffff)), "EPROTO", "the bytes end before the value does at offset 24")
  end)

  it("holds the size of messages within limits before it has them", function()
    lie(core.close(2, true):sub(1, 8) .. le(0xfffffff0), "EMSGSIZE", "a GIOP message of 4294967292 bytes came, the limit is 1000",
      { message = 1000 })
    lie(core.close(2, true):sub(1, 8) .. le(0xfffffff0), "EMSGSIZE", "the limit is 67108864")
  end)

  it("holds fragments within limits", function()
    local list = giop.fragments(m, 64, 64, 64, 64)
    lie(table.concat(list), "EMSGSIZE", "a message in fragments grew beyond the limit of 200 bytes", { message = 200 })
    local many = {}
    for id = 1, 5 do many[id] = giop.fragments(with(m, 12, le(id)), 64)[1] end
    lie(table.concat(many), "EMSGSIZE", "more than 4 messages in fragments at once", { unfinished = 4 })
    lie(table.concat(many), "EMSGSIZE", "unfinished messages grew beyond the limit of 256 bytes", { pending = 256 })
    local empty = { giop.fragments(m, 16)[1] }
    local nothing = giop.message(7, 2, true, giop.writer(true):ulong(5):raw(""), 2)
    for i = 2, 100 do empty[i] = nothing end
    lie(table.concat(empty), "EMSGSIZE", "unfinished messages grew beyond the limit of 1000 bytes", { pending = 1000 })
  end)

  it("refuses fragments that fit nothing", function()
    local list = giop.fragments(m, 64, 64)
    lie(list[2], "EPROTO", "a fragment of no message")
    lie(list[1] .. list[1], "EPROTO", "message 5 begins while its fragments are expected")
    lie(list[1] .. with(list[2], 12, le(6)), "EPROTO", "a fragment of no message")
    lie(list[1] .. with(list[2], 5, "\1"), "EPROTO", "a fragment of no message")
    lie(giop.fragments(m, 62)[1], "EPROTO", "has 62 bytes, which is no multiple of 8")
    lie(list[1] .. giop.fragments(m, 64, 63)[2], "EPROTO", "has 79 bytes, which is no multiple of 8")
    lie(giop.message(7, 1, true, giop.writer(true):raw("hello")), "EPROTO", "a fragment of no message")
    lie(core.cancel(2, true, 5) .. list[3], "EPROTO", "a fragment of no message")
    local first = giop.fragments(giop.request { minor = 1, little = true, id = 5, key = "some key", operation = "operation", body = "abcd" }, 40)
    lie(first[1] .. first[1], "EPROTO", "begins while its fragments are expected")
    lie(first[1] .. giop.message(7, 1, false, giop.writer(false):raw("hello")), "EPROTO", "in another version or byte order")
  end)

  it("checks a message that was put together as any other", function()
    local list = giop.fragments(with(m, 24, le(0x10000)), 64)
    lie(table.concat(list), "EPROTO", "the bytes end before the value does at offset 24")
  end)

  it("keeps nothing of fragments that are complete", function()
    with_server({ pending = 2000, unfinished = 2 }, function(connect)
      local c = connect()
      for id = 1, 50 do
        c:send(table.concat(giop.fragments(with(m, 12, le(id)), 64, 64, 64)))
        local message, type, _, got, _, at = c:receive(20)
        assert.same({ 1, id, ("x"):rep(256) }, { type, got, message:sub(at) })
      end
      c:close()
    end)
  end)

  it("ends without a word to a peer that is gone or reads nothing", function()
    with_server(nil, function(connect, ended)
      local c = connect()
      c:send("GIOP\1\2\1")
      c:close()
      assert.equal("EOF", (ended:receive(20)))
      c = connect()
      c:send(m:sub(1, 100))
      c.socket:shutdown("write")
      assert.equal("EOF", (ended:receive(20)))
      c:close()
      good(connect)
    end)
  end)

  it("goes on beside many liars", function()
    with_server(nil, function(connect)
      local liars = {}
      for i = 1, 60 do
        liars[i] = connect()
        liars[i]:send(i % 3 == 0 and "GIOP\1\2\1\0\255\255\255\3" or i % 3 == 1 and m:sub(1, i) or "nonsense")
      end
      good(connect)
      for _, c in ipairs(liars) do c:close() end
      good(connect)
    end)
  end)
end)

describe("memory", function()
  it("is what the bytes that came need, not what a header says", function()
    local a, b = pair()
    local c = connection.new(b, { role = "server", limits = { message = 1 << 30 } })
    a:write("GIOP\1\2\1\0" .. le(1 << 29))
    local reader = fiber.spawn(function() return c:receive(20) end)
    a:write(("x"):rep(1000))
    collectgarbage()
    local before = collectgarbage("count")
    fiber.yield()
    assert.is_true(collectgarbage("count") - before < 1000)
    a:close()
    assert.equal("EOF", select(4, reader:wait(20)))
    b:close()
  end)

  it("of a process with a limit ends that process alone", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local p = mare.process.spawn { memory = 4 << 20, main = function()
      local core = require "mare.orb.giop.core"      -- luacheck: ignore
      local conn = assert(server:accept(20))
      return select("#", core.receive(conn, 1 << 30, 20)), select(3, core.receive(conn, 1 << 30, 20))
    end }
    local a = assert(net.connect(server:address()))
    a:write("GIOP\1\2\1\0" .. le(1 << 29))
    local chunk = ("x"):rep(1 << 16)
    for _ = 1, 200 do
      if not a:write(chunk) then break end
    end
    a:close()
    local r = pack(p:wait(30))
    assert.is_true(r[1] == false or r[3] == "ENOMEM" or r[3] == "EOF")
    server:close()
  end)
end)
