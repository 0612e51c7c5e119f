-- Profiles: mare run --profile, --heap-profile, and mare profile show.
-- runs under: mare
local pprof = require "mare.cli.pprof"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local function slurp(path)
  local file = assert(io.open(path, "rb"))
  local bytes = file:read("a")
  file:close()
  return bytes
end

local function folder_new()
  local name = temporary()
  os.remove(name)
  assert(os.execute("mkdir '" .. name .. "'"))
  return name
end

local function folder_remove(name) os.execute("rm -rf '" .. name .. "'") end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local bin = proc.bin:sub(1, 1) == "/" and proc.bin or io.popen("pwd"):read() .. "/" .. proc.bin

-- Runs `text` as work.lua in a folder of its own; check(result, what was written, by name; the folder).
local function profiled(text, options, check, more)
  local dir = folder_new()
  write(dir .. "/work.lua", text)
  local words = table.move(options, 1, #options, 3, { bin, "run" })
  words[#words + 1] = "work.lua"
  more = more or {}
  more.dir = dir
  local written = setmetatable({}, { __index = function(_, name) return slurp(dir .. "/" .. name) end })
  local ok, err = pcall(check, proc.run(words, more), written, dir)
  folder_remove(dir)
  if not ok then error(err, 0) end
end

-- Sums of folded stacks in which all of the patterns stand.
local function weight(folded, ...)
  local sum = 0
  for line in folded:gmatch("[^\n]+") do
    local stack, count = line:match("^(.*) (%d+)$")
    assert(stack, line)
    local all = true
    for _, pattern in ipairs { ... } do all = all and stack:find(pattern) end
    if all then sum = sum + tonumber(count) end
  end
  return sum
end

local function value_of(profile, type, name, line)
  local sum = 0
  for i, t in ipairs(profile.types) do
    for _, s in ipairs(t.type == type and profile.samples or {}) do
      local leaf = s.calls[1]
      if leaf.name == name and (not line or leaf.line == line) then sum = sum + s.values[i] end
    end
  end
  return sum
end

-- As long as `of` have not had that much CPU time: samples come by that, not by the clock.
local busy = [[
local function busy(seconds)
  local clock, from, s = os.clock, os.clock(), 0
  while clock() - from < seconds do for i = 1, 10000 do s = s + i end end
  return s
end
]]

describe("a CPU profile", function()
  it("names the function and the line that had the time, and the calls down to it", function()
    local rounds = ("%d"):format(30000000 // proc.slow)
    profiled(([[
local function inner(n)
  local s = 0
  for i = 1, n do
    s = s + i % 7
  end
  return s
end
local function outer() return (inner(ROUNDS)) end
outer()]]):gsub("ROUNDS", rounds), { "--profile", "p.folded" }, function(r, written)
      assert.equal(0, r.code, r.err)
      local folded = written["p.folded"]
      assert.is_true(weight(folded, "^main;work.lua:9 main chunk;work.lua:8 outer;work.lua:%d inner$") > 0.9 * weight(folded, ""))
    end)
  end)
  it("tells processes by their names", function()
    profiled(busy .. [[
local process = require "mare.process"
local a = process.spawn { name = "spinner", main = function() busy(0.3) end }
local b = process.spawn { name = "sleeper", main = function() require "mare.timer".after(0.2):wait() end }
process.spawn(function() busy(0.1) end):wait()
a:wait() b:wait()]], { "--profile", "p.folded", "-w", "3" }, function(r, written)
      assert.equal("", r.err)
      local folded = written["p.folded"]
      assert.is_true(weight(folded, "^process 'spinner';.* busy$") > 0)
      assert.is_true(weight(folded, "^process;.* busy$") > 0)
      assert.is_true(weight(folded, "^process 'sleeper'") < 0.3 * weight(folded, "^process 'spinner'"))
    end)
  end)
  it("charges the time of a C function to the line of its call, however long it takes", function()
    if proc.config == "tsan" then pending "no signals there: a hook comes every 1000 instructions" return end
    profiled([[
local text = ("x"):rep(3e6)
local n = 0
for i = 1, 3 do
  local _, found = text:gsub("x", "yy")
  n = n + found
  n = n + 1
end]], { "--profile", "p.folded" }, function(_, written)
      local folded = written["p.folded"]
      assert.is_true(weight(folded, "^main;work.lua:4 main chunk$") > 0.7 * weight(folded, ""), folded)
    end)
  end)
  it("goes through coroutines and fibers", function()
    profiled(busy .. [[
local fiber = require "mare.fiber"
local co = coroutine.wrap(function() coroutine.wrap(function() busy(0.2) end)() end)
co()
fiber.spawn(function() busy(0.1) end):wait()]], { "--profile", "p.folded" }, function(r, written)
      assert.equal("", r.err)
      local folded = written["p.folded"]
      assert.is_true(weight(folded, "^main;work.lua:8 main chunk;%[C%] co;work.lua:7 function <7>;.*work.lua:7 function <7>;.* busy$") > 0, folded)
      assert.is_true(weight(folded, "^main;work.lua:9 function <9>;work.lua:%d busy$") > 0, folded)
    end)
  end)
  it("leaves a program's debug hook as it is", function()
    local script = busy .. ([[
local n = { count = 0, line = 0, call = 0, ["return"] = 0, ["tail call"] = 0 }
local function work() local s = 0 for i = 1, ROUNDS do s = s + i end return s end
debug.sethook(function(event) n[event] = n[event] + 1 end, "crl", 1000)
for _ = 1, 5 do work() end
debug.sethook()
print(n.count, n.line, n.call, n["return"])
busy(0.05)]]):gsub("ROUNDS", ("%d"):format(300000 // proc.slow))
    local plain
    profiled(script, {}, function(r) plain = r.out end)
    profiled(script, { "--profile", "p.folded", "--profile-rate", "1000" }, function(r, written)
      assert.equal(plain, r.out)
      assert.is_true(weight(written["p.folded"], "work$") > 0)
    end)
  end)
  it("has what the collector takes at the line that allocates", function()
    profiled([[
local t
for i = 1, 2e6 do
  t = { i }
end]], { "--profile", "p.folded" }, function(_, written)
      assert.is_true(weight(written["p.folded"], "^main;work.lua:[23] main chunk$") > 0)
    end)
  end)
end)

describe("a heap profile", function()
  local tables = [[
local function make(n)
  local t = {}
  for i = 1, n do
    t[i] = {
      i }
  end
  return t
end
keep = make(5000)
make(20000)
collectgarbage() collectgarbage()]]
  it("counts each allocation, by function and line, with a rate of 1", function()
    profiled(tables, { "--heap-profile", "h.pprof", "--heap-profile-rate", "1" }, function(r, written)
      assert.equal("", r.err)
      local p = assert(pprof.decode(written["h.pprof"]))
      local name = "make (work.lua:1)"
      assert.equal("alloc_space", p.types[p.default].type)
      local objects = value_of(p, "alloc_objects", name)
      assert.is_true(objects > 50000 and objects < 50100, objects)         -- a table and its element each, and the growing arrays
      local used = value_of(p, "inuse_objects", name)
      assert.is_true(used >= 10000 and used < 10010, used)
      local bytes = value_of(p, "inuse_space", name)
      assert.is_true(bytes > 5000 * 72 and bytes < 5000 * 72 + 8192 * 16 + 1000, bytes)
      assert.is_true(value_of(p, "alloc_objects", name, 4) >= 49000)
    end)
  end)
  it("estimates them from samples", function()
    profiled(tables:gsub("5000%)", "100000)"), { "--heap-profile", "h.pprof" }, function(_, written)
      local p = assert(pprof.decode(written["h.pprof"]))
      local objects = value_of(p, "alloc_objects", "make (work.lua:1)")
      assert.is_true(objects > 240000 / 2 and objects < 240000 * 2, objects)
      local used = value_of(p, "inuse_objects", "make (work.lua:1)")
      assert.is_true(used > 200000 / 2 and used < 200000 * 2, used)
    end)
  end)
  it("has C functions that allocate, with who called them", function()
    profiled("local function text(n) return ('x'):rep(n) end\nfor i = 1, 20 do local _ = #text(100000 + i) end", { "--heap-profile", "h.folded" },
      function(_, written)
        local bytes = weight(written["h.folded"], "^main;work.lua:2 main chunk;work.lua:1 text;%[C%] rep$")
        assert.is_true(bytes > 1e6 and bytes < 6e6, bytes)
      end)
  end)
  it("forgets what ended processes had in use, and keeps the main process's as it was at its end", function()
    profiled([[
local process = require "mare.process"
local function fill() local t = {} for i = 1, 20000 do t[i] = { i } end return t end
process.spawn{ name = "gone", main = function() kept = fill() end }:wait()
local filled = require "mare.channel".new()
process.spawn{ name = "there", main = function() kept = fill() filled:send(1) require "mare.timer".after(1000):wait() end }
filled:receive()
kept = fill()
os.exit(0)]], { "--heap-profile", "h.pprof", "--heap-profile-rate", "64" }, function(_, written)
      local p, used = assert(pprof.decode(written["h.pprof"])), {}
      for _, s in ipairs(p.samples) do
        local name = s.calls[#s.calls].name
        used[name] = (used[name] or 0) + s.values[4]
      end
      assert.is_true(used["process 'gone'"] < 1000)
      assert.is_true(used["process 'there'"] > 20000 * 70)
      assert.is_true(used.main > 20000 * 70)
    end)
  end)
  it("holds with limits of memory, and where an allocation fails", function()
    profiled([[
local process = require "mare.process"
print(process.spawn{ memory = 2 << 20, main = function() local t = {} while true do t[#t + 1] = { ("x"):rep(100) } end end }:wait())
print(process.spawn{ heap = "system", main = function() local t = {} for i = 1, 10000 do t[i] = { i } end return #t end }:wait())]],
      { "--heap-profile", "h.pprof", "--heap-profile-rate", "256" }, function(r, written)
        assert.equal("", r.err)
        assert.truthy(r.out:find("false\tnot enough memory", 1, true), r.out)
        assert.truthy(r.out:find("true\t10000", 1, true), r.out)
        assert.truthy(pprof.decode(written["h.pprof"]))
      end)
  end)
  it("is made while processes are born and end on all workers", function()
    profiled([[
local process = require "mare.process"
local all = {}
for i = 1, 200 do
  all[i] = process.spawn(function(i)
    local t = {}
    for k = 1, 200 do t[k] = { tostring(k) } end
    return #t
  end, i)
end
local n = 0
for _, p in ipairs(all) do local _, k = p:wait() n = n + k end
print(n)]], { "--heap-profile", "h.folded", "--profile", "c.folded", "-w", "4" }, function(r, written)
      assert.equal("40000\n", r.out)
      assert.is_true(weight(written["h.folded"], "^process;") > 200 * 10000)
    end)
  end)
end)

describe("a profile's file", function()
  local loop = busy .. 'busy(0.1) print("begun") io.stdout:flush() '
  local function written_at(text, check, more)
    profiled(loop .. text, { "--profile", "p.folded", "--heap-profile", "h.pprof" }, function(r, written)
      check(r)
      assert.is_true(weight(written["p.folded"], "^main;") > 0)
      assert.truthy(pprof.decode(written["h.pprof"]))
    end, more)
  end
  it("is written after an error", function() written_at("error 'x'", function(r) assert.equal(1, r.code) end) end)
  it("is written by os.exit", function()
    written_at("os.exit(3)", function(r) assert.equal(3, r.code) end)
    written_at("os.exit(4, true)", function(r) assert.equal(4, r.code) end)
    written_at("require 'mare.process'.spawn(function() os.exit(5) end):wait()", function(r) assert.equal(5, r.code) end)
  end)
  it("is written after a deadlock", function()
    written_at("require 'mare.channel'.new():receive()", function(r)
      assert.equal(1, r.code)
      assert.truthy(r.err:find("deadlock", 1, true))
    end)
  end)
  it("is written after Ctrl-C, and after a second one", function()
    written_at("while true do end", function(r) assert.truthy(r.err:find("interrupted!", 1, true)) end,
      { signals = { { after = "begun", name = "INT" } } })
    written_at("while true do pcall(function() while true do end end) print 'caught' io.stdout:flush() end",
      function(r) assert.equal(130, r.code) end, { signals = { { after = "begun", name = "INT" }, { after = "caught", name = "INT" } } })
  end)
  it("is written after TERM and HUP, which end the program as ever", function()
    for name, number in pairs { TERM = 15, HUP = 1 } do
      written_at("while true do end", function(r) assert.equal(number, r.signal) end, { signals = { { after = "begun", name = name } } })
    end
  end)
  it("is the program's own business when that takes TERM", function()
    written_at([[
local s = require "mare.signal".on "TERM"
print("listens") io.stdout:flush()
s:wait()
os.exit(7)]], function(r) assert.equal(7, r.code) end, { signals = { { after = "listens", name = "TERM" } } })
  end)
  it("that can't be written is said at the start", function()
    profiled("print 'not reached'", { "--profile", "/no/such/folder/p" }, function(r)
      assert.equal(1, r.code)
      assert.equal("", r.out)
      assert.equal("mare: can't write the profile '/no/such/folder/p': No such file or directory\n", r.err)
    end)
  end)
  it("needs a rate that makes sense", function()
    for _, words in ipairs { { "--profile-rate", "0" }, { "--profile-rate", "x" }, { "--profile-rate=1001" }, { "--heap-profile-rate", "0" } } do
      profiled("", words, function(r)
        assert.equal(2, r.code)
        assert.truthy(r.err:find("needs a number between 1 and", 1, true))
      end)
    end
  end)
end)

describe("a profile for pprof", function()
  local script = busy .. "busy(0.2) local t = {} for i = 1, 1000 do t[i] = { i } end"
  it("is the same with gzip around it", function()
    profiled(script, { "--profile", "c.pb.gz", "--heap-profile", "h.pb" }, function(_, written)
      local c, h = assert(pprof.decode(written["c.pb.gz"])), assert(pprof.decode(written["h.pb"]))
      assert.equal("\x1f\x8b", written["c.pb.gz"]:sub(1, 2))
      assert.same({ { type = "samples", unit = "count" }, { type = "cpu", unit = "nanoseconds" } }, c.types)
      assert.equal(5000000, c.period)
      assert.equal(4, #h.types)
      table.sort(c.samples, function(a, b) return a.values[2] > b.values[2] end)
      local leaf = c.samples[1].calls[1]
      assert.equal("busy (work.lua:1)", leaf.name)
      assert.equal("work.lua", leaf.file)
      assert.equal(1, leaf.defined)
      assert.equal("main", c.samples[1].calls[#c.samples[1].calls].name)
    end)
  end)
  it("is read by go tool pprof, where that is", function()
    local go = io.popen("PATH=$PATH:/usr/local/go/bin command -v go"):read()
    if not go then pending "Go is not here" return end
    profiled(script, { "--profile", "c.pb.gz", "--heap-profile", "h.pprof" }, function(_, _, dir)
      local said = proc.run(("export PPROF_TMPDIR=$PWD; %q tool pprof -top c.pb.gz && %q tool pprof -top -lines -sample_index=alloc_space " ..
        "h.pprof && gzip -t c.pb.gz"):format(go, go), { dir = dir, timeout = 120 })
      if said.timeout then pending "Go compiles its pprof first, and takes long" return end
      assert.equal(0, said.code, said.err)
      assert.truthy(said.out:find("Type: cpu", 1, true))
      assert.truthy(said.out:find("busy (work.lua:1)", 1, true), said.out)
      assert.truthy(said.out:find("Type: alloc_space", 1, true))
    end)
  end)
end)

describe("mare profile show", function()
  local folder
  local function show(...) return proc.mare_command({ "profile", "show", ... }, {}) end
  setup(function()
    folder = folder_new()
    write(folder .. "/p.folded",
      "main;a.lua:3 main chunk 10\nmain;a.lua:3 main chunk;a.lua:8 f 60\n" ..
      "main;a.lua:3 main chunk;a.lua:9 f;a.lua:8 f 25\nprocess 'x';[C] rep 5\n")
  end)
  teardown(function() folder_remove(folder) end)
  it("shows what was spent in each function, and below it", function()
    assert.equal([[
samples: 100
        self      %        total      %  function
          85   85.0           85   85.0  f (a.lua)
          10   10.0           95   95.0  main chunk (a.lua)
           5    5.0            5    5.0  [C] rep
           0    0.0           95   95.0  main
           0    0.0            5    5.0  process 'x'
]], show(folder .. "/p.folded").out)
  end)
  it("shows lines, processes, fewer rows, and JSON", function()
    assert.truthy(show("--lines", folder .. "/p.folded").out:find("f (a.lua), line 8", 1, true))
    assert.truthy(show("--process", folder .. "/p.folded").out:find("  95   95.0           95   95.0  main\n", 1, true))
    assert.equal('{"all":100,"name":"f (a.lua)","self":85,"total":85,"type":"samples","unit":""}\n',
      show("--json", "-n", "1", folder .. "/p.folded").out)
  end)
  it("reads what mare writes", function()
    profiled("local t = {} for i = 1, 1000 do t[i] = { i } end", { "--heap-profile", "h.pb.gz" }, function(_, _, dir)
      local name = dir .. "/h.pb.gz"
      assert.truthy(show(name).out:find("main chunk (work.lua)", 1, true))
      assert.truthy(show("--value", "inuse_objects", name).out:find("^inuse_objects: %d+"))
      assert.equal(1, show("--value", "none", name).code)
    end)
  end)
  it("is told of a C function that has not returned", function()
    if os.getenv("MARE_CONFIG") == "tsan" then return pending "a signal waits there for the end of a C function" end
    profiled([[
      local mare = require "mare"
      local up = mare.channel.new()
      mare.process.spawn(function(up) up:send(1) string.find(("a"):rep(100000), (".-"):rep(6) .. "b") end, up)
      up:receive()
      repeat mare.sleep(0.05) until os.clock() > 0.5
      os.exit(0)
    ]], { "--profile", "c.folded" }, function(r, written)
      assert.equal(0, r.code, r.err)
      assert.truthy(written["c.folded"]:find("(in C until the end) ", 1, true), written["c.folded"])
    end)
  end)
  it("says what is wrong", function()
    assert.truthy(show(folder .. "/none").err:find("none: No such file or directory", 1, true))
    write(folder .. "/empty", "")
    assert.truthy(show(folder .. "/empty").err:find("empty: empty: its program still runs, or was killed", 1, true))
    assert.equal(1, show(proc.bin).code)
    local r = proc.mare_command({ "profile", "sow", "x" }, {})
    assert.equal(2, r.code)
    assert.truthy(r.err:find("did you mean 'show'?", 1, true))
    assert.equal(0, proc.mare_command({ "profile", "--help" }, {}).code)
    assert.equal(2, show().code)
  end)
  it("does not trust a file", function()
    profiled("local t = {} for i = 1, 1000 do t[i] = { i } end", { "--heap-profile", "h.pb" }, function(_, written)
      local bytes = written["h.pb"]
      for i = 1, #bytes, 37 do
        pprof.decode(bytes:sub(1, i))
        pprof.decode(bytes:sub(1, i - 1) .. string.char((bytes:byte(i) + 77) % 256) .. bytes:sub(i + 1))
      end
    end)
  end)
end)
