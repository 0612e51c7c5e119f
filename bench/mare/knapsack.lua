-- knapsack MODE PROCESSES CAPACITY OBJECTS WEIGHT: the seeds' knapsack (Millán Fernández 2016, section 4.1 and appendix A). Prints seconds, seconds
-- of all CPUs, cells of the matrix computed each second, and how much resident memory the run took at most.
--
-- The matrix of solutions has a row for each object and a column for each unit of capacity. Each process computes a block of columns, row after
-- row. Before each row it gives its part of the last one, its "fragment", to all processes of the columns behind it; the seeds' count of calls
-- (36,004 of `save` for instance D: 6,000 rows, 4 processes, 4 results) says that it is all of them, not only those who will look at it. At the
-- end each gives all its rows to the main process, which finds the objects.
--
-- MODE says how a table crosses: "direct", as a message; or as a string that is made of it and parsed again, by "luabins" (in C, found through
-- LUA_CPATH; see tools/fetch-luabins), by string.pack ("packed"), or as Lua source ("text").
local mare = require "mare"
local measure = require "measure"

local modes = {}

local function same(t) return t end
function modes.direct() return same, same end

function modes.luabins()
  local luabins = require "luabins"
  local function load(s)
    local ok, t = luabins.load(s)
    if not ok then error(t) end
    return t
  end
  return function(t) return assert(luabins.save(t)) end, load
end

-- Lists of integers, and lists of such lists: a count, then the numbers. string.pack takes a few hundred at a time, as they go through the stack.
local STEP = 200
local function pack(t)
  local parts = { type(t[1]) == "table" and "L" or "I", ("I8"):pack(#t) }
  if type(t[1]) == "table" then
    for _, list in ipairs(t) do parts[#parts + 1] = ("s8"):pack(pack(list)) end
  else
    local format = ("i8"):rep(STEP)
    for i = 1, #t, STEP do
      local last = math.min(#t, i + STEP - 1)
      parts[#parts + 1] = (last == i + STEP - 1 and format or ("i8"):rep(last - i + 1)):pack(table.unpack(t, i, last))
    end
  end
  return table.concat(parts)
end
local function unpack(s)
  local n, at = ("I8"):unpack(s, 2)
  local t = {}
  if s:sub(1, 1) == "L" then
    for i = 1, n do
      local part
      part, at = ("s8"):unpack(s, at)
      t[i] = unpack(part)
    end
    return t
  end
  local format = ("i8"):rep(STEP)
  for i = 1, n, STEP do
    local count = math.min(STEP, n - i + 1)
    local numbers = { (count == STEP and format or ("i8"):rep(count)):unpack(s, at) }
    table.move(numbers, 1, count, i, t)
    at = at + 8 * count
  end
  return t
end
function modes.packed() return pack, unpack end

-- The way of who has no library: a Lua table as Lua source.
local function write(t)
  if type(t[1]) ~= "table" then return "{" .. table.concat(t, ",") .. "}" end
  local parts = {}
  for i, list in ipairs(t) do parts[i] = write(list) end
  return "{" .. table.concat(parts, ",") .. "}"
end
function modes.text()
  return function(t) return "return " .. write(t) end, function(s) return assert(load(s, "=message", "t", {}))() end
end

local mode, workers, capacity, objects, weight = arg[1], measure.arg(2), measure.arg(3), measure.arg(4), measure.arg(5)
assert(modes[mode], "no such mode")
-- the value of an object; in the seeds' later instances 50 and 5
local function value(i) return i % 2 == 1 and 50 or 5 end

local function first_column(worker) return (worker - 1) * capacity // workers + 1 end

-- A cell of the last row in whichever fragment it lies; column 0 is no gain.
local function cell(fragments, own, me, column)
  if column < 1 then return column == 0 and 0 or nil end
  for from = me, 1, -1 do
    local first = first_column(from)
    if column >= first then return (from == me and own or fragments[from])[column - first + 1] end
  end
end

-- The next row, from column `first` on.
local function next_row(last, fragments, me, gain)
  local first, row, n, w = first_column(me), {}, #last, weight
  for k = 1, math.min(w, n) do
    local before, keep = cell(fragments, last, me, first + k - 1 - w), last[k]
    row[k] = before and before + gain > keep and before + gain or keep
  end
  for k = w + 1, n do
    local taken, keep = last[k - w] + gain, last[k]
    row[k] = taken > keep and taken or keep
  end
  return row
end

local function work(me, channels, results)
  local give, take = modes[mode]()
  local row, rows = {}, {}
  for k = 1, first_column(me + 1) - first_column(me) do row[k] = 0 end
  for i = 1, objects do
    for to = me + 1, workers do channels[me][to]:send(give(row)) end
    local fragments = {}
    -- the nearest first, who sends before it receives: no one waits for who waits for it
    for from = me - 1, 1, -1 do fragments[from] = take((channels[from][me]:receive())) end
    rows[i] = row
    row = next_row(row, fragments, me, value(i))
  end
  rows[objects + 1] = row
  results[me]:send(give(rows))
end

-- The objects that were taken: from the last row back, one was where the row before has less.
local function chosen(matrix)
  local column, list = capacity, {}
  local function at(row, c)
    if c == 0 then return 0 end
    local me = 1
    while me < workers and c >= first_column(me + 1) do me = me + 1 end
    return matrix[me][row + 1][c - first_column(me) + 1]
  end
  for i = objects, 1, -1 do
    if at(i, column) ~= at(i - 1, column) then
      list[#list + 1] = i
      column = column - weight
    end
  end
  return list
end

local function solve()
  local _, take = modes[mode]()
  local channels, results, matrix = {}, {}, {}
  for from = 1, workers do
    channels[from], results[from] = {}, mare.channel.new()
    for to = from + 1, workers do channels[from][to] = mare.channel.new() end
  end
  for me = 1, workers do mare.process.spawn { main = work, args = { me, channels, results }, linked = true } end
  for me = 1, workers do matrix[me] = take((results[me]:receive())) end
  return chosen(matrix)
end

-- All weigh the same, so the best is known: as many of the dear ones as fit, then cheap ones.
local function check(list)
  local gain, room = 0, capacity // weight
  for _, i in ipairs(list) do gain = gain + value(i) end
  local dear = math.min(room, (objects + 1) // 2)
  assert(#list == math.min(room, objects) and gain == 50 * dear + 5 * math.min(room - dear, objects // 2), "a wrong solution")
end

local before, cpu, solution = measure.peak(), os.clock(), nil
local seconds = measure.seconds(function() solution = solve() end)
cpu = os.clock() - cpu
check(solution)
measure.report("time", seconds, "s")
measure.report("cpu", cpu, "s")
measure.report("cells", capacity * objects / seconds, "cells/s")
measure.report("memory", (measure.peak() - before) / 1024, "MiB")
