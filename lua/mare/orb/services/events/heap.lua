--[[
mare.orb.services.events.heap: the least of many, out of which any other can be taken, too: a binary heap of ids by their keys.

At place i of `keys` and `ids` stands one that comes before those at 2i and 2i + 1: its key is less, or its id if the keys are equal. `at` is where an
id stands. Each operation takes as many steps as the heap is deep. Memory is asked for before anything is changed: if there is none, `add` raises, and
the heap is as it was.
]]
local heap = {}
heap.__index = heap

function heap.new() return setmetatable({ keys = {}, ids = {}, at = {}, n = 0 }, heap) end

-- Puts one at place i, or above it.
local function rise(self, i, id, key)
  local keys, ids, at = self.keys, self.ids, self.at
  while i > 1 do
    local up = i >> 1
    local other, its = ids[up], keys[up]
    if its < key or its == key and other < id then break end
    keys[i], ids[i], at[other] = its, other, i
    i = up
  end
  keys[i], ids[i], at[id] = key, id, i
end

-- Puts one at place i, or below it.
local function sink(self, i, id, key)
  local keys, ids, at, n = self.keys, self.ids, self.at, self.n
  while 2 * i <= n do
    local down = 2 * i
    if down < n and (keys[down + 1] < keys[down] or keys[down + 1] == keys[down] and ids[down + 1] < ids[down]) then down = down + 1 end
    local other, its = ids[down], keys[down]
    if key < its or key == its and id < other then break end
    keys[i], ids[i], at[other] = its, other, i
    i = down
  end
  keys[i], ids[i], at[id] = key, id, i
end

function heap:add(id, key)
  local n = self.n + 1
  self.keys[n], self.ids[n], self.at[id] = key, id, n
  self.n = n
  rise(self, n, id, key)
end

--- Takes an id out, which is in.
function heap:remove(id)
  local n, i = self.n, self.at[id]
  local last, key = self.ids[n], self.keys[n]
  self.ids[n], self.keys[n], self.at[id], self.n = nil, nil, nil, n - 1
  if i == n then return end
  rise(self, i, last, key)
  if self.at[last] == i then sink(self, i, last, key) end
end

--- The least -> its id, its key | nil
function heap:first() return self.ids[1], self.keys[1] end

return heap
