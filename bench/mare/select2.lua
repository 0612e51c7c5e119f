-- select2 COUNT [selector]: one process sends on two channels in turn, another selects, by a call each time or by a selector that
-- stays. Messages per second.
local mare = require "mare"
local measure = require "measure"
local a, b, over = mare.channel.new(), mare.channel.new(), mare.channel.new()
local count, stays = measure.arg(1), arg[2] == "selector"

mare.process.spawn(function()
  local wait, cases = mare.select, { a, b }
  if stays then
    cases = mare.selector(cases)
    wait = cases.wait
  end
  for n in over:each() do
    for _ = 1, n do wait(cases) end
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
