-- peer: a server of raw GIOP messages that does what a script says, for specs of the client. It knows nothing of brokers, IDL or types.
--
--   local peer = require "spec.support.peer"
--   local server <close> = peer.serve(function(conn, n)       -- a fiber for each connection; n counts them
--     local q = conn:request()                                -- { id =, operation =, key =, body =, minor =, response =, message = } | nil: over
--     conn:reply(q, "body")                                   -- conn:reply(q, body, status), conn:reply(id, …)
--     conn:write(bytes)   conn:bye()                          -- CloseConnection   conn:close()
--   end)
--   server.ref, server.port, server.host                      -- a corbaloc of it; server.accepted; server.key
--   peer.echo                                                 -- a script: answers each request with its own body until the end
--   peer.string("x"), peer.text(body), peer.system("TRANSIENT", minor, completed), peer.reference(port, key)
local mare = require "mare"
local net = require "mare.net"
local core = require "mare.orb.giop.core"
local connection = require "mare.orb.giop.connection"
local ior = require "mare.orb.giop.ior"
local proc = require "spec.support.proc"

local peer, conn, server = {}, {}, {}
conn.__index, server.__index = conn, server
peer.LIMIT = 60 * proc.slow
local kinds = { [0] = "Request", "Reply", "CancelRequest", "LocateRequest", "LocateReply", "CloseConnection", "MessageError", "Fragment" }

--- The next message of any kind.
function conn:message(seconds)
  local message, kind, bits, id, response, key, operation, at, contexts = self.giop:receive(seconds or peer.LIMIT)
  if not message then return nil, kind, bits end
  message = tostring(message)                    -- a long one is no string
  return { type = kinds[kind], id = id, response = response, key = key, operation = operation, body = at and message:sub(at), minor = bits >> 1,
           little = bits & 1 == 1, contexts = contexts, message = message }
end

--- The next request; others are kept in conn.others.
function conn:request(seconds)
  while true do
    local m, err, code = self:message(seconds)
    if not m then return nil, err, code end
    if m.type == "Request" then return m end
    self.others[#self.others + 1] = m
  end
end

function conn:reply(to, body, status, contexts)
  local id, minor, little = to, 2, true
  if type(to) == "table" then id, minor, little = to.id, to.minor, to.little end
  return self.socket:write(core.reply(minor, little, id, status or 0, contexts, body))
end

function conn:write(bytes) return self.socket:write(bytes) end
function conn:bye() return self.socket:write(core.close(2, true)) end
function conn:close() return self.socket:close() end

--- Answers until the client has gone.
function peer.echo(c)
  for q in function() return c:request() end do
    if q.response ~= 0 then c:reply(q, q.body) end
  end
end

function server:__close()
  self.listener:close()
  self.running:wait(peer.LIMIT)
  for _, c in ipairs(self.connections) do
    c.socket:close()
    c.fiber:wait(peer.LIMIT)
  end
  for _, c in ipairs(self.connections) do
    local ok, err = c.fiber:wait(peer.LIMIT)
    if not ok then error("the scripted server failed: " .. tostring(err), 0) end
  end
end

function peer.serve(script, options)
  local host = options and options.host or "127.0.0.1"
  local listener = assert(net.listen { host = host, port = options and options.port or 0 })
  local _, port = listener:address()
  local self = setmetatable({ listener = listener, port = port, host = host, accepted = 0, connections = {} }, server)
  self.ref = ("corbaloc:iiop:1.2@%s:%d/key"):format(host, port)
  self.running = mare.fiber.spawn(function()
    for socket in listener:connections() do
      self.accepted = self.accepted + 1
      local c = setmetatable({ socket = socket, giop = connection.new(socket, { role = "server" }), others = {} }, conn)
      c.fiber = mare.fiber.spawn(script, c, self.accepted)
      self.connections[#self.connections + 1] = c
    end
  end)
  return self
end

--- Where a port is refused: it was ours a moment ago.
function peer.nobody()
  local listener = assert(net.listen("127.0.0.1:0"))
  local _, port = listener:address()
  listener:close()
  return port
end

function peer.string(text) return string.pack("<s4", text .. "\0") end

function peer.text(body) return (string.unpack("<s4", body):sub(1, -2)) end

function peer.system(name, minor, completed)
  return string.pack("<!4s4I4I4", "IDL:omg.org/CORBA/" .. name .. ":1.0\0", minor or 0, completed or 1)
end

--- A reference to addresses { { host, port } … } as the body of a forward.
function peer.reference(addresses, key, options)
  options = options or {}
  local canonical = ior.iiop { type_id = options.id or "", addresses = addresses, key = key or "key", minor = options.minor, components =
    options.components }
  return canonical:sub(5), ior.stringify(canonical)
end

return peer
