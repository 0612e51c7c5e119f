-- A JSON encoder and decoder in plain Lua, and documents to run through them.
local scale = tonumber((...)) or 1

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\b"] = "\\b", ["\f"] = "\\f" }

local function quote(s)
  return '"' .. s:gsub('[%c"\\]', function(c) return escapes[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

local encode
local function encode_list(list, out)
  out[#out + 1] = "["
  for i, v in ipairs(list) do
    if i > 1 then out[#out + 1] = "," end
    encode(v, out)
  end
  out[#out + 1] = "]"
end

local function encode_map(map, out)
  out[#out + 1] = "{"
  local first = true
  for k, v in pairs(map) do
    if not first then out[#out + 1] = "," end
    first = false
    out[#out + 1] = quote(k)
    out[#out + 1] = ":"
    encode(v, out)
  end
  out[#out + 1] = "}"
end

function encode(v, out)
  local t = type(v)
  if t == "string" then out[#out + 1] = quote(v)
  elseif t == "number" then out[#out + 1] = ("%.14g"):format(v)
  elseif t == "table" then (v[1] ~= nil and encode_list or encode_map)(v, out)
  else out[#out + 1] = tostring(v) end
end

local unescapes = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ["/"] = "/", ["\\"] = "\\", ['"'] = '"' }

local function decode_string(s, i)
  local from, parts = i + 1, nil
  while true do
    local at = s:find('["\\]', from)
    if not at then error("unfinished string at " .. i) end
    if s:byte(at) == 34 then
      local last = s:sub(from, at - 1)
      if not parts then return last, at + 1 end
      parts[#parts + 1] = last
      return table.concat(parts), at + 1
    end
    parts = parts or {}
    parts[#parts + 1] = s:sub(from, at - 1)
    local c = s:sub(at + 1, at + 1)
    if c == "u" then
      parts[#parts + 1] = utf8.char(tonumber(s:sub(at + 2, at + 5), 16))
      from = at + 6
    else
      parts[#parts + 1] = unescapes[c] or error("bad escape at " .. at)
      from = at + 2
    end
  end
end

local decode
local function decode_list(s, i)
  local list = {}
  i = s:find("%S", i + 1)
  if s:byte(i) == 93 then return list, i + 1 end
  while true do
    list[#list + 1], i = decode(s, i)
    i = s:find("%S", i)
    if s:byte(i) == 93 then return list, i + 1 end
    i = i + 1
  end
end

local function decode_map(s, i)
  local map = {}
  i = s:find("%S", i + 1)
  if s:byte(i) == 125 then return map, i + 1 end
  while true do
    local k
    k, i = decode_string(s, s:find('"', i, true))
    i = s:find(":", i, true)
    map[k], i = decode(s, i + 1)
    i = s:find("%S", i)
    if s:byte(i) == 125 then return map, i + 1 end
    i = i + 1
  end
end

local literals = { t = { true, 4 }, f = { false, 5 }, n = { nil, 4 } }

function decode(s, i)
  i = s:find("%S", i)
  local c = s:sub(i, i)
  if c == "{" then return decode_map(s, i) end
  if c == "[" then return decode_list(s, i) end
  if c == '"' then return decode_string(s, i) end
  if literals[c] then return literals[c][1], i + literals[c][2] end
  local number = s:match("^-?%d+%.?%d*[eE]?[+-]?%d*", i)
  return tonumber(number) or error("bad value at " .. i), i + #number
end

local function document(n)
  local users = {}
  for i = 1, n do
    users[i] = { id = i, name = "user " .. i, email = ("u%d@example.org"):format(i), score = i / 7, active = i % 2 == 0,
      tags = { "a", "b" .. i % 10, 'with "quotes"\n' }, address = { street = i .. " Main Street", zip = ("%05d"):format(i) } }
  end
  return { users = users, total = n }
end

local size = 0
for round = 1, math.max(1, 28 * scale // 1) do
  local out = {}
  encode(document(1500 + round), out)
  local text = table.concat(out)
  local doc = decode(text, 1)
  assert(#doc.users == 1500 + round and doc.users[9].tags[3] == 'with "quotes"\n')
  size = size + #text
end
return size
