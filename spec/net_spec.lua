-- Sockets on the loopback interface: what each operation gives, waits for and leaves behind.
local mare = require "mare"
local net = require "mare.net"
local proc = require "spec.support.proc"
local process, channel = mare.process, mare.channel

local function pack(...) return { n = select("#", ...), ... } end

-- How many descriptors this OS process has open.
local stat <close> = assert(io.open("/proc/self/stat"))
local pid = stat:read("n")
-- The least of some counts: mare's monitor looks at its threads through a descriptor, for a moment.
local function descriptors()
  local least = math.huge
  for _ = 1, 6 do
    local n, list = 0, io.popen(("ls /proc/%d/fd"):format(pid))
    for _ in list:lines() do n = n + 1 end
    list:close()
    least = math.min(least, n)
  end
  return least
end

-- Runs f(server, host, port) with a fresh server, which is closed at the end.
local function with_server(f, where)
  local server = assert(net.listen(where or "127.0.0.1:0"))
  local host, port = server:address()
  local results = pack(pcall(f, server, host, port))
  server:close()
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

-- Two ends of one connection, both in this process.
local function pair(where)
  return with_server(function(server, host, port)
    local client = port and assert(net.connect(host, port)) or assert(net.connect("unix:" .. host))
    local other = assert(server:accept(10))
    return client, other
  end, where)
end

describe("descriptors", function()
  setup(function()                               -- what polling itself needs is made when it is first needed
    with_server(function(server)
      for _ = 1, 3 do server:accept(0.01) end
    end)
  end)

  it("are all closed after connections, servers and datagrams were used", function()
    collectgarbage()
    collectgarbage()
    local before = descriptors()
    for _ = 1, 10 do
      local a, b = pair()
      a:close()
      b:close()
      net.udp("127.0.0.1:0"):close()
    end
    assert.equal(before, descriptors())
  end)

  it("are closed by the collector when a program forgot to", function()
    collectgarbage()
    collectgarbage()
    local before = descriptors()
    for _ = 1, 10 do
      local a, b = pair()
      a:write("not read")
      b:setvbuf("full")
      b:write("not flushed")
    end
    collectgarbage()
    collectgarbage()
    assert.equal(before, descriptors())
  end)

  it("are closed when the process that had them ends", function()
    collectgarbage()
    collectgarbage()
    local before = descriptors()
    for _ = 1, 5 do
      assert(process.spawn(function()
        local n = require "mare.net"
        local server = n.listen("127.0.0.1:0")
        local c = n.connect(server:address())
        return c:write("x")
      end):wait())
    end
    assert.equal(before, descriptors())
  end)
end)

describe("net.listen", function()
  it("takes a port, text, or a table", function()
    for _, where in ipairs { 0, "0", ":0", "*:0", "127.0.0.1:0", "localhost:0" } do
      local server = assert(net.listen(where))
      local _, port = server:address()
      assert.is_true(port > 0)
      assert.equal("number", type(server:fd()))
      server:close()
    end
    local server = assert(net.listen { host = "127.0.0.1", port = 0, backlog = 5 })
    assert.equal("127.0.0.1", (server:address()))
    server:close()
  end)

  it("raises for options that there are not, which would be silently without effect", function()
    assert.error_matches(function() net.listen("127.0.0.1:0", { backlg = 1 }) end, "no option 'backlg'; there are backlog, reuseport, v6only")
    assert.error_matches(function() net.listen { port = 0, prt = 1 } end, "no option 'prt'")
    assert.error_matches(function() net.connect("127.0.0.1", 1, { timout = 1 }) end, "no option 'timout'; there are timeout, bind, nodelay")
    assert.error_matches(function() net.connect({ port = 1, [1] = 2 }) end, "no option '1'")
    assert.error_matches(function() net.connect("127.0.0.1", 1, { time = 1 }) end, "no option 'time'")
  end)

  it("raises for what is no address", function()
    for _, bad in ipairs { "a:b:c", "host", "[::1]", "x:99999", "", ":" } do
      assert.error_matches(function() net.listen(bad) end, "port")
    end
    assert.error_matches(function() net.listen(70000) end, "0 to 65535")
    assert.error_matches(function() net.listen(true) end, "address .* expected")
    assert.error_matches(function() net.listen {} end, "field 'port'")
    assert.error_matches(function() net.listen("unix:") end, "can't be empty")
    assert.error_matches(function() net.listen("unix:/" .. ("x"):rep(200)) end, "107 bytes")
  end)

  it("says which address is taken", function()
    with_server(function(_, host, port)
      local server, message, code = net.listen(host .. ":" .. port)
      assert.is_nil(server)
      assert.equal("EADDRINUSE", code)
      assert.equal(("listen at 127.0.0.1:%d: Address already in use"):format(port), message)
    end)
  end)

  it("shares a port between servers with reuseport", function()
    local a = assert(net.listen { host = "127.0.0.1", port = 0, reuseport = true })
    local _, port = a:address()
    local b = assert(net.listen { host = "127.0.0.1", port = port, reuseport = true })
    a:close()
    b:close()
  end)

  it("makes a Unix socket, takes over a file nobody listens on, and removes it", function()
    local path = os.tmpname()
    os.remove(path)
    local server = assert(net.listen("unix:" .. path))
    assert.equal(path, (server:address()))
    local other, _, code = net.listen("unix:" .. path)
    assert.is_nil(other)
    assert.equal("EADDRINUSE", code)
    server:close()
    assert.is_nil(io.open(path))
    -- A program that was killed leaves the file.
    local text = ("require 'mare.net'.listen 'unix:%s' os.execute('kill -9 $PPID')"):format(path)
    proc.lua(text, {}, { timeout = 20 })
    server = assert(net.listen("unix:" .. path))
    server:close()
    assert.is_nil(io.open(path))
    -- What is no socket is left alone.
    assert(io.open(path, "w")):close()
    other, _, code = net.listen("unix:" .. path)
    assert.is_nil(other)
    assert.equal("EEXIST", code)
    os.remove(path)
  end)
end)

describe("accept", function()
  it("gives nil after its time, and at once with 0", function()
    with_server(function(server)
      assert.same(pack(nil, "timeout", "ETIMEDOUT"), pack(server:accept(0)))
      assert.same(pack(nil, "timeout", "ETIMEDOUT"), pack(server:accept(0.02)))
      server:timeout(0.01)
      assert.same(pack(nil, "timeout", "ETIMEDOUT"), pack(server:accept()))
    end)
  end)

  it("wakes when the server is closed by another process", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local p = process.spawn(function(s) return s:accept() end, server)
    while p:status() ~= "waiting" do process.yield() end
    server:close()
    assert.same(pack(true, nil, "closed", "EBADF"), pack(p:wait()))
    assert.is_true(server:closed())
    assert.same(pack(nil, "closed", "EBADF"), pack(server:accept()))
    assert.same(pack(nil, "closed", "EBADF"), pack(server:address()))
  end)

  it("shares a server among processes: every connection is served once, whoever sleeps", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local _, port = server:address()
    local workers = {}
    for i = 1, 4 do
      workers[i] = process.spawn(function(s)
        local n = 0
        for c in s:connections() do
          c:write("served")
          c:close()
          n = n + 1
        end
        return n
      end, server)
    end
    -- A burst: one edge may stand for many of them.
    local clients = {}
    for i = 1, 200 do clients[i] = assert(net.connect("127.0.0.1", port)) end
    for i = 1, 200 do assert.equal("served", clients[i]:read("a", 20)) end
    for i = 1, 200 do clients[i]:close() end
    server:close()
    local sum = 0
    for i = 1, 4 do sum = sum + select(2, workers[i]:wait()) end
    assert.equal(200, sum)
  end)

  it("passes a burst on to others while the first does something else", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local _, port = server:address()
    local hold, got = channel.new(), channel.new(10)
    local workers = {}
    for i = 1, 2 do
      workers[i] = process.spawn(function(s)
        local c = s:accept()
        got:send(true)
        hold:receive()           -- it is busy with this one for ever
        return c:close()
      end, server)
    end
    for i = 1, 2 do while workers[i]:status() ~= "waiting" do process.yield() end end
    local a, b = assert(net.connect("127.0.0.1", port)), assert(net.connect("127.0.0.1", port))
    assert.is_true(got:receive(20))
    assert.is_true(got:receive(20))
    hold:close()
    for i = 1, 2 do assert.is_true((workers[i]:wait())) end
    a:close()
    b:close()
    server:close()
  end)
end)

describe("net.connect", function()
  it("takes text, a host and a port, a table, or a port", function()
    with_server(function(server, host, port)
      for _, where in ipairs { { host .. ":" .. port }, { host, port }, { { host = host, port = port } }, { port }, { "localhost", port },
                               { "localhost:" .. port }, { { host = "localhost", port = port }, { timeout = 10 } } } do
        local c = assert(net.connect(table.unpack(where)))
        assert.same({ host, port }, { c:peer() })
        local other = assert(server:accept(10))
        assert.same({ other:peer() }, { c:address() })
        other:close()
        c:close()
      end
    end)
  end)

  it("says who refused", function()
    local port = with_server(function(_, _, port) return port end)
    local c, message, code = net.connect("127.0.0.1", port)
    assert.is_nil(c)
    assert.equal("ECONNREFUSED", code)
    assert.equal(("127.0.0.1:%d: Connection refused"):format(port), message)
    c, message, code = net.connect("unix:/no/such/socket")
    assert.is_nil(c)
    assert.equal("ENOENT", code)
    assert.equal("unix:/no/such/socket: No such file or directory", message)
  end)

  it("says which name is unknown", function()
    local c, message, code = net.connect("no-such-host.invalid", 80, { timeout = 60 })
    assert.is_nil(c)
    assert.matches("no%-such%-host%.invalid", message)
    assert.matches("^EAI_", code)
  end)

  it("ends with its time when nobody answers", function()
    -- A server whose queue is full doesn't answer: the kernel drops what comes.
    local server = assert(net.listen { host = "127.0.0.1", port = 0, backlog = 1 })
    local host, port = server:address()
    local kept, message, code = {}, nil, nil
    for i = 1, 20 do
      local c
      c, message, code = net.connect(host, port, { timeout = 0.2 })
      if not c then break end
      kept[i] = c
    end
    assert.same({ "timeout", "ETIMEDOUT" }, { message, code })
    for _, k in ipairs(kept) do k:close() end
    server:close()
  end)

  it("leaves from the address it is bound to", function()
    with_server(function(server, host, port)
      local c = assert(net.connect(host, port, { bind = "127.0.0.2" }))
      assert.equal("127.0.0.2", (c:address()))
      local other = assert(server:accept(10))
      assert.equal("127.0.0.2", (other:peer()))
      c:close()
      other:close()
    end)
  end)

  it("speaks IPv6 where the system does, and falls back to the family that answers", function()
    local server = net.listen("[::1]:0")
    if not server then return pending("no IPv6 here") end
    local host, port = server:address()
    assert.equal("::1", host)
    local c = assert(net.connect("[::1]:" .. port))
    assert.same({ "::1", port }, { c:peer() })
    c:close()
    c = assert(net.connect(port))                 -- tries 127.0.0.1 and ::1
    assert.equal("::1", (c:peer()))
    c:close()
    server:close()
  end)

  it("goes on to the next address when one says nothing", function()
    local mute = assert(net.listen { host = "127.0.0.1", port = 0, backlog = 1 })
    local _, port = mute:address()
    local server = net.listen { host = "::1", port = port }
    if not server then
      mute:close()
      return pending("no IPv6 here, or somebody has the port")
    end
    local kept, c = {}                            -- until the kernel drops what comes to 127.0.0.1
    repeat
      c = net.connect("127.0.0.1", port, { timeout = 0.3 })
      kept[#kept + 1] = c
    until not c or #kept > 20
    assert.is_nil(c)
    c = assert(net.connect(port))                 -- 127.0.0.1, then ::1 beside it
    assert.equal("::1", (c:peer()))
    c:close()
    for _, k in ipairs(kept) do k:close() end
    server:close()
    mute:close()
  end)

  it("raises for wrong arguments", function()
    assert.error_matches(function() net.connect("127.0.0.1", "x") end, "0 to 65535")
    assert.error_matches(function() net.connect("127.0.0.1", 80, { timeout = "soon" }) end, "number of seconds")
    assert.error_matches(function() net.connect { port = 80, timeout = "soon" } end, "number of seconds")
    assert.error_matches(function() net.connect("127.0.0.1", 80, { bind = "localhost:0" }) end, "not a name")
    assert.error_matches(function() net.connect() end, "address")
  end)
end)

describe("reading", function()
  it("gives whatever there is, at least a byte", function()
    local a, b = pair()
    a:write("hello")
    assert.equal("hello", b:read())
    a:write("x")
    assert.equal("x", b:read())
    assert.same(pack(nil, "timeout", "ETIMEDOUT"), pack(b:read(nil, 0)))
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
    assert.same(pack(nil, "timeout", "ETIMEDOUT"), pack(b:read(5, 0.02)))
    assert.same(pack(nil, "timeout", "ETIMEDOUT"), pack(b:read("l", 0.02)))
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
    assert.same({ nil, "timeout", "ETIMEDOUT" }, { r[1], r[2], r[3] })
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
    assert.same(pack(nil, "timeout", "ETIMEDOUT"), pack(b:read(nil, 0.02)))
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
    assert.same(pack(nil, "timeout", "ETIMEDOUT"), pack(a:write("late")))
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

describe("options of a connection", function()
  it("can be read and set", function()
    local a, b = pair()
    assert.is_true(a:option("nodelay"))
    assert.is_true(b:option("nodelay"))
    assert.is_true(a:option("nodelay", false))
    assert.is_false(a:option("nodelay"))
    assert.is_false(a:option("keepalive"))
    assert.is_true(a:option("keepalive", true))
    assert.is_true(a:option("keepalive"))
    assert.is_true(a:option("rcvbuf", 30000))
    assert.is_true(a:option("rcvbuf") >= 30000)
    assert.is_false(a:option("linger"))
    assert.is_true(a:option("linger", 5))
    assert.equal(5, a:option("linger"))
    assert.is_true(a:option("linger", false))
    assert.is_false(a:option("linger"))
    assert.error_matches(function() a:option("colour") end, "no such option")
    assert.error_matches(function() a:option("nodelay", {}) end, "number expected")
    a:close()
    b:close()
  end)
end)

describe("Unix sockets", function()
  it("connect as others do", function()
    local path = os.tmpname()
    os.remove(path)
    local a, b = pair("unix:" .. path)
    assert.is_true(a:write("x\n"))
    assert.equal("x", b:read("l"))
    assert.equal(path, (a:peer()))
    a:close()
    b:close()
  end)

  it("have abstract names, too", function()
    local name = "unix:@mare-test-" .. math.random(1 << 40)
    local server = assert(net.listen(name))
    assert.equal(name:sub(6), (server:address()))
    local c = assert(net.connect(name))
    c:write("x")
    assert.equal("x", server:accept(10):read())
    c:close()
    server:close()
  end)
end)

describe("datagrams", function()
  it("arrive whole, with where they came from", function()
    local a, b = assert(net.udp("127.0.0.1:0")), assert(net.udp("127.0.0.1:0"))
    local _, pa = a:address()
    local _, pb = b:address()
    assert.is_true(a:send_to("hello", "127.0.0.1", pb))
    assert.is_true(a:send_to("", "127.0.0.1", pb))
    assert.is_true(a:send_to(("x"):rep(60000), "localhost", pb))
    assert.same({ "hello", "127.0.0.1", pa }, { b:receive_from(10) })
    assert.same({ "", "127.0.0.1", pa }, { b:receive_from(10) })
    assert.equal(60000, #b:receive(10))
    assert.same(pack(nil, "timeout", "ETIMEDOUT"), pack(b:receive_from(0)))
    assert.same(pack(nil, "timeout", "ETIMEDOUT"), pack(b:receive(0.02)))
    a:close()
    b:close()
    assert.same(pack(nil, "closed", "EBADF"), pack(a:send_to("x", "127.0.0.1", pb)))
    assert.same(pack(nil, "closed", "EBADF"), pack(a:receive()))
  end)

  it("go to where the socket is connected to", function()
    local a, b = assert(net.udp()), assert(net.udp("127.0.0.1:0"))
    local host, port = b:address()
    assert.is_true(a:connect(host, port))
    assert.same({ host, port }, { a:peer() })
    assert.is_true(a:send("to you"))
    local data, from, at = b:receive_from(10)
    assert.equal("to you", data)
    assert.is_true(b:send_to("and back", from, at))
    assert.equal("and back", a:receive(10))
    b:close()
    a:send("nobody")
    local r = pack(a:receive(10))
    assert.same({ nil, "ECONNREFUSED" }, { r[1], r[3] })
    assert.is_true(a:connect())
    a:close()
  end)

  it("that are too long are refused", function()
    local a = assert(net.udp("127.0.0.1:0"))
    local r = pack(a:send_to(("x"):rep(70000), "127.0.0.1", 9))
    assert.same({ nil, "EMSGSIZE" }, { r[1], r[3] })
    assert.is_true(a:option("broadcast", true))
    assert.is_true(a:option("broadcast"))
    a:close()
  end)

  it("cross Unix sockets", function()
    local path = os.tmpname()
    os.remove(path)
    local a, b = assert(net.udp("unix:" .. path)), assert(net.udp("unix:" .. path .. "2"))
    assert.is_true(b:send_to("hi", "unix:" .. path))
    assert.same({ "hi", path .. "2" }, { a:receive_from(10) })
    a:close()
    b:close()
    assert.is_nil(io.open(path))
  end)
end)

describe("net.resolve", function()
  it("gives addresses, of names and of addresses", function()
    assert.same({ "127.0.0.1" }, net.resolve("127.0.0.1"))
    local list = assert(net.resolve("localhost", 30))
    local known = { ["127.0.0.1"] = true, ["::1"] = true }
    assert.is_true(#list >= 1)
    for _, a in ipairs(list) do assert.is_true(known[a], a) end
    local r = pack(net.resolve("no-such-host.invalid", 60))
    assert.is_nil(r[1])
    assert.matches("^EAI_", r[3])
  end)
end)

describe("a descriptor limit", function()
  local function limited(n, text)
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(text)
    file:close()
    local r = proc.run(("ulimit -n %d && exec '%s' '%s'"):format(n, proc.interpreter, path),
      { timeout = 60, env = { LUA_CPATH = proc.cpath .. ";;" } })
    os.remove(path)
    return r
  end

  it("is an error, not a hang; the server goes on when there are some again", function()
    local r = limited(40, [[
      local mare = require "mare"
      local net, process = require "mare.net", mare.process
      local server = assert(net.listen("127.0.0.1:0"))
      local _, port = server:address()
      local p = process.spawn(function(s)
        local n = 0
        for c in s:connections() do
          if c:read("l", 60) == "stop" then s:close() end
          c:close()
          n = n + 1
        end
        return n
      end, server)
      local kept, message, code = {}, nil, nil
      while true do
        local c
        c, message, code = net.connect("127.0.0.1", port)
        if not c then break end
        kept[#kept + 1] = c
      end
      print(#kept > 5, (message:gsub("%d+", "N")), code)
      print(select(3, net.listen("127.0.0.1:0")), select(3, net.udp()))
      for i = #kept, 1, -1 do kept[i]:close() end
      local c = assert(net.connect("127.0.0.1", port))
      c:write("stop\n")
      print(c:read("a"))
      c:close()
      print(p:wait() == true)
    ]])
    assert.equal("", r.err)
    assert.equal("true\tN.N.N.N:N: Too many open files\tEMFILE\nEMFILE\tEMFILE\n\ntrue\n", r.out)
  end)

  it("is told instead of an unknown name, too", function()
    local script = [[
      local net, kept = require "mare.net", {}
      local full
      repeat
        local one = net.udp()
        if one then kept[#kept + 1] = one else full = true end
      until full
      print(net.resolve("localhost"))
    ]]
    local r = proc.run({ "sh", "-c", 'ulimit -n 40; exec "$0" run -', proc.bin }, { stdin = script })
    assert.equal("", r.err)
    assert.equal("nil\tlocalhost: Too many open files\tEMFILE\n", r.out)
  end)
end)
