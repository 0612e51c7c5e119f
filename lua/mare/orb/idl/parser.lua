-- parser: tokens to definitions, by recursive descent. Its methods stand in tokens.lua (reading), expressions.lua, types.lua, interfaces.lua and
-- values.lua; here are the top level, modules and what changes repository ids.
--
-- Modules are a loop with a stack, all else that can stand inside itself counts its levels (`deeper`), so hostile text can't exhaust a stack.
local basic = require "mare.orb.idl.basic"
local literal = require "mare.orb.idl.literal"

local parser = { limits = { nesting = 60, operators = 10000 }, basic = basic, literal = literal }
parser.__index = parser

for _, part in ipairs { "tokens", "expressions", "types", "interfaces", "values" } do
  for name, f in pairs(require("mare.orb.idl." .. part)) do parser[name] = f end
end

---@param tokens mare.orb.idl.Token[] of the preprocessor
---@param checker table
function parser.new(tokens, checker)
  local p = setmetatable({ tokens = tokens, at = 0, checker = checker, errors = checker.errors, notes = checker.notes, braces = 0, nesting = 0,
                           angles = 0, waiting = {}, noted = {} }, parser)
  p:advance()
  return p
end

-- ---- pragmas ----

local pragma = {}

-- Nothing but what the pragma needs stands in its line.
local function ends(self, t, i)
  local word = t.words[i]
  if word.kind ~= "end" then self.errors:stop(t, "#pragma %s goes on after its end, at '%s'", t.text, word.text) end
end

function pragma.prefix(self, t)
  local word = t.words[1]
  if word.kind ~= "string" then self.errors:stop(t, '#pragma prefix needs "text" between double quotes') end
  ends(self, t, 2)
  self.checker.prefix = word.text
end

-- The definition named by words from i on, and the index after the name.
local function named(self, t, i)
  local words, names, absolute = t.words, {}, false
  if words[i].text == "::" then absolute, i = true, i + 1 end
  while true do
    local word = words[i]
    if word.kind ~= "identifier" then self.errors:stop(t, "#pragma %s needs the name of a definition", t.text) end
    word.name = word.text:gsub("^_", "")
    names[#names + 1] = word
    i = i + 1
    if words[i].text ~= "::" then break end
    i = i + 1
  end
  return self.checker:resolve(names, absolute), names[#names], i
end

function pragma.ID(self, t)
  local definition, token, i = named(self, t, 1)
  local id = t.words[i]
  if id.kind ~= "string" then self.errors:stop(t, '#pragma ID needs a name and "an id" between double quotes') end
  ends(self, t, i + 1)
  if not id.text:find("^[^%s:]+:.") then self.notes:add(t, "the id '%s' has no format, such as IDL:, before it", id.text) end
  self.checker:rename(token, definition, id.text, "id")
end
pragma.id = pragma.ID

function pragma.version(self, t)
  local definition, token, i = named(self, t, 1)
  local version = t.words[i]
  if not version.text:find("^%d+%.%d+$") then self.errors:stop(t, "#pragma version needs a name and a number such as 1.2") end
  ends(self, t, i + 1)
  self.checker:set_version(token, definition, version.text)
end

function pragma.enter(self) self.checker:file_begins() end
function pragma.leave(self) self.checker:file_ends() end

-- It would be about what follows the definition it stands in, which nobody who reads it expects.
local function misplaced(self, t) self.errors:stop(t, "#pragma prefix can't stand inside a definition, only before and after it") end

-- Carries out the pragmas that stand between the last definition and the next. Unknown ones are for other compilers.
function parser:pragmas()
  local waiting = self.waiting
  if #waiting == 0 then return end
  self.waiting = {}
  local first = self.at                          -- of those that no other token separates from here
  while first > 1 and self.tokens[first - 1].at do first = first - 1 end
  for _, t in ipairs(waiting) do
    local f = t.kind == "pragma" and (t.text ~= "enter" and t.text ~= "leave") and pragma[t.text] or t.kind ~= "pragma" and pragma[t.kind]
    if f == pragma.prefix and t.at < first and #self.errors == 0 then f = misplaced end
    if f then self:attempt(f, t) end
  end
end

-- f(self, t), which reads no tokens: an error of it only ends it.
function parser:attempt(f, t)
  local ok, err = pcall(f, self, t)
  if not ok and err ~= self.errors.halt then error(err, 0) end
end

-- ---- typeid, typeprefix, import ----

local function format_of(id) return id:match("^(%w+):.") end

local function typeid(self)
  self:advance()
  local definition, token = self:resolve("the name of a definition")
  local id, place = self:string('"an id" between double quotes')
  if not format_of(id) then self.errors:stop(place, "an id has a format before it, as in IDL:%s:1.0", id) end
  self.checker:rename(token, definition, id, "id")
end

local function typeprefix(self)
  self:advance()
  local definition, token = self:resolve("the name of a module, an interface or another scope")
  local prefix = self:string('"a prefix" between double quotes')
  self:set_prefix(token, definition, prefix)
end

-- All ids inside the definition, and its own, begin with the prefix, then its scoped name.
function parser:set_prefix(token, definition, prefix)
  local checker = self.checker
  local scope = checker:scope_of(definition)
  if not scope then self.errors:stop(token, "'%s' is a %s, it has no scope to give a prefix", token.name, checker.kind_name(definition)) end
  local function path(d) return prefix .. "/" .. d.scoped:gsub("::", "/") end
  local function all(s, d)
    checker:put(s, "prefix", path(d))
    for _, entry in pairs(s.names) do
      local inner = entry.definition
      local made = checker.made[inner]
      if made then
        made.prefix = path(d)
        if not made.fixed and inner.id then checker:rename(token, inner, "IDL:" .. path(inner) .. ":1.0") end
        local below = checker:scope_of(inner)
        if below then all(below, inner) end
      end
    end
  end
  all(scope, definition)
  local around = checker.scope
  while around and around ~= scope do around = around.parent end
  if around == scope then checker.prefix = path(checker.scope.definition) end   -- it stands inside what it is about
end

local function import(self)
  self:advance()
  if self.token.kind == "string" then
    local id, place = self:string()
    if not self.checker.repository.ids[id] then self.errors:add(place, "nothing with the id '%s' has been loaded: load its file before", id) end
  else
    self:resolve("the name of what is imported")
  end
end

local identities = { typeid = typeid, typeprefix = typeprefix }
local unsupported = { component = true, home = true, eventtype = true, connector = true, porttype = true }

-- typeid and typeprefix, if one of them stands here (and is not a name).
function parser:identity()
  local t, following = self.token, self.tokens[self.at + 1]
  local f = t.kind == "identifier" and identities[t.text]
  if not f or not following then return false end
  local second = self.tokens[self.at + 2]
  local named_here = following.kind == "identifier" and second and (second.kind == "string" or second.text == "::")
  if following.text ~= "::" and not named_here then return false end
  f(self)
  return true
end

-- ---- the top level ----

local flags = { abstract = true, custom = true, ["local"] = true }

local function flagged(self)
  local set, first = {}, self.token
  while flags[self.word] do
    if set[self.word] then self:expected("'interface' or 'valuetype'") end
    set[self:advance().text] = true
  end
  if self.word == "interface" and not set.custom then
    if set.abstract and set["local"] then self.errors:add(first, "an interface can't be both abstract and local") end
    return self:interface(set)
  end
  if set["local"] then self:expected("'interface' after 'local'") end
  if set.custom and set.abstract then self.errors:add(first, "a valuetype can't be both abstract and custom") end
  if self.word ~= "valuetype" then self:expected(set.custom and "'valuetype' after 'custom'" or "'interface' or 'valuetype' after 'abstract'") end
  return self:valuetype(set)
end

local simple = { typedef = true, struct = true, union = true, enum = true, const = true, native = true, exception = true }

function parser:definition()
  local word = self.word
  if simple[word] then self[word](self)
  elseif word == "interface" then self:interface {}
  elseif word == "valuetype" then self:valuetype {}
  elseif flags[word] then flagged(self)
  elseif self:at_word("import") then import(self)
  elseif self.token.kind == "identifier" and unsupported[self.token.text] then
    self.errors:stop(self.token, "components are not supported: '%s'", self.token.text)
  elseif not self:identity() then
    self:expected("a definition")
  end
  self:semicolon("after this definition")
end

local function open_module(self, open)
  local checker = self.checker
  self:expect("module")
  local token = self:name("the name of the module")
  self:expect("{", "after the name of the module")
  local entry = checker.scope.names[token.name:lower()]
  local definition = entry and entry.name == token.name and entry.definition.kind == "module" and entry.definition
  if not definition then
    definition = { kind = "module", contents = {} }
    checker:declare(token, definition)
    checker:contain(definition)
  elseif not checker.scope.definition then
    checker:at_top(definition)
  end
  local mark = checker:mark()
  checker:enter(definition, token)
  open[#open + 1] = { mark = mark, token = token, at = self.at }
end

local function close_module(self, open)
  local close = self:advance()
  self:semicolon("after the '}' of a module")
  if open.empty then self.errors:add(close, "the module '%s' is empty: it needs at least one definition", open.token.name) end
end

-- The whole file. Errors are in self.errors.
function parser:specification()
  local open = {}
  while true do
    self:pragmas()
    self:annotations()
    local top = open[#open]
    if self.token.kind == "end" then
      if top then self.errors:add(self.token, "'}' expected to end the module '%s' (%s:%d), got the end of the file", top.token.name, top.token.file,
        top.token.line) end
      return
    elseif self.word == "}" and top then
      open[#open] = nil
      self.checker:back(top.mark)
      top.empty = top.at == self.at
      self:guarded(close_module, top)
    elseif self.word == "}" then
      self.errors:add(self.token, "this '}' closes nothing")
      self:advance()
      self:accept(";")
    elseif self.word == "module" then
      self:guarded(open_module, open)
    else
      self:guarded(self.definition)
    end
  end
end

return parser
