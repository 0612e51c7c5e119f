--[[
mare.orb.poa.manager: POA managers, which decide whether the adapters that belong to them take requests.

State: "HOLDING" (requests wait, at most `limits.held` of them), "ACTIVE", "DISCARDING" (they get TRANSIENT), "INACTIVE" (OBJ_ADAPTER, for ever).
A manager that is not active takes the objects of its adapters out of the map of those that are called at once (adapter.objects); so an active
manager costs a request nothing. Who waits does so at `gate`, a channel that is closed when there is something new.
]]
local mare = require "mare"
local exception = require "mare.orb.exception"

local fiber, channel = mare.fiber, mare.channel
local system = exception.system

local manager = { __name = "POAManager" }
manager.__index = manager

local serial = 0

---@param tree table of poa/tree.lua
---@param state string
function manager.new(tree, state)
  serial = serial + 1
  return setmetatable({ tree = tree, state = state, adapters = {}, waiting = 0, gate = false, id = "POAManager" .. serial }, manager)
end

function manager:__tostring() return ("%s (%s)"):format(self.id, self.state) end

--------------------------------------------------------------------------------------------------------------- a request

local function refuse(name, minor, text) error(system(name, minor, "COMPLETED_NO", text), 0) end

local waits = { __close = function(self) self[1].waiting = self[1].waiting - 1 end }

local function wait_once(self)
  if self.waiting >= self.tree.held then
    refuse("TRANSIENT", 1, ("%d requests wait for their object adapter already"):format(self.waiting))
  end
  self.gate = self.gate or channel.new()
  local guard <close> = setmetatable({ self }, waits)
  self.waiting = self.waiting + 1
  local _, why = self.gate:receive(self.tree.patience)
  if why == "timeout" then refuse("TRANSIENT", 1, "the object adapter has held the request for too long") end
  return guard
end

--- Lets a request of an adapter pass, or raises what it gets.
function manager:pass(poa)
  while true do
    if poa.destroyed then refuse("TRANSIENT", 4, "the object adapter is being destroyed") end
    local state = self.state
    if state == "ACTIVE" then return end
    if state == "DISCARDING" then refuse("TRANSIENT", 1, "the object adapter discards requests") end
    if state == "INACTIVE" then refuse("OBJ_ADAPTER", 1, "the object adapter is inactive") end
    if self.tree.closed then refuse("TRANSIENT", 4, "the broker is being shut down") end
    wait_once(self)
  end
end

--- Those who wait look again.
function manager:stir()
  local gate = self.gate
  self.gate = false
  if gate then gate:close() end
end

------------------------------------------------------------------------------------------------------------------ states

local function list(self)
  local all = {}
  for poa in pairs(self.adapters) do all[#all + 1] = poa end
  return all
end

local function become(self, state)
  if self.state == "INACTIVE" then error(exception.user "IDL:omg.org/PortableServer/POAManager/AdapterInactive:1.0", 0) end
  if self.state == state then return end
  self.state = state
  for poa in pairs(self.adapters) do poa:publish() end
  self.tree.adapter:changed()
  self:stir()
  self.tree:beat()
end

-- `wait`: until what has begun is over, or the state is another one again.
local function change(self, state, wait)
  if wait then self.tree:check_wait() end
  become(self, state)
  if wait then self.tree:complete(list(self), function() return self.state ~= state end) end
end

function manager:get_state() return self.state end
function manager:get_id() return self.id end

--- From now on requests are served, those that were held first; the server listens, if it doesn't yet.
function manager:activate()
  self.tree.server:open()
  change(self, "ACTIVE")
end

--- From now on requests wait.
function manager:hold_requests(wait) change(self, "HOLDING", wait) end

--- From now on requests get TRANSIENT, those that were held first.
function manager:discard_requests(wait) change(self, "DISCARDING", wait) end

local ending = { __close = function(self) self[1]:close() end }

local function end_objects(self, adapters, over, etherealize)
  local guard <close> = over
  self.tree:end_objects(adapters, etherealize)
  return guard
end

--- For ever: requests get OBJ_ADAPTER. `etherealize`: objects that a servant activator made are given back to it, after their last requests.
function manager:deactivate(etherealize, wait)
  if wait then self.tree:check_wait() end
  local over = setmetatable({ channel.new() }, ending)
  become(self, "INACTIVE")
  fiber.spawn { name = "orb adapters", main = end_objects, args = { self, list(self), over, etherealize } }     -- who waits may be cancelled
  if wait then over[1]:receive() end
end

return manager
