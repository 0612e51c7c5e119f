-- luacheck: ignore 111 112 113 211 212 213 231 241 311 331 411 413 421 422 423 431 432 433 512
-- Cancelling and killing processes, and what runs then.
local mare = require "mare"
local process, channel, fiber = mare.process, mare.channel, mare.fiber
local proc = require "spec.support.proc"
local errors = require "mare.error"

-- A process that has reached its f, which gets a channel for what it tells, and the rest.
local function started(f, ...)
  local told, ready = channel.new(math.huge), channel.new(1)
  local p = process.spawn(function(f, told, ready, ...)
    ready:send(true)
    return f(told, ...)
  end, f, told, ready, ...)
  ready:receive()
  return p, told
end

-- It waits.
local function waits_now(p)
  repeat mare.sleep(0.0005) until p:status() == "waiting"
end

-- How it ends, within the patience of a loaded machine.
local function ended(p)
  local r = table.pack(p:wait(60))
  assert.is_not_nil(r[1], "it does not end")
  return table.unpack(r, 1, r.n)
end

local function all(c)
  local list = {}
  for v in function() return (c:try_receive()) end do list[#list + 1] = v end
  return table.concat(list, " ")
end

-- Waits in all sorts of places, and what computes; none ends by itself.
local waits = {
  rest = function() require "mare".fiber.rest() end,
  ["in a comparator"] = function() table.sort({ 3, 2, 1 }, function() require "mare".sleep(3600) end) end,
  loop = function() while true do end end,
  ["loop in a coroutine"] = function() coroutine.wrap(function() while true do end end)() end,
  ["loop in a comparator"] = function() table.sort({ 3, 2, 1 }, function() while true do end end) end,
  ["yield"] = function() while true do require "mare".process.yield() end end,
  ["loop under a hook"] = function()
    debug.sethook(function() end, "crl", 10)
    local function f() return 1 end
    while true do f() end
  end,
}
for name, f in pairs(require "spec.support.waits") do waits[name] = f end

describe("handle:cancel", function()
  it("ends a process wherever it waits or computes, with an error of kind cancelled and the reason", function()
    for name, f in pairs(waits) do
      local p = started(function(told, f) f() end, f)
      if name ~= "receive" then mare.sleep(0.002) end
      assert.is_true(p:cancel { why = name })
      local ok, err, trace = ended(p)
      assert.is_false(ok, name)
      assert.is_true(errors.is(err, "cancelled"), name .. ": " .. tostring(err))
      assert.same({ why = name }, err.reason)
      assert.is_string(trace)
      assert.is_false(p:cancel())
    end
  end)

  it("ends a process past each pcall that it comes by, the second time", function()
    for _, f in ipairs {
      function() while true do pcall(require "mare".sleep, 3600) end end,
      function() while true do pcall(function() while true do pcall(require "mare".sleep, 0.001) end end) end end,
      function() while true do pcall(coroutine.wrap(function() while true do pcall(require "mare".sleep, 3600) end end)) end end,
      function() while true do pcall(table.sort, { 3, 2, 1 }, function() require "mare".sleep(1) end) pcall(require "mare".sleep, 1) end end,
      function() while true do coroutine.resume(coroutine.create(function() require "mare".sleep(1) end)) end end,
    } do
      local p = started(function(told, f) f() end, f)
      p:cancel("go")
      local ok, err = ended(p)
      assert.is_false(ok)
      assert.is_true(errors.is(err, "cancelled"))
      assert.equal("go", err.reason)
    end
  end)

  it("lets a process that has not begun never begin", function()
    local c = channel.new(math.huge)
    for _ = 1, 50 do
      local p = process.spawn(function(c) c:send(1) require "mare".sleep(3600) end, c)
      assert.is_true(p:cancel())
      local ok, err = ended(p)
      assert.is_false(ok)
      assert.equal("cancelled", err.kind)
    end
  end)

  it("can be caught once; who returns then has ended well", function()
    local p = started(function(told)
      local ok, err = pcall(require "mare".sleep, 3600)
      return ok, err.kind, err.reason, require "mare.error".is(err, "cancelled")
    end)
    waits_now(p)
    p:cancel(7)
    assert.same({ true, false, "cancelled", 7, true, n = 5 }, table.pack(ended(p)))
  end)

  it("raises at once in a process that cancels itself, also as its handle comes back to it", function()
    local p, told = started(function(told)
      told:send "before"
      require "mare".process.self():cancel "me"
      told:send "after"
    end)
    local ok, err = ended(p)
    assert.is_false(ok)
    assert.equal("me", err.reason)
    assert.equal("before", all(told))
    local q = started(function()
      local process = require "mare".process
      process.spawn(function(h) h:cancel "from a child" end, process.self())
      require "mare".sleep(3600)
    end)
    ok, err = ended(q)
    assert.is_false(ok)
    assert.equal("from a child", err.reason)
  end)

  it("gives all fibers of a process the error where they wait", function()
    local p, told = started(function(told)
      local mare = require "mare"
      for i = 1, 5 do
        mare.fiber.spawn(function()
          local ok, err = pcall(mare.sleep, 3600)
          told:send(err.kind .. i)
        end)
      end
      mare.fiber.yield()
      mare.sleep(3600)
    end)
    waits_now(p)
    p:cancel()
    assert.is_false((ended(p)))
    local list = {}
    for w in all(told):gmatch "%S+" do list[#list + 1] = w end
    table.sort(list)
    assert.same({ "cancelled1", "cancelled2", "cancelled3", "cancelled4", "cancelled5" }, list)
  end)

  it("keeps the first reason, also when there was none", function()
    for _, first in ipairs { "one", false } do
      local p = started(function()
        require "mare".process.masked(function() pcall(require "mare".sleep, 0.05) end)
        require "mare".sleep(3600)
      end)
      if first then p:cancel(first) else p:cancel() end
      p:cancel "two"
      local _, err = ended(p)
      assert.equal(first or nil, err.reason)
    end
  end)

  it("runs pending variables, finalisers and on_exit, in this order", function()
    local p, told = started(function(told)
      local process = require "mare".process
      process.on_exit(function(ok, err) told:send("exit1:" .. tostring(ok) .. err.kind) end)
      process.on_exit(function() told:send "exit2" end)
      FINAL = setmetatable({}, { __gc = function() told:try_send "gc" end })
      local a <close> = setmetatable({}, { __close = function() told:send "close" end })
      require "mare".sleep(3600)
    end)
    waits_now(p)
    p:cancel()
    ended(p)
    assert.equal("close exit2 exit1:falsecancelled gc", all(told))
  end)

  it("fails the waits of a __close handler of who is closed, unless it masks them", function()
    local p, told = started(function(told)
      local mare = require "mare"
      local c = mare.channel.new()
      local a <close> = setmetatable({}, { __close = function()
        mare.process.masked(function() mare.sleep(0.01) told:send "masked" end)
      end })
      local b <close> = setmetatable({}, { __close = function()
        local ok, err = pcall(mare.sleep, 3600)
        told:send(err.kind)
        ok, err = pcall(c.receive, c)
        told:send(err.kind)
      end })
      while true do pcall(mare.sleep, 3600) end
    end)
    waits_now(p)
    p:cancel()
    assert.is_false((ended(p)))
    assert.equal("cancelled cancelled masked", all(told))
  end)

  it("fails the waits of a __close handler of who returns by itself after it was told, and does not cut the handler", function()
    local p, told = started(function(told)
      local mare = require "mare"
      pcall(mare.sleep, 3600)
      local a <close> = setmetatable({}, { __close = function()
        local ok, err = pcall(mare.sleep, 3600)
        told:send(tostring(ok) .. " " .. err.kind)
        mare.process.masked(function() mare.sleep(0.01) told:send "masked" end)
      end })
      return a and nil
    end)
    waits_now(p)
    p:cancel()
    assert.is_true((ended(p)))
    assert.equal("false cancelled masked", all(told))
  end)

  it("cuts nothing in two that mare's own modules do: it comes when they have returned", function()
    local function try()
      local begun, over = channel.new(1), channel.new(1)
      local p = process.spawn(function(begun, over)
        local json = require "mare.base.json"           -- what it reads it reads in Lua
        local entered, t = false, {}
        for i = 1, 30000 do t[i] = { n = i } end
        local text, own, where = json.text(t), debug.getinfo(1, "S").source, nil
        local _, e = xpcall(function()
          begun:send(true)
          entered = true
          json.read(text)
          while true do end
        end, function(e)
          where = debug.getinfo(2, "S").source
          return e
        end)
        process.masked(over.send, over, entered, where == own, e.kind)
      end, begun, over)
      begun:receive()
      p:cancel()
      local entered, outside, kind = over:receive(60)
      assert.is_true((ended(p)))
      return entered, outside, kind
    end
    local entered, outside, kind
    for _ = 1, 50 do                               -- on a busy machine it may come before the module is entered
      entered, outside, kind = try()
      if entered then break end
    end
    assert.same({ true, true, "cancelled" }, { entered, outside, kind })
  end)

  it("is refused for the main script of plain Lua, which says why", function()
    if process.self():owner() == nil and not pcall(process.on_exit, function() end) then
      assert.error_matches(function() process.self():cancel() end, "main script can't be cancelled")
      assert.error_matches(function() process.self():kill() end, "main script can't be killed")
    end
  end)

  it("tells in a text what, where and why", function()
    local p = started(function() require "mare".sleep(3600) end)
    p:cancel "enough"
    local _, err = ended(p)
    assert.matches("cancelled: enough$", tostring(err))
    assert.matches("^process #%d+$", err.process)
    assert.matches("x: .*cancelled: enough", "x: " .. err)
  end)

  it("loses no message: what a cancelled receiver has not got is there for the next", function()
    local c, got = channel.new(), channel.new(math.huge)
    local n = proc.slow > 1 and 100 or 500
    local sender = process.spawn(function(c, n) for i = 1, n do c:send(i) end end, c, n)
    local seen, list = 0, {}
    while seen < n do
      local p = process.spawn(function(c, got)
        local process = require "mare".process
        process.masked(math.huge, function()
          for _ = 1, 20 do
            local v = c:receive(0.05)
            if v then got:send(v) else return end
          end
        end)
      end, c, got)
      p:cancel()
      local q = process.spawn(function(c) require "mare".channel.new():receive() end, c)
      q:cancel()
      while true do
        local v = got:receive(0.001)
        if not v then break end
        seen = seen + 1
        list[v] = true
      end
      local r = process.spawn(function(c, got)
        local process = require "mare".process
        process.masked(math.huge, function() for _ = 1, 20 do local v = c:receive(0.5) if not v then return end got:send(v) end end)
      end, c, got)
      mare.sleep(0.0005)
      r:cancel()
      ended(r)
      for v in function() return (got:try_receive()) end do seen = seen + 1 list[v] = true end
    end
    assert.is_true((ended(sender)))
    assert.equal(n, #list)
  end)

  it("leaves no channel locked, no sender and no receiver behind", function()
    local c = channel.new()
    for i = 1, 100 do
      local p = process.spawn(function(c, i) if i % 2 == 0 then c:receive() else c:send(("x"):rep(i * 100)) end end, c, i)
      if i % 3 == 0 then mare.sleep(0.0003) end
      p:cancel()
      ended(p)
    end
    assert.is_nil((c:try_receive()))
    assert.is_falsy((c:try_send(1)))
  end)

  it("is harmless when it comes as the process ends by itself", function()
    for i = 1, 300 do
      local p = process.spawn(function(n) local x = 0 for k = 1, n do x = x + k end return x end, i * 10)
      if i % 2 == 0 then process.yield() end
      local lived = p:cancel()
      local ok, err = ended(p)
      assert.is_true(ok or err.kind == "cancelled")
      assert.is_true(lived or ok)
    end
  end)

  it("ends a fiber in its next wait, with its reason; masked, when that is over", function()
    local f = fiber.spawn(function()
      local ok, err = pcall(mare.sleep, 3600)
      local out = process.masked(5, function() mare.sleep(0.01) return "cleaned" end)
      return err.kind, err.reason[1], out
    end)
    fiber.yield()
    f:cancel { 1 }
    assert.same({ true, "cancelled", 1, "cleaned", n = 4 }, table.pack(f:wait(60)))
    local begun = mare.clock()
    local g = fiber.spawn(function() process.masked(0.02, mare.sleep, 3600) end)
    fiber.yield()
    g:cancel "g"
    local ok, err = g:wait(60)
    assert.is_false(ok)
    assert.equal("g", err.reason)
    assert.is_true(mare.clock() - begun >= 0.02)
  end)
end)

describe("process.masked", function()
  it("keeps cancelling from waits, for its grace and no longer", function()
    local p, told = started(function(told)
      local mare = require "mare"
      local begun
      mare.process.masked(0.1, function()
        told:send "in"
        for _ = 1, 3 do mare.sleep(0.001) end
        told:send "cleaned"
        mare.sleep(3600)
      end)
    end)
    assert.equal("in", (told:receive(20)))
    local begun = mare.clock()
    p:cancel()
    local ok, err = ended(p)
    assert.is_false(ok)
    assert.equal("cancelled", err.kind)
    assert.is_true(mare.clock() - begun >= 0.1)
    assert.equal("cleaned", all(told))
  end)

  it("is not longer because a wait was opened as the cancel came", function()
    for i = 1, 200 do
      local p = process.spawn(function()
        local mare = require "mare"
        mare.process.masked(0.001, function()
          local c = mare.channel.new()
          while true do c:receive(i) mare.process.yield() mare.sleep(0.00001) end
        end)
      end)
      if i % 2 == 0 then mare.sleep(0.0002) end
      p:cancel()
      assert.is_false((ended(p)))
    end
  end)

  it("gives what the function gives, and its errors", function()
    assert.same({ 1, nil, 3, n = 3 }, table.pack(process.masked(function(...) return ... end, 1, nil, 3)))
    assert.same({ "x" }, { process.masked(0, function() return "x" end) })
    assert.error_matches(function() process.masked(error, "oops", 0) end, "^oops$")
    assert.error_matches(function() process.masked(1) end, "function")
  end)

  it("does not keep a kill off, also when the wait is opened at that moment", function()
    for i = 1, 200 do
      local p = process.spawn(function()
        local mare = require "mare"
        mare.process.masked(math.huge, function() while true do pcall(mare.sleep, 3600) end end)
      end)
      for _ = 1, i % 20 do process.yield() end
      p:kill()
      local ok, err = ended(p)
      assert.is_false(ok)
      assert.equal("killed", err.kind)
    end
  end)
end)

describe("handle:kill", function()
  it("ends a process wherever it waits or computes", function()
    for name, f in pairs(waits) do
      local p, told = started(function(told, f)
        local a <close> = setmetatable({}, { __close = function() told:try_send "close" end })
        FINAL = setmetatable({}, { __gc = function() told:try_send "gc" end })
        require "mare".process.on_exit(function() told:send "exit" end)
        require "mare".fiber.spawn(function() while true do pcall(f) end end)
        while true do pcall(f) end
      end, f)
      mare.sleep(0.002)
      assert.is_true(p:kill())
      local ok, err = ended(p)
      assert.is_false(ok, name)
      assert.is_true(errors.is(err, "killed"), name)
      assert.is_false(p:kill())
      assert.equal("", all(told), name)
    end
  end)

  it("runs finalisers that are in C: descriptors are closed", function()
    local c = channel.new()
    local p = process.spawn(function(c)
      local server = assert(require "mare.net".listen "127.0.0.1:0")
      SERVER = server
      c:send(select(2, server:address()))
      while true do pcall(c.receive, c) end
    end, c)
    local port = c:receive()
    assert.is_true(p:kill())
    ended(p)
    assert(require "mare.net".listen("127.0.0.1:" .. port)):close()
  end)

  it("takes the results of one whose main function has returned while others of its fibers live", function()
    local c = channel.new()
    local p = process.spawn(function(c)
      require "mare".fiber.spawn(function() c:send "lives" c:receive() end)
      return "result"
    end, c)
    c:receive()
    assert.is_true(p:kill())
    local ok, err = ended(p)
    assert.is_false(ok)
    assert.is_true(errors.is(err, "killed"))
  end)

  it("ends the orphan that does not listen, some seconds after its owner has ended", function()
    local c, begun = channel.new(1), channel.new(1)
    local owner = process.spawn(function(c, begun)
      c:send(require "mare".process.spawn { owned = true, main = function()
        local within = false
        while true do
          pcall(function()
            if not within then within = begun:send(true) end
            while true do end
          end)
        end
      end })
      require "mare".sleep(3600)
    end, c, begun)
    local orphan = c:receive()
    begun:receive()                            -- from here on it catches what it is told
    owner:kill()
    local ok, err = orphan:wait(120)
    assert.is_false(ok)
    assert.equal("killed", err.kind)
  end)

  it("ends one that was cancelled and does not listen", function()
    local p, told = started(function(told)
      while true do pcall(function() told:send "in" while true do end end) end
    end)
    told:receive()
    p:cancel()
    assert.equal("in", (told:receive(20)))
    p:kill()
    local ok, err = ended(p)
    assert.is_false(ok)
    assert.equal("killed", err.kind)
  end)

  it("ends one whose on_exit functions run", function()
    local p, told = started(function(told)
      require "mare".process.on_exit(function() told:send "second" end)
      require "mare".process.on_exit(function() told:send "first" while true do end end)
    end)
    assert.equal("first", (told:receive()))
    p:kill()
    ended(p)
    assert.equal("", all(told))
  end)

  it("is not noticed on stderr, nor what it stops", function()
    local r = proc.mare [[
      local mare = require "mare"
      local p = mare.process.spawn(function() mare.process.on_exit(function() mare.sleep(3600) end) end)
      local q = mare.process.spawn(function() local ok <close> = setmetatable({}, { __close = error }) mare.sleep(3600) end)
      repeat mare.sleep(0.001) until p:status() == "waiting" and q:status() == "waiting"
      p:kill() q:kill()
      p, q = nil
      collectgarbage()]]
    assert.equal("", r.err)
    assert.equal(0, r.code)
  end)
end)

describe("process.on_exit", function()
  it("can wait, for the grace time", function()
    local p, told = started(function(told)
      require "mare".process.on_exit(function(ok, err)
        require "mare".sleep(0.01)
        told:send(ok, tostring(err))
      end)
      return 1
    end)
    assert.same({ true, 1 }, { ended(p) })
    assert.same({ true, "nil" }, { told:receive(20) })
  end)

  it("makes no fiber, in a process with fibers and in one without", function()
    for _, fibers in ipairs { 0, 3 } do
      local p, told = started(function(told, fibers)
        local mare = require "mare"
        for _ = 1, fibers do mare.fiber.spawn(mare.sleep, 0.001) end
        mare.process.on_exit(function()
          local ok, err = pcall(mare.fiber.spawn, mare.sleep, 0.1)
          mare.sleep(0.005)
          told:send(err)
        end)
      end, fibers)
      assert.is_true((ended(p)))
      assert.matches("on_exit", (told:receive(20)))
    end
  end)

  it("says on stderr which function failed, and goes on with the others", function()
    local r = proc.mare [[
      local mare = require "mare"
      mare.process.spawn { name = "job", main = function()
        mare.process.on_exit(function() print "other" end)
        mare.process.on_exit(function() error("oops", 0) end)
      end }]]
    assert.equal("other\n", r.out)
    assert.equal("mare: process #2 'job': a function given to on_exit failed: oops\n", r.err)
  end)
end)

describe("a process that is to end, but does not come back", function()
  it("is named on stderr after some seconds, and ends with the program", function()
    if proc.slow > 1 then return end
    local r = proc.mare([[
      local mare = require "mare"
      local c = mare.channel.new(2)
      local p = mare.process.spawn { name = "stuck", args = { c }, main = function(c)
        setmetatable({}, { __gc = function() c:try_send(1) while true do end end })
        collectgarbage()
      end }
      local q = mare.process.spawn { name = "busy", args = { c }, main = function(c)
        c:send(1)
        while true do pcall(function() while true do end end) end
      end }
      c:receive() c:receive()
      p:cancel() q:cancel()
      local begun = mare.clock()
      p:wait(9)
      os.exit(3)]], {}, { timeout = 60 })
    assert.equal(3, r.code)
    assert.matches("^mare: process #%d+ 'stuck' was cancelled %d+ seconds ago, " ..
                     "but is still in a finaliser, a debug hook or a C function, where nothing can end it\n$", r.err)
  end)
end)

describe("the main process of mare run", function()
  it("can be cancelled by a child: the program ends with a failure", function()
    local r = proc.mare [[
      local mare = require "mare"
      local a <close> = setmetatable({}, { __close = function() print "closed" end })
      mare.process.spawn(function(h) h:cancel "by a child" end, mare.process.self())
      mare.sleep(3600)]]
    assert.equal("closed\n", r.out)
    assert.is_true(r.code ~= 0)
    assert.matches("by a child", r.err)
  end)

  it("can cancel and kill itself", function()
    for _, verb in ipairs { "cancel", "kill" } do
      local r = proc.mare("require 'mare'.process.self():" .. verb .. "() print 'after'")
      assert.equal("", r.out)
      assert.is_true(r.code ~= 0, verb)
      assert.is_false(r.timeout)
    end
  end)
end)
