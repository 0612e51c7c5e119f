-- mare.observe.client: asks a running program of this user about its processes. A process of mare's, as everything that waits.
--
--   local client, err = connect(pid)      opens the program's door first, if it is shut
--   client.program                        what it has said of itself
--   local answer, err = client:ask("list cpu 50")
--
-- Every operation has a time limit, and an answer has a longest length: a program that was stopped, or is none of mare's, holds up nobody.
local mare = require "mare"
local json = require "mare.base.json"
local terminal = require "mare.cli.terminal"
local net = mare.net

local OPENING = 3             -- seconds for a program to open its door: its monitor answers, which never waits for Lua
local STARTING = 0.3          -- for one that has just been started to run mare
local ASKING = 10             -- for an answer: a traceback of a process that is in C takes some time
local MOST = 64 << 20         -- bytes of an answer

local client = {}
client.__index = client

local function read(connection, seconds)
  local line, err = connection:read_until("\n", MOST, seconds)
  if not line then return nil, err == "timeout" and "it does not answer" or "it has ended, or hung up" end
  local answer, why = json.read(line)
  if type(answer) ~= "table" then return nil, "it answers with what is no JSON: " .. tostring(why) end
  return answer
end

--- The answer to one request, or nil and why there is none.
function client:ask(request)
  local ok = self.connection:write(request, "\n")
  local answer, err
  if ok then answer, err = read(self.connection, ASKING) end
  if not answer then return nil, err or "it has ended, or hung up", true end
  if answer.error then return nil, answer.error end
  return answer
end

function client:close() self.connection:close(0) end

-- Whoever has its socket: a connection, or nil.
local function try(pid)
  for _, path in ipairs(terminal.doors(pid)) do
    local connection = net.connect("unix:" .. path, { timeout = OPENING })
    if connection then return connection end
  end
end

local function who(pid, code)
  if code == "EPERM" then return ("process %d is another user's"):format(pid) end
  return ("process %d does not run mare, runs under --seed, or is another user's"):format(pid)
end

-- Its door opens within moments; it is asked again in case the first time was lost in a start or an end of its runtime.
local function open(pid)
  local connection = try(pid)
  local begun = mare.clock()
  local pause = 0.005
  while not connection do
    local ok, _, code = terminal.knock(pid)
    if not ok and (code ~= "ESRCH" or mare.clock() > begun + STARTING) then return nil, who(pid, code) end
    if mare.clock() > begun + OPENING then return nil, ("process %d runs mare, but does not let us in"):format(pid) end
    mare.sleep(pause)
    pause = math.min(pause * 2, 0.2)
    connection = try(pid)
  end
  return connection
end

local function connect(pid)
  terminal.sweep()
  local connection, err = open(pid)
  if not connection then return nil, err end
  local program
  program, err = read(connection, OPENING)
  if not program then
    connection:close(0)
    return nil, ("process %d: %s"):format(pid, err)
  end
  if program.protocol ~= 1 then
    connection:close(0)
    return nil, ("process %d runs another version of mare (%s)"):format(pid, tostring(program.mare))
  end
  return setmetatable({ connection = connection, program = program, pid = pid }, client)
end

return connect
