--[[
mare.orb.poa.current: POACurrent: which object a request is for.

A request that was only looked up has left no scope; what it is for is in its fiber's job.
]]
local exception = require "mare.orb.exception"
local scope = require "mare.orb.poa.scope"

local current = { __name = "POACurrent" }
current.__index = current

function current.new(tree) return setmetatable({ tree = tree }, current) end

--- Key, adapter and servant of the request that the calling fiber is in; nil: it is in none.
function current.request(tree)
  local at = scope.current()
  if at and at.tree == tree then return at.key, at.poa, at.servant end
  local job = tree.server.pool:serving()
  if not job then return nil end
  local owner = tree:owner(job.key)
  if not owner then return nil end
  local entry = owner.entries[job.key] or owner.default
  return job.key, owner, entry and entry.servant
end

local function request(self)
  local key, owner, servant = current.request(self.tree)
  if not key then error(exception.user "IDL:omg.org/PortableServer/Current/NoContext:1.0", 0) end
  return key, owner, servant
end

function current:get_object_id()
  local key, owner = request(self)
  return owner:oid_of(key)
end

function current:get_POA()
  local _, owner = request(self)
  return owner
end

--- nil: the object was deactivated meanwhile.
function current:get_servant()
  local _, _, servant = request(self)
  return servant
end

function current:get_reference()
  local key, owner, servant = request(self)
  local at = scope.current()
  local entry = owner.entries[key] or at and at.entry or owner.default
  if not entry or entry.servant ~= servant then return nil end
  return self.tree.server:reference({ key = key, id = entry.id }, entry.interface)
end

return current
