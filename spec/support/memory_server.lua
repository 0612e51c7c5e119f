-- A server for spec/orb_memory_spec.lua, whose memory is measured from outside: prints its port, ends with its standard input.
local orb = require "mare.orb"

local broker = orb.init { host = "127.0.0.1", log = function() end, limits = { memory = 16 << 20, stall = 2 } }
broker:load "module Spec { interface Echo { string say(in string who); }; };"
broker:serve({ say = function(_, who) return "hello, " .. who end }, "Spec::Echo", { key = "echo" })
print((tostring(broker:address()):match(":(%d+)$")))
io.stdout:flush()
broker:run()
