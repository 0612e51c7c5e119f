-- corbaloc: references one can read and write by hand (CORBA 3.3 part 2, 7.6.10).
--
--   corbaloc::host:2809/key            corbaloc:iiop:1.2@[::1]:2809,:backup/key            corbaloc:rir:/NameService
--   corbaloc:ssliop:host:2810/key      over TLS
--   corbaloc:omniunix:/path:/key       a Unix socket of this machine, as omniORB writes it; a : or , in the path is %xx
--
-- Without a version it is IIOP 1.0 (1.2 over TLS: 1.0 can't say so), without a port 2809; both are the specification's. Bytes of a key that are not
-- allowed in a URL are %xx.
local ior = require "mare.orb.giop.ior"
local machine = require "mare.orb.machine"
local security = require "mare.orb.giop.security"

local corbaloc = { PORT = 2809 }

local allowed = "[%w;/:?@&=+$,%-_.!~*'()]"

-- A mistake at character `at` of the text.
local function mistake(text, at, what) return nil, ("%s: at character %d: %s"):format(text, at, what) end

-- corbaloc.unescape(text, at) -> the bytes of what is written from `at` on | nil, message
function corbaloc.unescape(text, at)
  local out = {}
  while at <= #text do
    local c = text:sub(at, at)
    if c == "%" then
      local digits = text:match("^%x%x", at + 1)
      if not digits then return mistake(text, at, "% is followed by two hexadecimal digits") end
      c, at = string.char(tonumber(digits, 16)), at + 2
    elseif not c:find(allowed) then
      return mistake(text, at, ("%q is not allowed in a key, write %%%02x"):format(c, c:byte()))
    end
    out[#out + 1] = c
    at = at + 1
  end
  return table.concat(out)
end

-- corbaloc.escape(key) -> as it is written in a corbaloc
function corbaloc.escape(key)
  return (key:gsub("[^%w;/:?@&=+$,%-_.!~*'()]", function(c) return ("%%%02x"):format(c:byte()) end))
end

local function version(text, at, word)
  local major, minor, rest = word:match("^(%d+)%.(%d+)@(.*)$")
  if not major then
    if word:find("@", 1, true) then return mistake(text, at, "a version is written as 1.2@") end
    return { kind = "iiop", minor = 0 }, word, at
  end
  if tonumber(major) ~= 1 or #minor > 3 or tonumber(minor) > 255 then
    return mistake(text, at, ("IIOP %s.%s is not known, only 1.x"):format(major, minor))
  end
  return { kind = "iiop", minor = math.tointeger(tonumber(minor)) }, rest, at + #word - #rest
end

local function iiop(text, at, word)
  local address, rest, where = version(text, at, word)
  if not address then return nil, rest end
  local host, tail = rest:match("^%[([%x:.]+%%?%w*)%](.*)$")
  if not host then host, tail = rest:match("^([%w%-_.]+)(.*)$") end
  if not host then return mistake(text, where, rest:find("^%[") and "an IPv6 address is written as [::1]" or "a host is missing") end
  local port = tail == "" and tostring(corbaloc.PORT) or tail:match("^:(%d*)$")
  if not port then return mistake(text, where + #rest - #tail, "after the host comes : and a port, or a comma, or / and the key") end
  if port == "" then port = tostring(corbaloc.PORT) end
  if #port > 5 or tonumber(port) > 65535 then return mistake(text, where + #rest - #tail + 1, "a port is 0 to 65535") end
  address.host, address.port = host, math.tointeger(tonumber(port))
  return address
end

-- TLS is said by a component, which 1.0 doesn't have.
local function ssliop(text, at, word)
  local address, err = iiop(text, at, word)
  if not address then return nil, err end
  if address.minor == 0 then
    if word:find("@", 1, true) then return mistake(text, at, "over TLS it is IIOP 1.1 or 1.2") end
    address.minor = 2
  end
  if address.port == 0 then return mistake(text, at, "nothing listens for TLS at port 0") end
  address.kind = "ssliop"
  return address
end

-- Where a Unix socket's address ends, which has slashes in it: at a : or a comma, or the end. -> address, that place | nil, message
local function unix(text, at)
  local word = text:match("^[^:,]*", at)
  local address, rest, where = version(text, at, word)
  if not address then return nil, rest end
  local path, err = corbaloc.unescape(text:sub(1, at + #word - 1), where or at)
  if not path then return nil, err end
  if path == "" or path:find("\0", 1, true) then return mistake(text, at, "the path of a Unix socket is missing") end
  address.kind, address.minor, address.path, address.host, address.port = "omniunix", 2, path, machine.name() or "localhost", 0
  local stop = at + #word
  return address, text:sub(stop, stop) == ":" and stop + 1 or stop
end

local function one_address(text, at, word)
  local protocol, rest = word:match("^(%a*[%w+.-]*):(.*)$")
  if not protocol then return mistake(text, at, "an address begins with iiop:, :, ssliop:, omniunix: or rir:") end
  protocol = protocol:lower()
  if protocol == "" or protocol == "iiop" then return iiop(text, at + #word - #rest, rest) end
  if protocol == "ssliop" then return ssliop(text, at + #word - #rest, rest) end
  if protocol ~= "rir" then return mistake(text, at, ("the protocol %s is not known here; iiop, ssliop, omniunix and rir are"):format(protocol)) end
  if rest ~= "" then return mistake(text, at + 4, "nothing follows rir: but / and a name") end
  return { kind = "rir" }
end

-- The address at `at`, and where it ends: at a comma, a slash or the end. | nil, message
local function next_address(text, at)
  if text:sub(at, at + 8):lower() == "omniunix:" then return unix(text, at + 9) end
  local stop = text:find("[,/]", at) or #text + 1
  local address, err = one_address(text, at, text:sub(at, stop - 1))
  return address, address and stop or err
end

-- corbaloc.addresses(text, at) -> what parse gives, of the part behind the scheme
function corbaloc.addresses(text, at)
  local list, stop = {}
  repeat
    local address, where = next_address(text, at)
    if not address then return nil, where end
    stop = where
    local more = text:sub(stop, stop) == ","
    list[#list + 1] = address
    if list[1].kind == "rir" and (#list > 1 or more) or address.kind == "rir" and #list > 1 then
      return mistake(text, at, "rir: stands alone")
    end
    at = stop + 1
  until not more
  if stop <= #text and text:sub(stop, stop) ~= "/" then return mistake(text, stop, "after the addresses comes / and the key") end
  local key, err = corbaloc.unescape(text, stop + 1)
  if not key then return nil, err end
  list.key = (key == "" and list[1].kind == "rir") and "NameService" or key
  return list
end

-- corbaloc.parse(text) -> { { kind = "iiop" | "ssliop" | "omniunix", minor =, host =, port =, path = of the last } | { kind = "rir" } …, key = }
-- | nil, message
function corbaloc.parse(text)
  local scheme = text:match("^(%a+):")
  if not scheme or scheme:lower() ~= "corbaloc" then return nil, "a corbaloc begins with corbaloc:" end
  return corbaloc.addresses(text, #"corbaloc:" + 1)
end

-- corbaloc.reference(what corbaloc.parse gives) -> canonical reference without a type id | nil, message: it names an initial reference
function corbaloc.reference(list)
  if list[1].kind == "rir" then return nil, ("rir: the initial reference %s is known to a broker only"):format(list.key) end
  local profiles = {}
  for i, a in ipairs(list) do
    profiles[i] = { tag = ior.TAG_IIOP, minor = a.minor, host = a.host, port = a.port, key = list.key }
    if a.kind == "omniunix" then profiles[i].components = { ior.unix_component(a.host, a.path) } end
    if a.kind == "ssliop" then
      profiles[i].port = 0
      profiles[i].components = { { ior.TAG_SSL_SEC_TRANS, security.make_ssl(security.TLS, security.INTEGRITY | security.CONFIDENTIALITY, a.port) } }
    end
  end
  return ior.make { type_id = "", profiles = profiles }
end

return corbaloc
