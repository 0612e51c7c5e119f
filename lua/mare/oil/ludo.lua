--[[
mare.oil.ludo: OiL's ORB of flavor "ludo": objects without IDL, by OiL's own text protocol (mare.ludo.oil, mare.ludo.oil_client).

A reference is { host =, port =, object = the key }; its text is that of OiL. A proxy is a table with `__reference`; every other field of it is an
operation. With "ludo.byref" tables, functions, userdata and threads travel as references of servants, which they become; else tables
are copied, and the rest can't be sent. A table whose metatable has `__marshalcopy` is always copied.

A proxy of an object of this ORB arrives as the object itself, unless `localrefs` is "proxy".
]]
local mare = require "mare"
local client = require "mare.ludo.oil_client"
local ludo = require "mare.ludo"
local endpoint = require "mare.orb.endpoint"
local assert = require "mare.oil.assert"
local cothread = require "mare.oil.cothread"
local Exception = require "mare.oil.Exception"
local fault = require "mare.oil.fault"
local future = require "mare.oil.future"
local gate = require "mare.oil.gate"
local oo = require "mare.oil.loop"
local verbose = require "mare.oil.verbose"

local channel, fiber = mare.channel, mare.fiber
local pack, unpack = table.pack, table.unpack
local KINDS = { synchronous = true, asynchronous = true, protected = true }
local WORDS = { connect = "badconnect", value = "badvalue", timeout = "timeout", lost = "badchannel", message = "badmessage" }
local SIDES = { client = { "client" }, server = { "server" } }
local BOTH = { "client", "server" }

local ORB = oo.class()

-- ---- references ----

local reference = { __name = "LuDO reference" }
reference.__index = reference
function reference.__tostring(self) return client.text(self) end

local registered = {}                                    -- metatable of what newservant gives

local function reference_of(value)
  if type(value) ~= "table" then return nil end
  if getmetatable(value) == reference then return value end
  local ref = rawget(value, "__reference")
  return type(ref) == "table" and ref.object and ref or nil
end

-- What a value travels as | nil: as itself.
local function refer(self, value)
  local kind = type(value)
  if kind == "table" and getmetatable(value) ~= reference then
    local ref = reference_of(value)
    if ref then return ref end
    local meta = getmetatable(value)
    if not self.byref or type(meta) == "table" and (meta.__marshalcopy or meta == Exception) then return nil end
  elseif not self.byref or kind ~= "function" and kind ~= "userdata" and kind ~= "thread" then
    return nil
  end
  return rawget(self:newservant(value), "__reference")
end

local function resolve(self, ref)
  local own = ref.host == self.address and ref.port == self.port and self.objects[ref.object]
  if own and self.localrefs ~= "proxy" then return self.localrefs == "servant" and own or rawget(own, "__servant") end
  return self:newproxy(setmetatable(ref, reference))
end

-- ---- calls ----

-- Tells the interceptor of a side, if it has the method: what that raises is the outcome of the request.
local function intercept(self, side, method, request)
  local object = self[side .. "_interceptor"]
  if not object or not object[method] then return true end
  local fine, err = pcall(object[method], object, request, request)
  if not fine then request.success, request.n, request[1] = false, 1, err end
  return fine
end

local function set(request, success, ...)
  local n = select("#", ...)
  for i = 1, math.max(n, request.n) do request[i] = (select(i, ...)) end
  request.success, request.n = success, n
end

local function exception_of(request, text, kind)
  local ref = request.reference
  local e = fault.new(WORDS[kind], ("%s:%d: %s"):format(ref.host, ref.port, text), { host = ref.host, port = ref.port })
  e.errmsg = text
  return e
end

local function ended(request, ok, ...)
  if ok == nil then return set(request, false, exception_of(request, ...)) end
  if ok then return set(request, true, ...) end
  local e = ...
  set(request, false, type(e) == "table" and getmetatable(e) == nil and Exception(e) or e)
end

-- One call, as mare.oil.future has it.
local call = {}
call.__index = call

local function new_call(self, proxy, operation, limit, ...)
  local request = pack(...)
  request.operation, request.reference, request.object_key = operation, proxy.__reference, proxy.__reference.object
  return setmetatable({ orb = self, proxy = proxy, request = request, limit = limit, op = { def = operation } }, call)
end

function call:send()
  return intercept(self.orb, "client", "sendrequest", self.request) and self.request.success == nil
end

function call:exchange()
  local request = self.request
  ended(request, self.orb.client:call(request.reference, request.operation, self.limit, unpack(request, 1, request.n)))
end

function call:finish()
  local request = self.request
  if self.outcome then set(request, self.outcome[1], self.outcome[2]) end
  intercept(self.orb, "client", "receivereply", request)
  return request.success, unpack(request, 1, request.n)
end

-- ---- proxies ----

local handlers, timeouts = setmetatable({}, { __mode = "k" }), setmetatable({}, { __mode = "k" })
local common = {}

function common:__setexcatch(handler)
  local before = handlers[self]
  handlers[self] = handler
  return true, before
end

function common:__settimeout(seconds)
  local before = timeouts[self]
  timeouts[self] = seconds
  return true, before
end

function common:__narrow() return self end

local function given(orb, self, operation, ok, ...)
  if ok then return ... end
  local handler = handlers[self] or orb.catcher
  if handler then return handler(self, (...), operation) end
  error((...), 0)
end

local function method_of(orb, kind, name)
  return function(self, ...)
    if not reference_of(self) then assert.illegal(self, "proxy (write proxy:operation(…), with a colon)") end
    local one = new_call(orb, self, name, timeouts[self] or orb.limit, ...)
    if kind == "asynchronous" then return future.new(one, function(err) return given(orb, self, name, false, err) end) end
    if one:send() then one:exchange() end
    if kind == "protected" then return one:finish() end
    return given(orb, self, name, one:finish())
  end
end

local function class_of(orb, kind)
  local methods = setmetatable({}, { __mode = "v" })
  local class = { __tostring = function(self) return tostring(self.__reference) end }
  function class.__index(_, name)
    if common[name] then return common[name] end
    if type(name) ~= "string" or name:find "^__" then return nil end
    if not methods[name] then methods[name] = method_of(orb, kind, name) end
    return methods[name]
  end
  return class
end

--- A proxy of a reference, its text, or of another proxy.
function ORB:newproxy(what, kind)
  local class = self.kinds[kind or "synchronous"] or assert.illegal(kind, "proxy kind")
  local ref = reference_of(what)
  if type(what) == "string" then
    ref = client.reference(what)
    if ref then setmetatable(ref, reference) end
  end
  if not ref then error(fault.new("badobjref", "an object reference is a text of OiL's LuDO, or a proxy"), 0) end
  return setmetatable({ __reference = ref }, class)
end

function ORB:narrow(object) return object and self:newproxy(object) end

-- ---- servants ----

local wrappers = setmetatable({}, { __mode = "k" })

function registered.__index(self, field)
  if field == "__deactivate" then return function() return rawget(self, "__orb"):deactivate(self) end end
  local value = rawget(self, "__servant")[field]
  if type(value) ~= "function" then return value end
  if not wrappers[value] then wrappers[value] = function(s, ...) return value(rawget(s, "__servant"), ...) end end
  return wrappers[value]
end
function registered.__newindex(self, field, value) rawget(self, "__servant")[field] = value end
function registered.__tostring(self) return tostring(rawget(self, "__reference")) end

function ORB:newservant(impl, key)
  if impl == nil then assert.illegal(impl, "servant's implementation") end
  if key ~= nil then assert.type(key, "string", "servant's key") end
  if not self.serving then error(fault.new("badsetup", "the ORB was shut down"), 0) end
  if getmetatable(impl) == registered then impl = rawget(impl, "__servant") end
  if key == nil and type(impl) == "table" then key = impl.__objkey end
  if key == nil and self.known[impl] then return self.known[impl] end
  if key == nil then
    self.serial = self.serial + 1
    key = ("_%s%x"):format(self.stamp, self.serial)
  end
  local current = self.objects[key]
  if current then
    if rawget(current, "__servant") ~= impl then error(fault.new("badobjkey", "object key already in use (got $key)", { key = key }), 0) end
    return current
  end
  local ref = setmetatable({ host = self.address, port = self.port, object = key }, reference)
  local servant = setmetatable({ __servant = impl, __objkey = key, __reference = ref, __orb = self }, registered)
  self.objects[key], self.known[impl] = servant, servant
  return servant
end

--- Ends an object, by its key, servant or implementation: its servant | nil, exception.
function ORB:deactivate(object)
  local key = type(object) == "string" and object or getmetatable(object) == registered and rawget(object, "__objkey")
  local servant = self.objects[key] or self.known[object]
  if not servant then return nil, fault.new("badobjkey", "unknown object key (got $key)", { key = tostring(key or object) }) end
  self.objects[rawget(servant, "__objkey")], self.known[rawget(servant, "__servant")] = nil, nil
  return servant
end

function ORB:knows(key) return self.objects[key] ~= nil end
function ORB.tostring(_, object) return tostring(object) end

local function method(self, key, operation)
  local servant = self.objects[key]
  if not servant then error(fault.new("badobjkey", "unknown object key (got $key)", { key = tostring(key) }), 0) end
  local impl = rawget(servant, "__servant")
  local f = type(operation) == "string" and type(impl) ~= "function" and impl[operation]
  if type(f) ~= "function" then error(fault.new("badobjop", "operation $operation is illegal", { operation = tostring(operation) }), 0) end
  return impl, f
end

-- A request that has come.
local function dispatch(self, key, operation, ...)
  local turn <close> = self.gate:enter()         -- luacheck: ignore turn
  local request = pack(...)
  request.operation, request.object_key = operation, key
  if intercept(self, "server", "receiverequest", request) and request.success == nil then
    local found, impl, f = pcall(method, self, key, operation)
    if not found then set(request, false, impl) else
      set(request, xpcall(f, self.exhandler or function(e) return e end, impl, unpack(request, 1, request.n)))
    end
  end
  intercept(self, "server", "sendreply", request)
  if not request.success then error(request[1], 0) end
  return unpack(request, 1, request.n)
end

-- ---- making, running ----

local function log(text) verbose:say(1, "%s", text) end

--- oil.init's: the table becomes the ORB.
function ORB.__new(class, config)
  local self = oo.rawnew(class, config)
  self.objects, self.known, self.serial, self.stamp = {}, setmetatable({}, { __mode = "k" }), 0, ("%x"):format(math.random(0) & 0xffffffff)
  self.localrefs, self.kinds, self.limit = self.localrefs or "implementation", {}, (self.tcpoptions or {}).timeout
  for kind in pairs(KINDS) do self.kinds[kind] = class_of(self, kind) end
  local function away(value) return refer(self, value) end
  local function home(ref) return resolve(self, ref) end
  self.client, self.gate, self.ended = client.new(away, home), gate.new(self.cooperative), channel.new()
  local host = self.host and self.host ~= "*" and self.host or nil
  local fine, err = pcall(function()
    local broker = ludo.init { oil = true, log = log, host = host or "0.0.0.0", port = self.port or 0 }
    broker.dispatcher = { call = function(...) return dispatch(self, ...) end, refer = away, resolve = home }
    self.broker = broker
    self.port, self.address = broker:open(), host or endpoint.own "0.0.0.0"
  end)
  if not fine then
    if self.broker then self.broker:close() end
    error(fault.new("badsocket", tostring(err)), 0)
  end
  if self.cooperative then cothread.hold() end
  self.serving = true
  return self
end

function ORB:pending(seconds) return self.gate:pending(seconds) end
function ORB:step(seconds) return self.gate:step(seconds) end

--- Serves until the ORB is shut down.
function ORB:run()
  if not self.serving then error(fault.new("badsetup", "setup missing"), 0) end
  if self.cooperative then
    self.ended:receive()
    return true
  end
  repeat until not self.gate:step()
  return true
end

--- Ends serving: what was begun is served to its end. Calls of proxies go on working.
function ORB:shutdown()
  if not self.serving then error(fault.new("badsetup", "setup missing"), 0) end
  self.serving = false
  self.gate:close()
  fiber.spawn(self.broker.shutdown, self.broker)           -- a servant may have called this: its reply is waited for
  fiber.yield()
  self.ended:close()
  if self.cooperative then cothread.release() end
end

-- ---- exceptions, interceptors ----

function ORB.newexcept(_, body)
  assert.type(body, "table", "exception body")
  return Exception(body)
end

function ORB:setexcatch(handler) self.catcher = handler end
function ORB:settimeout(seconds) self.limit = seconds end

function ORB:setexhandler(handler)
  local before = self.exhandler
  self.exhandler = handler
  return before
end

--- Sets an interceptor: "client", "server", or nothing: both. nil: none.
function ORB:setinterceptor(interceptor, where)
  for _, side in ipairs(where == nil and BOTH or SIDES[where] or assert.illegal(where, "interception point")) do
    self[side .. "_interceptor"] = interceptor
  end
end

function ORB:setclientinterceptor(interceptor) return self:setinterceptor(interceptor, "client") end
function ORB:setserverinterceptor(interceptor) return self:setinterceptor(interceptor, "server") end

--- The interceptor of a side; without one of both, if it is the same.
function ORB:getinterceptor(where)
  local sides = where == nil and BOTH or SIDES[where] or assert.illegal(where, "interception point")
  local first, last = self[sides[1] .. "_interceptor"], self[sides[#sides] .. "_interceptor"]
  return first == last and first or nil
end

-- ---- what there is not ----

for _, name in ipairs { "loadidl", "loadidlfile", "loadparsedidl", "getLIR", "getIR", "setIR", "newencoder", "newdecoder", "setonerror" } do
  ORB[name] = function() error(fault.new("badsetup", ("flavor 'ludo' has no IDL and no CORBA: there is no %s"):format(name)), 0) end
end

return ORB
