--[[
mare.socket.unix: LuaSocket's socket.unix - streams and datagrams between programs of one machine, at paths. Called, it makes a stream.
]]
local core = require "mare.socket.core"
local common = require "mare.socket.common"

local unix = {}

local LOCAL = 1                                  -- the family
local MASTER, CLIENT, SERVER = "unixstream{master}", "unixstream{client}", "unixstream{server}"
local UNCONNECTED, CONNECTED = "unixdgram{unconnected}", "unixdgram{connected}"

local function new(class)
  return function()
    local it = core.new(class, LOCAL)
    local ok, err = core.open(it, LOCAL)
    if not ok then return nil, err end
    return it
  end
end
unix.stream, unix.dgram = new(MASTER), new(UNCONNECTED)
unix.tcp, unix.udp = unix.stream, unix.dgram

-- What `act` does with the path; then the object is of that class.
local function at(path, name, act, self, class)
  local address, err = core.path(common.string(path, name, 2))
  if not address then return nil, err end
  local ok
  ok, err = act(self, address)
  if not ok then return nil, err end
  if class then core.become(self, class) end
  return 1
end

local function bind(self, path)
  common.check(self, "bind", MASTER, MASTER, UNCONNECTED)
  return at(path, "bind", core.bind, self)
end

local function connect_stream(self, path)
  common.check(self, "connect", MASTER, MASTER)
  return at(path, "connect", core.connect, self, CLIENT)
end

local function connect_dgram(self, path)
  common.check(self, "connect", "unixdgram{any}", UNCONNECTED, CONNECTED)
  return at(path, "connect", core.connect, self, CONNECTED)
end

local function sendto(self, data, path)
  common.check(self, "sendto", UNCONNECTED, UNCONNECTED)
  data = common.string(data, "sendto", 2)
  local address, err = core.path(common.string(path, "sendto", 3))
  if not address then return nil, err end
  return core.sendto(self, data, address)
end

local function extend(connect, ...)
  for _, class in ipairs { ... } do
    local methods = core.classes[class]
    methods.bind, methods.setsockname, methods.connect, methods.setpeername = bind, bind, connect, connect
  end
end
extend(connect_stream, MASTER, CLIENT, SERVER)
extend(connect_dgram, UNCONNECTED, CONNECTED)
for _, class in ipairs { UNCONNECTED, CONNECTED } do core.classes[class].sendto = sendto end

return setmetatable(unix, { __call = function() return unix.stream() end })
