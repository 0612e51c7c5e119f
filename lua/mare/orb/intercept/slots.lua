--[[
mare.orb.intercept.slots: PICurrent of a broker (CORBA 3.3 part 1, 21.4): values that go with a chain of calls.

Each fiber has a table of slots, its *thread scope*. A request that begins takes that of its fiber as its *request scope*, which is what
interceptors read by get_slot. At the other end what the interceptors have set in the request's scope is copied into that of the fiber that runs
the servant, so the servant's own calls carry it on. While an interceptor runs, its fiber's scope is an empty one (but for receive_request, which
shares the servant's): calls that it makes itself don't look like the program's.

Nobody pays for slots before the first one is allocated: `n` is 0 then.
]]
local mare = require "mare"
local exception = require "mare.orb.exception"

local fiber = mare.fiber
local MAIN = {}                                   -- the key of the fiber that has no handle

local slots = {}
slots.__index = slots

local all = setmetatable({}, { __mode = "k" })   -- those of which some are allocated

function slots.new() return setmetatable({ n = 0, of = setmetatable({}, { __mode = "k" }) }, slots) end

--- A fiber that makes a call for the calling one: it has what that has set.
function slots.spawn(f, ...)
  if not next(all) then return fiber.spawn(f, ...) end
  local child = fiber.spawn(f, ...)
  for one in pairs(all) do
    local scope = one:scope()
    if scope then one.of[child] = slots.copy(scope) end
  end
  return child
end

--- One slot more: its id.
function slots:allocate()
  self.n = self.n + 1
  all[self] = true
  return self.n - 1
end

local function check(self, id)
  if math.type(id) == "integer" and id >= 0 and id < self.n then return end
  error(exception.user("IDL:omg.org/PortableInterceptor/InvalidSlot:1.0", {
    remedy = ("slot %s was not allocated: broker:allocate_slot()"):format(tostring(id)) }), 0)
end

--- Of a scope (a table or false).
function slots:read(scope, id)
  check(self, id)
  return scope and scope[id]
end

--- -> the scope, with that value in it
function slots:write(scope, id, value)
  check(self, id)
  scope = scope or {}
  scope[id] = value
  return scope
end

--- The scope of the calling fiber, or false.
function slots:scope() return self.of[fiber.self() or MAIN] or false end

--- Gives the calling fiber another scope: the one it had.
function slots:swap(scope)
  local me = fiber.self() or MAIN
  local before = self.of[me]
  self.of[me] = scope or nil
  return before or false
end

function slots.copy(scope)
  local copy = {}
  for id, value in pairs(scope or {}) do copy[id] = value end
  return copy
end

--- current:get_slot(id): of the calling fiber; nil: nothing is set.
function slots:get_slot(id) return self:read(self:scope(), id) end

--- current:set_slot(id, value)
function slots:set_slot(id, value)
  local scope = self:write(self:scope(), id, value)
  self.of[fiber.self() or MAIN] = scope
end

return slots
