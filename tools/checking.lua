-- checking.lua: what tools/check-*.lua share. Each names every place that is wrong, on stderr, and ends with 1 if there was one.
local checking = {}

local bad = 0

-- where: a file, or { file, line }.
function checking.complain(where, text)
  if type(where) == "table" then where = ("%s:%d"):format(where[1], where[2]) end
  io.stderr:write(where, ": ", text, "\n")
  bad = bad + 1
end

-- What a command of the shell prints, run in the folder `root`.
function checking.lines_of(root, command)
  local list <close> = assert(io.popen("cd '" .. root .. "' && " .. command))
  local all = {}
  for line in list:lines() do all[#all + 1] = line end
  return all
end

function checking.finish() os.exit(bad == 0) end

return checking
