-- tasks calibrate | tasks WORKERS COUNT STEPS: a master hands out COUNT tasks of STEPS steps over one channel.
local mare = require "mare"
local measure = require "measure"
local spawn, channel = mare.process.spawn, mare.channel.new

-- A unit of work: steps of a linear congruential generator.
local function spin(n)
  local x = n + 1
  for _ = 1, n do x = (x * 1664525 + 1013904223) & 0x7fffffff end
  return x
end

if arg[1] == "calibrate" then
  local n, best = 100000, math.huge
  for _ = 1, 9 do
    best = math.min(best, measure.seconds(function() spin(n) end))
  end
  print(("steps %d steps"):format(20e-6 / best * n // 1))
  return
end

local workers, count, steps = measure.arg(1), measure.arg(2), measure.arg(3)
local jobs, results = channel(), channel()

for _ = 1, workers do
  spawn(function()
    for _ in jobs:each() do results:send(spin(steps)) end
  end)
end

local function run(total)
  spawn(function()
    for i = 1, total do jobs:send(i) end
  end)
  for _ = 1, total do results:receive() end
end

run(count // 20)
measure.rate("tasks", count, "tasks/s", function() run(count) end)
jobs:close()
