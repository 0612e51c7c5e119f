--[[
mare.oil.convert: values of OiL's programs for the broker, and back.

For each type there are at most two functions, made when the type is first used: `out(value, seen)` gives what the broker wants, `into(value,
seen)` what
OiL gives. nil: both have the same value, which is so for strings, floats, TypeCodes and structures of such. References are no matter of this module:
the broker asks mare.oil.orb for them while it marshals.

Outwards values are copied, as they are the program's; what came in was made for this message, and is changed in place. `seen` maps the values
(CORBA's valuetypes) of a message to what became of them, so that two references to one stay two to one.
]]
local basic = require "mare.orb.idl.basic"
local descriptor = require "mare.oil.descriptor"

local unaliased, dress = descriptor.unaliased, descriptor.dress

local convert = {}

local INTEGERS = { short = true, long = true, longlong = true, ushort = true, ulong = true, ulonglong = true, octet = true, int8 = true }
local out_of, into_of                            -- by kind: (self, T) -> function | nil

--- A set of conversions. broker: for the types of values; factories: OiL's, by repository id.
function convert.new(broker, factories)
  local self = { broker = broker, factories = factories, outs = setmetatable({}, { __mode = "k" }), intos = setmetatable({}, { __mode = "k" }) }
  return setmetatable(self, { __index = convert })
end

-- The function of a type in one direction. While it is made the type may occur inside of itself: that gets a function that asks for it later.
local function of(self, memo, makers, T)
  T = unaliased(T)
  local f = memo[T]
  if f ~= nil then return f or nil end
  local made
  memo[T] = function(v, seen)
    if made then return made(v, seen) end
    return v
  end
  local make = makers[T.kind]
  made = make and make(self, T)
  memo[T] = made or false
  return made
end

function convert:out(T) return of(self, self.outs, out_of, T) end
function convert:into(T) return of(self, self.intos, into_of, T) end

-- ---- outwards ----

-- A C cast, as OiL's marshalling does: 22.7 is 22.
local function integer(v)
  if math.type(v) == "float" then
    local whole = v >= 0 and v // 1 or -(-v // 1)
    return math.tointeger(whole) or v
  end
  return v
end

local function boolean(v) return v and true or false end

local function bytes(v)
  if type(v) ~= "table" then return v end
  local parts = {}
  for i = 1, v.n or #v do
    local b = v[i]
    parts[i] = type(b) == "number" and b >= 0 and b < 256 and string.char(integer(b)) or b
  end
  return table.concat(parts)
end

out_of = { boolean = function() return boolean end }
for kind in pairs(INTEGERS) do out_of[kind] = function() return integer end end

local function list_out(self, T)
  local kind = unaliased(T.element).kind
  if kind == "octet" or kind == "char" then return bytes end
  local f = self:out(T.element)
  if not f then return nil end
  return function(v, seen)
    if type(v) ~= "table" then return v end
    local list = { n = v.n }
    for i = 1, v.n or #v do list[i] = f(v[i], seen) end
    return list
  end
end
out_of.sequence, out_of.array = list_out, list_out

-- Member names with their functions; nil if there is none.
local function members(self, list, direction)
  local names, functions, some = {}, {}, false
  for i, m in ipairs(list) do
    names[i], functions[i] = m.name, self[direction](self, m.type) or false
    some = some or functions[i]
  end
  return some and names, functions
end

-- A value that is no table (a userdata with such fields) is always copied.
local function struct_out(self, T)
  local names, functions = members(self, T.members, "out")
  return function(v, seen)
    if type(v) == "table" and not names or type(v) ~= "table" and type(v) ~= "userdata" then return v end
    local copy = {}
    for i, m in ipairs(T.members) do
      local f = functions[i]
      if f then copy[m.name] = f(v[m.name], seen) else copy[m.name] = v[m.name] end
    end
    return copy
  end
end
out_of.struct = struct_out
function out_of.except(self, T)
  local f = struct_out(self, T)
  return function(v, seen)
    local copy = f(v, seen)
    if copy ~= v then copy._repid = T.id end
    return copy
  end
end

local function member_of(T, switch)
  for i, m in ipairs(T.members) do
    if m.label == switch and i ~= T.default then return m end
  end
  return T.default and T.members[T.default]
end

-- OiL's six ways to write a union, in its order of precedence.
function out_of.union(self, T)
  local switched = unaliased(T.discriminator)
  local named = {}
  for _, m in ipairs(T.members) do named[m.name] = named[m.name] or m end
  return function(v, seen)
    if type(v) ~= "table" then return v end
    local switch, value, m = v._switch, v._value, nil
    if switch ~= nil then
      if INTEGERS[switched.kind] then switch = integer(switch) end
      m = member_of(T, switch)
    elseif v._field ~= nil then
      m = named[v._field]
    else
      for _, other in ipairs(T.members) do
        if v[other.name] ~= nil then
          m = other
          break
        end
      end
    end
    if not m then return v end
    if value == nil then value = v[m.name] end
    local f = self:out(m.type)
    if f then value = f(value, seen) end
    if switch ~= nil then return { _switch = switch, _value = value } end
    return { [m.name] = value }
  end
end

-- The type that a value names itself, as OiL's do: its metatable, or a field `__type` of that or of its own.
local function type_of(v)
  local meta = getmetatable(v)
  if descriptor.is(meta) then return meta end
  local T = type(meta) == "table" and rawget(meta, "__type")
  if descriptor.is(T) then return T end
  T = type(v) == "table" and v.__type
  return descriptor.is(T) and T or nil
end

local function states(T, into)
  for _, base in ipairs(T.bases) do states(base, into) end
  for _, m in ipairs(T.state) do into[#into + 1] = m end
  return into
end

local function value_out(self, declared)
  return function(v, seen)
    if type(v) ~= "table" then return v end
    if seen[v] then return seen[v] end
    local T = type_of(v)
    if not T or T.kind ~= "value" then T = declared.kind == "value" and not declared.abstract and declared or nil end
    if not T then return v end
    local copy = {}
    if T ~= declared then copy._repid = T.id end
    seen[v] = copy
    for _, m in ipairs(states(T, {})) do
      local f = self:out(m.type)
      if f then copy[m.name] = f(v[m.name], seen) else copy[m.name] = v[m.name] end
    end
    return copy
  end
end
out_of.value = value_out

function out_of.interface(self, T)
  if not T.abstract then return nil end
  local f = value_out(self, T)
  return function(v, seen)
    local named = type(v) == "table" and type_of(v)
    if named and named.kind == "value" then return f(v, seen) end
    return v
  end
end

function out_of.valuebox(self, T) return self:out(T.type) end

-- What a plain value is in an any: numbers are doubles.
local function any_out(self, v, seen)
  if type(v) == "number" then return { _anytype = basic.double, _anyval = v } end
  if type(v) ~= "table" and type(v) ~= "userdata" then return v end
  local meta = getmetatable(v)
  local T = descriptor.is(meta) and meta or type(meta) == "table" and rawget(meta, "__type") or nil
  if not descriptor.is(T) then T = nil end
  if not T and type(v) == "table" and type(rawget(v, "_anytype")) == "table" then T = rawget(v, "_anytype") end
  if not T then return v end                     -- a reference, or none: the broker says
  local value = v
  if type(v) == "table" then
    local inner = rawget(v, "_anyval")
    if inner ~= nil or unaliased(T).kind == "null" then value = inner end
  end
  local f = self:out(T)
  if f then value = f(value, seen) end
  return { _anytype = T, _anyval = value }
end

function out_of.any(self)
  return function(v, seen) return any_out(self, v, seen) end
end

-- ---- inwards ----

into_of = {}

function into_of.sequence(self, T)
  local kind = unaliased(T.element).kind
  if kind == "octet" or kind == "char" then return nil end
  local f = self:into(T.element)
  return function(v, seen)
    if type(v) ~= "table" then return v end
    v.n = v.n or #v
    if f then
      for i = 1, v.n do v[i] = f(v[i], seen) end
    end
    return v
  end
end

function into_of.array(self, T)
  local f = self:into(T.element)
  return f and function(v, seen)
    for i = 1, type(v) == "table" and T.length or 0 do v[i] = f(v[i], seen) end
    return v
  end
end

function into_of.struct(self, T)
  local names, functions = members(self, T.members, "into")
  return names and function(v, seen)
    for i, name in ipairs(names) do
      local f = functions[i]
      if f then v[name] = f(v[name], seen) end
    end
    return v
  end
end
into_of.except = into_of.struct

function into_of.union(self, T)
  return function(v, seen)
    local m = member_of(T, v._switch)
    if not m or v._field == nil then return v end
    local f = self:into(m.type)
    if f then v._value = f(v._value, seen) end
    v[m.name] = v._value
    return v
  end
end

function into_of.TypeCode()
  return function(v) return type(v) == "table" and dress(v) or v end
end

-- OiL's any is the value itself, if that is a table, with two fields more.
function into_of.any(self)
  return function(v, seen)
    if type(v) ~= "table" then return v end
    local T, value = dress(v._anytype), v._anyval
    local f = self:into(T)
    if f then value = f(value, seen) end
    if type(value) ~= "table" or descriptor.is(value) then
      v._anyval = value
      return v
    end
    rawset(value, "_anytype", T)
    rawset(value, "_anyval", value)
    return value
  end
end

local function value_into(self, declared)
  return function(v, seen)
    if type(v) ~= "table" or seen[v] then return v end
    local id = rawget(v, "_repid")
    local T = id and self.broker.repository:lookup(id) or declared
    if T.kind ~= "value" then return v end
    seen[v] = true
    for _, m in ipairs(states(T, {})) do
      local f = self:into(m.type)
      if f then v[m.name] = f(v[m.name], seen) end
    end
    if not getmetatable(v) then setmetatable(v, dress(T)) end
    local factory = self.factories[T.id]
    if factory then factory(v) end
    return v
  end
end
into_of.value = value_into

function into_of.interface(self, T)
  if not T.abstract then return nil end
  local f = value_into(self, T)
  return function(v, seen)
    if type(v) == "table" and rawget(v, "_repid") then return f(v, seen) end
    return v
  end
end

function into_of.valuebox(self, T) return self:into(T.type) end

-- ---- operations ----

local function list_of(self, direction, types)
  local functions, some = {}, false
  for i, T in ipairs(types) do
    functions[i] = self[direction](self, T) or false
    some = some or functions[i]
  end
  functions.n = #types
  return some and functions or false
end

--- The conversions of an operation: { calls = of the arguments outwards, arguments = inwards, results = outwards, replies = inwards, count }, each
-- a list or false.
function convert:operation(def)
  local ins, outs = descriptor.place(def).inputs, def.outputs
  return { def = def, calls = list_of(self, "out", ins), arguments = list_of(self, "into", ins), results = list_of(self, "out", outs),
           replies = list_of(self, "into", outs), ins = #ins, outs = #outs }
end

--- Applies a list of functions to packed values, in place.
function convert.apply(functions, values)
  if not functions then return values end
  local seen = {}
  for i = 1, functions.n do
    local f = functions[i]
    if f then values[i] = f(values[i], seen) end
  end
  if values.n < functions.n then values.n = functions.n end
  return values
end

return convert
