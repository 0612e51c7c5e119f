-- The table of all modules (src/module/modules.def, and the files of lua/mare): what is in it is found wherever modules are looked for.
-- runs under: mare
local proc = require "spec.support.proc"

local root = os.getenv("MARE_ROOT") or "."

local function lines_of(command)
  local all = {}
  for line in proc.run(command, { dir = root }).out:gmatch("[^\n]+") do all[#all + 1] = line end
  return all
end

-- C modules as the list has them: { opener =, name =, kind =, setup = }
local function modules_in_c()
  local all = {}
  for line in io.lines(root .. "/src/module/modules.def") do
    local opener, name, kind, setup = line:match('^C_MODULE%(([%w_]+),%s*"([%w_.]+)",%s*(%u+),%s*([%w_]+)%)$')
    if opener then all[#all + 1] = { opener = opener, name = name, kind = kind, setup = setup }
    else assert(not line:find("^C_MODULE%([^l]"), line) end
  end
  return all
end

local function modules_in_lua()
  local all = {}
  for _, path in ipairs(lines_of "find lua/mare -name '*.lua' ! -path 'lua/mare/cli/*'") do
    all[#all + 1] = path:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/", ".")
  end
  return all
end

local function sorted(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- Names out of matches of a pattern in the C files of src/module, but its tests and the table itself.
local function defined(pattern)
  local set = {}
  for _, path in ipairs(lines_of "ls src/module/*.c | grep -v _test.c") do
    local file <close> = assert(io.open(root .. "/" .. path))
    for name in ("\n" .. file:read("a")):gmatch(pattern) do set[name] = path end
  end
  return set
end

describe("the table of modules", function()
  it("has a line for every luaopen_ function in src/module, and no other", function()
    local listed = {}
    for _, m in ipairs(modules_in_c()) do listed[m.opener] = true end
    assert.is_true(#sorted(listed) > 10)
    assert.same(sorted(defined("\nint luaopen_([%w_]+)%(lua_State %*L%) *{")), sorted(listed))
  end)

  it("has every module's own set-up", function()
    local listed, own = {}, defined("\nvoid mr_([%w_]+)_setup%(void%) *{")
    for _, m in ipairs(modules_in_c()) do listed[m.setup:match("^mr_(.*)_setup$")] = true end
    own.modules, own.no, listed.no = nil, nil, nil
    if not listed.conn then own.conn = nil end           -- net's, which does it
    assert.same(sorted(own), sorted(listed))
  end)

  it("lets processes and plain Lua require each of its modules by its name", function()
    local names = modules_in_lua()
    for _, m in ipairs(modules_in_c()) do names[#names + 1] = m.name end
    assert.is_true(#names > 60)
    local program = [[
      package.path = ""
      for _, name in ipairs(arg) do
        local ok, err = pcall(require, name)
        if not ok or not err then print(name, err) end
      end
    ]]
    local r = proc.mare(program, names)
    assert.same({ 0, "", "" }, { r.code, r.err, r.out })
    for i = #names, 1, -1 do                               -- these names are a searcher's, or lua/luaproc.lua's and lua/oil.lua's
      if names[i] == "luaproc" or names[i] == "oil" then table.remove(names, i) end
    end
    r = proc.lua(program, names)
    assert.same({ 0, "", "" }, { r.code, r.err, r.out })
  end)

  it("makes those that are FIELD fields of mare, and those in Lua right below it", function()
    local fields, hidden = {}, {}
    for _, m in ipairs(modules_in_c()) do
      local noun = m.name:match("^mare%.([^.]+)$")
      if m.kind == "FIELD" then fields[#fields + 1] = assert(noun, m.name .. " can't be a field") elseif noun then hidden[#hidden + 1] = noun end
    end
    for _, name in ipairs(modules_in_lua()) do fields[#fields + 1] = name:match("^mare%.([^.]+)$") end
    assert.is_true(#fields > 10 and #hidden > 0)
    for _, program in ipairs { "mare", "lua" } do
      local r = proc[program]([[
        local mare = require "mare"
        for name in arg[1]:gmatch("%S+") do if mare[name] ~= require("mare." .. name) then print("not a field: " .. name) end end
        for name in arg[2]:gmatch("%S+") do if pcall(function() return mare[name] end) then print("a field: " .. name) end end
      ]], { table.concat(fields, " "), table.concat(hidden, " ") })
      assert.same({ 0, "", "" }, { r.code, r.err, r.out })
    end
  end)

  it("takes a new file of lua/mare in by itself", function()
    local base = os.tmpname()
    os.remove(base)
    local made = os.execute(("mkdir -p '%s/lua/mare/cli' && echo 'return 1' >'%s/lua/mare/added.lua' && echo 'return 2' >'%s/lua/mare/cli/tool.lua'")
      :format(base, base, base))
    assert.is_true(made)
    local r = proc.run({ "lua5.4", root .. "/tools/embed.lua", base, base .. "/e.c", base .. "/m.def",
                         "lua/mare/added.lua", "lua/mare/cli/tool.lua" })
    local list, table_of <close> = io.open(base .. "/m.def"), io.open(base .. "/e.c")
    local text, both = list:read("a"), table_of:read("a")
    list:close()
    os.execute("rm -rf '" .. base .. "'")
    assert.same({ 0, "" }, { r.code, r.err })
    assert.truthy(text:find('LUA_MODULE(mare_added, "mare.added")', 1, true))
    assert.is_nil(text:find("mare.cli", 1, true))              -- the command line's: a part of the program, not of the library
    assert.truthy(both:find('"mare.added"', 1, true) and both:find('"mare.cli.tool"', 1, true))
  end)
end)
