--[[
mare.orb.repository.sound: what can be said of models (read.lua) only when all are filled, before they are written as IDL: no typedef leads back to
itself, and constants and labels are values of their types.

  local wrong = sound.check(models)      nil, or what is wrong, in words
]]
local sound = {}

local FLOATS = { float = true, double = true, longdouble = true }
local INTEGERS = { short = true, ushort = true, long = true, ulong = true, longlong = true, ulonglong = true, octet = true, int8 = true }
local TEXTS = { string = true, char = true }
local WIDE = { wstring = true, wchar = true }

-- The type behind typedefs; nil: they go round in a circle. `good`: typedefs of which it is known, and their types.
local function behind(T, good)
  local path, at = {}, T
  while at.kind == "alias" and not good[at] do
    if path[at] then return nil end
    path[at] = true
    at = at.type
  end
  local found = good[at] or at
  for alias in pairs(path) do good[alias] = found end
  return found
end

-- The labels of each enum as a set: a union may have as many members as an enum has labels.
local sets = setmetatable({}, { __mode = "k" })

local function is_label(T, value)
  local set = sets[T]
  if not set then
    set = {}
    for _, label in ipairs(T.labels) do set[label] = true end
    sets[T] = set
  end
  return set[value] == true
end

-- Is it a value that a constant of this type can have?
local function fits(T, value)
  local kind = T.kind
  if kind == "boolean" then return type(value) == "boolean" end
  if INTEGERS[kind] then return math.type(value) == "integer" end
  if FLOATS[kind] then return type(value) == "number" and value == value and value ~= math.huge and value ~= -math.huge end
  if type(value) ~= "string" then return false end
  if kind == "enum" then return is_label(T, value) end
  if kind == "fixed" then return #value <= 40 and value:find "^%-?%d+%.?%d*$" ~= nil end
  return TEXTS[kind] or WIDE[kind] and utf8.len(value) ~= nil or false
end

local check = {}

function check.alias(d, good) return not behind(d, good) and ("'%s' is a typedef of itself"):format(d.scoped) or nil end

function check.const(d, good)
  local T = behind(d.type, good)
  if T and fits(T, d.value) then return nil end
  return ("the constant '%s' has no value of its type"):format(d.scoped)
end

function check.union(d, good)
  local T = behind(d.discriminator, good)
  for i, m in ipairs(T and d.members or {}) do
    if i ~= d.default and not fits(T, m.label) then return ("the union '%s' has a label that is no value of its switch"):format(d.scoped) end
  end
  return not T and ("the union '%s' has no switch"):format(d.scoped) or nil
end

--- What is wrong with models, id -> model; nil: nothing of this kind.
function sound.check(models)
  local good = {}
  for _, d in pairs(models) do
    local wrong = d.filled and check[d.kind] and check[d.kind](d, good)
    if wrong then return wrong end
  end
end

return sound
