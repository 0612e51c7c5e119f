--[[
oil-tests: runs the tests and demos of OiL's own source on mare's module `oil`.

  OIL_SRC=~/oil bin/mare run tools/oil-tests.lua              all: a line for each
  OIL_SRC=~/oil bin/mare run tools/oil-tests.lua intercepted  those whose name has this pattern
  OIL_SRC=~/oil bin/mare run tools/oil-tests.lua --write      all, and writes the table of docs/oil.md anew

OIL_SRC is a checkout of OiL 0.6 (github.com/renatomaia/oil, tag OIL_0_6_1). Exit code 0: all of them run, 1: some don't, 2: there is no checkout.
]]
package.path = "./?.lua;" .. package.path
local demos = require "spec.support.oil.demos"
local tests = require "spec.support.oil.tests"

local source, pattern = os.getenv "OIL_SRC", ...
local write = pattern == "--write"
if write then pattern = nil end
if pattern == "--help" or not source then
  local out = pattern == "--help" and io.stdout or io.stderr
  out:write "OIL_SRC=~/oil bin/mare run tools/oil-tests.lua [--write | PATTERN]\nOIL_SRC names a checkout of OiL 0.6 (github.com/renatomaia/oil)\n"
  os.exit(pattern == "--help" and 0 or 2)
end

local rows, bad = {}, 0

local function row(kind, name, flavor, fine, why)
  rows[#rows + 1] = { kind = kind, name = name, flavor = flavor, fine = fine }
  if not fine then bad = bad + 1 end
  print(("%-48s %-30s %s"):format(kind .. " " .. name, flavor, fine and "ok" or "FAILS " .. tostring(why):match "[^\n]*"))
end

for _, test in ipairs(tests.list(source)) do
  local name = test.group .. "/" .. test.name
  if not pattern or name:find(pattern) then
    for _, flavor in ipairs(tests.flavors(test)) do row("test", name, flavor, tests.run(test, flavor)) end
  end
end
for _, demo in ipairs(demos.list) do
  if not pattern or ("demo/" .. demo[1]):find(pattern) then row("demo", demo[1], "its own", demos.run(source, demo)) end
end

-- One line for each name, its flavors side by side.
local function table_of()
  local lines, at = { "| of OiL | flavors | runs |", "|---|---|---|" }, {}
  for _, r in ipairs(rows) do
    local key = r.kind .. " " .. r.name
    local line = at[key]
    if not line then
      line = { key = key, flavors = {}, fine = true }
      at[key] = line
      lines[#lines + 1] = line
    end
    line.flavors[#line.flavors + 1] = r.flavor
    line.fine = line.fine and r.fine
  end
  for i = 3, #lines do
    local l = lines[i]
    lines[i] = ("| %s | %s | %s |"):format(l.key, table.concat(l.flavors, ", "), l.fine and "yes" or "no")
  end
  return table.concat(lines, "\n")
end

if write then
  local file = assert(io.open "docs/oil.md")
  local text = file:read "a"
  file:close()
  local head, tail = text:match "^(.-<!%-%- made by tools/oil%-tests.lua %-%->\n).-(<!%-%- end %-%->.*)$"
  assert(head, "docs/oil.md has no place for the table")
  file = assert(io.open("docs/oil.md", "w"))
  file:write(head, table_of(), "\n", tail)
  file:close()
end
os.exit(bad == 0 and 0 or 1)
