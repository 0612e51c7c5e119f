--[[
mare.orb.pool: connections of a server, and the fibers that read from them and serve.

One fiber reads from a connection: its *leader*. What it reads it serves itself; should it have to wait meanwhile, in the servant or for the
socket, a fiber of the pool takes the lead (fiber.relief). So a request that doesn't wait costs no switch of fibers, its parts stay in
local variables, and a servant that waits holds up nobody. A fiber that has served and leads nothing any more *rests* in the pool until
it is given a connection; so none is made or ended in the steady state.

A *job* is a fiber's own record, for all its life: the request it serves, `slot` its place in the connection's list. `id`: the request's,
ANSWERED once its reply has gone ahead of the servant, nil when there is none that could be cancelled.
A *peer* is a connection's record: `n` requests in progress, whose jobs are peer[1..n]; `closing` no more is accepted; `gone` the client
has ended. `full`: n has reached the limit, so its leader serves and nobody reads: what the client
sends, also that it cancels something, waits in its socket, until the first who has finished takes the lead.

Who takes n to 0 settles the peer: a closing one gets CloseConnection, then its leader reads on until the client closes (closing
first could make the client's system throw away replies it has not read), but not beyond `linger` seconds; a gone one is closed.
]]
local mare = require "mare"
local core = require "mare.orb.giop.core"
local connection = require "mare.orb.giop.connection"

local fiber, channel = mare.fiber, mare.channel
local relief = fiber.relief
local send, receive = connection.send, connection.receive
local REQUEST, REPLY, CANCEL, LOCATE, LOCATED, CLOSE, ERROR = 0, 1, 2, 3, 4, 5, 6
local KEY_ADDRESS = "\0\0"
local ANSWERED = -1                              -- no request's id
local QUIET = 0.1                                -- seconds
local TURN = 64                                  -- messages of one connection before others get their turn, if none of them waited

local pool = {}
pool.__index = pool

local arrived

---@param dispatch table
---@param log fun(level: integer, text: string)
---@param limits table { connections, requests, idle, linger, reply, resting, message, pending, unfinished }
---@param capture? table of giop/pcap
---@param native? integer the code set of the program's strings; nil: UTF-8
function pool.new(dispatch, log, limits, capture, native)
  dispatch.arrived = arrived
  return setmetatable({
    dispatch = dispatch, serve = dispatch.serve, log = log, limits = limits, capture = capture, native = native,
    peers = {}, count = 0, accepted = 0, parting = 0, resting = {}, jobs = {},
    fibers = 0, vacancy = channel.new(1),
  }, pool)
end

---------------------------------------------------------------------------------------------------------------- peers

local function remove(self, peer)
  if not self.peers[peer] then return end
  self.peers[peer] = nil
  self.count = self.count - 1
  if peer.counted then self.parting = self.parting - 1 end
  peer.over:close()
  if self.count == 0 and self.emptied then self.emptied:close() end
  pcall(self.vacancy.try_send, self.vacancy, true)         -- where there is no memory for it: who waits there looks by himself
end

-- Takes no memory.
local function drop(self, peer)
  peer.gone, peer.closing = true, true
  peer.connection:close(0)
  remove(self, peer)
end

-- A client that doesn't close after a CloseConnection is closed: soon if it was quiet, as then it reads nothing before its next call.
local function lingering(self, peer, quiet)
  peer.over:receive(quiet and math.min(QUIET, self.limits.linger) or self.limits.linger)
  if self.peers[peer] then drop(self, peer) end
end

local function settle(self, peer, quiet)
  if peer.n > 0 then return end
  if peer.gone then return drop(self, peer) end
  if not peer.closing or peer.parted then return end
  peer.parted = true
  local connection_ = peer.connection
  if connection_:goodbye() then connection_.socket:shutdown("write") end
  fiber.spawn(lingering, self, peer, quiet)
end

--- Accepts no more from a client, and says so when all it asked is answered.
function pool:part(peer)
  peer.closing = true
  if not peer.counted then
    peer.counted, self.parting = true, self.parting + 1
  end
  settle(self, peer, true)
end

----------------------------------------------------------------------------------------------------------------- fibers

local life
local Job = {}

-- The fiber ends, or has been told to.
local function forget(self, job)
  self.fibers = self.fibers - 1
  self.jobs[job.fiber] = nil
end

--- Gives a connection to a fiber that will lead it.
function pool:give(peer)
  local resting = self.resting
  local n = #resting
  local job = resting[n]
  if job then
    resting[n] = nil
    job.peer = peer
    job.fiber:wake()
  else
    job = setmetatable({ pool = self, peer = peer, id = false, slot = 0, cancelled = false }, Job)
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
    self:give(peer)
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
  local last = peer[n]
  peer[slot] = last
  last.slot = slot
  peer[n] = nil
  peer.n = n - 1
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
  if send(peer.connection, reply) or peer.gone then return end
  peer.gone = true
  peer.connection:close(0)
end

-- The reply that only says that a request is here: what its servant does is not cancelled any more.
function arrived(job, reply)
  job.id = ANSWERED
  give(job.peer, reply)
end

local function finish(self, job, peer, reply)
  job.id = nil                                   -- what is being written is not cancelled any more
  if reply and not job.cancelled then give(peer, reply) end
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

------------------------------------------------------------------------------------------------------------------ leading

-- What is no request: true to go on.
local function other(self, peer, kind, id)
  if kind == CANCEL then
    cancel(self, peer, id)
    return true
  end
  if kind == CLOSE or kind == ERROR then
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
  if code == "ETIMEDOUT" and not peer.gone then
    if peer.n == 0 then self:part(peer) end
    peer.patience = peer.closing and self.limits.linger or peer.patience
    return not peer.gone
  end
  if code == "EPROTO" or code == "EMSGSIZE" then
    self.log(2, ("a client was refused: %s"):format(err))
    drop(self, peer)
    return false
  end
  peer.gone = true
  settle(self, peer)
  return false
end

-- Reads from a connection and serves what comes until somebody else does, or it is over. False: the fiber was cancelled.
local function lead(self, job, peer)
  local connection_, most, turns = peer.connection, self.limits.requests, 0
  while true do
    if turns == TURN then
      turns = 0
      fiber.yield()
    end
    turns = turns + 1
    local message, kind, bits, id, response, key, operation, at = receive(connection_, peer.patience)
    if not message then
      if not silent(self, peer, kind, bits) then return true end
    elseif kind == REQUEST or kind == LOCATE then
      if not peer.closing then                   -- else it is not served: the client reads CloseConnection and asks elsewhere
        local n, lasting = peer.n + 1, false
        job.id, job.slot = id, n
        peer.n, peer[n] = n, job
        if n < most then lasting = arm(self, peer) else peer.full = true end
        if kind == REQUEST then request(self, job, peer, message, bits, response, key, operation, at)
        else locate(self, job, peer, bits, response) end
        if job.cancelled then return false end
        if lasting then lasting = relief() end
        if peer.full then peer.full, lasting = false, true end
        if not lasting or peer.gone then return true end
      end
    elseif not other(self, peer, kind, id) then
      return true
    end
  end
end

function life(self, job)
  local guard <close> = job
  repeat
    if not lead(self, job, job.peer) then return guard end
  until not rest(self, job)
  forget(self, job)
end

-- An error that is the broker's, or ends the process: the connection must not look as if somebody read from it.
function Job:__close(err)
  if err == nil or self.cancelled then return end
  self.peer.connection.socket:close(0)            -- first, and called from here: Lua may have no memory for a deeper call
  forget(self.pool, self)
  self.peer.n = 0
  drop(self.pool, self.peer)
end

---------------------------------------------------------------------------------------------------------------- accepting

--- A new connection.
function pool:add(socket)
  socket:timeout(self.limits.reply)
  local options = { role = "server", limits = self.limits, tap = self.capture and self.capture:tap(socket, "server"), native = self.native }
  local peer = { n = 0, over = channel.new(), patience = self.limits.idle or math.huge, connection = connection.new(socket, options),
                 gone = false, closing = false, counted = false, parted = false, full = false }   -- so that setting one takes no memory
  self.peers[peer] = true
  self.count = self.count + 1
  self.accepted = self.accepted + 1
  local fine, why = pcall(self.give, self, peer)
  if fine then return end
  drop(self, peer)
  error(why, 0)
end

-- One that has nothing to do gives its place to a newcomer; its client connects again when it needs to.
local function make_room(self)
  if self.count - self.parting < self.limits.connections then return end
  for peer in pairs(self.peers) do
    if peer.n == 0 and not peer.closing then return self:part(peer) end
  end
end

--- Waits until there may be one more connection; false: the server stops.
function pool:room()
  if self.count < self.limits.connections or self.stopping then return not self.stopping end
  self.log(2, ("the limit of %d connections is reached"):format(self.limits.connections))
  while self.count >= self.limits.connections and not self.stopping do
    make_room(self)
    self.vacancy:receive(1)                      -- or one may have become idle
  end
  return not self.stopping
end

------------------------------------------------------------------------------------------------------------------ the end

--- Accepts no request any more; those in progress are answered.
function pool:stop()
  self.stopping = true
  self.emptied = self.emptied or channel.new()
  self.vacancy:try_send(true)
  local all = {}
  for peer in pairs(self.peers) do all[#all + 1] = peer end
  for _, peer in ipairs(all) do
    if self.peers[peer] then self:part(peer) end
  end
  if self.count == 0 then self.emptied:close() end
end

--- The job of the calling fiber, if it serves a request.
function pool:serving()
  local me = fiber.self()
  local job = me and self.jobs[me]
  return job and job.id and job or nil
end

--- Ends what still runs: no replies.
function pool:abort()
  local me = fiber.self()
  local all = {}
  for peer in pairs(self.peers) do all[#all + 1] = peer end
  for _, peer in ipairs(all) do
    for i = peer.n, 1, -1 do
      local job = peer[i]
      job.cancelled = true
      forget(self, job)
      if job.fiber ~= me then job.fiber:cancel() end
    end
    peer.n = 0
    drop(self, peer)
  end
end

--- Lets the fibers that rest end.
function pool:dismiss()
  self.stopped = true
  local resting = self.resting
  self.resting = {}
  if self.standby then self.standby.fiber:wake() end
  for _, job in ipairs(resting) do job.fiber:wake() end
end

return pool
