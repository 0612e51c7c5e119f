-- mare run --trace, mare trace, MARE_TRACE: what is in a trace, and that it is there however the program ends.
-- time limit: 900 s
-- runs under: mare
local subprocess = require "mare.subprocess"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local function read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read("a")
  file:close()
  return text
end

-- f(path) with a name for a trace; nothing stays.
local function with_trace(f)
  local base = temporary()
  local path = base .. ".json"
  local results = table.pack(pcall(f, path))
  for _, name in ipairs { base, path, path .. ".rings" } do os.remove(name) end
  if not results[1] then error(results[2], 0) end
end

-- The events of a trace, after checks that hold of each: one a line, in the order of time; slices nest, and all end; each arrow has
-- two ends, each in a slice; of asynchronous ones as many end as begin. -> events, names by "pid/tid"
local function events_of(text)
  assert.truthy(text, "there is a trace")
  local list, names, last, depth, flows, open = {}, {}, 0, {}, {}, {}
  local head, body = text:match('^({"displayTimeUnit":"ns","otherData":{[^{}]*},\n"traceEvents":%[\n)(.*)\n%]}\n$')
  assert.truthy(head, "it is whole")
  for line in (body .. "\n"):gmatch("(.-),?\n") do
    local phase, pid, tid = line:match('^{"ph":"(%a)","pid":(%d+),"tid":(%d+),.*}$')
    assert.truthy(phase, line)
    local track = pid .. "/" .. tid
    if phase == "M" then
      if line:find('"thread_name"', 1, true) then names[track] = line:match('"args":{"name":"(.*)"}}$') end
    else
      local e = { phase = phase, track = track, pid = pid, line = line }
      e.ts, e.name = tonumber(line:match('"ts":([%d.]+)')), line:match('"name":"(.-[^\\])"')
      assert.truthy(e.ts >= last, "in the order of time: " .. line)
      last = e.ts
      local d = depth[track] or 0
      local id = line:match('"id":"?([%w.]+)')
      if phase == "B" then depth[track] = d + 1
      elseif phase == "E" then
        assert.truthy(d > 0, line)
        depth[track] = d - 1
      elseif phase == "s" then
        assert.truthy(d > 0 and not flows[id], line)
        flows[id] = 1
      elseif phase == "f" then
        assert.truthy(d > 0 and flows[id] == 1, line)
        flows[id] = 2
      elseif phase == "b" then open[id] = (open[id] or 0) + 1
      elseif phase == "e" then open[id] = open[id] - 1
      end
      list[#list + 1] = e
    end
  end
  for track, d in pairs(depth) do assert.equal(0, d, track) end
  for id, ends in pairs(flows) do assert.equal(2, ends, id) end
  for id, n in pairs(open) do assert.equal(0, n, id) end
  return list, names
end

local function count(events, phase, pattern, pid)
  local n = 0
  for _, e in ipairs(events) do
    if e.phase == phase and (not pid or e.pid == pid) and (not pattern or e.name and e.name:find(pattern)) then n = n + 1 end
  end
  return n
end

local function script(text, f, options)
  options = options or {}
  with_trace(function(path)
    proc.with_file(text, function(name)
      local words = { "run", "--trace", path }
      local more = options.words or { "-w", "2" }
      for _, w in ipairs(type(more) == "function" and more(path) or more) do words[#words + 1] = w end
      words[#words + 1] = name
      f(proc.mare_command(words, options), path, name)
    end)
  end)
end

local function gone(path) assert.is_nil(read(path .. ".rings"), "the records are gone") end

local PAIR = [[
local mare = require "mare"
local a, b = mare.channel.new(), mare.channel.new()
local echo = mare.process.spawn { name = "echo", args = { a, b }, main = function(a, b)
  for n in a:each() do b:send(n) end
end }
for i = 1, 100 do a:send(i) assert(b:receive() == i) end
a:close()
echo:wait()
]]

describe("a trace", function()
  it("shows which process ran, who woke whom, and what each waited for", function()
    script(PAIR, function(r, path)
      assert.equal(0, r.code, r.err)
      assert.equal("", r.err)
      gone(path)
      local events, names = events_of(read(path))
      local main, echo = "^process #1$", "^process #2 'echo'$"
      assert.truthy(count(events, "B", echo, "1") >= 100, "it ran for each message")
      assert.truthy(count(events, "B", main, "1") >= 100)
      assert.equal(1, count(events, "i", "^spawn process #2 'echo'$"))
      assert.equal(1, count(events, "i", "^process #2 'echo' ends$"))
      assert.equal(1, count(events, "i", "^process #1 ends$"))
      assert.equal(0, count(events, "i", "failed$"))
      assert.truthy(count(events, "f") >= 200, "each message is an arrow there, and one back")
      assert.truthy(count(events, "B", "^receive, channel 0x%x+$", "2") + count(events, "B", "^send, channel 0x%x+$", "2") >= 100)
      local tracks = {}
      for _, name in pairs(names) do tracks[name] = true end
      assert.truthy(tracks["worker 0"] and tracks["process #1"] and tracks["process #2 'echo'"])
    end, { words = { "-w", "1" } })            -- so that they take turns
  end)

  it("has several workers", function()
    script(PAIR, function(r, path)
      assert.equal(0, r.code, r.err)
      local events, names = events_of(read(path))
      assert.equal(1, count(events, "i", "^process #2 'echo' ends$"))
      local workers = 0
      for _, name in pairs(names) do if name:find "^worker %d" then workers = workers + 1 end end
      assert.truthy(workers >= 1)
    end, { words = { "-w", "4" } })
  end)

  it("is JSON to others, with whatever names", function()
    local code = [[
      local mare = require "mare"
      local names = { 'a "quoted" \\ name', "line\nbreak\1", "h\u{e9}llo \u{1F40E}", "\xff\xc3", ("long "):rep(60) }
      for _, name in ipairs(names) do mare.process.spawn({ name = name, main = function() error(name) end }):wait() end
    ]]
    script(code, function(r, path)
      assert.equal(0, r.code, r.err)
      assert.equal(5, count(events_of(read(path)), "i", "failed$"))
      local check = proc.run { "python3", "-c", [[
import json, sys
d = json.load(open(sys.argv[1], encoding='utf-8'))
names = {e['args']['name'] for e in d['traceEvents'] if e.get('name') == 'thread_name'}
assert "process #2 'a \"quoted\" \\ name'" in names, names
assert "process #4 'h\u00e9llo \U0001F40E'" in names, names
print(len(d['traceEvents']))
]], path }
      if check.code == 127 then return end       -- no Python
      assert.equal(0, check.code, check.err)
    end)
  end)

  it("says of what each waits for how it is called", function()
    local code = [[
      local mare = require "mare"
      local jobs, other = mare.channel.named "jobs", mare.channel.new()
      local p = mare.process.spawn { name = "worker", args = { jobs, other }, main = function(jobs, other)
        local f = mare.fiber.spawn(function() for v in jobs:each() do other:send(v) end end)
        f:wait()
      end }
      for i = 1, 5 do jobs:send(i) assert(other:receive() == i) end
      mare.sleep(0.01)
      jobs:close()
      p:wait()
    ]]
    script("mare = require 'mare' " .. code, function(r, path)
      assert.equal(0, r.code, r.err)
      local events = events_of(read(path))
      assert.truthy(count(events, "B", "^%a+, channel 'jobs'$", "2") >= 1)
      assert.truthy(count(events, "B", "^%a+, channel 0x%x+$", "2") >= 1)
      assert.truthy(count(events, "B", "^wait, process #2 'worker'$", "2") >= 1)
      assert.truthy(count(events, "B", "^sleep$", "2") >= 1)
    end, { words = { "-w", "1" } })
  end)

  it("has the steps of the collector, and whole collections", function()
    local code = [[
      local kept = {}
      for i = 1, 200000 do kept[i % 1000] = { i } end
      kept = nil
      collectgarbage()
    ]]
    script(code, function(r, path)
      assert.equal(0, r.code, r.err)
      local events, name, freed = events_of(read(path)), nil, { gc = 0, ["gc step"] = 0 }
      for _, e in ipairs(events) do
        if e.phase == "B" and freed[e.name] then name = e.name
        elseif name and e.phase == "E" then
          freed[name] = freed[name] + (tonumber(e.line:match('"result":(%d+)')) or 0)
          name = nil
        end
      end
      assert.truthy(freed["gc step"] > 200000, freed["gc step"])
      assert.truthy(freed.gc > 1000, freed.gc)
    end, { words = { "-w", "1" } })
  end)

  it("tells of failures, and why", function()
    script("local p = require 'mare'.process.spawn(function() error 'the reason' end) p:wait()", function(_, path)
      local events = events_of(read(path))
      assert.equal(1, count(events, "i", "^process #2 failed$"))
      for _, e in ipairs(events) do
        if e.name == "process #2 failed" then assert.truthy(e.line:find('"error":".*the reason', 1), e.line) end
      end
    end)
  end)

  it("has the fibers of a process", function()
    local code = [[
      local mare = require "mare"
      local fibers = {}
      for i = 1, 3 do fibers[i] = mare.fiber.spawn(function() for _ = 1, 5 do mare.sleep(0.001) end end) end
      for i = 1, 3 do fibers[i]:wait() end
    ]]
    script(code, function(r, path)
      assert.equal(0, r.code, r.err)
      local events = events_of(read(path))
      assert.truthy(count(events, "B", "^process #1, fiber #2$", "1") >= 5)
      assert.equal(3, count(events, "i", "^process #1, fiber #%d ends$"))
    end)
  end)

  it("has what goes over sockets and to files", function()
    local code = [[
      local mare = require "mare"
      local net, file = require "mare.net", require "mare.file"
      local server = assert(net.listen("127.0.0.1:0"))
      local _, port = server:address()
      local p = mare.process.spawn(function(port)
        local c = assert(require "mare.net".connect("127.0.0.1:" .. port))
        c:write("hello\n")
        assert(c:read("l") == "world")
        c:close()
      end, port)
      local c = server:accept()
      assert(c:read("l") == "hello")
      c:write("world\n")
      p:wait()
      assert(file.read(arg[0]))
      assert(not file.read("/no/such/file"))
    ]]
    script(code, function(r, path)
      assert.equal(0, r.code, r.err)
      local events = events_of(read(path))
      for what, least in pairs { connect = 1, accept = 1, read = 2, write = 2, ["file read all"] = 2, request = 2 } do
        assert.truthy(count(events, "B", "^" .. what .. "$", "1") >= least, what)
      end
      local errors = 0
      for _, e in ipairs(events) do if e.phase == "E" and e.line:find('"error":"ENOENT"', 1, true) then errors = errors + 1 end end
      assert.equal(1, errors)
    end)
  end)

  it("has CORBA calls with the ids of their requests, of both sides", function()
    local code = [[
      local mare = require "mare"
      local orb = require "mare.orb"
      local idl = "interface Echo { long twice(in long n); };"
      local ready = mare.channel.new(1)
      local p = mare.process.spawn(function(idl, ready)
        local broker = require "mare.orb".init { host = "127.0.0.1" }
        broker:load(idl)
        ready:send(tostring(broker:serve({ twice = function(_, x) return 2 * x end }, "Echo")))
      end, idl, ready)
      local broker = orb.init()
      broker:load(idl)
      local echo = broker:proxy(ready:receive(), "Echo")
      for i = 1, 10 do assert(echo:twice(i) == 2 * i) end
      os.exit(0)
    ]]
    script(code, function(r, path)
      assert.equal(0, r.code, r.err)
      local events = events_of(read(path))
      assert.truthy(count(events, "b", "^call twice$") >= 10)
      assert.truthy(count(events, "b", "^serve twice$") >= 10)
    end)
  end)
end)

describe("a trace is there", function()
  local WORKS = "local mare = require 'mare' mare.process.spawn(function() end):wait() io.write 'ready' io.stdout:flush() "
  local function ends(code, check, options)
    script(WORKS .. code, function(r, path)
      check(r)
      gone(path)
      assert.truthy(count(events_of(read(path)), "B", "^process #1$", "1") >= 1)
    end, options)
  end

  it("after os.exit", function() ends("os.exit(7)", function(r) assert.equal(7, r.code) end) end)
  it("after os.exit that closes the state", function() ends("os.exit(7, true)", function(r) assert.equal(7, r.code) end) end)
  it("after an error", function() ends("error 'oh'", function(r) assert.equal(1, r.code) end) end)
  it("after a deadlock", function()
    ends("mare.channel.new():receive()", function(r)
      assert.equal(1, r.code)
      assert.truthy(r.err:find("deadlock", 1, true))
    end)
  end)
  it("after Ctrl-C", function()
    ends("mare.sleep(50)", function(r) assert.equal(1, r.code, r.err) end, { signals = { { after = "ready", name = "INT" } } })
  end)
  it("after two of them", function()
    ends("repeat until pcall(mare.sleep, 50) and false", function(r) assert.equal(130, r.code, r.err) end,
      { signals = { { after = "ready", name = "INT" }, { after = 0.5, name = "INT" } } })
  end)
  for _, name in ipairs { "TERM", "HUP" } do
    it("after SIG" .. name .. ", which ends the program as ever", function()
      ends("mare.sleep(50)", function(r) assert.equal(({ TERM = 15, HUP = 1 })[name], r.signal, r.err) end,
        { signals = { { after = "ready", name = name } } })
    end)
  end

  it("after kill -9, made by mare trace", function()
    script(WORKS .. "mare.sleep(50)", function(r, path)
      assert.equal(9, r.signal)
      assert.is_nil(read(path))
      local made = proc.mare_command { "trace", path .. ".rings" }
      assert.equal(0, made.code, made.err)
      assert.truthy(made.out:find(path .. ": %d+ events, %d+%.%d+ s\n$"), made.out)
      assert.truthy(count(events_of(read(path)), "i", "^process #2 ends$") == 1)
      os.remove(path)
      assert.equal(0, proc.mare_command({ "trace", path .. ".rings", "-o", path }).code)
      events_of(read(path))
      -- what can't be written goes, but a device stays, and what leads to it
      local link = path .. ".link"
      proc.run { "ln", "-s", "/dev/full", link }
      local full = proc.mare_command { "trace", path .. ".rings", "-o", link }
      local stays = proc.run { "test", "-c", link }
      os.remove(link)
      assert.same({ 1, 0 }, { full.code, stays.code })
    end, { signals = { { after = "ready", name = "KILL" } } })
  end)

  it("of a program that still runs, by its process id", function()
    script(WORKS .. [[
      local sub = require "mare.subprocess"
      local pid = io.open("/proc/self/stat"):read("n")
      local r = sub.run { arg[1], "trace", tostring(math.tointeger(pid)), "-o", arg[0] .. ".cut" }
      io.write(r.code)
      local cut = io.open(arg[0] .. ".cut"):read("a")
      os.remove(arg[0] .. ".cut")
      io.write(cut)
    ]], function(r, path, name)
      assert.equal(0, r.code, r.err)
      gone(path)
      local text = r.out:match("^ready0(.*)")
      assert.truthy(text, r.out:sub(1, 300))
      assert.truthy(count(events_of(text), "B", "^process #1$", "1") >= 1, name)
    end, { words = { "-e", "arg[1] = [[" .. proc.bin .. "]]" } })
  end)

  it("of a host, if MARE_TRACE says so", function()
    with_trace(function(path)
      -- A host has a thread of its own: its next message must not come before the other waits again, which would go on without a break.
      local r = proc.lua(PAIR:gsub("a:send%(i%)", "while echo:status() ~= 'waiting' do end %0"), {}, { env = { MARE_TRACE = path } })
      if r.err:find("module 'mare' not found", 1, true) or proc.config ~= "plain" then return end
      assert.equal(0, r.code, r.err)
      gone(path)
      local events = events_of(read(path))
      assert.truthy(count(events, "B", "'echo'$", "1") >= 100)
      assert.truthy(count(events, "f") >= 100)
    end)
  end)
end)

describe("a file that is in use", function()
  it("is not taken by another program", function()
    script([[
      local mare = require "mare"
      local r = mare.subprocess.run { arg[1], "run", "--trace", arg[2], "-e", "" }
      mare.process.spawn { name = "after it", main = function() end }:wait()
      io.write(r.code, " ", r.stderr or r.err or "")
    ]], function(r, path)
      assert.equal(0, r.code, r.err)
      assert.matches("^1 ", r.out)
      gone(path)
      assert.equal(1, count(events_of(read(path)), "i", "^process #2 'after it' ends$"))
    end, { words = function(path) return { "-e", ("arg[1], arg[2] = %q, %q"):format(proc.bin, path) } end })
  end)

  it("is left to the host of whom a child has inherited MARE_TRACE", function()
    with_trace(function(path)
      local r = proc.lua([[
        local mare = require "mare"
        local r = mare.subprocess.run { arg[1], "-e", "require 'mare'", stderr = "pipe" }
        mare.process.spawn { name = "after it", main = function() end }:wait()
        print(r.code)
      ]], { proc.interpreter }, { env = { MARE_TRACE = path } })
      if r.err:find("module 'mare' not found", 1, true) or proc.config ~= "plain" then return end
      assert.equal("", r.err)
      assert.equal("0\n", r.out)
      gone(path)
      assert.equal(1, count(events_of(read(path)), "i", "'after it' ends$"))
    end)
  end)
end)

describe("a trace keeps to its size", function()
  it("with the newest", function()
    script([[
      local mare = require "mare"
      local a, b = mare.channel.new(), mare.channel.new()
      local echo = mare.process.spawn { name = "echo", args = { a, b }, main = function(a, b) for n in a:each() do b:send(n) end end }
      for i = 1, 30000 do a:send(i) b:receive() end
      a:close()
      echo:wait()
      mare.process.spawn { name = "the last", main = function() end }:wait()
    ]], function(r, path)
      assert.equal(0, r.code, r.err)
      gone(path)
      local text = read(path)
      assert.truthy(#text <= 1 << 20 and #text > 1 << 18, #text)
      local events = events_of(text)
      assert.truthy(events[1].ts > 0 and tonumber(text:match('"missing":([%d.]+)')) > 0)
      assert.equal(1, count(events, "i", "'the last' ends$"))
      assert.truthy(count(events, "B", "'echo'$", "1") > 100, "names are not lost with the oldest")
    end, { words = { "-w", "1", "--trace-size=1M" } })
  end)

  it("with what each waits for, of however many channels", function()
    script([[
      local mare = require "mare"
      local asks, n = mare.channel.named "asks", 20000
      local p = mare.process.spawn { name = "answers", args = { asks }, main = function(asks)
        for answer in asks:each() do answer:send(true) end
      end }
      for i = 1, n do
        local answer <const> = mare.channel.new()
        asks:send(answer)
        answer:receive()
      end
      asks:close()
      p:wait()
    ]], function(r, path)
      assert.equal(0, r.code, r.err)
      local events = events_of(read(path))
      local named, unnamed = count(events, "B", "^%a+, channel 'asks'$", "2"), count(events, "B", "^%a+, channel 0x", "2")
      assert.truthy(named > 100 and unnamed > 100, ("%d named, %d unnamed"):format(named, unnamed))
      assert.equal(0, count(events, "B", "^send$", "2") + count(events, "B", "^receive$", "2"))
    end, { words = { "-w", "1", "--trace-size=1M" } })
  end)

  it("with the newest, however many threads have come and gone", function()
    with_trace(function(path)
      proc.with_file([[
        local mare = require "mare"
        local s = require "mare.signal".on "USR1"
        for i = 1, 3 do mare.process.spawn(function() require "mare".sleep(3600) end) end
        mare.sleep(0.1)
        io.stdout:write "up\n" io.stdout:flush()
        s:wait()
        mare.process.spawn { name = "the last", main = function() end }:wait()
        os.exit(0)
      ]], function(name)
        local child <close> = assert(subprocess.spawn {
          proc.bin, "run", "--trace", path, "--trace-size", "1M", name, stdout = "pipe", stderr = "pipe", stdin = "null" })
        local limit = 60 * proc.slow
        assert.equal("up\n", child.stdout:read("L", limit))
        for _ = 1, 80 do                         -- each has a thread of its own, which wakes those at whom it looks
          assert(child:kill "QUIT")
          assert(child.stderr:read_until("#1 main: ", nil, limit))
          assert(child.stderr:read_until("#4: ", nil, limit))
        end
        assert(child:kill "USR1")
        local said = child.stderr:read("a", limit)
        assert.equal(0, child:wait(limit).code)
        assert.is_nil(said:find("not in the trace", 1, true), said)
        assert.truthy(count(events_of(read(path)), "B", "^process #5 'the last'$") > 0)
      end)
    end)
  end)

  it("if the disk is full, and the program goes on", function()
    local make = "mount -t tmpfs -o size=%s none /mnt && exec "
    local can = proc.run { "unshare", "-rm", "sh", "-c", make:format("1M") .. "true" }
    if can.code ~= 0 then return pending "no file system of its own to be had" end
    local code = [[
      local mare = require "mare"
      local a, b = mare.channel.new(), mare.channel.new()
      local echo = mare.process.spawn(function(a, b) for n in a:each() do b:send(n) end end, a, b)
      for i = 1, 20000 do a:send(i) b:receive() end
      a:close()
      echo:wait()
      print "done"
    ]]
    proc.with_file(code, function(name)
      local words = { "unshare", "-rm", "sh", "-c", make:format("300k") .. '"$@"', "sh" }
      local r = proc.run(table.move({ proc.bin, "run", "-w", "1", "--trace", "/mnt/t.json", name }, 1, 7, #words + 1, words))
      assert.equal(0, r.code, r.err)
      assert.equal("done\n", r.out)
      local said = "mare: can't write the trace /mnt/t.json: No space left on device; its records are in /mnt/t.json.rings:"
      assert.truthy(r.err:find(said, 1, true), r.err)
    end)
  end)
end)

describe("the command line", function()
  it("wants a file that can be written, before the start", function()
    for _, path in ipairs { "/no/such/folder/t.json", "/tmp" } do
      local r = proc.mare_command { "run", "--trace", path, "-e", "print 'started'" }
      assert.equal(1, r.code)
      assert.equal("", r.out)
      assert.truthy(r.err:find("^mare: can't write the trace " .. path .. ": "), r.err)
    end
  end)
  it("wants a size that is one, of a trace", function()
    for _, size in ipairs { "5", "1T", "", "-1M", "1.5M", "99999999999999999999G" } do
      assert.equal(2, proc.mare_command({ "run", "--trace", "/tmp/x", "--trace-size", size, "-e", "" }).code, size)
    end
    local r = proc.mare_command { "run", "--trace-size", "64M", "-e", "print(1)" }
    assert.equal(2, r.code)
    assert.truthy(r.err:find("--trace-size needs --trace FILE", 1, true), r.err)
  end)
  it("of mare trace says what is wrong", function()
    assert.equal(0, proc.mare_command({ "trace", "--help" }).code)
    assert.equal(0, proc.mare_command({ "help", "trace" }).code)
    local a = "a.rings"
    for _, words in ipairs { { "trace" }, { "trace", "-x" }, { "trace", a, "b.rings" }, { "trace", a, "-o" }, { "trace", "a.json" } } do
      assert.equal(2, proc.mare_command(words).code, table.concat(words, " "))
    end
    proc.with_file("no records", function(name)
      local r = proc.mare_command { "trace", name, "-o", name .. ".json" }
      assert.equal(1, r.code)
      assert.truthy(r.err:find("it has no records of a trace", 1, true), r.err)
    end)
    assert.truthy(proc.mare_command({ "trace", "1", "-o", "/tmp/x" }).err:find("^mare trace: 1: "))
    assert.truthy(proc.mare_command({ "trace", "/no/such.rings", "-o", "/tmp/x" }).err:find("No such file", 1, true))
  end)
end)
