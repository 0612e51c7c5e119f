-- selectmany CHANNELS WAITERS COUNT: WAITERS fibers of one process select over the same CHANNELS; another process sends. A
-- message wakes one of them, which has to leave all the other queues. Wake-ups per second.
local mare = require "mare"
local measure = require "measure"
local channels, waiters, count = measure.arg(1), measure.arg(2), measure.arg(3)
local cases = {}
for i = 1, channels do cases[i] = mare.channel.new() end
local stop = mare.channel.new()
cases[channels + 1] = stop

local receiver = mare.process.spawn(function()
  local select, taken = mare.select, 0
  for _ = 1, waiters do
    mare.fiber.spawn(function()
      while select(cases) <= channels do taken = taken + 1 end
    end)
  end
  while mare.fiber.count() > 1 do mare.sleep(0.01) end
  return taken
end)

local function run(n)
  local step = channels // 7 * 2 + 1             -- all over the table
  local at = 0
  for _ = 1, n do
    at = (at + step) % channels
    cases[at + 1]:send(1)
  end
end
run(2 * waiters)
measure.rate("wakes", count, "wake-ups/s", function() run(count) end)
stop:close()
local _, taken = receiver:wait()
assert(taken == count + 2 * waiters)
