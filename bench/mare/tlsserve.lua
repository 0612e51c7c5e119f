-- tlsserve CERTIFICATE KEY MEGABYTES: TLS; to a line that asks for something it sends so many megabytes, and closes.
-- Prints "port N"; ends when it is killed.
local mare = require "mare"
local tls, measure = require "mare.tls", require "measure"
local size = measure.arg(3)
local server = assert(tls.listen("127.0.0.1:0", { cert = arg[1], key = arg[2] }))
print("port " .. select(2, server:address()))
io.stdout:flush()
local block = ("x"):rep(1 << 20)
for conn in server:connections() do
  mare.fiber.spawn(function()
    if conn:read("l") then
      for _ = 1, size do
        if not conn:write(block) then break end
      end
    end
    conn:close()
  end)
end
