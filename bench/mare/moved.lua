-- moved SIZE COUNT: an open buffer of SIZE bytes goes to another process and back. It belongs to one of them at a time; each way counts as a message.
local mare = require "mare"
local measure = require "measure"

local size, count = measure.arg(1), measure.arg(2)
local there, back = mare.channel.new(), mare.channel.new()

mare.process.spawn(function()
  for b in there:each() do back:send(b) end
end)

-- The sender is a process too, as in messages.lua.
local sender = mare.process.spawn(function()
  local b = mare.buffer.new(size)
  local function deliver(n)
    for _ = 1, n // 2 do
      there:send(b)
      b = back:receive()
    end
  end
  deliver(count // 10 + 8)
  measure.rate("transfers", count // 2 * 2, "messages/s", function() deliver(count) end)
  assert(#b == size)
  there:close()
end)
assert(sender:wait())
