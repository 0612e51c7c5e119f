-- luacheck: ignore 512
-- Fibers: several threads of control in one process, their data, ends, failures and coroutines.
local mare = require "mare"
local proc = require "spec.support.proc"
local parked = require "spec.support.parked"
local process, channel, fiber = mare.process, mare.channel, mare.fiber

local function pack(...) return { n = select("#", ...), ... } end

local function run(f, ...)
  local r = pack(process.spawn(f, ...):wait())
  if not r[1] then error(r[2], 0) end
  return table.unpack(r, 2, r.n)
end

-- What a script prints in a mare process of its own, or as the main script of plain Lua.
local function script(text, host)
  local r = proc[host and "lua" or "mare"]("local mare = require 'mare' local fiber, process, channel = mare.fiber, mare.process, mare.channel\n" .. text)
  assert.is_false(r.timeout, "it hangs:\n" .. r.out .. r.err)
  return r.out, r.err, r.code
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
    assert.error_matches(function() fiber.spawn { main = print, nmae = 1 } end, "unknown field 'nmae'; there are main, args, name")
    assert.error_matches(function() fiber.spawn { name = "x" } end, "a function or {main = …} expected, got nil")
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
    assert.same(pack(n + 1, n, 1), pack(run(function(n)
      local gate, sum, list = channel.new(), 0, {}
      for i = 1, n do list[i] = fiber.spawn(function() local v = gate:receive() sum = sum + v end) end
      fiber.yield()
      local alive = fiber.count()
      for _ = 1, n do gate:send(1) end
      for i = 1, n do list[i]:wait() end
      return alive, sum, fiber.count()
    end, n)))
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
      fiber.spawn(function() return c:receive(0.001) end),
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
    assert.same({ pack(true), pack(true, true, "on", 1), nil, pack(true, 2, true, "on", 1), pack(true, "yielded"), pack(true, "yielded"),
                  pack(true, true), pack(true, nil, "timeout") }, { r[1], r[2], nil, r[4], r[5], r[6], r[7], r[8] })
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

describe("a fiber's failure", function()
  it("is given to who waits, an error of any type, with a traceback", function()
    local t = {}
    for _, e in ipairs { { "text" }, { t }, { nil, n = 1 }, { 42 }, { false } } do
      local f = fiber.spawn(function() error(e[1], 0) end)
      local ok, err, trace = f:wait()
      assert.is_false(ok)
      assert.equal(e[1], err)
      assert.matches("stack traceback:", trace)
    end
  end)

  it("ends neither its process nor its siblings, and is printed once if nobody was told", function()
    for _, host in ipairs { false, true } do
      local out, err, code = script([[
        for _, e in ipairs { "one", { 1 } } do fiber.spawn { name = "f", main = function() error(e, 0) end } end
        local seen = fiber.spawn(function() error("seen", 0) end)
        local other = fiber.spawn(function() mare.sleep(0.01) return "goes on" end)
        print(select(2, seen:wait()))
        print(other:wait())
        collectgarbage() collectgarbage()]], host)
      assert.matches("^seen\tstack traceback", out)
      assert.matches("true\tgoes on\n$", out)
      local _, n = err:gsub("mare: fiber #%d 'f' of the main process failed: ", "")
      assert.equal(2, n, err)
      assert.matches("failed: one\n", err)
      assert.matches("failed: %(error object is a table value%)\n", err)
      assert.is_nil(err:find "seen")
      assert.equal(0, code)
    end
  end)

  it("for want of memory is its own", function()
    local p = process.spawn { memory = 400 * 1024, main = function()
      local n, failed = 0, 0
      for _ = 1, 20 do
        local f = fiber.spawn(function() local t = {} for i = 1, math.huge do t[i] = { i } end end)
        local ok, err = f:wait()
        n = n + 1
        if not ok and err == "not enough memory" then failed = failed + 1 end
      end
      return n, failed, fiber.count()
    end }
    assert.same(pack(true, 20, 20, 1), pack(p:wait()))
  end)
end)

describe("a process", function()
  it("ends when its main function and all its fibers have ended; its results are those of main", function()
    local c = channel.new()
    local p = process.spawn(function()
      fiber.spawn(function() c:receive() fiber.spawn(function() c:receive() end) return "other" end)
      return "main", { 1 }
    end)
    parked(p)
    c:send(1)
    assert.same(pack(nil, "timeout"), pack(p:wait(0.002)))
    parked(p)
    c:send(2)
    assert.same(pack(true, "main", { 1 }), pack(p:wait()))
  end)

  it("whose main fails ends: the others get an error where they wait, and no pcall keeps them", function()
    local log = channel.new(math.huge)
    local p = process.spawn(function()
      local c = channel.new()
      fiber.spawn(function() local ok, err = pcall(c.receive, c) log:send("caught", err) end)
      fiber.spawn(function() while true do pcall(mare.sleep, 1000) end end)
      fiber.spawn(function() while true do pcall(mare.select, { c }) end end)
      fiber.spawn(function() while true do pcall(fiber.yield) end end)
      fiber.spawn(function() while true do pcall(fiber.spawn, function() end) fiber.yield() end end)
      fiber.spawn(function()
        local x <close> = setmetatable({}, { __close = function() log:send "closed" end })
        coroutine.wrap(function() c:receive() end)()
      end)
      fiber.spawn(function() table.sort({ 2, 1 }, function() mare.sleep(1000) end) end)
      mare.sleep(0.005)
      fiber.spawn(function() log:send "must not begin" end)
      error "main fails"
    end)
    local ok, err = p:wait()
    assert.is_false(ok)
    assert.matches("main fails", err)
    log:close()
    local got = {}
    for what, text in log:each() do got[#got + 1] = what .. (text or "") end
    table.sort(got)
    assert.same({ "caughtthe process has failed in its main function; its other fibers end", "closed" }, got)
  end)

  it("that fails prints its own failure only", function()
    local _, err = script [[
      process.spawn(function() fiber.spawn(mare.sleep, 1000) fiber.spawn(function() mare.sleep(1000) end) fiber.yield() error("main fails", 0) end)]]
    local _, n = err:gsub("failed:", "")
    assert.equal(1, n, err)
    assert.matches("process #2 failed: main fails", err)
  end)

  it("finds nothing of the fibers of the one whose state it got", function()
    for _ = 1, 200 do
      assert.same(pack(true, 1, nil, true, nil), pack(process.spawn(function()
        local n, me, empty = fiber.count(), fiber.self(), next(fiber.storage()) == nil
        local old = rawget(_G, "left")
        fiber.storage().x, _G.left = 1, 1
        fiber.spawn(function() fiber.storage().y = 1 mare.sleep(0) _G.left = 2 end)
        return n, me, empty, old
      end):wait()))
    end
  end)

  it("can be asked for its status at any moment of its end", function()
    for _ = 1, proc.slow > 1 and 200 or 2000 do
      local p = process.spawn(function() fiber.spawn(function() mare.sleep(0) end) end)
      while p:status() ~= "done" do end
    end
  end)

  it("gets messages exactly once, however many of its fibers and of other processes receive", function()
    local c, out, n = channel.new(2), channel.new(math.huge), proc.slow > 1 and 500 or 5000
    for _ = 1, 3 do
      process.spawn(function()
        for _ = 1, 7 do
          fiber.spawn(function()
            for v, t in c:each() do
              if t[1] ~= v then out:send(0) end
              out:send(v)
              if v % 5 == 0 then fiber.yield() end
            end
          end)
        end
      end)
    end
    for i = 1, n do c:send(i, { i }) end
    local seen = {}
    for _ = 1, n do
      local v = out:receive()
      assert.is_nil(seen[v])
      seen[v] = true
    end
    c:close()
    assert.is_nil(seen[0])
  end)
end)

describe("a fiber's own coroutine", function()
  for _, host in ipairs { false, true } do
    it("can't be resumed or closed by others" .. (host and ", in plain Lua" or ""), function()
      local out = script([[
        local co, c = nil, channel.new()
        local f = fiber.spawn(function() co = coroutine.running() c:receive() return print, 1 end)
        fiber.yield()
        print(coroutine.resume(co, 1))
        print(pcall(coroutine.close, co))
        print(coroutine.wrap(function() return coroutine.resume(co) end)())
        local g = fiber.spawn(function() return coroutine.resume(co) end)
        print(g:wait())
        c:send(1)
        while f:status() ~= "done" do fiber.yield() end
        print(coroutine.resume(co))
        pcall(coroutine.close, co)
        local ok, p, one = f:wait()
        print(ok, p == print, one)
        print(fiber.spawn(function() return coroutine.resume(coroutine.create(function(...) return ... end), 1, 2) end):wait())]], host)
      local lines = {}
      for line in out:gmatch "[^\n]+" do lines[#lines + 1] = line end
      assert.equal("false\tcannot resume non-suspended coroutine", lines[1])
      assert.matches("^false\tcannot close a", lines[2])
      assert.equal("false\tcannot resume non-suspended coroutine", lines[3])
      assert.equal("true\tfalse\tcannot resume non-suspended coroutine", lines[4])
      assert.matches("^false\tcannot resume", lines[5])
      assert.equal("true\ttrue\t1", lines[6])
      assert.equal("true\ttrue\t1\t2", lines[7])
    end)
  end
end)

describe("fiber.storage, self and handles:", function()
  it("storage is a table of its own for each fiber, main too", function()
    local mine = fiber.storage()
    mine.x = "main"
    local list = {}
    for i = 1, 3 do list[i] = fiber.spawn(function() local s = fiber.storage() local old = s.x s.x = i fiber.yield() return old, fiber.storage().x end) end
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

describe("a deadlock report", function()
  it("names fibers", function()
    local _, err, code = script [[
      fiber.spawn { name = "first", main = function() channel.new():receive() end }
      local f = fiber.spawn(function() channel.named "c":send(1) end)
      f:wait()]]
    assert.equal(1, code)
    assert.matches("main %(#1%): wait for a fiber at ", err)
    assert.matches("main %(#1%), fiber #1 'first': receive on channel", err)
    assert.matches("main %(#1%), fiber #2: send on channel 'c' at ", err)
  end)

  it("reaches the main script of plain Lua, and a fiber that waits inside a coroutine there", function()
    local out = script([[
      local f = fiber.spawn { name = "x", main = function() channel.new():receive() end }
      print(pcall(f.wait, f))
      f = fiber.spawn(function() return coroutine.wrap(function() return (pcall(function() channel.new():receive() end)) end)() end)
      print(f:wait())]], true)
    assert.matches("^false\t.-deadlock:.-fiber #1 'x': receive", out)
    assert.matches("true\tfalse\n$", out)
  end)
end)

describe("in plain Lua", function()
  it("fibers run while the main script waits in a call of mare, and end with it", function()
    local out, err, code = script([[
      local n = 0
      local f = fiber.spawn(function() for i = 1, 1000 do n = n + 1 mare.sleep(0.001) end print "never" end)
      assert(n == 0)
      mare.sleep(0.005)
      assert(n > 0)
      local seen = n
      for i = 1, 1e6 do end
      assert(n == seen)
      fiber.spawn(function() channel.new():receive() end)
      fiber.spawn(function() mare.select { channel.new(), mare.timer.after(3) } end)
      fiber.yield()
      process.spawn(function() mare.sleep(0.05) print "process" end)
      print "end"]], true)
    assert.same({ "end\nprocess\n", "", 0 }, { out, err, code })
  end)

  it("a fiber that always yields keeps neither a deadline nor a message from the main script", function()
    assert.equal("nil\ttimeout\n7\ntrue\n", (script([[
      local stop
      local f = fiber.spawn(function() while not stop do fiber.yield() end end)
      local c = channel.new()
      print(c:receive(0.02))
      process.spawn(function() c:send(7) end)
      print(c:receive())
      stop = true
      print(f:wait())]], true)))
  end)

  it("fibers and processes exchange messages", function()
    assert.equal("500500\n", (script([[
      local to, from, sum = channel.new(), channel.new(), 0
      process.spawn(function() for v in to:each() do from:send(v, { v }) end from:close() end)
      fiber.spawn(function() for i = 1, 1000 do to:send(i) end to:close() end)
      local list = {}
      for i = 1, 5 do list[i] = fiber.spawn(function() for v, t in from:each() do assert(t[1] == v) sum = sum + v end end) end
      for i = 1, 5 do assert(list[i]:wait()) end
      print(sum)]], true)))
  end)
end)
