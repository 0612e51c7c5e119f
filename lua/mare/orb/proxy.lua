--[[
mare.orb.proxy: a remote object as a Lua object. This module is the metatable of every proxy.

A proxy is a table of two strings: `_ior`, its canonical IOR, and `_type`, the repository id of the interface it is used through. All else
that is known of it, connection and operations, is its *state* and lies in a table of this module, keyed by the proxy. So a proxy sent to
another process arrives as these two strings with the receiver's own module as metatable, and works there as soon as that process has a broker.

No name of IDL begins with an underscore, so what does is the broker's. `state.class` maps names to functions; it is one table per interface and
broker and is filled as names are used (see interface.lua).
]]
local near = require "mare.orb.near"
local exception = require "mare.orb.exception"
local straight = require "mare.orb.core"

local proxy = { __name = "proxy" }

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

-- What the program wrote is wrong: `level` leads to it, counted from the caller.
local function unknown(state, key, what, level)
  local meant = type(key) == "string" and near(key, names_of(state))
  error(("interface '%s' has no %s '%s'%s%s"):format(state.def.scoped or state.def.name, what, tostring(key),
    meant and "; did you mean " .. meant .. "?" or "", state.unlearned and ": " .. state.unlearned or ""), level + 1)
end

local async = {}

function async.__index(self, key)
  local target = self[1]
  local operation = target[key]
  local function start(_, ...) return proxy.spawn(operation, target, ...) end
  rawset(self, key, start)
  return start
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

-- What is no operation: the value of an attribute, or what must be made for it.
local function other(self, state, key)
  local class = state.class
  local get = type(key) == "string" and class["_get_" .. key]
  if get then return get(self) end
  if key == "_async" then
    state.async = state.async or setmetatable({ self }, async)
    return state.async
  end
  local word = type(key) == "string" and key:match("^_(%a+)$")
  if word and keywords[word] and class[word] then
    class[key] = class[word]
    return class[key]
  end
  if fields[key] then return nil end
  if learned(self, state, key) then return self[key] end
  unknown(state, key, "operation or attribute", 3 + ABOVE)
end

local function index(self, key)
  local state = states[self] or adopt(self, 3 + ABOVE)
  return state.class[key] or other(self, state, key)
end

proxy.__index = record and straight.index(record, states, index) or index

function proxy.__newindex(self, key, value)
  local state = states[self] or adopt(self)
  local class = state.class
  local set = type(key) == "string" and class["_set_" .. key]
  if set then
    set(self, value)
  elseif type(key) == "string" and class["_get_" .. key] then
    error(("attribute '%s' is readonly"):format(key), 2)
  elseif learned(self, state, key) then
    self[key] = value
  else
    unknown(state, key, "attribute", 2)
  end
end

function proxy.__eq(a, b) return proxy.is(a) and proxy.is(b) and rawget(a, "_ior") == rawget(b, "_ior") end

function proxy.__tostring(self)
  return require "mare.orb.giop.ior".stringify(rawget(self, "_ior"))
end

--- Which interface is meant by a name, a repository id or a definition; raises what is none.
function proxy.interface(broker, name)
  local def = require "mare.orb.types".definition(name)
  if type(name) == "string" then def = broker:interface(name) end
  if type(def) ~= "table" or def.kind ~= "interface" then
    error(exception.system("BAD_PARAM", 0, "COMPLETED_NO", ("'%s' is no interface"):format(tostring(name))), 0)
  end
  return def
end

return proxy
