-- describe: what the Interface Repository says of a definition, as values of its own types.
--
--   describe.any(service, definition)          the `value` of Contained::Description: an any
--   describe.operation(service, definition) …  the parts of which full descriptions are made
--
-- `service` (serve.lua) gives what is around a definition, and objects for types.
local basic = require "mare.orb.idl.basic"
local kinds = require "mare.orb.repository.kinds"

local describe = {}

local function map(list, f, ...)
  local out = {}
  for i, v in ipairs(list or {}) do out[i] = f(v, ...) end
  return out
end
describe.map = map

local function id_of(d) return d.id end

--- "1.0", from the id.
function describe.version(d) return d.id:match ":(%d+%.%d+)$" or "1.0" end

-- What all descriptions begin with.
local function begin(service, d)
  local holder = service:parent(d)
  return { name = d.name, id = d.id, defined_in = holder and holder.id or "", version = describe.version(d) }
end

--- What stands for a type where a TypeCode is wanted.
local function typecode(T) return T.kind == "int8" and basic.octet or T end
describe.typecode = typecode

--- Members of a struct or an exception.
function describe.members(service, list)
  return map(list, function(m) return { name = m.name, type = typecode(m.type), type_def = service:type_object(m.type) } end)
end

local function resolve(T)
  while T.kind == "alias" do T = T.type end
  return T
end

-- The label of a default is an octet 0.
local function label(d, m, default)
  if default then return { _anytype = basic.octet, _anyval = 0 } end
  local T = resolve(d.discriminator)
  return { _anytype = T, _anyval = m.label }
end

function describe.union_members(service, d)
  local out = {}
  for i, m in ipairs(d.members) do
    out[i] = { name = m.name, label = label(d, m, i == d.default), type = typecode(m.type), type_def = service:type_object(m.type) }
  end
  return out
end

function describe.exception(d, service)
  local t = begin(service, d)
  t.type = d
  return t
end

function describe.exceptions(service, list) return map(list, describe.exception, service) end

local modes = { ["in"] = "PARAM_IN", out = "PARAM_OUT", inout = "PARAM_INOUT" }

function describe.parameters(service, d)
  return map(d.params, function(p)
    return { name = p.name, type = typecode(p.type), type_def = service:type_object(p.type), mode = modes[p.mode] }
  end)
end

function describe.operation(d, service)
  local t = begin(service, d)
  t.result, t.mode, t.contexts = typecode(d.result), d.oneway and "OP_ONEWAY" or "OP_NORMAL", d.context
  t.parameters, t.exceptions = describe.parameters(service, d), describe.exceptions(service, d.raises)
  return t
end

function describe.attribute(d, service)
  local t = begin(service, d)
  t.type, t.mode = typecode(d.type), d.readonly and "ATTR_READONLY" or "ATTR_NORMAL"
  return t
end

function describe.ext_attribute(d, service)
  local t = describe.attribute(d, service)
  t.get_exceptions, t.put_exceptions = describe.exceptions(service, d.getraises), describe.exceptions(service, d.setraises)
  return t
end

function describe.value_member(d, service)
  local t = begin(service, d)
  t.type, t.type_def, t.access = typecode(d.type), service:type_object(d.type), d.public and 1 or 0
  return t
end

-- The base that is no abstract one comes first, if there is one.
local function value_bases(d)
  local first = d.bases[1]
  local concrete = first and not first.abstract and first or nil
  return concrete, table.move(d.bases, concrete and 2 or 1, #d.bases, 1, {})
end
describe.value_bases = value_bases

local function value(service, d)
  local t = begin(service, d)
  local concrete, others = value_bases(d)
  t.is_abstract, t.is_custom, t.is_truncatable = d.abstract or false, d.custom or false, d.truncatable or false
  t.supported_interfaces, t.abstract_base_values = map(d.supports, id_of), map(others, id_of)
  t.base_value = concrete and concrete.id or ""
  return t
end

--- Factories, as initializers. With what they raise, if `extended`.
function describe.initializers(service, d, extended)
  local out = {}
  for _, f in ipairs(d.contents) do
    if f.kind == "factory" then
      out[#out + 1] = { name = f.name, members = describe.members(service, f.params),
                        exceptions = extended and describe.exceptions(service, f.raises) or nil }
    end
  end
  return out
end

-- Of its own and of its bases: f of each definition of a kind.
local function all(service, d, kind, f)
  local out = {}
  for _, inner in ipairs(service:contents(d, false)) do
    if inner.kind == kind then out[#out + 1] = f(inner, service) end
  end
  return out
end

--- FullInterfaceDescription, ExtFullInterfaceDescription.
function describe.full_interface(service, d, extended)
  local t = begin(service, d)
  t.operations = all(service, d, "operation", describe.operation)
  t.attributes = all(service, d, "attribute", extended and describe.ext_attribute or describe.attribute)
  t.base_interfaces, t.type = map(d.bases, id_of), d
  return t
end

--- FullValueDescription, ExtFullValueDescription.
function describe.full_value(service, d, extended)
  local t = value(service, d)
  t.operations = all(service, d, "operation", describe.operation)
  t.attributes = all(service, d, "attribute", extended and describe.ext_attribute or describe.attribute)
  t.members, t.initializers, t.type = all(service, d, "statemember", describe.value_member), describe.initializers(service, d, extended), d
  return t
end

--- The value of a constant, as an any. Strings are ISO 8859-1 in IDL, UTF-8 in Lua (unless the program says otherwise).
function describe.constant(service, d)
  local given = d.value
  if resolve(d.type).kind == "string" and not service.native then
    given = given:gsub("[\128-\255]", function(c) return utf8.char(c:byte()) end)
  end
  return { _anytype = typecode(d.type), _anyval = given }
end

-- kind -> type of its description, and what makes it.
local of_kind = {
  module = { "ModuleDescription", function(d, service) return begin(service, d) end },
  interface = { "InterfaceDescription", function(d, service)
    local t = begin(service, d)
    t.base_interfaces = map(d.bases, id_of)
    return t
  end },
  operation = { "OperationDescription", describe.operation },
  attribute = { "AttributeDescription", describe.attribute },
  const = { "ConstantDescription", function(d, service)
    local t = begin(service, d)
    t.type, t.value = typecode(d.type), describe.constant(service, d)
    return t
  end },
  except = { "ExceptionDescription", describe.exception },
  value = { "ValueDescription", function(d, service) return value(service, d) end },
  statemember = { "ValueMember", describe.value_member },
}
local ext_attribute = { "ExtAttributeDescription", describe.ext_attribute }
local typedef = { "TypeDescription", function(d, service)
  local t = begin(service, d)
  t.type = d
  return t
end }

function describe.any(service, d)
  local entry = of_kind[d.kind] or typedef
  if d.kind == "attribute" and kinds.extended(d) then entry = ext_attribute end
  return { _anytype = kinds.lookup(entry[1]), _anyval = entry[2](d, service) }
end

return describe
