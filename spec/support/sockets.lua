-- Sockets for specs: how many descriptors are open, a server for the time of a function, two ends of a connection.
local mare = require "mare"
local net = mare.net

local sockets = {}

function sockets.pack(...) return { n = select("#", ...), ... } end

local stat <close> = assert(io.open("/proc/self/stat"))
sockets.pid = stat:read("n")

-- How many descriptors this OS process has open. The least of some counts: mare's monitor looks at its threads through one, for a moment.
function sockets.descriptors()
  local least = math.huge
  for _ = 1, 6 do
    local n, list = 0, io.popen(("ls /proc/%d/fd"):format(sockets.pid))
    for _ in list:lines() do n = n + 1 end
    list:close()
    least = math.min(least, n)
  end
  return least
end

-- Whether there are no more than so many, as soon as what is being closed by others is closed.
function sockets.descriptors_fall_to(n)
  local limit = mare.clock() + 60
  while sockets.descriptors() > n do
    if mare.clock() > limit then return false end
    mare.sleep(0.005)
  end
  return true
end

-- Runs f(server, host, port) with a fresh server, which is closed at the end.
function sockets.with_server(f, where)
  local server = assert(net.listen(where or "127.0.0.1:0"))
  local host, port = server:address()
  local results = sockets.pack(pcall(f, server, host, port))
  server:close()
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

-- Two ends of one connection, both in this process.
function sockets.pair(where)
  return sockets.with_server(function(server, host, port)
    local client = port and assert(net.connect(host, port)) or assert(net.connect("unix:" .. host))
    local other = assert(server:accept(10))
    return client, other
  end, where)
end

return sockets
