--[[
mare.parallel: work on many items on all cores. The items are cut into chunks, which a few processes take one after the other; what they give is put
together in the order of the items.

 - How many items make a chunk is measured: it begins with one and aims at 2 ms, with enough chunks left for all to end at the same time. Reductions
   are cut by the number of items alone, so that their brackets are the same in every run.
 - At most two chunks for each worker are on their way, so what is in memory besides the list is small.
 - Workers are kept for the next call of this process; they end a second after the last one. A call that fails or is left cancels its own.
 - Who ends for whatever reason is seen by the call's selector, so nobody waits for a result that never comes.
]]
local mare = require "mare"
local errors = require "mare.error"
local request = require "mare.control.request"
local process, channel = mare.process, mare.channel

local AIM = 0.002                              -- seconds a chunk should take
local PARTS = 64                               -- of a reduction
local LEAST = 4096                             -- bytes of a file in a chunk

local parallel = {}

------------------------------------------------------------------------------------------------------------- sources

local VIEW = getmetatable(mare.buffer.new():doubles())
local Lines = {}
Lines.__index = Lines
Lines.__name = "parallel.lines"

-- Files of /proc say that they have 0 bytes, whatever they give. One that grows just now says so when it is asked again.
local function has_no_size(path)
  local file <close> = mare.file.open(path)
  if not file or not file:read(1) then return false end
  local stat = mare.file.stat(path)
  return stat and stat.size == 0
end

-- Of a buffer: sealed ones only, as all workers have it.
local function lines_of(buffer)
  if mare.buffer.is(buffer) == "open" then request.fail "parallel.lines: a sealed buffer expected, as workers share it; b:seal() seals it" end
  return setmetatable({ buffer = buffer, size = #buffer }, Lines)
end

--- The lines of a file or a sealed buffer, as a list for the functions below: workers read it themselves. They get a line and the offset at which it
--- begins.
function parallel.lines(path)
  if mare.buffer.is(path) then return lines_of(path) end
  if type(path) ~= "string" then request.fail("parallel.lines: a path or a sealed buffer expected, got %s", type(path)) end
  local stat, message = mare.file.stat(path)
  if not stat then request.fail("parallel.lines: %s", message) end
  if stat.type ~= "file" or stat.size == 0 and has_no_size(path) then
    request.fail("parallel.lines: %s: a regular file expected, whose size is known, got a %s; io.lines reads it, for a list or for a pipeline", path,
                 stat.type == "file" and "file that has bytes and says 0" or stat.type)
  end
  return setmetatable({ path = path, size = stat.size }, Lines)
end

-- { kind =, n = how many units (items or bytes), … } as workers get it, and the list.
local function source_of(list, what)
  if getmetatable(list) == Lines then return { kind = "lines", path = list.path, buffer = list.buffer }, list.size end
  if mare.buffer.is(list) then
    request.fail("parallel.%s: a list expected, got a buffer; b:view(type) has its numbers, parallel.lines(b) its lines", what)
  end
  if getmetatable(list) == VIEW then           -- sealed it is shared; open, its numbers are sent
    local b = list:buffer()
    return b:sealed() and { kind = "view", of = b, type = list:type() } or { kind = "numbers" }, #list
  end
  if type(list) == "userdata" then             -- frozen, say: it goes as it is
    local ok, n, first = pcall(function() return #list, list[1] end)
    if ok and math.type(n) == "integer" then
      if n > 0 and first == nil then request.fail("parallel.%s: a list expected, got a userdata whose [1] is nil", what) end   -- a dict
      return { kind = "shared", of = list }, n
    end
  end
  if type(list) ~= "table" then request.fail("parallel.%s: a list expected, got %s", what, type(list)) end
  for i = 1, #list do
    if list[i] == nil then request.fail("parallel.%s: list[%d] is nil; a list without holes expected", what, i) end
  end
  return { kind = "list" }, #list
end

------------------------------------------------------------------------------------------------------------- workers

local idle = {}                                -- { handle =, inbox = } without a call

local function begin()
  local inbox = channel.new(1)
  local handle = process.spawn { main = 'require "mare.parallel.worker"(...)', args = { inbox }, name = "parallel", owned = true }
  return { handle = handle, inbox = inbox }
end

-- One that has taken the work: a warm one that has not ended meanwhile, or a new one.
local function hire(...)
  while true do
    local warm = table.remove(idle)
    local worker = warm or begin()
    local status = warm and warm.handle:status()
    if status ~= "failed" and status ~= "done" and worker.inbox:send(...) then return worker end
    if not warm then error("a worker ended before it began", 0) end
  end
end

------------------------------------------------------------------------------------------------------------- progress

local function bar(done, total, last)
  local width = 40
  local full = total > 0 and done * width // total or width
  local percent = total > 0 and done * 100 // total or 100
  io.stderr:write(("\r[%s%s] %3d %%%s"):format(("#"):rep(full), (" "):rep(width - full), percent, last and "\n" or ""))
end

-- A function that is told how much is done, or nil.
local function progress_of(wanted)
  if type(wanted) == "function" then return wanted end
  if not wanted or not require "mare.cli.terminal".is(2) then return end
  local told = 0
  return function(done, total)
    local now = mare.clock()
    if now - told >= 0.1 or done == total then told = now bar(done, total, done == total) end
  end
end

---------------------------------------------------------------------------------------------------------------- a call

local Call = {}
Call.__index = Call

-- Left before it was done: its workers are in the middle of something.
function Call:__close()
  self.tasks:close()
  for _, worker in pairs(self.workers) do
    if self.done then idle[#idle + 1] = worker else worker.handle:cancel("the call of mare.parallel has ended") end
  end
end

local function fail(message, reason, traceback, place)
  error(errors.new { kind = "parallel", message = message, reason = reason, traceback = traceback, index = place or nil, where = request.where() }, 0)
end

local function raise(call, place, reason, traceback)
  local message = "a worker failed"
  if place then message = call.source.kind == "lines" and ("the line at offset %d failed"):format(place) or ("item %d failed"):format(place) end
  fail(message, reason, traceback, place)
end

-- How many units the next chunk has.
local function size(call)
  local left = call.n - call.given
  if call.fixed then return math.min(call.fixed, left) end
  local fair = math.max(1, left // (2 * call.count))
  return math.min(left, math.max(call.least, math.min(fair, math.floor(call.size))))
end

local function give(call)
  local first = call.given + 1
  local last = call.given + size(call)
  call.given, call.sent, call.out = last, call.sent + 1, call.out + 1
  call.units[call.sent] = last - first + 1
  if call.source.kind == "lines" then return call.tasks:send(call.sent, first - 1, last - 1) end
  call.firsts[call.sent] = first
  if call.source.of then return call.tasks:send(call.sent, first, last) end
  if call.source.kind == "numbers" then return call.tasks:send(call.sent, first, last, call.list:table(first, last)) end
  request.pass("^message%[4%]%[(%d+)%]", function(i) return ("list[%d]"):format(first + tonumber(i) - 1) end,
               pcall(call.tasks.send, call.tasks, call.sent, first, last, table.move(call.list, first, last, 1, {})))
end

-- Costs change slowly: half of what was known, half of what was seen, four times as much at most.
local function learn(call, units, seconds)
  local aimed = seconds > 0 and units * AIM / seconds or 4 * call.size
  call.size = math.max(call.least, math.min(4 * call.size, (call.size + aimed) / 2))
end

local function got(call, number, count, seconds, result)
  call.out = call.out - 1
  call.results[number], call.counts[number] = result, count
  call.finished = call.finished + call.units[number]
  learn(call, call.units[number], seconds)
end

local function saw(call, which, number, count, ...)
  if which == 1 then
    if not number then raise(call, count, ...) end
    return got(call, number, count, ...)
  end
  local reason, traceback = count, (...)       -- a worker has ended: false, error, traceback
  if number then reason, traceback = "it ended too early", nil end
  raise(call, nil, reason, traceback)
end

local function whole(n) if math.type(n) ~= "integer" or n < 1 then return "a whole number from 1 on" end end
local OPTIONS = { workers = whole, chunk = whole, progress = function(v)
  if type(v) ~= "boolean" and type(v) ~= "function" then return "true or a function" end
end }

-- A work over all chunks: the call, whose results are by number of the chunk.
local function run(what, work, list, f, options, fixed)
  if options ~= nil then request.check(options, OPTIONS, "parallel." .. what) else options = {} end
  local source, n = source_of(list, what)
  local least = source.kind == "lines" and LEAST or 1
  local count = math.min(options.workers or process.workers(), math.max(1, n // least))
  local tasks, results = channel.new(2 * count), channel.new(math.huge)
  local call <close> = setmetatable({ source = source, list = list, n = n, tasks = tasks, workers = {}, count = count, least = least, size = least,
    fixed = options.chunk or fixed and math.max(least, (n + fixed - 1) // fixed), given = 0, sent = 0, out = 0, finished = 0,
    units = {}, firsts = {}, results = {}, counts = {} }, Call)
  if n == 0 then call.done = true return call end
  local selector, progress = mare.selector { results }, progress_of(options.progress)
  while call.given < n or call.out > 0 do
    while call.given < n and call.out < 2 * count do
      if #call.workers < count and call.out >= #call.workers then
        local worker = request.pass("^message%[2%]", "f", pcall(hire, work, f or false, source, tasks, results))
        call.workers[#call.workers + 1] = worker
        selector:add(worker.handle)
      end
      give(call)
    end
    saw(call, selector:wait())
    if progress then progress(call.finished, n) end
  end
  call.done = true
  return call
end

local function checked(what, f)
  if type(f) ~= "function" then request.fail("parallel.%s: a function expected, got %s", what, type(f)) end
end

--------------------------------------------------------------------------------------------------------------- functions

--- f(item, index) for each item; a list of the first results, in the order of the items.
function parallel.map(list, f, options)
  checked("map", f)
  local call = run("map", "map", list, f, options)
  local all, at = {}, 0
  for number = 1, call.sent do
    local part, count = call.results[number], call.counts[number]
    table.move(part, 1, count, at + 1, all)
    at = at + count
  end
  return all
end

--- Those for which f(item, index) is true, in their order.
function parallel.filter(list, f, options)
  checked("filter", f)
  local call = run("filter", "filter", list, f, options)
  local all, n = {}, 0
  for number = 1, call.sent do
    local part, before = call.results[number], (call.firsts[number] or 0) - 1
    for i = 1, #part do
      n = n + 1
      all[n] = call.source.kind == "lines" and part[i] or list[before + part[i]]
    end
  end
  return all
end

--- f(item, index) for each item. How many there were.
function parallel.each(list, f, options)
  checked("each", f)
  local call, n = run("each", "each", list, f, options), 0
  for number = 1, call.sent do n = n + call.counts[number] end
  return n
end

local function trouble(err) return { err = err, traceback = debug.traceback("", 2):sub(2) } end

-- Ends the fiber, whatever it does.
local function ends(err) return errors.is(err, "cancelled") or errors.is(err, "deadline") end

local named = {
  ["+"] = function(a, b) return a + b end, ["*"] = function(a, b) return a * b end, [".."] = function(a, b) return a .. b end,
  max = function(a, b) return a < b and b or a end, min = function(a, b) return b < a and b or a end,
}

local STEPS = { start = "function", step = "function", merge = "function" }

-- merge(sum, the result of a part): what fails is the item at which the part begins, or the part.
local function joined(call, merge, sum, number)
  local ok, result = xpcall(merge, trouble, sum, call.results[number])
  if ok then return result end
  if ends(result.err) then error(result.err, 0) end
  local first = call.firsts[number]
  if not first then fail("joining two parts failed", result.err, result.traceback) end
  fail((call.units[number] == 1 and "item %d failed" or "joining the items from %d on failed"):format(first), result.err, result.traceback, first)
end

--- All items folded by an associative function or "+", "*", "..", "max", "min"; nil if there are none. Or by { start =, step =, merge = }: each part
--- begins with start(), goes on with step(sum, item, index), and merge(a, b) joins two parts.
function parallel.reduce(list, op, options)
  local f, work = named[op] or op, "fold"
  local merge = f
  if type(op) == "string" and not named[op] then
    request.fail("parallel.reduce: there is no operator '%s'; there are '+', '*', '..', 'max', 'min', and functions", op)
  end
  if type(f) == "table" then
    request.check(f, STEPS, "parallel.reduce")
    if not f.step or not f.merge then request.fail "parallel.reduce: 'step' and 'merge' must be there" end
    merge, work = f.merge, "gather"
  else
    checked("reduce", f)
  end
  local call = run("reduce", work, list, f, options, PARTS)
  local sum, any = nil, false
  for number = 1, call.sent do
    if call.counts[number] > 0 then
      if any then sum = joined(call, merge, sum, number) else sum, any = call.results[number], true end
    end
  end
  if not any and work == "gather" and f.start then return f.start() end
  return sum
end

local function merged(a, b, less)
  local out, i, j, na, nb = {}, 1, 1, #a, #b
  for n = 1, na + nb do
    local x, y = a[i], b[j]
    local take_b
    if x == nil then take_b = true elseif y == nil then take_b = false elseif less then take_b = less(y, x) else take_b = y < x end
    if take_b then out[n] = y j = j + 1 else out[n] = x i = i + 1 end
  end
  return out
end

-- What the list has now, in its order.
local function put(list, sorted)
  if type(list) == "table" then table.move(sorted, 1, #sorted, 1, list) else list:put(1, sorted) end
end

--- Sorts the list in place, as table.sort does, and gives it back.
function parallel.sort(list, less, options)
  if less ~= nil then checked("sort", less) end
  if getmetatable(list) == VIEW then
    if list:buffer():sealed() then request.fail "parallel.sort: the buffer is sealed; buffer.new(b) makes one that can be changed" end
  elseif type(list) ~= "table" then request.fail("parallel.sort: a list expected, got %s", type(list)) end
  if options ~= nil then request.check(options, OPTIONS, "parallel.sort") end
  local call = run("sort", "sort", list, less, options, options and options.workers or process.workers())
  local runs = call.results
  local n = call.sent
  while n > 1 do                               -- neighbours, so that equal items of different parts keep their order
    local to = 0
    for i = 1, n, 2 do
      to = to + 1
      if i < n then
        local ok, sorted = xpcall(merged, trouble, runs[i], runs[i + 1], less)
        if not ok then fail("sorting failed", sorted.err, sorted.traceback) end
        runs[to] = sorted
      else
        runs[to] = runs[i]
      end
    end
    n = to
  end
  if n == 1 then put(list, runs[1]) end
  return list
end

return require "mare.near".guard(parallel)
