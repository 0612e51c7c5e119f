-- The knapsack problem by dynamic programming: each row of the table is cut into blocks of columns, one per process.
-- A cell needs the row before at its own column and at a smaller one, so every process sends its block to the right.
--   mare run examples/knapsack.lua [CAPACITY] [OBJECTS] [PROCESSES]
-- test: 300 200 4
-- expect: capacity 300, 200 objects of weight 3: best value 5000
local mare = require "mare"

local capacity, count = tonumber(arg[1] or 3000), tonumber(arg[2] or 500)
local parts = math.min(tonumber(arg[3] or mare.process.workers()), capacity + 1)
local width = (capacity + parts) // parts

-- Weight 3 each; odd ones are worth 50, even ones 5.
local weight, value = {}, {}
for i = 1, count do
  weight[i], value[i] = 3, i % 2 == 1 and 50 or 5
end

-- A channel for each pair keeps the blocks of one sender in order; capacity 1 lets the left be one row ahead.
local to, answer = {}, mare.channel.new()
for p = 1, parts do
  to[p] = {}
  for right = p + 1, parts do to[p][right] = mare.channel.new(1) end
end

local function part(p)
  local first, last = (p - 1) * width, math.min(p * width - 1, capacity)
  local row = {} -- the row before: all columns that this part looks at
  for c = 0, last do row[c] = 0 end
  for i = 1, count do
    local w, v, block = weight[i], value[i], {}
    for c = first, last do
      block[c - first + 1] = math.max(row[c], c >= w and row[c - w] + v or 0)
    end
    table.move(block, 1, #block, first, row)
    for right = p + 1, parts do to[p][right]:send(block) end
    for left = 1, p - 1 do
      block = to[left][p]:receive()
      table.move(block, 1, #block, (left - 1) * width, row)
    end
  end
  if first <= capacity and last == capacity then answer:send(row[capacity]) end
end

for p = 1, parts do mare.process.spawn(part, p) end
print(("capacity %d, %d objects of weight 3: best value %d"):format(capacity, count, answer:receive()))
