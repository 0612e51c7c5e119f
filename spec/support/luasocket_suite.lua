--[[
Runs one part of LuaSocket's own test suite over mare.socket: arguments are the folder of its tests, the file, and a port. The suite asks for a
LuaSocket that was built for debugging, whose send and receive also return how long they took: so these are wrapped here.
What is left out: connecting to an address of a private network in the hope that nobody answers there.
]]
local folder, file = arg[1], arg[2]
port = arg[3]                                    -- luacheck: ignore 111
host = "127.0.0.1"                               -- luacheck: ignore 111
local socket = require "mare.socket"
package.loaded.socket = socket
socket._DEBUG = true

local methods = require("mare.socket.core").classes["tcp{client}"]
for _, name in ipairs { "receive", "send" } do
  local f = methods[name]
  local function timed(began, a, b, c) return a, b, c, socket.gettime() - began end
  methods[name] = function(...) return timed(socket.gettime(), f(...)) end
end

local plain = dofile
function dofile(path) return plain(folder .. "/" .. path) end       -- luacheck: ignore 121

if file == "testclnt.lua" then                   -- the server takes a connection that says nothing for a client that has left
  for _ = 1, 500 do
    local c = socket.connect(host, port)         -- luacheck: ignore 113
    if c then
      c:close()
      break
    end
    socket.sleep(0.02)
  end
end

package.path = folder .. "/?.lua;" .. package.path
local handle = assert(io.open(folder .. "/" .. file))
local text = handle:read("a"):gsub("\nconnect_timeout%(%)\n", "\n")
handle:close()
assert(load(text, "@" .. file))()
