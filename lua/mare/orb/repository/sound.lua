--[[
mare.orb.repository.sound: what can be said of models (read.lua) only when all are filled, before they are written as IDL: no typedef leads back to
itself, and constants and labels are values of their types.

  local wrong = sound.check(models)      nil, or what is wrong, in words

And what can be said of a TypeCode from outside, which may be any table, also one in a circle:

  sound.behind(T, levels)                the type behind its typedefs; nil: none within so many of them
  sound.agree(T, definition, levels)     whether values of both are the same bytes
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

--- The type behind the typedefs of a TypeCode.
function sound.behind(T, levels)
  for _ = 0, levels do
    if type(T) ~= "table" or T.kind ~= "alias" then return type(T) == "table" and T or nil end
    T = T.type
  end
end

local agree

local function agree_lists(T, d, levels, met)
  local ours, theirs = d.members, T.members
  if type(theirs) ~= "table" or #theirs ~= #ours then return false end
  for i, m in ipairs(ours) do
    if type(theirs[i]) ~= "table" or not agree(theirs[i].type, m.type, levels, met) then return false end
  end
  return true
end

-- Who has a newer version of an enum knows more labels.
local function agree_labels(T, d)
  if type(T.labels) ~= "table" then return false end
  for i = 1, math.min(#T.labels, #d.labels) do
    if T.labels[i] ~= d.labels[i] then return false end
  end
  return true
end

-- Which labels select which member. That of the default is whatever the peer writes.
local function agree_cases(T, d)
  if T.default ~= d.default then return false end
  for i, m in ipairs(d.members) do
    if i ~= d.default and T.members[i].label ~= m.label then return false end
  end
  return true
end

local function agree_element(T, d, levels, met) return agree(T.element, d.element, levels, met) end

local parts = {
  string = function(T, d) return T.bound == d.bound end,
  fixed = function(T, d) return T.digits == d.digits and T.scale == d.scale end,
  sequence = function(T, d, ...) return T.bound == d.bound and agree_element(T, d, ...) end,
  array = function(T, d, ...) return T.length == d.length and agree_element(T, d, ...) end,
  struct = agree_lists, except = agree_lists, enum = agree_labels,
  union = function(T, d, ...) return agree(T.discriminator, d.discriminator, ...) and agree_lists(T, d, ...) and agree_cases(T, d) end,
}
parts.wstring = parts.string

-- met: definition -> the TypeCodes that it was, or is being, compared with
function agree(T, d, levels, met)
  T, d = sound.behind(T, levels), sound.behind(d, levels)
  if not T or not d or T.kind ~= d.kind or levels == 0 then return false end
  local before = met[d] or {}
  if T == d or before[T] or not parts[d.kind] then return true end
  met[d], before[T] = before, true
  return parts[d.kind](T, d, levels - 1, met)
end

--- Are values of a TypeCode and of a definition the same bytes? Those that are references or valuetypes have ids of their own.
function sound.agree(T, d, levels) return agree(T, d, levels, {}) end

--- What is wrong with models, id -> model; nil: nothing of this kind.
function sound.check(models)
  local good = {}
  for _, d in pairs(models) do
    local wrong = d.filled and check[d.kind] and check[d.kind](d, good)
    if wrong then return wrong end
  end
end

return sound
