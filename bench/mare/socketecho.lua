-- socketecho MODULE KIND: LuaSocket, or mare's, as a server: answers one client, by lines or by 16 bytes, with what it said. Prints "port N" first.
local socket = require(arg[1])
local what = arg[2] == "lines" and "*l" or 16
local behind = arg[2] == "lines" and "\n" or ""
local server = assert(socket.bind("127.0.0.1", 0))
print("port " .. math.tointeger(tonumber((select(2, server:getsockname())))))
io.stdout:flush()
local c = assert(server:accept())
c:setoption("tcp-nodelay", true)
while true do
  local said = c:receive(what)
  if not said then break end
  c:send(said .. behind)
end
