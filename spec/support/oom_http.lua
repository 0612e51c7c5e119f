-- Works for src/module/oom_test.c, see oom.lua: the client of mare.http, if mare is built with libcurl. Returns what ends its server.
local work, ok, begun, with = ...
if not package.loaded["mare.http.curl"] then return function() end end
local http = require "mare.http.client"

-- A server that answers what it was sent, in a process of its own.
local function serve(place)
  local mare = require "mare"
  local listener = assert(mare.net.listen "127.0.0.1:0")
  local _, port = listener:address()
  mare.fiber.spawn { daemon = true, main = function()
    for conn in listener:connections() do
      mare.fiber.spawn { daemon = true, main = function()
        local head = conn:read_until("\r\n\r\n", 65536)
        while head do
          local length = tonumber(head:match "Content%-Length: (%d+)") or 0
          local body = length > 0 and conn:read(length) or "nothing"
          if not body or not conn:write("HTTP/1.1 200 OK\r\nContent-Length: ", #body, "\r\n\r\n", body) then break end
          head = conn:read_until("\r\n\r\n", 65536)
        end
        conn:close()
      end }
    end
  end }
  place:send(port)
  place:receive()                                -- it is closed
  listener:close()
end

local url, place

local function server()
  if url then return url end
  local port
  port, place = begun(serve)
  url = ("http://127.0.0.1:%d/"):format(port)
  return url
end

local function pieces()
  local n = 0
  return function()
    n = n + 1
    return n <= 3 and ("x"):rep(100) or nil
  end
end

function work.asking()
  local where = server()
  with({ ok(http.client { version = "1.1" }) }, function(things)
    local client = things[1]
    assert(ok(client:get(where, { query = { a = 1 } })).body == "nothing")
    assert(ok(client:post(where, { body = ("y"):rep(100) })).body == ("y"):rep(100))
    local answer <close> = ok(client:put(where, { body = pieces(), length = 300, stream = true }))
    assert(#ok(answer:all()) == 300)
    assert(client:cookies()[1] == nil)
  end)
end

return function() if place then place:close() end end
