--[[
mare.orb.intercept.client: calls of a broker with interceptors: what stands in the place of invoke.run.

Each attempt is a request of its own for interceptors, as the standard wants it: one that is forwarded, or sent again on another connection, ends with
receive_other, and the next begins with send_request. A one-way operation ends with receive_other, too, SUCCESSFUL, when it is written.

An object in this process is called directly, and the interceptors of both sides are told all the same: they get each other's service contexts.
]]
local mare = require "mare"
local exception = require "mare.orb.exception"
local flow = require "mare.orb.intercept.flow"
local info = require "mare.orb.intercept.info"
local invoke = require "mare.orb.invoke"
local proxy = require "mare.orb.proxy"

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
local function exchange(self, target, op, deadline, again, forwards)
  local args = self._args
  local link = link_of(target, clock(), deadline)
  if not link then return direct(self, target, op, args) end
  local reply, status, at, bits, contexts = attempt(target, link, op, self._contexts or nil, deadline, unpack(args, 1, args.n))
  self._heard = contexts or {}
  if status == 0 then
    return flow.succeed(self, op.reply and pack(op.reply:decode(reply, at, bits | link.conn.codec | RESULTS)) or NOTHING)
  end
  local result, count = judge(target, link, op, deadline, again, forwards, reply, status, at, bits)
  if result == nil then return flow.succeed(self, NOTHING) end
  if reply and status ~= 5 then flow.forward(self, target.ior) else self._status = "TRANSPORT_RETRY" end
  return result, count
end

local function open(list, state, target, op, args)
  local self = flow.take(list, info.client_class)
  list.serial = list.serial + 1
  self.operation, self.request_id, self.response_expected = op.name, list.serial, op.response ~= 0
  self.sync_scope = op.oneway and "SYNC_WITH_TRANSPORT" or "SYNC_WITH_TARGET"
  self._state, self._target, self._op, self._args, self._def = state, target, op, args, op.def
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

local function call(list, state, op, args)
  local target, timeout = state.target, state.timeout
  local deadline, again, forwards = timeout and clock() + timeout, false, 0
  local results
  while true do
    local self = open(list, state, target, op, args)
    again, forwards = try(list, self, target, op, deadline, again, forwards)
    results, target = close(list, self, target)
    if results then return unpack(results, 1, results.n) end
    if forwards > FORWARDS then too_often(op) end
  end
end

--- As invoke.run.
function client.run(state, op, ...)
  if state.check then invoke.verify(state) end
  return call(state.broker.client_list, state, op, pack(...))
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
