-- spawn COUNT [fresh]: empty processes, waited for in batches of 1000; "fresh": finished states are not reused.
local mare = require "mare"
local measure = require "measure"
local spawn = mare.process.spawn

local batch, count = 1000, measure.arg(1)
if arg[2] == "fresh" then mare.process.recycle(0) end

local function nothing() end

local function run(batches)
  local handles = {}
  for _ = 1, batches do
    for i = 1, batch do handles[i] = spawn(nothing) end
    for i = 1, batch do handles[i]:wait() end
  end
end

local batches = count // batch
run(batches // 20 + 1)
local seconds = measure.seconds(function() run(batches) end)
measure.report("spawn", seconds * 1e6 / (batches * batch), "us")
