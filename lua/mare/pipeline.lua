--[[
mare.pipeline: stages that items go through, each with processes of its own, and bounded channels, the connectors, between them.

 - A fiber of the caller takes items from the source and sends them, numbered, into the first connector. The last connector is read by the caller.
   A stage's processes all read one connector and write to the next, so who is free gets the next item; mare.pipeline.stage says what they do.
 - The end flows through: a connector is closed when all who write to it are done.
 - Where the order is kept, an item has one successor, perhaps of several values or of none, and the reader puts the numbers in order. `window` bounds
   how many items are on their way or wait for their turn: the feeder puts a token in, the reader takes one out.
 - A failure goes to the channel `troubles`, which the reader watches together with the processes: whatever ends the pipeline ends all of it.
]]
local mare = require "mare"
local errors = require "mare.error"
local request = require "mare.control.request"
local process, channel, fiber = mare.process, mare.channel, mare.fiber

local CAPACITY = 16                            -- items in a connector
local GRACE = 5                                -- seconds from cancel to kill

local pipeline = {}

------------------------------------------------------------------------------------------------------------- making one

local function count(n) if math.type(n) ~= "integer" or n < 1 then return "a whole number from 1 on" end end

local STAGE = { run = "function", name = "string", processes = count, capacity = count, memory = function() end, priority = "string",
                on_error = function(v) if v ~= "stop" and v ~= "skip" then return '"stop" or "skip"' end end, init = "function", close = "function" }
local OPTIONS = { ordered = "boolean", on_error = STAGE.on_error, on_skip = "function" }

local Pipeline = {}
Pipeline.__index = Pipeline
Pipeline.__name = "pipeline"

local function stage_of(given, i)
  if type(given) == "function" then given = { run = given } end
  if type(given) ~= "table" then request.fail("pipeline.new: stage %d: a function or a table expected, got %s", i, type(given)) end
  request.check(given, STAGE, ("pipeline.new: stage %d"):format(i))
  if not given.run then request.fail("pipeline.new: stage %d: 'run' must be there", i) end
  return given
end

--- A pipeline of these stages: functions, or tables { run =, … }. Fields with names are options of the whole.
function pipeline.new(stages)
  if type(stages) ~= "table" then request.fail("pipeline.new: a table of stages expected, got %s", type(stages)) end
  local made, options = { stages = {} }, {}
  for key, value in pairs(stages) do
    if math.type(key) ~= "integer" then options[key] = value end
  end
  request.check(options, OPTIONS, "pipeline.new")
  for i = 1, #stages do made.stages[i] = stage_of(stages[i], i) end
  if #made.stages == 0 then request.fail "pipeline.new: there must be a stage" end
  made.ordered, made.on_error, made.on_skip = options.ordered ~= false, options.on_error or "stop", options.on_skip
  return setmetatable(made, Pipeline)
end

---------------------------------------------------------------------------------------------------------------- sources

--- A source: the lines of a file.
function pipeline.lines(path)
  if type(path) ~= "string" then request.fail("pipeline.lines: a path expected, got %s", type(path)) end
  local file, message = mare.file.open(path)
  if not file then request.fail("pipeline.lines: %s", message) end
  local next_line, state = file:lines()
  return function()
    local line = next_line(state)
    if line == nil then file:close() end
    return line
  end
end

-- An iterator over what was given: a list, a channel, a function.
local function iterator(source)
  if type(source) == "function" then return source end
  if type(source) == "table" and not (getmetatable(source) or {}).__call then
    local i = 0
    return function()
      i = i + 1
      local item = source[i]
      if item == nil and i <= #source then error(("list[%d] is nil; a list without holes expected"):format(i), 0) end
      return item
    end
  end
  if type(source) == "userdata" and tostring(source):match "^channel" then
    return function() return (source:receive()) end
  end
  if type(source) == "table" then return source end
  request.fail("pipeline: a source is a list, an iterator or a channel, got %s", type(source))
end

------------------------------------------------------------------------------------------------------------- running it

local Run = {}
Run.__index = Run
Run.__name = "pipeline.run"

local function tokens(n)
  local alive = channel.new(n)
  for i = n, 1, -1 do alive:send(i) end        -- 1 is the last one
  return alive
end

local function begin(run)
  local input, p = run.first, run.pipeline
  for i, stage in ipairs(p.stages) do
    local processes, output = stage.processes or 1, channel.new(stage.capacity or CAPACITY)
    local alive, name = tokens(processes), stage.name or ("stage " .. i)
    run.stats[i] = { name = name, processes = processes, items = 0, skipped = 0, busy = 0, starved = 0, blocked = 0 }
    local plan = { run = stage.run, init = stage.init, close = stage.close, stage = i, on_error = stage.on_error or p.on_error, ordered = p.ordered }
    for _ = 1, processes do
      run.newest = request.pass("^argument%[2%]%.run", "stage " .. i, pcall(process.spawn, {
        main = 'require "mare.pipeline.stage"(...)', args = { plan, input, output, alive, run.troubles, run.numbers }, name = name, owned = true,
        memory = stage.memory, priority = stage.priority,
      }))
      run.handles[run.selector:add(run.newest)] = { handle = run.newest, stage = i }
      run.newest, run.live = false, run.live + 1
    end
    run.connectors[i], input = input, output
  end
  run.last = input
  run.output = run.selector:add(input)
end

local function feed(first, window, troubles, source)
  local n = 0
  local ok, err = pcall(function()
    for item in source do
      n = n + 1
      if window then window:send(true) end
      if not first:send(n, item) then return end
    end
  end)
  if ok then first:close() elseif not errors.is(err, "cancelled") then troubles:send("source", n, err) end
end

local function start_feeding(run, source)
  run.feeder = fiber.spawn(feed, run.first, run.window, run.troubles, source)
  run.fed = run.selector:add(run.feeder)       -- without memory it can't even tell its trouble
end

-- As many items as have a place in connectors and processes, twice: one that takes long lets others overtake it.
local function window_of(p)
  local n = 0
  for _, stage in ipairs(p.stages) do n = n + (stage.capacity or CAPACITY) + (stage.processes or 1) end
  return channel.new(2 * n)
end

--- Starts it: items of the source go through. A source is a list, an iterator, a channel or pipeline.lines(path).
function Pipeline:run(source)
  source = iterator(source)
  local run = setmetatable({ pipeline = self, handles = {}, connectors = {}, stats = {}, live = 0, next = 1, kept = {}, ready = {}, at = 1,
    newest = false, feeder = false, fed = false, window = self.ordered and window_of(self) or nil,
    first = channel.new(self.stages[1].capacity or CAPACITY), troubles = channel.new(math.huge), numbers = channel.new(math.huge) }, Run)
  run.selector = mare.selector { run.troubles }
  local ok, err = pcall(process.masked, math.huge, begin, run)
  if ok then ok, err = pcall(start_feeding, run, source) end
  if not ok then
    run:stop()
    error(err, 0)
  end
  return run
end

----------------------------------------------------------------------------------------------------------- reading it

local function fail(run, stage, reason, traceback, item)
  run:stop()
  local name = stage and run.pipeline.stages[stage].name
  local what = not stage and "the source" or name and ("stage %d '%s'"):format(stage, name) or ("stage %d"):format(stage)
  run.failed = errors.new { kind = "pipeline", message = what .. " failed", reason = reason, traceback = traceback, item = item, stage = stage,
                            where = request.where() }
  error(run.failed, 0)
end

local function told(run)
  local stage, stats = run.numbers:try_receive()
  while stage do
    local sum = run.stats[stage]
    for name, value in pairs(stats) do sum[name] = sum[name] + value end
    stage, stats = run.numbers:try_receive()
  end
end

local function troubled(run, what, stage, reason, traceback, item)
  if what == "source" then fail(run, nil, reason) end
  if what == "stop" then fail(run, stage, reason, traceback, item) end
  if run.pipeline.on_skip then run.pipeline.on_skip(reason, item, stage) end
end

-- What was told, and not yet seen.
local function hear(run)
  local trouble = table.pack(run.troubles:try_receive())
  while trouble[1] do
    troubled(run, table.unpack(trouble, 1, trouble.n))
    trouble = table.pack(run.troubles:try_receive())
  end
end

-- Values for the caller: a single one, or a list of them.
local function offer(run, value, several)
  if several then
    table.move(value, 1, #value, #run.ready + 1, run.ready)
  elseif value ~= nil then
    run.ready[#run.ready + 1] = value
  end
end

local function arrived(run, number, value, several)
  if not run.pipeline.ordered then return offer(run, value, several) end
  run.kept[number] = { value, several }
  local item = run.kept[run.next]
  while item do
    run.kept[run.next], run.next = nil, run.next + 1
    run.window:receive()
    offer(run, item[1], item[2])
    item = run.kept[run.next]
  end
end

local function saw(run, which, ...)
  if which == 1 then return troubled(run, ...) end
  if which == run.output then
    if (...) ~= nil then return arrived(run, ...) end
    run.selector:remove(which)                 -- closed: all stages are over
    run.over = true
    return
  end
  local ended, ok, err, traceback = run.handles[which], ...
  run.selector:remove(which)
  if which == run.fed then
    run.fed = false
    if ok then return end
    hear(run)
    fail(run, nil, err, traceback)
  end
  run.handles[which] = nil
  run.live = run.live - 1
  if ok then return end
  hear(run)                                    -- why, perhaps
  fail(run, ended.stage, err, traceback)
end

-- The next value, or nil: there are no more.
local function take(run)
  while run.at > #run.ready and not (run.over and run.live == 0) do
    if run.at > 1 then run.ready, run.at = {}, 1 end
    saw(run, run.selector:wait())
  end
  if run.at <= #run.ready then
    run.at = run.at + 1
    return run.ready[run.at - 1]
  end
  hear(run)
  told(run)
  run.done = true
end

--- The next item; nil at the end.
function Run:receive()
  if self.failed then error(self.failed, 0) end
  if self.done then return nil end
  return take(self)
end

--- for item in run:each() do … end
function Run:each() return self.receive, self end

--- All items that are left.
function Run:list()
  local list = {}
  while true do
    local value = self:receive()
    if value == nil then return list end
    list[#list + 1] = value
  end
end

--- Reads all and throws it away: for pipelines whose last stage is what counts. How many there were.
function Run:wait()
  local n = 0
  while self:receive() ~= nil do n = n + 1 end
  return n
end

--- What each stage has done so far, and how full its connector is.
function Run:statistics()
  told(self)
  local list = {}
  for i, sum in ipairs(self.stats) do
    list[i] = { queued = #self.connectors[i] }
    for name, value in pairs(sum) do list[i][name] = value end
  end
  return list
end

local function finish(run, seconds)
  local till = mare.clock() + seconds
  for which, entry in pairs(run.handles) do
    if entry.handle:wait(math.max(0, till - mare.clock())) == nil then
      entry.handle:kill()
      entry.handle:wait()
    end
    run.handles[which] = nil
  end
  if run.feeder then run.feeder:wait(math.max(0, till - mare.clock())) end
end

--- Ends it, in whatever state it is.
function Run:stop()
  if self.stopped then return end
  self.stopped, self.done = true, true
  self.first:close()
  if self.feeder then self.feeder:cancel("the pipeline is stopped") end
  for _, entry in pairs(self.handles) do entry.handle:cancel("the pipeline is stopped") end
  if self.newest then self.newest:kill() end   -- there was no memory to note it
  process.masked(math.huge, finish, self, GRACE)
  told(self)
end

Run.__close = Run.stop

--- All in one: a list of what comes out.
function Pipeline:list(source)
  local run <close> = self:run(source)
  return run:list()
end

--- for item in p:each(source) do … end
function Pipeline:each(source)
  local run = self:run(source)
  return run.receive, run, nil, run
end

return require "mare.near".guard(pipeline)
