-- Fairness, measured: what share of the time each gets beside processes that compute, and that who spawns does not run away from what it spawned.
-- runs under: mare
-- runs alone
-- needs: plain
local proc = require "spec.support.proc"

-- Shares of one worker, as parts of what there is to share: each program counts both sides in the same stretch of time, so that a
-- loaded machine takes from both. What a neighbour does to one stretch it does not to all: the best of some counts, and a share that the
-- scheduler does not give is in none of them.
local shares = [[
  local mare = require "mare"
  local function best(stretch, enough)
    local most = 0
    for _ = 1, 6 do
      most = math.max(most, stretch())
      if most > enough then return true end
    end
    return most
  end
  local process, channel = mare.process, mare.channel
  local function compute(rounds) for _ = 1, rounds do for _ = 1, 20000 do end end end      -- a round is some 100 us
  local busy = {
    ["computes for ever"] = function() while true do end end,
    ["yields now and then"] = function() while true do compute(50) process.yield() end end,
    ["computes for each message"] = function()
      local c = channel.new()
      process.spawn(function() while true do c:send(1) end end)
      while true do c:receive() compute(50) end
    end,
    ["computes for each call and answers it"] = function()
      local c, back = channel.new(), channel.new()
      process.spawn(function() while true do c:send(1) back:receive() end end)
      while true do c:receive() compute(50) back:send(1) end
    end,
    ["has a process compute for each message"] = function() while true do process.spawn(compute, 50):wait() end end,
    ["computes in five fibers"] = function()
      for _ = 1, 5 do mare.fiber.spawn(function() while true do compute(50) process.yield() end end) end
      mare.sleep(1000)
    end,
  }
  local function pairs_of(n)
    local counts = channel.new(math.huge)
    for _ = 1, n do
      local a, b = channel.new(), channel.new()
      process.spawn(function() for v in a:each() do b:send(v) end end)
      process.spawn(function()
        while true do
          for _ = 1, 100 do a:send(1) b:receive() end
          counts:send(100)
        end
      end)
    end
    return function(time)                                       -- round trips for each second of CPU time
      while #counts > 0 do counts:receive() end
      local start, cpu, n = mare.clock(), os.clock(), 0
      repeat
        mare.sleep(0.05)
        while #counts > 0 do n = n + counts:receive() end
      until mare.clock() - start >= time
      return n / (os.clock() - cpu)
    end
  end
]]

describe("beside one process that", function()
  for _, name in ipairs {
    "computes for ever", "yields now and then", "computes for each message", "computes for each call and answers it",
    "has a process compute for each message", "computes in five fibers",
  } do
    it(name .. ", a hundred pairs keep a good part of their rate on one worker", function()
      local r = proc.mare(shares .. ([[
        local trips = pairs_of(100)
        trips(0.3)
        local alone = trips(0.7)
        process.spawn(busy["%s"])
        mare.sleep(0.2)
        print(best(function() return trips(1.5) / alone end, 0.2))      -- 0.5 on a machine of its own
        os.exit(0)
      ]]):format(name), {}, { workers = 1, timeout = 60 })
      assert.same({ 0, "true\n", "" }, { r.code, r.out, r.err })
    end)
  end
end)

describe("busy processes", function()
  it("share what is left evenly, however many, and also those that yield before they are interrupted", function()
    local r = proc.mare(shares .. [[
      pairs_of(20)
      print(best(function()
        local counts, stop, done = {}, channel.new(), channel.new(math.huge)
        for i = 1, 4 do
          process.spawn(function()
            local n = 0
            while not stop:closed() do
              compute(1)
              n = n + 1
              if i > 2 and n % 50 == 0 then process.yield() end
            end
            done:send(n)
          end)
        end
        local cpu = os.clock()
        repeat mare.sleep(0.1) until os.clock() - cpu > 2
        stop:close()
        for i = 1, 4 do counts[i] = done:receive() end
        table.sort(counts)
        return counts[1] / counts[4]
      end, 0.5))                                                -- 0.8 to 0.9 on a machine of its own
      os.exit(0)
    ]], {}, { workers = 1, timeout = 60 })
    assert.same({ 0, "true\n", "" }, { r.code, r.out, r.err })
  end)

  it("leave a thousand processes that only yield most of their turns", function()
    local r = proc.mare(shares .. [[
      local begun = channel.new(math.huge)                      -- on a slow machine the last is born long after the first
      for _ = 1, 1000 do
        process.spawn(function()
          begun:send(true)
          while true do process.yield() end
        end)
      end
      for _ = 1, 1000 do begun:receive() end
      local function turns(time)                                -- of one more that yields, for each second of CPU time
        local n, start = 0, os.clock()
        repeat
          process.yield()
          n = n + 1
        until os.clock() - start > time
        return n / (os.clock() - start)
      end
      turns(0.2)
      local alone = turns(0.5)
      process.spawn(busy["computes for ever"])
      print(best(function() return turns(1.5) / alone end, 0.15))       -- 0.6 on a machine of its own; 0.02 when each shared with the loop
      os.exit(0)
    ]], {}, { workers = 1, timeout = 60 })
    assert.same({ 0, "true\n", "" }, { r.code, r.out, r.err })
  end)
end)

describe("a process that spawns in a loop", function()
  for name, child in pairs {
    ["children that end at once"] = "function() end",
    ["children that yield"] = "process.yield",
    ["children that compute"] = "function() compute(10) end",
    ["children and yields each time"] = "function() compute(10) end) process.yield(",
  } do
    it("is kept from making " .. name .. " faster than they run, and the others have their turns", function()
      local r = proc.mare(shares .. ([[
        local turns = 0
        process.spawn(function() while true do process.spawn(%s) end end)
        local most, cpu = 0, os.clock()
        repeat
          process.yield()
          turns = turns + 1
          most = math.max(most, process.count())
        until os.clock() - cpu > 1 and turns > 20 or os.clock() - cpu > 20
        print(most < 10000 or most, turns > 20 or turns)
        os.exit(0)
      ]]):format(child), {}, { workers = 1, timeout = 60 })
      assert.same({ 0, "true\ttrue\n", "" }, { r.code, r.out, r.err })
    end)
  end

  it("does so also from a fiber, which goes on before its siblings", function()
    local r = proc.mare(shares .. [[
      local most, order = 0, {}
      mare.fiber.spawn(function()
        for i = 1, 10000 do
          process.spawn(function() end)
          order[1] = i
          most = math.max(most, process.count())
        end
        order.over = true
      end)
      mare.fiber.spawn(function() order.first = order.first or order.over or false end)
      mare.sleep(0.001)
      repeat mare.sleep(0.01) until order.over and order.first ~= nil
      print(most < 10000 or most, order.first)
      os.exit(0)
    ]], {}, { workers = 1, timeout = 60 })
    assert.same({ 0, "true\ttrue\n", "" }, { r.code, r.out, r.err })
  end)
end)
