-- Providers read arrays from files and sum up what is in them; consumers sort the arrays. When is the summary ready, and when is all sorted?
-- That depends on how the arrays are sent: "sync" waits for a consumer each time; "simulated" lets a process of its own wait, for each array;
-- "async" leaves the array in the channel. (Millán Fernández 2016, section 4.2; bench/mare/sorting.lua measures it.)
--   mare run examples/sorting.lua [ARRAYS in each of 4 files] [LENGTH] [PROVIDERS] [CONSUMERS] [times]
-- test: 50 40 2 3
-- expect: sync: 200 arrays of 36 to 40 integers from 19 to 99993, 3777 odd, 3782 even; all sorted
-- expect: simulated: 200 arrays of 36 to 40 integers from 19 to 99993, 3777 odd, 3782 even; all sorted
-- expect: async: 200 arrays of 36 to 40 integers from 19 to 99993, 3777 odd, 3782 even; all sorted
local mare = require "mare"
local process, channel = mare.process, mare.channel

local sorting = { modes = { "sync", "simulated", "async" } }

--- Writes so many files with an array on each line; their names.
function sorting.files(count, arrays, length)
  local state, names = 1, {}
  local function random(n)
    state = (state * 1103515245 + 12345) & 0x7fffffff
    return (state >> 8) % n
  end
  for i = 1, count do
    names[i] = os.tmpname()
    local file <close> = assert(io.open(names[i], "w"))
    for _ = 1, arrays do
      local line = {}
      for j = 1, length - random(5) do line[j] = random(100000) end
      file:write(table.concat(line, " "), "\n")
    end
  end
  return names
end

-- ---- the processes ----

local function add(to, array)
  to.arrays = to.arrays + 1
  to.lengths[#array] = (to.lengths[#array] or 0) + 1
  for _, n in ipairs(array) do
    to.least, to.most = math.min(to.least, n), math.max(to.most, n)
    to.odd, to.even = to.odd + n % 2, to.even + 1 - n % 2
  end
end

local function empty() return { arrays = 0, lengths = {}, least = math.huge, most = -math.huge, odd = 0, even = 0 } end

local function provide(mode, names, arrays, summaries)
  local send_later = function(array) arrays:send(array) end
  local summary = empty()
  for name in names:each() do
    for line in io.lines(name) do
      local array = {}
      for n in line:gmatch "%d+" do array[#array + 1] = math.tointeger(n) end
      add(summary, array)
      if mode == "simulated" then process.spawn(send_later, array) else arrays:send(array) end
    end
  end
  summaries:send(summary)
end

local function consume(arrays, sorted, name)
  local file <close> = assert(io.open(name, "w"))
  for array in arrays:each() do
    table.sort(array)
    file:write(table.concat(array, " "), "\n")
    sorted:send(1)
  end
end

-- ---- the main process ----

local function join(into, part)
  into.arrays, into.odd, into.even = into.arrays + part.arrays, into.odd + part.odd, into.even + part.even
  into.least, into.most = math.min(into.least, part.least), math.max(into.most, part.most)
  for length, n in pairs(part.lengths) do into.lengths[length] = (into.lengths[length] or 0) + n end
end

--- Does it once: the summary, seconds until it was there, seconds until all was sorted. `results`: a file for each consumer. Should one of
--- its processes fail, the caller fails with it.
function sorting.run(mode, names, providers, results)
  local start = mare.clock()
  local queue, summaries, sorted = channel.new(math.huge), channel.new(), channel.new(math.huge)
  local arrays = channel.new(mode == "async" and math.huge or 0)
  for _, name in ipairs(names) do queue:send(name) end
  queue:close()
  local consumers = {}
  for i, name in ipairs(results) do
    consumers[i] = process.spawn { name = "consumer", main = consume, args = { arrays, sorted, name }, linked = true }
  end
  for _ = 1, providers do
    process.spawn { name = "provider", main = provide, args = { mode, queue, arrays, summaries }, linked = true }
  end
  local summary = empty()
  for _ = 1, providers do join(summary, summaries:receive()) end
  local known = mare.clock() - start
  for _ = 1, summary.arrays do sorted:receive() end
  local done = mare.clock() - start
  arrays:close()
  for _, consumer in ipairs(consumers) do assert(consumer:wait()) end
  return summary, known, done
end

if ... == "module" then return sorting end

local function all_sorted(results, count)
  for _, name in ipairs(results) do
    for line in io.lines(name) do
      count = count - 1
      local last = -1
      for n in line:gmatch "%d+" do
        if math.tointeger(n) < last then return false end
        last = math.tointeger(n)
      end
    end
  end
  return count == 0
end

local each, length = tonumber(arg[1] or 500), tonumber(arg[2] or 200)
local providers, consumers = tonumber(arg[3] or 4), tonumber(arg[4] or 4)
local names, results = sorting.files(4, each, length), {}
for i = 1, consumers do results[i] = os.tmpname() end
local _ <close> = setmetatable({}, { __close = function()
  for _, list in ipairs { names, results } do
    for _, name in ipairs(list) do os.remove(name) end
  end
end })

for _, mode in ipairs(sorting.modes) do
  local s, known, done = sorting.run(mode, names, providers, results)
  local short, long = math.huge, 0
  for n in pairs(s.lengths) do short, long = math.min(short, n), math.max(long, n) end
  print(("%s: %d arrays of %d to %d integers from %d to %d, %d odd, %d even; %s"):format(mode, s.arrays, short, long, s.least, s.most, s.odd, s.even,
    all_sorted(results, s.arrays) and "all sorted" or "NOT all sorted"))
  if arg[5] == "times" then print(("  the summary after %.3f s, all sorted after %.3f s"):format(known, done)) end
end
