--[[
mare.pool.manager: the process of a pool. It starts the holders, the processes that hold a thing each, lends them in the order of the requests, and
sees them, and who has one on loan, end.

 - A request and its loan are known by the channel on which the borrower is answered.
 - A holder is starting, free, lent, checking or leaving. Only free ones are lent. One that was given back by who has used it in order is free at
   once; in any other case it is checked, or replaced where there is no `check`.
 - So many exist as are wanted: `least` at any time, up to `size` while somebody waits.
]]
local mare = require "mare"
local process, channel = mare.process, mare.channel
local clock = mare.clock

local CHECK_WITHIN = 5                         -- seconds until a check is taken for failed
local LEAVE_WITHIN = 5                         -- seconds from the end to kill
local PAUSES = { 0.1, 5 }                      -- seconds before a failed make is repeated: doubled from the first to the second

local m                                        -- the manager; one in a process

local function watch(handle, entry) m.entries[m.selector:add(handle)] = entry end

-------------------------------------------------------------------------------------------------------------- holders

local function start()
  m.ids = m.ids + 1
  local h = { id = m.ids, state = "starting", inbox = channel.new(math.huge), uses = 0, since = clock(), born = clock() }
  h.process = process.spawn { main = 'require "mare.pool.holder"(...)', args = { m.plan, h.inbox, m.inbox, h.id }, owned = true,
                              name = ("%s %d"):format(m.plan.name, h.id), memory = m.plan.memory }
  m.holders[h.id], m.count = h, m.count + 1
  watch(h.process, { holder = h })
end

local function leave(h, cancel)
  if h.state == "leaving" then return end
  h.state, h.till = "leaving", clock() + LEAVE_WITHIN
  m.count = m.count - 1
  if cancel then h.process:cancel "the pool replaces it" else h.inbox:try_send "end" end
end

local function check(h)
  h.state, h.serial, h.till = "checking", (h.serial or 0) + 1, clock() + CHECK_WITHIN
  h.inbox:try_send("check", false, h.serial)
end

local function is_old(h)
  return m.plan.max_uses and h.uses >= m.plan.max_uses or m.plan.max_age and clock() - h.born >= m.plan.max_age
end

local function free(h, checked)
  if is_old(h) then return leave(h) end
  h.state, h.since, h.checked = "free", clock(), checked
  table.insert(m.free, h)                      -- the one that was used last is the first to be used again
end

local function unfree(h)
  for i, other in ipairs(m.free) do
    if other == h then table.remove(m.free, i) return end
  end
end

-- After a use that did not end in order.
local function doubt(h)
  if m.plan.check then return check(h) end
  m.replaced = m.replaced + 1
  leave(h)
end

---------------------------------------------------------------------------------------------------------------- loans

local function forget(loan)
  m.loans[loan.reply] = nil
  if loan.key then
    m.selector:remove(loan.key)
    m.entries[loan.key] = nil
  end
end

local function refuse(loan, err)
  loan.reply:try_send("refused", err)
  forget(loan)
end

local function lend(h, loan)
  h.state, h.uses, h.checked, h.loan, loan.holder = "lent", h.uses + 1, false, loan, h
  m.taken, m.waited = m.taken + 1, m.waited + (clock() - loan.asked)
  loan.reply:try_send("lent", h.process, h.inbox)
end

-- The oldest request that still waits.
local function next_request()
  while m.first <= m.last do
    local loan = m.queue[m.first]
    if not loan.over then return loan end
    m.queue[m.first], m.first = nil, m.first + 1
  end
end

local function pause_over() return not m.again or clock() >= m.again end

local function serve()
  local loan = next_request()
  while loan and #m.free > 0 do
    local h = table.remove(m.free)
    if is_old(h) then leave(h)
    elseif m.plan.check and not h.checked and clock() - h.since >= m.plan.check_after then check(h)
    else
      m.queue[m.first], m.first = nil, m.first + 1
      m.waiting = m.waiting - 1
      lend(h, loan)
    end
    loan = next_request()
  end
  if m.closing or not pause_over() then return end
  local coming = 0
  for _, h in pairs(m.holders) do if h.state == "starting" or h.state == "checking" then coming = coming + 1 end end
  while m.count < m.plan.size and (m.count < m.plan.least or coming < m.waiting) do
    start()
    coming = coming + 1
  end
end

local function give_back(loan, how)
  local h = loan.holder
  loan.over = true
  forget(loan)
  if not h then
    m.waiting = m.waiting - 1
  elseif h.loan == loan and h.state == "lent" then
    h.loan = nil
    if how == "used" then free(h)
    elseif how == "failed" then
      if m.plan.check then check(h) else free(h) end
    elseif how == "abandoned" then             -- it is in the middle of a call that nobody waits for
      m.replaced = m.replaced + 1
      leave(h, true)
    else doubt(h) end
  end
end

-------------------------------------------------------------------------------------------------------------- messages

local messages = {}

function messages.take(reply, borrower)
  local loan = { reply = reply, asked = clock() }
  if m.closing then return reply:try_send("refused", "the pool is closed") end
  m.loans[reply] = loan
  m.last = m.last + 1
  m.queue[m.last], m.waiting = loan, m.waiting + 1
  m.most = math.max(m.most, m.waiting)
  loan.key = m.selector:add(borrower)
  m.entries[loan.key] = { loan = loan }
end

function messages.give(reply, how)
  local loan = m.loans[reply]
  if loan then give_back(loan, how) end
end

function messages.made(id)
  local h = m.holders[id]
  if not h or h.state ~= "starting" then return end
  m.made, m.pause, m.again = m.made + 1, nil, nil
  h.born = clock()
  free(h)
  if m.ready and m.made >= m.plan.least then m.ready:try_send(true) m.ready = nil end
end

function messages.unmade(id, err)
  if m.holders[id] then m.holders[id].err = err end
end

function messages.checked(id, serial, well)
  local h = m.holders[id]
  if not h or h.state ~= "checking" or h.serial ~= serial then return end
  if well then return free(h, true) end
  m.replaced = m.replaced + 1
  leave(h)
end

function messages.statistics(reply)
  local s = { size = m.plan.size, free = #m.free, lent = 0, starting = 0, checking = 0, waiting = m.waiting, most_waiting = m.most, taken = m.taken,
              waited = m.waited, made = m.made, failed = m.failed, replaced = m.replaced }
  for _, h in pairs(m.holders) do
    if h.state ~= "free" and h.state ~= "leaving" then s[h.state] = s[h.state] + 1 end
  end
  reply:try_send(s)
end

function messages.close()
  m.closing = true
  local loan = next_request()
  while loan do
    loan.over, m.waiting = true, m.waiting - 1
    refuse(loan, "the pool is closed")
    loan = next_request()
  end
end

-- A holder has ended: because it was told to, by an error in make, or by something that nobody wanted.
local function gone(h, ok, err)
  local was = h.state
  m.holders[h.id], h.state = nil, "gone"
  if was == "leaving" then return end
  m.count = m.count - 1
  unfree(h)
  if was ~= "starting" then
    m.replaced = m.replaced + 1
    return
  end
  m.failed = m.failed + 1
  m.pause = math.min(PAUSES[2], 2 * (m.pause or PAUSES[1] / 2))
  m.again = clock() + m.pause
  if h.err ~= nil then err = h.err elseif ok then err = "it ended before it had made anything" end
  if m.ready then m.ready:try_send(false, err) m.ready = nil end
  if m.count > 0 then return end
  local loan = next_request()                  -- there is nothing to wait for
  while loan do
    loan.over, m.waiting = true, m.waiting - 1
    refuse(loan, err)
    loan = next_request()
  end
end

---------------------------------------------------------------------------------------------------------------- time

local function sooner(a, b) return not a and b or b and math.min(a, b) or a end

-- What is due by now; when something will be.
local function look()
  local now, due = clock(), nil
  for _, h in pairs(m.holders) do
    if h.till and h.till <= now and (h.state == "checking" or h.state == "leaving") then
      if h.state == "checking" then m.replaced = m.replaced + 1 leave(h, true) else h.process:kill() h.till = nil end
    end
    if h.state == "free" then
      local idle = m.plan.idle and m.count > m.plan.least and h.since + m.plan.idle
      if is_old(h) or idle and idle <= now then
        unfree(h)
        leave(h)
      else
        due = sooner(due, sooner(idle or nil, m.plan.max_age and h.born + m.plan.max_age))
      end
    end
    if h.till and (h.state == "checking" or h.state == "leaving") then due = sooner(due, h.till) end
  end
  if m.again and (m.waiting > 0 or m.count < m.plan.least) then due = sooner(due, math.max(m.again, now)) end
  return due and math.max(0, due - now)
end

local function heard(kind, ...)
  if kind == nil then return false end
  messages[kind](...)
  return true
end

local function hear()
  while heard(m.inbox:try_receive()) do end
end

local function saw(which, kind, ...)
  if not which then return end
  if which == 1 then return messages[kind](...) end
  local entry = m.entries[which]
  m.selector:remove(which)
  m.entries[which] = nil
  local loan = entry.loan                      -- who had it, or waited for it, has ended
  if loan then loan.key = nil end
  hear()                                       -- what who ended has said before comes first
  if entry.holder then return gone(entry.holder, kind, ...) end
  if m.loans[loan.reply] == loan then give_back(loan, "lost") end
end

local function over()
  if not m.closing then return false end
  for _, h in ipairs(m.free) do leave(h) end
  m.free = {}
  return next(m.holders) == nil
end

return function(plan, inbox, ready)
  m = { plan = plan, inbox = inbox, ready = ready, selector = mare.selector { inbox }, entries = {}, holders = {}, free = {}, loans = {}, queue = {},
        first = 1, last = 0, ids = 0, count = 0, waiting = 0, most = 0, taken = 0, waited = 0, made = 0, failed = 0, replaced = 0 }
  if plan.least == 0 then ready:try_send(true) m.ready = nil end
  serve()
  while not over() do
    local due = look()
    serve()
    saw(m.selector:wait(due))
    serve()
  end
end
