--[[
mare.pipeline.stage: a process of a stage. It takes items from its connector and sends on what `run` makes of them, until the connector is closed and
empty. The last process of a stage to come to that closes the next connector: each takes a token, and token 1 is the last one.

An item in a connector is (number, value), (number, list, true) for several values that came of one item and stay together, or (number, nil): nothing
has come of that number, which only who restores the order wants to know.
]]
local mare = require "mare"
local errors = require "mare.error"
local clock = mare.clock

local TELL = 0.2                               -- seconds between two reports of what was done

local function new_sum() return { items = 0, skipped = 0, busy = 0, starved = 0, blocked = 0 } end

local function tell(s)
  s.numbers:try_send(s.plan.stage, s.sum)
  s.sum, s.told = new_sum(), clock()
end

local Ending = { __close = function(s)
  if s.plan.close then mare.process.masked(s.plan.close, s.held) end
  tell(s)
end }

local function send(s, ...)
  local since = clock()
  local open = s.output:send(...)
  s.sum.blocked = s.sum.blocked + (clock() - since)
  if not open then error("the pipeline is stopped", 0) end
end

local function trouble(err) return { err = err, traceback = debug.traceback("", 2):sub(2) } end

-- What can't travel goes as a text.
local function report(s, what, e, item)
  if pcall(s.troubles.send, s.troubles, what, s.plan.stage, e.err, e.traceback, item) then return end
  if pcall(s.troubles.send, s.troubles, what, s.plan.stage, e.err, e.traceback, tostring(item)) then return end
  s.troubles:send(what, s.plan.stage, tostring(e.err), e.traceback, tostring(item))
end

local function work(s, value)
  local result
  if s.plan.init then result = s.plan.run(value, s.emit, s.held) else result = s.plan.run(value, s.emit) end
  if result ~= nil then s.emit(result) end
end

-- One value. False: it failed, and that is the end.
local function serve(s, value)
  local since, blocked = clock(), s.sum.blocked
  local ok, e = xpcall(work, trouble, s, value)
  s.sum.busy = s.sum.busy + (clock() - since) - (s.sum.blocked - blocked)
  s.sum.items = s.sum.items + 1
  if ok then return true end
  if errors.is(e.err, "cancelled") then error(e.err, 0) end
  s.sum.skipped = s.sum.skipped + 1
  report(s, s.plan.on_error, e, value)
  return s.plan.on_error == "skip"
end

-- What came of an item when the order counts: all of it at once, so that its number comes once.
local function pass(s, number)
  local outs, n = s.outs, s.n
  s.outs, s.n = {}, 0
  if n == 1 then send(s, number, outs[1]) elseif n == 0 then send(s, number, nil) else send(s, number, outs, true) end
end

local function step(s, number, value, several)
  s.number = number
  if several then
    for i = 1, #value do
      if not serve(s, value[i]) then return false end
    end
  elseif value ~= nil and not serve(s, value) then
    return false
  end
  if s.plan.ordered then
    local ok, e = xpcall(pass, trouble, s, number)
    if not ok then report(s, "stop", e, value) return false end
  end
  return true
end

return function(plan, input, output, alive, troubles, numbers)
  local s <close> = setmetatable({ plan = plan, output = output, troubles = troubles, numbers = numbers, sum = new_sum(), told = clock(),
                                   outs = {}, n = 0 }, Ending)
  if plan.ordered then
    s.emit = function(value)
      s.n = s.n + 1
      s.outs[s.n] = value
    end
  else
    s.emit = function(value) send(s, s.number, value) end
  end
  if plan.init then s.held = plan.init() end
  local since = clock()
  for number, value, several in input:each() do
    s.sum.starved = s.sum.starved + (clock() - since)
    if not step(s, number, value, several) then return end
    since = clock()
    if since - s.told > TELL then tell(s) end
  end
  if alive:receive() == 1 then output:close() end
end
