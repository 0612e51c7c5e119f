-- ring SIZE TOKENS HOPS: every token does HOPS/TOKENS hops, all at the same time.
local mare = require "mare"
local measure = require "measure"
local spawn, channel = mare.process.spawn, mare.channel.new

local size, tokens, hops = measure.arg(1), measure.arg(2), measure.arg(3)

-- Passes a token on until it is used up; ends when its inbox is closed.
local function node(inbox, next, done)
  while true do
    local n = inbox:receive()
    if not n then return end
    if n > 0 then next:send(n - 1) else done:send(true) end
  end
end

local inbox, done = {}, channel(tokens) -- room for all: a node never waits to report
for i = 1, size do inbox[i] = channel() end
for i = 1, size do spawn(node, inbox[i], inbox[i % size + 1], done) end

local function run(each)
  for t = 0, tokens - 1 do inbox[t * size // tokens + 1]:send(each) end
  for _ = 1, tokens do done:receive() end
end

run(2 * size // tokens + 1)
local each = hops // tokens
measure.rate("hops", each * tokens, "messages/s", function() run(each) end)
for i = 1, size do inbox[i]:close() end
