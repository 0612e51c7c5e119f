--[[
mare.oil.corba.idl: oil.corba.idl, constructors of IDL definitions. Each completes the table it is given, so that it is a definition of the
broker's as
well as OiL's descriptor: see mare.oil.descriptor. What is wrong raises OiL's exception, which names the field.
]]
local basic = require "mare.orb.idl.basic"
local descriptor = require "mare.oil.descriptor"
local assert = require "mare.oil.assert"

local idl = { istype = descriptor.is, object = basic.object, ValueBase = basic.valuebase }

for _, kind in ipairs { "null", "void", "short", "long", "longlong", "ushort", "ulong", "ulonglong", "float", "double", "longdouble", "boolean",
                        "char", "wchar", "octet", "any", "TypeCode", "string", "wstring" } do
  idl[kind] = basic[kind]
end
idl.BasicTypes = {}
for name, T in pairs(idl) do
  if descriptor.is(T) then idl.BasicTypes[name] = T end
end

local function check_type(value, what)
  if not descriptor.is(value) then assert.illegal(value, what, "BAD_PARAM") end
  return value
end

local function finish(self, kind)
  self.kind = kind
  self._type = nil
  return setmetatable(self, descriptor)
end

-- The repository id and the scoped name, from the name and the scope.
local function settle(self, parent)
  local above = parent and parent.scoped
  self.scoped = above and above ~= "" and above .. "::" .. self.name or self.name
  if rawget(self, "repID") then self.id = rawget(self, "repID")
  else
    local path, version = "IDL:", "1.0"
    if parent then
      path, version = parent.id:match("^(IDL:.*):(%d+%.%d+)$")
      if not path then assert.illegal(parent.id, "parent scope repository ID") end
      path = path .. "/"
    end
    self.id = path .. self.name .. ":" .. (self.version or version)
  end
  self.repID = nil
end

local function named(self, what)
  assert.type(self, "table", "IDL definition")
  self.name = self.name or ""
  assert.type(self.name, "string", what .. " name")
  settle(self)
  return self
end

-- Contents of a scope: `definitions` is a list, a map by names, or both.
local function adopt(self, inner, name)
  inner.name = name or inner.name
  assert.type(inner.name, "string", "IDL definition name")
  inner.repID = nil
  settle(inner, self)
  descriptor.place(inner, self)
  for _, more in ipairs(rawget(inner, "contents") or {}) do adopt(inner, more) end
  self.contents[#self.contents + 1] = inner
end

local function scope(self)
  local given = rawget(self, "definitions") or rawget(self, "members")
  self.contents, self.definitions = {}, nil
  if not given then return end
  local names = {}
  for name in pairs(given) do
    if type(name) == "string" then names[#names + 1] = name end
  end
  table.sort(names)
  for _, inner in ipairs(given) do
    if rawget(inner, "kind") then adopt(self, inner) end
  end
  for _, name in ipairs(names) do adopt(self, given[name], name) end
end

local function members(list, what)
  local out = {}
  for i, m in ipairs(list) do
    assert.type(m.name, "string", what .. " name")
    out[i] = { name = m.name, type = check_type(m.type, what .. " type"), label = m.label, public = m.access == "public" or m.access == 1 }
  end
  return out
end

local function take_list(self, field)
  local list = rawget(self, field) or {}
  if #list == 0 then
    for i, value in ipairs(self) do list[i] = value end
  end
  for i = #self, 1, -1 do self[i] = nil end
  return list
end

function idl.struct(self)
  named(self, "struct")
  self.members, self.fields = members(take_list(self, "fields"), "field"), nil
  self.contents = {}
  return finish(self, "struct")
end

function idl.except(self)
  named(self, "exception")
  self.members = members(take_list(self, "members"), "field")
  self.contents = {}
  return finish(self, "except")
end

function idl.union(self)
  named(self, "union")
  self.discriminator = check_type(rawget(self, "switch"), "union type discriminant")
  self.switch = nil
  local list = take_list(self, "options")
  for _, option in ipairs(list) do
    if option.label == nil then assert.illegal(nil, "option label value") end
  end
  self.members, self.options = members(list, "option"), nil
  local default = rawget(self, "default")
  self.default = default and default >= 0 and default + 1 or nil
  if self.default then self.members[self.default].label = nil end
  self.contents = {}
  return finish(self, "union")
end

function idl.enum(self)
  named(self, "enumeration")
  self.labels = take_list(self, "enumvalues")
  self.enumvalues = nil
  for _, label in ipairs(self.labels) do assert.type(label, "string", "enumeration value label") end
  return finish(self, "enum")
end

local function element_of(self, what)
  self.element = check_type(rawget(self, "elementtype") or rawget(self, 1), what .. " element type")
  self.elementtype, self[1] = nil, nil
end

function idl.sequence(self)
  element_of(self, "sequence")
  self.bound, self.maxlength = rawget(self, "maxlength") or 0, nil
  assert.type(self.bound, "number", "sequence type maximum length")
  return finish(self, "sequence")
end

function idl.array(self)
  element_of(self, "array")
  assert.type(rawget(self, "length"), "number", "array type length")
  return finish(self, "array")
end

function idl.typedef(self)
  named(self, "typedef")
  self.type = check_type(rawget(self, "original_type") or rawget(self, 1), "type in typedef definition")
  self.original_type, self[1] = nil, nil
  return finish(self, "alias")
end

function idl.valuebox(self)
  idl.typedef(self)
  return finish(self, "valuebox")
end

function idl.valuetype(self)
  named(self, "valuetype")
  local base = rawget(self, "base_value")
  self.state = members(take_list(self, "members"), "value member")
  self.bases, self.supports = base and base ~= basic.null and { base } or {}, {}
  self.members, self.contents, self.base_value = {}, {}, nil
  local kind = rawget(self, "kind")
  if kind == "truncatable" or kind == 3 then self.truncatable = true end
  if kind == "abstract" or kind == 2 then self.abstract = true end
  if kind == "custom" or kind == 1 then self.custom = true end
  return finish(self, "value")
end

function idl.attribute(self)
  self.name = self.name or ""
  self.type = check_type(rawget(self, "type") or rawget(self, 1), "attribute type")
  self[1] = nil
  self.readonly = self.readonly or self.mode == "ATTR_READONLY" or false
  self.getraises, self.setraises = self.getraises or {}, self.setraises or {}
  named(self, "attribute")
  return finish(self, "attribute")
end

local MODES = { PARAM_IN = "in", PARAM_OUT = "out", PARAM_INOUT = "inout" }

function idl.operation(self)
  self = self or {}
  named(self, "operation")
  self.oneway = self.oneway or self.mode == "OP_ONEWAY" or false
  self.result = self.result and check_type(self.result, "operation result type") or basic.void
  self.params, self.raises, self.context = {}, {}, {}
  for i, p in ipairs(rawget(self, "parameters") or {}) do
    local mode = p.mode == nil and "in" or MODES[p.mode]
    if not mode then assert.illegal(p.mode, "operation parameter mode") end
    assert.type(p.name, "string", "operation parameter name")
    self.params[i] = { name = p.name, type = check_type(p.type, "operation parameter type"), mode = mode }
  end
  for i, except in ipairs(rawget(self, "exceptions") or {}) do self.raises[i] = check_type(except, "raised exception") end
  self.parameters, self.exceptions = nil, nil
  return finish(self, "operation")
end

function idl.module(self)
  named(self, "module")
  scope(self)
  return finish(self, "module")
end

local function interface(self)
  named(self, "interface")
  self.bases, self.base_interfaces = take_list(self, "base_interfaces"), nil
  for _, base in ipairs(self.bases) do
    if not descriptor.is(base) or base.kind ~= "interface" then assert.illegal(base, "interface base", "BAD_PARAM") end
  end
  scope(self)
  self.members = {}
  return finish(self, "interface")
end

idl.interface = interface

function idl.abstract_interface(self)
  self.abstract = true
  return interface(self)
end

function idl.local_interface(self)
  self["local"] = true
  return interface(self)
end

--- The type of references to an interface, by its id: Object{ repID = …, name = … } or the id alone.
function idl.Object(self)
  if type(self) == "string" then self = { repID = self, name = self:match("([%w_]+):[%d.]+$") } end
  named(self, "Object")
  if self.id == basic.object.id then return basic.object end
  self.bases, self.contents, self.members, self.forward = {}, {}, {}, true
  return finish(self, "interface")
end

idl.OctetSeq = idl.sequence { basic.octet }
idl.Version = idl.struct { { type = basic.octet, name = "major" }, { type = basic.octet, name = "minor" } }

return idl
