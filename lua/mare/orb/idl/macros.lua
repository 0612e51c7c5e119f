-- macros: #define, and the expansion of what was defined.
--
-- Expansion works on a stack of token lists: a macro's replacement goes on it, and while it is there the macro is not expanded again; a name
-- met in that time is painted (`painted`) and stays as it is, as in C. Tokens that come of an expansion have the place where the macro's name
-- stands in the file. Bounds: `tokens` made by expansions of one load, `bytes` of one token (## and # could double it each time), `depth`
-- of arguments within arguments.
local macros = {}
macros.__index = macros

macros.limits = { tokens = 100000, bytes = 65536, depth = 100, parameters = 127 }

---@param errors mare.orb.idl.Errors
function macros.new(errors)
  return setmetatable({ defined = {}, errors = errors, made = 0, depth = 0 }, macros)
end

local function same(a, b)
  if #a.body ~= #b.body or (a.parameters == nil) ~= (b.parameters == nil) then return false end
  for i, t in ipairs(a.body) do
    if t.text ~= b.body[i].text or t.kind ~= b.body[i].kind then return false end
  end
  for i = 1, math.max(#(a.parameters or {}), #(b.parameters or {})) do
    if a.parameters[i] ~= b.parameters[i] then return false end
  end
  return true
end

-- The names in `(a, b, c)` from line[i] on, and the index after it.
function macros:parameters(line, i)
  local names, index = {}, {}
  i = i + 1
  if line[i].text == ")" then return names, index, i + 1 end
  while true do
    local t = line[i]
    if t.text == "..." or t.text == "." then self.errors:stop(t, "macros with a variable number of arguments are not part of IDL") end
    if t.kind ~= "identifier" then self.errors:stop(t, "the name of a macro's parameter expected, got %s", macros.show(t)) end
    if index[t.text] then self.errors:stop(t, "the macro has two parameters '%s'", t.text) end
    names[#names + 1], index[t.text] = t.text, #names + 1
    if #names > macros.limits.parameters then self.errors:stop(t, "a macro has at most %d parameters", macros.limits.parameters) end
    if line[i + 1].text == ")" then return names, index, i + 2 end
    if line[i + 1].text ~= "," then self.errors:stop(line[i + 1], "',' or ')' expected, got %s", macros.show(line[i + 1])) end
    i = i + 2
  end
end

function macros.show(token)
  if token.kind == "end" then return "the end of the line" end
  return "'" .. token.text .. "'"
end

-- line: tokens after `define`, ended by one of kind "end".
function macros:define(line)
  local name = line[1]
  if name.kind ~= "identifier" then self.errors:stop(name, "#define needs a name, got %s", macros.show(name)) end
  if name.text == "defined" then self.errors:stop(name, "'defined' can't be a macro") end
  local macro = { name = name.text, body = {}, file = name.file, line = name.line }
  local i = 2
  if line[2].text == "(" and not line[2].space then macro.parameters, macro.index, i = self:parameters(line, 2) end
  while line[i].kind ~= "end" do
    macro.body[#macro.body + 1] = line[i]
    i = i + 1
  end
  local n = #macro.body
  if n > 0 and (macro.body[1].text == "##" or macro.body[n].text == "##") then self.errors:stop(name, "'##' needs a token on both sides") end
  local old = self.defined[name.text]
  if old and not same(old, macro) then
    self.errors:add(name, "the macro '%s' is defined differently at %s:%d: #undef it first", name.text, old.file, old.line)
  end
  self.defined[name.text] = macro
end

-- ---- expansion ----

local function copy(token, place, fields)
  local t = { kind = token.kind, text = token.text, space = token.space, painted = token.painted, message = token.message,
              file = place.file, line = place.line, column = place.column }
  for k, v in pairs(fields or {}) do t[k] = v end
  return t
end

function macros:count(place, n)
  self.made = self.made + n
  if self.made > macros.limits.tokens then
    self.errors:stop(place, "the macros make more than %d tokens: is one of them growing without end?", macros.limits.tokens)
  end
end

-- A source of tokens: a list read from the front, and what to do when it is used up.
local function list_source(list, macro)
  return { list = list, at = 1, macro = macro }
end

local expander = {}
expander.__index = expander

-- next() of the outermost source gives its tokens, nil at its end.
function macros:expander(source, active)
  return setmetatable({ macros = self, source = source, stack = {}, active = active or {} }, expander)
end

function expander:raw(inside)
  local stack = self.stack
  while #stack > 0 do
    local top = stack[#stack]
    local t = top.list[top.at]
    if t then
      top.at = top.at + 1
      return t
    end
    stack[#stack] = nil
    if top.macro then self.active[top.macro] = nil end
  end
  return self.source(inside)
end

-- Puts tokens back, to be read next.
function expander:back(tokens) self.stack[#self.stack + 1] = list_source(tokens) end

-- After the name of a macro with parameters: the arguments, or nil if no parenthesis follows (what was read is put back).
function expander:arguments(name, macro)
  local open = self:raw(true)
  if not open or open.text ~= "(" or open.kind ~= "punctuation" then
    if open then self:back { open } end
    return nil
  end
  local errors = self.macros.errors
  local all, one, nesting, count = {}, {}, 0, 0
  while true do
    local t = self:raw(true)
    if not t or t.kind == "end" then errors:stop(name, "the arguments of the macro '%s' have no end: ')' expected", name.text) end
    count = count + 1
    self.macros:count(name, 1)
    if nesting == 0 and t.text == ")" and t.kind == "punctuation" then break end
    if nesting == 0 and t.text == "," and t.kind == "punctuation" then
      all[#all + 1], one = one, {}
    else
      if t.kind == "punctuation" then nesting = nesting + (t.text == "(" and 1 or t.text == ")" and -1 or 0) end
      one[#one + 1] = t
    end
  end
  if #macro.parameters > 0 or #one > 0 or #all > 0 then all[#all + 1] = one end
  if #all ~= #macro.parameters then
    errors:stop(name, "the macro '%s' takes %d argument%s, got %d", name.text, #macro.parameters, #macro.parameters == 1 and "" or "s", #all)
  end
  return all
end

local function stringised(argument, place)
  local parts = {}
  for i, t in ipairs(argument) do
    if i > 1 and t.space then parts[#parts + 1] = " " end
    local text = t.text
    if t.kind:find("string") or t.kind:find("char") then
      local quote = t.kind:find("string") and '"' or "'"
      text = (t.kind:sub(1, 1) == "w" and "L" or "") .. quote .. text .. quote
      text = text:gsub('[\\"]', "\\%0")
    end
    parts[#parts + 1] = text
  end
  return { kind = "string", text = table.concat(parts), space = true, file = place.file, line = place.line, column = place.column }
end

-- The whole list, expanded for itself; macros in `active` stay as they are.
function macros:expand(list, active)
  self.depth = self.depth + 1
  local first = list[1]
  if self.depth > macros.limits.depth then self.errors:stop(first, "macro arguments are nested deeper than %d", macros.limits.depth) end
  local at = 0
  local e = self:expander(function() at = at + 1 return list[at] end, active)
  local result = {}
  for t in function() return e:next() end do result[#result + 1] = t end
  self.depth = self.depth - 1
  return result
end

function macros:paste(left, right, place)
  local text = left.text .. right.text
  if #text > macros.limits.bytes then self.errors:stop(place, "'##' makes a name longer than %d bytes", macros.limits.bytes) end
  local kind = left.kind
  if kind ~= "identifier" and kind ~= "number" then kind = right.kind == "number" and "number" or "punctuation" end
  return copy({ kind = kind, text = text, space = left.space }, place)
end

-- A macro's replacement with its arguments put in; `place` is the name that is replaced.
function macros:substitute(macro, arguments, place, active)
  local result, expanded = {}, {}
  local body = macro.body
  local function argument(token) return arguments and token.kind == "identifier" and macro.index[token.text] end
  local function append(tokens, space)
    self:count(place, #tokens)
    for i, t in ipairs(tokens) do result[#result + 1] = copy(t, place, i == 1 and { space = space } or nil) end
  end
  local i = 1
  while i <= #body do
    local t, nxt = body[i], body[i + 1]
    local n = argument(t)
    if t.text == "#" and arguments and nxt and argument(nxt) then
      local s = stringised(arguments[argument(nxt)], place)
      if #s.text > macros.limits.bytes then self.errors:stop(place, "'#' makes a string longer than %d bytes", macros.limits.bytes) end
      append({ s }, t.space)
      i = i + 1
    elseif t.text == "##" and nxt then
      local right = argument(nxt) and arguments[argument(nxt)] or { nxt }
      if #right > 0 and #result > 0 then
        result[#result] = self:paste(result[#result], right[1], place)
        right = table.move(right, 2, #right, 1, {})
      end
      append(right)
      i = i + 1
    elseif n and nxt and nxt.text == "##" then
      append(arguments[n], t.space)
    elseif n then
      expanded[n] = expanded[n] or self:expand(arguments[n], active)
      append(expanded[n], t.space)
    else
      append({ t }, t.space)
    end
    i = i + 1
  end
  return result
end

-- The next token after expansion, nil at the end.
function expander:next()
  local m = self.macros
  while true do
    local t = self:raw()
    if not t or t.kind ~= "identifier" or t.painted then return t end
    local macro = m.defined[t.text]
    if not macro then return t end
    if self.active[macro] then return copy(t, t, { painted = true }) end
    local arguments
    if macro.parameters then
      arguments = self:arguments(t, macro)
      if not arguments then return t end
    end
    m:count(t, 1)
    local list = macro.builtin and { copy(macro.builtin(t), t) } or m:substitute(macro, arguments, t, self.active)
    self.stack[#self.stack + 1] = list_source(list, macro)
    self.active[macro] = true
  end
end

return macros
