-- A planted bug: a check and an act that others come between, over two connections. Who buys asks how many are left, then orders.
local mare = require "mare"
local net = require "mare.net"
local server = assert(net.listen "localhost:0")
local _, port = server:address()

local shop = mare.process.spawn(function()
  local left = 1
  for conn in server:connections() do
    mare.fiber.spawn(function()
      for request in function() return conn:read "l" end do
        if request == "buy" then left = left - 1 end
        conn:write(left, "\n")
      end
    end)
  end
  assert(left >= 0, "sold " .. 1 - left .. " of 1")
end)

local function buy(late)
  local conn = assert(net.connect("localhost", port))
  local function ask(what)
    conn:write(what, "\n")
    return tonumber((conn:read "l"))
  end
  if late then ask "hello" end                   -- so mostly the first has bought when the second asks
  if ask "how many" > 0 then ask "buy" end
  conn:close()
end

local buyers = { mare.process.spawn(buy, false), mare.process.spawn(buy, true) }
for _, b in ipairs(buyers) do assert(b:wait()) end
server:close()
assert(shop:wait())
