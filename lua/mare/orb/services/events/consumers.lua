--[[
mare.orb.services.events.consumers: the proxies that lead to consumers: ProxyPushSupplier and ProxyPullSupplier.

Each has a queue of its own. That of a push consumer is served by a fiber, which begins with the first event and ends when the queue is empty
(`busy`): one event after the other, the next when the last one was answered. A pull consumer's calls wait at `signal`, of which there is one token
as long as there are events; who takes it, and leaves events, puts it back.

A push consumer whose queue is full is dropped, unless DiscardPolicy or the service's `slow` says which events give way; so is one that doesn't
answer an event within `limits.answer` seconds, and one that can't be reached for `limits.gone` seconds. Of an event it isn't known then whether it
arrived: it is not given again. A pull consumer's queue loses the oldest events.
]]
local mare = require "mare"
local event = require "mare.orb.services.events.event"
local exception = require "mare.orb.exception"
local filter = require "mare.orb.services.events.filter"
local part = require "mare.orb.services.events.part"
local patterns = require "mare.orb.services.events.patterns"
local qos = require "mare.orb.services.events.qos"
local queue = require "mare.orb.services.events.queue"
local retry = require "mare.orb.services.events.retry"

local consumers = part.class "consumers"
part.add_disconnect(consumers)
filter.add_mapping(consumers)

function consumers.new(admin, form, way, notification) return part.new(consumers, admin, form, way, notification) end

function consumers:made() self.queue = queue.new(self.service.account) end

local function rules_of(self)
  local channel = self.channel
  if not self.rules or self.version ~= channel.version then
    local usual = self.way == "pull" and "fifo" or self.service.slow
    self.rules = qos.rules(self.qos, math.min(channel.queue or self.service.limits.queue, self.service.limits.queue), usual)
    self.version = channel.version
  end
  return self.rules
end

-- ---- push ----

-- An event that its consumer couldn't take. -> the error if it can't be reached
local function failed(self, e, err)
  local verdict = part.verdict(err)
  if verdict == "gone" then
    self.service:say(2, "a consumer of channel '%s' is gone: %s", self.channel.name or self.channel.id, err)
    self:finish(false)
  elseif verdict == "slow" then
    self:drop(("it didn't answer for %g seconds"):format(self.service.limits.answer))
  elseif verdict == "unreachable" then
    local kept = err.completed == "COMPLETED_NO" and not self.gone and pcall(self.queue.put_back, self.queue, e, rules_of(self))
    if not kept then self.queue.discarded = self.queue.discarded + 1 end
    return err
  else
    self.queue.discarded = self.queue.discarded + 1
    self.service:say(2, "a consumer of channel '%s' raised: %s", self.channel.name or self.channel.id, err)
  end
end

local function hand(self, e)
  local client = self:reach()
  if self.form == "structured" then client:push_structured_event(event.as_structured(e)) else client:push(event.as_any(e)) end
end

-- -> nothing | the error if it can't be reached
local function give(self, e)
  local done, err = pcall(hand, self, e)
  if done then
    self.channel.delivered = self.channel.delivered + 1
    self.failing, self.tries = nil, nil
    return
  end
  return failed(self, e, err)
end

local function serve(self)
  while not self.gone and not self.suspended do
    local e = self.queue:take(rules_of(self))
    if not e then break end
    local err = give(self, e)
    if err then
      if not self.gone then retry.add(self, err) end
      break
    end
  end
end

local function start(self)
  if self.way == "push" and not (self.suspended or self.retrying) and self.queue:count() > 0 then part.work(self, serve) end
end

--- One that couldn't be reached is tried with its next event, or asked whether it is there. -> the error if it still can't be reached
function consumers:attempt()
  local e, err = self.queue:take(rules_of(self)), nil
  if e then err = give(self, e)
  else
    local done, why = pcall(self.is_gone, self)
    if not done and part.verdict(why) == "unreachable" then err = why end
  end
  if not err then
    self.failing, self.tries, self.retrying = nil, nil, nil
    if not self.gone then start(self) end
  end
  return err
end

-- ---- both ----

-- What a queue loses is said once.
local function say_lost(self)
  self.said = true
  self.service:say(1, "a consumer of channel '%s' is slow: of %d events that wait for it some are discarded",
    self.channel.name or self.channel.id, self.queue:count())
end

-- Lets one that waits look. If that can't be said for want of memory, it is later.
local function signal(self)
  if not pcall(self.signal.try_send, self.signal, true) then self.service:later() end
end

--- The channel has an event for it.
function consumers:take(e)
  local q = self.queue
  if not q:put(e, rules_of(self)) then return self:drop(("%d events wait for it"):format(q:count())) end
  if q.discarded > 0 and not self.said then say_lost(self) end
  if self.way == "push" then
    if not self.busy and not self.retrying then start(self) end
  elseif self.waiting then
    signal(self)
  end
end

--- Memory is short, and this queue is the longest.
function consumers:squeeze()
  if rules_of(self).discard == "drop" then return self:drop(("%d events wait for it, and memory is short"):format(self.queue:count())) end
  self.queue:halve()
  if not self.said then say_lost(self) end
end

function consumers:begin() part.join(self) end

--- It may go on: by its own word, or what it had no memory for is done now.
function consumers:resumed()
  start(self)
  if self.waiting and self.queue:count() > 0 then signal(self) end
end

function consumers:ended()
  part.leave(self)
  self.channel.discarded = self.channel.discarded + self.queue.discarded
  self.queue:clear()
  if self.signal then self.signal:close() end
end

local function connect(needed)
  return function(self, client) part.connect(self, client, needed) end
end

consumers.connect_push_consumer, consumers.connect_any_push_consumer, consumers.connect_structured_push_consumer = connect(true), connect(true),
  connect(true)
consumers.connect_pull_consumer, consumers.connect_any_pull_consumer, consumers.connect_structured_pull_consumer = connect(false), connect(false),
  connect(false)

function consumers:subscription_change(added, removed)
  patterns.change(self, added, removed)
  self.wanted = patterns.subscribed(self.types)
  if self.connected then self.service:save(self) end
end

-- ---- pull ----

local function check(self)
  if not self.connected or self.gone then part.raise "CosEventComm/Disconnected" end
  self.used = mare.clock()
end

local function taken(self)
  local e = self.queue:take(rules_of(self))
  if e then self.channel.delivered = self.channel.delivered + 1 end
  return e
end

-- One less waits; what is there is for the next, also if this one was cancelled.
local function leave(self)
  self.waiting = self.waiting > 1 and self.waiting - 1 or nil
  if self.waiting and self.queue:count() > 0 and not self.gone then signal(self) end
end

local Waiting = { __close = function(guard) leave(guard.self) end }

local function wait(self)
  local most = self.service.limits.pulls
  if (self.waiting or 0) >= most then error(exception.system("NO_RESOURCES", 0, "COMPLETED_NO", ("%d pulls wait already"):format(most)), 0) end
  self.signal = self.signal or mare.channel.new(1)
  local guard <close> = setmetatable({ self = self }, Waiting)       -- luacheck: ignore guard
  self.waiting = (self.waiting or 0) + 1
  while true do
    local e = taken(self)
    if e then return e end
    if not self.signal:receive() then part.raise "CosEventComm/Disconnected" end
  end
end

local function pull(self)
  check(self)
  return taken(self) or wait(self)
end

function consumers:pull() return event.as_any(pull(self)) end
function consumers:pull_structured_event() return event.as_structured(pull(self)) end

function consumers:try_pull()
  check(self)
  local e = taken(self)
  if e then return event.as_any(e), true end
  return { _anytype = self.service.broker:type "long", _anyval = 0 }, false
end

function consumers:try_pull_structured_event()
  check(self)
  local e = taken(self)
  if e then return event.as_structured(e), true end
  return event.as_structured { any = { _anytype = self.service.broker:type "long", _anyval = 0 } }, false
end

return consumers
