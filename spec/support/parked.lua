-- parked(p): waits until what the process or fiber does is a wait, and gives it back. (There is no other way to see that from outside.)
local process = require "mare.process"

return function(p)
  local status = p:status()
  while status ~= "waiting" do
    if status == "failed" then error(select(2, p:wait()), 2) end
    if status == "done" then error("it has ended, without a wait that was seen", 2) end
    process.yield()
    status = p:status()
  end
  return p
end
