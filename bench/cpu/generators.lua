-- Coroutines: generators made with coroutine.wrap, one feeding the other, and a recursive one over a tree.
local timed = require "timed"
local wrap, yield = coroutine.wrap, coroutine.yield

local function count(n)
  return wrap(function() for i = 1, n do yield(i) end end)
end

local function only(odd, source)
  return wrap(function()
    for v in source do
      if v % 2 == odd then yield(v) end
    end
  end)
end

local function tree(depth)
  if depth == 0 then return false end
  return { tree(depth - 1), depth, tree(depth - 1) }
end

local function visit(node)
  if node then
    visit(node[1])
    yield(node[2])
    visit(node[3])
  end
end

local forest = tree(9)

timed(function()
  local sum = 0
  for v in only(1, count(3000)) do sum = sum + v end
  for v in wrap(function() visit(forest) end) do sum = sum + v end
  assert(sum == 1500 * 1500 + 1013)
end)
