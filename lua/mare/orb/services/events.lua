--[[
mare.orb.services.events: OMG's event service and, of its notification service, structured events and filters, in any broker.

  local events = require "mare.orb.services.events"
  local service = events.serve(broker, { db = "events.db", channels = { "EventChannel" } })

Who pushes, and who is pushed to, is in events/channel.lua and what it needs. Here is what all channels have in common: `parts` by their ids
(channels, admins, proxies, filters: whatever is an object and may be kept), how many there are of each, the memory of all queues (`account`), the
bytes of filters and lists of types (`kept`), and what wakes all that up again after a restart.

What strangers can make it keep is bounded by `limits`; nothing that a client does or doesn't do is waited for, but by the fiber that does it for
that client.
]]
local admins = require "mare.orb.services.events.admins"
local channel = require "mare.orb.services.events.channel"
local consumers = require "mare.orb.services.events.consumers"
local exception = require "mare.orb.exception"
local factory = require "mare.orb.services.events.factory"
local filter = require "mare.orb.services.events.filter"
local heap = require "mare.orb.services.events.heap"
local mare = require "mare"
local part = require "mare.orb.services.events.part"
local qos = require "mare.orb.services.events.qos"
local store = require "mare.orb.services.events.store"
local suppliers = require "mare.orb.services.events.suppliers"
local watch = require "mare.orb.services.events.watch"

local events = {}

part.settle(channel)

-- Events, bytes, numbers of things, seconds.
local LIMITS = { queue = 10000, bytes = 64 << 20, channels = 1000, admins = 10000, proxies = 20000, filters = 10000, constraints = 100, types = 1000,
                 kept = 64 << 20, pulls = 100, answer = 10, gone = 30, lost = 600, check = 30, poll = 0.2 }
local KEYS = { general = "omniEvents", notification = "NotificationService" }
local NONE = {}
local FACTORY = "MareEvents::Factory"
local SLOW = { drop = "drop", discard = "fifo" }

local service = {}
service.__index = service

local function say(self, level, format, ...) self.broker.log(level, "events: " .. format:format(...)) end

--- To the log. Raises nothing.
function service:say(level, format, ...) pcall(say, self, level, format, ...) end

--- There was no memory for something that has to be done: watch.mend does it soon. Raises nothing; if there isn't even memory for this, it is done
--- with the next round.
function service:later() pcall(self.wake.try_send, self.wake, true) end

-- ---- parts ----

function service:new_id()
  local id, err = self.store:new_id()
  if not id then error(exception.system("PERSIST_STORE", 0, "COMPLETED_NO", "ids can't be written: " .. err), 0) end
  return id
end

-- Admins of both kinds count as such.
local function counted(p) return p.MyID and "admin" or p.kind end

local function activate(self, p, interface)
  return self.broker:serve(p, interface, { key = p.key or self.store.path and ("events/%d"):format(p.id) or nil })
end

--- Makes an object of a part. What is kept has a key that lasts.
function service:serve(p, interface)
  self.parts[p.id] = p
  self.counts[counted(p)] = self.counts[counted(p)] + 1
  local done, result = pcall(activate, self, p, interface)
  if not done then
    self:forget(p)
    error(result, 0)
  end
  p.proxy = result
  return result
end

--- Makes an object of a proxy of the store. Nobody may ask for its reference: that is made by service:reference then.
function service:revive(p, interface)
  local server = self.broker:need_server()
  self.parts[p.id] = p
  self.counts.proxy = self.counts.proxy + 1
  p.entry = server.adapter:activate(p, self.broker:interface(interface), ("events/%d"):format(p.id))
  server.adapter:represent(p, p.entry)
end

--- The reference of a part.
function service:reference(p)
  p.proxy = p.proxy or self.broker:need_server():reference(p.entry, p.entry.interface)
  return p.proxy
end

--- Keeps what a part is now. Raises if that can't be written.
function service:save(p)
  if not self.store.path or p.gone then return end
  local data, client = p:describe()
  local done, err = true, nil
  if data then done, err = self.store:put(p.id, p.kind, data, client) end
  if not done then error(exception.system("PERSIST_STORE", 0, "COMPLETED_NO", "it can't be written: " .. err), 0) end
end

--- What has gone is taken out of the file.
function service:flush()
  local done, err = self.store:flush()
  if not done then self:say(1, "what has gone can't be taken out of the file: %s", err) end
end

local function flush_soon(self)
  mare.sleep(0.05)
  self:flush()
end

local function remove(self, p)
  if not self.broker.closed then self.broker:deactivate(p) end
  local first = self.store:remove(p.id)
  self.parts[p.id] = nil
  self.counts[counted(p)] = self.counts[counted(p)] - 1
  for _, bytes in next, p.kept or NONE do self.kept = self.kept - bytes end
  if first and not self.closed then mare.fiber.spawn { main = flush_soon, args = { self }, daemon = true } end
end

--- A part has ended: it is no object any more. Where there is no memory, later: it is `gone` until then. Raises nothing.
function service:forget(p)
  p.gone = true
  if self.parts[p.id] == p and not pcall(remove, self, p) then self:later() end
end

--- The filters of a part, as the store has them.
function service:attach(p, list)
  for _, a in ipairs(list or {}) do
    local f = self.parts[a.filter]
    if f and f.kind == "filter" then p.filters[#p.filters + 1] = { id = a.id, filter = f } end
  end
  self:charge(p, "filters", #p.filters * filter.ATTACHED, true)
end

--- The channels in the order in which they were made.
function service:channels()
  local list = {}
  for _, p in pairs(self.parts) do
    if p.kind == "channel" then list[#list + 1] = p end
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list
end

--- The channel of a name, or nil.
function service:find(name)
  for _, p in pairs(self.parts) do
    if p.kind == "channel" and p.name == name then return p end
  end
end

--- May a channel be called so? Its name is its key.
function service:is_free(name)
  return not self:find(name) and not name:find "^events/" and not self.broker.server.adapter.objects[name]
end

-- ---- what is bounded ----

--- A part keeps so many bytes of what clients said of `what` ("constraints", "types", "filters"). Raises NO_RESOURCES, and changes nothing, if that
--- makes more than there may be; what was kept before is `restored` whatever it takes.
function service:charge(p, what, bytes, restored)
  local before = p.kept and p.kept[what] or 0
  local after = self.kept + bytes - before
  if bytes > before and after > self.limits.kept and not restored then
    error(exception.system("NO_RESOURCES", 0, "COMPLETED_NO", ("filters and lists of types take %d bytes at most"):format(self.limits.kept)), 0)
  end
  if p.gone then return end
  p.kept = p.kept or {}
  p.kept[what], self.kept = bytes, after
end

--- A proxy that nobody ever connected to, or a supplier without a reference, gives way to a new one: the one that was used least recently, if that
--- is a minute ago.
function service:make_room()
  local oldest
  for _, p in pairs(self.parts) do
    if p.kind == "proxy" and not p.client and not p.waiting and (not oldest or p.used < oldest.used) then oldest = p end
  end
  if not oldest or mare.clock() - oldest.used < 60 then return false end
  self:say(1, "there are too many proxies: one that nobody used for longest ends")
  oldest:finish(false)
  return true
end

-- All queues in which something waits; the longest is the first.
local function by_length(parts)
  local longest = heap.new()
  for id, p in pairs(parts) do
    local n = p.kind == "proxy" and p.queue and p.queue:count() or 0
    if n > 0 then longest:add(id, -n) end
  end
  return longest
end

--- Queues must not take more memory than they may: the longest ones give way. All are looked at once, however many have to.
function service:press()
  if self.account.bytes <= self.limits.bytes then return end
  local longest = by_length(self.parts)
  while self.account.bytes > self.limits.bytes do
    local id = longest:first()
    if not id then return end
    longest:remove(id)
    local p = self.parts[id]
    if p then p:squeeze() end
    local left = p and not p.gone and p.queue:count() or 0
    if left > 0 then longest:add(id, -left) end
  end
end

-- ---- the service ----

--- The channel of a name; it is made if there is none.
function service:channel(name)
  local found = self:find(name)
  if found then return found.proxy end
  if type(name) ~= "string" or name == "" then error("channel: the name of a channel is a text", 2) end
  if not self:is_free(name) then error(("channel: there is another object called '%s'"):format(name), 2) end
  return channel.new(self, { name = name }).proxy
end

--- What every channel has done: a list of { name =, suppliers =, consumers =, waiting =, received =, delivered =, discarded =, dropped =, reference
--- = }.
function service:figures()
  local list = {}
  for i, c in ipairs(self:channels()) do list[i] = channel.figures(c) end
  return list
end

--- Ends it: its objects are no objects any more, and the file is closed. The broker goes on. What is kept goes on when it is served again, so its
--- clients are not told; if nothing is kept they are, for a second at most.
function service:close()
  if self.closed then return end
  self.closed = true
  local clients = {}
  for _, p in pairs(self.parts) do
    if p.kind == "proxy" and p.client and not p.gone then clients[#clients + 1] = p end
    p.gone = true
    if p.signal then p.signal:close() end
    if p.queue and p.kind == "proxy" then p.queue:clear() end
    if not self.broker.closed then self.broker:deactivate(p) end
  end
  for _, f in ipairs(self.factories) do
    if not self.broker.closed then self.broker:deactivate(f) end
  end
  local kept = self.store.path
  self.store:close()
  if not kept and not self.broker.closed then part.tell_all(clients) end
end

service.__close = service.close

local OPTIONS = { db = "string", limits = "table", channels = "table", slow = "string", keys = "table" }

local function check_options(options)
  for name, value in pairs(options) do
    if not OPTIONS[name] then
      error(("events.serve: there is no option '%s'; there are channels, db, keys, limits, slow"):format(tostring(name)), 3)
    end
    if type(value) ~= OPTIONS[name] then error(("events.serve: option '%s' is a %s"):format(name, OPTIONS[name]), 3) end
  end
  for name, value in pairs(options.limits or {}) do
    if not LIMITS[name] then error(("events.serve: there is no limit '%s'"):format(tostring(name)), 3) end
    if type(value) ~= "number" or value <= 0 then error(("events.serve: the limit '%s' is a number greater than 0"):format(name), 3) end
  end
  if options.slow and not SLOW[options.slow] then error("events.serve: option 'slow' is \"drop\" or \"discard\"", 3) end
end

local restorers = {
  channel = channel.restore, consumers = admins.restore, suppliers = admins.restore, filter = filter.restore,
  proxy = function(self, id, data, _, client)
    return part.restore(data.side == "consumers" and consumers or suppliers, self, id, data, client)
  end,
}

local function load(self)
  local begin = {}
  local done, err = self.store:load(function(id, kind, data, client)
    local p, interface, after = restorers[kind](self, id, data, kind, client)
    if p and kind == "proxy" then
      self:revive(p, interface)
      begin[#begin + 1] = after
    elseif p then
      self:serve(p, interface)
    else
      self.store:remove(id)                       -- of a channel that has gone
    end
  end)
  if not done then error(err, 0) end
  for _, c in ipairs(self:channels()) do channel.complete(c) end
  for _, f in ipairs(begin) do f() end
end

local function open(self, options)
  self.general, self.notify, self.filter_factory = factory.general(self), factory.notification(self), filter.factory(self)
  self.factories = { self.general, self.notify, self.filter_factory }
  self.factory = self.broker:serve(self.general, FACTORY, { key = self.keys.general })
  self.notification = self.broker:serve(self.notify, "CosNotifyChannelAdmin::EventChannelFactory", { key = self.keys.notification })
  self.filters = self.broker:serve(self.filter_factory, "CosNotifyFilter::FilterFactory", { key = self.store.path and "events/filters" or nil })
  load(self)
  for _, name in ipairs(options.channels or {}) do self:channel(name) end
  watch.begin(self)
end

--- Serves channels. { db = file of SQLite that keeps channels and who is connected, channels = { names of channels that there are at least }, slow
--- = "drop" | "discard", keys = { general =, notification = }, limits = { … } }. Raises what is wrong with the file.
function events.serve(broker, options)
  options = options or {}
  check_options(options)
  if not broker.repository:lookup "MareEvents::Factory" then broker:load("#include <MareEvents.idl>", { name = "events" }) end
  local kept, err = store.open(options.db)
  if not kept then error("events.serve: " .. err, 0) end
  local self = setmetatable({
    broker = broker, store = kept, parts = {}, counts = { channel = 0, admin = 0, proxy = 0, filter = 0 }, account = { bytes = 0 }, factories = {},
    lost = {}, kept = 0, wake = mare.channel.new(1),
    slow = SLOW[options.slow or "drop"], keys = setmetatable(options.keys or {}, { __index = KEYS }),
    limits = setmetatable(options.limits or {}, { __index = LIMITS }),
  }, service)
  self.qos = qos.below()
  self.qos.ConnectionReliability = kept.path and 1 or 0
  self.T = broker:type "CosNotification::StructuredEvent"
  local done, why = pcall(open, self, options)
  if done then return self end
  self:close()
  error("events.serve: " .. tostring(why), 0)
end

return require "mare.near".guard(events)
