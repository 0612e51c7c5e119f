--[[
mare.orb.options: what a broker is started with, as omniORB spells it.

  options.read{ args = arg, port = 2809, … } -> options

Each option has one name, omniORB's without "-ORB". It may come from the command line (args: the option and its value are removed from that
table, as ORB_init does), as a field ORBname of the table given to orb.init, or from the environment (ORBname=value); the first of these counts.
omniORB's options that mean nothing here are accepted and do nothing, so that a script that starts both kinds of programs stays as it is; they are
listed in `ignored`. -ORBuser and -ORBpasswordFile are ours.
]]
local codesets = require "mare.orb.giop.codesets"
local near = require "mare.orb.near"
local rules = require "mare.orb.rules"

local options = {}

local function number(text)
  local n = math.tointeger(tonumber(text))
  if n and n >= 0 then return n end
  return nil, "a number from 0 on"
end

local function bytes(text)
  local n = number(text)
  if n and n > 0 then return n end
  return nil, "a number of bytes"
end

local function flag(text)
  local value = ({ ["0"] = false, ["1"] = true, ["false"] = false, ["true"] = true })[tostring(text):lower()]
  if value == nil then return nil, "0 or 1" end
  return value
end

local function text(value) return value ~= "" and tostring(value) or nil, "a text" end

local function giop_version(value)
  if value == "1.0" or value == "1.1" or value == "1.2" then return value end
  return nil, "1.0, 1.1 or 1.2"
end

local function code_set(value)
  if codesets.read(value) then return value end
  return nil, "UTF-8 or ISO-8859-1"
end

local function init_ref(value)
  local name, uri = tostring(value):match("^([^=]+)=(.+)$")
  if name then return { name = name, uri = uri } end
  return nil, "Name=reference"
end

local function permission(value)
  local n = tostring(value):find "^0?[0-7][0-7][0-7]$" and tonumber(value, 8)
  if n then return n end
  return nil, "the permission bits of a file in octal, such as 0770"
end

local function verify_mode(value)
  if value == "none" or value:find "^peer" and (value:gsub(",fail", ""):gsub(",once", ""):gsub(",clientonce", "")) == "peer" then return value end
  return nil, "none, peer or peer,fail"
end

local function rule(value)
  local read, why = rules.read(value)
  return read and value, why
end

-- name -> how its value is read; `many`: it may come more than once, and is a list.
local known = {
  traceLevel = { number }, traceFile = { text },
  InitRef = { init_ref, many = true }, DefaultInitRef = { text },
  endPoint = { text, many = true }, endPointPublish = { text, many = true }, endPointNoListen = { text, many = true },
  clientCallTimeOutPeriod = { number }, clientConnectTimeOutPeriod = { number },
  giopMaxMsgSize = { number }, maxGIOPVersion = { giop_version }, verifyObjectExistsAndType = { flag },
  nativeCharCodeSet = { code_set }, poaHoldRequestTimeout = { number }, codeset = { code_set },
  inConScanPeriod = { number }, outConScanPeriod = { number }, maxServerThreadPerConnection = { number },
  sslCAFile = { text }, sslCAPath = { text }, sslKeyFile = { text }, sslCipherList = { text }, sslVerifyMode = { verify_mode },
  user = { text }, passwordFile = { text },
  serverTransportRule = { rule, many = true }, clientTransportRule = { rule, many = true },
  unixTransportDirectory = { text }, unixTransportPermission = { permission },
  acceptBiDirectionalGIOP = { flag }, offerBiDirectionalGIOP = { flag },
  listenBacklog = { number }, maxMessageMemory = { bytes }, maxMessageMemoryPerConnection = { bytes },
}

-- omniORB's other options. All take a value.
local ignored = {}
for name in ([[
  abortOnInternalError abortOnNativeException acceptMisalignedTcIndirections bootstrapAgentHostname bootstrapAgentPort
  endPointNoPublish endPointPublishAllIFs maxServerThreadPoolSize scanGranularity
  serverCallTimeOutPeriod configFile connectionWatchImmediate connectionWatchPeriod copyValuesInLocalCalls diiThrowsSysExceptions dumpConfiguration
  giopBufferSize giopTargetAddressMode idleThreadTimeout immediateAddressSwitch lcdMode maxGIOPConnectionPerServer maxSocketRecv maxSocketSend
  nativeWCharCodeSet objectTableSize oneCallPerConnection
  poaUniquePersistentSystemIds principal resetTimeOutOnRetries retainAddressOrder socketSendBuffer strictIIOP
  supportBootstrapAgent supportCurrent supportPerThreadTimeOut tcAliasExpand threadPerConnectionLowerLimit threadPerConnectionPolicy
  threadPerConnectionUpperLimit threadPoolWatchConnection throwTransientOnTimeOut traceExceptions traceInvocationReturns traceInvocations
  traceThreadId traceTime traceTimestamp useTypeCodeIndirections validateUTF8 id
  sslAcceptTimeOut sslKeyPassword
]]):gmatch("%S+") do ignored[name] = true end

local defaults = { traceLevel = 1, giopMaxMsgSize = 64 << 20, maxGIOPVersion = "1.2", verifyObjectExistsAndType = true, outConScanPeriod = 120 }

-- Fields of orb.init's table that are not omniORB's.
local own = { args = true, port = true, host = true, timeout = true, connect_timeout = true, log = true, pcap = true, limits = true,
              include = true, codeset = true, octets = true, tls = true, allow = true, user = true, password = true,
              authenticate = true, interceptors = true, context = true, repository = true }

-- Of `limits`: what there may be.
options.limits = { "arrive", "connections", "handshake", "held", "idle", "linger", "memory", "message", "peer", "pending", "reply",
                   "requests", "resting", "share", "stall", "unfinished", "unused" }

local function all_names()
  local list = {}
  for name in pairs(known) do list[#list + 1] = name end
  for name in pairs(ignored) do list[#list + 1] = name end
  return list
end

local function store(result, name, value, spelled)
  local option = known[name]
  if not option then
    if ignored[name] then
      table.insert(result.ignored, spelled)
      return
    end
    local names = all_names()
    for i, other in ipairs(names) do names[i] = spelled:match("^%-*ORB") .. other end
    local meant = near(spelled, names)
    error(("orb.init: there is no option '%s'%s"):format(spelled, meant and "; did you mean " .. meant .. "?" or
      "; docs/orb.md lists what there is"), 0)
  end
  local read, wanted = option[1](value)
  if read == nil then error(("orb.init: option '%s' takes %s, not '%s'"):format(spelled, wanted, tostring(value)), 0) end
  if not option.many then
    if result[name] == nil then result[name] = read end
  else
    result[name] = result[name] or {}
    table.insert(result[name], read)
  end
end

-- What a program gives itself; lists where an option may come more than once.
local function from_table(result, given)
  for name, value in pairs(given) do
    local orb = type(name) == "string" and name:match("^%-?ORB(.+)$")
    if orb then
      if type(value) ~= "table" then value = { value } end
      for _, one in ipairs(value) do store(result, orb, type(one) == "boolean" and (one and "1" or "0") or one, name) end
    elseif not own[name] then
      local names = all_names()
      for i, other in ipairs(names) do names[i] = "ORB" .. other end
      for other in pairs(own) do names[#names + 1] = other end
      local meant = near(tostring(name), names)
      error(("orb.init: there is no option '%s'%s"):format(tostring(name), meant and "; did you mean " .. meant .. "?" or
        "; docs/orb.md lists what there is"), 0)
    end
  end
end

-- Takes -ORBname value out of a list of arguments; what else stands there moves down. `arg` keeps its indices below 1.
local function from_arguments(result, args)
  local kept, i, n = {}, 1, #args
  while i <= n do
    local name = type(args[i]) == "string" and args[i]:match("^%-%-?ORB(.+)$")
    if name then
      local value = args[i + 1]
      if known[name] and value == nil then error(("orb.init: option '%s' needs a value"):format(args[i]), 0) end
      store(result, name, value, args[i])
      i = i + 2
    else
      kept[#kept + 1] = args[i]
      i = i + 1
    end
  end
  for k = 1, n do args[k] = kept[k] end
end

local function from_environment(result)
  for name, option in pairs(known) do
    local value = os.getenv("ORB" .. name)
    if value and not option.many and result[name] == nil then store(result, name, value, "ORB" .. name) end
    if value and option.many and not result[name] then store(result, name, value, "ORB" .. name) end
  end
end

local function check_limits(limits)
  if limits == nil then return end
  if type(limits) ~= "table" then error("orb.init: limits is a table, such as { connections = 1000 }", 0) end
  local is = {}
  for _, name in ipairs(options.limits) do is[name] = true end
  for name, value in pairs(limits) do
    if not is[name] then
      error(("orb.init: there is no limit '%s'; there are %s"):format(tostring(name), table.concat(options.limits, ", ")), 0)
    end
    if value and not (type(value) == "number" and value > 0) then
      error(("orb.init: the limit '%s' is a number above 0, not '%s'"):format(name, tostring(value)), 0)
    end
  end
end

-- Each one is checked when it is registered; what isn't in the list would never be.
local function check_interceptors(list)
  if list == nil then return end
  if type(list) ~= "table" then error("orb.init: interceptors is a list of them", 0) end
  for name in pairs(list) do
    if math.type(name) ~= "integer" or name < 1 or name > #list then
      error(("orb.init: interceptors is a list of them, such as { { name = \"t\", send_request = f } }; it has '%s'"):format(tostring(name)), 0)
    end
  end
end

local REPOSITORY = { at = true, definitions = true, bytes = true, depth = true, time = true }

local function check_repository(value)
  if type(value) == "table" then
    for name, v in pairs(value) do
      if not REPOSITORY[name] then
        error(("orb.init: repository has no '%s'; there are at, bytes, definitions, depth, time"):format(tostring(name)), 0)
      end
      if name ~= "at" and not (type(v) == "number" and v > 0) then
        error(("orb.init: the repository's %s is a number above 0, not '%s'"):format(name, tostring(v)), 0)
      end
    end
    value = value.at
  end
  if value ~= nil and type(value) ~= "boolean" and type(value) ~= "string" then
    error("orb.init: repository is true (ask each server), a reference of an interface repository, or false (serve none, either)", 0)
  end
end

local function check_own(given)
  if given.host ~= nil and type(given.host) ~= "string" then error(("orb.init: host is a text, not '%s'"):format(tostring(given.host)), 0) end
  check_limits(given.limits)
  if given.codeset ~= nil and not code_set(given.codeset) then
    error(("orb.init: codeset is UTF-8 or ISO-8859-1, not '%s'"):format(tostring(given.codeset)), 0)
  end
  if given.octets ~= nil and given.octets ~= "string" and given.octets ~= "buffer" then
    error(("orb.init: octets are a \"string\" or a \"buffer\", not '%s'"):format(tostring(given.octets)), 0)
  end
  local port = given.port
  if port ~= nil and not (math.type(port) == "integer" and port >= 0 and port <= 65535) then
    error(("orb.init: port is a number from 0 to 65535, not '%s'"):format(tostring(port)), 0)
  end
  for _, name in ipairs { "timeout", "connect_timeout" } do
    local value = given[name]
    if value ~= nil and not (type(value) == "number" and value >= 0) then
      error(("orb.init: %s is a number of seconds, not '%s'"):format(name, tostring(value)), 0)
    end
  end
  if given.log ~= nil and type(given.log) ~= "function" then error("orb.init: log is a function(level, text)", 0) end
  if given.authenticate ~= nil and type(given.authenticate) ~= "function" then
    error("orb.init: authenticate is a function(user, password, peer)", 0)
  end
  for _, name in ipairs { "user", "password" } do
    if given[name] ~= nil and type(given[name]) ~= "string" then error(("orb.init: %s is a text"):format(name), 0) end
  end
  if given.context ~= nil and type(given.context) ~= "table" then error("orb.init: context is a table of names and texts", 0) end
  check_interceptors(given.interceptors)
  check_repository(given.repository)
  if given.allow ~= nil and type(given.allow) ~= "function" then error("orb.init: allow is a function(peer)", 0) end
end

-- How long a connection to a server may be unused; nil: for ever.
local function unused_of(given, result)
  local limit = given.limits and given.limits.unused
  if limit == nil then limit = result.outConScanPeriod end
  return limit and limit > 0 and limit or nil
end

-- The first line of a file: a password on the command line could be read by everybody.
local function line_of(path)
  local file, why = io.open(path)
  local line = file and file:read "l"
  if file then file:close() end
  if not line then error(("orb.init: option 'ORBpasswordFile': no password in '%s'%s"):format(path, why and ": " .. why or ""), 0) end
  return (line:gsub("\r$", ""))
end

local function seconds(milliseconds) return milliseconds and milliseconds > 0 and milliseconds / 1000 or nil end

--- The options of a broker: those of omniORB by their names, `timeout` and `connect_timeout` in seconds, and what the program gave.
function options.read(given)
  given = given or {}
  local result = { ignored = {} }
  if given.args then from_arguments(result, given.args) end
  local elsewhere = result.endPoint ~= nil       -- the command line counts more than the program's port and host
  from_table(result, given)
  check_own(given)
  from_environment(result)
  for name, value in pairs(defaults) do
    if result[name] == nil then result[name] = value end
  end
  result.user = result.user or given.user
  result.password = result.passwordFile and line_of(result.passwordFile) or given.password
  for name in pairs(own) do
    local apart = name == "args" or name == "codeset" or name == "user" or name == "password"
    if not apart and not (elsewhere and (name == "port" or name == "host")) then result[name] = given[name] end
  end
  if result.codeset == nil then result.codeset = given.codeset end
  if given.timeout == nil then result.timeout = seconds(result.clientCallTimeOutPeriod) end
  if given.connect_timeout == nil then result.connect_timeout = seconds(result.clientConnectTimeOutPeriod) end
  if result.timeout == 0 then result.timeout = nil end
  if result.endPoint or result.endPointPublish or result.endPointNoListen then require "mare.orb.endpoint".check(result) end
  result.unused = unused_of(given, result)
  result.max_minor = tonumber(result.maxGIOPVersion:sub(3))
  return result
end

return options
