--[[
mare.orb.intercept.server: requests of a server with interceptors: what stands in the place of dispatch.serve.

The object is looked for between receive_request_service_contexts and receive_request, by dispatch.lua as ever: its `execute` gives what it found
to `run` below, or to `forwarded`. Results stay values until the last interceptor has been told; then they become the reply, with the service contexts
that were added. If they can't be sent after all, the client gets that exception, and no interceptor hears of it.

A one-way request ends with send_other, SUCCESSFUL: there is no reply to be sent.
]]
local errors = require "mare.error"
local dispatching = require "mare.orb.dispatch"
local exception = require "mare.orb.exception"
local flow = require "mare.orb.intercept.flow"
local info = require "mare.orb.intercept.info"
local straight = require "mare.orb.core"
local tracing = require "mare.trace.core"

local system, own_failed = exception.system, dispatching.failed
local pack, unpack = table.pack, table.unpack
local BULK, BEFORE, DURING, AFTER = 64, 1, 2, 3
local RECEIVE_REQUEST = 2
local ENDINGS = { cancelled = true, linked = true }
local NOTHING = { n = 0 }

local server = {}

-- Runs what is between start and end in the scope that the interceptors have set for the servant's fiber.
local function within(list, self, trace, f, ...)
  if list.slots.n == 0 then return xpcall(f, trace, ...) end
  local before = list.slots:swap(list.slots.copy(self._slots))
  local fine, err = xpcall(f, trace, ...)
  list.slots:swap(before)
  return fine, err
end

-- receive_request, then the servant.
local function perform(list, dispatch, self, job, entry, call, args)
  self._args = args
  flow.middle(list, self, RECEIVE_REQUEST)
  if self._status then return end
  job.phase = DURING
  args = self._args
  flow.succeed(self, pack(dispatch:perform(entry, call, unpack(args, 1, args.n))))
end

--- What dispatch's `execute` does when it has found the object and the operation.
function server.run(job, call, entry, message, at)
  local self = job.info
  self._entry, self._call, self._def = entry, call, call.def or false
  perform(self._list, self._list.broker.server.dispatch, self, job, entry, call,
          call.arguments and pack(call.arguments:decode(message, at, job.codec | BULK)) or NOTHING)
end

--- The object is elsewhere.
function server.forwarded(job, bytes) flow.forward(job.info, bytes) end

local function open(list, key, operation, id, response)
  local self = flow.take(list, info.server_class)
  self.operation, self.request_id, self.response_expected = operation, id, response == 3 or response == 1
  self.sync_scope = response == 3 and "SYNC_WITH_TARGET" or response == 1 and "SYNC_WITH_SERVER" or "SYNC_NONE"
  self._key = key
  return self
end

-- The servant or what is around it has raised `err`, as dispatch.trace gives it.
local function failed(dispatch, self, job, err)
  if job.cancelled or ENDINGS[err.kind] then
    flow.fail(self, system("TRANSIENT", 3, "COMPLETED_MAYBE", "the request was cancelled"))
  else
    flow.fail(self, dispatch:exception_of(job, err))
  end
end

local function reply_of(dispatch, self, job)
  local status = self._status
  if job.silent then return nil end
  if status == "LOCATION_FORWARD" then return dispatch:forward_reply(job, self._forward) end
  if status ~= "SUCCESSFUL" then return dispatch:exception_reply(job, self._error) end
  local call, results = self._call, self._results
  job.phase = AFTER
  return call.reply(call.results, job.id, job.codec | BULK, 0, job.contexts, unpack(results, 1, results.n))
end

-- As reply_of, whatever goes wrong.
local function answer(dispatch, self, job)
  local fine, reply = xpcall(reply_of, dispatch.trace, dispatch, self, job)
  if fine then return reply end
  return own_failed(dispatch, job, reply)
end

-- The ending points, and the reply. `err`: what was raised, as dispatch.trace gives it, if the fiber or its process may be ending.
local function conclude(list, dispatch, self, job, err)
  flow.finish(list, self)
  local last = self._error
  if not err and errors.is(last) then err = dispatch.trace(last) end          -- an interceptor was cancelled
  job.info, job.contexts = false, nil
  if job.cancelled then return nil end
  if type(err) == "table" and ENDINGS[err.kind] then return own_failed(dispatch, job, err) end
  if last and not exception.is(last) then self._error = info.exception_of(last) end
  job.contexts = self._contexts or nil
  local reply = answer(dispatch, self, job)
  job.contexts = nil
  flow.give(list, self)
  return reply
end

--- As dispatch.serve.
function server.serve(dispatch, job, message, at, key, operation)
  local list = dispatch.interceptors
  local self = open(list, key, operation, job.id, job.response)
  job.phase, job.call, job.key, job.operation, job.silent = BEFORE, false, key, operation, job.response == 0
  job.info, job.contexts, self._job, self._message = self, nil, job, message
  flow.start(list, self)
  local fine, err = true, nil
  if not self._status then fine, err = within(list, self, dispatch.trace, dispatch.execute, dispatch, job, message, at, key, operation) end
  if not fine then failed(dispatch, self, job, err) end
  return conclude(list, dispatch, self, job, err)
end

local DECODE, SERVANT, FREE, STARTS, MIDDLE = -1, -2, 0, 1, 2           -- stages of src/module/orb_serve.c, and points

--- As dispatch.failed. In C a request with interceptors is told of until something is raised; the rest is done here.
function server.failed(dispatch, job, err)
  local self = job.told
  if not self or self._point == FREE or self._job ~= job then return own_failed(dispatch, job, err) end
  local list, stage = self._list, self._point
  job.told, self._status, self._point = false, false, FREE
  straight.tell(list.record, list, list.fresh())             -- this one is ours now
  if stage == DECODE then flow.start(list, self) end
  if job.cancelled or ENDINGS[err.kind] then failed(dispatch, self, job, err)
  elseif stage == DECODE or stage == SERVANT then
    if not self._status then failed(dispatch, self, job, err) end
  elseif stage == STARTS then flow.raised(self, list[0][self._reached + 1], "receive_request_service_contexts", err)
  elseif stage == MIDDLE then flow.raised(self, list[0][self._at], "receive_request", err)
  else flow.raised(self, list[0][self._reached + 1], "send_reply", err) end
  return conclude(list, dispatch, self, job, err)
end

--- What makes an info for the requests that C serves.
function server.fresh(list)
  return function()
    local self = info.new(info.server_class, list)
    self.response_expected, self._args, self._results, self._status = true, { n = 0 }, { n = 0 }, "SUCCESSFUL"
    return self
  end
end

if tracing.serve then                              -- a trace is on
  local serve = server.serve
  function server.serve(dispatch, job, message, at, key, operation)
    local id = job.id
    tracing.serve(job, id, operation)
    local reply = serve(dispatch, job, message, at, key, operation)
    tracing.served(job, id)
    return reply
  end
end

---------------------------------------------------------------------------------------------------------- local callers

local call_directly
function call_directly(list, dispatch, self, job, entry, operation, args)
  if entry.ticket then                           -- its adapter says who the servant is
    return dispatch.adapter.tree:with(entry.key, operation, function(found)
      call_directly(list, dispatch, self, job, found, operation, args)
    end)
  end
  if entry.forward then return flow.forward(self, entry.forward) end
  if entry.gone then error(system("OBJECT_NOT_EXIST", 1, "COMPLETED_NO", "the object was deactivated"), 0) end
  local call = dispatch:call_of(entry, operation)
  self._entry, self._call, self._def = entry, call, call.def or false
  perform(list, dispatch, self, job, entry, call, args)
end

local function as_it_is(err) return err end

local function by_ids(contexts)
  local heard = {}
  for _, c in ipairs(contexts or {}) do heard[c[1]] = c[2] end
  return heard
end

--- Calls an object of this process: its outcome (an info's fields), and the service contexts that were added, by their ids. What the servant
--- raises is in it as it was raised.
function server.direct(dispatch, entry, op, contexts, id, args)
  local list = dispatch.interceptors
  local self = open(list, entry.key, op.name, id, op.response)
  self._heard = by_ids(contexts)
  flow.start(list, self)
  local fine, err = true, nil
  if not self._status then
    fine, err = within(list, self, as_it_is, call_directly, list, dispatch, self, { phase = BEFORE, peer = false }, entry, op.name, args)
  end
  if not fine then flow.fail(self, err) end
  flow.finish(list, self)
  local outcome = { _status = self._status, _results = self._results, _error = self._error, _forward = self._forward }
  local added = by_ids(self._contexts)
  flow.give(list, self)
  return outcome, added
end

return server
