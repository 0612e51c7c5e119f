--[[
mare.orb.intercept.flow: who is told next (the flow stack of CORBA 3.3 part 1, 21.3.5 and 21.3.8), for both sides.

Interceptors are told of the start in order, and each whose starting point has ended without an error of its own is told of the end, in reverse order:
info._reached is how many those are. What one raises becomes the outcome of the request, and those after it are told of that. So
each is told of one end of one start, whatever the others do.

Outcomes are in info._status ("SUCCESSFUL", "SYSTEM_EXCEPTION", "USER_EXCEPTION", "LOCATION_FORWARD", "TRANSPORT_RETRY") and in
  _results    packed, of a successful one
  _error      what was raised, as it was raised: an exception, or an error of Lua's or mare's that is not for the wire
  _forward    the canonical IOR to which it is sent
]]
local errors = require "mare.error"
local exception = require "mare.orb.exception"
local info = require "mare.orb.intercept.info"

local system = exception.system
local FORWARD = "IDL:omg.org/PortableInterceptor/ForwardRequest:1.0"
local PASSING = { cancelled = true, linked = true, deadline = true }    -- errors of mare's that end more than this call

local flow = {}

--- The outcome is an error.
function flow.fail(self, err)
  self._error, self._exception, self._forward, self._results = err or tostring(err), false, false, false
  self._status = exception.is(err) and not exception.is_system(err) and "USER_EXCEPTION" or "SYSTEM_EXCEPTION"
end

--- The outcome is that it is sent elsewhere.
function flow.forward(self, bytes)
  self._status, self._forward, self._error, self._exception, self._results = "LOCATION_FORWARD", bytes, false, false, false
end

--- The outcome is these results.
function flow.succeed(self, results)
  self._status, self._results, self._error, self._exception, self._forward = "SUCCESSFUL", results, false, false, false
end

local function forwarded(self, err)
  local bytes = err.forward ~= nil and self._list.broker:ior_of(err.forward)
  if bytes then return flow.forward(self, bytes) end
  flow.fail(self, system("INV_OBJREF", 0, "COMPLETED_NO", "an interceptor forwards a request to a nil reference"))
end

-- How far the request is, for exceptions that are made here.
local function completed(self, point)
  if point == "receive_reply" or point == "send_reply" then return "COMPLETED_YES" end
  if point == "receive_exception" or point == "send_exception" then return info.exception_of(self._error).completed or "COMPLETED_YES" end
  return "COMPLETED_NO"
end

-- A mistake in an interceptor.
local function accident(self, interceptor, point, err)
  local fine, text = pcall(tostring, err)
  text = ("interceptor '%s' failed in %s: %s"):format(tostring(interceptor.name or ""), point, fine and text or "an error that is no text")
  pcall(self._list.broker.log, 1, text)
  local name = err == "not enough memory" and "NO_MEMORY" or "UNKNOWN"
  return system(name, 0, completed(self, point), text)
end

-- An interceptor has raised something.
local function raised(self, interceptor, point, err)
  local free, may_forward = interceptor.free, point ~= "receive_reply" and point ~= "send_reply"
  if exception.is(err, FORWARD) then
    if free or may_forward then
      local fine, why = pcall(forwarded, self, err)
      if fine then return end
      err = exception.is_system(why) and why or accident(self, interceptor, point, why)
    else
      err = system("BAD_INV_ORDER", 14, completed(self, point), ("interceptor '%s' forwards in %s, where that can't be done")
        :format(tostring(interceptor.name or ""), point))
    end
  elseif exception.is_system(err) or free and exception.is(err) or errors.is(err) and PASSING[err.kind] then
    return flow.fail(self, err)
  elseif exception.is(err) then
    err = system("UNKNOWN", 1, completed(self, point), ("interceptor '%s' raised %s in %s; system exceptions are all it may raise")
      :format(tostring(interceptor.name or ""), tostring(err), point))
  else
    err = accident(self, interceptor, point, err)
  end
  flow.fail(self, err)
end

flow.raised = raised

local function tell(self, list, i, point)
  local f = list[point][i]
  if f then f(list[0][i], self) end
end

-- While interceptors run, their fiber has an empty thread scope.
local function apart(list, f, self, ...)
  local slots = list.slots
  if slots.n == 0 then return f(self, list, ...) end
  local before = slots:swap(false)
  f(self, list, ...)
  slots:swap(before)
end

local function start(self, list)
  for i = 1, list.n do
    if list[1][i] then
      local fine, err = pcall(list[1][i], list[0][i], self)
      if not fine then return raised(self, list[0][i], list.points[1], err) end
    end
    self._reached = i
    if self._status then return end                -- a free one has answered
  end
end

--- The starting points. The info has an outcome if one of them made one.
function flow.start(list, self)
  self._point = 1
  apart(list, start, self)
  self._point = 0
end

--- A point between start and end (receive_request): all that were told of the start. A first error is the outcome.
function flow.middle(list, self, point)
  self._point = point
  for i = 1, self._reached do
    local fine, err = pcall(tell, self, list, i, point)
    if not fine then
      raised(self, list[0][i], list.points[point], err)
      break
    end
    if self._status then break end
  end
  self._point = 0
end

local function finish(self, list)
  local last = #list.points                        -- …, reply, exception, other
  for i = self._reached, 1, -1 do
    local status = self._status
    local point = status == "SUCCESSFUL" and self.response_expected and last - 2
      or (status == "SYSTEM_EXCEPTION" or status == "USER_EXCEPTION") and last - 1 or last
    self._point, self._reached = point, i - 1
    local fine, err = pcall(tell, self, list, i, point)
    if not fine then raised(self, list[0][i], list.points[point], err) end
  end
end

--- The ending points, of all whose starting point has come to its end.
function flow.finish(list, self)
  if self._reached > 0 then apart(list, finish, self) end
  self._point = 0
end

--- An info for a request.
function flow.take(list, class)
  local n = #list.spare
  local self = list.spare[n]
  if not self then return info.new(class, list) end
  list.spare[n] = nil
  return self
end

--- The request is over.
function flow.give(list, self)
  info.clear(self)
  if #list.spare < 64 then list.spare[#list.spare + 1] = self end
end

--- For free interceptors: the outcome, instead of what it would have been or is.
function info.client_class.methods._answer(self, fine, ...)
  if fine then flow.succeed(self, table.pack(...)) else flow.fail(self, (...)) end
end
info.server_class.methods._answer = info.client_class.methods._answer

return flow
