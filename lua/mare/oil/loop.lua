--[[
mare.oil.loop: classes as LOOP's models make them, as far as programs for OiL use them: one model, with several bases, for all of LOOP's names.

A class is a table and the metatable of its objects; what it lacks is looked up in its bases, depth first, when it is asked for. Calling a class makes
an object: `class.__new(class, …)`, and without one the table that was given becomes it; then `__init(object)` is called, if there is one.
]]
local loop = {}

local meta = {}                                  -- of classes
local supers = setmetatable({}, { __mode = "k" })

local function find(class, name)
  local value = rawget(class, name)
  if value ~= nil then return value end
  for _, super in ipairs(supers[class] or {}) do
    if type(super) == "table" then
      value = supers[super] and find(super, name) or super[name]
      if value ~= nil then return value end
    end
  end
end

meta.__index = find

function meta.__call(class, ...)
  local new = find(class, "__new")
  if new then return new(class, ...) end
  return loop.rawnew(class, ...)
end

local EVENTS = { "__tostring", "__call", "__concat", "__eq", "__lt", "__le", "__add", "__sub", "__mul", "__div", "__unm", "__len", "__newindex",
                 "__gc", "__mode", "__close", "__pairs" }

-- Lua looks for metamethods in the class alone.
local function complete(class)
  for _, event in ipairs(EVENTS) do
    local value = rawget(class, event) == nil and find(class, event)
    if value then rawset(class, event, value) end
  end
end

--- Makes a class of a table: class({ … }, base, …).
function loop.class(class, ...)
  class = class or {}
  supers[class] = { ... }
  if rawget(class, "__index") == nil then
    local inherited = find(class, "__index")
    class.__index = type(inherited) == "function" and inherited or class
  end
  complete(class)
  return setmetatable(class, meta)
end

--- Makes a table an object of a class, without `__new`.
function loop.rawnew(class, object)
  if class.__index == nil then class.__index = class end
  complete(class)
  object = setmetatable(object or {}, class)
  local init = find(class, "__init")
  if init then init(object) end
  return object
end

function loop.new(class, ...) return class(...) end
function loop.getclass(object) return getmetatable(object) end
function loop.isclass(value) return getmetatable(value) == meta end
function loop.getsuper(class) return (supers[class] or {})[1] end
function loop.supers(class) return ipairs(supers[class] or {}) end
function loop.members(class) return pairs(class) end
function loop.getmember(class, name) return find(class, name) end
loop.classof, loop.memberof, loop.superclass = loop.getclass, loop.getmember, loop.getsuper

function loop.issubclassof(class, super)
  if class == super then return true end
  for _, base in ipairs(supers[class] or {}) do
    if loop.issubclassof(base, super) then return true end
  end
  return false
end
loop.subclassof = loop.issubclassof

function loop.isinstanceof(object, class) return loop.issubclassof(getmetatable(object), class) end
loop.instanceof = loop.isinstanceof

local function members_of(class, into)
  for _, base in ipairs(supers[class] or {}) do members_of(base, into) end
  for name, value in next, class do into[name] = value end
  return into
end
function loop.allmembers(class) return pairs(members_of(class, {})) end

local function down(class, into)
  for _, base in ipairs(supers[class] or {}) do down(base, into) end
  into[#into + 1] = class
  return into
end
--- A class and its bases, bases first.
function loop.topdown(class) return ipairs(down(class, {})) end

return loop
