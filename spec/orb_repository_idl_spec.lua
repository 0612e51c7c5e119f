-- IDL that is read out of an interface repository is what was loaded into it: the same definitions, ids and types, for mare and for omniidl.
-- runs under: mare
-- needs: plain
local orb = require "mare.orb"
local idl = require "mare.orb.idl"
local lines = require "spec.support.idl_lines"
local omniidl = require "spec.support.omniidl"
local read = require "mare.orb.repository.read"
local foreign = require "spec.support.foreign"
local temporary = require "spec.support.temporary"

local root = os.getenv("MARE_ROOT") or "."
local INCLUDE = { omniidl.folder, omniidl.folder .. "/COS" }

-- What a server says that has loaded this, as IDL.
local function round(load)
  local broker, client = orb.init { host = "127.0.0.1", repository = true }, orb.init()
  load(broker)
  broker:serve({}, "Object", { key = "x" })
  local known = idl.repository()
  assert(known:load "#include <orb.idl>")
  local reader = read.new(client, { known = read.known(known), whole = true, depth = 60 })
  local fine, err = pcall(reader.everything, reader, client:proxy("corbaloc::1.2@" .. broker:address() .. "/InterfaceRepository"))
  local text = fine and reader:text()
  local before = lines(broker.repository, broker.repository.contents)
  client:close()
  broker:shutdown(true)
  if not fine then error(err, 0) end
  return text, before
end

local function sorted(list)
  local out = {}
  for _, line in ipairs(list) do
    if not line:find "\tIDL:omg.org/CORBA[/:]" then out[#out + 1] = line end
  end
  table.sort(out)
  return out
end

-- The same for mare, and correct for omniidl. -> how many definitions
local function same(load, what, without_oracle)
  local text, before = round(load)
  local repo = idl.repository()
  local loaded, problems = repo:load(text, { name = what })
  assert(loaded, what .. ": " .. tostring(problems) .. "\n" .. text)
  before = sorted(before)
  assert.equal(table.concat(before, "\n"), table.concat(sorted(lines(repo, repo.contents)), "\n"), what)
  if not without_oracle and not omniidl.missing then
    local empty = temporary()
    local path = empty .. ".idl"
    local file = assert(io.open(path, "w"))
    file:write(text)
    file:close()
    local result = omniidl.run { { path = path, options = "-I" .. omniidl.folder } }[1]
    os.remove(path)
    os.remove(empty)
    local wrong = result.errors[1]
    assert.is_true(result.accepted, ("%s: %s: %s\n%s"):format(what, wrong and wrong.line, wrong and wrong.message, text))
    local want = {}
    for _, line in ipairs(result.lines) do want[line] = true end
    for _, line in ipairs(before) do
      if not line:find "^module" then assert.is_true(want[line] or false, what .. ": " .. line) end
    end
  end
  return #before
end

local function files(...)
  local list = { ... }
  return function(broker)
    for _, path in ipairs(list) do broker:loadfile(path, { include = INCLUDE }) end
  end
end

describe("IDL out of a repository is what went in", function()
  it("of the interfaces that the other tests use", function()
    assert.is_true(same(files(root .. "/spec/orb_peers/rich.idl"), "rich.idl") > 100)
    assert.is_true(same(files(root .. "/spec/orb_peers/values.idl"), "values.idl") > 50)
    assert.is_true(same(function(broker) broker:load "#include <CosNaming.idl>" end, "CosNaming.idl") > 30)
  end)

  it("of files that use each other's names, in any order that is needed", function()
    same(function(broker)
      broker:load [[
        module A { interface I; struct S { long x; }; };
        module B { typedef sequence<A::S> Many; interface J { A::I get(in Many m); }; };
        module A { interface I : B::J { exception E { B::Many m; }; B::Many all() raises (E); }; };
        module A { interface K { ::B::J j(); }; };
        module C { module B { typedef short S; }; interface L { ::B::J j(); B::S s(in A::S outer); }; };
        struct Tree; typedef sequence<Tree> Trees; struct Tree { Trees kids; A::S s; };
        union Node; typedef sequence<Node> Nodes; union Node switch (boolean) { case TRUE: Nodes inner; case FALSE: long leaf; };
        valuetype V; interface Uses { V get(); }; valuetype V { public Uses u; private V next; };
        module Colours { enum Colour { RED, GREEN }; };
        module Other { enum Shade { DARK, BRIGHT };
                       union Paint switch (Colours::Colour) { case Colours::RED: long r; default: string other; };
                       const Colours::Colour BEST = Colours::GREEN; const Shade WORST = DARK; };
      ]]
    end, "order")
  end)

  it("of ids that follow no rule", function()
    same(function(broker)
      broker:load [[
        #pragma prefix "first.example"
        module M {
          interface One { void f(); };
          #pragma version One 2.7
          #pragma ID One::f "DCE:700dc518-0110-11ce-ac8f-0800090b5d3e:1"
          struct Pair { long a; struct Inner { octet o; } b; };
          #pragma ID Pair::Inner "LOCAL:inner"
        };
        #pragma prefix "second.example"
        module M { interface Two : One { attribute long x; }; };
        module N { exception Bad {}; };
        #pragma ID N "RMI:n:0000"
      ]]
    end, "ids")
  end)

  it("of names that are keywords, and constants of all types", function()
    same(function(broker)
      broker:load [[
        interface _interface { void _void(in long _in); readonly attribute string _struct; };
        enum _enum { _default, _case };
        union _union switch (_enum) { case _default: long _long; case _case: short _short; };
        const boolean B = TRUE; const char C = '\''; const wchar WC = L'\u20ac'; const string S = "a\"b\\c\n"; const wstring WS = L"\u20ac \"";
        const unsigned long long ULL = 18446744073709551615; const long long LL = -9223372036854775807; const octet O = 255;
        const float F = 1.1; const double D = -2.5e300; const fixed FX = 12.340d; const _enum E = _case;
      ]]
    end, "names")
  end)

  it("of features that only CORBA 3 has", function()
    same(function(broker)
      broker:load [[
        exception X {}; exception Y { long why; };
        interface Attributes { readonly attribute long a raises (X); attribute long b getraises (X) setraises (X, Y); };
        valuetype Made { private long n; factory empty(); factory full(in long n, in string text) raises (Y); };
      ]]
    end, "features", true)                       -- omniidl takes no exceptions of attributes
  end)

  it("of every third file that comes with omniORB", function()
    if omniidl.missing then return foreign.skip(omniidl.missing) end
    local n = 0
    for i, path in ipairs(omniidl.files()) do
      local fine = i % 3 == 0 and idl.repository():loadfile(path, { include = INCLUDE })
      if fine and not path:find "omniORB/[%w_]+%.idl$" then n = n + same(files(path), path, true) end
    end
    assert.is_true(n > 300)
  end)
end)
