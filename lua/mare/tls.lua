--[[
mare.tls: connections with TLS (OpenSSL 3). A connection that speaks TLS is the same object as before and has the same methods.

Verification is on unless it is switched off by name. A context holds what many connections have in common; it is made once, travels to
other processes by reference, and any option of a context may be given in its place.
]]
local mare = require "mare"
local net = require "mare.net"
local core = require "mare.tls.core"

local tls = {}

local CONTEXT = { cert = true, key = true, ca = true, verify = true, alpn = true, min_version = true, max_version = true, client_cert = true,
                  ciphers = true }
local CONNECT = { context = true, server = true, session = true, timeout = true, bind = true, nodelay = true }
local LISTEN = { context = true, backlog = true, reuseport = true, v6only = true, host = true, port = true, path = true }

local function names(more)
  local list = {}
  for name in pairs(CONTEXT) do list[#list + 1] = name end
  for name in pairs(more or {}) do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, ", ")
end

local TYPES = { timeout = "number", server = "string", session = "string", bind = "string" }

-- A misspelt option of security must not be one that is silently off, nor one that a ready context doesn't have.
local function check(options, more, level)
  for name, value in pairs(options) do
    if not CONTEXT[name] and not (more and more[name]) then
      error(("there is no option '%s'; there are %s"):format(tostring(name), names(more)), level + 1)
    end
    if TYPES[name] and type(value) ~= TYPES[name] then
      error(("option '%s' must be a %s, got %s"):format(name, TYPES[name], type(value)), level + 1)
    end
    if CONTEXT[name] and options.context then
      error(("option '%s' stands beside 'context': give it to tls.context"):format(name), level + 1)
    end
  end
end

--- A context from cert, key, ca, verify, client_cert, alpn, min_version, max_version, ciphers.
function tls.context(options)
  options = options or {}
  check(options, nil, 2)
  return core.context(options)
end

local function only_context(options)
  local own = {}
  for name, value in pairs(options) do
    if CONTEXT[name] then own[name] = value end
  end
  return own
end

local default -- what clients without any option use
local function context_of(options)
  if options.context then return options.context end
  local own = only_context(options)
  if next(own) then return core.context(own) end
  local err, code
  if not default then default, err, code = core.context({}) end
  return default, err, code
end

-- A time limit that is over has no code, and no place for one.
local function failed(err, code)
  if code then return nil, err, code end
  return nil, err
end

-- A handshake that an error ends, of a deadline for instance.
local shaking = { __close = function(s)
  if not s.over then s.conn:close(0) end
end }

local function finish(conn, seconds, ok, err, code)
  if ok then
    local guard <close> = setmetatable({ conn = conn, over = false }, shaking)
    ok, err, code = conn:handshake(seconds)
    guard.over = true
  end
  if ok then return conn end
  conn:close(0)
  return failed(err, code)
end

--- TLS on a connection, as a client. The handshake is done when this returns; if it fails the connection is closed.
function tls.client(conn, options)
  options = options or {}
  check(options, CONNECT, 2)
  local context, err, code = context_of(options)
  if not context then return nil, err, code end
  if not options.server and not options.context and options.verify ~= false and options.verify ~= "none" then
    error("option 'server' is missing: the name the certificate must have (or verify = false)", 2)
  end
  return finish(conn, options.timeout, core.client(conn, context, options.server, options.session))
end

--- TLS on an accepted connection.
function tls.server(conn, context, seconds)
  if type(context) == "table" then
    local err, code
    check(context, nil, 2)
    context, err, code = core.context(context)
    if not context then return nil, err, code end
  end
  return finish(conn, seconds, core.server(conn, context))
end

-- What comes before the last colon, without brackets.
local function host_of(where)
  if type(where) == "table" then return where.host end
  if type(where) ~= "string" or where:find("^unix:") then return nil end
  return where:match("^%[(.*)%]:%d+$") or where:match("^([^:]+):%d+$")
end

--- tls.connect(host, port[, options]) or (where[, options]): connects, and shakes hands.
function tls.connect(where, port, options)
  local pair = type(port) ~= "table" and port ~= nil
  if not pair then options = port end
  options = options or {}
  check(options, CONNECT, 2)
  local server = options.server or (pair and where) or host_of(where)
  if not server and options.verify ~= false and not options.context then
    error("option 'server' is missing: the name the certificate must have", 2)
  end
  local context, err, code = context_of(options)                -- before anything is connected
  if not context then return nil, err, code end
  local due = options.timeout and mare.clock() + options.timeout
  local dial = { timeout = options.timeout, bind = options.bind, nodelay = options.nodelay }
  local conn
  if pair then conn, err, code = net.connect(where, port, dial) else conn, err, code = net.connect(where, dial) end
  if not conn then return failed(err, code) end
  local left = due and due - mare.clock()
  return finish(conn, left, core.client(conn, context, server, options.session))
end

--- As net.listen; what the server accepts speaks TLS. The handshake is part of the first read or write, or of conn:handshake.
function tls.listen(where, port, options)
  local pair = type(port) ~= "table" and port ~= nil
  if not pair then options = port end
  options = options or {}
  check(options, LISTEN, 2)
  local context, err, code = options.context, nil, nil
  if not context then context, err, code = core.context(only_context(options)) end
  if not context then return nil, err, code end
  local server
  local own = { backlog = options.backlog, reuseport = options.reuseport, v6only = options.v6only }
  if pair then server, err, code = net.listen(where, port, own) else server, err, code = net.listen(where, own) end
  if not server then return nil, err, code end
  local ok, wrong = pcall(core.listener, server, context)
  if not ok then
    server:close()
    error(wrong, 2)
  end
  return server
end

return require "mare.near".guard(tls)
