-- What is wrong IDL, and what its errors say: place, what was expected, several in one run.
-- needs: plain
local support = require "spec.support.idl"
local errors = support.errors

local function table_of(title, cases)
  describe(title, function()
    for _, case in ipairs(cases) do
      it(case[1], function() assert.equal(case[2], errors(case[1])) end)
    end
  end)
end

table_of("idl errors: syntax", {
  { "struct S { long a };", "1:19: ';' after a member expected, got '}'" },
  { "struct S { long a; ", "1:20: '}' or a member expected, got the end of the file" },
  { "interface I { void f(long a); };", "1:22: 'in', 'out' or 'inout' expected, got the keyword 'long'" },
  { "interface I { void f(in long a) };", "1:33: ';' after this definition expected, got '}'" },
  { "typedef long;", "1:13: the name of the new type expected, got ';'" },
  { "typedef 5 T;", "1:9: a type expected, got '5'" },
  { "enum E { a, };", "1:13: the name of an enumerator expected, got '}'" },
  { "const long = 5;", "1:12: the name of the constant expected, got '='" },
  { "const long A 5;", "1:14: '=' after the name of the constant expected, got '5'" },
  { "module M { };", "1:12: the module 'M' is empty: it needs at least one definition" },
  { "module M { typedef long A; }", "1:29: ';' after the '}' of a module expected, got the end of the file" },
  { "module M {\n typedef long A;\n", "3:1: '}' expected to end the module 'M' (t.idl:1), got the end of the file" },
  { "};", "1:1: this '}' closes nothing" },
  { "struct S {};", "1:11: a struct needs at least one member" },
  { "union U switch (long) {};", "1:24: 'case' or 'default' expected, got '}'" },
  { "interface I { attribute long; };", "1:29: the name of the attribute expected, got ';'" },
  { "unsigned char x;", "1:1: a definition expected, got the keyword 'unsigned'" },
  { "typedef unsigned char X;", "1:18: 'long' or 'short' after 'unsigned' expected, got the keyword 'char'" },
  { "typedef sequence<long T;", "1:23: '>' or ',' and a bound after the type of the elements expected, got 'T'" },
  { "class X {};", "1:1: a definition expected, got 'class'" },
  { "component C {};", "1:1: components are not supported: 'component'" },
  { "local valuetype V {};", "1:7: 'interface' after 'local' expected, got the keyword 'valuetype'" },
  { "typedef long 1a;", "1:14: the name of the new type expected, got '1a'" },
  { "typedef struct S;", "1:17: '{' after the name of the struct expected, got ';'" },
  { "interface I { void f(in struct S { long a; } b); };",
    "1:25: a struct can't be defined here: give it a definition of its own and write its name" },
})

table_of("idl errors: characters and literals", {
  { 'const string S = "abc;', '1:18: this string has no closing " on its line' },
  { "const char C = 'ab';", "1:16: one character expected between the quotes, got 2" },
  { "const char C = '';", "1:16: one character expected between the quotes, got 0" },
  { "const char C = '\\q';", "1:16: '\\q' is no escape sequence" },
  { "const char C = '\\u0041';", "1:16: '\\u' belongs into wide characters and strings: L before the quote" },
  { "const char C = '\\777';", "1:16: '\\777' is larger than 255" },
  { 'const string S = "a\\0b";', "1:18: a string can't hold a NUL" },
  { "const wchar C = L'\\ud800';", "1:17: '\\ud800' is half of a surrogate pair" },
  { "const wchar C = L'😀';", "1:17: a wchar is a character of the basic multilingual plane" },
  { "typedef long ä;", '1:14: IDL has no use for the character "ä" here' },
  { "/* no end\n typedef long A;", "1:1: this comment has no end: */ expected" },
  { "const long A = 08;", "1:16: '08' is no octal number (a number that begins with 0 is octal)" },
  { "const long A = 0xG;", "1:16: '0xG' is no hexadecimal number" },
  { "const long A = 12ab;", "1:16: '12ab' is no number" },
  { "const unsigned long long A = 18446744073709551616;", "1:30: '18446744073709551616' does not fit into 64 bits" },
  { "const double A = 1e999;", "1:18: '1e999' is too large for a double" },
  { "const fixed A = 123456789012345678901234567890.12d;", "1:17: '123456789012345678901234567890.12d' has more than 31 digits" },
})

table_of("idl errors: constants", {
  { "const long A = 2147483648;", "1:16: the value 2147483648 does not fit into long" },
  { "const short A = -32769;", "1:17: the value -32769 does not fit into short" },
  { "const octet A = 256;", "1:17: the value 256 does not fit into octet" },
  { "const unsigned long A = -1;", "1:25: unsigned long has no negative values" },
  { "const long long A = 9223372036854775808;", "1:21: the value 9223372036854775808 does not fit into long long" },
  { "const long A = 30000000000 - 29999999999;", "1:16: a part of this expression does not fit into 32 bits, which is what long is computed in" },
  { "const unsigned long long A = 18446744073709551615 + 1;",
    "1:51: a part of this expression does not fit into 64 bits, which is what unsigned long long is computed in" },
  { "const unsigned long long A = 4294967296 * 4294967296;",
    "1:41: a part of this expression does not fit into 64 bits, which is what unsigned long long is computed in" },
  { "const long A = 1 / 0;", "1:18: division by zero" },
  { "const double A = 1.0 / 0.0;", "1:22: division by zero" },
  { "const fixed A = 1d / 0d;", "1:20: division by zero" },
  { "const long A = 1 << 64;", "1:18: the right side of a shift must be between 0 and 63" },
  { "const double A = 1;", "1:18: a floating point number expected for type double, got an integer" },
  { "const long A = 1.5;", "1:16: an integer expected for type long, got a floating point number" },
  { "const long A = TRUE;", "1:16: an integer expected for type long, got TRUE or FALSE" },
  { "const boolean A = 1;", "1:19: TRUE or FALSE expected, got an integer" },
  { "const boolean A = TRUE | FALSE;", "1:24: the operator '|' can't be used for boolean" },
  { "const double A = 1.5 % 2.0;", "1:22: the operator '%' can't be used for double" },
  { "const fixed A = 1.5;", "1:17: a fixed point number expected, got a floating point number" },
  { "const wstring A = \"a\";", "1:19: a wide string expected, got a string" },
  { "const string<3> A = \"abcd\";", "1:21: the string has 4 characters, its type allows 3" },
  { "const float A = 1e39;", "1:17: the value does not fit into float" },
  { "const long A = B;", "1:16: 'B' is not declared" },
  { "typedef long T; const long A = T;", "1:32: 'T' is no constant, it is declared as alias at t.idl:1" },
  { "enum E { x }; const long A = x;", "1:30: an integer expected for type long, got an enumerator" },
  { "enum E { x }; enum F { y }; const E A = y;", "1:41: 'y' belongs to the enum F, not to E" },
  { "enum E { x }; const E A = 0;", "1:27: an enumerator of E expected" },
  { "typedef sequence<long> T; const T A = 1;",
    "1:33: a constant can't have the type 'T': only numbers, characters, strings, boolean and enums" },
  { "const any A = 1;", "1:7: a constant can't have the type 'any': only numbers, characters, strings, boolean and enums" },
  { "const fixed<3,1> A = 1.0d;", "1:12: a constant has the type 'fixed', without digits and scale" },
  { "const long A = - -1;", "1:18: a value (of a second sign, or ~, parentheses around it) expected, got '-'" },
})

table_of("idl errors: names", {
  { "typedef long A; typedef short A;", "1:31: 'A' is already declared: typedef, t.idl:1" },
  { "typedef long A; typedef short a;", "1:31: 'a' and the typedef 'A' (t.idl:1) differ only in case" },
  { "typedef long Struct;", "1:14: 'Struct' differs from the keyword 'struct' only in case: write '_Struct' if you need this name" },
  { "typedef long _1;", "1:14: a name begins with a letter (an underscore before it only escapes a keyword), got '_1'" },
  { "typedef long A; typedef a B;", "1:25: 'a' is not declared; 'A', which differs in case, is (t.idl:1)" },
  { "module M { typedef long A; }; typedef M::B C;", "1:42: 'B' is not declared in 'M'" },
  { "typedef long A; typedef A::B C;", "1:28: 'A' is a typedef, it holds no names" },
  { "module M { typedef long m; };", "1:25: 'm' has the name of the module it stands in" },
  { "typedef long T; interface I { typedef T A; typedef short T; };",
    "1:58: 'T' can't be declared here: it was used with the meaning 'T' on line 1" },
  { "typedef long T; interface I { struct S { T a; }; typedef short T; };",
    "1:64: 'T' can't be declared here: it was used with the meaning 'T' on line 1" },
  { "enum Size { SMALL }; struct Item { Size size; };",
    "1:41: 'size' can't be declared here: it was used with the meaning 'Size' on line 1, and case makes no difference in IDL" },
  { "struct S { long a; short A; };", "1:26: 'A' and the member 'a' (t.idl:1) differ only in case" },
  { "interface I { void f(in long a, in long a); };", "1:41: 'a' is already declared: parameter, t.idl:1" },
  { "interface A { typedef long T; }; interface B { typedef long T; }; interface C : A, B { typedef T U; };",
    "1:96: 'T' is ambiguous: it is inherited as A::T and as B::T" },
  { "const long N = 1; struct S { N a; };", "1:30: 'N' is no type: it is declared as constant at t.idl:1" },
})

table_of("idl errors: near names", {
  { "struct Point { long x; }; interface Map { Piont centre(); };", "1:43: 'Piont' is not declared: did you mean 'Point'?" },
  { "module Shop { typedef long Price; typedef long Prize; }; typedef Shop::Prise A;",
    "1:72: 'Prise' is not declared in 'Shop': did you mean 'Price', 'Prize'?" },
})

table_of("idl errors: types", {
  { "struct S { S a; };", "1:12: 'S' can't hold itself: only a sequence of 'S' can stand inside it" },
  { "struct S { sequence<long> a; S b[2]; };", "1:30: 'S' can't hold itself: only a sequence of 'S' can stand inside it" },
  { "struct S; struct T { S a; }; struct S { long a; };",
    "1:22: 'S' is only declared (t.idl:1), not yet defined: only a typedef of a sequence may use it here" },
  { "struct S; typedef sequence<S> T;", "1:8: the struct 'S' is declared here and never defined" },
  { "typedef sequence<long, 0> T;", "1:24: the bound of a sequence must be above 0" },
  { "typedef string<-1> T;", "1:16: unsigned long has no negative values" },
  { "typedef long T[0];", "1:16: the length of an array must be above 0" },
  { "typedef fixed<32, 2> T;", "1:9: a fixed has 1 to 31 digits, not 32" },
  { "typedef fixed<3, 4> T;", "1:9: the scale of a fixed, 4, is larger than its number of digits, 3" },
  { "union U switch (string) { case 1: long a; };", "1:17: a union is switched by an integer, char, boolean or enum, not by string" },
  { "union U switch (long) { case 1: long a; case 1: long b; };", "1:46: the label '1' stands here twice" },
  { "union U switch (long) { default: long a; default: long b; };", "1:42: a union has one default, this is the second" },
  { "union U switch (boolean) { case TRUE: long a; case FALSE: long b; default: long c; };",
    "1:67: the labels leave nothing to the default of 'U'" },
  { "union U switch (long) { case 1.5: long a; };", "1:30: an integer expected for type long, got a floating point number" },
  { "valuetype B long; valuetype V B;", "1:31: a valuetype can't be boxed" },
})

table_of("idl errors: interfaces and values", {
  { "interface A; interface B : A {};", "1:28: 'A' is only declared (t.idl:1), not yet defined" },
  { "interface A {}; interface B : A, A {};", "1:34: 'A' stands twice among the bases" },
  { "struct S { long a; }; interface B : S {};", "1:37: 'S' is a struct, an interface is expected here" },
  { "local interface A {}; interface B : A {};", "1:37: 'A' is local: only a local interface can inherit from it" },
  { "interface A {}; abstract interface B : A {};", "1:40: 'A' is not abstract: an abstract interface can't inherit from it" },
  { "interface A { void f(); }; interface B : A { long f(); };", "1:51: 'f' is inherited as an operation (t.idl:1)" },
  { "interface A { void f(); }; interface B { void F(); }; interface C : A, B {};", "1:65: 'C' inherits both A::f and B::F" },
  { "interface I { oneway long f(); };", "1:22: the one-way operation 'f' must have the result void" },
  { "interface I { oneway void f(out long a); };", "1:29: the one-way operation 'f' can't have a parameter 'out'" },
  { "exception E {}; interface I { oneway void f() raises (E); };", "1:47: the one-way operation 'f' can't raise exceptions" },
  { "struct S { long a; }; interface I { void f() raises (S); };", "1:54: 'S' is a struct (t.idl:1), an exception is expected here" },
  { "interface I; abstract interface I {};", "1:33: 'I' was declared without 'abstract' (t.idl:1)" },
  { "valuetype A {}; valuetype B {}; valuetype C : A, B {};", "1:50: 'B' is not abstract: only the first base may be so" },
  { "abstract valuetype A { public long x; };", "1:24: an abstract valuetype has no members" },
  { "valuetype V { factory f(out long a); };", "1:23: the parameter 'a' of a factory must be 'in'" },
  { "interface I {}; interface J {}; valuetype V supports I, J {};",
    "1:57: a valuetype supports one interface that is not abstract, here are 'I' and 'J'" },
})

describe("idl errors: several in one run", function()
  it("each definition has its own, in order", function()
    assert.equal([[
1:9: 'Nothing' is not declared
3:3: 'Never' is not declared
4:19: ';' after a member expected, got '}'
6:21: 'in', 'out' or 'inout' expected, got ')'
7:3: 'Missing' is not declared
8:22: 'a' is already declared: attribute, t.idl:8
11:2: the value 70000 does not fit into short]], errors [[
typedef Nothing A;
interface H { void g() raises (
  Never); };
struct S { long a };
interface K {
  void g(in long y, );
  Missing h();
  attribute short a, a; void i(in long z);
}; const short S2 =

 70000;]])
  end)

  it("goes on after a body in which braces are missing or too many", function()
    assert.equal("2:22: 'X' is not declared\n4:9: 'Y' is not declared", (errors [[
interface I {
  struct S { long a; X b; };
};
typedef Y Z;]]))
    assert.equal("1:12: the type of a member expected, got '{'\n2:9: 'Y' is not declared", errors "struct S { {{ long a; }} };\ntypedef Y Z;")
  end)

  it("at most fifty are shown", function()
    local text = errors(("typedef Nothing A;\n"):rep(200))
    assert.equal("50:9: too many errors, the rest is not shown", text:match("[^\n]*$"))
    assert.equal(51, select(2, text:gsub("\n", "")) + 1)
  end)

  it("two at one place are one", function()
    assert.equal("1:14: 'Struct' differs from the keyword 'struct' only in case: write '_Struct' if you need this name",
      errors "typedef long Struct;")
  end)
end)
