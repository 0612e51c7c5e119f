-- lexer: text to tokens, as the preprocessor wants them.
--
--   tokens = lexer.tokens(text, file, errors[, most])       most: how many there may be (a token takes some hundred bytes)
--
-- A token: { kind, text, file, line, column, space, first }
--   kind    identifier, number, char, wchar, string, wstring, punctuation, other (what IDL does not know; `message` may say more)
--   text    as written; of literals what stands between the quotes
--   space   white space or a comment stands before it       first    it is the first of its line
-- The last one has the kind "end". Literals are read by literal.lua when the parser meets them, because text in a false #if need not be valid.
-- Lines end at "\n"; a "\r" is white space. A backslash at the end of a line joins it with the next; places are those of the text as written.
---@class mare.orb.idl.Token
---@field kind string
---@field text string
---@field file string
---@field line integer
---@field column integer
---@field space boolean?
---@field first boolean?

local lexer = { most = 500000 }

local byte, find, sub = string.byte, string.find, string.sub

local pairs_of_two = { ["::"] = true, ["<<"] = true, [">>"] = true, ["##"] = true, ["&&"] = true, ["||"] = true, ["<="] = true, [">="] = true,
                       ["=="] = true, ["!="] = true }

-- Removes joined line ends: the text, and the positions in it at which a new line begins all the same.
local function join(text)
  if not find(text, "\\\r?\n") then return text, {} end
  local parts, joints, at, length = {}, {}, 1, 0
  while true do
    local from, to = find(text, "\\\r?\n", at)
    if not from then break end
    parts[#parts + 1] = sub(text, at, from - 1)
    length = length + from - at
    joints[#joints + 1] = length + 1
    at = to + 1
  end
  parts[#parts + 1] = sub(text, at)
  return table.concat(parts), joints
end

-- What begins with a byte: a function of (text, position) that gives kind, position after it, text, message.
local starts = {}

local function identifier(text, at)
  local _, to = find(text, "^[%w_]*", at)
  local word = sub(text, at, to)
  if word == "L" then
    local quote = sub(text, to + 1, to + 1)
    if quote == '"' or quote == "'" then
      local kind, after, inside, message = starts[byte(quote)](text, to + 1)
      return kind == "other" and kind or "w" .. kind, after, inside, message
    end
  end
  return "identifier", to + 1, word
end

local function number(text, at)
  local _, to = find(text, "^[%w_%.]*", at)
  if find(text, "^[eE]", to) and not find(text, "^0[xX]", at) then
    local _, more = find(text, "^[+-][%w_%.]*", to + 1)
    to = more or to
  end
  return "number", to + 1, sub(text, at, to)
end

local function quoted(kind, stop)
  return function(text, from)
    local quote, at = sub(text, from, from), from + 1
    while true do
      local p = find(text, stop, at)
      local c = p and sub(text, p, p)
      if c == quote then return kind, p + 1, sub(text, from + 1, p - 1) end
      if c ~= "\\" then
        p = p or #text + 1
        return "other", p, sub(text, from, p - 1), ("this %s has no closing %s on its line"):format(kind == "char" and "character" or kind, quote)
      end
      at = p + 2
    end
  end
end

local function punctuation(text, at)
  local pair = sub(text, at, at + 1)
  if pairs_of_two[pair] then return "punctuation", at + 2, pair end
  return "punctuation", at + 1, sub(text, at, at)
end

local function unknown(text, at)
  local _, to = find(text, "^[\128-\255]+", at)
  to = to or at
  return "other", to + 1, sub(text, at, to), ("IDL has no use for the character %q here"):format(sub(text, at, to))
end

for c = 0, 255 do
  local s = string.char(c)
  starts[c] = find(s, "[%a_]") and identifier or find(s, "%d") and number or find(s, "[%p]") and punctuation or unknown
end
starts[byte('"')] = quoted("string", '["\\\n]')
starts[byte("'")] = quoted("char", "['\\\n]")
starts[byte(".")] = function(text, at)
  if find(text, "^%d", at + 1) then return number(text, at) end
  return punctuation(text, at)
end
for c in ("$`"):gmatch(".") do starts[byte(c)] = unknown end

-- Position after white space and comments, and whether a line ended on the way (one inside a comment does not end a line).
-- Tells of a comment without end through `open`.
local function skip(text, at, open)
  local newline = false
  while true do
    local _, to = find(text, "^[ \t\r\v\f]*", at)
    at = to + 1
    local c = byte(text, at)
    if c == 10 then
      newline, at = true, at + 1
    elseif c ~= 47 then
      return at, newline
    elseif byte(text, at + 1) == 47 then
      at = find(text, "\n", at, true) or #text + 1
    elseif byte(text, at + 1) == 42 then
      local _, stop = find(text, "*/", at + 2, true)
      if not stop then open(at) end
      at = (stop or #text) + 1
    else
      return at, newline
    end
  end
end

---@param text string
---@param file string
---@param errors mare.orb.idl.Errors
---@param most integer?
---@return mare.orb.idl.Token[]
function lexer.tokens(text, file, errors, most)
  most = most or lexer.most
  local tokens, n, joint = {}, 0, 1
  local line, start, at = 1, 1, 1
  local joints
  text, joints = join(text)
  local next_joint, next_line = joints[1] or math.huge, find(text, "\n", 1, true) or math.huge

  -- Moves `line` and `start` to those of position p.
  local function locate(p)
    while next_line < p or next_joint <= p do
      if next_line < next_joint then
        start = next_line + 1
        next_line = find(text, "\n", start, true) or math.huge
      else
        start, joint = next_joint, joint + 1
        next_joint = joints[joint] or math.huge
      end
      line = line + 1
    end
  end
  local function open(p)
    locate(p)
    errors:add({ file = file, line = line, column = p - start + 1 }, "this comment has no end: */ expected")
  end

  local size = #text
  while true do
    local before, newline = at
    at, newline = skip(text, at, open)
    if at >= next_line or at >= next_joint then locate(at) end
    if at > size then break end
    local kind, after, word, message = starts[byte(text, at)](text, at)
    n = n + 1
    if n > most then errors:stop({ file = file, line = line, column = 1 }, "more than %d words and signs in all: split the text", lexer.most) end
    tokens[n] = { kind = kind, text = word, file = file, line = line, column = at - start + 1, space = at > before, first = newline or n == 1,
                  message = message }
    at = after
  end
  locate(size + 1)
  tokens[n + 1] = { kind = "end", text = "", file = file, line = line, column = size - start + 2, first = true }
  return tokens
end

return lexer
