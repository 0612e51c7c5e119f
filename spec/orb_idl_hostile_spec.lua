-- IDL that was written to harm: each is refused (or read) within bounds of depth, memory and time; nothing but errors of IDL comes out.
-- needs: plain
local idl = require "mare.orb.idl"
local show = require "mare.orb.idl.show"
local support = require "spec.support.idl"
local errors = support.errors

local function numbered(format)
  local parts = {}
  for i = 1, 5000 do parts[i] = format:format(i) end
  return table.concat(parts)
end

local function first(text, options) return (errors(text, options):match("^[^\n]*")) end

describe("hostile idl: nesting", function()
  local deep = 20000
  local cases = {
    { "parentheses", "const long A = " .. ("("):rep(deep) .. "1" .. (")"):rep(deep) .. ";", "nested deeper than 60" },
    { "signs", "const long A = " .. ("-"):rep(deep) .. "1;", "a value" },
    { "sequences", "typedef " .. ("sequence<"):rep(deep) .. "long" .. (">"):rep(deep) .. " A;", "nested deeper than 60" },
    { "structs", numbered("struct S%d { "), "nested deeper than 60" },
    { "unions", numbered("union U%d switch (long) { case 1: "), "nested deeper than 60" },
    { "modules", numbered("module m%d { "), "scopes are nested deeper than 100" },
    { "interfaces", ("interface A { "):rep(deep), "got the keyword 'interface'" },
    { "dimensions", "typedef long A" .. ("[2]"):rep(deep) .. ";", "an array has at most 60 dimensions" },
    { "operators", "const long A = 1" .. (" + 1"):rep(deep) .. ";", "more than 10000 operators" },
    { "conditions", ("#if 1\n"):rep(deep), "#if is nested deeper than 1000" },
    { "parentheses in a condition", "#if " .. ("("):rep(deep) .. "1", "nested deeper than 100" },
    { "signs in a condition", "#if " .. ("!"):rep(deep) .. "1", "nested deeper than 100" },
    { "annotations", ("@a("):rep(deep) .. "struct S { long a; };", "')' expected" },
    { "braces", ("{"):rep(deep), "a definition expected" },
    { "closing braces", ("}"):rep(deep), "this '}' closes nothing" },
  }
  for _, case in ipairs(cases) do
    it("of " .. case[1], function()
      local message = first(case[2])
      assert.truthy(message:find(case[3], 1, true), message)
    end)
  end

  it("is counted anew for each definition", function()
    local parts = {}
    for i = 1, 300 do parts[i] = ("typedef sequence<sequence<long> > A%d; const long B%d = (((1)));"):format(i, i) end
    support.load(table.concat(parts))
  end)
end)

describe("hostile idl: growth", function()
  it("macros that double", function()
    local parts = { "#define a0 x x" }
    for i = 1, 60 do parts[#parts + 1] = ("#define a%d a%d a%d"):format(i, i - 1, i - 1) end
    parts[#parts + 1] = "a60"
    assert.matches("the macros make more than 100000 tokens", first(table.concat(parts, "\n")))
  end)

  it("macros with arguments that double", function()
    local parts = { "#define f0(x) x x" }
    for i = 1, 60 do parts[#parts + 1] = ("#define f%d(x) f%d(x x)"):format(i, i - 1) end
    parts[#parts + 1] = "f60(y)"
    assert.matches("the macros make more than 100000 tokens", first(table.concat(parts, "\n")))
  end)

  it("names that double by ##", function()
    local parts = { "#define f(x) g(x, x)\n#define g(x, y) x##y\nconst long " }
    parts[2] = ("f("):rep(60) .. "a" .. (")"):rep(60) .. " = 1;"
    assert.matches("makes a name longer than 65536 bytes", first(table.concat(parts)))
  end)

  it("strings that double by #", function()
    local text = '#define s(x) t(x)\n#define t(x) #x\nconst string A = ' .. ("s("):rep(60) .. '"' .. (")"):rep(60) .. ";"
    assert.matches("^3:", first(text))
    text = '#define s(x) t(x)\n#define t(x) #x\nconst string A = ' .. ("s("):rep(60) .. '"\\"' .. '"' .. (")"):rep(60) .. ";"
    assert.matches("'#' makes a string longer than 65536 bytes", first(text))
  end)

  it("arguments within arguments", function()
    local text = "#define f(x) x\nconst long A = " .. ("f("):rep(20000) .. "1" .. (")"):rep(20000) .. ";"
    assert.matches("the macros make more than 100000 tokens", first(text))
    text = "#define f(x) x\nconst long A = " .. ("f("):rep(200) .. "1" .. (")"):rep(200) .. ";"
    assert.matches("macro arguments are nested deeper than 100", first(text))
  end)

  it("files that include themselves twice", function()
    local read = support.files { ["a.idl"] = '#include "a.idl"\n#include "a.idl"\n' }
    local text = errors('#include "a.idl"', { name = "t.idl", read = read })
    assert.matches("files include each other deeper than 64", text:match("^[^\n]*"))
    assert.matches("too many errors", text:match("[^\n]*$"))
    local leaf = {}
    for i = 0, 20 do leaf[("l%d.idl"):format(i)] = i == 0 and "" or ('#include "l%d.idl"\n'):rep(2):format(i - 1, i - 1) end
    assert.matches("more than 10000 files are included", first('#include "l20.idl"', { name = "t.idl", read = support.files(leaf) }))
  end)

  it("files that are very large together", function()
    local big = (" "):rep(9 * 1024 * 1024)
    local read = support.files { ["big.idl"] = big }
    assert.matches("the files are larger than 33554432 bytes in all", first(('#include "big.idl"\n'):rep(4), { name = "t.idl", read = read }))
  end)

  it("texts of nothing but signs", function()
    assert.matches("more than 500000 words and signs in all", first((";"):rep(500001)))
    local read = support.files { ["signs.idl"] = (";"):rep(300000) }
    assert.matches("more than 500000 words and signs in all", first('#include "signs.idl"\n#include "signs.idl"', { name = "t.idl", read = read }))
  end)

  it("many parameters of a macro", function()
    local names = {}
    for i = 1, 1000 do names[i] = "p" .. i end
    assert.matches("a macro has at most 127 parameters", first("#define f(" .. table.concat(names, ",") .. ") 1"))
  end)

  it("inheritance that doubles", function()
    local parts = { "interface A0 {}; interface B0 {};" }
    for i = 1, 100 do
      parts[#parts + 1] = ("interface A%d : A%d, B%d {}; interface B%d : A%d, B%d {};"):format(i, i - 1, i - 1, i, i - 1, i - 1)
    end
    parts[#parts + 1] = "interface C : A100, B100 { typedef Nothing X; };"
    assert.matches("'Nothing' is not declared", first(table.concat(parts)))
  end)

  it("large exponents and long numbers", function()
    assert.matches("too large", first "const double A = 1e999999999;")
    assert.matches("does not fit", first("const long A = " .. ("9"):rep(100000) .. ";"))
    assert.matches("more than 31 digits", first("const fixed A = " .. ("9"):rep(100000) .. "d;"))
    assert.equal("struct", support.load("struct " .. ("a"):rep(100000) .. " { long b; };"):lookup(("a"):rep(100000)).kind)
  end)
end)

-- Texts with random changes: whatever comes, it is an error of IDL or a definition that can be shown and loaded again.
describe("hostile idl: random changes", function()
  local root = (os.getenv("MARE_ROOT") or ".") .. "/spec/support/idl/"
  local texts, words = {}, { "<<", ">>", "typeid", "typeprefix", "import", "@a", "\\\n", "/*", "*/", "\"", "'", "L'", "0x", "##", "#", "#define",
                             "#if", "#include", "__LINE__", "defined", "ValueBase", "truncatable", "getraises", "#pragma ID", "\0", "\255", "#undef" }
  for i, name in ipairs { "features", "preprocessed", "included" } do
    local file = assert(io.open(root .. name .. ".idl"))
    texts[i] = file:read("a")
    file:close()
    for word in texts[i]:gmatch("[%a_#][%w_]*") do words[#words + 1] = word end
  end
  local state = 1
  local function random(n)
    state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    return (state >> 8) % n + 1
  end

  local function changed(text)
    for _ = 1, random(3) do
      local kind, a = random(5), random(#text)
      local b = math.min(#text, a + random(40))
      if kind == 1 then text = text:sub(1, a) .. text:sub(b)
      elseif kind == 2 then text = text:sub(1, a) .. words[random(#words)] .. " " .. text:sub(a + 1)
      elseif kind == 3 then text = text:sub(1, a) .. text:sub(a, b) .. text:sub(a + 1)
      elseif kind == 4 then text = text:sub(1, a - 1) .. string.char(random(256) - 1) .. text:sub(a + 1)
      else
        local c = random(#text)
        text = text:sub(1, a) .. text:sub(c, c + random(200)) .. text:sub(a + 1)
      end
    end
    return text
  end

  it("600 of them", function()
    local options = { name = "t.idl", include = { root }, define = { GIVEN = 7 } }
    local good = 0
    for _ = 1, 600 do
      local text = changed(texts[random(#texts)])
      local repo = idl.repository()
      local ok, definitions, problems = pcall(repo.load, repo, text, options)
      if not ok then error(("%s in:\n%s"):format(definitions, text)) end
      if definitions then
        good = good + 1
        show.text(definitions)
        show.data(definitions)
        local again, why = repo:load(text, options)
        if not again then error(("%s at the second load of:\n%s"):format(why, text)) end
      else
        assert.is_true(#problems > 0)
        assert.is_nil(repo.contents[1])
      end
    end
    assert.is_true(good > 20)
  end)
end)
