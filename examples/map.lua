-- A parallel map: one process per worker takes the next item as soon as it is free; results come back in order.
--   mare run examples/map.lua [ITEMS]
-- test: 20
-- expect: collatz lengths: 1 2 8 3 6 9 17 4 20 7 15 10 10 18 18 5 13 21 21 8
local mare = require "mare"

-- Calls f(item) for every item on all workers. f and the items travel by copy; an error in f is raised here.
local function map(f, items)
  local todo, results = mare.channel.new(), mare.channel.new(#items)
  local handles = {}
  for w = 1, mare.process.workers() do
    handles[w] = mare.process.spawn(function()
      for i, item in todo:each() do results:send(i, f(item)) end
    end)
  end
  mare.process.spawn(function()
    for i = 1, #items do todo:send(i, items[i]) end
    todo:close()
  end)
  for w = 1, #handles do
    local ok, err = handles[w]:wait()
    if not ok then
      todo:close()
      error(err, 0)
    end
  end
  local mapped = {}
  for _ = 1, #items do
    local i, result = results:receive()
    mapped[i] = result
  end
  return mapped
end

local items = {}
for i = 1, tonumber(arg[1] or 2000) do items[i] = i end
local lengths = map(function(n)
  local length = 1
  while n ~= 1 do
    n = n % 2 == 0 and n // 2 or 3 * n + 1
    length = length + 1
  end
  return length
end, items)
print("collatz lengths: " .. table.concat(lengths, " "))
