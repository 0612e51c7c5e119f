---@meta mare.orb.services.events
-- luacheck: ignore 212 241

---OMG's event service and, of its notification service, structured events and filters. See docs/orb-events.md.
---@class mare.orb.eventservicelib
local events = {}

---@class mare.orb.eventservice.limits
---@field queue? integer events that wait for a consumer
---@field bytes? integer of all events that wait
---@field channels? integer
---@field admins? integer
---@field proxies? integer
---@field filters? integer
---@field constraints? integer of a filter
---@field types? integer of a constraint, of a subscription or of an offer
---@field kept? integer bytes of all constraints and lists of types
---@field pulls? integer that wait at a proxy
---@field answer? number seconds a client may take
---@field gone? number seconds until one that can't be reached is dropped
---@field lost? number likewise, of one that is quiet
---@field check? number seconds between questions for the quiet ones
---@field poll? number seconds between questions for a pull supplier's events

---@class mare.orb.eventservice.options
---@field db? string a file of SQLite that keeps channels and who is connected
---@field channels? string[] names of channels that are made if they aren't there
---@field slow? "drop" | "discard" what becomes of a consumer whose queue is full
---@field keys? { general?: string, notification?: string } of the factories
---@field limits? mare.orb.eventservice.limits

---@class mare.orb.eventservice.figures
---@field name string
---@field suppliers integer
---@field consumers integer
---@field waiting integer
---@field received integer
---@field delivered integer
---@field discarded integer
---@field dropped integer
---@field reference mare.orb.proxy

---@class mare.orb.eventservice
---@field factory mare.orb.proxy as omniEvents' clients know it
---@field notification mare.orb.proxy CosNotifyChannelAdmin::EventChannelFactory
---@field filters mare.orb.proxy CosNotifyFilter::FilterFactory
local service = {}

---The object of a channel, which is made if there is none.
---@param name string
---@return mare.orb.proxy
function service:channel(name) end

---@return mare.orb.eventservice.figures[]
function service:figures() end

---Ends the service; the broker goes on.
function service:close() end

---Serves channels in a broker; raises what is wrong with the file or the options.
---@param broker mare.orb.broker
---@param options? mare.orb.eventservice.options
---@return mare.orb.eventservice
function events.serve(broker, options) end

return events
