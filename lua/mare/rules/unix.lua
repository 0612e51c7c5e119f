-- LuaSocket 3's unix.h: as in socket.lua, but for the family of addresses.
local function after(...) return string.packsize("!" .. table.concat({ ... })) end

local io <const> = "jjjj" -- context, send, receive, error
local buffer <const> = "dTTjjTTc8192" -- birthday, sent, received, io, timeout, first, last, data
local timeout <const> = "ddd"
local align <const> = "Xj"

local socket = {
  module = "socket.unix", descriptor = 0,
  size = after("i", align, io, buffer, timeout),
  inside = {
    { after("i", align), 0 }, -- io.context -> the socket
    { after("i", align, io, "dTT"), after("i", align) }, -- buffer.io -> io
    { after("i", align, io, "dTTj"), after("i", align, io, buffer) }, -- buffer.timeout -> timeout
  },
}

return {
  ["unixstream{client}"] = socket, ["unixstream{server}"] = socket, ["unixstream{master}"] = socket,
  ["unixdgram{connected}"] = socket, ["unixdgram{unconnected}"] = socket,
}
