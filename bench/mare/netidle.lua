-- netidle process|fiber COUNT: COUNT connections, each with a process or a fiber that waits for a request; resident memory of each.
-- Prints "port N"; ends when its clients do.
local mare = require "mare"
local net, measure = require "mare.net", require "measure"
local kind, count = arg[1], measure.arg(2)
local server = assert(net.listen("127.0.0.1:0"))
print("port " .. select(2, server:address()))
io.stdout:flush()

local function serve(conn)
  conn:read("l")
  conn:close()
end

local spawn = kind == "process" and mare.process.spawn or mare.fiber.spawn
local handles = {}
for i = 1, 100 do handles[i] = spawn(serve, assert(server:accept())) end        -- what is made once is made
local function settle()
  for i = #handles, 1, -1 do
    while handles[i]:status() ~= "waiting" do mare.sleep(0.002) end
  end
end
settle()
local before = measure.resident()
for i = 101, count + 100 do handles[i] = spawn(serve, assert(server:accept())) end
settle()
collectgarbage()
measure.report("memory", (measure.resident() - before) / count, "KiB each")
io.stdout:flush()
for i = 1, #handles do assert(handles[i]:wait()) end
