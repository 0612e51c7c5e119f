-- mare.log: what it writes, where and when; each program is one of its own, as settings are the program's.
-- runs under: mare
local proc = require "spec.support.proc"
local mare = require "mare"
local json = require "mare.base.json"
local temporary = require "spec.support.temporary"

-- The lines that a program wrote to stderr, read as JSON.
local function logged(text, options)
  local r = proc.mare("local mare = require 'mare' local log = mare.log " .. text, {}, options)
  local lines = {}
  for line in r.err:gmatch "[^\n]+" do lines[#lines + 1] = json.read(line) or error("no JSON: " .. line .. "\n" .. r.err) end
  return lines, r
end

local function slurp(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

describe("mare.log", function()
  it("writes lines of JSON where nobody looks: time, level, message, process, fields", function()
    local lines = logged [[
      log.info("hello", { user = "ann", n = 1, x = 0.5, list = { 1, { a = 2 } }, f = setmetatable({}, { __tostring = function() return "F" end }),
        nan = 0 / 0, time = "mine", [3] = true, odd = function() end, bytes = "\255\0", cycle = _G })
      mare.process.spawn({ name = "kid", main = function() log.warn "from \n there" end }):wait() ]]
    local a, b = lines[1], lines[2]
    assert.matches("^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%d%d%d%dZ$", a.time)
    local y, m, d = os.date("!%Y-%m-%d"):match "(%d+)%-(%d+)%-(%d+)"
    local day, before = ("%s-%s-%s"):format(y, m, d), os.date("!%Y-%m-%d", os.time() - 600)
    assert.is_true(a.time:sub(1, 10) == day or a.time:sub(1, 10) == before, a.time)
    assert.matches("^function: ", a.odd)
    assert.matches("^table: ", a.cycle)
    a.odd, a.cycle, a.time = nil, nil, nil
    assert.same({ level = "info", message = "hello", process = 1, user = "ann", n = 1, x = 0.5, list = { 1, { a = 2 } }, f = "F", nan = "nan",
                  ["time."] = "mine", ["3"] = true, bytes = "\u{ff}\0" }, a)
    assert.same({ "warn", "from \n there", 2, "kid" }, { b.level, b.message, b.process, b.process_name })
  end)

  it("writes text for people at a terminal, coloured unless NO_COLOR is set, and nothing in it steers that", function()
    local script = temporary()
    local file = assert(io.open(script, "w"))
    file:write [[local log = require "mare".log
      log.setup { format = arg[1] }
      log.warn("\27[31mred\nforged \u{9b}31m", { a = "two words", b = "one", c = { 1 }, d = "x\27" })]]
    file:close()
    local function run(no_color, ...)
      local r = proc.terminal({ proc.bin, "run", script, ... }, { { "forged" } }, { env = { NO_COLOR = no_color, TERM = "xterm" } })
      return r.out:gsub("MARE_CHAOS=%d+\r?\n", "")
    end
    local plain = [[\027[31mred
    forged \194\15531m a="two words" b=one c=[1] d="x\u001b"]]
    local text = run("1"):gsub("\r", "")
    assert.matches("^%d+%-%d+%-%d+T%d+:%d+:%d+%.%d+Z WARN  \\027", text)
    assert.truthy(text:find(plain, 1, true), text)
    assert.falsy(text:find "\27")
    assert.truthy(run(false):find("\27[33mWARN \27[0m \\027[31mred", 1, true))
    assert.matches('"level":"warn"', run(false, "json"))
    os.remove(script)
  end)

  it("has a level for the program, by MARE_LOG first, and one for a process and what it spawns", function()
    local text = [[
      log.setup { level = "error" }
      log.warn "no" log.error "one"
      mare.process.spawn(function()
        log.level "debug"
        mare.process.spawn(function() log.debug "two" log.trace "no" print(log.level(false), log.level(), log.enabled "debug") end):wait()
      end):wait()
      log.setup { level = "off" }
      log.error "no" print(log.enabled "error", log.level()) ]]
    local lines, r = logged(text)
    assert.same({ "one", "two", nil }, { lines[1].message, lines[2].message, lines[3] })
    assert.equal("debug\terror\tfalse\nfalse\toff\n", r.out)
    lines = logged("log.setup { level = 'error' } log.debug 'there'", { env = { MARE_LOG = "debug" } })
    assert.equal("there", lines[1].message)
    lines = logged("log.debug 'no' log.info 'yes'", { env = { MARE_LOG = "loud" } })
    assert.same({ "warn", "loud", "yes" }, { lines[1].level, lines[1].value, lines[2].message })
  end)

  it("adds the fields that a fiber carries, and gives them to the fibers it makes", function()
    local lines, r = logged [[
      local fiber = mare.fiber
      local other = fiber.spawn(function() mare.sleep(0) log.info "0" end)
      print(log.with({ request = "r", a = 1 }, function(...)
        fiber.spawn(function() log.info("1", { a = 2 }) end):wait()
        log.with({ b = true }, log.info, "2")
        print(log.fields().request, log.fields().b)
        return select("#", ...), ...
      end, nil, nil))
      pcall(log.with, { request = "s" }, error, "x")
      do local _ <close> = log.with { c = 3 } log.info "3" end
      other:wait()
      log.info("4", log.fields()) ]]
    local seen = {}
    for _, l in ipairs(lines) do seen[#seen + 1] = ("%s %s %s %s %s"):format(l.message, l.request, l.a, l.b, l.c) end
    table.sort(seen)
    assert.same({ "0 nil nil nil nil", "1 r 2 nil nil", "2 r 1 true nil", "3 nil nil nil 3", "4 nil nil nil nil" }, seen)
    assert.equal("r\tnil\n2\tnil\tnil\n", r.out)
  end)

  it("gets the failures that would be printed: of processes, fibers, the program; and the report of a deadlock", function()
    local lines, r = logged [[
      log.info "in use"
      local p = mare.process.spawn { name = "bad", main = function() error "broken" end }
      mare.fiber.spawn(function() error "fibre" end)
      mare.sleep(0)
      while p:status() ~= "failed" do mare.sleep(0.001) end
      p = nil collectgarbage() collectgarbage()
      error "the script" ]]
    local all = {}
    for _, l in ipairs(lines) do all[l.message:match "(%w+ ?%w+)$"] = l end
    assert.same({ "error", 2, "bad" }, { all.broken.level, all.broken.process, all.broken.process_name })
    assert.matches("^stack traceback:", all.broken.traceback)
    assert.matches("^fiber #1 of the main process failed", all.fibre.message)
    assert.matches("^stack traceback:", all["the script"].traceback)
    assert.equal(1, r.code)
    lines = logged "log.info 'x' mare.channel.new():receive()"
    assert.matches("^deadlock: every process waits", lines[2].message)
    r = proc.mare "local log = require 'mare'.log log.setup { level = 'off' } error 'plain'"
    assert.matches("^mare: .-: plain\nstack traceback", r.err)
  end)

  it("writes to a file, which HUP opens anew, and is complete when the program ends, also by a signal", function()
    local path = temporary()
    local lines, r = logged([[
      local path = ]] .. ("%q"):format(path) .. [[
      assert(log.setup { file = path })
      print(log.setup { file = "/no/such/folder" })
      log.info "before"
      log.setup { file = path .. ".2" }
      log.info "between"
      log.setup { file = path }
      assert(log.flush())
      assert(os.rename(path, path .. ".1"))
      mare.subprocess.run({ "sh", "-c", "kill -HUP $PPID" })
      repeat mare.sleep(0.001) until io.open(path)
      for i = 1, 1000 do log.info("after", { i = i }) end
      mare.subprocess.run({ "sh", "-c", "kill -TERM $PPID" })
      mare.sleep(60) ]])
    assert.same({}, lines)
    assert.equal(15, r.signal)
    assert.equal("nil\t/no/such/folder: No such file or directory\tENOENT\n", r.out)
    assert.matches('"message":"before"', slurp(path .. ".1"))
    local _, n = slurp(path):gsub('"message":"after"', "")
    assert.equal(1000, n)
    assert.matches('"message":"between"', slurp(path .. ".2"))
    assert.falsy(slurp(path .. ".1"):find "between")
    os.remove(path .. ".2")
    os.remove(path .. ".1")
    os.remove(path)
  end)

  it("never makes the writer wait: what overflows is counted, and the log says so", function()
    local script = temporary()
    local file = assert(io.open(script, "w"))
    file:write [[local log = require "mare".log
      log.setup { queue = 65536 }
      for i = 1, 20000 do log.info("line", { i = i }) end      -- nobody reads stderr yet
      local s = log.statistics()
      print(s.lines, s.lost)
      io.stdout:flush()
      io.read()
      log.flush()]]
    file:close()
    local p = assert(mare.subprocess.spawn { proc.bin, "run", script, stdin = "pipe", stdout = "pipe", stderr = "pipe" })
    local taken, lost = assert(p.stdout:read("l", 60)):match "^(%d+)\t(%d+)$"
    taken, lost = tonumber(taken), tonumber(lost)
    assert.equal(20000, taken + lost)
    assert.is_true(lost > 0 and taken > 100, taken .. " " .. lost)
    p.stdin:write "\n"
    local said, count = 0, 0
    for line in p.stderr:read("a", 60):gsub("MARE_CHAOS=%d+\n", ""):gmatch "[^\n]+" do
      local l = assert(json.read(line))
      if l.level == "warn" then said = said + l.lost else count = count + 1 end
    end
    assert.same({ taken, lost }, { count, said })
    assert.equal(0, p:wait(60).code)
    os.remove(script)
  end)

  it("gives up a reader that takes nothing at the end, also by a descriptor that does not wait", function()
    local programs = {}
    for i, waits in ipairs { "True", "False" } do
      local set = ("import os, sys; os.set_blocking(2, %s); os.execv(sys.argv[1], sys.argv[1:])"):format(waits)
      programs[i] = assert(mare.subprocess.spawn { "/usr/bin/python3", "-c", set, proc.bin, "-e",
        "for i = 1, 5000 do require 'mare'.log.info('a line that nobody reads') end", stderr = "pipe" })
    end
    for _, p in ipairs(programs) do
      assert.equal(0, assert(p:wait(60)).code)
      p.stderr:close()
    end
  end)

  it("says what is wrong with a call, whether or not its level is on", function()
    local log = mare.log
    local function wrong(f, ...) return (select(2, pcall(f, ...)):gsub("^%S+:%d+: ", "")) end
    assert.equal("log.trace: fields are a table of names and values, as { user = 7 }; got string", wrong(log.trace, "a", "b"))
    assert.equal('log.debug: a message expected, as log.debug("it happened", { user = 7 })', wrong(log.debug, { a = 1 }))
    assert.matches('^log.level: a level is "trace", .* got "inof"$', wrong(log.level, "inof"))
    assert.matches('^log.setup: a level is "trace", .* got "loud"$', wrong(log.setup, { level = "loud" }))
    assert.matches("unknown field 'levl'", wrong(log.setup, { levl = "info" }))
    assert.matches("'format' must be \"auto\"", wrong(log.setup, { format = "xml" }))
    assert.matches("^log.with: a table", wrong(log.with, "r"))
    assert.matches("^log.flush: a number", wrong(log.flush, "r"))
  end)
end)
