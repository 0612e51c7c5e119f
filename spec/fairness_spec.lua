-- runs alone
-- Fairness: who computes for ever, in Lua or in C, delays nobody.
-- runs under: mare
local proc = require "spec.support.proc"

-- What keeps a worker: each is the body of a process that never ends.
local hogs = {
  ["a Lua loop"] = "while true do end",
  ["a loop in a coroutine"] = "coroutine.wrap(function() while true do end end)()",
  ["a loop in a sort comparator"] = "table.sort({ 2, 1 }, function() while true do end end)",
  ["a loop in __index"] = "local _ = setmetatable({}, { __index = function() while true do end end }).x",
  ["a loop under pcall"] = "while true do pcall(function() while true do end end) end",
  ["a loop in a finaliser"] = "setmetatable({}, { __gc = function() while true do end end }) collectgarbage()",
  ["a C call that computes"] = "while true do string.find(('a'):rep(50000), ('.-'):rep(4) .. 'b') end",
  ["a C call that blocks"] = "os.execute('sleep 1000')",
  ["coroutines made for ever"] = "while true do coroutine.wrap(function() coroutine.yield() end)() end",
  ["garbage made for ever"] = "local t while true do t = { t and 1 } end",
}

describe("on one worker,", function()
  for name, hog in pairs(hogs) do
    it(name .. " delays neither a ticker nor messages", function()
      local r = proc.mare(([[
        local mare = require "mare"
        local process, channel = mare.process, mare.channel
        local c, back = channel.new(), channel.new()
        local hog = process.spawn(function() %s end)
        local echo = process.spawn(function() for v in c:each() do back:send(v) end end)
        local cpu = os.clock()                                  -- our own time: a loaded machine gives us less of it
        for i = 1, 20 do
          mare.sleep(0.01)
          c:send(i)
          assert(back:receive() == i)
        end
        print(hog:status() ~= "failed", os.clock() - cpu < 20)
        os.exit(0)
      ]]):format(hog), {}, { workers = 1, timeout = 120 })
      assert.same({ 0, "true\ttrue\n", "" }, { r.code, r.out, r.err })
    end)
  end
end)

describe("interruption", function()
  it("changes nothing that a program computes: coroutines, errors, to-be-closed variables, varargs", function()
    local r = proc.mare([[
      local mare = require "mare"
      local function work(seed)
        local log = {}
        local function gen(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i, i * seed) end end) end
        for round = 1, 200 do
          for i, v in gen(30) do log[#log + 1] = i + v end
          local ok, err = pcall(function()
            local _ <close> = setmetatable({}, { __close = function(_, e) log[#log + 1] = #tostring(e) end })
            error("e" .. round, 0)
          end)
          log[#log + 1] = err
          local t = {}
          for i = 1, 50 do t[i] = (i * 7919 * seed) % 101 end
          table.sort(t, function(a, b) return a > b end)
          log[#log + 1] = select("#", table.unpack(t)) + t[1]
          log[#log + 1] = ("x"):rep(5):gsub("x", function(s) return s .. round end)
        end
        return table.concat(log, ",")
      end
      local expected = {}
      for i = 1, 4 do expected[i] = work(i) end
      local list = {}
      for k = 1, 20 do list[k] = mare.process.spawn(work, k % 4 + 1) end
      for k = 1, 20 do
        local ok, got = list[k]:wait()
        assert(ok, got)
        assert(got == expected[k % 4 + 1])
      end
      print("same")
    ]], {}, { workers = 1, timeout = 60, env = { MARE_QUANTUM = "1" } })
    assert.same({ 0, "same\n", "" }, { r.code, r.out, r.err })
  end)

  it("keeps a program's own debug hook", function()
    local r = proc.mare([[
      local mare = require "mare"
      local list = {}
      for k = 1, 3 do
        list[k] = mare.process.spawn(function()
          local n = 0
          local function hook() n = n + 1 end
          debug.sethook(hook, "", 1000)
          local x = 0
          for i = 1, 5000000 do x = x + i end
          local f, mask, count = debug.gethook()
          return f == hook, mask, count, n
        end)
      end
      for k = 1, 3 do
        local ok, same, mask, count, n = list[k]:wait()
        print(ok, same, mask, count, n > 1000)
      end
    ]], {}, { workers = 1, timeout = 60, env = { MARE_QUANTUM = "2" } })
    assert.equal(("true\ttrue\t\t1000\ttrue\n"):rep(3), r.out)
  end)

  it("gives 28 busy processes a turn each, wherever they were spawned", function()
    local r = proc.mare([[
      local mare = require "mare"
      local stop, seen = mare.channel.new(), mare.channel.new(math.huge)
      for _ = 1, 12 do mare.process.spawn(function() repeat mare.process.yield() until stop:closed() end) end
      local cpu = os.clock()
      for _ = 1, 16 do mare.process.spawn(function() seen:send(true) repeat until stop:closed() end) end
      for _ = 1, 16 do seen:receive() end
      print(os.clock() - cpu < 40)
      stop:close()
    ]], {}, { workers = 4, timeout = 120 })
    assert.same({ 0, "true\n", "" }, { r.code, r.out, r.err })
  end)
end)

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

-- With ThreadSanitizer's delays before each compare-and-swap even the pairs' turns would often be long: what counts as long grows with the
-- quantum.
local quantum = proc.config == "tsan" and "50" or false

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
      ]]):format(name), {}, { workers = 1, timeout = 60, env = { MARE_QUANTUM = quantum } })
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
