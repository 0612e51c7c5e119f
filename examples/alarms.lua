-- Alarms by CORBA events: stations publish, a control room hears all of one kind, a recorder pulls everything.
--   mare run examples/alarms.lua                        all of it in one program
--   mare run examples/alarms.lua CHANNEL                 the control room alone, at a channel such as corbaloc::host:11169/EventChannel
-- test:
-- expect: control room: fire in Ulm, severity 5
-- expect: control room: smoke in Hof, severity 4
-- expect: recorder: 4 events
local mare = require "mare"
local orb = require "mare.orb"
local events = require "mare.orb.events"

local server, service, at = nil, nil, ...
if not at then
  server = orb.init { host = "127.0.0.1" }
  service = require "mare.orb.services.events".serve(server, { channels = { "alarms" } })
  at = "corbaloc::" .. server:address() .. "/alarms"
end

local broker = orb.init { host = server and "127.0.0.1" or nil }
local channel = events.channel(broker, at)
local heard = mare.channel.new(100)
local room = channel:subscribe({ structured = true, filter = "$severity > 3" }, function(e)
  print(("control room: %s in %s, severity %d"):format(e.name, e.data.place, e.data.severity))
  heard:send(true)
end)

if server then
  local recorder = events.channel(broker, at)
  recorder:next(0)                                   -- from now on it gets what comes
  for _, alarm in ipairs { { "drill", "Ulm", 1 }, { "fire", "Ulm", 5 }, { "door", "Bonn", 2 }, { "smoke", "Hof", 4 } } do
    channel:notify { domain = "Station", type = "Alarm", name = alarm[1], data = { place = alarm[2], severity = alarm[3] } }
  end
  heard:receive()
  heard:receive()
  local n = 0
  while recorder:next(0) do n = n + 1 end
  print(("recorder: %d events"):format(n))
  recorder:close()
  room:close()
  channel:close()
  broker:shutdown(true)
  service:close()
  server:shutdown(true)
end
