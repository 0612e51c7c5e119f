--[[
mare.ludo.pool: the serving half: connections, the fibers that read from them and serve, limits.

How fibers take turns to lead a connection, what jobs and peers are, is in mare.base.leaders; here is what a leader does. An ordinary request is
served by src/module/ludo_serve.c, whole; all others are here. What messages hold is
in the peer's purse (mare.orb.budget): a request from when it is read, or for a long one from before, until its reply is written.
]]
local mare = require "mare"
local leaders = require "mare.base.leaders"
local budget = require "mare.orb.budget"
local core = require "mare.ludo.core"
local failure = require "mare.ludo.failure"
local link = require "mare.ludo.link"

local fiber, channel = mare.fiber, mare.channel
local relief = fiber.relief
local receive, head, message_of, values = core.receive, core.head, core.message, core.values
local CALL, REPLY, RAISED, CANCEL, CLOSE = core.CALL, core.REPLY, core.RAISED, core.CANCEL, core.CLOSE
local serve_straight, SERVED, REPLIED, FAILED, LATE, MESSAGE = core.serve, 1, 2, 3, 4, 5       -- see src/module/serving.h
local HELLO = link.HELLO
local FOREVER, ROOM, COST, TURN = math.huge, 8 << 10, 1 << 10, 64     -- bytes that are read without asking; those of a request beside its own
local TEXT = 4000                                -- bytes of a traceback that are sent

local pool = {}
pool.__index = pool

function pool.new(broker)
  local limits = broker.limits
  local record = limits.requests > 1 and core.serving(broker.objects, broker.world, limits.message) or nil
  return setmetatable({ broker = broker, limits = limits, world = broker.world, record = record,
                        budget = budget.new(limits.memory, limits.share), peers = {}, count = 0, resting = {}, jobs = {}, fibers = 0,
                        standby = false, vacancy = channel.new(1), emptied = channel.new(), stopping = false, stopped = false }, pool)
end

-- ---- connections ----

local function drop(self, peer)
  if peer.gone and not self.peers[peer] then return end
  peer.gone = true
  peer.socket:close(0)
  if not self.peers[peer] then return end
  self.peers[peer] = nil
  self.count = self.count - 1
  if peer.n == 0 then peer.purse:close() end     -- else with the last of its requests
  pcall(self.vacancy.try_send, self.vacancy, true)
  if self.count == 0 and self.stopping then self.emptied:close() end
end

local function settle(self, peer)
  if peer.n == 0 and (peer.gone or peer.closing) then drop(self, peer) end
end

-- Nothing more is accepted from a client; what it has asked is answered first. Those whose requests are not read learn that they were not touched.
local function part(self, peer)
  peer.closing = true
  if peer.n > 0 or peer.gone then return end
  if peer.greeted then
    peer.socket:timeout(0)
    peer.socket:write(message_of(CLOSE, 0, self.world))
  end
  drop(self, peer)
end

-- ---- one request ----

local function handler(e)
  if failure.is(e) and not e.raised then return { code = e.code, message = e.message, value = nil, traceback = nil } end
  local text = type(e) == "string" and e or failure.is(e) and e.message or nil
  local traceback = debug.traceback("", 2):sub(2)
  local own = traceback:find "\n[^\n]*\n[^\n]*mare%.ludo%.core%.serve" or
              traceback:find "\n\t%(%.%.%.tail calls%.%.%.%)\n[^\n]*mare/ludo/pool" or traceback:find "\n[^\n]*mare/ludo/pool"
  traceback = traceback:sub(1, math.min(own and own - 1 or TEXT, TEXT))
  return { code = "RAISED", message = text, value = not failure.is(e) and e or nil, traceback = traceback }
end

local function none(code, text) error(failure.new(code, text), 0) end

-- What the operation returns. It is looked up as the program has it.
local function run(self, job, key, operation, ...)
  local object = type(key) == "string" and self.broker.objects[key]
  if not object then none("NO_OBJECT", ("there is no object '%s'"):format(tostring(key):sub(1, 60))) end
  if type(operation) ~= "string" or operation:find "^_" then none("NO_OPERATION", "an operation is a name that does not begin with an underscore") end
  local f = object[operation]
  if type(f) ~= "function" then none("NO_OPERATION", ("object '%s' has no operation '%s'"):format(key:sub(1, 60), operation:sub(1, 60))) end
  job.key, job.operation, job.running = key, operation, true
  return f(object, ...)
end

local function packed(self, job, ...)
  job.packing = true
  return message_of(REPLY, job.id, self.world, ...)
end

local function request(self, job, message)
  return packed(self, job, run(self, job, values(message, self.world)))
end

-- What a job's error is to the client.
local function meaning(job, e)
  if e.code ~= "RAISED" then return e end
  if job.packing then return { code = "UNSENDABLE", message = (tostring(e.message):gsub("value (%d+)", "result %1", 1)) } end
  if not job.running then return { code = "PROTOCOL", message = tostring(e.value) } end      -- the request could not even be read
  return e
end

local function raised(self, id, job, e)
  e = meaning(job, e)
  local traceback = self.broker.options.tracebacks ~= false and e.traceback or nil
  local fine, reply = pcall(message_of, RAISED, id, self.world, e.code, e.message, e.value, traceback)
  if not fine or #reply > self.limits.message then
    local shown, text = pcall(tostring, e.value)
    reply = message_of(RAISED, id, self.world, e.code, shown and text:sub(1, TEXT) or "an error that can't be shown", nil, traceback)
  end
  return reply
end

-- ---- fibers ----

local function spawn(life, self, job) return fiber.spawn { name = "ludo server", main = life, args = { self, job }, daemon = true } end

local function record(job)
  job.running, job.packing = false, false
  return job
end

local ways = { spawn = spawn, record = record, drop = drop, settle = settle }
local fibers = leaders.of(ways)
local lend, arm, enter, depart, goes_on = fibers.lend, fibers.arm, fibers.enter, fibers.depart, fibers.goes_on

local function give(self, peer, reply)
  peer.socket:timeout(self.limits.reply)
  if not peer.socket:write(reply) then drop(self, peer) end
end

-- What was served gets its reply, or the word that it failed; then this fiber still leads, or not.
local function finish(self, job, peer, fine, reply)
  if job.cancelled then return false end
  local id, most = job.id, self.limits.message
  job.id = false                                 -- what is being written is not cancelled any more
  if not fine then reply = raised(self, id, job, reply)
  elseif #reply > most then
    reply = raised(self, id, job, failure.new("TOO_LARGE", ("the reply has %d bytes, the limit is %d"):format(#reply, most)))
  end
  job.running, job.packing = false, false
  job.size = job.size + #reply
  peer.purse:charge(#reply)
  if peer.purse:over() and relief() then peer.full = true end
  if not peer.gone then give(self, peer, reply) end
  if job.cancelled then return false end
  depart(job, peer)
  if peer.closing and not peer.gone then part(self, peer) else settle(self, peer) end
  return goes_on(self, job, peer)
end

-- The next message, which counts. nil: there will be none.
local function take(self, peer)
  local limits, purse = self.limits, peer.purse
  local message, err, code = receive(peer.socket, limits.message, peer.n == 0 and limits.idle or FOREVER, ROOM)
  if code == "ENOBUFS" then                      -- err: its size
    local size = err + COST
    if not purse:want(size) then return nil end
    message, err, code = receive(peer.socket, limits.message, limits.arrive)
    if message then return message, size end
  end
  if message then
    purse:charge(#message + COST)
    return message, #message + COST
  end
  if err == "timeout" then return nil, "idle" end
  return nil, code ~= "EOF" and code ~= "EBADF" and err or nil
end

-- There will be no more requests; why: "idle", or what is wrong with the client, or nil.
local function quit(self, peer, why)
  if why == "idle" and peer.n == 0 then part(self, peer) elseif why then self.broker:note("a client was closed: " .. why) end
  peer.gone = true
  settle(self, peer)
  return true
end

-- A message that is no request, or one that is not served any more.
local function other(self, peer, kind, id, size)
  peer.purse:refund(size)
  if kind == CANCEL then
    fibers.cancel(self, peer, id)
  elseif kind ~= CALL then
    quit(self, peer, "it sent what only servers send")
  end
end

-- Reads from a connection and serves what comes until somebody else does, or it is over. False: the fiber was cancelled.
local function read_on(self, job, peer)
  local turns, socket = 0, peer.socket
  while not peer.gone do
    turns = turns + 1
    if turns % TURN == 0 then fiber.yield() end
    local how, message, size
    if self.record then how, message = serve_straight(self.record, self, job, peer, socket, handler) end
    if how == REPLIED or how == FAILED then
      if not finish(self, job, peer, how == REPLIED, message) then return not job.cancelled end
    elseif how == LATE then
      if peer.n == 0 then return quit(self, peer, "idle") end
    elseif how ~= SERVED then
      if how == MESSAGE then
        size = #message + COST
        peer.purse:charge(size)
      else
        message, size = take(self, peer)
        if not message then return quit(self, peer, size) end
      end
      local kind, id = head(message)
      if kind == CALL and not peer.closing then
        enter(job, peer, id)
        job.size = size
        if peer.n < self.limits.requests and not peer.purse:over() then arm(self, peer) else peer.full = true end
        if not finish(self, job, peer, xpcall(request, handler, self, job, message)) then return not job.cancelled end
      else
        other(self, peer, kind, id, size)
      end
    end
  end
  return true
end

-- Handshake and first bytes, within the time for that. False: it is no client of ours.
local function greet(self, job, peer)
  local socket, broker = peer.socket, self.broker
  local deadline = mare.clock() + self.limits.handshake
  local function left() return math.max(0, deadline - mare.clock()) end
  if socket:tls() then
    local ok, err = socket:handshake(left())
    if not ok then return false, err == "timeout" and "no handshake of TLS in time" or err end
  end
  if broker.options.allow and not broker.options.allow(peer.who()) then return false, "'allow' said no" end
  local hello, err = socket:read(1, left())
  if hello and hello:find "%d" and broker.options.oil then
    require("mare.ludo.oil").serve(self, job, peer, hello)
    return false
  end
  if hello == "L" then hello, err = socket:read(#HELLO - 1, left()) end
  if not hello or #hello < #HELLO - 1 then
    return false, err == "timeout" and "it said nothing in time" or hello and "it does not speak LuDO" or nil
  end
  socket:timeout(self.limits.handshake)
  socket:write(HELLO)                            -- also to who speaks another version: so he learns which one is ours
  if hello:sub(1, 4) ~= HELLO:sub(2, 5) then return false, "it does not speak LuDO, or another version" end
  peer.greeted = true
  return true
end

local function welcome(self, job, peer)
  if peer.greeted then return true end
  local fine, yes, why = pcall(greet, self, job, peer)
  if fine and yes then return true end
  if not fine or why then self.broker:note("a client was refused: " .. tostring(fine and why or yes)) end
  drop(self, peer)
  return false
end

function ways.lead(self, job, peer) return not welcome(self, job, peer) or read_on(self, job, peer) end

-- ---- coming and going ----

--- A new connection, when there is room for it.
function pool:add(socket)
  while self.count >= self.limits.connections and not self.stopping do
    for peer in pairs(self.peers) do             -- one that has nothing to do gives way; its client connects again when it needs to
      if peer.n == 0 and (peer.greeted or peer.idle) then
        part(self, peer)
        break
      end
    end
    if self.count >= self.limits.connections then self.vacancy:receive(1) end
  end
  if self.stopping then return socket:close(0) end
  local peer = { socket = socket, n = 0, purse = self.budget:purse(), gone = false, closing = false, full = false, greeted = false,
                 patience = self.limits.idle, idle = false }
  function peer.who()
    local host, port = socket:peer()
    return { host = host, port = port, tls = (socket:tls()) }
  end
  self.peers[peer] = true
  self.count = self.count + 1
  lend(self, peer)
end

--- The job of the calling fiber, while it serves a request.
function pool:serving()
  local job = self.jobs[fiber.self()]
  return job and job.running and job or nil
end

--- Accepts no request any more; those in progress are answered, for so many seconds.
function pool:stop(seconds)
  self.stopping = true
  local all = {}
  for peer in pairs(self.peers) do all[#all + 1] = peer end
  for _, peer in ipairs(all) do part(self, peer) end
  if self.count > 0 then self.emptied:receive(seconds) end
  fibers.abort(self)
  fibers.dismiss(self)
end

pool.enter, pool.depart = enter, depart

return pool
