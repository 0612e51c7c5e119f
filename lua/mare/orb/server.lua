--[[
mare.orb.server: the serving half of a broker: its objects, where it listens, how it ends.

A broker has one, made when it first needs it; it begins to listen with the first object, as a reference carries the address. While it listens,
its fibers keep the process alive (in plain Lua the main script must wait: broker:run()). States, in this order: "new", "open", "stopping"
(no connection or request is accepted, those in progress are answered), "closed".

Who does what: adapter knows the objects, dispatch makes a reply of a request, door who may come in, pool has the connections and the fibers,
endpoint the addresses, members the processes of objects that are served by several.
]]
local mare = require "mare"
local errors = require "mare.error"
local basic = require "mare.orb.idl.basic"
local adapter = require "mare.orb.adapter"
local dispatch = require "mare.orb.dispatch"
local dynamic = require "mare.orb.dynamic"
local door = require "mare.orb.door"
local endpoint = require "mare.orb.endpoint"
local exception = require "mare.orb.exception"
local intercept = require "mare.orb.intercept"
local straight = require "mare.orb.core"
local members = require "mare.orb.members"
local pool = require "mare.orb.pool"
local proxy = require "mare.orb.proxy"
local reference = require "mare.orb.reference"
local tree = require "mare.orb.poa.tree"
local ior = require "mare.orb.giop.ior"

local fiber, channel = mare.fiber, mare.channel
local system = exception.system
local OBJECT_ID = "IDL:omg.org/CORBA/Object:1.0"
local RESIDENT = ("I"):byte()                    -- what the keys of the interface repository begin with: "InterfaceRepository"

local server = {}
server.__index = server

---------------------------------------------------------------------------------------------------------------- limits

local LIMITS = { connections = 10000, handshake = 10, peer = false, requests = 100, message = 64 << 20, pending = 64 << 20, unfinished = 64,
                 idle = false, linger = 2, reply = 60, resting = 256, held = 1000, memory = 64 << 20, share = 16 << 20, stall = 5, arrive = 60 }

-- options.limits, then omniORB's names for the same.
local function limits_of(options)
  local given, limits = options.limits or {}, {}
  for name, value in pairs(LIMITS) do limits[name] = given[name] or value end
  limits.idle, limits.peer = limits.idle or nil, limits.peer or nil
  if not given.memory and options.maxMessageMemory then limits.memory = options.maxMessageMemory end
  if not given.share and options.maxMessageMemoryPerConnection then limits.share = options.maxMessageMemoryPerConnection end
  limits.share = math.min(limits.share, limits.memory)
  if not given.requests and options.maxServerThreadPerConnection then limits.requests = options.maxServerThreadPerConnection end
  if not given.message and options.giopMaxMsgSize then limits.message = options.giopMaxMsgSize end
  if not given.idle and options.inConScanPeriod and options.inConScanPeriod > 0 then limits.idle = options.inConScanPeriod end
  return limits
end

---------------------------------------------------------------------------------------------------------------- making

---@param broker table
function server.new(broker)
  local self = setmetatable({ broker = broker, state = "new", opened = {}, done = channel.new(), silent = 0,
                              own_components = setmetatable({}, { __mode = "k" }) }, server)               -- by adapter
  self.dispatch = dispatch.new(broker)
  self.adapter = adapter.new(function(interface) return self.dispatch:calls_of(interface) end,
                             function(interface, id) return self.dispatch:is_a(interface, id) end)
  self.adapter.interface_of = function(interface) return proxy.interface(broker, interface) end
  self.adapter.forward_of = function(value) return broker.env.iors[value] end
  self.dispatch.adapter, self.dispatch.objects = self.adapter, self.adapter.objects
  self.limits = limits_of(broker.options)
  self.pool = pool.new(self.dispatch, function(level, text) self.dispatch:note(level, text) end, self.limits, broker.capture, broker.native,
                       broker.offered)
  if broker.server_list then self:intercept(broker.server_list) end
  self.pool.duplex = broker.options.acceptBiDirectionalGIOP and broker.transport.duplex
  if broker.options.authenticate then self.pool.serve = door.guard(self.pool.serve, broker.options.authenticate) end
  self.door = door.new(self.pool, broker.options, self.limits, function(level, text) self.dispatch:note(level, text) end)
  self.tree = tree.new(self)
  self.adapter.tree = self.tree
  if broker.options.repository ~= false then
    self.adapter.residents = function(key) return key:byte() == RESIDENT and self:definitions():find(key) or nil end
  end
  self.adapter.removed = self.pool.record and function() straight.forget(self.pool.record) end
  return self
end

--- Requests are told to interceptors from now on: see mare.orb.intercept.server.
function server:intercept(list)
  local flow, requests, own = require "mare.orb.intercept.server", self.dispatch, self.pool.serve == self.dispatch.serve
  self.flow, requests.intercept, requests.interceptors, requests.serve, requests.failed = flow, flow, list, flow.serve, flow.failed
  list.peer, list.fresh, list.record = door.peer, flow.fresh(list), self.pool.record
  if own then self.pool.serve = flow.serve end
  if self.pool.record then straight.tell(self.pool.record, list, list.fresh()) end
end

local function admit(self, socket)
  if self.pool:room() then self.door:enter(socket) else socket:close(0) end
end

-- There are no descriptors left (ulimit -n): an idle client is asked to leave, and once a minute the log says so.
local function full(self, err)
  local now = mare.clock()
  if now >= self.silent then
    self.silent = now + 60
    self.dispatch:note(1, ("new clients wait for those that are idle: %s (%d connections)"):format(err, self.pool.count))
  end
  self.pool:spare()
end

-- One connection. True: there will be no other.
local function accept(self, listener)
  local socket, err, code = listener:accept()
  if socket then
    local fine, why = pcall(admit, self, socket)
    if fine then return end
    socket:close(0)
    error("cannot serve a connection: " .. tostring(why), 0)
  end
  if code == "EMFILE" or code == "ENFILE" then full(self, err) end
  if code == "EMFILE" or code == "ENFILE" or code == "ENOMEM" or code == "ENOBUFS" then error("cannot accept a connection: " .. err, 0) end
  return code == "EBADF"
end

-- No reason to be deaf: until a connection closes, or somebody else gives back memory or descriptors.
local function pause(self, why)
  self.dispatch:note(2, tostring(why))
  self.pool.vacancy:receive(1)
end

local function accept_all(self, listener)
  while self.state == "open" do
    local fine, over = pcall(accept, self, listener)
    if fine and over then return end
    if not fine and not pcall(pause, self, over) then fiber.yield() end
  end
end

--- Listens, if it doesn't yet.
function server:open()
  if self.state == "open" then return end
  if self.state ~= "new" then error(system("BAD_INV_ORDER", 4, "COMPLETED_NO", "the broker was shut down"), 0) end
  local opened, options = {}, self.broker.options
  for i, e in ipairs(endpoint.list(options)) do
    if options.authenticate and not e.tls then
      error(system("INITIALIZE", 0, "COMPLETED_NO", "passwords go over TLS only: with 'authenticate' all endpoints are giop:ssl:"), 0)
    end
    local fine, result = pcall(endpoint.open, e, options, self.broker.secure)
    if not fine then
      for _, other in ipairs(opened) do other.listener:close() end
      error(errors.is(result) and result or system("INITIALIZE", 0, "COMPLETED_NO", result), 0)
    end
    opened[i] = result
  end
  self.addresses = endpoint.addresses(opened, options)
  self:listen(opened)
end

--- Serves what is opened already: { listener, port, host, wildcard } each.
function server:listen(opened)
  self.opened, self.state = opened, "open"
  self.here = {}
  for _, address in ipairs(self.addresses) do self.here[address[1] .. "\0" .. address[2]] = true end
  for _, e in ipairs(opened) do
    self.here[(e.bound or e.host) .. "\0" .. e.port] = true
    if e.wildcard then
      for _, host in ipairs { "127.0.0.1", "localhost", "::1" } do self.here[host .. "\0" .. e.port] = true end
    end
    fiber.spawn { name = "orb server", main = accept_all, args = { self, e.listener } }
  end
end

--------------------------------------------------------------------------------------------------------------- references

--- What references to objects of an adapter say of who made them, and what IOR interceptors add.
function server:components(poa)
  local list = self.own_components[poa]
  if not list then
    list = intercept.components(self.broker, function(level, text) self.dispatch:note(level, text) end, { { ior.TAG_ORB_TYPE, ior.MARE } }, poa)
    self.own_components[poa] = list
  end
  return list
end

local function make_ior(self, entry)
  local poa = entry.poa or self.tree:owner(entry.key) or self.tree.plain
  local addresses = entry.addresses or self.addresses
  return ior.iiop { type_id = entry.id, addresses = addresses, key = entry.key, minor = 2,
                    components = self:components(poa), codeset = self.broker.offered, tls = self.broker.secure:offer(addresses) }
end

--- The canonical IOR of an object.
function server:ior_of(entry)
  local bytes = entry.ior
  if not bytes then
    self:open()
    bytes = make_ior(self, entry)
    entry.ior = bytes
    self.adapter.by_ior[bytes] = entry
  end
  return bytes
end

-- A table that is passed as a reference: the object it is already, or a new one of the interface that is expected.
local function implicit(self, value, T)
  local entry = self.adapter:of(value, T.id)
  if entry then return entry end
  if T.id == OBJECT_ID then
    entry = self.adapter:of(value)
    return entry, not entry and "a plain table where any object is expected has no interface: serve it first, broker:serve(table, \"Interface\")"
  end
  entry = self.adapter:activate(value, self.broker:interface(T.id))
  self.adapter:represent(value, entry)
  return entry
end

--- The canonical IOR of a servant that is passed where a reference to T is expected; it becomes an object if it is none.
function server:reference_out(value, T)
  local entry, why = implicit(self, value, T)
  if not entry then error(system("BAD_PARAM", 0, "COMPLETED_NO", why), 0) end
  return self:ior_of(entry)
end

--- Do we serve at this address, or is it that of the group (members.lua) of which this is a member?
function server:is_own(host, port)
  local name = host .. "\0" .. port
  return self.here and self.here[name] or self.group and self.group[name] or false
end

--- The object that an address and a key mean, if it is one of this server's: then a call needs no connection.
function server:locate(host, port, key)
  if self.state == "new" or not self.here or not self.here[host .. "\0" .. port] then return nil end
  return self.adapter:here(key)
end

--- The interface of the object that a value is the servant of, or nil. Of several it is the one that stands for it.
function server:interface_of(value)
  local entry = self.adapter:of(value)
  return entry and entry.interface
end

--- The servant of the object that a canonical IOR leads to, at these addresses; nil, why.
function server:servant_of(bytes, endpoints)
  local entry = self.adapter.by_ior[bytes]
  for _, e in ipairs(entry and {} or endpoints) do
    if self.here and self.here[e.host .. "\0" .. e.port] then entry = entry or self.adapter:known(e.key) or false end
  end
  if entry == nil then return nil, "the object is served elsewhere" end
  if not entry then return nil, "there is no such object" end
  if entry.group then return nil, "the object is served by processes of its own" end
  if entry.forward then return nil, "the object is served elsewhere" end
  return entry.servant
end

--- The key of a reference that leads to this server, or nil.
function server:key_of(ref)
  local bytes
  if type(ref) == "string" then bytes = reference.read(self.broker, ref) else bytes = self.broker:ior_of(ref) end
  for _, e in ipairs(bytes and self.broker:endpoints(bytes) or {}) do
    if self.here and self.here[e.host .. "\0" .. e.port] then return e.key end
  end
end

--- Calls an object that locate gave; the arguments themselves are passed.
function server:direct(entry, op, ...)
  if not self.dispatch.interceptors then return self.dispatch:call(entry, op.name, ...) end
  local outcome = self.flow.direct(self.dispatch, entry, op, nil, 0, table.pack(...))
  if outcome._forward then
    local object = self.broker:bind(outcome._forward, entry.interface or basic.object)
    return object[op.name](object, ...)
  end
  if outcome._status ~= "SUCCESSFUL" then error(outcome._error, 0) end
  return table.unpack(outcome._results, 1, outcome._results.n)
end

--- From now on who asks for this key is sent to another reference, a proxy or a text. nil: not any more.
function server:forward(key, ref)
  self:open()
  local bytes, why
  if type(ref) == "string" then bytes = reference.read(self.broker, ref)
  elseif ref ~= nil then bytes, why = self.broker:ior_of(ref) end
  if ref ~= nil and not bytes then error(system("BAD_PARAM", 0, "COMPLETED_NO", why), 0) end
  local entry = self.adapter:entry(key)
  if entry then entry.poa:leave(entry) end
  if ref == nil then return end
  entry = self.adapter:activate({}, basic.object, key)
  entry.forward = bytes
end

--------------------------------------------------------------------------------------------------------------- objects

local SERVE = { key = true, processes = true, args = true, dynamic = true }

local function check_options(options)
  if type(options) ~= "table" then error(("serve: the options are a table, such as { key = \"hello\" }, not a %s"):format(type(options)), 3) end
  for name in pairs(options) do
    if not SERVE[name] then
      error(("serve: there is no option '%s'; there are args, dynamic, key, processes"):format(tostring(name)), 3)
    end
  end
end

--- Makes an object of a servant: its reference. { key = "a name that lasts", processes = n, args = { … } }
function server:serve(servant, interface, options)
  options = options or {}
  check_options(options)
  if options.dynamic then return self:serve_dynamic(servant, interface, options) end
  local def = proxy.interface(self.broker, interface)
  self:open()
  if options.processes then return self:reference(members.serve(self, servant, def, options), def) end
  local entry = self.adapter:activate(servant, def, options.key)
  self.adapter:represent(servant, entry)
  return self:reference(entry, def)
end

-- An object whose servant gets requests as they are. Of its interface there may be no IDL.
function server:serve_dynamic(servant, interface, options)
  if type(servant) ~= "function" then error("serve: with 'dynamic' the servant is a function(request)", 0) end
  if options.processes then error("serve: 'dynamic' and 'processes' don't go together", 0) end
  local id = type(interface) == "string" and interface:find "^%a+:.+" and not interface:find "::" and interface
  local def = id and not self.broker.repository:lookup(id) and dynamic.interface(id) or proxy.interface(self.broker, interface)
  self:open()
  local entry = self.adapter:activate(servant, def, options.key)
  entry.calls = dynamic.calls(self.dispatch, def, function(operation) return self.dispatch:implicit(def, operation) end)
  self.adapter:represent(servant, entry)
  return self:reference(entry, self.broker.repository:lookup(def.id) and def or basic.object)
end

--- Serves an object whose reference another process gives out: see members.
function server:join(servant, def, key, bytes)
  local entry = self.adapter:activate(servant, def, key)
  entry.ior = bytes
  self.adapter.by_ior[bytes] = entry
  self.adapter:represent(servant, entry)
  return entry
end

--- What serve gives: a proxy whose calls are local.
function server:reference(entry, def)
  return self.broker:bind(self:ior_of(entry), def)
end

--- The first address in references: "host:port", or "unix:/path".
function server:address()
  self:open()
  local host, port = table.unpack(self.addresses[1])
  if port == 0 then return host end
  return ("%s:%d"):format(host:find(":", 1, true) and "[" .. host .. "]" or host, port)
end

--- The interface repository of what the broker has loaded; nil: the program wants none.
function server:definitions()
  if self.broker.options.repository == false then return nil end
  if not self.interfaces then self.interfaces = require "mare.orb.repository.serve".new(self) end
  return self.interfaces
end

--- How many objects there are.
function server:objects() return self.adapter.count end

-- The entries that a servant, a reference or a key means.
local function meant(self, what)
  local found = {}
  if type(what) == "string" then
    found[1] = self.adapter:entry(what)
  else
    local bytes = self.broker.env.iors[what]
    found[1] = bytes and self.adapter.by_ior[bytes]
    local entry = not found[1] and self.adapter.by_servant[what]
    while entry do
      found[#found + 1] = entry
      entry = entry.other
    end
  end
  return found
end

--- Ends objects: of a servant all that it is, of a reference or a key one. Calls in progress go on; later ones get OBJECT_NOT_EXIST.
--- False: there was none.
function server:deactivate(what)
  local found = meant(self, what)
  for _, entry in ipairs(found) do
    entry.poa:leave(entry)
    if entry.group then entry.group:stop() end
  end
  return #found > 0
end

--- Serves every key that belongs to no object (but transient ones, whose object is gone). nil: nobody does.
function server:default(servant, interface)
  if servant ~= nil then
    interface = proxy.interface(self.broker, interface)
    self:open()
  end
  self.tree.plain:set_servant(servant, interface)
end

--- f(key, operation) -> servant, interface | a reference to forward to | nil: is asked for keys that belong to no object. `operation` is nil when a
--- client only wants to know whether there is an object. What it gives is used for one request.
function server:locator(f)
  self:open()
  self.adapter.locator = f
end

--- The request that the calling fiber serves: { key =, operation =, peer = who sent it, as door.peer gives it, user = }; nil outside of one.
function server:current()
  local job = self.pool:serving()
  return job and { key = job.key, operation = job.operation, peer = door.peer(job.peer.connection.socket), user = job.user }
end

------------------------------------------------------------------------------------------------------------------ the end

-- Waits until nothing is in progress and every client has gone.
local function drain(self, seconds)
  self.pool.emptied:receive(seconds)
  if self.pool.count > 0 then self.pool:abort() end
  self.tree:finish(seconds)
  self.pool:dismiss()
  self.state = "closed"
  if not self.left then self.broker:close() end
  self.done:close()
end

-- Whatever comes of it, nobody who waits for the end waits longer.
local function finish(self, seconds, ends)
  local done, err = pcall(function()
    if ends then ends() end
    drain(self, seconds)
  end)
  if done then return end
  self.state = "closed"
  if not self.left then pcall(self.broker.close, self.broker) end
  self.done:close()
  error(err, 0)
end

local function begin(self)
  self.state = "stopping"
  for _, e in ipairs(self.opened) do e.listener:close() end
  self.door:shut()
  self.tree:close()
  self.pool:stop()
end

-- In a servant the end can't be waited for: it would wait for itself.
local function check_wait(self)
  if self.tree:inside() then
    error(system("BAD_INV_ORDER", 3, "COMPLETED_NO", "a servant can't wait for the end of its own broker; call shutdown() there"), 0)
  end
end

--- Ends serving. `wait`: true: until every request that was accepted has its reply and the clients have gone; a number of seconds: at most so
--- long, then what still runs is cancelled; nothing: returns at once, and run() tells when it is over.
function server:shutdown(wait)
  if wait ~= true and type(wait) ~= "number" then wait = nil end       -- the error of a to-be-closed variable
  if wait then check_wait(self) end
  if self.state ~= "closed" and not self.draining then             -- also once more, if there was no memory for it before
    local seconds = type(wait) == "number" and wait or nil
    local ends = members.stop_all(self, seconds)
    begin(self)
    fiber.spawn { name = "orb shutdown", main = finish, args = { self, seconds, ends } }
    self.draining = true
  end
  if wait then self.done:receive() end
end

--- Ends serving as shutdown(), and leaves the client's half as it is (mare.oil): calls of the broker's own objects, too, find nobody there.
function server:leave()
  self.left, self.here = true, {}
  for _, entry in pairs(self.adapter.objects) do entry.gone = true end
  self:shutdown()
end

--- Waits until the server has been shut down.
function server:run()
  if self.state ~= "closed" then self.done:receive() end
end

return server
