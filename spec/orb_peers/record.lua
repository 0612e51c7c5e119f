-- A proxy that keeps the GIOP messages which pass it.
--
--   local record = require "spec.orb_peers.record"
--   local r = record.start(ior)            r.ior: the same reference with the proxy's port; the host must be 127.0.0.1
--   r:stop() -> { { from = "C" or "S", connection = n, message = bytes }, … }      "C": sent by the client
--
-- As a program it makes the files of captures/ from one run of a client:
--   bin/mare run spec/orb_peers/record.lua FILE REFERENCE client argument…
-- A file is a sequence of records: "C" or "S", an octet with the connection's number, and the message (whose header holds its length).
-- References that a reply holds name the server itself, so what a client sends to those is not kept.
local mare = require "mare"
local net = require "mare.net"
local fiber = mare.fiber

local record = {}
record.__index = record

local function message_size(head)
  local magic, _, _, flags = string.unpack("c4 B B B", head)
  if magic ~= "GIOP" then return nil end
  return (string.unpack(flags & 1 == 1 and "<I4" or ">I4", head, 9))
end

-- One whole message from a connection, or nil at its end.
local function receive(conn)
  local head = conn:read(12)
  if not head or #head < 12 then return nil end
  local size = assert(message_size(head), "no GIOP message: " .. head)
  if size == 0 then return head end
  local body = conn:read(size)
  if not body or #body < size then return nil end
  return head .. body
end

local function copy(self, from, number, source, target)
  for message in receive, source do
    self.messages[#self.messages + 1] = { from = from, connection = number, message = message }
    if not target:write(message) then break end
  end
  target:shutdown("write")
end

-- Where the port of the first IIOP profile stands in the reference's bytes, and its byte order.
local function port_place(bytes)
  local order = bytes:byte(1) == 1 and "<" or ">"
  local at, count, tag, data = 5
  at = select(2, string.unpack(order .. "!4 s4", bytes, at))
  count, at = string.unpack(order .. "!4 I4", bytes, at)
  for _ = 1, count do
    tag, data, at = string.unpack(order .. "!4 I4 s4", bytes, at)
    if tag == 0 then
      local inner = data:byte(1) == 1 and "<" or ">"
      local host, after = string.unpack(inner .. "!4 s4", data, 5)
      assert(host == "127.0.0.1\0", "the recorder wants a server on 127.0.0.1, not " .. host)
      after = after + (after - 1) % 2
      return at - #data + after - 1, inner, (string.unpack(inner .. "I2", data, after))
    end
  end
  error("the reference has no IIOP profile")
end

function record.start(ior)
  local bytes = ior:match("^IOR:(%x+)"):gsub("%x%x", function(two) return string.char(tonumber(two, 16)) end)
  local place, order, port = port_place(bytes)
  local server = assert(net.listen("127.0.0.1:0"))
  local _, mine = server:address()
  bytes = bytes:sub(1, place - 1) .. string.pack(order .. "I2", mine) .. bytes:sub(place + 2)
  local self = setmetatable({ messages = {}, server = server, connections = {}, accepted = 0 }, record)
  self.ior = "IOR:" .. bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end)
  self.fiber = fiber.spawn(function()
    for client in server:connections() do
      local number = self.accepted + 1
      local target = assert(net.connect("127.0.0.1", port))
      self.accepted = number
      self.connections[2 * number - 1], self.connections[2 * number] = client, target
      fiber.spawn(copy, self, "C", number, client, target)
      fiber.spawn(copy, self, "S", number, target, client)
    end
  end)
  return self
end

function record:stop()
  self.server:close()
  self.fiber:wait()
  for _, c in ipairs(self.connections) do c:close() end
  return self.messages
end

-- What belongs together has one name here. Request, Reply, LocateRequest, LocateReply and Fragment of GIOP 1.2 begin with the request's number;
-- before 1.2 a fragment follows its beginning.
local function groups(messages)
  local group, open = {}, {}
  for k, r in ipairs(messages) do
    local m = r.message
    local side = r.from .. r.connection
    if m:byte(6) >= 2 and #m >= 16 then
      group[k] = r.connection .. ":" .. string.unpack(m:byte(7) & 1 == 1 and "<I4" or ">I4", m, 13)
    else
      group[k] = open[side] or k
      open[side] = m:byte(7) & 2 == 2 and group[k] or nil
    end
  end
  return group
end

-- Leaves out exchanges that are large.
local function thin(messages, most)
  local group, sizes, result = groups(messages), {}, {}
  for k, r in ipairs(messages) do sizes[group[k]] = (sizes[group[k]] or 0) + #r.message end
  for k, r in ipairs(messages) do
    if sizes[group[k]] <= most then result[#result + 1] = r end
  end
  return result
end

function record.write(path, messages, most)
  local file = assert(io.open(path, "wb"))
  for _, r in ipairs(thin(messages, most or 24000)) do
    file:write(r.from, string.char(r.connection), r.message)
  end
  file:close()
end

-- The records of a file.
function record.read(path)
  local file = assert(io.open(path, "rb"))
  local text, list, at = file:read("a"), {}, 1
  file:close()
  while at <= #text do
    local size = assert(message_size(text:sub(at + 2, at + 13)), "broken capture " .. path)
    list[#list + 1] = { from = text:sub(at, at), connection = text:byte(at + 1), message = text:sub(at + 2, at + 13 + size) }
    at = at + 14 + size
  end
  return list
end

local function main(path, ior, ...)
  local r = record.start(ior)
  local words = { ... }
  for k, w in ipairs(words) do if w == "REFERENCE" then words[k] = r.ior end end
  local done = assert(require "mare.subprocess".run(words))
  io.write(done.out, done.err)
  record.write(path, r:stop())
  return done.code
end

if arg and arg[0] and arg[0]:match("record%.lua$") then os.exit(main(...)) end

return record
