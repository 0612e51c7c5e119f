-- Calls from C: table.sort with a comparator written in Lua.
local timed = require "timed"

local count, x = 5000, 42
local records = {}
for i = 1, count do
  x = (x * 1103515245 + 12345) & 0x7fffffff
  records[i] = { key = x % 1000, serial = i }
end

timed(function()
  local list = table.move(records, 1, count, 1, {})
  table.sort(list, function(a, b)
    if a.key ~= b.key then return a.key < b.key end
    return a.serial < b.serial
  end)
  assert(list[1].key <= list[count].key)
end)
