--[[
write: definitions from anywhere as one file of IDL, in an order in which each is known before it is used, with their repository ids.

  text = write.text(units, is_ours)      units: definitions that stand in modules or at the top; is_ours(definition): is it to be written at all?

A unit is written when what it needs is. Interfaces and valuetypes that it only mentions, and that come later, are declared before it; so are structs
and unions that need what needs them.
Modules are opened and closed as the order demands. Ids that do not follow from names and one #pragma prefix have a #pragma ID of their own.
What can't be ordered (a struct that holds itself, say) is written all the same: the compiler says what is wrong with it.
]]
local show = require "mare.orb.idl.show"

local write = {}

local writer = {}
writer.__index = writer

---------------------------------------------------------------------------------------------------------- what needs what

local lists = { "bases", "supports", "raises", "getraises", "setraises" }
local parts = { "members", "params", "contents" }

-- Calls f(definition, how) for all that a definition refers to. how: "mention", a declaration is enough; "weak", it is if the two need each other;
-- nil, it must be there.
local references

local function of_type(T, f)
  local inside = false
  while T.kind == "sequence" or T.kind == "array" do inside, T = inside or T.kind == "sequence", T.element end
  if not T.scoped then return end
  local mention = T.kind == "interface" or T.kind == "value"
  f(T, mention and "mention" or inside and (T.kind == "struct" or T.kind == "union") and "weak" or nil)
end

function references(d, f)
  if d.type then of_type(d.type, f) end
  if d.result then of_type(d.result, f) end
  if d.discriminator then of_type(d.discriminator, f) end
  for _, list in ipairs(lists) do
    for _, other in ipairs(d[list] or {}) do f(other) end
  end
  for _, list in ipairs(parts) do
    for _, part in ipairs(d[list] or {}) do references(part, f) end
  end
end

-- The part of `scope` (nil: a unit) that holds a definition, itself perhaps; nil: none.
local function part_of(d, scope)
  while d and d.holder ~= scope and not (scope == nil and d.holder and d.holder.kind == "module") do d = d.holder end
  return d
end

-- Calls f(part of the scope that d refers to, how), but for d itself.
local function needs(d, scope, f)
  local seen = {}
  local function visit(other, how)
    local part = part_of(other, scope)
    if not part then return end
    if part == d then
      if other ~= d and not seen[other] then               -- defined inside of it: what that needs, it needs
        seen[other] = true
        references(other, visit)
      end
      return
    end
    f(part, part == other and how or nil)
  end
  references(d, visit)
end

-- Parts of a scope that need each other, directly or by others, have the same number: d -> number (Tarjan's way to find them).
local function circles(list, scope, wanted)
  local number, low, stack, on, circle, n = {}, {}, {}, {}, {}, 0
  local function visit(d)
    n = n + 1
    number[d], low[d], on[d] = n, n, true
    stack[#stack + 1] = d
    needs(d, scope, function(other, how)
      if how == "mention" or not wanted[other] then return end
      if not number[other] then
        visit(other)
        low[d] = math.min(low[d], low[other])
      elseif on[other] then
        low[d] = math.min(low[d], number[other])
      end
    end)
    if low[d] ~= number[d] then return end
    repeat
      local other = table.remove(stack)
      on[other], circle[other] = nil, number[d]
    until other == d
  end
  for _, d in ipairs(list) do
    if not number[d] then visit(d) end
  end
  return circle
end

-- The parts of a scope in an order in which each comes after those it needs; where none is possible, in some other.
local function order(list, scope)
  local wanted, done, out = {}, {}, {}
  for _, d in ipairs(list) do wanted[d] = true end
  local circle = circles(list, scope, wanted)
  local function put(d)
    if done[d] then return end
    done[d] = true
    needs(d, scope, function(other, how)
      if how == "mention" or not wanted[other] or how == "weak" and circle[other] == circle[d] then return end
      put(other)
    end)
    out[#out + 1] = d
  end
  for _, d in ipairs(list) do put(d) end
  return out
end

-- What an interface or a valuetype holds: types first.
local function sorted(scope)
  local list = {}
  for _, d in ipairs(scope.contents) do if d.kind ~= "operation" and d.kind ~= "attribute" then list[#list + 1] = d end end
  for _, d in ipairs(scope.contents) do if d.kind == "operation" or d.kind == "attribute" then list[#list + 1] = d end end
  return order(list, scope)
end

--------------------------------------------------------------------------------------------------------------- repository ids

local function path_of(scoped) return (scoped:gsub("::", "/")) end

-- The prefix from which a definition's id follows, nil: from none.
local function prefix_of(d)
  local path = d.id:match "^IDL:(.*):1%.0$"
  local own = path_of(d.scoped)
  if path == own then return "" end
  return path and path:sub(-#own - 1) == "/" .. own and path:sub(1, -#own - 2) or nil
end

local function expected(self, d) return ("IDL:%s%s:1.0"):format(self.prefix ~= "" and self.prefix .. "/" or "", path_of(d.scoped)) end

-- Names as they are written, from the scope that is open on.
local function relative(self, d)
  local scoped = d.scoped
  if self.scope ~= "" then scoped = scoped:sub(#self.scope + 3) end
  return (scoped:gsub("[^:]+", show.name))
end

local function pragma(self, d)
  if not d.id or d.id == expected(self, d) then return end
  self:line(('#pragma ID %s "%s"'):format(relative(self, d), d.id))
end

-- d's own and those of all that is inside.
local function ids(self, d, seen)
  if seen[d] then return end
  seen[d] = true
  pragma(self, d)
  local function inner(other)
    if other.holder == d then ids(self, other, seen) end
  end
  for _, part in ipairs(d.contents or {}) do inner(part) end
  if not d.contents then references(d, inner) end
end

------------------------------------------------------------------------------------------------------------------ writing

function writer:line(text, indent) self.lines[#self.lines + 1] = (indent or self.indent) .. text end

local function close_to(self, common)
  while #self.open > common do
    self.indent = self.indent:sub(3)
    self:line "};"
    table.remove(self.open)
  end
  self.scope = table.concat(self.open, "::")
end

local function open(self, name, module)
  self:line(("module %s {"):format(show.name(name)))
  self.open[#self.open + 1] = name
  self.scope = table.concat(self.open, "::")
  self.indent = self.indent .. "  "
  if not self.named[module] and self.is_ours(module) and module.id ~= expected(self, module) then
    self:line(('#pragma ID %s "%s"'):format(show.name(name), module.id))
  end
  self.named[module] = true
end

-- Opens the modules around a unit, and those alone.
local function enter(self, d)
  local around, modules, holder = {}, {}, d.holder
  for name in d.scoped:gmatch "([^:]+)::" do around[#around + 1] = name end
  for i = #around, 1, -1 do
    modules[i] = holder or false
    holder = holder and holder.holder
  end
  local prefix = prefix_of(d) or modules[1] and self.is_ours(modules[1]) and prefix_of(modules[1]) or self.prefix
  if prefix ~= self.prefix then
    close_to(self, 0)
    self.prefix = prefix
    self:line(('#pragma prefix "%s"'):format(prefix))
  end
  local common = 0
  while around[common + 1] and around[common + 1] == self.open[common + 1] do common = common + 1 end
  close_to(self, common)
  for i = common + 1, #around do open(self, around[i], modules[i]) end
end

local function declare(self, d)
  if self.declared[d] then return end
  self.declared[d] = true
  enter(self, d)
  self:line(("%s %s;"):format(show.forward(d), show.name(d.name)))
  if not self.wanted[d] then pragma(self, d) end           -- it is not defined here
end

local function put(self, d)
  needs(d, nil, function(other)
    if self.is_ours(other) and not self.done[other] and show.forward(other) then declare(self, other) end
  end)
  enter(self, d)
  if d.kind == "interface" or d.kind == "value" then d.contents = sorted(d) end
  self.declared[d], self.done[d] = true, true
  for _, line in ipairs(show.lines(d, self.scope, self.indent, self.ambiguous)) do self.lines[#self.lines + 1] = line end
  ids(self, d, {})
end

-- How many things have each name; case makes no difference in IDL.
local function names_of(units, is_ours)
  local counts, seen = {}, {}
  local function note(name) counts[name:lower()] = (counts[name:lower()] or 0) + 1 end
  local visit
  local function part(other)
    if other.scoped then
      if is_ours(other) or other.holder then visit(other) end
    elseif other.name then
      note(other.name)
    end
  end
  function visit(d)
    if seen[d] then return end
    seen[d] = true
    note(d.name)
    if d.holder then part(d.holder) end
    for _, label in ipairs(d.labels or {}) do note(label) end
    for _, list in ipairs(parts) do
      for _, inner in ipairs(d[list] or {}) do part(inner) end
    end
    references(d, part)
  end
  for _, d in ipairs(units) do visit(d) end
  return counts
end

-- What a definition of a repository stands in, noted in it and in all around it.
local function hold(repository, d)
  while d and not d.holder do
    local outer = d.scoped:match "^(.*)::[^:]*$"
    d.holder = outer and repository:lookup(outer) or nil
    d = d.holder
  end
end

--- A definition of a repository and all that it needs: units and `is_ours`. The repository's definitions get `holder`, so it is only good for this.
function write.needed(repository, definition)
  local units, ours, queue, i = {}, {}, {}, 1
  local function take(d)
    if not d.scoped or ours[d] or not d.file or d.file == "orb.idl" then return end
    hold(repository, d)
    ours[d] = true
    local holder = d.holder
    if not holder or holder.kind == "module" then
      units[#units + 1] = d
      queue[#queue + 1] = d
    end
    while holder do
      if holder.kind == "module" then ours[holder] = true else take(holder) end
      holder = holder.holder
    end
  end
  local function inner(d)
    for _, part in ipairs(d.contents or {}) do
      hold(repository, part)
      ours[part] = true
      inner(part)
    end
    references(d, take)
  end
  take(definition)
  while queue[i] do
    inner(queue[i])
    i = i + 1
  end
  return units, function(d) return ours[d] or false end
end

--- The text with an #include of CORBA's own names, if it uses any; `file` is the one it needs, else that is orb.idl.
function write.including(text, file)
  file = file or text:find("CORBA::", 1, true) and "orb.idl"
  return file and ("#include <%s>\n%s"):format(file, text) or text
end

---@param units mare.orb.Definition[] with `holder`, what each definition stands in
---@param is_ours fun(definition: mare.orb.Definition): boolean
---@return string
function write.text(units, is_ours)
  local self = setmetatable({ lines = {}, indent = "", scope = "", open = {}, prefix = "", named = {}, declared = {}, done = {}, wanted = {},
                              is_ours = is_ours }, writer)
  for _, d in ipairs(units) do self.wanted[d] = true end
  local counts = names_of(units, is_ours)
  function self.ambiguous(name) return (counts[name:lower()] or 0) > 1 end
  for _, d in ipairs(order(units)) do put(self, d) end
  close_to(self, 0)
  return #self.lines > 0 and table.concat(self.lines, "\n") .. "\n" or ""
end

return write
