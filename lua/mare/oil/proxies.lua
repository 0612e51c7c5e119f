--[[
mare.oil.proxies: OiL's proxies over the broker's.

A proxy is a table with `__reference`; its metatable is a *class*, one for each kind and interface of an ORB, which has the interface's
operations as methods, made when they are asked for, and `nil` for all else: attributes are `_get_x` and `_set_x` alone. When IDL is loaded the
classes
find their interface anew (`orb.generation`).

The three kinds differ in how a call is ended: see finish. What a call does is in call.lua.
]]
local basic = require "mare.orb.idl.basic"
local interface = require "mare.orb.interface"
local assert = require "mare.oil.assert"
local call = require "mare.oil.call"
local descriptor = require "mare.oil.descriptor"
local future = require "mare.oil.future"
local reference = require "mare.oil.reference"

local proxies = {}
proxies.__index = proxies

local owners = setmetatable({}, { __mode = "k" })        -- class -> its proxies
local handlers = setmetatable({}, { __mode = "k" })      -- proxy -> function(proxy, exception, operation)
local timeouts = setmetatable({}, { __mode = "k" })
local ALL = {}

--- The proxies of one kind of an ORB. `extra`: further methods for each (compat04).
function proxies.new(orb, kind)
  return setmetatable({ orb = orb, kind = kind, classes = {}, catchers = {}, limits = {} }, proxies)
end

--- Is it a proxy of OiL's?
function proxies.is(value) return type(value) == "table" and owners[getmetatable(value)] ~= nil end

-- ---- how a call ends ----

local function raised(self, class, def, err)
  local owner = owners[class]
  local handler = handlers[self]
  if handler == nil then handler = owner.catchers[class.__type.id] end
  if handler == nil then handler = owner.catchers[ALL] end
  if handler then return handler(self, err, def) end
  error(err, 0)
end

local finish = {}

function finish.synchronous(self, class, def, ok, ...)
  if ok then return ... end
  return raised(self, class, def, (...))
end

function finish.protected(_, _, _, ok, ...) return ok, ... end

local function limit_of(self, class)
  local owner = owners[class]
  return timeouts[self] or owner.limits[class.__type.id] or owner.limits[ALL]
end

local function method_of(class, name, op)
  local owner = owners[class]
  local orb, kind, def = owner.orb, owner.kind, op.def
  if kind == "asynchronous" then
    return function(self, ...)
      return future.new(call.new(orb, self, op, nil, ...), function(err) return raised(self, class, def, err) end)
    end
  end
  local ends = finish[kind]
  return function(self, ...)
    return ends(self, class, def, call.run(orb, self, op, name, limit_of(self, class), ...))
  end
end

-- ---- classes ----

local common = {}

function common:__setexcatch(handler)
  local before = handlers[self]
  handlers[self] = handler
  return true, before
end

--- Seconds, or nil or false for none.
function proxies.check_timeout(seconds)
  if not seconds then return end
  assert.type(seconds, "number", "timeout")
  if seconds < 0 or seconds ~= seconds then assert.illegal(seconds, "timeout") end
end

function common:__settimeout(seconds)
  proxies.check_timeout(seconds)
  local before = timeouts[self]
  timeouts[self] = seconds
  return true, before
end

function common:__narrow(type)
  return owners[getmetatable(self)].orb:narrow(self, type)
end

local function tostring_of(self) return tostring(self.__reference) end

local function operation_of(owner, def, name)
  local orb = owner.orb
  local found = orb.broker.repository:operations(def)[name] or interface.everywhere[name] or call.own[name]
  if not found then return nil end
  descriptor.place(found, basic.object)
  return orb:conversion(found)
end

-- What a class lacks.
local function find(class, key)
  local owner = owners[class]
  local orb = owner.orb
  if class.generation ~= orb.generation then
    for name in pairs(class.methods) do class.methods[name] = nil end
    class.generation, class.__type = orb.generation, orb.types:lookup_id(class.__type.id) or class.__type
  end
  local method = class.methods[key]
  if method then return method end
  if key == "__type" then return class.__type end
  if common[key] then return common[key] end
  local more = owner.orb.more and owner.orb.more[key]
  if more then return more end
  local op = type(key) == "string" and operation_of(owner, class.__type, key)
  if not op then return nil end
  method = method_of(class, key, op)
  class.methods[key] = method
  return method
end

function proxies:class(def)
  local class = self.classes[def.id]
  if class then return class end
  class = { __type = def, __tostring = tostring_of, methods = {}, generation = self.orb.generation }
  class.__index = function(proxy, key)
    local value = find(class, key)
    if type(value) == "table" and value.of then return value.of(proxy, self.orb) end     -- compat04's __deferred and __try
    return value
  end
  owners[class] = self
  self.classes[def.id] = class
  return class
end

--- A proxy of a reference through an interface.
function proxies:bind(ref, def)
  local proxy = setmetatable({ __reference = ref }, self:class(def))
  self.orb.broker.env.iors[proxy] = reference.bytes(ref)
  return proxy
end

function proxies:setexcatch(handler, def) self.catchers[def and def.id or ALL] = handler end
function proxies:settimeout(seconds, def) self.limits[def and def.id or ALL] = seconds end

--- The interface through which a proxy is used, as it was loaded last.
function proxies.interface(proxy) return proxy.__type end

return proxies
