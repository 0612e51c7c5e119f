--[[
mare.orb.endpoint: where a server listens, and which addresses its references carry.

An endpoint is { host = "", port = 0 } before it is opened: host "" listens on every interface, port 0 is any free one; opened, it also has
`listener`, and `port` is the real one. It is the server's, which closes it. Published addresses are never a wildcard: what a client can't
connect to has no place in a reference. Texts are spelled as omniORB spells them: giop:tcp:host:port, giop:tcp::, giop:tcp:[::1]:2809,
giop:ssl: for TLS, and giop:unix:/path, whose host is "unix:/path" and whose port is 0.
]]
local file = require "mare.file"
local net = require "mare.net"
local machine = require "mare.orb.machine"
local tls = require "mare.tls"

local endpoint = {}

local WILDCARD = { [""] = true, ["0.0.0.0"] = true, ["::"] = true, ["*"] = true }

local function fail(text, why)
  error(("endpoint '%s': %s; write giop:tcp:host:port, giop:tcp:[ipv6]:port, giop:tcp:host: (any port) or giop:tcp:: (all interfaces), " ..
    "ssl for tcp where it is TLS, or giop:unix:/path"):format(text, why), 0)
end

local function port_of(text, digits)
  if digits == "" then return 0 end
  local port = math.tointeger(tonumber(digits))
  if not port or port < 0 or port > 65535 then fail(text, ("'%s' is no port"):format(digits)) end
  return port
end

--- "giop:tcp:host:port" -> { host =, port =, tls = true if it is giop:ssl:, unix = path of giop:unix: }; raises for everything else.
---@param text string
---@return { host: string, port: integer, tls: true?, unix: string? }
function endpoint.parse(text)
  local transport, rest = text:match("^giop:(%w+):(.*)$")
  if not transport then fail(text, "it does not begin with giop:tcp:") end
  if transport == "unix" then return { host = "unix:" .. rest, port = 0, unix = rest } end
  if transport ~= "tcp" and transport ~= "ssl" then fail(text, ("there is no transport '%s'"):format(transport)) end
  local host, digits = rest:match("^%[([%x:.%%%w]*)%]:(%d*)$")
  if not host then host, digits = rest:match("^([^%[%]:]*):([^:]*)$") end
  if not host then fail(text, "it is no host and port") end
  return { host = host, port = port_of(text, digits), tls = transport == "ssl" or nil }
end

--- The endpoints that options ask for: `port` and `host`, -ORBendPoint (endPoint, a list). Raises what is wrong with them.
---@param options table
---@return { host: string, port: integer, tls: true? }[]
function endpoint.list(options)
  local list = {}
  for i, text in ipairs(options.endPoint or {}) do list[i] = endpoint.parse(text) end
  if #list == 0 or options.port or options.host then
    table.insert(list, 1, { host = options.host or "", port = options.port or 0 })
  end
  return list
end

--- "tcp", "ssl" or "unix"
function endpoint.kind(e) return e.unix and "unix" or e.tls and "ssl" or "tcp" end

-- Of whoever runs this program.
local function user() return os.getenv "USER" or os.getenv "LOGNAME" or "user" end

-- A file that nobody has, in the folder of -ORBunixTransportDirectory.
local function any_path(options)
  local folder = (options.unixTransportDirectory or "/tmp/omni-%u"):gsub("%%u", (user():gsub("%%", "%%%%"))):gsub("/*$", "")
  local made, err = file.mkdir(folder, "parents")
  if not made then error(("giop:unix: cannot make the folder '%s': %s"):format(folder, err), 0) end
  return ("%s/%09d-%d"):format(folder, math.random(0, 999999999), os.time())
end

local function open_unix(e, options)
  local path = e.unix ~= "" and e.unix or any_path(options)
  local how = { backlog = options.listenBacklog, mode = options.unixTransportPermission or tonumber("777", 8) }
  local fine, listener, err, code = pcall(net.listen, "unix:" .. path, how)
  if not fine then                               -- the path can be none
    local why = type(listener) == "string" and listener:match "bad argument #1 to '[^']*' %((.*)%)$"
    error(why and ("cannot listen on giop:unix:%s: %s"):format(path, why) or listener, 0)
  end
  if not listener then error(("cannot listen on giop:unix:%s: %s (%s)"):format(path, err, code), 0) end
  return { host = "unix:" .. path, port = 0, unix = path, listener = listener, wildcard = false }
end

--- Listens. Raises with the address when it can't. `secure`: the broker's, for TLS.
function endpoint.open(e, options, secure)
  if e.unix then return open_unix(e, options or {}) end
  local where = { port = e.port }
  if not WILDCARD[e.host] then where.host = e.host end
  if e.host == "0.0.0.0" then where.host = e.host end       -- the user means IPv4 alone
  local backlog = options and options.listenBacklog
  local listener, err, code
  if e.tls then listener, err, code = tls.listen(where, { backlog = backlog, context = secure:serving("giop:ssl:" .. e.host) })
  else listener, err, code = net.listen(where, { backlog = backlog }) end
  if not listener then
    error(("cannot listen on %s:%d: %s (%s)"):format(e.host == "" and "*" or e.host, e.port, err, code), 0)
  end
  local host, port = listener:address()
  return { host = e.host, port = port, listener = listener, bound = host, wildcard = WILDCARD[e.host] or false, tls = e.tls }
end

---------------------------------------------------------------------------------------------------------- own addresses

-- Which of our addresses the system would send from: connecting a datagram socket asks the routing table and sends nothing.
function endpoint.source(target)
  local socket = net.udp()
  if not socket then return nil end
  local host
  if socket:connect(target, 9) then host = socket:address() end
  socket:close()
  return host
end

local function is_loopback(address) return address:match("^127%.") ~= nil or address == "::1" end
local function usable(address) return address and not WILDCARD[address] and not is_loopback(address) and not address:match("^[fF][eE]80:") end

-- Documentation addresses, which nobody has: only the route to them counts.
local function ipv4() local a = endpoint.source("192.0.2.1") return usable(a) and a or nil end
local function ipv6() local a = endpoint.source("2001:db8::1") return usable(a) and a or nil end

local function by_name()
  local name = machine.name()
  for _, address in ipairs(name and net.resolve(name, 2) or {}) do
    if usable(address) then return address end
  end
end

-- The address others reach this machine by; without a network the loopback one, which at least is right here.
local function own(bound)
  if bound == "::" then return ipv4() or ipv6() or by_name() or "127.0.0.1" end
  return ipv4() or by_name() or "127.0.0.1"
end
endpoint.own = own

------------------------------------------------------------------------------------------------------------ publishing

local function add(list, seen, host, port, secured)
  local name = host and host .. "\0" .. port
  if not host or seen[name] then return end
  seen[name] = true
  list[#list + 1] = { host, port, tls = secured }
end

-- Under the name that this machine has: who reads it elsewhere knows that it is not for him.
local function add_unix(list, seen, e)
  if seen[e.host] then return end
  seen[e.host] = true
  list[#list + 1] = { e.host, 0, unix = e.unix, machine = machine.name() or "localhost" }
end

-- The port of the first endpoint of this kind.
local function port_of_kind(opened, secured)
  for _, e in ipairs(opened) do
    if e.tls == secured and not e.unix then return e.port end
  end
  return opened[1].port
end

local RULES = {
  addr = function(e) return e.wildcard and own(e.bound) or e.host end,
  ipv4 = function(e) return e.wildcard and ipv4() or not e.host:find(":", 1, true) and e.host or nil end,
  ipv6 = function(e) return e.wildcard and ipv6() or e.host:find(":", 1, true) and e.host or nil end,
  name = function(e) return e.wildcard and machine.name() or e.host end,
  hostname = machine.name,
}
RULES.fqdn = RULES.name

local function names()
  local list = {}
  for name in pairs(RULES) do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, ", ")
end

-- What a rule of -ORBendPointPublish is: an endpoint, or nil, how an address of ours is found, of both families? Raises what it is not.
local function read_rule(rule)
  if rule:match("^giop:") then
    local e = endpoint.parse(rule)
    if not e.unix and WILDCARD[e.host] then fail(rule, "an address that clients use has a host") end
    return e
  end
  local all = rule:match("^all%((%w+)%)$")
  local find = RULES[all or rule]
  if not find then
    error(("-ORBendPointPublish: there is no rule '%s'; there are giop:tcp:host:port, giop:ssl:host:port, %s"):format(rule, names()), 0)
  end
  return nil, find, all == "addr"                -- of each family we know one address
end

local function publish(list, seen, opened, rule)
  local e, find, both = read_rule(rule)
  if e then
    if e.unix then return add_unix(list, seen, e) end
    add(list, seen, e.host, e.port ~= 0 and e.port or port_of_kind(opened, e.tls), e.tls)
    return
  end
  if both then
    for _, one in ipairs(opened) do
      if one.unix then add_unix(list, seen, one) end
    end
    publish(list, seen, opened, "ipv4")
    return publish(list, seen, opened, "ipv6")
  end
  for _, one in ipairs(opened) do
    if not one.unix then add(list, seen, find(one), one.port, one.tls) elseif rule == "addr" then add_unix(list, seen, one) end
  end
end

-- Calls f with the alternatives of each rule in a text.
local function each_rule(text, f)
  for one in text:gmatch("[^,]+") do
    local alternatives = {}
    for alternative in one:gmatch("[^|]+") do alternatives[#alternatives + 1] = alternative end
    f(alternatives)
  end
end

--- Raises what is wrong with the endpoints that options ask for, as far as it can be told before anything is served.
function endpoint.check(options)
  endpoint.list(options)
  for _, text in ipairs(options.endPointPublish or {}) do
    each_rule(text, function(alternatives)
      for _, rule in ipairs(alternatives) do read_rule(rule) end
    end)
  end
  for _, text in ipairs(options.endPointNoListen or {}) do read_rule(text) end
end

--- The addresses of opened endpoints for references: { { host, port, tls = true? }, … }. options.endPointPublish is a list of what
--- -ORBendPointPublish says; several rules in one text are divided by ',', alternatives by '|', of which the first that gives an address counts.
--- options.endPointNoListen: addresses under which something else forwards to us.
function endpoint.addresses(opened, options)
  local list, seen = {}, {}
  local rules = options.endPointPublish or options.endPointPublishAllIFs and { "all(addr)" } or {}
  for _, rule in ipairs(rules) do
    each_rule(rule, function(alternatives)
      local before = #list
      for _, alternative in ipairs(alternatives) do
        publish(list, seen, opened, alternative)
        if #list > before then break end
      end
    end)
  end
  if #list == 0 then publish(list, seen, opened, "addr") end
  for _, text in ipairs(options.endPointNoListen or {}) do publish(list, seen, opened, text) end
  return list
end

return endpoint
