--[[
mare.orb.repository.learn: a broker that asks for the interfaces it has no IDL of.

  orb.init{ repository = true }                  asks each object's server by _interface
  orb.init{ repository = "corbaloc:…" }          asks that Interface Repository
  orb.init{ repository = { at = true | reference, definitions =, bytes =, depth =, time = } }

What is learned is loaded as any IDL is, so it lasts as long as the broker, and whoever loaded or learned an id first has said what it means: what
differs is an error, and the program's own IDL is never replaced. A *teacher* counts what was learned in its whole life against the limits; what
fails leaves nothing behind.
]]
local channel = require "mare".channel
local basic = require "mare.orb.idl.basic"
local exception = require "mare.orb.exception"
local invoke = require "mare.orb.invoke"
local ior = require "mare.orb.giop.ior"
local proxy = require "mare.orb.proxy"
local read = require "mare.orb.repository.read"

local learn = {}

local teacher = {}
teacher.__index = teacher

local function refuse(format, ...) error(exception.system("INTF_REPOS", 0, "COMPLETED_NO", format:format(...)), 0) end

-- What servers say that have no repository.
local none = { INTF_REPOS = true, NO_IMPLEMENT = true, BAD_OPERATION = true, NO_PERMISSION = true }

--- Asks a call's target for its InterfaceDef. -> a proxy | nil, why
function learn.ask(broker, object, timeout)
  local asking = { broker = broker, target = proxy.state(object).target, timeout = timeout }
  local fine, found = pcall(invoke.run, asking, broker:operation("_interface"))
  if fine and found then return found end
  if fine then return nil, "its server has no interface repository" end
  if none[exception.is_system(found)] then return nil, "its server has no interface repository: " .. tostring(found) end
  error(found, 0)
end

-- The repository that was given, as a proxy.
local function given(self)
  if not self.object then
    local broker = self.broker
    local bytes = require "mare.orb.reference".read(broker, self.at)
    if bytes == ior.null then refuse("the interface repository is a nil reference") end
    self.object = broker:bind(bytes, basic.object)
  end
  return self.object
end

local function reader(self, repository)
  local left = {}
  for name, value in pairs(self.limits) do left[name] = value end
  left.definitions, left.bytes = left.definitions - self.n, left.bytes - self.bytes
  left.known = read.known(self.broker.repository)
  left.repository = repository or self.at ~= true and given(self) or nil
  return read.new(self.broker, left)
end

-- Loads what was read for `model`, which must be an interface, and one of `is`, if there is such. -> its definition
local function load(self, r, model, is)
  local broker, id = self.broker, model.id
  if model.kind ~= "interface" then refuse("the interface repository says that '%s' is no interface", id) end
  if is and not broker:is_a(model, is) then
    refuse("the reference is one of '%s', and its server says that the object is a '%s'", is:sub(1, 100), id)
  end
  local fine, err = pcall(broker.load, broker, r:text(), { name = "interface repository" })
  if not fine then refuse("what the interface repository says of '%s' is no correct IDL: %s", id, tostring(err):sub(1, 500)) end
  self.n, self.bytes = self.n + r.n, self.bytes + r.nbytes
  for of, m in pairs(r.models) do                -- what was only declared can be asked for there
    if m.forward and not self.declared[of] then self.declared[of] = r.repository end
  end
  return broker.repository:lookup(id)
end

-- The interface of an object. -> definition | nil, why
local function find(self, object)
  local broker, id = self.broker, ior.parse(rawget(object, "_ior")).type_id
  local own = broker.repository:lookup(id)
  if own and own.forward and not own.file then return broker:interface(id) end     -- one of CORBA's own
  local r = reader(self)
  if self.at ~= true and id ~= "" and id ~= basic.object.id then
    return load(self, r, r:id(id))
  end
  local description, why = learn.ask(broker, object, self.limits.time)
  if not description then return nil, why end
  return load(self, r, r:interface(description), id ~= "" and id or nil)
end

-- Whoever asks tells the others when it is over, also if its fiber is ended meanwhile.
local Asking = {}
function Asking.__close(self)
  self.state.asking:close()
  self.state.asking = nil
end

local function once(self, object, state)
  state.asking = channel.new()
  local guard <close> = setmetatable({ state = state }, Asking)        -- luacheck: ignore guard
  local found, why = find(self, object)
  state.asked = true
  if not found then
    state.unlearned = why
    return false
  end
  self.broker:become(object, found)
  return true
end

--- Finds out what an object can do, once for each proxy: also more than the interface it was passed as. -> is its class another one now
function teacher:learn(object)
  local state = proxy.state(object)
  local broker, def = self.broker, state.def
  if not def.forward and def ~= basic.object and broker:interface_in(rawget(object, "_ior")) then return false end
  if state.asking then                           -- another fiber does: then it is known, or there is nothing to know
    state.asking:receive()
    return state.def ~= def
  end
  if state.asked then return false end
  return once(self, object, state)
end

--- The whole definition of an interface that was only declared in what was learned, from the repository that declared it; nil: none did.
function teacher:complete(id)
  local repository = self.declared[id]
  if not repository then return nil end
  local r = reader(self, repository)
  local def = load(self, r, r:id(id))
  self.declared[id] = nil
  return def
end

--- The definition of an interface that the given repository has by this name or id; nil: none, or no repository was given.
function teacher:named(name)
  if self.at == true then return nil end
  local r = reader(self)
  local id = name:find "^%a+:.+:[%d.]+$" and name or name:find "^[%w_:.]+$" and r:lookup((name:gsub("%.", "::")))
  if not id then return nil end
  return load(self, r, r:id(id))
end

--- What a broker's option says; nil: it asks nobody.
function learn.new(broker)
  local option = broker.options.repository
  if not option then return nil end
  if type(option) ~= "table" then option = { at = option } end
  local limits = {}
  for name, value in pairs(read.limits) do limits[name] = option[name] or value end
  return setmetatable({ broker = broker, at = option.at == nil or option.at, limits = limits, n = 0, bytes = 0,
                        declared = {} }, teacher)                       -- id of an interface that was only declared -> the repository that has it
end

return learn
