-- GIOP: core.parse on messages, and connections on streams of them.
--
-- The input is a stream. It is read as messages as long as their sizes allow; then its first message once more, with the size its header should have,
-- so that a changed length elsewhere gets through to what reads it. What could be read must be read the same after it was made anew.
local core = require "mare.orb.giop.core"

-- A socket that holds bytes; what core.receive does with one, without waiting.
local function receive(socket, limit)
  local at = socket.at
  local header = socket.data:sub(at, at + 11)
  if header ~= "" and header:sub(1, 4) ~= ("GIOP"):sub(1, #header) then return nil, "no GIOP", "EPROTO" end
  if #header < 12 then return nil, "closed", "EOF" end
  if header:byte(5) ~= 1 or header:byte(6) > 2 then return nil, "no version of ours", "EPROTO" end
  local size = 12 + string.unpack(header:byte(7) & 1 == 1 and "<I4" or ">I4", header, 9)
  if size > limit then return nil, "too long", "EMSGSIZE" end
  if #socket.data - at + 1 < size then return nil, "closed", "EOF" end
  socket.at = at + size
  return socket.data:sub(at, at + size - 1)
end

package.loaded.mare = { clock = os.clock, sleep = function() end, fiber = { yield = function() end }, process = { remaining = function() end } }
local function take(socket, limit)
  local message, err, code = receive(socket, limit)
  if not message then return nil, err, code end
  return message, core.parse(message)
end
package.loaded["mare.orb.giop.core"] = setmetatable({ take = take }, { __index = core })
local connection = require "mare.orb.giop.connection"

local LIMITS = { message = 2048, pending = 4096, unfinished = 4 }

local function list(contexts)
  local out = {}
  for id, data in pairs(contexts or {}) do out[#out + 1] = { id, data } end
  return out
end

local function same(a, b, what)
  if type(a) == "table" and type(b) == "table" then
    for k, v in pairs(a) do same(v, b[k], what) end
    for k in pairs(b) do assert(a[k] ~= nil, what) end
  elseif a ~= b then
    error(("%s: %s became %s"):format(what, tostring(a), tostring(b)))
  end
end

local again = {}

again[0] = function(bits, message, id, response, key, operation, at, contexts, target)
  local minor = bits >> 1
  assert(at >= 13 and at <= #message + 1)
  if target then
    if target.ior then assert(#target.ior < 2 * #message + 64) end
    return
  end
  local body = minor == 2 and message:sub(at) or ""
  local made = core.request(minor, bits & 1, response, key, operation, list(contexts), id, body)
  local _, _, _, id2, response2, key2, operation2, at2, contexts2 = core.parse(made)
  same({ id, response, key, operation, body, contexts or {} }, { id2, response2, key2, operation2, made:sub(at2), contexts2 or {} }, "request")
end

again[1] = function(bits, message, id, status, at, contexts)
  local minor = bits >> 1
  local body = minor == 2 and message:sub(at) or ""
  local made = core.reply(minor, bits & 1, id, status, list(contexts), body)
  local _, _, _, id2, status2, at2, contexts2 = core.parse(made)
  same({ id, status, body, contexts or {} }, { id2, status2, made:sub(at2), contexts2 or {} }, "reply")
end

again[3] = function(bits, _, id, key, target)
  if target then return end
  local _, _, _, id2, key2 = core.parse(core.locate_request(bits >> 1, bits & 1, id, key))
  same({ id, key }, { id2, key2 }, "locate request")
end

again[4] = function(bits, message, id, status, at)
  assert(message == core.locate_reply(bits >> 1, bits & 1, id, status, message:sub(at)) or message:byte(7) > 1)
end

local function check(message)
  local kind, bits, more = core.parse(message)
  if not kind then
    assert(type(bits) == "string" and math.type(more) == "integer" and more >= 0 and more <= #message)
  elseif not more and again[kind] then
    again[kind](bits, message, select(4, core.parse(message)))
    local contexts = kind == 0 and select(9, core.parse(message)) or kind == 1 and select(7, core.parse(message)) or {}
    for id, data in pairs(contexts) do assert(core.context(message, id) == data) end
  end
  for id = 0, 20 do
    local data = core.context(message, id)
    assert(data == nil or kind and #data < #message)
  end
end

local function noted(socket)
  return { write = function() socket.wrote = (socket.wrote or 0) + 1 return true end, timeout = function() end, data = socket.data, at = 1 }
end

local function stream(data)
  local socket = noted { data = data }
  local c = connection.new(socket, { role = #data % 2 == 0 and "server" or "client", limits = LIMITS })
  repeat
    local message, kind, bits = c:receive()
    if message then
      assert(math.type(kind) == "integer" and kind ~= 7 and #message <= LIMITS.message)
      assert(bits == c.bits)
      check(message)
      local contexts = kind == 0 and select(9, core.parse(message))
      if contexts then c:contexts(contexts[1]) end
    end
    assert(c.pending >= 0 and c.pending <= LIMITS.pending + LIMITS.message and c.nunfinished <= LIMITS.unfinished and c.nunfinished >= 0)
  until not message
end

return function(data)
  stream(data)
  check(data)
  if #data >= 12 then
    local sized = data:sub(1, 8) .. string.pack(data:byte(7) & 1 == 1 and "<I4" or ">I4", #data - 12) .. data:sub(13)
    if sized ~= data then check(sized) end
  end
end
