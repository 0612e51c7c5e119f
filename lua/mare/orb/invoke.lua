--[[
mare.orb.invoke: one call, from the arguments to the results.

A *target* is where an IOR leads: its addresses in the order in which they are tried, the link in use, and the heads of requests, made
once per operation for the address in use; `ready` is the connection whose code sets are settled for it. A *state* is what a proxy adds:
interface and time limit. See proxy.lua, link.lua.

What is sent again, and what is not (CORBA 3.3 part 2, 9.4.7 and orb.md): a request that the server has said it did not process (CloseConnection), or
that could not be written whole, once and within its deadline; one of which no byte was written, as others ended the connection meanwhile; a forwarded
one, at most 8 times; nothing else.

A deadline of process.deadline is no time limit of the call, and nothing is computed from it here: each wait below ends with its error, which
passes through as it is. So it costs nothing where there is none, masks hold, and TIMEOUT means the call's own limit.
]]
local mare = require "mare"
local core = require "mare.orb.giop.core"
local addressing = require "mare.orb.addressing"
local bidir = require "mare.orb.giop.bidir"
local exception = require "mare.orb.exception"
local gssup = require "mare.orb.giop.gssup"
local links = require "mare.orb.link"
local secure = require "mare.orb.secure"
local trace = require "mare.trace.core"

local clock = mare.clock
local system = exception.system
local unpack = table.unpack
local exchange, refused = links.exchange, secure.refused
local called, replied = trace.call, trace.replied    -- nil: no trace is on
local LAST_ID, IDLE, FORWARDS = 0x7fffffff, links.IDLE, 8
local BULK, YES, MAYBE = 64, 512, 1024           -- of a codec: long messages need not be strings, see src/cdr/bulk.h; what a call has done
local RESULTS = BULK | YES

local invoke = {}

-- `fail` of the broker's marshalling environment: raises. What is read of a reply says by its codec what the call has done.
function invoke.fail(name, minor, text, done) error(system(name, minor, done, text), 0) end

-- ---- addresses ----

-- A link to the first address that answers. An object of this process needs none: then target.entry is set, and there is no link.
local function try(target, deadline, tried)
  local broker = target.broker
  for _, e in ipairs(target.endpoints) do
    if broker.closed then error(system("BAD_INV_ORDER", 4, "COMPLETED_NO"), 0) end
    local entry = broker:locate(e.host, e.port, e.key)
    if entry then
      target.entry = entry
      return nil
    end
    local link, err, code
    if e.problem then err = e.problem else link, err, code = broker.transport:link(e.host, e.port, e.minor, deadline, e.tls) end
    if link then
      if target.endpoint ~= e then target.endpoint, target.heads, target.bits = e, {}, 1 | e.minor << 1 end
      target.link = link
      return link
    end
    tried.denied = tried.denied or e.denied or e.tls and refused(code)
    tried[#tried + 1] = err:find(e.host, 1, true) and err or ("%s:%d: %s"):format(e.host, e.port, err)
    if err == "timeout" and deadline and clock() >= deadline then
      error(system("TIMEOUT", 0, "COMPLETED_NO", "connecting: " .. table.concat(tried, "; ")), 0)
    end
  end
end

local function attach(target, deadline)
  local tried = {}
  target.link, target.entry = nil, nil
  local link = try(target, deadline, tried)
  if not link and not target.entry and target.forwarded then        -- where it was sent to is gone; begin again where it came from
    target.endpoints, target.forwarded = target.origin, nil
    link = try(target, deadline, tried)
  end
  if link or target.entry then return link end
  if #tried == 0 then tried[1] = "the reference has no address that can be used" end
  if tried.denied then error(system("NO_PERMISSION", 0, "COMPLETED_NO", table.concat(tried, "; ")), 0) end
  error(system("TRANSIENT", 2, "COMPLETED_NO", table.concat(tried, "; ")), 0)
end

-- The link of a target, looked at if it was idle: servers close such connections.
local function link_of(target, now, deadline)
  local link = target.link
  if target.broker.closed then error(system("BAD_INV_ORDER", 4, "COMPLETED_NO"), 0) end
  if target.entry and not target.entry.gone then return nil end
  if not link or link.over then return attach(target, deadline) end
  if now - link.used > IDLE and not link.leader and not link:alive() then return attach(target, deadline) end
  link.used = now
  return link
end

-- ---- requests ----

local function says_who(contexts)
  for _, c in ipairs(contexts or {}) do
    if c[1] == gssup.CONTEXT then return true end
  end
end

-- `contexts`: those of this request alone. What an interceptor says of who calls counts more than the broker's name and password.
local function make_head(target, op, contexts)
  local e = target.endpoint
  local make = target.addressing and addressing.head or core.head
  local all = e.sas and not says_who(contexts) and { { gssup.CONTEXT, e.sas }, table.unpack(contexts or {}) } or contexts
  local head, idat = make(e.minor, true, op.response, target.addressing or e.key, op.name, all)
  if not contexts then target.heads[op], target.idat = head, idat end
  return head, idat
end

local function both(a, b)
  if not a or not b then return a or b end
  return table.move(b, 1, #b, #a + 1, table.move(a, 1, #a, 1, {}))
end

local function too_large(target, op, size)
  error(system("MARSHAL", 0, "COMPLETED_NO", ("the request of %s has %d bytes, more than giopMaxMsgSize allows (%d)")
    :format(op.qualified, size, target.broker.options.giopMaxMsgSize)), 0)
end

local function encode(target, conn, op, head, idat, id, ...)
  local message = op.request:request(head, idat, id, target.bits | conn.codec | BULK, ...)
  if #message > target.limit then too_large(target, op, #message) end
  return message
end

-- The first request on a connection says which code sets will be used, and whether the other side may call by it, too (see duplex.lua). If it can't
-- be made nothing has been said. -> message, does it say so
local function introduce(target, link, op, own, id, ...)
  local conn = link.conn
  local before, chosen = conn.codec, conn.chosen
  local contexts = conn:contexts(target.endpoint.codesets, target.endpoint.kin)
  local offer = target.endpoint.minor == 2 and link.offer
  if offer then
    contexts = contexts or {}
    contexts[#contexts + 1] = { bidir.CONTEXT, offer }
  end
  local head, idat = make_head(target, op, both(contexts, own))
  local ok, message = pcall(encode, target, conn, op, head, idat, id, ...)
  if ok then
    target.ready = conn
    if offer then link.offer = false end
    return message, contexts ~= nil
  end
  conn.chosen, conn.codec = chosen, before
  error(message, 0)
end

-- For a trace: the reply is there.
local function told(link, id, ...)
  replied(link, id)
  return ...
end

-- `contexts`: service contexts of this request alone, { { id, data }, … }, or nil.
local function attempt(target, link, op, contexts, deadline, ...)
  local conn = link.conn
  local id = link.id + 1
  if id > LAST_ID or link.wrapped then id = link:fresh() end
  link.id = id
  local message, first
  if not link.offer and (conn.chosen or not target.endpoint.codesets) then
    target.ready = conn
    local head, idat = not contexts and target.heads[op], target.idat
    if not target.heads[op] then head, idat = make_head(target, op) end          -- kept: src/module/orb_call.c adds contexts to it itself
    if contexts then head, idat = make_head(target, op, contexts) end
    message = encode(target, conn, op, head, idat, id, ...)
  else
    message, first = introduce(target, link, op, contexts, id, ...)
  end
  if op.response ~= 0 then
    if called then
      called(link, id, op.name)
      return told(link, id, link:exchange(id, message, deadline, first))
    end
    return link:exchange(id, message, deadline, first)
  end
  local ok, why = link:post(message, deadline, first)
  return nil, ok and "posted" or why
end

-- ---- what a reply says ----

local raise = {}

-- The program of an exception an operation declares.
local function except_program(broker, op, id)
  local T = op.raises[id]
  if not T then
    error(system("UNKNOWN", 1, "COMPLETED_YES", ("%s raised '%s', which its IDL does not declare"):format(op.qualified, id:sub(1, 100))), 0)
  end
  local program = broker:program_of(T)
  op.excepts[id] = program
  return program
end

-- A user exception.
raise[1] = function(broker, op, reply, at, codec)
  local id = broker.programs.string:decode(reply, at, codec)
  local program = op.excepts[id] or except_program(broker, op, id)
  local value = program:decode(reply, at, codec)
  error(setmetatable(value, exception), 0)
end

-- A system exception. The peer's words don't travel: what is known here is who raised it, and where.
raise[2] = function(broker, op, reply, at, codec, endpoint, link, contexts)
  local id, minor, completion = broker.programs.system:decode(reply, at, codec)
  local e = exception.received(id, minor, completion)
  if endpoint and endpoint.tls and e.completed == "COMPLETED_NO" and exception.is_system(e) == "NO_PERMISSION" then
    e.text = broker.secure:why_refused(endpoint.sas, says_who(contexts))
  end
  e.text = ("%s at %s%s"):format(op.qualified, link.address, e.text and ": " .. e.text or "")
  error(e, 0)
end

-- LOCATION_FORWARD, LOCATION_FORWARD_PERM
local function forward(target, reply, status, at, codec)
  local to = target.broker.programs.object:decode(reply, at, codec)
  if to == nil then error(system("INV_OBJREF", 0, "COMPLETED_NO", "the server forwards to a nil reference"), 0) end
  local ior = target.broker:ior_of(to)
  target.ior, target.endpoints = ior, target.broker:endpoints(ior)
  target.addressing, target.endpoint, target.link = nil, nil, nil
  if status == 4 then target.origin, target.forwarded = target.endpoints, nil else target.forwarded = true end
end

-- NEEDS_ADDRESSING_MODE: the server wants a profile, or the whole reference, instead of the key.
local function address(target, reply, at, codec)
  local mode = target.broker.programs.short:decode(reply, at, codec)
  if not target.endpoint then return end         -- another call has been sent elsewhere meanwhile
  target.addressing = addressing.target(target.ior, target.endpoint, mode)
  target.heads = {}
end

local failures = {
  lost = { "COMM_FAILURE", "COMPLETED_MAYBE" }, timeout = { "TIMEOUT", "COMPLETED_MAYBE" }, unsent = { "TIMEOUT", "COMPLETED_NO" },
  large = { "MARSHAL", "COMPLETED_MAYBE" }, again = { "TRANSIENT", "COMPLETED_NO" },
}

local function failed(target, link, op, why)
  local f = failures[why]
  local text = (why == "timeout" or why == "unsent") and "no reply in time" or link.text or "the connection was lost"
  target.link = nil
  error(system(f[1], 0, f[2], ("%s at %s: %s"):format(op.qualified, link.address, text)), 0)
end

-- ---- the call ----

local finish

-- What anything but a plain reply means. Raises; or another attempt is to be made: -> whether it may be sent twice no more, so often forwarded.
-- nil: it was posted. `contexts`: those of this request alone.
local function judge(target, link, op, deadline, again, forwards, reply, status, at, bits, contexts)
  if not reply then
    if status == "posted" then return nil end
    if status ~= "turned" then
      if status ~= "again" or again then failed(target, link, op, status) end
      again = true
    end
    if deadline and clock() >= deadline then failed(target, link, op, "unsent") end
  else
    local codec = bits | link.conn.codec | MAYBE
    if raise[status] then raise[status](target.broker, op, reply, at, codec, target.endpoint, link, contexts) end
    forwards = forwards + 1
    if forwards > FORWARDS then
      error(system("TRANSIENT", 0, "COMPLETED_NO", ("%s was forwarded more than %d times"):format(op.qualified, FORWARDS)), 0)
    end
    if status == 5 then address(target, reply, at, codec)
    elseif status == 3 or status == 4 then forward(target, reply, status, at, codec)
    else error(system("MARSHAL", 0, "COMPLETED_MAYBE", ("a reply with status %d"):format(status)), 0) end
  end
  return again, forwards
end

-- Everything but a plain reply: raises, or makes another attempt. `again`: it was sent twice already. `forwards`: so often forwarded.
local function otherwise(state, target, link, op, deadline, again, forwards, reply, status, at, bits, ...)
  again, forwards = judge(target, link, op, deadline, again, forwards, reply, status, at, bits)
  if again == nil then return end
  link = link_of(target, clock(), deadline)
  if target.entry then return invoke.direct(target, op, ...) end
  return finish(state, target, link, op, deadline, again, forwards, { n = select("#", ...), ... }, attempt(target, link, op, nil, deadline, ...))
end

function finish(state, target, link, op, deadline, again, forwards, args, reply, status, at, bits)
  if status == 0 then
    if not op.reply then return end
    return op.reply:decode(reply, at, bits | link.conn.codec | RESULTS)
  end
  return otherwise(state, target, link, op, deadline, again, forwards, reply, status, at, bits, unpack(args, 1, args.n))
end

-- The object of a reference whose type id says nothing about the interface is asked once.
local function verify(state)
  local target, id = state.target, state.def.id
  if target.verified[id] then
    state.check = nil
    return
  end
  local asking = { broker = state.broker, target = target, timeout = state.timeout }
  local ok, is = pcall(target.broker.invoke, asking, target.broker:operation("_is_a"), id)
  if not ok and not exception.is(is, "IDL:omg.org/CORBA/BAD_OPERATION:1.0") then error(is, 0) end
  if ok and not is then
    error(system("INV_OBJREF", 0, "COMPLETED_NO", ("the object is no '%s'"):format(state.def.scoped or state.def.name)), 0)
  end
  target.verified[id] = true
  state.check = nil
end

--- A call of an object in this process: no bytes, the arguments themselves.
function invoke.direct(target, op, ...)
  return target.broker:direct(target.entry, op, ...)
end

--- Calls an operation: its results, or it raises. The way of nearly all calls is written out here: the connection is there and in use, its code
--- sets are known, the head of the request is made; whatever else there is goes by attempt and otherwise.
function invoke.run(state, op, ...)
  local target, timeout = state.target, state.timeout
  if state.check then verify(state) end
  local now = clock()
  local deadline = timeout and now + timeout
  local link = target.link
  if not link or link.over or now - link.used > IDLE or target.entry then
    link = link_of(target, now, deadline)
    if not link then return invoke.direct(target, op, ...) end
  end
  link.used = now
  local conn, head, id = link.conn, target.heads[op], link.id + 1
  local reply, status, at, bits
  if head and target.ready == conn and id <= LAST_ID and not link.wrapped and op.response ~= 0 then
    link.id = id
    local message = op.encode(op.request, head, target.idat, id, target.bits | conn.codec | BULK, ...)
    if #message > target.limit then too_large(target, op, #message) end
    if called then called(link, id, op.name) end
    reply, status, at, bits = exchange(link, id, message, deadline)
    if called then replied(link, id) end
  else
    reply, status, at, bits = attempt(target, link, op, nil, deadline, ...)
  end
  if status == 0 then
    local decode = op.decode
    if not decode then return end
    return decode(op.reply, reply, at, bits | conn.codec | RESULTS)
  end
  return otherwise(state, target, link, op, deadline, false, 0, reply, status, at, bits, ...)
end

--- Goes on with a call whose request has got its id, and is written but for `rest`, before which `sent` bytes went: src/module/orb_call.c
--- begins calls, and leaves to this whatever is not ordinary.
function invoke.resume(state, op, link, id, deadline, rest, sent, ...)
  local reply, status, at, bits = link:resume(id, rest, sent, deadline)
  if status == 0 then
    if not op.decode then return end
    return op.decode(op.reply, reply, at, bits | link.conn.codec | RESULTS)
  end
  return otherwise(state, state.target, link, op, deadline, false, 0, reply, status, at, bits, ...)
end

-- For calls with interceptors (mare.orb.intercept.client), which are told of each attempt.
invoke.verify, invoke.link_of, invoke.attempt, invoke.judge, invoke.RESULTS, invoke.FORWARDS = verify, link_of, attempt, judge, RESULTS, FORWARDS

return invoke
