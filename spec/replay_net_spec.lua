-- Sockets in runs that can be repeated: mare run --seed. They reach each other, and nothing outside.
-- runs under: mare
-- needs: plain or asan
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local function run(seed, path, options) return proc.mare_command({ "run", "--seed", tostring(seed), path }, options) end
local function seeded(seed, text) return proc.with_file(text, function(path) return run(seed, path, { timeout = 60 }) end) end

-- Each seed gives the same each time: what is written, and so - a program that writes the time with all that happens - when and in which order.
-- How many different ones the seeds give; the last run.
local function each_time_the_same(text, seeds, times)
  return proc.with_file(text, function(path)
    local seen, different, last = {}, 0, nil
    for seed = 1, seeds do
      local first
      for i = 1, times or 3 do
        local r = run(seed, path, { timeout = 60 })
        first = first or r
        if proc.config == "plain" then assert.equal(first.err, r.err, "seed " .. seed .. ", run " .. i) end
        assert.equal(first.out, r.out, "seed " .. seed .. ", run " .. i)
        assert.equal(0, r.code, r.err)
      end
      if not seen[first.out] then different = different + 1 end
      seen[first.out], last = true, first
    end
    return different, last
  end)
end

-- "say" writes who it is, what happens, and the virtual time.
local say = [[
  local mare = require "mare"
  local net, process, fiber = require "mare.net", mare.process, mare.fiber
  local function say(...) print(("%.6f"):format(mare.clock()), ...) end
]]

describe("mare run --seed", function()
  it("runs clients and a server of mare.net", function()
    local different = each_time_the_same(say .. [[
      local server = assert(net.listen "localhost:0")
      local host, port = server:address()
      assert(host == "127.0.0.1" and port == 49152)
      local serving = process.spawn(function()
        for conn in server:connections() do
          fiber.spawn(function()
            for line in function() return conn:read "l" end do
              say("server", line)
              conn:write(line:upper(), "\n")
            end
            conn:close()
          end)
        end
      end)
      local clients = {}
      for i = 1, 3 do
        clients[i] = process.spawn(function()
          local conn = assert(net.connect(host, port))
          assert(select(2, conn:peer()) == port)
          for j = 1, 3 do
            conn:write("client ", i, ", line ", j, "\n")
            local line = conn:read "l"
            assert(line == ("CLIENT %d, LINE %d"):format(i, j))
            say(i, line)
          end
          conn:close()
        end)
      end
      for _, c in ipairs(clients) do assert(c:wait()) end
      server:close()
      assert(serving:wait())
    ]], 8)
    assert.is_true(different >= 4, different .. " different ones of 8")
  end)

  it("runs LuaSocket's clients, servers and select", function()
    local different = each_time_the_same(say .. [[
      local socket = require "mare.socket"
      local server = assert(socket.bind("*", 0))
      local _, port = server:getsockname()
      local clients = {}
      for i = 1, 2 do
        clients[i] = process.spawn(function()
          local socket = require "mare.socket"
          local c = assert(socket.connect("localhost", port))
          for j = 1, 3 do
            assert(c:send(i .. "." .. j .. "\n"))
            say(i, assert(c:receive()))
          end
          c:close()
        end)
      end
      local open, ended = { server }, 0
      while ended < 2 do
        for _, s in ipairs((socket.select(open, nil, 10))) do
          if s == server then
            open[#open + 1] = assert(server:accept())
          else
            local line, err = s:receive()
            say("server", line, err)
            if line then
              s:send(line .. "\n")
            else
              ended = ended + 1
              for k, o in ipairs(open) do if o == s then table.remove(open, k) break end end
              s:close()
            end
          end
        end
      end
    ]], 8)
    assert.is_true(different >= 3, different .. " different ones of 8")
  end)

  it("runs brokers of CORBA, whose keys come from the seed", function()
    local different, r = each_time_the_same(say .. [[
      local orb = require "mare.orb"
      local idl = "interface Counter { long add(in long n); };"
      local place, over = mare.channel.new(), mare.channel.new()
      local serving = process.spawn(function()
        local broker = orb.init { host = "127.0.0.1" }
        broker:load(idl)
        local total = 0
        local function add(_, n)
          local before = total
          process.yield()
          total = before + n
          return total
        end
        place:send(tostring(broker:serve({ add = add }, "Counter")))
        over:receive()
        broker:shutdown(true)
      end)
      local reference, clients = place:receive(), {}
      print(reference)
      for i = 1, 3 do
        clients[i] = process.spawn(function()
          local broker <close> = orb.init()
          broker:load(idl)
          local counter = broker:proxy(reference)
          for _ = 1, 3 do say(i, counter:add(1)) end
        end)
      end
      for _, c in ipairs(clients) do assert(c:wait()) end
      over:close()
      assert(serving:wait())
    ]], 6)
    assert.matches("^IOR:", r.out)
    assert.is_true(different >= 3, different .. " different ones of 6")
  end)

  it("runs a broker that listens on all addresses", function()
    local r = seeded(2, [[
      local orb = require "mare.orb"
      local one, two = orb.init(), orb.init()
      for _, b in ipairs { one, two } do b:load "interface Next { long f(in long n); };" end
      local reference = tostring(one:serve({ f = function(_, n) return n + 1 end }, "Next"))
      print(two:proxy(reference):f(41))
      two:close()
      one:shutdown(true)
    ]])
    assert.equal("42\n", r.out, r.err)
  end)

  it("runs TLS between processes; how long its messages are does not differ", function()
    local dir = temporary()
    os.remove(dir)
    assert(os.execute(("mkdir %s && cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem " ..
      "-out cert.pem -days 1 -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>log"):format(dir, dir)))
    local text = say .. ("local dir = %q\n"):format(dir) .. [[
      local tls = require "mare.tls"
      local server = assert(tls.listen("127.0.0.1:0", { cert = dir .. "/cert.pem", key = dir .. "/key.pem" }))
      local _, port = server:address()
      process.spawn(function()
        for conn in server:connections() do
          fiber.spawn(function()
            conn:write(conn:read "l" or "", "\n")
            conn:close()
          end)
        end
      end)
      local between = assert(net.listen "127.0.0.1:0")
      local _, open = between:address()
      process.spawn(function()
        for a in between:connections() do
          local b = assert(net.connect("127.0.0.1", port))
          local function copy(from, to, name)
            for bytes in function() return from:read() end do
              say(name, #bytes)
              to:write(bytes)
            end
            to:close()
          end
          fiber.spawn(copy, a, b, ">")
          fiber.spawn(copy, b, a, "<")
        end
      end)
      local clients = {}
      for i = 1, 2 do
        clients[i] = process.spawn(function()
          local conn = assert(tls.connect("127.0.0.1", open, { ca = dir .. "/cert.pem", server = "localhost" }))
          conn:write("hello ", i, "\n")
          say(conn:read "l")
          conn:close()
        end)
      end
      for _, c in ipairs(clients) do assert(c:wait()) end
      os.exit(0)
    ]]
    local different = each_time_the_same(text, 6, 4)
    os.execute("rm -r " .. dir)
    assert.is_true(different >= 3, different .. " different ones of 6")
  end)

  it("runs datagrams and Unix sockets, of which no file is made", function()
    local path = temporary()
    os.remove(path)
    each_time_the_same(say .. ("local path = %q\n"):format(path) .. [[
      local a, b = assert(net.udp "127.0.0.1:0"), assert(net.udp())
      local _, port = a:address()
      process.spawn(function()
        for i = 1, 3 do
          local data, host, from = a:receive_from()
          say(data, host, from)
          a:send_to(data .. "!", host, from)
        end
      end, a)
      for i = 1, 3 do
        b:send_to("datagram " .. i, "localhost", port)
        say(b:receive_from())
      end
      local server = assert(net.listen("unix:" .. path))
      assert(not io.open(path))
      local serving = process.spawn(function()
        local conn = server:accept()
        conn:write(conn:read "l", "\n")
      end)
      local conn = assert(net.connect("unix:" .. path))
      conn:write "hello\n"
      say(conn:read "l", conn:peer())
      assert(serving:wait())
      say(conn:read "l")
      server:close()
      say(net.connect("unix:" .. path))
      say(net.connect "unix:@mare sim")
    ]], 4)
  end)

  it("does not cut what is read by default", function()
    local r = seeded(0, [[
      local net = require "mare.net"
      local server = net.listen(0)
      local conn = net.connect(select(2, server:address()))
      local peer = server:accept()
      for i = 1, 50 do
        conn:write(("x"):rep(i * 20))
        assert(#peer:read() == i * 20)
      end
      print "whole"
    ]])
    assert.equal("whole\n", r.out, r.err)
  end)

  it("cuts a read or a write where a list says so", function()
    local text = [[
      local net = require "mare.net"
      local server = net.listen(0)
      local conn = net.connect(select(2, server:address()))
      local peer = server:accept()
      conn:write "hello"
      print(peer:read(), peer:read(nil, 0))
    ]]
    assert.equal("hello\tnil\ttimeout\n", seeded("0:", text).out)
    local seen = {}
    for point = 1, 20 do seen[seeded(("0:1.%d~2"):format(point), text).out] = true end
    assert.is_true(seen["hello\tnil\ttimeout\n"])
    assert.is_true(seen["he\tllo\n"])
  end)

  it("refuses a connection to nobody, and says what is outside", function()
    local r = seeded(1, [[
      local net = require "mare.net"
      local socket = require "mare.socket"
      print(net.connect "127.0.0.1:80")
      print(net.connect "localhost:80")
      print(socket.connect("localhost", 80))
      print(net.connect "unix:/no/such/socket")
      print(pcall(net.connect, "192.0.2.1", 80))
      print(pcall(net.connect, "[2001:db8::1]:80"))
      print(pcall(net.connect, "example.org", 80))
      print(pcall(net.resolve, "example.org"))
      print(pcall(socket.connect, "192.0.2.1", 80))
      print(pcall(net.udp().send_to, net.udp(), "x", "192.0.2.1", 53))
      print(pcall(require "mare".wait_fd, 0, "r"))
      print(pcall(socket.select, { { getfd = function() return 0 end } }, nil, 1))
      print(pcall(function() socket.tcp():setfd(0) end))
    ]])
    local lines = {}
    for line in r.out:gmatch "[^\n]+" do lines[#lines + 1] = line end
    for i = 1, 4 do assert.matches(i == 4 and "^nil\t.*ENOENT" or "^nil\t.*[Cc]onnection refused", lines[i], r.out) end
    for i = 5, 13 do assert.matches("^false\t.*%-%-seed: .* outside the program", lines[i], r.out) end
    assert.equal(13, #lines, r.out .. r.err)
    assert.matches("192.0.2.1:80: ", r.out, 1, true)
    assert.matches("[2001:db8::1]:80: ", r.out, 1, true)
  end)

  it("gives a program other addresses than its machine has, as long as it listens there", function()
    local r = seeded(1, [[
      local net = require "mare.net"
      local server = assert(net.listen "192.0.2.1:80")
      local conn = assert(net.connect "192.0.2.1:80")
      print(conn:address(), (conn:peer()))
      server:close()
      conn:close()
      print(pcall(net.connect, "192.0.2.1:80"))
    ]])
    assert.matches("^192.0.2.1\t192.0.2.1\nfalse\t.*%-%-seed: ", r.out, r.err)
  end)

  it("frees addresses and tells peers when a process is killed", function()
    local r = seeded(3, [[
      local mare = require "mare"
      local net, process, channel = require "mare.net", mare.process, mare.channel
      local ready = channel.new()
      local server = process.spawn(function()
        local listener = assert(net.listen "127.0.0.1:7000")
        ready:send(true)
        local conn = listener:accept()
        ready:send(true)
        conn:read "l"
      end)
      ready:receive()
      local conn = assert(net.connect "127.0.0.1:7000")
      ready:receive()
      server:kill()
      server:wait()
      print(conn:read "l")
      print((net.connect "127.0.0.1:7000"))
      local again = assert(net.listen "127.0.0.1:7000")
      print(net.listen "127.0.0.1:7000")
    ]])
    assert.matches("^nil\tclosed\tEOF\nnil\nnil\t.*EADDRINUSE", r.out, r.err)
  end)

  it("notices a deadlock of processes that wait for each other's bytes", function()
    local r = seeded(1, [[
      local mare = require "mare"
      local net = require "mare.net"
      local server = net.listen(0)
      local _, port = server:address()
      mare.process.spawn(function() local conn = server:accept() conn:read "l" end)
      local conn = net.connect(port)
      conn:read "l"
    ]])
    assert.equal(1, r.code)
    assert.matches("mare: deadlock: every process waits", r.err)
    assert.matches("read at", r.err)
  end)

  it("lets the time of a wait for a socket pass at once", function()
    local r = seeded(1, [[
      local mare = require "mare"
      local net = require "mare.net"
      local server = net.listen(0)
      local conn = net.connect(select(2, server:address()))
      print(conn:read("l", 3600))
      print(server:accept(0) ~= nil, server:accept(3600))
      print(mare.wait_fd(conn:fd(), "w"), mare.wait_fd(conn:fd(), "r", 60))
      print(mare.clock() > 7200)
    ]])
    assert.equal("nil\ttimeout\ntrue\tnil\ttimeout\nw\tnil\ttimeout\ntrue\n", r.out, r.err)
  end)

  it("moves connections to other processes, and waits for them in select", function()
    each_time_the_same(say .. [[
      local server, c = net.listen(0), mare.channel.new(10)
      local _, port = server:address()
      for i = 1, 2 do
        process.spawn(function()
          local conn = net.connect(port)
          conn:write("from ", i, "\n")
          say(i, conn:read "l")
        end)
      end
      for i = 1, 2 do
        local conn = server:accept()
        process.spawn(function(conn)
          mare.select { conn }
          local line = conn:read "l"
          c:send(line)
          conn:write(line, "\n")
        end, conn)
      end
      for i = 1, 2 do say(c:receive()) end
    ]], 6)
  end)

  it("waits in LuaSocket's select for a connection of mare.net, too", function()
    local r = seeded(1, [[
      local mare = require "mare"
      local net, socket = require "mare.net", require "mare.socket"
      local server = net.listen(0)
      local conn = net.connect(select(2, server:address()))
      local peer = server:accept()
      mare.fiber.spawn(function() mare.sleep(1) peer:write "hello" end)
      local object = { getfd = function() return conn:fd() end }
      print(#socket.select({ object }, nil, 0.5), #socket.select({ object }, nil, 5), conn:read())
    ]])
    assert.equal("0\t1\thello\n", r.out, r.err)
  end)

  it("sends much between processes that read in pieces", function()
    local r = seeded(7, [[
      local mare = require "mare"
      local net = require "mare.net"
      local server = net.listen(0)
      local _, port = server:address()
      local sender = mare.process.spawn(function()
        local conn = net.connect(port)
        for i = 1, 40 do conn:write(string.char(64 + i):rep(10000 + i)) end
        conn:close()
      end)
      local conn, n = server:accept(), 0
      for i = 1, 40 do assert(conn:read(10000 + i) == string.char(64 + i):rep(10000 + i)) end
      print(conn:read "a")
      assert(sender:wait())
    ]])
    assert.equal("\n", r.out, r.err)
  end)
end)
