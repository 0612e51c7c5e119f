-- cancel COUNT [busy]: COUNT processes are cancelled one after the other, each where it waits, or (busy) in the middle of a loop. How long that
-- takes, from the call of cancel until its end is known: most of it in 99 of 100 cases.
local mare = require "mare"
local measure = require "measure"
local process, channel = mare.process, mare.channel

local count, busy = measure.arg(1), arg[2] == "busy"

local function waits(ready) ready:send(true) require "mare".channel.new():receive() end
local function computes(ready) ready:send(true) while true do end end

local ready, times = channel.new(1), {}
for i = 1, count do
  local p = process.spawn(busy and computes or waits, ready)
  ready:receive()
  if busy then mare.sleep(0.001) end
  while p:status() == (busy and "ready" or "running") do mare.sleep(0.0002) end
  local begun = mare.clock()
  p:cancel()
  p:wait()
  times[i] = mare.clock() - begun
end
table.sort(times)
measure.report("median", times[count // 2 + 1] * 1000, "ms")
measure.report("p99", times[math.max(1, math.ceil(count * 0.99))] * 1000, "ms")
