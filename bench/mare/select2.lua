-- select2 COUNT: one process sends on two channels in turn, another selects. Messages per second.
local mare = require "mare"
local measure = require "measure"
local a, b, over = mare.channel.new(), mare.channel.new(), mare.channel.new()
local count = measure.arg(1)

mare.process.spawn(function()
  local select = mare.select
  local cases = { a, b }
  for n in over:each() do
    for _ = 1, n do select(cases) end
    over:send(true)
  end
end)

local function run(n)
  over:send(n)
  for _ = 1, n // 2 do
    a:send(1)
    b:send(1)
  end
  over:receive()
end
run(count // 10)
measure.rate("messages", count, "messages/s", function() run(count) end)
over:close()
