-- idle [PROCESSES [SECONDS]]: the share of one CPU that the whole program uses while its processes only wait.
local mare = require "mare"
local count, seconds = tonumber(arg[1]) or 10000, tonumber(arg[2]) or 10

local inbox, handles = mare.channel.new(), {}
for i = 1, count do
  handles[i] = mare.process.spawn(function() inbox:receive() end)
end
for i = 1, count do
  while handles[i]:status() ~= "waiting" do mare.sleep(0.002) end
end
mare.sleep(0.2) -- workers that still look for work fall asleep
local cpu, wall = os.clock(), mare.clock()
mare.sleep(seconds)
print(("idle %.4f %% of a CPU, %d processes, %.1f s"):format(100 * (os.clock() - cpu) / (mare.clock() - wall), count, mare.clock() - wall))
inbox:close()
