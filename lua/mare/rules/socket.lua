-- LuaSocket 3: tcp.h, udp.h. Offsets are written as the C compiler lays the structures out. (list.lua tells what the fields mean.)
local function after(...) return string.packsize("!" .. table.concat({ ... })) end

local io <const> = "jjjj" -- context, send, receive, error
local buffer <const> = "dTTjjTTc8192" -- birthday, sent, received, io, timeout, first, last, data
local timeout <const> = "ddd"
local align <const> = "Xj"

local stream = {
  module = "socket.core", descriptor = 0,
  size = after("i", align, io, buffer, timeout, "i", align),
  inside = {
    { after("i", align), 0 }, -- io.context -> the socket
    { after("i", align, io, "dTT"), after("i", align) }, -- buffer.io -> io
    { after("i", align, io, "dTTj"), after("i", align, io, buffer) }, -- buffer.timeout -> timeout
  },
}
local datagram = { module = "socket.core", descriptor = 0, size = after("i", align, timeout, "i", align) }

return {
  ["tcp{client}"] = stream, ["tcp{server}"] = stream, ["tcp{master}"] = stream,
  ["udp{connected}"] = datagram, ["udp{unconnected}"] = datagram,
}
