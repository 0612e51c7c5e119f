-- check-links.lua ROOT: every link in a document to a file of the tree, or to a heading, leads somewhere.
-- Names every one that doesn't, and ends with 1.
--
-- A heading's anchor is GitHub's: lower case, without punctuation, a hyphen for each blank, "-1" at the second of the same name.
-- Blocks of code, and code between backticks, hold no links.
local root = arg[1] or "."

local checking = dofile((arg[0]:match "^(.*/)" or "") .. "checking.lua")
local complain = checking.complain
local function lines_of(command) return checking.lines_of(root, command) end

local function exists(path) return os.rename(root .. "/" .. path, root .. "/" .. path) ~= nil end

-- Calls f(line, number) for each line that isn't in a block of code.
local function each_line(path, f)
  local n, fence = 0, nil
  for line in io.lines(root .. "/" .. path) do
    n = n + 1
    local mark = line:match("^%s*(```+)")
    if mark then fence = not fence
    elseif not fence then f(line, n) end
  end
end

local function anchor_of(heading)
  local text = heading:gsub("%[([^%]]*)%]%b()", "%1"):lower()
  return (text:gsub("[^%w\128-\255 _%-]", ""):gsub(" ", "-"))
end

local anchors_of = setmetatable({}, { __index = function(all, path)
  local anchors, seen = {}, {}
  each_line(path, function(line)
    local heading = line:match("^#+%s+(.-)%s*$")
    if not heading then return end
    local anchor = anchor_of(heading)
    local again = seen[anchor]
    seen[anchor] = (again or 0) + 1
    anchors[again and anchor .. "-" .. again or anchor] = true
  end)
  all[path] = anchors
  return anchors
end })

-- "docs/a.md" and "../b.md" give "b.md".
local function beside(path, target)
  local full = (path:match("^(.*/)") or "") .. target
  full = full:gsub("/%./", "/"):gsub("/$", "")
  repeat
    local before = full
    full = full:gsub("[^/]+/%.%./", "", 1)
  until full == before
  return full
end

local function check(path, n, link)
  if link:find("^%a+:") then return end
  local target, anchor = link:match("^([^#]*)#?(.*)$")
  local file = target == "" and path or beside(path, target)
  if not exists(file) then
    complain({ path, n }, "there is no " .. file)
  elseif anchor ~= "" and file:find("%.md$") and not anchors_of[file][anchor] then
    complain({ path, n }, ("%s has no heading #%s"):format(file, anchor))
  end
end

local documents = lines_of "ls *.md docs/*.md docs/internals/*.md bench/*.md bench/*/*.md lab/*.md 2>/dev/null"
for _, path in ipairs(documents) do
  each_line(path, function(line, n)
    for link in line:gsub("`[^`]*`", "``"):gmatch("%]%(([^%s()]+)%)") do check(path, n, link) end
  end)
end
if #documents == 0 then complain(root, "there are no documents") end
checking.finish()
