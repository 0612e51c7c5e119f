-- ticker: how many of 100 ticks, 10 ms apart, happen within 2 s beside a loop that never gives way.
local mare = require "mare"
local measure = require "measure"

mare.process.spawn(function()
  local x = 0
  while true do x = x + 1 end
end)

local start, latest, ticks = mare.clock(), 0, 0
while ticks < 100 do
  local before = mare.clock()
  mare.sleep(0.010)
  local now = mare.clock()
  if now - start > 2 then break end
  latest = math.max(latest, now - before - 0.010)
  ticks = ticks + 1
end
measure.report("ticks", ticks, "of 100")
measure.report("latest", latest * 1e3, "ms")
os.exit(0)
