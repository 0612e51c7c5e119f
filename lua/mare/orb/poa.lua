--[[
mare.orb.poa: object adapters (CORBA's POA), as programs use them. `tree` is theirs together, poa/tree.lua; poa/scope.lua has what a request passes.

  entries      key -> entry of the objects that are active; see adapter.lua
  servants     servant -> how many of them it is, in adapters with MULTIPLE_ID and an activator
  changing     key -> objects that come or go just now, see poa/activation.lua
  ending       name -> the child that is being destroyed, until that is over
  direct       by its policies a request need only be looked up; `open`: and the manager is active, and no activator makes the adapter just now.
               Then adapter.objects has the entries
  over         channel: it is being destroyed; false: it is not
  active       requests in a scope of this adapter
  destroyed    no request begins any more

RootPOA and omniINSPOA are `lasting`: destroying them ends their objects and children.
]]
local activation = require "mare.orb.poa.activation"
local current = require "mare.orb.poa.current"
local destruction = require "mare.orb.poa.destruction"
local exception = require "mare.orb.exception"
local keys = require "mare.orb.poa.key"
local lock = require "mare.orb.poa.lock"
local managers = require "mare.orb.poa.manager"
local near = require "mare.orb.near"
local policy = require "mare.orb.poa.policy"
local proxy = require "mare.orb.proxy"
local scope = require "mare.orb.poa.scope"

local system = exception.system

local poa = { __name = "POA" }

function poa.__index(self, name)
  if name == "the_children" then return poa.children_of(self) end
  return poa[name]
end

function poa:__tostring() return ("POA '%s'"):format(self.the_name) end

local function raise(name, members) error(exception.user("IDL:omg.org/PortableServer/POA/" .. name .. ":1.0", members), 0) end

local function bad(minor, text) error(system("BAD_PARAM", minor, "COMPLETED_NO", text), 0) end

---------------------------------------------------------------------------------------------------------------- making

local function new(tree, parent, name, manager, policies, prefix, path)
  local chosen = policy.read(policies)
  local retains = chosen.servant_retention == "RETAIN"
  local manages = chosen.request_processing == "USE_SERVANT_MANAGER"
  local self = setmetatable({
    tree = tree, the_name = name, the_parent = parent, the_POAManager = manager, manager = manager, policies = chosen,
    prefix = prefix, path = path, id = prefix, children = {}, entries = {}, servants = {}, changing = {}, ending = {}, active = 0, serial = 0,
    lasting = false, destroyed = false, over = false, interface = policies.interface and proxy.interface(tree.server.broker, policies.interface),
    activates = retains and manages, several = chosen.id_uniqueness == "MULTIPLE_ID",
    direct = retains and not manages and chosen.thread == "ORB_CTRL_MODEL",
    one = chosen.thread == "SINGLE_THREAD_MODEL" and lock.new() or chosen.thread == "MAIN_THREAD_MODEL" and tree.main or false,
  }, poa)
  self.open = self.direct and manager.state == "ACTIVE" and not tree:made(path)
  manager.adapters[self] = true
  return self
end

--- RootPOA or omniINSPOA.
function poa.root(tree, name, manager, policies, prefix, path)
  local self = new(tree, nil, name, manager, policies, prefix, path)
  self.lasting = true
  return self
end

local function check(self)
  if self.destroyed then error(system("OBJECT_NOT_EXIST", 2, "COMPLETED_NO", tostring(self) .. " was destroyed"), 0) end
end

local function need(self, kind, ...)
  local value = self.policies[kind]
  for _, other in ipairs { ... } do
    if value == other then return end
  end
  raise("WrongPolicy", { reason = ("%s has %s"):format(tostring(self), value) })
end

local function check_manager(manager)
  if manager ~= nil and getmetatable(manager) ~= managers then bad(0, "create_POA: the second argument is a POAManager, or nil for a new one") end
end

--- A child: create_POA(name, manager | nil: a new one, { "PERSISTENT", …, interface = of its servants }).
function poa:create_POA(name, manager, policies)
  check(self)
  if type(name) ~= "string" or name == "" then bad(0, "create_POA: an adapter has a name") end
  check_manager(manager)
  destruction.await(self, name)
  if self.children[name] then raise("AdapterAlreadyExists", { name = name }) end
  local tree = self.tree
  local path = keys.path(self.path, name) or bad(0, "create_POA: the names on the way to the adapter are longer than 65535 bytes")
  local prefix
  if policy.read(policies or {}).lifespan == "PERSISTENT" then
    prefix = keys.persistent(path)
  else
    tree.numbers = tree.numbers + 1
    prefix = keys.transient(tree.adapter.stamp, path, tree.numbers)
  end
  local child = new(tree, self, name, manager or managers.new(tree, "HOLDING"), policies or {}, prefix, path)
  tree.by_prefix[prefix] = child
  self.children[name] = child
  return child
end

--- A child by its name. `activate`: if it isn't there the activator is asked for it.
function poa:find_POA(name, activate)
  check(self)
  local child = self.children[name]
  if child and activate then child = self.tree:whole(child) end
  if not child and activate and type(name) == "string" then child = self.tree:unknown(self, name, keys.path(self.path, name)) end
  return child or raise("AdapterNonExistent", { name = name })
end

function poa.children_of(self)
  local list = {}
  for _, child in pairs(self.children) do list[#list + 1] = child end
  table.sort(list, function(a, b) return a.the_name < b.the_name end)
  return list
end

--- Ends the adapter, its descendants first. `etherealize`: objects are given back to their servant activators. `wait`: until it is over.
function poa:destroy(etherealize, wait)
  if self.over then return destruction.join(self, wait) end
  check(self)
  destruction.destroy(self, etherealize, wait)
end

for kind, values in pairs(policy.kinds) do
  --- The value itself, for what create_POA takes.
  poa["create_" .. kind .. "_policy"] = function(_, value)
    for _, known in ipairs(values) do
      if known == value then return value end
    end
    local meant = near(tostring(value), values)
    bad(0, ("%s is one of %s, not '%s'%s"):format(kind, table.concat(values, ", "), tostring(value),
      meant and "; did you mean " .. meant .. "?" or ""))
  end
end

----------------------------------------------------------------------------------------------------- servants' managers

local METHOD = { [true] = "incarnate", [false] = "preinvoke" }

--- Of RETAIN an activator: incarnate(id, poa) -> servant, interface; etherealize(id, poa, servant, cleanup, remaining). Of NON_RETAIN a locator:
--- preinvoke(id, poa, operation) -> servant, interface, cookie; postinvoke(id, poa, operation, cookie, servant).
function poa:set_servant_manager(manager)
  check(self)
  need(self, "request_processing", "USE_SERVANT_MANAGER")
  local method = METHOD[self.activates]
  if type(manager) ~= "table" or type(manager[method]) ~= "function" then
    error(system("OBJ_ADAPTER", 4, "COMPLETED_NO", ("the servant manager of %s has a method '%s'"):format(tostring(self), method)), 0)
  end
  if self.servant_manager then error(system("BAD_INV_ORDER", 6, "COMPLETED_NO", tostring(self) .. " has a servant manager already"), 0) end
  self.servant_manager = manager
end

function poa:get_servant_manager()
  need(self, "request_processing", "USE_SERVANT_MANAGER")
  return self.servant_manager
end

--- The default servant; nil: there is none any more.
function poa:set_servant(servant, interface)
  check(self)
  need(self, "request_processing", "USE_DEFAULT_SERVANT")
  self.default = servant ~= nil and self:entry_of("", servant, interface, "set_servant") or nil
end

function poa:get_servant()
  need(self, "request_processing", "USE_DEFAULT_SERVANT")
  return self.default and self.default.servant or raise "NoServant"
end

--------------------------------------------------------------------------------------------------------------- objects

local MANAGED = { incarnate = true, preinvoke = true }

-- Whether a servant and an interface will do. What servant managers give is the client's misfortune.
local function definition(self, servant, interface, what)
  local kind, wrong = type(servant), nil
  if kind ~= "table" and kind ~= "function" and kind ~= "userdata" then
    wrong = ("%s: a servant is a table or a function, not a %s"):format(what, kind)
  elseif not (interface or self.interface) then
    wrong = what .. ": of which interface is the servant? Name it after the servant, or give the adapter one: " ..
      "create_POA(name, manager, { …, interface = \"Name\" })"
  end
  if wrong and MANAGED[what] then error(system("OBJ_ADAPTER", 2, "COMPLETED_NO", wrong), 0) end
  if wrong then error(wrong, 0) end
  return interface and proxy.interface(self.tree.server.broker, interface) or self.interface
end

--- An entry that is in no map.
function poa:entry_of(key, servant, interface, what)
  return self.tree.adapter:make(self, key, servant, definition(self, servant, interface, what))
end

--- An object becomes active.
function poa:enter(key, servant, interface, what)
  local adapter = self.tree.adapter
  local entry = self:entry_of(key, servant, interface, what)
  if self.activates then
    entry.active = 0
    if self.several then self.servants[servant] = (self.servants[servant] or 0) + 1 end
  end
  if not self.several or not adapter.by_servant[servant] then adapter:represent(servant, entry) end
  return adapter:add(entry)
end

--- An object ends; an activator gets it back after its last request.
function poa:leave(entry, cleanup)
  if self.entries[entry.key] ~= entry then return end
  if self.activates then activation.prepare(self, entry, cleanup) end
  self.tree.adapter:remove(entry)
  local n = self.servants[entry.servant]
  if n then self.servants[entry.servant] = n > 1 and n - 1 or nil end
  if self.activates then activation.deactivate(self, entry) end
end

--- Objects that a servant activator has, or could have, made: it gets all of them.
function poa:etherealize_all()
  if not self.activates then return end
  local all = {}
  for _, entry in pairs(self.entries) do all[#all + 1] = entry end
  for _, entry in ipairs(all) do self:leave(entry, true) end
  activation.settled(self)
end

--- Takes its objects into the map of those that are called at once, or out of it.
function poa:publish()
  local open = self.direct and not self.destroyed and self.manager.state == "ACTIVE" and not self.tree:made(self.path)
  if open == self.open then return end
  self.open = self.open and open                 -- until all are in the map they are found as if none were
  local objects = self.tree.adapter.objects
  for key, entry in pairs(self.entries) do
    objects[key], entry.gone = open and entry or nil, not open
  end
  self.open = open
end

--- The turn of this fiber, if requests come one at a time; nil: they don't.
function poa:lock() return self.one and self.one:take() or nil end

function poa:oid_of(key) return key:sub(#self.prefix + 1) end

--- Would a request with this key perhaps find an object?
function poa:known(key)
  return self.entries[key] ~= nil or self.changing[key] ~= nil or self.policies.request_processing ~= "USE_ACTIVE_OBJECT_MAP_ONLY"
end

-- System ids of persistent adapters hold the run's own bytes, so that those of two runs are never the same.
function poa:new_key()
  self.serial = self.serial + 1
  local run = self.policies.lifespan == "PERSISTENT" and self.tree.adapter.stamp:sub(-8) or ""
  return self.prefix .. run .. string.pack(">I4", self.serial)
end

-- The key of an id that the program says.
local function key_of(self, id)
  if type(id) ~= "string" then bad(0, "an object id is a string, not a " .. type(id)) end
  return self.prefix .. id
end

local function key_of_id(self, id)
  if id == "" and self.prefix == "" then bad(0, "an object id of omniINSPOA is not empty") end
  local key = key_of(self, id)
  if self.policies.id_assignment == "SYSTEM_ID" then
    local lasting = self.policies.lifespan == "PERSISTENT"
    local own = #id == (lasting and 12 or 4)
    if own and not lasting then own = string.unpack(">I4", id) <= self.serial end
    if not own then bad(14, "this object id was not made by " .. tostring(self)) end
  end
  return key
end

local function unique(self, servant)
  if not self.several and self:active_entry(servant) then raise "ServantAlreadyActive" end
end

--- The entry of a servant that is one object of this adapter, or the first of several that it is.
function poa:active_entry(servant)
  local entry = self.tree.adapter.by_servant[servant]
  while entry and entry.poa ~= self do entry = entry.other end
  return entry
end

--- activate_object(servant, interface) -> id
function poa:activate_object(servant, interface)
  check(self)
  need(self, "id_assignment", "SYSTEM_ID")
  need(self, "servant_retention", "RETAIN")
  unique(self, servant)
  self.tree.server:open()
  return self:oid_of(self:enter(self:new_key(), servant, interface, "activate_object").key)
end

function poa:activate_object_with_id(id, servant, interface)
  check(self)
  need(self, "servant_retention", "RETAIN")
  local key = key_of_id(self, id)
  if self.prefix == "" and keys.split(id, self.tree.adapter.stamp) then bad(0, "this object id has the form of other adapters' keys") end
  local free = activation.await(self, key, scope.within)
  if self.entries[key] or not free then raise "ObjectAlreadyActive" end
  unique(self, servant)
  self.tree.server:open()
  self:enter(key, servant, interface, "activate_object_with_id")
end

--- The object ends. Requests in progress go on; then an activator gets it back.
function poa:deactivate_object(id)
  check(self)
  need(self, "servant_retention", "RETAIN")
  self:leave(self.entries[key_of(self, id)] or raise "ObjectNotActive")
end

------------------------------------------------------------------------------------------------------------ references

local function reference(self, key, interface)
  local server = self.tree.server
  server:open()
  local entry = self.entries[key]
  if entry and not interface then return server:reference(entry, entry.interface) end
  local def = definition(self, {}, interface, "create_reference")
  return server:reference({ key = key, id = def.id }, def)
end

--- A reference whose object need not exist yet, with a new id.
function poa:create_reference(interface)
  check(self)
  need(self, "id_assignment", "SYSTEM_ID")
  return reference(self, self:new_key(), interface)
end

function poa:create_reference_with_id(id, interface)
  check(self)
  return reference(self, key_of_id(self, id), interface)
end

-- The key that a servant means: it is active, becomes so, or serves the request that this fiber is in.
local function key_of_servant(self, servant, interface)
  check(self)
  local p = self.policies
  local retains, implicit = p.servant_retention == "RETAIN", p.implicit_activation == "IMPLICIT_ACTIVATION"
  if p.request_processing ~= "USE_DEFAULT_SERVANT" and not (retains and (implicit or not self.several)) then
    raise("WrongPolicy", { reason = tostring(self) .. " has neither UNIQUE_ID, IMPLICIT_ACTIVATION nor USE_DEFAULT_SERVANT" })
  end
  local entry = retains and not self.several and self:active_entry(servant)
  if entry then return entry.key end
  if implicit then
    self.tree.server:open()
    return self:enter(self:new_key(), servant, interface, "implicit activation").key
  end
  local key, owner, serving = current.request(self.tree)
  if key and owner == self and serving == servant then return key end
  raise "ServantNotActive"
end

--- Of a servant that is one object; in its own request the one that is asked. With IMPLICIT_ACTIVATION it becomes an object of that interface.
function poa:servant_to_id(servant, interface) return self:oid_of(key_of_servant(self, servant, interface)) end

function poa:servant_to_reference(servant, interface)
  local key = key_of_servant(self, servant, interface)
  local entry = self.entries[key]
  return reference(self, key, not entry and (interface or self.default and self.default.interface) or nil)
end

local function key_of_reference(self, ref)
  check(self)
  if type(ref) ~= "string" and type(ref) ~= "table" then bad(0, "a reference is a proxy or a text, not a " .. type(ref)) end
  local key = self.tree.server:key_of(ref)
  if not key or self.tree:owner(key) ~= self then raise "WrongAdapter" end
  return key
end

local function servant_of(self, key)
  local default = self.policies.request_processing == "USE_DEFAULT_SERVANT"
  if not default then need(self, "servant_retention", "RETAIN") end
  local entry = self.entries[key] or default and self.default
  return entry and entry.servant or raise "ObjectNotActive"
end

function poa:reference_to_id(ref) return self:oid_of(key_of_reference(self, ref)) end

function poa:reference_to_servant(ref) return servant_of(self, key_of_reference(self, ref)) end

function poa:id_to_servant(id)
  check(self)
  return servant_of(self, key_of(self, id))
end

function poa:id_to_reference(id)
  check(self)
  need(self, "servant_retention", "RETAIN")
  return reference(self, (self.entries[key_of(self, id)] or raise "ObjectNotActive").key)
end

return poa
