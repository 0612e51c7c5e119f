-- connection: a stream of GIOP messages over a socket, with or without TLS.
--
-- One fiber receives, any number of fibers send: what one call of send writes stays together. Fragments are put together here, so what is
-- received is always a whole message, in 1.2 also those whose fragments come interleaved. What a peer may make us keep is bounded:
-- `limits.message` bytes of one message, `limits.pending` bytes of messages that are not complete, headers included, `limits.unfinished` of
-- them at once; and pieces so small that their strings would take much more than they hold are taken for what they are. What a peer may make us do is
-- bounded by turns: who sends pieces without a pause holds up no other fiber, and no time limit.
--
-- With a purse (see mare.orb.budget) whatever is longer than ROOM is read when there is room for it, pieces are kept when there is; until then the
-- peer's bytes stay in its socket. What has begun must arrive in time, or what it holds would be held for ever: `arrive` seconds, and one more
-- for each 64 KiB.
--
-- After bytes that are no GIOP a MessageError has been sent when receive returns; the owner closes. Nothing is ever sent in fragments.
local mare = require "mare"
local core = require "mare.orb.giop.core"
local codesets = require "mare.orb.giop.codesets"

local take, parse, join, clock, yield = core.take, core.parse, core.join, mare.clock, mare.fiber.yield
local remaining, sleep = mare.process.remaining, mare.sleep
local REQUEST, CANCEL, FRAGMENT = core.REQUEST, core.CANCEL, core.FRAGMENT
local FOREVER = math.huge
local TURN = 256                                  -- pieces
local ROOM, PACE = 1 << 16, 1 << 16              -- bytes that are read before anybody asks; bytes a second
local LOOK, MOMENT = 5, 1e-9                      -- seconds
local MANY, SMALL = 1000, 64                      -- so many pieces of a message may be small; more have so many bytes each, on average

local connection = { limits = { message = 64 << 20, pending = 64 << 20, unfinished = 64, arrive = 60 } }

local Connection = {}
Connection.__index = Connection

-- connection.new(socket, { role = "client" | "server", limits = { … }, tap = function(direction, bytes), native = code set,
--                            codeset = code set, purse = of mare.orb.budget }) -> connection
-- `tap` sees every message whole as it goes "out", and every piece as it comes "in".
function connection.new(socket, options)
  local limits = options and options.limits or connection.limits
  local server, native = options and options.role == "server" or false, options and options.native
  local silent = codesets.silent(native) | (server and 32 or 0)
  return setmetatable({
    socket = socket,
    write = socket.write,           -- its method: looked up once
    server = server,
    native = native,                -- the program's code set, nil: UTF-8
    wish = options and options.codeset,   -- that which is chosen where the peer can, as a server what its references name first; or nil
    codec = silent,                 -- 8: char as it is, 16: wide is UTF-16, 32: we are the server, 128: char from ISO 8859-1, …; see mare.orb.cdr
    bits = 2 << 1,                  -- byte order and version of the last message that came
    limit = limits.message or connection.limits.message,
    most_pending = limits.pending or connection.limits.pending,
    most_unfinished = limits.unfinished or connection.limits.unfinished,
    tap = options and options.tap,
    unfinished = false,             -- id (or true in 1.1) -> pieces, with `size` and `bits`
    nunfinished = 0, pending = 0,
    purse = options and options.purse or false,
    arrive = limits.arrive or connection.limits.arrive,
    room = options and options.purse and ROOM or nil,   -- bytes of a message that may be read now
    asked = 0, due = FOREVER,       -- bytes of the message that is being read which count already; when it must be here
    look = 0,                       -- when to look again whether what has begun to come is late
    passed = 0,                     -- bytes that count of the message that was given out: who takes it in charge sets this to 0
  }, Connection)
end

-- connection:send(message) -> true | nil, message, code, bytes that were sent
-- A long message may be a list of three pieces, as programs make them.
function Connection:send(message)
  if self.tap then self.tap("out", tostring(message)) end
  if type(message) == "table" then return self.write(self.socket, message[1], message[2], message[3]) end
  return self.write(self.socket, message)
end

-- Says what was not understood, in the highest version there is, but doesn't wait long for a peer that doesn't read.
local function refuse(self, err, code)
  if not self.refused then
    self.refused = true
    self.socket:timeout(1)
    self:send(core.error(2, true))
  end
  return nil, err, code
end

local function forget(self, id)
  local pieces = self.unfinished and self.unfinished[id]
  if not pieces then return end
  self.unfinished[id] = nil
  self.nunfinished = self.nunfinished - 1
  self.pending = self.pending - pieces.size
  if self.purse then self.purse:piece(-pieces.size) end
  return pieces.size
end

-- The message that was given out is nobody's charge.
local function release(self)
  local n = self.passed
  self.passed = 0
  self.purse:refund(n)
end

-- Another piece is kept, if that is within the limits: true | nil, message, code.
local function keep(self, pieces, message)
  local size = #message
  if self.passed > 0 then self.passed = 0        -- it was asked for, so it counts already
  elseif self.purse then self.purse:keep(size) end
  pieces.size = pieces.size + size
  self.pending = self.pending + size
  if pieces.size > self.limit then return nil, ("a message in fragments grew beyond the limit of %d bytes"):format(self.limit), "EMSGSIZE" end
  if self.pending > self.most_pending then
    return nil, ("unfinished messages grew beyond the limit of %d bytes"):format(self.most_pending), "EMSGSIZE"
  end
  local n = #pieces + 1
  if n > MANY and pieces.size < n * SMALL then
    return nil, ("a message in more than %d pieces of less than %d bytes"):format(n - 1, SMALL), "EMSGSIZE"
  end
  pieces[n] = message
  return true
end

-- In 1.2 alignment goes on over the pieces, so all but the last must end where eight bytes end.
local function odd(bits, more, message)
  if bits >> 1 == 2 and more and #message % 8 ~= 0 then
    return ("a fragment that is not the last has %d bytes, which is no multiple of 8"):format(#message)
  end
end

local function begin(self, id, bits, message)
  self.unfinished = self.unfinished or {}
  if self.unfinished[id] then return nil, ("message %s begins while its fragments are expected"):format(id), "EPROTO" end
  if self.nunfinished >= self.most_unfinished then
    return nil, ("more than %d messages in fragments at once"):format(self.most_unfinished), "EMSGSIZE"
  end
  local pieces = { size = 0, bits = bits, due = self.purse and clock() + self.arrive or FOREVER }
  self.unfinished[id] = pieces
  if self.purse then self.look = math.min(self.look, pieces.due) end
  self.nunfinished = self.nunfinished + 1
  return keep(self, pieces, message)
end

-- A fragment: false if more are to come, the whole message after the last | nil, message, code.
local function continue(self, id, bits, more, message)
  local pieces = self.unfinished and self.unfinished[id]
  if not pieces then return nil, "a fragment of no message", "EPROTO" end
  if pieces.bits ~= bits then return nil, "a fragment in another version or byte order than its message", "EPROTO" end
  local ok, err, code = keep(self, pieces, message)
  if not ok then return nil, err, code end
  if more then return false end
  local size = forget(self, id)
  if self.purse then self.passed = size end
  return join(pieces)
end

-- A request's code sets hold from here on; a cancelled request's fragments end.
local function note(self, type, bits, id, contexts)
  if type == CANCEL then
    local n = self.unfinished and forget(self, bits >> 1 == 2 and id or true)
    if n and self.purse then self.purse:refund(n) end
    return
  end
  local data = contexts and contexts[codesets.CONTEXT]
  if not data then return end
  local chosen, err = codesets.accept(data, self.native, self.wish)
  self.incompatible = err                        -- why the request must be answered with CODESET_INCOMPATIBLE
  if chosen then self.codec = (self.server and 32 or 0) | chosen end
end

-- A piece of a message: the whole message if it was the last | false | nil, message, code.
local function piece(self, message, type, bits, more, id)
  local err = odd(bits, more, message)
  if err then return nil, err, "EPROTO" end
  if type == FRAGMENT then return continue(self, id or true, bits, more, message) end
  local ok, code
  ok, err, code = begin(self, id or true, bits, message)
  return ok and false, err, code
end

-- What is at the front of the stream is longer than what is read without asking: waits for room for it, and its bytes begin to come.
local function ask(self, size, seconds)
  local ok, err, code = self.purse:want(size, core.partial(self.socket), seconds)
  if not ok then return nil, err, code end
  local now = clock()
  self.asked, self.room, self.due, self.look = size, size, now + self.arrive + size / PACE, now + math.min(LOOK, self.arrive)
  return true
end

-- Something has begun to come. It goes on when there is room for what is here of it, and must not be late.
-- -> seconds until it is, or `seconds` if that is less | nil, message, code
local function patience(self, seconds)
  local first, now = self.due, clock()
  for _, pieces in pairs(self.unfinished or {}) do first = math.min(first, pieces.due + pieces.size / PACE) end
  if now > first then return refuse(self, "a message did not arrive in time", "EPROTO") end
  if self.asked == 0 then
    local ok, err, code = self.purse:want(0, true, seconds)
    if not ok then return nil, err, code end
  end
  self.look = math.min(first + 0.001, now + LOOK)
  return math.min(seconds or FOREVER, self.look - now)
end

-- Nothing was read. -> true to go on | nil, message, code
local function unread(self, what, code, seconds, late_first)
  if code == "ENOBUFS" then return ask(self, what, seconds) end
  if code == "EPROTO" or code == "EMSGSIZE" then return refuse(self, what, code) end
  if what == "timeout" and late_first then return true end
  return nil, what, code
end

-- A message, or a piece of one, has come.
local function arrived(self)
  self.passed = self.asked
  self.asked, self.room, self.due = 0, ROOM, FOREVER
end

-- connection.turn(): others get their turn, of a fiber that never waits as bytes never cease. A deadline that is over ends it here, unless it
-- is masked.
function connection.turn()
  yield()
  if remaining() == 0 then sleep(MOMENT) end
end

local turn = connection.turn

-- connection:receive([seconds]) -> message, type, bits, and what core.parse gives of such a message behind `more` | nil, message, code
-- Codes: those of sockets; "EPROTO" and "EMSGSIZE" for what a peer must not send.
-- All is in fixed places, with nil behind what there is: passing on a varying number of values costs more than some of them.
function Connection:receive(seconds)
  local deadline = seconds and seconds < FOREVER and clock() + seconds
  local turns = 0
  if self.passed > 0 then release(self) end
  while true do
    local wait = seconds
    if self.purse and (self.asked > 0 or self.nunfinished > 0) then
      local left = self.look - clock()
      if left > 0 and not self.purse:crowded() then
        if not wait or wait > left then wait = left end
      else
        local err, code
        wait, err, code = patience(self, seconds)
        if not wait then return nil, err, code end
      end
    end
    local message, type, bits, more, id, a, b, c, d, e, f = take(self.socket, self.limit, wait, self.room)
    if not message then
      local on, err, code = unread(self, type, bits, seconds, wait ~= seconds)
      if not on then return nil, err, code end
    else
      if self.asked > 0 then arrived(self) end
      if self.tap then self.tap("in", tostring(message)) end
      if more and type or type == FRAGMENT then
        local whole, err, code = piece(self, message, type, bits, more, id)
        if whole == nil then return refuse(self, err, code) end
        message = whole
        if message then type, bits, more, id, a, b, c, d, e, f = parse(message) end
      end
    end
    if message then
      if not type then return refuse(self, ("what came is no GIOP message: %s at offset %d"):format(bits, more), "EPROTO") end
      self.bits = bits
      if e or type == CANCEL then note(self, type, bits, id, type == REQUEST and e) end
      if self.passed > 0 and not self.server then release(self) end
      return message, type, bits, id, a, b, c, d, e, f
    end
    if deadline then
      seconds = deadline - clock()
      if seconds <= 0 then return nil, "timeout" end
    end
    turns = turns + 1
    if turns == TURN then
      turns = 0
      turn()
    end
  end
end

-- connection:contexts([component[, kin]]) -> service contexts | nil
-- Those that go with the request that is written next, which must be sent before anything else can be. `component` is the TAG_CODE_SETS of the
-- reference it is for; kin: that is one of mare's. Code sets are chosen once for a connection.
function Connection:contexts(component, kin)
  if self.chosen or not component then return nil end
  self.chosen = true
  local data, bits = codesets.choose(component, self.native, self.wish or kin and (self.native or codesets.UTF8))
  if not data then return nil end
  self.codec = (self.server and 32 or 0) | bits
  return { { codesets.CONTEXT, data } }
end

-- connection:leave(): nothing of what has not all come is kept, or counts, any more. -> bytes of it
function Connection:leave()
  local n = self.pending + self.asked + self.passed
  self.purse:piece(-self.pending)
  self.purse:refund(n)
  self.unfinished, self.nunfinished, self.pending, self.asked, self.passed = false, 0, 0, 0, 0
  return n
end

-- connection:goodbye() -> as send: says that no more requests are answered, all that were read have been.
function Connection:goodbye()
  return self:send(core.close(self.bits >> 1, self.bits & 1))
end

-- connection:close([seconds]) -> as the socket's close
function Connection:close(seconds)
  if self.purse then self:leave() end
  if self.tap then self.tap "end" end
  return self.socket:close(seconds)
end

connection.send, connection.receive = Connection.send, Connection.receive     -- for those who call them often

return connection
