-- A planted bug: two locks, taken in two orders. It needs one switch at one place.
local mare = require "mare"

local function lock() local c = mare.channel.new(1) c:send(true) return c end
local left, right = lock(), lock()

local function eat(first, second, times)
  for _ = 1, times do
    first:receive()
    second:receive()
    second:send(true)
    first:send(true)
  end
end

local a = mare.process.spawn { name = "a", main = eat, args = { left, right, 2 } }
local b = mare.process.spawn { name = "b", main = eat, args = { right, left, 2 } }
a:wait()
b:wait()
print("both have eaten")
