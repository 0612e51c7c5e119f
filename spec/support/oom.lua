-- Work for src/module/oom_test.c, which lets each allocation of it fail in turn. A work either does all it should, or fails with an error, or a
-- result, that says there is no memory; then the next run works, and nothing is left open. What a work keeps between runs stands above it.
local mare = require "mare"
local channel, fiber, timer, process = mare.channel, mare.fiber, mare.timer, mare.process
local buffer, net, file, subprocess, signal = mare.buffer, require "mare.net", mare.file, mare.subprocess, mare.signal

local PATIENCE = 10                            -- seconds; what exceeds them is a wake-up that was lost, and fails

-- ok(...): the results, or the error they speak of
local function ok(value, message, ...)
  if value == nil then error(message, 0) end
  return value, message, ...
end

-- joined(handle): a fiber's or a process's results, or its error
local function joined(handle)
  local done, value = handle:wait(PATIENCE)
  if not done then error(value, 0) end
  return value
end

-- with(things, f): f(), and whatever comes of it, each of things is closed
local function with(things, f)
  local guard <close> = setmetatable({}, { __close = function()   -- luacheck: ignore guard
    for i = 1, #things do things[i]:close() end
  end })
  return f(things)
end

-- begun(f, …): what f sends through the channel that it gets first, in a process of its own, which goes on until that is closed; and the channel.
-- If the process fails before, its error: so a module that oom_test.c has not registered is an error, and nothing is waited for.
local function begun(f, ...)
  local place = channel.new()
  local p = process.spawn(f, place, ...)
  local which, value, why = mare.select { place, p, timeout = 10 * PATIENCE }
  if which == 1 then return value, place end
  place:close()
  error("no server was begun: " .. tostring(why), 0)
end

local work = {}

-- What is started has a handle: where there is none, nothing was started.
function work.born()
  local before = process.totals().spawned
  local done, handle = pcall(process.spawn, { main = function(x) return x end, args = { 1 }, name = "born" })
  assert(process.totals().spawned - before == (done and 1 or 0), "started without a handle")
  if not done then error(handle, 0) end
  assert(joined(handle) == 1)
end

local json = package.loaded["mare.json"]          -- nil: mare is built without it
local texts = { ("[%s1]"):format(("[],"):rep(100)), '{"a":{"b":[1,2.5,null,"' .. ("x"):rep(300) .. '"]}}', ("["):rep(200) .. ("]"):rep(200) }
local log = package.loaded["mare.log.core"]
assert(log.set(nil, "json", "/dev/null"))
function work.logged()
  local store = fiber.storage()
  store[log.FIELDS] = { request = "r", [1] = { 2 } }
  log.keeps()
  local made = fiber.spawn(function()
    log.error(("long"):rep(1000), { a = 1, b = { c = { "x" } }, d = print, [2] = 0.5, e = {}, f = work })
    return 1
  end)
  store[log.FIELDS] = nil
  assert(joined(made) == 1)
end

local frozen = mare.freeze { names = { b = 1, a = { 2 } }, bytes = buffer.of "x" }
work.texts = json and function()
  for _, text in ipairs(texts) do assert(json.encode(ok(json.decode(text))) == text or text:find "a") end
  local longer = { ("x"):rep(3000), b = nil }
  assert(#json.encode(longer, { indent = 2 }) == 3008 and #json.encode({ frozen, { c = 1, d = {} } }, { sorted = true }) > 40)
  assert(json.encode(json.array { 1 }, { into = buffer.new(2000) }):len() == 2003)
  local n = 0
  for value in json.lines(table.concat({ texts[2], texts[2] }, "\n")) do n = n + #value.a.b end
  assert(n == 8)
end

local names = {}
for i = 1, 40 do names[i] = "name " .. i end
function work.names()
  for _, name in ipairs(names) do process.unregister(name) end   -- what a run without memory has left
  for _, name in ipairs(names) do process.register(name) end
  for _, name in ipairs(names) do assert(process.whereis(name) == process.self()) end
  for _, name in ipairs(names) do assert(process.unregister(name) and not process.whereis(name)) end
end

-- killed(options, f): f(handle) of a process, which doesn't outlive that
local function killed(options, f)
  local h
  local guard <close> = setmetatable({}, { __close = function() if h then h:kill() end end })   -- luacheck: ignore guard
  h = process.spawn(options)
  return f(h)
end

-- An error of mare's of that kind; another is one of memory.
local function of_kind(kind, done, e)
  assert(not done)
  if type(e) ~= "table" then error(e, 0) end
  assert(e.kind == kind, e)
  return e
end

function work.cancelling()
  killed({ main = mare.sleep, args = { 3600 } }, function(h)
    assert(h:cancel { "because", { 1 } })
    local e = of_kind("cancelled", h:wait(PATIENCE))
    assert(e.reason[2][1] == 1 and tostring(e):find "cancelled")
    assert(not h:cancel("late") and not h:kill())
  end)
  killed({ main = mare.sleep, args = { 3600 } }, function(h)
    h:kill()
    of_kind("killed", h:wait(PATIENCE))
  end)
  local f = fiber.spawn(mare.sleep, 3600)
  fiber.yield()
  local cancelled, e = pcall(f.cancel, f, "because")
  if not cancelled then f:cancel() end
  local done, why = f:wait(PATIENCE)
  if not cancelled then error(e, 0) end
  assert(of_kind("cancelled", done, why).reason == "because")
end

function work.ties()
  local trap = ok(process.trap())
  killed({ main = mare.sleep, args = { 3600 }, linked = true, owned = true }, function(h)
    killed({ main = mare.sleep, args = { 3600 } }, function(other)
      assert(h:owner() == process.self())
      h:link()
      h:give(other)
      assert(h:owner() == other)
      assert(other:link():unlink())
      h:kill()
      local got
      repeat got = ok(trap:receive(PATIENCE)) until got == h     -- others were left by a run without memory
    end)
  end)
end

function work.limits()
  assert(process.masked(1, process.deadline, 100, function() return process.remaining() end) > 0)
  of_kind("deadline", pcall(process.deadline, 0.0005, mare.sleep, 3600))
  of_kind("deadline", pcall(process.deadline, 0.0005, coroutine.wrap(function() mare.sleep(3600) end)))
  assert(process.remaining() == nil)
  mare.sleep(0.0001)
end

-- Those that were killed are listed until they are collected: so one that lives is looked at, or the list would get longer from run to run.
local listed
function work.lists()
  listed = listed or process.spawn { main = mare.sleep, args = { 3600 }, name = "listed" }
  local found
  for _, p in ipairs(process.list { handles = true }) do found = found or p.handle == listed and p end
  assert(found.id == listed.id and found.name == "listed")
  assert(#process.list { sort = "cpu", limit = 1 } == 1 and #process.list() >= 2)
  assert(listed:info(PATIENCE).id == listed.id and listed:traceback(PATIENCE):find "listed")
  assert(process.totals().processes >= 1)
end

-- What the observer answers on its own thread; here by this one.
local observer
function work.observer()
  observer = observer or require "mare.observe.protocol"(require "observed")
  local function ask(kind, text)
    local answer = observer(kind, text)
    local refused = answer:find '^{"error":' or answer:find "^HTTP/1.1 5"      -- what failed in other works tells of memory, too
    if refused and answer:find "not enough memory" then error(answer, 0) end
    return answer
  end
  with({ channel.named("observed", 10) }, function(things)
    ok(things[1]:send(1))
    killed({ main = mare.sleep, args = { 3600 }, name = "observed" }, function(h)
      assert(ask("hello", ""):find '"protocol":1')
      assert(ask("line", "list cpu 1"):find '"processes"')
      assert(ask("line", "totals"):find '"workers"')
      assert(ask("line", "channels 50"):find '"length":1')
      ask("line", "failures 3")
      assert(ask("line", "groups 5"):find '"groups"')
      assert(ask("line", "talk 1 5"):find '"talk"')
      assert(ask("line", "info " .. h.id):find '"name":"observed"')
      ask("line", "traceback " .. h.id)          -- on a loaded machine it does not answer in time
      assert(ask("http", "GET /metrics HTTP/1.1\r\n\r\n"):find "mare_processes")
      assert(ask("line", "cancel " .. h.id):find '"cancelled"')
    end)
  end)
end

function work.messages()
  local c = channel.new(2)
  local shared = { 1, 2.5, "three", { deep = { true } } }
  shared.self = shared
  ok(c:send(shared, function() return shared[3] end))
  ok(c:send(("long"):rep(5000)))
  local t, f = ok(c:receive(PATIENCE))
  assert(t.self == t and t[4].deep[1] == true and f() == "three")
  assert(#ok(c:receive(PATIENCE)) == 20000)
  c:close()
end

function work.dicts()
  local d, shared = mare.dict.new(), channel.new()
  local long = ("long"):rep(100)
  for i = 1, 20 do ok(d:set(i, i)) end
  ok(d:set("text", "short"))
  ok(d:set("text", long))
  ok(d:set("table", { 1, { two = long }, shared }))
  assert(d:get "text" == long and d:get("table")[2].two == long and d:get("table")[3] == shared)
  assert(d:incr("n", 2, 40) == 42 and d:update("n", function(v) return v / 2 end) == 21)
  assert(d:cas("text", long, "short", 100) and d:take "text" == "short")
  assert(#d:keys() == 22)
  local sum = 0
  for k in d:each() do sum = sum + (math.type(k) and k or 0) end
  assert(sum == 210)
  local w = d:watch("n", 21)
  assert(d:set("n", { "changed" }) and w:wait(PATIENCE)[1] == "changed")
  assert(select("#", d:wait("none", nil, 0)) == 2)
  d:clear()
  assert(#d == 0 and d:size() == 0)
  local name = "dict of a work"
  local n = mare.dict.open(name, { limit = 2000 })
  for i = 1, 50 do assert(n:set(i, "value " .. i)) end
  assert(n:size() <= 2000 and mare.dict.find(name) == n)
  mare.dict.drop(name)
end

function work.atomics()
  local a, name = mare.atomic.new(1), "atomic of a work"
  assert(a:add(2) == 3 and a:wait(1) == 3)
  assert(mare.select { a:changing(1), timeout = PATIENCE } == 1)
  assert(mare.atomic.named(name, 7):get() >= 7)
  mare.atomic.drop(name)
  local o = mare.atomic.once(function(x) return { x }, "more" end)
  assert(o(5)[1] == 5 and select(2, o()) == "more" and o:done())
  mare.atomic.drop(name)
  assert(mare.atomic.once(name, function(...) return { ... } end, 1, 2)[2] == 2)
  assert(mare.atomic.once(name, error)[1] == 1)
  mare.atomic.drop(name)
  local failing = mare.atomic.once(function() error({ "on purpose" }, 0) end)
  local done, e = pcall(failing)
  assert(not done)
  if type(e) ~= "table" then error(e, 0) end
  assert(e[1] == "on purpose" and not failing:done())
end

local freeze = mare.freeze
local elsewhere = freeze { "of another whole" }
function work.frozen()
  local list = { 1, 2.5, "three", { deep = { true } }, long = ("long"):rep(500), [2.5] = false, inner = elsewhere, print = print }
  for i = 1, 40 do list["key" .. i] = { id = i, name = "n" } end
  for i = 1, 70 do list[i + 4] = i end
  list.self = list
  local function helper() return list.n end
  list.n, list.f, list.g = 5, function() return helper() end, function() helper() return elsewhere[1] end
  local f = freeze(list)
  for _ = 1, 40 do assert(f[4].deep[1] == true and f.key7.name == "n" and f.self == f and f.long == list.long and f.inner == elsewhere) end
  assert(f.f() == 5 and f.g() == "of another whole" and f.print == print)
  local n = 0
  for _, v in pairs(f) do n = n + (v ~= nil and 1 or 0) end
  assert(n == 74 + 40 + 8, n)
  local copy = freeze.copy(f)
  assert(copy.self == copy and copy.long == list.long and copy.inner[1] == "of another whole" and copy.f() == 5)
  local c = channel.new(1)
  ok(c:send(f, f[4]))
  local same, part = ok(c:receive(PATIENCE))
  assert(same == f and part == f[4])
end

function work.processes()
  local c = channel.new()
  local p = process.spawn(function(n, within)
    c:send_within(within, { n })
    return n + 1
  end, 41, PATIENCE)
  local got = ok(c:receive(PATIENCE))[1]
  assert(got == 41 and joined(p) == 42)
end

function work.luaproc()
  local luaproc = require "luaproc"
  local guard <close> = setmetatable({}, { __close = function()   -- luacheck: ignore guard
    luaproc.delchannel("to")
    luaproc.wait()
  end })
  ok(luaproc.newchannel("to"))
  ok(luaproc.newproc("local t = luaproc.receive('to') luaproc.send('to', t and { t[1] + 1 })"))
  ok(luaproc.send("to", { 1, "two" }))
  assert(ok(luaproc.receive("to"))[1] == 2)
end

function work.fibers()
  local c = channel.new()
  local f = fiber.spawn(function() return ok(c:receive(PATIENCE)) end)
  local g = fiber.spawn { main = function(x) mare.sleep(0.0001) return ok(c:send_within(PATIENCE, x)) end, args = { "hello", n = 1 }, name = "g" }
  local sent, why = pcall(joined, g)
  if not sent then c:close() end
  local got, value = pcall(joined, f)
  if not sent then error(why, 0) end
  if not got then error(value, 0) end
  assert(value == "hello")
end

function work.select()
  local a, b, t = channel.new(), channel.new(1), timer.after(0.0001)
  local which = ok(mare.select { a, t, timeout = PATIENCE })
  assert(which == 2)
  assert(ok(mare.select { a, b:sending("x"), timeout = PATIENCE }) == 2)
  local s = mare.selector { a, b, timer.after(PATIENCE) }
  local case, value = s:wait(PATIENCE)
  assert(case == 2 and value == "x")
  t:cancel()
end

function work.timers()
  local n = 0
  local t = timer.every(0.0001, function() n = n + 1 end)
  mare.sleep(0.002)
  t:cancel()
  local one = timer.after(0.0001)
  ok(one:wait(PATIENCE))
end

function work.connections()
  with({ ok(net.listen("127.0.0.1:0")) }, function(things)
    local host, port = things[1]:address()
    things[2] = ok(net.connect(host, port, { timeout = PATIENCE }))
    things[3] = ok(things[1]:accept(PATIENCE))
    local reader = fiber.spawn(function()
      local line = ok(things[3]:read("l", PATIENCE))
      local rest = ok(things[3]:read("a", PATIENCE))
      return line .. #rest
    end)
    local sent, why = pcall(function()
      things[2]:setvbuf("full")
      ok(things[2]:write("one\n", ("x"):rep(100000)))
      ok(things[2]:flush(PATIENCE))
      ok(things[2]:shutdown("write"))
    end)
    if not sent then things[2]:close() end
    local got, value = pcall(joined, reader)
    if not sent then error(why, 0) end
    if not got then error(value, 0) end
    assert(value == "one100000")
  end)
end

function work.datagrams()
  with({ ok(net.udp("127.0.0.1:0")), ok(net.udp("127.0.0.1:0")) }, function(things)
    local host, port = things[2]:address()
    ok(things[1]:send_to("datagram", host, port))
    assert(ok(things[2]:receive_from(PATIENCE)) == "datagram")
  end)
end

function work.files()
  local f, path
  local guard <close> = setmetatable({}, { __close = function()   -- luacheck: ignore guard
    if path then os.remove(path) end
    if f then f:close() end
  end })
  f, path = ok(file.temp())
  ok(f:write(("line\n"):rep(3000)))
  ok(f:seek("set", 0))
  assert(ok(f:read("l")) == "line")
  assert(#ok(f:read("a")) == 14995)
  assert(#ok(file.read(path)) == 15000)
  assert(ok(file.stat(path)).size == 15000)
  ok(file.list("/proc/self/fd"))
end

function work.buffers()
  local b = buffer.new(10):append("one", 2, buffer.of("three"))
  b:pack("<s4z", ("x"):rep(100), "zero")
  local slice = b:slice(11, 13)
  for _ = 1, 5 do b:append(b) end
  b:put(1, "first")
  assert(slice:sub() == "one" and #buffer.new(slice):append("more") == 7 and b:find("first") == 1)
  local v = buffer.new(64):doubles()
  v:put(1, { 1, 2, 3 })
  v:fill(4, 4)
  assert(v:table()[8] == 4 and v[2] == 2 and tostring(v):find "8 numbers")
  local c = channel.new(2)
  local size = #b
  local sent, why = pcall(function() ok(c:send { b, b:slice(1, 3) }) end)
  if not sent then
    assert(#b:append("!") == size + 1)         -- it is still ours
    error(why, 0)
  end
  local t = ok(c:receive(PATIENCE))
  assert(#t[1] == size and t[2]:sub() == "fir")
  assert(t[1]:seal():sealed() and #t[1] == size)
  local sums = joined(process.spawn(function(whole) return #whole, whole end, t[1]))
  assert(sums == size)
  assert(#ok(buffer.map("/proc/self/exe", 4096, 5000)) == 5000)
end

function work.buffers_outside()
  local large = buffer.new(150000):fill(97):seal()
  local f, path
  local guard <close> = setmetatable({}, { __close = function()   -- luacheck: ignore guard
    if path then os.remove(path) end
    if f then f:close() end
  end })
  f, path = ok(file.temp())
  ok(f:write(large))
  ok(f:seek("set", 0))
  assert(#ok(f:read_buffer(100)) == 100)
  assert(#ok(f:read_buffer("a")) == 149900)
  assert(ok(file.read_buffer(path)) == large)
  ok(file.write(path, buffer.new "short"))
  with({ ok(net.listen("127.0.0.1:0")) }, function(things)
    local host, port = things[1]:address()
    things[2] = ok(net.connect(host, port, { timeout = PATIENCE }))
    things[3] = ok(things[1]:accept(PATIENCE))
    local reader = fiber.spawn(function()
      local first = ok(things[3]:read_buffer(5, PATIENCE))
      local rest = ok(things[3]:read_buffer(150000, PATIENCE))
      return first:sub() .. #rest .. #ok(things[3]:read_buffer("a", PATIENCE))
    end)
    local sent, why = pcall(function()
      ok(things[2]:write("<", buffer.new "one>", large))
      ok(things[2]:shutdown("write"))
    end)
    if not sent then things[2]:close() end
    local got, value = pcall(joined, reader)
    if not sent then error(why, 0) end
    if not got then error(value, 0) end
    assert(value == "<one>1500000")
  end)
end

local octets = { kind = "sequence", element = { kind = "octet" } }
local program = require "mare.orb.cdr".environment({ buffers = true }):program { octets, octets }
function work.octets()
  local bytes = program:encode(1 | 2 << 1 | 8, buffer.of "abc", buffer.new(2000))
  local a, b = program:decode(bytes, 1, 1 | 2 << 1 | 8)
  assert(a == buffer.of "abc" and #b == 2000)
end

function work.moving()                           -- files of io; what is lost on the way is closed
  local c = channel.new(1)
  local f = io.tmpfile() or error("not enough memory", 0)
  c:send { f, list = { f } }
  local t = c:receive()
  assert(t[1] == t.list[1])
  local g = joined(process.spawn(function(h) h:write "text" return h end, t[1]))
  assert(not pcall(function() return t[1].close end))
  g:seek "set"
  assert(g:read "a" == "text" and g:close())
end

function work.programs()
  local h = ok(subprocess.spawn { "/bin/cat", stdin = "pipe", env = { OOM = "yes" } })
  local guard <close> = setmetatable({}, { __close = function()   -- luacheck: ignore guard
    h:kill("KILL")
    h:wait(PATIENCE)
    h.stdin:close()
    h.stdout:close()
  end })
  ok(h.stdin:write("through cat"))
  ok(h.stdin:close())
  assert(ok(h.stdout:read("a", PATIENCE)) == "through cat")
  assert(ok(h:wait(PATIENCE)).code == 0)
end

function work.signals()
  local s = ok(signal.on("USR2"))
  s:close()
end

-- In a budget everything is taken from a limit, too; what is refused for want of it says so in the same words.
function work.budgets()
  local c, own = channel.new(math.huge), 4 << 20
  local p = process.spawn { memory = { own, tree = true }, main = function(n)
    local process = require "mare".process -- luacheck: ignore process
    assert(#require "mare".buffer.new(1000):append("x"):seal() == 1001)
    c:send({ "in a queue", n })
    c:send(n)
    local child = process.spawn(function(x) c:send(("x"):rep(x)) return { x } end, 100)
    local inner = process.spawn { memory = { 1 << 20, tree = true }, name = "inner", main = function() return process.self().name end }
    local done, value = child:wait()
    local fine, name = inner:wait()
    if not (done and fine) then error(done and name or value, 0) end
    return value[1] + n
  end, args = { 1 } }
  local value = joined(p)
  assert(value == 101 and #c == 3)
  assert(ok(c:receive())[2] == 1 and c:receive() == 1 and #ok(c:receive()) == 100)
end

-- What comes through the channel; or the error of the fiber that would send it and has failed before it could, without waiting for nothing.
local function heard(c, f)
  local which, value, why = mare.select { c, f, timeout = PATIENCE }
  if which == 2 and value then return ok(c:receive(PATIENCE)) end
  if which == 2 then error(why, 0) end
  return ok(value, why)
end

-- Processes that accept from one server: who of them gets a connection is the load's business.
function work.seats()
  with({ ok(net.listen("127.0.0.1:0")) }, function(things)
    local server, ready = things[1], channel.new(math.huge)
    local function serve(server, ready)               -- luacheck: ignore server ready
      local c <close>, why = server:accept(PATIENCE)
      if c then ready:send(c:read("l", PATIENCE) or "nothing") end
      return c and true or nil, why
    end
    local others = {}
    for i = 1, 2 do others[i] = process.spawn(serve, server, ready) end
    local mine = fiber.spawn(function()
      local done, value, why = pcall(serve, server, ready)
      if done and value then return true end
      ready:close()                              -- the connection is lost
      error(why or value, 0)
    end)
    local done, why = pcall(function()
      local host, port = server:address()
      for i = 1, 3 do
        things[#things + 1] = ok(net.connect(host, port, { timeout = PATIENCE }))
        ok(things[#things]:write("line " .. i .. "\n"))
      end
      for _ = 1, 3 do assert(heard(ready, mine):find "^line ") end
    end)
    if not done then                               -- nobody comes any more whom the others could accept
      server:close()
      for _, p in ipairs(others) do p:kill() end
    end
    local got, value = pcall(joined, mine)
    for _, p in ipairs(others) do p:wait(PATIENCE) end
    if not got and value ~= "closed" then error(value, 0) end
    if not done then error(why, 0) end
  end)
end

-- A name that is nearly one that exists
function work.suggestions()
  for _, f in ipairs { function() return mare.proces end, function() return mare.channel.neww end, function() return channel.new():sned(1) end } do
    local done, e = pcall(f)
    assert(not done)
    if not tostring(e):find "did you mean" then error(e, 0) end
  end
end

assert(loadfile "spec/support/oom_sockets.lua")(work, ok, joined, with)
assert(loadfile "spec/support/oom_web.lua")(work, ok, with)
local http_finish = assert(loadfile "spec/support/oom_http.lua")(work, ok, begun, with)
local orb_finish = assert(loadfile "spec/support/oom_orb.lua")(work, begun)
local ludo_finish = assert(loadfile "spec/support/oom_ludo.lua")(work, begun)
local together_finish = assert(loadfile "spec/support/oom_together.lua")(work, ok)
-- Servers that stay between their works have a program of their own (c.module.oom_events): works in which every further allocation fails end fibers
-- of whatever stands beside them.
local events_finish = function() end
if os.getenv "MARE_OOM" == "events" then
  for name in pairs(work) do work[name] = nil end
  events_finish = assert(loadfile "spec/support/oom_events.lua")(work, begun)
end

function finish()                                -- luacheck: ignore
  if listed then listed:kill() end
  http_finish()
  orb_finish()
  ludo_finish()
  events_finish()
  together_finish()
end

return work
