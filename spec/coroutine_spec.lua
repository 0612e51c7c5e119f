-- The coroutine library of processes: it behaves as Lua's own, and waiting inside a coroutine suspends the whole process.
-- runs under: mare
local proc = require "spec.support.proc"
local process, channel = require "mare.process", require "mare.channel"

-- One long program, compared with plain lua, undisturbed and while it is preempted as often as can be.
local program = [==[
local function show(...)
  local t = table.pack(...)
  for i = 1, t.n do t[i] = tostring(t[i]):gsub("0x%x+", "ADDRESS") end
  print(table.concat(t, " | "))
end
local co = coroutine

show(pcall(co.create)) show(pcall(co.create, 1)) show(pcall(co.resume, 1)) show(pcall(co.wrap)) show(pcall(co.status))
show(pcall(co.close, 1)) show(pcall(co.isyieldable, 1)) show(pcall(co.close))

-- the main thread
local main, ismain = co.running()
show(type(main), ismain, co.isyieldable(), co.isyieldable(main), co.status(main), co.resume(main))
show(pcall(co.close, main)) show(pcall(co.yield, 1)) show(co.resume(co.running()))

-- statuses
local c = co.create(function(...)
  show(..., co.running() ~= main, co.isyieldable(), co.status(co.running()), co.status(main))
  show(co.resume(main)) show(co.resume(co.running())) show(pcall(co.close, main)) show(pcall(co.close, co.running()))
  show(co.yield(1, 2))
  error("oops")
end)
show(co.status(c), co.isyieldable(c)) show(co.resume(c, "a", "b")) show(co.status(c), co.isyieldable(c))
show(co.resume(c, "again")) show(co.status(c)) show(co.resume(c)) show(co.close(c)) show(co.close(c))
local outer
local inner = co.create(function() show(co.status(outer), co.resume(outer)) show(pcall(co.close, outer)) end)
outer = co.create(function() show(co.resume(inner)) end) show(co.resume(outer))

-- errors of wrap
local w = co.wrap(function() error("werr") end) show(pcall(w)) show(pcall(w))
w = co.wrap(function() error({}) end) show(pcall(w))
w = co.wrap(function() error() end) show(pcall(w))
w = co.wrap(function() error("at level 2", 2) end) show(pcall(w))
w = co.wrap(function() return pcall(w) end) show(w())
show((select(2, xpcall(co.wrap(function() local x = nil x() end), debug.traceback)):gsub("\n[^\n]*main chunk.*", "")))

-- pending variables
local function closing(name, message)
  return setmetatable({}, { __close = function(_, e) show("closing", name, e, co.isyieldable()) if message then error(message) end end })
end
w = co.wrap(function() local x <close> = closing("a") error("wclose") end) show(pcall(w))
w = co.wrap(function() local x <close> = closing("a", "second") error("first") end) show(pcall(w))
for _, message in ipairs { false, "bad close" } do
  c = co.create(function() local x <close> = closing("b", message) local y <close> = closing("c") co.yield() end)
  co.resume(c) show(co.close(c)) show(co.status(c)) show(co.close(c))
end
c = co.create(function()
  local x <close> = setmetatable({}, { __close = function() show(co.status(c), co.running() == c) end })
  co.yield()
end)
co.resume(c) show(co.close(c))

-- generators
local function gen(n) return co.wrap(function() for i = 1, n do co.yield(i) end end) end
local s = 0 for i in gen(100) do s = s + i end show(s)
for a in gen(3) do for b in gen(2) do show(a, b) end end
show(pcall(function() for x in gen(2) do error("in loop " .. x) end end))
local function permute(a, n)
  if n <= 1 then co.yield(a) else for i = 1, n do a[n], a[i] = a[i], a[n] permute(a, n - 1) a[n], a[i] = a[i], a[n] end end
end
local k = 0 for p in co.wrap(function() permute({ 1, 2, 3, 4, 5 }, 5) end) do k = k * 31 % 1000007 + p[1] * 7 + p[3] end show(k)
local function filter(p, g)
  return co.wrap(function() while true do local n = g() if not n then return end if n % p ~= 0 then co.yield(n) end end end)
end
local numbers, primes = co.wrap(function() for i = 2, 50 do co.yield(i) end end), {}
while true do local n = numbers() if not n then break end primes[#primes + 1] = n numbers = filter(n, numbers) end show(table.concat(primes, " "))

-- yields through pcall, metamethods, iterators
c = co.wrap(function(...)
  local r = table.pack(pcall(function(...) local a = co.yield(...) error(a) end, ...))
  co.yield(table.unpack(r))
  return "end"
end)
show(c(1, 2, 3)) show(c("E")) show(c()) show(pcall(c))
local t = setmetatable({}, { __index = function(_, key) return co.yield(key) end, __add = function() return co.yield("add") end,
  __lt = function() return co.yield("lt") end, __concat = function() return co.yield("cc") end, __call = function(_, x) return co.yield(x) end,
  __eq = function() return co.yield("eq") end, __len = function() return co.yield("len") end,
  __newindex = function(_, key, v) co.yield(key, v) end, __close = function() co.yield("close") end, __unm = function() return co.yield("unm") end })
c = co.wrap(function()
  local r = { t.foo, t + 1, t < t, t .. "x", t(5), t == setmetatable({}, getmetatable(t)), #t, -t }
  t.z = 9
  do local q <close> = t end
  for i = 1, 8 do r[i] = tostring(r[i]) end
  return table.concat(r, ",")
end)
local v = { c() }
for i = 1, 20 do show(table.unpack(v)) if type(v[1]) == "string" and v[1]:find(",") then break end v = { c(i) } end
c = co.wrap(function() return xpcall(function() co.yield("x") error("xe") end, function(m) return "H:" .. m end) end) show(c()) show(c())
c = co.wrap(function()
  local list = setmetatable({}, { __pairs = function() co.yield("pairs") return next, { a = 1 }, nil end })
  for a, b in pairs(list) do co.yield(a, b) end
  return "done"
end)
show(c()) show(c()) show(c())
c = co.wrap(function() goto x do end ::x:: for i in function(_, i) return co.yield(i) end do show("i", i) end return "over" end)
show(c()) show(c(1)) show(c(nil))

-- where Lua cannot yield
c = co.wrap(function() table.sort({ 3, 1, 2 }, function(a, b) co.yield() return a < b end) end) show(pcall(c))
c = co.wrap(function() ("abc"):gsub(".", function(x) co.yield(x) end) end) show(pcall(c))
show(pcall(string.gsub, "hello", ".", function(ch) return co.wrap(function() co.yield(ch:upper()) end)() end))
local list = {} for i = 1, 50 do list[i] = (i * 7919) % 101 end
table.sort(list, function(a, b) return co.wrap(function() co.yield(a < b) end)() end) show(table.concat(list, ","))
show(load(co.wrap(function() co.yield("return ") co.yield("42") end))()) show(pcall(load, co.wrap(function() error("in reader") end)))

-- many values, deep nesting
show(select("#", co.resume(co.create(function() return table.unpack({}, 1, 200) end))))
show(co.resume(co.create(function(...) return select("#", ...) end), table.unpack({}, 1, 250)))
show(co.resume(co.create(function() return table.unpack({}, 1, 1000000) end)))
local function nest(n) if n == 0 then return "bottom" end return co.wrap(function() return nest(n - 1) end)() end show(nest(100))
show((select(2, pcall(function() local function f() return co.wrap(f)() end return f() end)):match("C stack overflow$")))

-- tracebacks, hooks, collection
c = co.create(function() local a = 5 co.yield() end) co.resume(c)
show(debug.traceback(c)) show(debug.traceback(c, "msg")) show(debug.getlocal(c, 1, 1))
c = co.create(function() error("tb") end) co.resume(c) show(debug.traceback(c))
local weak = setmetatable({}, { __mode = "k" })
for _ = 1, 10 do local x = co.create(function() co.yield() end) co.resume(x) weak[x] = true end
c = nil collectgarbage() collectgarbage() show(next(weak))
local log = {}
do
  local g = setmetatable({}, { __gc = function()
    log = { tostring(co.isyieldable()), tostring(pcall(co.yield)), co.wrap(function() co.yield(7) end)() }
  end })
end
collectgarbage() collectgarbage() show(table.concat(log, ","))
]==]

local function clean(text) return (text:gsub("/%S-lua_[%w_]+%.lua", "script.lua")) end

local want
local function expected()
  want = want or proc.lua(program)
  assert.equal(0, want.code, want.err)
  assert.is_true(#want.out > 3000)
  return clean(want.out)
end

describe("the coroutine library", function()
  it("behaves as Lua's own", function()
    local r = proc.mare(program)
    assert.equal(expected(), clean(r.out), r.err)
    assert.equal(0, r.code)
  end)
  it("behaves as Lua's own while the process is preempted all the time", function()
    local busy = [[local process = require "mare.process"
      for _ = 1, 3 do process.spawn(function() while not os.getenv("NOSUCH") do end end) end
      ]]
    local repeated = busy .. "local program = [==[\n" .. program .. "]==]\n" ..
      "local out, print = nil, print\n" ..
      [[for i = 1, 20 do
        local lines = {}
        _G.print = function(s) lines[#lines + 1] = s end
        assert(load(program, '@script.lua'))()
        local text = table.concat(lines, '\n')
        if out and out ~= text then print('differs in round ' .. i) end
        out = text
      end
      io.write(out, '\n')
      os.exit(0)]]
    local r = proc.mare(repeated, {}, { workers = 1, env = { MARE_QUANTUM = "1" }, timeout = 60 })
    assert.equal(expected(), clean(r.out), r.err)
  end)
end)

-- Parks this process until another one has answered.
local function with_echo(f)
  local ask, answer = channel.new(), channel.new()
  local server = process.spawn(function()
    for n in ask:each() do answer:send(n + 1) end
  end)
  local function wait(n)
    ask:send(n)
    return (answer:receive())
  end
  local ok, err = xpcall(f, debug.traceback, wait)
  ask:close()
  server:wait()
  if not ok then error(err, 0) end
end

local function in_process(name, f)
  it(name, function() with_echo(f) end)
end

describe("waiting", function()
  in_process("inside resume suspends the process, not the coroutine", function(wait)
    local c = coroutine.create(function(n)
      n = wait(n)
      n = wait(coroutine.yield(n))
      return n
    end)
    assert.same({ true, 2 }, { coroutine.resume(c, 1) })
    assert.equal("suspended", coroutine.status(c))
    assert.same({ true, 11 }, { coroutine.resume(c, 10) })
    assert.equal("dead", coroutine.status(c))
  end)
  in_process("inside nested wraps, at every level", function(wait)
    local function level(next_of, n)
      return coroutine.wrap(function(x)
        local sum = 0
        for i = 1, 3 do
          sum = sum + next_of(x)
          if n > 0 then sum = sum + level(next_of, n - 1)(x + i) end
          x = coroutine.yield(sum) or x
        end
        return sum
      end)
    end
    local f, g = level(wait, 3), level(function(n) return n + 1 end, 3)
    for i = 1, 4 do assert.equal(g(i), f(i)) end
  end)
  in_process("inside iterators, metamethods, pcall and close handlers", function(wait)
    local log = {}
    local t = setmetatable({}, { __index = function(_, k) return wait(k) end, __add = function(_, n) return wait(n) end,
      __close = function() log[#log + 1] = wait(100) end, __eq = function() return wait(0) == 1 end, __len = function() return wait(7) end,
      __concat = function() return wait(1) end, __lt = function() return wait(0) == 1 end, __newindex = function(_, _, v) log[#log + 1] = wait(v) end,
      __call = function(_, n) return wait(n) end, __tostring = function() return "t" .. wait(5) end })
    local function body()
      local _ <close> = t
      for i in function(_, i) i = wait(i or 0) return i < 4 and i or nil end do log[#log + 1] = i end
      log[#log + 1] = t[1] + (t + 5)
      log[#log + 1] = t == setmetatable({}, getmetatable(t)) and #t
      log[#log + 1] = t .. ""
      log[#log + 1] = t < t and t(41)
      t.x = 8
      log[#log + 1] = tostring(t)
      log[#log + 1] = select(2, pcall(function() error(wait(20)) end))
      log[#log + 1] = select(2, xpcall(function() error(wait(30)) end, function(m) return m + 1 end))
      return "end"
    end
    local want_log = { 1, 2, 3, 8, 8, 2, 42, 9, "t6", 21, 32, 101 }
    assert.equal("end", body())
    assert.same(want_log, log)
    log = {}
    assert.equal("end", coroutine.wrap(body)())
    assert.same(want_log, log)
  end)
  in_process("inside a comparator, gsub, load and tostring in C, also within coroutines", function(wait)
    local function body()
      local list = { 5, 2, 8, 1 }
      table.sort(list, function(a, b) return wait(a) < wait(b) end)
      local s = ("abc"):gsub(".", function(c) return c .. wait(1) end)
      local parts = { "return ", "7" }
      local i = 0
      local f = load(function() i = wait(i) return parts[i] end)
      local t = setmetatable({}, { __tostring = function() return "x" .. wait(3) end })
      return table.concat(list, " ") .. s .. f() .. ("%s"):format(t) ..
        table.concat({ (coroutine.wrap(function() coroutine.yield(wait(9)) end)()) })
    end
    local want_text = "1 2 5 8a2b2c27x410"
    assert.equal(want_text, body())
    assert.equal(want_text, coroutine.wrap(body)())
    local inside
    ("x"):gsub("x", function() inside = coroutine.wrap(body)() end)
    assert.equal(want_text, inside)
  end)
  in_process("with an error after it goes through wrap and resume as usual", function(wait)
    local w = coroutine.wrap(function() wait(1) error("late") end)
    local ok, err = pcall(w)
    assert.is_false(ok)
    assert.truthy(err:find("late$"))
    local c = coroutine.create(function() wait(1) error({ code = 5 }) end)
    ok, err = coroutine.resume(c)
    assert.same({ false, 5, "dead" }, { ok, err.code, coroutine.status(c) })
  end)
  in_process("leaves the program's own yields alone", function(wait)
    local c = coroutine.wrap(function(...)
      local n = select("#", ...)
      for _ = 1, 3 do
        wait(1)
        n = n + select("#", coroutine.yield(n, nil, nil))
        wait(2)
      end
      return n
    end)
    assert.same({ 2, 3 }, { c(nil, nil), select("#", c(1)) })
    assert.equal(5, (c(1, 2)))
    assert.equal(5, (c()))
  end)
  it("cannot be seen by a finaliser, which is told that the coroutine is running", function()
    local r = proc.mare([[
      local process, channel = require "mare.process", require "mare.channel"
      local c, log = channel.new(), channel.new(100)
      local p = process.spawn(function()
        local co, waits
        local function look()
          setmetatable({}, { __gc = function()
            if waits and coroutine.running() ~= co then
              log:try_send(coroutine.status(co) .. " " .. tostring(coroutine.resume(co)) .. " " .. tostring(pcall(coroutine.close, co)))
            end
            look()
          end })
        end
        co = coroutine.create(function()
          look()
          waits = true
          local t
          for _ = 1, 150 do t = c:receive() end
          waits = false
          coroutine.yield(#t)
          return "end"
        end)
        collectgarbage("incremental")
        local _, n = coroutine.resume(co)
        return n, select(2, coroutine.resume(co)), coroutine.status(co)
      end)
      local big = {} for i = 1, 2000 do big[i] = { i } end
      for _ = 1, 150 do
        while p:status() ~= "waiting" do process.yield() end
        c:send(big)
      end
      print(p:wait())
      local seen = {}
      local s = log:try_receive()
      while s do
        seen[s] = true
        s = log:try_receive()
      end
      for text in pairs(seen) do print(text) end]])
    assert.equal("true\t2000\tend\tdead\nnormal false false\n", r.out, r.err)
  end)
  it("at the end of the program's patience is interrupted inside a coroutine, too", function()
    local r = proc.mare([[
      local channel = require "mare.channel"
      local c = channel.new()
      require "mare.process".spawn(function() require "mare".sleep(1e9) end)
      local co = coroutine.wrap(function() print "ready" io.stdout:flush() c:receive() end)
      print(pcall(co)) os.exit(3)]], {}, { signals = { { after = "ready", name = "INT" } } })
    assert.equal(3, r.code, r.err)
    assert.truthy(r.out:find("ready\nfalse\t.*interrupted!"))
  end)
  it("is transparent to 100 coroutines that take turns", function()
    with_echo(function(wait)
      local list = {}
      for i = 1, 100 do
        list[i] = coroutine.wrap(function()
          local n = i
          while true do
            n = wait(n)
            coroutine.yield(n)
          end
        end)
      end
      for round = 1, 5 do
        for i = 1, 100 do assert.equal(i + round, list[i]()) end
      end
    end)
  end)
end)
