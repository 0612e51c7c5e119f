-- decimal: exact arithmetic for constants of type fixed, which are decimal strings ("-12.5") of at most 31 digits.
--
-- Inside, a number is { negative =, digits = list of decimal digits, the lowest first, scale = how many of them stand after the point }.
-- Results with more than 31 digits lose their lowest ones, as CORBA says; nil if even their whole part is longer.
local decimal = {}

decimal.digits = 31

local function trim(digits, least)
  while #digits > least and digits[#digits] == 0 do digits[#digits] = nil end
  return digits
end

local function read(text)
  local sign, whole, part = text:match("^(-?)(%d*)%.?(%d*)$")
  local digits = {}
  for d in (whole .. part):reverse():gmatch(".") do digits[#digits + 1] = tonumber(d) end
  return { negative = sign == "-", digits = trim(digits, 0), scale = #part }
end

-- Without needless zeros.
local function write(n)
  local digits, scale = n.digits, n.scale
  trim(digits, 0)
  local first = 1
  while scale > 0 and (#digits - first + 1 > decimal.digits or scale > decimal.digits or (digits[first] or 0) == 0) do
    first, scale = first + 1, scale - 1
  end
  local text = {}
  for i = #digits, first, -1 do text[#text + 1] = digits[i] end
  if #text > decimal.digits then return nil end
  local s = table.concat(text)
  if #s <= scale then s = ("0"):rep(scale - #s + 1) .. s end
  if scale > 0 then s = s:sub(1, -scale - 1) .. "." .. s:sub(-scale) end
  return (n.negative and s:find("[1-9]") and "-" or "") .. s
end

-- "1.50D" -> "1.5" | nil, why
---@param text string
---@return string? value, string? why
function decimal.literal(text)
  local digits = text:match("^(%d+%.?%d*)[dD]$") or text:match("^(%.%d+)[dD]$")
  if not digits then return nil, ("'%s' is no fixed point number"):format(text) end
  local n = read(digits)
  while n.scale > 0 and n.digits[1] == 0 do
    table.remove(n.digits, 1)
    n.scale = n.scale - 1
  end
  if #n.digits > decimal.digits or n.scale > decimal.digits then return nil, ("'%s' has more than %d digits"):format(text, decimal.digits) end
  return write(n)
end

local function align(a, b)
  for _, pair in ipairs { { a, b }, { b, a } } do
    local n, other = pair[1], pair[2]
    if n.scale < other.scale then
      local by = other.scale - n.scale
      table.move(n.digits, 1, #n.digits, by + 1)
      for i = 1, by do n.digits[i] = 0 end
      n.scale = other.scale
    end
  end
end

local function compare(a, b)
  for i = math.max(#a, #b), 1, -1 do
    local x, y = a[i] or 0, b[i] or 0
    if x ~= y then return x < y and -1 or 1 end
  end
  return 0
end

local function sum(a, b, sign)
  local result, carry = {}, 0
  for i = 1, math.max(#a, #b) do
    local d = (a[i] or 0) + sign * (b[i] or 0) + carry
    result[i], carry = d % 10, d // 10
  end
  if carry > 0 then result[#result + 1] = carry end
  return trim(result, 0)
end

function decimal.add(left, right)
  local a, b = read(left), read(right)
  align(a, b)
  if a.negative == b.negative then return write { negative = a.negative, digits = sum(a.digits, b.digits, 1), scale = a.scale } end
  if compare(a.digits, b.digits) < 0 then a, b = b, a end
  return write { negative = a.negative, digits = sum(a.digits, b.digits, -1), scale = a.scale }
end

function decimal.negate(text)
  local n = read(text)
  n.negative = not n.negative
  return write(n)
end

function decimal.subtract(left, right) return decimal.add(left, decimal.negate(right)) end

function decimal.multiply(left, right)
  local a, b = read(left), read(right)
  local result = {}
  for i = 1, #a.digits + #b.digits do result[i] = 0 end
  for i, x in ipairs(a.digits) do
    local carry = 0
    for j = 1, #b.digits + 1 do
      if i + j - 1 > #result then break end
      local d = result[i + j - 1] + x * (b.digits[j] or 0) + carry
      result[i + j - 1], carry = d % 10, d // 10
    end
  end
  return write { negative = a.negative ~= b.negative, digits = trim(result, 0), scale = a.scale + b.scale }
end

-- nil if the divisor is zero.
function decimal.divide(left, right)
  local a, b = read(left), read(right)
  if #b.digits == 0 then return nil end
  local places = 2 * decimal.digits              -- after the point: more than can be kept
  local quotient, rest = {}, {}
  for i = #a.digits, -(places + b.scale - a.scale) + 1, -1 do
    table.insert(rest, 1, i >= 1 and a.digits[i] or 0)
    trim(rest, 0)
    local q = 0
    while compare(rest, b.digits) >= 0 do rest, q = sum(rest, b.digits, -1), q + 1 end
    table.insert(quotient, 1, q)
  end
  return write { negative = a.negative ~= b.negative, digits = trim(quotient, 0), scale = places }
end

return decimal
