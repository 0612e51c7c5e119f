--[[
mare.orb.intercept.client: calls of a broker with interceptors: what stands in the place of invoke.run.

Each attempt is a request of its own for interceptors, as the standard wants it: one that is forwarded, or sent again on another connection, ends with
receive_other, and the next begins with send_request. A one-way operation ends with receive_other, too, SUCCESSFUL, when it is written.

An object in this process is called directly, and the interceptors of both sides are told all the same: they get each other's service contexts.

An ordinary call is made, and told of, in C (src/module/orb_told.c) by a function that each operation has; it has an info of its own, in which all
that is the same for all its calls is set already. What it can't do ends in `once`, `resumed` and `rescue`, with that info.
]]
local mare = require "mare"
local exception = require "mare.orb.exception"
local flow = require "mare.orb.intercept.flow"
local info = require "mare.orb.intercept.info"
local invoke = require "mare.orb.invoke"
local proxy = require "mare.orb.proxy"
local straight = require "mare.orb.core"

local clock = mare.clock
local system = exception.system
local pack, unpack = table.pack, table.unpack
local link_of, attempt, judge, RESULTS, FORWARDS = invoke.link_of, invoke.attempt, invoke.judge, invoke.RESULTS, invoke.FORWARDS
local NOTHING = { n = 0 }

local client = {}

-- A call of an object of this process. What is raised there is raised here as it is.
local function direct(self, target, op, args)
  local server = target.broker.server
  if not server.dispatch.interceptors then
    return flow.succeed(self, pack(invoke.direct(target, op, unpack(args, 1, args.n))))
  end
  local outcome, heard = server.flow.direct(server.dispatch, target.entry, op, self._contexts, self.request_id, args)
  self._heard = heard
  if outcome._forward then return flow.forward(self, outcome._forward) end
  if outcome._status ~= "SUCCESSFUL" then return flow.fail(self, outcome._error) end
  flow.succeed(self, outcome._results)
end

-- One attempt: the info has its outcome. -> what invoke.judge says of another one
local function judged(self, target, op, link, deadline, again, forwards, reply, status, at, bits, contexts)
  self._heard = contexts or {}
  if status == 0 then
    return flow.succeed(self, op.reply and pack(op.reply:decode(reply, at, bits | link.conn.codec | RESULTS)) or NOTHING)
  end
  local result, count = judge(target, link, op, deadline, again, forwards, reply, status, at, bits, self._contexts or nil)
  if result == nil then return flow.succeed(self, NOTHING) end
  if reply and status ~= 5 then flow.forward(self, target.ior) else self._status = "TRANSPORT_RETRY" end
  return result, count
end

local function exchange(self, target, op, deadline, again, forwards)
  local args = self._args
  local link = link_of(target, clock(), deadline)
  if not link then return direct(self, target, op, args) end
  return judged(self, target, op, link, deadline, again, forwards,
                attempt(target, link, op, self._contexts or nil, deadline, unpack(args, 1, args.n)))
end

local function describe(self, op)
  self.operation, self.response_expected = op.name, op.response ~= 0
  self.sync_scope = op.oneway and "SYNC_WITH_TRANSPORT" or "SYNC_WITH_TARGET"
  self._op, self._def = op, op.def
end

local function open(list, state, target, op, args)
  local self = flow.take(list, info.client_class)
  list.serial = list.serial + 1
  self.request_id = list.serial
  describe(self, op)
  self._state, self._target, self._args = state, target, args
  self._slots = list.slots.n > 0 and list.slots:scope()
  return self
end

local function too_often(op)
  error(system("TRANSIENT", 0, "COMPLETED_NO", ("%s was forwarded more than %d times"):format(op.qualified, FORWARDS)), 0)
end

-- The request has ended. -> its results; or nil, target: it goes on there
local function close(list, self, target)
  local status, results, err, bytes = self._status, self._results, self._error, self._forward
  flow.give(list, self)
  if status == "SUCCESSFUL" then return results end
  if status == "TRANSPORT_RETRY" then return nil, target end
  if status ~= "LOCATION_FORWARD" then error(err, 0) end
  if bytes == target.ior then return nil, target end
  return nil, list.broker:target_of(bytes)         -- an interceptor's: of this call alone
end

-- -> how often it was forwarded or sent again, as invoke.judge counts
local function try(list, self, target, op, deadline, again, forwards)
  flow.start(list, self)
  local before = forwards
  if not self._status then
    local fine, one, many = pcall(exchange, self, target, op, deadline, again, forwards)
    if not fine then flow.fail(self, one)
    elseif one ~= nil then again, forwards = one, many end
  end
  flow.finish(list, self)
  if self._status == "LOCATION_FORWARD" and forwards == before then forwards = forwards + 1 end      -- an interceptor's
  return again, forwards
end

-- The attempt that `self` is of is over: its results, or those of the next ones.
local function go_on(list, self, state, target, op, args, deadline, again, forwards)
  local results
  while true do
    results, target = close(list, self, target)
    if results then return unpack(results, 1, results.n) end
    if forwards > FORWARDS then too_often(op) end
    self = open(list, state, target, op, args)
    again, forwards = try(list, self, target, op, deadline, again, forwards)
  end
end

--- As invoke.run.
function client.run(state, op, ...)
  if state.check then invoke.verify(state) end
  local list, target, args, timeout = state.broker.client_list, state.target, pack(...), state.timeout
  local deadline = timeout and clock() + timeout
  local self = open(list, state, target, op, args)
  local again, forwards = try(list, self, target, op, deadline, false, 0)
  return go_on(list, self, state, target, op, args, deadline, again, forwards)
end

----------------------------------------------------------------------------------------------------- what C leaves to Lua

-- The outcome: results, or the info is raised, which `rescue` knows.
local function settle(self, again, forwards)
  if self._status == "SUCCESSFUL" then return unpack(self._results, 1, self._results.n) end
  self._again, self._forwards = again or false, forwards or 0
  error(self, 0)
end

-- An attempt of a call that has been told of, but is not ordinary.
local function once(self, object, ...)
  local state = proxy.state(object)
  self._state, self._target, self._args = state, state.target, pack(...)
  self._deadline = state.timeout and clock() + state.timeout or false
  if state.check then invoke.verify(state) end
  return settle(self, exchange(self, state.target, self._op, self._deadline or nil, false, 0))
end

-- Goes on where src/module/orb_call.c stopped, as invoke.resume.
local function resumed(self, op, link, id, deadline, rest, sent, ...)
  local state = proxy.state(self._proxy)
  self._state, self._target, self._args, self._deadline = state, state.target, pack(...), deadline or false
  return settle(self, judged(self, state.target, op, link, deadline, false, 0, link:resume(id, rest, sent, deadline)))
end

local STARTS, CALLS = 1, 2                        -- stages of src/module/orb_told.c

-- Something was raised at that stage, by the i-th interceptor if it was one: results, or it raises.
local function rescue(self, stage, i, err, object, ...)
  local list, op = self._list, self._op
  self._point = 0
  local state = proxy.state(object)
  self._state, self._target, self._args = state, self._target or state.target, pack(...)
  if stage == CALLS then
    if err ~= self then flow.fail(self, err) end
  else
    flow.raised(self, list[0][i], stage == STARTS and "send_request" or "receive_reply", err)
    self._reached = i - 1
  end
  flow.finish(list, self)
  return go_on(list, self, state, self._target, op, self._args, self._deadline or nil, self._again, self._forwards)
end

local record = straight.telling()

--- The function of an operation, as interface.lua makes those of brokers without interceptors; nil: it is not for C.
function client.operation(broker, calling, op)
  if not record or op.oneway then return nil end
  local list, states, adopt = broker.client_list, proxy.states, proxy.state
  local function fresh()
    local self = info.new(info.client_class, list)
    describe(self, op)
    self._args, self._results, self._status = { n = 0 }, { n = 0 }, "SUCCESSFUL"
    return self
  end
  local function slow(object, ...) return client.run(states[object] or adopt(object, 4), op, ...) end
  return straight.told(record, list, fresh(), straight.call(calling, states, op, once, resumed, true), slow, fresh, rescue)
end

--- From now on calls of this broker go by here; also of proxies that were made before.
function client.set(broker)
  broker.invoke = client.run
  broker.classes, broker.operations = {}, {}
  for _, state in pairs(proxy.states) do
    if state.broker == broker and state.class then state.class, state.async = broker:class_of(state.def), nil end
  end
end

return client
