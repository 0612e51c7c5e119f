-- omniidl: runs the oracle over files and reads what it says.
--
--   omniidl.run{ { path = "x.idl", options = "-Idir" }, … } -> list of
--     { path, accepted = bool, crashed = bool, lines = { "kind scoped id text", … }, errors = { { line =, message = }, … } }
local foreign = require "spec.support.foreign"
local temporary = require "spec.support.temporary"

local omniidl = { missing = foreign.lacks "omniidl" }

omniidl.folder = "/usr/share/idl/omniORB"

local function read(text)
  local results, current = {}, nil
  for line in text:gmatch("[^\n]+") do
    local letter, rest = line:match("^(%a)\t(.*)$")
    if letter == "F" then
      current = { path = rest, lines = {}, errors = {} }
      results[#results + 1] = current
    elseif letter == "D" then current.lines[#current.lines + 1] = rest
    elseif letter == "E" then
      local number, message = rest:match("^(%d+)\t(.*)$")
      table.insert(current.errors, { line = tonumber(number), message = message })
    elseif letter == "X" then
      current.accepted, current.crashed = rest == "0", rest ~= "0" and rest ~= "1"
    end
  end
  return results
end

function omniidl.run(jobs)
  local list = temporary()
  local file = assert(io.open(list, "w"))
  for _, job in ipairs(jobs) do file:write(job.path, "\t", job.options or "", "\n") end
  file:close()
  local root = os.getenv("MARE_ROOT") or "."
  local python = io.open("/usr/bin/python3") and "/usr/bin/python3" or "python3"     -- omniidl's module is the system's
  local pipe = assert(io.popen(("PYTHONDONTWRITEBYTECODE=1 %s %s/spec/support/omniidl_oracle.py %s"):format(python, root, list)))
  local text = pipe:read("a")
  assert(pipe:close())
  os.remove(list)
  return read(text)
end

-- The IDL files the packages ship.
function omniidl.files()
  local list = {}
  local pipe = assert(io.popen(("find -L %s -name '*.idl' | LC_ALL=C sort"):format(omniidl.folder)))
  for path in pipe:lines() do list[#list + 1] = path end
  pipe:close()
  return list
end

return omniidl
