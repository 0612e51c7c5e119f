--[[
mare.orb: CORBA objects as Lua objects.

  local orb = require "mare.orb"
  local broker = orb.init{ port = 2809, args = arg }

A broker belongs to its process. docs/orb.md is the user's page, docs/idl-to-lua.md the mapping.
]]
local mare = require "mare"
local options = require "mare.orb.options"
local exception = require "mare.orb.exception"
local proxy = require "mare.orb.proxy"
local slots = require "mare.orb.intercept.slots"

local orb = { exception = exception }

-- Futures: the call in a fiber of its own, which has begun when this returns, so that requests go out in the order of the program.
function proxy.spawn(f, ...)
  local future = slots.spawn(f, ...)
  mare.fiber.yield()
  return future
end

-- Levels of the log in omniORB's numbers; traceLevel is the highest that is written.
local levels = { error = 1, warning = 1, info = 5, debug = 10 }

local function logger(given)
  if given.log then return given.log end
  local most, path = given.traceLevel, given.traceFile
  local out = path and assert(io.open(path, "a")) or io.stderr
  return function(level, text)
    if (levels[level] or tonumber(level) or 10) <= most then
      out:write("mare.orb: ", text, "\n")
      out:flush()
    end
  end
end

--- A new broker. Options: those of omniORB, in args (-ORBname value) or as fields (ORBname = value); port, host, timeout, connect_timeout
--- (seconds), log = function(level, text), pcap = file, limits, include = { folders }.
function orb.init(given)
  if given ~= nil and type(given) ~= "table" then error("orb.init takes a table of options", 2) end
  local read = options.read(given)
  local capture
  if read.pcap then
    local err
    capture, err = require "mare.orb.giop.pcap".open(read.pcap)
    if not capture then error("orb.init: pcap: " .. err, 0) end
  end
  local log = logger(read)
  for _, name in ipairs(read.ignored) do log("info", ("option %s has no effect here"):format(name)) end
  return require "mare.orb.broker".new(read, log, capture)
end

--- Is it an object of CORBA, remote or passed as one?
orb.is_proxy = proxy.is

--- What is known of a proxy: broker, target, def (its interface). For tools.
orb.state = proxy.state

--- A system exception to raise: orb.system("NO_PERMISSION", minor, "COMPLETED_NO", text).
orb.system = exception.system

--- What an interceptor raises to have a request sent to another object, a proxy: CORBA's ForwardRequest.
function orb.forward_request(ref)
  return exception.user("IDL:omg.org/PortableInterceptor/ForwardRequest:1.0", { forward = ref })
end

return require "mare.near".guard(orb)
