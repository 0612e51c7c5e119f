-- embed.lua ROOT OUTPUT MODULES FILE...: writes the C table of src/base/embedded.h to OUTPUT and the list for src/module/modules.c to MODULES: every
-- file but those of the command line can be required in plain Lua, too. A file with a syntax error stops the build.
local root, output, modules = arg[1], arg[2], arg[3]

local function slurp(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

-- Octal escapes always take three digits, so no digit that follows can join them.
local function quote(line)
  return (line:gsub('[^%w !#$%%&\'()*+,%-./:;<=>%[%]^_`{|}~]', function(c) return ("\\%03o"):format(c:byte()) end))
end

local entries = {}
for i = 4, #arg do
  local path = arg[i]
  local code = slurp(root .. "/" .. path)
  local ok, err = load(code, "@" .. path, "t")
  if not ok then io.stderr:write(err, "\n") os.exit(1) end
  local name = path:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/init$", ""):gsub("/", ".")
  entries[#entries + 1] = { name = name, path = path, code = code }
end
table.sort(entries, function(a, b) return a.name < b.name end)

local out = { '/* Made by tools/embed.lua. */\n#include "base/embedded.h"\n' }
for i, e in ipairs(entries) do
  out[#out + 1] = ("static const unsigned char code_%d[] ="):format(i)
  for line in e.code:gmatch("[^\n]*\n?") do
    if line ~= "" then out[#out + 1] = '  "' .. quote(line) .. '"' end
  end
  if e.code == "" then out[#out + 1] = '  ""' end
  out[#out] = out[#out] .. ";\n"
end
out[#out + 1] = "const struct mr_embedded mr_embedded[] = {"
for i, e in ipairs(entries) do
  out[#out + 1] = ('  { "%s", "%s", code_%d, sizeof code_%d - 1 },'):format(e.name, e.path, i, i)
end
out[#out + 1] = "  { NULL, NULL, NULL, 0 }\n};\n"

local list = { "/* Made by tools/embed.lua. */" }
for _, e in ipairs(entries) do
  if not e.name:find("^mare%.cli%.") then list[#list + 1] = ('LUA_MODULE(%s, "%s")'):format(e.name:gsub("%.", "_"), e.name) end
end
list[#list + 1] = ""

local function write(path, lines)
  local file <close> = assert(io.open(path, "wb"))
  assert(file:write(table.concat(lines, "\n")))
end
write(output, out)
write(modules, list)
