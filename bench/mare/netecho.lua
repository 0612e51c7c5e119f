-- netecho: answers 64 bytes with the same 64 bytes, for one connection; prints "port N" first.
local net = require "mare.net"
local server = assert(net.listen("127.0.0.1:0"))
print("port " .. select(2, server:address()))
io.stdout:flush()
local conn = assert(server:accept())
while true do
  local data = conn:read(64)
  if not data or #data < 64 then break end
  conn:write(data)
end
