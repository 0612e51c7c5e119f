-- scatter MODE RECEIVERS ITEMS ROUNDS WORKERS: the seeds' test of section 3.3 (Millán Fernández 2016): one process deals the items of a table
-- out to the receivers, again and again, and nobody goes on before all have their part. MODE: "simulated", the receivers wait for a notice on a
-- channel, and the sender sends one for each when all parts are taken; "barrier", they call luaproc.barrier.
local luaproc = require "luaproc"
local measure = require "measure"

local mode, receivers, items, rounds = arg[1], measure.arg(2), measure.arg(3), measure.arg(4)
assert(mode == "simulated" or mode == "barrier", "no such mode")
measure.workers(5)

for _, name in ipairs { "barrier", "over", "ready", "start" } do luaproc.newchannel(name) end
for i = 1, receivers do luaproc.newchannel("part" .. i) end

local function receiver(me, how, n, times)
  local sum, mine = 0, "part" .. me
  for i = -(times // 10), times do
    local part = luaproc.receive(mine)
    sum = sum + #part
    if how == "barrier" then luaproc.barrier("barrier", n) else luaproc.receive "barrier" end
    if i == 0 then
      luaproc.send("ready", true)
      luaproc.receive "start"
    end
  end
  luaproc.send("over", sum)
end

local function sender(how, n, count, times)
  local list, names = {}, {}
  for i = 1, count do list[i] = i end
  for k = 1, n do names[k] = "part" .. k end
  for i = -(times // 10), times do
    for k = 1, n do
      luaproc.send(names[k], table.move(list, (k - 1) * count // n + 1, k * count // n, 1, {}))
    end
    if how == "simulated" then for _ = 1, n do luaproc.send("barrier", true) end end
    if i == 0 then
      luaproc.send("ready", true)
      luaproc.receive "start"
    end
  end
end

-- luaproc takes a function without arguments; what is given to it are its upvalues
for i = 1, receivers do
  luaproc.newproc(function() receiver(i, mode, receivers, rounds) end)
end
luaproc.newproc(function() sender(mode, receivers, items, rounds) end)
for _ = 0, receivers do luaproc.receive "ready" end
local total = 0
measure.rate("scatters", rounds, "/s", function()
  for _ = 0, receivers do luaproc.send("start", true) end
  for _ = 1, receivers do total = total + luaproc.receive "over" end
end)
assert(total == items * (rounds + rounds // 10 + 1), "items were lost")
luaproc.wait()
