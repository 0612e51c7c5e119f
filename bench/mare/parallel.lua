-- parallel WORKERS ITEMS STEPS: parallel.map over ITEMS integers, each a loop of STEPS: "items". The same in a plain loop: "loop".
local mare = require "mare"
local measure = require "measure"

local workers, count, steps = measure.arg(1), measure.arg(2), measure.arg(3)

local function work(x)
  for i = 1, steps do x = x ~ (x << 1) + i end
  return x
end

local list = {}
for i = 1, count do list[i] = i end
mare.parallel.map(list, work, { workers = workers })       -- the workers are warm
measure.rate("items", count, "items/s", function() mare.parallel.map(list, work, { workers = workers }) end)
measure.rate("loop", count, "items/s", function()
  local results = {}
  for i = 1, count do results[i] = work(list[i]) end
  assert(#results == count)
end)
