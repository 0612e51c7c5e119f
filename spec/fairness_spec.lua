-- Fairness: who computes for ever, in Lua or in C, delays nobody. How much each gets: fairness_shares_spec.lua
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
