--[[
mare.pool: warm processes that hold something - a connection, a loaded model - and are lent to whoever needs it for a while.

A pool is a plain table { process =, inbox =, patience = } with this module as its metatable, so it can be sent. Its process, the manager, lends the
holders; calls go straight from the borrower to the holder (mare.pool.manager, mare.pool.holder).
]]
local mare = require "mare"
local errors = require "mare.error"
local request = require "mare.control.request"
local process, channel, select_of = mare.process, mare.channel, mare.select

local pool = {}
pool.__index = pool
pool.__name = "pool"

local function seconds(v) if type(v) ~= "number" or v < 0 or v ~= v then return "a number of seconds" end end
local function count(n) if math.type(n) ~= "integer" or n < 1 then return "a whole number from 1 on" end end
local function least(n) if math.type(n) ~= "integer" or n < 0 then return "a whole number from 0 on" end end

local OPTIONS = { make = "function", close = "function", check = "function", args = "table", size = count, least = least, max_age = seconds,
                  max_uses = count, idle = seconds, check_after = seconds, wait = seconds, name = "string", memory = function() end }

local function fail(message, reason, traceback)
  error(errors.new { kind = "pool", message = message, reason = reason, traceback = traceback, where = request.where() }, 0)
end

--- A pool. Waits until `least` things are made; raises kind "pool" when one can't be.
function pool.new(options)
  request.check(options, OPTIONS, "pool.new")
  if not options.make then request.fail "pool.new: 'make' must be there" end
  if options.size and options.least and options.least > options.size then
    request.fail("pool.new: 'least' must be at most 'size', which is %d, got %d", options.size, options.least)
  end
  local size = options.size or math.max(process.workers(), options.least or 0)
  local args = options.args or {}
  args = { n = args.n or #args, table.unpack(args, 1, args.n or #args) }
  local plan = { make = options.make, close = options.close, check = options.check, args = args,
                 size = size, least = options.least or (options.idle and 0 or size), max_age = options.max_age,
                 max_uses = options.max_uses, idle = options.idle, check_after = options.check_after or 30, name = options.name or "pool",
                 memory = options.memory }
  local inbox, ready = channel.new(math.huge), channel.new(1)
  local handle = request.pass("^argument%[2%]%.", "", pcall(process.spawn, {
    main = 'require "mare.pool.manager"(...)', args = { plan, inbox, ready }, name = plan.name, owned = true }))
  local made = setmetatable({ process = handle, inbox = inbox, patience = options.wait or math.huge }, pool)
  local starting <close> = setmetatable({}, { __close = function(s) if not s.done then handle:cancel() end end })
  local which, ok, err, traceback = select_of { ready, handle }
  if which == 2 then fail("the pool failed", err, traceback) end
  if not ok then fail("nothing could be made", err) end
  starting.done = true
  return made
end

------------------------------------------------------------------------------------------------------------------ loans

local Loan = {}
Loan.__index = Loan
Loan.__name = "loan"
Loan.__stays = "a loan cannot be sent, it belongs to the process that took it; send the pool and take one there"

-- Loans that are over, of which the manager could not be told because there was no memory: a chain by their field `owed`. Nobody else will tell it,
-- and it would wait for them for ever, so the next use of any pool here does.
local unsaid = false

-- Taken from the chain only when it is said; that it may be said twice, by a finaliser that runs meanwhile, does no harm.
local function say()
  while unsaid do
    local loan = unsaid
    loan.inbox:try_send("give", loan.reply, loan.how)
    if unsaid == loan then unsaid = loan.owed end
  end
end

-- `state`: asked, lent, busy (in a call), over. `how` it is given back.
local function give(loan, how)
  if loan.state == "over" then return end
  loan.state, loan.how, loan.owed = "over", how, unsaid
  unsaid = loan
  say()
end

--- Gives it back.
function Loan:give() give(self, self.state == "busy" and "abandoned" or self.how or "used") end

function Loan:__close(err)
  if self.state == "busy" then return give(self, "abandoned") end
  give(self, self.how or err ~= nil and "failed" or "used")
end

-- Nobody can give it back any more. That there is a __gc keeps loans from being sent, too: a copy would be lent once more.
function Loan:__gc() give(self, self.state == "busy" and "abandoned" or "lost") end

local function judge(loan, which, kind, serial, ...)
  if which == 1 and kind == "done" and serial == loan.serial then
    loan.state = "lent"
    return ...
  elseif which == 1 and kind == "error" and serial == loan.serial then
    loan.state, loan.how = "lent", "failed"
    error((...), 0)
  elseif which == 1 then
    return judge(loan, select_of { loan.reply, loan.holder })
  end
  local late = table.pack(loan.reply:try_receive())            -- it may have answered before it ended
  if late[1] then return judge(loan, 1, table.unpack(late, 1, late.n)) end
  loan.state, loan.how = "lent", "lost"
  fail("the process that held it has ended", serial, (...))
end

--- f(thing, …) in the process that holds the thing: its results. An error is raised here.
function Loan:call(f, ...)
  if self.state ~= "lent" then request.fail("loan:call: %s", self.state == "busy" and "another fiber is in a call" or "it was given back") end
  if type(f) ~= "function" then request.fail("loan:call: a function expected, got %s", type(f)) end
  self.serial = self.serial + 1
  local sent, err = pcall(self.calls.send, self.calls, "call", self.reply, self.serial, f, table.pack(...))
  if not sent then request.fail("%s", tostring(err):gsub("^message%[5%]", "argument"):gsub("^message%[4%]", "f")) end
  self.state = "busy"
  return judge(self, select_of { self.reply, self.holder })
end

require "mare.near".guard(Loan, "a loan")

local function take(self, within)
  if process.self() == self.process then request.fail "a pool's own process can't take from it" end
  say()
  local loan = setmetatable({ inbox = self.inbox, reply = channel.new(math.huge), state = "asked", how = false, serial = 0,
                              holder = false, calls = false, owed = false }, Loan)
  local asked <close> = setmetatable({}, { __close = function()                -- luacheck: ignore asked
    if loan.state == "asked" then give(loan, "lost") end
  end })
  self.inbox:send("take", loan.reply, process.self())
  local which, kind, holder, calls = select_of { loan.reply, self.process, timeout = within }
  if not which then
    kind, holder, calls = loan.reply:try_receive()             -- it may have come just now
    if kind == nil then return nil end
  elseif which == 2 then
    loan.state = "over"
    fail("the pool has ended", holder)
  end
  if kind == "refused" then
    loan.state = "over"
    if holder == "the pool is closed" then fail(holder) end
    fail("nothing could be made", holder)
  end
  loan.state, loan.holder, loan.calls = "lent", holder, calls
  return loan
end

-- Before anything is done.
local function check_seconds(what, within)
  local expected = within ~= nil and seconds(within)
  if expected then request.fail("pool:%s: %s expected, got %s", what, expected, request.shown(within)) end
end

--- Takes a thing out: a loan, to be given back or closed; nil, "timeout".
function pool:take(within)
  check_seconds("take", within)
  local loan = take(self, within or self.patience)
  if loan then return loan end
  return nil, "timeout"
end

local function pass(loan, ...)
  loan:give()
  return ...
end

--- f(thing, …) with the next thing that is free: its results.
function pool:call(f, ...)
  local loan <close> = take(self, self.patience)
  if not loan then fail(("nothing was free within %g s"):format(self.patience)) end
  return pass(loan, loan:call(f, ...))
end

---------------------------------------------------------------------------------------------------------------- the pool

--- What it has done so far.
function pool:statistics()
  say()
  local reply = channel.new(1)
  self.inbox:send("statistics", reply)
  local which, numbers = select_of { reply, self.process }
  if which == 2 then fail "the pool has ended" end
  return numbers
end

--- Lends nothing more, waits until all is given back and closed, and ends. nil, "timeout": it has not ended, and goes on ending.
function pool:close(within)
  check_seconds("close", within)
  say()
  self.inbox:send "close"
  local ended, why = self.process:wait(within)
  if ended == nil then return nil, why end
  return true
end

-- At the end of a block: whoever still has a thing loses it.
function pool:__close()
  process.masked(math.huge, function()
    if self.process:status() == "done" or self.process:status() == "failed" then return end
    self.inbox:send "close"
    if self.process:wait(5) == nil then
      self.process:cancel "the pool is closed"
      if self.process:wait(5) == nil then self.process:kill() end
    end
  end)
end

return require "mare.near".guard(pool)
