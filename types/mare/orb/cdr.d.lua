---@meta mare.orb.cdr
-- luacheck: ignore 212 241

---Marshalling: values to bytes of CORBA's Common Data Representation and back. What a broker does by itself; see docs/internals/cdr.md.
---@class mare.orb.cdrlib
local cdrlib = {}

---@alias mare.orb.kind
---| "short"|"long"|"longlong"|"ushort"|"ulong"|"ulonglong"|"float"|"double"|"longdouble"|"boolean"|"char"|"wchar"|"octet"|"int8"|"any"|"TypeCode"
---| "void"|"null"|"string"|"wstring"|"fixed"|"sequence"|"array"|"struct"|"except"|"union"|"enum"|"alias"|"interface"|"value"|"valuebox"|"native"

---A type: a table with its kind and what belongs to it. Must not change once it was used.
---@class mare.orb.Type
---@field kind mare.orb.kind
---@field id? string repository id
---@field name? string
---@field bound? integer of strings and sequences; 0 or nil: none
---@field element? mare.orb.Type of sequences and arrays
---@field length? integer of arrays
---@field digits? integer of fixed
---@field scale? integer of fixed
---@field members? { name: string, type: mare.orb.Type, label: any }[] of structs, exceptions, unions (one for each label)
---@field discriminator? mare.orb.Type of unions
---@field default? integer of unions: which member is the default
---@field labels? string[] of enums
---@field type? mare.orb.Type of aliases, boxes
---@field state? { name: string, type: mare.orb.Type, public: boolean }[] of values
---@field bases? mare.orb.Type[] of values and interfaces
---@field supports? mare.orb.Type[] of values
---@field abstract? boolean of values and interfaces
---@field custom? boolean of values
---@field truncatable? boolean of values

---How a message is written, a sum of: 1 little-endian, 2 × GIOP minor version, 8 char goes as it is (else from UTF-8 to ISO
---8859-1), 16 wchar is UTF-16 (else none), 32 at the server, 128 (without 8) char goes from ISO 8859-1 to UTF-8, 256 the
---peers could have taken UTF-8 (for what errors advise), 512 the call was completed, 1024 perhaps (what `fail` is told), 64 a
---message whose last value is a large string or sequence of octets may be a table of three strings, whose length (#) is that of all their bytes.
---@alias mare.orb.codec integer

---@class mare.orb.cdroptions
---@field fail? fun(exception: string, minor: integer, text: string, completed: string) raises; without it errors are strings
---@field reference_in? fun(ior: string, T: mare.orb.Type): any what a canonical IOR is in Lua, when `proxies` doesn't know; without it the IOR
---@field reference_out? fun(value: any, T: mare.orb.Type): string the canonical IOR of a value, when `iors` doesn't know
---@field resolve? fun(id: string): mare.orb.Type? the program's own table for a repository id
---@field reference_type? fun(value: any): mare.orb.Type? the interface of a reference that goes into an any without a type; nil: it is none, or any object
---@field custom_out? fun(value: table, T: mare.orb.Type): table|string what a custom value writes: `{ T, value, T, value …, n = how many }`; or why it can't
---@field custom_in? fun(object: table, next: (fun(T: mare.orb.Type): any), T: mare.orb.Type): string? reads a custom value; or why it can't

---What programs share: caches and the functions for references. Neither function need enter its result in the tables; it is asked again otherwise.
---@class mare.orb.environment
---@field proxies table<string, any> canonical IOR → value, weak values
---@field iors table<any, string> value → canonical IOR, weak keys
---@field classes table<any, any> class of a valuetype → its type, repository id → class
local environment = {}

---@param options? mare.orb.cdroptions
---@return mare.orb.environment
---@nodiscard
function cdrlib.environment(options) end

---A program for values of these types, in this order.
---@param types mare.orb.Type[]
---@param names? string[] of the values, for error messages
---@return mare.orb.program
---@nodiscard
function environment:program(types, names) end

---The TypeCode of a type as bytes that go to a position aligned to 4.
---@param T mare.orb.Type
---@param big? boolean big-endian
---@return string
---@nodiscard
function environment:typecode(T, big) end

---@class mare.orb.program
local program = {}

---The values as bytes; alignment counts from the first.
---@param codec mare.orb.codec
---@param ... any as many as the program has types
---@return string bytes
---@nodiscard
function program:encode(codec, ...) end

---The values in the bytes from position `at`; alignment counts from the first byte. What follows them isn't looked at.
---@param bytes string
---@param at? integer from 1 (default)
---@param codec mare.orb.codec
---@return any ...
---@nodiscard
function program:decode(bytes, at, codec) end

---A whole Request: the head with this id in it, the values, and the size in its place.
---@param head string a GIOP header and a request header
---@param idat integer how many bytes of the head are before the id
---@param id integer
---@param codec mare.orb.codec
---@param ... any
---@return string message
---@nodiscard
function program:request(head, idat, id, codec, ...) end

---A whole Reply.
---@param id integer
---@param codec mare.orb.codec
---@param status integer 0 results, 1 user exception, 2 system exception, 3 forward, 4 forward for good, 5 needs addressing mode
---@param contexts? { [1]: integer, [2]: string }[] service contexts: id and data
---@param ... any
---@return string message
---@nodiscard
function program:reply(id, codec, status, contexts, ...) end

return cdrlib
