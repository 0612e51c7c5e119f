--[[
mare.orb.proxy: a remote object as a Lua object. This module is the metatable of every proxy.

A proxy is a table of two strings: `_ior`, its canonical IOR, and `_type`, the repository id of the interface it is used through. All else
that is known of it, connection and operations, is its *state* and lies in a table of this module, keyed by the proxy. So a proxy sent to
another process arrives as these two strings with the receiver's own module as metatable, and works there as soon as that process has a broker.

No name of IDL begins with an underscore, so what does is the broker's. `state.class` maps names to functions; it is one table per interface and
broker and is filled as names are used (see interface.lua).
]]
local basic = require "mare.orb.idl.basic"
local near = require "mare.orb.near"
local exception = require "mare.orb.exception"
local straight = require "mare.orb.core"

local proxy = { __name = "proxy" }
local OBJECT = basic.object.id

local states = setmetatable({}, { __mode = "k" })
proxy.states = states

local record = straight.calling()                -- or nil: there are no functions in C
local ABOVE = record and 1 or 0                  -- levels of the call stack that these take

-- The open brokers of this process. Proxies from other processes belong to the first.
local brokers = {}

function proxy.settle(broker) brokers[#brokers + 1] = broker end

function proxy.leave(broker)
  for i, other in ipairs(brokers) do
    if other == broker then return table.remove(brokers, i) end
  end
end

local keywords = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true until while"):gmatch("%a+") do
  keywords[word] = true
end

-- Other modules ask any table for these.
local fields = { _anytype = true, _anyval = true, _switch = true, _value = true, _field = true, _repid = true }

--- Is it a proxy?
function proxy.is(value) return type(value) == "table" and getmetatable(value) == proxy end

-- A proxy that came from another process, or what is none.
local function adopt(self, level)
  if not proxy.is(self) then
    error("an operation needs its object: write object:operation(…), with a colon", level or 3)
  end
  if not brokers[1] then error("this process has no broker for the proxy it was sent: call orb.init first", level or 3) end
  local state = brokers[1]:adopt(self)
  states[self] = state
  return state
end

--- The state of a proxy, wherever it came from.
function proxy.state(self) return states[self] or adopt(self, 4) end

--- A new proxy of an IOR; the state is complete.
function proxy.new(ior, id, state)
  local self = setmetatable({ _ior = ior, _type = id }, proxy)
  states[self] = state
  return self
end

local function names_of(state)
  local names = {}
  for name in pairs(state.broker.repository:operations(state.def)) do names[#names + 1] = name:gsub("^_[gs]et_", "") end
  for name in pairs(state.broker.everywhere) do names[#names + 1] = name end
  return names
end

-- What helps who knows no more of an object than that it is one; "": its interface is known.
local function advice(self, state)
  if state.unlearned then return ": " .. state.unlearned end
  if state.def.id ~= OBJECT then return "" end
  local id = state.broker:type_id_of(self)
  if id ~= "" and id ~= OBJECT then
    return ("; it is of type '%s', whose IDL is not loaded: see broker:load, or let its server be asked, orb.init{ repository = true }"):format(id)
  end
  return '; its reference does not tell its interface: name it, broker:proxy(reference, "Mod::Name"), or let its server be asked, ' ..
    "orb.init{ repository = true }"
end

-- What the program wrote is wrong: `level` leads to it, counted from the caller.
local function unknown(self, state, key, what, level)
  local meant = type(key) == "string" and near(key, names_of(state))
  error(("interface '%s' has no %s '%s'%s%s"):format(state.def.scoped or state.def.name, what, tostring(key),
    meant and "; did you mean " .. meant .. "?" or "", advice(self, state)), level + 1)
end

-- Is more known of the object now? Its interface was only declared when the proxy was made, or somebody can be asked.
local function learned(self, state, key)
  if type(key) ~= "string" then return false end
  local class = state.broker:class_of(state.def)
  if class ~= state.class then
    state.class = class
    return true
  end
  local teacher = state.broker.teacher
  return teacher and teacher:learn(self)
end

local async = {}

-- -> true and what the key is: an operation, the value of an attribute, or what must be made for it; false: nothing.
local function look(self, state, key)
  local class = state.class
  if class[key] then return true, class[key] end
  local get = type(key) == "string" and class["_get_" .. key]
  if get then return true, get(self) end
  if key == "_async" then
    state.async = state.async or setmetatable({ self }, async)
    return true, state.async
  end
  local word = type(key) == "string" and key:match("^_(%a+)$")
  if word and keywords[word] and class[word] then
    class[key] = class[word]
    return true, class[key]
  end
  return fields[key] or false, nil
end

-- `level` leads to what the program wrote, counted from the caller.
local function find(self, key, level)
  local state = states[self] or adopt(self, level + 2)
  local found = state.class[key]
  if found then return found end
  local is, value = look(self, state, key)
  if not is and learned(self, state, key) then is, value = look(self, state, key) end
  if not is then unknown(self, state, key, "operation or attribute", level + 1) end
  return value
end

function async.__index(self, key)
  local target = self[1]
  local operation = find(target, key, 2)
  local function start(_, ...) return proxy.spawn(operation, target, ...) end
  rawset(self, key, start)
  return start
end

local function index(self, key) return find(self, key, 1 + ABOVE) end

proxy.__index = record and straight.index(record, states, index) or index

-- -> what sets an attribute; nil, and whether there is one that can only be read.
local function setter(state, key)
  if type(key) ~= "string" then return nil, false end
  local class = state.class
  return class["_set_" .. key], class["_get_" .. key] ~= nil
end

function proxy.__newindex(self, key, value)
  local state = states[self] or adopt(self)
  local set, is = setter(state, key)
  if not set and not is and learned(self, state, key) then set, is = setter(state, key) end
  if set then return set(self, value) end
  if is then error(("attribute '%s' is readonly"):format(key), 2) end
  unknown(self, state, key, "attribute", 2)
end

function proxy.__eq(a, b) return proxy.is(a) and proxy.is(b) and rawget(a, "_ior") == rawget(b, "_ior") end

function proxy.__tostring(self)
  return require "mare.orb.giop.ior".stringify(rawget(self, "_ior"))
end

--- Which interface is meant by a name, a repository id or a definition; raises what is none.
function proxy.interface(broker, name)
  local def
  if type(name) == "string" then def = broker:interface(name) else def = require "mare.orb.types".definition(name) end
  if type(def) ~= "table" or def.kind ~= "interface" then
    error(exception.system("BAD_PARAM", 0, "COMPLETED_NO", ("'%s' is no interface"):format(tostring(name))), 0)
  end
  return def
end

return proxy
