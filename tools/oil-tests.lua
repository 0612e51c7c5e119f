-- oil-tests [PATTERN]: runs the tests and demos of the checkout of OiL that OIL_SRC names, on mare's module `oil`, and prints the table that docs/oil.md has.
--
--   OIL_SRC=~/oil bin/mare run tools/oil-tests.lua
package.path = "./?.lua;" .. package.path
local tests = require "spec.support.oil.tests"
local source = os.getenv "OIL_SRC"
if not source then io.stderr:write "oil-tests: OIL_SRC names a checkout of OiL (github.com/renatomaia/oil)\n" os.exit(2) end
local pattern = ...
local bad = 0
for _, test in ipairs(tests.list(source)) do
  local title = test.group .. "/" .. test.name
  if not pattern or title:find(pattern) then
    for _, flavor in ipairs(tests.flavors(test)) do
      local fine, why = tests.run(test, flavor)
      if not fine then bad = bad + 1 end
      print(("%-45s %-30s %s"):format(title, flavor, fine and "ok" or "FAILS " .. tostring(why):match "[^\n]*"))
    end
  end
end
os.exit(bad == 0 and 0 or 1)
