-- luacheck: ignore 512
-- Scheduling: where a process can wait, and how many workers there are.
local mare = require "mare"
local proc = require "spec.support.proc"
local parked = require "spec.support.parked"
local temporary = require "spec.support.temporary"
local process, channel = mare.process, mare.channel

local pack = table.pack

-- What f(c) returns in a process that waits for c:receive() somewhere in it, and is sent 3 then.
local function waits_in(f, ...)
  local c = channel.new()
  local p = parked(process.spawn(f, c, ...))
  assert.is_true(c:send(3))
  local results = pack(p:wait())
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

local places = {
  ["a coroutine"] = function(c) return coroutine.wrap(function() return c:receive() end)() end,
  ["coroutines within coroutines"] = function(c)
    local function nest(n) return n == 0 and (c:receive()) or coroutine.wrap(nest)(n - 1) end
    return nest(20)
  end,
  ["a sort comparator"] = function(c)
    local t, got = { 3, 1, 2 }, nil
    table.sort(t, function(a, b)
      got = got or c:receive()
      return a < b
    end)
    return t[1] == 1 and t[3] == 3 and got
  end,
  ["a coroutine in a sort comparator"] = function(c)
    local t, got = { 2, 1 }, nil
    table.sort(t, function(a, b)
      got = got or coroutine.wrap(function() return c:receive() end)()
      return a < b
    end)
    return got
  end,
  ["__index"] = function(c) return setmetatable({}, { __index = function() return (c:receive()) end }).x end,
  ["__newindex"] = function(c)
    local got
    setmetatable({}, { __newindex = function() got = c:receive() end }).x = 1
    return got
  end,
  ["__call"] = function(c) return setmetatable({}, { __call = function() return (c:receive()) end })() end,
  ["__add"] = function(c) return setmetatable({}, { __add = function() return (c:receive()) end }) + 1 end,
  ["__eq"] = function(c)
    local mt = { __eq = function() return c:receive() == 3 end }
    return setmetatable({}, mt) == setmetatable({}, mt) and 3
  end,
  ["__lt"] = function(c) return setmetatable({}, { __lt = function() return c:receive() == 3 end }) < {} and 3 end,
  ["__len"] = function(c) return #setmetatable({}, { __len = function() return (c:receive()) end }) end,
  ["__concat"] = function(c) return setmetatable({}, { __concat = function() return (c:receive()) end }) .. "" end,
  ["__close"] = function(c)
    local got
    do
      local _ <close> = setmetatable({}, { __close = function() got = c:receive() end })
    end
    return got
  end,
  ["__tostring"] = function(c) return tonumber(tostring(setmetatable({}, { __tostring = function() return "" .. c:receive() end }))) end,
  ["__tostring under string.format"] = function(c)
    return tonumber(("%s"):format(setmetatable({}, { __tostring = function() return "" .. c:receive() end })))
  end,
  ["__pairs"] = function(c)
    for _, v in pairs(setmetatable({}, { __pairs = function() return next, { (c:receive()) } end })) do return v end
  end,
  ["an iterator"] = function(c) for v in function() return c:receive() end do return v end end,
  ["pcall"] = function(c) return select(2, pcall(c.receive, c)) end,
  ["pcall, followed by an error"] = function(c) return select(2, pcall(function() error(c:receive(), 0) end)) end,
  ["xpcall"] = function(c) return select(2, xpcall(function() return c:receive() end, debug.traceback)) end,
  ["an xpcall handler"] = function(c) return select(2, xpcall(error, function() return (c:receive()) end)) end,
  ["a gsub callback"] = function(c) return tonumber((("x"):gsub("x", function() return (c:receive()) end))) end,
  ["a load reader"] = function(c)
    local n = 0
    return load(function()
      n = n + 1
      return n == 1 and "return " .. c:receive() or nil
    end)()
  end,
  ["a chunk that was loaded"] = function(c) return load("return ((...):receive())")(c) end,
  ["table.concat with __index"] = function(c)
    return tonumber(table.concat(setmetatable({}, { __index = function() return (c:receive()) end, __len = function() return 1 end })))
  end,
  ["a module's body"] = function(c)
    package.preload.waits = function() return (c:receive()) end
    return (require "waits")
  end,
  ["a searcher of require"] = function(c)
    table.insert(package.searchers, 1, function(name)
      local v = c:receive()
      return function() return v end, name
    end)
    return (require "anything")
  end,
  ["closing a coroutine"] = function(c)
    local got
    local co = coroutine.create(function()
      local _ <close> = setmetatable({}, { __close = function() got = c:receive() end })
      coroutine.yield()
    end)
    coroutine.resume(co)
    assert(coroutine.close(co))
    return got
  end,
  ["a debug hook"] = function(c)
    local got
    debug.sethook(function()
      debug.sethook()
      got = c:receive()
    end, "l")
    local _ = 1
    return got
  end,
}

describe("a process can wait in", function()
  for name, f in pairs(places) do
    it(name, function() assert.equal(3, waits_in(f)) end)
  end

  it("a module's body in a file", function()
    local base = temporary()
    os.remove(base)
    local dir, name = base:match("^(.*)/([^/]*)$")
    local file = assert(io.open(base .. ".lua", "w"))
    file:write("return (GATE:receive())")
    file:close()
    local ok, got = pcall(waits_in, function(c)
      GATE = c -- luacheck: ignore
      package.path = dir .. "/?.lua;" .. package.path
      return (require(name))
    end)
    os.remove(base .. ".lua")
    assert.is_true(ok, got)
    assert.equal(3, got)
  end)

  it("every one of these places when the worker is alone and 50 do so at once", function()
    local before = process.workers(1)
    local c, done, n = channel.new(), channel.new(math.huge), 0
    for _, f in pairs(places) do
      process.spawn(function() done:send((f(c))) end)
      n = n + 1
    end
    for _ = 1, n do c:send(3) end
    for _ = 1, n do assert.equal(3, done:receive()) end
    process.workers(before)
  end)

  it("but not in a finaliser: that is an error there", function()
    local _, err = process.spawn(function()
      local c, err = channel.new(), nil
      setmetatable({}, { __gc = function() err = select(2, pcall(c.receive, c)) end })
      collectgarbage()
      return err
    end):wait()
    assert.equal(true, _)
    assert.matches("cannot wait in a finaliser", err)
  end)
end)

describe("the main script can wait in", function()
  local searchers = #package.searchers           -- in plain Lua mare has one of its own there
  for name, f in pairs(places) do
    it(name, function()
      local c = channel.new()
      local p = process.spawn(function() return c:send(3) end)
      local results = pack(pcall(f, c))
      package.preload.waits, package.loaded.waits, package.loaded.anything = nil, nil, nil
      if #package.searchers > searchers then table.remove(package.searchers, 1) end
      assert.is_true(results[1], results[2])
      assert.equal(3, results[2])
      assert.is_true(p:wait())
    end)
  end
end)

describe("a wait inside a coroutine", function()
  it("suspends the process, not the coroutine: its resumer does not see it", function()
    assert.same({ true, "1 a 2 b 3" }, { process.spawn(function()
      local c = channel.new(10)
      local feeder = process.spawn(function()
        mare.sleep(0.005)
        c:send("a")
        mare.sleep(0.005)
        c:send("b")
      end)
      local log = {}
      local co = coroutine.wrap(function()
        coroutine.yield(1)
        log[#log + 1] = c:receive()
        coroutine.yield(2)
        log[#log + 1] = c:receive()
        return 3
      end)
      for _ = 1, 3 do
        local v = co()
        if log[#log] ~= nil and v > 1 then log[#log], log[#log + 1] = log[#log], v else log[#log + 1] = v end
      end
      feeder:wait()
      return table.concat(log, " ")
    end):wait() })
  end)

  it("leaves the results of yield, resume, status, running and isyieldable as they are", function()
    local function program(pause)
      local log = {}
      local function note(...)
        local t = table.pack(...)
        for i = 1, t.n do t[i] = type(t[i]) == "thread" and "thread" or tostring(t[i]) end
        log[#log + 1] = table.concat(t, " ")
      end
      local co
      co = coroutine.create(function(a, b)
        note("args", a, b, coroutine.status(co), coroutine.isyieldable(), select(2, coroutine.running()))
        pause()
        note("yield", coroutine.yield(1, nil, 3))
        pause()
        note(pcall(function()
          pause()
          coroutine.yield("in pcall")
          pause()
          error("oops", 0)
        end))
        local inner = coroutine.wrap(function() pause() note(coroutine.status(co)) error({}, 0) end)
        note(pcall(pcall, inner))
        note(coroutine.resume(co))
        pause()
        return "end", nil
      end)
      note(coroutine.status(co), coroutine.resume(co, "x", nil))
      note(coroutine.status(co), coroutine.resume(co, "y"))
      note(coroutine.status(co), coroutine.resume(co))
      note(coroutine.status(co), coroutine.resume(co))
      note(coroutine.resume(coroutine.running()))
      note(select(2, coroutine.running()), coroutine.isyieldable())
      note(pcall(coroutine.wrap(function() pause() error("w") end)))
      note(pcall(coroutine.close, coroutine.running()))
      note(coroutine.close(coroutine.create(print)))
      return (table.concat(log, "\n"):gsub("0x%x+", "ADDR"))
    end
    local expected = program(function() end)
    local ok, got = process.spawn(function()
      return program(function() require "mare".sleep(0.0005) end)
    end):wait()
    assert.is_true(ok, got)
    -- A process's body is no main coroutine's: it may be yieldable, which only mare sees. Everything else is the same.
    assert.equal(expected, got)
  end)
end)

describe("process.yield", function()
  it("lets others run and comes back, in coroutines and callbacks too", function()
    assert.same({ true, "done" }, { process.spawn(function()
      process.yield()
      coroutine.wrap(process.yield)()
      local t = { 2, 1 }
      table.sort(t, function(a, b)
        process.yield()
        return a < b
      end)
      return "done"
    end):wait() })
  end)

  -- With a long quantum: turns that are long on a slow machine would have fewer of them (fair shares).
  it("alternates between processes of one worker", function()
    local r = proc.mare([[
      local mare = require "mare"
      local process, channel = mare.process, mare.channel
      local order, list = channel.new(math.huge), {}
      for i = 1, 2 do
        list[i] = process.spawn(function()
          for _ = 1, 50 do
            order:send(i)
            process.yield()
          end
        end)
      end
      for i = 1, 2 do list[i]:wait() end
      local n, last = 0, nil
      for _ = 1, 100 do
        local v = order:receive()
        if v ~= last then n, last = n + 1, v end
      end
      print(n)
    ]], {}, { workers = 1, env = { MARE_QUANTUM = "1000" } })
    assert.is_true(tonumber(r.out) > 90, r.out .. r.err)
  end)
end)

-- Names of this OS process's threads: how many workers run or wait for work.
local function threads()
  local n = 0
  local list = io.popen("ls /proc/" .. io.open("/proc/self/stat"):read("n") .. "/task")
  for _ in list:lines() do n = n + 1 end
  list:close()
  return n
end

-- nil when the thread that opened the file has ended before it was read.
local function thread_id()
  local file <close> = assert(io.open("/proc/thread-self/stat"))
  return (file:read("n"))
end

describe("process.workers", function()
  it("tells how many there are and refuses nonsense", function()
    local n = process.workers()
    assert.is_true(n >= 1)
    assert.equal(n, process.workers(n))
    for _, bad in ipairs { 0, -1, 1000, 1.5, "x" } do
      assert.error(function() process.workers(bad) end)
    end
    assert.equal(n, process.workers())
  end)

  it("changes the number under load: 8, 6, 1, 8, 3, and work runs on each", function()
    local before = process.workers()
    local stop = channel.new()
    local load, ring = {}, {}
    -- load: processes that compute, that pass messages on, and that wait where they can't yield
    for i = 1, 12 do
      load[i] = process.spawn(function()
        local n = 0
        repeat
          for _ = 1, 2000 do n = n + 1 end
          process.yield()
        until stop:closed()
        return n
      end)
    end
    for i = 1, 4 do ring[i] = channel.new() end
    for i = 1, 4 do
      load[#load + 1] = process.spawn(function()
        local list = { 2, 1 }
        for v in ring[i]:each() do
          table.sort(list, function(a, b)
            process.yield()
            return a < b
          end)
          if not ring[i % 4 + 1]:send_within(5, v + 1) then break end
        end
        return 1
      end)
    end
    ring[1]:send(1)
    -- On how many threads processes that compute are seen; waits until there are n of them, at least 30 ms.
    local function seen(n)
      local ids, enough, list = channel.new(math.huge), channel.new(), {}
      for i = 1, 2 * n do
        list[i] = process.spawn(function()
          local last
          repeat
            local id = thread_id()
            if id and id ~= last then
              ids:send(id)
              last = id
            end
          until enough:closed()
        end)
      end
      local distinct, count, start = {}, 0, mare.clock()
      repeat
        local id = ids:receive(0.01)
        if id and not distinct[id] then distinct[id], count = true, count + 1 end
        local time = mare.clock() - start
      until (count >= n and time > 0.03 and #ids == 0) or time > 10
      enough:close()
      for i = 1, 2 * n do assert.is_true(list[i]:wait()) end
      return count
    end
    for _, n in ipairs { 8, 6, 1, 8, 3 } do
      process.workers(n)
      assert.equal(n, process.workers())
      local count
      local deadline = mare.clock() + 60 * proc.slow
      repeat count = seen(n) until count == n or mare.clock() > deadline     -- surplus ones end at their next look
      assert.equal(n, count)
    end
    stop:close()
    for i = 1, 4 do ring[i]:close() end
    for i, p in ipairs(load) do
      local ok, n = p:wait()
      assert.is_true(ok, i .. ": " .. tostring(n))
      assert.is_true(n >= 1)
    end
    process.workers(before)
  end)

  it("spare threads go back to what is needed", function()
    -- 30 processes wait in comparators: a thread each; afterwards they are not kept busy nor growing.
    local c, list = channel.new(), {}
    local function round()
      for i = 1, 30 do
        list[i] = process.spawn(function()
          table.sort({ 2, 1 }, function(a, b)
            c:receive()
            return a < b
          end)
        end)
      end
      for i = 1, 30 do parked(list[i]) end
      for _ = 1, 30 do c:send(1) end
      for i = 1, 30 do assert.is_true(list[i]:wait()) end
    end
    for _ = 1, 4 do round() end
    local most, deadline = process.workers() + 8, mare.clock() + 40 * proc.slow
    while threads() > most and mare.clock() < deadline do mare.sleep(0.01) end
    assert.is_true(threads() <= most, threads() .. " threads")
  end)

  it("can be set by a process too", function()
    local before = process.workers()
    assert.same({ true, before }, { process.spawn(function() return require "mare.process".workers(2) end):wait() })
    assert.equal(2, process.workers(before))
  end)
end)

describe("too many waits in callbacks", function()
  it("are an error that names the remedy, and the program goes on", function()
    local r = proc.lua([[
      local mare = require "mare"
      local process, channel = mare.process, mare.channel
      local c, list = channel.new(), {}
      for i = 1, 8 do
        list[i] = process.spawn(function()
          local got
          table.sort({ 2, 1 }, function(a, b) got = got or c:receive(); return a < b end)
          return got
        end)
      end
      local function begun(p) return p:status() == "waiting" or p:status() == "failed" end
      for i = 1, 8 do while not begun(list[i]) do process.yield() end end
      local failed, err = 0
      for i = 1, 8 do
        local ok, e = list[i]:wait(0)
        if ok == false then failed, err = failed + 1, e end
      end
      print(failed, err)
      for i = 1, 8 - failed do c:send(i) end
      for i = 1, 8 do list[i]:wait() end
      print("end")
    ]], {}, { env = { MARE_SPARES = "5" } })
    assert.equal("", r.err)
    assert.matches("^[1-3]\t.*too many processes wait inside calls that cannot yield", r.out)
    assert.matches("end\n$", r.out)
  end)
end)
