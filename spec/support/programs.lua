-- Programs of the system, as specs look at them.
local mare = require "mare"
local proc = require "spec.support.proc"

local programs = {}

-- What f gives as soon as that is true, else what it gives when the time is over.
function programs.eventually(f)
  local limit = mare.clock() + 30 * proc.slow
  while true do
    local value = f()
    if value or mare.clock() > limit then return value end
    mare.sleep(0.005)
  end
end

-- Whether a process of that id is there, and is no zombie.
function programs.alive(pid)
  local stat = mare.file.read("/proc/" .. pid .. "/stat")
  return stat ~= nil and stat:match("%) (%a)") ~= "Z"
end

return programs
