--[[
mare.oil.flavors: what the words of oil.init's `flavor` mean.

Of OiL's layers there are these: "corba", with or without ".client", ".server", ".intercepted", ".gencode" (both are always there),
"cooperative", "typed", "base", "kernel", "lua". "ludo", with or without ".client", ".server", ".intercepted", ".byref", is another ORB,
mare.oil.ludo; one ORB speaks one protocol.
]]
local fault = require "mare.oil.fault"

local flavors = {}

local KNOWN = { corba = true, ["corba.client"] = true, ["corba.server"] = true, ["corba.intercepted"] = true, ["corba.gencode"] = true,
                ["corba.ssl"] = false, ["kernel.ssl"] = false, cooperative = true, ["cooperative.client"] = true, ["cooperative.server"] = true,
                typed = true, base = true, kernel = true,
                ["kernel.client"] = true, ["kernel.server"] = true, intercepted = true, gencode = true, lua = true,
                ludo = true, ["ludo.client"] = true, ["ludo.server"] = true, ["ludo.intercepted"] = true, ["ludo.byref"] = true }

local WHY = {
  both = "one ORB speaks CORBA or LuDO; make two",
  ssl = "TLS is an option of the broker: oil.init{ options = { tls = { … } } }, see docs/orb.md",
}

local function refuse(name, why) error(fault.new("badinitialize", ("flavor '%s': %s"):format(name, why)), 0) end

--- { names = { … }, cooperative = boolean, ludo = boolean, byref = boolean } of a flavor's text.
function flavors.read(text)
  local flavor, corba = { names = {}, cooperative = false, ludo = false, byref = false }, false
  for name in text:gmatch "[^;%s]+" do
    if KNOWN[name] == nil then error(fault.new("badinitialize", ("unknown flavor '%s'"):format(name)), 0) end
    if not KNOWN[name] then refuse(name, WHY.ssl) end
    flavor.names[#flavor.names + 1] = name
    flavor.cooperative = flavor.cooperative or name:find "^cooperative" ~= nil
    flavor.ludo, flavor.byref = flavor.ludo or name:find "^ludo" ~= nil, flavor.byref or name == "ludo.byref"
    corba = corba or name:find "^corba" ~= nil
    if flavor.ludo and corba then refuse(text, WHY.both) end
  end
  return flavor
end

return flavors
