--[[
mare.orb.members: one object served by several processes, each with a state of its own.

A *group* has a listening endpoint of its own. One fiber of the serving process accepts from it and hands each connection to a *member*, a
process with a broker of its own, in turn: so a client's connection stays where its state is warm, and no request changes its thread. The
object's reference leads to the main endpoint as those of all objects do; there its key is answered with LOCATION_FORWARD to the group's.

The group belongs to its server. A member ends when its channel of connections is closed: it answers what it has accepted first. One that fails
is reported and started anew, at once at first, then after pauses that grow while it fails again and again. When the server's process has
ended without a word, as one that is killed does, its members find out, and answer what they have for LAST seconds.
]]
local mare = require "mare"
local errors = require "mare.error"
local endpoint = require "mare.orb.endpoint"
local exception = require "mare.orb.exception"
local ior = require "mare.orb.giop.ior"

local fiber, channel, process = mare.fiber, mare.channel, mare.process
local MOST, QUEUE, PAUSE, LONGEST = 256, 16, 0.05, 5
local FULL, LAST = 0.01, 5                       -- seconds

local members = {}

local group = {}
group.__index = group

------------------------------------------------------------------------------------------------------- inside a member

-- The first endpoint of each kind that the server has: TCP, TLS, Unix sockets.
local function kinds_of(server)
  local list, seen = {}, {}
  for _, e in ipairs(server.opened) do
    if not seen[endpoint.kind(e)] then list[#list + 1] = e end
    seen[endpoint.kind(e)] = true
  end
  return list
end

local function any_port(e)
  if e.unix then return "giop:unix:" end
  return ("giop:%s:%s:"):format(e.tls and "ssl" or "tcp", e.host:find(":", 1, true) and "[" .. e.host .. "]" or e.host)
end

-- Options that make sense in a process that doesn't listen where the server does: for its own objects it does so at the same hosts.
local function inherited(server)
  local options, rules, listens = server.broker.options, {}, {}
  for i, e in ipairs(kinds_of(server)) do listens[i] = any_port(e) end
  for _, rule in ipairs(options.endPointPublish or {}) do
    if not rule:find("giop:", 1, true) then rules[#rules + 1] = rule end
  end
  local copy = { ORBendPoint = listens, ORBendPointPublish = rules[1] and rules }
  for _, name in ipairs { "timeout", "connect_timeout", "limits", "include", "codeset", "allow", "user", "password",
                          "authenticate", "context", "repository" } do copy[name] = options[name] end
  copy.tls, copy.interceptors = server.broker.secure:copy(), server.broker.registered
  for _, name in ipairs { "InitRef", "DefaultInitRef", "giopMaxMsgSize", "maxGIOPVersion", "inConScanPeriod", "outConScanPeriod",
                          "maxServerThreadPerConnection", "maxMessageMemory", "maxMessageMemoryPerConnection", "nativeCharCodeSet", "traceLevel",
                          "traceFile", "verifyObjectExistsAndType", "serverTransportRule", "clientTransportRule", "acceptBiDirectionalGIOP",
                          "offerBiDirectionalGIOP", "unixTransportDirectory" } do
    copy["ORB" .. name] = options[name]
  end
  if options.InitRef then
    copy.ORBInitRef = {}
    for i, r in ipairs(options.InitRef) do copy.ORBInitRef[i] = r.name .. "=" .. r.uri end
  end
  return copy
end

-- Of the server's process; while that lives it says itself when there will be no more connections.
local function outlive(server, connections, pool)
  server:wait()
  connections:close()
  mare.sleep(LAST)
  pool:abort()
end

--- The main function of a member's process.
function members.main(c)
  local broker = require "mare.orb".init(c.options)
  for _, source in ipairs(c.sources) do broker[source[1]](broker, source[2], source[3]) end
  local server = broker:need_server()
  server.group = {}
  for _, address in ipairs(c.addresses) do server.group[address[1] .. "\0" .. address[2]] = true end
  local servant = c.factory(broker, c.index, table.unpack(c.args, 1, c.args.n))
  server:join(servant, broker:interface(c.interface), c.key, c.ior)
  fiber.spawn { name = "orb server's end", main = outlive, args = { c.server, c.connections, server.pool }, daemon = true }
  c.ready:send(c.index)
  for socket in c.connections:each() do
    if server.pool:room() then server.door:enter(socket) else socket:close(0) end
  end
  broker:shutdown(c.limit:try_receive() or true)
end

------------------------------------------------------------------------------------------------------------ the processes

local function start(self, member)
  member.process = process.spawn {
    name = ("orb %s #%d"):format(self.interface.name, member.index),
    main = "require 'mare.orb.members'.main(...)",
    args = { { options = self.options, sources = self.sources, interface = self.interface.id, key = self.key, ior = self.ior, args = self.args,
               factory = self.factory, index = member.index, connections = member.connections, limit = member.limit, ready = self.ready,
               addresses = self.addresses,
               server = process.self() } },
  }
end

-- Waits for the end of a member's process, again and again.
local function watch(self, member)
  local pause = 0
  while true do
    local began = mare.clock()
    local fine, err, trace = member.process:wait()
    if self.stopping then return end
    member.down = true
    self.server.dispatch:note(1, ("process %d of '%s' ended%s; another takes its place"):format(member.index, self.interface.name,
      fine and "" or ": " .. tostring(err) .. (trace and "\n" .. trace or "")))
    pause = mare.clock() - began > LONGEST and 0 or math.min(LONGEST, pause == 0 and PAUSE or 2 * pause)
    repeat
      self.quit:receive(pause)
      if self.stopping then return end
      pause = math.max(pause, PAUSE)
    until pcall(start, self, member)             -- there may be no memory for it just now
    member.down = false
  end
end

-- The first start: all are ready, or the first error is raised and none is left.
local function start_all(self, n)
  for i = 1, n do
    local member = { index = i, connections = channel.new(QUEUE), limit = channel.new(1) }
    self[i] = member
    start(self, member)
  end
  local waiting = n
  local cases = { self.ready }
  for i, member in ipairs(self) do cases[i + 1] = member.process end
  while waiting > 0 do
    local which, _, err = mare.select(cases)
    if which ~= 1 then
      self:stop()
      error(err, 0)
    end
    waiting = waiting - 1
  end
  self.ready:close()
  self.ready = channel.new(math.huge)            -- those who come later report to nobody
end

--------------------------------------------------------------------------------------------------------------- connections

local function close_channels(self)
  for _, member in ipairs(self) do member.connections:close() end
end

-- The next one in turn that has room, of those that run if there are any: true; nil: there is none; false: the end.
local function offer(self, socket, down)
  local n = #self
  for _ = 1, n do
    self.turn = self.turn % n + 1
    local member = self[self.turn]
    if down or not member.down then
      local ok, why = member.connections:try_send(socket)
      if ok then return true end
      if why == "closed" then return false end
    end
  end
end

-- When all have as many as they should, it waits for whoever is the first to take one: one that is stuck holds up nobody else.
local function hand(self, socket)
  while true do
    local done = offer(self, socket)
    if done == nil then done = offer(self, socket, true) end
    if done ~= nil then return done end
    self.quit:receive(FULL)
  end
end

-- Should the process fail, the members learn of it here.
local function accept(self, listener)
  local guard <close> = setmetatable({}, { __close = function() close_channels(self) end })
  for socket in listener:connections() do
    if not hand(self, socket) then socket:close(0) end
  end
  return guard
end

-- Begins to end: what is accepted is answered, and in `seconds` cancelled.
function group:stop(seconds)
  if self.stopping then return end
  self.stopping = true
  self.quit:close()
  for _, listener in ipairs(self.listeners) do listener:close() end
  for _, member in ipairs(self) do
    if seconds then member.limit:try_send(seconds) end
    member.connections:close()
  end
end

function group:wait()
  for _, member in ipairs(self) do member.process:wait() end
end

------------------------------------------------------------------------------------------------------------------ serving

-- Endpoints of the group's own, as the server's.
local function open_all(self, server)
  local kinds = {}
  for i, e in ipairs(kinds_of(server)) do
    local opened = endpoint.open({ host = e.host, port = 0, tls = e.tls, unix = e.unix and "" }, server.broker.options, server.broker.secure)
    kinds[endpoint.kind(e)], self.listeners[i] = opened, opened.listener
  end
  return kinds
end

-- The hosts of the server's references with the group's ports.
local function addresses_of(server, kinds)
  local list, seen = {}, {}
  for _, address in ipairs(server.addresses) do
    local e = kinds[endpoint.kind(address)]
    local host = e and (e.unix and e.host or address[1])
    local name = e and host .. "\0" .. e.port
    if name and not seen[name] then
      seen[name] = true
      list[#list + 1] = { host, e.port, tls = address.tls, unix = e.unix, machine = address.machine }
    end
  end
  return list
end

local function check(factory, options)
  local n = options.processes
  if math.type(n) ~= "integer" or n < 1 or n > MOST then
    error(("serve: 'processes' is a number from 1 to %d, not '%s'"):format(MOST, tostring(n)), 0)
  end
  if type(factory) ~= "function" then
    error(("serve: with 'processes' the first argument is a function that makes a servant in each of them, not a %s"):format(type(factory)), 0)
  end
end

--- Starts the processes of an object: its entry. Raises what the factory raised in one of them.
function members.serve(server, factory, def, options)
  check(factory, options)
  local broker, adapter = server.broker, server.adapter
  local args = options.args or {}
  local entry = adapter:activate(factory, def, options.key)
  local self = setmetatable({
    server = server, interface = def, factory = factory, key = entry.key, args = { n = args.n or #args, table.unpack(args) },
    turn = 0, listeners = {}, options = inherited(server), sources = broker.sources, ready = channel.new(math.huge), quit = channel.new(),
    ior = server:ior_of(entry),
  }, group)
  local fine, err = pcall(function()
    local addresses = addresses_of(server, open_all(self, server))
    self.addresses = addresses
    start_all(self, options.processes)
    entry.forward = ior.iiop { type_id = def.id, addresses = addresses, key = entry.key, minor = 2, tls = broker.secure:offer(addresses),
                               components = { { ior.TAG_ORB_TYPE, ior.MARE } }, codeset = broker.offered }
  end)
  if not fine then
    adapter:remove(entry)
    self:stop()
    error((exception.is(err) or errors.is(err)) and err or exception.system("INITIALIZE", 0, "COMPLETED_NO", tostring(err)), 0)
  end
  entry.group = self
  for _, member in ipairs(self) do fiber.spawn(watch, self, member) end
  for _, listener in ipairs(self.listeners) do fiber.spawn { name = "orb processes", main = accept, args = { self, listener } } end
  return entry
end

--- Begins to end all groups of a server: a function that waits for it.
function members.stop_all(server, seconds)
  local groups = {}
  for _, poa in ipairs { server.tree.root, server.tree.plain } do
    for _, entry in pairs(poa.entries) do
      if entry.group then groups[#groups + 1] = entry.group end
    end
  end
  for _, one in ipairs(groups) do one:stop(seconds) end
  return function()
    for _, one in ipairs(groups) do one:wait() end
  end
end

return members
