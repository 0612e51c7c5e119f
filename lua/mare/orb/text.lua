--[[
mare.orb.text: values as people write them, by their type: for command lines and logs.

  text.read(broker, T, "{ x = 1, y = 2 }") -> value | nil, message       text.show(T, value) -> text       text.json(T, value) -> text

Texts are never code. A literal is JSON or a Lua table of literals: 1, 0x1f, 1.5, "text", 'text', true, nil, null, { 1, 2 }, [1, 2],
{ a = 1 }, {"a": 1}. A string, a char, an enum and a reference need no quotes when they stand alone.
]]
local json_string = require "mare.base.json".text

local text = {}

-- ---- literals ----

local function fail(s, at, wanted) error({ ("at character %d: %s expected, got %s"):format(at, wanted,
  at > #s and "the end" or ("%q"):format(s:sub(at, at + 9)))  }, 0) end

local function skip(s, at) return s:find("%S", at) or #s + 1 end

local DEEPEST = 10000                           -- literals in each other

local escapes = { n = "\n", t = "\t", r = "\r", b = "\b", f = "\f", a = "\a", v = "\v", ["0"] = "\0" }

local function unquote(s, at)
  local quote, out = s:sub(at, at), {}
  local i = at + 1
  while true do
    local c = s:sub(i, i)
    if c == "" then fail(s, i, "the end of the string, " .. quote .. ",") end
    if c == quote then return table.concat(out), i + 1 end
    if c == "\\" then
      i = i + 1
      local e = s:sub(i, i)
      local code = e == "u" and (s:match("^%x%x%x%x", i + 1) or s:match("^{(%x+)}", i + 1)) or e == "x" and s:match("^%x%x", i + 1)
      if code then
        out[#out + 1] = e == "u" and utf8.char(tonumber(code, 16)) or string.char(tonumber(code, 16))
        i = i + #code + (s:sub(i + 1, i + 1) == "{" and 2 or 0)
      else
        out[#out + 1] = escapes[e] or e
      end
    else
      out[#out + 1] = c
    end
    i = i + 1
  end
end

-- A number of more than 63 bits: what it is depends on the type it is for.
local Big = {}

local words = { ["true"] = true, ["false"] = false }
local literal

-- name =, "name":, [1] =: the key and where the value begins; or nothing.
local function key_at(s, at)
  local name, after = s:match("^([%a_][%w_]*)%s*[=:]%s*()", at)
  if name then return name, after end
  local c = s:sub(at, at)
  if c == '"' or c == "'" then
    local key, i = unquote(s, at)
    after = s:match("^%s*:%s*()", i)
    if after then return key, after end
  elseif c == "[" and s:match("^%[[^%]]*%]%s*=", at) then
    local key, i = literal(s, skip(s, at + 1))
    after = s:match("^%s*%]%s*=%s*()", i)
    if after then return key, after end
  end
end

local function list(s, at, close, depth)
  local t, n = {}, 0
  at = skip(s, at + 1)
  while s:sub(at, at) ~= close do
    local key, after = nil, nil
    if close == "}" then key, after = key_at(s, at) end
    local value
    value, at = literal(s, skip(s, after or at), depth)
    if key == nil then
      n = n + 1
      key = n
    end
    t[key] = value
    at = skip(s, at)
    if s:find("^[,;]", at) then at = skip(s, at + 1)
    elseif s:sub(at, at) ~= close then fail(s, at, "',' or '" .. close .. "'") end
  end
  if n > #t then t.n = n end                        -- nil at the end of a list
  return t, at + 1
end

function literal(s, at, depth)
  depth = (depth or 0) + 1
  if depth > DEEPEST then fail(s, at, ("nesting of at most %d levels"):format(DEEPEST)) end
  local c = s:sub(at, at)
  if c == "{" then return list(s, at, "}", depth) end
  if c == "[" then return list(s, at, "]", depth) end
  if c == '"' or c == "'" then return unquote(s, at) end
  local word = s:match("^[%a_][%w_]*", at)
  if word == "nil" or word == "null" then return nil, at + #word end
  if words[word] ~= nil then return words[word], at + #word end
  if word then return word, at + #word end            -- a label
  local number = s:match("^[-+]?[%w.]+[-+]?[%w.]*", at)
  local value = number and tonumber((number:gsub("^%+", "")))
  if not value then
    number = s:match("^[-+]?[%w.]+", at)
    value = number and tonumber((number:gsub("^%+", "")))
  end
  if math.type(value) == "float" and number:find("^%d+$") then value = setmetatable({ digits = number }, Big) end
  if value then return value, at + #number end
  return fail(s, at, "a value")
end

-- A whole text.
local function parse(s)
  local value, at = literal(s, skip(s, 1))
  at = skip(s, at)
  if at <= #s then fail(s, at, "the end") end
  return value
end

-- ---- by type ----

local function base(T)
  while T.kind == "alias" do T = T.type end
  return T
end

local plain = { string = true, wstring = true, char = true, wchar = true, enum = true, fixed = true }
local chars = { char = true, octet = true }

local function reference(broker, T, s)
  if s == "nil" or s == "null" or s == "" then return nil end
  return broker:proxy(s, T.id ~= "IDL:omg.org/CORBA/Object:1.0" and T or nil)
end

-- Name and type of a valuetype's members, those of its bases first.
local function state(T, all)
  all = all or {}
  local first = T.bases and T.bases[1]
  if first and not first.abstract then state(first, all) end
  return table.move(T.state or {}, 1, #(T.state or {}), #all + 1, all)
end

-- What a literal leaves to be done: references and types are texts in it, fixed numbers are numbers.
local convert

local function convert_any(broker, value)
  if type(value) ~= "table" or value._anytype == nil then return value end
  local T = broker:type(value._anytype)
  return { _anytype = T, _anyval = convert(broker, T, value._anyval) }
end

local function convert_union(broker, T, value)
  local out = {}
  for key, v in pairs(value) do
    local M
    for _, m in ipairs(T.members) do if m.name == key or key == "_value" and m.name == value._field then M = m.type end end
    out[key] = M and convert(broker, M, v) or v
  end
  return out
end

-- Sequences of octets and of characters are strings.
local function octets(values)
  local bytes = {}
  for i, v in ipairs(values) do
    local byte = type(v) == "string" and #v == 1 and v:byte() or v
    if math.type(byte) ~= "integer" or byte < 0 or byte > 255 then error({ ("[%d]: an octet expected, from 0 to 255"):format(i) }, 0) end
    bytes[i] = string.char(byte)
  end
  return table.concat(bytes)
end

-- Decimal digits beyond 2^63 are the same 64 bits.
local function unsigned(s)
  local digits = s:match("^%s*(%d+)%s*$")
  if not digits or #digits > 20 or #digits == 20 and digits > "18446744073709551615" then return nil end
  local v = 0
  for d in digits:gmatch("%d") do v = v * 10 + (d:byte() - 48) end
  return v
end

function convert(broker, declared, value)
  local T = base(declared)
  local kind = T.kind
  if getmetatable(value) == Big then
    if kind == "fixed" then return value.digits end
    value = kind == "ulonglong" and unsigned(value.digits) or tonumber(value.digits)
  end
  if kind == "any" then return convert_any(broker, value) end
  if kind == "interface" and type(value) == "string" then return reference(broker, T, value) end
  if kind == "TypeCode" and type(value) == "string" then return broker:type(value) end
  if kind == "fixed" and type(value) == "number" then return tostring(value) end
  if type(value) ~= "table" then return value end
  local out = {}
  if kind == "sequence" or kind == "array" then
    if chars[base(T.element).kind] then return octets(value) end
    for i = 1, value.n or #value do out[i] = convert(broker, T.element, value[i]) end
    out.n = value.n
  elseif kind == "valuebox" then
    return convert(broker, T.type, value)
  elseif kind == "value" then
    local is = value._repid and broker.repository:lookup(value._repid) or T
    for name, v in pairs(value) do out[name] = v end
    for _, m in ipairs(state(is)) do out[m.name] = convert(broker, m.type, value[m.name]) end
  elseif kind == "struct" or kind == "except" then
    for _, m in ipairs(T.members) do out[m.name] = convert(broker, m.type, value[m.name]) end
    for name in pairs(value) do
      local is = false
      for _, m in ipairs(T.members) do is = is or m.name == name end
      if not is then error({ ("%s has no member '%s'"):format(T.name, tostring(name)) }, 0) end
    end
  elseif kind == "union" then
    return convert_union(broker, T, value)
  else
    return value
  end
  return out
end

local function read(broker, declared, s)
  local T = base(declared)
  local quoted = s:match("^%s*([\"'])")
  if T.kind == "interface" then return reference(broker, T, s) end
  if T.kind == "TypeCode" then return broker:type(s) end
  if T.kind == "ulonglong" and unsigned(s) then return unsigned(s) end
  if plain[T.kind] and not (quoted and s:match("[\"']%s*$")) then return s end
  if (T.kind == "sequence" or T.kind == "array") and chars[base(T.element).kind] and not s:find("^%s*[{%[\"']") then return s end
  return convert(broker, declared, parse(s))
end

--- The value of a text, by its type. -> value | nil, message
function text.read(broker, T, s)
  local ok, value = pcall(read, broker, T, s)
  if ok then return value end
  return nil, type(value) == "table" and value[1] or tostring(value)
end

-- ---- values as text ----

local function quote(s)
  s = s:gsub('[%c"\\]', function(c)
    return c == "\n" and "\\n" or c == '"' and '\\"' or c == "\\" and "\\\\" or ("\\x%02x"):format(c:byte())
  end)
  if not utf8.len(s) then s = s:gsub("[\128-\255]", function(c) return ("\\x%02x"):format(c:byte()) end) end
  return '"' .. s .. '"'
end

local function number(v, json)
  if math.type(v) == "integer" then return tostring(v) end
  if v ~= v or v == math.huge or v == -math.huge then return json and json_string(tostring(v)) or tostring(v) end
  local short = ("%.14g"):format(v)
  return tonumber(short) == v and short or ("%.17g"):format(v)
end

-- Text is a string or, far inside, a list of texts, which is joined once: a string at each level would be copied as often as it is nested.
local WIDEST = 120                               -- characters of indentation; what is deeper stands on one line

local function joined(value)
  if type(value) == "string" then return value end
  local parts, n, stack, at, top = {}, 0, { value }, { 0 }, 1
  while top > 0 do
    at[top] = at[top] + 1
    local item = stack[top][at[top]]
    if item == nil then top = top - 1
    elseif type(item) == "table" then
      top = top + 1
      stack[top], at[top] = item, 0
    else
      n = n + 1
      parts[n] = item
    end
  end
  return table.concat(parts)
end

local function deeper(indent) return #indent < WIDEST and indent .. "  " or indent end

local function on_one_line(items, open, close, json)
  local pieces, comma = { json and open or open .. " " }, json and "," or ", "
  for i, item in ipairs(items) do
    pieces[2 * i] = item
    pieces[2 * i + 1] = i < #items and comma or nil
  end
  pieces[#pieces + 1] = json and close or " " .. close
  return pieces
end

local render

-- Items between brackets: on one line if they are short, else one on each.
local function enclosed(items, open, close, indent, json)
  if #items == 0 then return open .. close end
  if #indent >= WIDEST then return on_one_line(items, open, close, json) end
  for i, item in ipairs(items) do items[i] = joined(item) end
  local line = open .. (json and "" or " ") .. table.concat(items, json and "," or ", ") .. (json and "" or " ") .. close
  if json or #line + #indent <= 100 and not line:find("\n") then return line end
  local inner = indent .. "  "
  return open .. "\n" .. inner .. table.concat(items, ",\n" .. inner) .. "\n" .. indent .. close
end

local function field(name, value, json)
  local before = json and json_string(name) .. ":" or name .. " = "
  return type(value) == "table" and { before, value } or before .. value
end

local function members(T, value, indent, json)
  local items = {}
  if T.kind == "except" then items[1] = field("_repid", json and json_string(T.id) or quote(T.id), json) end
  for _, m in ipairs(T.members) do items[#items + 1] = field(m.name, render(m.type, value[m.name], deeper(indent), json), json) end
  return enclosed(items, "{", "}", indent, json)
end

local shown                                       -- values in the text that is made: they may be shared, and point in circles

local function value_members(T, value, indent, json)
  if shown[value] then return json and json_string "<shown above>" or "<shown above>" end
  shown[value] = true
  local id = rawget(value, "_repid")
  local items = { id and field("_repid", json and json_string(id) or quote(id), json) }
  for _, m in ipairs(state(T)) do items[#items + 1] = field(m.name, render(m.type, value[m.name], deeper(indent), json), json) end
  return enclosed(items, "{", "}", indent, json)
end

local function union(T, value, indent, json)
  local items = { field("_switch", render(T.discriminator, value._switch, indent, json), json) }
  for _, m in ipairs(T.members) do
    if m.name == value._field then
      items[2] = field(m.name, render(m.type, value._value, deeper(indent), json), json)
      break
    end
  end
  return enclosed(items, "{", "}", indent, json)
end

local function elements(T, value, indent, json)
  if type(value) == "string" then return json and json_string(value) or quote(value) end
  local items = {}
  for i = 1, T.length or value.n or #value do items[i] = render(T.element, value[i], deeper(indent), json) end
  return enclosed(items, json and "[" or "{", json and "]" or "}", indent, json)
end

--- How a type is called.
function text.type_name(T)
  if T.scoped or T.name then return T.scoped or T.name end
  if T.kind == "sequence" then return "sequence<" .. text.type_name(T.element) .. (T.bound > 0 and "," .. T.bound or "") .. ">" end
  if T.kind == "array" then return text.type_name(T.element) .. "[" .. T.length .. "]" end
  if T.kind == "fixed" then return ("fixed<%d,%d>"):format(T.digits, T.scale) end
  if (T.kind == "string" or T.kind == "wstring") and (T.bound or 0) > 0 then return T.kind .. "<" .. T.bound .. ">" end
  return T.kind
end

local function any(value, indent, json)
  local T = value._anytype
  local name = text.type_name(T)
  if T.kind == "null" or T.kind == "void" then return json and "null" or "nil" end
  local items = { field("_anytype", json and json_string(name) or quote(name), json),
                  field("_anyval", render(T, value._anyval, deeper(indent), json), json) }
  return enclosed(items, "{", "}", indent, json)
end

function render(declared, value, indent, json)
  local T = base(declared)
  local kind = T.kind
  if value == nil then return json and "null" or "nil" end
  if kind == "any" and type(value) == "table" and value._anytype then return any(value, indent, json) end
  if type(value) == "number" then
    if kind == "ulonglong" then return text.unsigned(value) end
    return number(value, json)
  end
  if type(value) == "boolean" then return tostring(value) end
  if kind == "enum" or kind == "fixed" then return json and json_string(value) or value end
  if kind == "interface" then return json and json_string(tostring(value)) or tostring(value) end
  if kind == "TypeCode" then return json and json_string(text.type_name(value)) or text.type_name(value) end
  if type(value) == "string" then return json and json_string(value) or quote(value) end
  if kind == "struct" or kind == "except" then return members(T, value, indent, json) end
  if kind == "union" then return union(T, value, indent, json) end
  if kind == "valuebox" then return render(T.type, value, indent, json) end
  if kind == "value" and type(value) == "table" then return value_members(T, value, indent, json) end
  if kind == "sequence" or kind == "array" then return elements(T, value, indent, json) end
  return json and json_string(tostring(value)) or tostring(value)
end

--- The 64 bits of an integer as an unsigned decimal.
function text.unsigned(v)
  if v >= 0 then return tostring(v) end
  local q = (v >> 1) // 5
  return tostring(q) .. tostring(v - q * 10)
end

--- A value for people to read; a string that stands alone as it is.
function text.show(T, value, raw)
  local b = base(T)
  if raw and type(value) == "string" and b.kind ~= "sequence" and b.kind ~= "array" then return value end
  shown = {}
  return joined(render(T, value, "", false))
end

function text.json(T, value)
  shown = {}
  return joined(render(T, value, "", true))
end

return text
