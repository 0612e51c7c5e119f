-- netping PORT TRIPS: 64 bytes there and back.
local net = require "mare.net"
local measure = require "measure"
local port, trips = measure.arg(1), measure.arg(2)
local conn = assert(net.connect("127.0.0.1", port))
local data = ("x"):rep(64)
local function run(n)
  for _ = 1, n do
    conn:write(data)
    assert(#conn:read(64) == 64)
  end
end
run(trips // 10)
measure.rate("trips", trips, "round trips/s", function() run(trips) end)
conn:close()
