-- pprof: profiles as `mare run --profile` writes them: reading pprof's protocol buffers (profile.proto; src/process/pprof.c writes them) and folded
-- stacks. Only gzip files without compression are read, as mare's are.
--
--   pprof.decode(bytes) -> { types = { { type =, unit = }… }, default = index, samples = { { values = {…}, calls = { call… } }… },
--                            time =, duration = (ns), period = } | nil, error
--   A call is { name =, file =, line =, defined = }, the innermost first; calls that are alike are the same table.
local pprof = {}

-- ---- protocol buffers ----

local function varint(s, at)
  local v, shift = 0, 0
  while true do
    local b = s:byte(at) or error("it ends in the middle", 0)
    v, at, shift = v | (b & 127) << shift, at + 1, shift + 7
    if b < 128 then return v, at end
    if shift > 63 then error("a number is too long", 0) end
  end
end

-- Calls field(number, value) for each field; values are numbers or strings.
local function each(s, field)
  local at = 1
  while at <= #s do
    local key, value
    key, at = varint(s, at)
    local kind = key & 7
    if kind == 0 then
      value, at = varint(s, at)
    elseif kind == 2 then
      local n
      n, at = varint(s, at)
      if n < 0 or at + n - 1 > #s then error("it ends in the middle", 0) end
      value, at = s:sub(at, at + n - 1), at + n
    else
      error("it is no profile", 0)
    end
    field(key >> 3, value)
  end
end

local function numbers(list, value)
  if type(value) == "number" then
    list[#list + 1] = value
    return
  end
  local at = 1
  while at <= #value do list[#list + 1], at = varint(value, at) end
end

-- The numbers of a message without anything repeated, by field.
local function record(s)
  local t = {}
  each(s, function(n, v) t[n] = v end)
  return t
end

-- ---- gzip ----

local function unzip(s)
  if s:sub(1, 2) ~= "\x1f\x8b" then return s end
  local parts, at, last = {}, 11, 0
  if s:byte(4) ~= 0 then error("this gzip file is not mare's: gunzip it first", 0) end
  while last == 0 do
    local head, n = string.unpack("<BI2", s, at)
    if head > 1 then error("this gzip file is not mare's: gunzip it first", 0) end
    parts[#parts + 1], at, last = s:sub(at + 5, at + 4 + n), at + 5 + n, head
  end
  return table.concat(parts)
end

-- ---- profile.proto ----

local function decode(bytes)
  local p = { types = {}, samples = {}, period = 0, time = 0, duration = 0 }
  local strings, functions, locations, raw = {}, {}, {}, {}
  local default = 0
  each(unzip(bytes), function(n, v)
    if n == 1 then
      p.types[#p.types + 1] = record(v)
    elseif n == 2 then
      local s = { calls = {}, values = {} }
      each(v, function(field, value)
        if field == 1 then numbers(s.calls, value) elseif field == 2 then numbers(s.values, value) end
      end)
      p.samples[#p.samples + 1] = s
    elseif n == 4 then
      raw[#raw + 1] = record(v)
    elseif n == 5 then
      local f = record(v)
      functions[f[1]] = f
    elseif n == 6 then
      strings[#strings + 1] = v
    elseif n == 9 then p.time = v
    elseif n == 10 then p.duration = v
    elseif n == 12 then p.period = v
    elseif n == 14 then default = v end
  end)
  local function text(i) return strings[(i or 0) + 1] or "" end
  for i, t in ipairs(p.types) do
    p.types[i] = { type = text(t[1]), unit = text(t[2]) }
    if t[1] == default and default ~= 0 then p.default = i end
  end
  for _, l in ipairs(raw) do
    local line = l[4] and record(l[4]) or {}
    local f = functions[line[1]] or {}
    locations[l[1]] = { name = text(f[2]), file = text(f[4]), defined = f[5] or 0, line = line[2] or 0 }
  end
  for _, s in ipairs(p.samples) do
    for i, id in ipairs(s.calls) do s.calls[i] = locations[id] or error("a call without a place", 0) end
  end
  if #p.types == 0 then error("it is no profile", 0) end
  p.default = p.default or #p.types
  return p
end

-- ---- folded stacks ----

-- "work.lua:12 f", and what is no place in a file
local function call_of(text)
  local file, line, name = text:match("^(.-):(%d+) (.*)$")
  if not file then return { name = text, file = "", line = 0, defined = 0 } end
  return { name = ("%s (%s)"):format(name, file), file = file, line = math.tointeger(line), defined = 0 }
end

local function folded(text)
  local p, known = { types = { { type = "samples", unit = "" } }, default = 1, samples = {}, period = 0, time = 0, duration = 0 }, {}
  for line in text:gmatch("[^\n]+") do
    local stack, count = line:match("^(.+) (%d+)$")
    if not stack then error("it is no profile", 0) end
    local calls = {}
    for part in stack:gmatch("[^;]+") do
      known[part] = known[part] or call_of(part)
      table.insert(calls, 1, known[part])
    end
    p.samples[#p.samples + 1] = { calls = calls, values = { math.tointeger(count) } }
  end
  return p
end

function pprof.decode(bytes)
  local binary = bytes:find("^\x1f\x8b") or bytes:find("^\n") or bytes:find("[\0-\8\14-\31]")
  local ok, result = pcall(binary and decode or folded, bytes)
  if ok then return result end
  return nil, type(result) == "string" and result or "it is no profile"
end

return pprof
