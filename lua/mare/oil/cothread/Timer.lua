--[[
mare.oil.cothread.Timer: calls `timer:action(...)` each `rate` seconds, in a thread of its own, while it is enabled.
]]
local mare = require "mare"
local oo = require "mare.oil.oo"

local Timer = oo.class { rate = 1 }

local function tick(self, turn, ...)
  while self.turn == turn do
    mare.sleep(self.rate)
    if self.turn ~= turn then return end
    self:action(...)
  end
end

--- Begins. False: it was enabled.
function Timer:enable(...)
  if self.turn then return false end
  self.turn = {}
  local timer = mare.fiber.spawn { name = "timer", main = tick, args = table.pack(self, self.turn, ...), daemon = true }
  mare.fiber.yield()
  return timer ~= nil
end

--- Ends. False: it was not enabled.
function Timer:disable()
  local was = self.turn ~= nil
  self.turn = nil
  return was
end

return Timer
