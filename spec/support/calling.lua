-- calling: what specs of the client share.
--
--   local calling = require "spec.support.calling"
--   local broker <close> = calling.broker(idl, options)          knows the IDL, and takes a reference's word for its interface
--   local broker <close>, p = calling.proxy(idl, "Spec::Echo", ref, options)
--   calling.limited(options)                                     the same options, or new ones, with a time limit that only a defect reaches
--   calling.raised(f, …) -> "NAME minor COMPLETED_…", exception    of a call that must fail: f(…)
--   calling.link(broker, server)                                 the broker's connection to a scripted server (peer.lua)
local orb = require "mare.orb"
local peer = require "spec.support.peer"

local calling = {}

function calling.limited(options)
  options = options or {}
  options.timeout = options.timeout or peer.LIMIT
  return options
end

function calling.broker(idl, options)
  options = options or {}
  if options.ORBverifyObjectExistsAndType == nil then options.ORBverifyObjectExistsAndType = 0 end
  local broker = orb.init(options)
  broker:load(idl)
  return broker
end

function calling.proxy(idl, interface, ref, options)
  local broker = calling.broker(idl, options)
  return broker, broker:proxy(ref, interface)
end

function calling.raised(f, ...)
  local ok, e = pcall(f, ...)
  assert(not ok, "it did not fail")
  assert(type(e) == "table", "not an exception: " .. tostring(e))
  return ("%s %d %s"):format(orb.exception.is_system(e) or e._repid, (e.minor or 0) & 0xfff, e.completed or ""), e
end

function calling.link(broker, server) return broker.transport.links[server.host .. ":" .. server.port] end

return calling
