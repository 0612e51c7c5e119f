-- A planted bug: a check and an act that others come between, over two channels. Who buys looks at the stock, then orders.
local mare = require "mare"
local stock = mare.channel.new(1)                -- holds how many are left
local orders = mare.channel.new(100)
stock:send(3)

local function buy(name)
  for _ = 1, 2 do
    local left = stock:receive()                 -- check
    stock:send(left)
    if left > 0 then
      orders:send(name)                          -- act
      stock:send(stock:receive() - 1)
    end
  end
end

local buyers = {}
for i = 1, 3 do buyers[i] = mare.process.spawn(buy, "buyer " .. i) end
for _, b in ipairs(buyers) do b:wait() end
local sold = 0
while orders:receive(0) do sold = sold + 1 end
assert(sold <= 3, "sold " .. sold .. " of 3")
