-- iiop: a client of raw GIOP bytes for specs of the server. It knows nothing of brokers, IDL or types: bodies are strings.
--
--   local giop = require "spec.support.iiop"
--   local c = giop.connect(port[, host])                        a to-be-closed value
--   local id = c:request("say", "key", body, { minor = 2, little = true, response = 3, id = n })
--   local r = c:receive([seconds])       { type = "Reply", id =, status =, body =, minor =, little = } | nil, why, code
--   local r = c:call("say", "key", body, options)
--   c:locate("key", options)   c:cancel(id)   c:write(bytes)   c:close()
--   giop.text(bytes, little), giop.string("x", little), giop.system(reply) -> "NAME", minor, completed
local net = require "mare.net"
local core = require "mare.orb.giop.core"
local proc = require "spec.support.proc"

local giop, client = {}, {}
client.__index = client
local LIMIT = 60 * proc.slow
local names = { [0] = "Request", "Reply", "CancelRequest", "LocateRequest", "LocateReply", "CloseConnection", "MessageError", "Fragment" }

function giop.connect(port, host)
  return setmetatable({ socket = assert(net.connect(host or "127.0.0.1", port)), id = 0 }, client)
end

function client:__close() self.socket:close() end
function client:close() return self.socket:close() end
function client:write(bytes) return self.socket:write(bytes) end

local function of(self, options)
  options = options or {}
  self.id = options.id or self.id + 1
  return options.minor or 2, options.little ~= false, self.id, options
end

function client:message(operation, key, body, options)
  local minor, little, id, o = of(self, options)
  return core.request(minor, little, o.response or 3, key, operation, o.contexts, id, body), id
end

function client:request(operation, key, body, options)
  local bytes, id = self:message(operation, key, body, options)
  assert(self.socket:write(bytes))
  return id
end

function client:locate(key, options)
  local minor, little, id = of(self, options)
  assert(self.socket:write(core.locate_request(minor, little, id, key)))
  return assert(self:receive())
end

function client:cancel(id, options)
  local minor, little = of(self, { minor = options and options.minor, little = options and options.little, id = self.id })
  assert(self.socket:write(core.cancel(minor, little, id)))
end

function client:receive(seconds)
  local message, err, code = core.receive(self.socket, 1 << 24, seconds or LIMIT)
  if not message then return nil, err, code end
  local kind, bits, _, id, status, at = core.parse(message)
  assert(kind, bits)
  return { type = names[kind], minor = bits >> 1, little = bits & 1 == 1, id = id, status = status, body = at and message:sub(at), message = message }
end

function client:call(...)
  local id = self:request(...)
  local r = assert(self:receive())
  assert(r.id == id, "the reply is another request's")
  return r
end

function giop.string(text, little) return string.pack(little == false and ">s4" or "<s4", text .. "\0") end
function giop.text(bytes, little) return (string.unpack(little == false and ">s4" or "<s4", bytes):sub(1, -2)) end

-- The system exception of a reply: "OBJECT_NOT_EXIST", minor, "NO" | "YES" | "MAYBE"
function giop.system(reply)
  assert(reply.status == 2, "no system exception, but status " .. tostring(reply.status))
  local order = reply.little and "<!4" or ">!4"
  local id, minor, completed = string.unpack(order .. "s4I4I4", reply.body)
  return id:match("^IDL:omg.org/CORBA/(.*):1.0\0$"), minor, ({ [0] = "YES", "NO", "MAYBE" })[completed]
end

return giop
