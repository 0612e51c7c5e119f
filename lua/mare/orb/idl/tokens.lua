-- tokens: what the parser sees of its input: one token at a time, keywords known, pragmas kept aside until a definition may follow.
--
-- These are methods of the parser. Its fields: tokens, at; token, the current one; word, its text if it is a keyword or punctuation (nil if
-- it is a name or a literal); braces, how many are open; waiting, pragmas and file changes read but not yet carried out.
local tokens = {}

local keywords, lower = {}, {}
for word in ([[abstract any attribute boolean case char const context custom default double enum exception factory FALSE fixed float in inout
  interface local long module native Object octet oneway out private public raises readonly sequence short string struct supports switch TRUE
  truncatable typedef union unsigned ValueBase valuetype void wchar wstring]]):gmatch("%a+") do
  keywords[word] = true
  lower[word:lower()] = word
end
tokens.keywords = keywords

-- Names that are keywords of CORBA 3 only where their construct can stand, so that older IDL may use them.
local aside = { pragma = true, enter = true, leave = true }

function tokens:advance()
  local list, at = self.tokens, self.at
  local word = self.word
  if word == "{" then self.braces = self.braces + 1 elseif word == "}" then self.braces = self.braces - 1 end
  local t
  repeat
    at = at + 1
    t = list[at]
    if t and aside[t.kind] then
      self.waiting[#self.waiting + 1] = t
      t.at = at
    end
  until not t or not aside[t.kind]
  if not t then return end                       -- "end" stays
  local last = self.token
  self.last, self.token, self.at = last, t, at
  if t.kind == "punctuation" or t.kind == "identifier" and keywords[t.text] then self.word = t.text else self.word = nil end
  return last
end

function tokens:show()
  local t = self.token
  if t.kind == "end" then return "the end of the file" end
  if t.kind:find("string") then return 'the string "' .. (#t.text > 30 and t.text:sub(1, 30) .. "…" or t.text) .. '"' end
  if t.kind:find("char") then return ("the character '%s'"):format(t.text) end
  if self.word and t.kind == "identifier" then return ("the keyword '%s'"):format(t.text) end
  return ("'%s'"):format(#t.text > 40 and t.text:sub(1, 40) .. "…" or t.text)
end

-- Stops with what should stand here.
function tokens:expected(what)
  local t = self.token
  if t.message then self.errors:stop(t, "%s", t.message) end
  self.errors:stop(t, "%s expected, got %s", what, self:show())
end

function tokens:accept(word)
  if self.word == word then return self:advance() end
end

function tokens:expect(word, where)
  if self.word ~= word then self:expected(("'%s'%s"):format(word, where and " " .. where or "")) end
  return self:advance()
end

local starts = {}
for word in ([[module interface struct union enum typedef const exception native abstract local custom valuetype readonly attribute oneway void public
  private case default]]):gmatch("%a+") do starts[word] = true end

-- A ';' that is only forgotten is as good as there.
function tokens:semicolon(where)
  if self.word == ";" then return self:advance() end
  if not starts[self.word] and self.word ~= "}" then self:expect(";", where) end
  self.errors:add(self.token, "';' %s expected, got %s", where, self:show())
end

-- A keyword of CORBA 3 that may be a name elsewhere.
function tokens:at_word(text) return self.token.kind == "identifier" and self.token.text == text end

-- The name at the current token, without the underscore that escapes it; the token gets it as `name`. A name that is declared must not look
-- like a keyword; a reference may, for it was then declared with an underscore.
function tokens:name(what, reference)
  local t = self.token
  if t.kind ~= "identifier" or self.word then self:expected(what or "a name") end
  local text = t.text
  if text:sub(1, 1) == "_" then
    text = text:sub(2)
    if not text:find("^%a") then
      self.errors:stop(t, "a name begins with a letter (an underscore before it only escapes a keyword), got '%s'", t.text)
    end
  elseif not reference and text ~= "factory" and text:lower() == "factory" then        -- a keyword since CORBA 2.3
    self.notes:add(t, "other IDL compilers want '_%s' here: it differs from the keyword 'factory' only in case", text)
  elseif not reference and lower[text:lower()] then
    self.errors:add(t, "'%s' differs from the keyword '%s' only in case: write '_%s' if you need this name", text, lower[text:lower()], text)
  end
  t.name = text
  return self:advance()
end

-- A scoped name: its tokens, and whether it began with "::".
function tokens:scoped_name(what)
  local absolute = self:accept("::") ~= nil
  local names = { self:name(what, true) }
  while self.word == "::" do
    self:advance()
    local t = self.token
    if (t.text == "Object" or t.text == "ValueBase") and #names == 1 and names[1].name == "CORBA" then
      t.name = t.text
      names[#names + 1] = self:advance()
    else
      names[#names + 1] = self:name("a name after '::'", true)
    end
  end
  return names, absolute
end

function tokens:resolve(what)
  local names, absolute = self:scoped_name(what)
  return self.checker:resolve(names, absolute), names[#names], names[1]
end

-- A '>' that closes an angle bracket; of ">>" the half is taken.
function tokens:close_angle(where)
  local t = self.token
  if self.word == ">>" then
    local half = {}
    for k, v in pairs(t) do half[k] = v end
    half.text, half.column = ">", t.column + 1
    self.tokens[self.at], self.token, self.word = half, half, ">"
    return
  end
  self:expect(">", where)
end

-- The text of one or more string literals that follow each other.
function tokens:string(what)
  local t = self.token
  if t.kind ~= "string" then self:expected(what) end
  local value, why = self.literal.string(t.text)
  if not value then self.errors:stop(t, "%s", why) end
  self:advance()
  if self.token.kind == "string" then return value .. self:string(what), t end
  return value, t
end

-- ---- going on after an error ----

-- f(self); an error that stops it is followed by the next definition.
function tokens:guarded(f, ...)
  local braces, at, mark, nesting = self.braces, self.at, self.checker:mark(), self.nesting
  local ok, result = pcall(f, self, ...)
  if ok then return result end
  if result ~= self.errors.halt then error(result, 0) end
  self.nesting = nesting
  self.checker:back(mark)
  self:recover(braces, at)
  return nil
end

-- Skips to after the next ';' that no brace opened since holds, or to the '}' that closes what was open before.
function tokens:recover(braces, at)
  while self.token.kind ~= "end" do
    local word = self.word
    if word == "}" and self.braces <= braces then return end
    self:advance()
    if word == ";" and self.braces <= braces and self.at > at then return end
  end
end

-- Counts levels of what can stand inside itself.
function tokens:deeper(levels)
  self.nesting = self.nesting + (levels or 1)
  if self.nesting > self.limits.nesting then self.errors:stop(self.token, "nested deeper than %d", self.limits.nesting) end
end

-- ---- annotations of IDL 4: skipped ----

function tokens:annotations()
  while self.word == "@" do
    local at = self:advance()
    local name = self.token
    if name.kind ~= "identifier" then self:expected("the name of an annotation") end
    if not self.noted[name.text] then
      self.noted[name.text] = true
      self.notes:add(at, "annotations are skipped: @%s", name.text)
    end
    self:advance()
    if name.text == "annotation" and self.token.kind == "identifier" then
      self:advance()
      self:skip("{", "}")
      self:semicolon("after an annotation's definition")
    else
      while self.word == "::" do
        self:advance()
        self:advance()
      end
      if self.word == "(" then self:skip("(", ")") end
    end
  end
end

function tokens:skip(open, close)
  local depth = 0
  repeat
    if self.word == open then depth = depth + 1 elseif self.word == close then depth = depth - 1 end
    if self.token.kind == "end" then self:expected(("'%s'"):format(close)) end
    self:advance()
  until depth <= 0
end

return tokens
