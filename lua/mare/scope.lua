--[[
mare.scope, which is process.scope: processes and fibers that live as long as a function (structured concurrency).

 - The function runs in a fiber of its own, so that the failure of a child reaches it wherever it waits. The caller's fiber watches: one selector has
   all that live, so a child costs nothing while nothing happens to it.
 - A selector belongs to its fiber: a new child is put into `new`, and `bell` tells the watcher.
 - `live` counts the children, the function among them, whose end the watcher has not seen. It doesn't leave before that is 0: however it is made to,
   it first cancels all that lives, waits, masked, and kills the processes that have not ended within the grace.
 - A deadline of the caller is one of the function's, too; whichever of them learns of it first, its error goes on.
 - Processes are owned, so they end with this process even when it is killed.
]]
local mare = require "mare"
local errors = require "mare.error"
local request = require "mare.control.request"
local process, channel, fiber = mare.process, mare.channel, mare.fiber

local GRACE = 5                                -- seconds from cancel to kill

local Scope = {}
Scope.__index = Scope
Scope.__name = "scope"

local function check(s, what)
  if s.over then request.fail("scope:%s: the scope has ended", what) end
end

-- begin(…) gives the handle. Masked: who is told to end meanwhile must not lose the child.
local function enter(s, child, begin, ...)
  child.handle = request.pass("^argument%[2%]", child.item or "%0", pcall(begin, ...))
  s.live = s.live + 1
  s.new[#s.new + 1] = child
  s.bell:try_send(true)
  if s.failed or s.leaving then child.handle:cancel("the scope ends") end
  return child.handle
end

local function begin(s, child, ...) return process.masked(math.huge, enter, s, child, ...) end

--- A process of the scope: arguments and result as process.spawn's.
function Scope:spawn(main, ...)
  check(self, "spawn")
  local options = { main = main, args = table.pack(...) }
  if type(main) == "table" then
    options = {}
    for name, value in pairs(main) do options[name] = value end
  end
  options.owned = true
  return begin(self, { process = true }, process.spawn, options)
end

--- A fiber of the scope: arguments and result as fiber.spawn's.
function Scope:fiber(main, ...)
  check(self, "fiber")
  return begin(self, {}, fiber.spawn, main, ...)
end

local MAP = { at_most = function(n) if math.type(n) ~= "integer" or n < 1 then return "a whole number from 1 on" end end }

--- f(item, index) for each item of a list, in processes, at most so many at a time: a list of their first results.
function Scope:map(list, f, options)
  check(self, "map")
  if options then request.check(options, MAP, "scope:map") end
  local most = options and options.at_most or process.workers()
  local n, results, begun, ended, done, failed = #list, {}, 0, 0, channel.new(math.huge), false
  local function told(child, ok, result)
    if ok then results[child.index] = result end
    done:send(ok == true)
  end
  while ended < n do
    while not failed and begun < n and begun - ended < most do
      begun = begun + 1
      begin(self, { process = true, needed = true, told = told, index = begun, item = ("list[%d]"):format(begun) }, process.spawn,
        { main = f, args = { list[begun], begun, n = 2 }, owned = true })
    end
    if not done:receive() then failed = true end  -- the scope ends this function at its next wait
    ended = ended + 1
  end
  return results
end

------------------------------------------------------------------------------------------------------------ watching

-- The first failure counts. Who was cancelled has not failed, unless its result is needed.
local function failed(s, child, err, traceback)
  if s.failed or s.leaving then return end
  if errors.is(err, "cancelled") and not child.needed then return end
  s.failed = { child = child, err = err, traceback = traceback }
end

local function ended(s, child, ok, ...)
  s.live = s.live - 1
  if not ok then failed(s, child, ...) elseif child.needed == s then s.results = table.pack(...) end
  if child.told then child:told(ok, ...) end
end

-- What the selector gave. False: its time was over.
local function saw(s, which, ...)
  if not which then return false end
  if which == 1 then return true end           -- the bell
  local child = s.children[which]
  s.children[which] = nil
  s.selector:remove(which)
  ended(s, child, ...)
  return true
end

-- Until nothing lives, or that moment. If `attentive`, also until something has failed.
local function watch(s, moment, attentive)
  while s.live > 0 and not (attentive and s.failed) do
    for i = #s.new, 1, -1 do
      s.children[s.selector:add(s.new[i].handle)] = s.new[i]
      s.new[i] = nil
    end
    if not saw(s, s.selector:wait(moment and moment - mare.clock())) then return end
  end
end

local function each_process(s, method)
  for _, list in ipairs { s.children, s.new } do
    for _, child in pairs(list) do
      if child.process then child.handle[method](child.handle) end
    end
  end
end

-- Fibers can't be killed, and can't be left alone.
local function leave(s)
  s.leaving = true
  for _, list in ipairs { s.children, s.new } do
    for _, child in pairs(list) do child.handle:cancel("the scope ends") end
  end
  watch(s, mare.clock() + GRACE)
  each_process(s, "kill")
  watch(s)
end

function Scope:__close()
  if self.live > 0 then process.masked(math.huge, leave, self) end
  self.over = true
end

---------------------------------------------------------------------------------------------------------- the function

local function raise(s, where)
  local f = s.failed
  if f.child.needed == s and errors.is(f.err, "deadline") and process.remaining() == 0 then error(f.err, 0) end    -- the caller's own
  error(errors.new { kind = "scope", reason = f.err, traceback = f.traceback, scope = debug.traceback("", 3):sub(2), where = where,
    message = (f.child.needed == s and "the scope's function" or tostring(f.child.handle)) .. " failed" }, 0)
end

--- Calls f(scope, …) and gives its results when it, and all that it began with the scope, have ended. The first failure ends the rest, and is raised.
return function(f, ...)
  if type(f) ~= "function" then request.fail("process.scope: a function expected, got %s", type(f)) end
  local where = request.where()
  local bell = channel.new(1)
  local s <close> = setmetatable({ live = 0, new = {}, children = {}, bell = bell, selector = mare.selector { bell } }, Scope)
  local left = process.remaining()
  if left then begin(s, { needed = s }, fiber.spawn, process.deadline, left, f, s, ...)
  else begin(s, { needed = s }, fiber.spawn, f, s, ...) end
  watch(s, nil, true)
  if s.failed then
    leave(s)
    raise(s, where)
  end
  return table.unpack(s.results, 1, s.results.n)
end
