--[[
mare.orb.pool: connections of a server, and the fibers that read from them and serve.

leader.lua has what its fibers do, peer.lua how a connection ends; here is what they share, and what the server asks of it.

What *jobs* and *peers* are is in mare.base.leaders. A job's `id` is ANSWERED once its reply has gone ahead of the servant. A peer's `link`:
requests go both ways (see duplex); then it is never full, as the replies must be read, and what is too much is turned away.

What counts of a connection is in its `purse` (see budget): `size` bytes for each job, its message and from when it is made its reply. Requests
are not read beyond that; and while others wait for room, a keeper looks for clients who don't take their replies or don't finish what
they send, and closes what has made no progress for some seconds.
]]
local mare = require "mare"
local budget = require "mare.orb.budget"
local keeper = require "mare.orb.keeper"
local connection = require "mare.orb.giop.connection"
local leader = require "mare.orb.leader"
local peers = require "mare.orb.peer"
local straight = require "mare.orb.core"
local tracing = require "mare.trace.core"

local fiber, channel = mare.fiber, mare.channel

local pool = {}
pool.__index = pool
pool.drop, pool.give = peers.drop, leader.lend

---@param dispatch table
---@param log fun(level: integer, text: string)
---@param limits table { connections, requests, idle, linger, reply, resting, message, pending, unfinished, arrive, memory, share, stall }
---@param capture? table of giop/pcap
---@param native? integer the code set of the program's strings; nil: UTF-8
---@param offered? integer the code set that references name first; nil: ISO 8859-1
function pool.new(dispatch, log, limits, capture, native, offered)
  dispatch.arrived = leader.arrived
  local self = setmetatable({
    dispatch = dispatch, serve = dispatch.serve, log = log, limits = limits, capture = capture, native = native, offered = offered,
    peers = {}, count = 0, waiting = 0, accepted = 0, parting = 0, resting = {}, jobs = {}, standby = false,
    fibers = 0, vacancy = channel.new(1), calm = channel.new(), budget = budget.new(limits.memory, limits.share),
  }, pool)
  self.keeper = keeper.new(self)
  if not tracing.serve then self.record = straight.serving(dispatch.objects) end
  return self
end

---------------------------------------------------------------------------------------------------------------- accepting

--- The record of a connection, of which nothing is read before pool:begin. `role`: "client" if we opened it.
function pool:peer(socket, role)
  socket:timeout(self.limits.reply)
  local purse = self.budget:purse()
  local options = { role = role, limits = self.limits, tap = self.capture and self.capture:tap(socket, role), native = self.native,
                    codeset = self.offered, purse = purse }
  local peer = { n = 0, born = self.accepted, writing = 0, purse = purse, moved = 0, still = 0, over = channel.new(),
                 patience = self.limits.idle or math.huge, connection = connection.new(socket, options), host = false,
                 link = false, points = false, offers = 0, ours = false, stranger = false,
                 gone = false, closing = false, counted = false, parted = false, full = false,
                 socket = socket }   -- so that setting one takes no memory
  self.peers[peer] = true
  self.count = self.count + 1
  return peer
end

--- From now on somebody reads from it.
function pool:begin(peer)
  local fine, why = pcall(self.give, self, peer)
  if fine then return end
  peers.drop(self, peer)
  error(why, 0)
end

--- A new connection. `host`: if those from one address are counted, see door.
function pool:add(socket, host)
  local peer = self:peer(socket, "server")
  self.accepted = self.accepted + 1
  self:begin(peer)
  peer.host = host or false
end

-- One that has nothing to do gives its place to a newcomer; its client connects again when it needs to. It is the one that came first: what came just
-- now has yet to ask for the first time.
local function part_one(self)
  local first
  for peer in pairs(self.peers) do
    if peer.n == 0 and not peer.closing and not peer.link and (not first or peer.born < first.born) then first = peer end
  end
  if first then peers.part(self, first) end
end

local function make_room(self)
  if self.count + self.waiting - self.parting >= self.limits.connections then part_one(self) end
end

--- There is no descriptor for a newcomer.
function pool:spare()
  if self.parting == 0 then part_one(self) end
end

--- A place may have become free. Where there is no memory to say so, who waits for one looks by himself.
function pool:changed() pcall(self.vacancy.try_send, self.vacancy, true) end

--- Waits until there may be one more connection; false: the server stops.
function pool:room()
  if self.count + self.waiting < self.limits.connections or self.stopping then return not self.stopping end
  self.log(2, ("the limit of %d connections is reached"):format(self.limits.connections))
  while self.count + self.waiting >= self.limits.connections and not self.stopping do
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
    if self.peers[peer] then peers.part(self, peer) end
  end
  if self.count == 0 then self.emptied:close() end
end

--- The job of the calling fiber, if it serves a request.
function pool:serving()
  local me = fiber.self()
  local job = me and self.jobs[me]
  return job and job.id and job or nil
end

--- Is this true of a request in progress?
function pool:any(f)
  for peer in pairs(self.peers) do
    for i = 1, peer.n do
      if f(peer[i]) then return true end
    end
  end
  return false
end

--- Ends what still runs: no replies.
pool.abort = leader.abort

--- Lets the fibers that rest end.
function pool:dismiss()
  self.calm:close()
  leader.dismiss(self)
end

return pool
