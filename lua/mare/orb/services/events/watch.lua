--[[
mare.orb.services.events.watch: finds the clients that have died. A push consumer is noticed when an event can't be given; who has no event to get,
or gives none, is asked by `_non_existent`, every `limits.check` seconds, a few at a time.

Who doesn't exist any more is gone. Who can't be reached is not: a supplier behind a firewall can't be reached either. Its proxy ends when nothing
has been heard of it for `limits.lost` seconds.
]]
local mare = require "mare"
local exception = require "mare.orb.exception"

local watch = {}

local AT_ONCE = 8

-- Is it to be asked? Pull suppliers and busy consumers are asked anyway.
local function quiet(p, now, check)
  if p.gone or not p.connected or not p.client or p.busy or p.side == "suppliers" and p.way == "pull" then return false end
  return now - p.used >= check
end

local function ask(p)
  local done, result = pcall(p.client._non_existent, p.client)
  if p.gone then return end
  if done and not result then
    p.used, p.failing = mare.clock(), nil
  elseif done or exception.is_system(result) == "OBJECT_NOT_EXIST" then
    p.service:log(2, ("a client of channel '%s' is gone"):format(p.channel.name or p.channel.id))
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
  for i = 1, math.min(AT_ONCE, #list) do
    fibers[i] = mare.fiber.spawn { daemon = true, main = function()
      while at < #list and not service.closed do
        at = at + 1
        ask(list[at])
      end
    end }
  end
  for _, f in ipairs(fibers) do f:wait() end
end

--- A fiber that does so for as long as the service is open.
function watch.begin(service)
  service.watcher = mare.fiber.spawn { daemon = true, main = function()
    while not service.closed do
      mare.sleep(service.limits.check)
      watch.round(service)
    end
  end }
end

return watch
