-- mare explore: the search for a schedule that fails.
-- runs under: mare
-- needs: plain or asan
local proc = require "spec.support.proc"
local mare = require "mare"
local subprocess = require "mare.subprocess"
local json = require "mare.base.json"

local planted = "spec/support/planted/"

-- What builds with a sanitizer don't promise, or say besides.
local function clean(output)
  if proc.config == "plain" then return output end
  return (output:gsub("MARE_CHAOS=%d+\n", ""):gsub("0x%x+", ""))
end

-- The fields of its JSON object.
local function explore(path, options)
  local words = { "explore", "--json" }
  table.move(options or {}, 1, #(options or {}), 3, words)
  words[#words + 1] = path
  local r = proc.mare_command(words, { timeout = 300 })
  assert.equal("", clean(r.err))
  return json.read(r.out), r
end

describe("mare explore", function()
  -- Each is found within so many runs from any of these seeds on: some seconds, at 200 a second. Counted, not timed.
  for name, want in pairs { lost_wakeup = "deadlock", deadlock = "deadlock", check_then_act = "exit code 1", whole_line = "exit code 1",
                             two_connections = "exit code 1" } do
    it("finds the planted bug " .. name .. " and makes it short", function()
      for _, from in ipairs { "1", "1000", "77777" } do
        local found = explore(planted .. name .. ".lua", { "--runs", "2000", "--seed", from })
        assert.is_true(found.failed)
        assert.equal(want, found.outcome)
        assert.is_true(found.seed - from < 1000, "seed " .. found.seed)
        assert.is_true(found.choices <= 3, found.schedule)
        assert.is_true(found.choices <= found.made)
      end
    end)

    it("prints how to run " .. name .. " again, which gives the same 20 times", function()
      local found = explore(planted .. name .. ".lua", { "--runs", "2000" })
      for _ = 1, proc.config == "plain" and 20 or 5 do
        local r = proc.run(found.command .. " 2>&1", { timeout = 60 })
        assert.equal(1, r.code)
        assert.equal(clean(found.output), clean(r.out))
      end
      -- and so does the seed alone, before it was made short
      local r = proc.mare_command { "run", "--strict", "--seed", tostring(found.seed), planted .. name .. ".lua" }
      assert.equal(1, r.code)
    end)
  end

  it("needs one switch for a deadlock of two locks", function()
    assert.equal(1, explore(planted .. "deadlock.lua").choices)
  end)

  it("finds who takes what one read gives for a line by a single read or write that was cut, and says which", function()
    local found = explore(planted .. "whole_line.lua")
    assert.matches("^%d+:[^,]*~%d+$", found.schedule)
    local r = proc.mare_command({ "explore", planted .. "whole_line.lua" }, { timeout = 300 })
    assert.matches("  [12]%.%d+~%d+ +at point %d+ of process [12] %([a-z]+ at [^)]*whole_line.lua:%d+%), %d bytes? goe?s? through, " ..
                   "the rest later\n", r.out)
  end)

  it("ends with 0 when nothing fails, and says how many runs there were", function()
    proc.with_file([[
      local mare = require "mare"
      local c, sum = mare.channel.new(), 0
      for _ = 1, 2 do mare.process.spawn(function() for i = 1, 3 do c:send(i) end end) end
      for _ = 1, 6 do sum = sum + c:receive() end
      assert(sum == 12)
    ]], function(path)
      local found, r = explore(path, { "--runs", "150" })
      assert.equal(0, r.code)
      assert.is_false(found.failed)
      assert.equal(150, found.runs)
      r = proc.mare_command { "explore", "--runs", "20", path }
      assert.equal(0, r.code)
      assert.matches("^20 runs, none failed", r.out)
    end)
  end)

  it("shows a failure in every run without any choice", function()
    proc.with_file("print 'here' error 'always'", function(path)
      local found, r = explore(path)
      assert.equal(1, r.code)
      assert.equal(0, found.choices)
      assert.matches("^here\n", found.output)
      assert.matches("always", found.output)
      r = proc.mare_command { "explore", path }
      assert.equal(1, r.code)
      assert.matches("seed 1 failed: exit code 1", r.out)
      assert.matches("\n  here\n", r.out)
      assert.matches("\nonce more: .* run %-%-strict %-%-seed 1: ", r.out)
    end)
  end)

  it("counts a failure that nobody waited for, an exit code, a signal and a time limit", function()
    local function outcome(program, ...)
      local options = { "--runs", "3", ... }
      return proc.with_file(program, function(path) return explore(path, options).outcome end)
    end
    assert.equal("exit code 1", outcome "require('mare').process.spawn(function() error 'unseen' end)")
    assert.equal("exit code 9", outcome "os.exit(9)")
    assert.equal("deadlock", outcome "require('mare').channel.new():receive()")
    assert.equal("time limit", outcome("while true do end", "--timeout", "0.2"))
    assert.equal("signal 15", outcome [[
      local file <close> = io.open "/proc/self/stat"
      os.execute("kill -TERM " .. file:read "n")
      require("mare").sleep(1)
      while true do end
    ]])
  end)

  it("says which run failed, the same as text and as JSON", function()
    local path = planted .. "deadlock.lua"
    local found = explore(path, { "--runs", "2000", "--jobs", "2" })
    local r = proc.mare_command({ "explore", "--runs", "2000", "--jobs", "2", path }, { timeout = 300 })
    assert.matches("^seed " .. found.seed .. " failed: deadlock %(run " .. found.runs .. " of 2000%)", r.out)
    assert.equal(found.seed, found.runs)                       -- the first seed is 1
  end)

  it("shows where every process and fiber stands in a run that takes too long", function()
    proc.with_file([[
      local mare = require "mare"
      local c = mare.channel.named "jobs"
      mare.process.spawn { name = "waits", main = function(c) c:receive() end, args = { c } }
      mare.process.spawn { name = "loop", main = function(c)
        mare.fiber.spawn(function() c:receive() end)
        mare.fiber.yield()
        while true do end
      end, args = { c } }
      mare.sleep(1)
      c:receive()
    ]], function(path)
      local options = { "--timeout", "0.3", "--runs", "1" }
      local found = explore(path, options)
      assert.equal("time limit", found.outcome)
      assert.matches("#%d 'waits': waiting %(receive, channel 'jobs'%) at [^\n]+:3;", found.stands)
      assert.matches("#%d 'loop': %a+ at [^\n]+:7;[^\n]* 2 fibers\n", found.stands)
      assert.matches("#1 main: waiting %(%a+[^\n]*%) at [^\n]+:%d+;", found.stands)
      assert.matches("main fiber: %a+\nstack traceback:\n\t[^\n]+:7: in function ", found.stands)
      local r = proc.mare_command({ "explore", "--timeout", "0.3", "--runs", "1", path }, { timeout = 120 })
      assert.matches("\nwhere all was when its time was over:\n  3 processes, ", r.out)
    end)
  end)

  it("says at SIGQUIT where its runs stand, and goes on", function()
    proc.with_file("io.open(..., 'w'):close() while true do end", function(path)
      local up = path .. ".up"
      local command = { proc.bin, "explore", "--jobs", "1", "--timeout", "1000", path, up, stdout = "pipe", stderr = "pipe", stdin = "null" }
      local child <close> = assert(subprocess.spawn(command))
      while not os.remove(up) do mare.sleep(0.02) end           -- a run is on its way: the search listens, and so does the run
      child:kill "QUIT"
      local text = child.stderr:read_until("in main chunk", nil, 60 * proc.slow)
      assert.matches("mare: SIGQUIT: seed 1: 1 process, up .*#1 main: running at [^\n]+:1;", text or "nothing")
      assert.is_nil((child:wait(0)))
    end)
  end)

  it("explains each choice by its place in the program", function()
    local r = proc.mare_command({ "explore", planted .. "deadlock.lua" }, { timeout = 300 })
    assert.matches("after point %d+ of process [23] '[ab]' %(receive at [^)]*deadlock.lua:%d+%), process [23] '[ab]' goes on\n", r.out)
  end)

  it("shows what happens: who does what on which object, where, and each switch", function()
    local path = planted .. "deadlock.lua"
    local r = proc.mare_command({ "explore", path }, { timeout = 300 })
    local shown = assert(r.out:match "\nwhat happens[^\n]*\n(.-)\nwhat it writes:")
    assert.matches("\n +#1 main +spawn → #2 'a' +[^\n]*deadlock.lua:16\n", shown)
    assert.matches("\n +#1 main +wait #2 'a' +[^\n]*deadlock.lua:18, waits\n", shown)
    assert.matches("\n  > +#2 'a' +begins\n +#2 'a' +receive channel 1 → true +[^\n]*deadlock.lua:9\n", shown)
    assert.matches("\n  >%* #3 'b' +begins\n", shown)
    assert.matches("\n[ >]+#2 'a' +receive channel 2 +[^\n]*deadlock.lua:10, waits", shown)
    local found = explore(path)
    assert.equal(#found.events, found.happened)
    assert.same({ number = 1, process = 1, who = "#1 main", does = "begins" }, found.events[1])
    local choices = 0
    for i, e in ipairs(found.events) do
      assert.equal(i, e.number)
      assert.equal(i > 1 and e.process ~= found.events[i - 1].process or nil, e.switch)
      if e.choice then
        choices = choices + 1
        assert.equal(found.schedule, found.seed .. ":" .. e.choice)
      end
    end
    assert.equal(1, choices)
  end)

  it("shows fibers, names without control characters, cases of select and how each ends", function()
    proc.with_file([[
      local mare = require "mare"
      local c = mare.channel.named "jobs"
      local f = mare.fiber.spawn { name = "in\27side", main = function() mare.select { c, mare.channel.new() } error "broken\nhere" end }
      c:send("x\7y")
      f:wait()
      error "always"
    ]], function(path)
      local r = proc.mare_command { "explore", "--runs", "1", path }
      assert.matches("\n +#1 main +send channel 'jobs', 'x\\x07y' +[^\n]+:4, waits\n", r.out)
      assert.matches("\n +#1 main, fiber #1 'in\\x1bside' +select channel 'jobs', channel 1", r.out)
      assert.matches("\n +#1 main, fiber #1 'in\\x1bside' +fails: [^\n]+:3: broken\n", r.out)
    end)
  end)

  it("leaves out what is far from beginning, end and choices, and says how much", function()
    proc.with_file("local c = require('mare').channel.new() for i = 1, 6000 do c:try_send(i) end error 'always'", function(path)
      local r = proc.mare_command { "explore", "--runs", "1", path }
      assert.matches("\n +… 5971 more\n +#1 main +try_send channel 1, 5982", r.out)
      local found = explore(path, { "--runs", "1" })
      assert.equal(6003, found.happened)
      assert.equal(400, #found.events)
      assert.equal(5603, found.events[201].skipped)
      assert.equal(5804, found.events[201].number)
    end)
  end)

  it("is on whoever's behalf: stdin is empty, the arguments are the test's", function()
    proc.with_file("assert(io.read() == nil) assert(select('#', ...) == 2 and arg[2] == '--x') print(arg[0])", function(path)
      local r = proc.mare_command({ "explore", "--runs", "2", path, "a", "--x" }, { stdin = "something" })
      assert.equal(0, r.code, r.out .. r.err)
    end)
  end)

  it("quotes the words of the command that it prints", function()
    proc.with_file("assert(... ~= \"it's\")", function(path)
      local r = proc.mare_command { "explore", "--runs", "1", path, "it's" }
      assert.equal(1, r.code)
      local again = proc.run(r.out:match "once more: ([^\n]+)")
      assert.equal(1, again.code)
      assert.matches("assertion failed", again.err)
    end)
  end)

  it("does not search for what can't be loaded", function()
    local r = proc.mare_command { "explore", "/no/such/test.lua" }
    assert.same({ 2, "" }, { r.code, r.out })
    assert.matches("^mare: cannot open /no/such/test.lua", r.err)
    proc.with_file("local x = = 1", function(path)
      r = proc.mare_command { "explore", path }
      assert.same({ 2, "" }, { r.code, r.out })
      assert.matches("unexpected symbol", r.err)
    end)
  end)

  it("says what is wrong with its command line, and ends with 2", function()
    for _, words in ipairs { {}, { "--runs", "0", "x.lua" }, { "--runs", "many", "x.lua" }, { "--seed", "1:2.3=4", "x.lua" }, { "--strict", "x.lua" },
                             { "--timeout", "-1", "x.lua" }, { "--rnus", "3", "x.lua" } } do
      local r = proc.mare_command { "explore", table.unpack(words) }
      assert.equal(2, r.code, table.concat(words, " "))
      assert.matches("mare explore %-%-help", r.err)
    end
    assert.matches("needs a seed: a whole number from 0 on, as 17,.* got '%-3'", proc.mare_command({ "explore", "--seed", "-3", "x.lua" }).err)
    assert.matches("needs a seed: a whole number from 0 on, as 17,.* got '%-3'", proc.mare_command({ "run", "--seed", "-3", "x.lua" }).err)
    assert.matches("below 2%^63", proc.mare_command({ "explore", "--seed", "9223372036854775808", "x.lua" }).err)
    assert.matches("did you mean '%-%-runs'", proc.mare_command({ "explore", "--rnus", "3", "x.lua" }).err)
    assert.matches("usage: mare explore", proc.mare_command({ "explore", "--help" }).out)
    assert.matches("usage: mare explore", proc.mare_command({ "help", "explore" }).out)
  end)
end)
