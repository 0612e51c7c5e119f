--[[
mare.orb.services.naming: OMG's naming service (Naming Service 1.3 with INS), in any broker.

  local naming = require "mare.orb.services.naming"
  local service = naming.serve(broker, { db = "names.db" })

A *context* is { id =, n =, bindings =, key = } and a servant of NamingContextExt; the root is 1, its key is NameService. A *binding* is
{ id =, kind =, context = was it bound as a context?, child = context of ours, reference = IOR of what is none, object = its proxy, once asked }.
All lives in memory, and is written to the store before a reply goes out (see store). An operation that only concerns our contexts never waits, so it
is one step to others; where a name goes on in another service's context, that is asked, with a time limit.

A name that ends elsewhere: what that service raises is raised; when it doesn't answer it is CannotProceed, with the context to ask oneself.
What strangers can make us keep is bounded: `limits.bytes` of names and references, `limits.iterators`, of which the one that was used least
recently gives way.
]]
local cosnaming = require "mare.orb.services.cosnaming"
local corbaloc = require "mare.orb.giop.corbaloc"
local corbaname = require "mare.orb.giop.corbaname"
local exception = require "mare.orb.exception"
local basic = require "mare.orb.idl.basic"
local ior = require "mare.orb.giop.ior"
local store = require "mare.orb.services.store"

local naming = {}
local ROOT, KEY = 1, "NameService"
local EXT, ITERATOR = "CosNaming::NamingContextExt", "CosNaming::BindingIterator"
local LIMITS = { bytes = 64 << 20, iterators = 100, federation = 10 }       -- the last: seconds that another service has
local COST = 200                                  -- bytes that a binding or a context takes beside its name

local context, iterator = {}, {}                  -- servants
context.__index, iterator.__index = context, iterator

-- ---- what is raised ----

local function raise(name, members) error(exception.user("IDL:omg.org/CosNaming/" .. name .. ":1.0", members), 0) end

local function refuse(name, text) error(exception.system(name, 0, "COMPLETED_NO", text), 0) end

local function rest(name, from) return table.move(name, from, #name, 1, {}) end

local function not_found(why, name, from) raise("NamingContext/NotFound", { why = why, rest_of_name = rest(name, from) }) end

local function invalid() raise("NamingContext/InvalidName", {}) end

-- ---- the service ----

local service = {}
service.__index = service

local function index_of(part) return part.id .. "\0" .. part.kind end

local function size_of(b) return COST + #b.id + #b.kind + #(b.reference or "") end

-- Room for so many bytes more.
local function charge(self, bytes)
  if self.bytes + bytes > self.limits.bytes then refuse("NO_RESOURCES", ("the naming service keeps %d bytes, no more"):format(self.limits.bytes)) end
  self.bytes = self.bytes + bytes
end

local function written(done, err)
  if not done then refuse("PERSIST_STORE", "the names can't be written: " .. tostring(err)) end
  return done
end

local function key_of(self, id) return id == ROOT and self.key or ("%s/%d"):format(self.key, id) end

local function make_context(self, id)
  local c = setmetatable({ service = self, id = id, n = 0, bindings = {} }, context)
  self.contexts[id] = c
  c.proxy = self.broker:serve(c, EXT, { key = key_of(self, id) })
  return c
end

-- The reference of a context of ours, also of one that is no more.
local function reference_of(self, id)
  local t = ior.parse(self.broker:ior_of(self.root.proxy))
  for _, p in ipairs(t.profiles) do
    if p.host then p.key, p.data = key_of(self, id), nil end
  end
  return ior.make(t)
end

-- The object of a binding.
local function object_of(self, b)
  if b.child and self.contexts[b.child] then return self.contexts[b.child].proxy end
  if not b.object then
    local bytes = b.reference or reference_of(self, b.child)
    b.object = self.broker:bind(bytes, b.context and self.plain or basic.object)
  end
  return b.object
end

-- A context of ours that a reference leads to; nil: it is another one's.
local function own(self, object)
  local servant = self.broker:servant(object)
  return servant and getmetatable(servant) == context and servant.service == self and servant or nil
end

local function put(c, b)
  local index = index_of(b)
  if not c.bindings[index] then c.n = c.n + 1 end
  c.bindings[index], c.sorted = b, nil
end

local function take(c, b)
  c.bindings[index_of(b)], c.sorted = nil, nil
  c.n = c.n - 1
end

-- ---- names ----

local function check(name)
  if #name == 0 then invalid() end
end

-- What a context of another service says to an operation.
local function elsewhere(self, b, operation, name, ...)
  local there = object_of(self, b):_with { timeout = self.limits.federation }
  local results = table.pack(pcall(there[operation], there, name, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  local err = results[2]
  if type(err) == "table" and err._repid and not exception.is_system(err) then error(err, 0) end
  raise("NamingContext/CannotProceed", { cxt = object_of(self, b), rest_of_name = name })
end

-- Walks along a name to where its last component is: that context of ours, and the component | nil, results of the other service that was asked.
local function walk(c, operation, name, ...)
  check(name)
  local self = c.service
  for i = 1, #name - 1 do
    local b = c.bindings[index_of(name[i])]
    if not b then not_found("missing_node", name, i) end
    if not b.context then not_found("not_context", name, i) end
    local next_one = b.child and self.contexts[b.child]
    if not next_one then return nil, elsewhere(self, b, operation, rest(name, i + 1), ...) end
    c = next_one
  end
  return c, name[#name]
end

-- ---- NamingContext ----

-- A binding to an object of CORBA; contexts of ours that are bound as such are known by their ids.
local function binding(self, part, object, as_context)
  if object == nil then refuse("BAD_PARAM", "a nil reference can't be bound") end
  local mine = as_context and own(self, object)
  local b = { id = part.id, kind = part.kind, context = as_context, child = mine and mine.id or nil }
  if not mine then b.reference = self.broker:ior_of(object) end
  return b
end

local function bind(operation, as_context, again)
  return function(c, name, object)
    local at, last = walk(c, operation, name, object)
    if not at then return end
    local self, old = c.service, at.bindings[index_of(last)]
    if old and not again then raise("NamingContext/AlreadyBound", {}) end
    if old and old.context ~= as_context then not_found(as_context and "not_context" or "not_object", name, #name) end
    local b = binding(self, last, object, as_context)
    local size = size_of(b) - (old and size_of(old) or 0)
    charge(self, size)
    local done, err = self.store:put(at.id, b)
    if not done then self.bytes = self.bytes - size end
    written(done, err)
    put(at, b)
  end
end

context.bind = bind("bind", false, false)
context.rebind = bind("rebind", false, true)
context.bind_context = bind("bind_context", true, false)
context.rebind_context = bind("rebind_context", true, true)

function context.resolve(c, name)
  local at, last = walk(c, "resolve", name)
  if not at then return last end
  local b = at.bindings[index_of(last)] or not_found("missing_node", name, #name)
  return object_of(c.service, b)
end

function context.unbind(c, name)
  local at, last = walk(c, "unbind", name)
  if not at then return end
  local self = c.service
  local b = at.bindings[index_of(last)] or not_found("missing_node", name, #name)
  written(self.store:remove(at.id, b))
  self.bytes = self.bytes - size_of(b)
  take(at, b)
end

function context.new_context(c)
  local self = c.service
  charge(self, COST)
  local id, err = self.store:create()
  if not id then self.bytes = self.bytes - COST end
  return make_context(self, written(id, err)).proxy
end

function context.bind_new_context(c, name)
  local at, last = walk(c, "bind_new_context", name)
  if not at then return last end
  local self = c.service
  if at.bindings[index_of(last)] then raise("NamingContext/AlreadyBound", {}) end
  local b = { id = last.id, kind = last.kind, context = true }
  local size = size_of(b) + COST
  charge(self, size)
  local id, err = self.store:create(at.id, b)
  if not id then self.bytes = self.bytes - size end
  local made = make_context(self, written(id, err))
  put(at, b)
  return made.proxy
end

function context.destroy(c)
  local self = c.service
  if c.n > 0 then raise("NamingContext/NotEmpty", {}) end
  if c.id == ROOT then refuse("NO_PERMISSION", "the root of a naming service stays") end
  written(self.store:destroy(c.id))
  self.bytes = self.bytes - COST
  self.contexts[c.id] = nil
  self.broker:deactivate(c)
end

-- ---- lists ----

local function by_name(a, b)
  if a.id ~= b.id then return a.id < b.id end
  return a.kind < b.kind
end

local function sorted(c)
  if not c.sorted then
    local list = {}
    for _, b in pairs(c.bindings) do list[#list + 1] = b end
    table.sort(list, by_name)
    c.sorted = list
  end
  return c.sorted
end

local function shown(b) return { binding_name = { { id = b.id, kind = b.kind } }, binding_type = b.context and "ncontext" or "nobject" } end

local function slice(list, from, n)
  local out = {}
  for i = from, math.min(#list, from + n - 1) do out[#out + 1] = shown(list[i]) end
  return out
end

local function forget(self, it)
  if self.iterators[it] then
    self.iterators[it] = nil
    self.niterators = self.niterators - 1
    self.broker:deactivate(it)
  end
end

-- The oldest gives way: nobody has used it for longest.
local function make_iterator(self, list, at)
  if self.niterators >= self.limits.iterators then
    local oldest
    for it in pairs(self.iterators) do
      if not oldest or it.used < oldest.used then oldest = it end
    end
    forget(self, oldest)
  end
  self.clock = self.clock + 1
  local it = setmetatable({ service = self, list = list, at = at, used = self.clock }, iterator)
  self.iterators[it], self.niterators = true, self.niterators + 1
  return self.broker:serve(it, ITERATOR)
end

function context.list(c, how_many)
  local list = sorted(c)
  return slice(list, 1, how_many), #list > how_many and make_iterator(c.service, list, how_many + 1) or nil
end

local function use(it)
  local self = it.service
  self.clock = self.clock + 1
  it.used = self.clock
end

function iterator.next_one(it)
  use(it)
  local b = it.list[it.at]
  it.at = it.at + 1
  if b then return true, shown(b) end
  return false, { binding_name = {}, binding_type = "nobject" }
end

function iterator.next_n(it, how_many)
  if how_many == 0 then refuse("BAD_PARAM", "next_n is asked for nothing") end
  use(it)
  local out = slice(it.list, it.at, how_many)
  it.at = it.at + #out
  return #out > 0, out
end

function iterator.destroy(it) forget(it.service, it) end

-- ---- NamingContextExt ----

local function parsed(text)
  local name = corbaname.name(text)
  if not name then invalid() end
  return name
end

function context.to_name(_, text) return parsed(text) end

function context.to_string(_, name)
  check(name)
  return corbaname.text(name)
end

function context.to_url(_, address, text)
  parsed(text)
  local url = "corbaname:" .. address .. "#" .. corbaloc.escape(text)
  if address == "" or address:find("#", 1, true) or not corbaname.parse(url) then raise("NamingContextExt/InvalidAddress", {}) end
  return url
end

function context.resolve_str(c, text) return c:resolve(parsed(text)) end

-- ---- serving ----

--- How many names there are.
function service:count()
  local n = 0
  for _, c in pairs(self.contexts) do n = n + c.n end
  return n
end

--- Ends it: its contexts are no objects any more, and the file is closed. The broker goes on.
function service:close()
  if self.closed then return end
  self.closed = true
  for it in pairs(self.iterators) do forget(self, it) end
  for _, c in pairs(self.contexts) do
    if not self.broker.closed then self.broker:deactivate(c) end
  end
  self.store:close()
end

service.__close = service.close

local OPTIONS = { db = "string", key = "string", limits = "table" }

local function check_options(options)
  for name, value in pairs(options) do
    if not OPTIONS[name] then error(("naming.serve: there is no option '%s'; there are db, key, limits"):format(tostring(name)), 3) end
    if type(value) ~= OPTIONS[name] then error(("naming.serve: option '%s' is a %s"):format(name, OPTIONS[name]), 3) end
  end
  for name in pairs(options.limits or {}) do
    if not LIMITS[name] then error(("naming.serve: there is no limit '%s'; there are bytes, federation, iterators"):format(tostring(name)), 3) end
  end
end

local function load(self)
  local function one(id, name, kind, as_context, child, reference)
    local c = self.contexts[id]
    if not c then return end
    local b = { id = name, kind = kind, context = as_context, child = child, reference = reference }
    self.bytes = self.bytes + size_of(b)
    put(c, b)
  end
  return self.store:load(function(id)
    local c = make_context(self, id)
    if id == ROOT then self.root = c end
    self.bytes = self.bytes + COST
  end, one)
end

--- Serves a naming service: service.root.proxy is its root context. { db = file of SQLite that keeps it, key = "NameService", limits = { bytes,
--- iterators, federation } }. Raises what is wrong with the file.
function naming.serve(broker, options)
  options = options or {}
  check_options(options)
  if not broker.repository:lookup "CosNaming::NamingContextExt" then broker:load(cosnaming, { name = "CosNaming.idl" }) end
  local kept, err = store.open(options.db)
  if not kept then error("naming.serve: " .. err, 0) end
  local self = setmetatable({ broker = broker, store = kept, key = options.key or KEY, contexts = {}, iterators = {}, niterators = 0,
                              clock = 0, bytes = 0, limits = setmetatable(options.limits or {}, { __index = LIMITS }) }, service)
  self.plain = broker:interface "CosNaming::NamingContext"
  local fine, done, why = pcall(load, self)
  if not fine or not done then
    kept:close()
    error("naming.serve: " .. tostring(why or done), 0)
  end
  return self
end


return require "mare.near".guard(naming)
