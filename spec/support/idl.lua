-- idl: loading IDL text in specs.
local idl = require "mare.orb.idl"

local support = {}

-- The repository and what the text defined; an error in it fails the test.
function support.load(text, options)
  local repo = idl.repository()
  local definitions, problems = repo:load(text, options or { name = "t.idl" })
  if not definitions then error(tostring(problems), 2) end
  return repo, definitions, problems
end

-- Its errors as text, "line:column: message" a line; fails if there are none.
function support.errors(text, options)
  local definitions, problems = idl.repository():load(text, options or { name = "t.idl" })
  if definitions then error("no error in: " .. text, 2) end
  return (tostring(problems):gsub("%f[^\n\0]t%.idl:", ""))
end

-- A reader of files for options.read that knows only these.
function support.files(files)
  return function(path)
    if files[path] then return files[path] end
    return nil, "No such file or directory"
  end
end

return support
