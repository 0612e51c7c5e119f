--[[
mare.orb.poa.tree: the object adapters of a broker, from the root down, and how a key leads to one of them.

`by_prefix` has the adapters below the root by the beginning of their objects' keys. RootPOA and omniINSPOA are always there. An adapter that a key
names and that does not exist may be made by the activator of its parent (`unknown_adapter`), one request at a time for each name.

While an activator makes an adapter, `making` has that one's path, and nobody else gets to it or below it: what the activator does after create_POA -
set a servant manager, activate objects - belongs to the making.

Waiting for the end of requests: those that went through a scope are counted by their adapter (`active`), the others are jobs of the pool, known by
their keys. Both report to `beat`, which wakes those who look again.
]]
local mare = require "mare"
local activation = require "mare.orb.poa.activation"
local current = require "mare.orb.poa.current"
local exception = require "mare.orb.exception"
local keys = require "mare.orb.poa.key"
local lock = require "mare.orb.poa.lock"
local manager = require "mare.orb.poa.manager"
local poa = require "mare.orb.poa"
local scope = require "mare.orb.poa.scope"

local fiber, channel = mare.fiber, mare.channel
local system = exception.system
local MAIN = {}                                  -- the first fiber, which has no handle

local tree = {}
tree.__index = tree

---@param server table
function tree.new(server)
  local limits, options = server.limits, server.broker.options
  local hold = options.poaHoldRequestTimeout
  local self = setmetatable({
    server = server, adapter = server.adapter, dispatch = server.dispatch, trace = server.dispatch.trace, held = limits.held,
    patience = hold and hold > 0 and hold / 1000 or nil,
    by_prefix = {}, making = {}, closed = false, numbers = 0, through = {}, watchers = 0, pulse = false, main = lock.new(),
    handing = setmetatable({}, { __mode = "k" }),    -- fibers that hand an object back to its activator
  }, tree)
  self.root = poa.root(self, "RootPOA", manager.new(self, "ACTIVE"), { "SYSTEM_ID", "IMPLICIT_ACTIVATION" }, server.adapter.stamp, "")
  self.plain = poa.root(self, "omniINSPOA", manager.new(self, "ACTIVE"),
                        { "PERSISTENT", "USER_ID", "MULTIPLE_ID", "USE_DEFAULT_SERVANT" }, "", keys.INS)
  self.current = current.new(self)
  return self
end

function tree:note(text) self.dispatch:note(1, text) end

--- The canonical IOR of what a servant manager gave, if that is a reference; else nil.
function tree:forward_of(value)
  if value == nil or type(value) == "function" then return nil end
  return self.server.broker.env.iors[value]
end

---------------------------------------------------------------------------------------------------------------- by key

local function no_adapter() error(system("OBJECT_NOT_EXIST", 2, "COMPLETED_NO", "there is no object adapter for this key"), 0) end

-- The adapter of a key if it is there; else nil, the path in the key, or nil if it names no adapter.
local function look(self, key)
  local prefix, path, lasting = keys.split(key, self.adapter.stamp)
  if prefix then return self.by_prefix[prefix], path, lasting end
  local root = self.root
  if #key == #root.prefix + 4 and key:sub(1, #root.prefix) == root.prefix then return root end
  return not self.adapter.transient(key) and self.plain or nil
end

--- The adapter that a key belongs to, without asking activators.
function tree:owner(key) return (look(self, key)) end

-- The adapter at which a path begins, and the names on the way from there; nil, nil: it is none.
local function begin(self, path)
  local names = path and keys.names(path)
  if not names then return nil, nil end
  if names[1] ~= "" then return self.root, names end
  table.remove(names, 1)
  if not names[1] then return nil, nil end
  return self.plain, names
end

--- Would a request with this key find an adapter, perhaps with an activator's help, and perhaps an object there?
function tree:known(key)
  local found, path, lasting = look(self, key)
  if found then return not found.destroyed and found:known(key) end
  local at, names = begin(self, lasting and path or nil)
  for _, name in ipairs(names or {}) do
    local child = at.children[name]
    if not child then return at.the_activator ~= nil end
    at = child
  end
  return false
end

local making = {}

-- Objects below are called at once from here on.
local function publish(one)
  one:publish()
  for _, child in pairs(one.children) do publish(child) end
end

function making:__close()
  local t = self.tree
  t.making[self.path] = nil
  self.over:close()                              -- first: what follows takes memory, and there may be none
  local child = self.parent.children[self.name]
  if child then publish(child) end
  t.adapter:changed()
end

-- What makes the adapter of a path, or one above it, just now; nil: nothing does.
local function maker(self, path, but)
  for at, record in pairs(self.making) do
    if record.fiber ~= but and path:sub(1, #at) == at then return record end
  end
end

--- Is the adapter of a path, or one above it, being made?
function tree:made(path) return maker(self, path) ~= nil end

--- An adapter as soon as it is whole; who makes it has it at once.
function tree:whole(one)
  while next(self.making) do
    local record = maker(self, one.path, fiber.self() or MAIN)
    if not record then break end
    record.over:receive()
  end
  return one
end

--- The child of an adapter that isn't there: its activator is asked. nil: it makes none.
function tree:unknown(parent, name, path)
  local busy, me = self.making[path], fiber.self() or MAIN
  if busy then
    if busy.fiber ~= me then busy.over:receive() end
    return parent.children[name]
  end
  local activator = parent.the_activator
  if not activator then return nil end
  local guard <close> = setmetatable({ tree = self, path = path, parent = parent, name = name, fiber = me, over = channel.new() }, making)
  self.making[path] = guard
  local fine, made = pcall(activator.unknown_adapter, activator, parent, name)
  if not fine then
    if activation.is_own_end(made) then error(made, 0) end
    self:note(("unknown_adapter of '%s' in %s failed: %s"):format(name, tostring(parent), tostring(made)))
    error(system("OBJ_ADAPTER", 1, "COMPLETED_NO", "the adapter activator failed"), 0)
  end
  return made and parent.children[name] or nil
end

--- The adapter that a key belongs to; what is missing on the way is made by activators. Raises what a client gets if there is none.
function tree:reach(key)
  local found, path, lasting = look(self, key)
  if found then return self:whole(found) end
  local at, names = begin(self, lasting and path or nil)
  local way = at and at.path
  for _, name in ipairs(names or {}) do
    way = keys.path(way, name)
    local child = at.children[name]
    if not child then
      at.manager:pass(at)
      child = at.children[name] or self:unknown(at, name, way)
    end
    at = child or no_adapter()
  end
  if not names or at.prefix ~= key:sub(1, #at.prefix) then no_adapter() end
  return self:whole(at)
end

------------------------------------------------------------------------------------------------------ until it is over

--- Something that others may wait for has happened.
function tree:beat()
  local pulse = self.pulse
  if not pulse then return end
  self.pulse = false
  pulse:close()
end

-- By the prefix alone: the adapter may be gone already.
local function prefix_of(self, key) return keys.split(key, self.adapter.stamp) or (self:owner(key) or self.plain).prefix end

--- Is a request of one of these adapters in progress that went the short way?
function tree:in_progress(adapters)
  local wanted = {}
  for _, one in ipairs(adapters) do wanted[one.prefix] = true end
  return self.server.pool:any(function(job) return not self.through[job] and job.key and wanted[prefix_of(self, job.key)] end)
end

--- Does the calling fiber serve a request of this adapter that went the short way?
function tree:serving(one)
  local job = self.server.pool:serving()
  return job and job.key and prefix_of(self, job.key) == one.prefix
end

local watching = {}

function watching:__close()
  local t = self[1]
  t.watchers = t.watchers - 1
  if t.watchers == 0 then t.server.pool.left = nil end
end

--- Waits until no request is in progress in these adapters, or `enough()` is true.
function tree:complete(adapters, enough)
  local function busy()
    for _, one in ipairs(adapters) do
      if one.active > 0 then return true end
    end
    return self:in_progress(adapters)
  end
  local left = function() self:beat() end
  local guard <close> = setmetatable({ self }, watching)
  self.watchers, self.server.pool.left = self.watchers + 1, left
  while busy() and not (enough and enough()) do
    self.pulse = self.pulse or channel.new()
    self.pulse:receive()
  end
  return guard
end

local function end_objects(self, adapters, etherealize)
  self:complete(adapters)
  for i = etherealize and #adapters or 0, 1, -1 do adapters[i]:etherealize_all() end
end

--- Waits for the requests of these adapters; then activators get their objects back, those of the last adapter first. What fails is logged.
function tree:end_objects(adapters, etherealize)
  local fine, err = pcall(end_objects, self, adapters, etherealize)
  if fine then return end
  if activation.is_own_end(err) then error(err, 0) end
  self:note("the end of object adapters: " .. tostring(err))
end

-- All managers of adapters there are.
local function managers_of(self)
  local found, list, i = {}, { self.root, self.plain }, 1
  while list[i] do
    found[list[i].manager] = true
    for _, child in pairs(list[i].children) do list[#list + 1] = child end
    i = i + 1
  end
  return found
end

--- The server stops: no request waits for its adapter any more.
function tree:close()
  self.closed = true
  for one in pairs(managers_of(self)) do one:stir() end
end

--- No request is in progress any more: activators get their objects back; `seconds`: at most so long.
function tree:finish(seconds)
  local root, plain = self.root, self.plain
  if not next(root.children) and not next(root.ending) and not next(plain.children) and not next(plain.ending) then return end
  local over = channel.new()
  fiber.spawn { name = "orb adapters' end", main = function()
    for _, top in ipairs { root, plain } do
      for _, child in ipairs(top.the_children) do child:destroy(true, true) end
      while next(top.ending) do select(2, next(top.ending)):destroy(true, true) end     -- another has begun it
    end
    over:close()
  end }
  over:receive(seconds)
end

--- Does the calling fiber serve a request, or hand an object back to its activator?
function tree:inside()
  local me = fiber.self()
  return self.server.pool:serving() ~= nil or me and self.handing[me] or scope.within(function(at) return at.tree == self end)
end

--- There nobody can wait for the end of requests.
function tree:check_wait()
  if self:inside() then
    error(system("BAD_INV_ORDER", 3, "COMPLETED_NO", "a servant can't wait for the end of requests: it would wait for itself"), 0)
  end
end

--------------------------------------------------------------------------------------------------------------- requests

--- f(entry, …) for the object of a key in this process whose adapter does more than look it up.
function tree:with(key, operation, f, ...)
  local taken <close> = scope.new(self, key, operation)
  return f(taken:open(), ...)
end

local function call(entry, self, operation, ...)
  if not entry.forward then return self.dispatch:perform(entry, self.dispatch:call_of(entry, operation), ...) end
  local broker = self.server.broker
  local object = broker:bind(entry.forward, broker:interface_in(entry.forward) or broker:interface "Object")
  return object[operation](object, ...)
end

--- Calls such an object directly.
function tree:call(key, operation, ...) return self:with(key, operation, call, self, operation, ...) end

--- Serves a request of such an object: its reply. `found`: its adapter, if that was there a moment ago.
function tree:serve(job, message, at, found)
  local taken <close> = scope.new(self, job.key, job.operation)
  taken.job, self.through[job] = job, true
  return self.dispatch:proceed(job, taken:open(found), message, at, job.operation)
end

return tree
