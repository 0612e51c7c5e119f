-- check-layers.lua SRC: a folder of src/ includes only folders above it; the operating system is met in src/port alone, and what is not the
-- same in every version of Lua in src/lua; src/run, which decides who runs, knows no Lua.
-- Names every place that breaks a rule as file:line and ends with 1.
local src = arg[1] or "src"

-- Folders of one rank know nothing of each other.
local ranks = {
  port = 1, base = 2, observe = 3, lua = 4, heap = 5, run = 6, transfer = 7, share = 8, process = 9, channel = 10, io = 11, cdr = 11, state = 12,
  module = 13,
}
local public = { ["mare.h"] = true } -- include/
local os_headers = {
  "^pthread%.h$", "^unistd%.h$", "^signal%.h$", "^sched%.h$", "^dlfcn%.h$", "^fcntl%.h$", "^poll%.h$", "^semaphore%.h$",
  "^ucontext%.h$", "^sys/", "^linux/", "^windows%.h$",
}
local lua_headers = { ["lua.h"] = true, ["lauxlib.h"] = true, ["lualib.h"] = true, ["luaconf.h"] = true }
-- What has another name in lua/compat.h, because it is not the same in every version.
local lua_functions = {
  lua_newstate = "mr_lua_newstate", lua_resume = "mr_lua_resume", lua_closethread = "mr_lua_closethread", lua_resetthread = "mr_lua_closethread",
  lua_getextraspace = "mr_lua_word", lua_dump = "mr_lua_dump", lua_number2str = "mr_lua_float_text", LUA_GCGEN = "mr_lua_generational",
  LUA_GCINC = "mr_lua_incremental", LUA_GCSTEP = "mr_lua_step", LUA_VERSION_NUM = "mr_lua_fits", LUA_VERSION_RELEASE_NUM = "mr_lua_fits",
  LUAI_MAXSTACK = "MR_LUA_MAXSTACK",
}
local os_macros = { "__linux__", "__APPLE__", "_WIN32", "__FreeBSD__", "__unix__", "_GNU_SOURCE" }

local checking = dofile((arg[0]:match "^(.*/)" or "") .. "checking.lua")
local complain = checking.complain

local function check_include(path, n, folder, line)
  local own = line:match('^%s*#%s*include%s*"([^"]+)"')
  if own and not public[own] then
    local other = own:match("^([^/]+)/")
    if not other then
      complain({ path, n }, ('"%s": write the folder, "%s/%s"'):format(own, folder, own))
    elseif not ranks[other] then
      complain({ path, n }, ('"%s": no layer is called %s'):format(own, other))
    elseif other ~= folder and ranks[other] >= ranks[folder] then
      complain({ path, n }, ('%s may not include "%s": layer %s is not above it'):format(folder, own, other))
    end
  end
end

local function check_no_lua(path, n, line)
  local header = line:match('^%s*#%s*include%s*"(lua/[^"]+)"')
  if header then complain({ path, n }, ('src/run may not include "%s"'):format(header)) end
end

local function check_system(path, n, line)
  local header = line:match("^%s*#%s*include%s*<([^>]+)>")
  for _, pattern in ipairs(header and os_headers or {}) do
    if header:find(pattern) then complain({ path, n }, ("<%s> belongs to src/port"):format(header)) end
  end
  if line:find("^%s*#%s*%a*if") or line:find("^%s*#%s*define") then
    for _, macro in ipairs(os_macros) do
      if line:find(macro, 1, true) then complain({ path, n }, macro .. " belongs to src/port") end
    end
  end
end

-- Comments may speak of anything.
local function check_lua(path, n, line)
  local header = line:match("^%s*#%s*include%s*<([^>]+)>")
  if lua_headers[header] then complain({ path, n }, ('<%s>: include "lua/compat.h"'):format(header)) end
  for name in line:gsub("/%*.-%*/", ""):gsub("^%s*/?%* .*", ""):gsub("/[/*].*", ""):gmatch("[%a_][%w_]*") do
    if lua_functions[name] then complain({ path, n }, ("%s: call %s, of lua/compat.h"):format(name, lua_functions[name])) end
  end
  if line:find("LUA_GCCOUNT[^;]*[=!]= *%-1") then complain({ path, n }, "LUA_GCCOUNT: call mr_lua_in_finaliser, of lua/compat.h") end
end

local function check(path)
  local folder, name = path:match("([^/]+)/([^/]+)$")
  if not ranks[folder] then return complain({ path, 1 }, "no layer is called " .. tostring(folder)) end
  local free = folder == "port" or (folder == "module" and name == "main.c") or name:find("_test%.c$")
  local n = 0
  for line in io.lines(path) do
    n = n + 1
    check_include(path, n, folder, line)
    if folder == "run" then check_no_lua(path, n, line) end
    if not free then check_system(path, n, line) end
    if folder ~= "lua" then check_lua(path, n, line) end
  end
end

local list = assert(io.popen(("find '%s' -name '*.[ch]' | LC_ALL=C sort"):format(src)))
for path in list:lines() do check(path) end
list:close()
checking.finish()
