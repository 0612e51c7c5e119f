--[[
mare.orb.services.events.grammar: reads constraints of the notification service's filters, in EXTENDED_TCL (Notification Service 1.1, 2.4).

  grammar.compile "$type_name == 'Alarm' and $severity > 3"  ->  f(event) -> boolean  |  nil, "at character 5: …"

Here is what is said of the text; what a component of an event is, is in path.lua. From the weakest to the strongest: or; and; == != < <= > >=; in;
~; + -; * /; not; then ( … ), exist, default, numbers, 'strings', TRUE, FALSE, labels of enums, $components.

A compiled part is a function of the event. What an event doesn't have, or what can't be compared, is no mistake of the constraint's: the part fails
(path.fault), and the whole is false; but `or` has read its left side by then, as it has in C. A text is bounded in its length, and in how deep it
nests.
]]
local path = require "mare.orb.services.events.path"

local grammar = {}

local LONGEST, DEEPEST = 4096, 100

local reader = {}
reader.__index = reader

-- ---- tokens ----

local OPERATORS = { "==", "!=", "<=", ">=", "<", ">", "~", "+", "-", "*", "/", "(", ")", "[", "]", "$", "." }
local KEYWORDS = { ["and"] = true, ["or"] = true, ["not"] = true, ["in"] = true, exist = true, default = true, TRUE = true, FALSE = true }

local function fail(at, what) error({ at = at, what = what }, 0) end

-- 'text', in which a backslash stands before ' and before itself.
local function quoted(text, at)
  local parts, i = {}, at + 1
  while true do
    local c = text:sub(i, i)
    if c == "" then fail(at, "a string that ends by ' expected") end
    if c == "'" then return table.concat(parts), i + 1 end
    if c == "\\" then
      i = i + 1
      c = text:sub(i, i)
    end
    parts[#parts + 1] = c
    i = i + 1
  end
end

-- Digits, and behind them a fraction and an exponent if they are there. Each is read once: a text may be nothing but digits.
local function number(text, at)
  local stop = text:match("^%d*()", at)
  stop = text:match("^%.%d*()", stop) or stop
  stop = text:match("^[eE][-+]?%d+()", stop) or stop
  local digits = text:sub(at, stop - 1)
  return digits, tonumber(digits)
end

-- Reads the token at self.at. A number is one only where a value may stand: behind a dot of a component there are positions (`digits`).
local function scan(self, digits)
  self.tokens = self.tokens + 1
  local text = self.text
  local at = text:find("%S", self.at) or #text + 1
  self.start, self.value = at, nil
  local c = text:sub(at, at)
  if c == "" then self.token, self.at = "end", at return end
  if c == "'" then
    self.token = "string"
    self.value, self.at = quoted(text, at)
    return
  end
  local word = text:match("^\\?[%a_][%w_]*", at)
  if word then
    self.token = KEYWORDS[word] and word or "name"
    self.value, self.at = word:gsub("^\\", ""), at + #word
    return
  end
  if c:find "%d" or not digits and text:find("^%.%d", at) then
    local shown, value
    if digits then
      shown = text:match("^%d+", at)
      value = #shown < 10 and tonumber(shown) or fail(at, "a position below 1000000000 expected")
    else
      shown, value = number(text, at)
    end
    self.token, self.value, self.at = "number", value, at + #shown
    return
  end
  for _, op in ipairs(OPERATORS) do
    if text:sub(at, at + #op - 1) == op then
      self.token, self.at = op, at + #op
      return
    end
  end
  fail(at, ("a part of a constraint expected, got '%s'"):format(text:match("^" .. utf8.charpattern, at) or "?"))
end

local function expected(self, what)
  local got = self.token == "end" and "the end" or "'" .. self.text:sub(self.start, self.at - 1) .. "'"
  fail(self.start, ("%s expected, got %s"):format(what, got))
end

-- `digits`: what follows is in a component.
local function accept(self, token, digits)
  if self.token ~= token then return false end
  scan(self, digits)
  return true
end

local function need(self, token, digits)
  if not accept(self, token, digits) then expected(self, "'" .. token .. "'") end
end

-- ---- components: $ and what stands behind it ----

-- Takes self.value, and reads on, which in a component is about positions.
local function taken(self)
  local value = self.value
  scan(self, true)
  return value
end

-- The value of a union's discriminator in ( ).
local function union_step(self)
  local negative = self.token == "-"
  if negative or self.token == "+" then
    scan(self, true)
    if self.token ~= "number" then expected(self, "a number") end
  end
  local value = nil
  if self.token == "number" or self.token == "string" then value = taken(self) end
  need(self, ")", true)
  return path.switch(negative and -value or value)
end

local function dot_step(self)
  if self.token == "name" or KEYWORDS[self.token] then return path.member(taken(self)) end
  if self.token == "number" then return path.position(taken(self)) end
  if accept(self, "(", true) then return union_step(self) end
  expected(self, "a member, a position or a union's label in ( )")
end

local function index_step(self)
  if self.token ~= "number" then expected(self, "an index") end
  local step = path.index(taken(self))
  need(self, "]", true)
  return step
end

local function property_step(self)
  if self.token ~= "name" and self.token ~= "string" then expected(self, "the name of a property") end
  local step = path.property(taken(self))
  need(self, ")", true)
  return step
end

-- The steps of a component, behind its $. The token behind it is read as one of a value again.
local function component(self)
  local steps = {}
  scan(self, true)
  if self.token == "name" then
    steps[1] = path.variable(taken(self))
  elseif self.token == "." and self.text:find("^%s*[^%s]", self.at) then
    scan(self, true)
    steps[1] = dot_step(self)
  end
  while true do
    local step
    if accept(self, ".", true) then step = dot_step(self)
    elseif accept(self, "[", true) then step = index_step(self)
    elseif accept(self, "(", true) then step = property_step(self)
    else break end
    steps[#steps + 1] = step
    if #steps > DEEPEST then fail(self.start, "a shorter component expected") end
  end
  if self.token == "number" then
    self.at = self.start
    scan(self)
  end
  return path.walk(steps)
end

-- ---- expressions ----

local either

local function deeper(self)
  self.depth = self.depth + 1
  if self.depth > DEEPEST then fail(self.start, ("nesting of at most %d levels expected"):format(DEEPEST)) end
end

local function constant(value) return function() return value end end

-- Each operator that is run is a step: see path.lua.
local spend = path.spend

-- A number, or a word (`at`), as it stands: see mixed.
local function literal(self, value, at)
  local f = constant(value)
  self.literals[f] = at or "number"
  return f
end

-- A word beside a number is true or false for ever: somebody forgot the $.
local function mixed(self, a, b)
  local x, y = self.literals[a], self.literals[b]
  local at = x == "number" and y or y == "number" and x
  if math.type(at) == "integer" then
    fail(at, ("a component, which begins with $, expected, got '%s'"):format(self.text:match("^\\?[%w_]+", at)))
  end
end

local function factor(self)
  local token = self.token
  if token == "(" then
    deeper(self)
    scan(self)
    local inner = either(self)
    need(self, ")")
    self.depth = self.depth - 1
    return inner
  elseif token == "exist" or token == "default" then
    scan(self)
    if self.token == "name" and token == "exist" then return path.exists(path.walk { path.variable(taken(self)) }) end
    if self.token ~= "$" then expected(self, "a component, which begins with $,") end
    local found = component(self)
    return token == "exist" and path.exists(found) or path.is_default(found)
  elseif token == "$" then
    return path.plain(component(self))
  elseif token == "-" or token == "+" then
    scan(self)
    if self.token ~= "number" then expected(self, "a number") end
    local value = token == "-" and -self.value or self.value
    scan(self)
    return literal(self, value)
  elseif token == "number" or token == "string" or token == "name" then   -- a name alone is a label of an enum
    local value, at = self.value, self.start
    scan(self)
    if token == "string" then return constant(value) end
    return literal(self, value, token == "name" and at or nil)
  elseif token == "TRUE" or token == "FALSE" then
    scan(self)
    return constant(token == "TRUE")
  end
  expected(self, "a value")
end

local function negated(self)
  if not accept(self, "not") then return factor(self) end
  local inner = factor(self)
  return function(event)
    spend(1)
    return not path.truth(inner(event))
  end
end

-- Operators of one strength, from left to right.
local function level(inner, operators)
  return function(self)
    local left = inner(self)
    while operators[self.token] do
      local op, a = operators[self.token], left
      scan(self)
      local b = inner(self)
      left = function(event)
        spend(1)
        return op(a(event), b(event))
      end
    end
    return left
  end
end

local product = level(negated, { ["*"] = path.multiply, ["/"] = path.divide })
local sum = level(product, { ["+"] = path.add, ["-"] = path.subtract })

-- At most one operator of these.
local function once(inner, operators)
  return function(self)
    local left = inner(self)
    local op = operators[self.token]
    if not op then return left end
    scan(self)
    local right = inner(self)
    mixed(self, left, right)
    return function(event)
      spend(1)
      return op(left(event), right(event))
    end
  end
end

local twiddle = once(sum, { ["~"] = path.within })

local function among(self)
  local left = twiddle(self)
  if not accept(self, "in") then return left end
  local list
  if self.token == "name" then list = path.walk { path.variable(taken(self)) }
  elseif self.token == "$" then list = component(self)
  else expected(self, "a component, which begins with $,") end
  return function(event)
    spend(1)
    return path.among(left(event), list(event))
  end
end

local comparison = once(among, { ["=="] = path.equal, ["!="] = path.different, ["<"] = path.less, ["<="] = path.at_most,
                                 [">"] = path.more, [">="] = path.at_least })

local function both(self)
  local left = comparison(self)
  while accept(self, "and") do
    local a, b = left, comparison(self)
    left = function(event)
      spend(1)
      return path.truth(a(event)) and path.truth(b(event))
    end
  end
  return left
end

function either(self)
  local left = both(self)
  while accept(self, "or") do
    local a, b = left, both(self)
    left = function(event)
      spend(1)
      return path.truth(a(event)) or path.truth(b(event))
    end
  end
  return left
end

local function always() return true end

local function read(text)
  if #text > LONGEST then fail(LONGEST + 1, "the end of the constraint") end
  if text:find "%S" == nil then return always, 0 end
  local self = setmetatable({ text = text, at = 1, depth = 0, tokens = 0, literals = {} }, reader)
  scan(self)
  local whole = either(self)
  if self.token ~= "end" then expected(self, "an operator, or the end,") end
  return function(event) return path.truth(whole(event)) end, self.tokens
end

--- -> a function that tells whether an event (see path.lua) matches, which never fails, of how many tokens | nil, what is wrong and where
function grammar.compile(text)
  local fine, f, tokens = pcall(read, text)
  if not fine then
    if type(f) == "table" and f.at then return nil, ("at character %d: %s"):format(f.at, f.what) end
    error(f, 0)
  end
  if f == always then return always, 0 end
  return function(event)
    local done, result = pcall(f, event)
    if done then return result end
    if result ~= path.fault then error(result, 0) end
    return false
  end, tokens
end

return grammar
