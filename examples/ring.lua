-- A ring of processes: each receives a number and passes it on, one less, until it is used up.
--   mare run examples/ring.lua [PROCESSES] [HOPS]
-- test: 100 10000
-- expect: 10000 hops round 100 processes
-- expect~ %d+ messages/s
local mare = require "mare"
local spawn, channel = mare.process.spawn, mare.channel.new

local size, hops = tonumber(arg[1] or 1000), tonumber(arg[2] or 1000000)

local function node(inbox, next, done)
  for left in inbox:each() do -- until the inbox is closed
    if left > 0 then next:send(left - 1) else done:send("used up") end
  end
end

local inbox, done = {}, channel()
for i = 1, size do inbox[i] = channel() end
for i = 1, size do spawn(node, inbox[i], inbox[i % size + 1], done) end

local start = mare.clock()
inbox[1]:send(hops)
done:receive()
local seconds = mare.clock() - start

print(("%d hops round %d processes"):format(hops, size))
print(("%.0f messages/s"):format(hops / seconds))
for i = 1, size do inbox[i]:close() end
