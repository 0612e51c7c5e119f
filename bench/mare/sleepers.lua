-- sleepers COUNT SECONDS: fibers that sleep until moments spread over so many seconds; how late they wake, in ms.
local mare = require "mare"
local measure = require "measure"
local count, seconds = measure.arg(1), measure.arg(2)
local late = {}
local start = mare.clock() + 1                   -- all are made by then
for i = 1, count do
  local due = start + (i * 7919 % count) / count * seconds
  mare.fiber.spawn(function()
    mare.sleep(due - mare.clock())
    late[#late + 1] = mare.clock() - due
  end)
end
mare.sleep(start + seconds - mare.clock())
while mare.fiber.count() > 1 do mare.sleep(0.01) end
table.sort(late)
measure.report("woken", #late, "sleepers")
measure.report("late", 1000 * late[#late // 2 + 1], "ms")
measure.report("latest", 1000 * late[#late], "ms")
