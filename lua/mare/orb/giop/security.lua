-- security: what a reference says about TLS (CORBA 3.3 part 2, 10.4 and 10.5: SSLIOP and CSIv2).
--
-- A profile of IIOP may carry TAG_SSL_SEC_TRANS, a second port of the same host, and TAG_CSI_SEC_MECH_LIST, ways to be secure of which each has
-- addresses of its own. A profile whose port is 0 has nothing but those. Bits say what a server supports and requires; see BITS.
--
-- Bytes from outside never raise: security.parse gives nil and a message.
local pack, unpack = string.pack, string.unpack

local security = {
  TAG_SSL_SEC_TRANS = 20, TAG_CSI_SEC_MECH_LIST = 33, TAG_NULL = 34, TAG_SECIOP_SEC_TRANS = 35, TAG_TLS_SEC_TRANS = 36,
  NO_PROTECTION = 1, INTEGRITY = 2, CONFIDENTIALITY = 4, DETECT_REPLAY = 8, DETECT_MISORDERING = 16, TRUST_IN_TARGET = 32, TRUST_IN_CLIENT = 64,
}

-- What TLS gives whoever uses it, and what is meant by "this must be TLS".
security.TLS = security.INTEGRITY | security.CONFIDENTIALITY | security.DETECT_REPLAY | security.DETECT_MISORDERING | security.TRUST_IN_TARGET
local PROTECTION = security.TLS | security.TRUST_IN_CLIENT
local MOST = 64                                   -- mechanisms, addresses and the like: what is longer is no honest reference

security.BITS = { "NoProtection", "Integrity", "Confidentiality", "DetectReplay", "DetectMisordering", "EstablishTrustInTarget",
                  "EstablishTrustInClient", "NoDelegation", "SimpleDelegation", "CompositeDelegation", "IdentityAssertion", "DelegationByClient" }

--- The names of bits: "Integrity, Confidentiality".
function security.names(bits)
  local list = {}
  for i, name in ipairs(security.BITS) do
    if bits & 1 << (i - 1) ~= 0 then list[#list + 1] = name end
  end
  return #list > 0 and table.concat(list, ", ") or "nothing"
end

-- ---- reading ----

local function encapsulation(data, what, f)
  if data == "" then return nil, what .. " is empty" end
  local ok, value = pcall(f, data, data:byte(1) & 1 == 1 and "<!" or ">!", 2)
  if ok then return value end
  return nil, type(value) == "table" and value[1] or what .. " is cut off"
end

local function text(data, order, at, what)
  local bytes
  bytes, at = unpack(order .. "s4", data, at)
  if bytes:find("\0", 1, true) ~= #bytes then error({ what .. " is no string that ends with a zero byte" }, 0) end
  return bytes:sub(1, -2), at
end

local function list(data, order, at, what, one)
  local all, n = {}
  n, at = unpack(order .. "I4", data, at)
  if n > MOST then error({ ("%d %s, more than %d"):format(n, what, MOST) }, 0) end
  for i = 1, n do all[i], at = one(data, order, at) end
  return all, at
end

local function octets(data, order, at) return unpack(order .. "s4", data, at) end

local function address(data, order, at)
  local host, port
  host, at = text(data, order, at, "a host")
  port, at = unpack(order .. "I2", data, at)
  return { host = host, port = port }, at
end

local function ssl(data, order, at)
  local supports, requires, port = unpack(order .. "I2I2I2", data, at)
  return { supports = supports, requires = requires, port = port }
end

local function tls(data, order, at)
  local t = {}
  t.supports, t.requires, at = unpack(order .. "I2I2", data, at)
  t.addresses = list(data, order, at, "addresses", address)
  return t
end

-- Who the client is, by a name and a password for instance.
local function authentication(data, order, at)
  local as = {}
  as.supports, as.requires, as.mechanism, as.target, at = unpack(order .. "I2I2s4s4", data, at)
  return as, at
end

local function authority(data, order, at)
  local _, name
  _, name, at = unpack(order .. "I4s4", data, at)
  return name, at
end

local function attributes(data, order, at)
  local sas = {}
  sas.supports, sas.requires, at = unpack(order .. "I2I2", data, at)
  sas.authorities, at = list(data, order, at, "authorities", authority)
  sas.naming, at = list(data, order, at, "naming mechanisms", octets)
  sas.identities, at = unpack(order .. "I4", data, at)
  return sas, at
end

local function transport(tag, data)
  if tag ~= security.TAG_TLS_SEC_TRANS then return { tag = tag } end
  local t, err = encapsulation(data, "TAG_TLS_SEC_TRANS", tls)
  if not t then error({ err }, 0) end
  t.tag = tag
  return t
end

local function mechanism(data, order, at)
  local m, tag, bytes = {}
  m.requires, tag, bytes, at = unpack(order .. "I2I4s4", data, at)
  m.transport = transport(tag, bytes)
  m.authentication, at = authentication(data, order, at)
  m.attributes, at = attributes(data, order, at)
  return m, at
end

local function mechanisms(data, order, at)
  local stateful
  stateful, at = unpack("B", data, at)
  local all = list(data, order, at, "mechanisms", mechanism)
  all.stateful = stateful ~= 0
  return all
end

--- TAG_SSL_SEC_TRANS: { supports =, requires =, port = } | nil, message
function security.ssl(data) return encapsulation(data, "TAG_SSL_SEC_TRANS", ssl) end

--- TAG_TLS_SEC_TRANS: { supports =, requires =, addresses = { { host =, port = } … } } | nil, message
function security.tls(data) return encapsulation(data, "TAG_TLS_SEC_TRANS", tls) end

--- TAG_CSI_SEC_MECH_LIST: { stateful =, { requires =, transport = { tag =, and of TLS what security.tls gives }, authentication = { supports =,
--- requires =, mechanism =, target = }, attributes = { supports =, requires =, authorities =, naming =, identities = } } … } | nil, message
function security.mechanisms(data) return encapsulation(data, "TAG_CSI_SEC_MECH_LIST", mechanisms) end

-- ---- writing ----

--- The data of TAG_SSL_SEC_TRANS.
function security.make_ssl(supports, requires, port) return pack("<!2I1I2I2I2", 1, supports, requires, port) end

local function append(bytes, size, format, ...) return bytes .. ("\0"):rep(-#bytes % size) .. pack("<!4" .. format, ...) end

--- The data of TAG_CSI_SEC_MECH_LIST with one way: TLS at a host, and clients that say who they are by `way`, the id of how.
function security.make_mechanisms(supports, requires, host, port, way, target)
  local where = append(pack("<!4I1xI2I2xxI4", 1, supports, requires, 1), 4, "s4", host .. "\0")
  where = append(where, 2, "I2", port)
  local bytes = pack("<!4I1I1xxI4I2xxI4s4", 1, 1, 1, requires | security.TRUST_IN_CLIENT, security.TAG_TLS_SEC_TRANS, where)
  bytes = append(bytes, 2, "I2I2", security.TRUST_IN_CLIENT, security.TRUST_IN_CLIENT)
  bytes = append(append(bytes, 4, "s4", way), 4, "s4", target)
  return append(bytes, 4, "I2I2I4I4I4", 0, 0, 0, 0, 0)
end

-- ---- the ways into a server ----

local function add(ways, host, port, supports, requires, as)
  if port == 0 then return end
  for _, way in ipairs(ways) do                  -- the same one may be in both components
    if way.host == host and way.port == port then
      way.authentication = way.authentication or as
      return
    end
  end
  ways[#ways + 1] = { host = host, port = port, supports = supports, requires = requires, authentication = as }
end

-- Must it be TLS? A server that says it supports what is unprotected wants certificates of those only who choose TLS.
local function demands(t)
  return t.requires & (t.supports & security.NO_PROTECTION ~= 0 and security.TLS or PROTECTION) ~= 0
end

local function add_mechanisms(ways, all)
  for _, m in ipairs(all) do
    for _, a in ipairs(m.transport.addresses or {}) do
      add(ways, a.host, a.port, m.transport.supports, m.transport.requires, m.authentication)
      ways.demanded = ways.demanded or demands(m.transport)
    end
  end
end

--- The addresses of a profile that speak TLS: { { host =, port =, supports =, requires =, authentication = how a client says who it is, or nil } …,
--- demanded = must it be TLS? } What can't be read counts as not there.
function security.ways(profile)
  local ways = { demanded = profile.port == 0 }
  for _, c in ipairs(profile.components or {}) do
    local tag = c[1]
    if tag == security.TAG_SSL_SEC_TRANS then
      local t = security.ssl(c[2])
      if t then
        add(ways, profile.host, t.port, t.supports, t.requires)
        ways.demanded = ways.demanded or demands(t)
      end
    elseif tag == security.TAG_CSI_SEC_MECH_LIST then
      add_mechanisms(ways, security.mechanisms(c[2]) or {})
    end
  end
  return ways
end

return security
