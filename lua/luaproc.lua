--[[
luaproc on mare: a drop-in for programs written for luaproc and for its extended version.

What there is: processes made from code strings or functions, and channels known by their names in the whole program.
Every function returns and raises what the originals do; where they crash, hang or corrupt, this one does the sound
thing (docs/luaproc.md lists each difference).

How names are kept. All state lives in mare's named channels, because processes share nothing else:
  "luaproc.lock"        capacity 1, the lock: whoever has put its value in may touch slots and pop handles
  "luaproc.channel.X"   capacity 1, the slot of the name X: holds the message (channel, async, gate), one while X exists
  "luaproc.handles"     unbounded: the handles of all processes that may still run
A slot is taken out and put back only with the lock held, so to everybody else it is always full or always empty.
Each state caches what it found; a cached channel is stale exactly when it is closed, and then it is looked up again.

Messages travel as (true, values…): in mare a message's first value can't be nil, in luaproc it can.
]]
local mare = require "mare"
local process, channel = mare.process, mare.channel

-- In a process the global luaproc is an empty table at first, see `body`; it becomes the module when it is used.
local luaproc = rawget(_G, "luaproc")
local lazy = type(luaproc) == "table" and getmetatable(luaproc)
if type(lazy) == "table" and lazy.__name == "luaproc, not loaded yet" then setmetatable(luaproc, nil) else luaproc = {} end

local lock = channel.named("luaproc.lock", 1)
local handles = channel.named("luaproc.handles", math.huge)
local cache = {} -- name → { channel =, async =, gate = }

local SWEEP = 256 -- newproc drops finished handles each time it has been called so often in one state

-- Calls f(...) with the lock held; the lock is given back whatever happens.
local function leave(ok, ...)
  lock:receive()
  if not ok then error((...), 0) end
  return ...
end

local function locked(f, ...)
  lock:send(true)
  return leave(pcall(f, ...))
end

-- Argument checks with the messages of luaL_check… and the position of the caller's caller.
local function bad(number, name, what)
  error(("bad argument #%d to '%s' (%s)"):format(number, name, what), 4)
end

local function check_name(value, name)
  if type(value) == "number" then return tostring(value) end
  if type(value) ~= "string" then
    bad(1, name, "string expected, got " .. (value == nil and "no value" or type(value)))
  end
  return value
end

local function check_integer(value, number, name)
  local n = math.tointeger(tonumber(value))
  if n then return n end
  if type(tonumber(value)) == "number" then bad(number, name, "number has no integer representation") end
  bad(number, name, "number expected, got " .. (value == nil and "no value" or type(value)))
end

---------------------------------------------------------------------------------------------------------- the registry

local function slot_of(name)
  return channel.named("luaproc.channel." .. name, 1)
end

-- (lock held) What the slot holds, left in place; nil when there is no such channel.
local function look(name)
  local slot = slot_of(name)
  local c, async, gate = slot:try_receive()
  if not c then
    slot:close() -- asking must not leave anything behind
    return nil
  end
  slot:try_send(c, async, gate)
  return { channel = c, async = async, gate = gate }
end

local function find(name)
  local known = cache[name]
  if not known then
    known = locked(look, name)
    cache[name] = known
  end
  return known
end

-- The channel of that name was closed since it was found: is there a new one?
local function find_again(name)
  cache[name] = nil
  return find(name)
end

local function missing(name)
  return nil, ("channel '%s' does not exist"):format(name)
end

local function destroyed(name, waiting_for)
  cache[name] = nil
  return nil, ("channel '%s' destroyed while waiting %s"):format(name, waiting_for)
end

-- (lock held)
local function create(name, async)
  local slot = slot_of(name)
  local c, old_async, gate = slot:try_receive()
  if c then
    slot:try_send(c, old_async, gate)
    return false
  end
  slot:try_send(channel.new(async and math.huge or 0), async, nil)
  return true
end

-- (lock held) Returns "missing", "full" or "deleted".
local function delete(name)
  local slot = slot_of(name)
  local c, async, gate = slot:try_receive()
  if not c then
    slot:close()
    return "missing"
  end
  if async and #c > 0 then
    slot:try_send(c, async, gate)
    return "full"
  end
  slot:close()
  c:close()
  if gate then
    -- who is at the barrier sees its release closed without having been let through
    local _, _, release = gate:receive()
    gate:close()
    if release then release:close() end
  end
  return "deleted"
end

-- luaproc.newchannel(name [, asynchronous]) → true | nil, message
function luaproc.newchannel(name, async)
  name = check_name(name, "newchannel")
  if locked(create, name, async == true) then return true end
  return nil, ("channel '%s' already exists"):format(name)
end

-- luaproc.delchannel(name) → true | nil, message
function luaproc.delchannel(name)
  name = check_name(name, "delchannel")
  local result = locked(delete, name)
  cache[name] = nil
  if result == "missing" then return missing(name) end
  if result == "full" then return nil, ("asynchronous channel '%s' still stores messages"):format(name) end
  return true
end

----------------------------------------------------------------------------------------------------- send and receive

local scalar = { ["nil"] = true, boolean = true, number = true, string = true }

-- The message if a value is of a type that never travels, else nil.
local function unsupported(text, ...)
  for i = 1, select("#", ...) do
    local kind = type((select(i, ...)))
    if kind == "thread" then return text:format(kind) end
  end
end

local function all_scalar(...)
  for i = 1, select("#", ...) do
    if not scalar[type((select(i, ...)))] then return false end
  end
  return true
end

local function deliver(name, ...)
  local known = find(name)
  while known do
    -- try first: only so is it known whether the channel was closed before or while we waited
    local ok, why = known.channel:try_send(true, ...)
    if ok then return true end
    if why ~= "closed" then
      if known.channel:send(true, ...) then return true end
      return destroyed(name, "for receiver")
    end
    known = find_again(name)
  end
  return missing(name)
end

-- Values that can't travel are an ordinary failure in luaproc, an error in mare.
local function guarded(ok, ...)
  if ok then return ... end
  local message = ...
  if type(message) == "string" and message:find("message", 1, true) then return nil, message end
  error(message, 0)
end

-- luaproc.send(name, …) → true | nil, message
function luaproc.send(name, ...)
  name = check_name(name, "send")
  if all_scalar(...) then return deliver(name, ...) end
  local never = unsupported("failed to send value of unsupported type '%s'", ...)
  if never then
    if not find(name) then return missing(name) end
    return nil, never
  end
  return guarded(pcall(deliver, name, ...))
end

-- What a receive that waited brought.
local function waited(name, got, ...)
  if got then return ... end
  return destroyed(name, "for sender")
end

-- What a receive that did not wait brought: (true, values…) or (nil, reason).
local function tried(name, known, async, got, ...)
  if got then return ... end
  if (...) == "closed" then
    known = find_again(name)
    if not known then return missing(name) end
    return tried(name, known, async, known.channel:try_receive())
  end
  if async then return nil, ("no senders waiting on channel '%s'"):format(name) end
  return waited(name, known.channel:receive())
end

-- luaproc.receive(name [, asynchronous]) → … | nil, message
function luaproc.receive(name, async)
  name = check_name(name, "receive")
  local known = find(name)
  if not known then return missing(name) end
  return tried(name, known, async, known.channel:try_receive())
end

------------------------------------------------------------------------------------------------------------- barrier

-- (lock held) The gate of a channel, made at its first barrier: capacity 1, holds (arrived, expected, release).
local function gate_of(name)
  local slot = slot_of(name)
  local c, async, gate = slot:try_receive()
  if not c then
    slot:close()
    return nil
  end
  if not gate then
    gate = channel.new(1)
    gate:send(0)
  end
  slot:try_send(c, async, gate)
  return { channel = c, async = async, gate = gate }
end

local function gate_for(name)
  local known = cache[name]
  if not (known and known.gate) then
    known = locked(gate_of, name)
    cache[name] = known
  end
  return known and known.gate
end

-- luaproc.barrier(name, n) → true once n processes have called it | nil, message. The first to arrive decides n.
function luaproc.barrier(name, n)
  name = check_name(name, "barrier")
  n = check_integer(n, 2, "barrier")
  local gate = gate_for(name)
  while gate do
    local arrived, expected, release = gate:receive()
    if arrived then
      if arrived == 0 then expected, release = n, channel.new(math.huge) end
      if arrived + 1 >= expected then
        for _ = 1, arrived do release:send(true) end
        gate:send(0)
        return true
      end
      gate:send(arrived + 1, expected, release)
      if release:receive() then return true end
      return destroyed(name, "at a barrier")
    end
    cache[name] = nil
    gate = gate_for(name)
  end
  return missing(name)
end

----------------------------------------------------------------------------------------------------------- processes

-- The body of every process. It must have no upvalue of this module: loading that takes ten times as long as starting a
-- process, so only a process that uses it does.
local function body(code)
  _G.luaproc = setmetatable({}, {
    __name = "luaproc, not loaded yet",
    __index = function(_, key) return require "luaproc"[key] end,
    __pairs = function() return pairs(require "luaproc") end,
  })
  local ok, message = xpcall(type(code) == "string" and load(code, code) or code, function(message)
    return debug.traceback(type(message) == "string" and message or tostring(message), 2)
  end)
  if not ok then io.stderr:write(("close lua_State (error: %s)\n"):format(message)) end
end

local function ended(handle)
  local status = handle:status()
  return status == "done" or status == "failed"
end

-- (lock held) Takes each handle out once; keeps those that still run. Returns them, without the caller's own.
local function running(limit)
  local own, found = process.self(), {}
  own = own and own.id
  for _ = 1, math.min(limit, #handles) do
    local handle = handles:try_receive()
    if handle and not ended(handle) then
      handles:send(handle)
      if handle.id ~= own then found[#found + 1] = handle end
    end
  end
  return found
end

local spawned = 0

-- The upvalue that makes a function impossible to send, by the original's message.
local function upvalue_message(f)
  for i = 1, math.huge do
    local name, value = debug.getupvalue(f, i)
    if not name then return nil end
    local message = unsupported("failed to copy upvalue of unsupported type '%s'", value)
    if message then return message end
  end
end

-- luaproc.newproc(code | function) → true | nil, message. Code that doesn't compile is an error, as in the original.
function luaproc.newproc(code)
  local kind = type(code)
  if kind == "string" then
    local _, message = load(code, code)
    if message then error(message, 2) end
  elseif kind == "function" then
    if debug.getinfo(code, "S").what == "C" then return nil, "error 1 dumping function to binary string" end
  else
    return nil, ("cannot use '%s' to create a new process"):format(code == nil and "no value" or kind)
  end
  local ok, handle = pcall(process.spawn, body, code)
  if not ok then return nil, kind == "function" and upvalue_message(code) or handle end
  handles:send(handle)
  spawned = spawned + 1
  if spawned % SWEEP == 0 then locked(running, 2 * SWEEP) end
  return true
end

-- luaproc.wait(): until all processes have ended. A process that calls it does not wait for itself.
function luaproc.wait()
  -- a process adds its children's handles before it ends, so the last round sees all there are
  while true do
    local others = locked(running, math.huge)
    if #others == 0 then return end
    for i = 1, #others do others[i]:wait() end
  end
end

-- luaproc.setnumworkers(n)
function luaproc.setnumworkers(n)
  n = check_integer(n, 1, "setnumworkers")
  if n <= 0 then
    error("bad argument #1 to 'setnumworkers' (number of workers must be positive)", 2)
  end
  process.workers(n)
end

-- luaproc.getnumworkers() → n
function luaproc.getnumworkers()
  return (process.workers())
end

-- luaproc.recycle(n): how many finished states are kept. mare rewinds them, so none remembers its last program.
function luaproc.recycle(n)
  n = check_integer(n, 1, "recycle")
  if n < 0 then error("bad argument #1 to 'recycle' (recycle limit must be positive)", 2) end
  if process.recycle then process.recycle(n) end
end

-- luaproc.regudata(…): rules for moving userdata are written in C against another interface.
function luaproc.regudata()
  return nil, "transfer functions for userdata are not supported; see docs/luaproc.md"
end

-- Programs of luaproc's first years say `require "luaproc"` and use the global.
if rawget(_G, "luaproc") == nil then rawset(_G, "luaproc", luaproc) end

return luaproc
