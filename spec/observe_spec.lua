-- A running program is looked at through its door: what it says, who may ask, when there is a door, and that nobody can do harm there.
-- runs under: mare
local mare = require "mare"
local proc = require "spec.support.proc"
local terminal = require "mare.cli.terminal"
local watched = require "spec.support.watched"

local observe = { "--observe" }
local sleeper = "print 'ready' mare.sleep(1e6)"

-- Until f gives something: the program does it as soon as it can.
local function in_the_end(f)
  local limit = mare.clock() + watched.limit
  while mare.clock() < limit do
    local v = f()
    if v then return v end
    mare.sleep(0.01)
  end
  error("it did not happen", 2)
end

local function process_named(client, name)
  for _, p in ipairs(client("list id 10000").processes) do
    if p.name == name then return p end
  end
end

local function threads_of(pid)
  local names = {}
  for comm in io.popen(("cat /proc/%d/task/*/comm 2>/dev/null"):format(pid)):lines() do names[comm] = (names[comm] or 0) + 1 end
  return names
end

describe("a program that is observed", function()
  it("says what it is, what it does, and what each process does", function()
    local w <close> = watched.start({ "--observe", "-w", "2" }, [[
      local box = mare.channel.named("box", math.huge)
      for i = 1, 7 do box:send(i) end
      local deep = mare.channel.new()
      local function wait(c) c:receive() end
      process.spawn { name = "waiter", main = wait, args = { deep }, priority = "high" }
      local h = process.spawn { name = "sender", main = function(c) for i = 1, 5 do c:send(i) end require "mare".sleep(1e6) end, args = { box } }
      while #box < 12 do mare.sleep(0.01) end
      print "ready"
      h:wait()
    ]])
    local client <close> = w:connect()
    assert.equal(1, client.hello.protocol)
    assert.equal(w.pid, client.hello.pid)
    assert.equal(2, client.hello.workers)
    assert.equal(mare.version, client.hello.mare)
    assert.matches("run %-%-observe %-w 2 ", client.hello.command)
    local list = client "list id 10"
    assert.is_true(list.ok)
    assert.equal(3, list.count)
    assert.equal(3, #list.processes)
    assert.same({ "main", nil, nil }, { list.processes[1].kind, list.processes[2].kind })
    local sender = list.processes[3]
    in_the_end(function() return process_named(client, "waiter").status == "waiting" end)
    local waiter = process_named(client, "waiter")
    assert.same({ "waiter", "waiting", "receive", "high", 1, 1, 0 },
      { waiter.name, waiter.status, waiter.waits, waiter.priority, waiter.parent, waiter.fibers, waiter.restarts })
    assert.equal(5, sender.sent)
    assert.equal(0, #client("list cpu 0").processes)
    assert.equal(1, #client("list heap 1").processes)
    local info = client("info " .. waiter.id).process
    assert.matches("^%S+:%d+$", info.where)
    assert.matches("channel", info.on)
    assert.is_true(info.memory > 0)
    assert.matches("in function <[^\n]+>$", client("traceback " .. waiter.id).traceback)
    assert.same({ { name = "box", length = 12, senders = 0, receivers = 0 } }, client("channels 3").channels)
    local totals = client "totals"
    assert.equal(3, totals.spawned)
    assert.equal(12, totals.messages)
    assert.equal(2, #totals.workers)
    assert.is_true(totals.dispatches >= 3 and totals.resident > 0 and totals.clock > 0)
  end)

  it("answers while all its workers compute, and while they are in C", function()
    for _, body in ipairs { "while true do end", "io.read()", "string.rep('a', 30):find(('a*'):rep(30) .. 'b')" } do
      local w <close> = watched.start({ "--observe", "-w", "2" }, ([[
        for i = 1, 4 do process.spawn { name = "busy" .. i, main = function() %s end } end
        print "ready"
        process.yield()
        %s
      ]]):format(body, body))
      local client <close> = w:connect()
      assert.equal(5, client("list cpu 10").count)
      assert.equal(5, client("totals").spawned)
      assert.is_true(client("kill 2").ok)
    end
  end)

  it("gives the traceback of a process that computes", function()
    local w <close> = watched.start(observe, "local function dig() while true do end end print 'ready' dig()")
    local client <close> = w:connect()
    assert.matches("in upvalue 'dig'.*in main chunk", in_the_end(function()
      local text = client("traceback 1").traceback
      return text and text:find "dig" and text:gsub("local 'dig'", "upvalue 'dig'")
    end))
  end)

  it("has the busiest first, by CPU and by messages", function()
    local w <close> = watched.start(observe, [[
      process.spawn { name = "spins", main = function() while true do end end }
      process.spawn { name = "talks", main = function()
        local mare = require "mare"
        local c = mare.channel.new(1)
        while true do c:send(1) c:receive() mare.process.yield() end
      end }
      for i = 1, 20 do process.spawn { name = "rests", main = function() require "mare".sleep(1e6) end } end
      print "ready"
      mare.sleep(1e6)
    ]])
    local client <close> = w:connect()
    in_the_end(function()
      local p = client("list messages 1").processes[1]
      mare.sleep(0.1)
      return p.name == "talks" and (p.rate or 0) > 0
    end)
    in_the_end(function()
      local first, second = table.unpack(client("list cpu 2").processes)
      mare.sleep(0.1)
      return first.name ~= "rests" and second.name ~= "rests" and (first.load or 0) > 0
    end)
  end)

  it("counts for a while who talks to whom, what groups there are, and where CPU time goes", function()
    local w <close> = watched.start({ "--observe", "-w", "2" }, [[
      local there, back = mare.channel.named "there", mare.channel.named "back"
      process.spawn { name = "echo 1", main = function(there, back) while true do back:send(there:receive()) end end, args = { there, back } }
      for i = 2, 5 do process.spawn { name = "echo " .. i, main = function() require "mare".sleep(1e6) end } end
      process.spawn { name = "burns", main = function() local function burn() for i = 1, 1e5 do end end while true do burn() local n = 1 end end }
      process.spawn(function() require "mare".sleep(1e6) end)
      print "ready"
      while true do there:send(1) back:receive() end
    ]])
    local client <close> = w:connect()
    client "list id 0"
    local groups = client "groups"
    assert.same({ "echo #", 5, 2 }, { groups.groups[1].name, groups.groups[1].count, groups.groups[1].example })
    assert.is_nil(groups.rest)
    assert.same({ 8, 1 }, { client("groups 0").rest.count, #client("groups 1").groups })
    local seen = {}
    in_the_end(function()
      local answer = client "talk 20 50"
      assert.is_true(answer.seconds >= 0.02 and answer.rest >= 0)
      for _, t in ipairs(answer.talk) do
        if t.on then seen[("%s %s %s"):format(t.from.kind or t.from.name, t.on, t.to.kind or t.to.name)] = t.n end
      end
      return seen["main channel 'there' echo 1"] and seen["echo 1 channel 'back' main"]
    end)
    assert.is_nil(seen["main channel 'back' echo 1"])
    for _ = 1, 2 do                             -- the second has nothing of the first
      assert.equal(10, client("profile 10").profiling)
      assert.matches("already", client("profile 10").error)
      local p
      in_the_end(function()
        mare.sleep(0.2)
        p = client "profile"
        if p.total > 0 then return true end
        client "profile 10"
      end)
      local all = 0
      for _, n in ipairs(p.nodes) do all = all + n[4] end
      assert.is_true(math.abs(all - p.total) <= p.total * #p.nodes / 1000 + #p.nodes)
      assert.is_true(p.total <= p.seconds * 2.5e6 + 5e5, "more CPU time than two workers have")
      assert.matches("no profile", client("profile").error)
    end
    for request, why in pairs { ["talk 501"] = "1 to 500", ["talk 5 x"] = "pairs", ["profile 61"] = "60 seconds", ["groups x"] = "groups" } do
      assert.matches(why, client(request).error)
    end
  end)

  it("cancels and kills", function()
    local w <close> = watched.start(observe, [[
      local over = mare.channel.new(math.huge)
      local function wait(over)
        local mare = require "mare"
        local ok, err = pcall(mare.sleep, 1e6)
        over:send(tostring(mare.error.reason and mare.error.reason(err) or err.reason))
        error(err)
      end
      local a = process.spawn { name = "a", main = wait, args = { over } }
      local b = process.spawn { name = "b", main = function() while true do end end }
      local c = process.spawn { name = "c", main = function() while true do end end }
      print "ready"
      print(over:receive())
      for _, h in ipairs { a, b, c } do print(h:wait()) end
      print "over"
      mare.sleep(1e6)
    ]], { stderr = "null" })
    local client <close> = w:connect()
    local function id(name) return process_named(client, name).id end
    local a, b, c = id "a", id "b", id "c"
    in_the_end(function() return process_named(client, "a").status == "waiting" end)
    assert.same({ ok = true, cancelled = a }, client("cancel " .. a))
    assert.equal("mare top", w:line())
    assert.same({ ok = true, killed = b }, client("kill " .. b))
    assert.same({ ok = true, cancelled = c }, client("cancel " .. c))
    local line
    repeat line = w:line() until line == "over" or line == nil
    assert.equal("over", line)
    assert.matches("ended already", client("kill " .. b).error)
  end)

  it("tells of failures that nobody waited for, the newest first", function()
    local w <close> = watched.start(observe, [[
      for _, name in ipairs { "first", "second" } do
        local h = process.spawn { name = name, main = function(name) error("oops " .. name, 0) end, args = { name } }
        while h:status() ~= "failed" do mare.sleep(0.01) end
        h = nil
        collectgarbage()
      end
      collectgarbage()
      print "ready"
      mare.sleep(1e6)
    ]], { stderr = "null" })
    local client <close> = w:connect()
    local failures = in_the_end(function()
      local list = client("failures").failures
      return #list == 2 and list
    end)
    assert.matches("process 'second' .*oops second", failures[1].text)
    assert.matches("process 'first' .*oops first", failures[2].text)
    assert.equal(2, client("totals").failures)
    assert.equal(1, #client("failures 1").failures)
  end)

  it("says what is wrong with a request, and goes on", function()
    local w <close> = watched.start(observe, sleeper)
    local client <close> = w:connect()
    for request, why in pairs {
      [""] = "^requests are list, totals", ["sing"] = "^requests are", ["list colour"] = "sorted by",
      ["list cpu -1"] = "0 to 10000", ["list cpu 1e9"] = "0 to",
      ["info"] = "which process", ["info x"] = "which process", ["info 99"] = "no process #99", ["kill 99"] = "no process",
      ["cancel 1.5"] = "which process",
      ["traceback 0"] = "which process", ["list cpu 1 2"] = "too many words", ["\0\255"] = "^requests are", ["channels many"] = "how many",
    } do
      assert.matches(why, client(request).error)
    end
    assert.is_true(client("list").ok)
  end)

  it("is not harmed by what others send, or don't read", function()
    local w <close> = watched.start(observe, sleeper)
    local path = "unix:" .. w:door()
    local long = assert(mare.net.connect(path))
    assert(long:read("l", watched.limit))
    long:write(("x"):rep(5000))
    assert.matches("too long", (long:read("l", watched.limit)))
    assert.equal("", long:read("a", watched.limit))            -- and it hung up
    local deaf = assert(mare.net.connect(path))                -- asks, and does not read
    mare.fiber.spawn { daemon = true, main = function() while deaf:write(("list cpu 10000\n"):rep(100)) do end end }
    local silent = {}
    for i = 1, 100 do silent[i] = mare.net.connect(path) end
    local other <close> = w:connect()
    assert.is_true(other("list").ok)
    for _, c in pairs(silent) do c:close() end
    deaf:close(0)
    local again <close> = w:connect()
    assert.is_true(again("totals").ok)
    assert.equal("waiting", again("info 1").process.status)
  end)
end)

describe("the door", function()
  it("is the user's alone", function()
    local w <close> = watched.start(observe, sleeper)
    local path = w:door()
    local modes = io.popen(("stat -c '%%a %%u' %s %s"):format(path, path:match "^(.*)/")):read "a"
    local uid = io.popen("id -u"):read "l"
    assert.equal(("600 %s\n700 %s\n"):format(uid, uid), modes)
  end)

  it("is not used in a folder that others may enter", function()
    local folder = io.popen("mktemp -d /tmp/mare-spec.XXXXXX"):read "l"
    os.execute(("mkdir -m 755 %s/mare"):format(folder))
    local w <close> = watched.start(observe, sleeper, { env = { XDG_RUNTIME_DIR = folder } })
    local path = w:door()
    os.execute(("rm -r %s"):format(folder))
    assert.matches("^/tmp/mare%-%d+/%d+$", path)
  end)

  it("is found by who has another runtime folder", function()
    local folder = io.popen("mktemp -d /tmp/mare-spec.XXXXXX"):read "l"
    local w <close> = watched.start({}, sleeper, { env = { XDG_RUNTIME_DIR = folder } })
    local r = proc.mare_command({ "top", "--json", tostring(w.pid) }, { env = { XDG_RUNTIME_DIR = false } })
    local found = io.popen(("ls %s/mare"):format(folder)):read "l"
    os.execute(("rm -r %s"):format(folder))
    assert.equal(0, r.code, r.err)
    assert.equal(tostring(w.pid), found)
  end)

  local ends = { ["returns"] = "io.read()", ["calls os.exit"] = "io.read() os.exit(3)", ["fails"] = "io.read() error 'oops'",
    ["is in a deadlock"] = "io.read() mare.channel.new():receive()",
    ["calls os.exit in another process"] = "io.read() process.spawn(os.exit, 0) mare.sleep(1e6)" }
  for how, body in pairs(ends) do
    it("is gone when its program " .. how, function()
      local w <close> = watched.start(observe, "print 'ready' " .. body, { stderr = "null" })
      local path = assert(w:door())
      local client <close> = w:connect()
      assert.is_true(client("list").ok)
      w.child.stdin:write "\n"
      w:ends()
      assert.is_nil(w:door())
      assert.is_nil(os.rename(path, path))
    end)
  end

  for _, name in ipairs { "TERM", "HUP" } do
    it("is gone after SIG" .. name .. ", which ends the program as ever", function()
      local w <close> = watched.start(observe, sleeper)
      assert(w:door())
      w:kill(name)
      assert.same({ signal = name }, w:ends())
      assert.is_nil(w:door())
    end)
  end

  it("is gone after SIGTERM that lets a profile be written, too", function()
    local path = require "spec.support.temporary"()
    local w <close> = watched.start({ "--observe", "--profile", path }, [[
      local began = os.clock()
      while os.clock() < began + 0.5 do end
      print "ready"
      mare.sleep(1e6)]])
    assert(w:door())
    w:kill "TERM"
    assert.same({ signal = "TERM" }, w:ends())
    assert.is_nil(w:door())
    local file <close> = assert(io.open(path, "rb"))
    assert.is_true(#file:read "a" > 0)
    os.remove(path)
  end)

  it("is gone after the second Ctrl-C", function()
    local w <close> = watched.start(observe, [[
      print "ready"
      while true do
        local ok, err = pcall(mare.sleep, 1e6)
        print "interrupted"
      end]], { stderr = "null" })
    w:kill "INT"
    assert.equal("interrupted", w:line())
    w:kill "INT"
    assert.same({ code = 130 }, w:ends())
    assert.is_nil(w:door())
  end)

  it("leaves SIGTERM to the program that wants it", function()
    local w <close> = watched.start(observe, [[
      local term = require "mare.signal".on "TERM"
      print "ready"
      print(term:wait())
      term:close()
      print "closed"
      mare.sleep(1e6)]])
    w:kill "TERM"
    assert.equal("TERM\t1", w:line())
    assert.equal("closed", w:line())
    assert(w:door())
    w:kill "TERM"
    assert.same({ signal = "TERM" }, w:ends())
    assert.is_nil(w:door())
  end)

  it("of a program that was killed is taken away by the next mare top", function()
    local w <close> = watched.start(observe, sleeper)
    local path = assert(w:door())
    w:kill "KILL"
    w:ends()
    assert.equal(path, w:door())
    assert.equal(1, proc.mare_command({ "top", "--once", tostring(w.pid) }).code)
    assert.is_nil(w:door())
  end)

  it("is not there, nor a thread for it, unless somebody asks", function()
    local w <close> = watched.start({}, sleeper)
    assert.is_nil(threads_of(w.pid)["mare-observe"])
    assert.is_nil(w:door())
    assert.equal(0, proc.mare_command({ "top", "--json", tostring(w.pid) }).code)
    assert.equal(1, threads_of(w.pid)["mare-observe"])
    assert(w:door())
  end)

  it("opens once, however often it is knocked at", function()
    local w <close> = watched.start({}, "print 'ready' while true do end")
    in_the_end(function() return terminal.knock(w.pid) end)   -- its runtime may still be starting
    for _ = 1, 199 do assert(terminal.knock(w.pid)) end
    in_the_end(function() return w:door() end)
    local client <close> = w:connect()
    for _ = 1, 200 do assert(terminal.knock(w.pid)) end
    assert.is_true(client("list").ok)
    assert.equal(1, threads_of(w.pid)["mare-observe"])
  end)

  it("opens with another signal of preemption", function()
    local w <close> = watched.start({}, sleeper, { env = { MARE_SIGNAL = "41" } })
    assert.equal(0, proc.mare_command({ "top", "--json", tostring(w.pid) }).code)
  end)

  if proc.config == "plain" then
    it("opens in plain Lua, whose script can be seen but not ended", function()
      local w <close> = watched.lua [[
        process.spawn { name = "child", main = function() require "mare".sleep(1e6) end }
        print "ready"
        while true do end]]
      assert.equal(0, proc.mare_command({ "top", "--json", tostring(w.pid) }).code)
      local client <close> = w:connect()
      local host
      for _, p in ipairs(client("list id 10").processes) do if p.kind == "host" then host = p end end
      assert.matches("main script can't be cancelled", client("cancel " .. host.id).error)
      assert.matches("main script can't be killed", client("kill " .. host.id).error)
      assert.is_true(client("kill " .. process_named(client, "child").id).ok)
      w:kill "TERM"
      assert.same({ signal = "TERM" }, w:ends())
      assert.is_nil(w:door())
    end)

    it("is gone after SIGHUP from plain Lua, too", function()
      local w <close> = watched.lua(sleeper)
      in_the_end(function() return terminal.knock(w.pid) end)
      assert(in_the_end(function() return w:door() end))
      w:kill "HUP"
      assert.same({ signal = "HUP" }, w:ends())
      assert.is_nil(w:door())
    end)

    it("is gone when plain Lua closes its state, and can be opened again", function()
      local w <close> = watched.lua [[
        print "ready"
        io.read()]]
      assert.equal(0, proc.mare_command({ "top", "--json", tostring(w.pid) }).code)
      assert(w:door())
      local client <close> = w:connect()
      w.child.stdin:write "\n"
      assert.same({ code = 0 }, w:ends())
      assert.is_nil(w:door())
      assert.equal("", client.connection:read("a", 10))
    end)
  end
end)

describe("observing", function()
  it("keeps no program alive", function()
    local r = proc.mare("print(1)", {}, { env = {} })
    assert.equal("1\n", r.out)
    r = proc.mare_command { "run", "--observe", "--metrics", "127.0.0.1:0", "-e", "print(2)", "-" }
    assert.same({ 0, "2\n", "" }, { r.code, r.out, r.err })
  end)

  it("hides no deadlock, though somebody is connected", function()
    local w <close> = watched.start(observe, "print 'ready' io.read() mare.channel.new():receive()", { stderr = "pipe" })
    local client <close> = w:connect()
    assert.is_true(client("list").ok)
    w.child.stdin:write "\n"
    assert.same({ code = 1 }, w:ends())
    assert.matches("deadlock", w.child.stderr:read "a")
  end)
end)
