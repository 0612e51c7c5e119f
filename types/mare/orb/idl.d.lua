---@meta mare.orb.idl
-- luacheck: ignore 212 241

---The IDL compiler: CORBA's interface definitions as tables. See docs/idl.md.
---@class mare.orb.idllib
---@field basic table<string, mare.orb.Type> the types without definition: basic.long, basic.string, basic.object …
local idl = {}

---@alias mare.orb.Kind
---| '"short"'|'"long"'|'"longlong"'|'"ushort"'|'"ulong"'|'"ulonglong"'|'"float"'|'"double"'|'"longdouble"'|'"boolean"'|'"char"'|'"wchar"'
---| '"octet"'|'"int8"'|'"any"'|'"TypeCode"'|'"void"'|'"null"'|'"string"'|'"wstring"'|'"fixed"'|'"sequence"'|'"array"'|'"struct"'|'"except"'|'"union"'
---| '"enum"'|'"alias"'|'"interface"'|'"value"'|'"valuebox"'|'"native"'
---| '"module"'|'"const"'|'"operation"'|'"attribute"'|'"factory"'|'"statemember"'|'"enumerator"'

---A type: a basic one, one built of others, or a definition.
---@class mare.orb.Type
---@field kind mare.orb.Kind
---@field bound? integer of string, wstring, sequence; 0: none
---@field digits? integer of fixed
---@field scale? integer of fixed
---@field element? mare.orb.Type of sequence, array
---@field length? integer of array

---@class mare.orb.Member
---@field name string
---@field type mare.orb.Type
---@field label? integer|boolean|string of a union's member; nil: the default's
---@field public? boolean of a valuetype's member

---@class mare.orb.Parameter
---@field name string
---@field mode '"in"'|'"out"'|'"inout"'
---@field type mare.orb.Type

---Something with a name. To be read only.
---@class mare.orb.Definition: mare.orb.Type
---@field id string repository id
---@field name string
---@field scoped string "Mod::Name"
---@field file? string nil: CORBA's own
---@field line? integer
---@field column? integer
---@field forward? boolean declared, not defined
---@field contents? mare.orb.Definition[] of module, interface, value
---@field members? mare.orb.Member[]|table<string, mare.orb.Definition> a list of struct, except, union; by name of interface, value
---@field bases? mare.orb.Definition[] of interface, value
---@field supports? mare.orb.Definition[] of value
---@field state? mare.orb.Member[] of value
---@field abstract? boolean
---@field local? boolean
---@field custom? boolean
---@field truncatable? boolean
---@field discriminator? mare.orb.Type of union
---@field default? integer of union: index of the default's member
---@field labels? string[] of enum
---@field type? mare.orb.Type of alias, const, attribute, valuebox, statemember
---@field value? integer|number|boolean|string of const, enumerator
---@field readonly? boolean of attribute
---@field getraises? mare.orb.Definition[] of attribute
---@field setraises? mare.orb.Definition[] of attribute

---@class mare.orb.Operation: mare.orb.Definition
---@field oneway boolean
---@field result mare.orb.Type
---@field params mare.orb.Parameter[]
---@field raises mare.orb.Definition[]
---@field context string[]
---@field attribute? mare.orb.Definition of _get_x and _set_x

---@class mare.orb.idl.Error
---@field file string
---@field line integer
---@field column integer
---@field message string

---Errors or notes; tostring gives "file:line:column: message", a line each.
---@class mare.orb.idl.Errors
---@field [integer] mare.orb.idl.Error

---@class mare.orb.idl.Options
---@field name? string of the file, for places
---@field include? string[] folders
---@field define? table<string, string|number|true> macros
---@field read? fun(path: string): string?, string? gives included files

---@class mare.orb.idl.Repository
---@field contents mare.orb.Definition[]
local repository = {}

---An empty repository; it knows CORBA::Object, CORBA::ValueBase and CORBA::TypeCode.
---@return mare.orb.idl.Repository
function idl.repository() end

---Adds what the text defines; nothing if it has an error.
---@param text string
---@param options? mare.orb.idl.Options
---@return mare.orb.Definition[]? definitions at the top level of the text
---@return mare.orb.idl.Errors problems errors, or after a good load notes
function repository:load(text, options) end

---@param path string
---@param options? mare.orb.idl.Options
---@return mare.orb.Definition[]? definitions
---@return mare.orb.idl.Errors problems
function repository:loadfile(path, options) end

---@param name string "Mod::Name", "Mod.Name" or an id
---@return mare.orb.Definition?
function repository:lookup(name) end

---A type by its text: "sequence<long>", "Mod::Name".
---@param text string
---@return mare.orb.Type?
---@return mare.orb.idl.Errors? errors
function repository:type(text) end

---The operations of an interface and its bases by name; attributes as _get_x and _set_x. The same table each time.
---@param interface mare.orb.Definition
---@return table<string, mare.orb.Operation>
function repository:operations(interface) end

---Whether an object of the interface is one of `id`: its own, a base's or CORBA::Object's.
---@param interface mare.orb.Definition
---@param id string
---@return boolean
function repository:is_a(interface, id) end

return idl
