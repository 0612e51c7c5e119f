--[[
mare.orb.services.events.admins: ConsumerAdmin and SupplierAdmin: who gets a proxy from a channel, and what all proxies of one admin have in common
(filters, types, quality).

An admin has `proxies` by their numbers, and a number in its channel, MyID: 0 and 1 are the two that every channel has.
]]
local consumers = require "mare.orb.services.events.consumers"
local exception = require "mare.orb.exception"
local filter = require "mare.orb.services.events.filter"
local patterns = require "mare.orb.services.events.patterns"
local qos = require "mare.orb.services.events.qos"
local suppliers = require "mare.orb.services.events.suppliers"

local admins = {}

local INTERFACES = { consumers = "CosNotifyChannelAdmin::ConsumerAdmin", suppliers = "CosNotifyChannelAdmin::SupplierAdmin" }
local COUNTS = { consumers = "nconsumers", suppliers = "nsuppliers" }
local LIMITS = { consumers = "MaxConsumers", suppliers = "MaxSuppliers" }

local classes = { consumers = {}, suppliers = {} }
local sides = { consumers = consumers, suppliers = suppliers }

local function raise(name, members) error(exception.user("IDL:omg.org/CosNotifyChannelAdmin/" .. name .. ":1.0", members), 0) end

local function refuse(name, text) error(exception.system(name, 0, "COMPLETED_NO", text), 0) end

-- ---- proxies ----

-- Room for one more: the channel's property, then the service's limit, for which a proxy that nobody is connected to gives way.
local function check_room(self, notification)
  local channel, service = self.channel, self.service
  local name = LIMITS[self.kind]
  local most = channel.limits[name]
  if most > 0 and channel[COUNTS[self.kind]] >= most then
    if notification then
      raise("AdminLimitExceeded", { admin_property_err = { name = name, value = { _anytype = service.broker:type "long", _anyval = most } } })
    end
    refuse("IMP_LIMIT", ("the channel takes %d %s (%s)"):format(most, self.kind, name))
  end
  if service.counts.proxy >= service.limits.proxies and not service:make_room() then
    refuse("NO_RESOURCES", ("there are %d proxies, no more"):format(service.limits.proxies))
  end
end

local function obtain(self, form, way, notification)
  check_room(self, notification)
  local part = sides[self.kind].new(self, form, way, notification)
  return part.proxy, part.number
end

local FORMS = { ANY_EVENT = "any", STRUCTURED_EVENT = "structured" }

-- The operation of the event service and that of the notification service.
local function add_obtain(class, plain, notification, way)
  class[plain] = function(self) return (obtain(self, "any", way, false)) end
  class[notification] = function(self, kind)
    local form = FORMS[kind] or refuse("NO_IMPLEMENT", "sequences of events are not here: structured ones come one by one")
    return obtain(self, form, way, true)
  end
end

add_obtain(classes.consumers, "obtain_push_supplier", "obtain_notification_push_supplier", "push")
add_obtain(classes.consumers, "obtain_pull_supplier", "obtain_notification_pull_supplier", "pull")
add_obtain(classes.suppliers, "obtain_push_consumer", "obtain_notification_push_consumer", "push")
add_obtain(classes.suppliers, "obtain_pull_consumer", "obtain_notification_pull_consumer", "pull")

local function ids(way)
  return function(self)
    local list = {}
    for number, part in pairs(self.proxies) do
      if part.way == way and part.notification then list[#list + 1] = number end
    end
    table.sort(list)
    return list
  end
end

classes.consumers._get_push_suppliers, classes.consumers._get_pull_suppliers = ids "push", ids "pull"
classes.suppliers._get_push_consumers, classes.suppliers._get_pull_consumers = ids "push", ids "pull"

local function found(self, number)
  local part = self.proxies[number]
  if not part or not part.notification then raise("ProxyNotFound", {}) end
  return part.service:reference(part)
end

classes.consumers.get_proxy_supplier, classes.suppliers.get_proxy_consumer = found, found

-- ---- what all have in common ----

function classes.consumers.subscription_change(self, added, removed)
  patterns.change(self, added, removed)
  self.wanted = patterns.subscribed(self.types)
  self.service:save(self)
end

-- What suppliers offer is kept, and limits nobody.
function classes.suppliers.offer_change(self, added, removed)
  patterns.change(self, added, removed)
  self.service:save(self)
end

filter.add_mapping(classes.consumers)

for kind, class in pairs(classes) do
  class.__index = class
  filter.add(class)
  qos.add(class, function(self)
    self.channel.version = self.channel.version + 1
    self.service:save(self)
  end)
  class._get_MyChannel = function(self) return self.channel.proxy end
  class.kind = kind

  --- The default ones end with their channel.
  function class.destroy(self)
    if self.MyID <= 1 then refuse("NO_PERMISSION", "this admin ends with its channel") end
    admins.destroy(self)
  end

  function class.describe(self)
    local list = {}
    for i, a in ipairs(self.filters) do list[i] = { id = a.id, filter = a.filter.id } end
    return { channel = self.channel.id, operator = self.MyOperator, number = self.MyID, types = self.types, filters = list, last = self.last_filter,
             qos = qos.own(self.qos), last_proxy = self.last_proxy }
  end
end

--- Ends an admin and all its proxies.
function admins.destroy(self)
  if self.gone then return end
  self.gone = true
  for _, part in pairs(self.proxies) do part:finish(true) end
  self.channel.admins[self.MyID] = nil
  self.service:forget(self)
end

-- ---- making one ----

local function make(channel, kind, operator, number, id)
  local self = setmetatable({
    service = channel.service, channel = channel, id = id, MyID = number, MyOperator = operator, proxies = {}, last_proxy = 0, filters = {},
    last_filter = 0, types = { patterns.ALL }, qos = qos.below(channel.qos),
  }, classes[kind])
  channel.admins[number] = self
  return self
end

--- One that has `number` in its channel.
function admins.make(channel, kind, operator, number)
  local self = make(channel, kind, operator, number, channel.service:new_id())
  local done, err = pcall(function()
    channel.service:save(self)
    channel.service:serve(self, INTERFACES[kind])
  end)
  if done then return self end
  admins.destroy(self)
  error(err, 0)
end

function admins.new(channel, kind, operator)
  local service = channel.service
  if service.counts.admin >= service.limits.admins then refuse("NO_RESOURCES", ("there are %d admins, no more"):format(service.limits.admins)) end
  channel.last_admin = channel.last_admin + 1
  service:save(channel)
  return admins.make(channel, kind, operator, channel.last_admin)
end

--- Those of a store; the default ones get what was set.
function admins.restore(service, id, data, kind)
  local channel = service.parts[data.channel]
  if not channel then return nil end
  local self = make(channel, kind, data.operator, data.number, id)
  if data.number == 0 then channel.consumer_admin = self elseif data.number == 1 then channel.supplier_admin = self end
  self.types, self.last_filter, self.last_proxy = data.types, data.last, data.last_proxy
  self.wanted = kind == "consumers" and patterns.subscribed(data.types) or nil
  for name, value in pairs(data.qos or {}) do self.qos[name] = value end
  service:charge(self, "types", patterns.size(data.types), true)
  service:attach(self, data.filters)
  return self, INTERFACES[kind]
end

return admins
