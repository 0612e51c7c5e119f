-- luacheck: ignore 211 241 311 331 512
-- Fibers: how they start, what they share, how they wait. How they end: fiber_end_spec.lua
local mare = require "mare"
local proc = require "spec.support.proc"
local parked = require "spec.support.parked"
local process, channel, fiber = mare.process, mare.channel, mare.fiber

local pack = table.pack

local function run(f, ...)
  local r = pack(process.spawn(f, ...):wait())
  if not r[1] then error(r[2], 0) end
  return table.unpack(r, 2, r.n)
end

describe("fiber.spawn", function()
  it("runs a function with arguments, later, and gives its results to all who wait", function()
    local started = false
    local f = fiber.spawn(function(...) started = true return select("#", ...), ... end, 1, nil, nil)
    assert.is_false(started)
    assert.same(pack(true, 3, 1, nil, nil), pack(f:wait()))
    assert.same(pack(true, 3, 1, nil, nil), pack(f:wait(0)))
    assert.equal("done", f:status())
    assert.same(pack(true), pack(fiber.spawn(function() end):wait()))
  end)

  it("takes options", function()
    local f = fiber.spawn { name = "worker", args = { 1, nil, 3, n = 3 }, main = function(...) return fiber.self().name, ... end }
    assert.same(pack(true, "worker", 1, nil, 3), pack(f:wait()))
    assert.matches("^fiber #%d+ 'worker'$", tostring(f))
    assert.matches("^fiber #%d+$", tostring(fiber.spawn(print == nil and 1 or function() end)))
    assert.error_matches(function() fiber.spawn { main = print, nmae = 1 } end, "unknown field 'nmae'; there are main, args, name, daemon$")
    assert.error_matches(function() fiber.spawn { name = "x" } end, "a function or {main = …} expected, got nil")
    assert.error_matches(function() fiber.spawn { main = "x" } end, "spawn: 'main' must be a function, got string")
    assert.error_matches(function() fiber.spawn { main = print, args = 1 } end, "'args' must be a table")
    assert.error_matches(function() fiber.spawn { main = print, name = 1 } end, "'name' must be a string")
    assert.error_matches(function() fiber.spawn("x") end, "a function or {main = …} expected, got string")
  end)

  it("shares data with its process, without copies", function()
    local t = {}
    local f = fiber.spawn(function(x) x.by = fiber.self() return x end, t)
    local _, same = f:wait()
    assert.is_true(same == t and t.by == f)
  end)

  it("lets 100,000 fibers wait in one process", function()
    local n = proc.slow > 1 and 5000 or 100000
    assert.same(pack(n + 1, n, 1), pack(run(function()
      local gate, sum, list = channel.new(), 0, {}
      for i = 1, n do list[i] = fiber.spawn(function() local v = gate:receive() sum = sum + v end) end
      fiber.yield()
      local alive = fiber.count()
      for _ = 1, n do gate:send(1) end
      for i = 1, n do list[i]:wait() end
      return alive, sum, fiber.count()
    end)))
  end)

  it("refuses in a finaliser, also in one that runs while another process copies in or the state closes", function()
    for _ = 1, 20 do
      local c = channel.new()
      local p = process.spawn(function()
        local err
        for i = 1, 4 do
          for _ = 1, 200 do
            setmetatable({}, { __gc = function() local ok, e = pcall(fiber.spawn, print) err = not ok and e or err or "spawned" end })
          end
          if not c:receive() then return i end
        end
        collectgarbage()
        return err
      end)
      local t = {}
      for i = 1, 2000 do t[i] = { i } end
      for _ = 1, 4 do parked(p) c:send(t) end
      assert.matches("cannot spawn a fiber in a finaliser", (select(2, p:wait())))
    end
  end)
end)

describe("between two waits a fiber has the data to itself", function()
  it("though it is interrupted and others are due or ready meanwhile", function()
    local bad = run(function()
      local bodies = {}
      for i = 1, 2 * process.workers() do bodies[i] = process.spawn(function(c) while not c:closed() do end end, channel.named "fiber_spec stop") end
      local owner, wrong, stop = nil, 0, false
      for i = 1, 6 do
        fiber.spawn(function()
          while not stop do
            if i % 2 == 0 then mare.sleep(0.0005 * i) else fiber.yield() end
            owner = i
          end
        end)
      end
      for _ = 1, 8 do
        owner = "I"
        local start = mare.clock()
        while mare.clock() - start < 0.04 do
          if owner ~= "I" then wrong, owner = wrong + 1, "I" end
        end
        mare.sleep(0.001)
      end
      stop = true
      channel.named "fiber_spec stop":close()
      return wrong
    end)
    assert.equal(0, bad)
  end)

  it("so that a counter needs no lock", function()
    assert.equal(40 * 200, run(function()
      local n, list = 0, {}
      for i = 1, 40 do
        list[i] = fiber.spawn(function()
          for k = 1, 200 do
            local before = n
            for _ = 1, 50 do end
            n = before + 1
            if k % 10 == i % 10 then fiber.yield() end
          end
        end)
      end
      for _, f in ipairs(list) do f:wait() end
      return n
    end))
  end)
end)

describe("a fiber that waits", function()
  it("lets the others run, in every kind of wait", function()
    local c, log = channel.new(), {}
    local p = process.spawn(function() return c:receive() end)
    local list = {
      fiber.spawn(function() mare.sleep(0.002) log[#log + 1] = "slept" end),
      fiber.spawn(function() return p:wait() end),
      fiber.spawn(function() return channel.new():receive(0.001) end),
      fiber.spawn(function() return mare.select { channel.new(), p } end),
      fiber.spawn(function() while #log == 0 do process.yield() end return "yielded" end),
      fiber.spawn(function() while #log == 0 do mare.sleep(0) end return "yielded" end),
    }
    list[7] = fiber.spawn(function() return list[1]:wait() end)
    list[8] = fiber.spawn(function() local gate = channel.new(math.huge) return gate:receive(0.001) end)
    list[1]:wait()
    c:send("on", 1)
    local r = {}
    for i, f in ipairs(list) do r[i] = pack(f:wait()) end
    assert.same({ pack(true), pack(true, true, "on", 1), pack(true, nil, "timeout"), pack(true, 2, true, "on", 1),
                  pack(true, "yielded"), pack(true, "yielded"), pack(true, true), pack(true, nil, "timeout") }, r)
  end)

  it("in a comparator, a gsub callback or an xpcall handler lets its siblings go on", function()
    assert.same({ 1, 2, "3", 4 }, { run(function()
      local c, list = channel.new(), {}
      list[1] = fiber.spawn(function()
        local t = { 2, 1 }
        table.sort(t, function(a, b) c:receive() return a < b end)
        return t[1]
      end)
      list[2] = fiber.spawn(function() return (select(2, xpcall(error, function() c:receive() return 2 end))) end)
      list[3] = fiber.spawn(function() return (("x"):gsub("x", function() c:receive() return "3" end)) end)
      list[4] = fiber.spawn(function() c:receive() return 4 end)
      mare.sleep(0.005)
      local stop = fiber.spawn(function() while true do if not c:send(1) then return end end end)
      local r = {}
      for i = 1, 4 do r[i] = select(2, list[i]:wait()) end
      c:close()
      stop:wait()
      return table.unpack(r)
    end) })
  end)

  it("in a coroutine of its own suspends the fiber, not the coroutine", function()
    assert.equal("a1 a2 b1 b2", run(function()
      local log = {}
      local function body(name)
        local co = coroutine.wrap(function()
          for i = 1, 2 do mare.sleep(0.001) coroutine.yield(name .. i) end
        end)
        local one, two = co(), co()
        log[#log + 1], log[#log + 2] = one, two
      end
      local f, g = fiber.spawn(body, "a"), fiber.spawn(body, "b")
      f:wait() g:wait()
      table.sort(log)
      return table.concat(log, " ")
    end))
  end)

  it("for itself is told that this can't end; for another at most so long", function()
    local f = fiber.spawn(function() return pcall(fiber.self().wait, fiber.self()) end)
    local _, ok, err = f:wait()
    assert.is_false(ok)
    assert.matches("can't wait for its own end", err)
    local c = channel.new()
    f = fiber.spawn(function() return c:receive() end)
    assert.same(pack(nil, "timeout"), pack(f:wait(0)))
    assert.same(pack(nil, "timeout"), pack(f:wait(0.002)))
    parked(f)
    c:send(5)
    local waiters = {}
    for i = 1, 10 do waiters[i] = fiber.spawn(f.wait, f) end
    for i = 1, 10 do assert.same(pack(true, true, 5), pack(waiters[i]:wait())) end
  end)

  it("may wait for a process beside many others", function()
    local c, list = channel.new(), {}
    local p = process.spawn(function() return c:receive(), { 2 } end)
    for i = 1, 50 do list[i] = fiber.spawn(p.wait, p, i % 5 == 0 and 0.0001 * i or nil) end
    for i = 5, 50, 5 do assert.same(pack(true, nil, "timeout"), pack(list[i]:wait())) end
    c:send(1)
    for i = 1, 50 do
      if i % 5 ~= 0 then assert.same(pack(true, true, 1, { 2 }), pack(list[i]:wait())) end
    end
  end)

  it("tells what it does", function()
    local c = channel.new()
    local f = fiber.spawn(function() c:receive() return fiber.self():status() end)
    assert.equal("ready", f:status())
    assert.equal("waiting", parked(f):status())
    c:send(1)
    assert.same(pack(true, "running"), pack(f:wait()))
    local bad = fiber.spawn(error, "x")
    bad:wait()
    assert.equal("failed", bad:status())
  end)
end)

describe("fiber.storage, self and handles:", function()
  it("storage is a table of its own for each fiber, main too", function()
    local mine = fiber.storage()
    mine.x = "main"
    local list = {}
    for i = 1, 3 do
      list[i] = fiber.spawn(function()
        local s = fiber.storage()
        local old = s.x
        s.x = i
        fiber.yield()
        return old, fiber.storage().x
      end)
    end
    for i = 1, 3 do assert.same(pack(true, nil, i), pack(list[i]:wait())) end
    assert.is_true(fiber.storage() == mine and mine.x == "main")
    mine.x = nil
  end)

  it("self is nil in the first fiber", function()
    assert.is_nil(fiber.self())
    local f = fiber.spawn(function() return fiber.self(), fiber.self().id end)
    local _, me, id = f:wait()
    assert.is_true(me == f and id == f.id)
  end)

  it("a handle can't be sent, and the error names its path and the remedy", function()
    local f = fiber.spawn(function() end)
    assert.error_matches(function() channel.new(1):send { jobs = { f } } end, "message%.jobs%[1%]: fiber cannot be sent; .* Send a channel")
    assert.error_matches(function() process.spawn(function() return f end) end, "fiber cannot be sent")
  end)
end)
