-- CDR: values of every type of the rich interface, any and TypeCode among them, from bytes.
--
-- The first byte chooses the types (an operation's arguments or results, an exception), the second the codec, the rest is decoded. What could be
-- decoded must encode, and from then on stay the same, byte for byte. The fourth and the fifth say how many TypeCodes there are around the one that
-- follows (the sixth chooses their kinds), as no input is long enough for the depths that are allowed. Few of what is made up goes that deep, as
-- each level costs some microseconds: the others are about where recursion ends and the loops take over (type.h).
local cdr = require "mare.orb.cdr"
local idl = require "mare.orb.idl"

local nest = dofile(ROOT .. "/spec/support/nest.lua")                     -- luacheck: globals ROOT

local repo = idl.repository()
local function load(text) assert(repo:load(text, { name = "rich.idl" })) end
local file = assert(io.open(ROOT .. "/spec/orb_peers/rich.idl", "rb"))   -- luacheck: globals ROOT
load(file:read "a")
file:close()
file = assert(io.open(ROOT .. "/spec/orb_peers/values.idl", "rb"))       -- luacheck: globals ROOT
load(file:read "a")
file:close()
load [[
  #include <orb.idl>
  module Odd {
    struct Node; typedef sequence<Node> Nodes; struct Node { Nodes first, second; };
    typedef sequence<any, 3> Few; typedef sequence<CORBA::TypeCode> Codes; typedef sequence<sequence<sequence<octet> > > Deep;
    union Wide switch (short) { case 1: wstring s; default: wchar c; };
    struct Text { string<3> s; wstring<3> w; wchar c; wstring d; fixed<31,15> f; long double g; };
    interface Each {
      void f_nodes(in Nodes x); void f_few(in Few x); void f_codes(in Codes x); void f_deep(in Deep x); void f_text(in Text x); void f_any(in any x);
      void f_code(in CORBA::TypeCode x); void f_odd(in Each e, in Object o, in Wide w);
      void f_every(in Nodes x1, in Few x2, in Codes x3, in Deep x4, in Text x5, in any x6);
    };
  };
]]

-- `why` is what an exception of the broker would be.
local Failure = { __tostring = function(f) return ("%s %d: %s"):format(f.why, f.minor, f.text) end }
local allowed = { MARSHAL = true, BAD_PARAM = true, DATA_CONVERSION = true, INV_OBJREF = true, NO_IMPLEMENT = true, BAD_TYPECODE = true }

local env = cdr.environment {
  reference_in = function(ior, type) return setmetatable({ ior = ior, type = type }, { __name = "reference" }) end,
  reference_out = function(value) return value.ior end,
  fail = function(why, minor, text) error(setmetatable({ why = why, minor = minor, text = text }, Failure)) end,
  resolve = function(id) return repo:lookup(id) end,
  custom_out = function(value) return { n = 2, repo:lookup "Odd::Text", value.text, repo:type "CORBA::ValueBase", value.value } end,
  custom_in = function(object, next)
    object.text = next(repo:lookup "Odd::Text")
    object.value = next(repo:type "CORBA::ValueBase")
  end,
}
local custom = {}
custom.__index = custom
env.classes[custom], env.classes[repo:lookup("Tide::Odd").id] = repo:lookup "Tide::Odd", custom

local list, index = {}, {}
local function add(name, types)
  if #types == 0 then return end
  list[#list + 1] = env:program(types)
  index[name] = #list
end

-- name .. ">" are the programs of arguments, name .. "<" of results.
local function operations(scoped)
  local names, all = {}, repo:operations(repo:lookup(scoped))
  for name in pairs(all) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local into, out, op = {}, {}, all[name]
    if op.result.kind ~= "void" then out[1] = op.result end
    for _, p in ipairs(op.params) do
      if p.mode ~= "out" then into[#into + 1] = p.type end
      if p.mode ~= "in" then out[#out + 1] = p.type end
    end
    if not index[name .. ">"] then add(name .. ">", into) end
    if not index[name .. "<"] then add(name .. "<", out) end
    for _, e in ipairs(op.raises or {}) do
      if not index[e.id] then add(e.id, { e }) end
    end
  end
end
operations "Odd::Each"
operations "Shore::Rich"
operations "Shore::More"
operations "Tide::Values"
operations "Tide::Crafts"
assert(#list < 256)

local function check_failure(err)
  if getmetatable(err) ~= Failure then error(err, 0) end
  if not (allowed[err.why] and math.type(err.minor) == "integer" and type(err.text) == "string") then error(tostring(err), 0) end
end

-- A TypeCode from the wire may name two members of a structure alike (or none of them at all): their values are lost in one table.
local function ambiguous(v, seen)
  if type(v) ~= "table" or seen[v] then return false end
  seen[v] = true
  local names = {}
  for _, m in ipairs((v.kind == "struct" or v.kind == "except") and v.members or {}) do
    if names[m.name] then return true end
    names[m.name] = true
  end
  for _, inner in next, v do
    if ambiguous(inner, seen) then return true end
  end
  return false
end

local function again(program, codec, values)
  local ok, first = pcall(function() return program:encode(codec, table.unpack(values, 2, values.n)) end)
  local sent = not ok and tostring(first) or ""                                       -- what peers may send, but we don't
  if sent:find "without zero %a+ expected" or sent:find("a char is one byte, and UTF-8 has none", 1, true) then return end
  if not ok and ambiguous(values, {}) then return end
  if not ok then error(("what was decoded does not encode: %s"):format(tostring(first)), 0) end
  local second = table.pack(pcall(program.decode, program, first, 1, codec))
  -- How many elements without bytes there may be depends on how many bytes are left.
  local text = second[1] and "" or tostring(second[2])
  if text:find("a list longer than the bytes that are left", 1, true) or text:find("more values than a message", 1, true) then return end
  if not second[1] then error(("what was encoded does not decode: %s"):format(tostring(second[2])), 0) end
  local third = program:encode(codec, table.unpack(second, 2, second.n))
  if first ~= third then error("values change with every turn", 0) end
end

local KINDS = { "s", "t", "a", "u", "l", "st", "stluasltas", "ll", "su", "as" }

local function deepened(data)
  local less, more = data:byte(4, 5)
  if #data < 9 or less | more == 0 then return data end
  local levels = more >= 240 and less * 42 or less % 64
  local kinds = KINDS[data:byte(6) % #KINDS + 1]
  return data:sub(1, 8) .. nest.typecode(kinds:rep(levels // #kinds + 1):sub(1, levels), data:sub(9)), data:byte(1) % 2 == 0 and "f_any>" or "f_code>"
end

local function run(data)
  if #data < 3 then return end
  local deep
  data, deep = deepened(data)
  local program = list[deep and index[deep] or data:byte(1) % #list + 1]
  local codec = data:byte(2) & 191
  if codec & 6 == 6 then codec = codec & ~2 end
  if codec & 136 == 136 then codec = codec & ~8 end
  if deep then codec = codec | 1 end
  local bytes, at = data, 9
  if codec & 6 == 2 and data:byte(3) & 1 == 1 then         -- a 1.1 message from fragments, with the list of its seams behind it
    bytes, at = "GIOP\1\1\128\1\0\0\0\0" .. data:sub(9), 13
  end
  local values = table.pack(pcall(program.decode, program, bytes, at, codec))
  if not values[1] then return check_failure(values[2]) end
  again(program, codec, values)
end

return run, index
