--[[
mare.orb.poa.activation: objects that a servant activator makes, and gets back.

`poa.changing[key]` is there while an object is being incarnated, or from its deactivation until it is etherealized: { over = channel, failure }. Who
wants the object meanwhile waits for `over` and looks again; so of requests that come together one incarnates. If that fails the others fail alike.
A record's `fiber` is who is at it, in the activator; false: nobody yet. An entry's `active` is the number of requests in it; `ending`: it is no
object any more, and the last request hands it back.
]]
local mare = require "mare"
local errors = require "mare.error"
local exception = require "mare.orb.exception"

local fiber, channel = mare.fiber, mare.channel
local system = exception.system
local MAIN = {}                                  -- the first fiber, which has no handle

local activation = {}

local function refuse(name, minor, text) error(system(name, minor, "COMPLETED_NO", text), 0) end

----------------------------------------------------------------------------------------------------------- incarnating

local change = {}

-- A client that has gone, or a process that ends, is nobody else's failure.
function activation.is_own_end(err)
  local kind = (errors.is(err) or type(err) == "table" and not rawget(err, "_repid")) and err.kind
  return kind == "cancelled" or kind == "linked"
end

function change:__close(err)
  if self.handed then                            -- to a fiber that closes it
    self.handed = false
    return
  end
  if err ~= nil and not activation.is_own_end(err) then self.failure = { err } end
  self.poa.changing[self.key] = nil
  self.over:close()
  self.poa.tree:beat()
end

local function begin(poa, key)
  local record = setmetatable({ poa = poa, key = key, over = channel.new(), failure = false, handed = false, fiber = false,
                                making = false }, change)
  poa.changing[key] = record
  return record
end

-- Others are at it: what came of it. nil: look again.
local function wait(record)
  record.over:receive()
  if record.failure then error(record.failure[1], 0) end
end

local function incarnated(poa, key, oid)
  local manager = poa.servant_manager
  if not manager then refuse("OBJ_ADAPTER", 4, "the object adapter has no servant manager") end
  local guard <close> = begin(poa, key)
  guard.fiber, guard.making = fiber.self() or MAIN, true
  local servant, interface = manager:incarnate(oid, poa)
  local forward = poa.tree:forward_of(servant)
  if forward then return { key = key, forward = forward } end
  if servant == nil then refuse("OBJ_ADAPTER", 7, "the servant activator gave no servant") end
  if poa.entries[key] then return poa.entries[key], guard end  -- the activator has activated it itself
  if not poa.several and poa:active_entry(servant) then
    refuse("OBJ_ADAPTER", 5, "the servant activator gave a servant that is another object already")
  end
  return poa:enter(key, servant, interface, "incarnate"), guard
end

--- The entry of an object that is not active: its activator makes it.
function activation.incarnate(poa, key, oid)
  while true do
    local record = poa.changing[key]
    if record then wait(record) else
      local entry = poa.entries[key] or incarnated(poa, key, oid)
      return entry
    end
  end
end

--- Waits until nobody makes or hands back the object of a key. True: it may become active, or is already. False: the caller is, or serves, what
--- would be waited for. `within`: of scope.lua.
function activation.await(poa, key, within)
  local me = fiber.self() or MAIN
  while true do
    local record = poa.changing[key]
    if not record then return true end
    if record.fiber == me then return record.making end
    if within(function(at) return at.poa == poa and at.key == key end) then return false end
    record.over:receive()
  end
end

--------------------------------------------------------------------------------------------------------- etherealizing

-- Nobody is there whom the error could be told.
local function hand_back(poa, entry, cleanup)
  local manager = poa.servant_manager
  local servant = entry.servant
  if not manager or not manager.etherealize then return end
  local fine, err = pcall(manager.etherealize, manager, poa:oid_of(entry.key), poa, servant, cleanup, poa.servants[servant] ~= nil)
  if not fine then poa.tree:note(("etherealize of %s failed: %s"):format(tostring(poa), tostring(err))) end
end

local handing = {}

function handing:__close() self[1][self[2]] = nil end

local function finish(poa, entry, record, cleanup)
  local guard <close> = record
  local turn <close> = poa:lock()
  local all = poa.tree.handing
  record.fiber = fiber.self() or MAIN
  all[record.fiber] = true
  local mark <close> = setmetatable({ all, record.fiber }, handing)
  hand_back(poa, entry, cleanup)
  return guard, turn, mark
end

-- What was begun by the entry's end goes on when no request is in it any more. Without memory for a fiber nobody is told.
local function continue(poa, entry)
  local record <close> = entry.ending
  local options = { name = "orb etherealize", main = finish, args = { poa, entry, record, entry.cleanup } }
  if fiber.spawn(options) then entry.ending, record.handed = false, true end
end

--- An object of an adapter with a servant activator is about to end.
function activation.prepare(poa, entry, cleanup) entry.ending, entry.cleanup = begin(poa, entry.key), cleanup or false end

--- It is out of the map: it is given back after its last request.
function activation.deactivate(poa, entry)
  if entry.active == 0 then continue(poa, entry) end
end

--- A request has left the entry.
function activation.left(poa, entry)
  entry.active = entry.active - 1
  if entry.active == 0 and entry.ending then continue(poa, entry) end
end

--- Waits until no object of the adapter is changing.
function activation.settled(poa)
  while true do
    local _, record = next(poa.changing)
    if not record then return end
    record.over:receive()
  end
end

return activation
