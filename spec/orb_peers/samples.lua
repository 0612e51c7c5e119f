-- The samples of rich.idl in Lua: the values of cpp/samples.cc and java/Samples.java, and what compares them.
--
--   local samples = require "spec.orb_peers.samples"(broker)      rich.idl must be loaded
--   samples.list.short[1]                   sample 0
--   samples.same(got, want)                 by value: numbers by ==, decimals without their trailing zeros, TypeCodes by their bytes
local function repeated(text, n) return (text:rep(n // #text + 1):sub(1, n)) end

local function octets(n, factor)
  local bytes = {}
  for k = 0, n - 1 do bytes[k + 1] = string.char(k * factor % 256) end
  return table.concat(bytes)
end

local function cube(i)
  local v = {}
  for a = 0, 1 do
    v[a + 1] = {}
    for b = 0, 2 do
      local sign = i == 0 and 1 or -1
      v[a + 1][b + 1] = { (a * 100 + b * 10) * sign, (a * 100 + b * 10 + 1) * sign }
    end
  end
  return v
end

local LARGE = repeated("abcdefghijklmnopqrstuvwxyz", 200000)
local WIDE, EIGHT = "olá ∆ 潮", ("∆"):rep(8)
local MIN, MAX = math.mininteger, math.maxinteger
local points = { { x = -7, y = 2.25 }, { x = 32767, y = -1e-300 } }
local names = { { "", "a" }, { "bc", "olá" } }

local function mixed(i)
  if i == 0 then
    return { o = 0, s = 0, c = "c", l = 0, b = false, ll = 0, f = 0, st = "", d = 0, t = "LOW", us = 0, ul = 0, ull = 0, p = points[1] }
  end
  return { o = 255, s = -2, c = "m", l = -3, b = true, ll = MIN + 1, f = 0.5, st = "mixed", d = -2.5, t = "HIGH", us = 65535, ul = 4294967295,
           ull = -1, p = points[1] }
end

local function mixeds()
  local list = {}
  for k = 1, 1000 do
    list[k] = mixed(1)
    list[k].l = k - 1
  end
  return list
end

local function tree(name, ...) return { name = name, kids = { ... } } end
local function union(switch, value) return { _switch = switch, _value = value } end
local function number(n) return union(0, n) end
local function sum(...) return union(1, { ... }) end

local scalars = {
  short = { 0, -32768, 32767 }, long = { 0, -2147483648, 2147483647 }, longlong = { 0, MIN, MAX, 9007199254740993 },
  ushort = { 0, 65535 }, ulong = { 0, 4294967295 }, ulonglong = { 0, -1, MIN },
  float = { 0, -1.5, 3.4028234663852886e38, math.huge }, double = { 0, 3.141592653589793, 1e308, -math.huge },
  boolean = { true, false }, char = { "a", "~", "á" }, octet = { 0, 255 }, wchar = { "a", "á", "∆", "\u{fffd}" }, tide = { "LOW", "FALLING" },
  string = { "", "low tide", "olá", LARGE }, name8 = { "", "12345678" }, wstring = { "", WIDE, "\u{1f30a}" }, wide8 = { "", EIGHT },
  money = { "12345.67", "99999.99", "-99999.99", "0.00", "-0.01" },
  digits = { "9999999999999999999999999999999", "-1234567890123456789012345678901", "0" },
  part = { "0.9999", "0.0001", "-0.5" },
}

local lists = {
  cube = { cube(0), cube(1) }, names = { names }, six = { octets(6, 1), ("\255"):rep(6) }, four = { "tide" },
  corners = { { { x = -1, y = 0.5 }, { x = 1, y = -0.5 } } },
  octets = { "", octets(256, 1), octets(300000, 7), octets(10000, 7) }, chars = { "", "abc~" }, booleans = { {}, { true, false, true } },
  shorts = { {}, { -1, 0, 1 } }, longlongs = { {}, { MIN, MAX, 9007199254740993 } }, doubles = { {}, { 0.1, -1e300 } },
  strings = { {}, { "", "a", "olá" } }, wstrings = { {}, { "", "∆" } }, atmost4 = { {}, { 1, 2, 3, 4 } },
  table = { {}, { { 1 }, {}, { 2, 3 } } }, cubes = { {}, { cube(0), cube(1) } }, tides = { {}, { "LOW", "RISING", "HIGH", "FALLING" } },
  point = points, mixed = { mixed(0), mixed(1) }, mixeds = { {}, mixeds() },
  keywords = { { ["end"] = 1, ["function"] = "two", ["nil"] = true, ["and"] = 4, ["until"] = 5 } },
  tree = { tree("leaf"), tree("root", tree("a"), tree("b", tree("c"))) },
}

local unions = {
  byboolean = { union(true, 5), union(false, "nay") }, onlytrue = { union(true, -5), union(false) },
  bychar = { union("a", 1), union("b", "b"), union("c", "c"), union("z", 2.5) },
  byshort = { union(-1, "minus one"), union(-32768, -9), union(0, true), union(77, 200) },
  bylong = { union(-2147483647, -1), union(2147483647, "top"), union(5) },
  byushort = { union(0, 9), union(32767, points[1]), union(5) },
  byulong = { union(2147483647, MAX), union(4294967295, "other") },
  bytide = { union("LOW", 1), union("HIGH", 2), union("RISING", "up"), union("FALLING", points[1]) },
  expr = { number(7), sum(number(1), sum(), sum(number(2), number(3))) },
  byfarushort = { union(65535, points[1]), union(3) },
  bylonglong = { union(-9223372036854775807, -1), union(4294967296, "big"), union(5) },
  byfarulong = { union(4294967295, -1), union(1, "other") },
  byulonglong = { union(-1, "g"), union(MIN, { 1, 2 }) },
  longdouble = { 0.5, -1.25e300 },
}

-- How many samples t_X is tried with in one go; the rest are features of their own.
local counts = { char = 2, digits = 2, byushort = 2, bylong = 2, money = 3, bychar = 3, byshort = 3, part = 1, byulong = 1 }

local any_names = { "null", "short", "long", "longlong", "ushort", "ulong", "ulonglong", "float", "double", "boolean", "char", "octet", "string",
  "bounded string", "fixed", "enum", "alias", "struct", "nested struct", "recursive struct", "union", "recursive union", "sequence",
  "sequence of structs", "octets", "array", "array of strings", "nil reference", "any", "TypeCode", "exception" }
local wide_names = { "wchar", "wstring", "bounded wstring" }

local function anys(broker, deep)
  local function any(T, v) return { _anytype = type(T) == "string" and broker:type(T) or T, _anyval = v } end
  local shore = broker.types.Shore
  local full = shore.Full { t = "HIGH", n = -1, s = "full", p = points[1], list = { "a" } }
  local list = {
    any { kind = "null" }, any("short", -32768), any("long", -2147483648), any("long long", MIN), any("unsigned short", 65535),
    any("unsigned long", 4294967295), any("unsigned long long", -1), any("float", -1.5), any("double", 3.141592653589793), any("boolean", true),
    any("char", "z"), any("octet", 255), any("string", "olá"), any("Shore::Name8", "12345678"), any("Shore::Money", "12345.67"),
    any("Shore::Tide", "RISING"), any("Shore::Metres", 12), any("Shore::Point", points[1]), any("Shore::Deep", deep),
    any("Shore::Tree", lists.tree[2]), any("Shore::ByTide", unions.bytide[4]), any("Shore::Expr", unions.expr[2]),
    any("Shore::Shorts", { -1, 0, 1 }), any("Shore::Mixeds", lists.mixeds[2]), any("Shore::Octets", octets(256, 1)), any("Shore::Cube", cube(0)),
    any("Shore::Names", names), any("Shore::Base", nil), any("any", any("string", "inner")), any("CORBA::TypeCode", shore.Tree),
    any(shore.Full, full),
  }
  return list, { any("wchar", "∆"), any("wstring", WIDE), any("Shore::Wide8", EIGHT) },
    { {}, { any("long", 1), any { kind = "null" }, any("string", "three") } }
end

local function typecodes(broker)
  local list = {}
  for _, name in ipairs { "long", "Name8", "Mixed", "Tree", "Expr", "Deep", "Money", "Cube", "ByTide", "Full", "Rich", "Wide8", "Octets", "Metres",
                          "Tide", "ByShort", "Forest" } do
    list[#list + 1] = name == "Full" and broker.types.Shore.Full or broker:type(name == "long" and name or "Shore::" .. name)
  end
  list[#list + 1] = { kind = "null" }
  list[#list + 1] = { kind = "void" }
  return list
end

local same

-- Of what has an identifier only that counts: JacORB's TypeCodes of unions have their labels in another order.
local function same_type(env, got, want)
  if got.kind ~= want.kind then return false end
  return got.id and got.id == want.id or env:typecode(got) == env:typecode(want)
end

local function same_any(env, got, want)
  return type(got) == "table" and got._anytype and same_type(env, got._anytype, want._anytype) and same(env, got._anyval, want._anyval)
end

local function decimal(text)
  local sign, whole, rest = tostring(text):match("^(%-?)0*(%d*)%.?(%d-)0*$")
  return sign and sign .. whole .. "." .. rest
end

local function same_table(env, got, want)
  if type(got) ~= "table" or #got ~= #want then return false end
  if want.kind then return env:typecode(got) == env:typecode(want) end
  if want._anytype then return same_any(env, got, want) end
  for name, value in pairs(want) do
    if not same(env, got[name], value) then return false end
  end
  return want._switch == nil or want._value ~= nil or got._value == nil
end

function same(env, got, want)
  if type(want) == "table" then return same_table(env, got, want) end
  if got == want then return true end
  return type(want) == "string" and type(got) == "string" and want:find("^%-?%d+%.?%d*$") ~= nil and decimal(got) == decimal(want)
end

local function text(v, depth)
  if type(v) == "string" then return ("%q"):format(#v > 60 and v:sub(1, 60) .. "…" or v) end
  if type(v) ~= "table" then return tostring(v) end
  if v.kind then return v.kind .. " " .. tostring(v.name or "") end
  local parts = {}
  for name, value in pairs(v) do
    if #parts == 8 or (depth or 0) > 3 then parts[#parts + 1] = "…" break end
    parts[#parts + 1] = (type(name) == "number" and "" or name .. "=") .. text(value, (depth or 0) + 1)
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

return function(broker)
  local list = {}
  for _, some in ipairs { scalars, lists, unions } do
    for name, values in pairs(some) do list[name] = values end
  end
  local deep = { m = mixed(1), ps = points, n = names, tiny = { "\1\2\3", "" }, a = { _anytype = { kind = "long" }, _anyval = 5 } }
  list.deep = { deep }
  list.any, list.wideany, list.anys = anys(broker, deep)
  list.typecode = typecodes(broker)
  return {
    list = list, any_names = any_names, wide_names = wide_names, text = text,
    count = function(name) return counts[name] or #list[name] end,
    same = function(got, want) return same(broker.env, got, want) end,
  }
end
