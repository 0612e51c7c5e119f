--[[
mare.orb.adapter: the objects of a server, whatever object adapter (poa.lua) they belong to.

An entry is an object: `key`, `servant`, `interface` (its definition), `id` (of the interface), `calls` (operation -> how it is called, made by
dispatch and shared by all objects of the interface), `ior` (made when somebody needs it), `poa`. An entry is in its adapter's `entries` by its key
until it is deactivated, and its servant is held so long: an object lives until the program says that it is gone.

`objects` has those that a request needs no more for than its key: their adapter only looks objects up, and its manager is active. Whatever else is
called gets a *ticket* in place of an entry, which goes by poa/scope.lua.

What broker:serve makes is an object of omniINSPOA, if it has a key, or of RootPOA. The broker's locator and default servant are asked for keys of
omniINSPOA that belong to no object.

`by_servant[table]` is the entry that stands for a table when the table is passed as a reference: the first one made, or the one served
by the program. A table may be several objects, one for each interface that has nothing to do with the others, or for each key.

Keys: those the program chose are what they are. Those of transient objects begin with the server's stamp, eight random bytes; so a reference that
outlived its server finds no object in the next one, and numbers are never used again within one. See poa/key.lua for all others.
]]
local exception = require "mare.orb.exception"
local core = require "mare.orb.giop.core"

local adapter = {}
adapter.__index = adapter

local TRANSIENT = "\xffmare"                     -- what a key that is no text begins with

-- Nobody else has drawn them; under --seed each run draws the same.
local function random_bytes()
  local stamp = core.stamp()
  if stamp then return stamp end
  local file = io.open("/dev/urandom", "rb")
  local bytes = file and file:read(8)
  if file then file:close() end
  if bytes and #bytes == 8 then return bytes end
  return string.pack(">I4I4", math.random(0) & 0xffffffff, os.time() & 0xffffffff)
end

---@param calls_of fun(interface: table): table   dispatch's table of calls of an interface
---@param is_a fun(interface: table, id: string): boolean
function adapter.new(calls_of, is_a)
  return setmetatable({
    objects = {}, by_servant = setmetatable({}, { __mode = "k" }), by_ior = setmetatable({}, { __mode = "v" }), count = 0,
    stamp = TRANSIENT .. random_bytes(), calls_of = calls_of, is_a = is_a,
  }, adapter)
end

local function is_servant(value) return type(value) == "table" or type(value) == "function" or type(value) == "userdata" end

--- An entry that is in no map.
function adapter:make(poa, key, servant, interface)
  return { key = key, poa = poa, servant = servant, interface = interface, id = interface.id, calls = self.calls_of(interface),
           dynamic = type(servant) == "function", forward = false }
end

--- An entry becomes an object of its adapter.
function adapter:add(entry)
  local poa = entry.poa
  entry.gone = not poa.open
  poa.entries[entry.key] = entry
  self.count = self.count + 1
  if poa.open then self.objects[entry.key] = entry end
  return entry
end

--- Makes an object. `key`: a text of the program's choice, else a transient one.
function adapter:activate(servant, interface, key)
  if not is_servant(servant) then
    error(("serve: a servant is a table or a function, not a %s"):format(type(servant)), 0)
  end
  if key ~= nil and type(key) ~= "string" or key == "" then error("serve: the key of an object is a text that is not empty", 0) end
  local poa = key and self.tree.plain or self.tree.root
  if key and poa.entries[key] then
    error(("serve: there is an object with the key '%s' already; deactivate it first"):format(key), 0)
  end
  return self:add(self:make(poa, key or poa:new_key(), servant, interface))
end

--- Makes an object that is the broker's own: it is called at once whatever the managers say, and isn't counted.
function adapter:resident(servant, interface, key)
  local entry = self:make(self.tree.plain, key or self.tree.root:new_key(), servant, interface)
  self.objects[entry.key] = entry
  return entry
end

--- The object with a key, called at once or not; nil: there is none.
function adapter:entry(key)
  local entry = self.objects[key]
  if entry then return entry end
  local poa = self.tree:owner(key)
  return poa and poa.entries[key]
end

--- The object that stands for a servant where its interface, or one it inherits, is expected. nil: none yet.
function adapter:of(servant, id)
  local entry = self.by_servant[servant]
  while entry and id and not self.is_a(entry.interface, id) do entry = entry.other end
  return entry
end

--- From now on this entry is what the servant means as a reference, before those it already has.
function adapter:represent(servant, entry)
  local before = self.by_servant[servant]
  if before ~= entry then entry.other = before end
  self.by_servant[servant] = entry
end

-- `entry` is one of a servant's several.
local function unlink(self, entry)
  local first = self.by_servant[entry.servant]
  if first == entry then
    self.by_servant[entry.servant] = entry.other
    return
  end
  while first and first.other ~= entry do first = first.other end
  if first then first.other = entry.other end
end

--- Is called when requests must look their objects up anew.
function adapter:changed()
  if self.removed then self.removed() end
end

function adapter:remove(entry)
  local key, poa = entry.key, entry.poa
  if poa.entries[key] ~= entry then return false end
  poa.entries[key], self.objects[key] = nil, nil
  self.count = self.count - 1
  unlink(self, entry)
  if entry.ior then self.by_ior[entry.ior] = nil end
  entry.gone = true
  self:changed()
  return true
end

--- Is it a transient object's, of this server or another?
function adapter.transient(key) return key:sub(1, #TRANSIENT) == TRANSIENT end

--- Does this key come from a server that is gone (or was made up)?
function adapter:stale(key) return adapter.transient(key) and key:sub(1, #self.stamp) ~= self.stamp end

-- A text that is no object's key: what the locator or the default servant gives; nil: nothing.
local function elsewhere(self, key, operation)
  if self.locator then
    local located = self:located(key, operation)
    if located then return located end
  end
  return self.tree.plain.default
end

-- What goes in place of an entry: the tree of adapters takes the request, to this one if it is there.
local function ticket(key, poa) return { key = key, ticket = true, poa = poa } end

--- The entry for a request: an active object, else what the locator or the default servant gives, or a ticket; nil: there is none. Without an
--- operation somebody only wants to know whether there is an object.
function adapter:find(key, operation)
  local entry = self.objects[key] or self.residents and self.residents(key)
  if entry then return entry end
  local tree = self.tree
  local poa = tree:owner(key)
  if poa == tree.plain and poa.open then return elsewhere(self, key, operation) end
  if poa and not operation and not poa:known(key) or not poa and self:stale(key) then return nil end
  if poa == tree.root and poa.open then return nil end         -- a number that is gone stays gone
  if not operation and not tree:known(key) then return nil end
  return ticket(key, poa)
end

--- What a call within this process finds: an entry, or a ticket where its adapter does more than look it up; nil: it goes over the network.
function adapter:here(key)
  local entry = self.objects[key]
  if entry and not (entry.poa.several and entry.poa ~= self.tree.plain) then return not entry.forward and entry or nil end
  local poa = self.tree:owner(key)
  if not poa or poa.lasting and not poa.entries[key] then return nil end
  entry = poa.entries[key]
  return not (entry and entry.forward) and ticket(key) or nil
end

--- The entry of a key without asking the program: an active object, else the default's; nil: there is none.
function adapter:known(key)
  local poa = self.tree:owner(key)
  return poa and (poa.entries[key] or poa.default) or nil
end

-- What the program's locator says: a servant and its interface, for this request alone.
function adapter:located(key, operation)
  local servant, interface = self.locator(key, operation)
  if servant == nil then return nil end
  if self.forward_of then
    local ior = type(servant) ~= "function" and self.forward_of(servant)
    if ior then return { key = key, forward = ior } end
  end
  if not is_servant(servant) then
    error(exception.system("OBJ_ADAPTER", 2, "COMPLETED_NO", ("the locator gave a %s for '%s'"):format(type(servant), key)), 0)
  end
  return self:make(self.tree.plain, key, servant, self.interface_of(interface))
end

return adapter
