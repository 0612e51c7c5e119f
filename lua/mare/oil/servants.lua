--[[
mare.oil.servants: the objects of an ORB.

An *entry* is OiL's: { __servant =, __objkey =, __type =, __reference = }, in the table of entries, `map`, by its key: the program's own
(`objectmap`), or one of ours. The broker serves it as a function, made here, that is called with the operation's name and the arguments. If the
map has a
metatable the program wants to be asked for each request, so the broker keeps no object then, but asks `locate`, as it does for all keys it doesn't
know.

What newservant gives is a *registered* servant: fields of the entry, and the methods of the implementation.
]]
local convert = require "mare.oil.convert"
local descriptor = require "mare.oil.descriptor"
local fault = require "mare.oil.fault"
local icept = require "mare.oil.icept"
local reference = require "mare.oil.reference"
local verbose = require "mare.oil.verbose"

local pack, unpack = table.pack, table.unpack
local apply = convert.apply

local servants = {}
servants.__index = servants

-- ---- registered servants ----

local registered = {}

local wrappers = setmetatable({}, { __mode = "k" })

local function wrap(method)
  local f = wrappers[method]
  if not f then
    f = function(self, ...) return method(self.__servant, ...) end
    wrappers[method] = f
  end
  return f
end

local function deactivate(self)
  local manager = rawget(self, "__manager")
  return manager:remove(rawget(self, "__objkey"))
end

function registered.__index(self, field)
  if field == "__deactivate" then return deactivate end
  local value = rawget(self, "__servant")[field]
  if type(value) == "function" then return wrap(value) end
  return value
end

function registered.__newindex(self, field, value) rawget(self, "__servant")[field] = value end
function registered.__tostring(self) return tostring(rawget(self, "__reference")) end

function servants.is(value) return type(value) == "table" and getmetatable(value) == registered end

-- ---- entries ----

function servants.new(orb, map, prefix)
  return setmetatable({ orb = orb, map = map or {}, prefix = prefix or "_", keys = setmetatable({}, { __mode = "k" }), serial = 0,
                        stamp = ("%x"):format(math.random(0) & 0xffffffff) }, servants)
end

-- Does the program want to be asked for each request? It may give its table a metatable at any time.
local function asks(self) return getmetatable(self.map) ~= nil end

-- A field of the implementation, or of its metatable.
local function field(object, name)
  local fine, value = pcall(function() return object[name] end)
  if fine and value ~= nil then return value end
  local meta = getmetatable(object)
  return type(meta) == "table" and rawget(meta, name) or nil
end

-- The key that an implementation has for an interface: its own, or one that is made once.
function servants:key_of(impl, def)
  local key = field(impl, "__objkey")
  if key ~= nil then return key end
  local made = self.keys[impl]
  if not made then
    made = {}
    self.keys[impl] = made
  end
  if not made[def.id] then
    self.serial = self.serial + 1
    made[def.id] = ("%s%s%x"):format(self.prefix, self.stamp, self.serial)
  end
  return made[def.id]
end

local SERVABLE = { table = true, userdata = true, ["function"] = true, string = true, thread = true }

function servants:register(impl, key, type_)
  if not SERVABLE[type(impl)] then error(fault.new("badvalue", ("a servant is no %s"):format(type(impl))), 0) end
  if servants.is(impl) then impl = rawget(impl, "__servant") end
  local orb = self.orb
  local def, err = orb.types:resolve(field(impl, "__type") or type_)
  if not def then error(err, 0) end
  if def.kind ~= "interface" or def.abstract or def.id == "IDL:omg.org/CORBA/Object:1.0" then
    error(fault.new("badtype", "servants have interfaces that are not abstract, and are no mere CORBA::Object"), 0)
  end
  key = key or self:key_of(impl, def)
  local current = rawget(self.map, key)
  if current and (current.__servant ~= impl or current.__type ~= def) then
    error(fault.new("badobjkey", "object key already in use (got $key)", { key = key }), 0)
  end
  if current and current.__registered then return current.__registered end
  local entry = { __servant = impl, __objkey = key, __type = def }
  entry.__reference = self:expose(entry)
  local r = setmetatable({ __servant = impl, __objkey = key, __type = def, __reference = entry.__reference, __manager = self }, registered)
  entry.__registered = r
  orb.broker.env.iors[r] = reference.bytes(entry.__reference)
  self.map[key] = entry
  return r
end

function servants:remove(key)
  local entry = self.map[key]
  if entry == nil then return nil, fault.new("badobjkey", "unknown object key (got $key)", { key = key }) end
  self.map[key] = nil
  if not asks(self) then self.orb.broker:deactivate(key) end
  return entry
end

function servants:deactivate(what, type_)
  local key = what
  if type(what) ~= "string" then
    if servants.is(what) then key = rawget(what, "__objkey")
    else
      key = field(what, "__objkey")
      if key == nil then
        local def, err = self.orb.types:resolve(field(what, "__type") or type_)
        if not def then return nil, err end
        key = self:key_of(what, def)
      end
    end
  end
  return self:remove(key)
end

-- ---- requests ----

local function attribute_of(operation)
  local how, name = operation:match "^_([gs]et)_(.+)$"
  if not how then return nil end
  if how == "get" then return function(self) return self[name] end end
  return function(self, value) self[name] = value end
end

local function method_of(entry, operation)
  local servant = entry.__servant
  local method = servant[operation]
  return method or attribute_of(operation)
end

local function lacks(entry, operation)
  error(fault.new("badobjimpl", "servant $key does not implement $operation", { key = entry.__objkey, operation = operation }), 0)
end

-- The servant's method: packed true, results or false, exception as the client gets it.
local function run(orb, servant, method, ...)
  local outcome = pack(xpcall(method, orb.exhandler or debug.traceback, servant, ...))
  if outcome[1] then return outcome end
  local err, unheard = fault.outward(outcome[2])
  if unheard then orb:notify(outcome[2], "dispatch") end
  return pack(false, err)
end

-- Traceback handlers leave tables alone, OiL's get whatever was raised.
local function give(op, ok, ...)
  if not ok then error((...), 0) end
  if not op.results and select("#", ...) == op.outs then return ... end
  local results = pack(...)
  apply(op.results, results)
  return unpack(results, 1, op.outs)
end

local function intercepted(orb, entry, op, method, ...)
  local args = pack(...)
  args.n = op.ins
  local outcome = icept.serve(orb, entry, op.def, method, run, args)
  return give(op, unpack(outcome, 1, outcome.n))
end

local function perform(orb, entry, op, operation, ...)
  local method = method_of(entry, operation)
  if orb.server_interceptor then return intercepted(orb, entry, op, method, ...) end
  if not method then lacks(entry, operation) end
  local outcome = run(orb, entry.__servant, method, ...)
  return give(op, unpack(outcome, 1, outcome.n))
end

-- What the broker calls.
local function server_of(self, entry)
  local orb = self.orb
  return function(operation, ...)
    if not asks(self) and self.map[entry.__objkey] ~= entry then error(fault.new("badobjkey", "the object was deactivated"), 0) end
    verbose:say(2, "request %s", operation)
    local op = orb:operation(entry.__type, operation)
    local turn <close> = orb.gate:enter()        -- luacheck: ignore turn
    if not op.arguments then return perform(orb, entry, op, operation, ...) end
    local args = apply(op.arguments, pack(...))
    return perform(orb, entry, op, operation, unpack(args, 1, op.ins))
  end
end

-- Makes the broker's object: its reference.
function servants:expose(entry)
  local broker = self.orb.broker
  local ref = broker:serve(server_of(self, entry), entry.__type, { key = entry.__objkey })
  local bytes = rawget(ref, "_ior")
  if asks(self) then broker:deactivate(entry.__objkey) end
  return reference.of(bytes)
end

--- IDL was loaded: objects go on with the interfaces of their names as they are now.
function servants:renew()
  local server, ids = self.orb.broker.server, self.orb.broker.repository.ids
  if asks(self) then return end
  for key, entry in pairs(self.map) do
    local object, def = server.adapter.objects[key], ids[entry.__type.id]
    if object and def and def ~= entry.__type then
      entry.__type = descriptor.dress(def)
      if entry.__registered then rawset(entry.__registered, "__type", def) end
      object.interface, object.calls = def, server.dispatch:calls_of(def)
    end
  end
  server.adapter:changed()
end

--- For keys that the broker does not know: the program's table may.
function servants:locate(key)
  local entry = self.map[key]
  if not entry then return nil end
  local def, err = self.orb.types:resolve(field(entry.__servant, "__type") or entry.__type)
  if not def then error(err, 0) end
  return server_of(self, { __servant = entry.__servant, __objkey = key, __type = def }), def
end

--- The entry of a key | nil. Nothing a stranger asks for is remembered.
function servants:find(key) return self.map[key] end

return servants
