-- A pipeline: each stage is a process, bounded channels in between keep a fast stage from running away.
-- Primes by a sieve: every prime found becomes a stage that holds back its multiples.
--   mare run examples/pipeline.lua [HOW MANY]
-- test: 12
-- expect: 2 3 5 7 11 13 17 19 23 29 31 37
local mare = require "mare"
local spawn, channel = mare.process.spawn, mare.channel.new

local wanted = tonumber(arg[1] or 100)

-- Numbers from 2 on, until somebody closes the channel.
local function numbers(out)
  local n = 2
  while out:send(n) do n = n + 1 end
end

-- Passes on what `prime` does not divide; when nobody wants more, tells the stage before.
local function filter(prime, source, out)
  for n in source:each() do
    if n % prime ~= 0 and not out:send(n) then break end
  end
  source:close()
end

local source = channel(16)
spawn(numbers, source)
local primes = {}
for i = 1, wanted do
  local prime = source:receive()
  primes[i] = prime
  local out = channel(16)
  spawn(filter, prime, source, out)
  source = out
end
print(table.concat(primes, " "))
source:close() -- ripples back to the first stage
