-- mare idl check, mare idl show.
-- runs under: mare
-- needs: plain
local proc = require "spec.support.proc"
local with_file = proc.with_file

local root = os.getenv("MARE_ROOT") or "."
local own = root .. "/spec/support/idl/"

local function mare(...) return proc.mare_command({ "idl", ... }) end

local function without_comments(text) return (text:gsub(" *//[^\n]*", "")) end

describe("mare idl", function()
  it("--help begins with an example", function()
    for _, words in ipairs { { "--help" }, { "show", "--help" }, { "-h" } } do
      local r = mare(table.unpack(words))
      assert.equal(0, r.code)
      assert.matches("^  mare idl show [^\n]+\n\nusage: mare idl check", r.out)
      assert.equal("", r.err)
    end
  end)

  it("a mistake on the command line ends with 2 and says what to do", function()
    local wrong = { {}, { "look", "a.idl" }, { "check" }, { "show", "-x", "a.idl" }, { "check", "-I" }, { "check", "-D", "1=2", "a.idl" } }
    for _, words in ipairs(wrong) do
      local r = mare(table.unpack(words))
      assert.equal(2, r.code, table.concat(words, " "))
      assert.equal("", r.out)
      assert.matches("^mare idl: [^\n]+\nusage: mare idl check.*Try 'mare idl %-%-help'.\n$", r.err)
    end
  end)
end)

describe("mare idl check", function()
  it("says that a file is correct", function()
    local r = mare("check", own .. "features.idl")
    assert.equal(0, r.code)
    assert.equal(own .. "features.idl: correct, 86 definitions\n", r.out)
    assert.equal("", r.err)
  end)

  it("writes all errors of all files and ends with 1", function()
    with_file("typedef Nothing A;\nstruct S { long a }\n", function(name)
      local r = mare("check", name, own .. "features.idl", "/no/such.idl")
      assert.equal(1, r.code)
      assert.equal(own .. "features.idl: correct, 86 definitions\n", r.out)
      assert.equal(([[
NAME:1:9: 'Nothing' is not declared
NAME:2:19: ';' after a member expected, got '}'
NAME:3:1: ';' after this definition expected, got the end of the file
/no/such.idl:1:1: can't read this file: No such file or directory
]]):gsub("NAME", name), r.err)
    end)
  end)

  it("-I and -D, apart or together with their arguments", function()
    assert.equal(1, mare("check", own .. "preprocessed.idl").code)
    assert.equal(0, mare("check", "-I", own, "-D", "GIVEN=7", own .. "preprocessed.idl").code)
    assert.equal(0, mare("check", "-I" .. own, own .. "preprocessed.idl", "-DGIVEN=7").code)
    with_file("#if A == 1 && B == 5\ntypedef long T;\n#else\n#error no\n#endif\n", function(name)
      assert.equal(0, mare("check", "-DA", "-DB=5", "--", name).code)
      assert.equal(1, mare("check", "-DA", "-DB=6", name).code)
    end)
  end)

  it("notes do not make a file wrong", function()
    with_file("interface I; @key struct S { long a; };", function(name)
      local r = mare("check", name)
      assert.equal(0, r.code)
      assert.equal(([[
NAME:1:14: note: annotations are skipped: @key
NAME:1:11: note: the interface 'I' is declared here and never defined
]]):gsub("NAME", name), r.err)
    end)
  end)

  it("--json gives an object for each file", function()
    with_file('typedef Nothing A;\ntypedef long "b\\n";', function(name)
      local r = mare("check", "--json", name, own .. "features.idl")
      assert.equal(1, r.code)
      assert.equal("", r.err)
      assert.equal(([[{"errors":[{"column":9,"file":"NAME","line":1,"message":"'Nothing' is not declared"},]] ..
        [[{"column":14,"file":"NAME","line":2,"message":"the name of the new type expected, got the string \"b\\n\""}],]] ..
        [["file":"NAME","notes":[],"ok":false}
]] .. [[{"definitions":86,"errors":[],"file":"FEATURES","notes":[],"ok":true}
]]):gsub("NAME", name):gsub("FEATURES", own .. "features.idl"), r.out)
    end)
  end)
end)

describe("mare idl show", function()
  it("prints IDL with ids and values", function()
    with_file([[
#pragma prefix "example"
module M {
  const unsigned long long Big = ~0; const string S = "a\"b\n" "c"; const double D = 1.0 / 3.0; const float F = 0.1;
  interface I { exception Gone { string why; }; attribute long x; long f(in Object a, out any b) raises (Gone) context ("c*"); };
  union U switch (enum E { p, q }) { case p: case q: long n[2]; };
};
]], function(name)
      local r = mare("show", name)
      assert.equal("", r.err)
      assert.equal(0, r.code)
      assert.equal([[
module M {                                          // IDL:example/M:1.0
  const unsigned long long Big = 18446744073709551615;  // IDL:example/M/Big:1.0
  const string S = "a\"b\nc";                       // IDL:example/M/S:1.0
  const double D = 0.3333333333333333;              // IDL:example/M/D:1.0
  const float F = 0.1;                              // IDL:example/M/F:1.0
  interface I {                                     // IDL:example/M/I:1.0
    exception Gone {                                // IDL:example/M/I/Gone:1.0
      string why;
    };
    attribute long x;                               // IDL:example/M/I/x:1.0
    long f(in Object a, out any b) raises (Gone) context ("c*");  // IDL:example/M/I/f:1.0
  };
  union U switch (enum E { p, q }) {                // IDL:example/M/U:1.0
    case p:
    case q: long n[2];
  };
};
]], r.out)
    end)
  end)

  it("what it prints is IDL that it prints again", function()
    local first = mare("show", own .. "features.idl")
    assert.equal(0, first.code)
    with_file(first.out, function(name)
      local second = mare("show", name)
      assert.equal("", second.err)
      assert.equal(without_comments(first.out), without_comments(second.out))
    end)
  end)

  it("shows what is in the file, with --all also what it includes", function()
    with_file('#include "features.idl"\ntypedef Shop::Cents Mine;\n', function(name)
      local r = mare("show", "-I", own, name)
      assert.equal("typedef Shop::Cents Mine;                           // IDL:Mine:1.0\n", r.out)
      assert.matches("^module Shop {.*typedef Shop::Cents Mine;[^\n]+\n$", mare("show", "-I", own, "--all", name).out)
    end)
  end)

  it("--json holds the definitions", function()
    with_file("module M { struct S { sequence<long, 2> a[3]; }; interface I { oneway void f(in S b); }; };", function(name)
      assert.equal(([[{"definitions":[{"contents":[{"file":"NAME","id":"IDL:M/S:1.0","kind":"struct","line":1,"members":[{"name":"a",]] ..
        [["type":"sequence<long, 2>[3]"}],"name":"S","scoped":"M::S"},{"bases":[],"contents":[{"context":[],"file":"NAME","id":"IDL:M/I/f:1.0",]] ..
        [["kind":"operation","line":1,"name":"f","oneway":true,"params":[{"mode":"in","name":"b","type":"M::S"}],"raises":[],"result":"void",]] ..
        [["scoped":"M::I::f"}],"file":"NAME","id":"IDL:M/I:1.0","kind":"interface","line":1,"name":"I","scoped":"M::I"}],"file":"NAME",]] ..
        [["id":"IDL:M:1.0","kind":"module","line":1,"name":"M","scoped":"M"}],"errors":[],"file":"NAME","notes":[],"ok":true}
]]):gsub("NAME", name), mare("show", "--json", name).out)
    end)
  end)

  it("an error shows nothing", function()
    with_file("typedef long A; typedef Nothing B;", function(name)
      local r = mare("show", name)
      assert.equal(1, r.code)
      assert.equal("", r.out)
      assert.equal(name .. ":1:25: 'Nothing' is not declared\n", r.err)
    end)
  end)
end)
