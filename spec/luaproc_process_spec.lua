-- luaproc on mare, what programs see of its processes and of the module itself: the global, failures, waiting, reports, and what
-- arguments and debug functions can do to it.
local luaproc = require "luaproc"
local mare = require "mare"
local proc = require "spec.support.proc"

local fresh, results = require "spec.support.channels" "process spec ", table.pack

local in_file = { env = { LUA_PATH = (os.getenv("MARE_ROOT") or ".") .. "/lua/?.lua;;" } }

-- What the code, run as a process of luaproc with the name of an asynchronous channel as `out`, sends there.
local function outcome(code)
  local out = fresh(true)
  assert.is_true(luaproc.newproc(("local out = %q\n"):format(out) .. code))
  luaproc.wait()
  return results(luaproc.receive(out, true))
end

local function clean(r)
  assert.equal("", r.err)
  assert.equal(0, r.code)
  return r.out
end

describe("luaproc in plain Lua, with mare.so alone", function()
  local env = { LUA_PATH = "./none/?.lua", LUA_CPATH = proc.cpath, LUA_INIT = false }
  local program = [[
    luaproc.newchannel("a")
    luaproc.newproc('luaproc.send("a", luaproc == require "luaproc", luaproc == require "mare.luaproc")')
    print(luaproc.receive("a"))
  ]]

  it("is found by its name once mare was required", function()
    assert.equal("true\ttrue\n", clean(proc.lua('require "mare" require "luaproc"' .. program, {}, { env = env })))
  end)

  it("is a part of mare.so as mare.socket is", function()
    assert.equal("true\ttrue\n", clean(proc.lua('local luaproc = require "mare.luaproc"' .. program, {}, { env = env })))
  end)

  it("is one table, by whatever name", function()
    assert.equal("true\ttrue\ttrue\n", clean(proc.lua([[
      local mare = require "mare"
      local a, b = require "luaproc", require "mare.luaproc"
      package.loaded.mare = nil
      require "mare"
      print(a == b, a == luaproc, a == package.loaded.luaproc)
    ]], {}, { env = env })))
  end)

  it("is the same module when its file is found first", function()
    local found = { LUA_PATH = "./lua/?.lua", LUA_CPATH = proc.cpath, LUA_INIT = false }
    assert.equal("true\ttrue\n", clean(proc.lua('assert(require "luaproc" == require "mare.luaproc")' .. program, {}, { env = found })))
  end)

  it("leaves another luaproc alone that the program finds in a file", function()
    assert.equal("theirs\n", clean(proc.lua([[
      package.preload.luaproc = function() return "theirs" end
      require "mare"
      print((require "luaproc"))
    ]], {}, { env = env })))
  end)
end)

describe("the global luaproc of a process", function()
  it("is there without being asked for, and all its functions with it", function()
    local all = "barrier delchannel getnumworkers newchannel newproc receive recycle regudata send setnumworkers transffuncs wait"
    assert.same({ n = 1, all }, outcome [[
      local names = {}
      for name, value in pairs(luaproc) do
        if type(value) == "function" and luaproc[name] == value then names[#names + 1] = name end
      end
      table.sort(names)
      luaproc.send(out, table.concat(names, " "))
    ]])
  end)

  it("shows in the globals and in package.loaded", function()
    assert.same({ n = 3, true, true, true }, outcome [[
      local seen
      for name, value in pairs(_G) do seen = seen or name == "luaproc" and value end
      luaproc.send(out, seen == luaproc, package.loaded.luaproc == luaproc, rawget(_G, "luaproc") == luaproc)
    ]])
  end)

  it("stays away when the program sets something else, or nil", function()
    assert.same({ n = 2, "mine", "nil" }, outcome [[
      local send = require("luaproc").send
      luaproc = nil
      local before = type(luaproc)
      luaproc = "mine"
      send(out, luaproc, before)
    ]])
    assert.same({ n = 2, 7, "table" }, outcome [[
      luaproc = 7
      local kept = luaproc
      require("luaproc").send(out, kept, type(require "luaproc"))
    ]])
  end)

  it("appears under a strict mode that guards the globals", function()
    assert.same({ n = 1, "function" }, outcome [[
      setmetatable(_G, { __index = function(_, k) error("no global " .. k) end, __newindex = function(_, k) error("new " .. k) end })
      luaproc.send(out, type(luaproc.send))
    ]])
  end)

  it("is not in processes that mare.process starts", function()
    local ok, kind = mare.process.spawn("return type(luaproc)"):wait()
    assert.same({ true, "nil" }, { ok, kind })
  end)

  it("keeps what a program puts into the module", function()
    assert.same({ n = 2, "extra", "mine" }, outcome [[
      luaproc.extra = "extra"
      luaproc.wait = "mine"
      local send = luaproc.send
      for _ in pairs(luaproc) do end
      send(out, luaproc.extra, luaproc.wait)
    ]])
  end)
end)

describe("a process of luaproc", function()
  it("that fails is printed as luaproc did, with a traceback", function()
    local r = proc.mare [[
      local luaproc = require "luaproc"
      luaproc.newproc("local function f() error('wrong') end f()")
      luaproc.wait()
      io.stderr:write("after\n")
    ]]
    assert.equal(0, r.code)
    assert.matches('^close lua_State %(error: %[string "local function f%(%) error%(\'wrong\'%) end f%(%)"%]:1: wrong\nstack traceback:\n', r.err)
    assert.matches("%)\nafter\n$", r.err)
  end)

  it("may fail with any value", function()
    local r = proc.mare [[
      local luaproc = require "luaproc"
      luaproc.setnumworkers(1)
      luaproc.newproc("error({})")
      luaproc.newproc("error(nil)")
      luaproc.newproc("error(setmetatable({}, { __tostring = function() return 'shown' end }))")
      luaproc.wait()
    ]]
    assert.equal(0, r.code)
    for _, text in ipairs { "a table value", "nil", "shown" } do assert.matches("close lua_State %(error: [^\n]*" .. text, r.err) end
  end)

  it("may return anything", function()
    local r = proc.mare [[
      local luaproc = require "luaproc"
      luaproc.newproc("return coroutine.create(print)")
      luaproc.newproc(function() return io.stdout, 1 end)
      luaproc.wait()
    ]]
    assert.same({ 0, "", "" }, { r.code, r.out, r.err })
  end)

  it("lets others run by coroutine.yield, as luaproc's did", function()
    assert.same({ n = 2, true, 3 }, outcome [[
      local rounds = 0
      for _ = 1, 3 do
        coroutine.yield("ignored")
        rounds = rounds + 1
      end
      luaproc.send(out, select("#", coroutine.yield()) == 0, rounds)
    ]])
  end)

  it("takes binary code, and code with zero bytes", function()
    local out = fresh(true)
    assert.is_true(luaproc.newproc(string.dump(load(("luaproc.send(%q, 'dumped')"):format(out)))))
    assert.equal("dumped", luaproc.receive(out))
    assert.is_true(luaproc.newproc(("luaproc.send(%q, #'a\0b')"):format(out)))
    assert.equal(3, luaproc.receive(out))
  end)

  it("runs the code it was given, whatever ran before it", function()
    local out = fresh(true)
    for i = 1, 5 do
      luaproc.newproc(("luaproc.send(%q, %d)"):format(out, i // 2))
      assert.equal(i // 2, luaproc.receive(out))
    end
  end)

  it("uses luaproc in fibers, which wait one by one", function()
    local a, b, out = fresh(), fresh(), fresh(true)
    luaproc.newproc(function()
      local fiber = require("mare").fiber
      for _, name in ipairs { a, b } do
        fiber.spawn(function() luaproc.send(out, name, luaproc.receive(name)) end)
      end
    end)
    for _, name in ipairs { b, a } do
      luaproc.send(name, "for " .. name)
      assert.same(results(name, "for " .. name), results(luaproc.receive(out)))
    end
  end)

  it("waits in coroutines, comparators and metamethods", function()
    local name, out = fresh(), fresh(true)
    luaproc.newproc(function()
      local n = coroutine.wrap(function() return (luaproc.receive(name)) end)()
      local list = { 1, 2 }
      table.sort(list, function(x, y) n = n + luaproc.receive(name) return x < y end)
      local t = setmetatable({}, { __index = function() return (luaproc.receive(name)) end })
      luaproc.send(out, n, t.x, pcall(luaproc.receive, name))
    end)
    luaproc.send(name, 1)
    luaproc.newproc(function()
      while luaproc.send(name, 10) do end
    end)
    local n, x, ok, y = luaproc.receive(out)
    assert.is_true(n >= 11 and x == 10 and ok and y == 10)
    luaproc.delchannel(name)
    luaproc.wait()
  end)

  it("that is cancelled leaves its place at a barrier and in a queue", function()
    local name = fresh()
    local fiber = mare.fiber
    for _, wait in ipairs { function() luaproc.barrier(name, 2) end, function() luaproc.receive(name) end } do
      local f = fiber.spawn(wait)
      mare.sleep(0)
      f:cancel()
      assert.is_false((f:wait()))
    end
    -- had the barrier kept its place, the next one would go through alone
    local passed, list = 0, {}
    for i = 1, 2 do
      assert.equal(0, passed)
      list[i] = fiber.spawn(function()
        assert(luaproc.barrier(name, 2))
        passed = passed + i
      end)
      mare.sleep(0)
    end
    for i = 1, 2 do assert.is_true((list[i]:wait())) end
    assert.equal(3, passed)
  end)
end)

describe("luaproc.wait", function()
  it("returns in processes that wait for each other, as nobody else runs", function()
    local out = fresh(true)
    for _ = 1, 3 do
      luaproc.newproc(('luaproc.wait() luaproc.send(%q, "through")'):format(out))
    end
    luaproc.wait()
    for _ = 1, 3 do assert.equal("through", luaproc.receive(out, true)) end
  end)

  it("in several fibers of a process waits for the others all the same", function()
    local go, out = fresh(), fresh(true)
    luaproc.newproc(function()
      luaproc.receive(go)
      for _ = 1, 100 do coroutine.yield() end
      luaproc.send(out, "ended")
    end)
    luaproc.newproc(function()
      local fiber = require("mare").fiber
      local waiting = 0
      for _ = 1, 2 do
        fiber.spawn(function()
          waiting = waiting + 1
          luaproc.wait()
          luaproc.send(out, "waited")
        end)
      end
      while waiting < 2 do require("mare").sleep(0) end
      require("mare").sleep(0)
      luaproc.send(go, true)
    end)
    luaproc.wait()
    for _, what in ipairs { "ended", "waited", "waited" } do assert.equal(what, luaproc.receive(out, true)) end
  end)

  it("does not wait for mare's own processes", function()
    local c = mare.channel.new()
    local handle = mare.process.spawn(function() return (c:receive()) end)
    luaproc.newproc("")
    luaproc.wait()
    assert.not_equal("done", handle:status())
    c:send(1)
    handle:wait()
  end)
end)

describe("a deadlock of luaproc's processes", function()
  local program = [[
local luaproc = require "luaproc"
luaproc.newchannel("orders")
luaproc.newproc(function()
  luaproc.barrier("orders", 2)
end)
luaproc.newproc("\nluaproc.send('orders', 1, 2, 3)")
luaproc.newchannel("none")
luaproc.receive("none")
]]
  it("is reported with channels' names and the lines of the program", function()
    for _, run in ipairs { proc.mare, proc.lua } do
      local r = run(program, {}, in_file)
      assert.equal(1, r.code)
      assert.matches("process #%d+: wait at the barrier on channel 'orders' at [^\n]*:4\n", r.err)
      assert.matches("process #%d+: send on channel 'orders' at %[string[^\n]*%]:2\n", r.err)
      assert.matches(": receive on channel 'none' at [^\n]*:8\n", r.err)
    end
  end)

  it("is an error of wait in plain Lua", function()
    local r = proc.lua([[
      local luaproc = require "luaproc"
      luaproc.newchannel("c")
      luaproc.newproc("luaproc.receive('c')")
      local ok, why = pcall(luaproc.wait)
      print(ok, why:match("deadlock"))
      luaproc.delchannel("c")
    ]], {}, in_file)
    assert.equal("false\tdeadlock\n", r.out)
    assert.equal(0, r.code)
  end)
end)

describe("names of channels", function()
  it("are any strings, also numbers and strings with zero bytes", function()
    for _, name in ipairs { "", "a\0b", "a\0c", ("x"):rep(1000), 17 } do
      assert.is_true(luaproc.newchannel(name, true))
      assert.is_true(luaproc.send(name, name))
    end
    assert.same(results(nil, "channel 'a\0b' already exists"), results(luaproc.newchannel("a\0b")))
    assert.same(results(nil, "channel '17' already exists"), results(luaproc.newchannel("17")))
    for _, name in ipairs { "", "a\0b", "a\0c", ("x"):rep(1000), 17 } do
      assert.equal(name, luaproc.receive(name))
      assert.is_true(luaproc.delchannel(name))
      assert.is_nil(luaproc.send(name, 1))
    end
  end)

  it("say nothing to mare's named channels", function()
    local name = fresh(true)
    assert.is_nil(mare.channel.find(name))
    local own = mare.channel.named(name, 1)
    luaproc.send(name, "luaproc's")
    own:send("mare's")
    assert.equal("mare's", own:receive())
    own:close()
    assert.equal("luaproc's", luaproc.receive(name))
  end)

  it("are found however many there are, and used in turn", function()
    local names = {}
    for i = 1, 5000 do names[i] = fresh(true) end
    for round = 1, 2 do
      for i = 1, #names do assert.is_true(luaproc.send(names[i], i + round)) end
      for i = #names, 1, -1 do assert.equal(i + round, luaproc.receive(names[i])) end
    end
    for i = 1, #names do assert.is_true(luaproc.delchannel(names[i])) end
    assert.is_nil(luaproc.send(names[1], 1))
  end)

  it("made and deleted by many while others use them lose nothing and hold up nobody", function()
    local out = fresh(true)
    local makers, users = 2, 4
    for _ = 1, makers do
      luaproc.newproc(function()
        for i = 1, 300 do
          local name = "shared " .. i % 3
          luaproc.newchannel(name, i % 2 == 0)
          coroutine.yield()
          luaproc.delchannel(name)
        end
        luaproc.send(out, "made")
      end)
    end
    for u = 1, users do
      luaproc.newproc(function()
        local done, refused = 0, 0
        for i = 1, 300 do
          local name = "shared " .. i % 3
          local ok, why
          if (u + i) % 3 == 0 then ok, why = luaproc.send(name, u, "text") else ok, why = luaproc.receive(name, i % 2 == 0) end
          if ok then
            done = done + 1
          elseif why:match("does not exist$") or why:match("destroyed while waiting") or why:match("^no senders") then
            refused = refused + 1
          end
        end
        luaproc.send(out, "used", done + refused)
      end)
    end
    local made, used = 0, 0
    -- a user may wait on a channel that is left: whoever waits is let go
    while made < makers or used < users do
      local what, count = luaproc.receive(out, true)
      if what == "made" then made = made + 1 end
      if what == "used" then
        assert.equal(300, count)
        used = used + 1
      end
      for i = 0, 2 do
        local full = ("asynchronous channel 'shared %d' still stores messages"):format(i)
        while made == makers and select(2, luaproc.delchannel("shared " .. i)) == full do
          luaproc.receive("shared " .. i, true)
        end
      end
      mare.sleep(0)
    end
    luaproc.wait()
  end)
end)

describe("luaproc's functions", function()
  it("check their arguments as if called by anybody", function()
    local thing = setmetatable({}, { __name = "thing" })
    for _, name in ipairs { "send", "receive", "newchannel", "delchannel", "barrier" } do
      for _, wrong in ipairs { thing, print, false, coroutine.create(print), io.stdout } do
        assert.is_false(pcall(luaproc[name], wrong))
      end
      assert.is_false(pcall(luaproc[name]))
    end
    for _, name in ipairs { "barrier" } do
      assert.error_matches(function() luaproc[name]("x", "y") end, "number expected, got string")
      assert.error_matches(function() luaproc[name]("x", 1.5) end, "number has no integer representation")
    end
    assert.error_matches(function() luaproc.setnumworkers(1000) end, "at most 256 workers")
    assert.same(results(nil, "cannot use 'table' to create a new process"), results(luaproc.newproc(thing)))
  end)

  it("do without what is in the registry", function()
    local r = proc.mare [[
      local luaproc = require "luaproc"
      luaproc.newchannel("c")
      luaproc.newproc(function()
        local send, registry = luaproc.send, debug.getregistry()
        for key in pairs(registry) do
          if type(key) ~= "number" and key ~= "_LOADED" then registry[key] = nil end
        end
        send("c", "sent", { 1 })
        luaproc.newproc("")
        pcall(pairs, luaproc)
        local mt = getmetatable(luaproc)
        if mt then pcall(mt.__index, 1, "send") pcall(mt.__index, {}, "send") pcall(mt.__pairs, 1) pcall(mt.__pairs) end
      end)
      print((luaproc.receive("c")))
      luaproc.wait()
    ]]
    assert.same({ 0, "sent\n" }, { r.code, r.out })
  end)

  it("work in finalisers, which can't wait", function()
    local out, nobody = fresh(true), fresh()
    luaproc.newproc(function()
      setmetatable({}, { __gc = function()
        luaproc.send(out, pcall(luaproc.send, nobody, 1))
        luaproc.send(out, luaproc.receive(nobody, true))
      end })
      collectgarbage()
      setmetatable({}, { __gc = function() luaproc.send(out, "at the end") end })
    end)
    assert.is_false((luaproc.receive(out)))
    assert.same(results(nil, ("no senders waiting on channel '%s'"):format(nobody)), results(luaproc.receive(out)))
    assert.equal("at the end", luaproc.receive(out))
  end)
end)
