-- waiting COUNT: processes that each wait on a channel of their own; then every one gets a message.
local mare = require "mare"
local measure = require "measure"
local spawn, channel = mare.process.spawn, mare.channel.new

local count = measure.arg(1)

local function wait(inbox) inbox:receive() end

local before = measure.resident()
local channels, handles = {}, {}
local created = measure.seconds(function()
  for i = 1, count do
    local inbox = channel()
    channels[i] = inbox
    handles[i] = spawn(wait, inbox)
  end
  -- spawned is not started: a process has its state, and waits, only when a worker has run it
  for i = count, 1, -1 do
    while handles[i]:status() ~= "waiting" do mare.sleep(0.002) end
  end
end)
local after = measure.resident()
local woken = measure.seconds(function()
  for i = 1, count do channels[i]:send(i) end
  for i = 1, count do handles[i]:wait() end
end)
measure.report("create", created, "s")
measure.report("wake", woken, "s")
measure.report("both", created + woken, "s")
measure.report("memory", (after - before) / count, "KiB each")
