--[[
mare.orb.keeper: looks after a server's memory (see budget) once a second, while there is reason to; else it is no fiber at all.

While somebody waits for room: clients that hold some, and for `stall` seconds have moved almost nothing of a reply they should take or a message they
have begun, are closed, those that hold most first, until nobody waits.

When much was held for long and is not any more: long strings that outlived two collections are old for a generational collector, which frees them
only when the heap has doubled; and what it frees, malloc and the heap keep for the next ones. So everything is collected once, and unused memory
goes back to the system. That costs in proportion to what lives; therefore as much must have been let go as half of that.
]]
local mare = require "mare"
local core = require "mare.orb.giop.core"

local fiber = mare.fiber
local STEP = 1                                   -- seconds
local PACE = 16 << 10                            -- bytes a second, both ways: less is no progress
local AGED = 8 << 20                             -- bytes

local keeper = {}
keeper.__index = keeper

-- Is it the client that must do something now?
local function owes(peer)
  local c = peer.connection
  return peer.writing > 0 or not peer.purse.wish and (c.asked > 0 or c.nunfinished > 0)
end

-- Counts for how long each has made no progress; those for whom that is too long, who holds most last.
local function stalled(pool)
  local list = {}
  for peer in pairs(pool.peers) do
    local moved = core.moved(peer.connection.socket)
    peer.still = moved - peer.moved < PACE * STEP and owes(peer) and peer.still + STEP or 0
    peer.moved = moved
    if peer.still > pool.limits.stall and peer.purse.held > 0 then list[#list + 1] = peer end
  end
  table.sort(list, function(a, b) return a.purse.held < b.purse.held end)
  return list
end

local function relieve(pool)
  local list, budget = stalled(pool), pool.budget
  budget:pump(math.huge)
  for i = #list, 1, -1 do
    if budget.nwaiting == 0 then return end
    local peer = list[i]
    if pool.peers[peer] then
      pool.log(2, ("a client is closed: others wait for the %d bytes it holds, and for %d seconds it has taken no reply and sent nothing")
        :format(peer.purse.held, peer.still))
      pool:drop(peer)
    end
  end
end

-- -> is there anything left to wait for?
local function reclaim(self)
  local budget = self.pool.budget
  if self.aged <= self.mark then return false end
  if budget.held > budget.half then return true end
  self.mark = math.max(AGED, collectgarbage("count") * 512 // 1)
  if self.aged < self.mark then return false end
  self.aged, self.mark = 0, AGED
  collectgarbage()
  collectgarbage()                               -- one that marks more than the last lets the heap grow to twice what it was before; this one doesn't
  core.trim()
  return false
end

local function run(self)
  local pool = self.pool
  repeat
    pool.calm:receive(STEP)
    local pressed = pool.budget.nwaiting > 0
    if pressed then relieve(pool) end
    local more = reclaim(self) or pressed
  until not more or pool.stopped
  self.running = false
end

local function begin(self)
  if self.running or self.pool.stopped then return end
  self.running = true
  if not pcall(fiber.spawn, { name = "orb memory", main = run, args = { self }, daemon = true }) then self.running = false end
end

---@param pool table
function keeper.new(pool)
  local self = setmetatable({ pool = pool, aged = 0, mark = AGED, running = false }, keeper)
  pool.budget.pressed = function() begin(self) end
  return self
end

--- So many bytes that may have become old are let go. Raises nothing.
function keeper:released(n)
  self.aged = self.aged + n
  if self.aged > self.mark and not self.running then begin(self) end
end

return keeper
