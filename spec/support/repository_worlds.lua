-- Interface repositories of random words: whatever one says becomes IDL, which loads or has errors, or it is INTF_REPOS; nothing else is ever raised.
local exception = require "mare.orb.exception"
local idl = require "mare.orb.idl"
local ior = require "mare.orb.giop.ior"
local kinds = require "mare.orb.repository.kinds"
local read = require "mare.orb.repository.read"

local NAMES = { "A", "B", "c", "Evil", "interface", "_D", "x y", "", "A::B", "::A", "::A::c", "::Evil", ("long"):rep(400) }
local IDS = { "IDL:A:1.0", "IDL:B:1.0", "IDL:A/c:1.0", "IDL:Evil:1.0", "IDL:x/A/B:2.3", "LOCAL:1", "", 'a"b', "IDL:omg.org/CORBA/Object:1.0",
              "IDL:omg.org/CORBA:1.0", "IDL:omg.org/CORBA/InterfaceDef:1.0" }
local DEFINITIONS = kinds.lookup("DefinitionKind").labels
local BASIC = { "long", "string", "boolean", "any", "TypeCode", "void", "wstring", "octet", "double", "char" }
local NAMED = { "struct", "union", "enum", "alias", "except", "interface", "value", "valuebox", "native" }
local MODES = { "PARAM_IN", "PARAM_OUT", "PARAM_INOUT", "OP_NORMAL", "OP_ONEWAY", "ATTR_READONLY", "up" }
local object = { _ior = ior.null }

-- The bytes of an input as choices; at the end it is always the first.
local function choices(data)
  local at = 0
  local function byte()
    at = at + 1
    return data:byte(at) or 0
  end
  local function one(list) return list[byte() % #list + 1] end
  return byte, one
end

local function world(data)
  local byte, one = choices(data)
  local any_value
  local function list(f, level)
    local out = {}
    for i = 1, byte() % 4 do out[i] = f(level) end
    return out
  end
  local type_of
  local function member(level) return { name = one(NAMES), type = type_of(level + 1), label = any_value(9), id = one(IDS), mode = one(MODES) } end
  function type_of(level)
    local how = level > 5 and 0 or byte() % 8
    if how < 3 then return { kind = one(BASIC), bound = 0 } end
    if how == 3 then return { kind = "sequence", element = type_of(level + 1), bound = byte() % 3 } end
    if how == 4 then return { kind = "array", element = type_of(level + 1), length = byte() } end
    if how == 5 then return { kind = "fixed", digits = byte() % 40, scale = byte() % 40 } end
    return { kind = one(NAMED), id = one(IDS), name = one(NAMES), members = list(member, level), labels = list(function() return one(NAMES) end),
             type = type_of(level + 1), discriminator = type_of(level + 1), default = byte() % 5 }
  end
  function any_value(level)
    local how = byte() % 9
    if how == 0 then return nil end
    if how == 1 then return byte() - 100 end
    if how == 2 then return byte() % 2 == 0 end
    if how == 3 then return one(NAMES) end
    if how == 4 then return one(IDS) end
    if how == 5 then return one(MODES) end
    if level > 4 then return {} end
    if how == 6 then return type_of(level) end
    if how == 7 then return list(any_value, level + 1) end
    return member(level)
  end
  local function ids() return list(function() return one(IDS) end) end
  local function about()
    if byte() % 8 == 7 then return any_value(0) end
    local t = { name = one(NAMES), id = one(IDS), defined_in = one(IDS), type = type_of(0), result = type_of(0), mode = one(MODES),
                base_interfaces = ids(), supported_interfaces = ids(), abstract_base_values = ids(), base_value = one(IDS), contexts = ids(),
                parameters = list(member, 0), exceptions = list(member, 0), value = { _anyval = any_value(0) }, access = byte() % 2,
                is_abstract = byte() % 2 == 0, is_custom = byte() % 2 == 0, is_truncatable = byte() % 2 == 0 }
    local spoilt = ({ "name", "id", "type", "result", "base_interfaces", "supported_interfaces", "contexts", "parameters", "exceptions", "value",
                      "get_exceptions", "put_exceptions" })[byte() % 32]
    if spoilt then t[spoilt] = any_value(0) end
    return t
  end
  local function described()
    return { contained_object = object, kind = one(DEFINITIONS), value = byte() % 16 < 15 and { _anyval = about() } or nil }
  end
  local answers = {
    describe = described, lookup_id = function() return byte() % 8 < 7 and object or nil end,
    describe_contents = function() return list(described) end, contents = function() return list(function() return object end) end,
    _get_absolute_name = function() return one(NAMES) end, _get_id = function() return one(IDS) end,
    _get_initializers = function() return list(function() return { name = one(NAMES), members = list(member, 0) } end) end,
  }
  return function(_, _, operation) return answers[operation] and answers[operation]() end
end

local function check(reader, fine, err)
  if not fine then return assert(exception.is(err, "IDL:omg.org/CORBA/INTF_REPOS:1.0"), err) end
  local definitions, problems = idl.repository():load(reader:text(), { name = "repository" })
  assert(definitions or #problems > 0)
end

return function(data)
  local reader = read.new({}, { known = read.known(idl.repository()), whole = true, definitions = 40, depth = 8, answers = world(data) })
  check(reader, pcall(reader.everything, reader, object))
end
