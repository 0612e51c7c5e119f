-- mare.supervisor: processes that are watched, started again and ended in order, as OTP defines it.
-- time limit: 300 s
local mare = require "mare"
local errors = require "mare.error"
local proc = require "spec.support.proc"
local supervised = require "spec.support.supervised"
local process, channel, supervisor = mare.process, mare.channel, mare.supervisor
local entry, start, words = supervised.entry, supervised.start, supervised.words
local sorted, quiet, pack, LIMIT = supervised.sorted, supervised.quiet, table.pack, supervised.LIMIT

describe("a supervisor", function()
  it("starts its children in order and ends them in the reverse order", function()
    local log = channel.new(math.huge)
    local sup = start { children = { entry(log, "a"), entry(log, "b"), entry(log, "c") } }
    local began = words(log, 3)
    assert.same({ "begin a", "begin b", "begin c" }, sorted(began))
    assert.same({ specs = 3, active = 3, supervisors = 0, workers = 3 }, sup:count())
    assert.is_true(sup:shutdown())
    assert.same({ "end c", "end b", "end a" }, words(log, 3))
    assert.is_true((sup:wait()))
    local ok, err = pcall(sup.count, sup)
    assert.same({ false, "down" }, { ok, err.kind })
  end)

  it("gives its children arguments, nils among them, a name and a limit of memory", function()
    local log = channel.new(math.huge)
    local _ <close> = start { children = { { id = "x", args = { 1, nil, log, n = 4 }, memory = 4e6, start = function(a, b, c, ...)
      c:send(process.self().name, a, b, select("#", ...), pcall(string.rep, "x", 1e7))
      mare.sleep(math.huge)
    end } } }
    assert.same(pack("x", 1, nil, 1, false, "not enough memory"), pack(log:receive(LIMIT)))
  end)

  it("can be sent, and used from any process", function()
    local log = channel.new(math.huge)
    local sup <close> = start { children = { entry(log, "a") } }
    assert.same(pack(true, 1), pack(process.spawn(function() return #sup:children() end):wait()))
    local ok, handle = process.spawn(function(s) return s:add { id = "b", start = mare.sleep, args = { 100 } } end, sup):wait()
    assert.is_true(ok)
    assert.equal(handle, sup:child("b").process)
  end)

  it("is found by its name", function()
    local sup <close> = start { name = "supervisor_spec.top" }
    assert.equal(0, supervisor.named("supervisor_spec.top"):count().specs)
    assert.equal(sup.process, process.whereis "supervisor_spec.top")
    assert.equal("supervisor 'supervisor_spec.top'", tostring(sup))
    assert.is_false((pcall(start, { name = "supervisor_spec.top" })))
  end)

  it("says what is wrong with its options", function()
    for message, options in pairs {
      ["supervisor.start: unknown field 'stratgy'"] = { stratgy = "one_for_one" },
      ["'strategy' must be \"one_for_one\", \"one_for_all\" or \"rest_for_one\", got string 'one'"] = { strategy = "one" },
      ["'intensity' must be a whole number from 0, or math.huge, got -1"] = { intensity = -1 },
      ["children[1]: it has no 'start'"] = { children = { { id = 1 } } },
      ["children[1]: it has no 'id'"] = { children = { { start = print } } },
      ["children[2]: there is a child 'a' already"] = { children = { { id = "a", start = print }, { id = "a", start = print } } },
      ["children[1]: 'restart' must be"] = { children = { { id = "a", start = print, restart = "always" } } },
      ["children[1]: 'shutdown' must be"] = { children = { { id = "a", start = print, shutdown = "now" } } },
      ["children[1]: supervisor: unknown field 'x'"] = { children = { { id = "a", supervisor = { x = 1 } } } },
      ["stands in the place of 'start'"] = { children = { { id = "a", start = print, supervisor = {} } } },
    } do
      local ok, err = pcall(function() supervisor.start(options) end)
      assert.is_false(ok)
      assert.truthy(err:find(message, 1, true), err)
      assert.truthy(err:find("supervisor_spec", 1, true), err)
    end
    local sup <close> = start {}
    assert.truthy(select(2, pcall(sup.add, sup, { id = 1 })):find("sup:add: it has no 'start'", 1, true))
  end)
end)

describe("a child", function()
  it("that is permanent is started again when it fails, returns, is cancelled or killed", function()
    local log, orders = channel.new(math.huge), channel.new()
    local _ <close> = start { intensity = math.huge, children = { entry(log, "a", { args = { log, "a", orders } }), entry(log, "b") } }
    local _, first = words(log, 2)
    local handle = first.a
    for _, how in ipairs { "fail", "return", "cancel", "kill" } do
      if how == "cancel" or how == "kill" then handle[how](handle) else orders:send(how) end
      local list, handles = words(log, how == "kill" and 1 or 2)
      assert.equal("begin a", list[#list])
      assert.not_equal(handle, handles.a)
      handle = handles.a
    end
    assert.equal("waiting", first.b:status())
    quiet(log)
  end)

  it("that is transient is started again only when it fails", function()
    local log, orders = channel.new(math.huge), channel.new()
    local sup <close> = start { intensity = math.huge, children = { entry(log, "a", { args = { log, "a", orders }, restart = "transient" }) } }
    words(log, 1)
    orders:send "fail"
    assert.same({ "end a", "begin a" }, words(log, 2))
    orders:send "return"
    assert.same({ "end a" }, words(log, 1))
    quiet(log)
    local child = sup:child "a"
    assert.same({ "stopped", nil }, { child.status, child.process })
    assert.truthy(sup:restart "a")
    assert.same({ "begin a" }, words(log, 1))
  end)

  it("that is temporary is not, and is forgotten", function()
    local log, orders = channel.new(math.huge), channel.new()
    local sup <close> = start { intensity = 0, children = { entry(log, "a", { args = { log, "a", orders }, restart = "temporary" }) } }
    words(log, 1)
    orders:send "fail"
    assert.same({ "end a" }, words(log, 1))
    while sup:count().specs > 0 do mare.sleep(0.001) end
    assert.same(pack(nil, "there is no child 'a'"), pack(sup:child "a"))
  end)

  it("gets the arguments anew: what it did to them is gone", function()
    local log, orders = channel.new(math.huge), channel.new()
    local _ <close> = start { children = { { id = 1, args = { { n = 1 } }, start = function(t)
      t.n = t.n + 1
      log:send(t.n)
      orders:receive()
    end } } }
    assert.equal(2, (log:receive(LIMIT)))
    orders:send(true)
    assert.equal(2, (log:receive(LIMIT)))
  end)
end)

describe("one_for_all", function()
  it("ends all in the reverse order when one fails, and starts all again", function()
    local log, orders = channel.new(math.huge), channel.new()
    local _ <close> = start { strategy = "one_for_all", children = {
      entry(log, "a"), entry(log, "b", { args = { log, "b", orders } }), entry(log, "c"), entry(log, "t", { restart = "temporary" }) } }
    words(log, 4)
    orders:send "fail"
    assert.same({ "end b", "end t", "end c", "end a" }, words(log, 4))
    assert.same({ "begin a", "begin b", "begin c" }, sorted(words(log, 3)))
    quiet(log)
  end)
end)

describe("rest_for_one", function()
  it("ends and starts again those that came after", function()
    local log, orders = channel.new(math.huge), channel.new()
    local _ <close> = start { strategy = "rest_for_one", children = {
      entry(log, "a"), entry(log, "b", { args = { log, "b", orders } }), entry(log, "c"), entry(log, "d") } }
    words(log, 4)
    orders:send "fail"
    assert.same({ "end b", "end d", "end c" }, words(log, 3))
    assert.same({ "begin b", "begin c", "begin d" }, sorted(words(log, 3)))
    quiet(log)
  end)
end)

describe("intensity", function()
  it("bounds restarts: then all children end, and the supervisor fails", function()
    local log, orders = channel.new(math.huge), channel.new()
    local sup = start { name = "supervisor_spec.i", intensity = 2, period = 60, children = {
      entry(log, "a"), entry(log, "b", { args = { log, "b", orders } }) } }
    words(log, 2)
    for _ = 1, 2 do
      orders:send "fail"
      assert.same({ "end b", "begin b" }, words(log, 2))
    end
    orders:send "fail"
    assert.same({ "end b", "end a" }, words(log, 2))
    local ok, err = sup:wait(LIMIT)
    assert.is_false(ok)
    assert.is_true(errors.is(err, "intensity"))
    assert.equal("b", err.reason.failed)
    assert.equal("b", err.child)
    assert.truthy(tostring(err):find("supervisor 'supervisor_spec.i': more than 2 restarts in 60 s", 1, true))
  end)

  it("0 allows none, 1 in 5 s is the default", function()
    for limit = 0, 1 do
      local log, orders = channel.new(math.huge), channel.new()
      local sup = start { intensity = limit == 0 and 0 or nil, children = { entry(log, "a", { args = { log, "a", orders } }) } }
      for _ = 0, limit do
        words(log, 1)
        orders:send "fail"
        words(log, 1)
      end
      assert.is_false((sup:wait(LIMIT)))
    end
  end)

  it("counts only what lies within the period", function()
    local log, orders = channel.new(math.huge), channel.new()
    local sup <close> = start { intensity = 1, period = 0.01, children = { entry(log, "a", { args = { log, "a", orders } }) } }
    words(log, 1)
    for _ = 1, 5 do
      mare.sleep(0.02)
      orders:send "fail"
      words(log, 2)
    end
    assert.equal("running", sup:child "a".status)
  end)

  it("math.huge is without limit", function()
    local count = channel.new(math.huge)
    local _ <close> = start { intensity = math.huge, children = { { id = 1, start = function() count:send(true) error "x" end } } }
    for _ = 1, 300 do assert(count:receive(LIMIT)) end
  end)
end)

describe("the end of a child", function()
  it("is waited for so long, then it is killed", function()
    local log = channel.new(math.huge)
    local events = channel.new(math.huge)
    local sup = start { report = function(event) events:send(event.id, event.what, tostring(event.error)) end, children = {
      entry(log, "a"), { id = "deaf", shutdown = 0.05, start = function()
        process.masked(1000, function()
          log:send("begin", "deaf", process.self())
          mare.sleep(math.huge)
        end)
      end } } }
    local _, handles = words(log, 2)
    sup:shutdown()
    local _, err = handles.deaf:wait(0)
    assert.equal("killed", err.kind)
    assert.same({ "end a" }, words(log, 1))
    assert.same(pack("deaf", "was stopped", "it did not end within 0.05 s and was killed"), pack(events:receive(0)))
  end)

  it("is at once with shutdown = 'kill'", function()
    local log = channel.new(math.huge)
    local sup = start { children = { entry(log, "a", { shutdown = "kill" }) } }
    local _, handles = words(log, 1)
    sup:shutdown()
    assert.equal("killed", select(2, handles.a:wait(0)).kind)
    quiet(log)
  end)

  it("may take its time: clean-up in order", function()
    local log = channel.new(math.huge)
    local function tidy(name)
      local _ <close> = setmetatable({}, { __close = function()
        process.masked(function()
          mare.sleep(0.02)
          log:send("end", name)
        end)
      end })
      log:send("begin", name)
      mare.sleep(math.huge)
    end
    local sup = start { children = { { id = "a", start = tidy, args = { "a" } }, { id = "b", start = tidy, args = { "b" } } } }
    words(log, 2)
    sup:shutdown()
    assert.same({ "end b", "end a" }, words(log, 2))
  end)

  it("comes when its supervisor is killed", function()
    local log = channel.new(math.huge)
    local sup = start { children = { entry(log, "a"), { id = "s", supervisor = { report = false, children = { entry(log, "b") } } } } }
    local _, handles = words(log, 2)
    sup.process:kill()
    assert.same({ "end a", "end b" }, sorted(words(log, 2)))
    assert.is_false((handles.a:wait(LIMIT)))
    assert.is_false((handles.b:wait(LIMIT)))
  end)

  it("comes when who owns the supervisor ends", function()
    local log, gate = channel.new(math.huge), channel.new()
    local p = process.spawn(function()
      supervisor.start { owned = true, children = { entry(log, "a") } }
      gate:receive()
    end)
    assert.same({ "begin a" }, words(log, 1))
    gate:send(true)
    assert.is_true((p:wait(LIMIT)))
    assert.same({ "end a" }, words(log, 1))
  end)
end)

describe("a child with 'ready'", function()
  it("is waited for before the next one begins", function()
    local log = channel.new(math.huge)
    local function slow(name)
      mare.sleep(0.02)
      log:send("begin", name)
      supervisor.ready()
      mare.sleep(math.huge)
    end
    local sup <close> = start { children = {
      { id = "a", ready = 60, start = slow, args = { "a" } }, { id = "b", ready = 60, start = slow, args = { "b" } }, entry(log, "c") } }
    assert.same({ "begin a", "begin b", "begin c" }, words(log, 3))
    assert.equal(3, sup:count().active)
  end)

  it("that does not get ready makes the start fail, and those before it end", function()
    local log = channel.new(math.huge)
    local function fails()
      while #log == 0 do mare.sleep(0.001) end   -- until the one before has begun: else that would never
      error("no disk", 0)
    end
    local ok, err = pcall(start, { children = { entry(log, "a"), { id = "b", ready = 60, start = fails }, entry(log, "c") } })
    assert.same({ false, "start", "no disk", "b" }, { ok, err.kind, err.reason, err.child })
    assert.same({ "begin a", "end a" }, sorted(words(log, 2)))
    quiet(log)
    ok, err = pcall(start, { children = { { id = "b", ready = 0.02, start = function() mare.sleep(math.huge) end } } })
    assert.same({ false, "it was not ready within 0.02 s" }, { ok, err.reason })
  end)

  it("is tried again when it fails at a restart, until there have been too many", function()
    local log = channel.new(math.huge)
    local sup = start { intensity = 5, period = 60, children = { { id = "a", ready = 60, start = function()
      log:send("begin", "a", process.self())
      if #log > 1 then error("not again", 0) end
      supervisor.ready()
      mare.sleep(math.huge)
    end } } }
    local handle
    repeat handle = sup:child("a").process until handle
    handle:kill()
    local ok, err = sup:wait(LIMIT)
    assert.same({ false, "intensity", "not again" }, { ok, err.kind, err.reason })
    assert.equal(6, #log)
  end)

  it("that is added and does not start is not kept", function()
    local sup <close> = start {}
    assert.same(pack(nil, "no"), pack(sup:add { id = "a", ready = 60, start = function() error("no", 0) end }))
    assert.equal(0, sup:count().specs)
  end)

  it("does not keep its supervisor from ending", function()
    local begun = channel.new(math.huge)
    local p = process.spawn(function()
      supervisor.start { owned = true, children = { { id = "a", ready = math.huge, start = function()
        begun:send(true)
        mare.sleep(math.huge)
      end } } }
    end)
    begun:receive(LIMIT)
    local before = process.count()
    p:cancel()
    p:wait(LIMIT)
    local till = mare.clock() + LIMIT
    while process.count() > before - 3 and mare.clock() < till do mare.sleep(0.001) end
    assert.equal(before - 3, process.count())
  end)
end)

describe("failures", function()
  it("are reported to a function", function()
    local events = channel.new(math.huge)
    local sup <close> = start { name = "supervisor_spec.r", intensity = math.huge,
      report = function(e) events:send(e.supervisor, e.id, e.what, e.error, e.traceback ~= nil) end,
      children = { entry(channel.new(9), "a", { start = function() error("oh", 0) end, restart = "transient" }) } }
    assert.same(pack("supervisor 'supervisor_spec.r'", "a", "failed, is started again", "oh", true), pack(events:receive(LIMIT)))
    sup:stop "a"
  end)

  it("are printed without one", function()
    local r = proc.mare [[
      local supervisor = require "mare.supervisor"
      local sup = supervisor.start { name = "top", intensity = 0, children = { { id = "w", start = function() error "oh" end } } }
      print(sup:wait())]]
    assert.truthy(r.err:find("mare: supervisor 'top': child 'w' %(process #%d+ 'w'%) failed: [^\n]*: oh\nstack traceback:"), r.err)
    assert.truthy(r.out:find("^false\tsupervisor 'top': more than 0 restarts in 5 s, the last of child 'w'"), r.out)
  end)

  it("of who started it, when linked, end it in order", function()
    local log, both_run = channel.new(math.huge), channel.new()
    local p = process.spawn(function()
      supervisor.start { linked = true, report = false, children = { entry(log, "a"), entry(log, "b") } }
      both_run:receive()                         -- one that has not begun would never, and have no end to tell of
      error("mine", 0)
    end)
    words(log, 2)
    both_run:send(true)
    assert.is_false((p:wait(LIMIT)))
    assert.same({ "end b", "end a" }, (words(log, 2)))
  end)
end)
