--[[
mare.http.request: a request as its handler sees it: what was asked, its body, and the answer as it is written.

Fields that begin with _ are this module's. Of the body: _rest bytes are left of it, or of the chunk that is being read; _done when it was read to its
end, or there is none; _reads counts the reads of it. Of the answer: _began once its head is written; _sent bytes of its body are; _chunked, _left
how that is
framed. _broken: the stream is out of step, so the connection ends with this request; _gone: nobody reads the answer.
]]
local core = require "mare.http.core"
local mare = require "mare"
local errors = require "mare.error"

local KEEP, OLD, IN_CHUNKS, WAITS = core.KEEP, core.OLD, core.IN_CHUNKS, core.WAITS
local head_of, decode, clock, yield = core.head, core.decode, mare.clock, mare.fiber.yield
local type, rawset, min, max = type, rawset, math.min, math.max
local TEXT = "text/plain; charset=utf-8"
local SMALL, SLICE, DRAINED = 1024, 1 << 18,
  1 << 16        -- bytes: joined to its head; written at once; of an unread body that are read for the next request
local TURN, PARTS = 64, 256                      -- reads until others have a turn; chunks of a whole body until they are joined

local request = {}
local methods, lazy = {}, {}
request.limits = nil                             -- of the server of this process, as mare.http.worker sets them
request.state = { stopping = false, leaving = {} }          -- leaving: what is done for who doesn't know that the server stops, in a fiber each

local function field(self, key)
  local method = methods[key]
  if method then return method end
  local make = lazy[key]
  if not make then return nil end
  local value = make(self)
  rawset(self, key, value)
  return value
end

request.class = { __index = field, __name = "request", __stays = "a request cannot be sent: it belongs to its connection's process" }

-- What requests of this process have alike, for core.begin; and core's short way for an ordinary answer, which takes what a handler returned: whether
-- the connection goes on; a string that is still to be sent; or nil, if the answer is not ordinary.
request.shape, request.reply = core.shape(request.class)

-- ---- what was asked ----

--- "a=1&b=%20" -> { a = "1", b = " " }; of a name that is there more than once the first counts.
function request.form(text)
  local fields = {}
  for name, value in text:gmatch "([^&=]+)=?([^&]*)" do
    name = decode(name, true)
    if fields[name] == nil then fields[name] = decode(value, true) end
  end
  return fields
end

function lazy.headers(self) return core.fields(self.head) end
function lazy.raw_path(self) return core.raw_path(self.target) end
function lazy.path(self)
  local path = decode(self.raw_path)
  return path == "" and "/" or path
end
function lazy.query(self) return request.form(self.target:match "%?(.*)$" or "") end
function lazy.version(self) return self.bits & OLD ~= 0 and "1.0" or "1.1" end
function lazy.peer(self) return (self.connection:peer()) end

-- ---- failures ----

local function fail(status, message) error(errors.new { kind = "http", status = status, message = message }, 0) end

-- What comes next in the stream is not known any more.
local function broken(self, status, message)
  self._broken = true
  fail(status, message)
end

-- Of a read: nobody is there to be told (status 0), or it took too long.
local function unread(self, message)
  if message == "timeout" then broken(self, 408, "the body did not come in time") end
  self._gone = true
  broken(self, 0, "the client has gone while its body was read: " .. tostring(message))
end

-- ---- the body ----

local function begin_body(self)
  if self._done or self._rest then return end
  local length = self.length
  if self.bits & IN_CHUNKS ~= 0 then
    self._rest = 0
  elseif not length or length == 0 then
    self._done = true
    return
  else
    self._rest = length
  end
  if self.bits & WAITS ~= 0 and self.bits & OLD == 0 and not self._began then
    self.bits = self.bits & ~WAITS
    local ok, message = self.connection:write "HTTP/1.1 100 Continue\r\n\r\n"
    if not ok then unread(self, message) end
  end
end

local function line_of(self, most, due, status)
  local line, message, code = self.connection:read_until("\r\n", most, max(0, due - clock()))
  if not line then
    if code == "EMSGSIZE" then broken(self, status or 400, "a line of a body in chunks is too long") end
    unread(self, message)
  end
  return line
end

-- Fields behind the last chunk are looked at and left out: a program that took them for fields of the head could be deceived.
local function trailer(self, due)
  local left = request.limits.head_bytes
  while true do
    local line = line_of(self, left, due, 431)
    if line == "\r\n" then break end
    if not line:find "^[%w!#$%%&'*+.^_`|~-]+:[^\r\n%z]*\r\n$" then broken(self, 400, "behind the last chunk comes what is no field") end
    left = left - #line
    if left < 2 then broken(self, 431, "too many fields behind the last chunk") end
  end
  self._done = true
end

local function next_chunk(self, due)
  local line = line_of(self, 1024, due)
  local digits = line:match "^(%x+)\r\n$" or line:match "^(%x+)[ \t]*;[^\r\n%z]*\r\n$"
  if not digits or #digits > 15 then broken(self, 400, "a chunk begins with no size") end
  self._extra = (self._extra or 0) + #line - #digits - 2
  if self._extra > request.limits.head_bytes then broken(self, 400, "too many extensions of chunks") end
  self._rest = tonumber(digits, 16)
  if self._rest == 0 then trailer(self, due) end
end

-- Exactly so many bytes. Of a body that comes faster than it is read no read would wait.
local function bytes(self, n, due)
  local reads = (self._reads or 0) + 1
  self._reads = reads
  if reads % TURN == 0 then yield() end
  local data, message = self.connection:read(n, max(0, due - clock()))
  if not data or #data < n then unread(self, message or "closed") end
  self._rest = self._rest - n
  if self._rest > 0 then return data end
  if self.bits & IN_CHUNKS == 0 then
    self._done = true
  elseif line_of(self, 2, due) ~= "\r\n" then
    broken(self, 400, "a chunk is longer than its size")
  end
  return data
end

-- What has come of the body: at least a byte, at most `most`; nil at its end.
local function piece(self, most, due)
  begin_body(self)
  if self._done then return nil end
  if self._rest == 0 then next_chunk(self, due) end
  if self._done then return nil end
  local held = self.connection:buffered()
  if held > 0 then return bytes(self, min(held, self._rest, most), due) end
  local first = bytes(self, 1, due)
  held = min(self.connection:buffered(), self._rest, most - 1)
  if held == 0 or self._done or self.bits & IN_CHUNKS ~= 0 and self._rest == 0 then return first end
  return first .. bytes(self, held, due)
end

--- The next piece of the body as it comes, of at most so many bytes (65536); nil at its end.
function methods:read(most)
  if most ~= nil and (math.type(most) ~= "integer" or most < 1) then error("request:read: a whole number of bytes from 1 on expected", 2) end
  return piece(self, most or 65536, clock() + request.limits.body)
end

--- for piece in request:pieces() do
function methods:pieces()
  return function() return self:read() end
end

--- The whole body, "" if there is none. One of more than `most` bytes (the limit body_bytes) is refused: 413.
function methods:body(most)
  if self._body then return self._body end
  if self._rest then error("request:body: a part of it was read already", 2) end
  most = most or request.limits.body_bytes
  if self.length and self.length > most then broken(self, 413, ("a body has at most %d bytes here"):format(most)) end
  local due = clock() + request.limits.body
  begin_body(self)
  local parts, few, n = {}, {}, 0
  if not self._done and self.bits & IN_CHUNKS == 0 then parts[1] = bytes(self, self._rest, due) end
  while not self._done do
    if self._rest == 0 then next_chunk(self, due) end
    n = n + self._rest
    if n > most then broken(self, 413, ("a body has at most %d bytes here"):format(most)) end
    if not self._done then few[#few + 1] = bytes(self, self._rest, due) end
    if #few == PARTS then parts[#parts + 1], few = table.concat(few), {} end     -- of chunks of one byte a list would be many times the body
  end
  parts[#parts + 1] = table.concat(few)
  self._body = table.concat(parts)
  return self._body
end

-- After the answer: is the stream at the beginning of the next request? What was not read of a body is, if it is short.
function request.settled(self)
  if self._after then self._after() end
  if self._broken or self.bits & KEEP == 0 or request.state.stopping then return false end
  if self._done or not self.length and self.bits & IN_CHUNKS == 0 then return true end
  local fine, left, due = pcall(function()
    local sum, limit = 0, clock() + request.limits.drain
    for data in function() return piece(self, 65536, limit) end do
      sum = sum + #data
      if sum > DRAINED then return false end
    end
    return true
  end)
  return fine and left, due
end

-- ---- the answer ----

-- Whether the connection goes on is said in the head, so it is decided before.
local function bits_of(self)
  local bits = self.bits
  if bits & KEEP == 0 then return bits end
  local unread_body = not self._done and (self._rest or self.length or 0) or 0
  if self._broken or request.state.stopping or unread_body > DRAINED or bits & WAITS ~= 0 then
    bits = bits & ~KEEP
    self.bits = bits
  end
  return bits
end

local function gone(self, message)
  self._broken, self._gone = true, true
  fail(0, "the client has gone, or does not read: " .. tostring(message))
end

local function send(self, ...)
  local ok, message = self.connection:write(...)
  if not ok then gone(self, message) end
end

-- What was left of an answer when its connection took no more.
function request.send_rest(self, rest)
  send(self, rest)
  return self.bits & KEEP ~= 0
end

-- A long string in slices: the limit of time is for each.
local function send_long(self, body)
  for at = 1, #body, SLICE do send(self, body:sub(at, at + SLICE - 1)) end
end

--- The whole answer at once. The body is a string or a sealed buffer.
function request.answer(self, status, body, fields)
  local bits, n = bits_of(self), #body
  local bare = status == 204 or status == 304
  local head_only = bare or self.method == "HEAD"
  local joined = not head_only and n <= SMALL and type(body) == "string"
  local head = head_of(status, bits, n > 0 and not bare and TEXT or nil, not bare and n or nil, fields, joined and body or nil)
  self._began, self.status = true, status
  if head_only then return send(self, head) end
  self._sent = n
  if joined then return send(self, head) end
  if n <= SLICE or type(body) ~= "string" then return send(self, head, body) end
  send(self, head)
  send_long(self, body)
end

--- Writes the head of an answer whose body comes by `write`. With a length its bytes are counted; else it comes in chunks, to HTTP/1.0 until the end.
function methods:start(status, fields, length)
  if self._began then error("request:start: the answer has begun", 2) end
  if length ~= nil and (math.type(length) ~= "integer" or length < 0) then error("request:start: a length is a whole number from 0 on", 2) end
  status = status or 200
  if status < 200 or status == 204 or status == 304 then error(("request:start: an answer %d has no body: return it"):format(status), 2) end
  local old = self.bits & OLD ~= 0
  if old and not length then self.bits = self.bits & ~KEEP end
  local bits = bits_of(self)
  local chunked
  if not length and not old then chunked = false end       -- what head_of takes for "in chunks"
  local head = head_of(status, bits, TEXT, length or chunked, fields)
  self._began, self.status, self._sent = true, status, 0
  self._streams, self._left, self._chunked = true, length, chunked == false
  send(self, head)
  return self
end

--- A part of the body. Waits while the client does not take it; raises when it has gone.
function methods:write(...)
  if not self._streams then error("request:write: request:start comes first", 2) end
  local n = 0
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    if type(v) == "number" then error("request:write: a string or a buffer expected, got a number", 2) end
    n = n + #v
  end
  if n == 0 then return end
  self._sent = self._sent + n
  if self._left and self._sent > self._left then
    self._broken = true
    error(("request:write: more bytes than the length that was said, %d"):format(self._left), 2)
  end
  if self.method == "HEAD" then return end
  if not self._chunked then return send(self, ...) end
  if n <= SMALL and select("#", ...) == 1 then return send(self, ("%x\r\n%s\r\n"):format(n, (...))) end
  local parts = table.pack(...)
  parts[parts.n + 1] = "\r\n"
  send(self, ("%x\r\n"):format(n), table.unpack(parts, 1, parts.n + 1))
end

--- The connection becomes one of WebSocket.
function methods:websocket(options) return require "mare.http.websocket".open(self, options) end

--- The answer becomes a stream of events.
function methods:events(options) return require "mare.http.events".open(self, options) end

-- The end of an answer that was begun.
function request.finish(self)
  if not self._streams or self.method == "HEAD" then return end
  if self._chunked then return send(self, "0\r\n\r\n") end
  if self._left and self._sent < self._left then
    self._broken = true
    error(("the answer has %d bytes, %d were said"):format(self._sent, self._left), 0)
  end
end

--- An answer whose body is what a function gives, piece by piece, until nil.
function request.stream(self, status, next_piece, fields)
  self:start(status, fields)
  for data in next_piece do self:write(data) end
  request.finish(self)
end

return request
