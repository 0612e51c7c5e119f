-- A planted bug: a wake-up that is lost. A queue of its own makes, with a bell that is rung only when somebody waits.
--
-- The consumer looks whether something is there and only then says that it waits. What is put there in between rings for nobody.
local mare = require "mare"
local items = mare.channel.new(10)
local waiting = mare.channel.new(1)              -- holds a value while the consumer waits
local bell = mare.channel.new(1)

local function put(item)
  items:send(item)
  if waiting:receive(0) then bell:send(true) end
end

local function take()
  while true do
    local item = items:receive(0)
    if item then return item end
    waiting:send(true)                           -- too late by one look
    bell:receive()
  end
end

local consumer = mare.process.spawn(function()
  local sum = 0
  for _ = 1, 3 do sum = sum + take() end
  return sum
end)
mare.process.spawn(function()
  for i = 1, 3 do
    put(i)
    mare.sleep(1)                                -- so that it is seldom
  end
end)
local _, sum = consumer:wait()
print("sum", sum)
