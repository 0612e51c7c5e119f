-- spawn COUNT WORKERS: empty processes, waited for in batches of 1000, finished ones recycled; bench/mare/spawn.lua without handles.
local luaproc = require "luaproc"
local measure = require "measure"
local batch, count = 1000, measure.arg(1)
measure.workers(2)
luaproc.recycle(batch)

-- luaproc.wait() of the original returns too early when it is woken for nothing, and waits for ever when the last process ends just
-- before: so the last process of a batch says that it ran, and those before it have as good as ended.
luaproc.newchannel("last")
local function run(batches)
  for _ = 1, batches do
    for _ = 2, batch do assert(luaproc.newproc("")) end
    assert(luaproc.newproc('luaproc.send("last", true)'))
    luaproc.receive("last")
  end
end

local batches = count // batch
run(batches // 20 + 1)
local start = measure.now()
run(batches)
measure.report("spawn", (measure.now() - start) * 1e6 / (batches * batch), "us")
luaproc.wait()
