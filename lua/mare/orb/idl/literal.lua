-- literal: the values of literals. Each function gives a value, or nil and what is wrong.
--
-- An integer is a pair: negative?, magnitude (64 bits, unsigned; compare with math.ult).
local literal = {}

local escapes = { n = "\n", t = "\t", v = "\v", b = "\b", r = "\r", f = "\f", a = "\a", ["\\"] = "\\", ["?"] = "?", ["'"] = "'", ['"'] = '"' }

-- "12", "0x1F", "017" -> magnitude
---@param text string
---@return integer? magnitude, string? why
function literal.integer(text)
  local digits, base = text, 10
  if text:find("^0[xX]") then
    digits, base = text:sub(3), 16
    if not digits:find("^%x+$") then return nil, ("'%s' is no hexadecimal number"):format(text) end
  elseif text:find("^0") then
    digits, base = text, 8
    if not digits:find("^[0-7]+$") then return nil, ("'%s' is no octal number (a number that begins with 0 is octal)"):format(text) end
  elseif not digits:find("^%d+$") then
    return nil, ("'%s' is no number"):format(text)
  end
  local value, most = 0, base == 10 and 1844674407370955161 or base == 16 and 0x0FFFFFFFFFFFFFFF or 0x1FFFFFFFFFFFFFFF
  for digit in digits:gmatch(".") do
    local d = tonumber(digit, 16)
    if math.ult(most, value) or (base == 10 and value == most and d > 5) then return nil, ("'%s' does not fit into 64 bits"):format(text) end
    value = value * base + d
  end
  return value
end

-- "1.5", "1e3", ".5" -> number
function literal.float(text)
  if not (text:find("^%d+%.?%d*[eE][+-]?%d+$") or text:find("^%.%d+[eE][+-]?%d+$") or text:find("^%d+%.%d*$") or text:find("^%.%d+$")) then
    return nil, ("'%s' is no number"):format(text)
  end
  local value = tonumber(text) + 0.0
  if value == math.huge then return nil, ("'%s' is too large for a double"):format(text) end
  return value
end

-- The kind of a number token: "integer", "float", "fixed".
function literal.kind(text)
  if text:find("^0[xX]") then return "integer" end
  if text:find("^[%d%.]+[dD]$") then return "fixed" end
  return text:find("[%.eE]") and "float" or "integer"
end

-- The code of the escape sequence at text[at] (after the backslash), and the position after it.
local function escape(text, at, wide)
  local c = text:sub(at, at)
  if escapes[c] then return escapes[c]:byte(), at + 1 end
  local octal = text:match("^[0-7][0-7]?[0-7]?", at)
  if octal then
    local code = tonumber(octal, 8)
    if code > 255 then return nil, ("'\\%s' is larger than 255"):format(octal) end
    return code, at + #octal
  end
  local hex = c == "x" and text:match("^%x%x?", at + 1)
  if hex then return tonumber(hex, 16), at + 1 + #hex end
  local unicode = c == "u" and text:match("^%x%x?%x?%x?", at + 1)
  if unicode then
    if not wide then return nil, "'\\u' belongs into wide characters and strings: L before the quote" end
    return tonumber(unicode, 16), at + 1 + #unicode
  end
  return nil, ("'\\%s' is no escape sequence"):format(c)
end

-- The codes in a literal: bytes, or of a wide one code points. A wide literal that is not UTF-8 counts as ISO 8859-1.
local function codes(text, wide)
  local list, at = {}, 1
  local utf = wide and utf8.len(text)
  while at <= #text do
    local code, after = text:byte(at), at + 1
    if code == 92 then
      code, after = escape(text, at + 1, wide)
      if not code then return nil, after end
    elseif utf and code >= 128 then
      code = utf8.codepoint(text, at)
      after = utf8.offset(text, 2, at)
    end
    list[#list + 1] = code
    at = after
  end
  return list
end

-- Characters beyond 16 bits may be written as two surrogates.
local function encoded(list)
  local parts, i = {}, 1
  while list[i] do
    local c, low = list[i], list[i + 1]
    if c >= 0xD800 and c <= 0xDFFF then
      if c > 0xDBFF or not low or low < 0xDC00 or low > 0xDFFF then return nil, ("'\\u%04x' is half of a surrogate pair"):format(c) end
      c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00)
      i = i + 1
    end
    parts[#parts + 1] = utf8.char(c)
    i = i + 1
  end
  return table.concat(parts)
end

-- Text between double quotes -> string (wide: UTF-8).
function literal.string(text, wide)
  if not wide and not text:find("\\", 1, true) then
    if text:find("\0", 1, true) then return nil, "a string can't hold a NUL" end
    return text
  end
  local list, why = codes(text, wide)
  if not list then return nil, why end
  for i, c in ipairs(list) do
    if c == 0 then return nil, "a string can't hold a NUL" end
    if not wide then list[i] = string.char(c) end
  end
  if wide then return encoded(list) end
  return table.concat(list)
end

-- Text between single quotes -> a string of one byte (wide: one character of the basic plane in UTF-8).
function literal.char(text, wide)
  local list, why = codes(text, wide)
  if not list then return nil, why end
  if #list ~= 1 then return nil, ("one character expected between the quotes, got %d"):format(#list) end
  if not wide then return string.char(list[1]) end
  if list[1] > 0xFFFF then return nil, "a wchar is a character of the basic multilingual plane" end
  return encoded(list)
end

return literal
