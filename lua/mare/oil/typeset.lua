--[[
mare.oil.typeset: orb.types, what a broker has loaded, by name and by id. Names may begin with `::`.
]]
local basic = require "mare.orb.idl.basic"
local descriptor = require "mare.oil.descriptor"
local discover = require "mare.oil.discover"
local Exception = require "mare.oil.Exception"

local typeset = {}
typeset.__index = typeset

function typeset.new(orb) return setmetatable({ orb = orb }, typeset) end

local function find(self, name)
  if name == "Object" or name == "CORBA::Object" then return basic.object end
  if basic[name] then return basic[name] end
  return self.orb.broker.repository:lookup(name)
end

--- The definition of a scoped name | nil.
function typeset:lookup(name)
  local def = find(self, (name:gsub("^::", "")))
  return def and descriptor.dress(def) or nil
end

--- The definition of a repository id | nil.
function typeset:lookup_id(id)
  local def = id == basic.object.id and basic.object or self.orb.broker.repository.ids[id]
  return def and descriptor.dress(def) or nil
end

-- CORBA's own interfaces are declared from the start; who asks for one wants its operations.
local function complete(self, def)
  if def and def.forward and def.id:find "^IDL:omg%.org/CORBA/" then
    discover.standard(self.orb)
    return self:lookup_id(def.id)
  end
  return def
end

local function unknown(name)
  return nil, Exception({ "unknown type (got $type)", error = "badtype", type = name, minor = 0, completed = "COMPLETED_NO" },
                        "IDL:omg.org/CORBA/INTERNAL:1.0")
end

--- The definition that a name, an id or a descriptor means, as it was loaded last | nil, exception. What is unknown is asked of the repository
-- that setIR
--- has named.
function typeset:resolve(what)
  if type(what) == "table" then
    local def = rawget(what, "kind") and what or nil
    if not def then return unknown(tostring(what)) end
    local latest = def.id and self.orb.broker.repository.ids[def.id]
    if latest then return complete(self, descriptor.dress(latest)) end
    if def.id and def ~= basic.object and not def.forward then self:register(def) end
    return descriptor.dress(def)
  end
  if type(what) ~= "string" then return unknown(tostring(what)) end
  local def = self:lookup_id(what) or self:lookup(what) or self.orb:import(what)
  if def then return complete(self, def) end
  return unknown(what)
end

local SCOPES = { module = true, interface = true, value = true, struct = true, union = true, except = true }

-- A definition that constructors have made, into a scope of the repository.
local function enter(repository, def, scope, list)
  scope.names[def.name:lower()] = { name = def.name, definition = def }
  repository.ids[def.id] = def
  if list then list[#list + 1] = def end
  if not SCOPES[def.kind] then return end
  local inner = { definition = def, parent = scope, names = {}, used = {}, bases = {} }
  repository.scopes[def] = inner
  for i, base in ipairs(def.bases or {}) do inner.bases[i] = repository.scopes[base] end
  for _, more in ipairs(def.contents or {}) do enter(repository, more, inner) end
end

--- Makes a descriptor known. -> it
function typeset:register(def)
  local repository = self.orb.broker.repository
  if def.id and repository.ids[def.id] ~= def then
    enter(repository, def, repository.root, repository.contents)
    self.orb:renew()
  end
  return descriptor.dress(def)
end
typeset.put = typeset.register

return typeset
