-- mare.base.json: JSON text of values, and values of JSON text.
--
-- A table with an element 1 or without any is an array, else an object, its keys in order. Read back, null is nil, so it leaves no field.
local json = {}

local names = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ['"'] = '\\"', ["\\"] = "\\\\" }

local function text(s)
  if not utf8.len(s) then s = s:gsub("[\128-\255]", function(c) return utf8.char(c:byte()) end) end
  return '"' .. s:gsub('[%c"\\]', function(c) return names[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

-- Neither infinity nor what is no number can be written.
local function number(n) return n == n and n - n == 0 and tostring(n) or "null" end

function json.text(v)
  if type(v) == "string" then return text(v) end
  if type(v) == "number" then return number(v) end
  if type(v) ~= "table" then return tostring(v == nil and "null" or v) end
  local parts = {}
  if v[1] ~= nil or next(v) == nil then
    for i, e in ipairs(v) do parts[i] = json.text(e) end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  for key in pairs(v) do parts[#parts + 1] = key end
  table.sort(parts)
  for i, key in ipairs(parts) do parts[i] = text(key) .. ":" .. json.text(v[key]) end
  return "{" .. table.concat(parts, ",") .. "}"
end

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
