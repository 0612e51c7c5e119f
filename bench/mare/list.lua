-- list.lua [PROCESSES]: process.list of so many parked processes: of all, and of the ten with the largest heaps; each the middle one of seven.
local mare = require "mare"
local process, channel = mare.process, mare.channel
local n = tonumber(arg and arg[1]) or 100000

local hold = channel.new(0)
for _ = 1, n do process.spawn(function(c) c:receive() end, hold) end
local function all_wait()
  local list = process.list { sort = "id" }
  if #list < n then return false end
  for i = 1, #list do
    if list[i].status ~= "waiting" and list[i].id ~= process.self().id then return false end
  end
  return true
end
while not all_wait() do mare.sleep(0.1) end

local function middle(options)
  local times = {}
  for i = 1, 7 do
    collectgarbage()
    local began = mare.clock()
    local list = process.list(options)
    times[i] = mare.clock() - began
    assert(#list >= math.min(n, options.limit or n))
  end
  table.sort(times)
  return times[4] * 1000
end

print(("list %.2f ms"):format(middle {}))
print(("largest %.2f ms"):format(middle { sort = "heap", limit = 10 }))
os.exit(0)
