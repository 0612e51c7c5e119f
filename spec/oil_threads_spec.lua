-- OiL's threads: oil.main, cothread, when requests are served, how it ends; and the names of 0.4.
local oil = require "oil"
local cothread = require "cothread"
local proc = require "spec.support.proc"
local server = require "spec.support.oil.server"

describe("oil.main", function()
  it("returns when all threads have ended", function()
    local order = {}
    oil.main(function(name)
      for i = 3, 1, -1 do
        oil.newthread(function(seconds)
          oil.sleep(seconds)
          order[#order + 1] = i
        end, i / 50)
      end
      order[#order + 1] = name
    end, "main")
    assert.same({ "main", 1, 2, 3 }, order)
  end)
  it("raises the first error of a thread, with its traceback", function()
    local fine, err = pcall(oil.main, function()
      oil.newthread(function()
        oil.sleep(0.01)
        error "in a thread"
      end)
    end)
    assert.is_false(fine)
    assert.matches("in a thread.*traceback", err)
    local _, object = pcall(oil.main, function() error(setmetatable({}, { __tostring = function() return "an object" end })) end)
    assert.equal("an object", object)
  end)
  it("leaves threads alone that are suspended for ever", function()
    local reached = 0
    oil.main(function()
      cothread.schedule(coroutine.create(function()
        reached = 1
        cothread.suspend()
        reached = 2
      end))
      oil.sleep(0.01)
    end)
    assert.equal(1, reached)
  end)
  it("waits for an ORB that serves", function()
    local t = oil.time()
    oil.main(function()
      local orb = oil.init { host = "127.0.0.1" }
      oil.newthread(function()
        oil.sleep(0.1)
        orb:shutdown()
      end)
    end)
    assert.is_true(oil.time() - t >= 0.1)
  end)
end)

describe("cothread", function()
  it("schedules coroutines, and wakes those that wait", function()
    local got = {}
    oil.main(function()
      local sleeper = coroutine.create(function(first)
        got[1], got[2] = first, cothread.running()
        cothread.delay(30)
        got[3] = "woken"
      end)
      cothread.schedule(sleeper, "last", "given")
      oil.sleep(0.01)
      assert.equal(sleeper, got[2])
      cothread.schedule(sleeper)
      oil.sleep(0.01)
    end)
    assert.same({ "given", "woken" }, { got[1], got[3] })
  end)
  it("is spoken to by yield, and leaves coroutines of the program alone", function()
    oil.main(function()
      local before = oil.time()
      coroutine.yield("delay", 0.05)
      assert.is_true(oil.time() - before >= 0.05)
      coroutine.yield()
      local each = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end)
      assert.same({ 1, 2 }, { each(), each() })
      local made = coroutine.create(function(a) return coroutine.yield(a + 1) + 1 end)
      assert.same({ true, 2 }, { coroutine.resume(made, 1) })
      assert.same({ true, 11 }, { coroutine.resume(made, 10) })
    end)
  end)
  it("has timers", function()
    local Timer = require "cothread.Timer"
    local times = 0
    oil.main(function()
      local timer = Timer { rate = 0.01, action = function(self)
        times = times + 1
        if times == 3 then self:disable() end
      end }
      assert.is_true(timer:enable())
      assert.is_false(timer:enable())
      while times < 3 do oil.sleep(0.01) end
      assert.is_false(timer:disable())
    end)
  end)
end)

describe("an ORB", function()
  local function counting(_, orb)
    orb:loadidl "interface C { long next(); };"
    local n = 0
    return orb:newservant({ next = function()
      n = n + 1
      return n
    end }, nil, "C")
  end
  it("of a flavor without 'cooperative' serves in run and step alone", function()
    oil.main(function()
      local orb = oil.init { flavor = "corba", host = "127.0.0.1" }
      local reference = tostring(counting(oil, orb))
      local client = oil.init {}
      local future = client:newproxy(reference, "asynchronous", client:loadidl "interface C { long next(); };"):next()
      assert.is_true(orb:pending(5))
      oil.sleep(0.02)
      assert.is_false(future:ready())
      assert.is_true(orb:step())
      assert.equal(1, future:evaluate(5))
      assert.is_false(orb:pending(0))
      assert.equal("timeout", (select(2, orb:step(0.01))).error)
      orb:shutdown()
      client:shutdown()
    end)
  end)
  it("runs until it is shut down, by a servant too, and says so to who comes later", function()
    local function ending(_, orb)
      orb:loadidl "interface E { void stop(); };"
      return orb:newservant({ stop = function() orb:shutdown() end }, nil, "E")
    end
    local reference <close> = server(ending)
    oil.main(function()
      local orb = oil.init {}
      local e = orb:newproxy(reference.text)
      e:stop()
      local why
      repeat
        why = select(2, pcall(e.stop, e)).error        -- the end may be under way
        oil.sleep(0.01)
      until why == "badconnect"
      orb:shutdown()
      local _, again = pcall(orb.shutdown, orb)
      assert.equal("badsetup", again.error)
      assert.is_false((pcall(orb.newservant, orb, {}, nil, "E")))
    end)
  end)
  it("calls others after its shutdown", function()
    local reference <close> = server(counting)
    oil.main(function()
      local orb = oil.init {}
      local c = orb:newproxy(reference.text)
      orb:shutdown()
      assert.equal(1, c:next())
    end)
  end)
end)

describe("oil.compat04", function()
  it("has a global module, deferred and protected companions, tasks, and old orders of arguments", function()
    local r = proc.mare [[
      require "oil.compat04"
      oil.Config.host = "127.0.0.1"
      oil.main(function()
        oil.loadidl "interface Old { long twice(in long n); void fail(); };"
        local old = oil.newobject({ twice = function(_, n) return 2 * n end, fail = function() error "no" end }, "Old")
        local orb = oil.init { flavor = "cooperative;corba", host = "127.0.0.1" }
        orb:loadidl "interface Old { long twice(in long n); void fail(); };"
        orb:setonerror(function() end)
        oil.init():setonerror(function() end)
        local proxy = orb:newproxy(oil.getreference(old), "Old")
        print(proxy:twice(2), proxy.__deferred:twice(3):evaluate(), proxy.__try:twice(4))
        print((proxy.__try:fail()))
        oil.tasks:register(coroutine.create(function()
          oil.tasks:suspend(0.01)
          print(oil.pcall(proxy.twice, proxy, 5))
          orb:shutdown()
          oil.shutdown()
          print(oil.init().port > 0)               -- another default ORB
          oil.shutdown()
        end))
      end)
    ]]
    assert.same({ 0, "", "4\t6\ttrue\t8\nfalse\ntrue\t10\ntrue\n" }, { r.code, r.err, r.out })
  end)
end)
