--[[
mare.collective: groups of processes that compute together, with MPI's operations. The operations are methods of a group's members, in C
(src/module/collective.c); here is what starts processes for them.

A member belongs to one process at a time and moves in messages. Its end, also by kill, makes the group fail, and so wakes the rest.
]]
local mare = require "mare"
local errors = require "mare.error"
local request = require "mare.control.request"
local core = require "mare.collective.core"
local process = mare.process

local GRACE = 5                                -- seconds from cancel to kill
local PATIENCE = 1                             -- seconds for the cause to show, when one fails because of another

local collective = {}

local function whole(n) return math.type(n) == "integer" and n >= 1 end

--- A list of n members, to be sent to the processes that use them.
function collective.group(n)
  if not whole(n) then request.fail("collective.group: a number of members expected, got %s", tostring(n)) end
  return core.members(n)
end

local Run = {}
Run.__index = Run

-- Because of whom: who left early has not failed itself, but the error of who missed it says so. That of a run inside has a rank.
local function cause_of(failed)
  local err = failed.err
  return errors.is(err, "collective") and err.rank == nil and err.cause_rank or failed.rank
end

-- Who fails because another has failed is no cause.
local function follows(err) return errors.is(err, "collective") or errors.is(err, "cancelled") end

local function cancel(run)
  run.patient = nil
  for _, handle in pairs(run.live) do handle:cancel("another member failed") end
end

local function ended(run, rank, ok, result, traceback)
  local handle = run.live[rank]
  run.live[rank] = nil
  if ok then
    run.results[rank] = result
    return
  end
  if run.failed and (not follows(run.failed.err) or follows(result)) then return end
  -- The member that is the cause is on its way out with its own error, which a cancel would replace.
  if not follows(result) then cancel(run) elseif not run.failed then run.patient = mare.clock() + PATIENCE end
  run.failed = { rank = rank, handle = handle, err = result, traceback = traceback }
end

-- False: the time is over.
local function saw(run, which, ...)
  if not which then return false end
  run.selector:remove(which)
  ended(run, run.ranks[which], ...)
  return true
end

local function watch(run, moment)
  while next(run.live) do
    if run.failed and not run.patient and not run.till then run.till = mare.clock() + GRACE end
    local till = moment or run.patient or run.till
    if not saw(run, run.selector:wait(till and math.max(0, till - mare.clock()))) then
      if moment or not run.patient then return end
      cancel(run)
    end
  end
end

local function finish(run)
  watch(run)
  for _, handle in pairs(run.live) do handle:kill() end
  while next(run.live) do saw(run, run.selector:wait()) end
end

local function leave(run)
  cancel(run)
  watch(run, mare.clock() + GRACE)
  finish(run)
end

function Run:__close()
  if next(self.live) then process.masked(math.huge, leave, self) end
end

local function begin(run, options, members, args)
  for rank, member in ipairs(members) do
    local handle = request.pass("^argument%[1%]", "argument[2]", pcall(process.spawn, {
      main = options.main, args = table.move(args, 1, args.n, 2, { member, n = args.n + 1 }), owned = true,
      name = (options.name or "member") .. " " .. rank, memory = options.memory, priority = options.priority, heap = options.heap,
    }))
    run.live[rank] = handle
    run.ranks[run.selector:add(handle)] = rank
  end
end

local FIELDS = { members = function(n) if not whole(n) then return "a whole number from 1 on" end end, main = "function", args = "table",
                 name = "string", memory = function() end, priority = "string", heap = "string" }

--- Calls f(member, …) in n processes, the members of a group, and gives a list of their first results by rank.
function collective.run(n, f, ...)
  local options, args = n, table.pack(...)
  if type(n) == "table" then
    request.check(options, FIELDS, "collective.run")
    args = options.args or {}
    args = { n = args.n or #args, table.unpack(args, 1, args.n or #args) }
  else
    if not whole(n) then request.fail("collective.run: a number of members expected, got %s", tostring(n)) end
    if type(f) ~= "function" then request.fail("collective.run: a function expected, got %s", type(f)) end
    options = { members = n, main = f }
  end
  if not options.members or not options.main then request.fail("collective.run: 'members' and 'main' must be there") end
  local where = request.where()
  local run <close> = setmetatable({ live = {}, ranks = {}, results = {}, selector = mare.selector {} }, Run)
  process.masked(math.huge, begin, run, options, core.members(options.members), args)
  watch(run)
  if run.failed then
    process.masked(math.huge, finish, run)
    local failed = run.failed
    error(errors.new { kind = "collective", reason = failed.err, rank = failed.rank, cause_rank = cause_of(failed),
                       traceback = failed.traceback, where = where,
                       message = ("member %d (%s) failed"):format(failed.rank, tostring(failed.handle)) }, 0)
  end
  return run.results
end

return require "mare.near".guard(collective)
