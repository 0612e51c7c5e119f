---@meta mare.orb.events
-- luacheck: ignore 212 241

---Publishes to CORBA's event channels and listens to them. See docs/orb-events.md.
---@class mare.orb.eventslib
local events = {}

---A structured event as a plain table.
---@class mare.orb.event
---@field domain? string
---@field type? string
---@field name? string
---@field header? table<string, any> the variable header; Priority, and Timeout in seconds, have the standard's types
---@field data? table<string, any> the filterable data
---@field body? any

---@class mare.orb.subscribe.options
---@field structured? boolean f gets plain tables of structured events
---@field filter? string a constraint in EXTENDED_TCL
---@field types? string[] "Domain/Type"
---@field on_end? fun() called when the channel ends it

---@class mare.orb.subscription
local subscription = {}

---Ends it.
function subscription:close() end

---@class mare.orb.eventchannel
---@field object mare.orb.proxy the channel's object
local channel = {}

---Publishes a value as an any.
---@param value any
function channel:publish(value) end

---Publishes a structured event.
---@param event mare.orb.event
function channel:notify(event) end

---Calls f for each event from now on, in their order and one at a time.
---@param options mare.orb.subscribe.options | fun(event: any)
---@param f? fun(event: any)
---@return mare.orb.subscription
function channel:subscribe(options, f) end

---Pulls the next event since the first such call.
---@param seconds? number
---@return any event
---@return "timeout"? why
function channel:next(seconds) end

---Ends what this program has at the channel, but for subscriptions.
function channel:close() end

---The channel behind a reference.
---@param broker mare.orb.broker
---@param reference string | mare.orb.proxy
---@return mare.orb.eventchannel
function events.channel(broker, reference) end

---A structured event as CosNotification has it.
---@param event mare.orb.event
---@return table
function events.structured(event) end

---The plain table of a structured event.
---@param event table
---@return mare.orb.event
function events.plain(event) end

return events
