-- luacheck: ignore 211 212 411 421 431 432 512
-- Looking at processes that run: lists, infos, tracebacks.
local mare = require "mare"
local process, channel, fiber = mare.process, mare.channel, mare.fiber
local proc = require "spec.support.proc"
local parked = require "spec.support.parked"
local looking = require "spec.support.looking"
local soon, busy, finish = looking.soon, looking.busy, looking.finish

local gate                                       -- closed after each test: what waits there ends
local function waiter(name) return looking.waiter(gate, name) end

local function record_of(p, options)
  for _, r in ipairs(process.list(options)) do
    if r.id == p.id then return r end
  end
end

before_each(function() gate = channel.new() end)
after_each(function() gate:close() end)

describe("process.list", function()
  it("has CPU time and heap of a script of plain lua5.4", function()
    local function host()
      for _, r in ipairs(process.list()) do if r.kind == "host" then return r end end
    end
    local before = host()
    if not before then return end                   -- under mare there is none
    mare.sleep(0.001)
    local after = soon(function()
      for _ = 1, 1e6 do end
      local r = host()
      return r.cpu > before.cpu + 0.01 and r
    end)
    assert.is_true(after.heap > 10000, after.heap)
  end)

  it("has an entry for each process that lives", function()
    local p = waiter "a name"
    local r = soon(function()                       -- it waits, and says so in a moment
      local r = record_of(p)
      return r.waits and r
    end)
    assert.same({ p.id, "a name", "waiting", "receive", "normal", 1, 0, 0, 0 },
                { r.id, r.name, r.status, r.waits, r.priority, r.fibers, r.sent, r.received, r.restarts })
    assert.equal(process.self().id, r.parent)
    assert.is_true(r.heap > 1000 and math.type(r.heap) == "integer")
    assert.equal("float", math.type(r.cpu))
    assert.is_nil(r.owner)
    assert.is_nil(r.handle)
    gate:close()
    p:wait()
    assert.is_nil(record_of(p))
  end)

  it("is in order, whole or cut, of a few and of thousands, with numbers of any size", function()
    local n, told = math.floor(3000 / proc.slow), channel.new(math.huge)
    local all = {}
    for i = 1, n do
      all[i] = process.spawn(function(told, gate, much)
        for k = 1, much do told:send(k) end
        gate:receive()
      end, told, gate, i % 7 == 0 and i % 700 or 0)
    end
    for _, p in ipairs(all) do parked(p) end
    local function key(r, sort) return sort == "messages" and r.sent + r.received or r[sort] end
    for _, sort in ipairs { "id", "sent", "messages" } do
      local whole = process.list { sort = sort }
      assert.is_true(#whole > n)
      for i = 2, #whole do
        local a, b = key(whole[i - 1], sort), key(whole[i], sort)
        assert(sort == "id" and a < b or sort ~= "id" and a >= b, sort)
      end
      for _, most in ipairs { 1, 2, 100, n } do
        local part = process.list { sort = sort, limit = most }
        assert.equal(most, #part)
        for i = 1, most do assert.equal(key(whole[i], sort), key(part[i], sort)) end
      end
    end
    for _, p in ipairs(all) do p:kill() end
    for _, p in ipairs(all) do p:wait() end
  end)

  it("has the one that asks, and says of the first what it is", function()
    local r = record_of(process.self())
    assert.equal("running", r.status)
    assert.is_true(r.kind == "main" or r.kind == "host")
    local own = select(2, process.spawn(function()
      local process = require "mare.process"
      for _, r in ipairs(process.list()) do
        if r.id == process.self().id then return r.status .. " " .. tostring(r.kind) end
      end
    end):wait())
    assert.equal("running nil", own)
  end)

  it("has failed ones as long as there are handles", function()
    local p = process.spawn(error, "x")
    p:wait()
    assert.equal("failed", record_of(p).status)
    local id = p.id
    p = nil -- luacheck: ignore 311
    collectgarbage()
    collectgarbage()
    -- its worker holds it a moment longer than it takes to wake who waits for it
    assert.is_true(soon(function()
      for _, r in ipairs(process.list()) do
        if r.id == id then return false end
      end
      return true
    end))
  end)

  it("tells of owners, fibers, priorities", function()
    local p = process.spawn { priority = "low", owned = process.self() and false, main = function(c)
      local mare = require "mare"
      mare.fiber.spawn(function() c:receive() end)
      local child = mare.process.spawn { owned = true, main = function(c) c:receive() end, args = { c } }
      c:receive()
    end, args = { gate } }
    local r = soon(function()
      local r = record_of(p)
      return r.fibers == 2 and r.status == "waiting" and r
    end)
    assert.same({ "low", "receive" }, { r.priority, r.waits })
    local child = soon(function()
      for _, r in ipairs(process.list()) do
        if r.parent == p.id then return r end
      end
    end)
    assert.equal(p.id, child.owner)
  end)

  it("is in the order that is asked for", function()
    local small, large = waiter(), process.spawn(function(c)
      local t = {}
      for i = 1, 100000 do t[i] = i end
      c:receive()
      return #t
    end, gate)
    parked(large)
    local all = process.list()
    for i = 2, #all do assert.is_true(all[i - 1].id < all[i].id) end
    local by_heap = process.list { sort = "heap" }
    for i = 2, #by_heap do assert.is_true(by_heap[i - 1].heap >= by_heap[i].heap) end
    assert.is_true(record_of(large).heap > record_of(small).heap + 1000000)
    for _, sort in ipairs { "id", "cpu", "heap", "messages", "sent", "received", "restarts" } do
      for n = 0, 3 do assert.equal(n, #process.list { sort = sort, limit = n }) end        -- there are three at least
      assert.is_true(#process.list { sort = sort, limit = 1000000 } >= 3)
    end
    local best = process.list { sort = "heap", limit = 3 }
    assert.is_true(best[1].heap >= best[2].heap and best[2].heap >= best[3].heap and best[2].heap >= record_of(small).heap)
  end)

  it("gives handles if they are asked for", function()
    local p = waiter()
    assert.equal(p, record_of(p, { handles = true }).handle)
    assert.is_nil(record_of(p, { handles = false }).handle)
  end)

  it("leaves the collector running when there is no memory for it", function()
    for _ = 1, 500 do waiter() end
    local p = process.spawn { memory = 1024 * 1024, main = function()
      local process, kept = require "mare".process, {}
      local ok, e = pcall(function()
        for i = 1, 1000 do kept[i] = process.list() end
      end)
      for i in pairs(kept) do kept[i] = nil end
      return ok, e, collectgarbage "isrunning"
    end }
    assert.same({ true, false, "not enough memory", true }, { p:wait() })
  end)

  it("refuses what it does not know", function()
    assert.error_matches(function() process.list { sort = "size" } end, "list: 'sort' must be \"id\", \"cpu\"")
    assert.error_matches(function() process.list { sort = 1 } end, "list: 'sort' must be")
    assert.error_matches(function() process.list { limit = -1 } end, "list: 'limit' must be a whole number, 0 or more")
    assert.error_matches(function() process.list { limit = 1.5 } end, "list: 'limit' must be")
    assert.error_matches(function() process.list { order = "id" } end, "list: unknown field 'order'; there are sort, limit, handles")
    assert.error_matches(function() process.list "cpu" end, "table expected")
  end)

  it("counts how often a supervisor has started a child again", function()
    local supervisor = require "mare.supervisor"
    local go = channel.new()
    local s = supervisor.start { report = false, intensity = 100, children = {
      { id = "child", start = function(go) go:receive() error "again" end, args = { go } } } }
    for n = 0, 3 do
      local r = soon(function()
        for _, r in ipairs(process.list { sort = "restarts" }) do
          if r.owner == s.process.id and r.restarts == n and r.status == "waiting" then return r end
        end
      end)
      assert.equal(n, r.restarts)
      go:send(1)
    end
    s:stop()
  end)
end)

describe("messages", function()
  it("are counted where they leave and where they arrive", function()
    local out, back = channel.new(), channel.new(10)
    local p = process.spawn(function(out, back)
      for _ = 1, 4 do back:send(1) end
      back:send { 1, 2 }
      back:send(("x"):rep(10000))
      for _ = 1, 3 do out:receive() end
      local mare = require "mare"
      mare.select { out }
      mare.select { back:sending { "s" } }
      out:receive()
    end, out, back)
    out:send(1)
    out:send { "a table" }
    out:send(("long"):rep(10000))
    out:send(4)
    local r = soon(function()
      local r = record_of(p)
      return r.received == 4 and r.sent == 7 and r
    end)
    assert.same({ 7, 4 }, { r.sent, r.received })
    out:close()
    p:wait()
  end)

  it("that are not taken, or come too late, don't count", function()
    local c = channel.new()
    local gate = channel.named "look.gate"
    local gate_name = "channel 'look.gate'"
    local p = process.spawn(function(c, gate)
      c:send_within(0.001, 1)
      c:send_within(0.001, {})
      c:receive(0.001)
      c:try_send(1)
      gate:receive()
    end, c, gate)
    local r = soon(function()
      local r = record_of(p)
      return r.waits == "receive" and p:info().on == gate_name and r
    end)
    assert.same({ 0, 0 }, { r.sent, r.received })
    gate:close()
  end)
end)

describe("cpu", function()
  it("grows while a process computes, though it never stops", function()
    local p, idle = busy(), waiter()
    soon(function() return record_of(p).cpu > 0.02 end)
    assert.is_true(record_of(idle).cpu < record_of(p).cpu)
    local before = record_of(p).cpu
    soon(function() return record_of(p).cpu > before end)
    finish(p)
  end)
end)

describe("process.totals", function()
  it("counts what happens", function()
    local before = process.totals()
    local c = channel.new(10)
    for n = 1, 5 do
      process.spawn(function(c, i)
        c:send(i)
        if i == 5 then error "x" end
      end, c, n):wait()
    end
    for _ = 1, 5 do c:receive() end
    local t = process.totals()
    assert.is_true(t.spawned - before.spawned >= 5 and t.ended - before.ended >= 5 and t.failed - before.failed >= 1)
    assert.is_true(t.sent - before.sent >= 5 and t.received - before.received >= 5)
    assert.is_true(t.dispatches > before.dispatches and t.up > before.up and t.memory > 0)
    assert.equal(process.workers(), #t.workers)
    for _, w in ipairs(t.workers) do
      assert.is_true(w.busy <= t.up + 1 and w.dispatches >= 0 and w.steals >= 0 and w.queued >= 0)
    end
  end)
end)

local here = debug.getinfo(1, "S").short_src:gsub("%p", "%%%0")
local function endless(up) up:send(1) while true do end end

describe("handle:info", function()
  it("says where a process waits and for what", function()
    local named = channel.named "look.results"
    local p = parked(process.spawn(function(c) c:receive() end, named))
    local i = p:info()
    assert.same({ p.id, "waiting", "receive" }, { i.id, i.status, i.waits })
    assert.matches(here .. ":%d+$", i.where)
    assert.matches(named and "^channel 'look.results'$" or "^channel ", i.on)
    assert.is_true(i.memory > 1000)
    if named then named:close() end
    finish(p)
  end)

  it("names the process that is waited for", function()
    local first = waiter()
    local p = parked(process.spawn(function(q) q:wait() end, first))
    local i = p:info()
    assert.same({ "process #" .. first.id, "wait", "waiting" }, { i.on, i.waits, i.status })
  end)

  it("says where most fibers of a process stand", function()
    local function serve(c)
      local none = channel.new()
      for _ = 1, 3 do fiber.spawn(function() return (none:receive()) end) end
      return (c:receive())
    end
    local p = parked(process.spawn(serve, gate))
    local i
    repeat i = p:info(60) until i.fibers == 4 and i.there == 3
    assert.equal(("%s:%d"):format(here:gsub("%%", ""), debug.getinfo(serve, "S").linedefined + 2), i.where)
    gate:send(1)
    p:kill()
  end)

  it("says the line of a fiber that has one, however many stand in C code only", function()
    local function waits(n)
      local all = {}
      for i = 1, n do all[i] = fiber.spawn(mare.sleep, 3600) end
      all[1]:wait()
    end
    local at = ("%s:%d"):format(here:gsub("%%", ""), debug.getinfo(waits, "S").linedefined + 3)
    for _, n in ipairs { 1, 3 } do
      local p = parked(process.spawn(waits, n))
      local i
      repeat i = p:info(60) until i.fibers == n + 1 and i.where == at
      assert.same({ 1, "wait for a fiber" }, { i.there, i.waits })
      p:kill()
    end
  end)

  it("says where one computes", function()
    local p = busy(endless)
    local i = p:info(60)
    assert.matches(here .. ":%d+$", i.where)
    assert.is_nil(i.on)
    finish(p)
  end)

  it("tells of links and names", function()
    local p = process.spawn { linked = false, main = function(gate)
      local process = require "mare.process"
      process.spawn { linked = true, main = function(gate) gate:receive() end, args = { gate } }
      gate:receive()
    end, args = { gate } }
    process.register("look one", p)
    process.register("look two", p)
    local i = soon(function()
      local i = p:info()
      return #i.links == 1 and i
    end)
    table.sort(i.names)
    assert.same({ "look one", "look two" }, i.names)
    assert.same({}, waiter():info().names)
  end)

  it("works on the one that asks, and on one that has ended", function()
    local i = process.self():info()
    assert.same({ process.self().id, "running" }, { i.id, i.status })
    assert.matches(here .. ":%d+$", i.where)
    local p = process.spawn(function() end)
    p:wait()
    assert.same({ p.id, "done" }, { p:info().id, p:info().status })
    assert.is_nil(p:info().where)
  end)

  it("works on a host that waits in a finaliser, which says nothing of its memory", function()
    if process.self():info().kind ~= "host" then return end   -- only there a host finds mare in each build
    local r = proc.lua [[
      local mare = require "mare"
      local go, out = mare.channel.new(), mare.channel.new(1)
      mare.process.spawn(function(go, out)
        local mare = require "mare"
        for _, r in ipairs(mare.process.list { handles = true }) do
          if r.kind == "host" then
            repeat local i = r.handle:info(60) until i.waits == "receive"
            local i = r.handle:info(60)
            out:send(("%s %s %s"):format(i.status, i.waits, i.memory))
          end
        end
        go:send(true)
      end, go, out)
      do local x = setmetatable({}, { __gc = function() go:receive() end }) end
      collectgarbage()
      print(out:receive())
    ]]
    assert.equal("waiting receive nil\n", r.out, r.err)
  end)
end)

local function levels(text)
  local n = 0
  for _ in text:gmatch("\n\t") do n = n + 1 end
  return n
end

describe("handle:traceback", function()
  it("shows a parked process", function()
    local function deep(c, n)
      if n > 0 then return (deep(c, n - 1)) end
      return (c:receive())
    end
    local p = parked(process.spawn(function(c) return (deep(c, 3)) end, gate))
    local text = p:traceback()
    assert.matches("^process #" .. p.id .. ": waiting %(receive, channel .-%)\nstack traceback:\n\t%[C%]: in method 'receive'\n\t" .. here, text)
    assert.equal(6, levels(text))
  end)

  it("shows one that computes, without stopping it", function()
    local p = busy(endless)
    for _ = 1, 5 do
      assert.matches("^process #" .. p.id .. ": %a+\nstack traceback:\n\t" .. here .. ":%d+: in function", p:traceback(60))
    end
    assert.is_true(p:status() == "running" or p:status() == "ready")
    finish(p)
  end)

  it("names functions of loaded modules and globals as Lua's own tracebacks do", function()
    local function nested(c)
      local mm = { deep = function(f) return (f()) end }
      package.loaded.mm = mm
      rawset(_G, "shallow", function(f) return (f()) end)
      local function get() return (c:receive()) end
      return (mm.deep(function() return (shallow(get)) end))     -- luacheck: ignore shallow
    end
    local p = parked(process.spawn(nested, gate))
    for _ = 1, 3 do
      assert.matches("in method 'receive'\n.*in function 'shallow'\n.*in function 'mm.deep'\n", p:traceback())
    end
    gate:send(1)
    assert.is_true((p:wait()))
    local q = process.spawn(function() package.loaded.mm = { deep = function() error "oops" end } package.loaded.mm.deep() end)
    assert.matches("in function 'error'\n.*in function 'mm.deep'\n", (select(3, q:wait())))
  end)

  it("shows all coroutines a fiber is in", function()
    local function nested(c, busy)
      local function inner() if busy then c:send(1) while true do end end c:receive() end
      coroutine.wrap(function() assert(coroutine.resume(coroutine.create(inner))) end)()
    end
    local p = parked(process.spawn(nested, gate))
    local text = p:traceback()
    local _, n = text:gsub("%(this coroutine was resumed by:%)", "")
    assert.equal(2, n)
    assert.matches("in method 'receive'.*in function 'coroutine.resume'.*in function", text)
    local up = channel.new(1)
    local q = process.spawn(nested, up, true)
    up:receive()
    _, n = q:traceback(60):gsub("%(this coroutine was resumed by:%)", "")
    assert.equal(2, n)
    finish(q)
    assert.equal("waiting", (parked(p):status()))
  end)

  it("shows all fibers", function()
    local p = process.spawn(function(c)
      local mare = require "mare"
      mare.fiber.spawn { name = "second", main = function() c:receive() end }
      mare.fiber.spawn(function() mare.sleep(3600) end)
      c:receive()
    end, gate)
    soon(function() return record_of(p).fibers == 3 and p:status() == "waiting" end)
    local text = p:traceback()
    assert.matches("^process #%d+\nmain fiber: waiting %(receive, .-\nfiber #1 'second': waiting %(receive, .-\nfiber #2: waiting %(sleep%)\n", text)
    finish(p)
  end)

  it("shows one that waits where it can't yield", function()
    local p = parked(process.spawn(function(c) table.sort({ 3, 2, 1 }, function() c:receive() return false end) end, gate))
    local text = p:traceback()
    assert.matches("waiting %(receive, .-in method 'receive'.-in function 'table.sort'", text)
    local q = parked(process.spawn(function(c)
      table.sort({ 3, 2, 1 }, coroutine.wrap(function() while true do c:receive() coroutine.yield(false) end end))
    end, gate))
    assert.matches("waiting %(receive, .-in method 'receive'.-resumed by.-in function 'table.sort'", q:traceback())
  end)

  it("shows one in a mask, and in a __close", function()
    local p = process.spawn(function(c)
      local mare = require "mare"
      mare.process.masked(3600, function()
        local _ <close> = setmetatable({}, { __close = function() c:receive() end })
      end)
    end, gate)
    parked(p)
    assert.matches("in metamethod 'close'", p:traceback())
    p:cancel()
    for _ = 1, 10 do assert.matches("in metamethod 'close'", p:traceback()) end
    assert.equal("waiting", parked(p):status())
    gate:close()
    p:wait()
  end)

  it("works on the one that asks, with all its fibers", function()
    local f = fiber.spawn { name = "beside", main = function() gate:receive() end }
    mare.sleep(0.001)
    local text = process.self():traceback()
    assert.matches("^process #%d+\nmain fiber: running\nstack traceback:\n\t%[C%]: in method 'traceback'", text)
    assert.matches("\nfiber #%d+ 'beside': waiting %(receive", text)
    gate:close()
    f:wait()
  end)

  it("works on the process that has made this one", function()
    local main, back = process.self(), channel.new(1)
    process.spawn(function(main, back)
      while main:status() ~= "waiting" do require "mare.process".yield() end
      back:send(main:traceback(60))
    end, main, back)
    assert.matches("^process #%d+: waiting %(receive, .-\n\t%[C%]: in method 'receive'\n\t" .. here, (back:receive()))
  end)

  it("gives what a failure has left, nil for others", function()
    local p = process.spawn(function() error "x" end)
    p:wait()
    assert.matches("^stack traceback:.*in function 'error'", p:traceback())
    p = process.spawn(function() end)
    p:wait()
    assert.is_nil((p:traceback()))
  end)

  it("answers when the process ends meanwhile", function()
    for _ = 1, 200 do
      local p = process.spawn(function() end)
      local text = p:traceback(60)
      assert.is_true(text == nil or type(text) == "string")
      p:wait()
    end
  end)

  it("says what it can of one in a C function, and of one that has not begun", function()
    local r = proc.mare([[
      local mare = require "mare"
      local process, channel = mare.process, mare.channel
      local up = channel.new(1)
      local p = process.spawn(function(up)
        up:send(1)
        ;("a"):rep(60):find(("a?"):rep(60) .. ("a"):rep(60))
      end, up)
      up:receive()
      repeat local text = p:traceback(0.2) until text and text:find "C function"
      print(p:traceback(0.2))
      local i = p:info(0.05)
      print(i.status, i.where)
      local later, text
      repeat                                      -- it may be faster than we
        later = process.spawn(function() end)
        text = later:traceback()
      until text
      print((text:gsub("#" .. later.id, "#LATER")))
      os.exit(0)
    ]], {}, { workers = 1, timeout = 120 })
    assert.equal("", r.err)
    assert.matches("^process #2: running, in a C function, a finaliser or another place where it can't be asked\nrunning\tnil\n" ..
                   "process #LATER: has not begun\n$", r.out)
  end)

  it("takes no longer than it may", function()
    local r = proc.mare([[
      local mare = require "mare"
      local up = mare.channel.new(1)
      local p = mare.process.spawn(function(up) up:send(1) while true do end end, up)
      up:receive()
      for i = 1, 20 do p:traceback(0) end
      print "over"
      os.exit(0)
    ]], {}, { workers = 1, timeout = 120 })
    assert.same({ "over\n", "" }, { r.out, r.err })
  end)
end)
