-- seeds.lua: makes the corpora that fuzzing begins with, fuzz/corpus/<target>/, out of the peers' captures and of examples.
--   bin/mare run fuzz/seeds.lua           in the project's folder, after a change of the captures or of a target
local core = require "mare.orb.giop.core"
local bidir = require "mare.orb.giop.bidir"
local gssup = require "mare.orb.giop.gssup"
local ior = require "mare.orb.giop.ior"

local LARGEST = 1500
local written = {}

-- Files are named by their content, so that the same seeds are the same files.
local function name_of(data)
  local h = -0x340d631b7bdddcdb
  for i = 1, #data do h = (h ~ data:byte(i)) * 1099511628211 end
  return ("%016x"):format(h)
end

local function seed(target, data)
  if #data > LARGEST or data == "" then return end
  local path = ("fuzz/corpus/%s/%s"):format(target, name_of(data))
  if written[path] then return end
  written[path] = true
  local file = assert(io.open(path, "wb"))
  file:write(data)
  file:close()
end

local function messages(path)
  local file = io.open(path, "rb")
  if not file then return function() end end
  local all, at = file:read "a", 1
  file:close()
  return function()
    if at > #all then return end
    local from = all:sub(at, at)
    local size = 12 + string.unpack(all:byte(at + 8) & 1 == 1 and "<I4" or ">I4", all, at + 10)
    local message = all:sub(at + 2, at + 1 + size)
    at = at + 2 + size
    return from, message
  end
end

local captures = {}
for path in io.popen("ls spec/orb_peers/captures/*.giop 2>/dev/null"):lines() do captures[#captures + 1] = path end

-- ---- GIOP and CDR: one message of each kind, version and order, and each operation's arguments and results ----

ROOT = "."                                                 -- luacheck: globals ROOT
local _, programs = dofile "fuzz/cdr.lua"

local kinds = {}
local function giop(message, kind, bits, name)
  local key = ("%d %d %s"):format(kind, bits, name or "")
  if kinds[key] then return end
  kinds[key] = true
  seed("giop", message)
end

local bodies = {}
local function body(name, message, bits, at)
  if not at or (at - 1) % 8 ~= 0 then return end
  local key = name .. #message // 64 .. " " .. bits
  local at_program = programs[name]
  if not at_program or bodies[key] then return end
  bodies[key] = true
  seed("cdr", string.char(at_program - 1, bits | 24) .. ("\0"):rep(6) .. message:sub(at))
end

for _, path in ipairs(captures) do
  local asked = {}
  for _, message in messages(path) do
    local r = table.pack(core.parse(message))
    local kind, bits, id = r[1], r[2], r[4]
    if r[3] then
      giop(message, kind, bits, "more")
    elseif kind == 0 then
      asked[id] = r[7]
      giop(message, kind, bits, #r[7] < 7 and r[7])
      body(r[7] .. ">", message, bits, r[8])
    elseif kind == 1 then
      giop(message, kind, bits, r[5])
      if r[5] == 0 and asked[id] then body(asked[id] .. "<", message, bits, r[6]) end
      local repid = r[5] == 1 and message:sub(r[6] + 4):match("^[^%z]+")
      if repid then body(repid, message, bits, r[6]) end
    elseif kind then
      giop(message, kind, bits)
    end
  end
end

-- ---- values: shared and in circles, truncatable ones in chunks, custom ones, boxes, in anys, in both orders ----

local broker = require "mare.orb".init {}
broker:loadfile "spec/orb_peers/values.idl"
local values = require "spec.orb_peers.values"(broker)

local function value(name, T, v)
  local program = broker.env:program { broker:type(T) }
  for codec = 28, 29 do
    local bytes = program:encode(codec, v)
    seed("cdr", string.char(programs[name] - 1, codec) .. ("\0"):rep(6) .. bytes)
    seed("cdr", string.char(programs[name] - 1, codec) .. ("\0"):rep(6) .. bytes:sub(1, #bytes * 2 // 3))          -- it ends too early
  end
end

local node = values.node(1, "one")
local odd = values.new "Odd" { a = 4, b = "odd", c = values.circle() }
value("t_node>", "Tide::Node", values.circle())
value("t_nodes>", "Tide::Nodes", { node, values.circle(), node })
for _, kind in ipairs { "Dog", "Puppy", "Cat", "Bird" } do value("t_animal>", "Tide::Animal", values.make(kind)) end
value("t_dog>", "Tide::Dog", values.make "Cat")
value("t_odd>", "Tide::Odd", odd)
value("t_base>", "CORBA::ValueBase", odd)
value("t_numbers>", "Tide::Numbers", { 1, 2, 3 })
value("t_place>", "Tide::Place", { x = 1, y = 2 })
value("t_mixed>", "Tide::Mixed", { before = "b", one = values.make "Dog", between = 7, two = values.make "Puppy", label = "label", after = 0.5 })
value("f_any>", "any", { _anytype = broker:type "Tide::Animal", _anyval = values.make "Cat" })
value("f_any>", "any", { _anytype = broker:type "Tide::Text", _anyval = "boxed" })
value("f_any>", "any", { _anytype = broker:type "Tide::Odd", _anyval = odd })

-- TypeCodes and anys far inside others: a value of none of the levels, and one of each.
local function deep(less, more, nested)
  for which = 0, 1 do
    seed("cdr", string.char(which, 28, 0, less, more, nested, 0, 0) .. "\3\0\0\0" .. ("\1\0\0\0"):rep(40))
  end
end
for nested = 0, 9 do
  for _, levels in ipairs { 1, 31, 32, 33, 63 } do deep(levels, 0, nested) end
  deep(60, 240, nested)
end
deep(238, 240, 6)                                -- all kinds, 9,996 levels
deep(239, 240, 6)                                -- more than are allowed

local large = core.request(2, true, 3, "key", "operation", { { 1, "\1\0\0\0\1\0\1\5\9\1\1\0" } }, 7, ("b"):rep(90))
local pieces = "GIOP\1\2\3\0" .. string.pack("<I4", 52) .. large:sub(13, 64) .. "GIOP\1\2\3\7" .. string.pack("<I4I4", 20, 7) .. large:sub(65, 80)
seed("giop", pieces .. "GIOP\1\2\1\7" .. string.pack("<I4I4", #large - 80 + 4, 7) .. large:sub(81) .. core.close(2, true))
seed("giop", "GIOP\1\1\3\1" .. string.pack("<I4I4I4I4", 12, 0, 7, 0) .. "GIOP\1\1\1\7" .. string.pack("<I4", 3) .. "abc" .. core.cancel(1, true, 7))
for minor = 0, 2 do
  for _, little in ipairs { true, false } do
    seed("giop", core.cancel(minor, little, 1) .. core.locate_request(minor, little, 1, "key") .. core.close(minor, little))
    seed("giop", core.locate_reply(minor, little, 1, 2, "abc") .. core.error(minor, little))
    seed("giop", core.request(minor, little, 3, "key", "op", { { 1, "abc" }, { 17, "" } }, 1, "body"))
    seed("giop", core.reply(minor, little, 1, 3, { { 1, "abc" } }, "body"))
  end
end
local profile = string.pack("<!4I1I1I1s4I2s4", 1, 1, 0, "host\0", 77, "its key")
local function addressed(target)
  local m = string.pack("<I4I1xxx", 5, 3) .. target
  m = m .. ("\0"):rep(-#m % 4) .. string.pack("<!4s4I4", "op\0", 0)
  return "GIOP\1\2\1\0" .. string.pack("<I4", #m) .. m
end
seed("giop", addressed(string.pack("<I2xxI4s4", 1, 0, profile)))
seed("giop", addressed(string.pack("<!4I2xxI4s4I4I4s4", 2, 0, "IDL:T:1.0\0", 1, 0, profile)))

-- ---- references ----

local over_tls = string.pack("<!4I1xI2I2xxI4I4", 1, 62, 6, 1, 2) .. "s\0\1\2"
local mechanisms = string.pack("<!4I1I1xxI4I2xxI4s4", 1, 0, 1, 66, 36, over_tls) .. string.pack("<!4I2I2s4s4", 64, 64, "oid.", "name") ..
  string.pack("<!4I2I2I4I4s4I4s4I4", 0, 0, 1, 7, "abcd", 1, "oid.", 3)

local references = {
  ior.null,
  ior.iiop { type_id = "IDL:S:1.0", addresses = { { "h", 1 }, { "h", 2, tls = true }, { "g", 3, tls = true } }, key = "k",
             tls = { supports = 126, requires = 6 }, components = { { 33, mechanisms }, { 36, over_tls } } },
  ior.iiop { type_id = "IDL:A/B:1.0", addresses = { { "127.0.0.1", 2809 }, { "::1", 1 } }, key = "k\0y", components = {
    { 0, string.pack("<I4I4", 1, 0x41545400) }, { 2, string.pack("<I4I4I4s4", 1, 1, 37, "\1\0") }, { 20, string.pack("<I2I2I2I2", 1, 1, 2, 3) },
    { 33, "csi" } } },
  ior.iiop { type_id = "IDL:A/B:1.0", addresses = { { "a", 1 }, { "b", 2 } }, key = "key", minor = 0 },
  ior.make { type_id = "IDL:X:1.0", profiles = {
    { tag = 1, data = string.pack("<!4I1I4I4s4", 1, 1, 0, string.pack("<I4I4", 1, 5)) }, { tag = 9, data = "?" } } },
}
for _, canonical in ipairs(references) do
  seed("ior", canonical)
  seed("ior", ior.stringify(canonical):sub(5))
  seed("ior", ior.stringify(canonical))
end
seed("ior", "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\20\0\1\2\0\0\0\0\2h\0\0\5\0\0\0\1k\0\0\0")

seed("ior", ior.iiop { type_id = "IDL:A:1.0", addresses = { { "unix:/s", 0, unix = "/s", machine = "m" }, { "h", 1 } }, key = "k" })
seed("ior", bidir.make { { "host", 2809 }, { "::1", 1 } })
seed("ior", "\0\0\0\0\0\0\0\1\0\0\0\2h\0\10\249")    -- in the other order
seed("ior", gssup.establish("ann", "secret", gssup.exported "h"))
seed("ior", string.pack("<!8I1xi2I8I1", 1, 5, 7, 0))

for _, text in ipairs {
  "corbaloc::host/key", "corbaloc:iiop:1.2@[::1]:2809,:backup:1/a%20b", "corbaloc:rir:/NameService", "corbaloc:rir:", "corbaname::h:2809#a/b",
  ":1.1@127.0.0.1:0/%00%ff", "corbaloc:ssliop:1.1@h:443/k", "corbaloc::a,iiop:b,:1.0@c/key", "corbaloc::[fe80::1%eth0]/k",
  "corbaloc:omniunix:/tmp/s%3a:/key", "corbaloc:omniunix:1.2@/a,:b,omniunix:/c/d:/k%2fl",
} do seed("corbaloc", text) end

for _, text in ipairs {
  "$type_name == 'T' and $q ~ 'xt' or not exist $.header.fixed_header.event_name",
  "$.a + -2.5e1 * (3 / $r.a) >= 0", "'x' in $.b and $.b[0] == 'it\\'s'",
  "$.b._length != 2 or default $.u", "$.u.(-1) == RED", "$.u.(-)", "$.filterable_data(q) < $.0", "exist p and TRUE",
} do seed("constraint", text) end

-- ---- IDL ----

local file = assert(io.open "spec/orb_peers/rich.idl")
local rich = file:read "a"
file:close()
for chunk in rich:gmatch("([^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n)") do seed("idl", chunk) end
for text in ([[
module M { interface I; const long N = 1 + 2 * (3 << 4) | ~5; typedef sequence<long, N> S; };
==
#pragma prefix "x.y"
#define F(a, b) a##b "s" #a
#if defined(X) && 1 || !(2 > 1)
#elif 1
#include <a.idl>
#include "b.idl"
#else
#error no
#endif
struct F(A, B) { long x; };
==
union U switch (short) { case 1: case -2: long a; default: string<3> b; }; union V switch (boolean) { case TRUE: octet o; };
==
interface A { attribute long x; readonly attribute string y, z raises (E); oneway void f(in long a); }; exception E { long c; };
==
interface B : A, C { long f(in long a, inout any b, out Object c) raises (E) context ("x*"); };
==
valuetype V : truncatable W supports I { private long a; public V next; factory make(in long a); }; valuetype Box long; abstract valuetype X {};
==
enum E { A, B, C }; const E X = ::M::B; const char c = '\x41'; const wchar w = L'\u00e9'; const string s = "a" "b\n\101"; const wstring t = L"x";
==
typedef fixed<5,2> F; const fixed G = 1.25d * 2d; const double d = 1.5e10 / 3; const boolean b = TRUE && FALSE; const octet o = 255;
==
struct Node; typedef sequence<Node> L; struct Node { long v; L next; long m[2][3]; }; typedef sequence<sequence<octet> > D; native N;
==
#pragma ID X "IDL:foo:1.0"
#pragma version M 2.3
@annotation(1) interface _interface { void _in(in long _out); }; typeid M::I "IDL:x:1.0"; typeprefix M "p"; local interface L {};
abstract interface K {};
==
/* comment */ // and another
import ::M; const unsigned long long big = 18446744073709551615; const long long least = -9223372036854775808; const long h = 0xFf;
const long o = 017;
==
struct A { struct B { enum C { X } c; } b; union D switch (char) { case 'a': long l; } d; }; module M { module N { }; }; module M { };
]]):gmatch("(.-)\n==\n") do seed("idl", text .. "\n") end

-- ---- LuDO ----

local ludo = require "mare.ludo.core"
local class, far = {}, {}
local world = { { [far] = "ludo://h:1/k" }, { [class] = "Class" }, {}, print, 1 << 20 }
local function message(...) seed("ludo", ludo.message(ludo.CALL, 1, world, ...):sub(13)) end
message()
message(nil, true, false, 1, -17, 1 << 40, math.mininteger, 1.5, "text", ("x"):rep(40), "text")
message("it", "add", { 1, 2, 3 }, { a = 1, b = { c = "d" } }, { [true] = 1.5, [{}] = far })
local circle = { far, setmetatable({ n = 1 }, class) }
circle.self, circle[3] = circle, circle[2]
message(circle, { { x = 1, y = 2 }, { x = 3, y = 4 }, { 5, x = 6, y = 7 } })
message(require("mare").buffer.new("bytes"):seal(), { [1] = 1, [2] = 2, [100] = 3 })
seed("ludo", "ludo://[::1]:80/a%20key")
seed("ludo", "ludos://host:1/k")

