-- fair KIND BUSY: what 100 ping-pong pairs keep of their rate beside BUSY others, and how evenly those share the rest, over 2 s.
-- KIND 1 computes for ever, 2 computes 5 ms for each message, 3 yields every 5 ms.
local mare = require "mare"
local measure = require "measure"
local spawn, channel = mare.process.spawn, mare.channel.new

local kind, count = measure.arg(1), measure.arg(2)
local trips, stop, over = channel(math.huge), channel(), channel(math.huge)

local function compute(seconds) -- some 0.1 ms at a time
  local rounds, till = 0, mare.clock() + seconds
  repeat
    for _ = 1, 20000 do end
    rounds = rounds + 1
  until mare.clock() >= till
  return rounds
end

local busy = {
  function() return compute(0.0001) end,
  function(inbox)
    inbox:receive()
    return compute(0.005)
  end,
  function()
    local n = compute(0.005)
    mare.process.yield()
    return n
  end,
}

local function start_busy()
  local inbox, n = channel(), 0
  if kind == 2 then spawn(function() while inbox:send(true) do end end) end
  while not stop:closed() do n = n + busy[kind](inbox) end
  inbox:close()
  over:send(n)
end

for _ = 1, 100 do
  local ping, pong = channel(), channel()
  spawn(function() for v in ping:each() do pong:send(v) end end)
  spawn(function()
    while true do
      for i = 1, 100 do
        ping:send(i)
        pong:receive()
      end
      trips:send(100)
    end
  end)
end

local function rate(seconds)
  while #trips > 0 do trips:receive() end
  local n, start = 0, mare.clock()
  repeat
    mare.sleep(0.05)
    while #trips > 0 do n = n + trips:receive() end
    local time = mare.clock() - start
  until time >= seconds
  return n / (mare.clock() - start)
end

rate(0.2)
local alone = rate(1)
for _ = 1, count do spawn(start_busy) end
measure.report("kept", rate(2) / alone, "of the pairs' rate")
stop:close()
local least, most = math.huge, 0
for _ = 1, count do
  local n = over:receive()
  least, most = math.min(least, n), math.max(most, n)
end
measure.report("spread", most / least, "most / least")
os.exit(0)
