--[[
mare.http.worker: a process of a server: takes connections from the shared listener and serves each in a fiber, request after request.

`open` has the fiber of each connection; `idle` those that wait for a request, which may end at any time. When the listener is closed, idle
connections
read an end and the others finish their request; who has not after the limit `grace` is cut off.
]]
local core = require "mare.http.core"
local mare = require "mare"
local errors = require "mare.error"
local request = require "mare.http.request"
local say = require "mare.base.say"
local fiber, channel, clock, yield = mare.fiber, mare.channel, mare.clock, mare.fiber.yield
local begin, receive = core.begin, core.receive
local class, state, answer, finish, settled = request.class, request.state, request.answer, request.finish, request.settled
local type, setmetatable, xpcall, max = type, setmetatable, xpcall, math.max
local shape, reply = request.shape, request.reply

local handler, limits, log, secure
local open, idle, count = {}, {}, 0
local freed, emptied = channel.new(1), channel.new()     -- somebody has gone, or waits for a request, while it is crowded; all have
local crowded = false
local TURN = 16                                          -- requests of a connection, none of which had to be waited for, until others have a turn

-- Where a handler has failed; an error that is an answer needs no traceback.
local function traced(err)
  if errors.is(err, "http") then return err end
  return { failure = errors.is(err) and err or tostring(err), traceback = debug.traceback(nil, 2) }
end

local function to_stderr(text) say("mare.http: " .. text) end
local told = to_stderr

local function report(what, failure, traceback)
  local text = what .. ": " .. tostring(failure) .. (traceback and "\n" .. traceback or "")
  if not pcall(told, text) then to_stderr(text) end
end

-- A refused client may still send: closing with unread bytes would reset the connection, and it could miss the answer. So what it sends is read
-- for a while.
local function linger(conn)
  conn:shutdown "write"
  local due = clock() + limits.drain
  repeat local data = conn:read(nil, max(0, due - clock())) until not data or clock() >= due
end

local function refuse(conn, status)
  conn:timeout(limits.drain)
  conn:write(core.head(status, 0, "text/plain; charset=utf-8", #core.phrase(status) + 1, nil, core.phrase(status) .. "\n"))
  if log then log(setmetatable({ connection = conn, method = "-", target = "-", head = "", bits = 0 }, class), status, 0, 0) end
  linger(conn)
end

-- Was it the first line that is too long? It is looked at in vain from here on: the connection ends.
local function too_long(conn)
  local text = conn:read(nil, 0) or ""
  return (text:find("\n", 1, true) or math.huge) < limits.head_bytes and 431 or 414
end

-- What begin and receive gave in place of a head: the status to answer, or nil.
local function refused(conn, message, code)
  if code == "EPROTO" then return 400 end
  if code == "EMSGSIZE" then return too_long(conn) end
  if message == "timeout" and conn:buffered() > 0 then return 408 end
end

-- What a handler returned: a status, a body and fields, or without the status.
local function give(req, status, body, fields)
  if req._streams then
    if status ~= nil then error("the handler has begun its answer by request:start, and returned another one", 0) end
    return finish(req)
  end
  if req._began then return end
  if type(status) ~= "number" then status, body, fields = 200, status, body end
  local kind = type(body)
  if body == nil then
    if status == 200 and fields == nil then error("the handler returned no answer", 0) end
    body = ""
  elseif kind == "function" then
    return request.stream(req, status, body, fields)
  elseif kind ~= "string" and kind ~= "userdata" then
    error(("the handler returned a %s as body; strings, sealed buffers and functions can be sent"):format(kind), 0)
  end
  if math.type(status) ~= "integer" or status < 200 or status > 999 then error("a status is a whole number from 200 to 999", 0) end
  return answer(req, status, body, fields)
end

-- The handler's answer is given; then, if it was an ordinary one, whether the connection goes on.
local function handle(req)
  local status, body, fields = handler(req)
  local on = reply(req, state.stopping, status, body, fields)
  if on == nil then return give(req, status, body, fields) end
  if type(on) == "string" then on = request.send_rest(req, on) end
  return on
end

-- The answer in place of the handler's, as long as that has not begun.
local function failed(req, err)
  local meant = errors.is(err, "http")
  local status = meant and err.status or 500
  if not meant and not errors.is(err.failure, "cancelled") then
    local id = req.id and (" [%s]"):format(tostring(req.id)) or ""
    report(req.method .. " " .. req.target .. id, err.failure, err.traceback)
  end
  if req._began or status == 0 then
    req._broken = true
    req.status = req.status or status
    return
  end
  local ok, why = pcall(answer, req, status, (meant and err.message or core.phrase(500)) .. "\n", meant and err.fields or nil)
  if not ok and not errors.is(why, "http") then report("the answer " .. tostring(status), why) end
  if not ok then req._broken = true end
end

local function serve(conn)
  conn:timeout(limits.write)
  if secure and not conn:handshake(limits.head) then return end
  local head_bytes, most, turns = limits.head_bytes, limits.fields, 0
  repeat
    idle[conn] = true
    if crowded then freed:try_send(true) end
    local head, req, code = begin(conn, head_bytes, limits.idle, most, shape)
    idle[conn] = nil
    if not head and req == "timeout" then return end         -- nobody has asked anything
    if not head and code == "EPROTO" then head, req, code = receive(conn, head_bytes, limits.head, most, shape) end
    if not req or not head then
      local status = head and code or refused(conn, req, code)
      if status then refuse(conn, status) end
      return
    end
    local start = log and clock()
    local fine, on = xpcall(handle, traced, req)
    if not fine then failed(req, on) end
    if log then log(req, req.status or 0, req._sent or 0, clock() - start) end
    if not fine or on == nil or state.stopping then on = settled(req) end
    if req._gone then return conn:close(0) end
    turns = turns + 1
    if on and (turns % TURN == 0 or conn:buffered() > 0) then yield() end
    if not on and (req._broken or not req._done and (req.length or req.bits & core.IN_CHUNKS ~= 0)) then linger(conn) end
  until not on
end

local function connection(conn)
  local fine, err = xpcall(serve, traced, conn)
  if not fine and not errors.is(err.failure, "cancelled") then report("a connection", err.failure, err.traceback) end
  idle[conn], open[conn] = nil, nil
  count = count - 1
  freed:try_send(true)
  if count == 0 and state.stopping then emptied:close() end
  conn:close(limits.drain)
end

-- Too many: one that waits for a request goes for the new one; if none does, the new one waits for the next that will. False: the listener is closed.
local function make_room(listener)
  crowded = true
  while count >= limits.connections do
    local victim = next(idle)
    if victim then
      idle[victim] = nil
      victim:shutdown "read"
    end
    freed:receive(0.2)
    if listener:closed() then return false end
  end
  crowded = false
  return true
end

return function(listener, plan, ready)
  limits, log, secure = plan.limits, plan.log, plan.tls
  request.limits, told = limits, plan.report or to_stderr
  handler = plan.handler
  if plan.start then handler = plan.start() elseif type(handler) == "string" then handler = require(handler) end
  local meta = getmetatable(handler)
  if type(handler) ~= "function" and not (meta and meta.__call) then
    error(("mare.http: a handler is a function, option 'start' or the module gave a %s"):format(type(handler)), 0)
  end
  if plan.gzip then handler = require "mare.http.gzip".wrap(handler, plan.gzip) end
  ready:send(true)
  for conn in listener:connections() do
    if count >= limits.connections and not make_room(listener) then
      conn:close(0)
      break
    end
    count, idle[conn] = count + 1, true
    open[conn] = fiber.spawn(connection, conn)
  end
  state.stopping = true
  for conn in pairs(idle) do conn:shutdown "read" end
  for _, leave in pairs(state.leaving) do fiber.spawn(leave) end
  if count == 0 then return end
  emptied:receive(limits.grace)
  for conn, serving in pairs(open) do
    conn:close(0)
    serving:cancel "the server stops"
  end
end
