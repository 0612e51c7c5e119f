-- priority: how late the ticks of a high process are beside 16 that compute for ever, as on an idle worker they would be 0, and
-- which part of what a normal process computes a low one gets done beside it; 2 s each.
local mare = require "mare"
local measure = require "measure"
local spawn, channel = mare.process.spawn, mare.channel.new

local function compute(stop, over)
  local rounds = 0
  while not stop:closed() do
    for _ = 1, 20000 do end
    rounds = rounds + 1
  end
  over:send(rounds)
end

local function ticks(priority)
  local late = {}
  mare.process.self():priority(priority)
  for i = 1, 200 do
    local due = mare.clock() + 0.010
    mare.sleep(0.010)
    late[i] = mare.clock() - due
  end
  table.sort(late)
  return late[100] * 1e3, late[198] * 1e3
end

local stop, over = channel(), channel(math.huge)
for _ = 1, 16 do spawn(compute, stop, over) end
local median, latest = ticks "high"
measure.report("late", median, "ms")
measure.report("latest", latest, "ms")
stop:close()
for _ = 1, 16 do over:receive() end

local normal, low = channel(1), channel(1)
stop = channel()
spawn(compute, stop, normal)
spawn { main = compute, args = { stop, low }, priority = "low" }
mare.sleep(2)
stop:close()
measure.report("share", low:receive() / normal:receive(), "of a normal one's")
os.exit(0)
