-- process.scope: processes and fibers that live as long as a function.
-- time limit: 240 s
local mare = require "mare"
local errors = require "mare.error"
local proc = require "spec.support.proc"
local process, channel, fiber = mare.process, mare.channel, mare.fiber
local scope = process.scope

local pack, LIMIT = table.pack, 30 * proc.slow

-- Tells when it begins and, whatever ends it but kill, when it ends.
local function sleeper(log, name)
  local _ <close> = setmetatable({}, { __close = function() log:try_send("end", name) end })
  log:send("begin", name, process.self())
  mare.sleep(math.huge)
end

local function expect(log, ...)
  local got = pack(log:receive(LIMIT))
  for i = 1, select("#", ...) do assert.equal((select(i, ...)), got[i]) end
  return got[3]
end

describe("a scope", function()
  it("gives the function's results when all is done", function()
    local log = channel.new(math.huge)
    local results = pack(scope(function(s, a)
      s:spawn(function() mare.sleep(0.01) log:send "process" end)
      s:fiber(function() mare.sleep(0.02) log:send "fiber" end)
      return a, nil, 3
    end, 1))
    assert.same(pack(1, nil, 3), results)
    assert.equal(2, #log)
  end)

  it("gives handles to wait for", function()
    assert.same({ 42, "named", 5 }, scope(function(s)
      local p = s:spawn(function(x) return 2 * x end, 21)
      local q = s:spawn { main = function() return process.self().name end, name = "named" }
      local f = s:fiber(function(x) return x end, 5)
      local list = {}
      for i, h in ipairs { p, q, f } do list[i] = select(2, h:wait()) end
      return list
    end))
  end)

  it("has processes that the caller owns", function()
    local log = channel.new(math.huge)
    local p = process.spawn(function() scope(function(s) s:spawn(sleeper, log, "child") end) end)
    local child = expect(log, "begin", "child")
    p:kill()
    expect(log, "end", "child")
    local ok, err = child:wait(LIMIT)
    assert.same({ false, "cancelled" }, { ok, err.kind })
  end)

  it("cancels the rest at the first failure and raises it, with both tracebacks", function()
    local log = channel.new(math.huge)
    local function breaks() error({ code = 7 }) end
    local ok, err = pcall(scope, function(s)
      s:spawn(sleeper, log, "process")
      s:fiber(sleeper, log, "fiber")
      for _ = 1, 2 do log:receive() end
      s:spawn { main = breaks, name = "bad" }
      mare.sleep(math.huge)
    end)
    assert.is_false(ok)
    assert.is_true(errors.is(err, "scope"))
    assert.equal(7, err.reason.code)
    assert.truthy(tostring(err):find("process #%d+ 'bad' failed"))
    assert.truthy(err.traceback:find("scope_spec.lua", 1, true))
    assert.truthy(err.scope:find("scope_spec.lua", 1, true))
    assert.truthy(err.where:find("scope_spec.lua:%d+"))
    local ended = {}
    for _ = 1, 2 do
      local _, name = log:receive(0)
      ended[name] = true
    end
    assert.same({ process = true, fiber = true }, ended)
  end)

  it("fails as its function fails, and as a fiber does", function()
    local ok, err = pcall(scope, function(s)
      s:spawn(mare.sleep, math.huge)
      error("mine", 0)
    end)
    assert.same({ false, "scope", "mine" }, { ok, err.kind, err.reason })
    assert.truthy(tostring(err):find("scope_spec.lua:%d+: the scope's function failed: mine$"))
    ok, err = pcall(scope, function(s)
      s:fiber(error, "a fiber's", 0)
      s:spawn(mare.sleep, math.huge)
    end)
    assert.same({ false, "a fiber's" }, { ok, err.reason })
  end)

  it("fails also of a failure that was waited for", function()
    local ok, err = pcall(scope, function(s)
      local h = s:spawn(error, "seen", 0)
      assert(not h:wait())
      mare.sleep(math.huge)
    end)
    assert.same({ false, "seen" }, { ok, err.reason })
  end)

  it("does not fail of a child that was cancelled", function()
    assert.equal("winner", scope(function(s)
      local first = channel.new()
      local slow = s:spawn(function() mare.sleep(math.huge) first:send("loser") end)
      s:spawn(function() first:send("winner") end)
      local name = first:receive()
      slow:cancel()
      return name
    end))
  end)

  it("keeps the first of several failures", function()
    local ok, err = pcall(scope, function(s)
      for i = 1, 50 do s:spawn(function() error(i, 0) end) end
    end)
    assert.is_false(ok)
    assert.is_true(err.reason >= 1 and err.reason <= 50)
  end)

  it("is left when its caller is cancelled, after its children", function()
    local log = channel.new(math.huge)
    local p = process.spawn(function()
      local _ <close> = setmetatable({}, { __close = function() log:try_send("left") end })
      scope(function(s)
        s:spawn(sleeper, log, "process")
        mare.sleep(math.huge)
      end)
    end)
    expect(log, "begin", "process")
    p:cancel("enough")
    expect(log, "end", "process")
    expect(log, "left")
    local ok, err = p:wait(LIMIT)
    assert.same({ false, "cancelled", "enough" }, { ok, err.kind, err.reason })
  end)

  it("'s function has the deadline of the caller, whose error goes on", function()
    assert.is_nil(scope(process.remaining))
    local left = process.deadline(1000, scope, function() return process.remaining() end)
    assert.is_true(left > 0 and left <= 1000)
    for _ = 1, 20 do                             -- either may learn of it first
      local ok, err = pcall(process.deadline, 0.001, scope, function() mare.sleep(math.huge) end)
      assert.same({ false, "deadline" }, { ok, err.kind })
    end
    -- one of its own is a failure like others
    local ok, err = pcall(process.deadline, 1000, scope, function() process.deadline(0.001, mare.sleep, 1000) end)
    assert.same({ false, "scope", "deadline" }, { ok, err.kind, err.reason.kind })
  end)

  it("ends by a deadline, with all its children", function()
    local log = channel.new(math.huge)
    local ok, err = pcall(process.deadline, 0.05, scope, function(s)
      s:spawn(sleeper, log, "process")
      process.masked(LIMIT, expect, log, "begin", "process")     -- one that has not begun would say nothing
      mare.sleep(math.huge)
    end)
    assert.same({ false, "deadline" }, { ok, err.kind })
    assert.equal("end", (log:receive(0)))
  end)

  it("kills what does not end when it is cancelled", function()
    local log = channel.new(math.huge)
    local start = mare.clock()
    local ok, err = pcall(scope, function(s)
      s:spawn(function()
        process.masked(1000, function()
          log:send("begin", "deaf", process.self())
          mare.sleep(math.huge)
        end)
      end)
      local h = expect(log, "begin", "deaf")
      log:send("handle", h)
      error("over", 0)
    end)
    assert.same({ false, "over" }, { ok, err.reason })
    assert.is_true(mare.clock() - start >= 4.9)
    local _, h = log:receive(0)
    local _, why = h:wait(0)
    assert.equal("killed", why.kind)
  end)

  it("nests, and the reasons do", function()
    local ok, err = pcall(scope, function(s)
      s:spawn(mare.sleep, math.huge)
      s:fiber(function() scope(function(inner) inner:spawn(error, "deep", 0) end) end)
    end)
    assert.is_false(ok)
    assert.same({ "scope", "scope", "deep" }, { err.kind, err.reason.kind, err.reason.reason })
  end)

  it("takes no children once it has ended", function()
    local kept
    scope(function(s) kept = s end)
    assert.has_error(function() kept:spawn(print) end, "scope:spawn: the scope has ended")
    assert.has_error(function() kept:fiber(print) end, "scope:fiber: the scope has ended")
  end)

  it("leaves nothing behind, whatever ends it", function()
    local before, fibers = process.count(), fiber.count()
    for i = 1, 30 do
      pcall(process.deadline, 0.002 * (i % 3 + 1), scope, function(s)
        for k = 1, 10 do
          s:spawn(mare.sleep, i % 2 == 0 and 0.001 or 100)
          s:fiber(mare.sleep, k % 2 == 0 and 0.001 or 100)
        end
        if i % 5 == 0 then error("x") end
        mare.sleep(0.003)
      end)
    end
    for _ = 1, LIMIT * 100 do
      if process.count() <= before and fiber.count() <= fibers then break end
      mare.sleep(0.01)
    end
    assert.is_true(process.count() <= before)     -- of what earlier tests left something may have ended meanwhile
    assert.is_true(fiber.count() <= fibers)
  end)

  it("works in a coroutine and in a process", function()
    local co = coroutine.wrap(function() return scope(function(s) return select(2, s:spawn(function() return 9 end):wait()) end) end)
    assert.equal(9, co())
    assert.same(pack(true, 4), pack(process.spawn(function()
      return process.scope(function(s) return #s:map({ 1, 2, 3, 4 }, function(x) return x end) end)
    end):wait()))
  end)

  it("is what mare.scope and require 'mare.scope' give", function()
    assert.equal(mare.scope, require "mare.scope")
    assert.equal(1, mare.scope(function() return 1 end))
    assert.is_false((pcall(scope, 7)))
  end)
end)

describe("scope:map", function()
  it("gives the results in order, whichever ends first", function()
    assert.same({ 1, 4, 9, 16, 25 }, scope(function(s)
      return s:map({ 1, 2, 3, 4, 5 }, function(x) mare.sleep((5 - x) / 200) return x * x end, { at_most = 5 })
    end))
    assert.same({ "a1", "b2" }, scope(function(s) return s:map({ "a", "b" }, function(x, i) return x .. i end) end))
    assert.same({}, scope(function(s) return s:map({}, print) end))
  end)

  it("has at most so many at work", function()
    local begun, gate = channel.new(math.huge), channel.new(math.huge)
    scope(function(s)
      local f = s:fiber(function()
        return s:map({ 1, 2, 3, 4, 5, 6 }, function(x)
          begun:send(x)
          gate:receive()
          return x
        end, { at_most = 2 })
      end)
      for _ = 1, 2 do assert(begun:receive(LIMIT)) end
      assert.same(pack(nil, "timeout"), pack(begun:receive(0.05)))
      gate:send(true)
      assert(begun:receive(LIMIT))
      assert.same(pack(nil, "timeout"), pack(begun:receive(0.02)))
      for _ = 1, 5 do gate:send(true) end
      assert.same({ 1, 2, 3, 4, 5, 6 }, select(2, f:wait()))
    end)
  end)

  it("begins no more after a failure", function()
    local begun = channel.new(math.huge)
    local ok, err = pcall(scope, function(s)
      return s:map({ 1, 2, 3, 4, 5, 6 }, function(x)
        begun:send(x)
        if x == 2 then error("item " .. x, 0) end
        return x
      end, { at_most = 1 })
    end)
    assert.same({ false, "item 2" }, { ok, err.reason })
    assert.equal(2, #begun)
  end)

  it("refuses a wrong at_most", function()
    local ok, err = pcall(scope, function(s) s:map({ 1 }, print, { at_most = 0 }) end)
    assert.is_false(ok)
    assert.truthy(tostring(err):find("'at_most' must be a whole number from 1 on", 1, true))
  end)
end)
