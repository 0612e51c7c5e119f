--[[
mare.oil.descriptor: definitions under OiL's names.

OiL describes types by tables with `_type`, `repID`, `definitions`, `fields` …; the broker by others (docs/idl.md). Here they are the same tables:
those
of the broker, with this module as metatable, which answers for OiL's names. So a descriptor serves wherever the broker wants a type, and the
constructors of oil.corba.idl complete the very table that they are given. None of OiL's names is one of the broker's but `kind` of valuetypes,
which is the broker's.

A definition that the broker's IDL made gets the metatable when a program first sees it (`dress`), and what it refers to with it.
]]
local basic = require "mare.orb.idl.basic"

local descriptor = { __name = "IDL definition" }

local OIL = { alias = "typedef", value = "valuetype" }
local parents = setmetatable({}, { __mode = "k" })

local function unaliased(def)
  while def.kind == "alias" do def = def.type end
  return def
end
descriptor.unaliased = unaliased

local computed = {}

function computed.repID(def) return rawget(def, "id") end
function computed._type(def)
  local kind = rawget(def, "kind")
  if kind == "interface" then return rawget(def, "abstract") and "abstract_interface" or rawget(def, "local") and "local_interface" or "interface" end
  return OIL[kind] or kind
end
function computed.absolute_name(def)
  local scoped = rawget(def, "scoped") or rawget(def, "name")
  return scoped and "::" .. scoped
end
function computed.fields(def) return rawget(def, "kind") == "struct" and rawget(def, "members") or nil end
function computed.options(def) return rawget(def, "kind") == "union" and rawget(def, "members") or nil end
function computed.switch(def) return rawget(def, "discriminator") end
function computed.enumvalues(def) return rawget(def, "labels") end
function computed.labelvalue(def)
  local labels = rawget(def, "labels")
  if not labels then return nil end
  local values = {}
  for i, label in ipairs(labels) do values[label] = i - 1 end
  return values
end
function computed.elementtype(def) return rawget(def, "element") end
function computed.maxlength(def) return rawget(def, "bound") end
function computed.original_type(def)
  local kind = rawget(def, "kind")
  return (kind == "alias" or kind == "valuebox") and rawget(def, "type") or nil
end
function computed.base_interfaces(def) return rawget(def, "kind") == "interface" and rawget(def, "bases") or nil end
function computed.inherited(def)
  local kind, bases = rawget(def, "kind"), rawget(def, "bases")
  if kind == "value" then return bases[1] end
  return kind == "interface" and bases or nil
end
function computed.base_value(def) return rawget(def, "kind") == "value" and (rawget(def, "bases")[1] or basic.null) or nil end
function computed.defined_in(def) return parents[def] end
function computed.exceptions(def)
  local raises = rawget(def, "kind") == "operation" and rawget(def, "raises")
  if not raises then return nil end
  local list = {}
  for i, except in ipairs(raises) do list[i], list[except.id] = except, except end
  return list
end

-- The contents of a scope, in order and by name.
function computed.definitions(def)
  local contents = rawget(def, "contents")
  if not contents then return nil end
  local list = {}
  for i, inner in ipairs(contents) do list[i], list[inner.name] = inner, inner end
  return list
end

local MODES = { ["in"] = "PARAM_IN", out = "PARAM_OUT", inout = "PARAM_INOUT" }
function computed.parameters(def)
  local params = rawget(def, "kind") == "operation" and rawget(def, "params")
  if not params then return nil end
  local list = {}
  for i, p in ipairs(params) do list[i] = { name = p.name, type = p.type, mode = MODES[p.mode] } end
  return list
end

local function types_of(def, without)
  local params = rawget(def, "kind") == "operation" and rawget(def, "params")
  if not params then return nil end
  local list = {}
  local result = rawget(def, "result")
  if without == "in" and result and result.kind ~= "void" then list[1] = result end
  for _, p in ipairs(params) do
    if p.mode ~= without then list[#list + 1] = p.type end
  end
  return list
end
function computed.inputs(def) return types_of(def, "out") end
function computed.outputs(def) return types_of(def, "in") end

-- Methods that OiL's descriptors of interfaces have.
local function is_a(self, id)
  if self.id == id or id == basic.object.id then return true end
  for _, base in ipairs(self.bases) do
    if is_a(base, id) then return true end
  end
  return false
end

local function hierarchy(self)
  local queue, seen, at = { self }, { [self] = true }, 0
  return function()
    at = at + 1
    local def = queue[at]
    for _, base in ipairs(def and def.bases or {}) do
      if not seen[base] then queue[#queue + 1], seen[base] = base, true end
    end
    return def
  end
end

function computed.is_a(def) return rawget(def, "kind") == "interface" and is_a or nil end
function computed.hierarchy(def) return rawget(def, "kind") == "interface" and hierarchy or nil end

function descriptor.__index(def, key)
  local f = computed[key]
  if f then return f(def) end
  if math.type(key) == "integer" then
    local list = rawget(def, "members") or rawget(def, "labels") or rawget(def, "state")
    return list and list[key]
  end
end

--- A descriptor of an exception makes one: Overdrawn{ missing = 3 }, as the broker's types do.
function descriptor.__call(def, members)
  return require "mare.oil.Exception"(setmetatable(members or {}, nil), rawget(def, "id"))
end

function descriptor.__tostring(def) return tostring(rawget(def, "kind")) .. " " .. tostring(rawget(def, "scoped") or rawget(def, "name") or "") end

local PARTS = { "type", "element", "discriminator", "result" }
local LISTS = { "contents", "members", "state", "params", "bases", "supports", "raises", "getraises", "setraises" }

--- Gives a definition, and all that it refers to, OiL's names. -> it
function descriptor.dress(def, parent)
  local todo = { { def, parent } }
  while #todo > 0 do
    local d, above = table.unpack(table.remove(todo))
    if above and d.kind then parents[d] = parents[d] or above end
    if getmetatable(d) ~= descriptor then
      if d.kind then setmetatable(d, descriptor) end
      for _, part in ipairs(PARTS) do
        local inner = rawget(d, part)
        if type(inner) == "table" then todo[#todo + 1] = { inner } end
      end
      for _, list in ipairs(LISTS) do
        for _, inner in ipairs(rawget(d, list) or {}) do
          if type(inner) == "table" then todo[#todo + 1] = { inner, list == "contents" and d or nil } end
        end
      end
    end
  end
  return def
end

--- An operation that stands for an attribute's accessor belongs where the attribute does.
function descriptor.place(def, owner)
  if getmetatable(def) ~= descriptor then descriptor.dress(def) end
  local attribute = rawget(def, "attribute")
  parents[def] = parents[def] or attribute and parents[attribute] or owner
  return def
end

function descriptor.is(value) return type(value) == "table" and getmetatable(value) == descriptor end

for _, T in pairs(basic) do descriptor.dress(T) end

return descriptor
