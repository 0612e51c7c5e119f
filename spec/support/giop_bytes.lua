-- GIOP messages for specs, written by string.pack after the specification and not by the code under test.
--
--   giop.request{ minor =, little =, id =, response = 3, key =, operation =, contexts = { { id, data } … }, body =,
--                 profile = { tag, data }, reference = { index, type_id, { { tag, data } … } } }      how it is addressed, instead of key
--   giop.reply{ minor =, little =, id =, status =, contexts =, body = }
--   giop.message(type, minor, little, writer, flags)        of fields written to giop.writer(little)
--   giop.fragments(message, n, …)                           1.2 or 1.1 pieces: the first of n bytes, then each of the next number, then the rest
local giop = {}

local Writer = {}
Writer.__index = Writer

function giop.writer(little) return setmetatable({ order = little and "<" or ">", at = 12, out = {} }, Writer) end

function Writer:raw(bytes)
  self.out[#self.out + 1] = bytes
  self.at = self.at + #bytes
  return self
end
function Writer:align(n) return self:raw(("\0"):rep(-self.at % n)) end
function Writer:octet(v) return self:raw(string.char(v)) end
function Writer:ushort(v) return self:align(2):raw(string.pack(self.order .. "I2", v)) end
function Writer:ulong(v) return self:align(4):raw(string.pack(self.order .. "I4", v)) end
function Writer:octets(bytes) return self:ulong(#bytes):raw(bytes) end
function Writer:string(text) return self:octets(text .. "\0") end
function Writer:tagged(list)
  self:ulong(#list)
  for _, e in ipairs(list) do self:ulong(e[1]):octets(e[2]) end
  return self
end

function giop.message(type, minor, little, writer, flags)
  local body = writer and table.concat(writer.out) or ""
  return "GIOP" .. string.pack((little and "<" or ">") .. "I1I1I1I1I4", 1, minor, (little and 1 or 0) | (flags or 0), type, #body) .. body
end

local function target(w, t)
  if t.profile then w:ushort(1):ulong(t.profile[1]):octets(t.profile[2])
  elseif t.reference then w:ushort(2):ulong(t.reference[1]):string(t.reference[2]):tagged(t.reference[3])
  else w:ushort(0):octets(t.key) end
end

local function body(w, t)
  if not t.body or t.body == "" then return end
  if t.minor == 2 then w:align(8) end
  w:raw(t.body)
end

function giop.request(t)
  local w, response = giop.writer(t.little), t.response or 3
  if t.minor < 2 then
    w:tagged(t.contexts or {}):ulong(t.id):octet(response ~= 0 and 1 or 0)
    if t.minor == 1 then w:raw "\0\0\0" end
    w:octets(t.key):string(t.operation):octets("")
  else
    w:ulong(t.id):octet(response):raw "\0\0\0"
    target(w, t)
    w:string(t.operation):tagged(t.contexts or {})
  end
  body(w, t)
  return giop.message(0, t.minor, t.little, w)
end

function giop.reply(t)
  local w = giop.writer(t.little)
  if t.minor < 2 then w:tagged(t.contexts or {}):ulong(t.id):ulong(t.status)
  else w:ulong(t.id):ulong(t.status):tagged(t.contexts or {}) end
  body(w, t)
  return giop.message(1, t.minor, t.little, w)
end

function giop.locate_request(t)
  local w = giop.writer(t.little):ulong(t.id)
  if t.minor < 2 then w:octets(t.key) else target(w, t) end
  return giop.message(3, t.minor, t.little, w)
end

function giop.fragments(message, ...)
  local order = message:byte(7) & 1 == 1 and "<" or ">"
  local minor, sizes = message:byte(6), { ... }
  local id = minor == 2 and message:sub(13, 16) or ""
  local function piece(type, from, to, more, head)
    local bytes = head .. message:sub(from, to)
    return "GIOP\1" .. string.char(minor, (message:byte(7) & 1) | (more and 2 or 0), type) .. string.pack(order .. "I4", #bytes) .. bytes
  end
  local list, at = { piece(message:byte(8), 13, sizes[1], true, "") }, sizes[1] + 1
  for i = 2, #sizes do
    list[i] = piece(7, at, at + sizes[i] - 1, true, id)
    at = at + sizes[i]
  end
  list[#list + 1] = piece(7, at, #message, false, id)
  return list
end

return giop
