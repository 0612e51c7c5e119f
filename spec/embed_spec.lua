-- Embedding: C programs with one or more host states, C modules, forked children, and the ways in which programs with mare end.
-- runs under: mare
local process = require "mare".process
local proc = require "spec.support.proc"

local embed = proc.bin:gsub("bin/mare$", "embed/")
local env = { LUA_CPATH = proc.cpath .. ";" .. embed .. "?.so;;" }

local function quiet(text) return (text:gsub("MARE_CHAOS=%d+\n", "")) end

local function c_program(name, argument)
  return proc.run({ embed .. name, argument }, { env = env, timeout = 60 })
end

local function passes(r)
  assert.is_false(r.timeout, r.err)
  assert.same({ code = 0, out = "ok\n" }, { code = r.code, signal = r.signal, out = r.out }, r.err)
end

describe("a C program", function()
  it("reaches everything through the table of mare.h", function() passes(c_program("api")) end)

  local what = {
    again = "can open and close hosts again and again, and no thread is left",
    talk = "can have host states that talk to each other through named channels and processes",
    churn = "can open and close hosts on many threads at once",
    first = "can close a host while processes wait for another",
    late = "can have finalisers that call mare after its host has closed",
    parked = "closes its last host although processes are parked for ever, and opens one again",
    due = "can close a host at the moment when its fibers are woken",
    starved = "can open a host right after the last one, on a machine that leaves its threads next to no CPU",
    slow = "can open a host while threads of a former one are still on their way out",
  }
  for name, title in pairs(what) do
    it(title, function() passes(c_program("states", name)) end)
  end

  it("that forks has a child in which mare's calls say so", function() passes(c_program("states", "fork")) end)
  it("that forks inside a process likewise", function() passes(c_program("states", "fork in a process")) end)
  it("that forks while it is observed has a child that nobody who looks at it waits for", function() passes(c_program("states", "fork observed")) end)
  it("that forks keeps what its child's state closes", function() passes(c_program("states", "fork while it waits")) end)
end)

describe("mare.h", function()
  it("is C++ too", function()
    for _, compiler in ipairs { "g++", "clang++" } do
      if os.execute("command -v " .. compiler .. " >/dev/null 2>&1") then
        local r = proc.run("printf '#include \"mare.h\"\\nint main() { return mare_api_get(0) != 0; }\\n' | " .. compiler
          .. " -std=c++11 -Wall -Wextra -pedantic -Werror -fsyntax-only -I" .. (os.getenv("MARE_ROOT") or ".")
          .. "/include -I/usr/include/lua5.4 -x c++ -")
        assert.same({ 0, "" }, { r.code, r.err })
      end
    end
  end)
end)

describe("a C module", function()
  local text = [[
    local mare = require "mare"
    local cmodule = require "cmodule"
    local request, reply = mare.channel.new(), mare.channel.new()
    local server = mare.process.spawn(function()
      for a, b in request:each() do reply:send(a + b, { a, b }) end
      return "served"
    end)
    local function client(n)
      for i = 1, n do
        local sum, list = cmodule.call(request, reply, i, 2)
        assert(sum == i + 2 and list[1] == i)
      end
      return coroutine.wrap(function() return (cmodule.call(request, reply, 1, 1)) end)()
    end
    print(client(10))
    print(mare.process.spawn(client, 100):wait())
    local c = mare.channel.new()
    local list = {}
    for i = 1, 5 do list[i] = mare.process.spawn(function() return cmodule.block(c) end) end
    for i = 1, 5 do c:send(i) end
    local sum = 0
    for i = 1, 5 do sum = sum + select(2, list[i]:wait()) end
    print(sum, cmodule.block(c, 0))
    request:close()
    print(server:wait())
    print(pcall(cmodule.call, 1, reply, 2))
  ]]
  local out = "2\ntrue\t2\n15\tnil\ttimeout\ntrue\tserved\nfalse\tbad argument #1 to 'cmodule.call' (mare.channel expected, got number)\n"

  it("waits in processes and in their coroutines as Lua code does", function()
    local r = proc.mare(text, {}, { env = env })
    assert.same({ 0, out, "" }, { r.code, r.out, quiet(r.err) })
  end)

  it("waits in plain lua too", function()
    local r = proc.lua(text, {}, { env = env })
    assert.same({ 0, out, "" }, { r.code, r.out, quiet(r.err) })
  end)
end)

describe("os.exit", function()
  it("writes what is buffered, however slow the reader is", function()
    for _, command in ipairs { proc.interpreter, proc.bin } do
      local r = proc.run(([[%s -e 'local mare = require "mare"
        io.stdout:setvbuf("full", 1000000)
        io.write(("x"):rep(300000))
        mare.process.spawn(function() while true do end end)
        os.exit(3)' | (sleep 1.5; wc -c)]]):format(command), { env = env })
      assert.equal("300000\n", r.out, command)
    end
  end)

  it("in a process ends the program, in a comparator and in a coroutine too", function()
    for _, f in ipairs { "os.exit(5)", "table.sort({ 2, 1 }, function() os.exit(5) end)", "coroutine.wrap(function() os.exit(5) end)()",
                         "setmetatable({}, { __gc = function() os.exit(5) end }) collectgarbage()",
                         "setmetatable({}, { __gc = function() os.exit(5) end })" } do
      local text = ([[
        local mare = require "mare"
        io.write("begin ")
        mare.process.spawn(function() while true do end end)
        mare.process.spawn(function() %s end)
        mare.channel.new():receive(1e9)
      ]]):format(f)
      for _, run in ipairs { proc.mare, proc.lua } do
        local r = run(text)
        assert.same({ 5, "begin " }, { r.code, r.out }, f .. r.err)
      end
    end
  end)

  it("of many at once ends the program with one of their codes", function()
    local text = [[
      local mare = require "mare"
      io.write("begin ")
      for i = 1, 20 do mare.process.spawn(function() os.exit(i) end) end
      os.exit(21)
    ]]
    for _, run in ipairs { proc.mare, proc.lua } do
      local r = run(text)
      assert.is_true(r.code and r.code >= 1 and r.code <= 21, r.err)
      assert.equal("begin ", r.out)
    end
  end)

  it("with close runs the finalisers of the state that calls it, for a bounded time", function()
    local endless = {}
    for _, where in ipairs { "%s", "mare.process.spawn(function() %s end) mare.channel.new():receive(1e9)" } do
      for _, run in ipairs { "mare", "lua" } do
        local r = proc[run](("local mare = require 'mare' " .. where):format(
          "X = setmetatable({}, { __gc = function() io.write('finalised') end }) os.exit(4, true)"))
        assert.same({ 4, "finalised" }, { r.code, r.out }, r.err)
        endless[#endless + 1] = process.spawn(function()
          return proc[run](("local mare = require 'mare' " .. where):format(
            "X = setmetatable({}, { __gc = function() while true do end end }) os.exit(4, true)"))
        end)
      end
    end
    for _, p in ipairs(endless) do
      local ok, r = p:wait()
      assert.same({ true, 4 }, { ok, r.code }, r.err)
      assert.is_false(r.timeout)
    end
  end)
end)

describe("the end of a plain script", function()
  it("with processes parked for ever is prompt, with a report", function()
    local r = proc.lua [[
      local mare = require "mare"
      local c = mare.channel.new()
      for i = 1, 1000 do mare.process.spawn { name = "left", main = function() c:receive() end } end
      table.sort({ 2, 1 }, function(a, b)
        mare.process.spawn(function() table.sort({ 2, 1 }, function(x, y) c:receive() return x < y end) end)
        return a < b
      end)
      io.write("last words")
    ]]
    assert.equal(0, r.code)
    assert.equal("last words", r.out)
    assert.is_false(r.timeout)
    assert.matches("^mare: deadlock: every process waits and nothing can wake one\n  the main script: wait for all", quiet(r.err))
    assert.not_matches("stopping", r.err)
  end)

  it("waits for processes that are not parked for ever", function()
    local r = proc.lua [[
      local mare = require "mare"
      mare.process.spawn(function()
        mare.sleep(0.1)
        mare.process.spawn(function() mare.sleep(0.1) print("grandchild") end)
      end)
    ]]
    assert.same({ 0, "grandchild\n", "" }, { r.code, r.out, quiet(r.err) })
  end)

  it("inside a coroutine or with open coroutines is no different", function()
    local r = proc.lua [[
      local mare = require "mare"
      local co = coroutine.wrap(function()
        local x <close> = setmetatable({}, { __close = function() end })
        mare.sleep(0.001)
        coroutine.yield()
      end)
      co()
      mare.process.spawn(function() mare.sleep(0.05) print("end") end)
      coroutine.wrap(function() os.exit(6, true) end)()
    ]]
    assert.equal(6, r.code, r.err)
  end)
end)

describe("SIGINT under mare run", function()
  -- Sends INT when "ready" was written, once or for each `after`.
  local function int(text, ...)
    local signals = {}
    for i, after in ipairs { "ready", ... } do signals[i] = { after = after, name = "INT" } end
    local say = "io.write('ready') io.stdout:flush() "
    local code, own = text:gsub("READY ", say)
    return proc.mare("local mare = require 'mare' " .. (own == 0 and say or "") .. code, {}, { timeout = 60, signals = signals })
  end

  for title, code in pairs {
    ["waits for a message"] = "mare.channel.new():receive(1e9)",
    ["waits in a coroutine"] = "coroutine.wrap(function() mare.channel.new():receive(1e9) end)()",
    ["waits in a comparator"] = "table.sort({ 2, 1 }, function(a, b) mare.channel.new():receive(1e9) return a < b end)",
    ["waits for a process"] = "mare.process.spawn(function(main)"
      .. " repeat mare.sleep(0.01) until main:status() == 'done' end, mare.process.self()):wait()",
    ["sleeps"] = "mare.sleep(1e9)",
    ["computes"] = "while true do end",
    ["computes in a coroutine"] = "coroutine.wrap(function() while true do end end)()",
    ["computes in a comparator"] = "table.sort({ 2, 1 }, function(a, b) while true do end end)",
    ["computes while others do"] = "local main = mare.process.self() for _ = 1, 4 do"
      .. " mare.process.spawn(function() repeat until main:status() == 'done' end) end while true do end",
  } do
    it("raises an error in the main process where it " .. title, function()
      local r = int(code)
      assert.equal(1, r.code, r.err)
      assert.matches("interrupted!", r.err)
    end)
  end

  it("is an error that can be caught, once", function()
    local r = int("local ok, err = pcall(function() READY mare.sleep(1e9) end) print(ok, err)")
    assert.equal(0, r.code, r.err)
    assert.matches("^readyfalse\t.*interrupted!\n$", r.out)
  end)

  it("a second time ends the program with 130", function()
    local r = int("while true do pcall(function() READY mare.sleep(1e9) end) end", "readyready")
    assert.equal(130, r.code, r.err)
    r = int("setmetatable({}, { __gc = function() READY while true do end end }) collectgarbage()", 0)
    assert.equal(130, r.code, r.err)
  end)

  it("ends the program with 130 when the main process has ended", function()
    local r = proc.mare([[
      local mare = require "mare"
      mare.process.spawn(function(main) main:wait() io.write("ready") io.stdout:flush() mare.sleep(1e9) end, mare.process.self())
    ]], {}, { signals = { { after = "ready", name = "INT" } } })
    assert.equal(130, r.code, r.err)
    assert.equal("ready", r.out)
  end)
end)

describe("SIGTERM", function()
  it("ends children that processes started, if it reaches their group", function()
    local r = proc.mare([[
      local mare = require "mare"
      local term = mare.signal.on "TERM"                       -- else it would end with them
      print(mare.process.spawn(function() return os.execute("kill -TERM 0; sleep 100") end):wait())
      print(term:wait())
    ]], {}, { timeout = 60 })
    assert.same({ 0, "true\tnil\tsignal\t15\nTERM\t1\n" }, { r.code, r.out }, r.err)
    r = proc.mare([[
      local mare = require "mare"
      mare.process.spawn(function() os.execute("kill -TERM 0; sleep 100") end)
      mare.sleep(1e9)
    ]], {}, { timeout = 60 })
    assert.equal(15, r.signal)
  end)
end)
