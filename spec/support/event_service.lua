-- event_service: an event service and clients of it for a test.
--
--   local channels = require "spec.support.event_service"
--   channels.with({ limits = … }, function(s) … end)      s.service, s.server, s.channel (the client's), s.client, s.lines (the log), s:address()
--   channels.until_true(f)                                 waits until f() is true
--   channels.consumer(list)                                a push consumer that puts what it gets into a list, and "end"
--   channels.supplier(s), channels.source(s, list)         a connected push supplier's proxy; a connected pull supplier that has the values of a list
local mare = require "mare"
local orb = require "mare.orb"
local events = require "mare.orb.services.events"
local proc = require "spec.support.proc"

local channels = { LIMIT = 30 * proc.slow }

function channels.until_true(f)
  local limit = mare.clock() + channels.LIMIT
  while not f() do
    if mare.clock() > limit then error("it didn't become true", 2) end
    mare.sleep(0.005)
  end
end

-- A broker that serves channels. -> { service =, server =, lines = }
function channels.serve(options, given)
  local s = { lines = {} }
  local init = { host = "127.0.0.1", timeout = channels.LIMIT, log = function(_, text) table.insert(s.lines, text) end }
  for name, value in pairs(given or {}) do init[name] = value end
  s.server = orb.init(init)
  options.channels = options.channels or { "EventChannel" }
  s.service = events.serve(s.server, options)
  return s
end

function channels.with(options, f)
  local s = channels.serve(options)
  s.client = orb.init { host = "127.0.0.1", timeout = channels.LIMIT, log = function() end }
  s.channel = s.client:proxy("corbaloc::" .. s.server:address() .. "/EventChannel", "CosNotifyChannelAdmin::EventChannel")
  local fine, err = pcall(f, s)
  s.client:shutdown(1)
  s.service:close()
  s.server:shutdown(1)
  if not fine then error(err, 0) end
end

-- What is in an any, whoever made it.
function channels.value(any)
  if type(any) == "table" and rawget(any, "_anytype") then return any._anyval end
  return any
end

function channels.consumer(list)
  return {
    push = function(_, any) table.insert(list, channels.value(any)) end,
    push_structured_event = function(_, e) table.insert(list, e.header.fixed_header.event_name) end,
    disconnect_push_consumer = function() table.insert(list, "end") end,
    disconnect_structured_push_consumer = function() table.insert(list, "end") end,
    offer_change = function() end,
  }
end

function channels.supplier(s)
  local p = s.channel:for_suppliers():obtain_push_consumer()
  p:connect_push_supplier(nil)
  return p
end

function channels.source(s, list)
  local p = s.channel:for_suppliers():obtain_pull_consumer()
  p:connect_pull_supplier {
    try_pull = function()
      local value = table.remove(list, 1)
      return value == nil and 0 or value, value ~= nil
    end,
    disconnect_pull_supplier = function() list.over = true end,
  }
  return p
end

-- "AlreadyConnected", "OBJECT_NOT_EXIST" of what f raises.
function channels.raised(f, ...)
  local done, e = pcall(f, ...)
  if done then return "nothing" end
  if type(e) ~= "table" or not e._repid then error(e, 0) end
  return e._repid:match "/([%a_]+):1%.0$"
end

--- The first line that a program writes there; builds for ThreadSanitizer say their seed before.
function channels.line(stream)
  local line = stream:read("l", channels.LIMIT)
  if line and line:find "^MARE_CHAOS=" then line = stream:read("l", channels.LIMIT) end
  return line
end

return channels
