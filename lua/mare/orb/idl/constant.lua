-- constant: values of constant expressions, for the type they are wanted in.
--
-- The parser makes nodes: { op = "literal", kind =, text =, token = } (kind: integer, float, fixed, char, wchar, string, wstring, boolean),
-- { op = "name", definition =, token = }, { op = operator, a, b, token = } (unary ones: "negate", "plus", "invert").
-- Integers are computed exactly as { negative?, magnitude }, the magnitude unsigned. As CORBA asks, each part of an expression for a type of
-- up to 32 bits must fit into 32 bits, signed or unsigned; else into 64. `1 << 31` is no long. Kinds are never mixed: 1 is no double.
local decimal = require "mare.orb.idl.decimal"
local literal = require "mare.orb.idl.literal"

local constant = {}

local ult = math.ult

-- kind -> bits, signed?
constant.integers = {
  short = { 16, true }, long = { 32, true }, longlong = { 64, true }, ushort = { 16, false }, ulong = { 32, false }, ulonglong = { 64, false },
  octet = { 8, false }, int8 = { 8, true },
}
constant.names = {
  longlong = "long long", ushort = "unsigned short", ulong = "unsigned long", ulonglong = "unsigned long long", longdouble = "long double",
}
local kind_names = { integer = "an integer", float = "a floating point number", fixed = "a fixed point number", char = "a character",
                     wchar = "a wide character", string = "a string", wstring = "a wide string", boolean = "TRUE or FALSE", enum = "an enumerator" }
local float_kinds = { float = true, double = true, longdouble = true }

-- The type behind aliases.
function constant.resolve(type)
  while type.kind == "alias" do type = type.type end
  return type
end

local function name_of(type)
  return constant.names[type.kind] or type.kind == "enum" and type.name or type.kind
end

-- What a type asks of its constants: one of kind_names, nil if it can have none.
local function wanted(kind)
  if constant.integers[kind] then return "integer" end
  if float_kinds[kind] then return "float" end
  return kind_names[kind] and kind or nil
end

local calculator = {}
calculator.__index = calculator

function calculator:stop(node, ...) self.errors:stop(node.token, ...) end

-- The literal's or the constant's own kind must be the wanted one.
function calculator:demand(node, kind, want)
  if kind ~= want then
    local article = want == self.type.kind and "" or (" for type " .. name_of(self.type))
    local got = kind and kind_names[kind] or ("'%s', a constant of another type"):format(node.token.text)
    self:stop(node, "%s expected%s, got %s", kind_names[want], article, got)
  end
end

-- The value of a leaf, of the wanted kind.
function calculator:leaf(node, want)
  if node.op == "literal" then
    self:demand(node, node.kind, want)
    if node.kind == "boolean" then return node.value end
    local read = node.kind == "fixed" and decimal.literal or literal[(node.kind:gsub("^w", ""))]
    local value, why = read(node.text, node.wide)
    for i = 2, node.parts and value and #node.parts or 0 do     -- strings that follow each other are one
      local more
      more, why = read(node.parts[i], node.wide)
      value = more and value .. more
      if not value then break end
    end
    if value == nil then self:stop(node, "%s", why) end
    return value
  end
  local definition = node.definition
  if definition.kind ~= "const" and definition.kind ~= "enumerator" then
    self:stop(node, "'%s' is no constant, it is declared as %s at %s:%d", node.token.text, definition.kind, definition.file or "?",
      definition.line or 0)
  end
  local type = constant.resolve(definition.type)
  self:demand(node, wanted(type.kind), want)
  return definition.value, type
end

-- ---- integers ----

function calculator:fit(node, negative, magnitude)
  local top = self.bits == 64 and math.mininteger or 1 << (self.bits - 1)
  if (negative and ult(top, magnitude)) or (not negative and self.bits < 64 and ult(0xFFFFFFFF, magnitude)) then
    self:stop(node, "a part of this expression does not fit into %d bits, which is what %s is computed in", self.bits, name_of(self.type))
  end
  return negative and magnitude ~= 0, magnitude
end

function calculator:overflow(node)
  self:stop(node, "a part of this expression does not fit into %d bits, which is what %s is computed in", self.bits, name_of(self.type))
end

local arithmetic = {}

arithmetic["+"] = function(c, node, an, a, bn, b)
  if an ~= bn then
    if ult(a, b) then return bn, b - a end
    return an, a - b
  end
  if ult(a + b, a) then c:overflow(node) end
  return an, a + b
end
arithmetic["-"] = function(c, node, an, a, bn, b) return arithmetic["+"](c, node, an, a, not bn, b) end

-- Quotient and rest of unsigned numbers.
local function divide(a, b)
  if b < 0 then
    if ult(a, b) then return 0, a end
    return 1, a - b
  end
  if a >= 0 then return a // b, a % b end
  local q = ((a >> 1) // b) << 1
  local r = a - q * b
  if not ult(r, b) then q, r = q + 1, r - b end
  return q, r
end

arithmetic["*"] = function(c, node, an, a, bn, b)
  if a ~= 0 and ult((divide(-1, a)), b) then c:overflow(node) end
  return an ~= bn, a * b
end
arithmetic["/"] = function(c, node, an, a, bn, b)
  if b == 0 then c:stop(node, "division by zero") end
  return an ~= bn, (divide(a, b))
end
arithmetic["%"] = function(c, node, an, a, _, b)
  if b == 0 then c:stop(node, "division by zero") end
  local _, rest = divide(a, b)
  return an, rest
end

-- Bit operations see two's complement; a result with the sign bit is negative if an operand was.
local function bits(negative, magnitude) return negative and -magnitude or magnitude end
local function signed(pattern, negative)
  if negative and pattern < 0 then return true, -pattern end
  return false, pattern
end
arithmetic["|"] = function(_, _, an, a, bn, b) return signed(bits(an, a) | bits(bn, b), an or bn) end
arithmetic["&"] = function(_, _, an, a, bn, b) return signed(bits(an, a) & bits(bn, b), an and bn) end
arithmetic["^"] = function(_, _, an, a, bn, b) return signed(bits(an, a) ~ bits(bn, b), an ~= bn) end
arithmetic["<<"] = function(c, node, an, a, bn, b)
  if bn or not ult(b, 64) then c:stop(node, "the right side of a shift must be between 0 and 63") end
  if a ~= 0 and (a << b) >> b ~= a then c:overflow(node) end
  return an, a << b
end
arithmetic[">>"] = function(c, node, an, a, bn, b)
  if bn or not ult(b, 64) then c:stop(node, "the right side of a shift must be between 0 and 63") end
  if not an then return false, a >> b end
  return true, ((a - 1) >> b) + 1                -- towards minus infinity, as an arithmetic shift
end

function calculator:integer(node)
  local op = node.op
  if op == "literal" then return self:fit(node, false, self:leaf(node, "integer")) end
  if op == "name" then
    local value, type = self:leaf(node, "integer")
    local negative = value < 0 and type.kind ~= "ulonglong"
    return self:fit(node, negative, negative and -value or value)
  end
  local negative, magnitude = self:integer(node[1])
  if op == "plus" then return negative, magnitude end
  if op == "negate" then return self:fit(node, not negative, magnitude) end
  if op == "invert" then
    if negative then return false, magnitude - 1 end
    if self.signed then return self:fit(node, true, magnitude + 1) end
    return false, (self.bits == 64 and -1 or 0xFFFFFFFF) - magnitude
  end
  local bn, b = self:integer(node[2])
  return self:fit(node, arithmetic[op](self, node, negative, magnitude, bn, b))
end

-- An unsigned number as text.
function constant.unsigned(n)
  if n >= 0 then return tostring(n) end
  local q, r = divide(n, 10)
  return q .. tostring(r)
end

-- An integer of the type, checked against its range.
local function integer_value(c, node)
  local size, is_signed = table.unpack(constant.integers[c.type.kind])
  c.bits, c.signed = size == 64 and 64 or 32, is_signed
  local inverted = node.op == "invert" and not is_signed and size < 32
  local negative, magnitude = c:integer(node)
  if inverted then magnitude = magnitude & ((1 << size) - 1) end
  if negative and not is_signed then c:stop(node, "%s has no negative values", name_of(c.type)) end
  local most = is_signed and (1 << (size - 1)) - (negative and 0 or 1) or size == 64 and -1 or (1 << size) - 1
  if ult(most, magnitude) then
    c:stop(node, "the value %s%s does not fit into %s", negative and "-" or "", constant.unsigned(magnitude), name_of(c.type))
  end
  return negative and -magnitude or magnitude
end

-- ---- the others ----

local float_operations = {
  ["+"] = function(a, b) return a + b end, ["-"] = function(a, b) return a - b end, ["*"] = function(a, b) return a * b end,
  ["/"] = function(a, b) return b ~= 0 and a / b or nil end, negate = function(a) return -a end, plus = function(a) return a end,
}
local fixed_operations = {
  ["+"] = decimal.add, ["-"] = decimal.subtract, ["*"] = decimal.multiply, ["/"] = decimal.divide, negate = decimal.negate,
  plus = function(a) return a end,
}

-- For kinds whose values are single Lua values.
function calculator:simple(node, want, operations)
  if node.op == "literal" or node.op == "name" then return (self:leaf(node, want)) end
  local f = operations and operations[node.op]
  if not f then self:stop(node, "the operator '%s' can't be used for %s", node.token.text, name_of(self.type)) end
  local a = self:simple(node[1], want, operations)
  local b = node[2] and self:simple(node[2], want, operations)
  local result = f(a, b)
  if result == nil then self:stop(node, node.op == "/" and "division by zero" or "the result has more than 31 digits") end
  return result
end

local function float_value(c, node)
  local value = c:simple(node, "float", float_operations)
  if c.type.kind == "float" then value = string.unpack("f", string.pack("f", value)) end
  if value ~= value or value == math.huge or value == -math.huge then c:stop(node, "the value does not fit into %s", name_of(c.type)) end
  return value
end

local function string_value(c, node)
  local kind, bound = c.type.kind, c.type.bound
  local value = c:simple(node, kind)
  local length = kind == "string" and #value or utf8.len(value)
  if bound > 0 and length > bound then c:stop(node, "the string has %d characters, its type allows %d", length, bound) end
  return value
end

local function enum_value(c, node)
  if node.op ~= "name" then c:stop(node, "an enumerator of %s expected", c.type.name) end
  local value, type = c:leaf(node, "enum")
  if type ~= c.type then c:stop(node, "'%s' belongs to the enum %s, not to %s", node.token.text, type.name, c.type.name) end
  return value
end

local function plain(kind) return function(c, node) return c:simple(node, kind) end end

local values = {
  float = float_value, double = float_value, longdouble = float_value, string = string_value, wstring = string_value, enum = enum_value,
  boolean = plain "boolean", char = plain "char", wchar = plain "wchar",
  fixed = function(c, node) return c:simple(node, "fixed", fixed_operations) end,
}
for kind in pairs(constant.integers) do values[kind] = integer_value end

function constant.allowed(type) return values[constant.resolve(type).kind] ~= nil end

-- The value of `node` as one of `type` (of an allowed one); complains through errors:stop.
---@param node table
---@param type mare.orb.Type
---@param errors mare.orb.idl.Errors
function constant.evaluate(node, type, errors)
  local c = setmetatable({ type = constant.resolve(type), errors = errors }, calculator)
  return values[c.type.kind](c, node)
end

return constant
