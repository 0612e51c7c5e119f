--[[
mare.orb.services.events.channel: an event channel, for clients of the event service and of the notification service.

A channel has admins, those have proxies. `consumers` are the connected proxies that lead to consumers, in no order: `offer` goes through them for
each event, from the last to the first, and takes out those who are dropped meanwhile. It waits for nobody: an event is put into queues, and what a
consumer does with it is a matter of the fiber that serves its queue (consumers.lua). So an offer is one step to all others.

limits: of administrative properties; `default` criteria as omniEvents has them: `queue` (MaxQueueLength), `poll` (PullRetryPeriod_ms), `only`
(FilterId).
]]
local admins = require "mare.orb.services.events.admins"
local event = require "mare.orb.services.events.event"
local exception = require "mare.orb.exception"
local filter = require "mare.orb.services.events.filter"
local qos = require "mare.orb.services.events.qos"

local channel = {}

local servant = {}
servant.__index = servant

local INTERFACE = "MareEvents::EventChannel"

-- ---- events ----

--- An event of a supplier's proxy goes to all who want it.
function channel.offer(self, part, e)
  self.received = self.received + 1
  if not filter.pass(part, e) then return end
  if self.only and not (type(e.any) == "table" and rawget(e.any, "_anytype") and e.any._anytype.id == self.only) then return end
  local consumers, domain, name = self.consumers, event.type_of(e)
  for i = #consumers, 1, -1 do
    local consumer = consumers[i]
    if filter.wants(consumer, e, domain, name) then consumer:take(e) end
  end
  self.service:press()
end

--- A proxy is connected to a consumer, or isn't any more.
function channel.join(self, part)
  self.consumers[#self.consumers + 1] = part
  part.index = #self.consumers
end

function channel.leave(self, part)
  local i, list = part.index, self.consumers
  if not i then return end
  local last = list[#list]
  list[i], last.index = last, i
  list[#list], part.index = nil, nil              -- in this order: the part may be the last one itself
end

-- ---- EventChannel ----

function servant.for_consumers(self) return self.consumer_admin.proxy end

function servant.for_suppliers(self) return self.supplier_admin.proxy end

servant._get_default_consumer_admin, servant._get_default_supplier_admin = servant.for_consumers, servant.for_suppliers

function servant._get_MyFactory(self) return self.service.notification end

function servant._get_default_filter_factory(self) return self.service.filters end

function servant.is_alive() return true end

local function admin_found(self, class, id)
  local admin = self.admins[id]
  if not admin or admin.kind ~= class then error(exception.user "IDL:omg.org/CosNotifyChannelAdmin/AdminNotFound:1.0", 0) end
  return admin.proxy
end

function servant.get_consumeradmin(self, id) return admin_found(self, "consumers", id) end
function servant.get_supplieradmin(self, id) return admin_found(self, "suppliers", id) end

local function all_admins(self, class)
  local ids = {}
  for id, admin in pairs(self.admins) do
    if admin.kind == class then ids[#ids + 1] = id end
  end
  table.sort(ids)
  return ids
end

function servant.get_all_consumeradmins(self) return all_admins(self, "consumers") end
function servant.get_all_supplieradmins(self) return all_admins(self, "suppliers") end

function servant.new_for_consumers(self, operator)
  local admin = admins.new(self, "consumers", operator)
  return admin.proxy, admin.MyID
end

function servant.new_for_suppliers(self, operator)
  local admin = admins.new(self, "suppliers", operator)
  return admin.proxy, admin.MyID
end

qos.add(servant, function(self)
  self.version = self.version + 1
  self.service:save(self)
end)
qos.add_admin(servant, function(self) self.service:save(self) end)

--- Ends a channel: who is connected is told.
function servant.destroy(self)
  if self.gone then return end
  self.gone = true
  for _, admin in pairs(self.admins) do admins.destroy(admin) end
  self.service:forget(self)
end

-- ---- making one ----

--- Gives a channel the admins that every one has.
function channel.complete(self)
  self.consumer_admin = self.consumer_admin or admins.make(self, "consumers", "AND_OP", 0)
  self.supplier_admin = self.supplier_admin or admins.make(self, "suppliers", "AND_OP", 1)
end

local function make(service, id, data)
  local self = setmetatable({
    kind = "channel", service = service, id = id, name = data.name, admins = {}, last_admin = data.last_admin or 1, consumers = {}, version = 1,
    qos = qos.below(service.qos), limits = qos.admin(), queue = data.queue, poll = data.poll, only = data.only,
    nconsumers = 0, nsuppliers = 0, received = 0, delivered = 0, discarded = 0, dropped = 0,
  }, servant)
  for name, value in pairs(data.qos or {}) do self.qos[name] = value end
  for name, value in pairs(data.limits or {}) do self.limits[name] = value end
  return self
end

--- A new channel. data = { name =, queue =, poll =, only =, qos =, limits = }
function channel.new(service, data)
  local self = make(service, service:new_id(), data)
  self.key = data.name
  local done, err = pcall(function()
    service:save(self)
    service:serve(self, INTERFACE)
    channel.complete(self)
  end)
  if done then return self end
  self:destroy()
  error(err, 0)
end

function servant.describe(self)
  return { name = self.name, queue = self.queue, poll = self.poll, only = self.only, last_admin = self.last_admin,
           qos = qos.own(self.qos), limits = qos.own(self.limits) }
end

function channel.restore(service, id, data)
  local self = make(service, id, data)
  self.key = data.name
  return self, INTERFACE
end

--- How much waits for its consumers, and what was lost.
function channel.figures(self)
  local waiting, discarded = 0, self.discarded
  for _, part in ipairs(self.consumers) do
    waiting = waiting + part.queue:count()
    discarded = discarded + part.queue.discarded
  end
  return { name = self.name or "", suppliers = self.nsuppliers, consumers = self.nconsumers, waiting = waiting, received = self.received,
           delivered = self.delivered, discarded = discarded, dropped = self.dropped, reference = self.proxy }
end

return channel
