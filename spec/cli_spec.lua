-- The command line of bin/mare: what lua offers, and `mare run`.
-- runs under: mare
-- needs: plain or asan
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"
local with_file = proc.with_file

local quiet = { LUA_INIT = false, LUA_INIT_5_4 = false }
local function run(args, options)
  options = options or {}
  options.env = options.env or quiet
  return proc.mare_command(args, options)
end

-- The same words for lua and mare give the same, but for the program's name.
local function same(args, options, name)
  options = options or {}
  options.env = options.env or quiet
  local words = { proc.interpreter, table.unpack(args) }
  local want, got = proc.run(words, options), proc.mare_command(args, options)
  local function clean(text)
    text = text:gsub("%f[%w/._-][%w/._-]*/mare%f[^%w]", "PROGRAM"):gsub("%f[%w/._-][%w/._-]*/?lua5?%.?4?%f[:\n\t ]", "PROGRAM")
    return (text:gsub("%f[%w]mare:", "PROGRAM:"):gsub("=mare%f[%s]", "=PROGRAM"):gsub("=lua5?%.?4?%f[%s]", "=PROGRAM"))
  end
  name = name or table.concat(args, " ")
  assert.equal(want.code, got.code, name)
  assert.equal(clean(want.out), clean(got.out), name)
  assert.equal(clean(want.err), clean(got.err), name)
  return got
end

describe("mare, as lua does,", function()
  it("executes -e, several times and in order", function()
    assert.equal("1\n2\n3\n", same({ "-e", "print(1)", "-eprint(2)", "-e", "print(3)" }).out)
  end)
  it("runs scripts with arguments and arg", function()
    with_file("print(...) for i = -8, 4 do if arg[i] then io.write(i, '=', (arg[i]:gsub('.*/', '')), ' ') end end print(#arg)", function(name)
      same { name, "a", "b c", "-x" }
      same { "-e", "x = 1", name, "a" }
      same { "--", name }
      same { "-W", "--", name, "-e", "y" }
    end)
  end)
  it("has arg without a script", function()
    same { "-e", "for i = -5, 5 do if arg[i] then io.write(i, '=', (arg[i]:gsub('.*/', '')), ' ') end end", "-e", "" }
  end)
  it("takes arg from the program when it was changed", function()
    with_file("print(...)", function(name)
      same { "-e", "arg = { 'new', 'args' }", name, "old" }
      same({ "-e", "arg = nil", name }, {}, "arg = nil")
    end)
  end)
  it("runs a script that starts with #!", function() with_file("#!/usr/bin/env mare\nprint(...)", function(name) same { name, "x" } end) end)
  it("runs binary chunks", function() with_file(string.dump(load("print('binary', ...)")), function(name) same { name, "x" } end) end)
  it("executes stdin, with - and without anything", function()
    same({ "-", "a" }, { stdin = "print('stdin', ..., arg[0])" })
    same({}, { stdin = "print('stdin', ...)" })
    same({ "-W" }, { stdin = "print('stdin')" })
    same({ "-" }, { stdin = "syntax error" })
    assert.equal(1, run({}, { stdin = "syntax error" }).code)
    same({ "--", "-" }, {}, "a file called -")
  end)
  it("requires modules with -l", function()
    same { "-l", "string", "-e", "print(string.rep('x', 3))" }
    same { "-lutf8", "-e", "print(utf8.char(65))" }
    assert.equal("xx\n", run({ "-l", "s=string", "-e", "print(s.rep('x', 2))" }).out)
    assert.equal(1, run({ "-l", "no.such.module", "-e", "print 'not reached'" }).code)
  end)
  it("obeys LUA_INIT, the versioned one first, and -E", function()
    same({ "-e", "print(x)" }, { env = { LUA_INIT = "x = 'init'", LUA_INIT_5_4 = false } })
    same({ "-e", "print(x)" }, { env = { LUA_INIT = "x = 'init'", LUA_INIT_5_4 = "x = 'versioned'" } })
    same({ "-E", "-e", "print(x)" }, { env = { LUA_INIT = "x = 'init'", LUA_INIT_5_4 = false } })
    same({ "-e", "print(x)" }, { env = { LUA_INIT = "error('in init')", LUA_INIT_5_4 = false } })
    same({ "-e", "print(x)" }, { env = { LUA_INIT = "@/no/such/file", LUA_INIT_5_4 = false } })
    with_file("x = 'from file'", function(name) same({ "-e", "print(x)" }, { env = { LUA_INIT_5_4 = "@" .. name } }) end)
    same({ "-E", "-e", "print(package.path, package.cpath)" }, { env = { LUA_PATH = "x", LUA_CPATH = "y" } })
    same({ "-e", "print(package.path, package.cpath)" }, { env = { LUA_PATH = "x;;y", LUA_CPATH_5_4 = ";;", LUA_PATH_5_4 = false } })
  end)
  it("turns warnings on with -W", function()
    same { "-W", "-e", "warn('shown')" }
    same { "-e", "warn('hidden')" }
    same { "-e", "warn('hidden')", "-W", "-e", "warn('shown')" }
  end)
  it("turns warnings on in every process with -W", function()
    local r = run { "-W", "-e", "require 'mare.process'.spawn(function() warn 'from a child' end):wait()" }
    assert.equal("Lua warning: from a child\n", r.err)
  end)
  it("shows its version with -v", function()
    assert.equal("Lua 5.4", run({ "-v" }).out:sub(1, 7))
    same { "-v" }
    same { "-v", "-e", "print(1)" }
  end)
  it("reports errors with a traceback and 1", function()
    with_file("local function f() error('deep') end\nf()", function(name) same { name } end)
    with_file("print(debug.traceback('here')) coroutine.wrap(function() print(debug.traceback('inside')) end)()", function(name) same { name } end)
    with_file("error({})", function(name) same { name } end)
    with_file("error(setmetatable({}, { __tostring = function() return 'as text' end }))", function(name) same { name } end)
    with_file("error()", function(name) same { name } end)
    with_file("error('no position', 0)", function(name) same { name } end)
    with_file("x = = 1", function(name) same { name } end)
    with_file("local t = nil; t.x = 1", function(name) same { name } end)
    with_file("coroutine.wrap(function() error('in wrap') end)()", function(name) same { name } end)
    with_file("string.rep()", function(name) same { name } end)
    same { "/no/such/script.lua" }
    same { "-e", "error('e')", "-e", "print('not reached')" }
    same { "-e", "syntax error" }
    same { "-e", "os.exit(5)" }
    same { "-e", "os.exit(false)" }
  end)
  it("has an interactive mode", function()
    local function talk(stdin, args)
      local r = run(args or { "-i" }, { stdin = stdin })
      assert.equal(0, r.code)
      local banner, rest = r.out:match("^(Lua 5[^\n]*\n)(.*)$")
      assert.truthy(banner)
      return rest, r.err
    end
    assert.equal("> 2\n> a\tnil\t2\n> > 5\n> >> >> 1\n2\n> > >> > 7\n> \n",
      (talk("= 1 + 1\n'a', nil, 2\nx = 5\nx\nfor i = 1, 2 do\nprint(i)\nend\nlocal y = 1\nfunction f() return\n7 end\nf()\n")))
    assert.equal("p q 1\np 1\np \n", (talk("if true then\nprint(1) end\n1\n", { "-e", "_PROMPT = 'p ' _PROMPT2 = 'q '", "-i" })))
    assert.equal("> > 1\n> \n", (talk("print = nil\n1\n")))
    assert.equal("> \n", (talk("")))
    local out, err = talk("error 'oops'\nx = =\ndo local t = {\n")
    assert.equal("> > > >> > \n", out)
    assert.truthy(err:find("^stdin:1: oops\nstack traceback:\n\t%[C%]: in function 'error'\n\tstdin:1: in main chunk\n\t%[C%]: in %?\n"))
    assert.truthy(err:find("\nstdin:1: unexpected", 1, true))
    assert.truthy(err:find("near <eof>\n$"))
    with_file("z = 'from script'", function(name) assert.equal("> from script\n> \n", (talk("z\n", { "-i", name }))) end)
  end)
end)

describe("mare", function()
  it("has help that begins with an example", function()
    for _, args in ipairs { { "--help" }, { "run", "--help" } } do
      local r = run(args)
      assert.equal(0, r.code)
      assert.equal("  mare run ", r.out:sub(1, 11))
      assert.truthy(r.out:find("\nusage: mare run", 1, true))
      for line in r.out:gmatch("[^\n]*") do assert.is_true(#line <= 120, line) end
    end
  end)
  it("tells its version", function()
    local r = run { "--version" }
    assert.equal(0, r.code)
    assert.truthy(r.out:find("^mare %d+%.%d+%.%d+\n$"))
  end)
  it("answers mistakes with a message, the usage, and 2", function()
    for _, case in ipairs {
      { { "-x" }, "unrecognized option '-x'" }, { { "--nosuch" }, "unrecognized option '--nosuch'" }, { { "-e" }, "'-e' needs argument" },
      { { "-l", "-i" }, "'-l' needs argument" }, { { "-Wx" }, "unrecognized option '-Wx'" }, { { "run" }, "no script" },
      { { "run", "-w" }, "'-w' needs argument" }, { { "run", "-w", "many", "x.lua" }, "between 1 and 256, got 'many'" },
      { { "run", "-w", "0", "x.lua" }, "got '0'" }, { { "run", "-w", "1000", "x.lua" }, "got '1000'" }, { { "run", "--x", "x.lua" }, "'--x'" },
      { { "run", "--profile-rate", "5", "x.lua" }, "--profile-rate needs --profile FILE" },
      { { "run", "--seed", "1", "--trace", "t", "x.lua" }, "a run that can be repeated has no --trace" },
    } do
      local r = run(case[1])
      assert.equal(2, r.code, table.concat(case[1], " "))
      assert.equal("", r.out)
      assert.truthy(r.err:find("mare: ", 1, true) == 1 and r.err:find(case[2], 1, true), r.err)
      assert.truthy(r.err:find("usage: mare", 1, true))
    end
  end)
end)

describe("mare, at a slip,", function()
  local function mistake(args, text)
    local r = run(args)
    assert.same({ 2, "" }, { r.code, r.out }, table.concat(args, " "))
    assert.truthy(r.err:find(text, 1, true), r.err)
    assert.truthy(r.err:find("usage: mare", 1, true))
  end
  local function no_command(args, text)
    local r = run(args)
    assert.same({ 2, "", "mare: there is no command " .. text .. "\nTry 'mare --help'.\n" }, { r.code, r.out, r.err })
  end
  it("suggests the command that is near, in a line and a hint", function()
    no_command({ "rnu", "x.lua" }, "'rnu'; did you mean 'run'?")
    no_command({ "cal" }, "'cal'; did you mean 'call'?")
    no_command({ "hlep" }, "'hlep'; did you mean 'help'?")
    no_command({ "help", "rnu" }, "'rnu'; did you mean 'run'?")
    no_command({ "--help", "rnu" }, "'rnu'; did you mean 'run'?")
    no_command({ "help", "everything" }, "'everything'")
    mistake({ "idl", "shwo", "x" }, "mare idl: no command is called 'shwo'; did you mean 'show'?")
  end)
  it("suggests the option that is near, of every command", function()
    mistake({ "--hlep" }, "unrecognized option '--hlep'; did you mean '--help'?")
    mistake({ "--versoin" }, "did you mean '--version'?")
    mistake({ "run", "--stirct", "x.lua" }, "did you mean '--strict'?")
    mistake({ "--workers", "3", "x.lua" }, "unrecognized option '--workers'; did you mean '-w'?")
    mistake({ "run", "--workers=3", "x.lua" }, "unrecognized option '--workers=3'; did you mean '-w'?")
    mistake({ "--warnigs", "x.lua" }, "did you mean '-W'?")
    mistake({ "call", "--timeot=3", "x", "y" }, "unrecognized option '--timeot'; did you mean '--timeout'?")
    mistake({ "ior", "--jsno", "x" }, "did you mean '--json'?")
    mistake({ "idl", "show", "--al", "x" }, "did you mean '--all'?")
    for _, args in ipairs { { "-x" }, { "call", "-x" }, { "ior", "-y" }, { "idl", "show", "-x" } } do
      assert.falsy(run(args).err:find("did you mean", 1, true))
    end
  end)
  it("runs a script of such a name, and says of others that they can't be opened", function()
    local folder = temporary()
    os.remove(folder)
    os.execute("mkdir " .. folder)
    os.execute("echo 'print \"a script\"' > " .. folder .. "/rnu")
    local bin = io.popen("readlink -f " .. proc.bin):read "l"
    local r = proc.run(("cd %s && %s rnu"):format(folder, bin), { env = quiet })
    os.execute("rm -r " .. folder)
    assert.same({ 0, "a script\n" }, { r.code, r.out }, r.err)
    same { "no-such-script" }
    same { "rnu.lua" }
  end)
  it("has help and version as commands", function()
    for _, case in ipairs { { { "help" }, { "--help" } }, { { "help", "run" }, { "run", "--help" } }, { { "--help", "run" }, { "run", "--help" } },
                            { { "--help", "call" }, { "call", "--help" } }, { { "-h", "help" }, { "--help" } },
                            { { "help", "ior" }, { "ior", "--help" } },
                            { { "help", "call" }, { "call", "--help" } }, { { "help", "idl" }, { "idl", "--help" } },
                            { { "version" }, { "--version" } } } do
      local a, b = run(case[1]), run(case[2])
      assert.same({ 0, b.out, "" }, { a.code, a.out, a.err })
      assert.is_true(#a.out > 10)
    end
  end)
  it("begins each help with an example", function()
    for _, name in ipairs { "run", "call", "idl", "ior" } do
      assert.matches("^  mare " .. name .. " [^\n]+\n\nusage: mare ", run({ name, "--help" }).out)
    end
    assert.matches("^  mare run [^\n]+\n\nusage: mare ", run({ "--help" }).out)
  end)
end)

describe("mare --strict", function()
  local function code(words, text)
    return with_file(text, function(name)
      local args = { table.unpack(words) }
      args[#args + 1] = name
      return run(args).code
    end)
  end
  local process, fiber = 'local process = require "mare.process" ', 'local fiber = require "mare.fiber" '
  it("ends with 1 if a process or a fiber failed and nobody waited for it", function()
    for _, text in ipairs { process .. "process.spawn(function() error 'x' end)",
                            process .. "keep = process.spawn(function() error 'x' end)",
                            process .. "local p = process.spawn(function() error 'x' end) " ..
                              "repeat process.yield() until p:status() == 'failed' os.exit(0)",
                            fiber .. "fiber.spawn(function() error 'x' end)" } do
      assert.equal(0, code({ "run" }, text), text)
      assert.equal(1, code({ "run", "--strict" }, text), text)
      assert.equal(1, code({ "--strict" }, text), text)
    end
  end)
  it("ends as without it if all failures were learnt of, or there was none", function()
    assert.equal(0, code({ "run", "--strict" }, "print(1)"))
    assert.equal(0, code({ "run", "--strict" }, process .. "process.spawn(function() error 'x' end):wait()"))
    assert.equal(0, code({ "run", "--strict" }, fiber .. "fiber.spawn(function() error 'x' end):wait()"))
    assert.equal(7, code({ "run", "--strict" }, process .. "process.spawn(function() error 'x' end) require 'mare'.sleep(0.1) os.exit(7)"))
  end)
end)

describe("the interactive mode", function()
  local lines = [[
1
nil
nil, nil
1, nil
nil, 1
(function() end)()
(function() return nil end)()
x = nil
x
return nil
= nil
false, nil, nil
error()
error "x"
a.b
do end
for i = 1, 2 do
print(i) end
]]
  it("prints what lua prints: nil, too, wherever it stands among the values", function()
    -- lua's line editor repeats what it reads: so what is printed is marked
    local mark = [[_PROMPT, _PROMPT2 = "", "" print = function(...) local t = table.pack(...) ]] ..
      [[for i = 1, t.n do t[i] = tostring(t[i]) end ]] ..
      [[io.write("\nprinted ", table.concat(t, ","), "\n") end]] .. "\n"
    local function printed(program)
      local list = {}
      for values in proc.run({ program, "-i" }, { stdin = mark .. lines, env = quiet }).out:gmatch("\nprinted ([^\n]*)\n") do
        list[#list + 1] = values
      end
      return table.concat(list, " ")
    end
    assert.equal("1 nil nil,nil 1,nil nil,1 nil nil nil nil false,nil,nil 1 2", printed(proc.bin))
    assert.equal(printed(proc.interpreter), printed(proc.bin))
  end)
end)

describe("the interactive mode at a terminal", function()
  -- What a person sees who types each text when the one before it has been shown.
  local function talk(editor, steps)
    local r = proc.terminal({ proc.bin }, steps, { env = {
      MARE_EDITOR = editor, TERM = "xterm", LC_ALL = "C.UTF-8", INPUTRC = "/dev/null", EDITRC = "/dev/null",
      LUA_INIT = false, LUA_INIT_5_4 = false } })
    assert.is_false(r.timeout, r.out)
    return r.out
  end
  for _, editor in ipairs { "libedit.so.2", "libreadline.so.8" } do
    local name = "edits lines and keeps a history, with " .. editor
    local probe = package.loadlib(editor, "*")
    if proc.config ~= "plain" then
      pending(name .. ": the editor is not compiled for a sanitizer")
    elseif not probe then
      pending(name .. ": it is not installed")
    else
      it(name, function()
        local seen = talk(editor, {
          { "> ", "40 + 2\r" }, { "42\r\n" }, { "> ", "\27[A + 1\27[D\r" }, { "43\r\n" },
          { "> ", 'x = 1\127"caf\195\169"\r' }, { "> ", "#x\r" }, { "5\r\n" },
          { "> ", "for i = 1, 2 do\r" }, { ">> ", "print(i * 7) end\r" }, { "14\r\n" }, { "> ", "\27[A\r" }, { "14\r\n" }, { "> ", "nil, 3 * 5\r" },
          { "nil\t15\r\n" }, { "> ", "\4" } })
        local shown = {}
        for line in seen:gsub("\27%[%?2004[hl]", ""):gmatch("[^\r\n]+") do
          if line:find "^%d+$" or line:find "^nil\t" then shown[#shown + 1] = line end
        end
        assert.equal("42 43 5 7 14 7 14 nil\t15", table.concat(shown, " "), seen)
        assert.matches("\nended with 0, icanon echo\n$", seen)
      end)
      it("outlives each Ctrl-C but two in a row, and leaves the terminal as it was, with " .. editor, function()
        local seen = talk(editor, {
          { "> ", "\3" }, { "interrupted!" }, { "> ", "half a line" }, { "half a line", "\3" }, { "interrupted!" },
          { "> ", "x =\r" }, { ">> ", "\3" }, { "interrupted!" },
          { "> ", "print('comp' .. 'uting') while true do end\r" }, { "computing\r\n", "\3" }, { "interrupted!" },
          { "> ", "print('sleep' .. 'ing') require 'mare'.sleep(60)\r" }, { "sleeping\r\n", "\3" }, { "interrupted!" },
          { "> ", "40 + 2\r" }, { "42\r\n" }, { "> ", "\3" }, { "interrupted!" }, { "> ", "\3" } })
        assert.equal(6, select(2, seen:gsub("interrupted!", "")), seen)
        assert.matches("\nended with 130, icanon echo\n$", seen)
      end)
    end
  end
  it("does without an editor where there is none", function()
    local seen = talk("", { { "> ", "40 + 2\r" }, { "42\r\n> ", "\4" } })
    assert.matches("> 40 %+ 2\r\n42\r\n> .*\nended with 0, icanon echo\n$", seen)
  end)
  it("gets a deadlock as an error, each time, and goes on", function()
    local seen = talk("", {
      { "> ", "local d = require 'mare'.channel.new() c, p = d, require 'mare'.process.spawn(function() d:receive() d:receive() end)\r" },
      { "> ", "p:wait()\r" }, { "stack traceback:" },
      { "> ", "print('again', pcall(p.wait, p))\r" }, { "again\tfalse\t" }, { "> ", "c:send(1)\r" },
      { "> ", "c:send(2)\r" }, { "> ", "p:wait()\r" }, { "true" }, { "> ", "error 'mine'\r" }, { "stdin:1: mine" }, { "> ", "\4" } })
    assert.equal(2, select(2, seen:gsub("deadlock: every process waits", "")), seen)
    assert.matches("main %(#1%): wait for process #2 at stdin:1", seen)
    assert.matches("\nended with 0, icanon echo\n$", seen)
  end)
  it("goes on after a Ctrl-C without an editor, too", function()
    local seen = talk("", { { "> ", "print('comp' .. 'uting') while true do end\r" }, { "computing\r\n", "\3" }, { "interrupted!" },
                            { "> ", "40 + 2\r" }, { "42\r\n> ", "\4" } })
    assert.matches("\nended with 0, icanon echo\n$", seen)
  end)
end)

describe("mare run", function()
  it("takes the number of workers", function()
    with_file("print(require 'mare.process'.workers(), ...)", function(name)
      assert.equal("3\ta\n", run({ "run", "-w", "3", name, "a" }).out)
      assert.equal("2\t-w\t5\n", run({ "run", "-w2", name, "-w", "5" }).out)
      assert.equal("4\n", run({ "-w", "4", name }).out)
    end)
  end)
  it("uses the CPUs it may use by default", function()
    local status <close> = assert(io.open("/proc/self/status"))
    local cpu = status:read("a"):match("Cpus_allowed_list:%s*(%d+)")            -- the first that we may use ourselves
    local r = proc.run(("taskset -c %s %s -e \"print(require 'mare.process'.workers())\""):format(cpu, proc.bin))
    if r.code == 127 then return pending("no taskset") end
    assert.equal("1\n", r.out, r.err)
  end)
  it("puts run among the negative indices of arg", function()
    with_file([[
      local t = {}
      for i = -4, #arg do t[#t + 1] = (tostring(arg[i]):gsub('.*/lua_%w+', 'script'):gsub('.*/', '')) end
      print(table.concat(t, ' '))]], function(name)
      assert.equal("mare run -w 1 script a\n", run({ "run", "-w", "1", name, "a" }).out)
    end)
  end)
  it("reads a script from stdin with -", function() assert.equal("in\tx\n", run({ "run", "-", "x" }, { stdin = "print('in', ...)" }).out) end)
  it("gives arg to the main process alone", function()
    with_file("print(#arg, require 'mare.process'.spawn(function() return arg end):wait())", function(name)
      assert.equal("1\ttrue\tnil\n", run({ "run", name, "x" }).out)
    end)
  end)
  it("ends when every process has ended", function()
    local r = proc.mare([[require "mare.process".spawn(function() require "mare".sleep(0.2) print "child" end) print "main"]])
    assert.same({ 0, "main\nchild\n" }, { r.code, r.out })
  end)
  it("ends with 1 when the main process failed, after the others", function()
    local r = proc.mare([[require "mare.process".spawn(function() require "mare".sleep(0.2) print "child" end) error "main"]])
    assert.same({ 1, "child\n" }, { r.code, r.out })
    assert.truthy(r.err:find("^mare: .*main\nstack traceback:"))
  end)
  it("ends with 1 and a report when all are parked for ever", function()
    local r = proc.mare("require 'mare.channel'.new():receive()")
    assert.equal(1, r.code)
    assert.truthy(r.err:find("deadlock", 1, true))
  end)
  it("keeps its own parts out of the program's sight", function()
    local r = proc.mare([[
      local t = {}
      for k in pairs(package.loaded) do t[#t + 1] = k end
      table.sort(t)
      print(table.concat(t, ' '), debug.getinfo(2, 'S').what)]])
    assert.equal("_G coroutine debug io math os package string table utf8\tC\n", r.out)
  end)
  it("raises 'interrupted!' in the main process at SIGINT", function()
    for _, text in ipairs { "while true do end", "require 'mare'.sleep(1e9)", "coroutine.wrap(function() while true do end end)()",
                            "require 'mare.process'.spawn(function() require 'mare'.sleep(1e9) end) require 'mare.channel'.new():receive()" } do
      local r = proc.mare("local ok, err = pcall(function() io.write('ready\\n') io.stdout:flush() " .. text .. " end) print(ok, err) os.exit(4)", {},
        { signals = { { after = "ready", name = "INT" } } })
      assert.equal(4, r.code, text .. r.err)
      assert.truthy(r.out:find("false\t.*interrupted!\n$"), r.out)
    end
  end)
  it("reports an interrupted main process and ends with 1", function()
    local r = proc.mare("io.write('ready\\n') io.stdout:flush() while true do end", {}, { signals = { { after = "ready", name = "INT" } } })
    assert.equal(1, r.code)
    assert.truthy(r.err:find("^mare: .*interrupted!\nstack traceback:\n"), r.err)
  end)
  it("hears SIGINT while os.execute waits for a command", function()
    local r = proc.mare("print(pcall(function() os.execute 'kill -INT $PPID' while true do end end)) os.exit(4)")
    assert.equal(4, r.code, r.err)
    assert.truthy(r.out:find("false\t.*interrupted!\n$"), r.out)
  end)
  it("ends with 130 at a second SIGINT", function()
    local text = "while true do io.write(pcall(function() io.write('ready\\n') io.stdout:flush() while true do end end) and '' or 'caught\\n') end"
    local r = proc.mare(text, {}, { signals = { { after = "ready\n", name = "INT" }, { after = "caught\nready\n", name = "INT" } } })
    assert.equal(130, r.code)
  end)
end)
