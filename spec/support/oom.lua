-- Work for src/module/oom_test.c, which lets each allocation of it fail in turn. A work either does all it should, or fails with an error, or a
-- result, that says there is no memory; then the next run works, and nothing is left open. What a work keeps between runs stands above it.
local mare = require "mare"
local channel, fiber, timer, process = mare.channel, mare.fiber, mare.timer, mare.process
local net, file, subprocess, signal = require "mare.net", mare.file, mare.subprocess, mare.signal

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

local work = {}

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

function work.processes()
  local c = channel.new()
  local p = process.spawn(function(n, within)
    c:send_within(within, { n })
    return n + 1
  end, 41, PATIENCE)
  local got = ok(c:receive(PATIENCE))[1]
  assert(got == 41 and joined(p) == 42)
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
  local f, path = ok(file.temp())
  local guard <close> = setmetatable({}, { __close = function() f:close() os.remove(path) end })   -- luacheck: ignore guard
  ok(f:write(("line\n"):rep(3000)))
  ok(f:seek("set", 0))
  assert(ok(f:read("l")) == "line")
  assert(#ok(f:read("a")) == 14995)
  assert(#ok(file.read(path)) == 15000)
  assert(ok(file.stat(path)).size == 15000)
  ok(file.list("/proc/self/fd"))
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

-- A call may also fail as one whose connection broke, or whose servant did: where the memory was missing is the other side's secret.
local function exception(e)
  if type(e) ~= "table" then error(e, 0) end
  error(e.name == nil and tostring(e) or "not enough memory: " .. tostring(e), 0)
end

local idl = [[
  exception E {};
  struct Item { string s; long n; };
  typedef sequence<Item> Items;
  interface I { Items turn(in Items list, out any a); void fail() raises (E); };
]]

local function turn(_, l) return { l[2], l[1] }, 7 end

local function call(object)
  local list, any = object:turn({ { s = "one", n = 1 }, { s = ("two"):rep(1000), n = 2 } })
  assert(list[1].n == 2 and list[2].s == "one" and any._anyval == 7)
  local done = pcall(object.fail, object)
  assert(not done)
end

local remote, enough
function work.calls()                            -- the servant's process has memory enough
  if not remote then
    local place = channel.new()
    enough = place
    process.spawn(function()
      local broker = require "mare.orb".init { host = "127.0.0.1" }
      broker:load(idl)
      place:send(tostring(broker:serve({ turn = turn, fail = function() error(broker.types.E {}, 0) end }, "I")))
      place:receive()
      broker:shutdown()
    end)
    local broker = require "mare.orb".init { timeout = PATIENCE }
    broker:load(idl)
    remote = broker:proxy(place:receive(), "I")
  end
  local done, e = pcall(call, remote)
  if not done then exception(e) end
end

local here
function work.servants()                         -- the servant shares the memory
  if not here then
    local broker = require "mare.orb".init { host = "127.0.0.1", log = function() end }
    broker:load(idl)
    local reference = tostring(broker:serve({ turn = turn, fail = function() error(broker.types.E {}, 0) end }, "I"))
    local client = require "mare.orb".init { timeout = PATIENCE, log = function() end }
    client:load(idl)
    here = client:proxy(reference, "I")
  end
  local done, e = pcall(call, here)
  if not done then exception(e) end
end

function finish()                                -- luacheck: ignore
  if enough then enough:close() end
end

return work
