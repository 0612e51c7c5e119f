--[[
mare.orb.services.events.retry: push consumers that can't be reached while events wait for them.

They are tried again after 0.25 seconds, then after twice as long, up to 5; after `limits.gone` seconds they are dropped. Thousands may vanish at
once, with the program that had them all, or each by itself. So they have no fibers of their own: one looks after all, and tries a few at a time; an
address that was found dead in a round isn't asked again in it.
]]
local mare = require "mare"
local orb = require "mare.orb"

local retry = {}

local AT_ONCE, PAUSE, FIRST, LONGEST = 8, 0.1, 0.25, 5

-- Where a client is; nil if that can't be told.
local function address_of(p)
  local e = orb.state(p:reach()).target.origin[1]
  return e and e.host .. "\0" .. e.port
end

-- Those whose time has come; the others stay.
local function due(list, now)
  local ready, later = {}, {}
  for _, p in ipairs(list) do
    if p.gone then p.retrying = nil
    elseif p.due <= now then ready[#ready + 1] = p
    else later[#later + 1] = p end
  end
  return ready, later
end

local function try(p, dead)
  local address = address_of(p)
  local err = address and dead[address]
  if not err then err = p:attempt() end
  if not err then
    p.retrying = nil
  elseif not p.gone then
    if address then dead[address] = err end
    retry.add(p, err)
  end
end

local function beside(work) return mare.fiber.spawn { main = work, daemon = true } end

local function round(service)
  local ready
  ready, service.lost = due(service.lost, mare.clock())
  local at, dead, fibers = 0, {}, {}
  local function work()
    while at < #ready and not service.closed do
      at = at + 1
      local p = ready[at]
      local fine, why = pcall(try, p, dead)
      if not fine and not p.gone and not pcall(retry.add, p, why) then       -- no memory: later
        p.retrying = nil
        service:later()
      end
    end
  end
  for _ = 2, math.min(AT_ONCE, #ready) do         -- without memory for them this one does all
    local begun, f = pcall(beside, work)
    fibers[#fibers + 1] = begun and f or nil
  end
  work()
  for _, f in ipairs(fibers) do f:wait() end
end

local function rounds(service)
  while #service.lost > 0 and not service.closed do
    mare.sleep(PAUSE)
    round(service)
  end
end

local function look_after(service)
  local done = pcall(rounds, service)
  service.retrier = nil
  if not done then service:later() end
end

local function begin(service) mare.fiber.spawn { main = look_after, args = { service }, daemon = true } end

--- Looks after them, if there are any and nobody does. Where there is no memory, later. Raises nothing.
function retry.begin(service)
  if service.retrier or #service.lost == 0 then return end
  service.retrier = true
  if pcall(begin, service) then return end
  service.retrier = nil
  service:later()
end

--- A consumer couldn't be reached, for this reason. Its end, or another try later.
function retry.add(p, err)
  local service, now = p.service, mare.clock()
  p.failing = p.failing or now
  if now - p.failing >= service.limits.gone then
    p.retrying = nil
    return p:drop(("it can't be reached for %g seconds: %s"):format(service.limits.gone, tostring(err)), true)
  end
  service.lost[#service.lost + 1] = p             -- first: it may raise
  p.tries = (p.tries or 0) + 1
  p.due, p.retrying = now + math.min(LONGEST, service.limits.gone, FIRST * 2 ^ (p.tries - 1)), true
  retry.begin(service)
end

return retry
