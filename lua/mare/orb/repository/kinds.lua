-- kinds: the Interface Repository's words for definitions of IDL (../idl), for its server and for who reads one.
--
--   kinds.of(definition)        -> "dk_Struct"                kinds.interface(definition) -> "StructDef"
--   kinds.lookup(name)          -> a definition of its own IDL: "StructDef", "Container::Description"
--
-- Its IDL is in a repository of its own: programs load that of other ORBs, which differ in details.
local idl = require "mare.orb.idl"
local definitions = require "mare.orb.repository.definitions"

local kinds = {}

local own

--- A definition of the Interface Repository's IDL.
function kinds.lookup(name)
  if not own then
    own = idl.repository()
    local loaded, errors = own:load(definitions, { name = "ir.idl" })
    if not loaded then error(tostring(errors), 0) end
  end
  return own:lookup("CORBA::" .. name)
end

--- name -> operation of one of its interfaces.
function kinds.operations(name)
  local interface = kinds.lookup(name)
  return own:operations(interface)
end

-- kind of a definition -> DefinitionKind and interface.
local table_of = {
  module = { "dk_Module", "ModuleDef" }, interface = { "dk_Interface", "InterfaceDef" }, operation = { "dk_Operation", "OperationDef" },
  attribute = { "dk_Attribute", "AttributeDef" }, const = { "dk_Constant", "ConstantDef" }, struct = { "dk_Struct", "StructDef" },
  union = { "dk_Union", "UnionDef" }, enum = { "dk_Enum", "EnumDef" }, alias = { "dk_Alias", "AliasDef" },
  except = { "dk_Exception", "ExceptionDef" },
  value = { "dk_Value", "ValueDef" }, valuebox = { "dk_ValueBox", "ValueBoxDef" }, native = { "dk_Native", "NativeDef" },
  statemember = { "dk_ValueMember", "ValueMemberDef" }, sequence = { "dk_Sequence", "SequenceDef" }, array = { "dk_Array", "ArrayDef" },
  fixed = { "dk_Fixed", "FixedDef" },
}
local abstract, in_process = { "dk_AbstractInterface", "AbstractInterfaceDef" }, { "dk_LocalInterface", "LocalInterfaceDef" }
local text, wide, primitive = { "dk_String", "StringDef" }, { "dk_Wstring", "WstringDef" }, { "dk_Primitive", "PrimitiveDef" }

-- kind of a basic type -> PrimitiveKind. Those of strings count where they have no bound. IDL 4's int8 is an octet wherever CORBA has to say it.
kinds.primitives = {
  null = "pk_null", void = "pk_void", short = "pk_short", long = "pk_long", ushort = "pk_ushort", ulong = "pk_ulong", float = "pk_float",
  double = "pk_double", boolean = "pk_boolean", char = "pk_char", octet = "pk_octet", int8 = "pk_octet", any = "pk_any", TypeCode = "pk_TypeCode",
  string = "pk_string", longlong = "pk_longlong", ulonglong = "pk_ulonglong", longdouble = "pk_longdouble", wchar = "pk_wchar",
  wstring = "pk_wstring",
}

local function entry_of(d)
  if d.scoped == "CORBA::Object" or d.scoped == "CORBA::ValueBase" then return primitive end
  if d.kind == "interface" then return d.abstract and abstract or d["local"] and in_process or table_of.interface end
  if d.kind == "string" and d.bound > 0 then return text end
  if d.kind == "wstring" and d.bound > 0 then return wide end
  return table_of[d.kind] or primitive
end

--- The PrimitiveKind of a type that is one, else nil.
function kinds.primitive(d)
  if entry_of(d) ~= primitive then return nil end
  return d.scoped == "CORBA::Object" and "pk_objref" or d.scoped == "CORBA::ValueBase" and "pk_value_base" or kinds.primitives[d.kind]
end

--- The DefinitionKind of a definition or a type.
function kinds.of(d) return entry_of(d)[1] end

local function raising(contents)
  for _, d in ipairs(contents) do
    if d.kind == "attribute" and (#d.getraises > 0 or #d.setraises > 0) then return true end
    if d.kind == "factory" and #d.raises > 0 then return true end
  end
  return false
end

--- Does it say something that only CORBA 3's extended interfaces (ExtAttributeDef …) can? Older clients know the others alone.
function kinds.extended(d)
  if d.kind == "attribute" then return #d.getraises > 0 or #d.setraises > 0 end
  return (d.kind == "interface" or d.kind == "value") and raising(d.contents)
end

--- The name of the interface that describes it.
function kinds.interface(d)
  local name = entry_of(d)[2]
  return kinds.extended(d) and "Ext" .. name or name
end

local typedefs = { dk_Alias = true, dk_Struct = true, dk_Union = true, dk_Enum = true, dk_Native = true, dk_ValueBox = true }

--- Does a definition count where only some kind is asked for?
function kinds.fits(d, limit)
  local kind = kinds.of(d)
  return limit == "dk_all" or limit == kind or limit == "dk_Typedef" and typedefs[kind] or false
end

return kinds
