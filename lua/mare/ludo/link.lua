--[[
mare.ludo.link: a client's connection to a server, for all proxies of a broker that lead there.

Nobody reads from it but who waits for a reply: the first is the *leader*; others are *followers*, each parked on a channel of its own. The
leader hands what is not his to its follower, and when he leaves, however that comes, one of these leads. So a lone caller reads its reply
itself, and a connection that waits for nothing has no fiber.

Invariants: link.waiting[id] are the followers, link.count how many; if there is one, somebody leads. A reply that nobody waits for is dropped. A
link that is dead is in no table, its socket is closed, and all followers were told.
]]
local mare = require "mare"
local net = require "mare.net"
local tls = require "mare.tls"
local core = require "mare.ludo.core"

local channel, clock = mare.channel, mare.clock
local receive, head = core.receive, core.head
local REPLY, RAISED, CANCEL, CLOSE = core.REPLY, core.RAISED, core.CANCEL, core.CLOSE
local HELLO, FOREVER, LAST_ID = "LuDO\1\0\0\0", math.huge, 0xffffffff      -- version 1.0, two zeros
local HANDSHAKE, CONNECT = 10, 30                -- seconds

local link, waiter = {}, {}
link.__index = link
link.HELLO = HELLO

local function remaining(deadline)
  local left = deadline - clock()
  return left > 0 and left or 0
end

local function tell(w, what)
  if not pcall(w.channel.try_send, w.channel, what) then w.channel:close() end
end

local function leave(self)
  self.leader = false
  local _, w = next(self.waiting)
  if not w then return end
  self.leader = w
  tell(w, "lead")
end

--- It is over; why: "again" if the server did not touch what is unanswered, else "lost" or "large".
function link:fail(why, text)
  if self.dead then return end
  self.dead, self.text = why, text
  if self.links[self.address] == self then self.links[self.address] = nil end
  self.socket:close(0)
  local waiting = self.waiting
  self.waiting, self.count = {}, 0
  for _, w in next, waiting do
    w.failed = why
    w.channel:close()
  end
end

-- Nobody wants that reply any more. A server that reads nothing is not waited for.
local function cancel(self, id)
  if self.dead then return end
  self.socket:timeout(0)
  local ok, _, _, sent = self.socket:write(core.message(CANCEL, id, self.world))
  if not ok and (sent or 0) > 0 then self:fail("lost", "a cancellation could not be written whole") end
end

-- The link is a to-be-closed variable of its leader, here and in src/module/ludo_call.c.
-- Without memory, not even for a call, whoever calls next leads.
function link.__close(self, err)
  self.leader = false
  if self.dead then return end
  leave(self)
  if err ~= nil then pcall(cancel, self, self.leading) end
end

local function deliver(self, id, message)
  local w = self.waiting[id]
  if not w then return end
  self.waiting[id] = nil
  self.count = self.count - 1
  w.message = message
  tell(w, "reply")
end

-- The server's first bytes. False: it has failed.
local function greet(self, seconds)
  local hello, err, code = self.socket:read(#HELLO, seconds)
  if hello and hello:sub(1, 5) == HELLO:sub(1, 5) and #hello == #HELLO then
    self.greeted = true
    return true
  end
  if hello then
    self:fail("alien", hello:sub(1, 4) == "LuDO" and ("it speaks version %d of LuDO, not 1"):format(hello:byte(5) or 0) or "it does not speak LuDO")
  elseif code == "EOF" or code == "ECONNRESET" then    -- a server of LuDO says so before it reads a request
    self:fail("alien", "the server closed the connection without a word: it does not speak LuDO, or refuses this client")
  elseif code then
    self:fail("lost", err)
  end
  return false
end

local function take(self, id, message)
  local kind, from = head(message)
  if kind == REPLY or kind == RAISED then
    if from == id then return message end
    deliver(self, from, message)
  elseif kind == CLOSE then
    self:fail("again", "the server closed the connection")
  else
    self:fail("lost", "the server sent what is no reply")
  end
end

-- Reads until the reply to `id` has come: it | nil, "timeout" or why the link is dead.
local function lead(self, id, deadline)
  local guard <close> = self                     -- luacheck: ignore guard
  self.leader, self.leading = true, id
  while true do
    local seconds = deadline and remaining(deadline) or FOREVER
    if self.greeted or greet(self, seconds) then
      local message, err, code = receive(self.socket, self.limit, seconds)
      if message then
        message = take(self, id, message)
        if message then return message end
      elseif code then
        self:fail(code == "EMSGSIZE" and "large" or "lost", code == "EOF" and "the server closed the connection without a word" or err)
      end
    end
    if self.dead then return nil, self.dead end
    if deadline and clock() >= deadline then return nil, "timeout" end
  end
end

function waiter.__close(w, err)
  local self = w.link
  if self.waiting[w.id] == w then
    self.waiting[w.id] = nil
    self.count = self.count - 1
  end
  if self.leader == w and not self.dead and not w.leads then leave(self) end
  if err ~= nil and not w.message then cancel(self, w.id) end
end

local function follow(self, id, deadline)
  local w <close> = setmetatable({ link = self, id = id, channel = channel.new(2), leads = false }, waiter)
  self.waiting[id] = w
  self.count = self.count + 1
  w.channel:receive(deadline and remaining(deadline) or nil)
  if w.message then return w.message end
  if w.failed then return nil, w.failed end
  if self.leader ~= w then return nil, "timeout" end
  self.waiting[id] = nil
  self.count = self.count - 1
  w.leads = true
  return lead(self, id, deadline)
end

--- An id for the next request: never one whose reply may still come.
function link:fresh()
  local id = self.id
  repeat id = id < LAST_ID and id + 1 or 1 until not self.waiting[id]
  self.id = id
  return id
end

-- Half a message is in the stream: nothing can follow it.
local writing = {}
function writing.__close(w)
  if not w.over then w.link:fail("lost", "who wrote a request was cancelled") end
end

-- true | nil, why not
local function write(self, message, deadline, before)
  local ok, err, code, sent
  self.socket:timeout(deadline and remaining(deadline) or FOREVER)
  do
    local guard <close> = setmetatable({ link = self, over = false }, writing)
    ok, err, code, sent = self.socket:write(message)
    guard.over = true
  end
  if ok then return true end
  if not code and before + (sent or 0) == 0 then return nil, "unsent" end
  self:fail("lost", code and err or "a request could not be written in time")
  return nil, (code and (sent or 0) < #message) and "again" or "unsent"
end

--- Waits for the reply to a request that was written, but for `rest`, behind `sent` bytes.
--- -> the reply | nil, "again" (it was not processed), "lost", "large", "alien", "timeout", "unsent"
function link:await(id, deadline, rest, sent)
  if rest then
    local ok, why = write(self, rest, deadline, sent)
    if not ok then return nil, why end
  end
  local reply, why
  if self.dead then return nil, self.dead end
  if self.leader then reply, why = follow(self, id, deadline) else reply, why = lead(self, id, deadline) end
  if why == "timeout" then cancel(self, id) end
  return reply, why
end

--- Writes a request and waits for its reply.
function link:exchange(id, message, deadline)
  self.used = clock()
  return self:await(id, deadline, message, 0)
end

--- Is it as it was? Servers close idle connections, and say so: that is read here, and so is what went wrong with the end of a call that nobody
--- waits for any more. An ordinary call, soon after another one, asks nothing of this (ludo_call.c).
function link:alive()
  if self.dead then return false end
  if self.leader or not self.greeted then return true end
  while not self.dead do
    local message, err, code = receive(self.socket, self.limit, 0)
    if message then take(self, -1, message)
    elseif code then self:fail("lost", err)
    else break end
  end
  return not self.dead
end

local function secure(broker, conn, host, seconds)
  local own = broker.options.tls or {}
  local name = own.hostname
  if name == nil then name = host end
  return tls.client(conn, { context = broker:context(), server = name or nil, timeout = math.min(seconds or HANDSHAKE, HANDSHAKE) })
end

--- The broker's link to an address: it | nil, why not.
function link.to(broker, host, port, secured, deadline)
  local address = (secured and "tls %s %d" or "%s %d"):format(host, port)
  local found = broker.links[address]
  if found and found:alive() then return found end
  local conn, err, code = net.connect(host, port, { timeout = deadline and remaining(deadline) or CONNECT })
  if conn and secured then conn, err, code = secure(broker, conn, host, deadline and remaining(deadline)) end
  if not conn then return nil, err:find(host, 1, true) and err or ("%s:%d: %s"):format(host, port, err), code end
  found = broker.links[address]
  if found and not found.dead then             -- somebody else was quicker
    conn:close(0)
    return found
  end
  local self = setmetatable({ address = address, links = broker.links, socket = conn, limit = broker.limits.message, world = broker.world, id = 0,
                              waiting = {}, count = 0, leader = false, leading = 0, greeted = false, dead = false, used = clock() }, link)
  conn:timeout(FOREVER)
  local ok
  ok, err = conn:write(HELLO)
  if not ok then
    conn:close(0)
    return nil, ("%s:%d: %s"):format(host, port, err)
  end
  broker.links[address] = self
  return self
end

return link
