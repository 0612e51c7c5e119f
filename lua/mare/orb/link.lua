--[[
mare.orb.link: one of the client's connections.

One connection to an address serves all proxies of a broker and all fibers that call through them. A link is such a connection. Nobody
reads from it but who waits for a reply: the first to wait is the *leader* and reads; the others are *followers*, each parked on a channel of its
own. The leader hands what is not his to its follower, and when he leaves, with his reply or by an error, a timeout or a cancellation, one of the
followers becomes the leader. What ends a fiber, and a deadline, is an error where it waits, so for a link these are one case: its guards see it.
So a lone caller reads its reply itself, and no fiber exists for a connection that waits for nothing.

Invariants:
  - link.leader is true while a fiber reads, the waiter that was told to while it has not begun, else false. If anybody waits there is a leader.
  - link.waiting[id] are the followers; link.count is how many. An id that is in neither, a late reply's, is dropped.
  - a link that is over takes no more requests; it is dead at once, or when those who wait have their replies or no more come.
  - a dead link is in no table of the transport, its socket is closed, and all its followers have been woken.
  - between the choice of an id and the end of conn:send nothing else is written for that request.
  - hurried: the socket has the time limit of one write. Whoever writes sets his own, or none, just before: a write that has begun keeps its own.
  - a waiter's channel is told once: who finds it full was told something else just now, and looks at the waiter's fields all the same. Where
    there is no memory to tell it anything it is closed, which needs none.
]]
local mare = require "mare"
local connection = require "mare.orb.giop.connection"
local core = require "mare.orb.giop.core"

local channel, clock, fiber = mare.channel, mare.clock, mare.fiber
local remove = table.remove
local receive = connection.receive

local REPLY, LOCATE_REPLY, CLOSE, ERROR = core.REPLY, core.LOCATE_REPLY, core.CLOSE, core.ERROR
local LAST_ID = 0x7fffffff
local SMALL, MOST_ABANDONED = 8192, 10000
local IDLE = 0.05                                 -- seconds after which a connection is looked at before it is used
local PATIENCE = 2                                -- seconds without a reply after which a connection that can't be written to any more is closed
local FOREVER = math.huge
local GIVEN_UP = "who wrote a request was cancelled, or his deadline was over"
local NO_MEMORY = "not enough memory"              -- Lua's own error
local TURN = 64                                   -- replies that are others', or nobody's, before other fibers get their turn

local write                                       -- the method of connections

-- ---- waiters ----

local waiter = {}

local cancel

-- A follower leaves: with its reply, or because it gave up or was cancelled (err); perhaps it had just been told to lead.
function waiter.__close(w, err)
  local link = w.link
  if link.waiting[w.id] == w then
    link.waiting[w.id] = nil
    link.count = link.count - 1
    if link.count == 0 then link:idled() end
  end
  if link.leader == w then link:leave() end
  if err ~= nil and not w.message then cancel(link, w.id) end
end

local function new_waiter(link)
  local w = remove(link.spare)
  if w then return w end
  return setmetatable({ link = link, channel = channel.new(1) }, waiter)
end

local function remaining(deadline)
  if not deadline then return nil end
  local left = deadline - clock()
  return left > 0 and left or 0
end

-- ---- links ----

local link = {}
link.__index = link

local function tell(w, what)
  if not pcall(w.channel.try_send, w.channel, what) then w.channel:close() end
end

function link.leave(self)
  self.leader = false
  if self.count == 0 then
    if self.over then self:fail("lost", "the connection had ended") end
    return
  end
  local _, w = next(self.waiting)
  self.leader = w
  tell(w, "lead")
end

-- Where there was no memory for a message, nobody knows whose it was.
function link.__close(self, err)
  if err == NO_MEMORY then return self:fail("lost", err) end
  self:leave()
  if err ~= nil then cancel(self, self.leading) end
end

--- The next request id once they begin again: never one whose reply may still come.
function link:fresh()
  local id = self.id
  self.wrapped = self.wrapped or id >= LAST_ID
  repeat
    id = id < LAST_ID and id + 1 or 1
  until not self.waiting[id] and not self.abandoned[id] and self.leading ~= id
  self.id = id
  return id
end

--- Hands a reply to who waits for it.
function link:deliver(id, message, kind, bits, status, at, contexts)
  local w = self.waiting[id]
  if not w then
    self.abandoned[id] = nil
    return
  end
  self.waiting[id] = nil
  self.count = self.count - 1
  w.message, w.kind, w.bits, w.status, w.at, w.contexts = message, kind, bits, status, at, contexts
  tell(w, "reply")
  if self.count == 0 then self:idled() end
end

--- The last follower has his reply, or has left: nothing to do here, see duplex.lua.
function link.idled() end

local deliver = link.deliver

--- All who wait learn why they get no reply. Takes no memory.
function link:wake(why)
  local waiting = self.waiting
  self.count = 0
  for id, w in next, waiting do
    waiting[id] = nil
    w.failed = why
    w.channel:close()
  end
  if self.ended then self.ended:close() end
end

--- The connection is over; why: "again" if the server has not touched what is unanswered, else "lost".
function link:fail(why, text)
  if self.dead then return end
  self.dead, self.over, self.text = why, true, self.text or text
  self.transport:forget(self)
  self.conn:close()                               -- first: who waits for his turn to write must not add to half a message
  self:wake(why)
end

-- Waits for those who wait for replies.
local function patient(self)
  local n
  repeat
    n = self.count
    self.ended:receive(PATIENCE)
  until self.dead or self.count == n
  self:fail("lost", self.text)
end

-- Half a message is in the stream, so nothing can follow it. Who waits may have his reply all the same, as long as such come: they asked before.
local function spoil(self, text)
  if self.over then return end
  self.over, self.text = true, text
  self.transport:forget(self)
  if not self.leader then return self:fail("lost", text) end
  self.ended = channel.new()
  local fine = pcall(fiber.spawn, { name = "orb link", main = patient, args = { self }, daemon = true })
  if not fine then self:fail("lost", text) end
end

-- Writes without waiting. -> as a socket's write
local function say(self, message)
  self.socket:timeout(0)
  self.hurried = true
  return self.conn:send(message)
end

-- What a write would fail with, if it had to begin now: its code, or "timeout" while somebody writes; nil: it would not.
local function state(self)
  self.socket:timeout(0)
  self.hurried = true
  local ok, err, code = self.socket:write("")
  return not ok and (code or err) or nil
end

-- What is no reply; nothing after it can be one.
local function other(self, kind)
  if kind == CLOSE then
    self:fail("again", "the server closed the connection")
  elseif kind == ERROR then
    self:fail("lost", "the server did not understand a message")
  else
    say(self, core.error(self.minor, true))
    self:fail("lost", "the server sent a message of type " .. tostring(kind))
  end
end

local function cut(self, text)
  if self.dead then return end
  self.socket:cut()
  spoil(self, text)
end

-- A fiber holds the turn to write as a variable of this class. If it ends in the middle of a message, the peer has half of one, and nothing more may
-- be written on this connection: the socket is shut then. Who gets the turn next finds that out by its own write; if nobody waits for the turn, we
-- do. (A fiber that was cancelled, and then waits once more, is closed without an error.)
local writing = {}
function writing.__close(w)
  local self = w.link
  if w.over or self.dead then return end
  if w.first or state(self) == "ECANCELED" then cut(self, GIVEN_UP) end
end

-- `first`: what others write is understood only behind this message, so without it nothing is written.
-- -> true | nil, text, code, bytes sent. Small messages don't wait as a rule, so they do without the guard.
local function send(self, message, deadline, first)
  if deadline then
    self.socket:timeout(remaining(deadline))
    self.hurried = true
  elseif self.hurried then
    self.socket:timeout()
    self.hurried = false
  end
  if not deadline and not first and #message <= SMALL then return self.conn:send(message) end
  local guard <close> = setmetatable({ link = self, over = false, first = first }, writing)
  local ok, err, code, sent = self.conn:send(message)
  guard.over = true
  if not ok and (first or (sent or 0) > 0) then cut(self, err == "timeout" and "a request could not be written in time" or err) end
  return ok, err, code, sent
end

local function broken(self, text, code)
  self:fail(code == "EMSGSIZE" and "large" or "lost", code == "EOF" and "the server closed the connection without a word" or text)
end

-- Nobody waits for this reply any more. A server that reads nothing learns nothing: this doesn't wait, for whoever calls it may be ending.
-- Servers that heed it send no reply, so of the ids that are not used again only the last thousands are kept.
function cancel(self, id)
  if self.dead then return end
  if self.nabandoned >= MOST_ABANDONED then self.abandoned, self.nabandoned = {}, 0 end
  self.abandoned[id] = true
  self.nabandoned = self.nabandoned + 1
  local ok, _, _, sent = say(self, core.cancel(self.minor, true, id))
  if not ok and sent and sent > 0 then cut(self, "a cancellation could not be written whole") end
end

-- Reads until the reply to `id` has come.
local function lead(self, id, deadline)
  local guard <close> = self                      -- luacheck: ignore guard
  self.leader, self.leading = true, id
  local conn, turns = self.conn, 0
  while true do
    local message, kind, bits, from, status, at, contexts = receive(conn, deadline and remaining(deadline) or FOREVER)
    if kind == REPLY and from == id then return message, status, at, bits, contexts end
    if kind == REPLY or kind == LOCATE_REPLY then
      if from == id then return message, status, at, bits, contexts end
      deliver(self, from, message, kind, bits, status, at, contexts)
      if deadline and clock() >= deadline then return nil, "timeout" end
      turns = turns + 1
      if turns % TURN == 0 then connection.turn() end
    elseif message then
      other(self, kind)
    elseif kind ~= "timeout" then
      broken(self, kind, bits)
    elseif deadline and clock() >= deadline then
      return nil, "timeout"
    end
    if self.dead then return nil, self.dead end
  end
end

-- Takes a waiter's reply out of it, and keeps the waiter if its channel is empty.
local function taken(self, w, reuse)
  local message, status, at, bits, contexts = w.message, w.status, w.at, w.bits, w.contexts
  w.message, w.contexts = nil, nil
  if reuse and #self.spare < 64 then self.spare[#self.spare + 1] = w end
  return message, status, at, bits, contexts
end

local function follow(self, id, deadline)
  local w = new_waiter(self)
  do
    local guard <close> = w                       -- luacheck: ignore guard
    w.id = id
    self.waiting[id] = w
    self.count = self.count + 1
    local what, closed = w.channel:receive(remaining(deadline))
    if w.message then return taken(self, w, what == "reply") end
    if w.failed then return nil, w.failed end
    if what ~= "lead" and not (closed == "closed" and self.leader == w) then return nil, "timeout" end
    self.waiting[id] = nil
    self.count = self.count - 1
    self.leader = true
    if what == "lead" then self.spare[#self.spare + 1] = w end
  end
  return lead(self, id, deadline)
end

-- A message could not be written whole, so its receiver can't act on it. What the server said before it left decides nothing for this
-- request, but there may be replies for others: who reads will find them.
local function unsent(self, text, code, sent)
  if text == "timeout" then return nil, "unsent" end
  if code == "ECANCELED" then spoil(self, GIVEN_UP) end
  if (code == "ECANCELED" or code == "EBADF") and (sent or 0) == 0 then return nil, "turned" end
  self.over = true
  self.transport:forget(self)
  if not self.leader then self:fail("lost", text) end
  return nil, "again"
end

-- The request is written.
local function await(self, id, deadline)
  if self.dead then return nil, self.dead end
  local reply, status, at, bits, contexts
  if self.leader then
    reply, status, at, bits, contexts = follow(self, id, deadline)
  else
    reply, status, at, bits, contexts = lead(self, id, deadline)
  end
  if status == "timeout" then cancel(self, id) end
  return reply, status, at, bits, contexts
end

--- Sends a request and waits for its reply: message, status, where its body begins, bits of the codec, contexts
--- | nil, "again" (not processed, may be sent again), "turned" (not a byte of it went out, as others have ended the connection), "lost" (maybe
--- processed), "large" (lost, as the reply is larger than allowed), "timeout" or "unsent" (the time was over before it was written).
--- `first`: it says with which code sets all others are written.
function link:exchange(id, message, deadline, first)
  local ok, err, code, sent
  if deadline or first or self.hurried or self.tap or #message > SMALL then ok, err, code, sent = send(self, message, deadline, first)
  else ok, err, code, sent = write(self.socket, message) end
  if not ok then return unsent(self, err, code, sent) end
  return await(self, id, deadline)
end

--- The rest of exchange, whose beginning src/module/orb_call.c has made: waits for the reply, having written what is left of the request, if there is
--- something left. `sent`: so many bytes of it went before.
function link:resume(id, rest, sent, deadline)
  if rest then
    local ok, err, code, more = send(self, rest, deadline, sent > 0)
    if not ok then return unsent(self, err, code, sent + (more or 0)) end
  end
  return await(self, id, deadline)
end

--- Sends what has no reply. -> true | nil, "again", "turned", "unsent"
function link:post(message, deadline, first)
  local ok, err, code, sent = send(self, message, deadline, first)
  if not ok then return unsent(self, err, code, sent) end
  return true
end

--- Closes it if nobody has used it since a moment; else: when it was used last.
function link:expire(since)
  if self.used > since then return self.used end
  if self.leader or state(self) == "timeout" then
    self.used = clock()
    return self.used
  end
  self:fail("lost", "the connection was closed, as nobody used it")
end

--- Is it as it was? Servers close connections that are idle for long, and say so: that is read here. Doesn't wait, and doesn't listen for long.
function link:alive()
  for _ = 1, TURN do
    if self.dead or self.leader then break end
    local message, kind, bits, from = self.conn:receive(0)
    if not message then
      if kind == "timeout" then break end
      broken(self, kind, bits)
    elseif kind == REPLY or kind == LOCATE_REPLY then
      self.abandoned[from] = nil
    else
      other(self, kind)
    end
  end
  return not self.dead
end

--- A link over a connection that has just been made; `transport` forgets it when it is dead.
function link.new(transport, address, conn, minor)
  write = conn.write
  return setmetatable({
    transport = transport, address = address, conn = conn, socket = conn.socket, tap = conn.tap or false, minor = minor,
    id = 0, waiting = {}, count = 0, abandoned = {}, nabandoned = 0, spare = {}, used = clock(),
    -- All others are here, too, so that setting one takes no memory.
    dead = false, over = false, text = false, leader = false, leading = false, hurried = false, ended = false, offer = false,
  }, link)
end

link.IDLE, link.LAST_ID, link.remaining = IDLE, LAST_ID, remaining
return link
