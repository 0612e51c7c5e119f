-- luacheck: ignore 121 122 142 143
-- Processes: how they start, what they are given, what a handle tells, and what a process finds in its state.
local mare = require "mare"
local parked = require "spec.support.parked"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"
local process, channel = mare.process, mare.channel

local pack = table.pack

-- Runs f(args…) in a process and gives its results; an error there is an error here.
local function run(f, ...)
  local results = pack(process.spawn(f, ...):wait())
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

-- What a program prints, under mare run and in plain Lua: nothing of other tests lives there.
local function in_programs(text, expected)
  for _, program in ipairs(proc.config == "plain" and { proc.mare, proc.lua } or { proc.mare }) do
    local r = program("local mare = require 'mare' local process = mare.process\n" .. text)
    assert.equal("", r.err)
    assert.matches(expected, r.out)
  end
end

describe("process.spawn", function()
  it("runs a function with arguments", function()
    assert.same(pack(3, "a", nil, nil), pack(run(function(...) return select("#", ...), ... end, "a", nil, nil)))
  end)

  it("runs a string of code with arguments in ...", function()
    assert.same(pack(7, "x"), pack(run("local a, b = ... return a + 1, b", 6, "x")))
    assert.same(pack(), pack(run "local x = 1"))
  end)

  it("raises the syntax error of a string at once, with its place", function()
    assert.matches('^%[string "return %+"%]:1: unexpected symbol near', select(2, pcall(process.spawn, "return +")))
    assert.matches(':3: unexpected symbol', select(2, pcall(process.spawn, "\n\nfoo(")))
  end)

  it("refuses bytecode in a string", function()
    assert.error_matches(function() process.spawn(string.dump(function() end)) end, "binary chunk")
  end)

  it("runs a C function", function()
    assert.same(pack(3), pack(run(math.max, 1, 3, 2)))
    assert.same(pack(2, 3), pack(run(select, 2, 1, 2, 3)))
  end)

  it("takes a table of options", function()
    local p = process.spawn {
      name = "worker", args = { 1, nil, 3, n = 3 }, memory = 10 * 1024 * 1024, heap = "own",
      main = function(...) return process.self().name, select("#", ...), ... end
    }
    assert.equal("worker", p.name)
    assert.same(pack(true, "worker", 3, 1, nil, 3), pack(p:wait()))
    assert.same(pack(true, 5), pack(process.spawn { main = "return ... + 1", args = { 4 } }:wait()))
    assert.same(pack(true, 0), pack(process.spawn { main = function(...) return select("#", ...) end, args = {} }:wait()))
    assert.same(pack(true, 0), pack(process.spawn { main = function(...) return select("#", ...) end }:wait()))
  end)

  it("names the option that is wrong", function()
    local main = function() end
    local function refuses(text, options)
      assert.error_matches(function() process.spawn(options) end, text)
    end
    refuses("unknown field 'nmae'", { main = main, nmae = "x" })
    refuses("'main' must be a function or a string of code, got number", { main = 5 })
    refuses("unknown field '1'", { main })
    refuses("'memory' must be a number of bytes", { main = main, memory = "much" })
    refuses("'memory' must be a number of bytes", { main = main, memory = -1 })
    refuses("'memory' must be a number of bytes", { main = main, memory = 0 / 0 })
    refuses("'heap' must be", { main = main, heap = "other" })
    refuses("'name' must be a string", { main = main, name = {} })
    refuses("'args' must be a table", { main = main, args = "x" })
    refuses("spawn: 'args': 'n' must be a whole number from 0 to 250, got 1000000", { main = main, args = { n = 1000000 } })
    local many = {}
    for i = 1, 251 do many[i] = i end
    refuses("spawn: 'args' holds 251 values; there may be 250", { main = main, args = many })
    refuses("function, a string of code", {})
  end)

  it("refuses what can't run", function()
    assert.error_matches(function() process.spawn() end, "function or a string of code")
    for _, bad in ipairs { 1, true, io.stdout, coroutine.create(print) } do
      assert.error_matches(function() process.spawn(bad) end, "function, a string of code")
    end
  end)

  it("refuses arguments and upvalues that can't travel, and starts nothing", function()
    in_programs([[
      local before, file = process.count(), io.stderr
      print(pcall(process.spawn, print, 1, io.stdout))
      print(pcall(process.spawn, function() file:write("x") end))
      print(process.count() - before)
    ]], "^false\t[^\n]*argument%[3%]: userdata 'FILE%*'[^\n]*\nfalse\t[^\n]*upvalue 'file': userdata 'FILE%*'[^\n]*\n0\n$")
  end)

  it("packs its arguments at once: later changes don't reach the process", function()
    local gate, t = channel.new(), { 1 }
    local p = process.spawn(function(x)
      gate:receive()
      return x[1]
    end, t)
    t[1] = 2
    gate:send(true)
    assert.same(pack(true, 1), pack(p:wait()))
  end)

  it("works from within processes, to any depth", function()
    local function nest(n)
      if n == 0 then return "bottom" end
      return select(2, require "mare.process".spawn(nest, n - 1):wait())
    end
    assert.equal("bottom", run(nest, 50))
  end)
end)

describe("a handle", function()
  it("has a number of its own and the name it was given", function()
    local a, b = process.spawn("return 1"), process.spawn { main = "return 1", name = "b" }
    assert.equal("integer", math.type(a.id))
    assert.is_true(b.id > a.id)
    assert.is_nil(a.name)
    assert.equal("b", b.name)
    assert.equal("process #" .. a.id, tostring(a))
    assert.equal("process #" .. b.id .. " 'b'", tostring(b))
    a:wait()
    b:wait()
    assert.equal("b", b.name)
  end)

  it("waits, any number of times, for any number of waiters", function()
    local gate = channel.new()
    local p = process.spawn(function() return (gate:receive()), { "table" } end)
    local waiters = {}
    for i = 1, 10 do waiters[i] = parked(process.spawn(function() return p:wait() end)) end
    gate:send(5)
    assert.same(pack(true, 5, { "table" }), pack(p:wait()))
    assert.same(pack(true, 5, { "table" }), pack(p:wait()))
    for i = 1, 10 do assert.same(pack(true, true, 5, { "table" }), pack(waiters[i]:wait())) end
  end)

  it("waits no longer than it is told", function()
    local gate = channel.new()
    local p = process.spawn(function() return gate:receive() end)
    for _, s in ipairs { 0, -1, 0.02, "0.01" } do assert.same(pack(nil, "timeout"), pack(p:wait(s))) end
    assert.same(pack(true, nil, "timeout"), pack(process.spawn(function() return p:wait(0.02) end):wait()))
    assert.error_matches(function() p:wait(0 / 0) end, "nan")
    gate:send("late")
    assert.same(pack(true, "late"), pack(p:wait(math.huge)))
    assert.same(pack(true, "late"), pack(p:wait(0)))
  end)

  it("tells a status", function()
    local gate = channel.new()
    local p = parked(process.spawn(function()
      gate:receive()
      gate:receive()
      error("x")
    end))
    assert.equal("waiting", p:status())
    gate:send(1)
    parked(p)
    gate:send(2)
    p:wait()
    assert.equal("failed", p:status())
    p = process.spawn("")
    p:wait()
    assert.equal("done", p:status())
    assert.equal("running", process.self():status())
    assert.equal("running", run(function() return process.self():status() end))
  end)

  it("travels and stays the same", function()
    local p = process.spawn(function(me) return me end, process.self())
    assert.same(pack(true, process.self()), pack(p:wait()))
    local c = channel.new(1)
    c:send({ p })
    assert.equal(p, c:receive()[1])
  end)

  it("can be waited for by a process that was given it", function()
    local a = process.spawn("return 'a'")
    assert.same(pack(true, "a"), pack(run(function(h) return h:wait() end, a)))
  end)

  it("of oneself can't be waited for", function()
    assert.error_matches(function() process.self():wait() end, "can't wait for its own end")
    assert.error_matches(function() run(function() process.self():wait() end) end, "can't wait for its own end")
  end)

  it("need not be kept", function()
    local out = channel.new()
    process.spawn(function() out:send("alive") end)
    collectgarbage()
    collectgarbage()
    assert.equal("alive", out:receive())
  end)

  it("is not the process's life: count() tells how many live", function()
    in_programs([[
      local gate, list, before = mare.channel.new(), {}, process.count()
      for i = 1, 5 do list[i] = process.spawn(function() gate:receive() end) end
      print(process.count() - before)
      gate:close()
      for i = 1, 5 do list[i]:wait() end
      while process.count() > before do process.yield() end
      print(process.count() - before)
    ]], "5\n0\n")
  end)
end)

describe("process.self", function()
  it("is one value within a process", function()
    assert.equal(process.self(), process.self())
    assert.is_true(run(function() return rawequal(process.self(), process.self()) end))
  end)
  it("is the handle that spawn gave", function()
    local out = channel.new()
    local p = process.spawn(function() out:send(process.self()) end)
    assert.equal(p, out:receive())
  end)
end)

describe("a process is given what lua gives a script:", function()
  it("every standard library, opened by its use or by require", function()
    local names = run(function()
      local list = {}
      for _, name in ipairs { "coroutine", "debug", "io", "math", "os", "package", "string", "table", "utf8" } do
        list[#list + 1] = type(_G[name]) .. " " .. tostring(require(name) == _G[name])
      end
      return list
    end)
    for i = 1, 9 do assert.equal("table true", names[i]) end
  end)

  it("the same globals, to pairs and next too", function()
    local function list()
      local names = {}
      for k, v in pairs(_G) do names[#names + 1] = k .. " " .. type(v) end
      table.sort(names)
      return table.concat(names, "\n")
    end
    local r = proc.run({ "lua5.4", "-e",
      [[local t = {} for k, v in pairs(_G) do if k ~= "arg" then t[#t + 1] = k .. " " .. type(v) end end
        table.sort(t) io.write(table.concat(t, "\n"))]] })
    assert.equal(r.out, run(list))
  end)

  it("the string methods, and arithmetic on strings", function()
    assert.same(pack("XX", 3, 12), pack(run(function() return ("x"):rep(2):upper(), #"abc", "10" + 2 end)))
    assert.equal("%d+", run(function() local s = "%d+" return s:gsub("%%", "%%") end))
    assert.is_true(run(function() return getmetatable("").__index == string end))
  end)

  it("warn", function()
    assert.is_true(run(function() warn("@on") warn("@off") return true end))
  end)

  it("random numbers of its own", function()
    local seen = {}
    for _ = 1, 20 do
      local n = run(function() return math.random(0) end)
      assert.is_nil(seen[n])
      seen[n] = true
    end
  end)

  it("the parent's package.path, cpath and preload", function()
    local path, cpath = package.path, package.cpath
    package.path, package.cpath = "./spec/?.luax;" .. path, "./spec/?.sox;" .. cpath
    package.preload["spec.made"] = function() return { made = true } end
    local ok, a, b, c = process.spawn(function() return package.path, package.cpath, require "spec.made".made end):wait()
    local twice = pack(run(function()
      return select(2, require "mare.process".spawn(function() return package.path, require "spec.made".made end):wait())
    end))
    package.path, package.cpath, package.preload["spec.made"] = path, cpath, nil
    assert.same({ true, "./spec/?.luax;" .. path, "./spec/?.sox;" .. cpath, true }, { ok, a, b, c })
    assert.same("./spec/?.luax;" .. path, twice[1])
    assert.equal(path, run(function() return package.path end))
  end)

  it("require of Lua modules, each once a process", function()
    assert.is_true(run(function()
      local a = require "spec.support.proc"
      return a == require "spec.support.proc" and package.loaded["spec.support.proc"] == a
    end))
  end)

  it("a generational collector or an incremental one, as lua5.4 has", function()
    local mode = collectgarbage("incremental")
    collectgarbage(mode)
    assert.equal(mode, run(function() return collectgarbage("incremental") end))
  end)

  it("its own globals: those of others are unseen", function()
    rawset(_G, "spec_global", 1)
    assert.is_nil(run(function() return rawget(_G, "spec_global") end))
    rawset(_G, "spec_global", nil)
    run(function() spec_other = 2 end) -- luacheck: ignore
    assert.is_nil(rawget(_G, "spec_other"))
  end)

  it("globals it may lock or replace", function()
    assert.equal("caught", run(function()
      setmetatable(_G, { __newindex = function() error("strict") end, __index = function(_, k) error("undefined " .. k) end })
      local t = table.concat({ "a" })                       -- a library first used after that
      local ok, err = pcall(function() return undefined_name end) -- luacheck: ignore
      local ok2 = pcall(function() undefined_name = 1 end)  -- luacheck: ignore
      return t == "a" and not ok and err:find("undefined undefined_name") and not ok2 and "caught" or tostring(err)
    end))
    assert.equal(5, run(function()
      string = nil
      print = 5
      return print
    end))
    assert.equal("table", run(function() return type(string) .. "" end))
  end)

  it("require 'mare' and its parts", function()
    assert.is_true(run(function()
      local m = require "mare"
      return m.process == require "mare.process" and m.channel == require "mare.channel" and type(m.version) == "string"
    end))
  end)
end)

describe("a module's compiled code", function()
  it("is shared: a thousand processes read the file once, and a changed file is read again", function()
    local base = temporary()
    os.remove(base)
    local dir, name = base:match("^(.*)/([^/]*)$")
    local function write(text)
      local f = assert(io.open(base .. ".lua", "w"))
      f:write(text)
      f:close()
    end
    write("return { answer = 42 }")
    local path = package.path
    package.path = dir .. "/?.lua;" .. path
    local function use() return require(name).answer end
    local list = {}
    for i = 1, 1000 do list[i] = process.spawn(use) end
    local good = 0
    for i = 1, 1000 do if select(2, list[i]:wait()) == 42 then good = good + 1 end end
    write("return { answer = 43, longer = true }")
    local again = run(use)
    os.remove(base .. ".lua")
    package.path = path
    assert.equal(1000, good)
    assert.equal(43, again)
  end)
end)

describe("what a finished process changed is not seen by the next:", function()
  -- States are used again: many rounds, so that every one is a used one.
  local function rounds(change, look)
    for _ = 1, 100 do
      run(change)
      local found = run(look)
      if found ~= nil then return found end
    end
  end
  it("globals", function()
    assert.is_nil(rounds(function() leak = 1 _G[1] = 2 _ENV.print = nil end, -- luacheck: ignore
      function() return rawget(_G, "leak") or rawget(_G, 1) or (print == nil and "print") or nil end))
  end)
  it("library functions and the string metatable", function()
    assert.is_nil(rounds(function()
      string.upper = nil
      table.insert = 1
      math.pi = 3
      os.time = function() end
      getmetatable("").__add = function() return "changed" end
      getmetatable("").__index = function() return "changed" end
      string.extra = true
    end, function()
      if ("a"):upper() ~= "A" then return "upper" end
      if type(table.insert) ~= "function" then return "insert" end
      if math.pi < 3.1 then return "pi" end
      if string.extra then return "extra" end
      if "1" + 1 ~= 2 then return "arithmetic" end
    end))
  end)
  it("package.loaded, preload, path and searchers", function()
    assert.is_nil(rounds(function()
      package.loaded.leak = true
      package.preload.leak = true
      package.path = "nowhere"
      package.searchers[1] = nil
      package.loaded.string = nil
    end, function()
      if package.loaded.leak or package.preload.leak then return "loaded" end
      if package.path == "nowhere" then return "path" end
      if #package.searchers < 4 then return "searchers" end
      if not package.loaded.string then return "string" end
    end))
  end)
  it("the registry, metatables of basic types and debug hooks", function()
    assert.is_nil(rounds(function()
      debug.getregistry().leak = {}
      debug.setmetatable(1, { __index = { leak = true } })
      debug.setmetatable(nil, { __index = { leak = true } })
      debug.setmetatable(print, { __index = { leak = true } })
      debug.sethook(function() end, "crl", 1)
    end, function()
      if debug.getregistry().leak then return "registry" end
      if debug.getmetatable(1) or debug.getmetatable(nil) or debug.getmetatable(print) then return "metatable" end
      if type(debug.gethook()) == "function" then return "hook" end   -- under ThreadSanitizer mare has one, an "external hook"
    end))
  end)
  it("the collector's settings", function()
    assert.is_nil(rounds(function()
      collectgarbage("stop")
      collectgarbage("incremental", 1000, 1, 1)
    end, function()
      if not collectgarbage("isrunning") then return "stopped" end
    end))
  end)
  it("the warning state", function()
    assert.is_true(run(function() warn("@on") return true end))
    assert.is_true(run(function() warn("a warning that must not be seen") return true end))
  end)
  it("and with recycling off it is the same", function()
    local before = process.recycle(0)
    assert.is_nil(rounds(function() leak = 1 end, -- luacheck: ignore
      function() return rawget(_G, "leak") end))
    assert.equal(0, process.recycle(before))
    assert.equal(before, process.recycle())
    assert.error_matches(function() process.recycle(-1) end, "0 or more")
  end)
end)

describe("handles that nobody keeps", function()
  it("are collected, however many there are", function()
    assert.is_true(run(function()
      for _ = 1, 60000 do mare.channel.new() end
      for _ = 1, 12000 do mare.process.spawn(function() end):wait() end
      return collectgarbage "count" < 2048
    end))
  end)
end)

-- From the eighth time on a function is part of the state that a worker gives.
describe("a function that is started often", function()
  local kept = process.recycle()
  after_each(function() process.recycle(kept) end)

  it("has the upvalues it was sent with, each time", function()
    for _, keep in ipairs { kept, 0 } do
      process.recycle(keep)
      for i = 1, 40 do
        local n, t = i, { i }
        local function count() n = n + 1 return n, t[1], t end
        local function both() return count(), select(2, count()), n end
        assert.same(pack(i + 1, i, i + 2), pack(run(both)))
        assert.same(pack(i + 1, i, { i }), pack(run(count)))
      end
    end
  end)

  it("is not the same when it was sent twice, and is when it was sent in two places", function()
    local function make() return function() return make end end
    for _ = 1, 20 do
      local a, b = make(), make()
      assert.same(pack(true, false), pack(run(function(x, y, z) return rawequal(x, z), rawequal(x, y) end, a, b, a)))
    end
  end)

  it("does not know of those before it", function()
    local function first(...)
      local before = _G.leaked
      _G.leaked = table.concat({ ... })
      string.leaked = true
      return before, _G.leaked
    end
    for i = 1, 40 do
      assert.same(pack(nil, "x" .. i), pack(run(first, "x", i)))
      assert.is_nil(run(function() return _G.leaked or string.leaked end))
    end
  end)

  it("fails with its own lines", function()
    local function fails(x)
      return x + nil
    end
    for _ = 1, 20 do
      local ok, err, trace = process.spawn(fails, 1):wait()
      assert.is_false(ok)
      assert.matches("process_spec.lua:%d+: attempt to perform arithmetic on a nil value", err)
      assert.matches("in function <spec/process_spec.lua:%d+>", trace)
    end
  end)

  it("finds memory or not as if it had not been", function()
    local function fill()
      local t = {}
      for i = 1, 1000 do t[i] = { i } end
      return #t
    end
    for _ = 1, 3 do
      for _, bytes in ipairs { 1, 3000, 6000, 8000, 1 << 20 } do
        for _ = 1, 4 do
          local ok, err = process.spawn { main = fill, memory = bytes }:wait()
          assert.equal(bytes == 1 << 20, ok)
          if not ok then assert.equal("not enough memory", err) end
        end
      end
      local ok, n = process.spawn { main = fill, memory = { 1 << 20, tree = true } }:wait()
      assert.same({ true, 1000 }, { ok, n })
    end
  end)

  it("gives way to others", function()
    local functions = {}
    for i = 1, 60 do
      local others = i % 2 == 0 and ("local function f(x) if x then return 'no' .. x end end f() "):rep(i % 8) or ""
      functions[i] = assert(load(("local a = ... %s return a + %d, %q"):format(others, i, ("x"):rep(i))))
    end
    for round = 1, 3 do
      for i = 1, 60 do
        for k = 1, i % 3 == round % 3 and 20 or 2 do assert.same(pack(i + k, ("x"):rep(i)), pack(run(functions[i], k))) end
      end
    end
  end)

  it("may be too large for that", function()
    local large = assert(load("local a = ... " .. ("a = a + 1.5 "):rep(400) .. "return a"))
    for i = 1, 20 do assert.equal(600 + i, run(large, i)) end
  end)
end)
