-- pairs PAIRS TRIPS WORKERS: independent pairs playing ping-pong, TRIPS in all; bench/mare/pairs.lua with names.
local luaproc = require "luaproc"
local measure = require "measure"
local count = measure.arg(1)
local n = measure.arg(2) // count
measure.workers(3)

local echo = [[
  local ping, pong = "ping%d", "pong%d"
  while true do
    local v = luaproc.receive(ping)
    if not v then return end
    luaproc.send(pong, v)
  end
]]
local volley = [[
  local ping, pong = "ping%d", "pong%d"
  local function trips(total)
    for i = 1, total do
      luaproc.send(ping, i)
      luaproc.receive(pong)
    end
  end
  trips(1000)
  luaproc.send("ready", true)
  luaproc.receive("start")
  trips(%d)
  luaproc.send("over", true)
  luaproc.send(ping, false)
]]
for _, name in ipairs { "ready", "start", "over" } do luaproc.newchannel(name) end
for i = 1, count do
  luaproc.newchannel("ping" .. i)
  luaproc.newchannel("pong" .. i)
  assert(luaproc.newproc(echo:format(i, i)))
  assert(luaproc.newproc(volley:format(i, i, n)))
end
for _ = 1, count do luaproc.receive("ready") end
measure.rate("trips", count * n, "round trips/s", function()
  for _ = 1, count do luaproc.send("start", true) end
  for _ = 1, count do luaproc.receive("over") end
end)
luaproc.wait()
