-- LuaSec 1: ssl.h. The connection has a reference to OpenSSL's context of its own; but the context's callbacks belong to the state that made it, so
-- only a connection whose handshake is done can leave.
local function after(...) return string.packsize("!" .. table.concat({ ... })) end

local io <const> = "jjjj" -- context, send, receive, error
local buffer <const> = "dTTjjTTc8192" -- birthday, sent, received, io, timeout, first, last, data
local timeout <const> = "ddd"
local align <const> = "Xj"
local CONNECTED <const> = 2

return {
  ["SSL:Connection"] = {
    module = "ssl",
    size = after("i", align, io, buffer, timeout, "j", "ii"),
    inside = {
      { after("i", align), 0 }, -- io.context -> the connection
      { after("i", align, io, "dTT"), after("i", align) }, -- buffer.io -> io
      { after("i", align, io, "dTTj"), after("i", align, io, buffer) }, -- buffer.timeout -> timeout
    },
    demands = { { after("i", align, io, buffer, timeout, "j"), CONNECTED, "its handshake is not done, or it is closed" } },
    tables = { "SSL:Verify:Registry", "SSL:SNI:Registry" }, -- where its finaliser looks
  },
}
