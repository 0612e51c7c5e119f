-- selectmany CHANNELS WAITERS COUNT [selector]: WAITERS fibers of one process select over the same CHANNELS; another process sends,
-- and each message wakes one of them. By a call each time it has to leave all the other queues and to enter them again; by a selector
-- it stays there. Wake-ups per second.
local mare = require "mare"
local measure = require "measure"
local channels, waiters, count, stays = measure.arg(1), measure.arg(2), measure.arg(3), arg[4] == "selector"
local cases = {}
for i = 1, channels do cases[i] = mare.channel.new() end
local stop = mare.channel.new()
cases[channels + 1] = stop

local receiver = mare.process.spawn(function()
  local taken = 0
  local function take(wait, what)
    while wait(what) <= channels do taken = taken + 1 end
  end
  for _ = 1, waiters do
    mare.fiber.spawn(function()
      if not stays then return take(mare.select, cases) end
      local selector = mare.selector(cases)
      take(selector.wait, selector)
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
