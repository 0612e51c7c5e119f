--[[
mare.control.tree: the process of a supervisor. The list of its children is mare.control.children; what it is asked comes by mare.control.request.

 - It is told of its children's ends by its trap, as they are spawned linked; as they are owned too, they end even when it is killed.
 - What changes the list or starts something runs masked, so that a supervisor that is told to end never loses sight of a process. It can be told to
   end where it waits: for news, and for a child to be ready.
 - Children are started one after the other: those to be started stand in a queue. While one is awaited nothing else is dealt with.
 - When it ends, however but by kill, it ends its children in the reverse order of their start.
]]
local mare = require "mare"
local errors = require "mare.error"
local request = require "mare.control.request"
local children = require "mare.control.children"
local process, channel, select = mare.process, mare.channel, mare.select

local tree = {}

local KILLED = 5                               -- seconds to wait for a process that was killed: it may be inside a C function
local PAUSE = 0.01                             -- seconds before a start that failed is tried again

-------------------------------------------------------------------------------------------------------------- telling

local function title(t) return t.name and ("supervisor '%s'"):format(t.name) or "supervisor #" .. process.self().id end

local function to_stderr(event)
  local text = ("mare: %s: %s (%s) %s: %s"):format(event.supervisor, event.child, tostring(event.process), event.what, tostring(event.error))
  io.stderr:write(text, "\n", event.traceback and event.traceback .. "\n" or "")
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

local function terminate(t, child)
  local handle = child.handle
  if not handle then return end
  tell_end(child)
  t.children:ended(child)
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
        if handle then
          t.children:ended(child)
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

-- Gives the channel by which it says that it is ready, or nil; raises when there is no process.
local function spawn(t, child)
  local plan = child.plan
  local options, up = plan.options, nil
  local base = options.args
  options.args = child.args or base
  if plan.ready then
    up = channel.new(1)
    options.args[1] = up
  end
  options.restarts = child.spawned or 0                       -- for who looks: process.list
  local ok, handle = pcall(process.spawn, options)
  options.args = base
  if not ok then error(handle, 0) end
  child.spawned = options.restarts + 1
  t.children:runs(child, handle)
  return up
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

local function start(t, child)
  local ok, up = pcall(spawn, t, child)
  if not ok then return nil, up end
  if up then
    t.awaited = { child = child, up = up, handle = child.handle }
  else
    child.begun = true
    answer(child, child.handle)
  end
  return true
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

function strategies.one_for_one(t, child)
  if child.plan.ready or t.tail >= t.head or not start(t, child) then enqueue(t, child) end
end

function strategies.one_for_all(t) restart_from(t, t.children.first) end

function strategies.rest_for_one(t, child) restart_from(t, child) end

-- A child has no process any more: ok, err, traceback say how it ended.
local function lost(t, child, handle, ok, err, traceback)
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
  strategies[t.strategy](t, child)
end

-- One that was to be started was not, or ended before it was ready.
local function not_started(t, child, handle, err, traceback)
  if child.begun then
    t.pause = true
    return lost(t, child, handle, false, err, traceback)
  end
  if child.asked then                          -- sup:add
    answer(child, nil, err)
    return t.children:remove(child)
  end
  error(errors.new { kind = "start", reason = err, child = child.id, traceback = traceback, where = false,
    message = ("%s: %s did not start"):format(title(t), children.name(child)) }, 0)
end

local function start_next(t)
  local child = next_of(t)
  if not child then return end
  if child.handle then return answer(child, child.handle) end
  local ok, err = start(t, child)
  if not ok then return not_started(t, child, nil, err) end
end

-- What the wait for a child to be ready gave: 1, it is; 2 and how it ended; or nil.
local function awaited(t, a, which, ok, err, traceback)
  local child, handle = a.child, a.handle
  t.awaited = nil
  if which == nil then
    terminate(t, child)
    return not_started(t, child, handle, ("it was not ready within %g s"):format(child.plan.ready))
  end
  local was_ready = which == 1 or #a.up > 0
  if was_ready or ok and child.plan.restart ~= "permanent" then     -- or has done already what it had to
    child.begun = true
    answer(child, handle)
  end
  if which == 1 then return end
  t.children:ended(child)
  if child.begun and (was_ready or ok) then return lost(t, child, handle, ok, err, traceback) end
  return not_started(t, child, handle, ok and "it ended before it was ready" or err, traceback)
end

------------------------------------------------------------------------------------------------------------ requests

local function no_child(key) return nil, ("there is no child '%s'"):format(tostring(key)) end

local requests = {}                            -- functions of (t, asked, …); they answer, or put `asked` into a child to answer later

local function say(asked, ...) request.answer(asked[1], asked[2], ...) end

function requests.add(t, asked, entry)
  if entry.id ~= nil and t.children.by_id[entry.id] then return say(asked, nil, ("there is a child '%s' already"):format(entry.id)) end
  local child = t.children:append(children.plan(entry), entry.id)
  child.asked = asked
  enqueue(t, child)
end

function requests.spawn(t, asked, ...)
  if not t.template then return say(asked, nil, "this supervisor has no template") end
  local child = t.children:append(t.template, nil, children.arguments(t.template, ...))
  child.asked = asked
  enqueue(t, child)
end

-- The child of that name has ended, and who waited for its start knows why; nil: there is none, as who asked has been told.
local function ended(t, asked, key, why)
  local child = t.children:find(key)
  if not child then return say(asked, no_child(key)) end
  answer(child, nil, why)
  terminate(t, child)
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
  enqueue(t, child)
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

-- A linked process has ended: a child, one that is known to have ended, or somebody else.
local function told(t, handle)
  local child = t.children.by_handle[handle]
  if child then
    t.children:ended(child)
    if handle:status() == "done" then return lost(t, child, handle, true) end
    return lost(t, child, handle, how(pcall(handle.wait, handle, 0)))
  end
  if handle == t.parent and handle:status() == "failed" then t.over = true end
end

local function asked_for(t, kind, reply, id, ...)
  if requests[kind] then requests[kind](t, { reply, id }, ...) end
end

local AT_ONCE = 100                            -- ends that are dealt with before requests are looked at again

local function deal(t, which, ...)
  if which == 2 then return asked_for(t, ...) end
  local handle = ...
  for _ = 1, AT_ONCE do
    if which ~= 1 or not handle then return end
    told(t, handle)
    if t.awaited then return end
    handle = t.trap:try_receive()
  end
  if handle then told(t, handle) end
end

local function live(t)
  local news = mare.selector { t.trap, t.inbox }
  while not t.over do
    local a = t.awaited
    if a then
      process.masked(math.huge, awaited, t, a, select { a.up, a.handle, timeout = a.child.plan.ready })
    elseif t.head <= t.tail then
      if t.pause then                          -- the last one did not start: others first
        t.pause = nil
        process.masked(math.huge, deal, t, news:wait(PAUSE))
      end
      if not t.awaited then process.masked(math.huge, start_next, t) end
    else
      if not t.up then
        t.up = true
        request.ready()
      end
      process.masked(math.huge, deal, t, news:wait())
    end
  end
end

local function with_traceback(err) return type(err) == "string" and debug.traceback(err, 2) or err end

--- Makes the calling process a supervisor, until it is told to end. `parent`: the linked process whose failure ends it, too.
function tree.serve(options, inbox, parent)
  if not inbox then inbox = options.name and request.open(options.name, math.huge) or channel.new(math.huge) end
  local t = {
    name = options.name, strategy = options.strategy or "one_for_one", intensity = options.intensity or 1, period = options.period or 5,
    report = options.report, template = options.template and children.plan(options.template), parent = parent, ring = {}, at = 1,
    children = children.new(), queue = {}, head = 1, tail = 0, inbox = inbox, trap = process.trap(),
  }
  local _ <close> = setmetatable({}, { __close = function() process.masked(math.huge, stop_all, t) end })
  for _, entry in ipairs(options.children or {}) do enqueue(t, t.children:append(children.plan(entry), entry.id)) end
  local ok, err = xpcall(live, with_traceback, t)
  process.masked(math.huge, stop_all, t)
  if not ok and not ordered(false, err) then error(err, 0) end
end

return tree
