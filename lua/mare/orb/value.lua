--[[
mare.orb.value: classes of valuetypes, and what custom ones write and read.

A class is the metatable of its type's values. The marshalling environment knows both by `classes`: class -> type, repository id -> class. A custom
value writes into a list of types and values (src/cdr/value_custom.c), and reads by a function that gives the next value of a type.
]]
local basic = require "mare.orb.idl.basic"
local near = require "mare.orb.near"

local value = {}

local TYPES = { "boolean", "char", "wchar", "octet", "short", "ushort", "long", "ulong", "longlong", "ulonglong", "float", "double", "longdouble",
                "string", "wstring", "any", "TypeCode" }
local abstract = { kind = "interface", id = "IDL:omg.org/CORBA/AbstractBase:1.0", name = "AbstractBase", abstract = true, bases = {} }
local named = { value = basic.valuebase, object = basic.object, abstract = abstract }
for _, name in ipairs(TYPES) do named[name] = basic[name] end

-- ---- streams ----

local writer, reader = {}, {}
writer.__index, reader.__index = writer, reader

-- What is wrong with a text is the mistake of the class that calls write or read.
local function type_of(stream, T)
  if type(T) ~= "string" then return T end
  local is, errors = stream.broker.repository:type(T)
  return is or error(tostring(errors), 3)
end

local function put(out, T, v)
  local n = out.n
  out[2 * n + 1], out[2 * n + 2], out.n = T, v, n + 1
end

--- The value of a type: one of the broker's, or how IDL writes it.
function writer:write(T, v) put(self.list, type_of(self, T), v) end
function reader:read(T) return self.next(type_of(self, T)) end

local function array(T, n) return { kind = "array", element = T, length = n } end

for name, T in pairs(named) do
  writer["write_" .. name] = function(self, v) put(self.list, T, v) end
  reader["read_" .. name] = function(self) return self.next(T) end
  writer["write_" .. name .. "_array"] = function(self, list)
    if #list > 0 then put(self.list, array(T, #list), list) end
  end
  reader["read_" .. name .. "_array"] = function(self, n)
    if n == 0 then return (T.kind == "octet" or T.kind == "char") and "" or {} end
    return self.next(array(T, n))
  end
end

-- What a value of that type, or an object with its own type, is or has.
function writer:write_value(v, T) put(self.list, T and type_of(self, T) or basic.valuebase, v) end
function reader:read_value(T) return self.next(T and type_of(self, T) or basic.valuebase) end
function writer:write_object(v, T) put(self.list, T and type_of(self, T) or basic.object, v) end
function reader:read_object(T) return self.next(T and type_of(self, T) or basic.object) end

-- An error with a text is the class's own and becomes an exception; others go on: exceptions, and the end of a fiber.
local function guarded(what, T, method, object, stream)
  if type(method) ~= "function" then return ("the class of %s has no method '%s', which a custom value needs"):format(T.scoped or T.id, what) end
  local good, err = pcall(method, object, stream)
  if good then return nil end
  if type(err) ~= "string" or err:find("not enough memory", 1, true) then error(err, 0) end
  return ("'%s' of %s failed: %s"):format(what, T.scoped or T.id, err)
end

--- The marshalling environment's: what a custom value writes, as { type, value, type, value …, n = how many }. Or a text: why it can't.
function value.custom_out(broker)
  return function(object, T)
    local list = { n = 0 }
    local class = getmetatable(object)
    local method = object.write
    if class == nil and method == nil then return T.scoped .. " is custom: its class must be known, broker:factory(type, class)" end
    return guarded("write", T, method, object, setmetatable({ broker = broker, list = list }, writer)) or list
  end
end

--- The marshalling environment's: an empty object reads itself. Or a text: why it can't.
function value.custom_in(broker)
  return function(object, next, T)
    return guarded("read", T, object.read, object, setmetatable({ broker = broker, next = next }, reader))
  end
end

-- ---- classes ----

local function values(list, names)
  for _, def in ipairs(list or {}) do
    if def.kind == "value" then names[#names + 1] = def.scoped end
    if def.contents then values(def.contents, names) end
  end
  return names
end

local function definition(broker, name)
  local def = name
  if type(name) == "string" then def = broker.repository:lookup(name) end
  if type(def) == "table" and def.kind == "value" and def.state then return def end
  local meant = type(name) == "string" and near(name, values(broker.repository.contents, {}))
  local what = type(def) == "table" and ("'%s' is of kind %s, not a valuetype"):format(def.scoped or tostring(name), def.kind)
    or ("no valuetype '%s' was loaded"):format(tostring(name))
  error(what .. (meant and "; did you mean " .. meant .. "?" or ""), 4)
end

--- The class of a valuetype: its values get it as their metatable, and tables that have it are values of that type. nil: it has none any more.
function value.factory(broker, name, class)
  local def = definition(broker, name)
  if def.abstract then error(("'%s' is abstract: there are no values of it"):format(def.scoped), 3) end
  if class ~= nil and type(class) ~= "table" then error(("factory takes a class, the metatable of its values, not a %s"):format(type(class)), 3) end
  local classes = broker.env.classes
  local other = class and classes[class]
  if other and other ~= def then error(("this class is that of '%s' already: '%s' needs one of its own"):format(other.scoped, def.scoped), 3) end
  local before = classes[def.id]
  if before then classes[before] = nil end
  classes[def.id] = class
  if class then classes[class] = def end
end

return value
