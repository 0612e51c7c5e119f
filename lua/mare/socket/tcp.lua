-- mare.socket.tcp: what LuaSocket's TCP objects do with names and several addresses. The rest of their methods is in C.
local core = require "mare.socket.core"
local common = require "mare.socket.common"

local tcp = {}

local MASTER, CLIENT, SERVER = "tcp{master}", "tcp{client}", "tcp{server}"

function tcp.new() return core.new(MASTER, 0) end

-- With a family the descriptor is there at once, as with LuaSocket.
local function of_family(family)
  return function()
    local it = core.new(MASTER, family)
    local ok, err = core.open(it, family)
    if not ok then return nil, err end
    return it
  end
end
tcp.new4, tcp.new6 = of_family(4), of_family(6)

local function bind(name)
  return function(self, address, port)
    common.check(self, name, MASTER, MASTER)
    address, port = common.string(address, name, 2), common.string(port, name, 3)
    if address == "*" then address = nil end
    local _, family = core.class(self)
    local list, err = common.addresses(address, port, family, "p")
    if not list then return nil, err end
    return common.first(self, list, core.bind)
  end
end

-- Without patience the first address must do: connecting to it goes on.
local function impatient(self) return (self:gettimeout()) == 0 end

local function connect(name)
  return function(self, address, port)
    common.check(self, name, "tcp{any}", MASTER, CLIENT, SERVER)
    address, port = common.string(address, name, 2), common.string(port, name, 3)
    local _, family = core.class(self)
    local list, err = common.addresses(address, port, family, "")
    local ok
    if list then ok, err = common.first(self, list, core.connect, impatient) end
    core.become(self, CLIENT)                    -- also if it failed: connecting may go on
    if not ok then return nil, err end
    return 1
  end
end

for _, class in ipairs { MASTER, CLIENT, SERVER } do
  local methods = core.classes[class]
  for _, name in ipairs { "bind", "setsockname" } do methods[name] = bind(name) end
  for _, name in ipairs { "connect", "setpeername" } do methods[name] = connect(name) end
end

return tcp
