--[[
mare.orb.services.events.path: what the components of a constraint are in an event, and what operators make of them.

An event is looked at as { structured = StructuredEvent, type = its type } or { any = value of an any }. A *place* is a value and its type, if that
is known: values from the wire have one, those that a program of this process gave without a type have none. A walk goes from place to place, each
step is a function (event, value, type) -> value, type. What isn't there raises `path.fault`, which is never seen outside of a constraint.
]]
local path = { fault = setmetatable({}, { __tostring = function() return "a constraint's fault" end }) }

local function fault() error(path.fault, 0) end

-- Steps that are left to the constraints of one event: constraints, operators, properties and elements that are looked at, patterns of types. A
-- stranger may have written them, and the event. Every part of a constraint that is run takes one at least.
local left = math.huge

--- From now on there are so many steps; then every constraint is false.
function path.allow(steps) left = steps end

local function spend(n)
  left = left - n
  if left < 0 then fault() end
end

--- Takes so many steps. False: they aren't there.
function path.afford(n)
  left = left - n
  return left >= 0
end

path.spend = spend

-- Aliases and anys are seen through. A program of this process may name a type; what a stranger's member of that name holds is none.
local function through(value, T)
  while true do
    if type(value) == "table" and rawget(value, "_anytype") then
      value, T = value._anyval, value._anytype
      if type(T) ~= "table" then T = nil end
    elseif T and T.kind == "alias" then T = T.type
    else return value, T end
    if value == nil then fault() end
    spend(1)
  end
end

-- How many elements a list has. An event's struct may have a member that is called n.
local function length(list)
  local n = rawget(list, "n")
  return math.type(n) == "integer" and n >= 0 and n or #list
end

-- The first of a list that has this name. A step lasts for so many that are looked at; the search ends where no step is left.
local function named(list, name, per_step)
  local n = #list
  for i = 1, math.min(n, left * per_step) do
    local one = list[i]
    if type(one) == "table" and one.name == name then
      spend(i // per_step)
      return one
    end
  end
  spend((n + per_step - 1) // per_step)
end

local MEMBERS <const> = 8                         -- a step: a type has them once, whatever the value

-- The type of a member of a type | nil
local function type_of(T, name)
  local m = T and named(T.members or T.state or {}, name, MEMBERS)
  return m and m.type
end

-- ---- steps ----

local function member_of(value, T, name)
  value, T = through(value, T)
  if type(value) ~= "table" then fault() end
  if T and T.kind == "union" and value._field == name then return value._value, type_of(T, name) end
  local found = value[name]
  if found == nil then fault() end
  return found, type_of(T, name)
end

-- A length is one of a list or of a union's discriminator, or a type's names: what begins with an underscore is no member.
local special = {}

function special._length(value)
  if type(value) ~= "table" and type(value) ~= "string" then fault() end
  return type(value) == "table" and length(value) or #value, nil
end

function special._d(value, T)
  if type(value) ~= "table" or value._switch == nil then fault() end
  return value._switch, T and T.discriminator
end

function special._type_id(_, T) return T and (T.name or T.kind) or fault(), nil end
function special._repos_id(_, T) return T and T.id or fault(), nil end

function path.member(name)
  local of = special[name]
  if of then
    return function(_, value, T) return of(through(value, T)) end
  end
  return function(_, value, T) return member_of(value, T, name) end
end

-- A member by its place in its struct, from 0 on.
function path.position(n)
  return function(_, value, T)
    value, T = through(value, T)
    local m = T and T.kind ~= "union" and T.members and T.members[n + 1]
    if not m or type(value) ~= "table" or value[m.name] == nil then fault() end
    return value[m.name], m.type
  end
end

function path.switch(label)
  return function(_, value, T)
    value, T = through(value, T)
    if type(value) ~= "table" or value._value == nil then fault() end
    if label ~= nil and value._switch ~= label then fault() end
    return value._value, type_of(T, value._field)
  end
end

function path.index(n)
  return function(_, value, T)
    value, T = through(value, T)
    local found
    if type(value) == "table" then found = value[n + 1]
    elseif type(value) == "string" and T and (T.kind == "sequence" or T.kind == "array") then found = value:byte(n + 1) end
    if found == nil then fault() end
    return found, T and T.element
  end
end

local function property_of(list, name)
  local p = named(list, name, 1)
  return p and p.value
end

function path.property(name)
  return function(_, value, T)
    value = through(value, T)
    local found = type(value) == "table" and property_of(value, name)
    if found == nil or found == false then fault() end
    return found, nil
  end
end

-- $name: a field of the header, else a property of the header, else of the data; of an event without them, its member.
local header = {}

function header.domain_name(e) return e.header.fixed_header.event_type.domain_name end
function header.type_name(e) return e.header.fixed_header.event_type.type_name end
function header.event_name(e) return e.header.fixed_header.event_name end

function path.variable(name)
  if name == "curtime" then return function() return os.time() end end
  local fixed = header[name]
  return function(event)
    local e = event.structured
    if not e then
      if name == "type_name" then return "%ANY" end
      if fixed then return "" end
      return member_of(event.any, nil, name)
    end
    if fixed then return fixed(e), nil end
    local found = property_of(e.header.variable_header, name)
    if found == nil then found = property_of(e.filterable_data, name) end
    if found == nil then return member_of(e.remainder_of_body, nil, name) end
    return found, nil
  end
end

function path.walk(steps)
  return function(event)
    local value, T
    if event.structured then value, T = event.structured, event.type else value = event.any end
    spend(#steps)
    for i = 1, #steps do value, T = steps[i](event, value, T) end
    return value, T
  end
end

-- ---- values ----

-- A component as operators see it: numbers as such, without those of 64 bits that are beyond Lua's.
local function scalar(value, T)
  value, T = through(value, T)
  if math.type(value) == "integer" and value < 0 and T and T.kind == "ulonglong" then return value + 2.0 ^ 64 end
  if T and T.kind == "fixed" then return tonumber(value) or fault() end
  if value == nil then fault() end
  return value
end

function path.plain(walk)
  return function(event) return scalar(walk(event)) end
end

function path.exists(walk)
  return function(event)
    local done, err = pcall(walk, event)
    if not done and err ~= path.fault then error(err, 0) end
    return done
  end
end

function path.is_default(walk)
  return function(event)
    local value, T = through(walk(event))
    if type(value) ~= "table" or not T or T.kind ~= "union" then fault() end
    local default = T.members[T.default]
    return default ~= nil and default.name == value._field
  end
end

-- TRUE and FALSE count as 1 and 0 beside numbers.
local function number(v)
  if type(v) == "number" then return v end
  if type(v) == "boolean" then return v and 1 or 0 end
  fault()
end

local function comparable(a, b)
  if type(a) == type(b) and type(a) == "number" then return a, b end
  if type(a) == type(b) and type(a) == "string" then
    spend(math.min(#a, #b) // 64)
    return a, b
  end
  return number(a), number(b)
end

function path.truth(v)
  if type(v) == "boolean" then return v end
  if type(v) == "number" then return v ~= 0 end
  fault()
end

function path.equal(a, b)
  a, b = comparable(a, b)
  return a == b
end

function path.different(a, b) return not path.equal(a, b) end

function path.less(a, b)
  a, b = comparable(a, b)
  return a < b
end

function path.more(a, b) return path.less(b, a) end

function path.at_most(a, b)
  a, b = comparable(a, b)
  return a <= b
end

function path.at_least(a, b) return path.at_most(b, a) end

function path.add(a, b) return number(a) + number(b) end
function path.subtract(a, b) return number(a) - number(b) end
function path.multiply(a, b) return number(a) * number(b) end

function path.divide(a, b)
  if number(b) == 0 then fault() end
  return number(a) / number(b)
end

--- Is the left text a part of the right one? Its beginning may stand at every place of the right one, so they are compared as often.
function path.within(a, b)
  if type(a) ~= "string" or type(b) ~= "string" then fault() end
  spend(#b // 32 + #a * #b // 1024)
  return b:find(a, 1, true) ~= nil
end

--- Is the value one of a list's?
function path.among(value, list, T)
  list, T = through(list, T)
  if type(list) ~= "table" then fault() end
  local element, kind = T and T.element, type(value)
  for i = 1, length(list) do
    spend(1)
    local item = list[i]
    if item ~= nil and (element or type(item) == "table") then item = scalar(item, element) end
    if type(item) == kind then
      if kind == "string" and #item == #value then spend(#value // 64) end
      if item == value then return true end
    end
  end
  return false
end

return path
