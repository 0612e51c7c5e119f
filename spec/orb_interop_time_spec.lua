-- mare with omniORB, JacORB and GlassFish's ORB where their own clocks decide: a quick call beside one that takes a second, connections that are
-- closed because nobody uses them; and who sends what in how many messages.
-- runs under: mare
-- runs alone
-- needs: plain
local agrees = require "spec.orb_peers.agrees"

agrees(function(pair) return pair.table == 3 and not pair.control end)
