--[[
mare.orb.services.events.qos: properties of quality (CosNotification's QoS and administrative properties): which there are, of which types, what may
be set where. A table of them is name -> value as Lua has it; what isn't set is inherited from the level above (metatables), up to the defaults.

What the service doesn't do is refused: UnsupportedQoS names every such property, why, and which values there are.
]]
local event = require "mare.orb.services.events.event"
local exception = require "mare.orb.exception"

local qos = {}

local SHORT, LONG, BOOLEAN, TIME = "short", "long", "boolean", "ulonglong"

-- type; least and greatest value | the only ones
local QOS = {
  EventReliability = { type = SHORT, low = 0, high = 0 },
  ConnectionReliability = { type = SHORT, low = 0, high = 1 },
  Priority = { type = SHORT, low = -32767, high = 32767 },
  Timeout = { type = TIME, low = 0, high = math.maxinteger },
  OrderPolicy = { type = SHORT, low = 0, high = 3 },
  DiscardPolicy = { type = SHORT, low = 0, high = 4 },
  MaxEventsPerConsumer = { type = LONG, low = 0, high = 0x7fffffff },
  StartTimeSupported = { type = BOOLEAN, low = false, high = false },
  StopTimeSupported = { type = BOOLEAN, low = false, high = false },
}
local ADMIN = {
  MaxQueueLength = { type = LONG, low = 0, high = 0 },            -- there is no queue but those of consumers
  MaxConsumers = { type = LONG, low = 0, high = 0x7fffffff },
  MaxSuppliers = { type = LONG, low = 0, high = 0x7fffffff },
  RejectNewEvents = { type = BOOLEAN, low = false, high = false },
}
local DEFAULTS = { EventReliability = 0, Priority = 0, Timeout = 0, OrderPolicy = 0, DiscardPolicy = 0, MaxEventsPerConsumer = 0,
                   StartTimeSupported = false, StopTimeSupported = false }
local ADMIN_DEFAULTS = { MaxQueueLength = 0, MaxConsumers = 0, MaxSuppliers = 0, RejectNewEvents = false }

local kinds = { short = { short = true }, long = { long = true, ulong = true }, boolean = { boolean = true }, ulonglong = { ulonglong = true } }

-- A range as PropertyError and NamedPropertyRange have it.
local function range(broker, definition)
  local T = broker:type(definition and (definition.type == TIME and "unsigned long long" or definition.type) or "short")
  local low, high = 0, 0
  if definition then low, high = definition.low, definition.high end
  return { low_val = { _anytype = T, _anyval = low }, high_val = { _anytype = T, _anyval = high } }
end

-- What is wrong with a property: a code of QoSError_code | nil
local function wrong(definition, value, kind, high)
  if not definition then return "UNSUPPORTED_PROPERTY" end
  if kind and not kinds[definition.type][kind] then return "BAD_TYPE" end
  if definition.type == BOOLEAN then
    if type(value) ~= "boolean" then return "BAD_TYPE" end
    return value ~= definition.low and "UNSUPPORTED_VALUE" or nil
  end
  if math.type(value) ~= "integer" then return "BAD_TYPE" end
  return (value < definition.low or value > high) and "UNSUPPORTED_VALUE" or nil
end

-- Properties as they came -> name -> value; raises what is wrong with any of them.
local function read(self, list, definitions, id, member)
  local values, errors = {}, {}
  for _, p in ipairs(list) do
    local value, kind = event.value_of(p.value)
    local definition = definitions[p.name]
    local high = definition and definition.high
    if p.name == "ConnectionReliability" and not self.service.store.path then high = 0 end
    local code = wrong(definition, value, kind, high)
    if code then errors[#errors + 1] = { code = code, name = p.name, available_range = range(self.service.broker, definition) } end
    values[p.name] = value
  end
  if #errors > 0 then error(exception.user("IDL:omg.org/CosNotification/" .. id .. ":1.0", { [member] = errors }), 0) end
  return values
end

local function listed(self, definitions, values)
  local list = {}
  for name, definition in pairs(definitions) do
    if values[name] ~= nil then
      local T = self.service.broker:type(definition.type == TIME and "unsigned long long" or definition.type)
      list[#list + 1] = { name = name, value = { _anytype = T, _anyval = values[name] } }
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

--- The properties of something below `above`.
function qos.below(above) return setmetatable({}, { __index = above or DEFAULTS }) end

function qos.admin() return setmetatable({}, { __index = ADMIN_DEFAULTS }) end

function qos.read_qos(self, list) return read(self, list, QOS, "UnsupportedQoS", "qos_err") end

function qos.read_admin(self, list) return read(self, list, ADMIN, "UnsupportedAdmin", "admin_err") end

local ORDERS = { [2] = "priority", [3] = "deadline" }
local DISCARDS = { [1] = "fifo", [2] = "priority", [3] = "deadline", [4] = "lifo" }

--- The rules of a consumer's queue, by its properties; `usual` is what happens to a full one where DiscardPolicy says nothing.
function qos.rules(values, limit, usual)
  local most = values.MaxEventsPerConsumer
  return { limit = most > 0 and math.min(most, limit) or limit, order = ORDERS[values.OrderPolicy] or "fifo",
           discard = DISCARDS[values.DiscardPolicy] or usual, priority = values.Priority,
           lifetime = values.Timeout ~= 0 and values.Timeout * 1e-7 or nil }
end

--- Gives a class of servants the operations of QoSAdmin. Such a servant has service and qos; changed(self) is called after a change.
function qos.add(class, changed)
  function class.get_qos(self) return listed(self, QOS, self.qos) end

  function class.set_qos(self, list)
    local values = qos.read_qos(self, list)
    local old = {}
    for name, value in pairs(values) do old[name], self.qos[name] = rawget(self.qos, name), value end
    local done, err = pcall(changed, self)
    if done then return end
    for name in pairs(values) do self.qos[name] = old[name] end
    error(err, 0)
  end

  function class.validate_qos(self, list)
    qos.read_qos(self, list)
    local ranges, asked = {}, {}
    for _, p in ipairs(list) do asked[p.name] = true end
    for name, definition in pairs(QOS) do
      if not asked[name] then ranges[#ranges + 1] = { name = name, range = range(self.service.broker, definition) } end
    end
    table.sort(ranges, function(a, b) return a.name < b.name end)
    return ranges
  end
end

--- Those of AdminPropertiesAdmin.
function qos.add_admin(class, changed)
  function class.get_admin(self) return listed(self, ADMIN, self.limits) end

  function class.set_admin(self, list)
    for name, value in pairs(qos.read_admin(self, list)) do self.limits[name] = value end
    changed(self)
  end
end

--- What has been set itself, without what is inherited.
function qos.own(values) return next(values) ~= nil and values or nil end

return qos
