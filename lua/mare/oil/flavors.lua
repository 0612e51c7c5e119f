--[[
mare.oil.flavors: what the words of oil.init's `flavor` mean.

Of OiL's layers there are these: "corba", with or without ".client", ".server", ".intercepted", ".gencode" (both are always there), "cooperative",
"typed", "base", "kernel", "lua". "ludo" is another protocol, which this ORB does not speak: WHY says who does.
]]
local fault = require "mare.oil.fault"

local flavors = {}

local KNOWN = { corba = true, ["corba.client"] = true, ["corba.server"] = true, ["corba.intercepted"] = true, ["corba.gencode"] = true,
                ["corba.ssl"] = false, ["kernel.ssl"] = false, cooperative = true, ["cooperative.client"] = true, ["cooperative.server"] = true,
                typed = true, base = true, kernel = true,
                ["kernel.client"] = true, ["kernel.server"] = true, intercepted = true, gencode = true, lua = true,
                ludo = false, ["ludo.byref"] = false }

local WHY = {
  ludo = "this module's ORB speaks CORBA only. Objects without IDL are mare.ludo's; ludo.init{ oil = true } also serves clients of OiL's LuDO, " ..
         "its servers can't be called: see docs/ludo.md",
  ssl = "TLS is an option of the broker: oil.init{ options = { tls = { … } } }, see docs/orb.md",
}

--- { names = { … }, cooperative = boolean } of a flavor's text.
function flavors.read(text)
  local flavor = { names = {}, cooperative = false }
  for name in text:gmatch "[^;%s]+" do
    if KNOWN[name] == nil then error(fault.new("badinitialize", ("unknown flavor '%s'"):format(name)), 0) end
    if not KNOWN[name] then error(fault.new("badinitialize", ("flavor '%s': %s"):format(name, name:find "ssl" and WHY.ssl or WHY.ludo)), 0) end
    flavor.names[#flavor.names + 1] = name
    flavor.cooperative = flavor.cooperative or name:find "^cooperative" ~= nil
  end
  return flavor
end

return flavors
