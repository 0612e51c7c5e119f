-- frozen KIND plain|frozen COUNT: reads of a table, per second. KIND: small (a field), nested (two levels), large (1000 fields), array (1000 items),
-- records (a field of one of 1000 records, which nobody keeps), pairs (a loop).
local mare = require "mare"
local measure = require "measure"

local kind, how, count = arg[1], arg[2], measure.arg(3)
local make = how == "frozen" and mare.freeze or function(t) return t end

local large, array, records, keys = {}, {}, {}, {}
for i = 1, 1000 do
  keys[i] = "key" .. i
  large[keys[i]], array[i], records[keys[i]] = i, i, { count = i, first = i }
end
large, array, records = make(large), make(array), make(records)
local small = make { id = 7, name = "x", place = { x = 1, y = 2 } }

local kinds = {}

function kinds.small(n)
  local sum = 0
  for _ = 1, n do sum = sum + small.id end
  return sum
end

function kinds.nested(n)
  local sum = 0
  for _ = 1, n do sum = sum + small.place.x end
  return sum
end

function kinds.large(n)
  local sum = 0
  for _ = 1, n // 1000 do for i = 1, 1000 do sum = sum + large[keys[i]] end end
  return sum
end

function kinds.array(n)
  local sum = 0
  for _ = 1, n // 1000 do for i = 1, 1000 do sum = sum + array[i] end end
  return sum
end

function kinds.records(n)
  local sum = 0
  for _ = 1, n // 1000 do for i = 1, 1000 do sum = sum + records[keys[i]].count end end
  return sum
end

function kinds.pairs(n)
  local sum = 0
  for _ = 1, n // 1000 do for _, v in pairs(large) do sum = sum + v end end
  return sum
end

kinds[kind](count // 10)
measure.rate("reads", count, "reads/s", function() kinds[kind](count) end)
