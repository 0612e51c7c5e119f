--[[
mare.orb.services.events.watch: finds the clients that have died. A push consumer is noticed when an event can't be given; who has no event to get,
or gives none, is asked by `_non_existent`, every `limits.check` seconds, a few at a time.

Who doesn't exist any more is gone. Who can't be reached is not: a supplier behind a firewall can't be reached either. Its proxy ends when nothing
has been heard of it for `limits.lost` seconds.

The same fiber does later what there was no memory for (`mend`): who could not go on says so by `service:later()`.
]]
local mare = require "mare"
local exception = require "mare.orb.exception"
local retry = require "mare.orb.services.events.retry"

local watch = {}

local AT_ONCE, PAUSE = 8, 0.01

-- Is it to be asked? Pull suppliers and busy consumers are asked anyway.
local function quiet(p, now, check)
  if p.gone or not p.connected or not p.client or p.busy or p.side == "suppliers" and p.way == "pull" then return false end
  return now - p.used >= check
end

local function ask(p)
  local done, result = pcall(p.is_gone, p)
  if p.gone then return end
  if done and not result then
    p.used, p.failing = mare.clock(), nil
  elseif done or exception.is_system(result) == "OBJECT_NOT_EXIST" then
    p.service:say(2, "a client of channel '%s' is gone", p.channel.name or p.channel.id)
    p.channel.dropped = p.channel.dropped + 1
    p:finish(false)
  elseif mare.clock() - p.used > p.service.limits.lost then
    p:drop(("nothing was heard of it for %g seconds: %s"):format(p.service.limits.lost, tostring(result)))
  end
end

--- Asks all who are quiet, once.
function watch.round(service)
  local list, now = {}, mare.clock()
  for _, p in pairs(service.parts) do
    if p.kind == "proxy" and quiet(p, now, service.limits.check) then list[#list + 1] = p end
  end
  local at, fibers = 0, {}
  local function work()
    while at < #list and not service.closed do
      at = at + 1
      pcall(ask, list[at])                        -- without memory it is asked again with the next round
    end
  end
  for i = 1, math.min(AT_ONCE, #list) do fibers[i] = mare.fiber.spawn { main = work, daemon = true } end
  for _, f in ipairs(fibers) do f:wait() end
end

--- Does what there was no memory for: forgets parts that have gone, goes on with proxies whose fiber could not go on, writes what has gone.
function watch.mend(service)
  local list = {}
  for _, p in pairs(service.parts) do list[#list + 1] = p end
  for _, p in ipairs(list) do
    if p.gone then service:forget(p)
    elseif p.kind == "proxy" and p.connected and not p.busy and not p.suspended then p:resumed() end
  end
  retry.begin(service)
  service:flush()
end

-- Waits for the time of the next round, or for what could not be done.
local function turn(service)
  local left = service.checked + service.limits.check - mare.clock()
  if left > 0 and service.wake:receive(left) then mare.sleep(PAUSE) end
  if service.closed then return end
  watch.mend(service)
  if mare.clock() < service.checked + service.limits.check then return end
  service.checked = mare.clock()
  watch.round(service)
end

--- A fiber that does so for as long as the service is open.
function watch.begin(service)
  service.checked = mare.clock()
  service.watcher = mare.fiber.spawn { daemon = true, main = function()
    while not service.closed do
      local done, err = pcall(turn, service)
      if not done then
        if type(err) == "table" and err.kind == "cancelled" then error(err, 0) end
        mare.fiber.yield()
      end
    end
  end }
end

return watch
