--[[
mare.ludo.proxy: an object elsewhere as a Lua object. This module is the metatable of every proxy.

A proxy is a table of one string, its reference; all else is its *state*, kept here. So a proxy that is sent to another process is that string
with the receiver's own module as metatable, and works there once that process has a broker. Operations never begin with an underscore: what does
is the broker's.
]]
local mare = require "mare"
local core = require "mare.ludo.core"
local failure = require "mare.ludo.failure"
local reference = require "mare.ludo.reference"

local proxy = { __name = "ludo proxy" }
local states = setmetatable({}, { __mode = "k" })
local brokers = {}                               -- the open ones of this process; proxies from other processes belong to the first
local operations = setmetatable({}, { __mode = "v" })
local own = {}

function proxy.settle(broker) brokers[#brokers + 1] = broker end

function proxy.leave(broker)
  for i, other in ipairs(brokers) do
    if other == broker then return table.remove(brokers, i) end
  end
end

function proxy.is(value) return getmetatable(value) == proxy end

--- A proxy of a reference: it | nil, what is wrong with that.
function proxy.new(broker, text, timeout)
  local state, err = reference.parse(text)
  if not state then return nil, err end
  state.broker, state.world, state.timeout, state.link = broker, broker.world, timeout, false
  local self = setmetatable({ _reference = text }, proxy)
  states[self] = state
  return self
end

local function state_of(self)
  local state = states[self]
  if state then return state end
  if not proxy.is(self) then error("an operation needs its object: write object:operation(…), with a colon", 3) end
  local broker = brokers[1] or error("this process has no broker for the proxy it was sent: call ludo.init first", 3)
  state = assert(reference.parse(self._reference))
  state.broker, state.world, state.timeout, state.link = broker, broker.world, broker.options.timeout, false
  states[self] = state
  return state
end

local record = core.calling()                    -- or nil: there are no functions in C

local function resume(state, ...) return state.broker.resume(state, ...) end

local function operation(name)
  local function call(self, ...)
    local state = state_of(self)
    return state.broker.invoke(state, name, ...)
  end
  if record then call = core.call(record, states, name, call, resume) end
  operations[name] = call
  return call
end

local async = {}
function async.__index(self, name)
  if type(name) ~= "string" or name:find "^_" then return nil end
  local object = self[1]
  return function(_, ...) return mare.fiber.spawn(object[name], object, ...) end
end

--- object:_with{ timeout = seconds }: the same object, whose calls may take so long; 0: for ever
function own:_with(options)
  if type(options) ~= "table" or type(options.timeout) ~= "number" then error("_with takes { timeout = seconds }", 2) end
  local state = state_of(self)
  return proxy.new(state.broker, self._reference, options.timeout > 0 and options.timeout or nil)
end

function proxy.__index(self, name)
  local f = operations[name] or own[name]
  if f then return f end
  if name == "_async" then return setmetatable({ self }, async) end
  if type(name) ~= "string" or name:find "^_" then
    error(("operations are called by names without an underscore at their beginning, not '%s'"):format(tostring(name)), 2)
  end
  return operation(name)
end

function proxy.__newindex(_, name) error(("a proxy has no fields to set: '%s'"):format(tostring(name)), 2) end
function proxy:__tostring() return rawget(self, "_reference") or "ludo proxy" end
function proxy.__eq(a, b) return rawget(a, "_reference") == rawget(b, "_reference") end

proxy.failure = failure
return proxy
