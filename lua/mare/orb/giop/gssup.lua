-- gssup: a name and a password in requests, as CSIv2 has them (CORBA 3.3 part 2, 10.2 and 10.3.2): the token of GSSUP in the service context
-- SecurityAttributeService. Every request carries it (stateless), or one does and gives it an id, by which later ones on that connection name it.
--
-- Bytes from outside never raise: gssup.read gives nil and a message.
local pack, unpack = string.pack, string.unpack

local gssup = {
  CONTEXT = 15,                                  -- the id of the service context
  MECHANISM = "\6\6\x67\x81\2\1\1\1",            -- 2.23.130.1.1.1, as ASN.1 writes it
}

local ESTABLISH, COMPLETE, IN_CONTEXT, IDENTITY_ABSENT = 0, 1, 5, 0
local MOST = 4096                                -- bytes of a service context that are looked at

local function align(bytes, to) return bytes .. ("\0"):rep(-#bytes % to) end

--- A name in the form of the mechanism, as a reference gives that of its server.
function gssup.exported(name) return "\4\1" .. pack(">s2s4", gssup.MECHANISM, name) end

-- The length of what follows, as ASN.1 writes it.
local function length(n)
  if n < 128 then return string.char(n) end
  local bytes = pack(">I4", n):gsub("^\0+", "")
  return string.char(0x80 | #bytes) .. bytes
end

local function token(user, password, target)
  local inner = pack("<!4I1s4", 1, user)
  inner = align(inner, 4) .. pack("<s4", password)
  inner = align(inner, 4) .. pack("<s4", target)
  local body = gssup.MECHANISM .. inner
  return "\x60" .. length(#body) .. body
end

--- The data of the service context that says who calls. `target`: the name of the server, as its reference has it.
function gssup.establish(user, password, target)
  return pack("<!8I1xi2!8I8I4I4I1xxxs4", 1, ESTABLISH, 0, 0, IDENTITY_ABSENT, 1, token(user, password, target))
end

-- ---- reading ----

local function wrong(text) error({ text }, 0) end

local function read_length(data, at)
  local n = data:byte(at) or wrong "a token is cut off"
  if n < 128 then return n, at + 1 end
  if n > 0x84 or n == 0x80 then wrong "the length of a token" end
  return unpack(">I" .. n - 0x80, data, at + 1)
end

local function read_token(data)
  if data:byte() ~= 0x60 then wrong "this is no token of GSSUP" end
  local n, at = read_length(data, 2)
  if at + n - 1 ~= #data then wrong "a token has another length than it says" end
  local inner = data:sub(at)
  if inner:sub(1, #gssup.MECHANISM) ~= gssup.MECHANISM then wrong "this is no token of GSSUP" end
  inner = inner:sub(#gssup.MECHANISM + 1)
  local order = (inner:byte() or wrong "a token is cut off") & 1 == 1 and "<!" or ">!"
  local t = {}
  t.user, t.password, t.target = unpack(order .. "s4s4s4", inner, 2)
  return t
end

local function read(data)
  local order = data:byte() & 1 == 1 and "<!8" or ">!8"
  local kind, at = unpack(order .. "i2", data, 2)
  if kind == IN_CONTEXT then return { id = (unpack(order .. "I8", data, at)) } end
  if kind ~= ESTABLISH then wrong("a message of kind " .. kind) end
  local id, n, identity, bytes
  id, n, at = unpack(order .. "I8I4", data, at)
  if n ~= 0 then wrong "authorization tokens are not known here" end
  identity, at = unpack(order .. "I4", data, at)
  if identity ~= IDENTITY_ABSENT then wrong "who calls in somebody else's name is not known here" end
  bytes = select(2, unpack(order .. "I1s4", data, at))
  local t = read_token(bytes)
  t.id = id
  return t
end

--- { user =, password =, target =, id = the name of that on this connection, 0: it has none } | { id = } of what was said before | nil, message
function gssup.read(data)
  if #data == 0 or #data > MOST then return nil, ("it has %d bytes"):format(#data) end
  local ok, value = pcall(read, data)
  if ok then return value end
  return nil, type(value) == "table" and value[1] or "it is cut off"
end

-- ---- the answer ----

--- The first bytes of a reply that also says: what has this id is remembered here. What is put in has a length that leaves the body where eight
--- bytes begin.
function gssup.completed(reply, id)
  local bits, minor = reply:byte(7), reply:byte(6)
  local order = bits & 1 == 1 and "<" or ">"
  local at = minor < 2 and 13 or 21                -- where the number of contexts stands
  local context = pack(order .. "I4I4", gssup.CONTEXT, 24) .. pack(order .. "!8I1xi2!8I8I1xxxI4", bits & 1, COMPLETE, id, 1, 0)
  local n, size = unpack(order .. "I4", reply, at), unpack(order .. "I4", reply, 9)
  local head = reply:sub(1, 8) .. pack(order .. "I4", size + #context) .. reply:sub(13, at - 1)
  return head .. pack(order .. "I4", n + 1) .. context .. reply:sub(at + 4)
end

return gssup
