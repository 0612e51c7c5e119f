-- connection: a stream of GIOP messages over a socket, with or without TLS.
--
-- One fiber receives, any number of fibers send: what one call of send writes stays together. Fragments are put together here, so what is
-- received is always a whole message, in 1.2 also those whose fragments come interleaved. What a peer may make us keep is bounded:
-- `limits.message` bytes of one message, `limits.pending` bytes of messages that are not complete, headers included, `limits.unfinished` of
-- them at once; and pieces so small that their strings would take much more than they hold are taken for what they are. What a peer may make us do is
-- bounded by turns: who sends pieces without a pause holds up no other fiber, and no time limit.
--
-- After bytes that are no GIOP a MessageError has been sent when receive returns; the owner closes. Nothing is ever sent in fragments.
local mare = require "mare"
local core = require "mare.orb.giop.core"
local codesets = require "mare.orb.giop.codesets"

local take, parse, join, clock, yield = core.take, core.parse, core.join, mare.clock, mare.fiber.yield
local REQUEST, CANCEL, FRAGMENT = 0, 2, 7
local FOREVER = math.huge
local TURN = 256                                  -- pieces
local MANY, SMALL = 1000, 64                      -- so many pieces of a message may be small; more have so many bytes each, on average

local connection = { limits = { message = 64 << 20, pending = 64 << 20, unfinished = 64 } }

local Connection = {}
Connection.__index = Connection

-- connection.new(socket, { role = "client" | "server", limits = { … }, tap = function(direction, bytes), native = code set }) -> connection
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
    codec = silent,                 -- 8: char as it is, 16: wide is UTF-16, 32: we are the server, 128: char from ISO 8859-1; see mare.orb.cdr
    bits = 2 << 1,                  -- byte order and version of the last message that came
    limit = limits.message or connection.limits.message,
    most_pending = limits.pending or connection.limits.pending,
    most_unfinished = limits.unfinished or connection.limits.unfinished,
    tap = options and options.tap,
    unfinished = false,             -- id (or true in 1.1) -> pieces, with `size` and `bits`
    nunfinished = 0, pending = 0,
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
end

-- Another piece is kept, if that is within the limits: true | nil, message, code.
local function keep(self, pieces, message)
  pieces.size = pieces.size + #message
  self.pending = self.pending + #message
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
  local pieces = { size = 0, bits = bits }
  self.unfinished[id] = pieces
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
  forget(self, id)
  return join(pieces)
end

-- A request's code sets hold from here on; a cancelled request's fragments end.
local function note(self, type, bits, id, contexts)
  if type == CANCEL then
    if self.unfinished then forget(self, bits >> 1 == 2 and id or true) end
    return
  end
  local data = contexts and contexts[codesets.CONTEXT]
  if not data then return end
  local chosen, err = codesets.accept(data, self.native)
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

-- connection:receive([seconds]) -> message, type, bits, and what core.parse gives of such a message behind `more` | nil, message, code
-- Codes: those of sockets; "EPROTO" and "EMSGSIZE" for what a peer must not send.
-- All is in fixed places, with nil behind what there is: passing on a varying number of values costs more than some of them.
function Connection:receive(seconds)
  local deadline = seconds and seconds < FOREVER and clock() + seconds
  local turns = 0
  while true do
    local message, type, bits, more, id, a, b, c, d, e, f = take(self.socket, self.limit, seconds)
    if not message then
      if bits == "EPROTO" or bits == "EMSGSIZE" then return refuse(self, type, bits) end
      return nil, type, bits
    end
    if self.tap then self.tap("in", tostring(message)) end
    if more and type or type == FRAGMENT then
      local whole, err, code = piece(self, message, type, bits, more, id)
      if whole == nil then return refuse(self, err, code) end
      message = whole
      if message then type, bits, more, id, a, b, c, d, e, f = parse(message) end
    end
    if message then
      if not type then return refuse(self, ("what came is no GIOP message: %s at offset %d"):format(bits, more), "EPROTO") end
      self.bits = bits
      if e or type == CANCEL then note(self, type, bits, id, type == REQUEST and e) end
      return message, type, bits, id, a, b, c, d, e, f
    end
    if deadline then
      seconds = deadline - clock()
      if seconds <= 0 then return nil, "timeout", "ETIMEDOUT" end
    end
    turns = turns + 1
    if turns == TURN then
      turns = 0
      yield()
    end
  end
end

-- connection:contexts([component]) -> service contexts | nil
-- Those that go with the request that is written next, which must be sent before anything else can be. `component` is the TAG_CODE_SETS of the
-- reference it is for. Code sets are chosen once for a connection.
function Connection:contexts(component)
  if self.chosen or not component then return nil end
  self.chosen = true
  local data, bits = codesets.choose(component, self.native)
  if not data then return nil end
  self.codec = (self.server and 32 or 0) | bits
  return { { codesets.CONTEXT, data } }
end

-- connection:goodbye() -> as send: says that no more requests are answered, all that were read have been.
function Connection:goodbye()
  return self:send(core.close(self.bits >> 1, self.bits & 1))
end

-- connection:close([seconds]) -> as the socket's close
function Connection:close(seconds)
  if self.tap then self.tap "end" end
  return self.socket:close(seconds)
end

connection.send, connection.receive = Connection.send, Connection.receive     -- for those who call them often

return connection
