-- WebSocket: frames out of bytes that may be anything, as a server reads them. However the bytes are cut, messages and answers are the same; a text
-- is UTF-8; what is answered are frames of a server, the close the last of them, with a code that may be there.
-- needs: llhttp
local never = { close = function() end, receive = function() end }
package.loaded.mare = { clock = function() return 0 end, fiber = { yield = function() end }, channel = { new = function() return never end } }
package.loaded["mare.error"] = { new = function(e) return e end, is = function(e, kind) return type(e) == "table" and e.kind == kind end }
package.loaded["mare.control.request"] = { check = function() end }
local frames = require "mare.http.frames"

-- What the connection gives, whose bytes come `step` at a time.
local function take(conn, limit, at_once)
  while true do
    local data, opcode, last, size = frames.parse(conn.data:sub(conn.at, conn.come))
    if data and size <= limit then
      conn.at = conn.at + size
      return data, opcode, last
    end
    if data then return nil, "too long", "EMSGSIZE" end
    if opcode ~= "more" then return nil, "what came is no WebSocket message: " .. opcode, "EPROTO" end
    if conn.come - conn.at + 1 >= limit then return nil, "too long", "EMSGSIZE" end
    if at_once and conn.come >= conn.at then return nil, "a part", "EPROTO" end
    if conn.come >= #conn.data then return nil, "closed", "EOF" end
    conn.come = math.min(conn.come + conn.step, #conn.data)
  end
end
frames.begin = function(conn, limit) return take(conn, limit, true) end
frames.receive = function(conn, limit) return take(conn, limit) end

local core = require "mare.http.core"
local request = require "mare.http.request"
request.limits = { body_bytes = 300, body = 1, drain = 0 }
local HEAD = "GET / HTTP/1.1\r\nHost: me\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n" ..
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

local function told(data, step)
  local conn = { data = data, at = 1, come = 0, step = step, out = {} }
  function conn:write(...)
    self.out[#self.out + 1] = table.concat { ... }
    return true
  end
  local method, target, bits = core.parse(HEAD, 20)
  local req = setmetatable({ connection = conn, method = method, target = target, head = HEAD, bits = bits }, request.class)
  local ws = req:websocket { ping = math.huge }
  local got = {}
  for message, kind in ws:messages() do
    assert(#message <= 300 and (kind == "binary" or kind == "text" and utf8.len(message)), "no message")
    got[#got + 1] = kind .. message
    ws:send(message, kind)
  end
  req._after()
  assert(ws.code, "it has not ended")
  assert(table.remove(conn.out, 1):find "^HTTP/1.1 101 ", "no answer")
  return table.concat(got, "\0"), table.concat(conn.out), ws.code
end

-- What a server sends: whole messages without masks, a close at most as the last.
local function check(out)
  local at = 1
  while at <= #out do
    local first, n = out:byte(at, at + 1)
    at = at + 2
    if n == 126 then n, at = (">I2"):unpack(out, at) end
    assert(first & 0xF0 == 0x80 and n < 127 or n >= 126 and n < 65536, "no frame of a server")
    at = at + n
    if first == 0x88 then
      assert(at == #out + 1, "something comes after the close")
      local code = n >= 2 and (">I2"):unpack(out, at - n) or 1000
      assert(n ~= 1 and code >= 1000 and code < 5000 and (code < 1004 or code > 1006), "a close that may not be sent")
    end
  end
  assert(at == #out + 1, "half a frame")
end

return function(data)
  local messages, out, code = told(data, #data + 1)
  check(out)
  for _, step in ipairs { 1, 3, 8 } do
    local again, answers, ending = told(data, step)
    assert(again == messages and answers == out and ending == code, "cut in another way it is something else")
  end
end
