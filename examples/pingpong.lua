-- Two processes and two channels: one asks, the other answers.
--   mare run examples/pingpong.lua [ROUND TRIPS]
-- test: 3
-- expect: ping 1 -> pong 1
-- expect: ping 2 -> pong 2
-- expect: ping 3 -> pong 3
-- expect: the other side ended: true, 3 answered
local mare = require "mare"

local trips = tonumber(arg[1] or 5)
local ping, pong = mare.channel.new(), mare.channel.new()

-- Channels, like any value, may simply be upvalues of the function that becomes the process.
local answerer = mare.process.spawn(function()
  local answered = 0
  for n in ping:each() do
    pong:send("pong " .. n)
    answered = answered + 1
  end
  return answered
end)

for n = 1, trips do
  ping:send(n)
  print("ping " .. n .. " -> " .. pong:receive())
end
ping:close()
local ok, answered = answerer:wait()
print(("the other side ended: %s, %d answered"):format(ok, answered))
