--[[
mare.orb.request: requests that are made at run time (CORBA's DII).

  local request = object:_request("add", { "long", "long", result = "long" })          see signature.lua; without one IDL must say it
  print(request:invoke(40, 2))
  request:send_deferred(1, 2); … if request:poll_response() then print(request:get_response()) end
  request:send_oneway(3, 4)

A request is made once and may be sent any number of times: its marshalling programs are kept. One reply at a time is waited for; that is done by a
fiber, as of every asynchronous call.
]]
local exception = require "mare.orb.exception"
local interface = require "mare.orb.interface"
local proxy = require "mare.orb.proxy"
local signature = require "mare.orb.signature"

local request = { __name = "request" }
request.__index = request

local function order(minor, text) error(exception.system("BAD_INV_ORDER", minor, "COMPLETED_NO", text), 0) end

--- A request to a proxy.
---@param object table
---@param name string
---@param given? table
function request.new(object, name, given)
  local state = proxy.state(object)
  local broker = state.broker
  if type(name) ~= "string" or name == "" then error("_request takes the name of an operation", 3) end
  local def
  if given ~= nil then
    local fine, result = pcall(signature.operation, broker, name, given)
    if not fine then error("_request: " .. tostring(result), 3) end
    def = result
  else
    if broker.teacher then broker.teacher:learn(object) end
    def = broker.repository:operations(state.def)[name] or interface.everywhere[name]
    if not def then
      error(("_request: nothing is known of an operation '%s' of %s: say what it takes and gives, as { \"long\", result = \"string\" }")
        :format(name, state.def.scoped or state.def.name), 3)
    end
  end
  local fine, ready = pcall(interface.operation, broker.env, state.def.scoped or state.def.name, def)
  if not fine then error("_request: " .. tostring(ready):gsub("^%S+:%d+: ", ""), 3) end     -- a type that was written by hand
  return setmetatable({ target = object, operation = name, def = def, broker = broker, ready = ready }, request)
end

local function run(self, ready, ...)
  local state = proxy.state(self.target)
  if not ready.contexts then return self.broker.invoke(state, ready, ...) end
  local args = { ... }
  args[ready.contexts + 1] = {}
  return self.broker.invoke(state, ready, table.unpack(args, 1, ready.contexts + 1))
end

--- Sends it and waits: the result, then inout and out values.
function request:invoke(...) return run(self, self.ready, ...) end

--- Sends it; the reply is asked for later.
function request:send_deferred(...)
  if self.future then order(0, "the reply to this request has not been taken yet: get_response") end
  self.future = proxy.spawn(run, self, self.ready, ...)
  return self
end

--- Is the reply there?
function request:poll_response()
  if not self.future then order(11, "this request was not sent: send_deferred") end
  local ok, result = self.future:wait(0)
  return not (ok == nil and result == "timeout")
end

local function taken(self, ok, ...)
  self.future = nil
  if ok then return ... end
  error((...), 0)
end

--- Waits for the reply: as invoke.
function request:get_response()
  if not self.future then order(11, "this request was not sent: send_deferred") end
  return taken(self, self.future:wait())
end

--- Sends it and expects no reply, whatever the operation's IDL says; results are lost.
function request:send_oneway(...)
  if not self.posted then
    local def = {}
    for k, v in pairs(self.def) do def[k] = v end
    def.oneway = true
    self.posted = interface.operation(self.broker.env, self.ready.qualified:match "^(.*)::[^:]*$", def)
  end
  run(self, self.posted, ...)
end

return request
