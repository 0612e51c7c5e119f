-- HTTP/1.1 on a connection of mare.net: reads requests, writes answers, knows nothing of services.
--
--   local request, status = http.head(conn)     nil: the connection is over; with a status: refuse it
--   local body, status = http.body(conn, request)
--   http.answer(conn, request, 200, "text/plain", "hello")
--   http.refuse(conn, 400)                      an error, and the end of the connection
--
-- Times and sizes are bounded, for the peer is a stranger: `http.limits`.
local http = {
  limits = {
    head = 16384,       -- bytes of a request without its body
    body = 4194304,     -- bytes of a body
    idle = 30,          -- seconds between two requests, and for one request to come
    drain = 1,          -- seconds for a refused peer to read why
  },
}
local limits = http.limits
local match, lower, find = string.match, string.lower, string.find

local phrases = {
  [200] = "OK", [204] = "No Content", [400] = "Bad Request", [404] = "Not Found", [405] = "Method Not Allowed",
  [408] = "Request Timeout", [413] = "Content Too Large", [417] = "Expectation Failed", [431] = "Request Header Fields Too Large",
  [500] = "Internal Server Error", [501] = "Not Implemented", [503] = "Service Unavailable", [505] = "HTTP Version Not Supported",
}

local starts = {}       -- status -> what every answer with it begins with
for status, phrase in pairs(phrases) do starts[status] = ("HTTP/1.1 %d %s\r\nDate: "):format(status, phrase) end

local second, moment = 0, nil
local function date()
  local now = os.time()
  if now ~= second then second, moment = now, os.date("!%a, %d %b %Y %H:%M:%S GMT\r\nContent-Type: ", now) end
  return moment
end

-- How long the body is, and whether it comes in chunks. Two opinions about that are an attack: refused.
local function framing(request, fields)
  local coding, length = fields["transfer-encoding"], fields["content-length"]
  if coding then
    if length or request.old then return 400 end
    if lower(coding) ~= "chunked" then return 501 end
    request.chunked = true
  elseif length then
    if not find(length, "^%d+$") then return 400 end
    request.length = #length < 16 and tonumber(length) or math.huge
  end
end

local endings = {
  keep = "\r\n\r\n", close = "\r\nConnection: close\r\n\r\n", old = "\r\nConnection: keep-alive\r\n\r\n",
}

-- Is the connection to go on after this request? HTTP/1.0 must ask for it, HTTP/1.1 must ask for the contrary.
local function lasting(request, wish)
  wish = wish and lower(wish) or ""
  if request.old then request.keep = find(wish, "keep-alive", 1, true) ~= nil
  else request.keep = not find(wish, "close", 1, true) end
  request.ending = not request.keep and endings.close or request.old and endings.old or endings.keep
end

local function parse(text)
  local method, target, minor, at = match(text, "^\r?\n?([%u-]+) (%S+) HTTP/1%.(%d)\r\n()")
  if not method then return nil, find(text, "^%S+ %S+ HTTP/%d+%.?%d*\r\n") and 505 or 400 end
  local fields = {}
  while true do
    local name, value, after = match(text, "^([%w!#$%%&'*+.^_`|~-]+):[ \t]*([^\r\n\0]*)\r\n()", at)
    if not name then break end
    name, at = lower(name), after
    fields[name] = fields[name] and fields[name] .. ", " .. value or value
  end
  if at ~= #text - 1 then return nil, 400 end                -- something that is no field
  local request = { method = method, target = target, old = minor == "0", fields = fields }
  if not request.old and not fields.host then return nil, 400 end
  lasting(request, fields.connection)
  local status = framing(request, fields)
  if status then return nil, status end
  return request
end

-- The next request without its body.
function http.head(conn)
  local text, err, code = conn:read_until("\r\n\r\n", limits.head, limits.idle)
  if text then return parse(text) end
  if code == "EMSGSIZE" then return nil, 431 end
  if err == "timeout" and conn:buffered() > 0 then return nil, 408 end
  return nil                                                 -- nothing was asked, or the peer is gone
end

local function failure(err, code) return nil, err == "timeout" and 408 or code == "EMSGSIZE" and 400 or nil end

local function exactly(conn, n)
  local data, err, code = conn:read(n, limits.idle)
  if not data then return failure(err, code) end
  if #data < n then return nil end
  return data
end

local function chunks(conn)
  local parts, size = {}, 0
  while true do
    local line, err, code = conn:read_until("\r\n", 256, limits.idle)
    if not line then return failure(err, code) end
    local digits = match(line, "^(%x+)[ \t]*;?[^\r]*\r\n$")
    if not digits or #digits > 8 then return nil, digits and 413 or 400 end
    local n = tonumber(digits, 16)
    size = size + n
    if size > limits.body then return nil, 413 end
    if n == 0 then break end
    local data, status = exactly(conn, n + 2)
    if not data then return nil, status end
    if data:sub(-2) ~= "\r\n" then return nil, 400 end
    parts[#parts + 1] = data:sub(1, -3)
  end
  for _ = 1, 100 do                                          -- fields after the last chunk: read, not used
    local line, err, code = conn:read_until("\r\n", limits.head, limits.idle)
    if not line then return failure(err, code) end
    if line == "\r\n" then return table.concat(parts) end
  end
  return nil, 400
end

-- The body of a request, "" if it has none.
function http.body(conn, request)
  local length = request.length
  if not request.chunked and (not length or length == 0) then return "" end
  if length and length > limits.body then return nil, 413 end
  local expected = request.fields.expect
  if expected then
    if lower(expected) ~= "100-continue" then return nil, 417 end
    conn:write("HTTP/1.1 100 Continue\r\n\r\n")
  end
  if request.chunked then return chunks(conn) end
  return exactly(conn, length)
end

-- `more`: further fields, each with "\r\n" before it. Gives what conn:write gives.
function http.answer(conn, request, status, kind, body, more)
  return conn:write(starts[status] .. date() .. kind .. "\r\nContent-Length: " .. #body .. (more or "") .. request.ending ..
    (request.method ~= "HEAD" and body or ""))
end

-- An answer without end: what comes from the channel, until it is closed or nobody reads any more.
function http.stream(conn, request, kind, channel)
  local fine = conn:write(starts[200] .. date() .. kind .. "\r\nCache-Control: no-store" .. endings.close)
  if fine and request.method ~= "HEAD" then
    for text in channel:each() do
      if not conn:write(text) then break end
    end
  end
  channel:close()
end

-- An error that ends the connection. What the peer still sends is read for a while: closing with unread bytes would
-- reset the connection, and the answer could be lost.
function http.refuse(conn, status)
  http.answer(conn, { ending = endings.close }, status, "text/plain", phrases[status] .. "\n")
  conn:shutdown("write")
  local clock = require "mare".clock
  local limit = clock() + limits.drain
  repeat local more = conn:read(nil, math.max(0, limit - clock())) until not more or clock() > limit
  conn:close(0)
end

-- "a=1&b=%20" -> { a = "1", b = " " }
function http.query(text)
  local function plain(s) return (s:gsub("%+", " "):gsub("%%(%x%x)", function(h) return string.char(tonumber(h, 16)) end)) end
  local fields = {}
  for name, value in text:gmatch("([^&=]+)=?([^&]*)") do fields[plain(name)] = plain(value) end
  return fields
end

return http
