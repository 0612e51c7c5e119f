-- mare.socket.udp: what LuaSocket's UDP objects do with names and several addresses. The rest of their methods is in C.
local core = require "mare.socket.core"
local common = require "mare.socket.common"

local udp = { DATAGRAM = 8192 }

local UNCONNECTED, CONNECTED = "udp{unconnected}", "udp{connected}"

function udp.new() return core.new(UNCONNECTED, 0) end

local function of_family(family)
  return function()
    local it = core.new(UNCONNECTED, family)
    local ok, err = core.open(it, family)
    if not ok then return nil, err end
    return it
  end
end
udp.new4, udp.new6 = of_family(4), of_family(6)

local function setsockname(self, address, port)
  common.check(self, "setsockname", UNCONNECTED, UNCONNECTED)
  address, port = common.string(address, "setsockname", 2), common.string(port, "setsockname", 3)
  if address == "*" then address = nil end
  local _, family = core.class(self)
  local list, err = common.addresses(address, port, family, "dp")
  if not list then return nil, err end
  return common.first(self, list, core.bind)
end

local function setpeername(self, address, port)
  common.check(self, "setpeername", "udp{any}", UNCONNECTED, CONNECTED)
  address = common.string(address, "setpeername", 2)
  if address == "*" then
    core.disconnect(self)
    core.become(self, UNCONNECTED)
    return 1
  end
  port = common.string(port, "setpeername", 3)
  local _, family = core.class(self)
  local list, err = common.addresses(address, port, family, "d")
  if not list then return nil, err end
  local ok
  ok, err = common.first(self, list, core.connect)
  if not ok then return nil, err end
  core.become(self, CONNECTED)
  return 1
end

local function sendto(self, data, address, port)
  common.check(self, "sendto", UNCONNECTED, UNCONNECTED)
  data = common.string(data, "sendto", 2)
  address, port = common.string(address, "sendto", 3), common.string(port, "sendto", 4)
  local _, family = core.class(self)
  local list, _, why = common.addresses(address, port, family, "dn")
  if not list then return nil, why end
  if family == 0 then
    local ok, err = core.open(self, list[1].family)
    if not ok then return nil, err end
    core.settle(self, list[1].family)
  end
  return core.sendto(self, data, list[1].address)
end

for _, class in ipairs { UNCONNECTED, CONNECTED } do
  local methods = core.classes[class]
  methods.setsockname, methods.setpeername, methods.sendto = setsockname, setpeername, sendto
end

return udp
