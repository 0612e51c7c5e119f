--[[
mare.oil.future: what a call of an asynchronous proxy gives. The request is on its way when it is made.
]]
local mare = require "mare"
local fault = require "mare.oil.fault"

local fiber = mare.fiber

local future = {}
future.__index = future

--- Begins a call (mare.oil.call). `raised`: function(err), what evaluate does with an exception.
function future.new(call, raised)
  local self = setmetatable({ call = call, raised = raised, proxy = call.proxy, operation = call.op.def }, future)
  if call:send() then
    self.fiber = fiber.spawn { main = call.exchange, args = { call }, daemon = true }     -- nobody waits for a reply that nobody asks for
    fiber.yield()
  end
  return self
end

local function given_up() return fault.new("terminated", "the call was cancelled") end

-- nil: there is no reply yet.
local function outcome(self, seconds)
  if not self.outcome then
    if self.fiber then
      local fine, err = self.fiber:wait(seconds)
      if fine == nil then return nil end
      if self.given_up then self.call.outcome = table.pack(false, given_up())
      elseif not fine then self.call.outcome = table.pack(false, err) end
      self.fiber = nil
    end
    self.outcome = table.pack(self.call:finish())
  end
  return self.outcome
end

local function late() return fault.new("timeout", "timeout") end

--- Is the reply there? Others run meanwhile, so a loop that asks this makes progress.
function future:ready()
  if not self.outcome and self.fiber then fiber.yield() end
  return outcome(self, 0) ~= nil
end

--- true, results… | false, exception; false and a timeout if it takes more than so many seconds.
function future:results(seconds)
  local o = outcome(self, seconds)
  if not o then return false, late() end
  return table.unpack(o, 1, o.n)
end

local function give(self, ok, ...)
  if ok then return ... end
  return self.raised((...))
end

--- The results; exceptions are raised, or go to the proxy's handler.
function future:evaluate(seconds) return give(self, self:results(seconds)) end

--- Gives the call up. -> was there no reply yet
function future:cancel()
  self.given_up = self.fiber ~= nil and self.fiber:cancel()
  return self.given_up
end

return future
