--[[
mare.http.websocket: a connection of WebSocket (RFC 6455), which a handler makes of its request. Frames are read and written by mare.http.frames.

One fiber receives, any may send: what one call of write sends stays together. `code` is nil until the connection has ended, for us or for the
peer: then it is the code of the close, and nothing more is given or sent. `_sent` is the code of the close frame we have sent; who sent it waits in
`_over`, a channel that is closed when the peer's has come, or never will. Control frames are answered by the fiber that receives.
]]
local core = require "mare.http.core"
local frames = require "mare.http.frames"
local mare = require "mare"
local errors = require "mare.error"
local request = require "mare.http.request"
local check = require "mare.control.request".check
local channel, clock, yield = mare.channel, mare.clock, mare.fiber.yield
local begin, receive, head_of, is_text = frames.begin, frames.receive, frames.head, frames.is_text
local type, min, max, huge = type, math.min, math.max, math.huge

local CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
local KINDS = { [TEXT] = "text", [BINARY] = "binary", text = TEXT, binary = BINARY }
local SMALL, CONTROL, HEAD, PARTS = frames.SMALL, 125, 14, 256
local TURN <const> = 64                          -- frames until others have a turn: of those that come faster than they are read none is waited for
local NORMAL, LEAVES, PROTOCOL, NONE, LOST, NO_TEXT, REFUSED, TOO_BIG, FAILED = 1000, 1001, 1002, 1005, 1006, 1007, 1008, 1009, 1011

local websocket = {}
local Socket = {}
Socket.__index = Socket
Socket.__name = "websocket"
Socket.__stays = "a websocket cannot be sent: it belongs to its connection's process"
require "mare.near".guard(Socket, "a websocket")

-- ---- the end ----

-- May that code be in a close frame? Section 7.4.
local function in_frames(code)
  return code >= 1000 and code <= 1014 and (code < 1004 or code > 1006) or code >= 3000 and code <= 4999
end

-- From here on it has ended, for that reason.
local function ended(self, code, reason)
  if self.code then return end
  self.code, self.reason, self._parts = code, reason, false
  self._over:close()
end

local function lost(self) return ended(self, LOST, "the connection was lost") end

-- The close frame, at most once. It may be the last thing the peer reads: what it sends after it is not for us.
local function send_close(self, code, reason)
  if self._sent then return end
  self._sent = code
  local data = code == NONE and "" or (">I2"):pack(code) .. reason
  if not self._conn:write(head_of(CLOSE, #data, data)) then lost(self) end
end

-- The peer has broken the rules, or a limit.
local function fail(self, code, reason)
  send_close(self, code, reason)
  ended(self, code, reason)
end

local function closing(self, data)
  local code, reason = NONE, ""
  if #data == 1 then return fail(self, PROTOCOL, "a close frame of one byte") end
  if #data > 1 then
    code, reason = (">I2"):unpack(data), data:sub(3)
    if not in_frames(code) then return fail(self, PROTOCOL, "no code that a close frame may have") end
  end
  if not is_text(reason) then return fail(self, NO_TEXT, "the reason of a close frame is not UTF-8") end
  send_close(self, code, "")
  ended(self, code, reason)
end

-- ---- receiving ----

-- A limit of time has passed. A message has its own once it has begun; who is silent is asked whether it is there.
local function silent(self, now)
  if self._due and now >= self._due then return fail(self, REFUSED, "a message did not come in time") end
  if now < self._heard + self._ping then return end
  if self._asked then return fail(self, FAILED, "no answer to a ping") end
  self._asked, self._heard = true, now
  if not self._conn:write(head_of(PING, 0)) then lost(self) end
end

-- The next frame; nil: there was none, and `code` says why unless the time is over.
local function frame(self, due)
  local conn, limit = self._conn, max(self._most - self._size + HEAD, CONTROL + HEAD)
  while not self.code do
    local until_then = min(due, self._heard + self._ping, self._due or huge)
    local wait = until_then < huge and max(0, until_then - clock()) or nil
    local read = self._due and receive or begin
    local data, opcode, last = read(conn, limit, wait)
    if data then
      self._heard, self._asked = clock(), false
      return data, opcode, last
    elseif opcode == "timeout" then
      local now = clock()
      silent(self, now)
      if now >= due then return nil end
    elseif last == "EPROTO" and read == begin then
      self._due = clock() + request.limits.body
    elseif last == "EPROTO" then
      fail(self, PROTOCOL, opcode:match ": (.*)$" or opcode)
    elseif last == "EMSGSIZE" then
      fail(self, TOO_BIG, ("a message has at most %d bytes here"):format(self._most))
    else
      lost(self)
    end
  end
end

-- Of frames of one byte a list would be many times the message: the last PARTS of them become one. So each byte is copied twice at most.
local function join(parts)
  local at = parts.joined + 1
  local text = table.concat(parts, "", at)
  for i = #parts, at + 1, -1 do parts[i] = nil end
  parts[at], parts.joined = text, at
end

-- A frame of a message: the whole message and its kind when this was its last one.
local function part(self, data, opcode, last)
  local parts = self._parts
  if (opcode == CONTINUED) ~= (parts and true or false) then
    return fail(self, PROTOCOL, parts and "a message begins inside another one" or "a message goes on that has not begun")
  end
  self._size = self._size + #data
  if self._size > self._most then return fail(self, TOO_BIG, ("a message has at most %d bytes here"):format(self._most)) end
  if parts then
    parts[#parts + 1] = data
  elseif last then
    parts = { data, kind = opcode }
  else
    self._parts, self._due = { data, kind = opcode, joined = 0 }, self._due or clock() + request.limits.body
    return nil
  end
  if not last then
    if #parts - parts.joined == PARTS then join(parts) end
    return nil
  end
  local message, kind = #parts == 1 and parts[1] or table.concat(parts), parts.kind
  self._parts, self._size, self._due = false, 0, false
  if kind == TEXT and not is_text(message) then return fail(self, NO_TEXT, "a text is not UTF-8") end
  return message, KINDS[kind]
end

-- One frame is read and answered: a message, if it has ended with that.
local function step(self, due)
  local data, opcode, last = frame(self, due)
  if not data then return nil, nil, true end
  if opcode < CLOSE then
    local message, kind = part(self, data, opcode, last)
    if self._sent then return nil end              -- it was on its way when we closed
    return message, kind
  end
  if not self._parts then self._due = false end
  if opcode == CLOSE then closing(self, data)
  elseif opcode == PING and not self._sent then
    if not self._conn:write(head_of(PONG, #data, data)) then lost(self) end
  end
end

-- What is told when there is nothing more.
local function over(self) return nil, "closed", self.code end

--- The next message and its kind, "text" or "binary"; nil, "closed", the code of the close; nil, "timeout".
function Socket:receive(seconds)
  if self.code then return over(self) end
  if self._reading then return nil, "another fiber receives from this websocket", "EBUSY" end
  local due = clock() + (seconds or huge)
  local reading <close> = setmetatable({}, { __close = function() self._reading = false end })      -- luacheck: ignore reading
  self._reading = true
  while not self.code do
    self._turn = self._turn % TURN + 1
    if self._turn == TURN then yield() end
    local message, kind, waited = step(self, due)
    if message then return message, kind end
    if waited and not self.code then return nil, "timeout" end
  end
  return over(self)
end

--- for message, kind in ws:messages() do
function Socket:messages()
  return function()
    local message, kind = self:receive()
    return message, message and kind
  end
end

-- ---- sending ----

local function bad(message, ...) error(message:format(...), 3) end

--- Sends a string or a buffer as one message: "text" unless it is a buffer or told otherwise. nil, "closed", code when nobody gets it.
function Socket:send(data, kind)
  local is_string = type(data) == "string"
  if not is_string and type(data) ~= "userdata" then bad("ws:send: a string or a buffer expected, got a %s", type(data)) end
  local opcode = KINDS[kind or (is_string and "text" or "binary")]
  if math.type(opcode) ~= "integer" then bad("ws:send: a message is \"text\" or \"binary\", not %s", tostring(kind)) end
  if opcode == TEXT and not is_text(is_string and data or tostring(data)) then bad "ws:send: a text must be UTF-8; anything else is \"binary\"" end
  if self.code or self._sent then return nil, "closed", self.code or self._sent end
  local n, conn = #data, self._conn
  if is_string and n <= SMALL then
    if conn:write(head_of(opcode, n, data)) then return true end
  elseif conn:write(head_of(opcode, n), data) then
    return true
  end
  lost(self)
  return over(self)
end

--- Asks whether the peer is there; the answer is not told, but a peer that gives none is taken for gone.
function Socket:ping(data)
  data = data or ""
  if type(data) ~= "string" or #data > CONTROL then bad("ws:ping: a string of at most %d bytes expected", CONTROL) end
  if self.code or self._sent then return nil, "closed", self.code or self._sent end
  if self._conn:write(head_of(PING, #data, data)) then return true end
  lost(self)
  return over(self)
end

--- Ends it: says so, and waits a moment for the peer to say it, too. True, or nil and what else: the peer did not.
function Socket:close(code, reason)
  code, reason = code or NORMAL, reason or ""
  if math.type(code) ~= "integer" or not in_frames(code) then bad("ws:close: %s is no code that can be sent", tostring(code)) end
  if type(reason) ~= "string" or #reason > CONTROL - 2 or not is_text(reason) then
    bad("ws:close: a reason is a text of at most %d bytes", CONTROL - 2)
  end
  if self.code then return true end
  send_close(self, code, reason)
  local due = clock() + request.limits.drain
  while not self.code and clock() < due do
    if self._reading then
      self._over:receive(max(0, due - clock()))
    else
      self:receive(max(0, due - clock()))
    end
  end
  if self.code then return true end
  ended(self, self._sent, reason)
  if self._reading then self._conn:shutdown "read" end
  return nil, "timeout"
end

-- ---- the beginning ----

local function refuse(status, message, fields) error(errors.new { kind = "http", status = status, message = message, fields = fields }, 0) end

local function has(list, word)
  for item in (list or ""):gmatch "[^,]+" do
    if item:match "^%s*(.-)%s*$":lower() == word then return true end
  end
end

-- The key, of a request that may become a websocket; otherwise it is answered. Section 4.2.1.
local function key_of(req)
  local fields = req.headers
  if req.method ~= "GET" then refuse(405, "a websocket begins with GET", { Allow = "GET" }) end
  if req.bits & core.OLD ~= 0 or req.bits & core.CHANGES == 0 or not has(fields.upgrade, "websocket") then
    refuse(426, "here is a websocket", { Upgrade = "websocket" })
  end
  if fields["sec-websocket-version"] ~= "13" then
    refuse(426, "the version is 13", { Upgrade = "websocket", ["Sec-WebSocket-Version"] = "13" })
  end
  local key = fields["sec-websocket-key"] or ""
  if #key ~= 24 or not key:find "^[%w+/]+[AQgw]==$" then refuse(400, "the field Sec-WebSocket-Key is 16 bytes in base64") end
  if req.length and req.length > 0 or req.bits & core.IN_CHUNKS ~= 0 then refuse(400, "a request for a websocket has no body") end
  return key
end

-- Is that origin one of ours? "same": the host that was asked. No browser, no origin.
local function check_origin(req, wanted)
  local origin = req.headers.origin
  if not origin or wanted == nil or wanted == "any" then return end
  local fine
  if type(wanted) == "function" then
    fine = wanted(origin, req)
  elseif type(wanted) == "table" then
    for _, one in ipairs(wanted) do fine = fine or one:lower() == origin:lower() end
  elseif wanted == "same" then
    fine = (origin:lower():match "^https?://(.*)$") == (req.headers.host or ""):lower()
  else
    fine = wanted:lower() == origin:lower()
  end
  if not fine then refuse(403, "not for pages of " .. origin) end
end

-- The first of ours that the client offers, too.
local function protocol_of(req, ours)
  for _, name in ipairs(ours or {}) do
    for offered in (req.headers["sec-websocket-protocol"] or ""):gmatch "[^,%s]+" do
      if offered == name then return name end
    end
  end
end

local function seconds(n) if type(n) ~= "number" or n ~= n or n <= 0 then return "a number above 0" end end
local function bytes(n) if math.type(n) ~= "integer" or n < 1 or n > 1 << 39 then return "a whole number from 1 on" end end
local function origins(o)
  if type(o) ~= "string" and type(o) ~= "table" and type(o) ~= "function" then return "a string, a list of them or a function" end
end
local OPTIONS = { origin = origins, protocols = "table", message_bytes = bytes, ping = seconds, fields = "table" }

-- What is left when the handler has ended: the close, if it was not said. The connection ends with it.
local function after(self, req)
  request.state.leaving[self] = nil
  if not self.code then
    self:close(request.state.stopping and LEAVES or req._broken and FAILED or NORMAL)
  end
  req._gone = self.code == LOST
  req._broken = true
end

--- Of a request a websocket. The options are in docs/http.md.
function websocket.open(req, options)
  check(options or {}, OPTIONS, "request:websocket")
  options = options or {}
  if req._began then error("request:websocket: the answer has begun", 3) end
  local key = key_of(req)
  check_origin(req, options.origin == nil and "same" or options.origin)
  local protocol = protocol_of(req, options.protocols)
  local fields = { Upgrade = "websocket", ["Sec-WebSocket-Accept"] = frames.accept(key), ["Sec-WebSocket-Protocol"] = protocol }
  for name, value in pairs(options.fields or {}) do fields[name] = value end
  local head = core.head(101, core.KEEP, nil, nil, fields)
  req._began, req.status, req.bits = true, 101, req.bits & ~core.KEEP
  local self = setmetatable({ code = false, reason = false, protocol = protocol or false, request = req, _conn = req.connection, _sent = false,
    _over = channel.new(), _parts = false, _size = 0, _most = options.message_bytes or request.limits.body_bytes,
    _due = false, _ping = options.ping or 30, _heard = clock(), _asked = false, _reading = false, _turn = 0 }, Socket)
  req._after = function() after(self, req) end
  request.state.leaving[self] = function() self:close(LEAVES, "the server stops") end
  if not req.connection:write(head) then lost(self) end
  return self
end

return websocket
