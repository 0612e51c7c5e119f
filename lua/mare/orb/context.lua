--[[
mare.orb.context: what `context ("NAME", "PREFIX*")` of an operation sends: properties, which are names with texts (CORBA 3.3 part 1, 8.7).

In Lua they are a table, the last argument of the call and of the servant's method: { NAME = "text" }. What the program gives there counts before the
broker's own table, `context` of orb.init; only those whose names the IDL lists go out. On the wire they are a sequence of strings behind the
arguments: name, value, name, value …
]]
local exception = require "mare.orb.exception"

local context = {}

context.TYPE = { kind = "sequence", element = { kind = "string", bound = 0 }, bound = 0 }

local function wanted(patterns, name)
  for _, pattern in ipairs(patterns) do
    if pattern == name or pattern:sub(-1) == "*" and name:sub(1, #pattern - 1) == pattern:sub(1, -2) then return true end
  end
end

local function bad(text) error(exception.system("BAD_CONTEXT", 0, "COMPLETED_NO", text), 0) end

local function pick(patterns, given, found)
  for name, value in pairs(given or {}) do
    if type(name) ~= "string" or type(value) ~= "string" then bad("the properties of a context are names with texts: { NAME = \"text\" }") end
    if wanted(patterns, name) then found[name] = value end
  end
end

--- The properties that go out: { NAME = "text" }.
function context.matching(patterns, given, default)
  if given ~= nil and type(given) ~= "table" then
    bad(("the context of a call is a table, such as { NAME = \"text\" }, not a %s"):format(type(given)))
  end
  local found = {}
  pick(patterns, default, found)
  pick(patterns, given, found)
  return found
end

local function flat(properties)
  local names, list = {}, {}
  for name in pairs(properties or {}) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    list[#list + 1] = name
    list[#list + 1] = properties[name]
  end
  return list
end

--- The program of a request with properties behind n arguments.
function context.request(program, n)
  return { request = function(_, head, idat, id, codec, ...)
    local args = { ... }
    args[n + 1] = flat(args[n + 1])
    return program:request(head, idat, id, codec, table.unpack(args, 1, n + 1))
  end }
end

local function named(n, ...)
  local args = { ... }
  local list, properties = args[n + 1], {}
  if #list % 2 ~= 0 then error(exception.system("MARSHAL", 0, "COMPLETED_NO", "a property of the context has no value"), 0) end
  for i = 1, #list, 2 do properties[list[i]] = list[i + 1] end
  args[n + 1] = properties
  return table.unpack(args, 1, n + 1)
end

--- What reads the arguments of such a request.
function context.arguments(program, n)
  return { decode = function(_, message, at, codec) return named(n, program:decode(message, at, codec)) end }
end

return context
