--[[
mare.orb.services.events.suppliers: the proxies that take from suppliers: ProxyPushConsumer, and ProxyPullConsumer, for which a fiber asks.

A push supplier's event is in the queues of all consumers when its call returns. A pull supplier is asked by try_pull, again at once as long as it
has events, else after `poll` seconds; its clients need not wait, and none of their threads does.
]]
local mare = require "mare"
local event = require "mare.orb.services.events.event"
local exception = require "mare.orb.exception"
local part = require "mare.orb.services.events.part"
local patterns = require "mare.orb.services.events.patterns"

local suppliers = part.class "suppliers"
part.add_disconnect(suppliers)

function suppliers.new(admin, form, way, notification) return part.new(suppliers, admin, form, way, notification) end

function suppliers.made() end

-- ---- push ----

-- One that is larger than queues may be would cost innocent consumers their place.
local function offer(self, e)
  local most = self.service.limits.bytes // 4
  if e.size > most then
    error(exception.system("IMP_LIMIT", 0, "COMPLETED_NO", ("an event takes %d bytes; %d are the most"):format(e.size, most)), 0)
  end
  part.offer(self, e)
end

local function check(self)
  if not self.connected or self.gone then part.raise "CosEventComm/Disconnected" end
  self.used = mare.clock()
end

function suppliers:push(any)
  check(self)
  offer(self, event.of_any(any, self.service.T))
end

function suppliers:push_structured_event(s)
  check(self)
  offer(self, event.of_structured(s, self.service.T))
end

-- ---- pull ----

local function ask(self)
  local client = self:reach()
  if self.form == "structured" then return client:try_pull_structured_event() end
  return client:try_pull()
end

-- -> seconds until the next question | nil
local function asked(self)
  local done, value, has = pcall(ask, self)
  if done then
    self.failing, self.used = nil, mare.clock()
    if not has then return self.channel.poll or self.service.limits.poll end
    local make = self.form == "structured" and event.of_structured or event.of_any
    local fine, err = pcall(offer, self, make(value, self.service.T))
    if not fine then self.service:say(1, "a pull supplier: its event is lost: %s", err) end
    return nil
  end
  local verdict = part.verdict(value)
  if verdict == "gone" then return self:finish(false) end
  if verdict == "slow" then return self:drop(("it didn't answer for %g seconds"):format(self.service.limits.answer)) end
  local now = mare.clock()
  self.failing = self.failing or now
  if now - self.failing < self.service.limits.gone then return math.min(2, self.service.limits.gone) end
  self:drop(("it can't be reached for %g seconds: %s"):format(self.service.limits.gone, tostring(value)), true)
end

local function poll(self)
  while not self.gone and not self.suspended and self.connected do
    local pause = asked(self)
    if pause then mare.sleep(pause) else mare.fiber.yield() end
  end
end

local function start(self)
  if self.way == "pull" then part.work(self, poll) end
end

suppliers.begin, suppliers.resumed = start, start

function suppliers.ended() end

local function connect(needed)
  return function(self, client) part.connect(self, client, needed) end
end

suppliers.connect_push_supplier, suppliers.connect_any_push_supplier, suppliers.connect_structured_push_supplier = connect(false), connect(false),
  connect(false)
suppliers.connect_pull_supplier, suppliers.connect_any_pull_supplier, suppliers.connect_structured_pull_supplier = connect(true), connect(true),
  connect(true)

-- What a supplier offers is kept, and limits nobody.
function suppliers:offer_change(added, removed)
  patterns.change(self, added, removed)
  if self.connected then self.service:save(self) end
end

return suppliers
