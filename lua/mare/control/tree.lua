--[[
mare.control.tree: the process of a supervisor. The list of its children is mare.control.children; what it is asked comes by mare.control.request.

 - It is told of its children's ends by its trap, as they are spawned linked; as they are owned too, they end even when it is killed.
 - It waits in one place, for news: ends, requests, and what its children are watched for: that one is ready, is late, or may be tried again. What
   changes the list or starts something runs masked, so that a supervisor that is told to end there never loses sight of a process.
 - Children that must be started in order - the first ones, and those of other strategies than one_for_one - stand in a queue. t.awaited is the one of
   them that was begun last, if it is not ready yet or pauses: the next one waits for that, but nothing else does.
 - A child that is not ready yet has `up`, the channel by which it says so. One that pauses before its next start is `paused`. All watching for a
   child ends with `calm`.
 - When it ends, however but by kill, it ends its children in the reverse order of their start.
]]
local mare = require "mare"
local errors = require "mare.error"
local request = require "mare.control.request"
local children = require "mare.control.children"
local tell = require "mare.base.say"
local process, channel, timer = mare.process, mare.channel, mare.timer

local tree = {}

local KILLED = 5                               -- seconds to wait for a process that was killed: it may be inside a C function
local PAUSE = 0.01                             -- seconds before a start that failed is tried again

-------------------------------------------------------------------------------------------------------------- telling

local function title(t) return t.name and ("supervisor '%s'"):format(t.name) or "supervisor #" .. process.self().id end

local function to_stderr(event)
  local text = ("mare: %s: %s (%s) %s: %s"):format(event.supervisor, event.child, tostring(event.process), event.what, tostring(event.error))
  tell(event.traceback and text .. "\n" .. event.traceback or text)
end

-- what: "failed, is started again" …
local function report(t, child, handle, what, err, traceback)
  if t.report == false then return end
  pcall(t.report or to_stderr, { supervisor = title(t), child = children.name(child), id = child.id, process = handle, what = what, error = err,
                                 traceback = traceback })
end

-------------------------------------------------------------------------------------------------------------- ending

-- An end that was ordered is no failure.
local function ordered(ok, err) return ok or errors.is(err, "cancelled") and err.reason == "shutdown" end

-- Waits for a process that was told to end; kills it after its time.
local function await_end(t, child, handle, seconds)
  local ok, err, traceback = handle:wait(seconds)
  if ok == nil then
    handle:kill()
    ok, err, traceback = handle:wait(KILLED)
    if ok == nil then err = "it was killed and has not ended yet" end
    if child.plan.shutdown ~= "kill" then err = ("it did not end within %g s and was killed"):format(child.plan.shutdown) end
    return report(t, child, handle, "was stopped", err, traceback)
  end
  if not ordered(ok, err) and not errors.is(err, "killed") then report(t, child, handle, "failed while it was stopped", err, traceback) end
end

local function tell_end(child)
  if child.plan.shutdown == "kill" then child.handle:kill() else child.handle:cancel("shutdown") end
end

-- f(t, child) when the source has something to say.
local function watch(t, child, source, f)
  local key = t.news:add(source)
  t.watched[key] = function() f(t, child) end
  child.watched = child.watched or {}
  child.watched[key] = true
end

local function unwatch(t, child)
  for key in pairs(child.watched) do
    t.news:remove(key)
    t.watched[key] = nil
  end
  child.watched = nil
end

-- It is neither awaited nor does it pause any more.
local function calm(t, child)
  if child.watched then unwatch(t, child) end
  child.up, child.late, child.paused = nil, nil, nil
  if t.awaited == child then t.awaited = nil end
end

-- It has no process any more.
local function gone(t, child)
  calm(t, child)
  t.children:ended(child)
end

local function terminate(t, child)
  local handle = child.handle
  if not handle then return calm(t, child) end
  tell_end(child)
  gone(t, child)
  await_end(t, child, handle, child.plan.shutdown ~= "kill" and child.plan.shutdown or KILLED)
end

-- From the last to `first`. Neighbours without an id have no order: they end at the same time.
local function terminate_down_to(t, first)
  local child = t.children.last
  while child do
    local from = child
    if child.id == nil then
      local since = mare.clock()
      while from and from.id == nil do
        if from.handle then tell_end(from) end
        if from == first then break end
        from = from.prev
      end
      local till = from and from.id == nil and from.prev or from
      while child ~= till do
        local handle, limit = child.handle, child.plan.shutdown
        if not handle then calm(t, child)
        else
          gone(t, child)
          await_end(t, child, handle, limit == "kill" and KILLED or math.max(0, since + limit - mare.clock()))
        end
        if child == first then return end
        child = child.prev
      end
    else
      terminate(t, child)
      if child == first then return end
      child = child.prev
    end
  end
end

local function stop_all(t)
  if t.stopped then return end
  t.stopped = true
  t.inbox:close()
  terminate_down_to(t, nil)
end

------------------------------------------------------------------------------------------------------------ starting

local function enqueue(t, child)
  if child.queued then return end
  child.queued = true
  t.tail = t.tail + 1
  t.queue[t.tail] = child
end

-- The next that is still to be started.
local function next_of(t)
  while t.head <= t.tail do
    local child = t.queue[t.head]
    t.queue[t.head] = nil
    t.head = t.head + 1
    if child.queued and not child.removed then
      child.queued = nil
      return child
    end
  end
  t.head, t.tail = 1, 0
end

local function answer(child, ...)
  local asked = child.asked
  if not asked then return end
  child.asked = nil
  request.answer(asked[1], asked[2], ...)
end

-- What a child runs whose name an orphan has. The supervisor itself must not wait for that.
local function begin_without(name, seconds, main, ...)
  request.vacate(name, seconds)
  return main(...)
end

-- Raises when there is no process.
local function spawn(t, child)
  local plan = child.plan
  local options = plan.options
  local base, main = options.args, options.main
  local args = child.args or base
  if plan.ready then
    child.up = channel.new(1)
    args[1] = child.up
  end
  options.args = args
  if options.name and request.orphan(options.name) then
    local grace = plan.shutdown == "kill" and 0 or plan.shutdown
    options.main, options.args = begin_without, table.move(args, 1, args.n, 4, { options.name, grace, main, n = args.n + 3 })
  end
  options.restarts = child.spawned or 0                       -- for who looks: process.list
  local ok, handle = pcall(process.spawn, options)
  options.main, options.args = main, base
  if not ok then error(handle, 0) end
  child.spawned = options.restarts + 1
  t.children:runs(child, handle)
end

-- One restart more. Gives an error when there have been too many.
local function counted(t, child, err)
  if t.intensity == math.huge then return end
  local now = mare.clock()
  local oldest = t.ring[t.at]
  if t.intensity == 0 or oldest and now - oldest <= t.period then
    return errors.new { kind = "intensity", reason = err, child = child.id, where = false,
      message = ("%s: more than %d restart%s in %g s, the last of %s"):format(title(t), t.intensity, t.intensity == 1 and "" or "s", t.period,
        children.name(child)) }
  end
  t.ring[t.at] = now
  t.at = t.at % t.intensity + 1
end

local not_started

-- It runs, and is ready if that was waited for.
local function begun(t, child)
  calm(t, child)
  child.begun, child.since = true, mare.clock()
  answer(child, child.handle)
end

local function kill(_, child) child.handle:kill() end

-- It is not ready in time, and told to end. When it has ended it was not started.
local function late(t, child)
  if #child.up > 0 then return begun(t, child) end
  unwatch(t, child)
  child.late = ("it was not ready within %g s"):format(child.plan.ready)
  tell_end(child)
  local limit = child.plan.shutdown
  if limit ~= "kill" and limit < math.huge then watch(t, child, timer.after(limit), kill) end
end

local function start(t, child)
  child.again_at = nil
  local ok, err = pcall(spawn, t, child)
  if not ok then
    calm(t, child)
    return not_started(t, child, nil, err)
  end
  if not child.up then return begun(t, child) end
  watch(t, child, child.up, begun)
  if child.plan.ready < math.huge then watch(t, child, timer.after(child.plan.ready), late) end
end

local function resume(t, child)
  unwatch(t, child)
  child.paused = nil
  start(t, child)
end

-- Starts it, or lets it pause first.
local function launch(t, child)
  local left = child.again_at and child.again_at - mare.clock() or 0
  if left <= 0 then return start(t, child) end
  child.paused = true
  watch(t, child, timer.after(left), resume)
end

-- The next of the queue.
local function start_next(t)
  local child = next_of(t)
  if not child then return end
  if child.handle then return answer(child, child.handle) end
  t.awaited = child
  launch(t, child)
  if not child.up and not child.paused and t.awaited == child then t.awaited = nil end
end

-- Somebody asked for its start: nothing but an order that is to be kept delays that.
local function start_soon(t, child)
  if t.strategy == "one_for_one" and t.up then launch(t, child) else enqueue(t, child) end
end

-- All from `first` on end, and are started again in their order; temporary ones are gone.
local function restart_from(t, first)
  terminate_down_to(t, first)
  t.head, t.tail = 1, 0
  local child = t.children.first
  local here = false
  while child do
    here = here or child == first
    local wanted = here or child.queued
    child.queued = nil
    if here and child.plan.restart == "temporary" and child.begun then t.children:remove(child)
    elseif wanted then enqueue(t, child) end
    child = child.next
  end
end

local strategies = {}

strategies.one_for_one = launch

function strategies.one_for_all(t) restart_from(t, t.children.first) end

function strategies.rest_for_one(t, child) restart_from(t, child) end

-- A child has no process any more: ok, err, traceback say how it ended. `pause`: seconds before it is started again, at least.
local function lost(t, child, handle, pause, ok, err, traceback)
  local restart = child.plan.restart
  local again = restart == "permanent" or restart == "transient" and not ordered(ok, err)
  local too_many = again and counted(t, child, err)
  if not ordered(ok, err) then
    report(t, child, handle, again and not too_many and "failed, is started again" or "failed", err, traceback)
  end
  if too_many then error(too_many, 0) end
  if not again then
    if restart == "temporary" or child.id == nil then t.children:remove(child) end
    return
  end
  local seconds = math.max(pause or 0, children.pause(child, t.backoff, t.period))
  child.again_at = seconds > 0 and mare.clock() + seconds or nil
  strategies[t.strategy](t, child)
end

-- One that was to be started was not, or ended before it was ready.
function not_started(t, child, handle, err, traceback)
  if child.begun then return lost(t, child, handle, PAUSE, false, err, traceback) end
  if child.asked then                          -- sup:add
    answer(child, nil, err)
    return t.children:remove(child)
  end
  error(errors.new { kind = "start", reason = err, child = child.id, traceback = traceback, where = false,
    message = ("%s: %s did not start"):format(title(t), children.name(child)) }, 0)
end

------------------------------------------------------------------------------------------------------------ requests

local function no_child(key) return nil, ("there is no child '%s'"):format(tostring(key)) end

local requests = {}                            -- functions of (t, asked, …); they answer, or put `asked` into a child to answer later

local function say(asked, ...) request.answer(asked[1], asked[2], ...) end

function requests.add(t, asked, entry)
  if entry.id ~= nil and t.children.by_id[entry.id] then return say(asked, nil, ("there is a child '%s' already"):format(entry.id)) end
  local child = t.children:append(children.plan(entry), entry.id)
  child.asked = asked
  start_soon(t, child)
end

function requests.spawn(t, asked, ...)
  if not t.template then return say(asked, nil, "this supervisor has no template") end
  local child = t.children:append(t.template, nil, children.arguments(t.template, ...))
  child.asked = asked
  start_soon(t, child)
end

-- The child of that name has ended, and who waited for its start knows why; nil: there is none, as who asked has been told.
local function ended(t, asked, key, why)
  local child = t.children:find(key)
  if not child then return say(asked, no_child(key)) end
  answer(child, nil, why)
  terminate(t, child)
  child.again_at, child.pause = nil, nil
  return child
end

function requests.stop(t, asked, key)
  local child = ended(t, asked, key, "it was stopped")
  if not child then return end
  child.queued = nil
  if child.id == nil or child.plan.restart == "temporary" then t.children:remove(child) end
  say(asked, true)
end

function requests.remove(t, asked, key)
  local child = ended(t, asked, key, "it was removed")
  if not child then return end
  t.children:remove(child)
  say(asked, true)
end

function requests.restart(t, asked, key)
  local child = ended(t, asked, key, "it is started again")
  if not child then return end
  child.asked = asked
  child.begun = true                           -- that it doesn't start is no reason to forget it
  start_soon(t, child)
end

function requests.child(t, asked, key)
  local child = t.children:find(key)
  if not child then return say(asked, no_child(key)) end
  say(asked, children.describe(child))
end

function requests.children(t, asked)
  local list, child = {}, t.children.first
  while child do
    list[#list + 1] = children.describe(child)
    child = child.next
  end
  say(asked, list)
end

function requests.count(t, asked)
  local c = t.children
  say(asked, { specs = c.specs, active = c.active, supervisors = c.supervisors, workers = c.specs - c.supervisors })
end

------------------------------------------------------------------------------------------------------------- the loop

local function how(fine, ok, err, traceback)
  if fine then return ok, err, traceback end
  return false, ok                             -- what it ended with can't be taken here
end

local function result_of(handle)
  if handle:status() == "done" then return true end
  return how(pcall(handle.wait, handle, 0))
end

-- Its process has ended. One that was awaited is ready if it has said so, or has done already what it had to.
local function ended_by_itself(t, child, handle, ok, err, traceback)
  local up, why = child.up, child.late
  gone(t, child)
  if why then return not_started(t, child, handle, why) end
  if up and #up == 0 and not (ok and child.plan.restart ~= "permanent") then
    return not_started(t, child, handle, ok and "it ended before it was ready" or err, traceback)
  end
  if up then
    child.begun = true
    answer(child, handle)
  end
  lost(t, child, handle, nil, ok, err, traceback)
end

-- A linked process has ended: a child, one that is known to have ended, or somebody else.
local function told(t, handle)
  local child = t.children.by_handle[handle]
  if child then return ended_by_itself(t, child, handle, result_of(handle)) end
  if handle == t.parent and handle:status() == "failed" then t.over = true end
end

local function asked_for(t, kind, reply, id, ...)
  if requests[kind] then requests[kind](t, { reply, id }, ...) end
end

local AT_ONCE = 100                            -- ends that are dealt with before requests are looked at again

local function deal(t, which, ...)
  if which == 2 then return asked_for(t, ...) end
  if which ~= 1 then return t.watched[which]() end
  local handle = ...
  for _ = 1, AT_ONCE do
    if not handle then return end
    told(t, handle)
    handle = t.trap:try_receive()
  end
  if handle then told(t, handle) end
end

local function live(t)
  while not t.over do
    if not t.awaited and t.head <= t.tail then
      process.masked(math.huge, start_next, t)
    else
      if not t.awaited and not t.up then
        t.up = true
        request.ready()
      end
      process.masked(math.huge, deal, t, t.news:wait())
    end
  end
end

local function with_traceback(err) return type(err) == "string" and debug.traceback(err, 2) or err end

--- Makes the calling process a supervisor, until it is told to end. `parent`: the linked process whose failure ends it, too.
function tree.serve(options, inbox, parent)
  request.serves()
  if not inbox then inbox = options.name and request.open(options.name, math.huge) or channel.new(math.huge) end
  local t = {
    name = options.name, strategy = options.strategy or "one_for_one", intensity = options.intensity or 1, period = options.period or 5,
    backoff = children.backoff(options.backoff), report = options.report,
    template = options.template and children.plan(options.template), parent = parent, ring = {}, at = 1,
    children = children.new(), queue = {}, head = 1, tail = 0, inbox = inbox, trap = process.trap(), watched = {},
  }
  t.news = mare.selector { t.trap, t.inbox }
  local _ <close> = setmetatable({}, { __close = function() process.masked(math.huge, stop_all, t) end })
  for _, entry in ipairs(options.children or {}) do enqueue(t, t.children:append(children.plan(entry), entry.id)) end
  local ok, err = xpcall(live, with_traceback, t)
  process.masked(math.huge, stop_all, t)
  if not ok and not ordered(false, err) then error(err, 0) end
end

return tree
