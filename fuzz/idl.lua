-- IDL (pure Lua): any text either loads or gives errors with places; a failed load changes nothing.
local idl = require "mare.orb.idl"

local files = { ["a.idl"] = "struct A { long x; };\n", ["self.idl"] = '#include "self.idl"\n',
  ["b.idl"] = "#ifndef B\n#define B\n#include <a.idl>\n#endif\n" }
local options = { name = "fuzz.idl", include = { "." }, read = function(path)
  local text = files[path:gsub("^%./", "")]
  if text then return text end
  return nil, path .. ": No such file or directory"
end }
io.open = function(path) return nil, path .. ": No such file or directory" end   -- luacheck: ignore

return function(text)
  local repo = idl.repository()
  local definitions, problems = repo:load(text, options)
  if definitions then
    for _, d in ipairs(definitions) do assert(type(d.kind) == "string" and type(d.name) == "string") end
    return
  end
  assert(#problems > 0)
  for _, e in ipairs(problems) do
    assert(type(e.file) == "string" and math.type(e.line) == "integer" and math.type(e.column) == "integer" and type(e.message) == "string")
  end
  assert(type(tostring(problems)) == "string")
  assert(#repo.contents == 0, "a failed load left something")
end
