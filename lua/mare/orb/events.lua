--[[
mare.orb.events: publishes to event channels and listens to them, mare's, omniEvents' or another's.

  local events = require "mare.orb.events"
  local channel = events.channel(broker, "corbaloc::localhost:11169/EventChannel")
  channel:subscribe(function(event) print(event._anyval) end)
  channel:publish "something happened"

A channel here is a table over the channel's object, which is its field `object`. Proxies are made when they are needed, one for all that is
published. Structured events are plain tables: { domain =, type =, name =, header = { Priority = 1 }, data = { severity = 4 }, body = any value }.
]]
local mare = require "mare"
local exception = require "mare.orb.exception"
local near = require "mare.orb.near"

local events = {}

local channel = {}
channel.__index = channel

local subscription = {}
subscription.__index = subscription

-- ---- structured events ----

local function properties(map)
  local list = {}
  for name, value in pairs(map or {}) do list[#list + 1] = { name = name, value = value } end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

local function plain(any)
  if type(any) == "table" and rawget(any, "_anytype") then return any._anyval end
  return any
end

local function map(list)
  local values = {}
  for _, p in ipairs(list) do values[p.name] = plain(p.value) end
  return values
end

local FIELDS = { domain = "string", type = "string", name = "string", header = "table", data = "table", body = false }

local function whole(from, to)
  return function(v) return math.type(v) == "integer" and v >= from and v <= to end
end

-- What the standard says of a header, for which there are types; a value that brings its type is taken as it is.
local HEADER = { Priority = { whole(-32767, 32767), "a whole number from -32767 to 32767" },
                 Timeout = { function(v) return type(v) == "number" and v >= 0 and v < 1e11 end, "a number of seconds" } }
local STANDARD = { EventReliability = true, Priority = true, StartTime = true, StopTime = true, Timeout = true }

-- Fields of one's own are allowed; one that is a letter away from the standard's is a mistake that would have no effect.
local function misspelt(name)
  local found = near(name, { "EventReliability", "Priority", "StartTime", "StopTime", "Timeout" })
  for meant in (found or ""):gmatch "[%a]+" do
    if name:sub(1, 2):lower() == meant:sub(1, 2):lower() and math.abs(#name - #meant) <= 1 then return meant end
  end
end

local function check_header(header, level)
  for name, value in pairs(header) do
    if type(name) ~= "string" then error(("a field of an event's header has a name, not %s"):format(tostring(name)), level + 1) end
    local known = HEADER[name]
    if known and not (type(value) == "table" and rawget(value, "_anytype")) and not known[1](value) then
      error(("an event's header field '%s' is %s, not '%s'"):format(name, known[2], tostring(value)), level + 1)
    end
    local meant = not STANDARD[name] and misspelt(name)
    if meant then error(("an event's header has '%s'; did you mean '%s'?"):format(name, meant), level + 1) end
  end
end

local function check_event(t, level)
  if type(t) ~= "table" then error(("a structured event is a table, not a %s"):format(type(t)), level + 1) end
  if next(t) == nil then error("an event without a field; there are body, data, domain, header, name, type", level + 1) end
  for name, value in pairs(t) do
    if FIELDS[name] == nil then
      error(("an event has no field '%s'; there are body, data, domain, header, name, type"):format(tostring(name)), level + 1)
    end
    if FIELDS[name] and type(value) ~= FIELDS[name] then error(("an event's field '%s' is a %s"):format(name, FIELDS[name]), level + 1) end
  end
  check_header(t.header or {}, level + 1)
end

local function standard_form(t)
  local header = properties(t.header)
  for _, p in ipairs(header) do                     -- the types that the standard says
    if p.name == "Priority" and math.type(p.value) == "integer" then p.value = { _anytype = "short", _anyval = p.value } end
    if p.name == "Timeout" and type(p.value) == "number" then
      p.value = { _anytype = "unsigned long long", _anyval = math.tointeger(p.value * 1e7 // 1) }
    end
  end
  return { header = { fixed_header = { event_type = { domain_name = t.domain or "", type_name = t.type or "" }, event_name = t.name or "" },
                      variable_header = header },
           filterable_data = properties(t.data), remainder_of_body = t.body }
end

--- A structured event as CosNotification has it, of a plain table.
function events.structured(t)
  check_event(t, 2)
  return standard_form(t)
end

--- The plain table of a structured event.
function events.plain(e)
  local fixed = e.header.fixed_header
  return { domain = fixed.event_type.domain_name, type = fixed.event_type.type_name, name = fixed.event_name, header = map(e.header.variable_header),
           data = map(e.filterable_data), body = plain(e.remainder_of_body) }
end

-- ---- publishing ----

-- A channel of the notification service has what that needs; of others the error says so.
local function notifying(self)
  if not self.notification then
    local found = self.object:_narrow "CosNotifyChannelAdmin::EventChannel"
    if not found then error("the channel is one of the event service: it has no structured events and no filters", 0) end
    self.notification = found
  end
  return self.notification
end

--- Publishes a value: of a type that it tells, or { _anytype =, _anyval = }. It is in the queues of all consumers when this returns.
function channel:publish(value)
  if not self.pusher then
    local pusher = self.object:for_suppliers():obtain_push_consumer()
    pusher:connect_push_supplier(nil)
    self.pusher = pusher
  end
  self.pusher:push(value)
end

local function typed(broker, list)
  for _, p in ipairs(list) do
    if type(p.value) == "table" and type(p.value._anytype) == "string" then p.value._anytype = broker:type(p.value._anytype) end
  end
end

--- Publishes a structured event.
function channel:notify(t)
  check_event(t, 2)
  local e = standard_form(t)
  typed(self.broker, e.header.variable_header)
  if not self.notifier then
    local notifier = notifying(self):for_suppliers():obtain_notification_push_consumer "STRUCTURED_EVENT"
    notifier = notifier:_narrow "CosNotifyChannelAdmin::StructuredProxyPushConsumer"
    notifier:connect_structured_push_supplier(nil)
    self.notifier = notifier
  end
  self.notifier:push_structured_event(e)
end

-- ---- listening ----

local OPTIONS = { structured = "boolean", filter = "string", types = "table", on_end = "function" }

local function check_options(options)
  for name, value in pairs(options) do
    if not OPTIONS[name] then error(("subscribe: there is no option '%s'; there are filter, on_end, structured, types"):format(tostring(name)), 3) end
    if type(value) ~= OPTIONS[name] then error(("subscribe: option '%s' is a %s"):format(name, OPTIONS[name]), 3) end
  end
  local types, n = options.types or {}, 0
  for i, name in pairs(types) do
    n = n + 1
    if types[n] == nil or type(name) ~= "string" then
      error(("subscribe: option 'types' is a list of texts, { \"Domain/Type\", … }; it has [%s] = %s"):format(tostring(i), tostring(name)), 3)
    end
  end
  if options.types and n == 0 then error("subscribe: option 'types' is an empty list: nothing would come", 3) end
end

local function types_of(list)
  local types = {}
  for i, name in ipairs(list) do
    local domain, T = name:match "^(.-)/(.*)$"
    types[i] = { domain_name = domain or "*", type_name = T or name }
  end
  return types
end

local function ended(self)
  if self.over then return end
  self.over = true
  if self.options.on_end then self.options.on_end() end
end

-- What the channel calls.
local function servant(self, f)
  local s = { offer_change = function() end }
  function s.push(_, value) f(value) end
  function s.push_structured_event(_, e) f(events.plain(e)) end
  function s.disconnect_push_consumer() ended(self) end
  function s.disconnect_structured_push_consumer() ended(self) end
  return s
end

local function add_filter(self, proxy, text)
  local filter = notifying(self):_get_default_filter_factory():create_filter "EXTENDED_TCL"
  local done, err = pcall(filter.add_constraints, filter, { { event_types = {}, constraint_expr = text } })
  if not done then
    filter:destroy()
    if exception.is(err, "IDL:omg.org/CosNotifyFilter/InvalidConstraint:1.0") then
      error("the channel doesn't understand the filter: " .. tostring(err.constr.constraint_expr), 0)
    end
    error(err, 0)
  end
  proxy:add_filter(filter)
  return filter
end

-- Gets the proxy of a subscription, and connects the consumer to it.
local function connect(self, made, options)
  if not (options.structured or options.filter or options.types) then
    made.proxy = self.object:for_consumers():obtain_push_supplier()
    return made.proxy:connect_push_consumer(made.servant)
  end
  local kind = options.structured and "STRUCTURED_EVENT" or "ANY_EVENT"
  local proxy = notifying(self):for_consumers():obtain_notification_push_supplier(kind)
  proxy = proxy:_narrow(options.structured and "CosNotifyChannelAdmin::StructuredProxyPushSupplier" or "CosNotifyChannelAdmin::ProxyPushSupplier")
  made.proxy = proxy
  if options.filter then made.filter = add_filter(self, proxy, options.filter) end
  if options.types then proxy:subscription_change(types_of(options.types), {}) end
  if options.structured then proxy:connect_structured_push_consumer(made.servant) else proxy:connect_any_push_consumer(made.servant) end
end

--- Calls f(event) for each event from now on, in order, one at a time: an any, or with { structured = true } a plain table. Options: filter = a
--- constraint, types = { "Domain/Type", … } (both need a channel of the notification service), on_end = function that is called when the channel
--- ends it.
function channel:subscribe(options, f)
  if type(options) == "function" then options, f = {}, options end
  if type(options) ~= "table" then error("subscribe takes a table of options and a function, or the function alone", 2) end
  check_options(options)
  if type(f) ~= "function" then error("subscribe takes a function that gets the events", 2) end
  local made = setmetatable({ options = options, broker = self.broker }, subscription)
  made.servant = servant(made, f)
  local done, err = pcall(connect, self, made, options)
  if done then return made end
  if made.proxy then pcall(made.close, made) end  -- else the channel would have a consumer that nobody is
  error(err, 0)
end

--- Ends a subscription.
function subscription:close()
  if self.closed then return end
  self.closed, self.over = true, true
  local structured = self.options.structured
  local done, err = pcall(function()
    if structured then self.proxy:disconnect_structured_push_supplier() else self.proxy:disconnect_push_supplier() end
    if self.filter then self.filter:destroy() end
  end)
  if not self.broker.closed then self.broker:deactivate(self.servant) end
  if not done and not exception.is_system(err) then error(err, 0) end
end

subscription.__close = subscription.close

local function puller(self)
  if not self.pull_proxy then
    local proxy = self.object:for_consumers():obtain_pull_supplier()
    proxy:connect_pull_consumer(nil)
    self.pull_proxy = proxy
  end
  return self.pull_proxy
end

--- The next event since this was called first: waits for it, at most so many seconds. -> event | nil, "timeout"
function channel:next(seconds)
  if seconds ~= nil and type(seconds) ~= "number" then error(("next takes a number of seconds, not '%s'"):format(tostring(seconds)), 2) end
  local proxy = puller(self)
  if not seconds then return proxy:_with({ timeout = 0 }):pull() end
  local limit, pause = mare.clock() + seconds, 0.005
  while true do
    local value, has = proxy:try_pull()
    if has then return value end
    local left = limit - mare.clock()
    if left <= 0 then return nil, "timeout" end
    mare.sleep(math.min(pause, left))
    pause = math.min(pause * 2, 0.2)
  end
end

--- Ends what this program has at the channel, but for subscriptions. The channel itself goes on.
function channel:close()
  for name, operation in pairs { pusher = "disconnect_push_consumer", notifier = "disconnect_structured_push_consumer",
                                 pull_proxy = "disconnect_pull_supplier" } do
    local proxy = self[name]
    self[name] = nil
    if proxy then pcall(proxy[operation], proxy) end
  end
end

channel.__close = channel.close

--- The channel behind a reference (a text as for broker:proxy, or a proxy).
function events.channel(broker, reference)
  broker:interface "CosNotifyChannelAdmin::EventChannel"
  local object = broker:proxy(reference)
  if not object then error("the channel is a nil reference", 2) end
  if not object:_is_a "IDL:omg.org/CosEventChannelAdmin/EventChannel:1.0" then error("the object is no event channel", 2) end
  return setmetatable({ broker = broker, object = object:_unchecked_narrow "CosEventChannelAdmin::EventChannel" }, channel)
end

return require "mare.near".guard(events)
