--[[
mare.ludo.members: an object in several processes, each with a state of its own. They accept from one socket, so each connection stays with one
of them. A process that fails is said so and started anew, after pauses that grow while it fails again and again. All end with the process that
serves.
]]
local mare = require "mare"
local process, channel, fiber = mare.process, mare.channel, mare.fiber
local MOST, PAUSE, LONGEST = 256, 0.05, 5        -- seconds

local members, group = {}, {}
group.__index = group

-- The main function of such a process.
local function main(c)
  local ludo = require "mare.ludo"
  local broker = ludo.init(c.options)
  broker.objects[c.key] = c.make(broker, c.index, table.unpack(c.args, 1, c.args.n)) or error("the function that makes the object gave none", 0)
  broker:listen_at(c.listener)
  c.ready:send(c.index)
  fiber.spawn { name = "ludo end", daemon = true, main = function()
    c.owner:wait()
    broker:shutdown(0)
  end }
  c.quit:receive()
  broker:shutdown(c.seconds)
end

local function start(self, index)
  local c = { options = self.options, make = self.make, key = self.key, index = index, args = self.args, listener = self.listener, ready = self.ready,
              owner = process.self(), quit = self.quit, seconds = self.seconds }
  return process.spawn { name = ("ludo %s #%d"):format(self.key, index), main = main, args = { c } }
end

local function watch(self, index, member)
  local pause = PAUSE
  while true do
    local began = mare.clock()
    local fine, err = member:wait()
    if self.over then return end
    self.broker:note(("process %d of object '%s' %s"):format(index, self.key, fine and "has ended" or "failed: " .. tostring(err)))
    pause = mare.clock() - began > LONGEST and PAUSE or math.min(2 * pause, LONGEST)
    mare.sleep(pause)
    if self.over then return end
    member = start(self, index)
    self[index] = member
  end
end

--- Starts them: the group. Raises what the function raised in the first one that failed.
function members.serve(broker, make, listener, key, options)
  local n, args = options.processes, options.args or {}
  if math.type(n) ~= "integer" or n < 1 or n > MOST then error(("serve: 'processes' is a number from 1 to %d"):format(MOST), 3) end
  if type(make) ~= "function" then error("serve: with 'processes' the first argument is a function that makes the object in each of them", 3) end
  local self = setmetatable({ broker = broker, make = make, key = key, listener = listener, args = { n = args.n or #args, table.unpack(args) },
                              options = broker:copy(), ready = channel.new(n), quit = channel.new(), over = false, seconds = 5 }, group)
  for i = 1, n do self[i] = start(self, i) end
  for _ = 1, n do
    local which
    repeat
      which = self.ready:receive(0.05)
      for i = 1, which and 0 or n do
        local fine, err = self[i]:wait(0)
        if fine == false then
          self:stop()
          error(err, 0)
        end
      end
    until which
  end
  for i = 1, n do fiber.spawn { name = "ludo processes", main = watch, args = { self, i, self[i] }, daemon = true } end
  return self
end

--- They answer what they have, and end.
function group:stop()
  self.over = true
  self.quit:close()
  for _, member in ipairs(self) do member:wait(2 * self.seconds) end
  self.listener:close()
end

return members
