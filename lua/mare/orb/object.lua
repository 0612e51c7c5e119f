--[[
mare.orb.object: what every proxy can do beside its operations: obj:_is_a(id), obj:_narrow(name) … They are found by broker.everywhere.
_interface, _is_a over the wire and _non_existent are ordinary operations (interface.lua).
]]
local ior = require "mare.orb.giop.ior"
local exception = require "mare.orb.exception"
local near = require "mare.orb.near"
local proxy = require "mare.orb.proxy"

local object = { methods = {} }
local methods = object.methods

local options = { timeout = true }

-- Of a broker that is closed a reference can be compared and shown, and nothing else.
local function open_state(self)
  local state = proxy.state(self)
  if state.broker.closed then error(exception.system("BAD_INV_ORDER", 4, "COMPLETED_NO"), 0) end
  return state
end

--- obj:_with{ timeout = seconds }: the same object with a time limit of its own for each call. 0 is none.
function methods._with(self, given)
  open_state(self)
  if type(given) ~= "table" then error("_with takes a table, such as { timeout = 1 }", 2) end
  for name in pairs(given) do
    if not options[name] then
      local meant = near(tostring(name), { "timeout" })
      error(("_with has no option '%s'%s"):format(tostring(name), meant and "; did you mean " .. meant .. "?" or "; there is timeout"), 2)
    end
  end
  local timeout = given.timeout
  if timeout ~= nil and not (type(timeout) == "number" and timeout >= 0) then error("_with: timeout is a number of seconds", 2) end
  return proxy.state(self).broker:with(self, given)
end

--- obj:_request(operation [, signature]) -> a request, see request.lua.
function methods._request(self, name, given)
  open_state(self)
  return require "mare.orb.request".new(self, name, given)
end

local function id_of(broker, name)
  if type(name) ~= "string" then return proxy.interface(broker, name).id end
  if name:find("^%a+:.+:[%d.]+$") then return name end
  return broker:interface(name).id
end

-- Whether the IDL alone says that it is one. A checked type id does, and so does what the object has confirmed.
local function is_known(state, id)
  if state.target.verified[id] then return true end
  local own = state.broker:interface_in(state.target.ior)
  return own ~= nil and state.broker:is_a(own, id)
end

--- obj:_is_a(repository id or name) -> boolean: asks the object unless its type id says so.
function methods._is_a(self, name)
  local state = open_state(self)
  local id = id_of(state.broker, name)
  if id == "IDL:omg.org/CORBA/Object:1.0" or is_known(state, id) then return true end
  local is = state.broker.invoke({ broker = state.broker, target = state.target, timeout = state.timeout }, state.broker:operation("_is_a"), id)
  if is then state.target.verified[id] = true end
  return is
end

--- obj:_narrow(interface) -> the object through that interface | nil: it is none.
function methods._narrow(self, name)
  local state = open_state(self)
  local def = proxy.interface(state.broker, name)
  if not methods._is_a(self, def.id) then return nil end
  return methods._unchecked_narrow(self, def)
end

--- As _narrow, without asking.
function methods._unchecked_narrow(self, name)
  local state = open_state(self)
  local def = proxy.interface(state.broker, name)
  local other = state.broker:bind(rawget(self, "_ior"), def)
  proxy.state(other).check = nil
  if proxy.state(other).timeout == state.timeout then return other end
  return state.broker:with(other, { timeout = state.timeout or 0 })
end

--- obj:_non_existent() -> true if its server says that there is no such object. _not_existent is its name in older servers.
function methods._non_existent(self)
  local state = proxy.state(self)
  local ok, gone = pcall(state.broker.invoke, { broker = state.broker, target = state.target, timeout = state.timeout },
                         state.broker:operation("_non_existent"))
  if ok then return gone end
  if exception.is(gone, "IDL:omg.org/CORBA/OBJECT_NOT_EXIST:1.0") then return true end
  return error(gone, 0)
end

methods._not_existent = methods._non_existent

--- obj:_is_equivalent(other) -> boolean: do both references lead to one object, as far as can be told without asking?
function methods._is_equivalent(self, other)
  if other == nil then return false end
  if not proxy.is(other) then error("_is_equivalent compares with another object", 2) end
  if self == other then return true end
  local a, b = proxy.state(self).target.origin[1], proxy.state(other).target.origin[1]
  return a ~= nil and b ~= nil and a.host == b.host and a.port == b.port and a.key == b.key
end

--- obj:_hash(most) -> integer from 0 to most: equal for equal references.
function methods._hash(self, most)
  local h = 5381
  local bytes = rawget(self, "_ior")
  for i = 1, #bytes do h = (h * 33 + bytes:byte(i)) & 0xffffffff end
  return most and h % (most + 1) or h
end

--- obj:_get_interface_name(): the interface it is used through, "Mod::Name".
function methods._interface_name(self)
  local def = proxy.state(self).def
  return def.scoped or def.name
end

--- obj:_to_string() -> "IOR:…", as tostring(obj).
function methods._to_string(self) return ior.stringify(rawget(self, "_ior")) end

return object
