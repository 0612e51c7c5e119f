-- The IDL compiler beside omniidl: the same definitions, ids, types and constants; what is wrong is refused at the same line.
-- needs: plain
-- runs under: mare
local idl = require "mare.orb.idl"
local lines = require "spec.support.idl_lines"
local mutations = require "spec.support.idl_mutations"
local omniidl = require "spec.support.omniidl"
local proc = require "spec.support.proc"
local snippets = require "spec.support.idl_snippets"
local temporary = require "spec.support.temporary"

local root = os.getenv("MARE_ROOT") or "."
local own = root .. "/spec/support/idl/"

-- What one of the two has and the other has not. omniidl gives each opening of a module an id; for a module any of them will do, and CORBA
-- is there before any file.
local function difference(repo, definitions, result)
  local want, extra = {}, {}
  for _, line in ipairs(result.lines) do want[line] = true end
  local modules = {}
  for _, line in ipairs(lines(repo, definitions)) do
    if not want[line] and not line:find("^module\tCORBA\t") then extra[#extra + 1] = "only mare: " .. line end
    if line:find("^module\t") then modules[line:match("^module\t([^\t]*)")] = true end
    want[line] = nil
  end
  for line in pairs(want) do
    if not modules[line:match("^module\t([^\t]*)") or ""] then extra[#extra + 1] = "only omniidl: " .. line end
  end
  return table.concat(extra, "\n")
end

local function compare(jobs)
  local results = omniidl.run(jobs)
  local accepted = 0
  for i, job in ipairs(jobs) do
    local result = results[i]
    local repo = idl.repository()
    local define = { __OMNIIDL__ = "0x040205" }
    for name, value in pairs(job.define or {}) do define[name] = value end
    local definitions, problems = repo:loadfile(job.path, { include = job.include, define = define })
    if result.accepted then
      accepted = accepted + 1
      assert.truthy(definitions, job.path .. ": " .. tostring(problems))
      assert.equal("", difference(repo, definitions, result), job.path)
      assert.is_true(#result.lines > 0, job.path)
    else
      assert.is_true(definitions == nil, job.path .. " is refused by omniidl only: " .. tostring(result.errors[1] and result.errors[1].message))
      local line = result.errors[1].line           -- it may crash afterwards
      if line > 0 then assert.equal(line, problems[1].line, job.path .. ": " .. result.errors[1].message .. " / " .. tostring(problems)) end
    end
  end
  return accepted
end

describe("idl and omniidl agree on", function()
  it("every file that comes with omniORB, with and without the Interface Repository", function()
    local jobs, include = {}, { omniidl.folder, omniidl.folder .. "/COS" }
    local options = ("-I%s -I%s/COS"):format(omniidl.folder, omniidl.folder)
    for _, path in ipairs(omniidl.files()) do
      jobs[#jobs + 1] = { path = path, options = options, include = include }
      local more = options .. " -DENABLE_CLIENT_IR_SUPPORT=1"
      jobs[#jobs + 1] = { path = path, options = more, include = include, define = { ENABLE_CLIENT_IR_SUPPORT = 1 } }
    end
    assert.is_true(#jobs >= 140)
    local accepted = compare(jobs)
    assert.is_true(accepted >= 110, accepted .. " accepted")
  end)

  -- They name CORBA::InterfaceDef, and an interface Factory: what omniidl accepts by its macro is known here without.
  it("the files that are written for omniidl's macro, without that macro", function()
    local accepted = {}
    for _, name in ipairs { "CosCompoundLifeCycle", "CosContainment", "CosExternalization", "CosExternalizationContainment",
                            "CosExternalizationReference", "CosGraphs", "CosLifeCycle", "CosLifeCycleContainment", "CosLifeCycleReference",
                            "CosQuery", "CosReference", "CosRelationships", "CosStream", "LifeCycleService" } do
      local repo = idl.repository()
      local path, include = ("%s/COS/%s.idl"):format(omniidl.folder, name), { omniidl.folder, omniidl.folder .. "/COS" }
      local definitions, problems = repo:loadfile(path, { include = include })
      assert.truthy(definitions, name .. ": " .. tostring(problems))
      accepted[#accepted + 1] = name
    end
    assert.equal(14, #accepted)
  end)

  it("the prefixes of repository ids, over files, scopes and modules that are opened again", function()
    local folder = temporary()
    os.remove(folder)
    assert(os.execute("mkdir " .. folder))
    local files = {
      ["plain.idl"] = "interface Plain {};\nmodule Again { interface P {}; };\n",
      ["own.idl"] = "#pragma prefix \"own\"\ninterface Own {};\nmodule Again { interface O {}; };\n",
      ["late.idl"] = "interface Early {};\n#pragma prefix \"late\"\ninterface Late {};\n",
      ["reset.idl"] = "#pragma prefix \"x\"\nmodule R { interface A {};\n#pragma prefix \"\"\ninterface B {}; };\n" ..
                      "#pragma prefix \"\"\ninterface C {};\n",
    }
    local heads = { "", '#pragma prefix "top"\n' }
    local jobs = {}
    local function add(text)
      local path = ("%s/main%d.idl"):format(folder, #jobs + 1)
      local file = assert(io.open(path, "w"))
      file:write(text)
      file:close()
      jobs[#jobs + 1] = { path = path, options = "-I" .. folder, include = { folder } }
    end
    for name, text in pairs(files) do
      local file = assert(io.open(folder .. "/" .. name, "w"))
      file:write(text)
      file:close()
    end
    for _, head in ipairs(heads) do
      for name in pairs(files) do
        add(('%s#include "%s"\ninterface After {};\nmodule Again { interface Q {}; };\n'):format(head, name))
        add(('%smodule M {\n#include "%s"\ninterface After {}; };\ninterface End {};\n'):format(head, name))
        add(('%smodule M {\n#pragma prefix "in"\ninterface I {};\n#include "%s"\ninterface After {}; };\ninterface End {};\n'):format(head, name))
        add(('interface First {};\n%s#include "%s"\n#pragma prefix "end"\nmodule Again { interface Q {}; };\n'):format(head, name))
      end
    end
    local ok, result = pcall(compare, jobs)
    os.execute("rm -r " .. folder)
    if not ok then error(result, 0) end
    assert.equal(#jobs, result)
  end)

  it("every construct", function()
    assert.equal(1, compare { { path = own .. "features.idl" } })
  end)

  it("macros, conditions, included files and pragmas", function()
    assert.equal(1, compare { { path = own .. "preprocessed.idl", options = "-DGIVEN=7 -I" .. own, include = { own }, define = { GIVEN = 7 } } })
  end)

  it("the IDL that mare idl show writes", function()
    local text = {}
    for _, name in ipairs { own .. "features.idl", omniidl.folder .. "/COS/CosNotification.idl", omniidl.folder .. "/ir.idl" } do
      local r = proc.mare_command({ "idl", "show", "--all", "-I", omniidl.folder, "-I", omniidl.folder .. "/COS", name })
      assert.equal(0, r.code, r.err)
      local path = temporary()
      local file = assert(io.open(path, "w"))
      file:write(r.out)
      file:close()
      text[#text + 1] = { path = path }
    end
    local ok, err = pcall(compare, text)
    for _, job in ipairs(text) do os.remove(job.path) end
    if not ok then error(err, 0) end
  end)
end)

-- What omniidl says of texts, each in a file of its own.
local function judged(texts)
  local base, jobs = temporary(), {}
  for i, text in ipairs(texts) do
    jobs[i] = { path = ("%s.%d.idl"):format(base, i), options = "-N" }
    local out = assert(io.open(jobs[i].path, "w"))
    out:write(text)
    out:close()
  end
  local results = omniidl.run(jobs)
  for _, job in ipairs(jobs) do os.remove(job.path) end
  os.remove(base)
  return results
end

describe("idl accepts what omniidl accepts", function()
  local texts = {}
  for i, snippet in ipairs(snippets) do texts[i] = snippet[1] end

  it(("in %d short texts"):format(#snippets), function()
    local results, wrong = judged(texts), {}
    for i, snippet in ipairs(snippets) do
      local repo, result = idl.repository(), results[i]
      local definitions, problems = repo:load(snippet[1], { name = "t.idl" })
      local why = definitions == nil and tostring(problems) or result.errors[1] and result.errors[1].message or ""
      local differ = (definitions ~= nil) ~= result.accepted
      if differ ~= (snippet[2] ~= nil) then
        wrong[#wrong + 1] = ("%s: mare %s, omniidl %s: %s"):format(snippet[1], definitions ~= nil, result.accepted, why)
      elseif definitions and result.accepted then
        assert.equal("", difference(repo, definitions, result), snippet[1])
      end
    end
    assert.equal("", table.concat(wrong, "\n"))
  end)
end)

-- Constant expressions. Integers stay positive: on negative ones omniidl's % and bit operations are those of unsigned numbers.
local function expressions(count)
  local state = 1
  local function random(n)
    state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    return (state >> 8) % n + 1
  end
  local function digits(n)
    local list = {}
    for i = 1, n do list[i] = random(10) - 1 end
    return table.concat(list)
  end
  local function integer() return tostring(random(4) == 1 and random(1 << 22) * random(1000) or random(1000)) end
  local function float() return digits(random(4)) .. "." .. digits(random(4)) end
  local function fixed() return digits(random(9)) .. "." .. digits(random(9) - 1) .. "d" end
  local kinds = {
    { "long", integer, "+*/%|&^" }, { "unsigned long", integer, "+*/%|&^" }, { "unsigned long long", integer, "+*/%|&^" },
    { "double", float, "+-*" }, { "fixed", fixed, "+-*/" },
  }
  local function expression(leaf, operators, depth)
    if depth == 0 or random(4) == 1 then return leaf() end
    local i = random(#operators)
    return ("(%s %s %s)"):format(expression(leaf, operators, depth - 1), operators:sub(i, i), expression(leaf, operators, depth - 1))
  end
  local texts = {}
  for i = 1, count do
    local kind = kinds[i % #kinds + 1]
    texts[i] = ("const %s A = %s;"):format(kind[1], expression(kind[2], kind[3], 3))
  end
  return texts
end

describe("idl computes what omniidl computes", function()
  it("in 250 random expressions", function()
    local texts, computed = expressions(250), 0
    for i, result in ipairs(judged(texts)) do
      local repo = idl.repository()
      local definitions, problems = repo:load(texts[i], { name = "t.idl" })
      local why = tostring(problems) .. (result.errors[1] and result.errors[1].message or "")
      assert.equal(result.accepted, definitions ~= nil, texts[i] .. " " .. why)
      if definitions then
        computed = computed + 1
        assert.equal("", difference(repo, definitions, result), texts[i])
      end
    end
    assert.is_true(computed > 200)
  end)
end)

-- Where we differ from omniidl on purpose: its message, the reason.
local deliberate = {
  { "^Syntax error in operation parameters", "omniidl skips to the next ')' before it speaks; we name the place of the mistake" },
  { "^Syntax error in factory parameters", "the same" },
  { "repeated union label", "omniidl names the line of the union, we that of the label" },
  { "^Error in look%-up of", "omniidl looks names up when it has read the token after them, which may stand on a later line" },
  { "^Syntax error in .*", "omniidl counts the line of a #pragma late", pragma = true },
  { "^Error in .*", "omniidl counts the line of a #pragma late", pragma = true },
  { "^Syntax error in interface body", "a name that is no type is an error at the name, not at what follows it" },
  { "^Syntax error$", "the end of the file inside an open parenthesis: we name the parenthesis's list" },
}

local function reason(message, near_pragma)
  for _, d in ipairs(deliberate) do
    if message:find(d[1]) and (near_pragma or not d.pragma) then return d[2] end
  end
end

describe("idl refuses what omniidl refuses", function()
  it("in 600 changed files, at the same line", function()
    local file = assert(io.open(own .. "features.idl"))
    local text = file:read("a")
    file:close()
    local changed = mutations(text, 600)
    local texts = {}
    for i, m in ipairs(changed) do texts[i] = m.text end
    local results = judged(texts)
    local count = { same = 0, other = 0, accepted = 0, crashed = 0 }
    for i, m in ipairs(changed) do
      local result, repo = results[i], idl.repository()
      local definitions, problems = repo:load(m.text, { name = "t.idl" })
      local failure = result.errors[1]
      if result.crashed and not failure then
        count.crashed = count.crashed + 1         -- of omniidl, that is
      elseif result.accepted then
        count.accepted = count.accepted + 1
        if definitions then assert.equal("", difference(repo, definitions, result), m.what)
        else assert.matches("L?'", m.what .. ": omniidl accepts it; " .. tostring(problems)) end
      else
        assert.is_true(definitions == nil, ("%s: only mare accepts it; omniidl: %d: %s"):format(m.what, failure.line, failure.message))
        if failure.line == problems[1].line then
          count.same = count.same + 1
        else
          count.other = count.other + 1
          local near = m.text:find("#pragma", 1, true) and math.abs(failure.line - problems[1].line) <= 2
          local what = ("%s: omniidl %d: %s, mare %s"):format(m.what, failure.line, failure.message, tostring(problems))
          assert.truthy(reason(failure.message, near), what)
        end
      end
    end
    print(("same line %d, other line %d, both accept %d, omniidl crashes without a word %d"):format(count.same, count.other, count.accepted,
      count.crashed))
    assert.is_true(count.same >= 450)
    assert.is_true(count.other <= count.same // 20)
  end)
end)
