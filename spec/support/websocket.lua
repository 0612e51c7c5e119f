-- A client of WebSocket for specs that sends what it is told, right or wrong, and shows what comes.
local mare = require "mare"
local net = require "mare.net"

local websocket = {}
local LIMIT = 60
local KEY, ACCEPT = "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="        -- RFC 6455, section 1.3
local Client = {}
Client.__index = Client
function Client:__close() self.conn:close() end

--- A frame as clients send it. options: fin, rsv (0 to 7), mask (false: none), long (2 or 8: bytes of the length), length (a lie)
function websocket.frame(opcode, data, options)
  options = options or {}
  local n = options.length or #data
  local first = (options.fin == false and 0 or 128) | (options.rsv or 0) << 4 | opcode
  local masked = options.mask == false and 0 or 128
  local extra = options.long or (n < 126 and 0 or n < 65536 and 2 or 8)
  local head = string.char(first, masked | (extra == 0 and n or extra == 2 and 126 or 127)) .. (extra > 0 and (">I" .. extra):pack(n) or "")
  if masked == 0 then return head .. data end
  local key, bytes = options.mask or "\x37\xfa\x21\x3d", {}
  for i = 1, #data do bytes[i] = string.char(data:byte(i) ~ key:byte((i - 1) % 4 + 1)) end
  return head .. key .. table.concat(bytes)
end

--- The request for a websocket; fields: { name = value } or false, instead of the usual ones
function websocket.request(path, fields)
  local all = { Host = "me", Upgrade = "websocket", Connection = "keep-alive, Upgrade",
    ["Sec-WebSocket-Key"] = KEY, ["Sec-WebSocket-Version"] = "13" }
  for name, value in pairs(fields or {}) do all[name] = value end
  local lines = { ("GET %s HTTP/1.1"):format(path) }
  for name, value in pairs(all) do
    if value then lines[#lines + 1] = name .. ": " .. value end
  end
  return table.concat(lines, "\r\n") .. "\r\n\r\n"
end

--- A client that has asked, and its answer's head; without an answer 101 the connection, for what follows.
function websocket.ask(server, path, fields, tls)
  local host, port = server:address()
  local conn = tls and mare.tls.connect("localhost", port, { ca = tls, timeout = LIMIT }) or net.connect(host, port, { timeout = LIMIT })
  assert(conn, "no connection")
  conn:timeout(LIMIT)
  assert(conn:write(websocket.request(path, fields)))
  local head = assert(conn:read_until("\r\n\r\n", 65536))
  return setmetatable({ conn = conn, head = head, status = tonumber(head:match "^HTTP/1.1 (%d+)") }, Client)
end

--- The same, which must become a websocket.
function websocket.connect(server, path, fields, tls)
  local client = websocket.ask(server, path, fields, tls)
  assert(client.status == 101, client.head)
  assert(client.head:find("\r\nSec-WebSocket-Accept: " .. ACCEPT .. "\r\n", 1, true), client.head)
  assert(client.head:find "\r\nConnection: Upgrade\r\n" and client.head:find "\r\nUpgrade: websocket\r\n", client.head)
  return client
end

function Client:send(...) return assert(self.conn:write(websocket.frame(...))) end
function Client:raw(bytes) return assert(self.conn:write(bytes)) end

--- The next frame of the server: its opcode and what it carries; nil: the connection has ended.
function Client:next()
  local head = self.conn:read(2)
  if not head or #head < 2 then return nil end
  local first, n = head:byte(1, 2)
  assert(first & 0x70 == 0 and n < 128, "a server's frame has reserved bits or a mask")
  assert(first & 128 ~= 0, "this server sends whole messages")
  if n == 126 then n = (">I2"):unpack(self.conn:read(2)) elseif n == 127 then n = (">I8"):unpack(self.conn:read(8)) end
  return first & 15, n > 0 and self.conn:read(n) or ""
end

--- The code with which the server closes, whatever it sends before; and the reason. Then the connection must end.
function Client:closed()
  while true do
    local opcode, data = self:next()
    if not opcode then return nil end
    if opcode == 8 then
      self.conn:write(websocket.frame(8, data))
      local rest = self.conn:read "a"
      assert(rest == "" or rest == nil, "something comes after the close")
      self.conn:close()
      return #data > 0 and (">I2"):unpack(data) or 1005, data:sub(3)
    end
  end
end

return websocket
