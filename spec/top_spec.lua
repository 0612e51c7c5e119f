-- mare top: one look, the live table at a terminal, mistakes.
-- runs under: mare
-- needs: plain or asan
local mare = require "mare"
local json = require "mare.base.json"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"
local view = require "mare.observe.view"
local watched = require "spec.support.watched"

local function top(words, options) return proc.mare_command({ "top", table.unpack(words) }, options) end

local program = [[
  process.spawn { name = "spins", main = function() while true do end end }
  process.spawn { name = "rests", main = function() require "mare".sleep(1e6) end }
  print "ready"
  mare.sleep(1e6)
]]

describe("mare top", function()
  it("prints one object as JSON", function()
    local w <close> = watched.start({ "-w", "2" }, program)
    local r = top { "--json", tostring(w.pid) }
    assert.equal(0, r.code, r.err)
    assert.equal("", r.err)
    assert.matches("^[^\n]+\n$", r.out)
    local s = assert(json.read(r.out))
    assert.equal(w.pid, s.program.pid)
    assert.equal(3, s.count)
    assert.equal(3, #s.processes)
    assert.is_number(s.processes[1].load)
    assert.equal(2, #s.totals.workers)
    assert.same({ {}, {} }, { s.failures, s.channels })
    r = top { "--json", "--limit=1", "--sort", "id", tostring(w.pid) }
    assert.equal(1, assert(json.read(r.out)).processes[1].id)
    assert.equal(1, #json.read(r.out).processes)
  end)

  it("prints one table, without colours, where there is no terminal", function()
    local w <close> = watched.start({}, program)
    for _, words in ipairs { { "--once", tostring(w.pid) }, { tostring(w.pid) }, { "--limit", "1", "--once", tostring(w.pid) } } do
      local r = top(words)
      assert.equal(0, r.code, r.err)
      assert.matches("^mare top  " .. w.pid .. "  ", r.out)
      assert.matches("\nWorkers %d+: %[", r.out)
      assert.matches("\nProcesses 3: ", r.out)
      assert.matches("\n +ID STATUS +%*CPU%%", r.out)
      assert.matches(#words == 4 and "\n… 2 more\n$" or " rests\n", r.out)
      assert.is_nil(r.out:find "\27")
    end
  end)

  it("says at once that a program does not run mare, or is not there", function()
    local other <close> = watched.command { "sh", "-c", "echo ready; exec sleep 1000" }
    for _, pid in ipairs { other.pid, 1, 0x7fffffff } do
      local begun = mare.clock()
      local r = top { tostring(pid) }
      assert.equal(1, r.code)
      assert.equal(("mare top: process %d does not run mare, runs under --seed, or is another user's\n"):format(pid), r.err)
      assert.is_true(mare.clock() - begun < 10 * proc.slow)
    end
  end)

  it("says in the user's words that a program hangs up between two answers", function()
    local other <close> = watched.command { "sh", "-c", "echo ready; exec sleep 1000" }
    local folder = temporary()
    local path = ("%s/mare/%d"):format(folder, other.pid)
    os.remove(folder)
    assert(mare.file.mkdir(folder .. "/mare", "parents"))
    local up = mare.channel.new()
    mare.process.spawn(function(place, opened)                 -- in its place: it lets in, answers once, and goes
      local server <close> = assert(require "mare".net.listen("unix:" .. place))
      opened:send(true)
      local connection <close> = assert(server:accept(600))
      connection:write('{"protocol":1}\n')
      connection:read_until("\n", nil, 600)
      connection:write('{"ok":true}\n')
      connection:read_until("\n", nil, 600)
    end, path, up)
    up:receive()
    local r = top({ "--once", tostring(other.pid) }, { env = { XDG_RUNTIME_DIR = folder } })
    os.remove(path)
    mare.file.remove(folder, "all")
    assert.equal(("mare top: process %d: it has ended, or hung up\n"):format(other.pid), r.err)
    assert.equal(1, r.code)
  end)

  it("lists programs if there are several", function()                       -- this one is the other
    local w <close> = watched.start({}, program)
    local r = top { "--once" }
    assert.equal(2, r.code)
    assert.matches("several programs run mare; which one%?\n", r.err)
    assert.matches("\n +" .. w.pid .. "  %S*mare run /", r.err)
  end)

  it("says what is wrong on its command line", function()
    for what, words in pairs {
      ["unrecognized option '%-%-jsn'; did you mean .*json"] = { "--jsn" }, ["'x' is no number"] = { "x" }, ["'0' is no number"] = { "0" },
      ["one program at a time"] = { "1", "2" }, ["'%-%-interval' needs argument"] = { "--interval" }, ["needs seconds"] = { "--interval", "0" },
      ["%-%-sort needs"] = { "--sort", "name" }, ["%-%-limit needs"] = { "--limit=x" }, ["'%-%-once' takes no argument"] = { "--once=1" },
    } do
      local r = top(words)
      assert.equal(2, r.code)
      assert.matches("^mare top: [^\n]*" .. what, r.err)
      assert.matches("\nusage: mare top .*Try 'mare top %-%-help'", r.err)
    end
  end)

  it("has a help that begins with an example", function()
    for _, words in ipairs { { "top", "--help" }, { "help", "top" } } do
      local r = proc.mare_command(words)
      assert.equal(0, r.code)
      assert.matches("^  mare top 4711 .-\n\nusage: mare top", r.out)
    end
  end)

  it("cuts and cleans what programs are called", function()
    assert.equal("a??[31mb?c", view.clean "a\0\27[31mb\127c")
    assert.equal("x?y", view.clean "x\u{202e}y")
    assert.equal("é?", view.clean "é\u{9b}")
    assert.equal("a?b", view.clean "a\255b")
    assert.equal("日", (view.cut("日本", 3)))
    assert.equal(" ab", view.fit("ab", 3, true))
    assert.equal("日 ", view.fit("日本", 3))
    assert.same({ "0B", "1023B", "1.0K", "10K", "1.5M" },
      { view.bytes(0), view.bytes(1023), view.bytes(1024), view.bytes(10240), view.bytes(3 << 19) })
    assert.same({ "999", "1.0k", "1.0M" }, { view.count(999), view.count(1000), view.count(999999) })
    assert.same({ "0.00s", "59.0s", "1:00", "1:00:00" }, { view.seconds(0), view.seconds(59), view.seconds(60), view.seconds(3600) })
  end)
end)

describe("the live table", function()
  local xterm = { env = { TERM = "xterm", NO_COLOR = false } }
  local function live(w, talk, options, words)
    return proc.terminal({ proc.bin, "top", tostring(w.pid), table.unpack(words or {}) }, talk, options or xterm)
  end

  it("shows processes, and leaves the terminal as it was", function()
    local w <close> = watched.start({}, program)
    local r = live(w, { { "? help" }, { "Processes 3: " }, { "spins", "q" } })
    assert.matches("\27%[%?1049h\27%[%?25l", r.out)
    assert.matches("\27%[%?25h\27%[%?1049l\27%[0m\n?ended with 0, icanon echo", r.out)
    assert.matches("\27%[7m *%*?ID", r.out)
  end)

  it("sorts, looks into a process, and comes back", function()
    local w <close> = watched.start({}, program)
    local r = live(w, { { "*CPU%", "i" }, { "*ID" }, { "main process" }, { "spins" }, { "rests", "\27[B\27[B" }, { "rests", "\r" },
      { "Process #3  rests" },
      { "in function <", "\27" }, { "STATUS", "?" }, { "Keys", "q" } }, nil, { "--interval", "0.1" })
    assert.matches("parent.-#1", r.out)
    assert.matches("ended with 0, icanon echo", r.out)
  end)

  it("cancels and kills after a question", function()
    local w <close> = watched.start({}, program, { stderr = "null" })
    local r = live(w, { { "*CPU%", "i" }, { "*ID" }, { "rests", "\27[F" }, { "rests", "k" },
      { "kill process #3 (rests)? y/n", "n" }, { "? help", "k" },
      { "kill process #3 (rests)? y/n", "y" }, { "1 failed", "\27[Ac" }, { "cancel process #2 (spins)? y/n", "y" },
      { "2 failed", "q" } }, nil, { "--interval", "0.1" })
    assert.matches("ended with 0, icanon echo", r.out)
  end)

  it("shows failures", function()
    local w <close> = watched.start({}, [[
      process.spawn { name = "bad", main = function() error "oops" end }
      while process.count() > 1 do mare.sleep(0.01) end
      collectgarbage()
      print "ready"
      mare.sleep(1e6)]], { stderr = "null" })
    local r = live(w, { { "Failures 1: ", "f" }, { "the newest first" }, { "stack traceback", "\3" } })
    assert.matches("ended with 0, icanon echo", r.out)
  end)

  it("ends with its program, and says so", function()
    local w <close> = watched.start({}, "print 'ready' mare.sleep(1e6)", { stderr = "null" })
    local r = live(w, { { "main process", "c" }, { "cancel process #1? y/n", "y" } }, nil, { "--interval", "0.1" })
    assert.matches("mare top: process " .. w.pid .. ": it has ended, or hung up%s*ended with 1, icanon echo", r.out)
  end)

  it("gives the terminal back when it is ended by a signal", function()
    local w <close> = watched.start({}, program)
    for name, code in pairs { TERM = 143, INT = 130, HUP = 129 } do
      local r = proc.terminal({ "sh", "-c", [[
        (while ! ps -o stat= -o tty= -p $$ >/dev/null; do :; done; sleep 2; kill -]] .. name .. [[ $$) &
        exec "$@"]], "sh", proc.bin, "top", tostring(w.pid) }, { { "? help" } }, xterm)
      assert.matches(("ended with %d, icanon echo"):format(code), r.out)
    end
  end)

  it("has no colours with NO_COLOR, and none of its own marks in names", function()
    local w <close> = watched.start({}, [[
      process.spawn { name = "\27[35mred", main = function() require "mare".sleep(1e6) end }
      print "ready"
      mare.sleep(1e6)]])
    local r = live(w, { { "?[35mred", "q" } }, { env = { TERM = "xterm", NO_COLOR = "1" } })
    assert.matches("ended with 0, icanon echo", r.out)
    assert.is_nil(r.out:find "\27%[[%d;]*3%dm")
  end)

  it("is a table printed once on a terminal that can't be drawn on", function()
    local w <close> = watched.start({}, program)
    local r = live(w, {}, { env = { TERM = "dumb" } })
    assert.is_nil(r.out:find "\27")
    assert.matches("ended with 0, icanon echo", r.out)
  end)
end)
