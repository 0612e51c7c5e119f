--[[
mare.oil.icept: OiL's interceptors, in front of the broker's own.

What OiL's interceptors are called with is one table for all of a request: both of its ends get the same, and what the first stores there the second
finds. They may change parameters and results, answer themselves (`success`), and send the request elsewhere (`reference`), at both ends. That is done
here, around the broker. The broker's interceptors, of which `bridge` is one, only carry service contexts to messages and from them, and forward
requests.

A *tray* is what the two hand each other, by the storage of the fiber that does both: `out`, contexts to add; `heard`, those that came; `forward`.

With setinterceptor(i, "client" | "server"), without "corba.", requests have the manual's older form, too: `operation` is a name, parameters and
results are elements, `service_context` is there.
]]
local mare = require "mare"
local orb_module = require "mare.orb"
local core = require "mare.orb.giop.core"
local fault = require "mare.oil.fault"
local reference = require "mare.oil.reference"

local fiber = mare.fiber
local pack, unpack = table.pack, table.unpack
local TRAY = "mare.oil"
local REQUEST = 0                                -- a type of message

local icept = {}

-- ---- trays ----

--- Before a call: what it takes along.
function icept.begin(request)
  local store = fiber.storage()
  local tray = { out = request.service_context, before = store[TRAY] }
  store[TRAY] = tray
  return tray
end

--- After it: the contexts of the reply | nil: there was none.
function icept.stop(tray)
  fiber.storage()[TRAY] = tray.before
  return tray.heard
end

local function copy(contexts)
  local list = {}
  for id, data in pairs(contexts or {}) do list[id] = data end
  return list
end

local bridge = { name = "OiL", free = true }

-- OiL 0.5 has lists of { context_id =, context_data = } instead of a map.
local function each(contexts, f, info)
  for id, data in pairs(contexts or {}) do
    if type(data) == "table" then id, data = data.context_id, data.context_data end
    f(info, id, data, true)
  end
end

function bridge.send_request(_, info)
  local tray = fiber.storage()[TRAY]
  if tray then each(tray.out, info.add_request_service_context, info) end
end

-- The contexts that came with a message, as a map | nil: no message came.
local function arrived(info)
  if info._heard then return copy(info._heard) end
  if not info._message then return nil end
  local parts = table.pack(core.parse(info._message))
  return copy(parts[parts[1] == REQUEST and 9 or 7])
end

local function heard(_, info)
  local tray = fiber.storage()[TRAY]
  if tray then tray.heard = arrived(info) or tray.heard end
end
bridge.receive_reply, bridge.receive_exception, bridge.receive_other = heard, heard, heard

local function forward(orb, ref)
  error(orb_module.forward_request(orb.broker:proxy(tostring(reference.of(reference.bytes(ref))))), 0)
end

-- What goes to the client of a request for which there is no object.
local function without_object(orb, tray, info, request)
  if request.success ~= nil then
    local results = request.results or {}
    if request.success then info:_answer(true, unpack(results, 1, results.n or #results))
    else info:_answer(false, (fault.outward(results[1]))) end
  elseif request.reference then
    tray.request = nil
    forward(orb, request.reference)
  end
end

-- The bridge of one ORB.
local function bridge_of(orb)
  local self = setmetatable({}, { __index = bridge })
  for name, f in pairs(bridge) do self[name] = f end
  function self.receive_request_service_contexts(_, info)
    local tray = { id = info.request_id, heard = arrived(info) or {}, response = info.response_expected, key = info._key, peer = info.peer }
    fiber.storage()[TRAY] = tray
    local interceptor = orb.server_interceptor
    if not interceptor or orb:knows(info._key) then return end
    tray.request = icept.describe(orb, tray, nil, info.operation, nil)
    local f = interceptor.object.receiverequest
    if f then
      local fine, err = pcall(f, interceptor.object, tray.request)
      if not fine then error((fault.outward(err)), 0) end
      without_object(orb, tray, info, tray.request)
    end
  end
  local function ends(_, info)
    local tray = fiber.storage()[TRAY]
    if not tray then return end
    local interceptor, request = orb.server_interceptor, tray.request
    if request and interceptor and interceptor.object.sendreply then
      tray.request = nil
      request.success, request.reply_status = info.reply_status == "SUCCESSFUL", info.reply_status
      request.results = request.success and pack() or pack(info._error)
      local fine, err = pcall(interceptor.object.sendreply, interceptor.object, request)
      if not fine then error((fault.outward(err)), 0) end
      tray.out = request.reply_service_context
      tray.forward = tray.forward or request.reference
    end
    each(tray.out, info.add_reply_service_context, info)
    fiber.storage()[TRAY] = nil
    if tray.forward then forward(orb, tray.forward) end
  end
  self.send_reply, self.send_exception, self.send_other = ends, ends, ends
  return self
end

--- Lets the broker carry contexts, from the first interceptor on.
function icept.connect(orb)
  if orb.bridged then return end
  orb.bridged = true
  orb.broker:intercept(bridge_of(orb))
end

-- ---- the client ----

local function describe_call(call)
  local orb, def = call.orb, call.op.def
  local request = call.request or {}
  local ref = call.reference
  local profile = reference.profile(ref)
  orb.requests = (orb.requests or 0) + 1
  request.request_id, request.reference, request.response_expected = orb.requests, ref, not def.oneway
  request.sync_scope = def.oneway and "channel" or "servant"
  if profile then
    request.profile_tag, request.profile_data, request.profile, request.object_key = profile.tag, profile.data, profile.decoded, profile.key
  end
  request.interface, request.operation, request.operation_name = def.defined_in, def, def.name
  request.parameters = pack(unpack(call.args, 1, call.args.n))
  if call.interceptor.older then
    request.operation, request.n, request.service_context = def.name, call.args.n, request.service_context or {}
    for i = 1, call.args.n do request[i] = call.args[i] end
  end
  return request
end

-- What an interceptor has set, as packed results.
local function answered(request, older)
  local results = request.results
  if older and not results then
    results = { n = request.n }
    for i = 1, math.max(request.n or 0, #request) do results[i] = request[i] end
  end
  results = results or {}
  if request.success then return pack(true, unpack(results, 1, results.n or #results)) end
  return pack(false, results[1])
end

--- Tells the interceptor that a request goes out. False: it goes nowhere, call.outcome is its end.
function icept.send(call)
  local interceptor = call.interceptor
  local request = describe_call(call)
  call.request, call.heard = request, nil
  local f = interceptor.object.sendrequest or interceptor.object.send_request
  if not f then return true end
  local fine, err = pcall(f, interceptor.object, request)
  if not fine then
    call.outcome = pack(false, err)
    return false
  end
  if request.success ~= nil then
    call.outcome = answered(request, interceptor.older)
    return false
  end
  local args = request.parameters or {}
  if interceptor.older then args = request end
  call.args = pack(unpack(args, 1, args.n or #args))
  if request.reference == nil or request.reference == call.reference then return true end
  call.reference = request.reference
  return icept.send(call)
end

local function store_results(request, outcome, older)
  request.results = pack(unpack(outcome, 2, outcome.n))
  if not older then return end
  for i = 1, math.max(request.n or 0, outcome.n - 1) do request[i] = outcome[i + 1] end
  request.n = outcome.n - 1
end

local function status_of(outcome)
  if outcome[1] then return "NO_EXCEPTION" end
  local err = outcome[2]
  local id = type(err) == "table" and rawget(err, "_repid") or ""
  return id:find "^IDL:omg%.org/CORBA/[%u_]+:" and "SYSTEM_EXCEPTION" or "USER_EXCEPTION"
end

--- Tells it of the reply. False: the request goes elsewhere.
function icept.receive(call)
  local interceptor, request, outcome = call.interceptor, call.request, call.outcome
  call.request = nil
  local f = interceptor.object.receivereply or interceptor.object.receive_reply
  if not f then return true end
  if call.heard then request.reply_service_context, request.reply_status = call.heard, status_of(outcome) end
  if interceptor.older then request.service_context = call.heard or {} end
  request.success = outcome[1]
  store_results(request, outcome, interceptor.older)
  local fine, err = pcall(f, interceptor.object, request, request)
  if not fine then
    call.outcome = pack(false, err)
    return true
  end
  if request.success ~= nil then
    call.outcome = answered(request)
    return true
  end
  call.reference = request.reference or call.reference
  return false
end

-- ---- the server ----

--- The table of a request. `entry`, `def`: nil if there is no object, no operation.
function icept.describe(orb, tray, entry, name, def, args)
  local request = {
    service_context = tray.heard or {}, request_id = tray.id or 0, response_expected = tray.response ~= false,
    sync_scope = tray.response ~= false and "servant" or "channel", object_key = tray.key or entry and entry.__objkey, operation_name = name,
    servant = entry and entry.__servant, type = entry and entry.__type, operation = def, interface = def and def.defined_in,
    parameters = args and pack(unpack(args, 1, args.n)),
  }
  local peer = tray.peer
  if peer then request.channel_address = { host = peer.host, port = peer.port } end
  if orb.server_interceptor.older then
    request.operation, request.n = name, args and args.n or 0
    for i = 1, request.n do request[i] = args[i] end
  end
  return request
end

-- The servant's results, or what it has raised as the client gets it, packed.
local function perform(orb, request, run, servant, method, older)
  local args = older and request or request.parameters or {}
  return run(orb, servant, method, unpack(args, 1, args.n or #args))
end

local function ending(orb, tray, request, outcome)
  local interceptor = orb.server_interceptor
  local f = interceptor and (interceptor.object.sendreply or interceptor.object.send_reply)
  if not f then return outcome end
  request.success, request.reply_status = outcome[1], status_of(outcome)
  store_results(request, outcome, interceptor.older)
  local fine, err = pcall(f, interceptor.object, request, request)
  if not fine then return pack(false, (fault.outward(err))) end
  tray.out = request.reply_service_context or interceptor.older and request.service_context or nil
  tray.forward = request.reference
  return answered(request)
end

--- Serves a request of an object with the interceptor around it: run(orb, servant, method, args…) gives packed true, results or false, exception.
--- -> the same
function icept.serve(orb, entry, def, method, run, args)
  local interceptor = orb.server_interceptor
  local tray = fiber.storage()[TRAY] or {}
  local request = icept.describe(orb, tray, entry, def.name, def, args)
  request.method = method
  local outcome
  local f = interceptor.object.receiverequest or interceptor.object.receive_request
  if f then
    local fine, err = pcall(f, interceptor.object, request)
    if not fine then outcome = pack(false, (fault.outward(err)))
    elseif request.success ~= nil then
      outcome = answered(request, interceptor.older)
      if not outcome[1] then outcome[2] = fault.outward(outcome[2]) end
      tray.out = request.reply_service_context
    elseif request.reference then
      tray.forward = request.reference
      return pack(true)
    end
  end
  outcome = outcome or perform(orb, request, run, request.servant, request.method, interceptor.older)
  return ending(orb, tray, request, outcome)
end

return icept
