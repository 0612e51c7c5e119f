--[[
mare.base.leaders: the fibers of a pool of connections, for servers (mare.orb.leader, mare.ludo.pool).

One fiber reads from a connection: its *leader*. What it reads it serves itself; should it have to wait meanwhile, in the servant or for the
socket, a fiber of the pool takes the lead (fiber.relief). So a request that doesn't wait costs no switch of fibers, its parts stay in
local variables, and a servant that waits holds up nobody. A fiber that has served and leads nothing any more *rests* in the pool until
it is given a connection; so none is made or ended in the steady state. One that rests is the *standby*: it relieves whoever leads.

A *job* is a fiber's own record, for all its life: the request it serves, `slot` its place in the connection's list, `size` the bytes that it counts
in the peer's purse (mare.orb.budget). `id`: false when there is nothing that could be cancelled.
A *peer* is a connection's record: `n` requests in progress, whose jobs are peer[1..n]; `closing` no more is accepted; `gone` the client
has ended. `full`: n has reached the limit, or what its requests and replies hold has, so its leader serves and nobody reads: what the client
sends, also that it cancels something, waits in its socket, until the first who has finished, and leaves little enough, takes the lead.

Both are read and written in C, too (src/module/serving.h), so they have all their fields from the beginning. The pool has peers, count, jobs,
fibers, resting, standby, limits.resting; and what else a kind of pool does differently is in `ways`.
]]
local fiber = require "mare".fiber

local relief = fiber.relief
local leaders = {}

-- A request is in progress no more.
local function depart(job, peer)
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

-- A request is in progress from now on.
local function enter(job, peer, id)
  local n = peer.n + 1
  job.id, job.slot = id, n
  peer.n, peer[n] = n, job
end

-- Nobody reads from a connection: who has finished does, unless others of its requests still hold too much.
local function resumes(peer)
  if not peer.full or peer.n > 0 and peer.purse:over() then return false end
  peer.full = false
  return true
end

-- The fiber ends, or has been told to.
local function forget(self, job)
  self.fibers = self.fibers - 1
  self.jobs[job.fiber] = nil
end

-- What was begun is served. True: this fiber still leads.
local function goes_on(self, job, peer)
  local lasting = relief()
  if not lasting and self.keeper then self.keeper:released(job.size) end
  if not lasting or peer.full then lasting = resumes(peer) end
  return lasting and not peer.gone
end

-- Waits for a connection: true, or false when the fiber is to end.
local function rest(self, job)
  local resting = self.resting
  if self.standby == job then self.standby = false end   -- it was used: now it is one of those that rest, or none
  if self.stopped or #resting >= self.limits.resting then return false end
  resting[#resting + 1] = job
  job.peer = nil
  fiber.rest()
  return job.peer ~= nil and not self.stopped
end

--- The functions of a kind of pools. ways:
---   spawn(main, pool, job)     makes the fiber of a job
---   record(job)                gives a new job the fields that it has beside those of here
---   lead(pool, job, peer)      reads and serves until somebody else does, or the connection is over. False: the fiber was cancelled
---   drop(pool, peer), settle(pool, peer)   as mare.orb.peer has them
function leaders.of(ways)
  local Job, life = {}, nil

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
      job = setmetatable(ways.record { pool = self, peer = peer, id = false, slot = 0, size = 0, cancelled = false, over = false, key = false,
                                       operation = false }, Job)
      self.fibers = self.fibers + 1
      job.fiber = ways.spawn(life, self, job)
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

  -- The client doesn't want the reply any more. Its fiber ends wherever it waits; it is forgotten here, as it may end without a word.
  local function cancel(self, peer, id)
    for i = 1, peer.n do
      local job = peer[i]
      if job.id == id then
        depart(job, peer)
        job.cancelled = true
        forget(self, job)
        job.fiber:cancel()
        return ways.settle(self, peer)
      end
    end
  end

  function life(self, job)
    local guard <close> = job
    repeat
      if not ways.lead(self, job, job.peer) then return guard end
    until not rest(self, job)
    job.over = true
    forget(self, job)
  end

  -- An error that is the pool's, or ends the fiber or the process, perhaps without a word: the connection must not look as if somebody read from it.
  function Job:__close()
    if self.over or self.cancelled then return end
    local peer = self.peer
    if peer then peer.socket:close(0) end        -- first, and called from here: Lua may have no memory for a deeper call
    forget(self.pool, self)
    if not peer then return end
    peer.n = 0
    ways.drop(self.pool, peer)
    if self.pool.left then self.pool.left() end
  end

  -- Ends what still runs: no replies.
  local function abort(self)
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
      ways.drop(self, peer)
    end
    if self.left then self.left() end
  end

  -- Lets the fibers that rest end.
  local function dismiss(self)
    self.stopped = true
    local resting = self.resting
    self.resting = {}
    if self.standby then self.standby.fiber:wake() end
    for _, job in ipairs(resting) do job.fiber:wake() end
  end

  return { lend = lend, arm = arm, cancel = cancel, abort = abort, dismiss = dismiss, enter = enter, depart = depart, goes_on = goes_on,
           forget = forget }
end

return leaders
