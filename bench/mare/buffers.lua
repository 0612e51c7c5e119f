-- buffers shared|moved SIZE COUNT: buffers of SIZE bytes between two processes. "shared": one sends the same sealed buffer again and again, as in
-- messages.lua; "moved": an open one goes there and back, so it belongs to one of them at a time, and each way counts as a message.
local mare = require "mare"
local measure = require "measure"

local kind, size, count = arg[1], measure.arg(2), measure.arg(3)
local there, back = mare.channel.new(), mare.channel.new()
local kinds = {}

function kinds.shared(b)
  b:seal()
  mare.process.spawn(function()
    for v in there:each() do
      if v == "over" then back:send(true) end
    end
  end)
  return function(n)
    for _ = 1, n do there:send(b) end
    there:send "over"
    back:receive()
  end
end

function kinds.moved(b)
  mare.process.spawn(function()
    for v in there:each() do back:send(v) end
  end)
  return function(n)
    for _ = 1, n // 2 do
      there:send(b)
      b = back:receive()
    end
  end
end

-- The sender is a process too, as in messages.lua.
local sender = mare.process.spawn(function()
  local deliver = kinds[kind](mare.buffer.new(size))
  deliver(count // 10 + 8)
  measure.rate("transfers", count, "messages/s", function() deliver(count) end)
  there:close()
end)
assert(sender:wait())
