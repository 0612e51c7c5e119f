--[[
mare.ludo.oil_client: calls servers of what OiL calls LuDO (mare.ludo.oil has its messages).

Those serve the requests of a connection in turn, or at the same time, and nothing says which; nor can a request be cancelled. So a connection has one
call at a time: a call takes one that rests, or opens another, and gives it back when its reply is there. What ends before that closes it.
]]
local mare = require "mare"
local net = require "mare.net"
local oil = require "mare.ludo.oil"

local RESTING, ALL, LINE = 16, 64, 12            -- connections of an address that are kept, of all; bytes of a length and the line's end
local MOST, CONNECT = 64 << 20, 30               -- bytes of a reply; seconds

local client = {}
client.__index = client

--- refer, resolve: as oil.encode_with and oil.decode have them; most: bytes of a reply
function client.new(refer, resolve, most)
  return setmetatable({ refer = refer, resolve = resolve, most = most or MOST, resting = {}, kept = 0, serial = 0, closed = false }, client)
end

--- A reference's text, and what it says | nil: { host =, port =, object =, zero = its messages end by a zero byte }
function client.text(reference) return oil.encode(reference.object, reference.host, reference.port) .. (reference.zero and "\0" or "") end

function client.reference(text)
  local n, list, zero = oil.decode(text, 1 << 16)
  if n ~= 3 or type(list[1]) ~= "string" or type(list[2]) ~= "string" or math.type(list[3]) ~= "integer" then return nil end
  return { object = list[1], host = list[2], port = list[3], zero = zero }
end

-- Takes one out of those of an address.
local function take(self, address, i)
  local list = self.resting[address]
  local one = table.remove(list, i)
  if not list[1] then self.resting[address] = nil end
  self.kept = self.kept - 1
  return one.socket
end

-- A connection that rests, and of which nothing has come.
local function rested(self, address)
  while self.resting[address] do
    local socket = take(self, address)
    local _, err, code = socket:read(1, 0)
    if err == "timeout" and not code then return socket end
    socket:close(0)
  end
end

local function close_oldest(self)
  local oldest
  for address, list in pairs(self.resting) do
    if not oldest or list[1].since < self.resting[oldest][1].since then oldest = address end
  end
  take(self, oldest, 1):close(0)
end

-- Closed, unless it is given back.
local held = {}
function held.__close(h)
  if not h.over then h.socket:close(0) end
end

local function give_back(self, address, h)
  local list = self.resting[address] or {}
  if self.closed or #list >= RESTING then return end
  list[#list + 1] = { socket = h.socket, since = self.serial }
  self.resting[address], self.kept, h.over = list, self.kept + 1, true
  if self.kept > ALL then close_oldest(self) end
end

-- The reply's values | nil, message, "timeout" or a code.
local function exchange(self, socket, message, id, left)
  socket:timeout(left())
  local ok, err, code = socket:write(message)
  if not ok then return nil, err, code or "timeout" end
  local line
  line, err, code = socket:read_until("\n", LINE, left())
  if not line then return nil, code == "EOF" and "the server closed the connection without a word" or err, code or "timeout" end
  local size = math.tointeger(tonumber(line:match "^(%d+)\r?\n?$"))
  if not size or size > self.most then return nil, "the server sent no length, or one beyond the limit", "EPROTO" end
  local text
  text, err, code = socket:read(size, left())
  if not text or #text < size then return nil, err or "the server closed the connection", code or text and "EOF" or "timeout" end
  local n, list = oil.decode(text, self.most, self.resolve)
  if not n then return nil, list, "EPROTO" end
  if n < 2 or list[1] ~= id or type(list[2]) ~= "boolean" then return nil, "the server sent what is no reply to the request", "EPROTO" end
  list.n = n
  return list
end

--- Calls an operation. -> true, results… | false, what it raised | nil, message, kind: "connect" nobody is there, "value" an argument can't be sent,
--- "timeout", "lost", "message" what came can't be read
function client:call(reference, operation, seconds, ...)
  local deadline = seconds and mare.clock() + seconds
  local function left() return deadline and math.max(0, deadline - mare.clock()) or math.huge end
  self.serial = self.serial + 1
  local id = self.serial
  local fine, text = pcall(oil.encode_with, self.refer, id, reference.object, operation, ...)
  if not fine then return nil, tostring(text), "value" end
  if reference.zero then text = text .. "\0" end
  local address = ("%s %d"):format(reference.host, reference.port)
  local socket, err = rested(self, address)
  if not socket then socket, err = net.connect(reference.host, reference.port, { timeout = math.min(left(), CONNECT) }) end
  if not socket then return nil, err, deadline and left() == 0 and "timeout" or "connect" end
  local h <close> = setmetatable({ socket = socket, over = false }, held)
  local list, why, code = exchange(self, socket, ("%d\n"):format(#text) .. text, id, left)
  if not list then return nil, why, code == "timeout" and "timeout" or code == "EPROTO" and "message" or "lost" end
  give_back(self, address, h)
  return table.unpack(list, 2, list.n)
end

--- Closes what rests.
function client:close()
  self.closed = true
  for _, list in pairs(self.resting) do
    for _, one in ipairs(list) do one.socket:close(0) end
  end
  self.resting, self.kept = {}, 0
end

return client
