-- values.idl served by mare. Prints the reference, serves until it is killed.
--   bin/mare run spec/orb_peers/values_server.lua [ORB options]
local orb = require "mare.orb"

local broker = orb.init { args = arg, host = "127.0.0.1", ORBtraceLevel = 5 }
broker:loadfile "spec/orb_peers/values.idl"
local classes = require "spec.orb_peers.values"(broker)
local tide = broker.types.Tide

local function same(_, v) return v end
local screen = broker:serve({ show = function() return "screen" end }, "Tide::Screen")
local crafts = broker:serve({ t_odd = same }, "Tide::Crafts")

local values = {}
for name in ("node nodes animal dog text numbers place thing base mixed any shown"):gmatch("%a+") do values["t_" .. name] = same end
function values.swap(_, a, b) return rawequal(a, b) and 1 or 0, a, b end
function values.kind(_, v) return v == nil and "nobody" or getmetatable(v) and getmetatable(v).__name or "Animal" end
function values.lose(_, who) error(tide.Lost { who = who, why = "gone" }, 0) end
function values.hang() return screen end
function values.crafts() return crafts end
function values.make(_, kind) return classes.make(kind) end

print(tostring(broker:serve(values, "Tide::Values")))
io.stdout:flush()
broker:run()
