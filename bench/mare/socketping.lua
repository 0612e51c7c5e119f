-- socketping MODULE KIND PORT TRIPS: 16 bytes there and back, by LuaSocket or mare's; as lines or by their number.
local socket = require(arg[1])
local kind, port, trips = arg[2], arg[3], math.tointeger(tonumber(arg[4]))
local c = assert(socket.connect("127.0.0.1", port))
c:setoption("tcp-nodelay", true)
local data = kind == "lines" and ("x"):rep(15) .. "\n" or ("x"):rep(16)
local what = kind == "lines" and "*l" or 16
local function run(n)
  for _ = 1, n do
    c:send(data)
    assert(c:receive(what))
  end
end
run(trips // 10)
local began = socket.gettime()
run(trips)
print(("trips %.6g round trips/s"):format(trips / (socket.gettime() - began)))
c:close()
