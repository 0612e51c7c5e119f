-- expressions: constant expressions, as nodes for constant.lua. Methods of the parser.
local constant = require "mare.orb.idl.constant"

local expressions = {}

local levels = { ["|"] = 1, ["^"] = 2, ["&"] = 3, ["<<"] = 4, [">>"] = 4, ["+"] = 5, ["-"] = 5, ["*"] = 6, ["/"] = 6, ["%"] = 6 }
local unary = { ["-"] = "negate", ["+"] = "plus", ["~"] = "invert" }

local function leaf(self)
  local t, kind = self.token, self.token.kind
  if kind == "number" then
    self:advance()
    return { op = "literal", kind = self.literal.kind(t.text), text = t.text, token = t }
  elseif kind == "string" or kind == "wstring" then
    local parts = {}
    repeat parts[#parts + 1] = self:advance().text until self.token.kind ~= kind
    return { op = "literal", kind = kind, text = parts[1], parts = parts, wide = kind == "wstring", token = t }
  elseif kind == "char" or kind == "wchar" then
    self:advance()
    return { op = "literal", kind = kind, text = t.text, wide = kind == "wchar", token = t }
  elseif self.word == "TRUE" or self.word == "FALSE" then
    self:advance()
    return { op = "literal", kind = "boolean", value = t.text == "TRUE", token = t }
  elseif self.word == "(" then
    self:advance()
    local node = self:expression()
    self:expect(")", "after this expression")
    return node
  end
  local definition, _, first = self:resolve("a constant expression")
  return { op = "name", definition = definition, token = first }
end

function expressions:unary_expression()
  local op = unary[self.word]
  if not op then return leaf(self) end
  local node = { op = op, token = self:advance() }
  if unary[self.word] then self:expected("a value (of a second sign, or ~, parentheses around it)") end
  node[1] = leaf(self)
  return node
end

function expressions:binary_expression(level)
  local left, length = self:unary_expression(), 0
  while true do
    local op = self.word
    local l = levels[op]
    if not l or l < level or op == ">>" and self.angles > 1 then return left end
    length = length + 1
    if length > self.limits.operators then self.errors:stop(self.token, "more than %d operators in one expression", self.limits.operators) end
    left = { op = op, left, token = self:advance() }
    left[2] = self:binary_expression(l + 1)
  end
end

-- Inside parentheses ">>" is an operator whatever angle brackets are open.
function expressions:expression()
  self:deeper()
  local angles = self.angles
  if self.last and self.last.text == "(" then self.angles = 0 end
  local node = self:binary_expression(1)
  self.angles = angles
  self.nesting = self.nesting - 1
  return node
end

-- The value of the expression that stands here, as one of `type`.
function expressions:value(type)
  return constant.evaluate(self:expression(), type, self.errors)
end

-- A bound: an integer above 0.
function expressions:bound(what)
  local token = self.token
  local n = self:value(self.basic.ulong)
  if n == 0 then self.errors:stop(token, "%s must be above 0", what) end
  return n
end

return expressions
