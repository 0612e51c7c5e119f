--[[
mare.orb.repository.serve: the Interface Repository of a broker's own IDL (CORBA 3.3 part 1, chapter 14).

A *service* belongs to a server and holds nothing of the IDL: its servants look into what the broker has loaded whenever they are asked. A servant
is { service =, definition = | type = }; its methods are those of the interfaces that its definition has there. Objects come into being when a client
hears of them or asks for their keys: "InterfaceRepository" is the repository, "InterfaceRepository/<repository id>" a definition, so these references
last from run to run. Types without an id (sequence<long>) have keys of this run. So there are never more objects than types in the IDL.

All that would change the IDL is NO_PERMISSION: a program loads IDL, strangers don't.
]]
local basic = require "mare.orb.idl.basic"
local checker = require "mare.orb.idl.checker"
local exception = require "mare.orb.exception"
local describe = require "mare.orb.repository.describe"
local kinds = require "mare.orb.repository.kinds"

local serve = { KEY = "InterfaceRepository" }
local PREFIX = serve.KEY .. "/"

local service = {}
service.__index = service

local function system(name, text) error(exception.system(name, 0, "COMPLETED_NO", text), 0) end

------------------------------------------------------------------------------------------------------------------ objects

local servant                                    -- interface name -> class of its servants, below

local nameless = { enumerator = true, member = true, parameter = true, factory = true }

local function has_object(d) return d.id and not nameless[d.kind] and not kinds.primitive(d) end

-- The entry of a definition or a type; nil: the repository itself.
local function entry_of(self, definition)
  local known = self.entries[definition or self]
  if known and not known.gone then return known end
  local name = definition and kinds.interface(definition) or "Repository"
  local key
  if not definition then key = serve.KEY
  elseif definition.id and self.repository.ids[definition.id] == definition then key = PREFIX .. definition.id end
  local object = setmetatable({ service = self, definition = definition }, servant(name))
  local entry = self.adapter:resident(object, kinds.lookup(name), key)
  self.adapter:represent(object, entry)
  self.entries[definition or self] = entry
  return entry
end

--- The servant that stands for a definition; none: the repository.
function service:object(definition) return entry_of(self, definition).servant end

--- The servant that stands for a type. Basic types of one kind are one.
function service:type_object(T)
  if kinds.primitive(T) and not T.id then T = basic[T.kind] end
  return self:object(T)
end

--- The entry that a request's key means, nil: none.
function service:find(key)
  if key == serve.KEY then return entry_of(self, nil) end
  if key:sub(1, #PREFIX) ~= PREFIX then return nil end
  local definition = self.repository.ids[key:sub(#PREFIX + 1)]
  return definition and has_object(definition) and entry_of(self, definition) or nil
end

---------------------------------------------------------------------------------------------------------- what is in what

--- What a definition stands in; nil: the repository.
function service:parent(d)
  local holder = d.scoped and d.scoped:match "^(.*)::[^:]*$"
  return holder and self.repository:lookup(holder) or nil
end

-- Types that are defined inside of a struct, a union or an exception, in their order.
local function types_inside(self, d)
  local out = {}
  for _, entry in pairs(self.repository.scopes[d] and self.repository.scopes[d].names or {}) do
    local inner = entry.definition
    if has_object(inner) then out[#out + 1] = inner end
  end
  table.sort(out, function(a, b)
    if a.line ~= b.line then return a.line < b.line end
    return a.column < b.column
  end)
  return out
end

-- Definitions in a container, without those it inherits.
local function own_contents(self, d)
  if not d then return self.repository.contents end
  if d.kind == "struct" or d.kind == "union" or d.kind == "except" then return types_inside(self, d) end
  return d.contents or {}
end

local function collect(self, d, inherited, seen, out)
  if d and seen[d] then return out end
  if d then seen[d] = true end
  for _, inner in ipairs(own_contents(self, d)) do
    if has_object(inner) then out[#out + 1] = inner end
  end
  if inherited and d and (d.kind == "interface" or d.kind == "value") then
    for _, base in ipairs(d.bases) do collect(self, base, true, seen, out) end
  end
  return out
end

--- Definitions in a container (nil: in the repository).
function service:contents(d, exclude_inherited) return collect(self, d, not exclude_inherited, {}, {}) end

local function inside(self, d, name)
  local scope = d and self.repository.scopes[d] or not d and self.repository.root
  local entry = scope and checker.find(scope, name)
  local found = entry and entry.name == name and entry.definition
  return found and has_object(found) and found or nil
end

local MOST = 1000                                -- bytes of a name that somebody asks for

--- A definition by its name: from the container d on, or from the top ("::A::B").
function service:lookup(d, name)
  if #name > MOST then return nil end
  if name:find "^::" then d = nil end
  local found
  for word in name:gmatch "[^:]+" do
    found = inside(self, d, word)
    if not found then return nil end
    d = found
  end
  return found
end

---------------------------------------------------------------------------------------------------- what the objects can do

-- methods[interface] are those it has beside its bases'. self.definition is nil of the repository.
local methods = {}

methods.IRObject = {
  _get_def_kind = function(self) return self.definition and kinds.of(self.definition) or "dk_Repository" end,
}

methods.Contained = {
  _get_id = function(self) return self.definition.id end,
  _get_name = function(self) return self.definition.name end,
  _get_version = function(self) return describe.version(self.definition) end,
  _get_defined_in = function(self) return self.service:object(self.service:parent(self.definition)) end,
  _get_absolute_name = function(self) return "::" .. self.definition.scoped end,
  _get_containing_repository = function(self) return self.service:object() end,
  describe = function(self) return { kind = kinds.of(self.definition), value = describe.any(self.service, self.definition) } end,
}

local function objects(self, list)
  return describe.map(list, function(d) return self.service:object(d) end)
end

local function fitting(list, limit, most)
  local out = {}
  for _, d in ipairs(list) do
    if most and #out >= most then break end
    if kinds.fits(d, limit) then out[#out + 1] = d end
  end
  return out
end

-- Those named `name`, so many levels deep (-1: all).
local function named(self, d, name, levels, exclude, out)
  for _, inner in ipairs(self.service:contents(d, exclude)) do
    if inner.name == name then out[#out + 1] = inner end
    local holds = inner.contents or inner.members
    if levels ~= 1 and holds and inner.kind ~= "valuebox" then named(self, inner, name, levels - 1, exclude, out) end
  end
  return out
end

methods.Container = {
  lookup = function(self, name)
    local found = self.service:lookup(self.definition, name)
    return found and self.service:object(found) or nil
  end,
  contents = function(self, limit, exclude) return objects(self, fitting(self.service:contents(self.definition, exclude), limit)) end,
  lookup_name = function(self, name, levels, limit, exclude)
    return objects(self, fitting(named(self, self.definition, name, levels, exclude, {}), limit))
  end,
  describe_contents = function(self, limit, exclude, most)
    local list = fitting(self.service:contents(self.definition, exclude), limit, most >= 0 and most or nil)
    return describe.map(list, function(d)
      return { contained_object = self.service:object(d), kind = kinds.of(d), value = describe.any(self.service, d) }
    end)
  end,
}

-- "type" of what is a type, or has one.
local function type_of(self) return describe.typecode(self.definition) end
local function type_inside(self) return describe.typecode(self.definition.type) end
local function object_of_type(self) return self.service:type_object(self.definition.type) end

methods.IDLType = { _get_type = type_of }

methods.Repository = {
  lookup_id = function(self, id)
    local found = self.service.repository.ids[id]
    return found and has_object(found) and self.service:object(found) or nil
  end,
  get_canonical_typecode = function(self, T)
    local known = T.id and self.service.repository.ids[T.id]
    return known and known.kind == T.kind and known or T
  end,
  get_primitive = function(self, kind)
    if kind == "pk_objref" then return self.service:object(basic.object) end
    if kind == "pk_value_base" then return self.service:object(basic.valuebase) end
    for name, pk in pairs(kinds.primitives) do
      if pk == kind and name ~= "int8" then return self.service:object(basic[name]) end
    end
    system("BAD_PARAM", kind .. " is no type of this repository")
  end,
}

methods.PrimitiveDef = { _get_kind = function(self) return kinds.primitive(self.definition) end }
methods.StringDef = { _get_bound = function(self) return self.definition.bound end }
methods.WstringDef = methods.StringDef
methods.FixedDef = { _get_digits = function(self) return self.definition.digits end, _get_scale = function(self) return self.definition.scale end }

local function element_type(self) return describe.typecode(self.definition.element) end
local function element_object(self) return self.service:type_object(self.definition.element) end

methods.SequenceDef = { _get_bound = methods.StringDef._get_bound, _get_element_type = element_type, _get_element_type_def = element_object }
methods.ArrayDef = { _get_length = function(self) return self.definition.length end, _get_element_type = element_type,
                     _get_element_type_def = element_object }

methods.ConstantDef = {
  _get_type = type_inside, _get_type_def = object_of_type,
  _get_value = function(self) return describe.constant(self.service, self.definition) end,
}

local function members(self) return describe.members(self.service, self.definition.members) end

methods.StructDef = { _get_members = members }
methods.ExceptionDef = { _get_type = type_of, _get_members = members }
methods.UnionDef = {
  _get_discriminator_type = function(self) return describe.typecode(self.definition.discriminator) end,
  _get_discriminator_type_def = function(self) return self.service:type_object(self.definition.discriminator) end,
  _get_members = function(self) return describe.union_members(self.service, self.definition) end,
}
methods.EnumDef = { _get_members = function(self) return self.definition.labels end }
methods.AliasDef = { _get_original_type_def = object_of_type }
methods.ValueBoxDef = methods.AliasDef

methods.AttributeDef = {
  _get_type = type_inside, _get_type_def = object_of_type,
  _get_mode = function(self) return self.definition.readonly and "ATTR_READONLY" or "ATTR_NORMAL" end,
}
methods.ExtAttributeDef = {
  _get_get_exceptions = function(self) return describe.exceptions(self.service, self.definition.getraises) end,
  _get_set_exceptions = function(self) return describe.exceptions(self.service, self.definition.setraises) end,
  describe_attribute = function(self) return describe.ext_attribute(self.definition, self.service) end,
}
methods.OperationDef = {
  _get_result = function(self) return describe.typecode(self.definition.result) end,
  _get_result_def = function(self) return self.service:type_object(self.definition.result) end,
  _get_params = function(self) return describe.parameters(self.service, self.definition) end,
  _get_mode = function(self) return self.definition.oneway and "OP_ONEWAY" or "OP_NORMAL" end,
  _get_contexts = function(self) return self.definition.context end,
  _get_exceptions = function(self) return objects(self, self.definition.raises) end,
}

local function is_a(self, id)
  local d = self.definition
  if d.kind == "value" and id == basic.valuebase.id then return true end
  if d.kind == "value" and self.service.repository:is_a(d, id) then return id ~= basic.object.id end
  for _, interface in ipairs(d.kind == "value" and d.supports or { d }) do
    if self.service.repository:is_a(interface, id) then return true end
  end
  return false
end

methods.InterfaceDef = {
  _get_base_interfaces = function(self) return objects(self, self.definition.bases) end,
  is_a = is_a,
  describe_interface = function(self) return describe.full_interface(self.service, self.definition) end,
}
methods.InterfaceAttrExtension = {
  describe_ext_interface = function(self) return describe.full_interface(self.service, self.definition, true) end,
}

methods.ValueMemberDef = {
  _get_type = type_inside, _get_type_def = object_of_type, _get_access = function(self) return self.definition.public and 1 or 0 end,
}
methods.ValueDef = {
  _get_supported_interfaces = function(self) return objects(self, self.definition.supports) end,
  _get_initializers = function(self) return describe.initializers(self.service, self.definition) end,
  _get_base_value = function(self)
    local concrete = describe.value_bases(self.definition)
    return concrete and self.service:object(concrete) or nil
  end,
  _get_abstract_base_values = function(self)
    local _, others = describe.value_bases(self.definition)
    return objects(self, others)
  end,
  _get_is_abstract = function(self) return self.definition.abstract or false end,
  _get_is_custom = function(self) return self.definition.custom or false end,
  _get_is_truncatable = function(self) return self.definition.truncatable or false end,
  is_a = is_a,
  describe_value = function(self) return describe.full_value(self.service, self.definition) end,
}
methods.ExtValueDef = {
  _get_ext_initializers = function(self) return describe.initializers(self.service, self.definition, true) end,
  describe_ext_value = function(self) return describe.full_value(self.service, self.definition, true) end,
}

----------------------------------------------------------------------------------------------------------------- classes

local function read_only() system("NO_PERMISSION", "this repository is what its server has loaded: it can only be read") end

local function inherit(class, interface)
  for _, base in ipairs(interface.bases) do inherit(class, base) end
  for name, method in pairs(methods[interface.name] or {}) do class[name] = method end
end

local classes = {}

-- What an interface has and no method reads would write.
function servant(name)
  local class = classes[name]
  if not class then
    class = {}
    inherit(class, kinds.lookup(name))
    for operation in pairs(kinds.operations(name)) do class[operation] = class[operation] or read_only end
    class.__index = class
    classes[name] = class
  end
  return class
end

-- A proxy of one of its objects, whose calls are local.
local function proxy_of(self, entry) return self.server.broker:bind(self.server:ior_of(entry), entry.interface) end

--- The repository itself.
function service:root() return proxy_of(self, entry_of(self, nil)) end

--- What answers _interface for an object of that interface. Raises INTF_REPOS.
function service:interface(definition)
  if not has_object(definition) then error(exception.system("INTF_REPOS", 1, "COMPLETED_NO", "the object's interface is CORBA::Object"), 0) end
  return proxy_of(self, entry_of(self, definition))
end

--- The Interface Repository of a server.
---@param server table
function serve.new(server)
  local repository = server.broker.repository
  return setmetatable({ server = server, adapter = server.adapter, repository = repository, native = server.broker.native,
                        entries = setmetatable({}, { __mode = "k" }) }, service)
end

return serve
