--[[
mare.control.request: asking a process and waiting for its answer; finding it by name; telling that it is ready. For mare.server and mare.supervisor.

Who can be asked is a plain table { process = handle, inbox = channel, name = string or nil } with a module as its metatable, so it travels. With a
name it is looked up each time: a process that took the place of an ended one is found. Its inbox is a named channel then.

A question is a message (kind, reply, id, …) in the inbox, its answer a message (id, …) in the channel `reply`, or (-id, error) to raise in who asked.
Of these channels each process keeps those that are free: one whose answer never came is not used again, so that a late answer reaches nobody.
]]
local mare = require "mare"
local errors = require "mare.error"
local suggest = require "mare.near".near
local process, channel, fiber, wait_for = mare.process, mare.channel, mare.fiber, mare.select

local request = {}

-- Questions of this process that were answered, to be used again: { object, id, deadline, cases = { reply, handle } }. The number of its last one.
local free, serial = {}, 0

local function inbox_name(name) return "mare.inbox:" .. name end

--- Who is meant, for messages.
function request.what(object) return object.name and ("'%s'"):format(object.name) or tostring(object.process) end

-- The process and its inbox; nil when nobody has the name.
local function find(object)
  if type(object) ~= "table" then request.fail("a server or supervisor expected in front of ':', got %s", type(object)) end
  if not object.name then return object.process, object.inbox end
  local handle = process.whereis(object.name)
  local inbox = handle and channel.find(inbox_name(object.name))
  if inbox then return handle, inbox end
end

--- Who has that name when it is asked.
function request.named(name, class)
  if type(name) ~= "string" then request.fail("named: a name expected, got %s", type(name)) end
  return setmetatable({ name = name }, class)
end

local HERE = debug.getinfo(1, "S").source:match("^(.*)control/request%.lua$") or "@lua/mare/"      -- where mare's own files are

--- The line of the program that called mare; false: there is none.
function request.where()
  for level = 2, 20 do
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    if info.currentline > 0 and info.source:sub(1, #HERE) ~= HERE then return ("%s:%d"):format(info.short_src, info.currentline) end
  end
  return false
end

--- Raises a text, with that line. Positions that `error` would add name lines of mare's own.
function request.fail(text, ...)
  if select("#", ...) > 0 then text = text:format(...) end
  local where = request.where()
  error(where and where .. ": " .. text or text, 0)
end

-- Passes on the results of pcall; an error text gets that line, and is changed by gsub(from, to) first. A text with a line has it twice then.
function request.pass(from, to, ok, ...)
  if ok then return ... end
  local err = ...
  if type(err) ~= "string" then error(err, 0) end
  request.fail("%s", from and err:gsub(from, to, 1) or err)
end

-- Nobody is there; with a reason: it has ended before it answered.
local function down(object, reason)
  local message = request.what(object) .. (reason ~= nil and " ended before it answered" or " is not running")
  return errors.new { kind = "down", message = message, reason = reason, where = request.where() }
end

--- Raises that.
function request.down(object) error(down(object), 0) end

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
  local ok, err = pcall(process.register, name)
  if not ok then error(err, 0) end             -- without a line of this file
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
      request.pass(nil, nil, false, ...)
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
  return judge(asked, wait_for(asked.cases))
end

-- What a program calls the values behind (kind, reply, id) of a question; others are arguments.
local NAMES = { call = "question", cast = "message", add = "child", stop = "child", restart = "child", remove = "child", child = "child" }

local function packed(kind, ok, ...)
  if ok then return ... end
  return request.pass("^message%[(%d+)%]", function(n) return NAMES[kind] or ("argument[%d]"):format(n - 3) end, false, ...)
end

-- Puts a message into the inbox; waits while that is full. true | nil, "timeout" | nil, "down".
local function put(handle, inbox, deadline, kind, ...)
  local ok, why = packed(kind, pcall(inbox.try_send, inbox, kind, ...))
  if not ok and why == "full" then
    if handle == process.self() then return nil, "full" end
    local which
    which, ok = wait_for { packed(kind, pcall(inbox.sending, inbox, kind, ...)), handle, timeout = left(deadline) }
    if which == nil then return nil, "timeout" end
    if which == 2 then ok = nil end
  end
  if ok then return true end
  return nil, "down"
end

local asked_by                                 -- the fiber that deals with what this process is asked: true, the first one; nil: none

--- The calling fiber is the one that deals with requests.
function request.serves() asked_by = fiber.self() or true end

--- Asks and waits, at most so many seconds: the answer, or nil, "timeout". Raises kind "down" when the process has ended or ends meanwhile.
function request.ask(object, seconds, kind, ...)
  if seconds ~= nil and type(seconds) ~= "number" then request.fail("a number of seconds expected, got %s", type(seconds)) end
  local handle, inbox = find(object)
  if not handle then error(down(object), 0) end
  if asked_by and handle == process.self() and asked_by == (fiber.self() or true) then
    request.fail("%s asks itself and would wait for ever: what it is to do, let it call a function of its own", request.what(object))
  end
  local deadline = seconds and seconds < math.huge and mare.clock() + seconds or nil
  local asked = table.remove(free) or { cases = { channel.new(1) } }
  serial = serial + 1
  asked.object, asked.id, asked.deadline = object, serial, deadline
  asked.cases[2] = handle ~= process.self() and handle or nil      -- it may be another fiber of the same process
  local ok, why = put(handle, inbox, deadline, kind, asked.cases[1], serial, ...)
  if not ok then
    if why == "timeout" then return nil, why end
    if why == "full" then request.fail("the mailbox of this process is full, and only it could empty it") end
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

--- Raises an error in who has asked.
function request.refuse(reply, id, err)
  if reply then reply:try_send(-id, err) end
end

--- Answers a question, at most once; never waits.
function request.answer(reply, id, ...)
  if not reply then return end
  local ok, err = pcall(reply.try_send, reply, id, ...)
  if ok then return end
  error(type(err) == "string" and err:gsub("^message%[2%]", "answer") or err, 0)
end

--------------------------------------------------------------------------------------------------------- beginning

local born                                     -- where this process says that it is ready; false: it has; nil: nobody waits

--- What a process runs whose beginner waits until it is ready.
function request.begin(up, f, ...)
  born = up
  return f(...)
end

--- Tells who began this process that it is ready. False: nobody has ever waited for that.
function request.ready()
  if born then
    born:try_send(true)
    born = false
  end
  return born ~= nil
end

-- What is spawned. The module travels by its name.
local function main(module, up, ...) return request.begin(up, require(module).serve, ...) end

local Unborn = { __close = function(unborn)
  if unborn.handle then unborn.handle:cancel("who began it ended") end
end }

--- Spawns a process that calls serve(plan, …) of a module, and waits until it is ready. Its error is raised.
function request.start(module, options, ...)
  local up = channel.new(1)
  options.main, options.args = main, table.pack(module, up, ...)
  local handle = request.pass("^argument%[4%]%.", module:match "%w+$" .. ".start: ", pcall(process.spawn, options))
  local unborn <close> = setmetatable({ handle = handle }, Unborn)
  local which, ok, err = wait_for { up, handle }
  if which == 2 and not up:try_receive() then
    if not ok then error(err, 0) end
    request.fail("it ended before it was ready")
  end
  unborn.handle = nil
  return handle
end

------------------------------------------------------------------------------------------------------------ options

local function unknown(name, known)
  local names = {}
  for other in pairs(known) do names[#names + 1] = other end
  local near = type(name) == "string" and suggest(name, names)
  if near then return ("unknown field '%s'; did you mean %s?"):format(name, near) end
  table.sort(names)
  return ("unknown field '%s'; there are %s"):format(tostring(name), table.concat(names, ", "))
end

--- A value for "expected this, got …": a number or a boolean as it is, a text with its type, of others the type.
function request.shown(value)
  if type(value) == "string" then return ("string '%s'"):format(#value > 40 and value:sub(1, 40) .. "…" or value) end
  if type(value) == "number" or type(value) == "boolean" then return tostring(value) end
  return type(value)
end

--- Raises unless `given` is a table of these fields only; `known`: name -> type, or a function(value) -> nil or what is expected.
function request.check(given, known, where)
  if type(given) ~= "table" then request.fail("%s: a table expected, got %s", where, type(given)) end
  for name, value in pairs(given) do
    local wanted, expected, got = known[name], nil, nil
    if not wanted then request.fail("%s: %s", where, unknown(name, known)) end
    if type(wanted) == "function" then expected, got = wanted(value), request.shown(value)
    elseif type(value) ~= wanted then expected, got = "a " .. wanted, type(value) end
    if expected then request.fail("%s: '%s' must be %s, got %s", where, name, expected, got) end
  end
end

return request
