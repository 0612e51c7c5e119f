--[[
mare.orb.services.events.queue: the events that wait for one consumer.

At most `rules.limit` of them. rules = { limit =, order = "fifo" | "priority" | "deadline", discard = "drop" | "fifo" | "lifo" | "priority" |
"deadline", priority = of events that say nothing, lifetime = seconds of those that say nothing | nil }. `events` has the n that wait, by the numbers
under which they came, which lie between `first` and `last`.

An ordinary queue is a row: none of its numbers is left out, and the next event is the first. One whose events don't go as they came, or may be over
before it is their turn, is `apart` until it is empty: heaps (`sorted`) tell the next event, the one that gives way and the one whose time is over
first. So a step takes no longer because many events wait, whatever a consumer asks for and a supplier sends. `sorted` is nil while it has to be made
anew: the rules have changed, or there was no memory for one more.

What queues hold is charged to `account` = { bytes = }: an event once for all queues that hold it, and its place in each.
]]
local heap = require "mare.orb.services.events.heap"
local mare = require "mare"

local queue = {}
queue.__index = queue

local PLACE, SORTED = 48, 72                      -- bytes of a place, of a place in a heap

function queue.new(account)
  return setmetatable({ events = {}, n = 0, first = 1, last = 0, place = PLACE, account = account, discarded = 0 }, queue)
end

function queue:count() return self.n end

local function hold(self, e)
  e.holders = e.holders + 1
  self.account.bytes = self.account.bytes + self.place + (e.holders == 1 and e.size or 0)
end

local function release(self, e)
  e.holders = e.holders - 1
  self.account.bytes = self.account.bytes - self.place - (e.holders == 0 and e.size or 0)
end

-- ---- heaps ----

-- What comes first in each of them; of equals it is the one that came first.
local keys = {
  fifo = function(_, _, number) return number end,
  priority = function(e, rules) return -(e.priority or rules.priority) end,
  least = function(e, rules) return e.priority or rules.priority end,
  deadline = function(e, rules)
    local lifetime = e.lifetime or rules.lifetime
    return lifetime and e.born + lifetime or math.huge
  end,
}

-- The heap that knows which event gives way; there is none where it is the new one, or the consumer.
local VICTIMS = { fifo = "fifo", priority = "least", deadline = "deadline" }

local function needs_heaps(rules)
  return rules.order ~= "fifo" or rules.discard == "priority" or rules.discard == "deadline" or rules.lifetime ~= nil
end

local function charge_places(self, bytes)
  self.account.bytes = self.account.bytes + self.n * (bytes - self.place)
  self.place = bytes
end

-- The heaps by their names, with all that waits.
local function sorted_of(self)
  if self.sorted then return self.sorted end
  local rules, sorted, count = self.rules, { deadline = heap.new() }, 1
  for _, name in ipairs { rules.order, VICTIMS[rules.discard] } do
    if not sorted[name] then sorted[name], count = heap.new(), count + 1 end
  end
  for name, h in pairs(sorted) do
    local key = keys[name]
    for number, e in pairs(self.events) do h:add(number, key(e, rules, number)) end
  end
  charge_places(self, PLACE + count * SORTED)
  self.sorted = sorted
  return sorted
end

local RULES = { "order", "discard", "priority", "lifetime" }

local function adopt(self, rules)
  local old = self.rules
  self.rules, self.needs_heaps = rules, needs_heaps(rules)
  self.apart = self.n > 0 and (self.apart or self.needs_heaps)
  for _, name in ipairs(RULES) do
    if old and old[name] ~= rules[name] then self.sorted = nil end
  end
end

-- ---- one event ----

local function add(self, e, number)
  if self.needs_heaps or e.lifetime then self.apart = true end
  if self.apart then
    local sorted = sorted_of(self)
    self.sorted = nil                             -- if there is no memory for it in all of them
    for name, h in pairs(sorted) do h:add(number, keys[name](e, self.rules, number)) end
    self.events[number] = e
    self.sorted = sorted
  else
    self.events[number] = e
  end
  self.n = self.n + 1
  if number < self.first then self.first = number else self.last = number end
  hold(self, e)
end

local function remove(self, number)
  local e = self.events[number]
  if self.apart then
    for _, h in pairs(sorted_of(self)) do h:remove(number) end
  else
    self.first = number + 1
  end
  self.events[number] = nil
  release(self, e)
  self.n = self.n - 1
  if self.n == 0 then self.first, self.last, self.place, self.apart, self.sorted = 1, 0, PLACE, false, nil end
  return e
end

-- Events whose time is over go.
local function expire(self)
  local now = mare.clock()
  while self.apart and self.n > 0 do
    local number, over = sorted_of(self).deadline:first()
    if over >= now then return end
    remove(self, number)
    self.discarded = self.discarded + 1
  end
end

-- The number of the event that gives way for a new one: the oldest, the one of the least priority, or whose time is over first. nil: the new one.
local function victim(self, e)
  local name = VICTIMS[self.rules.discard]
  if not name then return nil end
  if not self.apart then return self.first end
  local number, key = sorted_of(self)[name]:first()
  return key < keys[name](e, self.rules, self.last + 1) and number or nil
end

-- ---- what consumers call ----

--- Adds an event. False: the queue is full, and by its rules that is the consumer's end.
function queue:put(e, rules)
  if self.rules ~= rules then adopt(self, rules) end
  if self.n >= rules.limit then expire(self) end
  if self.n >= rules.limit then
    if rules.discard == "drop" then return false end
    self.discarded = self.discarded + 1
    local number = victim(self, e)
    if not number then return true end
    remove(self, number)
  end
  add(self, e, self.last + 1)
  return true
end

--- The next event, without those whose time is over; nil: there is none.
function queue:take(rules)
  if self.rules ~= rules then adopt(self, rules) end
  expire(self)
  if self.n == 0 then return nil end
  return remove(self, self.apart and sorted_of(self)[rules.order]:first() or self.first)
end

--- What was taken, and couldn't be given, is the next one of its kind again.
function queue:put_back(e, rules)
  if self.rules ~= rules then adopt(self, rules) end
  add(self, e, self.first - 1)
end

--- Lets the oldest half go, for the memory of others. -> how many
function queue:halve()
  local n, numbers = (self.n + 1) // 2, {}
  for number in pairs(self.events) do numbers[#numbers + 1] = number end
  table.sort(numbers)
  for i = 1, n do remove(self, numbers[i]) end
  self.discarded = self.discarded + n
  return n
end

function queue:clear()
  for number, e in pairs(self.events) do
    release(self, e)
    self.events[number] = nil
  end
  self.n, self.first, self.last, self.place, self.apart, self.sorted = 0, 1, 0, PLACE, false, nil
end

return queue
