-- marshal.lua: see bench/orb/marshal.
package.cpath = "build/bench/?.so;" .. package.cpath
local hand = require "marshal"
local cdr = require "mare.orb.cdr"
local generate = require "spec.support.generate"

local samples = tonumber(arg[1])
local LITTLE = 1 | 2 << 1 | 8

local label = { kind = "enum", id = "IDL:ORBTests/TypeEnum:1.0", name = "TypeEnum", labels = { "first", "second", "third" } }
local full = { kind = "struct", id = "IDL:ORBTests/FullStruct:1.0", name = "FullStruct", members = {} }
for name, kind in ([[ushort_value ushort string_value string octet_value octet short_value short long_value long double_value double char_value char
                     float_value float enum_value enum boolean_value boolean ulong_value ulong]]):gmatch "(%S+)%s+(%S+)" do
  table.insert(full.members, { name = name, type = kind == "enum" and label or { kind = kind } })
end
local types = { { kind = "sequence", element = full } }
local program, generated = cdr.environment():program(types), generate.program(types)

local function list(n)
  local t = {}
  for i = 1, n do
    t[i] = { ushort_value = i, string_value = "some text " .. i, octet_value = 2, short_value = -3, long_value = 4, double_value = 5.5,
             char_value = "c", float_value = 6.5, enum_value = "second", boolean_value = true, ulong_value = 7 }
  end
  return t
end

-- Seconds for one call, of `times`; the ways take turns, so what disturbs one disturbs the others.
local function once(f, times, ...)
  local start = os.clock()
  for _ = 1, times do f(...) end
  return (os.clock() - start) / times
end

local function measure(n, ways)
  local times, results = math.max(1, 50000 // n), {}
  for k, f in ipairs(ways) do
    once(f, times)
    results[k] = {}
  end
  for i = 1, samples do
    for k, f in ipairs(ways) do
      collectgarbage()
      results[k][i] = once(f, times) / n * 1e9
    end
  end
  for k, figures in ipairs(results) do
    table.sort(figures)
    results[k] = { figures[(samples + 1) // 2], figures[1], figures[samples] }
  end
  return results
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
print(("%-16s %10s %12s %10s %8s   CPU time per struct, median of %d"):format("", "mare", "by hand", "generated", "ratio", samples))
for _, n in ipairs { 1, 10, 100, 1000 } do
  local value = list(n)
  local bytes = program:encode(LITTLE, value)
  assert(bytes == hand.encode(value) and bytes == generated:encode(LITTLE, value))
  local encode, decode = program.encode, program.decode
  for _, work in ipairs {
    { "encode", function() return encode(program, LITTLE, value) end, function() return hand.encode(value) end,
      function() return generated:encode(LITTLE, value) end },
    { "decode", function() return decode(program, bytes, 1, LITTLE) end, function() return hand.decode(bytes) end,
      function() return generated:decode(bytes, 1, LITTLE) end },
  } do
    local r = measure(n, { work[2], work[3], work[4] })
    rows[#rows + 1] = ('    {"work": "%s", "structs": %d, "mare": [%.1f, %.1f, %.1f], "hand": [%.1f, %.1f, %.1f], "generated": [%.1f, %.1f, %.1f]}')
      :format(work[1], n, r[1][1], r[1][2], r[1][3], r[2][1], r[2][2], r[2][3], r[3][1], r[3][2], r[3][3])
    print(("%-16s %7.0f ns %9.0f ns %7.0f ns %8.2f"):format(work[1] .. " " .. n, r[1][1], r[2][1], r[3][1], r[1][1] / r[2][1]))
  end
end

local date = os.date "%Y-%m-%dT%H%M"
local out = assert(io.open("bench/data/orb-marshal-" .. date .. ".json", "w"))
out:write(([[{
  "command": "bench/orb/marshal %d",
  "unit": "nanoseconds of CPU time per struct: median, least, most",
  "date": "%s", "machine": "%s", "load": "%s", "commit": "%s", "lua": "%s",
  "rows": [
%s
  ]
}
]]):format(samples, date, line("/proc/cpuinfo"):match "model name%s*:%s*([^\n]*)" or "?", line("/proc/loadavg"):match "%S+" or "?",
          shell "git describe --always --dirty", _VERSION, table.concat(rows, ",\n")))
out:close()
print("bench/data/orb-marshal-" .. date .. ".json")
