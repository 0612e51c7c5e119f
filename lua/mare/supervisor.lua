--[[
mare.supervisor: processes that start others, watch them and start them again, as Erlang's supervisors do.

A supervisor is named by a plain table (see mare.control.request) whose metatable is this module, so it can be sent and used everywhere. What its
process does is in mare.control.tree.
]]
local mare = require "mare"
local request = require "mare.control.request"
local children = require "mare.control.children"
local process, channel, select = mare.process, mare.channel, mare.select

local supervisor = {}
supervisor.__index = supervisor

function supervisor:__tostring() return "supervisor " .. request.what(self) end

local STRATEGIES = { one_for_one = true, one_for_all = true, rest_for_one = true }

local OPTIONS = {
  name = "string", children = "table", template = "table", linked = "boolean", owned = "boolean", priority = "string", memory = function() end,
  strategy = function(value) if not STRATEGIES[value] then return '"one_for_one", "one_for_all" or "rest_for_one"' end end,
  intensity = function(value)
    if value ~= math.huge and not (math.type(value) == "integer" and value >= 0) then return "a whole number from 0, or math.huge" end
  end,
  period = function(value) if not (type(value) == "number" and value > 0) then return "a number of seconds" end end,
  backoff = children.wrong_backoff,
  report = function(value) if value ~= false and type(value) ~= "function" then return "a function, or false" end end,
}

local function check(options, where)
  request.check(options, OPTIONS, where)
  local ids, entries = {}, options.children or {}
  for i = 1, #entries do
    local place = ("%s: children[%d]"):format(where, i)
    children.check(entries[i], place, check)
    local id = entries[i].id
    if id == nil then request.fail("%s: it has no 'id'", place) end
    if ids[id] then request.fail("%s: there is a child '%s' already", place, id) end
    ids[id] = true
  end
  if options.template then children.check(options.template, where .. ": template", check) end
end

--- Starts a supervisor and, one after the other, its children; gives it when all run. Raises what made one of them not start.
function supervisor.start(options)
  check(options, "supervisor.start")
  local inbox = not options.name and channel.new(math.huge) or nil
  local spawn = { name = options.name, linked = options.linked, owned = options.owned, priority = options.priority, memory = options.memory }
  local plan = {}
  for name, value in pairs(options) do plan[name] = value end
  for name in pairs(spawn) do
    if name ~= "name" then plan[name] = nil end
  end
  local handle = request.start("mare.supervisor", spawn, plan, inbox or false, options.linked and process.self() or nil)
  return setmetatable({ process = handle, inbox = inbox, name = options.name }, supervisor)
end

--- The supervisor of that name, whoever is it when it is asked.
function supervisor.named(name) return request.named(name, supervisor) end

--- What the process of a supervisor does.
function supervisor.serve(options, inbox, parent) return require "mare.control.tree".serve(options, inbox or nil, parent) end

--- Says in a child, whose entry has `ready`, that what it needs for its work is there. Without `ready` nobody waits for it.
function supervisor.ready()
  local owner, why = process.self():owner()
  if not request.ready() and not owner and not why then
    request.fail "supervisor.ready: this process is no supervisor's child; it is called by what a child's entry has as 'start'"
  end
end

local function ask(self, ...) return request.ask(self, nil, ...) end

--- Adds a child and starts it: its process; or nil and why it did not start.
function supervisor:add(entry)
  children.check(entry, "sup:add", check)
  return ask(self, "add", entry)
end

--- Starts a child of the supervisor's template; the arguments come after the template's.
function supervisor:spawn(...) return ask(self, "spawn", ...) end

--- Ends a child. Its entry stays, for sup:restart; that of a temporary one, or of one by template, goes.
function supervisor:stop(child) return ask(self, "stop", child) end

--- Ends a child and forgets it.
function supervisor:remove(child) return ask(self, "remove", child) end

--- Ends a child if it runs, and starts it; that does not count as a failure.
function supervisor:restart(child) return ask(self, "restart", child) end

--- What there is to say of one child.
function supervisor:child(child) return ask(self, "child", child) end

--- All children in the order of their start.
function supervisor:children() return ask(self, "children") end

--- How many there are.
function supervisor:count() return ask(self, "count") end

local function handle_of(self)
  if self.name then return process.whereis(self.name) end
  return self.process
end

--- Waits for the end of the supervisor, as a process's handle does.
function supervisor:wait(seconds)
  local handle = self.process or handle_of(self)
  if not handle then return true end
  return handle:wait(seconds)
end

--- Ends all children in the reverse order of their start, each within its time, then the supervisor, and waits for that.
function supervisor:shutdown(seconds)
  local handle = handle_of(self)
  if not handle then return true end
  handle:cancel("shutdown")
  local ok, why = handle:wait(seconds)
  if ok == nil then return nil, why end
  return true
end

--- `local sup <close> = supervisor.start{…}`: it is shut down with its block.
function supervisor:__close() process.masked(math.huge, self.shutdown, self) end

------------------------------------------------------------------------------------------- a program that is a supervisor

local function is_main() return process.self().id == 1 end

local Running = { __close = function(running)
  for _, listener in ipairs(running.listeners) do listener:close() end
  if running.sup then process.masked(math.huge, running.sup.shutdown, running.sup) end
end }

--- Starts a supervisor, or takes one that runs, and waits for its end: what a main script ends with. TERM or INT shuts it down in order and ends the
--- program with 0; a second one ends the program at once. With exit = false: gives the signal's name instead.
function supervisor.run(options, exit)
  local sup = getmetatable(options) == supervisor and options
  local running <close> = setmetatable({ listeners = {} }, Running)
  if is_main() then
    local signal = require "mare.signal"
    for i, name in ipairs { "TERM", "INT" } do running.listeners[i] = assert(signal.on(name)) end
  end
  if not sup then                                -- owned, in case this process is ended before it knows whom to shut down
    local own = { owned = true }
    for name, value in pairs(options) do own[name] = value end
    sup = supervisor.start(own)
  end
  running.sup = sup
  local which, ok, err = select { sup.process or handle_of(sup), table.unpack(running.listeners) }
  if which == 1 then
    running.sup = nil
    if not ok then error(err, 0) end
    return nil
  end
  for _, listener in ipairs(running.listeners) do listener:close() end
  sup:shutdown()
  running.sup = nil
  if exit ~= false then os.exit(0) end
  return ok
end

return supervisor
