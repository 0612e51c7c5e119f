-- tree(files, f): f(folder) with a folder of these files, { ["a/b.lua"] = text }, which is removed afterwards.
local temporary = require "spec.support.temporary"

return function(files, f)
  local base = temporary()
  os.remove(base)
  os.execute(("mkdir -p '%s'"):format(base))
  for path, text in pairs(files) do
    if path:find("/") then os.execute(("mkdir -p '%s'"):format((base .. "/" .. path):match("^(.*)/"))) end
    local file = assert(io.open(base .. "/" .. path, "w"))
    file:write(text)
    file:close()
  end
  local ok, err = pcall(f, base)
  os.execute(("rm -rf '%s'"):format(base))
  if not ok then error(err, 0) end
end
