-- A pool of workers: processes take tasks as they are free, a task that fails is answered as well, and results come in any order.
--   mare run examples/workers.lua [TASKS [WORKERS]]      2000 tasks, one worker per CPU
-- For a list or a file there is less to write: mare.parallel. For workers that hold a connection: mare.pool, examples/database.lua.
-- test: 10 3
-- expect: 9 done, 1 failed; the sum is 385
-- expect: task 7: no sevens
local mare = require "mare"
local process, channel = mare.process, mare.channel

local count, size = tonumber(arg[1] or 2000), tonumber(arg[2] or process.workers())

local function work(n)
  if n == 7 then error("no sevens", 0) end
  local sum = 0
  for i = 1, n do sum = sum + i * i end
  return sum
end

-- Bounded channels: whoever hands out tasks, or gives results, waits when nobody takes them, so memory stays small.
local tasks, results = channel.new(2 * size), channel.new(2 * size)
for i = 1, size do
  process.spawn { name = "worker " .. i, linked = true, main = function()
    for n in tasks:each() do results:send(n, pcall(work, n)) end       -- an answer for every task, come what may
  end }
end
process.spawn { name = "master", linked = true, main = function()      -- a process of its own, so that we are free to gather
  for n = 1, count do tasks:send(n) end
  tasks:close()                                                        -- the workers end when it is empty
end }

local done, failed, last = 0, {}, nil
for _ = 1, count do
  local n, ok, value = results:receive()
  if ok then done = done + 1 else failed[#failed + 1] = ("task %d: %s"):format(n, value) end
  if n == count then last = value end
end
print(("%d done, %d failed; the sum is %d"):format(done, #failed, last))
for _, text in ipairs(failed) do print(text) end
