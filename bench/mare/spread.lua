-- spread N [CERTIFICATE KEY]: a small page by N processes that accept from one server, a fiber for each connection; with a certificate, over TLS.
-- Prints "port P"; on SIGINT how many requests the processes served, "served 10 20 …", and ends.
local mare = require "mare"
local net, tls, measure = require "mare.net", require "mare.tls", require "measure"
local process = mare.process
local count = measure.arg(1)
local server = assert(arg[2] and tls.listen("127.0.0.1:0", { cert = arg[2], key = arg[3] }) or net.listen("127.0.0.1:0"))
local page = "<p>A small page</p>\n"
local reply = ("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"):format(#page, page)
local interrupt = require "mare.signal".on("INT")

local function serve()
  local served = 0
  for conn in server:connections() do
    mare.fiber.spawn(function()
      while conn:read_until("\r\n\r\n", 8192) do
        served = served + 1
        conn:write(reply)
      end
      conn:close()
    end)
  end
  return served
end

local workers, counts = {}, {}
for i = 1, count do workers[i] = process.spawn(serve) end
print("port " .. select(2, server:address()))
io.stdout:flush()
interrupt:wait()
server:close()
for i = 1, count do counts[i] = select(2, workers[i]:wait()) end
print("served " .. table.concat(counts, " "))
