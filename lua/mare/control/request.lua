--[[
mare.control.request: asking a process and waiting for its answer; finding it by name; telling that it is ready. For mare.server and mare.supervisor.

Who can be asked is a plain table { process = handle, inbox = channel, name = string or nil } with a module as its metatable, so it travels. With a
name it is looked up each time: a process that took the place of an ended one is found. Its inbox is a named channel then.

A question is a message (kind, reply, id, …) in the inbox, its answer a message (id, …) in the channel `reply`, or (-id, error) to raise in who asked.
Of these channels each process keeps those that are free: one whose answer never came is not used again, so that a late answer reaches nobody.
]]
local mare = require "mare"
local errors = require "mare.error"
local process, channel, select = mare.process, mare.channel, mare.select

local request = {}

-- Questions of this process that were answered, to be used again: { object, id, deadline, cases = { reply, handle } }. The number of its last one.
local free, serial = {}, 0

local function inbox_name(name) return "mare.inbox:" .. name end

--- Who is meant, for messages.
function request.what(object) return object.name and ("'%s'"):format(object.name) or tostring(object.process) end

-- The process and its inbox; nil when nobody has the name.
local function find(object)
  if not object.name then return object.process, object.inbox end
  local handle = process.whereis(object.name)
  local inbox = handle and channel.find(inbox_name(object.name))
  if inbox then return handle, inbox end
end

local HERE = debug.getinfo(1, "S").source:match("^(.*)control/request%.lua$") or "@lua/mare/"      -- where mare's own files are

--- The line of the program that called mare.
function request.where()
  for level = 2, 20 do
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    if info.currentline > 0 and info.source:sub(1, #HERE) ~= HERE then return ("%s:%d"):format(info.short_src, info.currentline) end
  end
  return false
end

-- Nobody is there; with a reason: it has ended before it answered.
local function down(object, reason)
  local message = request.what(object) .. (reason ~= nil and " ended before it answered" or " is not running")
  return errors.new { kind = "down", message = message, reason = reason, where = request.where() }
end

local HELD = 0.2                               -- seconds to wait for a name whose holder may be ending
local KILLED = 5                               -- seconds to wait for a process that was killed: it may be inside a C function

--- Who has the name although its owner has ended: what a supervisor that was killed has left behind. It is cancelled already.
function request.orphan(name)
  local holder = process.whereis(name)
  local owner, why = nil, nil
  if holder and holder ~= process.self() then owner, why = holder:owner() end
  if not owner and why == "ended" then return holder end
end

--- Such a process may tidy up for so many seconds, 0.2 at most; then it is killed. Afterwards the name is free, or there is nothing to be done.
function request.vacate(name, seconds)
  local holder = request.orphan(name)
  if holder and holder:wait(math.min(seconds, HELD)) == nil then
    holder:kill()
    holder:wait(KILLED)
  end
end

--- Gives the calling process, who is asked by that name from now on, its inbox. What waits in the inbox of who had the name before is answered: down.
function request.open(name, capacity)
  request.vacate(name, HELD)
  local holder = process.whereis(name)
  if holder and holder ~= process.self() then holder:wait(HELD) end
  process.register(name)
  local old = channel.find(inbox_name(name))
  if old then
    old:close()
    local found = false
    for _, reply, id in old:each() do
      if reply then reply:try_send(-id, down({ name = name }, "it was started again")) end
      found = true
    end
    if found then collectgarbage() end         -- connections that came with questions are closed now
  end
  return channel.named(inbox_name(name), capacity)
end

local function left(deadline) return deadline and deadline - mare.clock() end

local await

-- What select gave. A late answer to an earlier question has another number.
local function judge(asked, which, id, ...)
  if which == 1 then
    if id == asked.id then
      asked.object = nil
      free[#free + 1] = asked
      return ...
    elseif id == -asked.id then
      free[#free + 1] = asked
      error((...), 0)
    end
    return await(asked)
  elseif which == 2 then                       -- id is how it ended
    asked.cases[2] = nil
    if #asked.cases[1] > 0 then return await(asked) end    -- it had answered before
    error(down(asked.object, id and "it was stopped" or (...)), 0)
  end
  return nil, "timeout"
end

function await(asked)
  asked.cases.timeout = left(asked.deadline)
  return judge(asked, select(asked.cases))
end

-- Puts a message into the inbox; waits while that is full. true | nil, "timeout" | nil, "down".
local function put(handle, inbox, deadline, ...)
  local ok, why = inbox:try_send(...)
  if not ok and why == "full" then
    if handle == process.self() then return nil, "full" end
    local which
    which, ok = select { inbox:sending(...), handle, timeout = left(deadline) }
    if which == nil then return nil, "timeout" end
    if which == 2 then ok = nil end
  end
  if ok then return true end
  return nil, "down"
end

--- Asks and waits, at most so many seconds: the answer, or nil, "timeout". Raises kind "down" when the process has ended or ends meanwhile.
function request.ask(object, seconds, kind, ...)
  local handle, inbox = find(object)
  if not handle then error(down(object), 0) end
  local deadline = seconds and seconds < math.huge and mare.clock() + seconds or nil
  local asked = table.remove(free) or { cases = { channel.new(1) } }
  serial = serial + 1
  asked.object, asked.id, asked.deadline = object, serial, deadline
  asked.cases[2] = handle ~= process.self() and handle or nil      -- it may be another fiber of the same process
  local ok, why = put(handle, inbox, deadline, kind, asked.cases[1], serial, ...)
  if not ok then
    if why == "timeout" then return nil, why end
    if why == "full" then error("the mailbox of this process is full, and only it could empty it", 0) end
    error(down(object), 0)
  end
  return await(asked)
end

--- Says something and waits only while the inbox is full. true | nil, "down".
function request.tell(object, kind, ...)
  local handle, inbox = find(object)
  if not handle then return nil, "down" end
  return put(handle, inbox, nil, kind, false, 0, ...)
end

--- Answers a question, at most once; never waits.
function request.answer(reply, id, ...)
  if reply then reply:try_send(id, ...) end
end

--------------------------------------------------------------------------------------------------------- beginning

local born                                     -- where this process says that it is ready; nil: nobody waits, or it has

--- What a process runs whose beginner waits until it is ready.
function request.begin(up, f, ...)
  born = up
  return f(...)
end

--- Tells who began this process that it is ready.
function request.ready()
  if born then born:try_send(true) end
  born = nil
end

-- What is spawned. The module travels by its name.
local function main(module, up, ...) return request.begin(up, require(module).serve, ...) end

local Unborn = { __close = function(unborn)
  if unborn.handle then unborn.handle:cancel("who began it ended") end
end }

--- Spawns a process that calls serve(…) of a module, and waits until it is ready. Its error is raised.
function request.start(module, options, ...)
  local up = channel.new(1)
  options.main, options.args = main, table.pack(module, up, ...)
  local handle = process.spawn(options)
  local unborn <close> = setmetatable({ handle = handle }, Unborn)
  local which, ok, err = select { up, handle }
  if which == 2 and not up:try_receive() then
    if not ok then error(err, 0) end
    error("it ended before it was ready", 0)
  end
  unborn.handle = nil
  return handle
end

------------------------------------------------------------------------------------------------------------ options

--- Raises unless `given` is a table of these fields only; `known`: name -> type, or a function(value) -> nil or what is expected.
function request.check(given, known, where, level)
  if type(given) ~= "table" then error(("%s: a table expected, got %s"):format(where, type(given)), level + 1) end
  for name, value in pairs(given) do
    local wanted = known[name]
    if not wanted then
      local names = {}
      for other in pairs(known) do names[#names + 1] = other end
      table.sort(names)
      error(("%s: unknown field '%s'; there are %s"):format(where, tostring(name), table.concat(names, ", ")), level + 1)
    end
    local expected
    if type(wanted) == "function" then expected = wanted(value)
    elseif type(value) ~= wanted then expected = "a " .. wanted end
    if expected then
      local got = type(value) == "string" and value or type(value)
      error(("%s: '%s' must be %s, got %s"):format(where, name, expected, got), level + 1)
    end
  end
end

return request
