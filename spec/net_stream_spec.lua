-- A connection as a stream: reading, writing, ending it.
local mare = require "mare"
local net = require "mare.net"
local sockets = require "spec.support.sockets"
local process = mare.process
local pack, pair = sockets.pack, sockets.pair

describe("reading", function()
  it("gives whatever there is, at least a byte", function()
    local a, b = pair()
    a:write("hello")
    assert.equal("hello", b:read())
    a:write("x")
    assert.equal("x", b:read())
    assert.same(pack(nil, "timeout"), pack(b:read(nil, 0)))
    a:close()
    assert.same(pack(nil, "closed", "EOF"), pack(b:read()))
    assert.same(pack(nil, "closed", "EOF"), pack(b:read()))
    b:close()
  end)

  it("gives exactly so many bytes, and at the end the rest", function()
    local a, b = pair()
    a:write("abcdefghij")
    assert.equal("", b:read(0))
    assert.equal("abc", b:read(3))
    assert.equal("defg", b:read(4))
    a:close()
    assert.equal("hij", b:read(100))
    assert.same(pack(nil, "closed", "EOF"), pack(b:read(100)))
    b:close()
  end)

  it("keeps what came before its time was over", function()
    local a, b = pair()
    a:write("abc")
    assert.same(pack(nil, "timeout"), pack(b:read(5, 0.02)))
    assert.same(pack(nil, "timeout"), pack(b:read("l", 0.02)))
    a:write("de\n")
    assert.equal("abcde", b:read(5))
    assert.equal("", b:read("l"))
    a:close()
    b:close()
  end)

  it("gives lines without their ends, or with them", function()
    local a, b = pair()
    a:write("one\ntwo\r\n\nfour\r\nfive\rsix\nrest")
    a:shutdown("write")
    assert.equal("one", b:read("l"))
    assert.equal("two", b:read("l"))
    assert.equal("", b:read("*l"))
    assert.equal("four\r\n", b:read("L"))
    assert.equal("five\rsix", b:read("l"))
    assert.equal("rest", b:read("l"))
    assert.same(pack(nil, "closed", "EOF"), pack(b:read("l")))
    assert.equal("", b:read("a"))
    a:close()
    b:close()
  end)

  it("gives everything to the end", function()
    local a, b = pair()
    local text = ("0123456789"):rep(300000)
    local p = process.spawn(function() return b:read("a") end)
    assert.is_true(a:write(text))
    a:close()
    local ok, got = p:wait()
    assert.is_true(ok)
    assert.is_true(got == text)
  end)

  it("gives large counts in one piece", function()
    local a, b = pair()
    local text = {}
    for i = 1, 200000 do text[i] = ("%07d,"):format(i) end
    text = table.concat(text)
    local p = process.spawn(function()
      b:write("go")
      local first, second = b:read(#text - 3), b:read(3)
      return first .. second
    end)
    assert.equal("go", a:read())
    assert.is_true(a:write(text))
    local ok, got = p:wait()
    assert.is_true(ok)
    assert.is_true(got == text)
    a:close()
  end)

  it("finds plain patterns, also when they come in pieces", function()
    local a, b = pair()
    a:write("GET / HTTP/1.1\r\nHost: x\r\n\r\nbody")
    assert.equal("GET / HTTP/1.1\r\nHost: x\r\n\r\n", b:read_until("\r\n\r\n"))
    assert.equal("body", b:read())
    for _, piece in ipairs { "a.b", "\r", "\n", "\r", "\n", "more" } do
      a:write(piece)
      b:read_until("\r\n\r\n", 1000, 0.01)
    end
    assert.equal("more", b:read(4))
    a:write("x.y..z")
    assert.equal("x.y..", b:read_until(".."))
    a:close()
    assert.same(pack(nil, "closed", "EOF"), pack(b:read_until("..")))
    assert.equal("z", b:read())
    b:close()
  end)

  it("refuses what goes beyond a limit, and keeps it", function()
    local a, b = pair()
    a:write("0123456789;")
    local r = pack(b:read_until(";", 10))
    assert.same({ nil, "EMSGSIZE" }, { r[1], r[3] })
    assert.equal("0123456789;", b:read_until(";", 11))
    a:close()
    b:close()
  end)

  it("raises for what can't be read", function()
    local a, b = pair()
    assert.error_matches(function() b:read("x") end, '"l", "L" or "a"')
    assert.error_matches(function() b:read(-1) end, "can't be negative")
    assert.error_matches(function() b:read(1.5) end, "no integer representation")
    assert.error_matches(function() b:read_until("") end, "can't be empty")
    assert.error_matches(function() b.read({}) end, "connection expected")
    a:close()
    b:close()
  end)

  it("tells of a reset, after what had come before", function()
    local a, b = pair()
    a:write("last words")
    assert.equal("last", b:read(4))
    a:option("linger", 0)
    a:close()
    assert.equal(" words", b:read(6))
    assert.same(pack(nil, "Connection reset by peer", "ECONNRESET"), pack(b:read(1, 20)))
    assert.same(pack(nil, "Connection reset by peer", "ECONNRESET"), pack(b:read(1, 20)))
    b:close()
  end)

  it("waits in places where Lua can't yield", function()
    local a, b = pair()
    local p = process.spawn(function()
      local out = {}
      ("ab"):gsub(".", function() out[#out + 1] = b:read(2) end)
      return table.concat(out, ",")
    end)
    while p:status() ~= "waiting" do process.yield() end
    a:write("12")
    a:write("34")
    assert.same(pack(true, "12,34"), pack(p:wait()))
    a:close()
  end)

  it("waits in coroutines of the program's own", function()
    local a, b = pair()
    local lines = coroutine.wrap(function()
      while true do coroutine.yield(b:read("l", 20)) end
    end)
    a:write("x\ny\n")
    assert.equal("x", lines())
    assert.equal("y", lines())
    local p = process.spawn(function()
      local other = coroutine.wrap(function() return a:read("l", 20) end)
      return other()
    end)
    b:write("z\n")
    assert.same(pack(true, "z"), pack(p:wait()))
    b:close()
  end)
end)

describe("writing", function()
  it("sends strings and numbers, many at once", function()
    local a, b = pair()
    assert.is_true(a:write("a", 1, "", 2.5, "z"))
    assert.is_true(a:write())
    assert.equal("a12.5z", b:read(6))
    local many = {}
    for i = 1, 150 do many[i] = ("%03d"):format(i) end
    assert.is_true(a:write(table.unpack(many)))
    assert.equal(table.concat(many), b:read(450))
    assert.error_matches(function() a:write({}) end, "string expected")
    assert.error_matches(function() a:write("x", nil) end, "string expected")
    a:close()
    b:close()
  end)

  it("waits for a slow reader: nothing is lost and nothing piles up", function()
    local a, b = pair()
    local chunk = ("x"):rep(1000000)
    local p = process.spawn(function()
      for _ = 1, 30 do assert(a:write(chunk, chunk)) end
      a:close()
      return "sent"
    end)
    while p:status() ~= "waiting" do process.yield() end
    local n = 0
    while true do
      local d = b:read(nil, 30)
      if not d then break end
      n = n + #d
    end
    assert.equal(60000000, n)
    assert.same(pack(true, "sent"), pack(p:wait()))
    b:close()
  end)

  it("gives up after its time and says how much was sent", function()
    local a, b = pair()
    a:timeout(0.05)
    local chunk = ("x"):rep(1 << 20)
    local r
    repeat r = pack(a:write(chunk)) until not r[1]
    assert.same({ nil, "timeout" }, { r[1], r[2], r[3] })
    assert.is_true(r[4] >= 0 and r[4] < #chunk)
    a:timeout()
    b:close()
    repeat r = pack(a:write(chunk)) until not r[1]
    assert.is_true(r[3] == "ECONNRESET" or r[3] == "EPIPE", r[3])
    a:close()
  end)

  it("gathers small pieces when it is told to", function()
    local a, b = pair()
    a:setvbuf("full", 100)
    a:write("abc")
    a:write("def")
    assert.same(pack(nil, "timeout"), pack(b:read(nil, 0.02)))
    assert.is_true(a:flush())
    assert.equal("abcdef", b:read())
    a:write("more")
    a:write(("y"):rep(97))                   -- beyond the buffer: everything goes
    assert.equal("more" .. ("y"):rep(97), b:read(101))
    a:write("at the end")
    a:close()                                -- flushes
    assert.equal("at the end", b:read("a"))
    b:close()
  end)

  it("does not end the program when the peer is gone", function()
    local a, b = pair()
    b:close()
    local r
    for _ = 1, 100 do
      r = pack(a:write("x"))
      if not r[1] then break end
      mare.sleep(0.001)
    end
    assert.is_true(r[3] == "EPIPE" or r[3] == "ECONNRESET", r[3])
    a:close()
  end)
end)

describe("ending a connection", function()
  it("half closed still reads", function()
    local a, b = pair()
    a:write("request")
    assert.is_true(a:shutdown("write"))
    assert.equal("request", b:read("a"))
    b:write("answer")
    b:close()
    assert.equal("answer", a:read("a"))
    assert.same(pack(nil, "this side of the connection was shut down", "EPIPE"), pack(a:write("x")))
    a:close()
  end)

  it("shut down for reading is at its end", function()
    local a, b = pair()
    assert.is_true(a:shutdown("read"))
    assert.same(pack(nil, "closed", "EOF"), pack(a:read()))
    assert.is_true(a:write("still"))
    assert.equal("still", b:read())
    assert.is_true(a:shutdown())
    assert.equal("", b:read("a"))
    a:close()
    b:close()
  end)

  it("closed: every use says so", function()
    local a, b = pair()
    assert.is_false(a:closed())
    assert.is_true(a:close())
    assert.is_true(a:close())
    assert.is_true(a:closed())
    local closed = pack(nil, "closed", "EBADF")
    for _, call in ipairs { { "read" }, { "read", "l" }, { "read_until", "x" }, { "write", "x" }, { "flush" }, { "shutdown" }, { "peer" },
                            { "address" }, { "fd" }, { "option", "nodelay" } } do
      assert.same(closed, pack(a[call[1]](a, table.unpack(call, 2))))
    end
    assert.matches("^connection %(closed%)", tostring(a))
    b:close()
  end)

  it("by a to-be-closed variable", function()
    local a, b = pair()
    do
      local c <close> = a
      c:write("x")
    end
    assert.is_true(a:closed())
    assert.equal("x", b:read("a"))
    local s
    do
      local server <close> = net.listen("127.0.0.1:0")
      s = server
    end
    assert.is_true(s:closed())
    b:close()
  end)

  it("does not destroy what the peer has not read yet", function()
    for _ = 1, 50 do
      local a, b = pair()
      a:write("never read")
      b:write("an answer")
      b:close()                                -- with unread bytes
      assert.equal("an answer", a:read("a", 20))
      a:close()
    end
  end)
end)
