--[[
mare.oil.orb: OiL's ORB over a broker of mare.

It is the table that the program gave to oil.init. `broker` is the broker; what its marshalling asks for, references in and out, is answered here
by OiL's
proxies and implementations (`attach`). So they need no conversion anywhere; all other values have theirs in mare.oil.convert.

`generation` grows when IDL is loaded: what is remembered of interfaces is out of date then.
]]
local channel = require "mare".channel
local orb_module = require "mare.orb"
local basic = require "mare.orb.idl.basic"
local ior = require "mare.orb.giop.ior"
local assert = require "mare.oil.assert"
local codec = require "mare.oil.codec"
local convert = require "mare.oil.convert"
local cothread = require "mare.oil.cothread"
local descriptor = require "mare.oil.descriptor"
local discover = require "mare.oil.discover"
local Exception = require "mare.oil.Exception"
local fault = require "mare.oil.fault"
local flavors = require "mare.oil.flavors"
local gate = require "mare.oil.gate"
local icept = require "mare.oil.icept"
local oo = require "mare.oil.loop"
local proxies = require "mare.oil.proxies"
local reference = require "mare.oil.reference"
local servants = require "mare.oil.servants"
local typeset = require "mare.oil.typeset"
local verbose = require "mare.oil.verbose"

local ORB = oo.class()

local KINDS = { synchronous = true, asynchronous = true, protected = true }

-- ---- the broker ----

local FIELDS = { tcpoptions = "table", objrefaddr = "table", extraproxies = "table", idlpaths = "table", valuefactories = "table", options = "table",
                 objectmap = "table", keyprefix = "string" }
local LOCALREFS = { implementation = true, servant = true, proxy = true }

-- Fields that nobody knows are the program's own: the table becomes its ORB.
local function check(config)
  for name, expected in pairs(FIELDS) do
    if config[name] ~= nil then assert.type(config[name], expected, name, "badinitialize") end
  end
  if config.localrefs ~= nil and not LOCALREFS[config.localrefs] then
    assert.illegal(config.localrefs, "localrefs (implementation, servant or proxy expected)", "badinitialize")
  end
  local additional = config.objrefaddr and config.objrefaddr.additional or {}
  assert.type(additional, "table", "objrefaddr.additional", "badinitialize")
  for _, more in ipairs(additional) do
    assert.type(more, "table", "address of objrefaddr.additional", "badinitialize")
    assert.type(more.host, "string", "host of objrefaddr.additional", "badinitialize")
    assert.type(more.port, "number", "port of objrefaddr.additional", "badinitialize")
  end
end

local function log(level, text) verbose:say(level <= 2 and 1 or 3, "%s", text) end

local function options_of(config)
  local tcp, address = config.tcpoptions or {}, config.objrefaddr or {}
  local given = { log = log, ORBverifyObjectExistsAndType = 0, timeout = tcp.timeout or nil, connect_timeout = tcp.timeout or nil,
                  limits = { linger = 0.1 }, include = config.idlpaths, port = config.port }
  if config.host and config.host ~= "*" then given.host = config.host end
  for name, value in pairs(config.options or {}) do given[name] = value end
  for _, more in ipairs(address.additional or {}) do
    given.ORBendPointPublish = given.ORBendPointPublish or { "addr" }
    table.insert(given.ORBendPointPublish, ("giop:tcp:%s:%d"):format(more.host, more.port))
  end
  return given
end

-- Does a reference lead to where this ORB serves? -> true, key
local function here(self, bytes)
  local server = self.broker.server
  local addresses = server and server.state == "open" and server.here
  local profile = addresses and reference.profile(reference.of(bytes))
  local at = profile and profile.decoded
  if at and addresses[at.host .. "\0" .. at.port] then return true, profile.key end
end

-- The entry that a reference leads to, if it is one of ours.
local function local_entry(self, bytes)
  local at, key = here(self, bytes)
  return at and self.servants:find(key) or nil
end

--- The key of a reference to an object of this ORB | nil.
function ORB:key_of(ref) return select(2, here(self, reference.bytes(ref))) end

local function registered_of(self, entry)
  return entry.__registered or self.servants:register(entry.__servant, entry.__objkey, entry.__type)
end

-- A reference from outside: an implementation, a servant or a proxy.
local function reference_in(self, bytes, T)
  local entry = self.localrefs ~= "proxy" and local_entry(self, bytes)
  if entry then return self.localrefs == "servant" and registered_of(self, entry) or entry.__servant end
  local def = T and T.kind == "interface" and T.id ~= basic.object.id and self.broker.repository:lookup(T.id)
  if not def or def.kind ~= "interface" then def = basic.object end
  local own = self.broker:interface_in(bytes)
  if own and self.broker:is_a(own, def.id) then def = own end
  return self.kinds.synchronous:bind(reference.of(bytes), descriptor.dress(def))
end

-- To the outside. Any other value becomes a servant of the interface that is expected.
local function reference_out(self, value, T)
  local ref = (type(value) == "table") and (proxies.is(value) or servants.is(value)) and rawget(value, "__reference")
  if not ref and type(value) == "table" then
    if getmetatable(value) == reference then ref = value
    elseif orb_module.is_proxy(value) then return rawget(value, "_ior") end
  end
  if ref then return reference.bytes(ref) end
  local server = self.broker.server
  if server and server.adapter:of(value) then return server:reference_out(value, T) end     -- of the interface repository
  local kind = type(value)
  if kind ~= "table" and kind ~= "userdata" and kind ~= "function" then return nil, "object reference expected, got " .. kind end
  local r = self.servants:register(value, nil, T)
  if not descriptor.unaliased(r.__type):is_a(T.id) then
    error(fault.new("badtype", ("the servant's interface is %s, not %s"):format(r.__type.id, T.id)), 0)
  end
  return reference.bytes(rawget(r, "__reference"))
end

local function reference_type(value)
  if proxies.is(value) then return value.__type end
  if servants.is(value) then return rawget(value, "__type") end
  return nil
end

-- The broker's references are mare's proxies only where this module asks for them (broker:bind), never in messages.
local function attach(self)
  local broker = self.broker
  broker.proxies = setmetatable({}, { __mode = "v" })
  broker.reference_in = function(_, bytes, T) return reference_in(self, bytes, T) end
  broker.reference_out = function(_, value, T) return reference_out(self, value, T) end
  broker.reference_type = function(_, value) return reference_type(value) end
end

-- ---- making ----

local function kinds_of(self, config)
  local kinds = {}
  for name in pairs(KINDS) do kinds[name] = proxies.new(self, name) end
  for _, name in ipairs(config.extraproxies or {}) do
    if not KINDS[name] then assert.illegal(name, "proxy kind") end
  end
  return kinds
end

local function serve(self, config)
  self.servants = servants.new(self, config.objectmap, config.keyprefix)
  self.objectmap = self.servants.map
  self.gate, self.ended = gate.new(self.cooperative), channel.new()
  local broker = self.broker
  broker:locator(function(key) return self.servants:locate(key) end)
  local host, port = broker:address():match "^%[?(.-)%]?:(%d+)$"
  self.port, self.address = tonumber(port), host
  if self.cooperative then cothread.hold() end
  self.serving = true
end

--- oil.init's: the table becomes the ORB.
function ORB.__new(class, config)
  check(config)
  local flavor = flavors.read(config.flavor)
  if flavor.ludo then
    config.flavor, config.cooperative, config.byref = flavor.names, flavor.cooperative, flavor.byref
    return require "mare.oil.ludo"(config)
  end
  local self = oo.rawnew(class, config)
  self.flavor, self.cooperative = flavor.names, flavor.cooperative
  self.localrefs = config.localrefs or "implementation"
  self.valuefactories = config.valuefactories or {}
  self.generation, self.operations = 0, setmetatable({}, { __mode = "k" })
  local fine, broker = pcall(orb_module.init, options_of(config))
  if not fine then error(fault.inward(broker), 0) end
  self.broker = broker
  self.convert = convert.new(broker, self.valuefactories)
  self.kinds = kinds_of(self, config)
  self.types = typeset.new(self)
  self.TypeRepository = { types = self.types }
  attach(self)
  local opened, err = pcall(serve, self, config)
  if opened then return self end
  self.broker:close()
  error(fault.inward(err), 0)
end

-- ---- IDL ----

--- What is remembered of interfaces may be out of date.
function ORB:renew()
  self.generation = self.generation + 1
  self.broker.classes, self.broker.known, self.broker.typed = {}, {}, {}
  self.broker.proxies = setmetatable({}, { __mode = "v" })
  if self.broker.server then
    self.broker.server.dispatch:forget()
    self.servants:renew()
  end
  self.convert = convert.new(self.broker, self.valuefactories)
  self.operations = setmetatable({}, { __mode = "k" })
end

local function loaded(self, fine, definitions)
  if not fine then error(Exception { tostring(definitions), error = "badidl" }, 0) end
  self:renew()
  for _, def in ipairs(definitions) do descriptor.dress(def) end
  return table.unpack(definitions)
end

local function idl_options(self, paths) return { include = paths or self.idlpaths, replace = true, lenient = true } end

--- Loads IDL: its definitions. What was defined otherwise before is so from now on.
function ORB:loadidl(text, paths)
  assert.type(text, "string", "IDL specification")
  return loaded(self, pcall(self.broker.load, self.broker, text, idl_options(self, paths)))
end

function ORB:loadidlfile(path, paths)
  assert.type(path, "string", "IDL file path")
  return loaded(self, pcall(self.broker.loadfile, self.broker, path, idl_options(self, paths)))
end

function ORB:loadparsedidl(def)
  assert.type(def, "table", "IDL description")
  return self.types:register(def)
end

--- What is to be known of an operation: its definition and conversions.
function ORB:conversion(def)
  local op = self.operations[def]
  if not op then
    op = self.convert:operation(def)
    self.operations[def] = op
  end
  return op
end

--- The operation of an interface by its name.
function ORB:operation(def, name)
  local latest = self.broker.repository.ids[def.id] or def
  local found = self.broker.repository:operations(latest)[name]
  if not found then error(fault.new("badobjop", "operation $operation is illegal", { operation = name }), 0) end
  return self:conversion(found)
end

--- The members of an exception that an operation has raised, converted.
function ORB:raised(def, err)
  if type(err) ~= "table" then return err end
  for _, T in ipairs(def.raises or {}) do
    if T.id == err._repid then
      local into = self.convert:into(T)
      return into and into(err, {}) or err
    end
  end
  return err
end

-- ---- proxies ----

local function bytes_of(self, what)
  if type(what) == "string" then
    local fine, native = pcall(self.broker.proxy, self.broker, reference.text(what), "Object")
    if not fine then error(fault.inward(native), 0) end
    return native and rawget(native, "_ior") or ior.null
  end
  if type(what) == "table" then
    local ref = getmetatable(what) == reference and what or what.__reference
    if ref then return reference.bytes(ref) end
    local bytes = self.broker.env.iors[what]
    if bytes then return bytes end
  end
  error(fault.new("badobjref", "an object reference is a text or a proxy"), 0)
end

local function kind_of(self, kind)
  kind = kind or "synchronous"
  return self.kinds[kind] or assert.illegal(kind, "proxy kind")
end

local function typed(self, what)
  if what == nil then return nil end
  local def, err = self.types:resolve(what)
  if not def then error(err, 0) end
  if def.kind ~= "interface" then assert.illegal(def, "interface", "BAD_PARAM") end
  return def
end

--- A proxy of a reference, IOR or corbaloc, or of another proxy.
function ORB:newproxy(what, kind, type_)
  local class = kind_of(self, kind)
  local bytes = bytes_of(self, what)
  if bytes == ior.null then return nil end
  local def = typed(self, type_)
  if not def and proxies.is(what) then def = typed(self, what.__type) end
  if not def then def = self:discover(bytes) end
  return class:bind(reference.of(bytes), def)
end

--- A proxy of the same object through another interface; without one, through that which the object says it has.
function ORB:narrow(object, type_)
  if not object then return nil end
  assert.type(object, "table", "object proxy")
  local bytes = bytes_of(self, object)
  return self.kinds.synchronous:bind(reference.of(bytes), typed(self, type_) or self:discover(bytes))
end

--- The interface of an object that nobody has said: what its reference tells, else the object itself.
function ORB:discover(bytes)
  local def = self.broker:interface_in(bytes)
  if def then return descriptor.dress(def) end
  return discover.object(self, bytes)
end

--- Reads an unknown definition from the repository that setIR has named | nil.
function ORB:import(name) return discover.named(self, name) end

-- ---- servants ----

function ORB:newservant(impl, key, type_)
  if impl == nil then assert.illegal(impl, "servant's implementation") end
  if key ~= nil then assert.type(key, "string", "servant's key") end
  if not self.serving then error(fault.new("badsetup", "the ORB was shut down"), 0) end
  return self.servants:register(impl, key, type_)
end

--- Ends an object, by its key, servant or implementation: its entry | nil, exception.
function ORB:deactivate(object, type_)
  if not object then assert.illegal(object, "object reference (servant, implementation or object key expected)") end
  return self.servants:deactivate(object, type_)
end

--- Whether there is an object with a key.
function ORB:knows(key) return key ~= nil and self.servants:find(key) ~= nil end

function ORB.tostring(_, object) return tostring(object) end

-- ---- running ----

function ORB:pending(seconds) return self.gate:pending(seconds) end
function ORB:step(seconds) return self.gate:step(seconds) end

--- Serves until the ORB is shut down.
function ORB:run()
  if not self.serving then error(fault.new("badsetup", "setup missing"), 0) end
  if self.cooperative then
    self.ended:receive()
    return true
  end
  self.stopped = false
  repeat until not self.gate:step() or self.stopped
  return true
end

--- Ends serving: what was begun is served to its end. Calls of proxies go on working.
function ORB:shutdown()
  if not self.serving then error(fault.new("badsetup", "setup missing"), 0) end
  self.serving, self.stopped = false, true
  self.broker.server:leave()
  self.gate:close()
  self.ended:close()
  if self.cooperative then cothread.release() end
end

-- ---- exceptions ----

--- Makes an exception: { name or repository id, members… }.
function ORB:newexcept(body)
  assert.type(body, "table", "exception body")
  local name = body[1]
  local def = type(name) == "string" and self.types:lookup(name) or type(name) == "string" and self.types:lookup_id(name)
  local id = def and def.id
  if not id and type(name) == "string" then
    local short = name:match "^:?:?CORBA::([%u_]+)$" or name:match "^([%u_]+)$"
    if short and fault.system(short) then id = fault.system(short) elseif name:find "^IDL:" then id = name end
  end
  if id then body._repid = id end
  return Exception(body)
end

--- function(proxy, exception, operation) that gives the results of calls that fail, of one interface or all. nil: none.
function ORB:setexcatch(handler, type_)
  local def = typed(self, type_)
  for _, kind in pairs(self.kinds) do kind:setexcatch(handler, def) end
end

--- Seconds that a call may take, of one interface or all. nil: for ever.
function ORB:settimeout(seconds, type_)
  proxies.check_timeout(seconds)
  local def = typed(self, type_)
  for _, kind in pairs(self.kinds) do kind:settimeout(seconds, def) end
end

--- function(error) that gives what is raised instead, called where a servant raises. -> the one before
function ORB:setexhandler(handler)
  local before = self.exhandler
  self.exhandler = handler
  return before
end

--- function(error, tag) that is told of errors nobody else hears of. -> the one before
function ORB:setonerror(callback)
  local before = self.onerror
  self.onerror = callback
  return before
end

function ORB:notify(err, tag)
  local f = self.onerror or function(e, t) io.stderr:write("OiL caught error: [", t, "] ", tostring(e), "\n") end
  pcall(f, err, tag)
end

-- ---- interceptors ----

local SIDES = { client = { "client" }, server = { "server" }, ["corba.client"] = { "client" }, ["corba.server"] = { "server" },
                corba = { "client", "server" } }

--- Sets an interceptor: "corba.client", "corba.server", "corba" (both); "client", "server", or nothing: both. nil: none.
function ORB:setinterceptor(interceptor, where)
  local sides = where == nil and SIDES.corba or SIDES[where] or assert.illegal(where, "interception point")
  if interceptor ~= nil then icept.connect(self) end
  for _, side in ipairs(sides) do
    self[side .. "_interceptor"] = interceptor ~= nil and { object = interceptor, older = not (where or ""):find "^corba" } or nil
  end
end

function ORB:setclientinterceptor(interceptor) return self:setinterceptor(interceptor, "corba.client") end
function ORB:setserverinterceptor(interceptor) return self:setinterceptor(interceptor, "corba.server") end

--- The interceptor of a side; without one of both, if it is the same.
function ORB:getinterceptor(where)
  local sides = where == nil and SIDES.corba or SIDES[where] or assert.illegal(where, "interception point")
  local first = self[sides[1] .. "_interceptor"]
  local last = self[sides[#sides] .. "_interceptor"]
  if first and last and first.object == last.object then return first.object end
end

-- ---- marshalling ----

function ORB:newencoder() return codec.encoder(self) end

function ORB:newdecoder(data)
  assert.type(data, "string", "byte stream")
  return codec.decoder(self, data)
end

-- ---- interface repositories ----

--- The repository of what was loaded, as an object.
function ORB:getLIR() return discover.repository(self) end

--- The repository that is asked for what is unknown, and that which setIR has named.
function ORB:getIR() return self.ir end
function ORB:setIR(ir)
  if ir ~= nil then assert.type(ir, "table", "interface repository") end
  self.ir = ir
end

return ORB
