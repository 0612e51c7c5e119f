--[[
mare.orb.budget: how many bytes of messages a broker keeps for its peers, and who waits when they are too many.

A connection's account is its *purse*; `held` is what counts of it: a long message from when its reading begins (`asked` in connection), pieces
of messages that are not complete, requests in progress, their replies until they are written. The sum of all purses is the budget's own `held`.

Who wants to read asks for room first, and waits until others have given some back; meanwhile his peer's bytes stay in its socket. Not all may
fill it up alike, so that calls go on beside those who take no replies and finish no messages. There is room for
  a piece              up to half of it for all pieces, and three quarters with all else;
  a further message    up to three quarters, and not beyond the connection's own share;
  a first message      of a connection that holds nothing, up to three quarters, if it is long; so a single one may be larger than a share;
  a short first one    up to all of it. A single long one, while nothing is held, leaves a sixteenth for these.

No two can wait for each other's room: one purse at a time, the *guest*, is given what it asks for beyond all this. It is the one that has waited
longest, and it stays guest until it holds no more than before, or the half is enough for all. So what is held is at most the budget and what one
connection may ask for. That a guest ends is the matter of those who look for peers without progress: see pool, and connection's time limit.
]]
local mare = require "mare"

local budget = {}
budget.__index = budget

local SHORT = 64 << 10                            -- bytes: a message that is read without asking
local MISSES = 64                                 -- of those who wait, looked at in vain for each message that goes; keeper looks at all

---@param most integer bytes
---@param share integer bytes of one connection
function budget.new(most, share)
  return setmetatable({
    most = most, busy = most - most // 4, lone = most - most // 16, half = most // 2, share = share,
    held = 0, unfinished = 0, waiting = {}, nwaiting = 0, guest = false,
    pressed = false,                             -- or a function: somebody begins to wait
  }, budget)
end

local purse = {}
purse.__index = purse

function budget:purse()
  return setmetatable({ budget = self, held = 0, unfinished = 0, level = 0, wish = false, gate = false, closed = false }, purse)
end

--- What is held of the budget itself, without what the guest was given beyond it.
function budget:taken()
  local guest = self.guest
  return guest and guest.held > guest.level and self.held - (guest.held - guest.level) or self.held
end

local function fits(self, p, n, piece)
  local guest = self.guest == p
  if piece then return guest or self.unfinished + n <= self.half and self.held + n <= self.busy end
  if p.held == 0 then
    local taken = self:taken()
    return guest or taken + n <= (n <= SHORT and self.most or taken == 0 and self.lone or self.busy)
  end
  return p.held + n <= self.share and (guest or self.held + n <= self.busy)
end

--- Counts what is here already.
function purse:charge(n)
  if self.closed then return end
  local b = self.budget
  self.held, b.held = self.held + n, b.held + n
end

--- So many of the bytes that count are pieces from now on, or no longer (n < 0).
function purse:piece(n)
  if self.closed then return end
  local b = self.budget
  self.unfinished, b.unfinished = self.unfinished + n, b.unfinished + n
end

--- A piece of a message that is here.
function purse:keep(n)
  if self.closed then return end
  local b = self.budget
  self.held, b.held, self.unfinished, b.unfinished = self.held + n, b.held + n, self.unfinished + n, b.unfinished + n
end

--- Is there no room for more pieces?
function purse:crowded()
  local b = self.budget
  return b.unfinished > b.half or b.held > b.busy
end

-- ---- waiting ----

local function leave_queue(self, wish)
  for i = 1, self.nwaiting do
    if self.waiting[i] == wish then
      table.remove(self.waiting, i)
      self.nwaiting = self.nwaiting - 1
      return
    end
  end
end

local function grant(self, i)
  local wish = self.waiting[i]
  table.remove(self.waiting, i)
  self.nwaiting = self.nwaiting - 1
  local p = wish.purse
  wish.granted = true
  p.wish = false
  p:charge(wish.n)
  if not pcall(p.gate.try_send, p.gate, true) then p.gate:close() end
end

-- Of those who wait, who has waited longest and asks for no more than its connection's share; others wait for their own replies to be taken.
local function next_guest(self)
  for i = 1, self.nwaiting do
    local wish = self.waiting[i]
    local p = wish.purse
    if wish.piece or p.held == 0 or p.held + wish.n <= self.share then return i, p end
  end
end

--- Gives room to those who wait, as far as there is some.
function budget:pump(misses)
  local i = 1
  if self.guest and (self.guest.held <= self.guest.level or self.held <= self.half) then self.guest = false end
  while i <= self.nwaiting and i <= (misses or MISSES) do
    local wish = self.waiting[i]
    if fits(self, wish.purse, wish.n, wish.piece) then grant(self, i) else i = i + 1 end
  end
  if self.guest or self.nwaiting == 0 then return end
  local at, p = next_guest(self)
  if not at then return end
  self.guest, p.level = p, p.held
  grant(self, at)
end

--- What was counted is there no more.
function purse:refund(n)
  if self.closed then return end
  local b = self.budget
  self.held, b.held = self.held - n, b.held - n
  if b.nwaiting > 0 or b.guest then b:pump() end
end

local wish = {}

-- Whoever waited was cancelled, or has given up.
function wish.__close(w)
  if w.granted then
    if not w.used then w.purse:refund(w.n) end
    return
  end
  w.purse.wish = false
  leave_queue(w.purse.budget, w)
end

local function wait(self, n, piece, seconds)
  local b = self.budget
  if not self.gate or self.gate:closed() then self.gate = mare.channel.new(1) end
  self.gate:try_receive()                        -- of a wait that was cancelled
  local w <close> = setmetatable({ purse = self, n = n, piece = piece, granted = false, used = false }, wish)
  b.waiting[b.nwaiting + 1] = w
  b.nwaiting = b.nwaiting + 1
  self.wish = w
  if b.pressed then b.pressed() end
  b:pump()
  if not w.granted then self.gate:receive(seconds) else self.gate:try_receive() end
  w.used = w.granted
  if self.closed then return nil, "the connection was closed", "EBADF" end
  if not w.granted then return nil, "timeout" end
  return true
end

--- Room for n bytes more, which count from then on: true | nil, message, code. `unfinished`: they are a piece.
function purse:want(n, unfinished, seconds)
  if fits(self.budget, self, n, unfinished) then
    self:charge(n)
  else
    local ok, err, code = wait(self, n, unfinished, seconds)
    if not ok then return nil, err, code end
  end
  if unfinished then self:piece(n) end
  return true
end

--- Is it more than a connection should hold while it asks for more?
function purse:over()
  local b = self.budget
  return self.held > b.share or b:taken() > b.busy
end

--- The connection is over: nothing of it counts any more, who waits for room for it goes away.
function purse:close()
  if self.closed then return end
  if self.wish then
    leave_queue(self.budget, self.wish)
    self.wish = false
  end
  self:piece(-self.unfinished)
  self:refund(self.held)
  self.closed = true
  if self.gate then self.gate:close() end
end

return budget
