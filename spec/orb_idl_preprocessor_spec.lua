-- The preprocessor of the IDL compiler: files, macros, conditions, pragmas. What it shares with omniidl is compared in orb_idl_oracle_spec.lua.
-- needs: plain
local idl = require "mare.orb.idl"
local support = require "spec.support.idl"
local errors = support.errors

-- The value of `const … C = …` after the given text.
local function value(text, options)
  local repo = support.load(text, options)
  return repo:lookup("C").value
end

describe("idl preprocessor: macros", function()
  it("are replaced once, never inside themselves", function()
    assert.equal(3, value "#define N 3\nconst long C = N;")
    assert.equal(8, value "#define TWICE(x) ((x) * 2)\nconst long C = TWICE(TWICE(1) + 2);")
    assert.equal(5, value "const long x = 5;\n#define x x\nconst long C = x;")
    assert.equal(6, value "const long a = 3;\n#define a b + a\n#define b a\nconst long C = a;")
    assert.equal(2, value "const long f = 2;\n#define f(x) x\nconst long C = f;")
    assert.equal(2, value "#define a f(a)\n#define f(x) x\nconst long\n#undef a\na = 2;\n#define a f(a)\nconst long C = a;")
  end)

  it("join and quote with ## and #", function()
    assert.equal(6, value "#define PASTE(a, b) a##b\nconst long PASTE(C, ) = PASTE(, 6);")
    assert.equal("a  b", (value '#define TEXT(x) #x\nconst string C = TEXT("a  b");'):sub(2, -2))
    assert.equal("1 + N", value "#define N 3\n#define TEXT(x) #x\nconst string C = TEXT(1  +  N);")
    assert.equal("3", value "#define N 3\n#define TEXT_(x) #x\n#define TEXT(x) TEXT_(x)\nconst string C = TEXT(N);")
  end)

  it("take commas in parentheses, newlines and nothing as arguments", function()
    assert.equal("(1, 2)|", value '#define BOTH(a, b) #a "|" #b\nconst string C = BOTH((1, 2)\n,);')
    assert.equal(1, value "#define NONE() 1\nconst long C = NONE();")
    assert.equal("", value "#define ONE(x) #x\nconst string C = ONE();")
  end)

  it("-D defines them, __LINE__ and __FILE__ are there", function()
    assert.equal(7, value("const long C = N;", { define = { N = "3 + 4" } }))
    assert.equal(1, value("#if N\nconst long C = N;\n#endif", { define = { N = true } }))
    assert.equal(3, value "\n\nconst long C = __LINE__;")
    assert.equal("t.idl", value "const string C = __FILE__;")
  end)

  it("errors in what they make are where their name stands", function()
    assert.equal("3:12: 'Nothing' is not declared", errors "#define T Nothing\n\n  typedef  T A;")
  end)

  local wrong = {
    { "#define f(x) x\nconst long C = f(1, 2);", "2:16: the macro 'f' takes 1 argument, got 2" },
    { "#define f(x) x\nconst long C = f(1;", "2:16: the arguments of the macro 'f' have no end: ')' expected" },
    { "#define A 1\n#define A 2", "2:9: the macro 'A' is defined differently at t.idl:1: #undef it first" },
    { "#define f(x, x) x", "1:14: the macro has two parameters 'x'" },
    { "#define f(x ...) x", "1:13: ',' or ')' expected, got '.'" },
    { "#define 3 x", "1:9: #define needs a name, got '3'" },
    { "#define", "1:8: #define needs a name, got the end of the line" },
    { "#define A ## b", "1:9: '##' needs a token on both sides" },
    { "#undef", "1:7: #undef needs a name, got the end of the line" },
  }
  for _, case in ipairs(wrong) do
    it(case[1], function() assert.equal(case[2], errors(case[1])) end)
  end
end)

describe("idl preprocessor: conditions", function()
  local function chosen(condition) return value(("#if %s\nconst boolean C = TRUE;\n#else\nconst boolean C = FALSE;\n#endif"):format(condition)) end

  it("compute as C does", function()
    for _, yes in ipairs { "1", "!0", "2 > 1 && 1 >= 1", "1 ? 2 : 0", "0 ? 0 : 3", "-7 / 2 == -3", "-7 % 3 == -1", "(1 | 6) == 7",
                           "6 ^ 3 == 5", "~0 == -1",
                           "0x10 == 16", "010 == 8", "1 << 4 == 16", "NAME == 0", "1 || 1 / 0", "defined __LINE__", "!defined(NAME)",
                           "10UL == 10", "'a' == 97",
                           "1 + 2 * 3 == 7", "8 >> 1 != 3", "1 < 2 == 1" } do
      assert.is_true(chosen(yes), yes)
    end
    for _, no in ipairs { "0", "NAME", "1 > 2", "1 && 0", "!1", "defined NAME" } do assert.is_false(chosen(no), no) end
  end)

  it("choose one branch; what is not chosen need not be IDL", function()
    assert.equal(2, value("#if 0\n\"no end ' \n#nonsense\n#include \"nothing\"\n#elif 1\nconst long C = 2;\n" ..
      "#elif 1 / nothing +\nno\n#else\nno\n#endif"))
    assert.equal(3, value "#ifdef A\n#ifndef B\nno\n#endif\n#else\n#ifndef A\nconst long C = 3;\n#endif\n#endif")
  end)

  local wrong = {
    { "#if", "1:2: the condition of if ends too early" },
    { "#if 1 +\n#endif", "1:2: the condition of if ends too early" },
    { "#if (1\n#endif", "1:2: ')' expected in the condition of if" },
    { "#if 1 2\n#endif", "1:7: the condition of if goes on after its end, at '2'" },
    { "#if 1.5\n#endif", "1:5: an integer or a name expected in the condition of if, got '1.5'" },
    { "#if defined\n#endif", "1:5: 'defined' needs a name" },
    { "#ifdef\n#endif", "1:2: #ifdef needs a name, got the end of the line" },
    { "#ifdef A\ntypedef long B;", "1:2: this #ifdef has no #endif" },
    { "#endif", "1:2: #endif without #if" }, { "#else", "1:2: #else without #if" }, { "#elif 1", "1:2: #elif without #if" },
    { "#if 0\n#else\n#else\n#endif", "3:2: a second #else; the first is on line 2" },
    { "#if 0\n#else\n#elif 1\n#endif", "3:2: #elif after #else" },
    { "#error this is wrong", "1:2: #error this is wrong" },
    { "#nonsense", "1:2: no preprocessor directive is called 'nonsense'" },
  }
  for _, case in ipairs(wrong) do
    it((case[1]:gsub("\n", " ⏎ ")), function() assert.equal(case[2], (errors(case[1]):gsub("\n1:2: this #if has no #endif", ""))) end)
  end
end)

describe("idl preprocessor: files", function()
  local files = {
    ["lib/a.idl"] = '#include "b.idl"\ntypedef long A;', ["lib/b.idl"] = "typedef long B;", ["other/b.idl"] = "typedef short B;",
    ["lib/once.idl"] = "#pragma once\ntypedef long Once;",
    ["lib/wrong.idl"] = "\n typedef Nothing X;",
    ["lib/sub/../b.idl"] = "typedef long B;", ["lib/sub/c.idl"] = '#include "../b.idl"\ntypedef B D;',
    ["loop.idl"] = '#include "loop.idl"', ["open.idl"] = "#if 1",
    ["self.idl"] = '#ifndef SELF\n#define SELF\n#include "self.idl"\ntypedef long S;\n#endif',
  }
  local function options(...) return { name = "t.idl", read = support.files(files), include = { ... } } end

  it("in quotes are sought beside the file that includes them, then in the folders in order", function()
    assert.equal("long", support.load('#include "lib/a.idl"', options("other")):lookup("B").type.kind)
    assert.equal("short", support.load("#include <b.idl>", options("other", "lib/")):lookup("B").type.kind)
    assert.equal("long", support.load("#include <b.idl>", options("lib", "other")):lookup("B").type.kind)
    assert.equal("long", support.load('#include "lib/sub/c.idl"', options()):lookup("D").type.type.kind)
    assert.equal("lib/b.idl", support.load("#define FILE <b.idl>\n#include FILE", options("lib")):lookup("B").file)
  end)

  it("may include themselves behind #ifndef, and are read once with #pragma once", function()
    assert.truthy(support.load('#include "self.idl"\n#include "self.idl"', options()):lookup("S"))
    assert.truthy(support.load("#include <once.idl>\n#include <once.idl>", options("lib")):lookup("Once"))
  end)

  it("errors name the file they are in", function()
    assert.equal("lib/wrong.idl:2:10: 'Nothing' is not declared", errors('#include "lib/wrong.idl"', options()))
    assert.equal("3:9: 'Nothing' is not declared", errors('#include "lib/a.idl"\n\ntypedef Nothing X;', options()))
    assert.equal("1:2: can't find the file 'no.idl' (include folders: lib, other)", errors("#include <no.idl>", options("lib", "other")))
    assert.equal("1:2: can't find the file 'no.idl' (include folders: none given)", errors('#include "no.idl"', options()))
    assert.equal("open.idl:1:2: this #if has no #endif", errors('#include "open.idl"\n#if 1\n#endif', options()))
    assert.equal('1:10: #include needs "file" or <file>, got \'5\'', errors("#include 5", options()))
    assert.equal("1:10: '>' expected after the name of the file to include", errors("#include <a", options()))
  end)

  it("a cycle without #ifndef is an error", function()
    assert.equal("loop.idl:1:2: files include each other deeper than 64: does 'loop.idl' lack its #ifndef?", errors('#include "loop.idl"', options()))
  end)

  it("orb.idl is built in", function()
    local repo = support.load("#include <orb.idl>\ntypedef CORBA::StringSeq A; struct S { CORBA::TypeCode t; CORBA::AnySeq a; };", options())
    assert.equal("IDL:omg.org/CORBA/StringSeq:1.0", repo:lookup("A").type.id)
    assert.equal("IDL:A:1.0", repo:lookup("A").id)
    assert.equal("valuebox", repo:lookup("CORBA::StringValue").kind)
  end)

  it("loadfile says why a file can't be read", function()
    local definitions, problems = idl.repository():loadfile("no such folder/x.idl")
    assert.is_nil(definitions)
    assert.equal("no such folder/x.idl:1:1: can't read this file: No such file or directory", tostring(problems))
    definitions, problems = idl.repository():loadfile("spec")
    assert.is_nil(definitions)
    assert.matches("^spec:1:1: can't read this file: ", tostring(problems))
  end)
end)

describe("idl preprocessor: lines", function()
  it("joined by a backslash count as written", function()
    assert.equal("3:3: 'Nothing' is not declared", errors "typedef \\\n\\\n  Nothing A;")
    assert.equal(12, value "const long C = 1\\\n2;")
    assert.equal(1, value "// a comment \\\n const long C = 0;\nconst long C = 1;")
    assert.equal("4:9: 'Nothing' is not declared", errors "#define A \\\n  1 \\\n + 1\ntypedef Nothing B;")
  end)

  it("may end as on other systems", function()
    assert.equal("2:9: 'Nothing' is not declared", errors "typedef long A;\r\ntypedef Nothing B;\r\n")
    assert.equal(3, value "#define N \\\r\n  3\r\nconst long C = N;\r\n")
    assert.equal(1, value "\xEF\xBB\xBFconst long C = 1;")
  end)

  it("#line and line marks of another preprocessor move the place", function()
    assert.equal("gen.idl:101:9: 'Nothing' is not declared", errors '#line 100 "gen.idl"\n\ntypedef Nothing A;')
    assert.equal("other.idl:7:9: 'Nothing' is not declared", errors '# 7 "other.idl" 2\ntypedef Nothing A;')
    local repo = support.load '#pragma prefix "p"\n# 1 "inc.idl" 1\ntypedef long A;\n# 3 "t.idl" 2\ntypedef long B;'
    assert.equal("IDL:A:1.0", repo:lookup("A").id)
    assert.equal("IDL:p/B:1.0", repo:lookup("B").id)
    assert.same({ "t.idl", 3 }, { repo:lookup("B").file, repo:lookup("B").line })
  end)

  it("a comment over lines does not end a directive", function()
    assert.equal(3, value "#define N 1 /* a\nb */ + 2\nconst long C = N;")
  end)
end)

describe("idl preprocessor: pragmas", function()
  local wrong = {
    { "#pragma prefix x", '1:2: #pragma prefix needs "text" between double quotes' },
    { '#pragma ID Nothing "IDL:a:1.0"', "1:12: 'Nothing' is not declared" },
    { "typedef long A;\n#pragma ID A", '2:2: #pragma ID needs a name and "an id" between double quotes' },
    { "typedef long A;\n#pragma version A x", "2:2: #pragma version needs a name and a number such as 1.2" },
    { 'typedef long A;\n#pragma ID A "IDL:a:1.0"\n#pragma ID A "IDL:b:1.0"', "3:12: 'A' already was given the id IDL:a:1.0" },
    { "typedef long A;\n#pragma version A 1.2\n#pragma version A 1.3", "3:17: 'A' already was given the id IDL:A:1.2" },
    { "interface A;\n#pragma prefix \"p\"\ninterface A {};",
      "3:11: 'A' was declared at t.idl:1 with the prefix '' of repository ids, now it is 'p'" },
  }
  for _, case in ipairs(wrong) do
    it((case[1]:gsub("\n", " ⏎ ")), function() assert.equal(case[2], errors(case[1])) end)
  end

  it("of other compilers are left alone", function()
    assert.equal(1, value '#pragma hh #include "x.h"\n#pragma\n#pragma sequence 5\nconst long C = 1;')
  end)
end)
