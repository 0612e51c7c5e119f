-- waiting COUNT WORKERS: processes that each wait on a channel of their own; bench/mare/waiting.lua with names.
local luaproc = require "luaproc"
local measure = require "measure"
local count = measure.arg(1)
measure.workers(2)
luaproc.newchannel("over")

local before, start = measure.resident(), measure.now()
for i = 1, count do
  luaproc.newchannel("c" .. i)
  assert(luaproc.newproc(('luaproc.receive("c%d") luaproc.send("over", true)'):format(i)))
end
local made = measure.now()
-- every channel that has a receiver takes the message at once, so the memory is asked for when the last has surely begun to wait
for _ = 1, 20 do
  luaproc.newproc("local n = 0 for _ = 1, 1e6 do n = n + 1 end luaproc.send('over', true)")
  luaproc.receive("over")
end
measure.report("memory", (measure.resident() - before) / count, "KiB")
local woken = measure.now()
for i = 1, count do luaproc.send("c" .. i, true) end
for _ = 1, count do luaproc.receive("over") end
measure.report("both", made - start + measure.now() - woken, "s")
luaproc.wait()
