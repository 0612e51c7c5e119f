--[[
mare.ludo: objects of one Lua program called by another, without an IDL: see docs/ludo.md.

A *broker* has objects to serve, by key, and connections to others' (ludo/link.lua). Its *world* is what src/module/ludo.h asks: which tables
travel as references, which classes have names, what references become, how much a message's values may take.
]]
local mare = require "mare"
local net = require "mare.net"
local tls = require "mare.tls"
local core = require "mare.ludo.core"
local failure = require "mare.ludo.failure"
local link = require "mare.ludo.link"
local pool = require "mare.ludo.pool"
local proxy = require "mare.ludo.proxy"
local reference = require "mare.ludo.reference"
local near = require "mare.orb.near"

local clock, fiber = mare.clock, mare.fiber
local ludo = { failure = failure }

local LIMITS = { message = 2 << 20, values = 64 << 20, connections = 1000, requests = 100, memory = 64 << 20, share = 16 << 20,
                 idle = math.huge, handshake = 10, arrive = 60, reply = 60, resting = 256 }
local OPTIONS = { host = "string", port = "number", published = "string", timeout = "number", tls = "table", classes = "table", limits = "table",
                  allow = "function", tracebacks = "boolean", log = "function", oil = "boolean" }
local TLS = { "ca", "cert", "key", "verify", "client_cert", "min_version", "max_version", "ciphers" }

-- What is served in this process, by whatever broker: { [object] = reference }
local served = setmetatable({}, { __mode = "k" })

local broker = {}
broker.__index = broker

-- ---- options ----

local function complain(kind, name, known)
  local names = {}
  for one in pairs(known) do names[#names + 1] = one end
  table.sort(names)
  local meant = near(tostring(name), names)
  local hint = meant and "; did you mean " .. meant .. "?" or "; there are " .. table.concat(names, ", ")
  error(("ludo.init: there is no %s '%s'%s"):format(kind, tostring(name), hint), 0)
end

local function check(options)
  for name, value in pairs(options) do
    local kind = OPTIONS[name] or complain("option", name, OPTIONS)
    if type(value) ~= kind then error(("ludo.init: '%s' is a %s, not a %s"):format(name, kind, type(value)), 0) end
  end
  local limits = {}
  for name, value in pairs(LIMITS) do limits[name] = value end
  for name, value in pairs(options.limits or {}) do
    if not LIMITS[name] then complain("limit", name, LIMITS) end
    if type(value) ~= "number" or value ~= value or value <= 0 then error(("ludo.init: limit '%s' is a number above 0"):format(name), 0) end
    limits[name] = value
  end
  for _, name in ipairs { "message", "values", "memory", "share" } do
    limits[name] = math.tointeger(limits[name]) or error(("ludo.init: limit '%s' is a whole number of bytes"):format(name), 0)
  end
  if limits.message < 1 << 10 or limits.message > 1 << 31 then error("ludo.init: limit 'message' is between 1 KiB and 2 GiB", 0) end
  limits.share = math.min(limits.share, limits.memory)
  return limits
end

local function check_classes(classes)
  local names, metatables = { [proxy] = true }, {}
  for name, class in pairs(classes) do
    if type(name) ~= "string" or type(class) ~= "table" then error("ludo.init: classes are { name = metatable }", 0) end
    names[class], metatables[name] = name, class
  end
  return names, metatables
end

--- The context of TLS; raises what is wrong with the options.
function broker:context()
  if self.tls_context then return self.tls_context end
  local own, given = {}, self.options.tls or {}
  if given.context then
    self.tls_context = given.context
    return given.context
  end
  for name in pairs(given) do
    local known = name == "hostname"
    for _, one in ipairs(TLS) do known = known or one == name end
    if not known then error(("ludo.init: tls has no option '%s'"):format(tostring(name)), 0) end
  end
  for _, name in ipairs(TLS) do own[name] = given[name] end
  local context, err = tls.context(own)
  self.tls_context = context or error("ludo.init: tls: " .. tostring(err), 0)
  return context
end

--- A broker.
function ludo.init(options)
  options = options or {}
  local limits = check(options)
  local names, metatables = check_classes(options.classes or {})
  local self = setmetatable({ options = options, limits = limits, objects = {}, groups = {}, links = {}, nkeys = 0,
                              done = mare.channel.new(), closed = false }, broker)
  self.world = { served, names, metatables, function(text) return self:resolve(text) end, limits.values }
  if options.tls then self:context() end
  proxy.settle(self)
  return self
end

--- What another process's broker is made with.
function broker:copy()
  local copy = {}
  for name, value in pairs(self.options) do copy[name] = value end
  if self.options.tls then copy.tls = { context = self:context(), hostname = self.options.tls.hostname } end
  copy.host, copy.port = nil, nil
  return copy
end

function broker:note(text)
  if self.options.log then self.options.log(text) else io.stderr:write("mare.ludo: ", text, "\n") end
end

-- ---- serving ----

local function accept_all(self, listener)
  while not self.closed do
    local socket, err, code = listener:accept()
    if socket then
      local fine, why = pcall(self.pool.add, self.pool, socket)
      if not fine then
        socket:close(0)
        self:note("cannot serve a connection: " .. tostring(why))
      end
    elseif code == "EBADF" then
      return
    else
      self:note("cannot accept a connection: " .. tostring(err))
      mare.sleep(0.1)
    end
  end
end

--- Serves what comes in there, too.
function broker:listen_at(listener)
  self.pool = self.pool or pool.new(self)
  fiber.spawn { name = "ludo listener", main = accept_all, args = { self, listener }, daemon = true }
end

local function open(self, port)
  local host = self.options.host or "127.0.0.1"
  local listener, err
  if self.options.tls then listener, err = tls.listen({ host = host, port = port }, { context = self:context() })
  else listener, err = net.listen(host, port) end
  if not listener then error(("cannot serve at %s, port %d: %s"):format(host, port, tostring(err)), 0) end
  local bound, number = listener:address()
  return listener, self.options.published or bound, number
end

local function ensure(self)
  if self.closed then error("this broker was closed", 0) end
  if self.listener then return end
  self.listener, self.host, self.port = open(self, self.options.port or 0)
  self:listen_at(self.listener)
end

--- Serves from now on, though there may be no object yet: the port (mare.oil).
function broker:open()
  ensure(self)
  return self.port
end

local SERVE = { key = true, processes = true, args = true }

local function key_of(self, options)
  if options ~= nil and type(options) ~= "table" then error("serve: options are a table, not a " .. type(options), 3) end
  for name in pairs(options or {}) do
    if not SERVE[name] then error(("serve: there is no option '%s'; there are args, key, processes"):format(tostring(name)), 3) end
  end
  local key = options and options.key
  if key == nil then
    self.nkeys = self.nkeys + 1
    key = ("object-%d-%06x"):format(self.nkeys, math.random(0, 0xffffff))
  end
  if type(key) ~= "string" or key == "" then error("serve: 'key' is a string that is not empty", 3) end
  if self.objects[key] ~= nil or self.groups[key] then error(("serve: there is an object '%s' already"):format(key), 3) end
  return key
end

--- Serves an object: its reference. options: key; processes, args: then `object` is a function that makes one in each process
function broker:serve(object, options)
  local key = key_of(self, options)
  if options and options.processes then
    if self.closed then error("this broker was closed", 0) end
    local listener, host, port = open(self, 0)
    self.groups[key] = require("mare.ludo.members").serve(self, object, listener, key, options)
    return reference.make(host, port, key, self.options.tls)
  end
  if type(object) ~= "table" and type(object) ~= "userdata" then error("serve: an object is a table or a userdata, not a " .. type(object), 2) end
  ensure(self)
  self.objects[key] = object
  local text = reference.make(self.host, self.port, key, self.options.tls)
  if type(object) == "table" and not served[object] then served[object] = text end
  return text
end

--- Serves it no longer: was there such an object?
function broker:deactivate(key)
  local object = self.objects[key]
  if self.groups[key] then
    self.groups[key]:stop()
    self.groups[key] = nil
    return true
  end
  self.objects[key] = nil
  if object == nil then return false end
  if served[object] == reference.make(self.host or "", self.port or 0, key, self.options.tls) then served[object] = nil end
  return true
end

--- The request that the calling fiber serves: { key =, operation =, peer = { host, port, tls } }; nil outside of one.
function broker:current()
  local job = self.pool and self.pool:serving()
  return job and { key = job.key, operation = job.operation, peer = job.peer.who() }
end

--- Waits until shutdown is over.
function broker:run() self.done:receive() end

--- Ends serving; what is in progress is answered within so many seconds (10).
function broker:shutdown(seconds)
  if self.closed then return end
  self.closed = true
  if self.listener then self.listener:close() end
  for _, group in pairs(self.groups) do group:stop() end
  for key in pairs(self.objects) do self:deactivate(key) end
  if self.pool then self.pool:stop(seconds or 10) end
  for _, one in pairs(self.links) do one:fail("lost", "this broker was closed") end
  proxy.leave(self)
  self.done:close()
end

broker.close = broker.shutdown
function broker:__close() self:shutdown() end

-- ---- calling ----

--- A proxy of the object with this reference.
function broker:proxy(text)
  local timeout = self.options.timeout
  local p, err = proxy.new(self, text, timeout and timeout > 0 and timeout or nil)
  if not p then error(err, 2) end
  return p
end

--- What a reference becomes that came in a message: an object of this broker is itself.
function broker:resolve(text)
  local r = reference.parse(text)
  if r and self.port == r.port and self.host == r.host and self.objects[r.key] ~= nil then return self.objects[r.key] end
  return (assert(proxy.new(self, text, self.options.timeout)))
end

local TEXTS = { lost = "LOST", large = "TOO_LARGE", alien = "CONNECT", again = "UNSENT", timeout = "TIMEOUT", unsent = "TIMEOUT" }

local NO_MEMORY = "not enough memory"            -- Lua's own error

local function failed(state, name, found, why)
  local text = why == "timeout" and "no reply in time" or why == "unsent" and "it could not be sent in time" or found.text or why
  if why == "again" then text = "it was not sent, or not touched: " .. text end
  error(failure.new(TEXTS[why], ("%s at %s:%d: %s"):format(name, state.host, state.port, text)), 0)
end

local function local_error(code, text)
  local f = failure.new(code, text)
  f["local"] = true
  error(f, 0)
end

local function connected(state, deadline)
  local found, err, code = link.to(state.broker, state.host, state.port, state.tls, deadline)
  if not found then
    local late = not code and deadline and clock() >= deadline
    error(failure.new(late and "TIMEOUT" or "CONNECT", err), 0)
  end
  state.link = found
  return found
end

local function given(fine, ...)
  if fine then return ... end
  error(failure.new("PROTOCOL", tostring((...))), 0)
end

local function raise(world, reply)
  local fine, code, message, value, traceback = pcall(core.values, reply, world)
  if not fine or type(code) ~= "string" then error(failure.new("PROTOCOL", fine and "an error without a code came" or tostring(code)), 0) end
  if message == nil and value ~= nil then
    local shown, text = pcall(tostring, value)
    message = shown and text or "an error that can't be shown"
  end
  if type(message) ~= "string" then message = "an error without a text" end
  local e = failure.new(code, message, value, type(traceback) == "string" and traceback or nil)
  e.raised = code == "RAISED"
  error(e, 0)
end

-- The key and the operation are values of a request, too.
local function argument_of(text)
  return (tostring(text):gsub("value (%d+)", function(n) return ("argument %d"):format(tonumber(n) - 2) end, 1))
end

local function results(world, reply)
  if core.head(reply) == core.REPLY then return given(pcall(core.values, reply, world)) end
  return raise(world, reply)
end

-- A request with these arguments is sent and answered: the reply | nil, why not, the link.
local function asked(state, name, deadline, ...)
  local self, found = state.broker, state.link
  if not found or not found:alive() then found = connected(state, deadline) end
  local id = found:fresh()
  local fine, message = pcall(core.message, core.CALL, id, self.world, state.key, name, ...)
  if message == NO_MEMORY then local_error("UNSENT", message) end
  if not fine then local_error("UNSENDABLE", argument_of(message)) end
  if #message > self.limits.message then
    local_error("TOO_LARGE", ("the request has %d bytes, the limit is %d"):format(#message, self.limits.message))
  end
  local reply, why = found:exchange(id, message, deadline)
  return reply, why, found
end

--- One call of a proxy.
function broker.invoke(state, name, ...)
  local self, timeout = state.broker, state.timeout
  if self.closed then error(failure.new("CLOSED", "this broker was closed"), 0) end
  local deadline = timeout and clock() + timeout
  local reply, why, found = asked(state, name, deadline, ...)
  if why == "again" then reply, why, found = asked(state, name, deadline, ...) end
  if not reply then failed(state, name, found, why) end
  return results(self.world, reply)
end

--- Goes on with a call that src/module/ludo_call.c has begun: see its resume.
function broker.resume(state, name, found, id, deadline, rest, sent, reply, ...)
  local why
  if not reply then reply, why = found:await(id, deadline, rest, sent) end
  if why == "again" then reply, why, found = asked(state, name, deadline, ...) end
  if not reply then failed(state, name, found, why) end
  return results(state.broker.world, reply)
end

-- ---- without a broker of one's own ----

local usual
local function default()
  if not usual or usual.closed then usual = ludo.init {} end
  return usual
end

--- Serves an object by a broker of its own: reference, broker. options: those of init, and of serve
function ludo.serve(object, options)
  local own, more = {}, {}
  for name, value in pairs(options or {}) do
    if name == "key" or name == "processes" or name == "args" then more[name] = value else own[name] = value end
  end
  local self = ludo.init(own)
  return self:serve(object, more), self
end

--- A proxy of a broker that has no options, or these.
function ludo.proxy(text, options) return (options and ludo.init(options) or default()):proxy(text) end

ludo.is_proxy = proxy.is

return ludo
