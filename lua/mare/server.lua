--[[
mare.server: a process that keeps a state and answers, one request after the other; Erlang's gen_server in Lua.

A server is named by a plain table (see mare.control.request) whose metatable is this module, so it can be sent. Its process reads requests from its
inbox, a channel of limited length, and calls the functions it was started with. An error in one of them ends it; who waits for an answer is told.
]]
local mare = require "mare"
local errors = require "mare.error"
local request = require "mare.control.request"
local children = require "mare.control.children"
local process, channel, select = mare.process, mare.channel, mare.select

local server = {}
server.__index = server

function server:__tostring() return "server " .. request.what(self) end

--- A `call` that gives this answers later, with server.reply.
server.later = setmetatable({}, { __name = "server.later" })

local MAILBOX = 1000

local function mailbox(n)
  if not (n == math.huge or math.type(n) == "integer" and n >= 0) then return "a whole number from 0, or math.huge" end
end

local OPTIONS = {
  init = "function", call = "function", cast = "function", info = "function", terminate = "function",
  args = "table", mailbox = mailbox, name = "string",
  linked = "boolean", owned = "boolean", priority = "string", memory = function() end, heap = "string",
}

local function object(options, handle, inbox) return setmetatable({ process = handle, inbox = inbox, name = options.name }, server) end

local function to_serve(options)
  local plan = { init = options.init, call = options.call, cast = options.cast, info = options.info, terminate = options.terminate,
                 args = options.args, mailbox = options.mailbox, name = options.name }
  return plan
end

--- Starts a server and waits until its `init` has returned. Its error is raised.
function server.start(options)
  request.check(options, OPTIONS, "server.start")
  local inbox
  if not options.name then inbox = channel.new(options.mailbox or MAILBOX) end
  local handle = request.start("mare.server", { name = options.name, linked = options.linked, owned = options.owned, priority = options.priority,
                                                memory = options.memory, heap = options.heap }, to_serve(options), inbox)
  return object(options, handle, inbox)
end

--- The server of that name, whoever is it when it is asked.
function server.named(name) return request.named(name, server) end

local function main(plan) return server.serve(plan) end      -- the module travels by its name

--- The entry of a supervisor's `children` for a server; it needs a name, by which server.named finds it. `more`: further fields of the entry.
function server.child(options, more)
  request.check(options, OPTIONS, "server.child")
  if not options.name then request.fail("server.child: it needs a name, to be found after it was started again") end
  local child = { id = options.name, start = main, args = { to_serve(options) }, ready = math.huge,
                  memory = options.memory, heap = options.heap, priority = options.priority }
  if more then children.check_fields(more, "server.child: second table") end
  for field, value in pairs(more or {}) do child[field] = value end
  return child
end

--------------------------------------------------------------------------------------------------------- its process

-- Whatever ends the server but kill: no more requests, then `terminate`.
local Ending = { __close = function(s, err)
  s.inbox:close()
  if s.plan.terminate then process.masked(s.plan.terminate, s.state, err) end
end }

-- A second result, or the only one of cast and info, takes the state's place unless it is nil.
local function keep(s, state)
  if state ~= nil then s.state = state end
end

local kinds = {}

-- A stranger's mistake is no reason to end.
local function missing(s, name)
  local who = s.plan.name and ("server '%s'"):format(s.plan.name) or ("server (%s)"):format(tostring(process.self()))
  return ("%s has no function '%s'"):format(who, name)
end

function kinds.call(s, reply, id, question)
  if not s.plan.call then return request.refuse(reply, id, missing(s, "call")) end
  local answer, state = s.plan.call(s.state, question, { reply, id })
  keep(s, state)
  if answer ~= server.later then request.answer(reply, id, answer) end
end

function kinds.cast(s, _, _, message)
  if s.plan.cast then return keep(s, s.plan.cast(s.state, message)) end
  if not s.told then require "mare.base.say"("mare: " .. missing(s, "cast") .. "; what is cast to it is dropped") end
  s.told = true
end

function kinds.stop(s, reply, id)
  s.stopped = function() request.answer(reply, id, true) end
end

-- Will it be ready for ever now? Such a source is told once. A timer that is due once says the same each time; one that is late with many does not.
local function over(source, first, second)
  local kind = type(source) == "userdata" and tostring(source):match("^%a+")
  if first == nil then return second == "closed" or second == "cancelled" end
  return kind == "process" or kind == "fiber" or kind == "timer" and source:left() == 0 and source:wait(0) == 1 and source:left() == 0
end

local function inform(s, which, ...)
  local source = s.sources[which]
  keep(s, s.plan.info(s.state, source, ...))
  if over(source, ...) then table.remove(s.sources, which) end
end

local function step(s, which, kind, reply, id, ...)
  if which == 1 then return kinds[kind](s, reply, id, ...) end
  return inform(s, which, kind, reply, id, ...)
end

--- Runs a server in the calling process until it is stopped. What server.start and a supervisor's child do.
function server.serve(plan, inbox)
  request.serves()
  inbox = inbox or request.open(plan.name, plan.mailbox or MAILBOX)
  local state, sources = nil, nil
  if plan.init then state, sources = plan.init(table.unpack(plan.args or {}, 1, plan.args and plan.args.n)) end
  if sources and #sources > 0 and not plan.info then error("'init' gave things to listen to, but there is no function 'info'", 0) end
  local s <close> = setmetatable({ plan = plan, inbox = inbox, state = state, sources = { inbox } }, Ending)
  table.move(sources or {}, 1, #(sources or {}), 2, s.sources)
  request.ready()
  while not s.stopped do
    if #s.sources == 1 then step(s, 1, inbox:receive()) else step(s, select(s.sources)) end
  end
  s.stopped()
end

------------------------------------------------------------------------------------------------------ asking a server

--- Asks the server and gives what its `call` answers; with a time limit also nil, "timeout". Raises kind "down" when there is no server, or it ends
--- before it has answered.
function server:call(question, seconds) return request.ask(self, seconds, "call", question) end

--- Tells the server something, and waits for nothing but room in its mailbox. nil, "down": there is no server.
function server:cast(message) return request.tell(self, "cast", message) end

-- Of a named one who has the name now, if anybody has.
local function process_of(self) return self.name and process.whereis(self.name) or self.process end

local function has_ended(handle)
  local status = handle:status()
  return status == "done" or status == "failed"
end

--- Asks the server to end when it has dealt with what came before, and waits until it has ended. One that has is no error.
function server:stop(seconds)
  local handle = process_of(self)
  if not handle or has_ended(handle) then return true end
  local since = mare.clock()
  local fine, ok, why = pcall(request.ask, self, seconds, "stop")
  if fine and ok == nil then return nil, why end
  if not fine and not errors.is(ok, "down") then error(ok, 0) end
  if handle == process.self() then return true end
  local ended, err = handle:wait(seconds and math.max(0, seconds - (mare.clock() - since)))
  if ended then return true end
  if ended == nil then return nil, err end
  error(fine and err or ok, 0)                 -- it failed before it came to this
end

--- Waits for the end of its process, as handle:wait. nil, "down": nobody has the name.
function server:wait(seconds)
  local handle = process_of(self)
  if not handle then return nil, "down" end
  return handle:wait(seconds)
end

--- Kills its process, as handle:kill. False: there is none any more.
function server:kill()
  local handle = process_of(self)
  return handle ~= nil and handle:kill()
end

--- Links the calling process with its process, as handle:link.
function server:link()
  local handle = process_of(self)
  if not handle then request.down(self) end
  handle:link()
  return self
end

--- `local s <close> = server.start{…}`: it ends with its block, in whatever state it is.
function server:__close()
  local handle = process_of(self)
  if handle and handle:cancel("shutdown") then process.masked(handle.wait, handle) end
end

--- Answers a call that `call` has put off; `from` is its third argument. May be called in any process.
function server.reply(from, answer) request.answer(from[1], from[2], answer) end

return server
