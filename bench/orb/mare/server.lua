-- The Sender of bench.idl on mare. Prints its reference, serves until it is killed.
--   server.lua [processes=N] [ORB options]
local orb = require "mare.orb"

local broker = orb.init { args = arg, host = "127.0.0.1" }
broker:loadfile("bench/orb/bench.idl")

local function make(served)
  local Empty = served.types.ORBTests.EmptyExcept
  return {
    send_void = function() end,
    send_objref = function() end,
    send_objrefs = function() end,
    send_structs = function() end,
    raise_empty = function() error(Empty {}, 0) end,
    echo_string = function(_, value) return value end,
    echo_octets = function(_, value) return value end,
  }
end

local processes = math.tointeger(tonumber((arg[1] or ""):match("^processes=(%d+)$")))
if processes then
  print(broker:serve(make, "ORBTests::Sender", { processes = processes }))
else
  print(broker:serve(make(broker), "ORBTests::Sender"))
end
io.stdout:flush()
broker:run()
