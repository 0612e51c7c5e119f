-- check-map.lua ROOT: the map of ARCHITECTURE.md names every file of src/ and lua/, and every path that it or another document names exists.
-- Names every place that is wrong, and ends with 1.
--
-- How the map is read. In the row of a folder, | `src/x` | … `a.c` … |, names in backticks are files of that folder; so are those in the first cells
-- of a table whose head names a folder, | `lua/x` | holds |. A path from the root counts anywhere. `a.c` stands for a.h and a_test.c, too;
-- `put_*.c` for several.
-- In other rows a name without a folder is of the folder of the path before it: `src/io/run.c`, `child.c`.
local root = arg[1] or "."

local checking = dofile((arg[0]:match "^(.*/)" or "") .. "checking.lua")
local complain = checking.complain
local function lines_of(command) return checking.lines_of(root, command) end

local files = lines_of "find src lua -type f \\( -name '*.[ch]' -o -name '*.def' -o -name '*.lua' \\) | LC_ALL=C sort"
local exists, named = {}, {}
for _, path in ipairs(files) do exists[path] = true end
for _, path in ipairs(lines_of "find src lua -type d") do exists[path] = true end

-- Marks what a name means; does it mean anything?
local function mark(path)
  local found = false
  if path:find("*", 1, true) then
    local pattern = "^" .. path:gsub("[%-.]", "%%%0"):gsub("%*", "[^/]*") .. "$"
    for _, file in ipairs(files) do
      if file:find(pattern) then named[file], found = true, true end
    end
    return found
  end
  local stem = path:match("^(.*)%.c$")
  named[path] = true
  if stem then named[stem .. ".h"], named[stem .. "_test.c"] = true, true end
  return exists[path] or false
end

local function is_file(name) return name:find("^[%w_*/%-]+%.[ch]$") or name:find("^[%w_*/%-]+%.lua$") or name:find("^[%w_]+%.def$") end

-- A file of that folder, or of a folder in it; `tools/x.lua` is neither.
local function is_file_in(folder, name)
  local first = name:match("^([^/]+)/")
  return is_file(name) and (not first or exists[folder .. "/" .. first])
end

-- Names in a text: `folder` is whose files they are, or nil; with `follow`, also those of the folder of the path before them.
local function read_names(text, folder, follow, where)
  for name in text:gmatch("`([^`<>]+)`") do
    if name:find("^src/") or name:find("^lua/") then
      local path = name:gsub("/$", "")
      if not mark(path) then complain(where, "there is no " .. path) end
      if follow then folder = exists[path] and not is_file(path) and path or path:match("^(.*)/") end
    elseif folder and is_file_in(folder, name) and not mark(folder .. "/" .. name) then
      complain(where, ("there is no %s/%s"):format(folder, name))
    end
  end
end

-- Paths that stand in a text without backticks, too.
local function read_paths(text, where)
  for path in text:gsub("`[^`]*`", ""):gmatch("%f[%w_./]src/[%w_/]+%.[ch]%f[^%w_]") do
    if not exists[path] then complain(where, "there is no " .. path) end
  end
end

local function cells_of(line)
  local cells = {}
  for cell in line:gmatch("|([^|]*)") do cells[#cells + 1] = cell end
  return cells
end

local function folder_in(cell)
  local path = cell and (cell:match("^%s*`(src/[%w_/]+)`%s*$") or cell:match("^%s*`(lua/[%w_/]*)`%s*$"))
  return path and path:gsub("/$", "") or nil
end

local function read_document(path)
  local n, head, last = 0, nil, ""
  for line in io.lines(root .. "/" .. path) do
    n = n + 1
    local where = ("%s:%d"):format(path, n)
    local cells = cells_of(line)
    read_paths(line, where)
    if line:find("^|%-") then head = folder_in(cells_of(last)[1]) end
    if #cells == 0 then
      head = nil
      read_names(line, nil, false, where)
    elseif head then
      read_names(cells[1], head, false, where)
      read_names(line:sub(#cells[1] + 2), nil, false, where)
    else
      local folder = folder_in(cells[1])
      read_names(line, folder, not folder, where)
    end
    last = line
  end
end

-- The rows of src/ stand in the order of the layers, as tools/check-layers.lua checks it.
local function check_order()
  local file <close> = assert(io.open(root .. "/tools/check-layers.lua"))
  local ranks, last = {}, 0
  for name, rank in file:read("a"):match("local ranks = (%b{})"):gmatch("([%w_]+) = (%d+)") do ranks[name] = tonumber(rank) end
  for line in io.lines(root .. "/ARCHITECTURE.md") do
    local name = line:match("^| `src/([%w_]+)` |")
    if name and (ranks[name] or -1) < last then complain("ARCHITECTURE.md", "the row of src/" .. name .. " is not where this layer belongs") end
    if name then last = ranks[name] or last end
  end
end

read_document "ARCHITECTURE.md"
check_order()
for _, path in ipairs(files) do
  if not named[path] and not path:find("_test%.c$") then complain(path, "ARCHITECTURE.md does not name it") end
end
for _, path in ipairs(lines_of "ls README.md CONTRIBUTING.md docs/*.md docs/internals/*.md 2>/dev/null") do read_document(path) end
checking.finish()
