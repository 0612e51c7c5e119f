--[[
mare.orb.reference: texts that name objects (IOR:…, corbaloc:…, corbaname:…, file://…), initial references, and the addresses in an IOR.
]]
local ior = require "mare.orb.giop.ior"
local corbaloc = require "mare.orb.giop.corbaloc"
local corbaname = require "mare.orb.giop.corbaname"
local exception = require "mare.orb.exception"
local near = require "mare.orb.near"

local reference = {}

local function bad(minor, text) error(exception.system("BAD_PARAM", minor, "COMPLETED_NO", text), 0) end

local function short(text) return #text > 60 and text:sub(1, 57) .. "..." or text end

-- `followed`: the initial references that led here, so that none leads to itself.
local function of_addresses(broker, list, followed)
  if list[1].kind ~= "rir" then return (corbaloc.reference(list)) end
  local name, text = list.key, reference.resolve(broker, list.key)
  if followed[name] then bad(9, ("the initial reference %s leads to itself: %s"):format(name, text)) end
  followed[name] = true
  return reference.read(broker, text, followed)
end

local function from_corbaloc(broker, text, followed)
  local list, err = corbaloc.parse(text)
  if not list then bad(9, err) end
  return of_addresses(broker, list, followed)
end

local function from_corbaname(broker, text, followed)
  local list, name = corbaname.parse(text)
  if not list then bad(9, name) end
  local context = of_addresses(broker, list, followed)
  if not name then return context end
  if context == ior.null then bad(9, text .. ": the naming context is a nil reference") end
  return require "mare.orb.naming".resolve(broker, context, name) or ior.null
end

local function from_file(broker, text, followed)
  local path = text:match("^%a+://(.*)$") or text:match("^%a+:(/.*)$")          -- file:/path is RFC 8089's
  if not path then bad(9, text .. ": a file's reference is file:///path, with the whole path") end
  path = (path:match("^localhost(/.*)$") or path):gsub("%%(%x%x)", function(d) return string.char(tonumber(d, 16)) end)
  local file, err = io.open(path, "rb")
  if not file then bad(9, text .. ": " .. err) end
  local content = file:read(1 << 20) or ""
  file:close()
  content = content:match("^%s*(.-)%s*$")
  if content == "" then bad(9, text .. ": the file is empty; it should hold an IOR: or corbaloc:") end
  if content:find("^[Ff][Ii][Ll][Ee]:") then bad(9, text .. ": the file holds another file://") end
  return reference.read(broker, content, followed)
end

local function from_ior(_, text)
  local bytes, err = ior.destring(text)
  if not bytes then bad(10, err) end
  return bytes
end

local schemes = { ior = from_ior, corbaloc = from_corbaloc, file = from_file, corbaname = from_corbaname }

--- The canonical IOR of a text; raises BAD_PARAM with the place of what is wrong.
function reference.read(broker, text, followed)
  if type(text) ~= "string" then bad(10, ("a reference is a text or a proxy, not a %s"):format(type(text))) end
  text = text:match("^%s*(.-)%s*$")
  local scheme = text:match("^(%a+):")
  local read = scheme and schemes[scheme:lower()]
  if read then return read(broker, text, followed or {}) end
  bad(7, ("'%s' is no reference: it begins with IOR:, corbaloc:, corbaname: or file://"):format(short(text)))
end

--- What -ORBInitRef and -ORBDefaultInitRef say.
function reference.initial(options)
  local list = {}
  for _, entry in ipairs(options.InitRef or {}) do list[entry.name] = list[entry.name] or entry.uri end
  return { list = list, default = options.DefaultInitRef }
end

--- The text of an initial reference; raises CORBA::ORB::InvalidName.
function reference.resolve(broker, name)
  local references = broker.references
  local text = references.list[name]
  if text then return text end
  if references.default then
    local default = references.default
    return default .. (default:sub(-1) == "/" and "" or "/") .. name
  end
  local meant = near(name, broker:list_initial_services())
  error(exception.user("IDL:omg.org/CORBA/ORB/InvalidName:1.0", {
    name = name, remedy = meant and "did you mean " .. meant .. "?" or ("start the program with -ORBInitRef %s=corbaloc:…"):format(name) }), 0)
end

--- The addresses of an IOR in the order in which to try them, each with the key, version and code sets to use there. `secure`: which may be used.
function reference.endpoints(bytes, max_minor, secure)
  local parsed, err = ior.parse(bytes)
  if not parsed then bad(10, err) end
  local list = {}
  for _, profile in ipairs(parsed.profiles) do
    local minor = math.min(profile.minor or 0, max_minor)
    for _, address in ipairs(secure:choose(profile, ior.addresses(profile))) do
      list[#list + 1] = { host = address.host, port = address.port, tls = address.tls, key = profile.key, minor = minor, profile = profile.data,
                          codesets = minor > 0 and ior.find(profile, ior.TAG_CODE_SETS) or nil,
                          kin = ior.find(profile, ior.TAG_ORB_TYPE) == ior.MARE, sas = address.sas, problem = address.problem,
                          denied = address.denied, rank = address.rank or math.huge, place = #list }
    end
    if profile.error and profile.tag == ior.TAG_IIOP then
      list[#list + 1] = { host = "?", port = 0, minor = 0, key = "", problem = profile.error, rank = math.huge, place = #list }
    end
  end
  if secure.reach then
    table.sort(list, function(a, b)
      if a.rank ~= b.rank then return a.rank < b.rank end
      return a.place < b.place
    end)
  end
  return list
end

return reference
