-- checker: scopes, names and repository ids of one load.
--
-- A scope: { definition, parent, names = { lower-case name -> entry }, used = { lower-case name -> use }, bases = scopes inherited from,
-- prefix }. An entry is { name, definition, load }. Names that differ only by case collide; a name used in a scope can't get another meaning
-- there afterwards (CORBA 3.15.3).
--
-- Nothing changes until the load is good: every change of a table goes through `put`, which notes the old value; `undo` brings all of them back.
-- What an earlier load declared may be declared again if it is the same: the new definition takes the old one's place for the rest of the load
-- (`again`), then same.lua compares the two and puts the old one back.
local near = require "mare.orb.near"

local checker = {}
checker.__index = checker

checker.limits = { scopes = 100 }

---@param repository table the scopes and ids it keeps
---@param errors mare.orb.idl.Errors
---@param notes mare.orb.idl.Errors
function checker.new(repository, errors, notes)
  return setmetatable({ repository = repository, errors = errors, notes = notes, journal = {}, again = {}, forwards = {}, made = {},
                        top = {}, in_top = {}, load = {}, scope = repository.root, prefix = "", files = {}, level = 0 }, checker)
end

function checker:put(t, k, v)
  self.journal[#self.journal + 1] = { t, k, t[k] }
  t[k] = v
end

function checker:append(t, v) self:put(t, #t + 1, v) end

function checker:remove(list, at)
  for i = at, #list do self:put(list, i, list[i + 1]) end
end

function checker:undo()
  for i = #self.journal, 1, -1 do
    local change = self.journal[i]
    change[1][change[2]] = change[3]
  end
  self.journal = {}
end

local function place_of(definition)
  if not definition.file then return "CORBA itself" end
  return ("%s:%d"):format(definition.file, definition.line)
end
checker.place_of = place_of

local kind_names = { except = "exception", enumerator = "enumerator", const = "constant", alias = "typedef", value = "valuetype",
                     valuebox = "valuetype", parameter = "parameter", interface = "interface" }
function checker.kind_name(definition) return kind_names[definition.kind] or definition.kind end

-- ---- ids ----

-- prefix: what stands before the last name, without "IDL:".
local function make_id(prefix, name, version) return ("IDL:%s%s:%s"):format(prefix ~= "" and prefix .. "/" or "", name, version or "1.0") end

function checker:identify(definition)
  definition.scoped = (self.scope.definition and self.scope.definition.scoped .. "::" or "") .. definition.name
  definition.id = make_id(self.prefix, definition.name)
  self.made[definition] = { prefix = self.prefix }
  self:put(self.repository.ids, definition.id, definition)
end

-- What CORBA itself declares (repository.lua) now stands in a file: it gets the place and the id that it has there.
function checker:adopt(token, definition)
  if definition.file then return end
  local id, ids = make_id(self.prefix, definition.name), self.repository.ids
  self.made[definition] = { prefix = self.prefix }
  for field, value in pairs { file = token.file, line = token.line, column = token.column, id = id } do self:put(definition, field, value) end
  self:put(ids, "IDL:omg.org/CORBA/" .. definition.name .. ":1.0", nil)
  self:put(ids, id, definition)
end

-- Gives a definition another id, by #pragma ID or version, typeid or typeprefix. `fixed` ids are never changed again.
function checker:rename(token, definition, id, fixed)
  if not definition.id or definition.kind == "enumerator" then
    return self.errors:add(token, "'%s' has no repository id: it is a %s", token.text, checker.kind_name(definition))
  end
  local mine = self.made[definition]
  if definition.id == id then
    if mine then mine.fixed = mine.fixed or fixed end
    return
  end
  if not mine then
    return self.errors:add(token, "'%s' already has the id %s, from an earlier load", token.text, definition.id)
  end
  if mine.fixed then return self.errors:add(token, "'%s' already was given the id %s", token.text, definition.id) end
  mine.fixed = fixed
  local ids = self.repository.ids
  if ids[definition.id] == definition then self:put(ids, definition.id, nil) end
  self:put(definition, "id", id)
  self:put(ids, id, definition)
end

function checker:set_version(token, definition, version)
  local mine = self.made[definition]
  self:rename(token, definition, make_id(mine and mine.prefix or "", definition.name, version), "version")
end

-- ---- scopes ----

function checker:scope_of(definition) return self.repository.scopes[definition] end

-- Opens the scope of a definition, a new one unless it has one already (a module that is opened again).
function checker:enter(definition, token)
  self.level = self.level + 1
  if self.level > checker.limits.scopes then self.errors:stop(token, "scopes are nested deeper than %d", checker.limits.scopes) end
  local scope = self:scope_of(definition)
  if not scope then
    scope = { definition = definition, parent = self.scope, names = {}, used = {}, bases = {} }
    self:put(self.repository.scopes, definition, scope)
  end
  self.stack = { scope = self.scope, prefix = self.prefix, below = self.stack }
  self.scope = scope
  local made = self.made[definition]
  self.prefix = scope.prefix or (self.prefix ~= "" and self.prefix .. "/" or "") .. definition.name
  if made then made.inner = self.prefix end
  return scope
end

function checker:leave()
  self.level = self.level - 1
  self.scope, self.prefix = self.stack.scope, self.stack.prefix
  self.stack = self.stack.below
end

-- Where the checker is, and back there after an error.
function checker:mark() return { self.stack, self.scope, self.prefix, self.level } end
function checker:back(mark) self.stack, self.scope, self.prefix, self.level = table.unpack(mark, 1, 4) end

-- An included file begins without prefix.
function checker:file_begins()
  self.files[#self.files + 1] = { prefix = self.prefix, scope = self.scope }
  self.prefix = ""
end

function checker:file_ends()
  local file = table.remove(self.files)
  if file and file.scope == self.scope then self.prefix = file.prefix end
end

-- ---- looking up ----

-- The entry of a name in a scope or in what it inherits; the second result is another one if the name is ambiguous.
local function find(scope, lower, seen)
  local entry = scope.names[lower]
  if entry then return entry end
  local found
  for _, base in ipairs(scope.bases) do
    if not seen[base] then
      seen[base] = true
      local inherited, other = find(base, lower, seen)
      if other then return inherited, other end
      if inherited and found and inherited.definition ~= found.definition then return found, inherited end
      found = found or inherited
    end
  end
  return found
end

function checker.find(scope, name) return find(scope, name:lower(), {}) end

-- Short names are near to everything, comparing long ones takes long.
local function comparable(name) return #name > 3 and #name <= 40 end

-- Some of the names in a scope; without one, in the current scope and those around it.
local function some_names(self, inside)
  local list, scope = {}, inside or self.scope
  while scope do
    for _, entry in pairs(scope.names) do
      local kind = entry.definition.kind
      if kind ~= "member" and kind ~= "parameter" and comparable(entry.name) and #list < 300 then list[#list + 1] = entry.name end
    end
    scope = not inside and scope.parent or nil
  end
  return list
end

function checker:unknown(token, name, scope)
  local where = scope and (" in '%s'"):format(scope.definition.scoped) or ""
  local meant = comparable(name) and near(name, some_names(self, scope))
  self.errors:stop(token, "'%s' is not declared%s%s", name, where, meant and (": did you mean %s?"):format(meant) or "")
end

function checker:accept(token, name, entry, other, scope)
  if not entry then self:unknown(token, name, scope) end
  if other then
    self.errors:stop(token, "'%s' is ambiguous: it is inherited as %s and as %s", name, entry.definition.scoped, other.definition.scoped)
  end
  if entry.name ~= name then
    self.errors:stop(token, "'%s' is not declared; '%s', which differs in case, is (%s)", name, entry.name, place_of(entry.definition))
  end
  return entry.definition
end

-- The scopes from the current one outward.
function checker:first(token, name)
  local lower = name:lower()
  local scope = self.scope
  while scope do
    local entry, other = find(scope, lower, {})
    if entry then
      local definition = self:accept(token, name, entry, other)
      if scope ~= self.scope and not self.scope.used[lower] then self:use(token, name, lower, definition, scope) end
      if scope == self.scope and not scope.names[lower] then self:use(token, name, lower, definition, scope) end
      return definition
    end
    scope = scope.parent
  end
  self:unknown(token, name)
end

--- Is the name declared here or around here? It counts as no use of it.
function checker:knows(name)
  local lower, scope = name:lower(), self.scope
  while scope and not find(scope, lower, {}) do scope = scope.parent end
  return scope ~= nil
end

-- Notes that a name was used in the current scope, and in those around it up to a module or to where it is declared.
function checker:use(token, name, lower, definition, declared)
  local scope = self.scope
  repeat
    self:put(scope.used, lower, { name = name, definition = definition, line = token.line, load = self.load })
    local kind = scope.definition and scope.definition.kind
    scope = scope.parent
  until scope == declared or not scope or kind == "module" or not kind or scope.definition and scope.definition.kind == "module"
end

-- names: tokens of a scoped name; absolute: it began with "::".
function checker:resolve(names, absolute)
  local token = names[1]
  local definition
  if absolute then
    definition = self:accept(token, token.name, find(self.repository.root, token.name:lower(), {}))
  else
    definition = self:first(token, token.name)
  end
  for i = 2, #names do
    token = names[i]
    local scope = self:scope_of(definition)
    if not scope then self.errors:stop(token, "'%s' is a %s, it holds no names", names[i - 1].name, checker.kind_name(definition)) end
    local entry, other = find(scope, token.name:lower(), {})
    definition = self:accept(token, token.name, entry, other, scope)
  end
  return definition
end

-- ---- declaring ----

local function clash(self, token, definition, entry)
  local old = entry.definition
  if entry.name ~= definition.name then
    return self.errors:add(token, "'%s' and the %s '%s' (%s) differ only in case", definition.name, checker.kind_name(old), entry.name, place_of(old))
  end
  self.errors:add(token, "'%s' is already declared: %s, %s", definition.name, checker.kind_name(old), place_of(old))
end

-- Whether the name of `definition` may be declared in the current scope; else complains.
function checker:free(token, definition)
  local scope, lower = self.scope, definition.name:lower()
  local entry = scope.names[lower]
  if entry then
    local old = entry.definition
    if entry.load ~= self.load and entry.name == definition.name and old.kind == definition.kind and old.kind ~= "module" and old.file then
      self.again[#self.again + 1] = { old = old, new = definition, scope = scope, lower = lower, entry = entry }
      return true
    end
    clash(self, token, definition, entry)
    return false
  end
  local holder = scope.definition
  if holder and holder.name:lower() == lower and holder.kind ~= "operation" and holder.kind ~= "factory" then
    self.errors:add(token, "'%s' has the name of the %s it stands in", definition.name, checker.kind_name(holder))
    return false
  end
  local use = scope.used[lower]
  local meant = use and use.definition ~= definition and use.load == self.load
  if meant and not (self.lenient and use.definition.name ~= definition.name) then
    self.errors:add(token, "'%s' can't be declared here: it was used with the meaning '%s' on line %d%s", definition.name,
      use.definition.scoped or use.name, use.line, use.definition.name == definition.name and "" or ", and case makes no difference in IDL")
    return false
  end
  return self:free_of_bases(token, definition, lower)
end

-- Operations and attributes of bases keep their names.
function checker:free_of_bases(token, definition, lower)
  for _, base in ipairs(self.scope.bases) do
    local entry = find(base, lower, {})
    local kind = entry and entry.definition.kind
    if kind == "operation" or kind == "attribute" then
      self.errors:add(token, "'%s' is inherited as an %s (%s)", definition.name, kind, place_of(entry.definition))
      return false
    end
  end
  return true
end

-- Declares the definition in the current scope. token: its name (also its place).
function checker:declare(token, definition)
  definition.name = token.name
  definition.file, definition.line, definition.column = token.file, token.line, token.column
  local free = self:free(token, definition)
  self:identify(definition)
  if not free then return false end
  self:put(self.scope.names, definition.name:lower(), { name = definition.name, definition = definition, load = self.load })
  return true
end

-- Adds it to what its container shows.
function checker:contain(definition)
  local holder = self.scope.definition
  local contents = holder and holder.contents or not holder and self.repository.contents
  if contents then self:append(contents, definition) end
  if not holder then self:at_top(definition) end
  if holder and holder.members and (holder.kind == "interface" or holder.kind == "value") then
    self:put(holder.members, definition.name, definition)
  end
end

-- Adds it to what the load gives.
function checker:at_top(definition)
  if self.in_top[definition] then return end
  self.in_top[definition] = true
  self.top[#self.top + 1] = definition
end

-- A name in the current scope that is no definition of its own: a member, a parameter.
function checker:declare_plain(token, kind)
  local definition = { kind = kind, name = token.name, file = token.file, line = token.line }
  if not self:free(token, definition) then return false end
  self:put(self.scope.names, token.name:lower(), { name = token.name, definition = definition, load = self.load })
  return true
end

function checker:enumerator(token, enum)
  local definition = { kind = "enumerator", value = token.name, type = enum }
  return self:declare(token, definition)
end

-- ---- complete types ----

-- The struct or union inside `type` that is not defined yet; anything may refer to one by a sequence, if `sequences` is true.
function checker.incomplete(type, sequences)
  while true do
    if type.kind == "alias" then type = type.type
    elseif type.kind == "array" then type = type.element
    elseif type.kind == "sequence" then
      if sequences then return nil end
      type = type.element
    elseif type.kind == "struct" or type.kind == "union" then
      return type.unfinished and type or nil
    else
      return nil
    end
  end
end

-- The place where a type is used must be able to hold it.
function checker:complete(token, type)
  local missing = checker.incomplete(type, true)
  if not missing then
    -- A sequence of an unfinished type is only good inside that type.
    missing = checker.incomplete(type, false)
    if not missing or not missing.forward then return end
  end
  if missing.forward then
    self.errors:stop(token, "'%s' is only declared (%s), not yet defined: only a typedef of a sequence may use it here", missing.name,
      place_of(missing))
  end
  self.errors:stop(token, "'%s' can't hold itself: only a sequence of '%s' can stand inside it", missing.name, missing.name)
end

function checker:finish()
  for _, forward in ipairs(self.forwards) do
    local definition = forward.definition
    if definition.forward then
      if definition.kind == "struct" or definition.kind == "union" then
        self.errors:add(forward.token, "the %s '%s' is declared here and never defined", definition.kind, definition.name)
      else
        self.notes:add(forward.token, "the %s '%s' is declared here and never defined", checker.kind_name(definition), definition.name)
      end
    end
  end
end

return checker
