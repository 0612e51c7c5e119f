--[[
mare.orb.door: what a server asks of a connection before it reads a request from it: a place, an address that may come in, a handshake of TLS in
time, and what the program's `allow` says; and of a request, if it has `authenticate`: a name and a password.

Who is here for a handshake, or while `allow` decides, has a fiber of its own, so he holds up nobody; he counts as a connection (pool.waiting), and is
closed when his time is over or the server stops. Nothing has been read of what he sends but TLS.

  door.hosts[address]   connections from there, if there is a limit for that; peer.host is set then
  door.inside[socket]   those in a handshake, or waiting for `allow`
]]
local mare = require "mare"
local core = require "mare.orb.giop.core"
local gssup = require "mare.orb.giop.gssup"
local rules = require "mare.orb.rules"

local fiber = mare.fiber
local KNOWN = 64                                  -- names that a connection may refer to by an id

local door = {}
door.__index = door

---@param pool table
---@param options table of the broker
---@param limits table { handshake, peer }
---@param note fun(level: integer, text: string)
function door.new(pool, options, limits, note)
  local self = setmetatable({ pool = pool, limits = limits, note = note, allow = options.allow, hosts = {}, inside = {} }, door)
  self.rules = rules.list(options.serverTransportRule)
  function pool.departed(host) self:leave(host) end
  return self
end

--- A connection from this address has ended. Takes no memory.
function door:leave(host)
  local n = self.hosts[host]
  if n then self.hosts[host] = n > 1 and n - 1 or nil end
end

--- Whose address a connection comes from, which of ours it goes to, and its transport. A Unix socket has none: that is this machine.
function door.who(socket)
  local own, port = socket:address()
  if not port then return "127.0.0.1", "127.0.0.1", "unix" end
  return socket:peer(), own, socket:tls() and "ssl" or "tcp"
end

-- Why it may not come in, or nil.
local function unwelcome(self, socket, host)
  if self.rules then
    local _, own, transport = door.who(socket)
    if not rules.allow(self.rules, host, own, transport) then return "no rule of -ORBserverTransportRule lets it in" end
  end
  local most = self.limits.peer
  if most and (self.hosts[host] or 0) >= most then return ("it has the %d connections that the limit 'peer' allows"):format(most) end
end

--- Who is at the other end: { host =, port =, tls = what connection:tls() gives, nil without TLS }; of a Unix socket { host = "localhost", port = 0,
--- unix = its path }
function door.peer(socket)
  local host, port = socket:peer()
  if not port then return { host = "localhost", port = 0, unix = (socket:address()) } end
  return { host = host, port = port, tls = (socket:tls()) }
end

-- -> true | nil, why
local function shake(self, socket, secured)
  if secured then
    local ok, err = socket:handshake(self.limits.handshake)
    if not ok then return nil, err == "timeout" and ("no handshake of TLS within %g seconds"):format(self.limits.handshake) or err end
  end
  if self.allow then
    local fine, yes = pcall(self.allow, door.peer(socket))
    if not fine then return nil, "'allow' failed: " .. tostring(yes) end
    if not yes then return nil, "'allow' said no" end
  end
  return true
end

-- A visitor leaves, whatever ends it.
local visit = {}
function visit.__close(v)
  local self = v.door
  self.inside[v.socket] = nil
  self.pool.waiting = self.pool.waiting - 1
  if not v.over then
    v.socket:close(0)
    if v.host then self:leave(v.host) end
  end
  self.pool:changed()
end

local function receive(self, v)
  local guard <close> = v                         -- luacheck: ignore guard
  local socket = v.socket
  local ok, why = shake(self, socket, v.secured)
  if self.pool.stopping then return end
  if not ok then
    self.note(2, ("a client at %s was refused: %s"):format(tostring(v.name), tostring(why)))
    return
  end
  self.pool:add(socket, v.host)
  v.over = true
end

--- A new connection, which is the door's from now on. Raises if there is no memory for it; then it is the caller's.
function door:enter(socket)
  local name = (self.rules or self.limits.peer) and door.who(socket) or nil
  local secured = socket:tls() ~= nil
  local why = unwelcome(self, socket, name)
  if why then
    self.note(2, ("a client at %s was refused: %s"):format(tostring(name), why))
    return socket:close(0)
  end
  local host = self.limits.peer and name or nil
  if host then self.hosts[host] = (self.hosts[host] or 0) + 1 end
  if not secured and not self.allow then
    local fine, err = pcall(self.pool.add, self.pool, socket, host)
    if fine then return end
    if host then self:leave(host) end
    error(err, 0)
  end
  local v = setmetatable({ door = self, socket = socket, host = host, name = name or door.who(socket), secured = secured, over = false }, visit)
  self.pool.waiting = self.pool.waiting + 1
  self.inside[socket] = v
  local fine, err = pcall(fiber.spawn, { name = "orb door", main = receive, args = { self, v } })
  if fine then return end
  v:__close()
  error(err, 0)
end

-- What was said by this id. Whoever asks about it may still wait for the answer.
local function remembered(peer, id)
  local asking = peer.asking and peer.asking[id]
  if asking then asking:receive() end
  local user = peer.known and peer.known[id]
  return user, not user and "it names what it has not said on this connection" or nil
end

-- Asks the program. -> is it who it says? | nil, why not
local function ask(authenticate, peer, t)
  local fine, yes = pcall(authenticate, t.user, t.password, door.peer(peer.connection.socket))
  if not fine then return nil, "'authenticate' failed: " .. tostring(yes) end
  return yes, not yes and ("'authenticate' said no to '%s'"):format((t.user:sub(1, 60):gsub("[^%g ]", "."))) or nil
end

local answered = {}
function answered.__close(a)
  a.asking[a.id] = nil
  a.over:close()
end

-- As ask; what has an id is remembered by it, the last KNOWN of a connection.
local function ask_by_id(authenticate, peer, t)
  peer.asking, peer.known = peer.asking or {}, peer.known or {}
  local guard <close> = setmetatable({ asking = peer.asking, id = t.id, over = mare.channel.new() }, answered)
  peer.asking[t.id] = guard.over
  local yes, why = ask(authenticate, peer, t)
  if not yes then return nil, why end
  peer.nknown = (peer.nknown or 0) + 1
  if peer.nknown > KNOWN then peer.known, peer.nknown = {}, 1 end
  peer.known[t.id] = t.user
  return true
end

-- Who sends a request: a name, and the id it gave that, or 0 | nil, why not. What a connection has said last is not asked again.
local function user_of(authenticate, peer, contexts)
  local data = contexts and contexts[gssup.CONTEXT]
  if not data then return nil, "it does not say who it is" end
  if peer.said == data then return peer.user, peer.sas end
  local t, why = gssup.read(data)
  if not t then return nil, "it can't be read who it is: " .. why end
  if not t.user then
    local user, unknown = remembered(peer, t.id)
    return user, unknown or 0
  end
  local yes
  if t.id == 0 then yes, why = ask(authenticate, peer, t) else yes, why = ask_by_id(authenticate, peer, t) end
  if not yes then return nil, why end
  peer.said, peer.user, peer.sas = data, t.user, t.id
  return t.user, t.id
end

local function told(reply, id)
  if not reply or id == 0 then return reply end
  if type(reply) ~= "table" then return gssup.completed(reply, id) end
  reply[1] = gssup.completed(reply[1], id)       -- a long one, in pieces
  return reply
end

--- dispatch.serve of a server that asks each request for a name and a password. Requests are parsed once more for it; others pay nothing.
function door.guard(serve, authenticate)
  return function(dispatch, job, message, at, key, operation)
    local contexts = select(9, core.parse(message))
    local user, what = user_of(authenticate, job.peer, contexts)
    job.user = user
    if user then return told((rawget(dispatch, "serve") or serve)(dispatch, job, message, at, key, operation), what) end   -- its own: interceptors
    dispatch:note(2, ("a request of a client at %s was refused: %s"):format(tostring(door.peer(job.peer.connection.socket).host), what))
    job.call, job.key, job.operation = nil, key, operation
    return dispatch:refuse(job, "NO_PERMISSION", 0, "the server does not know who calls")
  end
end

--- Nobody else comes in: who is in a handshake is shown out.
function door:shut()
  local all = {}
  for socket in pairs(self.inside) do all[#all + 1] = socket end
  for _, socket in ipairs(all) do socket:close(0) end
end

return door
