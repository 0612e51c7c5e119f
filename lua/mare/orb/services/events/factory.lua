--[[
mare.orb.services.events.factory: who makes channels: the object that clients of omniEvents ask (CosLifeCycle::GenericFactory, by criteria of
omniEvents; OpenORB's create_channel and join_channel), with mare's `list`, and CosNotifyChannelAdmin::EventChannelFactory. They make the same
channels.
]]
local channel = require "mare.orb.services.events.channel"
local event = require "mare.orb.services.events.event"
local exception = require "mare.orb.exception"
local qos = require "mare.orb.services.events.qos"

local factory = {}

local function raise(name, members) error(exception.user("IDL:" .. name .. ":1.0", members or {}), 0) end

local function refuse(name, text) error(exception.system(name, 0, "COMPLETED_NO", text), 0) end

local function check_room(service)
  local most = service.limits.channels
  if service.counts.channel >= most then refuse("NO_RESOURCES", ("there are %d channels, no more"):format(most)) end
end

-- ---- as omniEvents has it ----

local general = {}
general.__index = general

function general.is_alive() return true end

local function is_channel(key) return #key == 1 and key[1].id == "EventChannel" and key[1].kind == "object interface" end

function general._supports(_, key) return is_channel(key) end
general.supports = general._supports

local function whole(scale)
  return function(value) return math.type(value) == "integer" and value >= 0 and value * scale or nil end
end

local function text(value) return type(value) == "string" and value ~= "" and value or nil end

-- What a criterion is of a channel. Those without a name are read and have no use here: events are passed on at once, and proxies have one limit
-- for all.
local CRITERIA = {
  InsName = { "name", text }, FilterId = { "only", text }, MaxQueueLength = { "queue", whole(1) }, PullRetryPeriod_ms = { "poll", whole(1e-3) },
  CyclePeriod_ns = { false, whole(1) }, MaxNumProxies = { false, whole(1) }, MaxEventsPerConsumer = { false, whole(1) },
}

function general.create_object(self, key, criteria)
  if not is_channel(key) then raise("omg.org/CosLifeCycle/NoFactory", { search_key = key }) end
  local data, wrong = {}, {}
  for _, c in ipairs(criteria) do
    local known = CRITERIA[c.name]
    local value = known and known[2](event.value_of(c.value))
    if value == nil then wrong[#wrong + 1] = c elseif known[1] then data[known[1]] = value end
  end
  if #wrong > 0 then raise("omg.org/CosLifeCycle/InvalidCriteria", { invalid_criteria = wrong }) end
  if data.queue == 0 then data.queue = nil end
  check_room(self.service)
  if data.name and not self.service:is_free(data.name) then raise("omg.org/CosLifeCycle/CannotMeetCriteria", { unmet_criteria = criteria }) end
  return channel.new(self.service, data).proxy
end

function general.create_channel(self, name)
  if not text(name) then refuse("BAD_PARAM", "the name of a channel is empty") end
  check_room(self.service)
  if not self.service:is_free(name) then raise "openorb.org/event/NameAlreadyUsed" end
  return channel.new(self.service, { name = name }).proxy
end

function general.join_channel(self, name)
  local found = self.service:find(name) or raise "openorb.org/event/EventChannelNotFound"
  return found.proxy
end

function general.list(self)
  local list = {}
  for _, c in ipairs(self.service:channels()) do list[#list + 1] = channel.figures(c) end
  return list
end

-- ---- as the notification service has it ----

local notification = {}
notification.__index = notification

function notification.create_channel(self, initial_qos, initial_admin)
  local data = { qos = qos.read_qos(self, initial_qos), limits = qos.read_admin(self, initial_admin) }
  check_room(self.service)
  local c = channel.new(self.service, data)
  return c.proxy, c.id
end

function notification.get_all_channels(self)
  local ids = {}
  for i, c in ipairs(self.service:channels()) do ids[i] = c.id end
  return ids
end

function notification.get_event_channel(self, id)
  local c = self.service.parts[id]
  if not c or c.kind ~= "channel" then raise "omg.org/CosNotifyChannelAdmin/ChannelNotFound" end
  return c.proxy
end

function factory.general(service) return setmetatable({ service = service, kind = "factory" }, general) end

function factory.notification(service) return setmetatable({ service = service, kind = "factory" }, notification) end

return factory
