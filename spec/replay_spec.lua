-- Runs that can be repeated: mare run --seed.
-- runs under: mare
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local sanitized = proc.config ~= "plain"

local function seeded(seed, text, options)
  options = options or {}
  return proc.with_file(text, function(path)
    local words = { "run" }
    for _, word in ipairs(options.words or {}) do words[#words + 1] = word end
    table.move({ "--seed", tostring(seed), path, table.unpack(options.args or {}) }, 1, 3 + #(options.args or {}), #words + 1, words)
    return proc.mare_command(words, { timeout = options.timeout, stdin = options.stdin, signals = options.signals, env = options.env })
  end)
end

-- The same text from a file of one name each time: what a program sees of its own name must not differ.
local function again(seed, text, times, options)
  return proc.with_file(text, function(path)
    local first
    for i = 1, times do
      local r = proc.mare_command({ "run", "--seed", tostring(seed), path }, options)
      first = first or r
      assert.equal(first.out, r.out, "run " .. i)
      assert.equal(first.err, r.err, "run " .. i)
      assert.equal(first.code, r.code, "run " .. i)
    end
    return first
  end)
end

-- Ten senders, whose order is the scheduler's choice.
local senders = [[
  local mare = require "mare"
  local c, seen = mare.channel.new(100), {}
  for i = 1, 10 do mare.process.spawn(function() for j = 1, 3 do c:send(i * 10 + j) end end) end
  for i = 1, 30 do seen[i] = c:receive() end
  print(table.concat(seen, " "))
]]

describe("mare run --seed", function()
  it("gives the same run for the same seed", function()
    for seed = 1, 4 do again(seed, senders, 3) end
  end)

  it("gives other runs for other seeds", function()
    local seen, n = {}, 0
    for seed = 1, 12 do
      local out = seeded(seed, senders).out
      if not seen[out] then n = n + 1 end
      seen[out] = true
    end
    assert.is_true(n >= 4, n .. " different ones of 12")
  end)

  it("gives the default order for 0 and for an empty list", function()
    assert.equal(seeded("0", senders).out, seeded("5:", senders).out)
  end)

  it("ends with the script's exit code, and tells of errors and deadlocks as always", function()
    assert.equal(7, seeded(1, "os.exit(7)").code)
    local r = seeded(1, "error 'oops'")
    assert.equal(1, r.code)
    assert.matches("oops", r.err)
    r = seeded(1, "local mare = require 'mare' mare.channel.named('c'):receive()")
    assert.equal(1, r.code)
    assert.matches("^mare: deadlock: every process waits", r.err)
    assert.matches("receive on channel 'c'", r.err)
    r = seeded(1, "require('mare').process.spawn(function() error 'unseen' end)", { words = { "--strict" } })
    assert.equal(1, r.code)
    assert.matches("unseen", r.err)
  end)

  it("gives the script its arguments, and nothing of the command line's options", function()
    local text = "print(...) print(arg[1], arg[2], #arg, arg[-2]) for k in pairs(arg) do assert(k >= -1) end"
    local r = seeded(3, text, { args = { "a", "b" } })
    assert.equal("a\tb\na\tb\t2\tnil\n", r.out)
  end)

  it("draws random numbers from the seed, others for each process", function()
    local text = [[
      local process = require "mare".process
      local function draw() return math.random(1 << 40) end
      print(draw(), select(2, process.spawn(draw):wait()), select(2, process.spawn(draw):wait()))
    ]]
    local one, two = again(1, text, 2).out, again(2, text, 2).out
    assert.not_equal(one, two)
    local a, b, c = one:match "(%d+)\t(%d+)\t(%d+)"
    assert.is_true(a ~= b and b ~= c and a ~= c)
  end)

  it("repeats what a program finds after a collection, in large blocks, fibers, comparators that wait, and loops", function()
    local r = again(3, [[
      local mare = require "mare"
      local process, channel, fiber = mare.process, mare.channel, mare.fiber
      local out = channel.new(1000)
      for i = 1, 4 do
        process.spawn(function()
          for j = 1, 8 do
            local t = {}
            for k = 1, 300 do t[k] = { k, ("x"):rep(k % 50) } end
            local large = ("y"):rep(300000 + i)
            out:send(i, j, #large, collectgarbage "count")
            if j % 3 == 0 then process.yield() end
            if j % 4 == 0 then mare.sleep(0.01 * i) end
          end
          out:send(i)
        end)
      end
      local left = 4
      while left > 0 do
        local i, j, n, kib = out:receive()
        print(i, j, n, kib)
        if not j then left = left - 1 end
      end
      local c, fs = channel.new(), {}
      for i = 1, 3 do fs[i] = fiber.spawn(function() for j = 1, 3 do c:send(i * 10 + j) end end) end
      for _ = 1, 9 do print(c:receive()) end
      local d = channel.new(100)
      process.spawn(function() for i = 1, 100 do d:send(i) end end)
      local list = {}
      for i = 1, 12 do list[i] = (i * 7) % 12 end
      table.sort(list, function(x, y) d:receive() return x < y end)
      print(table.concat(list, " "))
      local p = process.spawn(function() while true do end end)
      mare.sleep(0.1)
      p:cancel()
      print((p:wait()))
      print(mare.clock(), os.time(), os.clock())
    ]], sanitized and 2 or 5)
    assert.equal(0, r.code, r.err)
  end)

  if not sanitized then
    it("repeats addresses and the order of pairs", function()
      again(2, [[
        local mare = require "mare"
        local c = mare.channel.new()
        local function show()
          local t, words = { [print] = 1, [{}] = 2, [c] = 3, [coroutine.running()] = 4, [1.5] = 5 }, {}
          for i = 1, 30 do t["key" .. i] = i end
          for k in pairs(t) do words[#words + 1] = tostring(k) end
          return table.concat(words, " ") .. tostring(io.tmpfile())
        end
        print(show())
        for _ = 1, 3 do print(mare.process.spawn(show):wait()) end
        print(mare.process.spawn { main = show, heap = "system" }:wait())
        local t = {}
        table.sort({ 3, 1, 2 }, function(a, b) mare.sleep(0.001) t[#t + 1] = tostring({}) return a < b end)
        print(table.concat(t, " "))
      ]], 8)
    end)
    it("does so whatever reads its output", function()
      proc.with_file("local t = {} for i = 1, 9 do t['k' .. i] = i end for k in pairs(t) do print(k) end print({}, io.tmpfile())", function(path)
        local into_file = proc.mare_command { "run", "--seed", "1", path }
        local into_pipe = proc.run(("'%s' run --seed 1 '%s' | cat"):format(proc.bin, path))
        assert.equal(into_file.out, into_pipe.out)
      end)
    end)
  end

  describe("has a clock that", function()
    it("makes sleeping cost nothing", function()
      local r = seeded(1, [[
        local mare = require "mare"
        local before, day = mare.clock(), os.time()
        for _ = 1, 24 do mare.sleep(3600) end
        print(mare.clock() - before >= 86400, os.time() - day)
        print(mare.channel.new():receive(1000))
        local t = mare.timer.every(60)
        for _ = 1, 100 do t:wait() end
        print(os.time() - day >= 86400 + 1000 + 6000)
      ]], { timeout = 30 })
      assert.equal("true\t86400\nnil\ttimeout\ntrue\n", r.out, r.err)
    end)
    it("begins with the year 2000", function()
      assert.equal("2000-01-01 00:00:00\n", seeded(9, "print(os.date('!%Y-%m-%d %H:%M:%S'))").out)
    end)
    it("ends a wait that looks at it again and again", function()
      local r = seeded(1, [[
        local mare = require "mare"
        local until_then = mare.clock() + 3600
        while mare.clock() < until_then do end
        local second = os.time() + 3600
        while os.time() < second do end
        local cpu = os.clock() + 3600
        while os.clock() < cpu do end
        local late = mare.clock() + 3600
        while mare.clock() < late do mare.process.yield() end
        print "over"
      ]], { timeout = 60 })
      assert.equal("over\n", r.out, r.err)
    end)
    it("ends deadlines", function()
      local r = seeded(1, [[
        local mare = require "mare"
        print(pcall(mare.process.deadline, 1, function() while true do mare.sleep(0.3) end end))
        print(pcall(mare.process.deadline, 1, function() mare.channel.new():receive() end))
      ]], { timeout = 60 })
      assert.matches("^false[^\n]*deadline[^\n]*\nfalse", r.out, r.err)
    end)
  end)

  describe("lets others go on", function()
    it("when somebody computes without an end", function()
      for seed = 0, 8 do
        local r = seeded(seed, [[
          local process = require "mare".process
          local busy = process.spawn(function() while true do end end)
          print(process.spawn(function() return "done" end):wait())
          busy:kill()
        ]], { timeout = 60 })
        assert.equal("true\tdone\n", r.out, "seed " .. seed .. ": " .. r.err)
      end
    end)
    it("when somebody yields, or asks again and again", function()
      for seed = 0, 8 do
        local r = seeded(seed, [[
          local mare = require "mare"
          local c, d = mare.channel.new(1), mare.channel.new(1)
          mare.process.spawn(function() mare.sleep(1) c:send(1) end)
          mare.process.spawn(function() mare.sleep(1) d:send(1) end)
          while not c:try_receive() do mare.process.yield() end
          while not d:receive(0) do end
          print "both"
        ]], { timeout = 60 })
        assert.equal("both\n", r.out, "seed " .. seed .. ": " .. r.err)
      end
    end)
  end)

  it("says what is outside and can't be had", function()
    local r = seeded(1, [[
      local mare = require "mare"
      print(pcall(mare.net.connect, "192.0.2.1:1"))
      print(pcall(mare.net.resolve, "example.org"))
      print(pcall(mare.subprocess.run, { "true" }))
      print(pcall(require("mare.socket").connect, "192.0.2.1", 1))
    ]])
    for line in r.out:gmatch "[^\n]+" do assert.matches("^false.*%-%-seed: ", line) end
    assert.equal(4, select(2, r.out:gsub("\n", "")))
  end)

  it("reads and writes files", function()
    local name = temporary()
    local r = seeded(1, ([[
      local file = require "mare".file
      assert(file.write(%q, "one\ntwo\n"))
      local f <close> = assert(file.open(%q))
      print(f:read "l", f:read "a")
    ]]):format(name, name))
    os.remove(name)
    assert.equal("one\ttwo\n\n", r.out, r.err)
  end)

  it("notices that a signal will not come", function()
    local r = seeded(1, "local s = require('mare').signal.on 'TERM' s:wait()", { timeout = 30 })
    assert.equal(1, r.code)
    assert.matches("deadlock", r.err)
  end)

  it("ends at once with 130 at Ctrl-C", function()
    local r = seeded(1, "print 'begun' while true do end", { signals = { { after = "begun", name = "INT" } }, timeout = 30 })
    assert.equal(130, r.code)
  end)

  it("says that there are four workers, or as many as -w says", function()
    local text = "local p = require 'mare'.process io.write(p.workers(), ' ') p.workers(7) print(p.workers())"
    assert.equal("4 7\n", seeded(1, text).out)
    assert.equal("2 7\n", seeded(1, text, { words = { "-w", "2" } }).out)
  end)

  it("sends functions of mare's to other processes, as any run does", function()
    local r = seeded(1, [[
      local mare = require "mare"
      local sleep, c = mare.sleep, mare.channel.new(1)
      local spawn, select = mare.process.spawn, mare.select
      print(spawn(function()
        sleep(1)
        spawn(function() c:send "there" end)
        return mare.sleep == sleep, select { c }
      end):wait())
    ]])
    assert.equal("true\ttrue\t1\tthere\n", r.out, r.err)
  end)

  it("follows a list of choices, and ignores those that it does not come to", function()
    local text = [[
      local mare = require "mare"
      local c = mare.channel.new(10)
      for i = 1, 2 do mare.process.spawn(function() c:send(i) c:send(i) end) end
      for i = 1, 4 do io.write(c:receive(), " ") end
      print()
    ]]
    assert.equal("1 1 2 2 \n", seeded("1:", text).out)
    assert.equal("1 2 2 1 \n", seeded("1:2.1=3", text).out)
    assert.equal("1 1 2 2 \n", seeded("1:2.1=99,77.3=2,2.100=3", text).out)
  end)

  it("refuses what is no seed", function()
    for _, seed in ipairs { "x", "1:x", "1:2", "-1", "1:2.3", "99999999999999999999999", "1:2.3=4,," } do
      local r = proc.mare_command({ "run", "--seed=" .. seed, "-e", "" })
      assert.equal(2, r.code, seed)
      assert.matches("%-%-seed", r.err)
    end
    assert.equal(2, proc.mare_command({ "run", "--seed", "1", "-i" }).code)
  end)

  it("leaves a script alone that has such an option of its own", function()
    proc.with_file("print(..., os.time() > 1e9, pcall(require('mare').net.listen, '127.0.0.1:0'))", function(path)
      local r = proc.mare_command { "run", path, "--seed", "5" }
      assert.matches("^%-%-seed\ttrue\ttrue", r.out, r.err)
    end)
  end)
end)
