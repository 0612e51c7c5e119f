-- mare.cli.folder: the IDL files of a folder, and of those in it, for commands that search or serve them.
local file = require "mare.file"

local folder = {}

local MOST, DEEPEST = 10000, 20                   -- files; folders in each other

local function is_idl(name) return name:lower():find "%.idl$" ~= nil end

local function collect(path, level, list)
  local names, kinds, code = file.list(path)
  if not names then return nil, kinds, code end
  for i, name in ipairs(names) do
    local full = path .. "/" .. name
    local kind = kinds[i]
    if kind == "link" or kind == "unknown" then
      local stat = file.stat(full)
      kind = stat and stat.type
    end
    if kind == "directory" and level < DEEPEST and name:sub(1, 1) ~= "." then collect(full, level + 1, list)
    elseif kind == "file" and is_idl(name) then list[#list + 1] = full end
    if #list > MOST then return nil, ("%s has more than %d IDL files"):format(path, MOST) end
  end
  return list
end

--- The paths of a folder's files in their order, or that of a file alone. nil, what is wrong.
function folder.files(path)
  local stat, err = file.stat(path)
  if not stat then return nil, err end
  if stat.type ~= "directory" then return { path } end
  return collect((path:gsub("(.)/+$", "%1")), 1, {})
end

return folder
