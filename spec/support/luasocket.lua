-- A program written for LuaSocket that says what it finds. spec/socket_spec.lua runs it with LuaSocket and with mare.socket and compares:
-- its argument is the module's name. What is not the same by intent (docs/socket.md) is not in it.
local socket = require(arg[1])
local ports = {}

-- Numbers without regard to their kind, ports and addresses of objects by names.
local function plain(v)
  if ports[v] then return type(v) .. " PORT" end
  if type(v) == "number" then return ("%g"):format(v) end
  return (tostring(v):gsub("0x%x+", "ADDRESS"))
end

local function say(...)
  local t = table.pack(...)
  while t.n > 0 and t[t.n] == nil do t.n = t.n - 1 end    -- LuaSocket returns a varying number of trailing nils
  for i = 1, t.n do t[i] = plain(t[i]) end
  print(table.concat(t, " ", 1, t.n))
end

-- An error's text, without the place where it is found and the name of the function.
local function raised(f, ...)
  local ok, err = pcall(f, ...)
  say(ok, (tostring(err):gsub("^[^ ]*:%d+: ", ""):gsub("'[^']*' ", ""):gsub("argument #%d+", "argument")))
end

local function port_of(s)
  local _, port = s:getsockname()
  ports[port], ports[math.tointeger(tonumber(port))] = true, true
  return port
end

-- Waits until the socket has something, as a program would that must not sleep.
local function arrived(s) socket.select({ s }, nil, 10) end

print "master"
local m = socket.tcp()
say(m)
say(m:gettimeout())
raised(m.accept, m)
say(m:settimeout(1))
say(m:settimeout(3, "t"))
say(m:gettimeout())
say(m:settimeout(nil, "t"))
say(m:dirty())
say(m:bind("127.0.0.1", 0))
local port = port_of(m)
say(m:getsockname())
say(m:listen(5))
say(m)

print "client and server"
local c = socket.tcp()
say(c:connect("127.0.0.1", port))
say(c)
say(c:getpeername())
local s = m:accept()
say(s)
say(s:getsockname())
s:settimeout(0)
say(s:receive())
c:send("ab")
arrived(s)
say(s:receive("*l"))
say(s:receive(5))
c:send("x\ry\r\nz")
arrived(s)
say(s:receive("*l", "pre"))
say(s:receive("*l", "pre"))
say(s:receive("*a"))
say(s:receive("*a", "pre"))

print "send"
say(c:send("hello", 2, 3))
say(c:send("hello", 4))
say(c:send("hello", -2))
say(c:send("hello", 5, 2))
say(c:send(""))
say(c:send("hello", 0))
say(c:send("end\n"))
s:settimeout(10)
say(s:receive("*l"))
say(c:send("12345678"))
say(s:receive(3))
say(s:receive(5, "ab"))
say(s:receive(2))
raised(s.receive, s, "*x")
raised(s.receive, s, -1)
local received, sent = s:getstats()
say(received, sent)

print "options"
say(c:setoption("tcp-nodelay", true))
say(c:getoption("tcp-nodelay"))
say(c:getoption("linger").on)
say(c:setoption("linger", { on = true, timeout = 3 }))
say(c:getoption("linger").timeout)
say(c:setoption("linger", { on = false, timeout = 0 }))
say(c:setoption("keepalive", true))
say(c:getoption("keepalive"))

print "ends"
say(c:shutdown("send"))
say(s:receive("*a"))
say(s:receive(3))
say(s:receive("*l"))
say(c:send("x"))
say(s:send("the tail"))
s:close()
say(c:receive("*a"))
say(c:receive("*a"))
say(c:receive(2))
say(s:receive())
say(s:send("x"))
say(c:close())
say(c:close())
say(c:receive())
say(c)

print "errors"
local free = socket.bind("127.0.0.1", 0)
local closed_port = port_of(free)
free:close()
say(socket.connect("127.0.0.1", closed_port))
say(socket.bind("127.0.0.1", port))
say(m:close())
say((socket.connect("no-such-host.invalid", 80)))

print "udp"
local a, b = socket.udp(), socket.udp()
say(a)
say(a:setsockname("127.0.0.1", 0))
local up = port_of(a)
say(a:getsockname())
a:settimeout(0.05)
say(a:receive())
say(a:receivefrom())
a:settimeout(10)
say(b:sendto("data", "127.0.0.1", up))
local data, host = a:receivefrom()
say(data, host)
say(b:setpeername("127.0.0.1", up))
say(b)
say(b:getpeername())
say(b:send("abcdef"))
say(a:receive(3))
raised(b.sendto, b, "x", "127.0.0.1", up)
say(b:setpeername("*"))
say(b)
raised(b.send, b, "x")
say(a:close())
b:close()

print "select"
local r, w, e = socket.select(nil, nil, 0.01)
say(#r, #w, e)
local server = socket.bind("127.0.0.1", 0)
local at = port_of(server)
local one = socket.connect("127.0.0.1", at)
r, w, e = socket.select({ server }, { one }, 10)
say(#r, #w, e, r[1] == server, r[server], w[one])
local two = server:accept()
r, w, e = socket.select({ two }, nil, 0.01)
say(#r, #w, e)
one:send("x\ny\n")
r, w, e = socket.select({ two }, nil, 10)
say(#r, #w, e)
say(two:receive())
say(two:dirty())
r, w, e = socket.select({ two }, nil, 10)
say(#r, #w, e)
r, w, e = socket.select({ two, server }, { one, two }, 10)
say(#r, #w, e, r[two], r[server])
say(two:receive())
local n = socket.tcp()
n:settimeout(0)
local ok, err = n:connect("127.0.0.1", at)
if not ok then
  say(err == "timeout")
  r, w, e = socket.select(nil, { n }, 10)
  say(#r, #w, e)
  ok = n:connect("127.0.0.1", at)
  say(ok == 1 or ok)
else
  print "true\n0 1\ntrue"
end
say(n)
n:close()

print "names"
local ip, info = socket.dns.toip("127.0.0.1")
say(ip, info.ip[1])
say((socket.dns.toip("localhost")))
say(socket.dns.getaddrinfo("127.0.0.1")[1].family, socket.dns.getaddrinfo("127.0.0.1")[1].addr)
say(type(socket.dns.gethostname()))

print "exceptions"
local try = socket.newtry(function() print "finalised" end)
say(socket.protect(function() try(nil, "bad", 3) end)())
raised(socket.protect(function() error("x", 0) end))
say(socket.protect(function() return 1, 2 end)())
say(socket.skip(1, 2, 3))
say(try(1, 2))

print "pumps"
local source = socket.source("by-length", two, 2)
one:send("abc")
say(source())
say(source())
local sink = socket.sink("close-when-done", one)
say(sink("zz"))
say(sink(nil))
source = socket.source("until-closed", two)
say(source())
say(source())

print "time"
say(type(socket.gettime()), math.abs(socket.gettime() - os.time()) < 3)
local before = socket.gettime()
socket.sleep(0.02)
say(socket.gettime() - before >= 0.0199)
raised(one.accept, one)
raised(server.receive, server)
