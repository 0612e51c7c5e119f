-- ring SIZE HOPS WORKERS: one number goes round; bench/mare/ring.lua with names.
local luaproc = require "luaproc"
local measure = require "measure"
local size, hops = measure.arg(1), measure.arg(2)
measure.workers(3)

local node = [[
  local inbox, next = "node%d", "node%d"
  while true do
    local n = luaproc.receive(inbox)
    if not n then return end
    if n > 0 then luaproc.send(next, n - 1) else luaproc.send("done", true) end
  end
]]
luaproc.newchannel("done")
for i = 1, size do luaproc.newchannel("node" .. i) end
for i = 1, size do assert(luaproc.newproc(node:format(i, i % size + 1))) end

local function run(n)
  luaproc.send("node1", n)
  luaproc.receive("done")
end

run(2 * size + 1)
measure.rate("hops", hops, "messages/s", function() run(hops) end)
for i = 1, size do luaproc.send("node" .. i, false) end
luaproc.wait()
