-- pairs PAIRS TRIPS: independent pairs playing ping-pong, TRIPS in all; one pair is the ping-pong row.
local mare = require "mare"
local measure = require "measure"
local spawn, channel = mare.process.spawn, mare.channel.new

local count, n = measure.arg(1), measure.arg(2) // measure.arg(1)

local function echo(ping, pong)
  while true do
    local v = ping:receive()
    if not v then return end
    pong:send(v)
  end
end

local function volley(ready, start, over)
  local ping, pong = channel(), channel()
  spawn(echo, ping, pong)
  local function trips(total)
    for i = 1, total do
      ping:send(i)
      pong:receive()
    end
  end
  trips(1000)
  ready:send(true)
  start:receive()
  trips(n)
  ping:close()
  over:send(true)
end

local ready, start, over = channel(), channel(), channel()
for _ = 1, count do spawn(volley, ready, start, over) end
for _ = 1, count do ready:receive() end
measure.rate("trips", count * n, "round trips/s", function()
  start:close() -- lets all of them go
  for _ = 1, count do over:receive() end
end)
