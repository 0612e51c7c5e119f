-- ready KIND: the longest time between two turns of any of 1,000 processes that only yield, over 2 s, beside one that
-- KIND 1 computes for ever, 2 spawns in a loop; and how many processes there are at most.
local mare = require "mare"
local measure = require "measure"
local kind, gaps = measure.arg(1), mare.channel.new(math.huge)

for _ = 1, 1000 do
  mare.process.spawn(function()
    local start, worst = mare.clock(), 0
    local last = start
    repeat
      mare.process.yield()
      local now = mare.clock()
      worst = math.max(worst, now - last)
      last = now
    until now - start > 2
    gaps:send(worst)
  end)
end
mare.process.spawn(function()
  while true do
    if kind == 2 then mare.process.spawn(function() end) end
  end
end)
local start, most, worst = mare.clock(), 0, 0
repeat
  mare.sleep(0.01)
  most = math.max(most, mare.process.count())
until mare.clock() - start > 2
for _ = 1, 1000 do worst = math.max(worst, (gaps:receive())) end
measure.report("gap", worst * 1e3, "ms")
measure.report("processes", most, "at most")
os.exit(0)
