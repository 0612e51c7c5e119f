-- Timers: moments to wait for, once and again, by one or by many; how they are cancelled, and what they call.
local mare = require "mare"
local proc = require "spec.support.proc"
local parked = require "spec.support.parked"
local process, channel, fiber, timer = mare.process, mare.channel, mare.fiber, mare.timer

local pack = table.pack

local function script(text, host)
  local r = proc[host and "lua" or "mare"]("local mare = require 'mare' local timer, fiber, process = mare.timer, mare.fiber, mare.process\n" .. text)
  assert.is_false(r.timeout, "it hangs:\n" .. r.out .. r.err)
  return r.out, r.err, r.code
end

-- Busy until the clock shows that moment: nothing of mare runs here meanwhile.
local function busy_until(moment) while mare.clock() < moment do end end

describe("timer.after", function()
  it("is due once, not before its time, and stays due", function()
    local start = mare.clock()
    local t = timer.after(0.01)
    assert.is_true(t:left() <= 0.01)
    local far = timer.after(100)
    assert.is_true(far:left() > 0 and far:left() <= 100)
    assert.same(pack(nil, "timeout"), pack(far:wait(0)))
    assert.same(pack(1), pack(t:wait()))
    assert.is_true(mare.clock() - start >= 0.01)
    assert.same(pack(1), pack(t:wait()))
    assert.equal(0, t:left())
    assert.same(pack(1), pack(timer.after(0):wait()))
  end)

  it("can be waited for at most so long", function()
    local t = timer.after(1000)
    assert.same(pack(nil, "timeout"), pack(t:wait(0.002)))
    assert.same(pack(nil, "timeout"), pack(t:wait(-1)))
    assert.is_true(t:left() > 900)
  end)

  it("wakes all who wait, in any process that got it in a message", function()
    local c, list = channel.new(math.huge), {}
    for i = 1, 20 do list[i] = process.spawn(function() local t = c:receive() return t:wait(), t:left() end) end
    local t = timer.after(0.02)
    for _ = 1, 15 do c:send(t) end
    local mine = {}
    for i = 1, 5 do mine[i] = fiber.spawn(t.wait, t) end
    for _ = 16, 20 do c:send(t) end
    for i = 1, 20 do assert.same(pack(true, 1, 0), pack(list[i]:wait())) end
    for i = 1, 5 do assert.same(pack(true, 1), pack(mine[i]:wait())) end
  end)

  it("calls a function with its arguments in a fiber of its own", function()
    local c, here = channel.new(4), {}
    local start = mare.clock()
    timer.after(0.005, function(t, ...)
      c:send(rawequal(t, here), mare.clock() - start >= 0.005, select("#", ...), fiber.self() ~= nil)
    end, here, nil, 2)
    assert.same(pack(true, true, 2, true), pack(c:receive(10)))
    assert.same(pack(nil, "timeout"), pack(c:receive(0.01)))
  end)

  it("keeps a process with a function, and none without", function()
    local out = script [[
      local start = mare.clock()
      timer.after(1000) timer.every(1000)
      process.spawn(function() timer.after(0.02, function() print "called" end) end)
      timer.after(0.01, function() print(mare.clock() - start < 500) end)]]
    assert.same("called\ntrue\n", out:find "^true" and out:gsub("^true\ncalled\n", "called\ntrue\n") or out)
  end)
end)

describe("timer.every", function()
  it("is due again and again", function()
    local start = mare.clock()
    local t = timer.every(0.003)
    local n = 0
    while n < 5 do n = n + t:wait() end
    assert.is_true(mare.clock() - start >= 5 * 0.003)
    assert.is_true(t:left() <= 0.003)
  end)

  it("counts moments that were missed, and does not drift", function()
    local period = 0.004
    local from = mare.clock()
    local t = timer.every(period)
    local to = mare.clock()                      -- it began between the two
    busy_until(to + 10.5 * period)
    local n = t:wait()
    local after = mare.clock()
    assert.is_true(n >= 10, n)
    for _ = 1, 20 do
      n = n + t:wait()
      after = mare.clock()
      busy_until(after + 0.3 * period)
    end
    -- The n-th moment is n periods after the first, whatever came between: it is past, and the next is not long past.
    assert.is_true(after >= from + n * period - 0.001, "too early")
    local asked, left = mare.clock(), t:left()
    local told = mare.clock()
    assert.is_true(left == 0 or asked + left < to + (n + 1) * period + 0.001 and told + left > from + (n + 1) * period - 0.001)
  end)

  it("gives each moment to one of those who wait", function()
    local start = mare.clock()
    local t, out = timer.every(0.002), channel.new(math.huge)
    for _ = 1, 4 do
      process.spawn(function()
        while true do
          local n, why = t:wait()
          out:send(n or why)
          if not n then return end
        end
      end)
    end
    local n = 0
    while n < 20 do n = n + out:receive(10) end
    t:cancel()
    local periods = (mare.clock() - start) / 0.002
    local cancelled = 0
    while cancelled < 4 do
      local v = out:receive(10)
      if v == "cancelled" then cancelled = cancelled + 1 else n = n + v end
    end
    assert.is_true(n <= periods + 1, n .. " moments in " .. periods .. " periods")
  end)

  it("calls a function each time until it is cancelled, also by the function", function()
    local n, t = 0, nil
    t = timer.every(0.001, function(by) n = n + by if n == 5 then t:cancel() end end, 1)
    while t:left() do mare.sleep(0.001) end
    mare.sleep(0.005)
    assert.equal(5, n)
  end)

  it("with a function that fails ends with that failure, printed once", function()
    local _, err = script [[
      timer.every(0.001, function() error("on the first call", 0) end)
      mare.sleep(0.02)
      collectgarbage() collectgarbage()]]
    local _, n = err:gsub("on the first call", "")
    assert.equal(1, n, err)
  end)

  it("with a function that waits is late, not twice at the same time", function()
    local inside, worst, calls = 0, 0, 0
    local t
    t = timer.every(0.001, function()
      inside, calls = inside + 1, calls + 1
      worst = math.max(worst, inside)
      mare.sleep(0.003)
      inside = inside - 1
      if calls == 4 then t:cancel() end
    end)
    while t:left() or inside > 0 do mare.sleep(0.001) end
    assert.same({ 1, 4 }, { worst, calls })
  end)
end)

describe("timer:cancel", function()
  it("wakes who waits with nil, cancelled, and may be repeated", function()
    local t = timer.after(1000)
    local list = {}
    for i = 1, 5 do list[i] = parked(process.spawn(function() return t:wait() end)) end
    list[6] = parked(process.spawn(function() return mare.select { channel.new(), t } end))
    local f = parked(fiber.spawn(t.wait, t))
    t:cancel()
    t:cancel()
    for i = 1, 5 do assert.same(pack(true, nil, "cancelled"), pack(list[i]:wait())) end
    assert.same(pack(true, 2, nil, "cancelled"), pack(list[6]:wait()))
    assert.same(pack(true, nil, "cancelled"), pack(f:wait()))
    assert.same(pack(nil, "cancelled"), pack(t:wait()))
    assert.is_nil(t:left())
  end)

  it("comes too late when it was due", function()
    local t = timer.after(0)
    t:wait()
    t:cancel()
    assert.same(pack(1), pack(t:wait()))
  end)

  it("keeps a function from being called", function()
    local called, in_time
    repeat                                       -- until it was cancelled before it was due
      called = nil
      local due = mare.clock() + 0.05
      local t = timer.after(0.05, function() called = true end)
      t:cancel()
      in_time = mare.clock() < due
      mare.sleep(0.07)
    until in_time
    assert.is_nil(called)
  end)

  it("races with the moment itself: each wait ends once, one way or the other", function()
    local due, cancelled = 0, 0
    for _ = 1, proc.slow > 1 and 100 or 400 do
      local t = timer.after(0.0002)
      local p, q = process.spawn(function() return t:wait() end), process.spawn(function() return select(2, mare.select { t }) end)
      mare.sleep(0.0001)
      t:cancel()
      for _, h in ipairs { p, q } do
        local ok, n, why = h:wait()
        assert.is_true(ok and (n == 1 or why == "cancelled"))
        if n then due = due + 1 else cancelled = cancelled + 1 end
      end
    end
    assert.equal((proc.slow > 1 and 100 or 400) * 2, due + cancelled)
  end)
end)

describe("many timers:", function()
  local million = proc.slow > 1 and 30000 or 1000000

  it("a million are set and cancelled", function()
    local list = {}
    for i = 1, million do
      local t = timer.after(1000 + i % 1000)
      list[i % 1000] = t
      if i % 2 == 0 then t:cancel() end
    end
    assert.is_nil(list[500]:left())
    assert.is_true(list[501]:left() > 900)
  end)

  it("hundreds of thousands of waits end before their time limit", function()
    local n = million // 4
    local c, back = channel.new(), channel.new()
    local echo = process.spawn(function() while true do local v = c:receive(1000) if not v then return "end" end back:send(v) end end)
    for i = 1, n do
      c:send_within(1000, i)
      if back:receive(1000 + i) ~= i then error "wrong" end
    end
    c:close()
    assert.same(pack(true, "end"), pack(echo:wait()))
  end)

  it("thousands are waited for at the same time; all come, none too early", function()
    local n, order, out = proc.slow > 1 and 500 or 5000, {}, {}
    local start, base = mare.clock(), 0.05
    for i = 1, n do
      local k = i * 7919 % n
      local due = base + k * 1e-5
      order[i] = fiber.spawn(function()
        mare.sleep(due - (mare.clock() - start))
        if mare.clock() - start < due - 1e-6 then error "too early" end
        out[#out + 1] = k
      end)
    end
    for i = 1, n do assert.is_true(order[i]:wait()) end
    assert.equal(n, #out)
  end)
end)

it("fibers that become due while their process is busy come in the order in which they were due", function()
  local n = 50
  local out, in_time
  repeat                                         -- until all waited before the first was due
    local list, begun = {}, mare.clock()
    out = {}
    local t = timer.after(0.1)
    for i = 1, n do
      list[i] = fiber.spawn(function(mine)
        if i % 2 == 0 then mare.sleep(begun + 0.2 + i * 2e-3 - mare.clock()) else mare.select { t, channel.new() } end
        mine[#mine + 1] = i
      end, out)
    end
    fiber.yield()
    in_time = mare.clock() < begun + 0.1
    busy_until(begun + 0.2 + n * 2e-3 + 0.01)
    for i = 1, n do list[i]:wait() end
  until in_time
  local expected = {}
  for i = 1, n, 2 do expected[#expected + 1] = i end
  for i = 2, n, 2 do expected[#expected + 1] = i end
  assert.same(expected, out)
end)

describe("a timer", function()
  it("refuses what is no time", function()
    for _, bad in ipairs { -1, 0 / 0, math.huge } do
      assert.error_matches(function() timer.after(bad) end, "a number of seconds from 0 to 9e9 expected")
      assert.error_matches(function() timer.every(bad) end, "a number of seconds from 1e%-6 to 9e9 expected")
    end
    assert.error_matches(function() timer.every(0) end, "from 1e%-6")
    assert.error_matches(function() timer.after("soon") end, "number expected, got string")
    assert.error_matches(function() timer.after(1, 2) end, "function expected, got number")
    assert.error_matches(function() timer.after(1):wait(0 / 0) end, "got nan")
    assert.error_matches(function() timer.after(1).wait(channel.new()) end, "timer expected, got channel")
  end)

  it("works in a comparator and refuses to wait in a finaliser", function()
    local p = process.spawn(function()
      local n, err
      table.sort({ 2, 1 }, function(a, b) n = timer.after(0.002):wait() return a < b end)
      setmetatable({}, { __gc = function() err = select(2, pcall(timer.after(10).wait, timer.after(10))) end })
      collectgarbage()
      return n, err
    end)
    local ok, n, err = p:wait()
    assert.same({ true, 1 }, { ok, n })
    assert.matches("cannot wait in a finaliser", err)
  end)

  it("that somebody waits for is no deadlock; one that is cancelled, or nobody waits for, prevents none", function()
    local _, err, code = script [[
      timer.after(1000)
      local t = timer.after(1000)
      fiber.spawn(function() t:wait() end)
      fiber.yield()
      t:cancel()
      mare.channel.new():receive()]]
    assert.equal(1, code)
    assert.matches("deadlock", err)
  end)

  it("runs its function in plain Lua while the main script waits", function()
    assert.equal("1\n2\n3\nnil\tcancelled\n", (script([[
      local n, t = 0
      t = timer.every(0.001, function() n = n + 1 print(n) if n == 3 then t:cancel() end end)
      while n < 3 do mare.sleep(0.001) end
      print(t:wait())]], true)))
  end)
end)
