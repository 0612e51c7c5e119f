--[[
mare.orb.signature: what an operation takes and gives, as a program writes it where no IDL says so; for requests and servants that are made at run
time.

  { "long", { "string", mode = "inout", name = "text" }, { Point, mode = "out" }, result = "double", exceptions = { "Bank::Overdrawn" },
    oneway = true }

A type is a text ("sequence<long>", "Mod::Point"), or a type as broker.types, broker:type or an any has it; an exception likewise, by its name or id.

A program writes its signatures as a new table in each request, so those of texts alone are kept by what they say: `kept` is a tree whose branches are
these texts in their order, and a definition where it ends. It holds at most MOST definitions; then it begins anew, as a program may make up
signatures for ever.
]]
local basic = require "mare.orb.idl.basic"
local types = require "mare.orb.types"

local signature = {}

local FIELDS = { result = true, exceptions = true, oneway = true }
local MOST = 256
local IN_FIELDS, RESULT, DEFINITION = {}, {}, {}           -- in a tree: a parameter with a mode or a name; the end of the parameters; of it all
local MODES = { ["in"] = true, out = true, inout = true }

local function type_of(broker, value, what)
  if type(value) == "string" then
    local T, errors = broker.repository:type(value)
    return T or error(("%s: '%s' is no type: %s"):format(what, value, tostring(errors)), 0)
  end
  value = types.definition(value)
  if type(value) == "table" and type(value.kind) == "string" then return value end
  error(("%s: a type is a text, as \"sequence<long>\", or one of broker.types, not a %s"):format(what, type(value)), 0)
end

local function exception_of(broker, value, what)
  local T = type(value) == "string" and broker.repository:lookup(value) or types.definition(value)
  if type(T) == "table" and T.kind == "except" then return T end
  error(("%s: '%s' is no exception that was loaded"):format(what, tostring(value)), 0)
end

local function parameter(broker, item, i, what)
  what = ("%s, parameter %d"):format(what, i)
  if type(item) ~= "table" or types.definition(item).kind then return { name = "argument " .. i, mode = "in", type = type_of(broker, item, what) } end
  for name in pairs(item) do
    if name ~= 1 and name ~= "mode" and name ~= "name" then
      error(("%s: there is no field '%s'; there are mode, name"):format(what, tostring(name)), 0)
    end
  end
  local mode = item.mode or "in"
  if not MODES[mode] then error(("%s: the mode is in, out or inout, not '%s'"):format(what, tostring(mode)), 0) end
  return { name = item.name or "argument " .. i, mode = mode, type = type_of(broker, item[1], what) }
end

--- The definition of an operation that a signature describes. Raises what is wrong with it.
function signature.operation(broker, name, given)
  if type(given) ~= "table" then error(("%s: a signature is a table, such as { \"long\", result = \"string\" }"):format(name), 0) end
  local n = 0
  while given[n + 1] ~= nil do n = n + 1 end
  for field in pairs(given) do
    if math.type(field) == "integer" then
      if field < 1 or field > n then error(("%s: parameter %d is missing"):format(name, n + 1), 0) end
    elseif not FIELDS[field] then
      error(("%s: there is no field '%s'; there are exceptions, oneway, result"):format(name, tostring(field)), 0)
    end
  end
  if given.exceptions ~= nil and type(given.exceptions) ~= "table" then error(name .. ": 'exceptions' is a list of names, ids or types", 0) end
  local def = { kind = "operation", name = name, params = {}, raises = {}, context = {}, oneway = given.oneway or false,
                result = given.result == nil and basic.void or type_of(broker, given.result, name .. ", result") }
  for i, item in ipairs(given) do def.params[i] = parameter(broker, item, i, name) end
  for i, T in ipairs(given.exceptions or {}) do def.raises[i] = exception_of(broker, T, name) end
  return def
end

-- What a signature says, in an order that no other one has; nil: types are in it that are no texts, or fields of nobody's.
local function way(given)
  local list, n = {}, #given
  for i = 1, n do
    local item = given[i]
    if type(item) == "table" then
      for name in pairs(item) do
        if name ~= 1 and name ~= "mode" and name ~= "name" then return nil end
      end
      table.move({ IN_FIELDS, rawget(item, "mode") or false, rawget(item, "name") or false }, 1, 3, #list + 1, list)
      item = rawget(item, 1)
    end
    if type(item) ~= "string" then return nil end
    list[#list + 1] = item
  end
  for field in pairs(given) do
    if not FIELDS[field] and not (math.type(field) == "integer" and field >= 1 and field <= n) then return nil end
  end
  local result, oneway, exceptions = given.result or false, given.oneway or false, given.exceptions or {}
  if result and type(result) ~= "string" or type(oneway) ~= "boolean" or type(exceptions) ~= "table" then return nil end
  table.move({ RESULT, result, oneway }, 1, 3, #list + 1, list)
  for _, name in ipairs(exceptions) do
    if type(name) ~= "string" then return nil end
    list[#list + 1] = name
  end
  return list
end

--- No signatures yet.
function signature.kept_none() return { n = 0, tree = {} } end

--- The definition of an operation that a signature describes, as `signature.operation` gives it: the same one for the same texts. Its name is that of
--- the first operation.
function signature.kept(kept, broker, name, given)
  local path = type(given) == "table" and way(given)
  if not path then return signature.operation(broker, name, given) end
  local at = kept.tree
  for i = 1, #path do
    at = at[path[i]]
    if not at then break end
  end
  if at and at[DEFINITION] then return at[DEFINITION] end
  local def = signature.operation(broker, name, given)
  if kept.n >= MOST then kept.n, kept.tree = 0, {} end
  at, kept.n = kept.tree, kept.n + 1
  for i = 1, #path do
    local branch = at[path[i]] or {}
    at[path[i]], at = branch, branch
  end
  at[DEFINITION] = def
  return def
end

return signature
