-- luacheck: ignore 211 231 241 311 331
-- Heaps: limits, which bring one process alone "not enough memory", and heap = "system".
local mare = require "mare"
local proc = require "spec.support.proc"
local parked = require "spec.support.parked"
local process, channel = mare.process, mare.channel
local MIB = 1024 * 1024

local pack = table.pack

local function fill()
  local t = {}
  for i = 1, math.huge do t[i] = ("ten bytes "):rep(10) .. i end
end

for _, heap in ipairs { "own", "system" } do
  describe('memory = bytes, heap = "' .. heap .. '"', function()
    local function spawn(main, memory, ...)
      return process.spawn { main = main, memory = memory, heap = heap, args = { ... } }
    end

    it("ends the process with 'not enough memory', which wait gives", function()
      local ok, err, trace = spawn(fill, MIB):wait()
      assert.same({ false, "not enough memory" }, { ok, err })
      assert.matches("heap_spec.lua:%d+: in function", trace)
    end)

    it("can be caught, and the process goes on", function()
      assert.same(pack(true, "fine", false, "not enough memory"), pack(spawn(function()
        local ok, err = pcall(fill)
        collectgarbage()
        local t = {}
        for i = 1, 1000 do t[i] = { i } end
        return #t == 1000 and "fine", ok, err
      end, MIB):wait()))
    end)

    it("holds for one large request", function()
      for _, f in ipairs {
        function() return ("x"):rep(100 * MIB) end,
        function() return table.pack(table.unpack({}, 1, 500000)) end,
        function() return table.concat({ ("x"):rep(MIB // 2), ("y"):rep(MIB // 2) }) end,
        function() local t = {} for i = 1, MIB do t[i] = i end return t end,
        function() return string.format(("%99d"):rep(20000), table.unpack({}, 1, 0)) end,
      } do
        local ok, err = spawn(function(g)
          local good, text = pcall(g)
          return good, type(text) == "string" and #text < 1000 and text or ""
        end, MIB, f):wait()
        assert.is_true(ok, err)
        assert.is_false(err)
      end
    end)

    it("lets a process use what it may, again and again", function()
      assert.same(pack(true, true), pack(spawn(function()
        local kib = ("x"):rep(1024)
        for _ = 1, 200 do
          local s = kib:rep(400)
          assert(#s == 400 * 1024)
        end
        return true
      end, 2 * MIB):wait()))
    end)

    it("too small for a start is 'not enough memory' too", function()
      for _, bytes in ipairs { 1, 100, 1000, 3000, 5000, 8000, 12000 } do
        local ok, err = spawn("return 1", bytes):wait()
        if not ok then assert.equal("not enough memory", err) end
      end
      assert.is_false((spawn("return 1", 1):wait()))
    end)

    it("survives every limit between failing at once and success", function()
      local last
      for bytes = 4000, 60000, 900 do
        local c = channel.new(1)
        c:send({ "text", { 1, 2, 3 } })
        local ok, err = spawn(function(given)
          local t = c:receive()
          t[3] = setmetatable({}, { __gc = function() given = nil end, __close = function() end })
          local co = coroutine.wrap(function() coroutine.yield(string.format("%s", t[1])) end)
          return co() .. table.concat({ 1, 2 }, ","), #given
        end, bytes, { 1, 2 }):wait()
        if not ok then assert.matches("not enough memory", tostring(err)) end
        last = ok
      end
      assert.is_true(last)
    end)
  end)
end

describe("a process at its memory limit", function()
  it("disturbs no other", function()
    local list = {}
    for i = 1, 20 do
      list[i] = process.spawn { main = i % 2 == 0 and fill or function()
        local n = 0
        for k = 1, 100 do n = n + #("x"):rep(k) end
        return n
      end, memory = MIB }
    end
    for i = 1, 20 do
      local ok, v = list[i]:wait()
      assert.same(i % 2 == 0 and { false, "not enough memory" } or { true, 5050 }, { ok, v })
    end
  end)

  it("loses no message: receive raises, the message comes with a later receive", function()
    for _, waits in ipairs { true, false } do
      local c, ready, go = channel.new(), channel.new(), channel.new()
      local p = process.spawn { memory = 4 * MIB, main = function()
        local ballast = ("x"):rep(1900 * 1024)     -- twice as much while it is made
        if not waits then
          ready:send(true)
          go:receive()
        end
        local ok, err = pcall(c.receive, c)
        ballast = nil -- luacheck: ignore
        collectgarbage()
        local s = c:receive()
        return ok, err, #s, (c:receive())
      end }
      if waits then
        parked(p)
      else
        ready:receive()
        go:send(true)
      end
      assert.is_true(c:send(("y"):rep(2500 * 1024)))
      c:send("second")
      assert.same(pack(true, false, "not enough memory", 2500 * 1024, "second"), pack(p:wait()))
    end
  end)

  it("gets a table sent while it waits by a later receive", function()
    local c = channel.new(1)
    local p = process.spawn { memory = 6 * MIB, main = function()
      local first = c:receive()                      -- later messages can be made in place
      local ballast = ("x"):rep(2600 * 1024)
      local ok, err = pcall(c.receive, c)
      ballast = nil -- luacheck: ignore
      collectgarbage()
      local t = c:receive()
      return first[1], ok, err, #t, t[40000].id
    end }
    c:send({ "first" })
    while #c > 0 do process.yield() end
    parked(p)
    local big = {}
    for i = 1, 40000 do big[i] = { id = i } end
    c:send(big)
    assert.same(pack(true, "first", false, "not enough memory", 40000, 40000), pack(p:wait()))
  end)

  it("that never receives again leaves the message to others", function()
    local c, held = channel.new(), channel.new()
    local p = process.spawn { memory = 4 * MIB, main = function()
      local ballast = ("x"):rep(1900 * 1024)
      local ok, err = pcall(c.receive, c)
      held:send(ok, err)
      return #ballast
    end }
    local q = process.spawn(function() return c:send({ ("y"):rep(2500 * 1024) }) end)
    assert.same(pack(false, "not enough memory"), pack(held:receive()))
    assert.is_true(p:wait())
    assert.equal(2500 * 1024, #c:receive()[1])
    assert.is_true(q:wait())
  end)

  it("can still be told about with a string it can't take as result of wait", function()
    local p = process.spawn(function() return ("z"):rep(MIB) end)
    local ok, good, err, again = process.spawn { memory = MIB, main = function()
      local done, text = pcall(p.wait, p)
      return done, text, p:status()
    end }:wait()
    assert.same({ true, false, "not enough memory", "done" }, { ok, good, err, again })
    assert.equal(MIB, #select(2, p:wait()))
  end)

  it("gives its memory back when it ends", function()
    local function resident() return tonumber(io.open("/proc/self/statm"):read("a"):match("^%d+ (%d+)")) * 4 end
    local function round()
      for _ = 1, 10 // proc.slow + 1 do
        local ok = process.spawn { main = fill, memory = 8 * MIB }:wait()
        assert.is_false(ok)
      end
    end
    round()
    local before = resident()
    for _ = 1, 5 do round() end
    assert.is_true(resident() - before < 40000, "grew by KiB " .. resident() - before)
  end)
end)

describe('heap = "system"', function()
  it("runs the same programs", function()
    assert.same(pack(true, 5000, "abc", 45), pack(process.spawn { heap = "system", main = function()
      local t = {}
      for i = 1, 5000 do t[i] = { i, tostring(i) } end
      local sum = 0
      for _, v in ipairs(select(2, require "mare.process".spawn(function() return { 1, 2, 42 } end):wait())) do sum = sum + v end
      return #t, table.concat({ "a", "b", "c" }), sum
    end }:wait()))
  end)

  it("is clean at every start", function()
    for _ = 1, 20 do
      assert.is_true(process.spawn { heap = "system", main = function() leak = true string.upper = nil end }:wait()) -- luacheck: ignore
      assert.same(pack(true, nil, "function"), pack(process.spawn { heap = "system", main = function()
        return rawget(_G, "leak"), type(string.upper)
      end }:wait()))
    end
  end)
end)

describe("process.memory", function()
  it("tells what a process uses and what its heap holds", function()
    local ok, before, after, held = process.spawn(function()
      collectgarbage()
      local a = process.memory()
      local s = ("x"):rep(10 * 1024 * 1024)
      local b, h = process.memory()
      return a, b, h, #s
    end):wait()
    assert.is_true(ok, before)
    assert.is_true(after - before >= 10 * MIB and after - before < 11 * MIB)
    assert.is_true(held >= after)
  end)

  it("of a waiting process stays small", function()
    local ok, used, held = process.spawn(function() return process.memory() end):wait()
    assert.is_true(ok)
    assert.is_true(used < 16 * 1024, used)
    assert.is_true(held < 32 * 1024 or proc.config ~= "plain", held)
  end)
end)
