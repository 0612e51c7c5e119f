--[[
mare.control.children: what a supervisor is told about its children, checked, and the list it keeps of them.

A plan is an entry of `children` that was checked: { id, restart, shutdown, type, ready, backoff, options }, where options is the table spawn is
called with each time. A child is a plan's place in the list: { plan, id, handle or nil, args or nil, prev, next }, where handle is its process while
it has one; `pause` is the last of its pauses and `since` the moment from which it runs, if they count.
Children stand in the order in which they are started; those without an id, which came by a template, stand there too but have no order among
themselves.

 - by_handle[child.handle] == child, and by_id[child.id] == child, for all children of the list and nobody else;
 - specs, active, supervisors count the list's children, those with a process, those that are supervisors.
]]
local mare = require "mare"
local request = require "mare.control.request"

local children = {}
children.__index = children

local function one_of(...)
  local words, known = { ... }, {}
  for i, word in ipairs(words) do
    known[word], words[i] = true, ("%q"):format(word)
  end
  local text = table.concat(words, ", ")
  return function(value) if not known[value] then return text end end
end

local function seconds(value)
  if not (type(value) == "number" and value >= 0) then return "a number of seconds from 0 on" end
end

local function identity(value)
  if type(value) ~= "string" and math.type(value) ~= "integer" then return "a string or a whole number" end
end

local function any() end

local FIELDS = {
  id = identity, start = "function", args = "table", supervisor = "table", restart = one_of("permanent", "transient", "temporary"),
  shutdown = function(value) if value ~= "kill" and seconds(value) then return '"kill", a number of seconds or math.huge' end end,
  type = one_of("worker", "supervisor"), ready = seconds, name = "string", memory = any, heap = "string", priority = "string",
}

local SHUTDOWN = 5

--- What is wrong with a `backoff`: false, a number of seconds, or { first, most }.
function children.wrong_backoff(value)
  local first, most = value, value
  if type(value) == "table" then first, most = value[1], value[2] end
  if value ~= false and (seconds(first) or seconds(most) or first > most or most == math.huge) then
    return "false, a number of seconds, or { first, most }"
  end
end
FIELDS.backoff = children.wrong_backoff

--- { first, most }; false: none; nil: nothing is said of it.
function children.backoff(value)
  if type(value) ~= "number" then return value end
  return { value, value }
end

--- Raises what is wrong with the fields of an entry.
function children.check_fields(entry, where) request.check(entry, FIELDS, where) end

--- Raises what is wrong with an entry of `children`. check_tree(options, where) does so for supervisors inside.
function children.check(entry, where, check_tree)
  children.check_fields(entry, where)
  if entry.supervisor then
    if entry.start or entry.args then request.fail("%s: 'supervisor' stands in the place of 'start' and 'args'", where) end
    check_tree(entry.supervisor, where .. ": supervisor")
  elseif not entry.start then
    request.fail("%s: it has no 'start'", where)
  end
end

local function supervise(options) return require "mare.supervisor".serve(options) end

-- What a child runs whose supervisor waits until it is ready.
local function ready_main(up, f, ...) return request.begin(up, f, ...) end

--- The plan of a checked entry.
function children.plan(entry)
  local tree = entry.supervisor
  local args = tree and { tree, n = 1 } or entry.args and table.move(entry.args, 1, entry.args.n or #entry.args, 1, {}) or {}
  args.n = tree and 1 or entry.args and (entry.args.n or #entry.args) or 0
  local kind = entry.type or (tree and "supervisor" or "worker")
  local plan = {
    id = entry.id, restart = entry.restart or "permanent", type = kind,
    shutdown = entry.shutdown or (kind == "supervisor" and math.huge or SHUTDOWN),
    ready = entry.ready or (tree and math.huge or nil), backoff = children.backoff(entry.backoff),
    options = { main = entry.start or supervise, args = args, name = entry.name or (type(entry.id) == "string" and entry.id or nil),
                linked = true, owned = true, memory = entry.memory, heap = entry.heap, priority = entry.priority },
  }
  if plan.ready then children.wrap(plan, args) end
  return plan
end

--- args[1] will be the channel by which it says that it is ready.
function children.wrap(plan, args)
  local n = args.n
  table.move(args, 1, n, 3)
  args[1], args[2], args.n = false, plan.options.main, n + 2
  plan.options.main = ready_main
end

--- The arguments of a template's child: the template's, then these.
function children.arguments(plan, ...)
  local base, more = plan.options.args, select("#", ...)
  if more == 0 then return nil end
  local args = table.move(base, 1, base.n, 1, {})
  for i = 1, more do args[base.n + i] = (select(i, ...)) end
  args.n = base.n + more
  return args
end

------------------------------------------------------------------------------------------------------------ the list

function children.new()
  return setmetatable({ by_id = {}, by_handle = {}, specs = 0, active = 0, supervisors = 0 }, children)
end

function children:append(plan, id, args)
  local child = { plan = plan, id = id, args = args, prev = self.last }
  if self.last then self.last.next = child else self.first = child end
  self.last = child
  if id ~= nil then self.by_id[id] = child end
  self.specs = self.specs + 1
  if plan.type == "supervisor" then self.supervisors = self.supervisors + 1 end
  return child
end

function children:remove(child)
  if child.removed then return end
  if child.prev then child.prev.next = child.next else self.first = child.next end
  if child.next then child.next.prev = child.prev else self.last = child.prev end
  child.removed = true                         -- its `next` stays, for who walks the list
  if child.id ~= nil then self.by_id[child.id] = nil end
  self.specs = self.specs - 1
  if child.plan.type == "supervisor" then self.supervisors = self.supervisors - 1 end
end

function children:runs(child, handle)
  child.handle, self.by_handle[handle] = handle, child
  self.active = self.active + 1
end

function children:ended(child)
  self.by_handle[child.handle], child.handle = nil, nil
  self.active = self.active - 1
end

--- By its id, or by the handle of its process.
function children:find(key) return self.by_id[key] or self.by_handle[key] end

--- How many seconds it pauses before it is started again. They double, but not those of one that has run for longer than `period`.
function children.pause(child, usual, period)
  local backoff = child.plan.backoff
  if backoff == nil then backoff = usual end
  if child.since and mare.clock() - child.since > period then child.pause = nil end
  child.since = nil
  if not backoff then return 0 end
  child.pause = math.min(child.pause and child.pause * 2 or backoff[1], backoff[2])
  return child.pause
end

--- What is told of a child.
function children.describe(child)
  return { id = child.id, process = child.handle, type = child.plan.type, restart = child.plan.restart,
           status = (child.queued or child.up or child.paused) and "restarting" or child.handle and "running" or "stopped" }
end

function children.name(child) return child.id == nil and "a child" or ("child '%s'"):format(child.id) end

return children
