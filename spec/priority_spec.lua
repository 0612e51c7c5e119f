-- Priorities: who is ready runs in their order, nobody starves, and they change at any time.
local mare = require "mare"
local proc = require "spec.support.proc"
local process, channel = mare.process, mare.channel

-- Runs a script with one worker; what it prints.
local function script(code, workers)
  local r = proc.mare(code, {}, { workers = workers or 1, timeout = 120 })
  assert.equal("", r.err)
  assert.equal(0, r.code)
  return r.out
end

describe("handle:priority", function()
  it("gives the word before, and sets it", function()
    local gate = channel.new()
    local p = process.spawn(function() gate:receive() end)
    assert.equal("normal", p:priority())
    assert.equal("normal", p:priority "high")
    assert.equal("high", p:priority "low")
    assert.equal("low", p:priority(nil))
    assert.equal("low", p:priority "normal")
    gate:close()
    assert.is_true(p:wait())
    assert.equal("normal", p:priority "high")
  end)

  it("is set by spawn, and not inherited", function()
    for _, word in ipairs { "high", "normal", "low" } do
      local ok, own, childs = process.spawn { priority = word, main = function()
        return process.self():priority(), select(2, process.spawn(function() return process.self():priority() end):wait())
      end }:wait()
      assert.same({ true, word, "normal" }, { ok, own, childs })
    end
  end)

  it("refuses other values", function()
    local p = process.self()
    for _, bad in ipairs { "urgent", "", "HIGH", 1, true, {} } do
      assert.error_matches(function() p:priority(bad) end, '"high", "normal" or "low" expected')
      assert.error_matches(function() process.spawn { main = print, priority = bad } end, [[spawn: 'priority' must be "high", "normal" or "low"]])
    end
    assert.equal("normal", p:priority())
  end)

  it("can be called for any process by any other, also when that runs or has not begun", function()
    local stop = channel.new()
    local busy = process.spawn(function() while not stop:closed() do end end)
    local others = {}
    for i = 1, 20 do
      others[i] = process.spawn(function()
        for _ = 1, 50 do
          for _, word in ipairs { "low", "high", "normal" } do busy:priority(word) end
          process.yield()
        end
      end)
      others[i]:priority(({ "low", "high", "normal" })[i % 3 + 1])
    end
    for i = 1, 20 do assert.is_true(others[i]:wait()) end
    stop:close()
    assert.is_true(busy:wait())
  end)

  it("is that of all fibers of a process, also of those made later", function()
    assert.equal("high normal low", script [[
      local mare = require "mare"
      local order = mare.channel.new(math.huge)
      mare.process.spawn(function()
        for _, word in ipairs { "low", "normal", "high" } do
          mare.process.spawn { priority = word, main = function()
            local f = mare.fiber.spawn(function() mare.process.yield() order:send(word) end)
            f:wait()
          end }
        end
      end)
      local got = {}
      for i = 1, 3 do got[i] = order:receive() end
      io.write(table.concat(got, " "))
    ]])
  end)
end)

describe("of those that are ready,", function()
  it("the highest run first", function()
    assert.equal("high high normal normal low low", script [[
      local mare = require "mare"
      local order = mare.channel.new(math.huge)
      mare.process.spawn(function()
        for _ = 1, 2 do
          for _, word in ipairs { "low", "normal", "high" } do
            mare.process.spawn { priority = word, main = function() order:send(word) end }
          end
        end
      end):wait()
      local got = {}
      for i = 1, 6 do got[i] = order:receive() end
      io.write(table.concat(got, " "))
    ]])
  end)

  it("one that is raised goes before others, one that is lowered behind them", function()
    assert.equal("c b a", script [[
      local mare = require "mare"
      local order = mare.channel.new(math.huge)
      mare.process.spawn(function()
        local handles = {}
        for i, word in ipairs { "a", "b", "c" } do handles[i] = mare.process.spawn(function() order:send(word) end) end
        handles[1]:priority "low"
        handles[3]:priority "high"
      end):wait()
      local got = {}
      for i = 1, 3 do got[i] = order:receive() end
      io.write(table.concat(got, " "))
    ]])
  end)

  it("a high one that is woken does not wait behind others' hand-overs", function()
    local hops = tonumber(script [[
      local mare = require "mare"
      local channel, spawn = mare.channel.new, mare.process.spawn
      local there, back, wake, seen, hops = channel(), channel(), channel(), channel(1), 0
      spawn { priority = "high", main = function() wake:receive() seen:send(true) end }
      spawn(function() for v in there:each() do back:send(v) end end)
      spawn(function()
        for i = 1, 2000 do
          if i == 1000 then wake:send(true) end
          there:send(i)
          back:receive()
          if i >= 1000 and #seen > 0 then io.write(i - 1000) os.exit(0) end
        end
      end)
      mare.sleep(60)
    ]])
    assert.is_true(hops <= 2, "after " .. hops .. " round trips")
  end)
end)

describe("nobody starves:", function()
  local kinds = {
    ["computes"] = "while not stop:closed() do end",
    ["yields"] = "while not stop:closed() do mare.process.yield() end",
    ["talks"] = [[
      local c = mare.channel.new()
      mare.fiber.spawn(function() while c:send(1) do end end)
      while not stop:closed() do c:receive() end
      c:close()]],
  }
  for name, body in pairs(kinds) do
    for _, pair in ipairs { { "normal", "low" }, { "high", "normal" }, { "high", "low" } } do
      it(("a %s one advances beside %s ones of which each %s"):format(pair[2], pair[1], name), function()
        assert.equal("done", script(([[
          local mare = require "mare"
          local stop = mare.channel.new()
          mare.process.self():priority "high"
          for _ = 1, 3 do mare.process.spawn { priority = "%s", main = function() %s end } end
          local slow = mare.process.spawn { priority = "%s", main = function() for _ = 1, 10 do mare.process.yield() end return "done" end }
          io.write(select(2, slow:wait()))
          stop:close()
        ]]):format(pair[1], body, pair[2]), 2))
      end)
    end
  end

  it("leaves a low one its turns beside several high ones that compute", function()
    for _, rest in ipairs { "", "process.spawn(function() while true do end end)" } do
      assert.equal("10 turns\n", (script(([[
        local mare = require "mare"
        local process, channel = mare.process, mare.channel
        local turns = channel.new()
        process.spawn { priority = "low", main = function()
          for i = 1, 10 do turns:send(i) mare.sleep(0.001) end
        end }
        turns:receive()
        for _ = 1, 2 do process.spawn { priority = "high", main = function() while true do end end } end
        %s
        for i = 2, 10 do assert(turns:receive(100), i) end
        print "10 turns"
        os.exit(0)]]):format(rest))))
    end
  end)
end)
