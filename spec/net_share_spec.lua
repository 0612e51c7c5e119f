-- A connection among fibers, processes and select, and what it may cost in memory.
local mare = require "mare"
local net = require "mare.net"
local proc = require "spec.support.proc"
local sockets = require "spec.support.sockets"
local process, channel = mare.process, mare.channel
local pack, pair = sockets.pack, sockets.pair

describe("several fibers", function()
  local fiber = mare.fiber

  it("can't read one connection at once", function()
    local a, b = pair()
    local reader = fiber.spawn(function() return b:read("l") end)
    mare.sleep(0)
    assert.same(pack(nil, "another fiber reads from this connection", "EBUSY"), pack(b:read()))
    a:write("for the first\n")
    assert.same(pack(true, "for the first"), pack(reader:wait()))
    a:write("x")
    assert.equal("x", b:read())
    a:close()
    b:close()
  end)

  it("can't read and select one connection at once", function()
    local a, b = pair()
    local reader = fiber.spawn(function() return b:read("l") end)
    mare.sleep(0)
    assert.same(pack(1, nil, "another fiber reads from this connection", "EBUSY"), pack(mare.select { b }))
    a:write("one\n")
    assert.same(pack(true, "one"), pack(reader:wait()))
    local selecting = fiber.spawn(function() return mare.select { b } end)
    mare.sleep(0)
    assert.equal("EBUSY", select(3, b:read(1)))
    a:write("x")
    assert.same(pack(true, 1, true), pack(selecting:wait()))
    assert.equal("x", b:read())
    assert.equal(1, (mare.select { b:writing() }))
    a:close()
    b:close()
  end)

  it("read and write one connection", function()
    local a, b = pair()
    local text = ("0123456789"):rep(200000)
    local reader = fiber.spawn(function() return a:read(#text) end)
    local echo = fiber.spawn(function()
      local n = 0
      while n < #text do
        local d = b:read()
        n = n + #d
        b:write(d)
      end
    end)
    assert.is_true(a:write(text))
    assert.is_true((echo:wait()))
    local ok, got = reader:wait()
    assert.is_true(ok and got == text)
    a:close()
    b:close()
  end)

  it("write in turns: what one call writes stays together", function()
    local a, b = pair()
    local writers = {}
    for i = 1, 8 do
      writers[i] = fiber.spawn(function() return a:write(("%d"):format(i):rep(3000000), "\n") end)
    end
    local seen = {}
    for _ = 1, 8 do
      local line = b:read("l", 60)
      assert.equal(3000000, #line)
      local digit = line:sub(1, 1)
      assert.is_true(digit:rep(3000000) == line)
      assert.is_nil(seen[digit])
      seen[digit] = true
    end
    for i = 1, 8 do assert.same(pack(true, true), pack(writers[i]:wait())) end
    a:close()
    b:close()
  end)

  it("wait for their turn no longer than their time, and learn of a close", function()
    local a, b = pair()
    local chunk = ("x"):rep(1 << 23)
    local first = fiber.spawn(function() return a:write(chunk) end)
    mare.sleep(0)
    a:timeout(0.02)
    assert.same(pack(nil, "timeout"), pack(a:write("late")))
    a:timeout()
    local second = fiber.spawn(function() return a:write("never") end)
    local reader = fiber.spawn(function() return a:read() end)
    mare.sleep(0)
    a:close()
    local r = pack(first:wait())
    assert.same({ true, nil, "closed", "EBADF" }, { r[1], r[2], r[3], r[4] })
    assert.same(pack(true, nil, "closed", "EBADF"), pack(second:wait()))
    assert.same(pack(true, nil, "closed", "EBADF"), pack(reader:wait()))
    b:close()
  end)
end)

describe("a connection in a message", function()
  it("moves: the sender keeps a husk", function()
    local a, b = pair()
    local c = channel.new(1)
    a:write("one two ")
    assert.equal("one ", b:read(4))              -- the rest is in the connection's buffer
    c:send(b)
    for _, use in ipairs { function() return b:read() end, function() return b:write("x") end, function() return b:close() end,
                           function() return c:try_send(b) end } do
      assert.error_matches(use, "moved to another process")
    end
    assert.equal("connection (moved)", tostring(b))
    do local _ <close> = b end                -- no use: its receiver closes it
    local p = process.spawn(function()
      local conn = c:receive()
      local got = conn:read(4)
      conn:write("answer")
      conn:close()
      return got
    end)
    assert.equal("answer", a:read("a", 30))
    assert.same(pack(true, "two "), pack(p:wait()))
    a:close()
  end)

  it("comes back", function()
    local a, b = pair()
    local there, back = channel.new(), channel.new()
    local p = process.spawn(function()
      while true do
        local conn = there:receive()
        if not conn then return end
        conn:write("x")
        back:send(conn)
      end
    end)
    for _ = 1, 5 do
      there:send(b)
      b = back:receive()
      assert.equal("x", a:read(1, 30))
    end
    there:close()
    assert.is_true((p:wait()))
    a:close()
    b:close()
  end)

  it("stays while a fiber uses it", function()
    local a, b = pair()
    local c = channel.new(1)
    local reader = mare.fiber.spawn(function() return b:read("l") end)
    mare.sleep(0)
    assert.error_matches(function() c:send(b) end, "in use")
    a:write("x\n")
    assert.same(pack(true, "x"), pack(reader:wait()))
    assert.is_true(c:send(b))
    a:close()
    assert.equal("", c:receive():read("a"))
  end)

  it("is closed with a message that nobody receives", function()
    local a, b = pair()
    do
      local c = channel.new(1)
      c:send(b)
    end
    collectgarbage()
    collectgarbage()
    assert.same(pack(nil, "closed", "EOF"), pack(a:read(1, 30)))
    a:close()
  end)
end)

describe("memory", function()
  it("of what a peer sends without end is limited with the process's", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local host, port = server:address()
    local writer = process.spawn(function()
      local conn = require "mare.net".connect(host, port)
      local chunk = ("x"):rep(1 << 20)
      while conn:write(chunk) do end
      conn:close()
    end)
    local p = process.spawn { memory = 8000000, main = function()
      local conn = server:accept(30)
      local r = table.pack(conn:read("l", 60))    -- a line that never ends
      conn:close()
      return table.unpack(r, 1, r.n)
    end }
    local ok, line, _, code = p:wait()
    assert.is_true(ok, line)
    assert.same({ nil, "ENOMEM" }, { line, code })
    assert.is_true((writer:wait()))
    server:close()
  end)

  it("of idle connections is small", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local host, port = server:address()
    local function resident()
      local status <close> = assert(io.open("/proc/self/status"))
      return tonumber(status:read("a"):match("VmRSS:%s*(%d+)"))
    end
    local n = 200
    local list = {}
    for i = 1, n do
      list[i] = { assert(net.connect(host, port)), assert(server:accept(10)) }
      list[i][1]:write("x")
      list[i][2]:read()
    end
    local before = resident()
    for i = n + 1, 2 * n do
      list[i] = { assert(net.connect(host, port)), assert(server:accept(10)) }
      list[i][1]:write("x")
      list[i][2]:read()
    end
    -- Twice n connections, in pairs in a table: a read buffer of 64 KiB each would be 25 MB.
    if proc.config == "plain" then assert.is_true(resident() - before < 2000, resident() - before) end
    for _, two in ipairs(list) do
      two[1]:close()
      two[2]:close()
    end
    server:close()
  end)
end)

describe("select", function()
  it("waits for bytes, and for connections", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local host, port = server:address()
    assert.same(pack(nil, "timeout"), pack(mare.select { server, timeout = 0.01 }))
    local a = assert(net.connect(host, port))
    local i, b = mare.select { channel.new(), server }
    assert.equal(2, i)
    assert.same(pack(nil, "timeout"), pack(mare.select { a, b, timeout = 0.01 }))
    a:write("x")
    assert.equal(2, (mare.select { a, b }))
    assert.equal(2, (mare.select { a, b }))       -- nothing was taken
    assert.equal("x", b:read())
    assert.same(pack("default", 7), pack(mare.select { a, b, default = 7 }))
    local p = process.spawn(function() a:write("y") a:close() end)
    assert.equal(1, (mare.select { b, channel.new() }))
    assert.equal("y", b:read("a"))
    assert.equal(1, (mare.select { b }))          -- at the end a read doesn't wait either
    assert.is_true((p:wait()))
    b:close()
    server:close()
    local r = pack(mare.select { server })
    assert.same({ 1, nil, "closed", "EBADF" }, { r[1], r[2], r[3], r[4] })
  end)

  it("by two fibers on one connection is refused: the second would miss what wakes the first", function()
    local a, b = pair()
    local u = assert(net.udp("127.0.0.1:0"))
    local host, port = u:address()
    local first = mare.fiber.spawn(function() return mare.select { b, b } end)       -- one fiber may name it twice
    local datagram = mare.fiber.spawn(function() return mare.select { u } end)
    mare.fiber.yield()
    assert.same(pack(1, nil, "another fiber selects this connection", "EBUSY"), pack(mare.select { b }))
    assert.same(pack(1, nil, "another fiber selects this socket", "EBUSY"), pack(mare.select { u }))
    assert.equal(1, (mare.select { b:writing() }))                              -- that is another direction
    a:write("x")
    assert(net.udp()):send_to("y", host, port)
    assert.is_true((first:wait(30)))
    assert.is_true((datagram:wait(30)))
    assert.same(pack(1, true), pack(mare.select { b }))
    assert.equal("x", b:read())
    assert.same(pack(1, true), pack(mare.select { u }))
    a:close()
    b:close()
    u:close()
  end)

  it("waits for datagrams", function()
    local u = assert(net.udp("127.0.0.1:0"))
    local host, port = u:address()
    assert.same(pack(nil, "timeout"), pack(mare.select { u, timeout = 0.01 }))
    local p = process.spawn(function() require "mare.net".udp():send_to("x", host, port) end)
    assert.equal(1, (mare.select { u }))
    assert.equal("x", u:receive(0))
    assert.is_true((p:wait()))
    u:close()
  end)
end)
