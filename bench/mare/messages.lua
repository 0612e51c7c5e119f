-- messages WHAT SIZE COUNT: one process sends, another receives. WHAT: strings, buffers (the same one each time), slices (each time
-- another buffer with the same bytes), frozen, integers, records.
local mare = require "mare"
local measure = require "measure"

local kind, size, count = arg[1], measure.arg(2), measure.arg(3)

local make = {}

function make.strings(n) return ("x"):rep(n) end

function make.buffers(n) return mare.buffer.of(("x"):rep(n)) end

function make.slices(n) return mare.buffer.of(("x"):rep(n + 1)) end

function make.frozen(n) return mare.freeze { text = ("x"):rep(n) } end

function make.integers(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

function make.records(n)
  local list = {}
  for i = 1, n do
    list[i] = { id = i, name = tostring(i), place = { x = i + 0.5, y = i - 0.5 }, tags = { "red", "green", "blue" } }
  end
  return list
end

local messages, over = mare.channel.new(), mare.channel.new()

mare.process.spawn(function()
  for v in messages:each() do
    if v == "over" then over:send(true) end
  end
end)

-- The sender is a process too: the row is about two processes, not about the main script.
local sender = mare.process.spawn(function()
  local message = make[kind](size)
  local function deliver(n)
    if kind == "slices" then
      for _ = 1, n do messages:send(message:slice(2)) end
    else
      for _ = 1, n do messages:send(message) end
    end
    messages:send("over")
    over:receive()
  end
  deliver(count // 10 + 8)
  measure.rate("transfers", count, "messages/s", function() deliver(count) end)
  messages:close()
end)
assert(sender:wait())
