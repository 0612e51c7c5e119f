--[[
mare.orb.adapter: the objects of a server.

An entry is an object: `key`, `servant`, `interface` (its definition), `id` (of the interface), `calls` (operation -> how it is called, made by
dispatch and shared by all objects of the interface), `ior` (made when somebody needs it). An entry is in `objects` by its key until it is
deactivated, and its servant is held so long: an object lives until the program says that it is gone.

`by_servant[table]` is the entry that stands for a table when the table is passed as a reference: the first one made, or the one served
by the program. A table may be several objects, one for each interface that has nothing to do with the others, or for each key.

Keys: those the program chose are what they are. The others begin with the adapter's stamp, eight random bytes; so a reference that
outlived its server finds no object in the next one, and numbers are never used again within one.
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
    objects = {}, by_servant = setmetatable({}, { __mode = "k" }), by_ior = setmetatable({}, { __mode = "v" }), count = 0, serial = 0,
    stamp = TRANSIENT .. random_bytes(), calls_of = calls_of, is_a = is_a,
  }, adapter)
end

local function is_servant(value) return type(value) == "table" or type(value) == "function" or type(value) == "userdata" end

function adapter:new_key()
  self.serial = self.serial + 1
  return self.stamp .. string.pack(">I4", self.serial)
end

--- Makes an object. `key`: a text of the program's choice, else a transient one.
function adapter:activate(servant, interface, key)
  if not is_servant(servant) then
    error(("serve: a servant is a table or a function, not a %s"):format(type(servant)), 0)
  end
  if key ~= nil and type(key) ~= "string" or key == "" then error("serve: the key of an object is a text that is not empty", 0) end
  if key and self.objects[key] then
    error(("serve: there is an object with the key '%s' already; deactivate it first"):format(key), 0)
  end
  key = key or self:new_key()
  local entry = { key = key, servant = servant, interface = interface, id = interface.id, calls = self.calls_of(interface),
                  dynamic = type(servant) == "function", forward = false }
  self.objects[key] = entry
  self.count = self.count + 1
  return entry
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

function adapter:remove(entry)
  if self.objects[entry.key] ~= entry then return false end
  self.objects[entry.key] = nil
  self.count = self.count - 1
  unlink(self, entry)
  if entry.ior then self.by_ior[entry.ior] = nil end
  entry.gone = true
  if self.removed then self.removed() end
  return true
end

--- Does this key come from a server that is gone (or was made up)?
function adapter:stale(key)
  return key:sub(1, #TRANSIENT) == TRANSIENT and key:sub(1, #self.stamp) ~= self.stamp
end

--- The entry for a request: an active object, else what the locator or the default servant gives; nil: there is none.
function adapter:find(key, operation)
  local entry = self.objects[key]
  if entry then return entry end
  if key:sub(1, #TRANSIENT) == TRANSIENT then return nil end    -- a number that is gone stays gone
  if self.locator then
    local located = self:located(key, operation)
    if located then return located end
  end
  return self.default
end

--- The entry of a key without asking the program: an active object, else the default's; nil: there is none.
function adapter:known(key)
  return self.objects[key] or key:sub(1, #TRANSIENT) ~= TRANSIENT and self.default or nil
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
  interface = self.interface_of(interface)
  return { key = key, servant = servant, interface = interface, id = interface.id, calls = self.calls_of(interface),
           dynamic = type(servant) == "function" }
end

return adapter
