--[[
mare.oil.cothread: OiL's threads, which are fibers of mare here.

A *record* belongs to a thread that has waited here, or that was scheduled: `channel` wakes it, `waiting` tells that it waits for that. A thread is
known by its coroutine: a fiber's own, or the one that the program made and gave to `schedule`, whose function runs as a fiber then (`bodies`
remembers
it), so that it waits as fibers do in plain Lua, too.

`active` counts the threads that can run or wait for something that will come; one that is suspended, until somebody schedules it, is not active.
`held` counts what keeps oil.main waiting beside threads: brokers that serve. Both nought: oil.main returns.

A coroutine.yield outside of any coroutine of the program's own speaks to the scheduler, as programs that know OiL's scheduler do:
yield("delay", seconds). So coroutine.yield and coroutine.create are wrapped when this is loaded.
]]
local mare = require "mare"

local fiber, channel = mare.fiber, mare.channel
local running, status = coroutine.running, coroutine.status
local raw_yield, raw_create = coroutine.yield, coroutine.create
local unpack = table.unpack

local cothread = { traps = setmetatable({}, { __mode = "k" }), loaded = {}, verbose = { viewer = { labels = {} } } }

local weak = { __mode = "k" }
local records = setmetatable({}, weak)
local bodies = setmetatable({}, weak)            -- coroutines that were made and not run: their functions
local names = setmetatable({}, weak)             -- a fiber's own coroutine -> the one that was scheduled
local active, held, halted = 0, 0, false
local changed = channel.new(1)                   -- tells oil.main to look again
local failure                                    -- of a thread: { error }

local function look() changed:try_send(true) end

local function record(thread)
  local r = records[thread]
  if not r then
    r = { channel = channel.new(1), waiting = false }
    records[thread] = r
  end
  return r
end

--- The thread that calls.
function cothread.running()
  local thread = running()
  return names[thread] or thread
end

-- Waits until it is scheduled, or for so long. -> what schedule gave
local function rest(seconds)
  local r = record(cothread.running())
  r.waiting = true
  if not seconds then
    active = active - 1
    look()
  end
  local fine, given = pcall(r.channel.receive, r.channel, seconds)
  r.waiting = false
  if not seconds then active = active + 1 end
  if not fine then error(given, 0) end
  if given then return unpack(r.given, 1, r.given.n) end
end

-- ---- threads ----

-- `f` may itself be a thread of the program's whose function nobody knows: then it is resumed, and its yields are served here.
local function over(thread, fine, ...)
  local trap = cothread.traps[thread]
  if trap then return trap(thread, fine, ...) end
  if fine then return end
  local err = ...
  if not failure then failure = { err } end
  look()
end

local function body(thread, f, ...)
  names[running()] = thread
  over(thread, xpcall(f, function(e) return type(e) == "string" and debug.traceback(e, 2) or e end, ...))
  active = active - 1
  look()
end

local serve

-- A coroutine that was begun already.
local function drive(thread, ...)
  local function step(fine, ...)
    if not fine then error((...), 0) end
    if status(thread) == "dead" then return ... end
    return step(coroutine.resume(thread, serve(...)))
  end
  return step(coroutine.resume(thread, ...))
end

local function start(thread, f, ...)
  active = active + 1
  return fiber.spawn(body, thread, f, ...)
end

--- Begins `thread`, a coroutine that was not run yet, or lets one go on that waits. `how` tells where in the queue; fibers have no such order.
function cothread.schedule(thread, _, ...)
  local r = records[thread]
  if r then
    if r.waiting then
      r.given = table.pack(...)
      r.channel:try_send(true)
      return thread
    end
    if status(thread) ~= "suspended" then return thread end
  end
  if status(thread) ~= "suspended" then return nil end
  record(thread)
  local f = bodies[thread]
  bodies[thread] = nil
  if f then start(thread, f, ...) else start(thread, drive, thread, ...) end
  return thread
end

--- Takes a thread that waits out of its queue: it is suspended until it is scheduled.
function cothread.unschedule(thread)
  local r = records[thread]
  return r and r.waiting and thread or nil
end

function cothread.isscheduled(thread) return records[thread] ~= nil and status(thread) ~= "dead" end

local function begin(thread, ...)
  cothread.schedule(thread, nil, ...)
  fiber.yield()
end

cothread.next, cothread.last = begin, begin
function cothread.after(thread, _, ...) return begin(thread, ...) end

function cothread.suspend(...) return rest(nil, ...) end
function cothread.yield() fiber.yield() end

--- Waits so many seconds, or until it is scheduled.
function cothread.delay(seconds)
  if seconds <= 0 then return fiber.yield() end
  return rest(seconds)
end

--- Waits until a moment of `now`.
function cothread.defer(moment) return cothread.delay(moment - mare.clock()) end

cothread.now = mare.clock
function cothread.plugin() end
function cothread.requesthalt()
  halted = true
  look()
end
function cothread.cancelhalt()
  local was = halted
  halted = false
  return was
end
cothread.halt = cothread.requesthalt
function cothread.hasready() return active > 0 end

-- What a thread says to its scheduler: yield("delay", 1). Without words it lets others run.
function serve(op, ...)
  if op == nil then return fiber.yield() end
  local f = type(op) == "string" and cothread[op]
  if type(f) ~= "function" then error("bad yield operation", 3) end
  return f(...)
end

function coroutine.yield(...)                     -- luacheck: ignore 122
  local thread, is_main = running()
  if is_main or names[thread] or not coroutine.isyieldable() then return serve(...) end
  return raw_yield(...)
end

function coroutine.create(f)                      -- luacheck: ignore 122
  local thread = raw_create(f)
  bodies[thread] = f
  return thread
end

local resume = coroutine.resume
function coroutine.resume(thread, ...)            -- luacheck: ignore 122
  if bodies[thread] then bodies[thread] = nil end
  return resume(thread, ...)
end

-- ---- from outside ----

--- What keeps the program going, beside its threads: a broker that serves.
function cothread.hold() held = held + 1 end

function cothread.release()
  held = held - 1
  look()
end

-- Waits until nothing can run any more. `mine`: the fiber whose failure is the caller's.
local function wait_for_all()
  while not failure and not halted and (active > 0 or held > 0) do changed:receive() end
  halted = false
  local f = failure
  failure = nil
  if f then error(f[1], 0) end
end

--- Runs a function in a thread of its own, and returns when no thread can go on and no broker serves. Raises the first error of a thread.
function cothread.main(f, ...)
  local thread = raw_create(f)
  record(thread)
  start(thread, f, ...)
  wait_for_all()
end

--- Runs all threads that were scheduled until none can go on.
function cothread.run() return wait_for_all() end

function cothread.step(thread, ...)
  if thread then begin(thread, ...) else fiber.yield() end
end

return cothread
