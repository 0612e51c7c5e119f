-- Works for src/module/oom_test.c, see oom.lua: mare.socket's objects as its Lua files use them, without names that another thread would look up.
local work, ok, joined, with = ...
local mare = require "mare"
local fiber = mare.fiber
local PATIENCE <const> = 10

local sockets = require "mare.socket.core"

local function at(host, port) return ok(sockets.address(host, port)) end

local function socket(things, class, family)
  local it = sockets.new(class, family)
  things[#things + 1] = it
  ok(sockets.open(it, family))
  return it
end

local INET <const>, UNIX <const> = 4, 1

local function pair(things)
  local server = socket(things, "tcp{master}", INET)
  ok(sockets.bind(server, at("127.0.0.1", 0)))
  ok(server:listen())
  local client = socket(things, "tcp{master}", INET)
  local _, port = ok(server:getsockname())
  ok(sockets.connect(client, at("127.0.0.1", tonumber(port))))
  sockets.become(client, "tcp{client}")
  local accepted = ok(server:accept())
  things[#things + 1] = accepted
  for _, s in ipairs { client, accepted } do s:settimeout(PATIENCE) end
  return client, accepted
end

function work.sockets()
  with({}, function(things)
    local a, b = pair(things)
    local reader = fiber.spawn(function()
      local line = ok(b:receive())
      local some = ok(b:receive(5, "pre"))
      return line .. some .. #ok(b:receive("*a"))
    end)
    local sent, why = pcall(function()
      ok(a:send("on\re\r\nabc"))
      ok(a:send(("x"):rep(200000)))
      ok(a:shutdown("send"))
    end)
    if not sent then a:close() end
    local got, value = pcall(joined, reader)
    if not sent then error(why, 0) end
    if not got then error(value, 0) end
    assert(value == "onepreab200001", value)
  end)
end

function work.socketselect()
  with({}, function(things)
    local a, b = pair(things)
    local readable, writable = sockets.select({ b }, { a }, PATIENCE)
    assert(#readable == 0 and writable[1] == a)
    local late = fiber.spawn(function()
      mare.sleep(0.0001)
      return ok(a:send("news\n"))
    end)
    local done, found = pcall(sockets.select, { b, things[1] }, nil, PATIENCE)
    local sent, why = pcall(joined, late)
    if not done then error(found, 0) end
    if not sent then error(why, 0) end
    assert(found[1] == b and ok(b:receive()) == "news")
  end)
end

function work.socketdatagrams()
  with({}, function(things)
    local a, b = socket(things, "udp{unconnected}", INET), socket(things, "udp{unconnected}", INET)
    b:settimeout(PATIENCE)
    ok(sockets.bind(b, at("127.0.0.1", 0)))
    local _, port = ok(b:getsockname())
    ok(sockets.sendto(a, "datagram", at("127.0.0.1", tonumber(port))))
    local text, host = ok(b:receivefrom(100000))
    assert(text == "datagram" and host == "127.0.0.1")
    ok(b:setoption("broadcast", true))
    assert(ok(b:getoption("broadcast")) == true)
  end)
end

function work.socketpaths()
  local path = os.tmpname()
  os.remove(path)
  local guard <close> = setmetatable({}, { __close = function() os.remove(path) end })   -- luacheck: ignore guard
  with({}, function(things)
    local server, client = socket(things, "unixstream{master}", UNIX), socket(things, "unixstream{master}", UNIX)
    ok(sockets.bind(server, ok(sockets.path(path))))
    ok(server:listen())
    ok(sockets.connect(client, ok(sockets.path(path))))
    sockets.become(client, "unixstream{client}")
    things[#things + 1] = ok(server:accept())
    things[#things]:settimeout(0)
    ok(client:send("half a line"))
    local line, why, part = things[#things]:receive()
    if line ~= nil or why ~= "timeout" then error(why, 0) end
    assert(part == "half a line")
    assert(ok(server:getsockname()) == path)
  end)
end
