-- The IDL compiler: what definitions become, names and scopes, repository ids, loading more than once.
-- needs: plain
local idl = require "mare.orb.idl"
local support = require "spec.support.idl"
local load, errors = support.load, support.errors

describe("idl: types", function()
  it("basic types are one table each", function()
    local repo = load [[struct Every { short a; long b; long long c; unsigned short d; unsigned long e; unsigned long long f; float g; double h;
      long double i; boolean j; char k; wchar l; octet m; any n; string o; wstring p; Object q; CORBA::TypeCode r; CORBA::Object s; ValueBase t; };]]
    local b = idl.basic
    local want = { b.short, b.long, b.longlong, b.ushort, b.ulong, b.ulonglong, b.float, b.double, b.longdouble, b.boolean, b.char, b.wchar, b.octet,
                   b.any, b.string, b.wstring, b.object, b.TypeCode, b.object, b.valuebase }
    for i, m in ipairs(repo:lookup("Every").members) do assert.equal(want[i], m.type, m.name) end
    assert.equal("IDL:omg.org/CORBA/Object:1.0", b.object.id)
  end)

  it("bounds, arrays and fixed", function()
    local repo = load [[const short N = 3; typedef sequence<sequence<long, N>, 4 + 1> A; typedef string<N> B; typedef wstring<2> C;
      typedef fixed<10, 2> D; typedef long E[2][N], F; typedef sequence<string<7>> G;]]
    local function type(name) return repo:lookup(name).type end
    assert.same({ kind = "sequence", bound = 5, element = { kind = "sequence", bound = 3, element = idl.basic.long } }, type "A")
    assert.same({ kind = "string", bound = 3 }, type "B")
    assert.same({ kind = "wstring", bound = 2 }, type "C")
    assert.same({ kind = "fixed", digits = 10, scale = 2 }, type "D")
    assert.same({ kind = "array", length = 2, element = { kind = "array", length = 3, element = idl.basic.long } }, type "E")
    assert.equal(idl.basic.long, type "F")
    assert.same({ kind = "sequence", bound = 0, element = { kind = "string", bound = 7 } }, type "G")
  end)

  it("structs hold their members in order and may hold sequences of themselves", function()
    local repo = load "struct Tree { long x, y[2]; sequence<Tree> kids; };"
    local tree = repo:lookup("Tree")
    assert.equal("struct", tree.kind)
    assert.equal("IDL:Tree:1.0", tree.id)
    assert.equal("x y kids", tree.members[1].name .. " " .. tree.members[2].name .. " " .. tree.members[3].name)
    assert.equal("array", tree.members[2].type.kind)
    assert.equal(tree, tree.members[3].type.element)
    assert.is_nil(tree.unfinished)
  end)

  it("structs and unions declared before they are defined are one table", function()
    local repo = load [[struct A; union B; typedef sequence<A> As; typedef sequence<B> Bs;
      struct A { As more; }; union B switch (long) { case 1: Bs more; default: A one; };]]
    assert.equal(repo:lookup("A"), repo:lookup("As").type.element)
    assert.equal(repo:lookup("A"), repo:lookup("A").members[1].type.type.element)
    assert.equal(repo:lookup("B"), repo:lookup("Bs").type.element)
    assert.is_nil(repo:lookup("A").forward)
  end)

  it("unions have an entry for each label, the default's without one", function()
    local repo = load [[enum E { a, b, c };
      union U switch (E) { case a: case b: long x; default: string y; };
      union V switch (short) { case -1: long x; case 2: default: octet y; };
      union W switch (char) { case 'q': long x; }; union T switch (boolean) { case TRUE: long x; case FALSE: long y; };]]
    local u, v = repo:lookup("U"), repo:lookup("V")
    assert.equal(repo:lookup("E"), u.discriminator)
    assert.equal(3, u.default)
    assert.same({ { name = "x", type = idl.basic.long, label = "a" }, { name = "x", type = idl.basic.long, label = "b" },
                  { name = "y", type = idl.basic.string } }, u.members)
    assert.same({ -1, 2 }, { v.members[1].label, v.members[2].label })
    assert.equal(3, v.default)
    assert.equal("y", v.members[3].name)
    assert.equal("q", repo:lookup("W").members[1].label)
    assert.is_nil(repo:lookup("W").default)
    assert.is_true(repo:lookup("T").members[1].label)
    assert.is_false(repo:lookup("T").members[2].label)
  end)

  it("types may be defined where they are used", function()
    local repo = load [[struct S { struct Inner { long a; } b; enum E { one } c[2]; }; typedef struct T { long x; } U;
      union V switch (enum F { one }) { case one: union G switch (long) { case 1: long z; } rest; };]]
    assert.equal("IDL:S/Inner:1.0", repo:lookup("S::Inner").id)
    assert.equal("IDL:S/one:1.0", repo:lookup("S::one").id)
    assert.equal(repo:lookup("T"), repo:lookup("U").type)
    assert.equal(repo:lookup("V::F"), repo:lookup("V").discriminator)
    assert.equal(repo:lookup("V::G"), repo:lookup("V").members[1].type)
  end)

  it("valuetypes, boxes and native types", function()
    local repo = load [[exception E2 {};
      interface I { void f(); }; abstract valuetype A { void g(); }; native N; valuetype Box sequence<long>;
      valuetype V : A supports I { public long x; private string<3> y, z; factory make(in long a) raises (E2); void h(); };
      valuetype W : truncatable V { public V next; }; custom valuetype C { public N one; };]]
    local v = repo:lookup("V")
    assert.same({ "x", "y", "z" }, { v.state[1].name, v.state[2].name, v.state[3].name })
    assert.same({ true, false, false }, { v.state[1].public, v.state[2].public, v.state[3].public })
    assert.equal(repo:lookup("A"), v.bases[1])
    assert.equal(repo:lookup("I"), v.supports[1])
    assert.equal("factory", repo:lookup("V::make").kind)
    assert.equal("sequence", repo:lookup("Box").type.kind)
    assert.is_true(repo:lookup("W").truncatable)
    assert.is_true(repo:lookup("C").custom)
    assert.equal("native", repo:lookup("N").kind)
  end)
end)

describe("idl: constants", function()
  local function value(text)
    local repo = load(text)
    return repo:lookup("C").value
  end
  local good = {
    { "const long C = -2147483648;", -2147483648 }, { "const long long C = -9223372036854775808;", math.mininteger },
    { "const unsigned long long C = 18446744073709551615;", -1 }, { "const unsigned long long C = ~0;", -1 },
    { "const unsigned long long C = 9223372036854775808 / 3;", 3074457345618258602 },
    { "const unsigned long long C = 18446744073709551615 % 10;", 5 },
    { "const long C = ~1;", -2 }, { "const unsigned long C = ~1;", 4294967294 }, { "const octet C = ~0xF0;", 15 }, { "const short C = ~0;", -1 },
    { "const long C = 3000000000 - 2999999999;", 1 }, { "const long C = -7 / 2;", -3 }, { "const long C = -7 % 3;", -1 },
    { "const long C = 7 - 2 - 1;", 4 }, { "const long C = 2 + 3 * 4;", 14 }, { "const long C = (2 + 3) * 4;", 20 },
    { "const long C = 1 | 2 ^ 3 & 4 << 1;", 1 | 2 ~ 3 & 4 << 1 }, { "const long C = -8 >> 1;", -4 }, { "const long C = -8 & 6;", 0 },
    { "const long C = -1 ^ 1;", -2 }, { "const long C = 0x1f + 017 + 0;", 46 }, { "const short D = 3; const long C = D * D;", 9 },
    { "module M { const octet D = 200; }; const short C = M::D + 100;", 300 }, { "const long C = +5;", 5 }, { "const long C = - (-5);", 5 },
    { "const boolean C = TRUE;", true }, { "const boolean D = FALSE; const boolean C = D;", false },
    { "const char C = 'a';", "a" }, { "const char C = '\\n';", "\n" }, { "const char C = '\\xff';", "\255" }, { "const char C = '\\101';", "A" },
    { "const wchar C = L'\\u20ac';", "€" }, { "const wchar C = L'é';", "é" },
    { 'const string C = "a\\tb" "\\x41" "1";', "a\tbA1" }, { 'const wstring C = L"caf\\u00e9 \\ud83d\\ude00";', "café 😀" },
    { 'const string D = "ab"; const string<2> C = D;', "ab" },
    { "const double C = 1.5e3 / 2.0 - .5;", 749.5 }, { "const float C = 0.1;", string.unpack("f", string.pack("f", 0.1)) },
    { "const long double C = -1.0;", -1.0 }, { "const fixed C = 12.50d;", "12.5" }, { "const fixed C = 1d / 3d;", "0." .. ("3"):rep(31) },
    { "const fixed C = -0.5D * 3d + .25d;", "-1.25" }, { "const fixed C = 0.0d;", "0" },
    { "enum E { a, b }; const E D = b; const E C = D;", "b" },
    { "typedef long T; typedef T U; const U C = 4;", 4 },
  }
  for _, case in ipairs(good) do
    it(case[1], function() assert.equal(case[2], value(case[1])) end)
  end

  it("have their exact type", function()
    assert.equal("float", math.type(value "const double C = 2.0;"))
    assert.equal("integer", math.type(value "const octet C = 2;"))
  end)

  it("are exact over all 64 bits, compared with Lua's own arithmetic", function()
    local state = 7
    local function random()
      state = state * 6364136223846793005 + 1442695040888963407
      return state >> 33
    end
    local text, want = {}, {}
    local compute = {
      ["+"] = function(a, b) return a + b end, ["-"] = function(a, b) return a - b end, ["*"] = function(a, b) return a * b end,
      ["|"] = function(a, b) return a | b end, ["&"] = function(a, b) return a & b end, ["^"] = function(a, b) return a ~ b end,
    }
    local names = { "+", "-", "*", "|", "&", "^" }
    for i = 1, 300 do
      local a, b, op = random(), random(), names[i % #names + 1]
      text[i] = ("const long long C%d = (%d %s %d) / 3;"):format(i, a, op, b)
      local v = compute[op](a, b)
      want[i] = v < 0 and -(-v // 3) or v // 3
    end
    local repo = load(table.concat(text, "\n"))
    for i = 1, 300 do assert.equal(want[i], repo:lookup("C" .. i).value, text[i]) end
  end)
end)

describe("idl: interfaces", function()
  local text = [[
    exception Bad { long why; }; exception Worse {};
    interface A { attribute long x, y; readonly attribute string name raises (Bad); attribute long z getraises (Bad) setraises (Bad, Worse); };
    interface B : A { enum Mode { fast, slow }; long f(in long a, out string b, inout Mode c) raises (Bad) context ("one", "two*"); };
    interface C : A { oneway void ping(); };
    interface D : B, C { Mode g(in Mode m); };
    abstract interface E { void f(); }; local interface F : D {};]]

  it("have operations with parameters, exceptions and contexts", function()
    local repo = load(text)
    local b = repo:lookup("B")
    assert.same({ "Mode", "f" }, { b.contents[1].name, b.contents[2].name })
    local f = b.members.f
    assert.equal(idl.basic.long, f.result)
    assert.is_false(f.oneway)
    assert.same({ "a in", "b out", "c inout" },
      { f.params[1].name .. " " .. f.params[1].mode, f.params[2].name .. " " .. f.params[2].mode, f.params[3].name .. " " .. f.params[3].mode })
    assert.equal(repo:lookup("B::Mode"), f.params[3].type)
    assert.same({ repo:lookup("Bad") }, f.raises)
    assert.same({ "one", "two*" }, f.context)
    assert.equal("IDL:B/f:1.0", f.id)
    assert.is_true(repo:lookup("C::ping").oneway)
    assert.equal(idl.basic.void, repo:lookup("C::ping").result)
  end)

  it("repo:operations gives those of all bases, attributes as _get_ and _set_", function()
    local repo = load(text)
    local d = repo:operations(repo:lookup("D"))
    local names = {}
    for name in pairs(d) do names[#names + 1] = name end
    table.sort(names)
    assert.same({ "_get_name", "_get_x", "_get_y", "_get_z", "_set_x", "_set_y", "_set_z", "f", "g", "ping" }, names)
    assert.equal(idl.basic.string, d._get_name.result)
    assert.same({ repo:lookup("Bad") }, d._get_name.raises)
    assert.same({ { name = "value", mode = "in", type = idl.basic.long } }, d._set_z.params)
    assert.same({ repo:lookup("Bad"), repo:lookup("Worse") }, d._set_z.raises)
    assert.equal(idl.basic.void, d._set_z.result)
    assert.equal(d, repo:operations(repo:lookup("D")))
    assert.equal(repo:lookup("B::Mode"), d.g.result)
  end)

  it("repo:is_a is true for the interface, its bases and CORBA::Object", function()
    local repo = load(text)
    local d = repo:lookup("D")
    for _, id in ipairs { "IDL:D:1.0", "IDL:B:1.0", "IDL:C:1.0", "IDL:A:1.0", "IDL:omg.org/CORBA/Object:1.0" } do
      assert.is_true(repo:is_a(d, id), id)
    end
    assert.is_false(repo:is_a(d, "IDL:E:1.0"))
    assert.is_false(repo:is_a(repo:lookup("A"), "IDL:D:1.0"))
  end)

  it("can be abstract or local, and declared long before they are defined", function()
    local repo, _, notes = load("interface Z; typedef sequence<Z> Zs; interface Y { Zs all(in Z one); }; interface Never; interface Z {};" .. text)
    assert.is_true(repo:lookup("E").abstract)
    assert.is_true(repo:lookup("F")["local"])
    assert.equal(repo:lookup("Z"), repo:lookup("Y::all").params[1].type)
    assert.is_nil(repo:lookup("Z").forward)
    assert.is_true(repo:lookup("Never").forward)
    assert.equal("t.idl:1:83: the interface 'Never' is declared here and never defined", tostring(notes))
  end)
end)

describe("idl: names", function()
  it("repo:lookup takes scoped names, dots and ids", function()
    local repo = load "module M { interface I { const long N = 1; }; };"
    local n = repo:lookup("M::I::N")
    assert.equal("const", n.kind)
    assert.equal("M::I::N", n.scoped)
    assert.same({ "t.idl", 1 }, { n.file, n.line })
    assert.equal(n, repo:lookup("M.I.N"))
    assert.equal(n, repo:lookup("::M::I::N"))
    assert.equal(n, repo:lookup("IDL:M/I/N:1.0"))
    for _, wrong in ipairs { "M::X", "m::I", "M::I::N::O", "", "IDL:M/I:2.0" } do assert.is_nil(repo:lookup(wrong), wrong) end
  end)

  it("inherited names are found, nearer scopes first", function()
    local repo = load [[typedef long T; interface A { typedef short T; typedef char U; };
      interface B : A { typedef T X; typedef U Y; typedef ::T Z; };]]
    assert.equal("A::T", repo:lookup("B::X").type.scoped)
    assert.equal("A::U", repo:lookup("B::Y").type.scoped)
    assert.equal("T", repo:lookup("B::Z").type.scoped)
    assert.equal(repo:lookup("A::U"), repo:lookup("B::U"))
  end)

  it("an underscore escapes what would be a keyword", function()
    local repo = load "interface _interface { void _in(in long _out); }; typedef _interface X; typedef long _Factory; typedef Factory Y;"
    assert.equal("IDL:interface:1.0", repo:lookup("interface").id)
    assert.equal("in", repo:lookup("interface::in").name)
    assert.equal("out", repo:lookup("interface::in").params[1].name)
    assert.equal(repo:lookup("Factory"), repo:lookup("Y").type)
  end)

  it("keywords that came with CORBA 3 may be names", function()
    local repo = load "typedef long component; typedef long home; interface typeid { attribute long getraises; void typeprefix(in typeid x); };"
    assert.equal("typeid", repo:lookup("typeid").name)
    assert.equal(repo:lookup("typeid"), repo:lookup("typeid::typeprefix").params[1].type)
  end)

  it("annotations of IDL 4 are skipped with a note each", function()
    local repo, _, notes = load [[@annotation Range { long min default 0; };
      @final struct S { @key @Range(min = (1)) long a; @optional string b; }; @a::b("x;}") interface I { @oneway void f(@in in long x); };]]
    assert.equal("b", repo:lookup("S").members[2].name)
    local names = {}
    for _, n in ipairs(notes) do names[#names + 1] = n.message:match("@%w+") end
    assert.same({ "@annotation", "@final", "@key", "@Range", "@optional", "@a", "@oneway", "@in" }, names)
  end)
end)

describe("idl: repository ids", function()
  it("typeid, typeprefix and import", function()
    local repo = load [[module M { typedef long A; interface I { typedef long B; }; };
      typeid M::A "IDL:own/A:7.2"; typeprefix M "some.where"; module M { typedef long C; };
      module N { typeprefix N "omg.org"; typedef long D; module O { typedef long E; }; }; import ::M; import "IDL:own/A:7.2";]]
    local function id(name) return repo:lookup(name).id end
    assert.same({ "IDL:own/A:7.2", "IDL:some.where/M/I:1.0", "IDL:some.where/M/I/B:1.0", "IDL:some.where/M/C:1.0", "IDL:omg.org/N/D:1.0",
                  "IDL:omg.org/N/O/E:1.0" }, { id "M::A", id "M::I", id "M::I::B", id "M::C", id "N::D", id "N::O::E" })
    assert.equal(repo:lookup("M::A"), repo:lookup("IDL:own/A:7.2"))
    assert.is_nil(repo:lookup("IDL:M/A:1.0"))
  end)

  it("an id is given once", function()
    assert.equal("1:46: 'A' already was given the id IDL:x:1.0", errors 'typedef long A; typeid A "IDL:x:1.0"; typeid A "IDL:y:1.0";')
    assert.equal("1:26: an id has a format before it, as in IDL:x:1.0", errors 'typedef long A; typeid A "x";')
  end)
end)

describe("idl: loading again", function()
  local text = [[module M { interface I; typedef sequence<I> Is; enum E { a, b }; const long N = 3; exception X { E e1; };
    struct S { E f; sequence<S> g; struct Inner { long a; } h; }; union U switch (E) { case a: S x; };
    interface I { typedef S T; T f(in Is x) raises (X); attribute E g; }; valuetype V { public S all; }; };]]

  it("the same text changes nothing: definitions stay the same tables", function()
    local repo = load(text)
    local names = { "M", "M::I", "M::Is", "M::E", "M::a", "M::N", "M::X", "M::S", "M::S::Inner", "M::U", "M::I::T", "M::I::f", "M::V" }
    local before, count = {}, #repo:lookup("M").contents
    for _, name in ipairs(names) do before[name] = repo:lookup(name) end
    local definitions = assert(repo:load(text, { name = "again.idl" }))
    assert.equal(before.M, definitions[1])
    for _, name in ipairs(names) do assert.equal(before[name], repo:lookup(name), name) end
    assert.equal(count, #repo:lookup("M").contents)
    assert.equal(before["M::I"], repo:lookup("IDL:M/I:1.0"))
  end)

  it("new definitions refer to what was there", function()
    local repo = load(text)
    local s, i = repo:lookup("M::S"), repo:lookup("M::I")
    assert(repo:load(text .. "struct Z { M::S all; sequence<M::I> rest; }; interface J : M::I { M::I::T h(); };", { name = "more.idl" }))
    assert.equal(s, repo:lookup("Z").members[1].type)
    assert.equal(i, repo:lookup("Z").members[2].type.element)
    assert.equal(i, repo:lookup("J").bases[1])
    assert.equal(repo:lookup("M::I::T"), repo:lookup("J::h").result)
    assert.equal(repo:lookup("M::I::T"), repo:lookup("J::T"))
    assert.is_true(repo:is_a(repo:lookup("J"), "IDL:M/I:1.0"))
  end)

  it("a definition that differs is refused, and the load changes nothing", function()
    local repo = load "struct S { long a; }; interface I;"
    local s = repo:lookup("S")
    local others = { "struct S { long b; };", "struct S { short a; };", "struct S { long a; long b; };", "typedef long S;", "enum S { x };" }
    for _, other in ipairs(others) do
      local definitions, problems = repo:load("typedef long New; interface I {}; " .. other, { name = "u.idl" })
      assert.is_nil(definitions)
      assert.matches("^u.idl:1:%d+: 'S' is already d", tostring(problems))
      assert.equal(s, repo:lookup("S"))
      assert.is_nil(repo:lookup("New"))
      assert.is_nil(repo:lookup("IDL:New:1.0"))
      assert.is_true(repo:lookup("I").forward)
      assert.equal(1, #repo.contents)
    end
  end)

  it("a later load defines what an earlier one declared, in the same table", function()
    local repo = load "interface I; struct S { I one; };"
    assert(repo:load("interface I { void f(); };"))
    assert.equal(repo:lookup("I"), repo:lookup("S").members[1].type)
    assert.equal("f", repo:lookup("I").contents[1].name)
    assert.truthy(repo:operations(repo:lookup("I")).f)
  end)

  it("modules grow", function()
    local repo, first = load "module M { typedef long A; };"
    local second = assert(repo:load("module M { typedef A B; };"))
    assert.equal(first[1], second[1])
    assert.equal(2, #repo:lookup("M").contents)
    assert.equal(repo:lookup("M::A"), repo:lookup("M::B").type)
  end)

  it("a failed load changes nothing, wherever it fails", function()
    local repo = load "module M { interface I; typedef long T; };"
    local wrong = { "module M { interface I { T f(); }; typedef long U; }; typedef X Y;", "module M { typedef long V; ", "#if",
                    "module N { struct S { long a" }
    for _, bad in ipairs(wrong) do
      assert.is_nil((repo:load(bad)))
      assert.is_true(repo:lookup("M::I").forward)
      assert.equal(1, #repo:lookup("M").contents)
      assert.is_nil(repo:lookup("M::U"))
      assert.is_nil(repo:lookup("N"))
    end
    assert(repo:load("module M { interface I { T f(); }; };"))
  end)
end)

describe("idl: types by their text", function()
  it("repo:type", function()
    local repo = load "module M { struct S { long a; }; const long N = 4; };"
    assert.equal(repo:lookup("M::S"), repo:type("M::S"))
    assert.equal(repo:lookup("M::S"), repo:type("M.S"))
    assert.same({ kind = "sequence", bound = 4, element = repo:lookup("M::S") }, repo:type("sequence<M::S, M::N>"))
    assert.equal(repo:type("sequence<M::S, M::N>"), repo:type("sequence<M::S, M::N>"))
    assert.equal(idl.basic.ulonglong, repo:type("unsigned long long"))
    assert.equal(idl.basic.TypeCode, repo:type("CORBA::TypeCode"))
    assert.equal(idl.basic.object, repo:type("Object"))
  end)

  it("what is no type is an error with its place", function()
    local repo = load "const long N = 4;"
    local function why(text)
      local type, problems = repo:type(text)
      assert.is_nil(type)
      return tostring(problems)
    end
    assert.equal("type:1:10: 'Nothing' is not declared", why "sequence<Nothing>")
    assert.equal("type:1:1: 'N' is no type: it is declared as constant at t.idl:1", why "N")
    assert.equal("type:1:6: the end of the type expected, got the keyword 'short'", why "long short")
    assert.equal("type:1:1: a type expected, got the end of the file", why "")
  end)
end)

describe("names that CORBA itself declares", function()
  it("are the interfaces of the Interface Repository, which a file may define", function()
    local repo = idl.repository()
    assert(repo:load "interface Query { CORBA::InterfaceDef kind(); }; typedef sequence<CORBA::Container> All;")
    assert.equal("IDL:omg.org/CORBA/InterfaceDef:1.0", repo:lookup("Query").contents[1].result.id)
    assert.is_true(repo:lookup("CORBA::Repository").forward)
    local nothing, problems = repo:load "interface Mine : CORBA::InterfaceDef {};"
    assert.is_nil(nothing)
    assert.matches("'InterfaceDef' is only declared %(CORBA itself%)", tostring(problems))
    assert.is_nil((repo:load [[module CORBA { interface InterfaceDef { wrong x; }; };]]))
    assert.equal("IDL:omg.org/CORBA/InterfaceDef:1.0", repo:lookup("CORBA::InterfaceDef").id)
    assert(repo:load [[
      #pragma prefix "omg.org"
      module CORBA {
        interface Contained;
        interface Contained { readonly attribute string name; };
        interface InterfaceDef : Contained { boolean is_a(in string id); };
      };
    ]])
    local def = repo:lookup("IDL:omg.org/CORBA/InterfaceDef:1.0")
    assert.is_true(def == repo:lookup("Query").contents[1].result)
    assert.is_truthy(repo:operations(def)._get_name)
    assert(repo:load "#pragma prefix \"omg.org\"\nmodule CORBA { interface InterfaceDef : Contained { boolean is_a(in string id); }; };")
    local other = idl.repository()
    assert(other:load "module CORBA { interface Contained { void f(); }; };")
    assert.equal("IDL:CORBA/Contained:1.0", other:lookup("CORBA::Contained").id)
    assert.is_nil(other:lookup("IDL:omg.org/CORBA/Contained:1.0"))
  end)
end)

describe("bases", function()
  it("may be named by a typedef", function()
    local repo = idl.repository()
    assert(repo:load [[
      valuetype V { public long a; }; typedef V W; typedef W WW; interface I { void f(); }; typedef I J;
      valuetype X : truncatable WW supports J { public long b; };
    ]])
    local x = repo:lookup("X")
    assert.is_true(x.bases[1] == repo:lookup("V") and x.supports[1] == repo:lookup("I"))
    for text, what in pairs { ["valuetype Y : W, V {};"] = "only the first base may be so", ["typedef long L; valuetype Y : L {};"] = "is a typedef",
                              ["typedef string S; valuetype Y supports S {};"] = "'S' is a string" } do
      local nothing, problems = repo:load(text)
      assert.is_nil(nothing, text)
      assert.is_string(what)
      assert.is_true(#problems > 0)
    end
  end)
end)

describe("an exception that an operation raises twice", function()
  it("costs a note, and counts once", function()
    local repo = idl.repository()
    local definitions, notes = repo:load("exception E {}; interface I { void f() raises (E, E); };", { name = "t.idl" })
    assert.equal(1, #definitions[2].contents[1].raises)
    assert.equal("t.idl:1:51: the exception 'E' stands here twice", tostring(notes))
  end)
end)

describe("IDL 4's integers", function()
  it("are types where nothing else has their names", function()
    local repo = idl.repository()
    assert(repo:load [[
      struct S { int8 a; uint8 b; int16 c; uint16 d; int32 e; uint32 f; int64 g; uint64 h; };
      const int8 N = -128; const uint8 M = 255; const uint64 K = 18446744073709551615;
      module Old { typedef octet int8; typedef long uint64; struct T { int8 a; uint64 b; Old::int8 c; }; };
    ]])
    local kinds = {}
    for i, m in ipairs(repo:lookup("S").members) do kinds[i] = m.type.kind end
    assert.same({ "int8", "octet", "short", "ushort", "long", "ulong", "longlong", "ulonglong" }, kinds)
    assert.same({ -128, 255, -1 }, { repo:lookup("N").value, repo:lookup("M").value, repo:lookup("K").value })
    for _, m in ipairs(repo:lookup("Old::T").members) do assert.equal("alias", m.type.kind) end
    assert.equal("int8", repo:type("int8").kind)
    local nothing, problems = repo:load "const int8 X = 128;"
    assert.is_nil(nothing)
    assert.matches("the value 128 does not fit into int8", tostring(problems))
  end)
end)

describe("the condition of an #if", function()
  it("divides by zero only where that is not used", function()
    local repo = idl.repository()
    assert(repo:load "#if 0 && 1 / 0\n#elif 1 || 1 % 0\n#elif 1 ? 1 : 1 / 0\n#endif\n#if 0 ? 1 / 0 : 1\ntypedef long T;\n#endif")
    for _, text in ipairs { "#if 1 / 0\n#endif", "#if 1 && 1 % 0\n#endif", "#if 0 || (1 / (1 - 1))\n#endif", "#if 1 ? 1 / 0 : 1\n#endif" } do
      local nothing, problems = repo:load(text)
      assert.is_nil(nothing, text)
      assert.matches("division by zero in the condition of if", tostring(problems))
    end
  end)
end)

describe("a pragma", function()
  local function refused(text, what)
    local nothing, problems = idl.repository():load(text, { name = "t.idl" })
    assert.is_nil(nothing, text)
    assert.equal(1, #problems, tostring(problems))
    assert.matches(what, tostring(problems), 1, true)
  end

  it("that sets a prefix stands before and after definitions, not inside them", function()
    for _, text in ipairs { "struct S {\n#pragma prefix \"b\"\n long a; };", "enum E { a,\n#pragma prefix \"b\"\n b };",
                            "const long A =\n#pragma prefix \"b\"\n 1;",
                            "interface I { void f(\n#pragma prefix \"b\"\n); };", "struct S { long a; }\n#pragma prefix \"b\"\n;" } do
      refused(text, "t.idl:2:2: #pragma prefix can't stand inside a definition, only before and after it")
    end
    local repo = idl.repository()
    assert(repo:load "struct Named {\n#pragma ID Named \"IDL:x:1.0\"\n long a; };")
    assert.equal("IDL:x:1.0", repo:lookup("Named").id)
    assert(repo:load "interface I {\n#pragma prefix \"b\"\n typedef long T; };\n#pragma other stuff\nstruct S {\n#pragma other stuff\n long a; };")
    assert.equal("IDL:b/T:1.0", repo:lookup("I::T").id)
    assert.equal("IDL:S:1.0", repo:lookup("S").id)
  end)

  it("has nothing behind its end", function()
    refused("#pragma prefix \"a\" x\ninterface I {};", "#pragma prefix goes on after its end, at 'x'")
    refused("interface I {};\n#pragma ID I \"IDL:x:1.0\" y\n", "#pragma ID goes on after its end, at 'y'")
    refused("interface I {};\n#pragma version I 1.2 3\n", "#pragma version goes on after its end, at '3'")
  end)
end)
