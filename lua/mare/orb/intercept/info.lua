--[[
mare.orb.intercept.info: what interceptors see of a request (CORBA 3.3 part 1, 21.3.10 to 21.3.14).

An info is used for one request at a time, and again for a later one: it says nothing outside of interception points. What is there at every point
is a plain field (`operation`, `request_id`, `response_expected`, `sync_scope`); all else is made when somebody asks for it, by the functions below,
each with the points at which the standard allows it. Elsewhere asking is BAD_INV_ORDER minor 14.

Fields of the flows (client.lua, server.lua), which no interceptor needs:
  _point      at which point it is, 0 or below: at none; _reached: the flow stack, so many interceptors have had their starting point
  _list       of whom it is; _args, _results: packed with `n`; _status, _error, _exception, _forward: how it went
  _contexts   service contexts that are added, as messages take them: { { id, data }, … }; _heard: those that came, by their ids
  _slots      the request scope of PICurrent
]]
local exception = require "mare.orb.exception"
local core = require "mare.orb.giop.core"
local ior = require "mare.orb.giop.ior"
local near = require "mare.orb.near"
local proxy = require "mare.orb.proxy"

local system, context = exception.system, core.context

local info = {
  client = { "send_request", "receive_reply", "receive_exception", "receive_other" },
  server = { "receive_request_service_contexts", "receive_request", "send_reply", "send_exception", "send_other" },
  OWN = { [1] = "the code sets of the connection" },               -- ids of contexts that only the broker may add
  MOST = 1 << 20,                                                  -- bytes of a context that is added
}

---------------------------------------------------------------------------------------------------------------- validity

local function order(text) error(system("BAD_INV_ORDER", 14, "COMPLETED_NO", text), 0) end

-- Raises as the info is not at one of the points where there is such a thing.
local function refuse(self, what)
  local point = self._point
  if point <= 0 then order(("'%s' of a request is asked for outside of an interception point"):format(what)) end
  order(("there is no '%s' in %s"):format(what, self._points[point]))
end

-- The points that a text has the numbers of.
local function points_of(text)
  local valid = {}
  for n in text:gmatch "%d" do valid[tonumber(n)] = true end
  return valid
end

local function names_of(class)
  local names = { "operation", "request_id", "response_expected", "sync_scope" }
  for name in pairs(class.attributes) do names[#names + 1] = name end
  for name in pairs(class.methods) do
    if name:sub(1, 1) ~= "_" then names[#names + 1] = name end
  end
  return names
end

local function make_class(points)
  local class = { points = points, attributes = {}, methods = {}, valid = {} }
  local attributes, methods, valid = class.attributes, class.methods, class.valid
  class.metatable = {
    __name = "request info",
    __index = function(self, name)
      local method = methods[name]
      if method then return method end
      local get = attributes[name]
      if not get then
        local meant = type(name) == "string" and near(name, names_of(class))
        error(("a request has no '%s' for interceptors%s"):format(tostring(name), meant and "; did you mean " .. meant .. "?" or ""), 2)
      end
      if not valid[name][self._point] then refuse(self, name) end
      return get(self)
    end,
    __newindex = function(_, name) error(("'%s' can't be set in what an interceptor is told"):format(tostring(name)), 2) end,
    __tostring = function(self)
      return self._point <= 0 and "request info (not in use)" or ("request info (%s of %s)"):format(points[self._point], self.operation)
    end,
  }
  return class
end

local client, server = make_class(info.client), make_class(info.server)

-- attribute(class, "name", "points", function(self) … end)
local function attribute(class, name, valid, get)
  class.attributes[name], class.valid[name] = get, points_of(valid)
end

-- What a method got as its object.
local function check_self(self, name)
  if type(self) ~= "table" or not rawget(self, "_points") then
    error(("%s needs the request: write info:%s(…), with a colon"):format(name, name), 3)
  end
end

-- Called with a dot a method lacks its last argument, which costs less to see than what its object is.
local function method(class, name, valid, f)
  valid = points_of(valid)
  class.methods[name] = function(self, a)
    if a == nil then check_self(self, name) end
    if not valid[self._point] then refuse(self, name) end
    return f(self, a)
  end
end

-- method of two arguments; a third one is a boolean, or nil
local function setter(class, name, valid, f)
  valid = points_of(valid)
  class.methods[name] = function(self, a, b, c)
    if b == nil or b == true or b == false then check_self(self, name) end
    if not valid[self._point] then refuse(self, name) end
    return f(self, a, b, c)
  end
end

--- A new one; `list`: whose it is.
function info.new(class, list)
  local self = {
    operation = "", request_id = 0, response_expected = false, sync_scope = "SYNC_WITH_TARGET",
    _points = class.points, _point = 0, _reached = 0, _list = list, _args = false, _results = false, _status = false, _error = false,
    _exception = false, _forward = false, _contexts = false, _heard = false, _message = false, _slots = false, _state = false, _target = false,
    _op = false,
    _job = false, _entry = false, _call = false, _key = false, _answered = false, _def = false, _proxy = false,
    _deadline = false, _again = false, _forwards = 0, _at = 0, _kept = false,
  }
  for name, f in pairs(class.methods) do self[name] = f end      -- found at once
  return setmetatable(self, class.metatable)
end

--- It belongs to no request any more. Nothing of one is kept.
function info.clear(self)
  self._point, self._reached, self._args, self._results, self._status, self._error = 0, 0, false, false, false, false
  self._exception, self._forward, self._contexts, self._heard, self._message, self._slots = false, false, false, false, false, false
  self._state, self._target, self._op, self._job, self._entry, self._call, self._key = false, false, false, false, false, false, false
  self._answered, self._def, self._proxy, self._deadline, self._again, self._forwards = false, false, false, false, false, 0
end

info.client_class, info.server_class = client, server

----------------------------------------------------------------------------------------------------------------- of both

local function parameters(self, with_results)
  local def, list = self._def, {}
  local args, results = self._args or { n = 0 }, with_results and self._results
  local at, out = 0, def and def.result and def.result.kind ~= "void" and 1 or 0
  for i, p in ipairs(def and def.params or {}) do
    local mode, value = p.mode or "in", nil
    if mode ~= "out" then
      at = at + 1
      value = args[at]
    end
    if mode ~= "in" then
      out = out + 1
      if results then value = results[out] end
    end
    list[i] = { name = p.name, mode = mode, type = p.type, value = value }
  end
  return list
end

local function result(self)
  local T = self._def and self._def.result
  if not T or T.kind == "void" then return nil end
  return self._results and self._results[1]
end

local function exceptions(self)
  local list = {}
  for i, T in ipairs(self._def and self._def.raises or {}) do list[i] = T end
  return list
end

local function contexts(self)
  local list = {}
  for i, name in ipairs(self._def and self._def.context or {}) do list[i] = name end
  return list
end

local function forward_reference(self)
  if self._status ~= "LOCATION_FORWARD" then order "there is no 'forward_reference': the request was not forwarded" end
  return self._list.broker:proxy(ior.stringify(self._forward))
end

local function status(self) return self._status end

--- The exception of CORBA that an error is for others.
function info.exception_of(err)
  if exception.is(err) then return err end
  local fine, text = pcall(tostring, type(err) == "table" and rawget(err, "text") or err)
  return system("UNKNOWN", 0, "COMPLETED_MAYBE", fine and text or nil)
end

local function raised(self)
  local e = self._exception or info.exception_of(self._error)
  self._exception = e
  return e
end

local function raised_id(self) return raised(self)._repid end

local function get_slot(self, id) return self._list.slots:read(self._slots, id) end

local function check_id(id, what)
  if math.type(id) == "integer" and id >= 0 and id <= 0xffffffff then return end
  error(("%s: the id of a service context is a number from 0 to 4294967295, not %s"):format(what, tostring(id)), 0)
end

local function none(id) error(system("BAD_PARAM", 26, "COMPLETED_NO", ("there is no service context %d"):format(id)), 0) end

-- The data of one that came. A message is looked at when somebody asks.
local function heard(self, id)
  if self._heard then return self._heard[id] end
  return self._message and context(self._message, id)
end

-- Those that were added, { { id, data } … }: data | nil, its place
local function added(list, id)
  for i, c in ipairs(list or {}) do
    if c[1] == id then return c[2], i end
  end
end

local function check_added(id, data)
  check_id(id, "a service context is added")
  if type(data) ~= "string" then error(("the data of service context %d are a string, not a %s"):format(id, type(data)), 0) end
  if info.OWN[id] then error(system("BAD_PARAM", 0, "COMPLETED_NO", ("service context %d is the broker's own: %s"):format(id, info.OWN[id])), 0) end
  if #data > info.MOST then
    error(system("IMP_LIMIT", 0, "COMPLETED_NO", ("service context %d has %d bytes; %d is the most"):format(id, #data, info.MOST)), 0)
  end
end

-- add(self, id, data, replace). A list of one, which is the ordinary case, is kept for the next request.
local function add(self, id, data, replace)
  check_added(id, data)
  local list, kept = self._contexts, self._kept
  if not list then
    if kept then kept[1][1], kept[1][2] = id, data else kept = { { id, data } } end
    self._contexts, self._kept = kept, kept
    return
  end
  local _, i = added(list, id)
  if i and not replace then
    error(system("BAD_INV_ORDER", 15, "COMPLETED_NO", ("there is a service context %d already, and it is not to be replaced"):format(id)), 0)
  end
  self._kept = false
  list[i or #list + 1] = { id, data }
end

for _, class in ipairs { client, server } do
  attribute(class, "reply_status", class == client and "234" or "345", status)
  attribute(class, "forward_reference", class == client and "4" or "5", forward_reference)
  method(class, "get_slot", "12345", get_slot)
end

-------------------------------------------------------------------------------------------------------------- the client

attribute(client, "arguments", "12", function(self) return parameters(self, self._point == 2) end)
attribute(client, "result", "2", result)
attribute(client, "exceptions", "1234", exceptions)
attribute(client, "contexts", "1234", contexts)
attribute(client, "operation_context", "1234", function(self)
  local n = self._op and self._op.contexts
  return n and self._args and self._args[n + 1] or {}
end)
attribute(client, "received_exception", "3", raised)
attribute(client, "received_exception_id", "3", raised_id)

local function state_of(self) return self._state or proxy.state(self._proxy) end

local function target_of(self) return self._target or state_of(self).target end

local function proxy_of(self, bytes)
  return self._list.broker:bind(bytes, state_of(self).def or self._list.broker:interface "Object")
end

attribute(client, "target", "1234", function(self) return self._proxy or proxy_of(self, state_of(self).target.first) end)
attribute(client, "effective_target", "1234", function(self) return proxy_of(self, target_of(self).ior) end)

local function profile(self)
  local target = target_of(self)
  local e = target.endpoint or target.endpoints[1]
  for _, p in ipairs(ior.parse(target.ior).profiles) do
    if not e or p.data == e.profile then return p end
  end
end

attribute(client, "effective_profile", "1234", function(self)
  local p = profile(self)
  return p and { tag = p.tag, data = p.data }
end)

local function components(self, tag)
  local list, p = {}, profile(self)
  for _, c in ipairs(p and p.components or {}) do
    if c[1] == tag then list[#list + 1] = c[2] end
  end
  if not list[1] then error(system("BAD_PARAM", 28, "COMPLETED_NO", ("the profile has no component %s"):format(tostring(tag))), 0) end
  return list
end

method(client, "get_effective_component", "1234", function(self, tag) return components(self, tag)[1] end)
method(client, "get_effective_components", "1234", components)

method(client, "get_request_service_context", "1234", function(self, id)
  check_id(id, "get_request_service_context")
  return added(self._contexts, id) or none(id)
end)
method(client, "get_reply_service_context", "234", function(self, id)
  check_id(id, "get_reply_service_context")
  return heard(self, id) or none(id)
end)
setter(client, "add_request_service_context", "1", add)

-------------------------------------------------------------------------------------------------------------- the server

attribute(server, "arguments", "23", function(self) return parameters(self, self._point == 3) end)
attribute(server, "result", "3", result)
attribute(server, "exceptions", "2345", exceptions)
attribute(server, "contexts", "2345", contexts)
attribute(server, "operation_context", "23", function(self)
  local n = self._call and self._call.contexts
  return n and self._args and self._args[n + 1] or {}
end)
attribute(server, "sending_exception", "4", raised)
attribute(server, "object_id", "2345", function(self) return self._entry and self._entry.poa:oid_of(self._key) or self._key end)
attribute(server, "adapter_id", "2345", function(self) return self._entry and self._entry.poa.id or "" end)

local function entry_of(self)
  return self._entry or error(system("NO_RESOURCES", 1, "COMPLETED_NO", "there is no object"), 0)
end

attribute(server, "target_most_derived_interface", "2", function(self) return entry_of(self).id end)
method(server, "target_is_a", "2", function(self, id)
  if type(id) == "string" and not id:find ":" then id = self._list.broker:interface(id).id end
  return self._list.broker:is_a(entry_of(self).interface, id)
end)
attribute(server, "peer", "12345", function(self)
  local peer = self._job and self._job.peer
  return peer and self._list.peer(peer.connection.socket) or nil
end)

method(server, "get_request_service_context", "12345", function(self, id)
  check_id(id, "get_request_service_context")
  return heard(self, id) or none(id)
end)
method(server, "get_reply_service_context", "345", function(self, id)
  check_id(id, "get_reply_service_context")
  return added(self._contexts, id) or none(id)
end)
setter(server, "add_reply_service_context", "12345", add)
setter(server, "set_slot", "12345", function(self, id, value) self._slots = self._list.slots:write(self._slots, id, value) end)

return info
