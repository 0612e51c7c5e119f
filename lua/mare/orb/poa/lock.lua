--[[
mare.orb.poa.lock: one fiber at a time, in the order in which they asked. The one that has it may take it again.

SINGLE_THREAD_MODEL gives each adapter one, MAIN_THREAD_MODEL all such adapters the same.
]]
local mare = require "mare"

local fiber, channel = mare.fiber, mare.channel
local MAIN = {}                                  -- the first fiber, which has no handle

local lock = {}
lock.__index = lock

function lock.new()
  local free = channel.new(1)
  free:send(true)
  return setmetatable({ free = free, owner = false, depth = 0 }, lock)
end

--- Waits for its turn: the lock, which is closed, or released, when that is over.
function lock:take()
  local me = fiber.self() or MAIN
  if self.owner ~= me then
    self.free:receive()
    self.owner = me
  end
  self.depth = self.depth + 1
  return self
end

function lock:release()
  self.depth = self.depth - 1
  if self.depth > 0 then return end
  self.owner = false
  self.free:try_send(true)
end

lock.__close = lock.release

return lock
