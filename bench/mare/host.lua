-- host TRIPS [WORKERS]: ping-pong between the main script and a process; run by plain lua5.4 too.
local mare = require "mare"
local measure = require "measure"

local n = measure.arg(1)
if arg[2] then mare.process.workers(measure.arg(2)) end
local ping, pong = mare.channel.new(), mare.channel.new()

mare.process.spawn(function()
  while true do
    local v = ping:receive()
    if not v then return end
    pong:send(v)
  end
end)

local function trips(count)
  for i = 1, count do
    ping:send(i)
    pong:receive()
  end
end

trips(1000)
measure.rate("trips", n, "round trips/s", function() trips(n) end)
ping:close()
