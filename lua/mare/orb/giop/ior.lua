-- ior: object references (CORBA 3.3 part 2, 7.6).
--
-- A reference is kept as a string of bytes, the canonical form: what "IOR:" has in hexadecimal, always in little-endian order, the data of its
-- profiles byte for byte as they came. So one reference is one string, and what is passed on loses nothing. ior.parse gives the fields of it.
--
-- Bytes from outside never raise: what is broken is nil and a message, or, in a single profile or component, its `error`.
local codesets = require "mare.orb.giop.codesets"
local security = require "mare.orb.giop.security"

local pack, unpack = string.pack, string.unpack

local ior = {
  TAG_IIOP = 0, TAG_MULTIPLE_COMPONENTS = 1,                                                     -- profiles
  TAG_ORB_TYPE = 0, TAG_CODE_SETS = 1, TAG_POLICIES = 2, TAG_ALTERNATE_IIOP_ADDRESS = 3,         -- components
  TAG_SSL_SEC_TRANS = security.TAG_SSL_SEC_TRANS, TAG_CSI_SEC_MECH_LIST = security.TAG_CSI_SEC_MECH_LIST,
  TAG_TLS_SEC_TRANS = security.TAG_TLS_SEC_TRANS,
  TAG_OMNIORB_UNIX_TRANS = 0x41545402,           -- a Unix socket: the machine's name, the file's
  MARE = pack("<I1xxxI4", 1, 0x6d617265),        -- TAG_ORB_TYPE of our own: "mare"
}

-- ---- encapsulations ----

-- f(order, at, …) reads data with string.unpack, which raises at the end of it. Its results | nil, message
local function within(data, what, f)
  if data == "" then return nil, what .. " is empty" end
  local ok, a, b, c = pcall(f, data:byte(1) & 1 == 1 and "<!" or ">!", 2)
  if not ok then return nil, type(a) == "table" and a[1] or what .. " is cut off" end
  return a, b, c
end

-- A string; in some references an empty one has not even its zero.
local function get_string(data, order, at, what)
  local text
  text, at = unpack(order .. "s4", data, at)
  if text == "" then return "", at end
  if text:find("\0", 1, true) ~= #text then error({ what .. " is no string that ends with a zero byte" }, 0) end
  return text:sub(1, -2), at
end

-- A sequence of tagged octets, as { tag, data }.
local function get_tagged(data, order, at)
  local list, n = {}
  n, at = unpack(order .. "I4", data, at)
  for i = 1, n do
    local tag, bytes
    tag, bytes, at = unpack(order .. "I4s4", data, at)
    list[i] = { tag, bytes }
  end
  return list, at
end

local function put_tagged(list)
  local out, size = { pack("<I4", #list) }, 4
  for _, entry in ipairs(list) do
    local bytes = pack("<I4s4", entry[1], entry[2])
    out[#out + 1] = ("\0"):rep(-size % 4) .. bytes
    size = size + #out[#out]
  end
  return table.concat(out)
end

local function align(bytes, to) return bytes .. ("\0"):rep(-#bytes % to) end

-- ---- components ----

local function address(data)
  return within(data, "an address", function(order, at)
    local host, port
    host, at = get_string(data, order, at, "a host")
    port = unpack(order .. "I2", data, at)
    return { host = host, port = port }
  end)
end

local function unix_address(data)
  return within(data, "TAG_OMNIORB_UNIX_TRANS", function(order, at)
    local host, path
    host, at = get_string(data, order, at, "a machine's name")
    path = get_string(data, order, at, "a path")
    return { host = host, path = path }
  end)
end

local function orb_type(data)
  return within(data, "TAG_ORB_TYPE", function(order, at) return (unpack(order .. "I4", data, at)) end)
end

local function policies(data)
  return within(data, "TAG_POLICIES", function(order, at) return (get_tagged(data, order, at)) end)
end

local readers = {
  [ior.TAG_ORB_TYPE] = orb_type, [ior.TAG_CODE_SETS] = codesets.parse, [ior.TAG_POLICIES] = policies,
  [ior.TAG_ALTERNATE_IIOP_ADDRESS] = address, [ior.TAG_SSL_SEC_TRANS] = security.ssl, [ior.TAG_TLS_SEC_TRANS] = security.tls,
  [ior.TAG_CSI_SEC_MECH_LIST] = security.mechanisms, [ior.TAG_OMNIORB_UNIX_TRANS] = unix_address,
}

-- ior.component(tag, data) -> what it says: a number, a table | nil, message | nil: an unknown one
function ior.component(tag, data)
  local read = readers[tag]
  if read then return read(data) end
end

-- ior.find(profile, tag) -> data of the first such component | nil
function ior.find(profile, tag)
  for _, c in ipairs(profile.components or {}) do
    if c[1] == tag then return c[2] end
  end
end

-- ior.addresses(profile) -> { { host =, port = } … } in the order in which to try them; none for a profile that is not IIOP
function ior.addresses(profile)
  if not profile.host then return {} end
  local list = { { host = profile.host, port = profile.port } }
  for _, c in ipairs(profile.components or {}) do
    local other = c[1] == ior.TAG_ALTERNATE_IIOP_ADDRESS and address(c[2])
    if other then list[#list + 1] = other end
  end
  return list
end

-- ior.unix_addresses(profile) -> { { host = the machine's name, path = } … }; none of a profile that is not IIOP
function ior.unix_addresses(profile)
  local list = {}
  for _, c in ipairs(profile.host and profile.components or {}) do
    local one = c[1] == ior.TAG_OMNIORB_UNIX_TRANS and unix_address(c[2])
    if one and one.path ~= "" then list[#list + 1] = one end
  end
  return list
end

-- ior.unix_component(machine, path) -> a component { tag, data }
function ior.unix_component(machine, path)
  return { ior.TAG_OMNIORB_UNIX_TRANS, pack("<!4I1s4s4", 1, machine .. "\0", path .. "\0") }
end

-- ---- profiles ----

local function read_iiop(profile)
  local data = profile.data
  return within(data, "an IIOP profile", function(order, at)
    local major, minor, host, port, key, components
    major, minor, at = unpack("I1I1", data, at)
    if major ~= 1 then error({ ("an IIOP profile of version %d.%d"):format(major, minor) }, 0) end
    host, at = get_string(data, order, at, "a host")
    port, key, at = unpack(order .. "I2s4", data, at)
    if minor > 0 and at <= #data then components = get_tagged(data, order, at) end
    profile.minor, profile.host, profile.port, profile.key, profile.components = minor, host, port, key, components or {}
    return true
  end)
end

local function read_components(profile)
  return within(profile.data, "a list of components", function(order, at)
    profile.components = get_tagged(profile.data, order, at)
    return true
  end)
end

local function read_profile(entry)
  local profile = { tag = entry[1], data = entry[2] }
  local read = profile.tag == ior.TAG_IIOP and read_iiop or profile.tag == ior.TAG_MULTIPLE_COMPONENTS and read_components
  if read then
    local ok, err = read(profile)
    if not ok then profile.error = err end
  end
  return profile
end

local function make_profile(p)
  if p.data then return { p.tag, p.data } end
  local minor = p.minor or 2
  local bytes = pack("<!4I1I1I1s4I2s4", 1, 1, minor, p.host .. "\0", p.port, p.key)
  if minor > 0 then bytes = align(bytes, 4) .. put_tagged(p.components or {}) end
  return { ior.TAG_IIOP, bytes }
end

-- ---- references ----

local function read_reference(bytes)
  return within(bytes, "a reference", function(order, at)
    local type_id, list
    type_id, at = get_string(bytes, order, at, "a type id")
    list, at = get_tagged(bytes, order, at)
    return type_id, list, at
  end)
end

local function write_reference(type_id, list)
  return align(pack("<!4I1s4", 1, type_id .. "\0"), 4) .. put_tagged(list)
end

-- ior.canonical(bytes in either order) -> canonical | nil, message
function ior.canonical(bytes)
  local type_id, list = read_reference(bytes)
  if not type_id then return nil, list end
  return write_reference(type_id, list)
end

-- ior.parse(canonical) -> { type_id =, profiles = { { tag =, data =, minor =, host =, port =, key =, components = { { tag, data } … } } … } }
-- | nil, message. An IIOP profile that can't be read has `error` instead of its fields.
function ior.parse(bytes)
  local type_id, list = read_reference(bytes)
  if not type_id then return nil, list end
  for i, entry in ipairs(list) do list[i] = read_profile(entry) end
  return { type_id = type_id, profiles = list }
end

-- ior.make(what ior.parse gives) -> canonical. A profile with `data` is taken as it is, whatever its other fields say.
function ior.make(t)
  local list = {}
  for i, p in ipairs(t.profiles) do list[i] = make_profile(p) end
  return write_reference(t.type_id, list)
end

-- Nil is neither a type id nor a profile.
ior.null = write_reference("", {})

-- ior.stringify(canonical) -> "IOR:…"
function ior.stringify(bytes)
  return "IOR:" .. bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end)
end

-- ior.destring("IOR:…") -> canonical | nil, message
function ior.destring(text)
  local prefix, digits = text:match("^%s*([Ii][Oo][Rr]:)(.-)%s*$")
  if not prefix then return nil, "a reference begins with IOR:" end
  local at = digits:find("%X")
  if at then return nil, ("IOR: what follows is hexadecimal, but character %d is %q"):format(at, digits:sub(at, at)) end
  if digits == "" or #digits % 2 == 1 then return nil, ("IOR: %d digits, some are missing: each byte has two"):format(#digits) end
  local canonical, err = ior.canonical((digits:gsub("..", function(d) return string.char(tonumber(d, 16)) end)))
  if not canonical then return nil, "IOR: " .. err end
  return canonical
end

local function alternative(host, port) return { ior.TAG_ALTERNATE_IIOP_ADDRESS, pack("<!4I1s4I2", 1, host .. "\0", port) } end

-- What a profile says of an address with TLS.
local function secure(components, t, host, port)
  table.insert(components, { ior.TAG_SSL_SEC_TRANS, security.make_ssl(t.supports, t.requires, port) })
  if t.mechanism then
    local data = security.make_mechanisms(t.supports, t.requires, host, port, t.mechanism, t.target)
    table.insert(components, { ior.TAG_CSI_SEC_MECH_LIST, data })
  end
end

-- A Unix socket stands in the first profile; without another address its host is the machine, and its port 0.
local function add_unix(t, minor, components, profiles)
  for _, a in ipairs(t.addresses) do
    if a.unix and not profiles[1] then
      profiles[1] = { tag = 0, minor = minor, host = a.machine, port = 0, key = t.key, components = components }
    end
    if a.unix then table.insert(profiles[1].components, ior.unix_component(a.machine, a.unix)) end
  end
end

-- The first address without TLS is the profile's, the others are alternatives. One with TLS stands in that profile if the host is the same, else it
-- has a profile of its own, with port 0.
local function profiles_of(t, minor, components)
  local main, more = nil, {}
  for _, a in ipairs(t.addresses) do
    local host, port = a[1], a[2]
    if a.unix then -- luacheck: ignore 542
    elseif not a.tls and not main then main = { tag = 0, minor = minor, host = host, port = port, key = t.key, components = components }
    elseif not a.tls then table.insert(components, alternative(host, port)) end
  end
  for _, a in ipairs(t.addresses) do
    local host, port = a[1], a[2]
    if a.tls and main and not main.secured and main.host == host then
      secure(components, t.tls, host, port)
      main.secured = true
    elseif a.tls then
      local own = table.move(t.components, 1, #t.components, 1, {})
      secure(own, t.tls, host, port)
      more[#more + 1] = { tag = 0, minor = minor, host = host, port = 0, key = t.key, components = own }
    end
  end
  if main then table.insert(more, 1, main) end
  add_unix(t, minor, components, more)
  return more
end

-- ior.iiop{ type_id =, addresses = { { host, port, tls = true?, unix = path and machine = its name? } … }, key =, minor = 2,
--           components = { { tag, data } … }, codeset = first,
--           tls = { supports =, requires =, mechanism = and target = if clients must say who they are } } -> canonical
-- The further addresses are alternatives, in IIOP 1.0 profiles of their own. Our code sets are added unless the components have some.
function ior.iiop(t)
  local minor = t.minor or 2
  if minor == 0 then
    local profiles = {}
    for i, a in ipairs(t.addresses) do profiles[i] = { tag = 0, minor = 0, host = a[1], port = a[2], key = t.key } end
    return ior.make { type_id = t.type_id, profiles = profiles }
  end
  local components = table.move(t.components or {}, 1, #(t.components or {}), 1, {})
  if not ior.find({ components = components }, ior.TAG_CODE_SETS) then
    components[#components + 1] = { ior.TAG_CODE_SETS, codesets.component_of(t.codeset) }
  end
  local own = { addresses = t.addresses, key = t.key, tls = t.tls, components = table.move(components, 1, #components, 1, {}) }
  return ior.make { type_id = t.type_id, profiles = profiles_of(own, minor, components) }
end

return ior
