-- Schedules a second of a small test, by the program whose path is the first argument.
local bin, runs = arg[1], arg[2]
local name = os.tmpname()
local file = assert(io.open(name, "w"))
assert(file:write [[
local mare = require "mare"
local c, sum = mare.channel.new(), 0
for _ = 1, 2 do mare.process.spawn(function() for i = 1, 5 do c:send(i) end end) end
for _ = 1, 10 do sum = sum + c:receive() end
assert(sum == 30)
]])
file:close()
local pipe <close> = assert(io.popen(("'%s' explore --json --runs %s '%s'"):format(bin, runs, name)))
local text = pipe:read "a"
os.remove(name)
local seconds = tonumber(text:match '"failed":false.*"seconds":([%d.e-]+)')
if not seconds then error("explore failed: " .. text) end
print(("schedules %.1f a_second"):format(runs / seconds))
