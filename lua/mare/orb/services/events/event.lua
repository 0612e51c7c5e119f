--[[
mare.orb.services.events.event: an event in a channel, as suppliers gave it and as consumers want it.

{ any = | structured =, size = bytes it is counted for, holders = how many queues hold it, priority =, lifetime = seconds | nil, expires = clock |
nil }. The form that it didn't come in is made when somebody asks, once: an any becomes a structured event of type %ANY, a structured event an any;
one that came inside of an any is taken out again. All consumers get the same tables, and nobody changes them.
]]
local mare = require "mare"

local event = {}

local OVERHEAD, ITEM = 200, 40                    -- bytes of an event beside its value, of an item in a table

--- Bytes that a value takes, roughly, without recursion: it may nest deeply, and point in circles.
function event.size(value)
  local total, seen, stack, n = OVERHEAD, nil, { value }, 1
  while n > 0 do
    local v = stack[n]
    stack[n], n = nil, n - 1
    local kind = type(v)
    if kind == "string" then total = total + #v
    elseif kind == "userdata" then
      local fine, length = pcall(function() return #v end)
      total = total + (fine and math.tointeger(length) or ITEM)
    elseif kind == "table" and not (seen and seen[v]) and not rawget(v, "_ior") then
      seen = seen or {}
      seen[v] = true
      total = total + ITEM
      local T = rawget(v, "_anytype")
      for key, item in next, v do
        total = total + ITEM
        if item ~= T and (type(item) == "table" or type(item) == "string" or type(item) == "userdata") then
          n = n + 1
          stack[n] = item
        end
        if type(key) == "string" then total = total + #key end
      end
      if type(T) == "table" and not seen[T] then  -- of one that came with the event: its parts are nobody else's
        seen[T] = true
        total = total + ITEM * 10 + (T.members and #T.members * ITEM * 5 or 0)
      end
    end
  end
  return total
end

-- Of a property's value: what is in its any.
local function value_of(any)
  if type(any) == "table" and rawget(any, "_anytype") then
    local T = any._anytype
    while T.kind == "alias" do T = T.type end
    return any._anyval, T.kind
  end
  return any
end

event.value_of = value_of

local function property(list, name)
  for _, p in ipairs(list) do
    if p.name == name then return value_of(p.value) end
  end
end

local TICK = 1e-7                                 -- CORBA's times are of 100 ns

--- What an event's header says of its own quality.
local function read_header(e)
  local variable = e.structured.header.variable_header
  local priority, timeout = property(variable, "Priority"), property(variable, "Timeout")
  if math.type(priority) == "integer" then e.priority = math.max(-32767, math.min(32767, priority)) end
  if math.type(timeout) == "integer" and timeout > 0 then e.lifetime = timeout * TICK end
end

local function text(x) return type(x) == "string" end

-- Is it one, as far as it is looked at here? A supplier may give any type the id of structured events.
local function is_structured(s)
  local header = type(s) == "table" and s.header
  local fixed = type(header) == "table" and header.fixed_header
  local kind = type(fixed) == "table" and fixed.event_type
  if type(kind) ~= "table" or not (text(kind.domain_name) and text(kind.type_name) and text(fixed.event_name)) then return false end
  for _, list in ipairs { header.variable_header or false, s.filterable_data or false } do
    if type(list) ~= "table" then return false end
    for _, p in ipairs(list) do
      if type(p) ~= "table" or not text(p.name) or p.value == nil then return false end
    end
  end
  return true
end

--- An event that came as an any; `T` is the type of structured events. What only has that type's id stays an any.
function event.of_any(any, T)
  local e
  if type(any) == "table" and rawget(any, "_anytype") and any._anytype.id == T.id and is_structured(any._anyval) then
    e = { structured = any._anyval, any = any, size = event.size(any._anyval), type = T }
    read_header(e)
  else
    e = { any = any, size = event.size(any) }
  end
  e.born, e.holders = mare.clock(), 0
  return e
end

function event.of_structured(s, T)
  local e = { structured = s, type = T, size = event.size(s), born = mare.clock(), holders = 0 }
  read_header(e)
  return e
end

--- As an any.
function event.as_any(e)
  if not e.structured or e.any ~= nil then return e.any end
  e.any = { _anytype = e.type, _anyval = e.structured }
  return e.any
end

--- As a structured event.
function event.as_structured(e)
  if e.structured then return e.structured end
  if not e.wrapped then
    e.wrapped = { header = { fixed_header = { event_type = { domain_name = "", type_name = "%ANY" }, event_name = "" }, variable_header = {} },
                  filterable_data = {}, remainder_of_body = e.any }
  end
  return e.wrapped
end

--- Domain and type, as subscriptions name them.
function event.type_of(e)
  if not e.structured then return "", "%ANY" end
  local T = e.structured.header.fixed_header.event_type
  return T.domain_name, T.type_name
end

return event
