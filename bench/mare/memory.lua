-- memory PROCESSES CHANNELS FIBERS: how much resident memory they take: so many channels are made, then so many processes, then so many fibers of one
-- process; all of these wait on one channel. The seeds' appendix G, with fibers; bench/seeds fits the formula.
local mare = require "mare"
local measure = require "measure"

local processes, channels, fibers = measure.arg(1), measure.arg(2), measure.arg(3)

-- They all wait when the scheduler says so: spawned is not started.
local function settle(count, status)
  for i = count, 1, -1 do
    while status(i) ~= "waiting" do mare.sleep(0.002) end
  end
end

local gate, kept, handles = mare.channel.new(), {}, {}
local function wait(c) c:receive() end

-- the process that will have the fibers exists from the start, and its code is loaded
local orders, done = mare.channel.new(), mare.channel.new()
mare.process.spawn(function(from, to)
  for n, c in from:each() do
    local mine = {}
    for i = 1, n do mine[i] = mare.fiber.spawn(wait, c) end
    mare.fiber.yield()
    settle(n, function(i) return mine[i]:status() end)
    to:send(n)
  end
end, orders, done)
orders:send(1, gate)
done:receive()
local first = mare.process.spawn(wait, gate)
settle(1, function() return first:status() end)

local base = measure.resident()
for i = 1, channels do kept[i] = mare.channel.new() end
local with_channels = measure.resident()
for i = 1, processes do handles[i] = mare.process.spawn(wait, gate) end
settle(processes, function(i) return handles[i]:status() end)
local with_processes = measure.resident()
orders:send(fibers, gate)
done:receive()
local all = measure.resident()

assert(#kept == channels and #handles == processes)
measure.report("base", base, "KiB")
measure.report("channels", with_channels, "KiB")
measure.report("processes", with_processes, "KiB")
measure.report("all", all, "KiB")
gate:close()
orders:close()
