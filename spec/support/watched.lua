-- watched: programs that run while a spec looks at them.
--
--   local w <close> = watched.start({ "--observe" }, text)    `mare run --observe <text>`; the text must print "ready" once it is
--   local w <close> = watched.lua(text)                       plain lua with mare.so
--   local w <close> = watched.command { "program", … }        any program, which prints "ready", too
--   w.pid, w:line()                                           what it prints further
--   w:door()                                                  the path of its socket, or nil
--   local client = w:connect()                                asks it: client("list cpu 5") -> answer, as a table
--   w:ends()                                                  waits for its end: { code = } or { signal = }
--
-- At the end of the scope it is killed, with what it has started.
local mare = require "mare"
local json = require "mare.base.json"
local proc = require "spec.support.proc"
local terminal = require "mare.cli.terminal"
local temporary = require "spec.support.temporary"

local watched = {}
watched.__index = watched
watched.limit = 60 * proc.slow

local function exists(path) return os.rename(path, path) ~= nil end

function watched.command(words, options)
  words = table.move(words, 1, #words, 1, { stderr = "inherit", env = options and options.env })
  if options and options.stderr then words.stderr = options.stderr end
  local self = setmetatable({ child = assert(mare.subprocess.spawn(words)) }, watched)
  self.pid = self.child.pid
  assert.equal("ready", self:line())
  return self
end

local function with_text(words, text, options)
  local path = temporary()
  local file <close> = assert(io.open(path, "wb"))
  assert(file:write(text))
  file:close()
  words[#words + 1] = path
  local ok, self = pcall(watched.command, words, options)
  os.remove(path)
  return ok and self or error(self, 0)
end

local head = "local mare = require 'mare' local process = mare.process io.stdout:setvbuf 'no' "

function watched.start(words, text, options)
  return with_text({ proc.bin, "run", table.unpack(words) }, head .. text, options)
end

function watched.lua(text, options)
  options = options or {}
  options.env = { LUA_CPATH = proc.cpath .. ";;" }
  return with_text({ proc.interpreter }, head .. text, options)
end

function watched:line() return self.child.stdout:read("l", watched.limit) end

function watched:door()
  for _, path in ipairs(terminal.doors(self.pid)) do
    if exists(path) then return path end
  end
end

local function ask(connection, request)
  if request then assert(connection:write(request, "\n")) end
  return assert(json.read(assert(connection:read("l", watched.limit))))
end

--- A connection as a function; what the program has said first is its `hello`.
function watched:connect()
  local path, connection, err, code = "unix:" .. assert(self:door(), "it has no door")
  local limit = mare.clock() + watched.limit
  repeat                                                       -- EAGAIN: others have just come, too
    connection, err, code = mare.net.connect(path)
    if not connection then mare.sleep(0.01) end
  until connection or code ~= "EAGAIN" or mare.clock() > limit
  assert(connection, err)
  local client = { connection = connection, hello = ask(connection) }
  return setmetatable(client, { __call = function(_, request) return ask(connection, request) end, __close = function() connection:close() end })
end

function watched:kill(name) return self.child:kill(name) end
function watched:ends() return assert(self.child:wait(watched.limit)) end
function watched:__close() self.child:kill "KILL" self.child:wait() end

return watched
