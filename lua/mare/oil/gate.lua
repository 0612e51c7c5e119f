--[[
mare.oil.gate: when requests are served.

An ORB of a cooperative flavor serves them as they come: its gate is open. Others serve while the program is in run or step: requests queue at the
gate,
and are let through one after the other. A request holds a *turn*, which is closed when it has been served.

`finished` counts requests that were served; `stepped` is what it was when step last returned.
]]
local mare = require "mare"
local fault = require "mare.oil.fault"

local gate = {}
gate.__index = gate

function gate.new(open)
  return setmetatable({ open = open, queue = {}, inside = 0, finished = 0, stepped = 0, watchers = {} }, gate)
end

local function tell(self)
  for watcher in pairs(self.watchers) do watcher:try_send(true) end
end

-- Waits until f(self) is true. False: it was not in so many seconds.
local function wait(self, f, seconds)
  local deadline = seconds and mare.clock() + seconds
  local watcher = mare.channel.new(1)
  self.watchers[watcher] = true
  local fine, err = pcall(function()
    while not f(self) do
      local left = deadline and deadline - mare.clock()
      if left and left <= 0 then return end
      watcher:receive(left)
    end
  end)
  self.watchers[watcher] = nil
  if not fine then error(err, 0) end
  return f(self)
end

-- ---- requests ----

local turn = {}

function turn.__close(self)
  local g = self.gate
  if self.pass then
    for i, other in ipairs(g.queue) do
      if other == self then return table.remove(g.queue, i) end        -- it was cancelled while it waited
    end
  end
  g.inside, g.finished = g.inside - 1, g.finished + 1
  tell(g)
end

local function pass(self, mine)
  self.inside = self.inside + 1
  if mine.pass then mine.pass:send(true) end
end

--- A request has come: its turn, to be closed when it is over.
function gate:enter()
  local mine = setmetatable({ gate = self }, turn)
  if self.open then
    pass(self, mine)
    tell(self)
    return mine
  end
  mine.pass = mare.channel.new(1)
  self.queue[#self.queue + 1] = mine
  tell(self)
  local fine, err = pcall(mine.pass.receive, mine.pass)
  if fine then return mine end
  turn.__close(mine)
  error(err, 0)
end

-- ---- the program ----

local function late() return nil, fault.new("timeout", "timeout") end

local function some(self) return self.over or self.queue[1] ~= nil or self.open and (self.inside > 0 or self.finished > self.stepped) end

--- Waits until there is a request. False: there was none in so many seconds.
function gate:pending(seconds)
  if not wait(self, some, seconds) then return false end
  return not self.over or error(fault.new("terminated", "the ORB was shut down"), 0)
end

local function stepped(self) return self.over or self.finished > self.stepped end

--- Serves one request, or waits until one was served.
function gate:step(seconds)
  if self.over then return nil, fault.new("terminated", "the ORB was shut down") end
  if not self.open then
    if not wait(self, some, seconds) then return late() end
    local mine = table.remove(self.queue, 1)
    self.stepped = self.finished
    if mine then
      pass(self, mine)
      wait(self, stepped)
    end
  elseif not wait(self, stepped, seconds) then
    return late()
  end
  self.stepped = self.finished
  return true
end

--- Lets all through that waits: the ORB ends.
function gate:close()
  self.over, self.open = true, true
  local queue = self.queue
  self.queue = {}
  for _, mine in ipairs(queue) do pass(self, mine) end
  tell(self)
end

return gate
