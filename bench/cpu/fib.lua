-- Calls: the Fibonacci numbers, doubly recursive.
local timed = require "timed"

local function fib(n)
  if n < 2 then return n end
  return fib(n - 1) + fib(n - 2)
end

timed(function() assert(fib(24) == 46368) end)
