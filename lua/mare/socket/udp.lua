--[[
mare.socket.udp: LuaSocket's UDP objects over mare.net. The descriptor is made when it is first needed, so that its family is that of the
address it is bound to. Field `peer`: it is connected.
]]
local net = require "mare.net"
local common = require "mare.socket.common"

local unconnected, connected = common.class "udp{unconnected}", common.class "udp{connected}"
local udp = { unconnected = unconnected, connected = connected, DATAGRAM = 8192 }

function udp.new() return setmetatable({}, unconnected) end

local function shared(name, f)
  for _, class in ipairs { unconnected, connected } do class.__index[name] = f end
end

local function handle(self)
  if self.closed then return nil, "closed" end
  if self.socket then return self.socket end
  local made, err, code = net.udp()
  if not made then return nil, common.text(err, code) end
  self.socket = made
  return made
end
udp.handle = handle

shared("settimeout", common.settimeout)
shared("gettimeout", common.gettimeout)
shared("dirty", function() return false end)

shared("close", function(self)
  if self.socket then self.socket:close() end
  self.closed = true
  return 1
end)

shared("getfd", function(self)
  local socket = handle(self)
  return socket and socket:fd() or -1
end)

shared("setsockname", function(self, address, port)
  if self.socket then return nil, "Invalid argument" end
  local made, err, code = net.udp({ host = address ~= "*" and address or nil, port = common.port(port) })
  if not made then return nil, common.text(err, code) end
  self.socket = made
  return 1
end)

shared("getsockname", function(self)
  if not self.socket then return nil, "Bad file descriptor" end
  local host, port = self.socket:address()
  if not host then return nil, "closed" end
  if host == "::" then host = "0.0.0.0" end
  return host, ("%d"):format(port), host:find(":", 1, true) and "inet6" or "inet"
end)

shared("setpeername", function(self, address, port)
  local socket, why = handle(self)
  if not socket then return nil, why end
  if address == "*" then
    local ok, err, code = socket:connect()
    if not ok then return nil, common.text(err, code) end
    setmetatable(self, unconnected)
    return 1
  end
  local list, err, code = net.resolve(address)
  if not list then return nil, common.text(err, code) end
  for _, a in ipairs(list) do
    local ok
    ok, err, code = socket:connect(a, common.port(port))
    if ok then
      setmetatable(self, connected)
      return 1
    end
  end
  return nil, common.text(err, code)
end)

local function take(self, size, how)
  local socket, why = handle(self)
  if not socket then return nil, why end
  local data, host, port = socket[how](socket, common.seconds(self))
  if not data then return nil, common.text(host, port) end
  return data:sub(1, size or udp.DATAGRAM), host, port
end

shared("receive", function(self, size)
  local data, err = take(self, size, "receive")
  if not data then return nil, err end
  return data
end)

function unconnected.__index:receivefrom(size) return take(self, size, "receive_from") end

function unconnected.__index:sendto(data, address, port)
  local socket, why = handle(self)
  if not socket then return nil, why end
  local ok, err, code = socket:send_to(data, address, common.port(port))
  if not ok then return nil, common.text(err, code) end
  return #data
end

function connected.__index:send(data)
  local socket, why = handle(self)
  if not socket then return nil, why end
  local ok, err, code = socket:send(data)
  if not ok then return nil, common.text(err, code) end
  return #data
end

function connected.__index:getpeername()
  local host, port = self.socket:peer()
  if not host then return nil, "closed" end
  return host, port, host:find(":", 1, true) and "inet6" or "inet"
end

local OPTIONS = { broadcast = "broadcast", reuseaddr = "reuseaddr", reuseport = "reuseport", ["recv-buffer-size"] = "rcvbuf",
                  ["send-buffer-size"] = "sndbuf", ["ipv6-v6only"] = "v6only", ["ip-ttl"] = "ttl" }

local function option(self, name, ...)
  local own = OPTIONS[name] or error(("bad argument #1 (unsupported option '%s')"):format(tostring(name)), 3)
  local socket, why = handle(self)
  if not socket then return nil, why end
  local value, err, code = socket:option(own, ...)
  if value == nil then return nil, common.text(err, code) end
  return value
end

shared("setoption", function(self, name, value)
  local ok, err = option(self, name, value == nil and true or value)
  if not ok then return nil, err end
  return 1
end)
shared("getoption", function(self, name) return option(self, name) end)

common.strangers(unconnected, connected)

return udp
