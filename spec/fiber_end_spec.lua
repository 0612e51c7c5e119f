-- luacheck: ignore 211 241 311 331 512
-- Fibers: failures, ends, their own coroutines, deadlocks, and the main script of plain Lua.
local mare = require "mare"
local proc = require "spec.support.proc"
local parked = require "spec.support.parked"
local process, channel, fiber = mare.process, mare.channel, mare.fiber

local pack = table.pack

-- What a script prints in a mare process of its own, or as the main script of plain Lua.
local function script(text, host)
  local head = "local mare = require 'mare' local fiber, process, channel = mare.fiber, mare.process, mare.channel\n"
  local r = proc[host and "lua" or "mare"](head .. text)
  assert.is_false(r.timeout, "it hangs:\n" .. r.out .. r.err)
  return r.out, r.err, r.code
end

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

  it("of the main script of mare run ends its siblings, too: a server whose start failed doesn't stay", function()
    local out, err, code = script([[
      local listener = require "mare.net".listen("127.0.0.1:0")
      for i, wait in ipairs { function() listener:accept() end, function() mare.sleep(3600) end, function() channel.new():receive() end } do
        fiber.spawn(function()
          local guard <close> = setmetatable({}, { __close = function() print("closed " .. i) end })
          wait()
        end)
      end
      fiber.yield()
      error("no configuration", 0)
    ]])
    local lines = {}
    for line in out:gmatch("[^\n]+") do lines[#lines + 1] = line end
    table.sort(lines)
    assert.same({ "closed 1", "closed 2", "closed 3" }, lines)
    assert.matches("^mare: no configuration\n", err)
    assert.is_nil(err:find("deadlock", 1, true))
    assert.equal(1, code)
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

  it("is told by what its error says of itself, and by its type if that fails, too", function()
    for _, host in ipairs { false, true } do
      local out, err, code = script([[
        local e = setmetatable({}, { __tostring = function() return "no such thing\nat all" end })
        local waits = setmetatable({}, { __tostring = function() mare.sleep(0.01) return "it waited" end })
        local fails = setmetatable({}, { __tostring = function() error("no text", 0) end })
        local none = setmetatable({}, { __tostring = function() return {} end })
        for i, what in ipairs { e, waits, fails, none, 12.5, false } do
          fiber.spawn { name = "f" .. i, main = function() error(what, 0) end }
        end
        local kept = fiber.spawn(function() error(e, 0) end)
        fiber.yield()
        print(kept:status())
        kept = nil
        collectgarbage() collectgarbage()
        local observed = fiber.spawn(function() error(e, 0) end)
        print(select(2, observed:wait()) == e)
        print(fiber.count())]], host)
      assert.equal("failed\ntrue\n1\n", out)
      local function has(i, text) assert.truthy(err:find(("'f%d' of the main process failed: %s\nstack traceback"):format(i, text), 1, true), err) end
      has(1, "no such thing\nat all")
      for i = 2, 4 do has(i, "(error object is a table value)") end
      has(5, "12.5")
      has(6, "false")
      assert.truthy(err:find("mare: fiber #7 of the main process failed: no such thing\nat all\n", 1, true), err)
      local _, n = err:gsub("mare: fiber", "")
      assert.equal(7, n, err)
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

describe("a daemon", function()
  it("keeps no process alive: it is cancelled when only such are left, and closes what it has", function()
    local out, err, code = script([[
      for i = 1, 3 do
        fiber.spawn { name = "daemon", daemon = true, main = function()
          local guard <close> = setmetatable({}, { __close = function(_, e) print("closed " .. i .. ": " .. tostring(e):gsub("^.*: ", "")) end })
          if i == 1 then while true do mare.sleep(3600) end end
          if i == 2 then while true do pcall(mare.sleep, 3600) end end
          if i == 3 then channel.new():receive() end
        end }
      end
      fiber.spawn { daemon = true, main = function() return "ends before" end }
      fiber.spawn(function() mare.sleep(0.01) print("the last") end)
      print(fiber.count())]])
    local lines = {}
    for line in out:gmatch("[^\n]+") do lines[#lines + 1] = line end
    assert.same({ "6", "the last" }, { lines[1], lines[2] })
    table.sort(lines)
    assert.same({ "6", "closed 1: the fiber was cancelled", "closed 2: nil", "closed 3: the fiber was cancelled", "the last" }, lines)
    assert.equal("", err)
    assert.equal(0, code)
  end)

  it("ends with a main function that fails, as others do", function()
    local _, err, code = script([[
      fiber.spawn { daemon = true, main = function() mare.sleep(3600) end }
      fiber.yield()
      error("main fails", 0)]])
    assert.matches("^mare: main fails\n", err)
    assert.equal(1, code)
  end)

  it("leaves the results of its process alone", function()
    local p = process.spawn(function()
      fiber.spawn { daemon = true, main = function() while true do mare.sleep(0.001) end end }
      mare.sleep(0.01)
      return "result", 2
    end)
    assert.same(pack(true, "result", 2), pack(p:wait(20)))
  end)

  it("is checked", function()
    assert.error_matches(function() fiber.spawn { main = print, daemon = 1 } end, "'daemon' must be true or false, got 1")
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
      fiber.spawn(function() while true do pcall(c.receive, c) end end)
      fiber.spawn(function() while true do pcall(c.send, channel.new(), 1) end end)
      fiber.spawn(function() while true do pcall(fiber.yield) end end)
      fiber.spawn(function() while true do pcall(fiber.spawn, function() end) fiber.yield() end end)
      fiber.spawn(function()
        local x <close> = setmetatable({}, { __close = function() log:send "closed" end })
        coroutine.wrap(function() c:receive() end)()
      end)
      fiber.spawn(function() table.sort({ 2, 1 }, function() mare.sleep(1000) end) end)
      fiber.yield()                              -- all have begun
      mare.sleep(0.005)
      fiber.spawn(function() log:send "must not begin" end)
      error "main fails"
    end)
    local ok, err = p:wait()
    assert.is_false(ok)
    assert.matches("main fails", err)
    log:close()
    local got = {}
    for what, why in log:each() do got[#got + 1] = what .. (why and why.message or "") end
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

describe("a deadlock report", function()
  it("does not come while a sibling is ready, though the process's worker was taken away meanwhile", function()
    local text = [[
      local mare = require "mare"
      for i = 1, 4 do
        local f = mare.fiber.spawn(function() return i end)
        mare.process.spawn(function() end)                   -- wants the worker
        table.sort({ 2, 1 }, function(a, b)                   -- can't be interrupted
          local start = mare.clock()
          while mare.clock() - start < 0.06 do end
          return a < b
        end)
        f:wait()
      end
      print "fine"]]
    local r = proc.mare(text, {}, { workers = 1 })
    assert.same({ "fine\n", "" }, { r.out, r.err })
  end)

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

  it("a finaliser that waits when the script has ended runs no fiber: what those wait for is gone", function()
    for _, wait in ipairs { "return mare.sleep(0.1)", "mare.sleep(0.1) fiber.yield()", "coroutine.wrap(function() mare.sleep(0.1) end)()" } do
      local out, err, code = script(([[
        KEPT = setmetatable({}, { __gc = function() print "finaliser" %s end })
        local ran = 0
        collectgarbage "stop"                      -- not before it is asked for
        setmetatable({}, { __gc = function() repeat mare.sleep(0.01) until ran > 0 end })
        for _ = 1, 3 do
          fiber.spawn(function() channel.new():receive(0.02) ran = ran + 1 end)
          fiber.spawn(function() mare.select { channel.new(), timeout = 0.02 } ran = ran + 1 end)
        end
        fiber.yield()
        collectgarbage()                           -- a finaliser that waits while the script runs lets them run
        assert(ran > 0, ran)
        fiber.spawn(function() channel.new():receive(0.02) print "never" end)
        fiber.yield()
        print "end"]]):format(wait), true)
      assert.same({ "end\nfinaliser\n", "", 0 }, { out, err, code })
    end
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

describe("a fiber that is cancelled", function()
  it("gets an error where it waits, and whoever waits for it learns of it", function()
    local c, log = channel.new(), {}
    local waits = { function() c:receive() end, function() mare.sleep(3600) end, function() mare.select { c, channel.new() } end,
                    function() process.spawn(function() end):wait() c:receive() end }
    for i, wait in ipairs(waits) do
      local f = fiber.spawn(function()
        local guard <close> = setmetatable({}, { __close = function() log[#log + 1] = i end })
        wait()
      end)
      fiber.yield()
      assert.is_true(f:cancel())
      local ok, err, trace = f:wait()
      assert.is_false(ok)
      assert.matches("the fiber was cancelled$", err)
      assert.matches("traceback", trace)
      assert.equal("failed", f:status())
      assert.is_false(f:cancel())
    end
    assert.same({ 1, 2, 3, 4 }, log)
  end)

  it("may clean up, but pcall does not keep it alive", function()
    local tries, closed = 0, false
    local f = fiber.spawn(function()
      local guard <close> = setmetatable({}, { __close = function() closed = true end })
      while true do
        tries = tries + 1
        pcall(mare.sleep, 3600)
      end
    end)
    fiber.yield()
    f:cancel()
    assert.is_false((f:wait()))
    assert.equal(2, tries)
    assert.is_true(closed)
  end)

  it("does not begin if it had not, and stops where it yields or waits next", function()
    local begun = false
    local f = fiber.spawn(function() begun = true end)
    f:cancel()
    local ok, err = f:wait()
    assert.is_false(ok)
    assert.same({ "the fiber was cancelled", "cancelled" }, { tostring(err), err.kind })
    assert.is_false(begun)
    local turns = 0
    local g = fiber.spawn(function() while true do turns = turns + 1 fiber.yield() end end)
    fiber.yield()
    local before = turns
    g:cancel()
    assert.matches("the fiber was cancelled$", select(2, g:wait()))
    assert.equal(before + 1, turns)
    local c = channel.new()
    local h = fiber.spawn(function() local n = c:receive() c:receive() return n end)
    fiber.yield()
    c:send(1)                                    -- it is ready with its message, and gets it
    h:cancel()
    assert.matches("the fiber was cancelled$", select(2, h:wait()))
  end)

  it("loses no message that others wait for", function()
    local c = channel.new()
    local f = fiber.spawn(function() c:receive() end)
    local g = fiber.spawn(function() return c:receive() end)
    fiber.yield()
    f:cancel()
    c:send("for the second")
    assert.same(pack(true, "for the second"), pack(g:wait()))
    assert.is_false((f:wait()))
  end)

  it("is no other than the caller", function()
    local f
    f = fiber.spawn(function() return pcall(f.cancel, f) end)
    local _, ok, err = f:wait()
    assert.is_false(ok)
    assert.matches("can't cancel itself", err)
  end)

  it("may wait inside a coroutine", function()
    local out, err = script([[
      local f = fiber.spawn(function() coroutine.wrap(function() mare.sleep(3600) end)() end)
      fiber.yield()
      f:cancel()
      print(f:wait())
    ]])
    assert.matches("^false\t[^\n]*the fiber was cancelled", out)
    assert.equal("", err)
  end)

  it("is cancelled in plain Lua, too", function()
    for _, host in ipairs { false, true } do
      local out, err, code = script([[
        local f = fiber.spawn(function() while true do pcall(mare.sleep, 3600) end end)
        fiber.yield()
        mare.sleep(0.001)
        print(f:cancel())
        print(f:wait())
      ]], host)
      assert.matches("^true\nfalse\t[^\n]*the fiber was cancelled", out)
      assert.equal("", err)
      assert.equal(0, code)
    end
  end)
end)

describe("a fiber that rests", function()
  it("goes on when a sibling wakes it, once, and says whether it rested", function()
    local turns = 0
    local f = fiber.spawn(function() for _ = 1, 3 do fiber.rest() turns = turns + 1 end end)
    assert.is_false(f:wake())                    -- it has not begun
    fiber.yield()
    assert.is_true(f:wake())
    assert.is_false(f:wake())                    -- it is woken already
    fiber.yield()
    assert.equal(1, turns)
    assert.is_true(f:wake())
    fiber.yield()
    assert.is_true(f:wake())
    assert.is_true((f:wait()))
    assert.is_false(f:wake())
    assert.equal(3, turns)
    local other = fiber.spawn(function() channel.new():receive() end)
    fiber.yield()
    assert.is_false(other:wake())                -- it waits for something else
    other:cancel()
    assert.is_false((other:wait()))
  end)

  it("relieves the one that named it, when that waits, and only then", function()
    local log, gate, c = {}, channel.new(), channel.new()
    local standby = fiber.spawn(function() while true do fiber.rest() log[#log + 1] = "standby" end end)
    fiber.yield()
    local f = fiber.spawn(function()
      assert(fiber.relief(standby))
      log[#log + 1] = "did not wait"
      assert(fiber.relief())                     -- still there: taken back
      assert(not fiber.relief())
      gate:receive()
      assert(fiber.relief(standby))
      log[#log + 1] = "waits"
      c:receive()
      log[#log + 1] = "got it"
      assert(not fiber.relief())
      assert(fiber.relief(standby))
      fiber.yield()                              -- yielding lets others run as well
      assert(not fiber.relief())
      for _, yield in ipairs { process.yield, function() mare.sleep(0) end } do
        assert(fiber.relief(standby))
        yield()                                  -- and so does this
        assert(not fiber.relief())
      end
    end)
    gate:send(true)
    c:send(true)
    assert.same(pack(true), pack(f:wait()))
    assert.same({ "did not wait", "waits", "standby", "got it", "standby", "standby", "standby" }, log)
    standby:cancel()
    assert.is_false((standby:wait()))
  end)

  it("is no relief when it doesn't rest, or is the caller", function()
    local busy = fiber.spawn(function() mare.sleep(0.01) end)
    assert.is_false(fiber.relief(busy))
    fiber.yield()
    assert.is_false(fiber.relief(busy))
    busy:wait()
    assert.is_false(fiber.relief(busy))
    local f
    f = fiber.spawn(function() return fiber.relief(f) end)
    assert.same(pack(true, false), pack(f:wait()))
  end)

  it("may be named by one that ends, and is collected with it", function()
    local standby = fiber.spawn(function() fiber.rest() return "woken" end)
    fiber.yield()
    local f = fiber.spawn(function() fiber.relief(standby) end)
    f:wait()
    f = nil
    collectgarbage()
    assert.equal("waiting", standby:status())
    assert.is_true(standby:wake())
    assert.same(pack(true, "woken"), pack(standby:wait()))
  end)
end)
