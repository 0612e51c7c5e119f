-- condition: the expression after #if and #elif. Integers of 64 bits; a name that is no macro counts as 0.
--
--   truth = condition.evaluate(tokens, place, errors)      tokens: macros expanded, `defined X` replaced by 1 or 0
local condition = {}

local levels = { ["||"] = 1, ["&&"] = 2, ["|"] = 3, ["^"] = 4, ["&"] = 5, ["=="] = 6, ["!="] = 6, ["<"] = 7, [">"] = 7, ["<="] = 7, [">="] = 7,
                 ["<<"] = 8, [">>"] = 8, ["+"] = 9, ["-"] = 9, ["*"] = 10, ["/"] = 10, ["%"] = 10 }
local nesting = 100

local function truth(b) return b and 1 or 0 end

local function divide(a, b)
  local q = a // b
  if q < 0 and q * b ~= a then q = q + 1 end
  return q
end

local operate = {
  ["||"] = function(a, b) return truth(a ~= 0 or b ~= 0) end, ["&&"] = function(a, b) return truth(a ~= 0 and b ~= 0) end,
  ["|"] = function(a, b) return a | b end, ["^"] = function(a, b) return a ~ b end, ["&"] = function(a, b) return a & b end,
  ["=="] = function(a, b) return truth(a == b) end, ["!="] = function(a, b) return truth(a ~= b) end,
  ["<"] = function(a, b) return truth(a < b) end, [">"] = function(a, b) return truth(a > b) end,
  ["<="] = function(a, b) return truth(a <= b) end, [">="] = function(a, b) return truth(a >= b) end,
  ["<<"] = function(a, b) return a << b end, [">>"] = function(a, b) return a >> b end,
  ["+"] = function(a, b) return a + b end, ["-"] = function(a, b) return a - b end, ["*"] = function(a, b) return a * b end,
  ["/"] = divide, ["%"] = function(a, b) return a - divide(a, b) * b end,
}

local unary = {
  ["!"] = function(a) return truth(a == 0) end, ["~"] = function(a) return ~a end, ["-"] = function(a) return -a end,
  ["+"] = function(a) return a end,
}

local reader = {}
reader.__index = reader

function reader:stop(format, ...)
  self.errors:stop(self.tokens[self.at] or self.place, format, ...)
end

function reader:peek()
  local t = self.tokens[self.at]
  return t and t.text, t
end

local function integer(text)
  local digits = text:match("^(%w-)[uUlL]*$") or ""
  if digits:find("^0[0-7]*$") then return tonumber(digits, 8) end
  return digits:find("^0[xX]%x+$") and math.tointeger(tonumber(digits)) or digits:find("^%d+$") and math.tointeger(tonumber(digits)) or nil
end

function reader:primary()
  local text, t = self:peek()
  if not t then self:stop("the condition of %s ends too early", self.place.text) end
  self.at = self.at + 1
  if unary[text] and t.kind == "punctuation" then return unary[text](self:primary_nested()) end
  if text == "(" then
    local value = self:nested()
    if self:peek() ~= ")" then self:stop("')' expected in the condition of %s", self.place.text) end
    self.at = self.at + 1
    return value
  end
  if t.kind == "identifier" then return 0 end
  if t.kind == "char" and #text == 1 then return text:byte() end
  local value = t.kind == "number" and integer(text)
  if not value then
    self.at = self.at - 1
    self:stop("an integer or a name expected in the condition of %s, got '%s'", self.place.text, text)
  end
  return value
end

function reader:deeper()
  self.depth = self.depth + 1
  if self.depth > nesting then self:stop("the condition is nested deeper than %d", nesting) end
end

function reader:primary_nested()
  self:deeper()
  local value = self:primary()
  self.depth = self.depth - 1
  return value
end

function reader:nested()
  self:deeper()
  local value = self:choice()
  self.depth = self.depth - 1
  return value
end

-- What is not used may divide by zero: `0 && 1 / 0` is no mistake.
function reader:apart(unused, f, ...)
  if unused then self.unused = self.unused + 1 end
  local value = f(self, ...)
  if unused then self.unused = self.unused - 1 end
  return value
end

function reader:binary(level)
  local left = self:primary()
  while true do
    local op = self:peek()
    local l = levels[op]
    if not l or l < level then return left end
    self.at = self.at + 1
    local unused = op == "&&" and left == 0 or op == "||" and left ~= 0
    local right = self:apart(unused, self.binary, l + 1)
    if right == 0 and (op == "/" or op == "%") then
      if self.unused == 0 then self:stop("division by zero in the condition of %s", self.place.text) end
      right = 1
    end
    left = operate[op](left, right)
  end
end

function reader:choice()
  local value = self:binary(1)
  if self:peek() ~= "?" then return value end
  self.at = self.at + 1
  local yes = self:apart(value == 0, self.nested)
  if self:peek() ~= ":" then self:stop("':' expected in the condition of %s", self.place.text) end
  self.at = self.at + 1
  local no = self:apart(value ~= 0, self.nested)
  return value ~= 0 and yes or value == 0 and no or 0
end

---@param tokens mare.orb.idl.Token[]
---@param place mare.orb.idl.Token the directive's name
---@param errors mare.orb.idl.Errors
---@return boolean
function condition.evaluate(tokens, place, errors)
  local r = setmetatable({ tokens = tokens, at = 1, place = place, errors = errors, depth = 0, unused = 0 }, reader)
  local value = r:choice()
  if r:peek() then r:stop("the condition of %s goes on after its end, at '%s'", place.text, r:peek()) end
  return value ~= 0
end

return condition
