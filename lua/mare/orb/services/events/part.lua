--[[
mare.orb.services.events.part: a channel's proxies: what those of all kinds have in common. `consumers` are those that lead to consumers
(ProxyPushSupplier, ProxyPullSupplier …), `suppliers` those that take from suppliers.

A proxy is { side =, way = "push" | "pull" (who acts at the client's end of it), form = "any" | "structured", notification = is it of the notification
service?, connected =, client = a reference | nil, gone = }. It is kept from the time when it is connected. It ends once: by the client's word, by its
admin's end, or because the client is dropped; then it is no object any more, and the client is told, whatever comes of that.
]]
local mare = require "mare"
local channel                                     -- it needs this module: see settle
local exception = require "mare.orb.exception"
local filter = require "mare.orb.services.events.filter"
local patterns = require "mare.orb.services.events.patterns"
local qos = require "mare.orb.services.events.qos"

local part = {}

-- What a client is on the other end: its interface by form, and the operation that tells it of the end.
local CLIENTS = {
  consumers = { push = { "PushConsumer", "push_consumer" }, pull = { "PullConsumer", "pull_consumer" } },
  suppliers = { push = { "PushSupplier", "push_supplier" }, pull = { "PullSupplier", "pull_supplier" } },
}
-- What a proxy is: the opposite.
local PROXIES = {
  consumers = { push = { "ProxyPushSupplier", "push_supplier" }, pull = { "ProxyPullSupplier", "pull_supplier" } },
  suppliers = { push = { "ProxyPushConsumer", "push_consumer" }, pull = { "ProxyPullConsumer", "pull_consumer" } },
}
local TYPES = { any = { push = "PUSH_ANY", pull = "PULL_ANY" }, structured = { push = "PUSH_STRUCTURED", pull = "PULL_STRUCTURED" } }

local function client_interface(self)
  local name = CLIENTS[self.side][self.way][1]
  return self.form == "any" and "CosEventComm::" .. name or "CosNotifyComm::Structured" .. name
end

local function interface(self)
  local name = PROXIES[self.side][self.way][1]
  if not self.notification then return "CosEventChannelAdmin::" .. name end
  return "CosNotifyChannelAdmin::" .. (self.form == "structured" and "Structured" or "") .. name
end

local function raise(name) error(exception.user("IDL:omg.org/" .. name .. ":1.0", {}), 0) end

part.raise = raise

-- ---- connections ----

-- The client of an IOR, whose calls take so long at most.
local function bound(self, bytes)
  local broker = self.service.broker
  return broker:bind(bytes, broker:interface(client_interface(self))):_with { timeout = self.service.limits.answer }
end

-- A client in the same program may have given its table.
local function reference_of(self, client)
  local broker, name = self.service.broker, client_interface(self)
  local bytes, why = broker:reference_out(client, broker:interface(name))
  if not bytes then error(exception.system("BAD_PARAM", 0, "COMPLETED_NO", why), 0) end
  return bound(self, bytes)
end

--- The client, as a proxy: one of the store is its IOR until it is called.
function part.reach(self)
  if type(self.client) == "string" then self.client = bound(self, self.client) end
  return self.client
end

--- Asks a client whether it doesn't exist any more.
function part.is_gone(self) return self:reach():_non_existent() end

--- Connects a client; `needed`: nil isn't one.
function part.connect(self, client, needed)
  if self.connected then raise "CosEventChannelAdmin/AlreadyConnected" end
  if client == nil and needed then error(exception.system("BAD_PARAM", 0, "COMPLETED_NO", "a nil reference can't be connected here"), 0) end
  self.client = client ~= nil and reference_of(self, client) or nil
  self.connected, self.used = true, mare.clock()
  local done, err = pcall(self.begin, self)
  if done then done, err = pcall(self.service.save, self.service, self) end
  if done then return end
  self.connected, self.client = nil, nil
  part.leave(self)
  error(err, 0)
end

local function say_end(self, seconds)
  local operation = CLIENTS[self.side][self.way][2]
  operation = "disconnect_" .. (self.form == "structured" and "structured_" or "") .. operation
  pcall(function()
    local client = self:reach()
    if seconds then client = client:_with { timeout = seconds } end
    client[operation](client)
  end)
end

-- Tells a client of the end, without waiting for it.
local function tell(self) mare.fiber.spawn { main = say_end, args = { self }, daemon = true } end

local FAREWELL, AT_ONCE = 1, 64                   -- seconds; clients

--- Tells the clients of these proxies of the end, some at a time. It waits for them, as the program may end behind it: FAREWELL in all.
function part.tell_all(list)
  local limit, at, told = mare.clock() + FAREWELL, 0, mare.channel.new(AT_ONCE)
  local n = math.min(AT_ONCE, #list)
  for _ = 1, n do
    mare.fiber.spawn { daemon = true, main = function()
      while at < #list and mare.clock() < limit do
        at = at + 1
        say_end(list[at], math.max(0.01, limit - mare.clock()))
      end
      told:try_send(true)
    end }
  end
  for _ = 1, n do
    if told:receive(math.max(0, limit - mare.clock())) == nil then return end
  end
end

--- The end. `told`: the client is to be told.
function part.finish(self, told)
  if self.gone then return end
  self.gone = true
  self.admin.proxies[self.number] = nil
  local counted = self.side == "consumers" and "nconsumers" or "nsuppliers"
  self.channel[counted] = self.channel[counted] - 1
  self:ended()
  if told and self.client and not self.service.closed then pcall(tell, self) end     -- without memory it isn't told
  self.service:forget(self)
end

--- The end of a client that is slow, or can't be reached: it is said, and counted. `silent`: it can't be told.
function part.drop(self, why, silent)
  if self.gone then return end
  self.channel.dropped = self.channel.dropped + 1
  self.service:say(1, "a %s of channel '%s' was dropped: %s", CLIENTS[self.side][self.way][1], self.channel.name or self.channel.id, why)
  self:finish(not silent)
end

local function work(self, f)
  local done, err = pcall(f, self)
  self.busy = false
  if done then return end
  self.service:later()
  if type(err) == "table" and err.kind == "cancelled" then error(err, 0) end
end

local function begin_work(self, f) mare.fiber.spawn { main = work, args = { self, f }, daemon = true } end

--- A fiber that does what a proxy has to do, `f(self)`; it is `busy` as long as that takes. Where there is no memory, later. Raises nothing.
function part.work(self, f)
  if self.busy then return end
  self.busy = true
  if pcall(begin_work, self, f) then return end
  self.busy = false
  self.service:later()
end

-- ---- what a client's failure means ----

local GONE = { OBJECT_NOT_EXIST = true, INV_OBJREF = true, NO_PERMISSION = true, BAD_OPERATION = true, NO_IMPLEMENT = true }
local UNREACHABLE = { TRANSIENT = true, COMM_FAILURE = true, NO_RESOURCES = true }

--- "gone", "slow", "unreachable", or "failed": it is there, but raised something of its own.
function part.verdict(err)
  if type(err) == "table" and err.kind == "cancelled" then error(err, 0) end
  if exception.is(err, "IDL:omg.org/CosEventComm/Disconnected:1.0") then return "gone" end
  local name = exception.is_system(err)
  if GONE[name] then return "gone" elseif name == "TIMEOUT" then return "slow" elseif UNREACHABLE[name] then return "unreachable" end
  return "failed"
end

-- ---- operations of all proxies ----

local operations = {}

function operations._get_MyAdmin(self) return self.admin.proxy end

function operations.suspend_connection(self)
  if not self.connected then raise "CosNotifyChannelAdmin/NotConnected" end
  if self.suspended then raise "CosNotifyChannelAdmin/ConnectionAlreadyInactive" end
  self.suspended = true
end

function operations.resume_connection(self)
  if not self.connected then raise "CosNotifyChannelAdmin/NotConnected" end
  if not self.suspended then raise "CosNotifyChannelAdmin/ConnectionAlreadyActive" end
  self.suspended = nil
  self:resumed()
end

function operations.validate_event_qos(self, list) return self:validate_qos(list) end

function operations.describe(self)
  if not self.connected then return nil end
  local filters = {}
  for i, a in ipairs(self.filters) do filters[i] = { id = a.id, filter = a.filter.id } end
  return { admin = self.admin.id, side = self.side, way = self.way, form = self.form, notification = self.notification, number = self.number,
           types = self.types, filters = filters, last = self.last_filter, qos = qos.own(self.qos) },
         type(self.client) == "string" and self.client or self.client and self.service.broker:ior_of(self.client)
end

-- The types of a list that its peers offer, or subscribe to.
local function peers_types(side)
  return function(self, mode)
    if mode:find "UPDATES_ON$" then
      error(exception.system("NO_IMPLEMENT", 0, "COMPLETED_NO", "changes are not told; ask by ALL_NOW_UPDATES_OFF"), 0)
    end
    local list, known = {}, {}
    if mode ~= "ALL_NOW_UPDATES_OFF" then return list end
    for _, admin in pairs(self.channel.admins) do
      if admin.kind == side then
        for _, other in pairs(admin.proxies) do
          if other.connected then patterns.join(list, known, other.types) end
        end
      end
    end
    return patterns.changed(list, {}, { patterns.ALL })
  end
end

operations.obtain_subscription_types, operations.obtain_offered_types = peers_types "consumers", peers_types "suppliers"

--- A class of proxies: with `begin`, `ended`, `resumed` and the operations of its own added later.
function part.class(side)
  local class = { kind = "proxy", side = side, finish = part.finish, drop = part.drop, reach = part.reach, is_gone = part.is_gone }
  class.__index = class
  for name, f in pairs(operations) do class[name] = f end
  filter.add(class)
  qos.add(class, function(self)
    self.rules = nil
    self.service:save(self)
  end)
  return class
end

--- Gives a class the operations by which its clients leave.
function part.add_disconnect(class)
  for _, way in ipairs { "push", "pull" } do
    local name = PROXIES[class.side][way][2]
    class["disconnect_" .. name] = function(self) self:finish(true) end
    class["disconnect_structured_" .. name] = class["disconnect_" .. name]
  end
end

-- ---- making one ----

local function make(class, admin, id, number, form, way, notification)
  local self = setmetatable({
    service = admin.service, admin = admin, channel = admin.channel, id = id, number = number, form = form, way = way, notification = notification,
    MyType = TYPES[form][way], types = { patterns.ALL }, filters = {}, last_filter = 0, qos = qos.below(admin.qos),
  }, class)
  admin.proxies[number] = self
  local counted = class.side == "consumers" and "nconsumers" or "nsuppliers"
  self.channel[counted] = self.channel[counted] + 1
  self:made()
  return self
end

function part.new(class, admin, form, way, notification)
  admin.last_proxy = admin.last_proxy + 1
  local self = make(class, admin, admin.service:new_id(), admin.last_proxy, form, way, notification)
  self.used = mare.clock()
  local done, err = pcall(admin.service.serve, admin.service, self, interface(self))
  if done then return self end
  self:finish(false)
  error(err, 0)
end

--- One of the store, connected as it was; it begins when all is there.
function part.restore(class, service, id, data, client)
  local admin = service.parts[data.admin]
  if not admin then return nil end
  admin.last_proxy = math.max(admin.last_proxy, data.number)
  local self = make(class, admin, id, data.number, data.form, data.way, data.notification)
  for name, value in pairs(data.qos or {}) do self.qos[name] = value end
  self.types, self.last_filter = data.types, data.last
  self.wanted = class.side == "consumers" and patterns.subscribed(data.types) or nil
  service:charge(self, "types", patterns.size(data.types), true)
  service:attach(self, data.filters)
  self.client, self.connected, self.used = client, true, mare.clock()
  return self, interface(self), function() self:begin() end
end

--- The channel's module, which needs this one.
function part.settle(module) channel = module end
function part.join(self) channel.join(self.channel, self) end
function part.leave(self) channel.leave(self.channel, self) end
function part.offer(self, e) channel.offer(self.channel, self, e) end

return part
