-- fanout TASKS N: TASKS processes compute fib(N), the main one waits for all.
local mare = require "mare"
local measure = require "measure"

local count, n = measure.arg(1), measure.arg(2)

local function fib(i)
  if i < 2 then return i end
  return fib(i - 1) + fib(i - 2)
end

measure.rate("tasks", count, "tasks/s", function()
  local handles = {}
  for i = 1, count do handles[i] = mare.process.spawn(fib, n) end
  for i = 1, count do assert(handles[i]:wait()) end
end)
