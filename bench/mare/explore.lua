-- Schedules a second of a small test, by the program whose path is the first argument. The third: "sockets" for one over connections.
local bin, runs, kind = arg[1], arg[2], arg[3] or "channels"
local texts = {}
texts.channels = [[
local mare = require "mare"
local c, sum = mare.channel.new(), 0
for _ = 1, 2 do mare.process.spawn(function() for i = 1, 5 do c:send(i) end end) end
for _ = 1, 10 do sum = sum + c:receive() end
assert(sum == 30)
]]
texts.sockets = [[
local mare = require "mare"
local net = require "mare.net"
local server = assert(net.listen "localhost:0")
local _, port = server:address()
mare.process.spawn(function()
  for conn in server:connections() do
    mare.fiber.spawn(function()
      for request in function() return conn:read "l" end do conn:write(request, "\n") end
    end)
  end
end)
local clients = {}
for i = 1, 2 do
  clients[i] = mare.process.spawn(function()
    local conn = assert(net.connect("localhost", port))
    for j = 1, 5 do
      conn:write(j, "\n")
      assert(conn:read "l" == tostring(j))
    end
    conn:close()
  end)
end
for _, c in ipairs(clients) do assert(c:wait()) end
server:close()
]]
local name = os.tmpname()
local file = assert(io.open(name, "w"))
assert(file:write(texts[kind]))
file:close()
local pipe <close> = assert(io.popen(("'%s' explore --json --runs %s '%s'"):format(bin, runs, name)))
local text = pipe:read "a"
os.remove(name)
local seconds = tonumber(text:match '"failed":false.*"seconds":([%d.e-]+)')
if not seconds then error("explore failed: " .. text) end
print(("schedules %.1f a_second"):format(runs / seconds))
