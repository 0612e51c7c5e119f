--[[
mare.orb.types: what a broker's IDL defines, by name: broker.types.Mod.MAX.

A module or an interface is a *view*, which looks its names up when they are asked for; what its IDL does not define is a field of its definition
(`kind`, `id`, `bases` …), so a view serves wherever a definition does. A constant is its value, a label of an enum its name. Structs,
unions, enums and the other types are the type tables that an any wants as `_anytype`. An exception is a type that makes one when it is called:
error(broker.types.Mod.NotFound { name = "x" }).
]]
local near = require "mare.orb.near"
local exception = require "mare.orb.exception"

local types = {}

local maker = { __call = function(T, members) return exception.user(T, members) end, __tostring = function(T) return "exception " .. T.scoped end }

-- What an IDL definition is to a program.
local function value_of(view, def)
  if def.kind == "const" or def.kind == "enumerator" then return def.value end
  if def.kind == "module" or def.kind == "interface" then return types.view(view.broker, def.scoped, def) end
  if def.kind == "except" and not getmetatable(def) then setmetatable(def, maker) end
  return def
end

local function contents_of(view)
  if view.def then return view.def.contents or {} end
  return view.broker.repository.contents
end

local scope = {}

-- Of a definition; some are nil in most of them.
local fields = { kind = true, id = true, name = true, scoped = true, bases = true, contents = true, members = true, abstract = true, ["local"] = true,
                 forward = true, file = true, line = true, column = true }

--- What a view shows; any other value itself.
function types.definition(value)
  if type(value) ~= "table" or getmetatable(value) ~= scope then return value end
  return rawget(value, 1).def or value
end

function scope.__index(self, key)
  local view = rawget(self, 1)
  local def = type(key) == "string" and view.broker.repository:lookup(view.prefix .. key)
  if def then
    local value = value_of(view, def)
    if def.kind ~= "module" then rawset(self, key, value) end          -- a module may be opened again, and its view is cheap
    return value
  end
  if fields[key] and view.def then return view.def[key] end
  local names = {}
  for _, inner in ipairs(contents_of(view)) do names[#names + 1] = inner.name end
  local meant = near(tostring(key), names)
  error(("there is no '%s%s' in the IDL that was loaded%s"):format(view.prefix, tostring(key), meant and "; did you mean " .. meant .. "?" or ""), 2)
end

function scope.__tostring(self)
  local view = rawget(self, 1)
  return view.def and view.def.kind .. " " .. view.def.scoped or "types of a broker"
end

function scope.__newindex(_, key) error(("types are defined by IDL: '%s' can't be set"):format(tostring(key)), 2) end

--- The view of a scope; without one, of all that was loaded.
function types.view(broker, scoped, def)
  return setmetatable({ { broker = broker, prefix = scoped and scoped .. "::" or "", def = def } }, scope)
end

return types
