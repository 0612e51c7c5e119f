--[[
mare.cli.serving: what commands that serve something by CORBA have in common (mare names, mare events, mare ir).
]]
local mare = require "mare"
local orb = require "mare.orb"

local serving = {}

--- The broker of a server, at --port and --host, or at the usual port; -ORBendPoint says otherwise. -> broker | nil, what is wrong with the options
function serving.broker(o, usual)
  local elsewhere = false
  for _, word in ipairs(o.orb) do elsewhere = elsewhere or word == "-ORBendPoint" end
  local made, broker = pcall(orb.init, { args = o.orb, port = o.port or not elsewhere and usual or nil, host = o.host })
  if not made then return nil, broker end
  return broker
end

--- Where it serves the object with this key, as a corbaloc. `version`: of GIOP, such as "1.2@".
function serving.corbaloc(broker, key, version)
  return ("corbaloc:%s:%s%s/%s"):format(broker.server.opened[1].tls and "ssliop" or "", version or "", broker:address(), key)
end

--- SIGINT and SIGTERM, and what else is given, for mare.select.
function serving.signals(...)
  local list = { ... }
  for _, name in ipairs { "INT", "TERM" } do list[#list + 1] = mare.signal.on(name) end
  return list
end

--- Until SIGINT or SIGTERM; what was asked is answered. `before()`: what is done first at the end.
function serving.wait(broker, before)
  mare.select(serving.signals())
  if before then before() end
  broker:shutdown(5)
end

return serving
