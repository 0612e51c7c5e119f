-- For specs that look at processes: those that wait and those that compute, and asking until something is so.
local mare = require "mare"
local process, channel = mare.process, mare.channel
local parked = require "spec.support.parked"

local looking = {}

-- Asks until f gives something: for what is true soon.
function looking.soon(f)
  local limit = mare.clock() + 60
  while mare.clock() < limit do
    local v = f()
    if v then return v end
    mare.sleep(0.002)
  end
  error("it does not become true", 2)
end

-- One that waits on the channel.
function looking.waiter(gate, name)
  return parked(process.spawn { name = name, main = function(c) return c:receive() end, args = { gate } })
end

-- One that computes without end, or f(up), once it has told.
function looking.busy(f)
  local up = channel.new(1)
  local p = process.spawn(f or function(told) told:send(1) while true do end end, up)
  up:receive()
  return p
end

function looking.finish(p)
  p:kill()
  p:wait()
end

return looking
