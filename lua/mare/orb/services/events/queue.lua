--[[
mare.orb.services.events.queue: the events that wait for one consumer.

At most `rules.limit` of them. rules = { limit =, order = "fifo" | "priority" | "deadline", discard = "drop" | "fifo" | "lifo" | "priority" |
"deadline", priority = of events that say nothing, lifetime = seconds of those that say nothing | nil }. Events stand at first … last in the order
in which they go. What queues hold is charged to `account` = { bytes = }: an event once for all queues that hold it, and its place in each.
]]
local mare = require "mare"

local queue = {}
queue.__index = queue

local PLACE = 48

function queue.new(account) return setmetatable({ first = 1, last = 0, account = account, discarded = 0 }, queue) end

function queue:count() return self.last - self.first + 1 end

local function hold(self, e)
  e.holders = e.holders + 1
  self.account.bytes = self.account.bytes + PLACE + (e.holders == 1 and e.size or 0)
end

local function release(self, e)
  e.holders = e.holders - 1
  self.account.bytes = self.account.bytes - PLACE - (e.holders == 0 and e.size or 0)
end

local function expires(e, rules)
  local lifetime = e.lifetime or rules.lifetime
  return lifetime and e.born + lifetime or math.huge
end

-- Does a go before b?
local before = {
  priority = function(a, b, rules) return (a.priority or rules.priority) > (b.priority or rules.priority) end,
  deadline = function(a, b, rules) return expires(a, rules) < expires(b, rules) end,
}

-- Takes what stands at i out.
local function remove(self, i)
  local e = self[i]
  if i == self.first then
    self[i], self.first = nil, i + 1
  else
    table.move(self, i + 1, self.last, i)
    self[self.last], self.last = nil, self.last - 1
  end
  if self.first > self.last then self.first, self.last = 1, 0 end
  release(self, e)
  return e
end

local function insert(self, e, rules)
  local i, sooner = self.last + 1, before[rules.order]
  while sooner and i > self.first and sooner(e, self[i - 1], rules) do
    self[i] = self[i - 1]
    i = i - 1
  end
  self[i], self.last = e, self.last + 1
  hold(self, e)
end

-- The place of the event that gives way: the one of the least priority, or whose time is over first; nil: the new one.
local function least(self, e, rules, sooner)
  local at, worst = nil, e
  for i = self.first, self.last do
    if sooner(self[i], worst, rules) then at, worst = i, self[i] end
  end
  return at
end

local victims = {
  fifo = function(self) return self.first end,
  lifo = function() return nil end,
  priority = function(self, e, rules) return least(self, e, rules, function(a, b, r) return before.priority(b, a, r) end) end,
  deadline = function(self, e, rules) return least(self, e, rules, before.deadline) end,
}

-- Events whose time is over.
local function expire(self, rules, now)
  for i = self.last, self.first, -1 do
    local e = self[i]
    if (e.lifetime or rules.lifetime) and expires(e, rules) < now then
      remove(self, i)
      self.discarded = self.discarded + 1
    end
  end
end

--- Adds an event. False: the queue is full, and by its rules that is the consumer's end.
function queue:put(e, rules)
  if self.last - self.first + 1 >= rules.limit then
    expire(self, rules, mare.clock())
    if self.last - self.first + 1 >= rules.limit then
      local victim = victims[rules.discard]
      if not victim then return false end
      self.discarded = self.discarded + 1
      local at = victim(self, e, rules)
      if not at then return true end
      remove(self, at)
    end
  end
  insert(self, e, rules)
  return true
end

--- The next event, without those whose time is over; nil: there is none.
function queue:take(rules)
  while self.first <= self.last do
    local e = remove(self, self.first)
    if not (e.lifetime or rules.lifetime) or expires(e, rules) >= mare.clock() then return e end
    self.discarded = self.discarded + 1
  end
end

--- What was taken, and couldn't be given, is the next one again.
function queue:put_back(e)
  self.first = self.first - 1
  self[self.first] = e
  hold(self, e)
end

--- Lets the oldest half go, for the memory of others. -> how many
function queue:halve()
  local n = (self:count() + 1) // 2
  for _ = 1, n do remove(self, self.first) end
  self.discarded = self.discarded + n
  return n
end

function queue:clear()
  for i = self.first, self.last do
    release(self, self[i])
    self[i] = nil
  end
  self.first, self.last = 1, 0
end

return queue
