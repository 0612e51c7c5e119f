--[[
mare.orb.secure: TLS of a broker: its context, what references say of it, which ways into other servers may be taken.

Verification is on unless it is switched off by name, as in mare.tls. The context is made when the broker is, if any option of TLS was given, so
that a file that is missing is found at once; else when a reference first needs TLS: it trusts the system's authorities then. It serves both
halves: `verify` is of servers, `client_cert` of clients.

A reference that offers both TLS and plain TCP: TLS if it demands that, or the broker was given options of TLS, and never TCP after TLS has failed, or
whoever can break connections could choose. With `required` TCP is not used at all; `reach` (-ORBclientTransportRule) says what may be used for which
host. Ours demand TLS unless a server has an open port for TCP, too: what anybody may call unprotected can't be said to require protection. A Unix
socket of this machine needs no TLS, as nobody between hears what is said; but `required` leaves it out, too.
]]
local tls = require "mare.tls"
local gssup = require "mare.orb.giop.gssup"
local ior = require "mare.orb.giop.ior"
local machine = require "mare.orb.machine"
local near = require "mare.orb.near"
local reach = require "mare.orb.reach"
local security = require "mare.orb.giop.security"

local secure = {}
secure.__index = secure

local HANDSHAKE = 10                              -- seconds, without a limit of the program's
local CONTEXT = { "ca", "cert", "key", "verify", "client_cert", "min_version", "max_version", "ciphers" }
local OWN = { "hostname", "required", "context" }

local function among(name, list)
  for _, one in ipairs(list) do
    if one == name then return true end
  end
end

local function check(given)
  if type(given) ~= "table" then error("orb.init: tls is a table, such as { ca = \"ca.pem\", cert = \"me.pem\", key = \"me.key\" }", 0) end
  local all = table.move(OWN, 1, #OWN, #CONTEXT + 1, { table.unpack(CONTEXT) })
  for name in pairs(given) do
    if not among(name, all) then
      local meant = near(tostring(name), all)
      error(("orb.init: tls has no option '%s'%s"):format(tostring(name), meant and "; did you mean " .. meant .. "?" or "; there are " ..
        table.concat(all, ", ")), 0)
    end
    if given.context and among(name, CONTEXT) and name ~= "client_cert" then
      error(("orb.init: tls: option '%s' stands beside 'context': give it to tls.context"):format(name), 0)
    end
  end
  local hostname = given.hostname
  if hostname ~= nil and hostname ~= false and type(hostname) ~= "string" then
    error("orb.init: tls: hostname is the name that the certificates of servers have, or false: any name will do", 0)
  end
  if given.required ~= nil and type(given.required) ~= "boolean" then error("orb.init: tls: required is true or false", 0) end
end

-- omniORB's names for the same; the command line counts more than the program.
local function merge(options)
  local given = {}
  for name, value in pairs(options.tls or {}) do given[name] = value end
  local function set(name, value)
    if value ~= nil then given[name] = value end
  end
  set("ca", options.sslCAFile or options.sslCAPath and options.sslCAPath:gsub("/*$", "/"))
  set("cert", options.sslKeyFile)
  set("key", options.sslKeyFile)
  set("ciphers", options.sslCipherList)
  local mode = options.sslVerifyMode
  if mode then
    set("verify", mode ~= "none")
    set("client_cert", mode == "none" and "none" or mode:find "fail" and "required" or "optional")
  end
  return given
end

--- TLS of a broker with these options; raises what is wrong with them.
function secure.new(options)
  if options.tls ~= nil then check(options.tls) end
  local given = merge(options)
  if (options.user ~= nil) ~= (options.password ~= nil) then
    error("orb.init: user and password belong together, as do -ORBuser and -ORBpasswordFile", 0)
  end
  local self = setmetatable({ hostname = given.hostname, required = given.required or false, reach = reach.new(options.clientTransportRule),
                              given = next(given) ~= nil,
                              client_cert = given.client_cert or "none", handshake = options.limits and options.limits.handshake or HANDSHAKE,
                              context = given.context, has_cert = given.cert ~= nil or given.context ~= nil,
                              user = options.user, password = options.password, asks = options.authenticate ~= nil }, secure)
  if self.client_cert == true then self.client_cert = "required" elseif self.client_cert == false then self.client_cert = "none" end
  if self.given and not self.context then
    local own = {}
    for _, name in ipairs(CONTEXT) do own[name] = given[name] end
    local fine, context, err = pcall(tls.context, own)
    if not fine or not context then error("orb.init: tls: " .. tostring(fine and err or context), 0) end
    self.context = context
  end
  return self
end

--- What a broker in another process is given as `tls`, so that it is the same; nil: nothing was.
function secure:copy()
  if not self.given then return nil end
  return { context = self.context, hostname = self.hostname, required = self.required, client_cert = self.client_cert }
end

local function offers_tcp(addresses)
  for _, a in ipairs(addresses) do
    if not a.tls and not a.unix then return true end
  end
  return false
end

--- What our references say that have these addresses: supports and requires, as ior.iiop takes them.
function secure:offer(addresses)
  local client = self.client_cert ~= "none" and security.TRUST_IN_CLIENT or 0
  local open = offers_tcp(addresses)
  return { supports = security.TLS | client | (open and security.NO_PROTECTION or 0),
           requires = (open and 0 or security.INTEGRITY | security.CONFIDENTIALITY) | (self.client_cert == "required" and client or 0),
           mechanism = self.asks and gssup.MECHANISM or nil, target = self.asks and gssup.exported "mare" or nil }
end

--- The context of a server; raises what it lacks.
function secure:serving(where)
  if self.has_cert then return self.context end
  error(("%s: a server with TLS needs a certificate: orb.init{ tls = { cert = file, key = file } }, or -ORBsslKeyFile"):format(where), 0)
end

local function sooner(a, b)
  if not a or not b then return a or b end
  return a < b and a or b
end

--- TLS on a connection that was just made. `seconds`: for the handshake, or nil. -> connection | nil, message, code; then it is closed.
function secure:client(conn, host, seconds)
  if not self.context then
    local context, err, code = tls.context {}
    if not context then
      conn:close(0)
      return nil, err, code
    end
    self.context = context
  end
  local name = self.hostname
  if name == nil then name = host end
  local limit = sooner(seconds, self.handshake)
  local ok, err, code = tls.client(conn, { context = self.context, server = name or nil, timeout = limit })
  if not ok and err == "timeout" and limit ~= seconds then return nil, ("no handshake of TLS within %g seconds"):format(limit), "ETIMEDOUT" end
  return ok, err, code
end

--- Do these codes of a failed connection say that one side didn't accept the other? To try again would be of no use.
function secure.refused(code) return code ~= nil and (code == "TLS_ALERT" or code:find "^CERT_" ~= nil) end

local function asks_who(way)
  local a = way.authentication
  return a and a.mechanism == gssup.MECHANISM and a.supports & security.TRUST_IN_CLIENT ~= 0 and a or nil
end

local function problem_of(self, way)
  local a = way.authentication
  if a and a.requires & security.TRUST_IN_CLIENT ~= 0 then
    if not asks_who(way) then return "it wants to know who calls in a way that is not known here" end
    if not self.user then return "it wants a name and a password: orb.init{ user =, password = }, or -ORBuser and -ORBpasswordFile" end
  end
  if way.requires & security.TRUST_IN_CLIENT ~= 0 and not self.has_cert then
    return "it requires a certificate of its clients: orb.init{ tls = { cert = file, key = file } }, or -ORBsslKeyFile"
  end
end

--- What a refusal over TLS may be about, as replies don't tell: the name and the password, if the reference asked for some.
--- `told`: an interceptor has said who calls.
function secure:why_refused(sent, told)
  if told then return "who calls was said by an interceptor, and refused, or the object refuses who that is" end
  if sent then return ("the name and the password of '%s' were refused, or the object refuses who that is"):format(self.user) end
  return "the reference does not ask for a name and a password, so none were sent; if the server asks for them, use the IOR it gives"
end

-- May this be used for a host? Then its rank, see reach.lua.
local function rank(self, host, transport)
  if not self.reach then return 0 end
  return self.reach:rank(host, transport)
end

-- The ways with TLS that may be used.
local function with_tls(self, ways)
  local list = {}
  for _, way in ipairs(ways) do
    local place = rank(self, way.host, "ssl")
    local a = self.user and asks_who(way)
    local problem = problem_of(self, way)
    if place then
      list[#list + 1] = { host = way.host, port = way.port, tls = true, rank = place, problem = problem, denied = problem ~= nil,
                          sas = a and gssup.establish(self.user, self.password, a.target) or nil }
    end
  end
  return list
end

-- Why an address without TLS can't be used, and whether that is forbidden.
local function objection(self, ways, a)
  if self.required then return "it offers no TLS, and this broker requires it", true end
  if #ways > 0 and ways.demanded then return "it demands TLS, which -ORBclientTransportRule leaves out", true end
  if a.port == 0 then return a.lacks or "it has port 0" end
  if rank(self, a.host, "tcp") then return nil end
  if rank(self, a.host, "ssl") then return "it offers no TLS, and -ORBclientTransportRule lets nothing else be used for it", true end
  return ("no rule of -ORBclientTransportRule lets %s be called"):format(a.host), true
end

local function without_tls(self, ways, plain)
  local list = {}
  for i, a in ipairs(plain) do
    local problem, denied = objection(self, ways, a)
    list[i] = { host = a.host, port = a.port, problem = problem, denied = denied, rank = rank(self, a.host, "tcp") }
  end
  return list
end

-- Those of Unix sockets. `here`: the name of this machine.
local function local_ones(self, profile, here)
  local list, elsewhere = {}, nil
  for _, u in ipairs(ior.unix_addresses(profile)) do
    local place = rank(self, "unix:" .. u.path, "unix")
    if u.host ~= here then elsewhere = u.host
    elseif place and not self.required then list[#list + 1] = { host = "unix:" .. u.path, port = 0, rank = place } end
  end
  return list, elsewhere
end

--- The addresses of a profile to try, of those without TLS (ior.addresses), those with it, and Unix sockets:
--- { { host =, port =, tls =, problem =, denied =, rank = } … }
function secure:choose(profile, plain)
  local ways = security.ways(profile)
  local list, elsewhere = local_ones(self, profile, machine.name())
  if #list > 0 and plain[1] and plain[1].port == 0 and #ways == 0 then return list end
  if elsewhere and plain[1] then
    plain[1].lacks = ("it has port 0, and a Unix socket on the machine '%s', which is not this one"):format(elsewhere)
  end
  local secured = with_tls(self, ways)
  local plainly = (#secured == 0 or not (ways.demanded or self.given)) and without_tls(self, ways, plain) or nil
  local usable = plainly and plainly[1] and not plainly[1].problem and not (secured[1] and secured[1].rank < plainly[1].rank)
  local others = plainly and (usable or #secured == 0) and plainly or secured
  return table.move(others, 1, #others, #list + 1, list)
end

return secure
