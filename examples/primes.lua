-- A CORBA object served by several processes: it counts primes, and its clients use all of them at once.
--   mare run examples/primes.lua [PROCESSES [CLIENTS]]           4 and 8
--   mare run examples/primes.lua serve -ORBendPoint giop:tcp::2809        serves until Ctrl-C, as corbaloc::HOST:2809/primes
-- test: 2 4
local mare = require "mare"
local orb = require "mare.orb"

local IDL = [[
  module Example {
    exception TooMany { unsigned long most; };
    struct Range { unsigned long first, last; };
    interface Primes {
      unsigned long count(in Range numbers) raises (TooMany);
      readonly attribute string who;
    };
  };
]]
local MOST = 1000000

-- Runs once in each process: what it makes is that process's own.
local function factory(broker, index)
  local primes = { who = "process " .. index }
  local function is_prime(n)
    if n < 4 then return n > 1 end
    if n % 2 == 0 then return false end
    for d = 3, math.floor(math.sqrt(n)), 2 do
      if n % d == 0 then return false end
    end
    return true
  end
  function primes.count(_, numbers)
    if numbers.last - numbers.first >= MOST then error(broker.types.Example.TooMany { most = MOST }) end
    local found = 0
    for n = numbers.first, numbers.last do
      if is_prime(n) then found = found + 1 end
    end
    return found
  end
  return primes
end

local function start(processes, options)
  local broker = orb.init(options)
  broker:load(IDL)
  return broker, broker:serve(factory, "Example::Primes", { key = "primes", processes = processes })
end

if arg[1] == "serve" then
  local broker, reference = start(mare.process.workers(), { args = arg })
  print(reference)
  io.stdout:flush()
  pcall(broker.run, broker)                            -- Ctrl-C is an error there
  broker:shutdown(5)
  return
end

local processes, clients = tonumber(arg[1]) or 4, tonumber(arg[2]) or 8
local broker, reference = start(processes, { host = "127.0.0.1" })

-- A client: a broker has one connection to an address, so each in a process has its own.
local function client(ref, idl, first, last)
  local own <close> = require "mare.orb".init()
  own:load(idl)
  local primes = own:proxy(ref, "Example::Primes")
  local count = primes:count { first = first, last = last }
  local fine, e = pcall(primes.count, primes, { first = 0, last = 4000000 })
  return count, primes.who, not fine and e.most
end

local running, step = {}, 20000 // clients
for i = 1, clients do
  running[i] = mare.process.spawn(client, tostring(reference), IDL, (i - 1) * step + 1, i * step)
end
local total, by, most = 0, {}, nil
for i = 1, clients do
  local fine, count, who, limit = running[i]:wait()
  assert(fine, count)
  total, most = total + count, limit
  by[who] = (by[who] or 0) + 1
end
local used = 0
for _ in pairs(by) do used = used + 1 end
print(total .. " primes up to 20000")                  -- expect: 2262 primes up to 20000
print(used .. " processes served " .. clients)         -- expect: 2 processes served 4
print("at most " .. most .. " numbers")                -- expect: at most 1000000 numbers
broker:shutdown(true)
