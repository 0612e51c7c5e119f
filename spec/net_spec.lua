-- Sockets on the loopback interface: servers, connecting, options, datagrams, names, and what each leaves behind.
local mare = require "mare"
local net = require "mare.net"
local proc = require "spec.support.proc"
local sockets = require "spec.support.sockets"
local temporary = require "spec.support.temporary"
local unique = require "spec.support.unique"
local process, channel = mare.process, mare.channel
local pack, descriptors, with_server, pair = sockets.pack, sockets.descriptors, sockets.with_server, sockets.pair

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
    assert.is_true(sockets.descriptors_fall_to(before))
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
    assert.is_true(sockets.descriptors_fall_to(before))
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
    assert.is_true(sockets.descriptors_fall_to(before))
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
    local path = temporary()
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
    server = assert(net.listen("unix:" .. path, { mode = tonumber("640", 8) }))
    assert.equal(tonumber("640", 8), mare.file.stat(path).mode)
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
      assert.same(pack(nil, "timeout"), pack(server:accept(0)))
      assert.same(pack(nil, "timeout"), pack(server:accept(0.02)))
      server:timeout(0.01)
      assert.same(pack(nil, "timeout"), pack(server:accept()))
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
    assert.same({ "timeout" }, { message, code })
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
    local server, host, port, other
    repeat                                        -- at a port that nobody has at 127.0.0.1
      if server then server:close() end
      server = net.listen("[::1]:0")
      if not server then return pending("no IPv6 here") end
      host, port = server:address()
      other = net.listen { host = "127.0.0.1", port = port }
    until other
    other:close()
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
      c = assert(net.connect(port))               -- 127.0.0.1, then ::1 beside it
      kept[#kept + 1] = c
    until c:peer() == "::1" or #kept > 20
    assert.equal("::1", (c:peer()))
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

describe("a server at an abstract name that is taken", function()
  it("is refused with that name", function()
    local name = "unix:@mare.taken." .. unique()
    local server = assert(net.listen(name))
    assert.equal("listen at " .. name .. ": Address already in use", (select(2, net.listen(name))))
    server:close()
    assert.matches("^" .. name:gsub("%p", "%%%0") .. ": ", (select(2, net.connect(name))))
  end)
end)

describe("options of a server", function()
  it("that are refused leave nothing behind: it closes as ever", function()
    local server = assert(net.listen "127.0.0.1:0")
    local host, port = server:address()
    assert.is_false(pcall(server.option, server, "rcvbuf", 1 << 40))
    assert.is_false(pcall(server.option, server, "rcvbuf", "much"))
    assert.error_matches(function() server:option "nodely" end, "no such option; there are nodelay, keepalive")
    assert.is_true(server:option("rcvbuf", 30000))
    server:close()
    assert.same({ nil, "ECONNREFUSED" }, { (net.connect(host, port, { timeout = 20 })), select(3, net.connect(host, port, { timeout = 20 })) })
    assert.same({ nil, "closed", "EBADF" }, { server:option "rcvbuf" })
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
    local path = temporary()
    os.remove(path)
    local a, b = pair("unix:" .. path)
    assert.is_true(a:write("x\n"))
    assert.equal("x", b:read("l"))
    assert.equal(path, (a:peer()))
    a:close()
    b:close()
  end)

  it("have abstract names, too", function()
    local name = "unix:@mare-test-" .. unique()
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
    assert.same(pack(nil, "timeout"), pack(b:receive_from(0)))
    assert.same(pack(nil, "timeout"), pack(b:receive(0.02)))
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
    local path = temporary()
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
    local path = temporary()
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
