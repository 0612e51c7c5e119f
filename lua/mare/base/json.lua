-- mare.base.json: what the command line writes and mare top reads.
--
--   json.text(value)   by the one writer of JSON there is, src/module/json_write.c: names in order, what is no number as null, bytes that are no
--                      UTF-8 as Latin-1. A table without elements is [].
--   json.read(text)    value | nil, what is wrong. In Lua, because a mare that was built without yyjson, and so without mare.json, has mare top
--                      all the same. null is nil, so it leaves no field.
local json = { text = require "mare.json.core".text }

-- ---- reading ----

local DEEPEST = 100
local escapes = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }
local words = { ["true"] = true, ["false"] = false, ["null"] = nil }
local value

local function fail(at, what) error({ at = at, what = what }, 0) end

local function skip(s, at) return s:find("[^ \t\r\n]", at) or #s + 1 end

-- The code point of four hexadecimal digits at `at`; a pair of them is one beyond the first 65536.
local function code_point(s, at)
  local high = s:match("^%x%x%x%x", at) or fail(at, "four hexadecimal digits expected")
  local n = tonumber(high, 16)
  local low = n >= 0xd800 and n < 0xdc00 and s:match("^\\u([dD][c-fC-F]%x%x)", at + 4)
  if low then return 0x10000 + (n - 0xd800 << 10) + tonumber(low, 16) - 0xdc00, at + 10 end
  return n, at + 4
end

local function read_string(s, at)
  local whole, after = s:match('^([^"\\%c]*)"()', at + 1)
  if whole then return whole, after end
  local parts = {}
  at = at + 1
  while true do
    local plain, stop = s:match('^([^"\\%c]*)()', at)
    parts[#parts + 1] = plain
    local c = s:sub(stop, stop)
    if c == '"' then return table.concat(parts), stop + 1 end
    if c ~= "\\" then fail(stop, "a string must end") end
    local kind = s:sub(stop + 1, stop + 1)
    if kind == "u" then
      local point
      point, at = code_point(s, stop + 2)
      parts[#parts + 1] = utf8.char(point)
    else
      parts[#parts + 1] = escapes[kind] or fail(stop, "no such escape")
      at = stop + 2
    end
  end
end

-- What stands between commas, each read by `one`, which gives the place after it.
local function read_list(s, at, close, one)
  at = skip(s, at + 1)
  if s:sub(at, at) == close then return at + 1 end
  while true do
    at = skip(s, one(at))
    local c = s:sub(at, at)
    if c == close then return at + 1 end
    if c ~= "," then fail(at, ("',' or '%s' expected"):format(close)) end
    at = skip(s, at + 1)
  end
end

local function read_array(s, at, depth)
  local list, n = {}, 0
  at = read_list(s, at, "]", function(i)
    n = n + 1
    list[n], i = value(s, i, depth)
    return i
  end)
  return list, at
end

local function read_object(s, at, depth)
  local t = {}
  at = read_list(s, at, "}", function(i)
    local key
    if s:sub(i, i) ~= '"' then fail(i, "a name expected") end
    key, i = read_string(s, i)
    i = skip(s, i)
    if s:sub(i, i) ~= ":" then fail(i, "':' expected") end
    t[key], i = value(s, i + 1, depth)
    return i
  end)
  return t, at
end

function value(s, at, depth)
  at = skip(s, at)
  if depth > DEEPEST then fail(at, "too deep") end
  local c = s:sub(at, at)
  if c == '"' then return read_string(s, at) end
  if c == "{" then return read_object(s, at, depth + 1) end
  if c == "[" then return read_array(s, at, depth + 1) end
  local word, stop = s:match("^(%a+)()", at)
  if word == "null" or words[word] ~= nil then return words[word], stop end
  stop = s:match("^%-?%d+()", at) or fail(at, "a value expected")
  if s:find("^[.eE]", stop) then
    stop = s:match("^%.%d+()", stop) or stop
    stop = s:match("^[eE][+-]?%d+()", stop) or stop
  end
  return tonumber(s:sub(at, stop - 1)), stop
end

--- value | nil, what is wrong with the text
function json.read(s)
  local ok, v, at = pcall(value, s, 1, 0)
  if ok and skip(s, at) <= #s then ok, v = false, { at = skip(s, at), what = "the end expected" } end
  if ok then return v end
  if type(v) ~= "table" then return nil, v end
  return nil, ("at byte %d: %s"):format(v.at, v.what)
end

return json
