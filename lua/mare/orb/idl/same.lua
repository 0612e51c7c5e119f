-- same: definitions that a load repeats from an earlier one.
--
--   same.compare(again, errors)     complains about each new definition that differs from the old one of its name
--   same.unify(checker, map)        puts the old ones back in place of the new, wherever something new refers to them
--   same.replace(checker, again)    lets those that differ take the old ones' place: the rest of the list
--
-- Two definitions are the same if their ids and all their parts are; a named type inside is compared by its id, and in its turn only once.
local same = {}

local named = { struct = true, union = true, enum = true, alias = true, interface = true, value = true, valuebox = true, except = true,
                native = true }

local compare

-- map: new definition -> old one it is (or is being) compared with
local function equal_types(a, b, map)
  if a == b or map[b] == a then return true end
  if a.kind ~= b.kind then return false end
  if named[a.kind] then return a.id == b.id and not map[b] and compare(a, b, map) end
  if a.bound ~= b.bound or a.length ~= b.length or a.digits ~= b.digits or a.scale ~= b.scale then return false end
  return a.element == nil or equal_types(a.element, b.element, map)
end

local fields = { "id", "name", "value", "abstract", "local", "custom", "truncatable", "default", "readonly", "oneway", "mode", "label", "public" }
local types = { "type", "result", "discriminator" }
local type_lists = { "bases", "supports", "raises", "getraises", "setraises" }
local part_lists = { "members", "params", "contents", "state" }

local function equal_lists(a, b, f, map)
  if (a and #a or 0) ~= (b and #b or 0) then return false end
  for i = 1, a and #a or 0 do
    if not f(a[i], b[i], map) then return false end
  end
  return true
end

local function equal_values(a, b) return a == b end

local function equal_parts(a, b, map)
  for _, field in ipairs(fields) do
    if (a[field] or false) ~= (b[field] or false) then return false end
  end
  for _, field in ipairs(types) do
    if (a[field] == nil) ~= (b[field] == nil) or a[field] and not equal_types(a[field], b[field], map) then return false end
  end
  for _, field in ipairs(type_lists) do
    if not equal_lists(a[field], b[field], equal_types, map) then return false end
  end
  if not (equal_lists(a.labels, b.labels, equal_values) and equal_lists(a.context, b.context, equal_values)) then return false end
  for _, field in ipairs(part_lists) do
    if not equal_lists(a[field], b[field], function(x, y)
      if x.kind then return compare(x, y, map) end
      return equal_parts(x, y, map)
    end, map) then return false end
  end
  return true
end

function compare(old, new, map)
  if map[new] then return map[new] == old end
  if old.kind ~= new.kind then return false end
  map[new] = old
  return equal_parts(old, new, map)
end

-- again: list of { old, new }. The map new -> old of all that was compared.
function same.compare(again, errors)
  local map = {}
  for _, pair in ipairs(again) do map[pair.new] = pair.old end
  for _, pair in ipairs(again) do
    local old, new = pair.old, pair.new
    if not new.forward and not old.forward and not equal_parts(old, new, map) then
      errors:add(new, "'%s' is already defined differently at %s:%d", new.scoped, old.file, old.line)
    end
  end
  return map
end

local function differs(pair, map) return not pair.new.forward and not pair.old.forward and not equal_parts(pair.old, pair.new, map) end

-- A definition that differs makes those differ that refer to it.
function same.replace(checker, again)
  local kept, gone = again, {}
  repeat
    local before, map = #kept, {}
    for _, pair in ipairs(kept) do map[pair.new] = pair.old end
    local rest = {}
    for _, pair in ipairs(kept) do
      -- a module or an interface is compared with its contents, of which some may be replaced alone
      if differs(pair, map) then gone[pair.old] = pair else rest[#rest + 1] = pair end
    end
    kept = rest
  until #kept == before
  for old, pair in pairs(gone) do
    local list = pair.scope.definition and pair.scope.definition.contents or checker.repository.contents
    for i, definition in ipairs(list) do
      if definition == old then
        checker:remove(list, i)
        break
      end
    end
  end
  return kept
end

-- Replaces what the map replaces in a definition's fields; definitions inside are visited for themselves.
local function replace(t, map, made, seen)
  if seen[t] then return end
  seen[t] = true
  for k, v in pairs(t) do
    if map[v] then
      t[k] = map[v]
    elseif type(v) == "table" and not made[v] and not v.id then
      replace(v, map, made, seen)
    end
  end
end

local function without(list, map)
  local n = 0
  for i = 1, #list do
    local v = list[i]
    list[i] = nil
    if not map[v] then
      n = n + 1
      list[n] = v
    end
  end
end

function same.unify(checker, map)
  local repository, scopes, seen = checker.repository, {}, {}
  for new, old in pairs(map) do
    if repository.ids[old.id] == new then repository.ids[old.id] = old end
    local scope = repository.scopes[new]
    if scope then scopes[scope] = repository.scopes[old] end
    repository.scopes[new] = nil
  end
  for _, pair in ipairs(checker.again) do
    pair.scope.names[pair.lower] = pair.entry
    without(pair.scope.definition and pair.scope.definition.contents or repository.contents, map)
  end
  for definition in pairs(checker.made) do
    if not map[definition] then
      replace(definition, map, checker.made, seen)
      local scope = repository.scopes[definition]
      for i, base in ipairs(scope and scope.bases or {}) do scope.bases[i] = scopes[base] or base end
    end
  end
  for i, definition in ipairs(checker.top) do checker.top[i] = map[definition] or definition end
end

return same
