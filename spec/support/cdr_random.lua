-- cdr_random: types and values at random, from a seed, and whether two are the same. For the specs of marshalling.
local c = require "spec.support.cdr"
local T = c.T

local M = {}

-- xorshift: the same numbers everywhere
function M.generator(seed)
  local state = seed * 0x9E3779B97F4A7C15 + 1
  return function(n)
    state = state ~ (state << 13)
    state = state ~ (state >> 7)
    state = state ~ (state << 17)
    return (state >> 11) % n
  end
end

local words = { "", "a", "some words", "é", "日本語", ("long "):rep(30), "\u{1d11e}" }
local scalars = {
  short = function(r) return r(65536) - 32768 end, ushort = function(r) return r(65536) end, long = function(r) return r(1 << 32) - (1 << 31) end,
  ulong = function(r) return r(1 << 32) end, longlong = function(r) return r(1 << 32) << 32 | r(1 << 32) end,
  ulonglong = function(r) return r(1 << 32) << 32 | r(1 << 32) end, octet = function(r) return r(256) end,
  boolean = function(r) return r(2) == 1 end, char = function(r) return string.char(r(128)) end,
  float = function(r) return (string.unpack("<f", string.pack("<f", (r(2000) - 1000) / 7))) end,
  double = function(r) return (r(1 << 40) - (1 << 39)) / 3 end, longdouble = function(r) return (r(1 << 40) - (1 << 39)) / 7 end,
  wchar = function(r) return utf8.char(1 + r(0xd7ff)) end, string = function(r) return words[1 + r(#words)] end,
  wstring = function(r) return words[1 + r(#words)] end, TypeCode = function(r) return ({ T.long, T.any })[1 + r(2)] end,
}
local kinds = {}
for kind in pairs(scalars) do kinds[#kinds + 1] = kind end
table.sort(kinds)

local count = 0
local function name(prefix) count = count + 1 return prefix .. count end

local make = {}
local random_type
make[1] = function(r, depth)
  local list = {}
  for i = 1, r(7) do list[2 * i - 1], list[2 * i] = name "m", random_type(r, depth) end
  return c.struct(name "S", list)
end
make[2] = function(r, depth) return c.seq(random_type(r, depth), r(3) == 0 and 20 or 0) end
make[3] = function(r, depth) return c.array(random_type(r, depth), 1 + r(4)) end
make[4] = function(r)
  local labels = {}
  for i = 1, 1 + r(20) do labels[i] = name "label" end
  return c.enum(name "E", table.unpack(labels))
end
make[5] = function(r, depth)
  local members = {}
  for i = 1, 1 + r(5) do members[i] = { 10 * i - 30, name "u", random_type(r, depth) } end
  if r(2) == 0 then members[#members + 1] = { nil, name "d", random_type(r, depth), default = true } end
  return c.union(name "U", ({ T.long, T.short, T.longlong })[1 + r(3)], table.unpack(members))
end
make[6] = function(r, depth) return c.alias(name "A", random_type(r, depth)) end
make[7] = function() return T.any end
make[8] = function(r) local digits = 1 + r(31) return { kind = "fixed", digits = digits, scale = r(digits + 1) } end
make[9] = function(r, depth)
  local s = make[1](r, depth)
  table.insert(s.members, { name = name "next", type = c.seq(s, 0) })
  return s
end

-- plain: only kinds that generated marshalling knows
local unknown = { wchar = true, wstring = true, TypeCode = true, longdouble = true, [make[5]] = true, [make[7]] = true, [make[8]] = true }
local plain_only
local function draw(r, list)
  local x
  repeat x = list[1 + r(#list)] until not (plain_only and unknown[x])
  return x
end
function random_type(r, depth)
  if depth == 0 or r(3) == 0 then return T[draw(r, kinds)] end
  return draw(r, make)(r, depth - 1)
end
function M.type(r, depth, plain)
  plain_only = plain
  return random_type(r, depth)
end

local random_value
local values = {
  struct = function(r, t, depth)
    local v = {}
    for _, m in ipairs(t.members) do v[m.name] = random_value(r, m.type, depth - 1) end
    return v
  end,
  sequence = function(r, t, depth)
    local n, element = depth <= 0 and 0 or r(5), t.element
    while element.kind == "alias" do element = element.type end
    if element.kind == "octet" then return ("\0\255x"):rep(n) end
    if element.kind == "char" then return ("y"):rep(n) end
    local v = {}
    for i = 1, n do v[i] = random_value(r, t.element, depth - 1) end
    if element.kind == "any" then v.n = n end
    return v
  end,
  array = function(r, t, depth)
    local element, v = t.element, {}
    while element.kind == "alias" do element = element.type end
    if element.kind == "octet" or element.kind == "char" then return ("z"):rep(t.length) end
    for i = 1, t.length do v[i] = random_value(r, t.element, depth - 1) end
    return v
  end,
  enum = function(r, t) return t.labels[1 + r(#t.labels)] end,
  union = function(r, t, depth)
    local i = 1 + r(#t.members)
    local m = t.members[i]
    return { _switch = m.label or 77, _field = m.name, _value = random_value(r, m.type, depth - 1) }
  end,
  alias = function(r, t, depth) return random_value(r, t.type, depth) end,
  any = function(r, _, depth)
    local t = random_type(r, depth > 0 and 1 or 0)
    return { _anytype = t, _anyval = random_value(r, t, depth - 1) }
  end,
  fixed = function(r, t)
    local digits = {}
    for i = 1, t.digits do digits[i] = r(10) end
    local text = table.concat(digits)
    local whole = text:sub(1, t.digits - t.scale):gsub("^0+", "")
    if whole == "" and (t.scale > 0 or t.digits > 0) then whole = "0" end
    local v = whole .. (t.scale > 0 and "." .. text:sub(t.digits - t.scale + 1) or "")
    return r(2) == 0 and v:find "[1-9]" and "-" .. v or v
  end,
}
function random_value(r, t, depth)
  if scalars[t.kind] then return scalars[t.kind](r) end
  return values[t.kind](r, t, depth)
end

-- A type is compared by what it says, as a TypeCode makes tables of its own.
local function same_type(a, b, seen)
  if a == b or seen[a] == b then return true end
  seen[a] = b
  if a.kind ~= b.kind or a.name ~= b.name or (a.bound or 0) ~= (b.bound or 0) or a.length ~= b.length or a.digits ~= b.digits then return false end
  for _, part in ipairs { "element", "type", "discriminator" } do
    if a[part] and not same_type(a[part], b[part], seen) then return false end
  end
  for i, m in ipairs(a.members or {}) do
    local other = b.members[i]
    if not other or m.name ~= other.name or m.label ~= other.label or not same_type(m.type, other.type, seen) then return false end
  end
  for i, l in ipairs(a.labels or {}) do if b.labels[i] ~= l then return false end end
  return true
end
local function same(a, b)
  if type(a) ~= "table" then return a == b end
  if type(b) ~= "table" then return false end
  if a.kind and b.kind and not a._anytype then return same_type(a, b, {}) end
  for k, v in pairs(a) do
    if k == "_anytype" then
      if not same_type(v, b[k], {}) then return false end
    elseif not same(v, b[k]) then return false end
  end
  for k in pairs(b) do if a[k] == nil then return false end end
  return true
end

M.value, M.same, M.same_type = random_value, same, same_type
return M
