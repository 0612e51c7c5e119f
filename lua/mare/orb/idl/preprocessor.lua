-- preprocessor: a file to the tokens the parser reads.
--
--   tokens = preprocessor.run(text, { name =, include = {dirs}, define = { N = "v" }, read = f }, errors)
--
-- Besides the lexer's kinds the result has tokens of the kinds `pragma` (text: its name, words: the tokens after it), `enter` and `leave`
-- (an included file begins, ends) and at last `end`. Files are read through `read`, a function (path) -> text | nil, why.
-- Bounds against hostile files: depth of inclusion, number of files, bytes in all; macros.lua has its own.
local condition = require "mare.orb.idl.condition"
local lexer = require "mare.orb.idl.lexer"
local macros = require "mare.orb.idl.macros"

local preprocessor = {}

preprocessor.limits = { depth = 64, files = 10000, bytes = 32 * 1024 * 1024, conditions = 1000 }

-- Files that need not exist.
preprocessor.builtin = {}

local reader = {}
reader.__index = reader

---@param path string
---@return string|nil text, string|nil why
function preprocessor.read(path)
  local file, why = io.open(path, "rb")
  if not file then return nil, (why:gsub("^.*: ", "")) end
  local text, err = file:read(preprocessor.limits.bytes + 1)
  file:close()
  if err then return nil, err end
  return text or ""
end

-- ---- files ----

function reader:push(text, path, place)
  self.bytes, self.files = self.bytes + #text, self.files + 1
  if self.bytes > preprocessor.limits.bytes then self.errors:stop(place, "the files are larger than %d bytes in all", preprocessor.limits.bytes) end
  if self.files > preprocessor.limits.files then self.errors:stop(place, "more than %d files are included", preprocessor.limits.files) end
  text = text:gsub("^\xEF\xBB\xBF", "")          -- the mark some editors put before UTF-8
  local tokens = lexer.tokens(text, path, self.errors, lexer.most - self.read_tokens)
  self.read_tokens = self.read_tokens + #tokens
  local file = { tokens = tokens, at = 1, name = path, folder = path:match("^(.*/)") or "", conditions = {} }
  self.stack[#self.stack + 1] = file
  self.file = file
end

-- Every #if of a file ends in it.
function reader:pop()
  local open = self.file.conditions[#self.file.conditions]
  if open then
    self.skipping = false
    self.errors:add(open.place, "this #%s has no #endif", open.place.text)
  end
  self.stack[#self.stack] = nil
  self.file = self.stack[#self.stack]
end

-- The tokens up to the end of the line, ended by one of kind "end".
function reader:line()
  local tokens, line, n = self.file.tokens, {}, 0
  local at = self.file.at
  local last = tokens[at - 1]
  while not tokens[at].first do
    n = n + 1
    line[n] = tokens[at]
    at = at + 1
  end
  self.file.at = at
  last = line[n] or last
  line[n + 1] = { kind = "end", text = "", file = last.file, line = last.line, column = last.column + #last.text }
  return line
end

-- ---- directives: function (reader, line, the directive's token) ----

local directives = {}

function directives.define(r, line) r.macros:define(line) end

function directives.undef(r, line)
  if line[1].kind ~= "identifier" then r.errors:stop(line[1], "#undef needs a name, got %s", macros.show(line[1])) end
  r.macros.defined[line[1].text] = nil
end

local function text_of(line, from)
  local parts = {}
  for i = from or 1, #line - 1 do
    local t = line[i]
    local quote = t.kind == "string" and '"' or t.kind == "char" and "'" or ""
    parts[#parts + 1] = (t.space and i > (from or 1) and " " or "") .. quote .. t.text .. quote
  end
  return table.concat(parts)
end

function directives.error(r, line, name) r.errors:add(name, "#error %s", text_of(line)) end
function directives.warning() end
function directives.ident() end

function directives.pragma(r, line, place)
  local name = line[1].kind == "end" and "" or line[1].text
  if name == "once" then
    r.once[r.file.name] = true
  else
    r:emit { kind = "pragma", text = name, words = table.move(line, 2, #line, 1, {}), file = place.file, line = place.line, column = place.column }
  end
end

-- "name" or <name>, from tokens: the name, whether quoted.
local function file_name(r, line, place)
  local first = line[1]
  if first.kind == "string" then return first.text, true end
  if first.text == "<" then
    local parts, i = {}, 2
    while line[i].text ~= ">" do
      if line[i].kind == "end" then r.errors:stop(first, "'>' expected after the name of the file to include") end
      parts[#parts + 1] = (line[i].space and #parts > 0 and " " or "") .. line[i].text
      i = i + 1
    end
    return table.concat(parts), false
  end
  r.errors:stop(first.kind == "end" and place or first, '#include needs "file" or <file>, got %s', macros.show(first))
end

function reader:candidates(name, quoted)
  if name:sub(1, 1) == "/" then return { name } end
  local list = {}
  if quoted then list[1] = self.file.folder .. name end
  for _, folder in ipairs(self.options.include or {}) do list[#list + 1] = folder:gsub("/*$", "/") .. name end
  return list
end

function reader:find(name, quoted, place)
  for _, path in ipairs(self:candidates(name, quoted)) do
    local once = self.once[path]                 -- #pragma once, or the macro of the #ifndef around all of it
    if once == true or self.macros.defined[once] then return nil, nil end
    local text = self.read(path)
    if text then return text, path end
  end
  if preprocessor.builtin[name] then return preprocessor.builtin[name], name end
  local where = #(self.options.include or {}) > 0 and table.concat(self.options.include, ", ") or "none given"
  self.errors:stop(place, "can't find the file '%s' (include folders: %s)", name, where)
end

function directives.include(r, line, place)
  if line[1].kind == "identifier" then
    local last = table.remove(line)
    line = r.macros:expand(line)
    line[#line + 1] = last
  end
  local name, quoted = file_name(r, line, place)
  if #r.stack >= preprocessor.limits.depth then
    r.errors:stop(place, "files include each other deeper than %d: does '%s' lack its #ifndef?", preprocessor.limits.depth, name)
  end
  local text, path = r:find(name, quoted, place)
  if not text then return end
  r:emit { kind = "enter", text = path, file = place.file, line = place.line, column = place.column }
  r:push(text, path, place)
end

-- # 12 "file", as other preprocessors leave it, and #line 12 "file": what follows is counted from there.
function directives.line(r, line, place)
  local number = math.tointeger(tonumber(line[1].text))
  if not number then r.errors:stop(place, "#line needs a number, got %s", macros.show(line[1])) end
  local name = line[2] and line[2].kind == "string" and line[2].text or nil
  local tokens, at = r.file.tokens, r.file.at
  local shift = number - place.line - 1
  for i = at, #tokens do
    tokens[i].line = tokens[i].line + shift
    if name then tokens[i].file = name end
  end
  local flag = line[3] and line[3].text
  if flag == "1" or flag == "2" then
    r:emit { kind = flag == "1" and "enter" or "leave", text = name, file = place.file, line = place.line, column = place.column }
  end
end

-- ---- conditions: { place, taken: some branch was, live: this one is, parent: what is around it is, otherwise: #else came } ----

-- `defined X` and `defined (X)` become 1 or 0 before macros are expanded.
function reader:conclude(line, place)
  local list, i = {}, 1
  while line[i].kind ~= "end" do
    local t = line[i]
    if t.text == "defined" and t.kind == "identifier" then
      local parenthesis = line[i + 1].text == "("
      local name = line[i + (parenthesis and 2 or 1)]
      if not name or name.kind ~= "identifier" then self.errors:stop(t, "'defined' needs a name") end
      i = i + (parenthesis and 3 or 1)
      if parenthesis and line[i].text ~= ")" then self.errors:stop(line[i], "')' expected after 'defined(%s'", name.text) end
      t = { kind = "number", text = self.macros.defined[name.text] and "1" or "0", file = t.file, line = t.line, column = t.column }
    end
    list[#list + 1] = t
    i = i + 1
  end
  return condition.evaluate(self.macros:expand(list), place, self.errors)
end

function reader:condition(place, value)
  local all = self.file.conditions
  local limit = preprocessor.limits.conditions
  if #all >= limit then self.errors:stop(place, "#%s is nested deeper than %d", place.text, limit) end
  local parent = not self.skipping
  all[#all + 1] = { place = place, taken = value, live = value, parent = parent }
  self.skipping = not (parent and value)
end

local conditions = {}

conditions["if"] = function(r, line, place)
  local value = false
  if not r.skipping then value = r:guarded(r.conclude, line, place) or false end
  r:condition(place, value)
end

local function defined(r, line, place)
  if r.skipping then return false end
  if line[1].kind ~= "identifier" then
    r.errors:add(place, "#%s needs a name, got %s", place.text, macros.show(line[1]))
    return false
  end
  return r.macros.defined[line[1].text] ~= nil
end

function conditions.ifdef(r, line, place) r:condition(place, defined(r, line, place)) end

function conditions.ifndef(r, line, place)
  r:condition(place, not defined(r, line, place))
  if r.file.tokens[2] == place then r.file.conditions[1].guard = line[1].text end
end

local function current(r, place)
  local all = r.file.conditions
  local c = all[#all]
  if not c then r.errors:add(place, "#%s without #if", place.text) end
  return c, all
end

function conditions.elif(r, line, place)
  local c = current(r, place)
  if not c then return end
  if c.otherwise then r.errors:add(place, "#elif after #else") end
  c.live, c.guard = false, nil
  if c.parent and not c.taken then
    r.skipping = false
    c.live = r:guarded(r.conclude, line, place) or false
    c.taken = c.live
  end
  r.skipping = not (c.parent and c.live)
end

conditions["else"] = function(r, _, place)
  local c = current(r, place)
  if not c then return end
  if c.otherwise then r.errors:add(place, "a second #else; the first is on line %d", c.otherwise) end
  c.otherwise, c.live = place.line, not c.taken
  c.taken = true
  r.skipping = not (c.parent and c.live)
end

function conditions.endif(r, _, place)
  local c, all = current(r, place)
  if not c then return end
  all[#all] = nil
  r.skipping = not c.parent
  if c.guard and not c.otherwise and r.file.tokens[r.file.at].kind == "end" then r.once[r.file.name] = r.once[r.file.name] or c.guard end
end

-- ---- the whole ----

-- f(self, ...); after an error that stops it, nil.
function reader:guarded(f, ...)
  local ok, result = pcall(f, self, ...)
  if ok then return result end
  if result ~= self.errors.halt then error(result, 0) end
  self.macros.depth = 0
  return nil
end

-- After a '#' that is the first of its line.
function reader:directive()
  local line = self:line()
  local name = line[1]
  if name.kind == "end" then return end
  local rest = table.move(line, 2, #line, 1, {})
  if name.kind == "identifier" and conditions[name.text] then return conditions[name.text](self, rest, name) end
  if self.skipping then return end
  if name.kind == "number" then return self:guarded(directives.line, line, name) end
  local f = name.kind == "identifier" and directives[name.text]
  if not f then return self.errors:add(name, "no preprocessor directive is called '%s'", name.text) end
  return self:guarded(f, rest, name)
end

-- The next token of the files, not expanded. Inside a macro's arguments a file's end is an end.
function reader:raw(inside)
  while true do
    local file = self.file
    local t = file.tokens[file.at]
    if t.kind == "end" then
      if inside then return t end
      self:pop()
      if not self.file then
        self.last = t
        return nil
      end
      self:emit { kind = "leave", text = file.name, file = t.file, line = t.line, column = t.column }
    elseif t.first and t.text == "#" and t.kind == "punctuation" then
      file.at = file.at + 1
      self:directive()
    else
      file.at = file.at + 1
      if not self.skipping then return t end
    end
  end
end

function reader:emit(token)
  self.n = self.n + 1
  self.out[self.n] = token
end

local function predefined(r)
  local m = r.macros
  for name, value in pairs(r.options.define or {}) do
    local text = value == true and "1" or tostring(value)
    local body = lexer.tokens(text, "<define>", r.errors)
    body[#body] = nil
    m.defined[name] = { name = name, body = body, file = "<define>", line = 1 }
  end
  m.defined.__LINE__ = { name = "__LINE__", body = {}, builtin = function(t) return { kind = "number", text = tostring(t.line) } end }
  m.defined.__FILE__ = { name = "__FILE__", body = {}, builtin = function(t) return { kind = "string", text = t.file } end }
end

local function everything(r)
  local out = r.out
  local e = r.macros:expander(function(inside) return r:raw(inside) end)
  while true do
    local t = e:next()
    if not t then return end
    r.n = r.n + 1
    out[r.n] = t
  end
end

---@param text string
---@param options table
---@param errors mare.orb.idl.Errors
---@return mare.orb.idl.Token[]
function preprocessor.run(text, options, errors)
  local r = setmetatable({ options = options, errors = errors, read = options.read or preprocessor.read, macros = macros.new(errors), out = {},
                           n = 0, stack = {}, once = {}, bytes = 0, files = 0, read_tokens = 0,
                           skipping = false }, reader)
  predefined(r)
  r:guarded(r.push, text, options.name, { file = options.name, line = 1, column = 1 })
  while r.file do r:guarded(everything) end
  r:emit(r.last or { kind = "end", text = "", file = options.name, line = 1, column = 1 })
  return r.out
end

return preprocessor
