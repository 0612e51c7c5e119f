--[[
mare.orb.leader: the fibers of a pool of connections. `self` is the pool.

What jobs and peers are, and how they take turns to lead a connection, is in mare.base.leaders; here is what a leader does.
]]
local fiber = require "mare".fiber
local leaders = require "mare.base.leaders"
local core = require "mare.orb.giop.core"
local straight = require "mare.orb.core"
local connection = require "mare.orb.giop.connection"
local peers = require "mare.orb.peer"

local relief = fiber.relief
local serve, SERVED, REPLIED, FAILED, LATE = straight.serve, 1, 2, 3, 4        -- see src/module/serving.h
local send, receive = connection.send, connection.receive
local drop, settle, part = peers.drop, peers.settle, peers.part
local REQUEST, REPLY, CANCEL, CLOSE, ERROR = core.REQUEST, core.REPLY, core.CANCEL, core.CLOSE, core.ERROR
local LOCATE, LOCATED = core.LOCATE_REQUEST, core.LOCATE_REPLY
local KEY_ADDRESS = "\0\0"
local ANSWERED = -1                              -- no request's id
local COST = 4096                                -- bytes that a request takes beside its message
local TURN = 64                                  -- messages of one connection before others get their turn, if none of them waited

-- What a job has beside what leaders.lua gives it: straight.serve finds them all.
local function record(job)
  job.response, job.codec, job.phase, job.silent, job.call, job.info, job.told = 0, 0, 0, false, false, false, false
  return job
end

local ways = { spawn = fiber.spawn, record = record, drop = drop, settle = settle }
local fibers = leaders.of(ways)
local arm, cancel, enter, depart, goes_on = fibers.arm, fibers.cancel, fibers.enter, fibers.depart, fibers.goes_on

---------------------------------------------------------------------------------------------------------------- requests

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
  depart(job, peer)
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

-- Reads from a connection and serves what comes until somebody else does, or it is over. False: the fiber was cancelled.
function ways.lead(self, job, peer)
  local connection_, most, turns = peer.connection, self.limits.requests, 0
  local socket, trace = connection_.socket, self.dispatch.trace
  local guarded = self.serve ~= self.dispatch.serve          -- somebody looks at each request before it is served: door.guard
  local straightly = not connection_.tap and most > 1 and not guarded and self.record
  while true do
    if turns == TURN then
      turns = 0
      fiber.yield()
    end
    turns = turns + 1
    local how, reply
    if straightly then how, reply = serve(straightly, self, job, peer, socket, trace) end
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
          enter(job, peer, id)
          if link or peer.n < most and not peer.purse:over() then arm(self, peer) else peer.full = true end
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

return { lend = fibers.lend, forget = fibers.forget, abort = fibers.abort, dismiss = fibers.dismiss, arrived = arrived }
