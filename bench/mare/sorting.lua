-- sorting MODE PROVIDERS CONSUMERS ARRAYS LENGTH: providers and consumers sort arrays from four files (examples/sorting.lua): seconds until the
-- summary is known, seconds until all is sorted, greatest resident memory. MODE: sync, simulated, async.
-- sorting tables [SHARE] [REPETITIONS]: the seeds' tables 4.4 to 4.6 (Millán Fernández 2016) beside our figures, with one in SHARE (100) of
-- their arrays, 4 workers. SHARE 1 is their experiment; its files have 75 million integers.
local mare = require "mare"
local here = arg[0]:match "^(.*/)" or "./"
local sorting = assert(loadfile(here .. "../../examples/sorting.lua"))("module")

local function removed(...)
  local lists = { ... }
  return setmetatable({}, { __close = function()
    for _, list in ipairs(lists) do
      for _, name in ipairs(list) do os.remove(name) end
    end
  end })
end

local function peak()
  for line in io.lines "/proc/self/status" do
    local kib = line:match "^VmHWM:%s+(%d+)"
    if kib then return tonumber(kib) end
  end
end

local function names(n)
  local list = {}
  for i = 1, n do list[i] = os.tmpname() end
  return list
end

local function once(mode, providers, consumers, files)
  local results = names(consumers)
  local _ <close> = removed(results)
  local before = peak()
  local _, known, done = sorting.run(mode, files, providers, results)
  print(("summary %.6g s\nsorted %.6g s\nmemory %d KiB\nbefore %d KiB"):format(known, done, peak(), before))
end

-- ---- the tables ----

local MODES = { "sync", "simulated", "async" }
local ARRAYS, LENGTH, MEMORY = 31507, 600, { { "A", 5510 }, { "B", 10510 }, { "C", 20510 }, { "D", 31510 } }
-- P and T of each mode; 4.6: Mb of each mode.
local SEEDS = {
  { 1, 2, 53.0, 53.0, 28.33, 40.33, 20.33, 39.33 }, { 1, 4, 32.33, 32.33, 31.67, 31.67, 22.67, 25.66 },
  { 1, 8, 29.33, 29.33, 37.33, 37.33, 29.33, 29.33 }, { 1, 16, 29.67, 29.67, 38.33, 38.33, 29.33, 29.33 },
  { 2, 2, 37.33, 37.33, 13.67, 38.66, 11.33, 41.33 }, { 2, 4, 33.67, 33.67, 22.67, 25.66, 19.33, 25.33 },
  { 2, 8, 24.67, 24.67, 24.67, 24.67, 20.33, 24.33 }, { 2, 16, 24.67, 24.67, 25.0, 25.0, 20.67, 24.66 },
  { 4, 2, 38.33, 38.33, 10.33, 41.33, 9.67, 40.66 }, { 4, 4, 23.67, 23.67, 13.67, 15.66, 11.33, 26.33 },
  { 4, 8, 24.67, 24.67, 25.67, 25.67, 11.67, 26.66 }, { 4, 16, 25.0, 25.0, 26.0, 26.0, 12.67, 27.66 },
}
local SEEDS_MEMORY = { { 40.0, 89.3, 50.7 }, { 80.3, 170.4, 96.8 }, { 153.0, 332.5, 189.0 }, { 223.5, 510.9, 290.3 } }

-- A cell in an OS process of its own; the mean of the repetitions of each metric.
local function cell(repetitions, ...)
  local sum = {}
  for _ = 1, repetitions do
    local r = assert(mare.subprocess.run { os.getenv "MARE" or here .. "../../bin/mare", "run", "-w", "4", arg[0], ... })
    if r.code ~= 0 then error(r.err, 0) end
    for metric, value in r.out:gmatch "(%l+) (%S+)" do sum[metric] = (sum[metric] or 0) + tonumber(value) / repetitions end
  end
  return sum
end

local function times(share, repetitions, files)
  print(("Table 4.4: seconds until the summary (P) and until all is sorted (T); here one in %d of the arrays, mean of %d\n")
    :format(share, repetitions))
  print "| providers | consumers | sync P, T | simulated P, T | async P, T | seeds: sync | simulated | async | async P / best other P | seeds |"
  print "|---|---|---|---|---|---|---|---|---|---|"
  for _, row in ipairs(SEEDS) do
    local line, p = { row[1], row[2] }, {}
    for i, mode in ipairs(MODES) do
      local m = cell(repetitions, mode, row[1], row[2], "files", table.unpack(files))
      line[#line + 1] = ("%.3f, %.3f"):format(m.summary, m.sorted)
      p[i] = m.summary
    end
    for i = 3, 7, 2 do line[#line + 1] = ("%.2f, %.2f"):format(row[i], row[i + 1]) end
    line[#line + 1] = ("%.2f"):format(p[3] / math.min(p[1], p[2]))
    line[#line + 1] = ("%.2f"):format(row[7] / math.min(row[3], row[5]))
    print("| " .. table.concat(line, " | ") .. " |")
  end
end

local function memory(share, repetitions)
  print(("\nTables 4.5, 4.6: MiB beyond the program's own, 4 providers, 4 consumers; here one in %d of the arrays\n"):format(share))
  print "| set | arrays in each file | sync | simulated | async | async / simulated | seeds: sync | simulated | async | async / simulated |"
  print "|---|---|---|---|---|---|---|---|---|---|"
  for i, set in ipairs(MEMORY) do
    local line, mib = { set[1], ("%d (%d)"):format(set[2] // share, set[2]) }, {}
    for k, mode in ipairs(MODES) do
      local m = cell(repetitions, mode, 4, 4, set[2] // share, LENGTH)
      mib[k] = (m.memory - m.before) / 1024
      line[#line + 1] = ("%.1f"):format(mib[k])
    end
    line[#line + 1] = ("%.2f"):format(mib[3] / mib[2])
    for _, v in ipairs(SEEDS_MEMORY[i]) do line[#line + 1] = ("%.1f"):format(v) end
    line[#line + 1] = ("%.2f"):format(SEEDS_MEMORY[i][3] / SEEDS_MEMORY[i][2])
    print("| " .. table.concat(line, " | ") .. " |")
  end
end

if arg[1] == "tables" then
  local share, repetitions = math.tointeger(arg[2] or 100), math.tointeger(arg[3] or 3)
  local files = sorting.files(4, ARRAYS // share, LENGTH)
  local _ <close> = removed(files)
  times(share, repetitions, files)
  memory(share, repetitions)
elseif arg[4] == "files" then
  once(arg[1], tonumber(arg[2]), tonumber(arg[3]), table.move(arg, 5, #arg, 1, {}))
else
  local files = sorting.files(4, tonumber(arg[4]), tonumber(arg[5]))
  local _ <close> = removed(files)
  once(arg[1], tonumber(arg[2]), tonumber(arg[3]), files)
end
