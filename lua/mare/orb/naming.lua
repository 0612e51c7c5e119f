--[[
mare.orb.naming: asks a naming service for an object. Its IDL is in a repository of its own here: the program may load it, too.
]]
local cosnaming = require "mare.orb.services.cosnaming"
local idl = require "mare.orb.idl"
local basic = require "mare.orb.idl.basic"
local interface = require "mare.orb.interface"
local invoke = require "mare.orb.invoke"
local proxy = require "mare.orb.proxy"

local naming = {}

local operation

local function definition()
  if not operation then
    local repository = idl.repository()
    assert(repository:load(cosnaming, { name = "CosNaming.idl" }))
    operation = repository:operations(repository:lookup "CosNaming::NamingContext").resolve
  end
  return operation
end

--- The IOR that a naming context has under a name, { { id =, kind = } … }; raises what the service raises.
function naming.resolve(broker, context, name)
  local ready = broker.operations["CosNaming::resolve"]
  if not ready then
    ready = interface.operation(broker.env, "CosNaming::NamingContext", definition())
    broker.operations["CosNaming::resolve"] = ready
  end
  local state = proxy.state(broker:bind(context, basic.object))
  local found = invoke.run({ broker = broker, target = state.target, timeout = state.timeout }, ready, name)
  return found and rawget(found, "_ior")
end

return naming
