-- mare ior: prints what references say, in the layout of omniORB's catior.
local codesets = require "mare.orb.giop.codesets"
local corbaloc = require "mare.orb.giop.corbaloc"
local ior = require "mare.orb.giop.ior"
local json = require "mare.base.json"
local reference = require "mare.orb.reference"
local security = require "mare.orb.giop.security"
local unknown = require "mare.cli.unknown"

local usage = [==[
  mare ior corbaloc::localhost:2809/NameService    prints a reference: type, addresses, key, components

usage: mare ior [-x] [--json] REFERENCE...

A reference is IOR:..., corbaloc:..., corbaname:... (its naming service is asked), or file:///path of a file
that holds one; - reads one from each line of stdin.

Options are:
  -x         shows object keys in hexadecimal
  --json     prints one JSON object per line
  --help     shows this

Exit codes: 0, 1 if one of them is not a reference, 2 for a mistake on the command line.
]==]

-- ---- bytes as text ----

local function hex(bytes) return "0x" .. bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end) end

local function counted(bytes) return ("%s  (%d bytes)"):format(hex(bytes), #bytes) end

local function quoted(bytes)
  return '"' .. bytes:gsub("[^\32-\126]", function(c) return ("\\x%02x"):format(c:byte()) end) .. '"'
end

-- ---- names, as catior writes them ----

local sets = {
  [0x00010001] = "ISO-8859-1", [0x00010002] = "ISO-8859-2", [0x00010003] = "ISO-8859-3", [0x00010004] = "ISO-8859-4",
  [0x00010005] = "ISO-8859-5", [0x00010006] = "ISO-8859-6", [0x00010007] = "ISO-8859-7", [0x00010008] = "ISO-8859-8",
  [0x00010009] = "ISO-8859-9", [0x0001000a] = "ISO-8859-10", [0x0001000f] = "ISO-8859-15", [0x00010020] = "ISO-646",
  [0x00010100] = "UCS-2-level-1", [0x00010101] = "UCS-2-level-2", [0x00010102] = "UCS-2-level-3", [0x00010106] = "UCS-4",
  [0x00010109] = "UTF-16", [0x05010001] = "UTF-8", [0x100204e2] = "windows-1250", [0x100204e4] = "windows-1252",
}
local function set_name(id) return sets[id] or ("(0x%08x)"):format(id) end

local orbs = {
  [0x41545400] = "omniORB", [0x41545401] = "omniORB", [0x4a414300] = "JacORB", [0x54414f00] = "TAO", [0x494c5500] = "Xerox",
  [0x53554e00] = "Sun", [0x49424d00] = "IBM", [0x4f424200] = "ORBacus", [0x4d490000] = "MICO", [0x4d415245] = "mare",
}

-- Components we know by name only.
local tags = {
  [5] = "TAG_COMPLETE_OBJECT_KEY", [6] = "TAG_ENDPOINT_ID_POSITION", [12] = "TAG_LOCATION_POLICY", [13] = "TAG_ASSOCIATION_OPTIONS",
  [14] = "TAG_SEC_NAME", [15] = "TAG_SPKM_1_SEC_MECH", [16] = "TAG_SPKM_2_SEC_MECH", [17] = "TAG_KERBEROSV5_SEC_MECH",
  [21] = "TAG_CSI_ECMA_PUBLIC_SEC_MECH", [22] = "TAG_GENERIC_SEC_MECH", [25] = "TAG_JAVA_CODEBASE", [26] = "TAG_TRANSACTION_POLICY",
  [27] = "TAG_FT_GROUP", [28] = "TAG_FT_PRIMARY", [29] = "TAG_FT_HEARTBEAT_ENABLED", [30] = "TAG_MESSAGE_ROUTERS", [31] = "TAG_OTS_POLICY",
  [32] = "TAG_INV_POLICY", [34] = "TAG_NULL_TAG", [35] = "TAG_SECIOP_SEC_TRANS",
  [37] = "TAG_ACTIVITY_POLICY", [38] = "TAG_RMI_CUSTOM_MAX_STREAM_FORMAT", [100] = "TAG_DCE_STRING_BINDING", [101] = "TAG_DCE_BINDING_NAME",
  [0x41545401] = "TAG_OMNIORB_BIDIR", [0x41545403] = "TAG_OMNIORB_PERSISTENT_ID", [0x41545404] = "TAG_OMNIORB_RESTRICTED_CONNECTION",
}
local profiles = { [2] = "TAG_SCCP_IOP", [3] = "TAG_UIPMC" }

-- ---- components ----

local function set_list(set)
  local list = {}
  for i, id in ipairs(set) do list[i] = set_name(id) end
  return table.concat(list, ", ")
end

local show = {}      -- tag -> function(what ior.component gives) -> lines

show[ior.TAG_ORB_TYPE] = function(id)
  local four = quoted(string.pack(">I4", id)):sub(2, -2)
  return { ("TAG_ORB_TYPE %s (%s)"):format(orbs[id] or "(unknown)", four) }
end

show[ior.TAG_CODE_SETS] = function(c)
  return {
    "TAG_CODE_SETS char native code set:       " .. set_name(c.char.native),
    "              char conversion code sets:  " .. set_list(c.char),
    "              wchar native code set:      " .. set_name(c.wchar.native),
    "              wchar conversion code sets: " .. set_list(c.wchar),
    "",
  }
end

show[ior.TAG_POLICIES] = function(list)
  local lines = {}
  for i, policy in ipairs(list) do lines[i] = ("%s unknown(%d)"):format(i == 1 and "TAG_POLICIES" or "            ", policy[1]) end
  return #lines > 0 and lines or { "TAG_POLICIES " }
end

show[ior.TAG_ALTERNATE_IIOP_ADDRESS] = function(a) return { ("TAG_ALTERNATE_IIOP_ADDRESS %s %d"):format(a.host, a.port) } end

show[ior.TAG_OMNIORB_UNIX_TRANS] = function(a) return { ("TAG_OMNIORB_UNIX_TRANS %s %s"):format(a.host, a.path) } end

show[ior.TAG_SSL_SEC_TRANS] = function(s)
  return { ("TAG_SSL_SEC_TRANS port = %d supports %d requires %d"):format(s.port, s.supports, s.requires) }
end

local function address_text(a) return (a.host:find(":", 1, true) and "[%s]:%d" or "%s:%d"):format(a.host, a.port) end

local function tls_lines(t, what)
  local lines = { ("%s supports %d requires %d"):format(what, t.supports, t.requires) }
  for _, a in ipairs(t.addresses) do lines[#lines + 1] = "              address " .. address_text(a) end
  return lines
end

show[ior.TAG_TLS_SEC_TRANS] = function(t) return tls_lines(t, "TAG_TLS_SEC_TRANS") end

show[ior.TAG_CSI_SEC_MECH_LIST] = function(list)
  local lines = { "TAG_CSI_SEC_MECH_LIST" .. (list.stateful and " stateful" or "") }
  for i, m in ipairs(list) do
    local t, as, sas = m.transport, m.authentication, m.attributes
    lines[#lines + 1] = ("  %d. requires: %s"):format(i, security.names(m.requires))
    local transport = t.addresses and tls_lines(t, "TLS") or { t.tag == security.TAG_NULL and "no transport of its own" or "transport " .. t.tag }
    for _, line in ipairs(transport) do lines[#lines + 1] = "     " .. line end
    if as.supports ~= 0 then
      lines[#lines + 1] = ("     client authentication supports %d requires %d, mechanism %s"):format(as.supports, as.requires, counted(as.mechanism))
    end
    if sas.supports ~= 0 then lines[#lines + 1] = ("     attributes support %d require %d"):format(sas.supports, sas.requires) end
  end
  return lines
end

local function component_lines(tag, data)
  if not show[tag] then
    if tags[tag] then return { ("%s %s"):format(tags[tag], counted(data)) } end
    return { ("Unknown component tag %d %s"):format(tag, counted(data)) }
  end
  local value, err = ior.component(tag, data)
  if value then return show[tag](value) end
  return { ("Broken component with tag %d: %s: %s"):format(tag, err, counted(data)) }
end

-- ---- profiles ----

local function profile_lines(out, i, profile, options)
  local function put(text) out[#out + 1] = text end
  if profile.host then
    local key = options.hex and counted(profile.key) or quoted(profile.key)
    put(("%d. IIOP 1.%d %s %d %s"):format(i, profile.minor, profile.host, profile.port, key))
  elseif profile.tag == ior.TAG_MULTIPLE_COMPONENTS then
    put(("%d. Multiple Component Profile "):format(i))
  elseif profile.error then
    put(("%d. Broken profile with tag %d: %s: %s"):format(i, profile.tag, profile.error, counted(profile.data)))
  else
    put(("%d. %s profile tag: 0x%x %s"):format(i, profiles[profile.tag] or "Unrecognised", profile.tag, counted(profile.data)))
  end
  for _, c in ipairs(profile.components or {}) do
    for _, line in ipairs(component_lines(c[1], c[2])) do put(line == "" and "" or "      " .. line) end
  end
  put ""
end

local function text(t, options)
  if t.type_id == "" and #t.profiles == 0 then return "IOR is a nil object reference.\n" end
  local out = { 'Type ID: "' .. t.type_id .. '"', "Profiles:" }
  for i, profile in ipairs(t.profiles) do profile_lines(out, i, profile, options) end
  return table.concat(out, "\n") .. "\n"
end

-- ---- JSON ----

local function array(list, f)
  local out = {}
  for i, v in ipairs(list) do out[i] = f(v) end
  return out
end

local function set_data(set) return { native = codesets.name(set.native), conversion = array(set, codesets.name) } end

local data = {
  [ior.TAG_ORB_TYPE] = function(v, c) c.orb_type = v end,
  [ior.TAG_CODE_SETS] = function(v, c) c.char, c.wchar = set_data(v.char), set_data(v.wchar) end,
  [ior.TAG_POLICIES] = function(v, c)
    c.policies = array(v, function(policy) return { type = policy[1], value = hex(policy[2]) } end)
  end,
  [ior.TAG_ALTERNATE_IIOP_ADDRESS] = function(v, c) c.host, c.port = v.host, v.port end,
  [ior.TAG_OMNIORB_UNIX_TRANS] = function(v, c) c.host, c.path = v.host, v.path end,
  [ior.TAG_SSL_SEC_TRANS] = function(v, c) c.port, c.supports, c.requires = v.port, v.supports, v.requires end,
}

local function tls_data(t)
  return t.addresses and { supports = t.supports, requires = t.requires,
                           addresses = array(t.addresses, function(a) return { host = a.host, port = a.port } end) } or { tag = t.tag }
end

data[ior.TAG_TLS_SEC_TRANS] = function(v, c) c.tls = tls_data(v) end

data[ior.TAG_CSI_SEC_MECH_LIST] = function(v, c)
  c.stateful = v.stateful
  c.mechanisms = array(v, function(m)
    local as, sas = m.authentication, m.attributes
    return { requires = m.requires, transport = tls_data(m.transport),
             authentication = { supports = as.supports, requires = as.requires, mechanism = hex(as.mechanism), target = hex(as.target) },
             attributes = { supports = sas.supports, requires = sas.requires } }
  end)
end

local function component_data(c)
  local value = ior.component(c[1], c[2])
  local out = { tag = c[1], data = hex(c[2]) }
  if value then data[c[1]](value, out) end
  return out
end

local function profile_data(p)
  return {
    tag = p.tag, data = hex(p.data), error = p.error, version = p.minor and "1." .. p.minor, host = p.host, port = p.port,
    key = p.key and hex(p.key), key_text = p.key and corbaloc.escape(p.key),
    components = p.components and array(p.components, component_data),
  }
end

local function object(t, canonical)
  return json.text { type_id = t.type_id, ior = ior.stringify(canonical), profiles = array(t.profiles, profile_data) } .. "\n"
end

-- ---- references on the command line ----

local function slurp(url)
  local path = url:match("^file://localhost(/.*)$") or url:match("^file://(.+)$")
  if not path then return nil, url .. ": write file:///path" end
  local file, err = io.open(path:gsub("%%(%x%x)", function(d) return string.char(tonumber(d, 16)) end), "rb")
  if not file then return nil, err end
  local content = file:read(1 << 20)
  file:close()
  return content and content:match("^%s*(.-)%s*$") or ""
end

local PATIENCE = 10                              -- seconds for a naming service

-- What the naming service has under a corbaname.
local function named(word)
  local broker <close> = require "mare.orb".init { timeout = PATIENCE, connect_timeout = PATIENCE }
  local done, found = pcall(reference.read, broker, word)
  if done then return found end
  return nil, ("%s: %s"):format(word, tostring(found))
end

local function resolve(word, nested)
  local scheme = (word:match("^(%a+):") or ""):lower()
  if scheme == "ior" then return ior.destring(word) end
  if scheme == "corbaname" then return named(word) end
  if scheme == "corbaloc" then
    local list, err = corbaloc.parse(word)
    if not list then return nil, err end
    return corbaloc.reference(list)
  end
  if scheme == "file" and not nested then
    local content, err = slurp(word)
    if not content then return nil, err end
    return resolve(content, true)
  end
  local others = nested and " or corbaname:" or ", corbaname: or file://"
  return nil, ("%q is no reference: it begins with IOR:, corbaloc:%s"):format(word:sub(1, 40), others)
end

local function print_one(word, options)
  local canonical, err = resolve(word)
  local t
  if canonical then t, err = ior.parse(canonical) end
  if not t then
    io.stderr:write("mare ior: ", err, "\n")
    return false
  end
  io.stdout:write(options.json and object(t, canonical) or text(t, options))
  return true
end

local function options_of(words)
  local options, list, only_words = {}, {}, false
  for _, word in ipairs(words) do
    if only_words or word == "-" or word:sub(1, 1) ~= "-" then list[#list + 1] = word
    elseif word == "--" then only_words = true
    elseif word == "-x" then options.hex = true
    elseif word == "--json" then options.json = true
    elseif word == "--help" or word == "-h" then options.help = true
    else return nil, unknown.option(word, { "--json", "--help" }) end
  end
  if not options.help and #list == 0 then return nil, "no reference" end
  return options, list
end

return function(...)
  local options, list = options_of { ... }
  if not options then return unknown.mistake("ior", usage, list) end
  if options.help then
    io.stdout:write(usage)
    return 0
  end
  local ok = true
  for _, word in ipairs(list) do
    if word ~= "-" then
      ok = print_one(word, options) and ok
    else
      for line in io.lines() do ok = (line == "" or print_one(line, options)) and ok end
    end
  end
  return ok and 0 or 1
end
