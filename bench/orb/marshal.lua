-- marshal.lua: see bench/orb/marshal.
package.cpath = "build/bench/?.so;" .. package.cpath
local hand = require "marshal"
local cdr = require "mare.orb.cdr"

local samples = tonumber(arg[1])
local LITTLE = 1 | 2 << 1 | 8

local label = { kind = "enum", id = "IDL:ORBTests/TypeEnum:1.0", name = "TypeEnum", labels = { "first", "second", "third" } }
local full = { kind = "struct", id = "IDL:ORBTests/FullStruct:1.0", name = "FullStruct", members = {} }
for name, kind in ([[ushort_value ushort string_value string octet_value octet short_value short long_value long double_value double char_value char
                     float_value float enum_value enum boolean_value boolean ulong_value ulong]]):gmatch "(%S+)%s+(%S+)" do
  table.insert(full.members, { name = name, type = kind == "enum" and label or { kind = kind } })
end
local program = cdr.environment():program { { kind = "sequence", element = full } }

local function list(n)
  local t = {}
  for i = 1, n do
    t[i] = { ushort_value = i, string_value = "some text " .. i, octet_value = 2, short_value = -3, long_value = 4, double_value = 5.5, char_value = "c",
             float_value = 6.5, enum_value = "second", boolean_value = true, ulong_value = 7 }
  end
  return t
end

-- Seconds for one call, of `times`; both ways take turns, so what disturbs one disturbs the other.
local function once(f, times, ...)
  local start = os.clock()
  for _ = 1, times do f(...) end
  return (os.clock() - start) / times
end

local function measure(n, f, g)
  local times, a, b = math.max(1, 100000 // n), {}, {}
  once(f, times) once(g, times)
  for i = 1, samples do
    collectgarbage()
    a[i] = once(f, times) / n * 1e9
    collectgarbage()
    b[i] = once(g, times) / n * 1e9
  end
  table.sort(a) table.sort(b)
  return a, b
end

local function line(path)
  local file = io.open(path)
  local text = file and file:read "a" or ""
  if file then file:close() end
  return text
end
local function shell(command)
  local pipe = io.popen(command .. " 2>/dev/null")
  local text = pipe:read "l" or ""
  pipe:close()
  return text
end

local rows = {}
print(("%-22s %12s %12s %8s   ns per struct, median of %d"):format("", "mare", "by hand", "ratio", samples))
for _, n in ipairs { 1, 10, 100, 1000 } do
  local value = list(n)
  local bytes = program:encode(LITTLE, value)
  assert(bytes == hand.encode(value))
  local encode, decode = program.encode, program.decode
  for _, work in ipairs {
    { "encode", function() return encode(program, LITTLE, value) end, function() return hand.encode(value) end },
    { "decode", function() return decode(program, bytes, 1, LITTLE) end, function() return hand.decode(bytes) end },
  } do
    local what, a, b = work[1], measure(n, work[2], work[3])
    local mid = (samples + 1) // 2
    rows[#rows + 1] = ('    {"work": "%s", "structs": %d, "mare": %.1f, "mare_low": %.1f, "mare_high": %.1f, "hand": %.1f, "hand_low": %.1f, "hand_high": %.1f}')
      :format(what, n, a[mid], a[1], a[samples], b[mid], b[1], b[samples])
    print(("%-22s %9.0f ns %9.0f ns %8.2f"):format(("%s %d"):format(what, n), a[mid], b[mid], a[mid] / b[mid]))
  end
end

local date = os.date "%Y-%m-%dT%H%M"
local out = assert(io.open("bench/data/orb-marshal-" .. date .. ".json", "w"))
out:write(('{\n  "command": "bench/orb/marshal %d",\n  "date": "%s",\n  "machine": "%s",\n  "load": "%s",\n  "commit": "%s",\n  "lua": "%s",\n  "rows": [\n%s\n  ]\n}\n')
  :format(samples, date, line("/proc/cpuinfo"):match "model name%s*:%s*([^\n]*)" or "?", line("/proc/loadavg"):match "%S+" or "?",
          shell "git describe --always --dirty", _VERSION, table.concat(rows, ",\n")))
out:close()
print("bench/data/orb-marshal-" .. date .. ".json")
