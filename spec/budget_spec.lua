-- luacheck: ignore 431 241 311 331 (functions of processes name modules as this file does; values are dropped for the collector)
-- memory = { bytes, tree = true }: a process, its children and what they have sent keep one limit together.
local mare = require "mare"
local proc = require "spec.support.proc"
local process, channel = mare.process, mare.channel

local MIB <const> = 1 << 20
local OVER <const> = "not enough memory: of the %d+ bytes that 'memory' grants the process and its children together, %d+ are in use"

local function tree(bytes, main, ...)
  return process.spawn { memory = { bytes, tree = true }, main = main, args = table.pack(...) }
end

describe("memory with tree = true", function()
  it("counts what a process has queued, strings, tables and numbers", function()
    for _, value in ipairs { ("x"):rep(1000), { { 1, 2 }, "three" }, 1, true } do
      local c = channel.new(math.huge)
      local ok, err = tree(MIB, function()
        while true do c:send(value) end
      end):wait()
      assert.is_false(ok)
      assert.matches("not enough memory", err)
      assert.is_true(#c > 100 and #c < 20000, #c)
    end
  end)

  it("counts it until it is received: then there is room for the next", function()
    local c = channel.new(math.huge)
    local ok, n, err, again = tree(MIB, function()
      local n, reserve = 0, ("r"):rep(30000)
      while true do
        local fine, why = pcall(c.send, c, n)
        if not fine then
          reserve = reserve and nil
          collectgarbage()
          for i = 0, 99 do assert(c:receive() == i) end
          return n, why, pcall(c.send, c, 1)
        end
        n = n + 1
      end
    end):wait()
    assert.is_true(ok, n)
    assert.matches("not enough memory", err)
    assert.is_true(again)
    assert.equal(n - 99, #c)                               -- what was refused is nowhere
  end)

  it("counts messages in all the ways they are sent", function()
    local ways = {
      function(c, s) return c:try_send(s) end,
      function(c, s) return c:send_within(1, s) end,
      function(c, s) return require "mare".select { c:sending(s) } end,
      function(c, s) return c:send(s, 1, 2) end,
    }
    for _, way in ipairs(ways) do
      local c = channel.new(math.huge)
      local ok, err = tree(MIB, function()
        local s = ("x"):rep(1000)
        for _ = 1, 5000 do way(c, s) end
      end):wait()
      assert.is_false(ok)
      assert.matches(OVER, err)
      assert.is_true(#c < 1000)
    end
  end)

  it("a message that is over it changes neither side, also when somebody waits for it", function()
    local c = channel.new()
    local receiver = process.spawn(function() return #c:receive() end)
    while receiver:status() ~= "waiting" do process.yield() end
    local ok, fine, err, sent = tree(520000, function()
      local a, b = ("a"):rep(150000), ("b"):rep(150000)
      local fine, err = pcall(c.send, c, a, b)
      return fine, err, c:send("small")
    end):wait()
    assert.same({ true, false, true }, { ok, fine, sent })
    assert.matches(OVER, err)
    assert.same({ true, 5 }, { receiver:wait(30) })
  end)

  it("counts children and theirs, wherever they are spawned", function()
    for _, heap in ipairs { "own", "system" } do
      local ok, good, err = tree(MIB, function()
        local process = require "mare.process"
        return select(2, process.spawn(function()
          local process = require "mare.process"
          return process.spawn { heap = heap, main = function() return #("x"):rep(200 << 20) end }:wait()
        end):wait())
      end):wait()
      assert.same({ true, false, "not enough memory" }, { ok, good, err })
    end
  end)

  it("is met by spawn, which raises", function()
    local ok, n, err, left = tree(MIB, function()
      local process, gate = require "mare.process", require "mare.channel".new()
      local n, list = 0, {}
      while true do
        local fine, why = pcall(process.spawn, function() gate:receive() end)
        if not fine then
          gate:close()
          for i = 1, n do list[i]:wait() end
          list = nil
          collectgarbage()
          return n, why, (select(3, process.memory()))
        end
        n = n + 1
        list[n] = why
      end
    end):wait()
    assert.is_true(ok, n)
    assert.is_true(n >= 20 and n < 200, n)
    assert.matches(OVER, err)
    assert.is_true(left < 100000, left)                    -- those that ended have given all back
  end)

  it("counts results and errors that nobody has taken", function()
    for _, fails in ipairs { false, true } do
      local ok, n = tree(MIB, function()
        local process, kept = require "mare.process", {}
        for i = 1, 100 do
          kept[i] = process.spawn(function()
            local s = ("x"):rep(100000)
            if fails then error(s, 0) end
            return s
          end)
          pcall(kept[i].wait, kept[i])
          if not fails and kept[i]:status() == "failed" then return i end
        end
        return select(3, process.memory())
      end):wait()
      assert.is_true(ok, n)
      assert.is_true(fails and n <= MIB or n < 12, n)
    end
  end)

  it("lies in another budget, and both hold", function()
    local ok, inner, outer, left, all = tree(4 * MIB, function()
      local process = require "mare.process"
      local function use(n) return (process.spawn { memory = { n[1], tree = true }, main = function() return #("x"):rep(n[2]) end }:wait()) end
      local inner, outer = use { 1 << 20, 2 << 20 }, use { 100 << 20, 5 << 20 }
      collectgarbage()
      return inner, outer, select(3, process.memory())
    end):wait()
    assert.same({ true, false, false, 4 * MIB }, { ok, inner, outer, all })
    assert.is_true(left < 100000, left)
  end)

  it("is given back as memory is freed, and can be used again, for ever", function()
    local ok, err = tree(2 * MIB, function()
      local process, c = require "mare.process", require "mare.channel".new(math.huge)
      for round = 1, 100 do
        c:send(("x"):rep(400000))
        assert(#c:receive() == 400000)
        local t = {}
        for i = 1, 500 do t[i] = { i } end
        if round % 10 == 0 then assert(process.spawn(function() return #("y"):rep(300000) end):wait()) end
      end
    end):wait()
    assert.is_true(ok, err)
  end)

  it("holds at the end, too: finalisers run, but not beyond it", function()
    local c = channel.new(10)
    local p = tree(MIB, function()
      for _ = 1, 3 do setmetatable({}, { __gc = function() c:try_send("ran") end }) end
      setmetatable({}, { __gc = function() local t = {} while t do t = { t, ("x"):rep(10000) .. #t } end end })
    end)
    assert.is_true((p:wait(60)))
    for _ = 1, 3 do assert.equal("ran", c:receive(0)) end
  end)

  it("counts names, and what children take over of the package library", function()
    local ok, err = tree(4 * MIB, function()
      local children, name = {}, ("n"):rep(20000)
      for i = 1, 2000 do children[i] = process.spawn { main = function() end, name = name } end
    end):wait()
    assert.is_false(ok)
    assert.matches(OVER, err)
    local n
    n, ok, err = select(2, assert(tree(4 * MIB, function()
      local stop, children, tail = channel.new(), {}, ("p"):rep(20000)
      local ok, err
      for i = 1, 2000 do
        ok, err = pcall(function()
          package.path = i .. tail
          children[#children + 1] = process.spawn(function() return stop:receive() end)
        end)
        if not ok then break end
      end
      package.path = nil
      stop:close()
      for _, c in ipairs(children) do c:wait() end
      return #children, ok, err
    end):wait()))
    assert.is_false(ok)
    assert.matches("not enough memory", err)
    assert.is_true(n > 5 and n < 150, n)                   -- a child that waits costs more than 8 KB besides its message
    ok, err = pcall(process.spawn, { main = function() end, name = ("n"):rep(MIB), memory = { MIB, tree = true } })
    assert.is_false(ok)
    assert.matches("'memory' must be at least %d+ bytes with tree = true", err)
  end)

  it("holds for luaproc's processes and messages, and their failures are told as luaproc tells them", function()
    local r = proc.mare([[
      local mare = require "mare"
      print(mare.process.spawn { memory = { 1 << 20, tree = true }, main = function()
        local luaproc = require "luaproc"
        luaproc.newchannel("stop")
        luaproc.newchannel("full", true)
        local n, reserve, ok, err = 0, ("r"):rep(50000)
        repeat
          ok, err = luaproc.newproc("luaproc.receive 'stop'")
          n = n + 1
        until not ok or n > 1000
        assert(n > 5 and n < 500 and err:find "^not enough memory: of the %d+ bytes", err)
        reserve = reserve and nil
        collectgarbage()
        assert(luaproc.delchannel("stop"))
        luaproc.wait()
        reserve = ("r"):rep(50000)
        local fine, why = pcall(function() while true do luaproc.send("full", ("x"):rep(5000)) end end)
        reserve = reserve and nil
        collectgarbage()
        assert(not fine and why:find "not enough memory", why)
        while luaproc.receive("full", true) do end
        assert(luaproc.newproc("luaproc.send('full', 'again')"))
        return luaproc.receive("full")
      end }:wait())
    ]], {}, { timeout = 60 })
    assert.equal("true\tagain\n", r.out, r.err)
  end)

  it("leaves others alone", function()
    local c = channel.new(math.huge)
    local ok = tree(MIB, function() while true do c:send(1) end end):wait()
    assert.is_false(ok)
    local many = #c
    for i = 1, 100000 do c:send(i) end
    assert.equal(many + 100000, #c)
    assert.same({ true, 10 << 20 }, { process.spawn(function() return #("x"):rep(10 << 20) end):wait() })
  end)

  it("is told from a wrong option by its name", function()
    local function refused(memory)
      local ok, err = pcall(process.spawn, { main = function() end, memory = memory })
      return not ok and err
    end
    for _, bad in ipairs { 0, -1, 0 / 0, math.huge, "1000", true, { 0 }, { -1 }, { "x" }, {}, { tree = true } } do
      assert.matches("'memory' must be a number of bytes, or { bytes, tree = true }", refused(bad), nil, true)
    end
    assert.matches("unknown field 'tre' in 'memory'", refused { MIB, tre = true })
    assert.matches("unknown field '2' in 'memory'", refused { MIB, MIB })
    assert.matches("'tree' in 'memory' must be true or false", refused { MIB, tree = 1 })
    assert.matches("'memory' must be at least %d+ bytes with tree = true", refused { 100, tree = true })
    assert.is_true((process.spawn { main = function() end, memory = { MIB } }:wait()))
    assert.is_true((process.spawn { main = function() end, memory = { MIB, tree = false } }:wait()))
  end)
end)
