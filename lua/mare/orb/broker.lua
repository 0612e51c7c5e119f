--[[
mare.orb.broker: what holds an ORB of a process together: the IDL that was loaded, the marshalling environment, the client's connections, and, once
something is served, the server.

References. An IOR is kept in its canonical form. `env.proxies` maps it to its proxy as long as somebody has that, so one reference is one proxy;
but only if the type id in it tells the interface. Where only the place tells it (a parameter's type, what the program says) the same IOR may be seen
through several interfaces: those proxies are in `typed[interface id]`.
]]
local cdr = require "mare.orb.cdr"
local idl = require "mare.orb.idl"
local basic = require "mare.orb.idl.basic"
local codesets = require "mare.orb.giop.codesets"
local ior = require "mare.orb.giop.ior"
local duplex = require "mare.orb.duplex"
local exception = require "mare.orb.exception"
local intercept = require "mare.orb.intercept"
local interface = require "mare.orb.interface"
local invoke = require "mare.orb.invoke"
local near = require "mare.orb.near"
local object = require "mare.orb.object"
local proxy = require "mare.orb.proxy"
local reference = require "mare.orb.reference"
local secure = require "mare.orb.secure"
local transport = require "mare.orb.transport"
local types = require "mare.orb.types"
local values = require "mare.orb.value"

local broker = { __name = "broker" }
broker.__index = broker

local OBJECT = basic.object.id

local function ended() error(exception.system("BAD_INV_ORDER", 4, "COMPLETED_NO"), 0) end

local function environment(self)
  return cdr.environment {
    reference_in = function(bytes, T) return self:reference_in(bytes, T) end,
    reference_out = function(value, T) return self:reference_out(value, T) end,
    resolve = function(id) return self.repository:lookup(id) end,
    reference_type = function(value) return self:reference_type(value) end,
    custom_out = values.custom_out(self),
    custom_in = values.custom_in(self),
    fail = invoke.fail,
    buffers = self.options.octets == "buffer",
  }
end

-- What is bounded of replies: their bytes as long as they have not all come. It is a budget of its own: what a server's requests hold may depend on
-- them.
local function client_limits(options)
  local given = options.limits or {}
  return { message = options.giopMaxMsgSize, pending = given.pending, unfinished = given.unfinished, arrive = given.arrive,
           memory = given.memory or options.maxMessageMemory, share = given.share or options.maxMessageMemoryPerConnection }
end

--- A broker with the options that options.read gives; `capture` (of giop/pcap) sees all connections.
function broker.new(options, log, capture)
  local native = codesets.read(options.nativeCharCodeSet)  -- nil: UTF-8
  local wish = codesets.read(options.codeset)
  local security = secure.new(options)
  local self = setmetatable({
    options = options, secure = security, log = log, capture = capture, native = native, offered = wish or native, repository = idl.repository(),
    everywhere = object.methods, invoke = invoke.run,
    classes = {}, typed = {}, targets = setmetatable({}, { __mode = "v" }), known = {}, named = {}, operations = {},
    excepts = setmetatable({}, { __mode = "k" }),
    transport = transport.new { connect_timeout = options.connect_timeout, max_minor = options.max_minor, capture = capture,
                                unused = options.unused, native = native, codeset = wish, secure = security,
                                limits = client_limits(options) },
    references = reference.initial(options),
  }, broker)
  self.transport.duplex = duplex.new(self)
  self.sources = {}                                    -- what was loaded, for processes that serve the same: { method, text or path, options }
  self.env = environment(self)
  local env = self.env
  self.proxies, self.iors = env.proxies, env.iors
  self.programs = { string = env:program { basic.string }, system = env:program { basic.string, basic.ulong, basic.ulong },
                    object = env:program { basic.object }, short = env:program { basic.short } }
  self.types = types.view(self)
  for _, interceptor in ipairs(options.interceptors or {}) do intercept.add(self, interceptor) end
  if options.repository then self.teacher = require "mare.orb.repository.learn".new(self) end
  proxy.settle(self)
  return self
end

function broker:__tostring() return self.closed and "broker (closed)" or "broker" end

-- ---- IDL ----

local function loaded(self, definitions, errors)
  if not definitions then error("IDL:\n" .. tostring(errors), 0) end
  self.classes, self.known, self.named = {}, {}, {}    -- an interface may have been completed, or another has its name now
  if self.server then self.server.dispatch:forget() end
  return definitions
end

local LOAD = { "define", "include", "lenient", "name", "read", "replace" }

local function check_options(what, options)
  if options == nil then return end
  if type(options) ~= "table" then error(what .. ": the options are a table, such as { include = { folders } }", 3) end
  for name in pairs(options) do
    local is = false
    for _, known in ipairs(LOAD) do is = is or known == name end
    if not is then
      local meant = near(tostring(name), LOAD)
      error(("%s: there is no option '%s'%s"):format(what, tostring(name), meant and "; did you mean " .. meant .. "?" or
        "; there are " .. table.concat(LOAD, ", ")), 3)
    end
  end
end

--- Loads IDL from a text; raises its mistakes, as lines "file:line:column: message". -> the definitions
function broker:load(text, options)
  if type(text) ~= "string" then error("load takes IDL as a text, not a " .. type(text), 2) end
  check_options("load", options)
  local definitions, errors = self.repository:load(text, options)
  if definitions then table.insert(self.sources, { "load", text, options }) end
  return loaded(self, definitions, errors)
end

--- Loads IDL from a file. options: include = { folders }, define = { NAME = "value" }.
function broker:loadfile(path, options)
  if type(path) ~= "string" then error("loadfile takes the path of an IDL file, not a " .. type(path), 2) end
  check_options("loadfile", options)
  options = options or {}
  local include = self.options.include
  if include and not options.include then
    options = { include = include, define = options.define, name = options.name, replace = options.replace,
                lenient = options.lenient }
  end
  local definitions, errors = self.repository:loadfile(path, options)
  if definitions then table.insert(self.sources, { "loadfile", path, options }) end
  return loaded(self, definitions, errors)
end

--- A type from how IDL writes it: "sequence<long>", "Mod::S".
function broker:type(text)
  local T, errors = self.repository:type(text)
  if not T then error(tostring(errors), 2) end
  return T
end

--- The class of a valuetype, by its name or id: the metatable of its values.
function broker:factory(name, class) values.factory(self, types.definition(name), class) end

local function interfaces(list, names)
  for _, def in ipairs(list or {}) do
    if def.kind == "interface" then names[#names + 1] = def.scoped end
    if def.kind == "module" then interfaces(def.contents, names) end
  end
  return names
end

-- Who asks a naming service need not load its IDL. That happens as late as its interfaces are asked for: the program may load another ORB's file,
-- which differs in what its operations raise.
local function know_names(self)
  if not self.repository:lookup "CosNaming" then self:load("#include <CosNaming.idl>", { name = "names" }) end
end

-- So for those of event channels.
local function know_events(self, module)
  if not self.repository:lookup(module) then self:load("#include <CosNotifyChannelAdmin.idl>", { name = "events" }) end
end

-- The same for the interfaces of the Interface Repository, which are declared without a file.
local function know_own(self, name)
  local def = self.repository:lookup(name)
  if not (def and def.forward and not def.file) then return def end
  self:load("#include <ir.idl>", { name = "interface repository" })
  return self.repository:lookup(name)
end

local KINDS = { except = "an exception", enum = "an enum", alias = "a typedef", const = "a constant", value = "a valuetype" }

local function find_interface(self, name)
  if name == "Object" or name == "CORBA::Object" or name == OBJECT then return basic.object end
  if tostring(name):find "^CosNaming::" then know_names(self) end
  local of_events = tostring(name):match "^(CosEvent%a+)::" or tostring(name):match "^(CosNoti%a+)::"
  if of_events then know_events(self, of_events) end
  local def = know_own(self, name)
  if def and def.kind == "interface" and not (def.forward and self.teacher) then return def end
  local learned = self.teacher and (def and self.teacher:complete(def.id) or type(name) == "string" and self.teacher:named(name))
  if learned then return learned end
  if def and def.kind == "interface" then return def end
  if def then error(("'%s' is %s, not an interface"):format(name, KINDS[def.kind] or "a " .. def.kind), 0) end
  local meant = near(tostring(name), interfaces(self.repository.contents, {}))
  error(("no interface '%s' was loaded; %s"):format(tostring(name),
    meant and "did you mean " .. meant .. "?" or "load its IDL with broker:load or broker:loadfile"), 0)
end

--- The definition of an interface by its name or repository id; raises what is none, and says what may have been meant. A locator names one at each
--- request, so it is remembered until IDL is loaded; but only under its own name and id: of other ways to write them there is no end.
function broker:interface(name)
  local def = self.named[name]
  if def then return def end
  def = find_interface(self, name)
  if not def.forward and (name == def.scoped or name == def.id) then self.named[name] = def end
  return def
end

function broker:class_of(def)
  local class = self.classes[def.id]
  if not class then
    class = interface.class(self, def)
    self.classes[def.id] = class
  end
  return class
end

--- One of the operations that every object has, ready to be invoked.
function broker:operation(name)
  local op = self.operations[name]
  if not op then
    op = interface.operation(self.env, "Object", interface.everywhere[name])
    self.operations[name] = op
  end
  return op
end

--- The program of an exception alone: repository id and members.
function broker:program_of(T)
  local program = self.excepts[T]
  if not program then
    program = self.env:program { T }
    self.excepts[T] = program
  end
  return program
end

-- ---- references ----

-- The type id in a canonical IOR.
local function type_id(bytes) return string.unpack("<s4", bytes, 5):sub(1, -2) end

--- The type id in the reference of a proxy; "": it has none.
function broker.type_id_of(_, p) return type_id(rawget(p, "_ior")) end

-- The interface that the reference itself tells, if its IDL was loaded. Only such ids are remembered: strangers think of others for ever.
function broker:interface_in(bytes)
  local id = type_id(bytes)
  local def = self.known[id]
  if def then return def end
  def = id ~= OBJECT and self.repository:lookup(id) or nil
  if not def or def.kind ~= "interface" then return nil end
  self.known[id] = def
  return def
end

function broker:is_a(def, id) return id == OBJECT or def.id == id or self.repository:is_a(def, id) end

--- Where an IOR leads; all its proxies share that.
function broker:target_of(bytes)
  local target = self.targets[bytes]
  if not target then
    local endpoints = self:endpoints(bytes)
    target = { broker = self, ior = bytes, first = bytes, endpoints = endpoints, origin = endpoints, heads = {}, verified = {}, bits = 0,
               limit = self.options.giopMaxMsgSize }
    self.targets[bytes] = target
  end
  return target
end

--- The addresses of an IOR in the order in which they are tried.
function broker:endpoints(bytes) return reference.endpoints(bytes, self.options.max_minor, self.secure) end

local function make(self, bytes, def, check)
  local state = { broker = self, target = self:target_of(bytes), def = def, class = self:class_of(def), timeout = self.options.timeout,
                  check = check and def.id ~= OBJECT and self.options.verifyObjectExistsAndType }
  local p = proxy.new(bytes, def.id, state)
  self.iors[p] = bytes
  return p
end

--- The proxy of an IOR through an interface; the one its type id tells if that is this one or derived from it.
function broker:bind(bytes, def)
  local own = self:interface_in(bytes)
  if own and self:is_a(own, def.id) then
    local p = self.proxies[bytes] or make(self, bytes, own)
    self.proxies[bytes] = p
    return p
  end
  local typed = self.typed[def.id]
  if not typed then
    typed = setmetatable({}, { __mode = "v" })
    self.typed[def.id] = typed
  end
  local p = typed[bytes] or make(self, bytes, def, type_id(bytes) ~= def.id)
  typed[bytes] = p
  return p
end

--- What an object can do has been found out: its proxy goes on with that interface.
function broker:become(p, def)
  local state, bytes = proxy.state(p), rawget(p, "_ior")
  local typed = self.typed[state.def.id]
  if typed and typed[bytes] == p then typed[bytes] = nil end
  state.target.verified[def.id] = true
  state.def, state.class, state.check = def, self:class_of(def), nil
  rawset(p, "_type", def.id)
  if self:interface_in(bytes) == def then
    self.proxies[bytes] = p
  else
    self.typed[def.id] = self.typed[def.id] or setmetatable({}, { __mode = "v" })
    self.typed[def.id][bytes] = p
  end
end

--- A proxy that came from another process gets its state.
function broker:adopt(p)
  local bytes, id = rawget(p, "_ior"), rawget(p, "_type")
  local def = self:interface_in(bytes)
  if not def or not self:is_a(def, id) then def = self.teacher and (self.repository:lookup(id) or basic.object) or self:interface(id) end
  self.iors[p] = bytes
  return { broker = self, target = self:target_of(bytes), def = def, class = self:class_of(def), timeout = self.options.timeout }
end

--- Another proxy of the same object, with options of its own: timeout in seconds.
function broker:with(p, options)
  local base = proxy.state(p)
  local state = {}
  for name, value in pairs(base) do state[name] = value end
  state.async = nil
  if options.timeout ~= nil then state.timeout = options.timeout ~= 0 and options.timeout ~= math.huge and options.timeout or nil end
  local other = proxy.new(rawget(p, "_ior"), rawget(p, "_type"), state)
  self.iors[other] = rawget(p, "_ior")
  return other
end

--- The marshalling environment's: a reference from outside. An interface that only a TypeCode in the message tells is no more than Object here.
function broker:reference_in(bytes, T)
  local def = T and T.kind == "interface" and T.id ~= OBJECT and self.repository:lookup(T.id)
  if not def or def.kind ~= "interface" then def = basic.object end
  return self:bind(bytes, def)
end

--- A reference to the outside: proxies are their IOR, servants are served. nil, text for what is neither.
function broker:reference_out(value, T)
  if proxy.is(value) then
    local bytes = rawget(value, "_ior")
    self.iors[value] = bytes
    return bytes
  end
  local kind = type(value)
  if kind == "table" or kind == "function" then return self:need_server():reference_out(value, T) end
  return nil, "object reference expected, got " .. kind
end

-- The interface of a proxy: what its reference tells, unless it is used through one that is derived from that, or has nothing to do with it.
local function interface_of(self, p)
  local def = proxy.state(p).def
  local own = self:interface_in(rawget(p, "_ior"))
  return own and self:is_a(own, def.id) and own or def
end

--- What a reference is in an any. Abstract interfaces are marshalled otherwise: there it is an object. nil: the value is no reference.
function broker:reference_type(value)
  local def
  if proxy.is(value) then def = interface_of(self, value)
  else def = self.server and self.server:interface_of(value) end
  return def and def.abstract and basic.object or def
end

--- The canonical IOR of a proxy or a servant.
function broker:ior_of(value)
  return self.iors[value] or self:reference_out(value, basic.object)
end

-- The interface that another proxy of the same object is used through, perhaps one of another broker's.
local function seen_through(self, p)
  local state = proxy.state(p)
  if state.broker == self then return state.def end
  local def = self.repository:lookup(state.def.id)
  return def and def.kind == "interface" and def or nil
end

--- A proxy from a reference: IOR:…, corbaloc:…, file://…, or another proxy. Without an interface it is the other proxy's, else that of the
--- IOR's type id, else Object.
function broker:proxy(ref, name)
  local bytes, def
  if proxy.is(ref) then bytes, def = rawget(ref, "_ior"), not name and seen_through(self, ref) else bytes = reference.read(self, ref) end
  if bytes == ior.null then return nil end
  def = name and proxy.interface(self, name) or def or self:interface_in(bytes) or basic.object
  local p = self:bind(bytes, def)
  if self.teacher and not name then self.teacher:learn(p) end
  return p
end

--- As broker:proxy, by its CORBA name.
broker.string_to_object = broker.proxy

function broker:object_to_string(value)
  if value == nil then return ior.stringify(ior.null) end
  local bytes, why = self:ior_of(value)
  if not bytes then error(exception.system("BAD_PARAM", 0, "COMPLETED_NO", why), 0) end
  return ior.stringify(bytes)
end

--- The object adapter from which all others come.
function broker:poa() return self:need_server().tree.root end

local own = {                                    -- objects of the broker's, which have no reference
  RootPOA = broker.poa,
  omniINSPOA = function(self) return self:need_server().tree.plain end,
  POACurrent = function(self) return self:need_server().tree.current end,
}

--- The object of a name given by -ORBInitRef, -ORBDefaultInitRef or register_initial_reference, or one of the broker's own.
function broker:resolve_initial_references(name, interface_name)
  if own[name] then return own[name](self) end
  return self:proxy(reference.resolve(self, name), interface_name)
end

function broker:register_initial_reference(name, value)
  if type(value) ~= "string" then value = self:object_to_string(value) end
  self.references.list[name] = value
end

function broker:list_initial_services()
  local names = {}
  for name in pairs(self.references.list) do names[#names + 1] = name end
  for name in pairs(own) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- ---- interceptors ----

--- Registers an interceptor; a function is called with the broker, and gives one.
function broker:intercept(interceptor)
  intercept.add(self, interceptor)
end

--- A slot of PICurrent more: its id.
function broker:allocate_slot() return intercept.allocate(self) end

--- CORBA's PICurrent: get_slot(id) and set_slot(id, value) of the calling fiber.
function broker:pi_current() return intercept.slots(self) end

-- ---- the server's half ----

function broker:need_server()
  if self.closed then ended() end
  if not self.server then self.server = require "mare.orb.server".new(self) end
  return self.server
end

--- The servant behind a reference to an object of this broker (or the servant itself). nil, why: it is served elsewhere, or not at all.
function broker:servant(ref)
  local server = self.server
  if server and not proxy.is(ref) and server:interface_of(ref) then return ref end
  local bytes
  if proxy.is(ref) then bytes = rawget(ref, "_ior") else bytes = reference.read(self, ref) end
  if not server then return nil, "this broker serves no objects" end
  return server:servant_of(bytes, self:endpoints(bytes))
end

-- The object of this process at an address, or nil.
function broker:locate(host, port, key)
  local server = self.server
  return server and server:locate(host, port, key)
end

function broker:direct(entry, op, ...) return self.server:direct(entry, op, ...) end

for _, name in ipairs { "serve", "deactivate", "forward", "objects", "default", "locator", "current", "address" } do
  broker[name] = function(self, ...)
    local server = self:need_server()
    return server[name](server, ...)
  end
end

-- The interface repository of what was loaded, or nil.
function broker:definitions() return self:need_server():definitions() end

--- Waits until the server has been shut down.
function broker:run()
  local server = self.server or not self.closed and self:need_server()
  if server then server:run() end
end

-- ---- the end ----

--- Closes the client's connections. Calls that wait raise COMM_FAILURE, later ones BAD_INV_ORDER, and so does all else of the broker's.
function broker:close()
  if self.closed then return end
  self.closed = true
  self.transport:close()
  proxy.leave(self)
  if self.interceptors then intercept.destroy(self) end
end

--- Ends both halves: the server when the requests it has read are answered, then the client. See server.lua for what can be waited for.
function broker:shutdown(wait)
  if self.server and not self.closed then return self.server:shutdown(wait) end
  self:close()
end

broker.__close = broker.shutdown

-- What CORBA says of all operations of an ORB after its shutdown. run returns, as what it waits for has come.
for _, name in ipairs { "load", "loadfile", "type", "factory",
                        "interface", "proxy", "string_to_object", "object_to_string", "resolve_initial_references",
                        "register_initial_reference", "list_initial_services", "servant", "serve", "deactivate", "forward", "objects", "default",
                        "locator", "current", "address", "intercept", "allocate_slot", "pi_current", "poa" } do
  local f = broker[name]
  broker[name] = function(self, ...)
    if self.closed then ended() end
    return f(self, ...)
  end
end

return broker
