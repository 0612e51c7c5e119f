--[[
mare.orb.leader: the fibers of a pool of connections. `self` is the pool; pool.lua says what jobs and peers are.

One fiber reads from a connection: its *leader*. What it reads it serves itself; should it have to wait meanwhile, in the servant or for the
socket, a fiber of the pool takes the lead (fiber.relief). So a request that doesn't wait costs no switch of fibers, its parts stay in
local variables, and a servant that waits holds up nobody. A fiber that has served and leads nothing any more *rests* in the pool until
it is given a connection; so none is made or ended in the steady state.
]]
local fiber = require "mare".fiber
local core = require "mare.orb.giop.core"
local straight = require "mare.orb.core"
local connection = require "mare.orb.giop.connection"
local peers = require "mare.orb.peer"

local relief = fiber.relief
local serve, SERVED, REPLIED, FAILED, LATE = straight.serve, 1, 2, 3, 4        -- see src/module/orb_serve.c
local send, receive = connection.send, connection.receive
local drop, settle, part = peers.drop, peers.settle, peers.part
local REQUEST, REPLY, CANCEL, CLOSE, ERROR = core.REQUEST, core.REPLY, core.CANCEL, core.CLOSE, core.ERROR
local LOCATE, LOCATED = core.LOCATE_REQUEST, core.LOCATE_REPLY
local KEY_ADDRESS = "\0\0"
local ANSWERED = -1                              -- no request's id
local COST = 4096                                -- bytes that a request takes beside its message
local TURN = 64                                  -- messages of one connection before others get their turn, if none of them waited

----------------------------------------------------------------------------------------------------------------- fibers

local life
local Job = {}

-- The fiber ends, or has been told to.
local function forget(self, job)
  self.fibers = self.fibers - 1
  self.jobs[job.fiber] = nil
end

-- Gives a connection to a fiber that will lead it.
local function lend(self, peer)
  local resting = self.resting
  local n = #resting
  local job = resting[n]
  if job then
    resting[n] = nil
    job.peer = peer
    job.fiber:wake()
  else
    job = setmetatable({ pool = self, peer = peer, id = false, slot = 0, size = 0, cancelled = false, over = false, response = 0, codec = 0,
                         phase = 0, silent = false, call = false, key = false, operation = false, info = false,
                         told = false }, Job)                  -- serve finds them all
    self.fibers = self.fibers + 1
    job.fiber = fiber.spawn(life, self, job)
    self.jobs[job.fiber] = job
  end
end

-- From here on a wait of the calling fiber lets another one lead. The standby is used up when that happened: then it doesn't rest any more.
-- False: there was none, another fiber has been given the connection.
local function arm(self, peer)
  local standby = self.standby
  if standby and relief(standby.fiber) then
    standby.peer = peer
    return true
  end
  local resting = self.resting
  local n = #resting
  standby = resting[n]
  if not standby then
    lend(self, peer)
    return false
  end
  resting[n] = nil
  self.standby = standby
  standby.peer = peer
  return relief(standby.fiber)
end

-- Waits for a connection: true, or false when the fiber is to end.
local function rest(self, job)
  local resting = self.resting
  if self.standby == job then self.standby = nil end   -- it was used: now it is one of those that rest, or none
  if self.stopped or #resting >= self.limits.resting then return false end
  resting[#resting + 1] = job
  job.peer = nil
  fiber.rest()
  return job.peer ~= nil and not self.stopped
end

---------------------------------------------------------------------------------------------------------------- requests

local function leave(job, peer)
  local n, slot = peer.n, job.slot
  if n == 0 then return end                      -- its connection was given up with all that was in progress
  peer.purse:refund(job.size)
  if n == 1 and not job.pool.peers[peer] then peer.purse:close() end
  local last = peer[n]
  peer[slot] = last
  last.slot = slot
  peer[n] = nil
  peer.n = n - 1
  if job.pool.left then job.pool.left() end      -- somebody waits for the end of requests: poa/tree.lua
end

-- The client doesn't want the reply any more. Its fiber ends wherever it waits; it is forgotten here, as it may end without a word.
local function cancel(self, peer, id)
  for i = 1, peer.n do
    local job = peer[i]
    if job.id == id then
      leave(job, peer)
      job.cancelled = true
      forget(self, job)
      job.fiber:cancel()
      return settle(self, peer)
    end
  end
end

-- A client that takes no replies: nobody reads there, and what this one was begun with nothing can follow.
local function give(peer, reply)
  if peer.link then peer.link:hurry() end
  if send(peer.connection, reply) or peer.gone then return end
  peer.gone = true
  peer.connection:close(0)
end

-- The reply that only says that a request is here: what its servant does is not cancelled any more.
local function arrived(job, reply)
  job.id = ANSWERED
  give(job.peer, reply)
end

local function finish(self, job, peer, reply)
  job.id = false                                 -- what is being written is not cancelled any more
  if reply and not job.cancelled then
    local size, purse = #reply, peer.purse
    job.size = job.size + size
    purse:charge(size)
    if purse:over() and not peer.link and relief() then peer.full = true end   -- nobody reads while this one waits
    peer.writing = peer.writing + 1
    give(peer, reply)
    peer.writing = peer.writing - 1
  end
  if job.cancelled then return end
  leave(job, peer)
  if peer.closing or peer.gone then settle(self, peer) end
end

-- An object named otherwise than by its key: by a profile that is no IIOP one.
local function readdress(job, bits)
  if job.response == 0 then return nil end
  return core.reply(bits >> 1, bits & 1, job.id, 5, nil, KEY_ADDRESS)
end

local function request(self, job, peer, message, bits, response, key, operation, at)
  local connection_ = peer.connection
  local reply
  job.response, job.codec = response, bits | connection_.codec
  if not key then
    reply = readdress(job, bits)
  elseif connection_.incompatible then
    reply = self.dispatch:refuse(job, "CODESET_INCOMPATIBLE", 1, connection_.incompatible)
    connection_.incompatible = nil
  else
    reply = self.serve(self.dispatch, job, message, at, key, operation)
  end
  finish(self, job, peer, reply)
end

local function locate(self, job, peer, bits, key)
  if not key then
    finish(self, job, peer, core.locate_reply(bits >> 1, bits & 1, job.id, 5, KEY_ADDRESS))
    return
  end
  local status, body = self.dispatch:locate(key, bits)
  finish(self, job, peer, core.locate_reply(bits >> 1, bits & 1, job.id, status, body))
end

-- A request for which there is no room, on a connection from which must be read on: replies come by it, too.
local function turn_away(self, job, peer, kind, bits, id, response, key, operation)
  local reply
  if kind == LOCATE then
    reply = core.locate_reply(bits >> 1, bits & 1, id, core.OBJECT_HERE)
  else
    job.id, job.response, job.codec = id, response, bits | peer.connection.codec
    job.call, job.key, job.operation = nil, key, operation
    reply = self.dispatch:refuse(job, "TRANSIENT", 0, "too many requests of this connection are in progress")
    job.id = false
  end
  if reply then give(peer, reply) end
end

------------------------------------------------------------------------------------------------------------------ leading

-- What is no request: true to go on.
local function other(self, peer, kind, id)
  if kind == CANCEL then
    cancel(self, peer, id)
    return true
  end
  if kind == CLOSE or kind == ERROR then
    if peer.link and kind == CLOSE then peer.link:sever("again", "the other side closed the connection") end
    peer.gone = true
    settle(self, peer)
  elseif kind == REPLY or kind == LOCATED then
    self.log(2, "a client sent a reply; its connection is closed")
    peer.connection:send(core.error(peer.connection.bits >> 1, peer.connection.bits & 1))
    drop(self, peer)
  end
  return false
end

-- Nothing more came: true to go on. Half a closed connection is still open for the replies.
local function silent(self, peer, err, code)
  if err == "timeout" and not peer.gone then
    if peer.n == 0 and (peer.closing or not peer.link) then part(self, peer) end
    peer.patience = peer.closing and self.limits.linger or peer.patience
    return not peer.gone
  end
  if peer.link then peer.link:sever("lost", code == "EOF" and "the other side closed the connection without a word" or err) end
  if code == "EPROTO" or code == "EMSGSIZE" then
    self.log(2, ("a client was refused: %s"):format(err))
    drop(self, peer)
    return false
  end
  peer.gone = true
  settle(self, peer)
  return false
end

-- A request begins to count; a long message does already. False: there was no room for it, and its connection is gone.
local function admit(job, peer, message)
  local connection_, purse = peer.connection, peer.purse
  local size = connection_.passed
  if size > 0 then
    connection_.passed = 0
  else
    size = #message + COST
    local whole = purse.budget
    if whole:taken() + size <= whole.most then purse:charge(size)
    elseif not purse:want(size) then return false
    elseif peer.closing then                     -- meanwhile
      purse:refund(size)
      return false
    end
  end
  job.size = size
  return true
end

-- Nobody reads from a connection: who has finished does, unless others of its requests still hold too much.
local function resumes(peer)
  if not peer.full or peer.n > 0 and peer.purse:over() then return false end
  peer.full = false
  return true
end

-- What was begun is served. True: this fiber still leads.
local function goes_on(self, job, peer)
  local lasting = relief()
  if not lasting then self.keeper:released(job.size) end
  if not lasting or peer.full then lasting = resumes(peer) end
  return lasting and not peer.gone
end

-- Reads from a connection and serves what comes until somebody else does, or it is over. False: the fiber was cancelled.
local function lead(self, job, peer)
  local connection_, most, turns = peer.connection, self.limits.requests, 0
  local socket, trace = connection_.socket, self.dispatch.trace
  local guarded = self.serve ~= self.dispatch.serve          -- somebody looks at each request before it is served: door.guard
  local record = not connection_.tap and most > 1 and not guarded and self.record
  while true do
    if turns == TURN then
      turns = 0
      fiber.yield()
    end
    turns = turns + 1
    local how, reply
    if record then how, reply = serve(record, self, job, peer, socket, trace) end
    if how == REPLIED or how == FAILED then
      finish(self, job, peer, how == REPLIED and reply or how == FAILED and self.dispatch:failed(job, reply))
      if job.cancelled then return false end
      if not goes_on(self, job, peer) then return true end
    elseif how == LATE then
      if not silent(self, peer, "timeout") then return true end
    elseif how ~= SERVED then
      local message, kind, bits, id, response, key, operation, at, contexts = receive(connection_, peer.patience)
      if contexts and kind == REQUEST and self.duplex then self.duplex:offered(self, peer, bits, contexts) end
      local link = peer.link
      if not message then
        if not silent(self, peer, kind, bits) then return true end
      elseif link and (kind == REPLY or kind == LOCATED) then
        if not link:answered(message, kind, bits, id, response, key, operation) then return true end
      elseif link and (kind == REQUEST or kind == LOCATE) and (peer.n >= most or peer.purse:over()) then
        if not peer.closing then turn_away(self, job, peer, kind, bits, id, response, key, operation) end
      elseif kind == REQUEST or kind == LOCATE then
        if not peer.closing and admit(job, peer, message) then   -- else it is not served: the client reads CloseConnection and asks elsewhere
          local n = peer.n + 1
          job.id, job.slot = id, n
          peer.n, peer[n] = n, job
          if link or n < most and not peer.purse:over() then arm(self, peer) else peer.full = true end
          if kind == REQUEST then request(self, job, peer, message, bits, response, key, operation, at)
          else locate(self, job, peer, bits, response) end
          if job.cancelled then return false end
          if not goes_on(self, job, peer) then return true end
        end
      elseif not other(self, peer, kind, id) then
        return true
      end
    end
  end
end

function life(self, job)
  local guard <close> = job
  repeat
    if not lead(self, job, job.peer) then return guard end
  until not rest(self, job)
  job.over = true
  forget(self, job)
end

-- An error that is the broker's, or ends the fiber or the process, perhaps without a word: the connection must not look as if somebody read from it.
function Job:__close()
  if self.over or self.cancelled then return end
  self.peer.connection.socket:close(0)            -- first, and called from here: Lua may have no memory for a deeper call
  forget(self.pool, self)
  self.peer.n = 0
  drop(self.pool, self.peer)
  if self.pool.left then self.pool.left() end
end

return { lend = lend, forget = forget, arrived = arrived }
