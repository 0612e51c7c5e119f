-- A planted bug: a server that takes what one read gives for one line.
local mare = require "mare"
local net = require "mare.net"
local server = assert(net.listen "127.0.0.1:0")
local host, port = server:address()

local adder = mare.process.spawn(function()
  local conn, total = assert(server:accept()), 0
  for request in function() return conn:read() end do
    total = total + assert(tonumber(request:match "^add (%d+)\n$"), "no request: " .. request)
    conn:write(total, "\n")
  end
end)

local conn = assert(net.connect(host, port))
for i, total in ipairs { 1, 3, 6 } do
  conn:write("add ", i, "\n")
  assert(conn:read "l" == tostring(total))
end
conn:close()
assert(adder:wait())
