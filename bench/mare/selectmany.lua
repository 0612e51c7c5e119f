-- selectmany CHANNELS WAITERS COUNT [selector|burst]: WAITERS fibers of one process select over the same CHANNELS; another process
-- sends, each message wakes one of them, and it answers. By a call each time it leaves all the other queues and enters them again; by
-- a selector it stays there. "burst": selectors, and the sender doesn't wait for answers. Wake-ups per second.
local mare = require "mare"
local measure = require "measure"
local channels, waiters, count, stays = measure.arg(1), measure.arg(2), measure.arg(3), arg[4] ~= nil
local burst = arg[4] == "burst"
local cases = {}
for i = 1, channels do cases[i] = mare.channel.new() end
local stop, ready, answers = mare.channel.new(), mare.channel.new(), mare.channel.new()
cases[channels + 1] = stop

local receiver = mare.process.spawn(function()
  local taken = 0
  local function take(wait, what)
    while wait(what) <= channels do
      taken = taken + 1
      if not burst then answers:send(taken) end
    end
  end
  for _ = 1, waiters do
    mare.fiber.spawn(function()
      if not stays then return take(mare.select, cases) end
      local selector = mare.selector(cases)
      take(selector.wait, selector)
    end)
  end
  mare.fiber.yield()                             -- now all of them wait
  ready:send(true)
  while mare.fiber.count() > 1 do mare.sleep(0.01) end
  return taken
end)

local function run(n)
  local step = channels // 7 * 2 + 1             -- all over the table
  local at = 0
  for _ = 1, n do
    at = (at + step) % channels
    cases[at + 1]:send(1)
    if not burst then answers:receive() end
  end
end
ready:receive()
run(2 * waiters)
measure.rate("wakes", count, "wake-ups/s", function() run(count) end)
stop:close()
local _, taken = receiver:wait()
assert(taken == count + 2 * waiters)
