--[[
mare.orb.poa.scope: a request on its way through an adapter that does more than look an object up.

A *scope* is what such a request has taken, and gives back when it is closed, however it ends: its place in the adapter (`poa.active`), the turn of a
single thread, its place in an entry, the servant of a locator. `scopes` has the innermost of each fiber, `before` leads outwards; that is what
POACurrent tells.

Objects of adapters that only look up, and whose manager is active, are in adapter.objects and never come here: see adapter.lua.
]]
local mare = require "mare"
local activation = require "mare.orb.poa.activation"
local exception = require "mare.orb.exception"

local fiber = mare.fiber
local system = exception.system
local FORWARD = "IDL:omg.org/PortableServer/ForwardRequest:1.0"
local MAIN = {}                                  -- the first fiber, which has no handle

local scope = { __name = "request in an object adapter" }
scope.__index = scope

local scopes = setmetatable({}, { __mode = "k" })

local function refuse(name, minor, text) error(system(name, minor, "COMPLETED_NO", text), 0) end

--- The innermost scope of the calling fiber, or nil.
function scope.current() return scopes[fiber.self() or MAIN] end

--- Is the calling fiber in a request for which this is true?
function scope.within(f)
  local at = scope.current()
  while at do
    if f(at) then return true end
    at = at.before
  end
  return false
end

-------------------------------------------------------------------------------------------------------------- resolving

local leaving

local function located(self, poa)
  local manager = poa.servant_manager
  if not manager then refuse("OBJ_ADAPTER", 4, "the object adapter has no servant manager") end
  self.rest = leaving(self)
  local servant, interface, cookie = manager:preinvoke(self.oid, poa, self.operation)
  local forward = poa.tree:forward_of(servant)
  if forward then return { key = self.key, forward = forward } end
  if servant == nil then refuse("OBJ_ADAPTER", 7, "the servant locator gave no servant") end
  self.locator, self.servant, self.cookie = manager, servant, cookie
  return poa:entry_of(self.key, servant, interface, "preinvoke")
end

-- An object that is not in the map.
local function resolve(self, poa)
  local processing = poa.policies.request_processing
  if processing == "USE_DEFAULT_SERVANT" then
    return poa.default or refuse("OBJ_ADAPTER", 3, "the object adapter has no default servant")
  end
  if processing == "USE_ACTIVE_OBJECT_MAP_ONLY" then refuse("OBJECT_NOT_EXIST", 1, "there is no object with this key") end
  if not poa.activates then return located(self, poa) end
  if scope.within(function(other) return other ~= self and other.poa == poa and other.key == self.key end) then
    refuse("OBJECT_NOT_EXIST", 1, "the object was deactivated by the request that calls it")      -- waiting for its end would be for ever
  end
  return activation.incarnate(poa, self.key, self.oid)
end

-- A servant manager may send the client elsewhere by an exception, too.
local function forwarded(self, poa, err)
  if not exception.is(err, FORWARD) then error(err, 0) end
  local forward = poa.tree:forward_of(err.forward_reference)
  if not forward then refuse("OBJ_ADAPTER", 2, "ForwardRequest has no 'forward_reference'") end
  return { key = self.key, forward = forward }
end

local function as_it_is(err) return err end       -- local callers get it so

local function find(self, poa)
  local entry = poa.entries[self.key] or poa.default
  if not entry then
    local fine, found = xpcall(resolve, self.job and poa.tree.trace or as_it_is, self, poa)
    entry = fine and found or forwarded(self, poa, found)
  end
  if entry.active then
    entry.active = entry.active + 1
    self.counted = entry
  end
  return entry
end

----------------------------------------------------------------------------------------------------------------- a life

-- It gives back what it has taken. Takes no memory.
local function leave(taken)
  local poa = taken.poa
  if taken.turn then taken.turn:release() end
  scopes[taken.fiber] = taken.before or nil
  poa.active = poa.active - 1
  taken.tree:beat()
  if taken.counted then activation.left(poa, taken.counted) end
end

local rest = { __close = function(self) leave(self[1]) end }

-- What leaves whatever postinvoke does.
function leaving(taken) return setmetatable({ taken }, rest) end

--- A scope for a key; `open` does all that may wait or fail.
function scope.new(tree, key, operation)
  return setmetatable({ tree = tree, key = key, operation = operation, poa = false, entry = false, turn = false, counted = false, locator = false,
                        rest = false, fiber = fiber.self() or MAIN, before = false, job = false }, scope)
end

--- The entry that the request is for. `found`: its adapter, if that was there a moment ago.
function scope:open(found)
  local poa = found
  if not poa or poa.destroyed or next(self.tree.making) then poa = self.tree:reach(self.key) end
  poa.manager:pass(poa)
  self.oid = poa:oid_of(self.key)
  self.poa = poa
  poa.active = poa.active + 1
  self.before = scopes[self.fiber] or false
  scopes[self.fiber] = self
  self.turn = poa:lock()
  if poa.destroyed then refuse("TRANSIENT", 4, "the object adapter is being destroyed") end
  self.entry = find(self, poa)
  self.servant = self.entry.servant
  return self.entry
end

local function postinvoke(self)
  local locator = self.locator
  if self.job then self.job.phase = 2 end         -- what it raises is the request's outcome
  if locator.postinvoke then locator:postinvoke(self.oid, self.poa, self.operation, self.cookie, self.servant) end
end

function scope:__close()
  if self.job then self.tree.through[self.job] = nil end
  if not self.poa then return end
  if not self.locator then return leave(self) end
  local guard <close> = self.rest
  postinvoke(self)
  return guard
end

return scope
