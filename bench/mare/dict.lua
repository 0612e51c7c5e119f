-- dict OP PROCESSES KEYS COUNT: operations on one dict by several processes, KEYS strings in turn. OP 1: incr, 2: get, 3: set.
local mare = require "mare"
local measure = require "measure"

local op, processes, keys, count = measure.arg(1), measure.arg(2), measure.arg(3), measure.arg(4)
local d, key = mare.dict.new(), {}
for i = 1, keys do
  key[i] = "key " .. i
  d:set(key[i], 0)
end

local works = {
  function(n) for i = 1, n do d:incr(key[i % keys + 1]) end end,
  function(n) for i = 1, n do d:get(key[i % keys + 1]) end end,
  function(n) for i = 1, n do d:set(key[i % keys + 1], i) end end,
}
local work = works[op]

local function run(total)
  local list = {}
  for i = 1, processes do list[i] = mare.process.spawn(work, total // processes) end
  for i = 1, processes do assert(list[i]:wait()) end
end

run(count // 20)
measure.rate("ops", count, "ops/s", function() run(count) end)
