-- runs under: host
-- The tools and test helpers themselves, without mare.
local proc = require "spec.support.proc"
local with_tree = require "spec.support.tree"

describe("proc.run", function()
  it("gives output, errors and exit code", function()
    local r = proc.run("echo out; echo err >&2; exit 3")
    assert.same({ 3, nil, false, "out\n", "err\n" }, { r.code, r.signal, r.timeout, r.out, r.err })
  end)
  it("passes arguments as they are", function()
    local r = proc.run({ "printf", "%s|", "it's", "a b", "$HOME", "" })
    assert.equal("it's|a b|$HOME||", r.out)
  end)
  it("feeds stdin, which is empty otherwise", function()
    assert.equal("a\0b", proc.run({ "cat" }, { stdin = "a\0b" }).out)
    assert.equal("", proc.run({ "cat" }).out)
  end)
  it("kills what runs longer than the limit, with its children", function()
    local r = proc.run("sleep 30 & sleep 30", { timeout = 0.3 })
    assert.is_true(r.timeout)
    assert.is_nil(r.code)
    assert.is_true(r.seconds < 25)
  end)
  it("tells processes that were left behind", function()
    assert.is_true(proc.run("sleep 30 & :").left)
    assert.is_false(proc.run("sleep 0.01").left)
  end)
  it("does not count children that have ended as left behind", function()
    -- The program replaces the shell, so that its ended child stays unreaped.
    local wait = "repeat local f = assert(io.open('/proc/' .. arg[1] .. '/stat')) until f:read('a'):find(') Z')"
    with_tree({ ["wait.lua"] = wait }, function(base)
      assert.is_false(proc.run("true & exec lua5.4 " .. base .. "/wait.lua $!").left)
    end)
  end)
  it("leaves nothing behind when it is killed itself by an outer limit", function()
    with_tree({ ["inner.lua"] = [[require "spec.support.proc".run("echo $$ > " .. arg[1] .. "; exec sleep 30")]] }, function(base)
      local limit, pid = 1
      repeat                                     -- until it has come so far before the limit
        assert.is_true(proc.run({ "lua5.4", base .. "/inner.lua", base .. "/pid" }, { timeout = limit, env = { TMPDIR = base } }).timeout)
        local file <close> = io.open(base .. "/pid")
        pid, limit = file and file:read("l"), limit * 3
      until pid
      assert.equal(1, proc.run({ "kill", "-0", pid }).code)
    end)
  end)
  it("tells the signal that ended a program", function()
    assert.equal(9, proc.run({ "lua5.4", "-e", "os.execute('kill -9 $PPID')" }).signal)
  end)
  it("sends signals when the program is ready", function()
    local r = proc.run({ "sh", "-c", "trap 'echo got; exit 7' INT; echo ready; while :; do sleep 0.01; done" },
      { timeout = 10, signals = { { after = "ready", name = "INT" } } })
    assert.same({ 7, "ready\ngot\n" }, { r.code, r.out })
  end)
  it("sets, and removes, environment variables", function()
    assert.equal("x y-", proc.run("echo $A-$HOME", { env = { A = "x y", HOME = false } }).out:gsub("\n", ""))
  end)
  it("measures time", function()
    local r = proc.run({ "sleep", "0.2" })
    assert.is_true(r.seconds >= 0.2 and r.seconds < 10)
    assert.is_true(r.user < 0.1)
  end)
  it("reports a command that does not exist", function()
    local r = proc.run({ "no-such-command" })
    assert.equal(127, r.code)
  end)
end)

describe("run.lua", function()
  local function run(text, only)
    local r
    with_tree({ ["x_spec.lua"] = text }, function(base)
      r = proc.run({ "lua5.4", "spec/support/run.lua", base .. "/x_spec.lua", only })
    end)
    return r
  end
  it("passes when all tests pass", function()
    local r = run("describe('a', function() it('works', function() assert.equal(1, 1) end) end)")
    assert.equal(0, r.code)
    assert.truthy(r.out:find("a works ... ok", 1, true))
  end)
  it("names a failing test and fails", function()
    local r = run("describe('a', function() it('breaks', function() assert.equal(1, 2) end) it('works', function() end) end)")
    assert.equal(1, r.code)
    assert.truthy(r.out:find("FAILED: a breaks", 1, true))
    assert.truthy(r.out:find("1 ok, 1 failed", 1, true))
  end)
  it("fails on errors in tests, in set-up, in the file and in its syntax", function()
    for _, text in ipairs { "it('a', function() error('x') end)", "it('a', function() error({}) end)",
                            "describe('a', function() setup(function() error('x') end) it('b', function() end) end)",
                            "it('a', function() end) error('x')", "it('a'", "it('a', function() error() end)",
                            "describe('a', function() after_each(function() error('x') end) it('b', function() end) end)" } do
      assert.equal(1, run(text).code, text)
    end
  end)
  it("fails when no test was executed", function()
    assert.equal(1, run("").code)
    local r = run("it('a', function() pending('later') end)")
    assert.equal(1, r.code)
    assert.truthy(r.out:find("a ... [^\n]*later ... PENDING"), r.out)
    assert.equal(1, run("it('a', function() end)", "b").code)
  end)
  it("lets programs of others be missing, but in CI not those that tools/setup installs for tests", function()
    local text = [[
      local foreign = require "spec.support.foreign"
      it("a", function() end)
      it("b", function() return foreign.skip(foreign.lacks("lua5.4", "no-such-command")) end)
      it("c", function() return foreign.skip "no-such-source is not here" end)]]
    with_tree({ ["x_spec.lua"] = text }, function(base)
      local function at(ci) return proc.run({ proc.bin, "run", "spec/support/run.lua", base .. "/x_spec.lua" }, { env = { CI = ci } }) end
      local r = at(false)
      assert.same({ 0, "1 ok, 0 failed, 0 errors, 2 pending" }, { r.code, r.out:match "1 ok.*pending" })
      assert.truthy(r.out:find("no-such-command is not here; tools/setup test installs it on Debian ... PENDING", 1, true), r.out)
      r = at "true"
      assert.same({ 1, "1 ok, 0 failed, 1 errors, 1 pending" }, { r.code, r.out:match "1 ok.*pending" })
    end)
  end)
  it("leaves the functions of a spec in the true global environment", function()
    assert.equal(0, run([[
      it("a", function()
        local f = function() return print end
        local _, env = debug.getupvalue(f, 1)
        assert.equal(_G, env)
      end)]]).code)
  end)
  it("has finally and before_each", function()
    local r = run([[
      local log = {}
      describe("a", function()
        before_each(function() log[#log + 1] = "before" end)
        it("b", function() finally(function() log[#log + 1] = "finally" end) log[#log + 1] = "b" end)
        it("c", function() assert.same({ "before", "b", "finally", "before" }, log) end)
      end)]])
    assert.equal(0, r.code, r.out)
  end)
end)

describe("check-layers", function()
  local function check(files)
    local r
    with_tree(files, function(base) r = proc.run({ "lua5.4", "tools/check-layers.lua", base }) end)
    return r
  end
  it("accepts folders that include folders above them", function()
    assert.equal(0, check { ["heap/a.c"] = '#include "heap/heap.h"\n#include "port/port.h"\n#include <stdlib.h>\n' }.code)
    assert.equal(0, check { ["port/a.c"] = "#include <pthread.h>\n#ifdef __linux__\n#endif\n" }.code)
    assert.equal(0, check { ["heap/a_test.c"] = "#include <pthread.h>\n" }.code)
    assert.equal(0, check { ["module/main.c"] = "#include <signal.h>\n" }.code)
    assert.equal(0, check { ["lua/a.h"] = "#include <lua.h>\n#if LUA_VERSION_NUM == 504\n#endif\n" }.code)
    assert.equal(0, check { ["heap/a.c"] = "/* as lua_resume does */\nint my_lua_dump;   // lua_dump\n * lua_newstate is called by\n" }.code)
  end)
  it("names the place of each wrong include", function()
    for text, message in pairs {
      ['#include "channel/channel.h"'] = 'heap may not include "channel/channel.h"',
      ['#include "heap.h"'] = '"heap.h": write the folder, "heap/heap.h"',
      ["#include <pthread.h>"] = "<pthread.h> belongs to src/port",
      ["#  include <sys/mman.h>"] = "<sys/mman.h> belongs to src/port",
      ["#if defined(__linux__)"] = "__linux__ belongs to src/port",
      ["#include <lauxlib.h>"] = '<lauxlib.h>: include "lua/compat.h"',
      ["  return lua_resume(co, NULL, 0, &n); /* x */"] = "lua_resume: call mr_lua_resume, of lua/compat.h",
      ["#if LUA_VERSION_NUM > 504"] = "LUA_VERSION_NUM: call mr_lua_fits, of lua/compat.h",
      ["if (lua_gc(L, LUA_GCCOUNT, 0) == -1) return;"] = "LUA_GCCOUNT: call mr_lua_in_finaliser, of lua/compat.h",
    } do
      local r = check { ["heap/a.c"] = "\n" .. text .. "\n" }
      assert.equal(1, r.code)
      assert.truthy(r.err:find("heap/a.c:2: " .. message, 1, true), r.err)
    end
    assert.equal(1, check { ["io/a.c"] = '#include "cdr/cdr.h"\n' }.code)
  end)
end)

describe("check-map", function()
  local row = "| folder | holds |\n|---|---|\n| `src/heap` | `a.c` the first, `put_*.c` more |\n\n" ..
              "| `lua/mare` | holds |\n|---|---|\n| `x.lua` | x |\n"
  local function check(map, files)
    local r
    local all = { ["src/heap/a.c"] = "", ["src/heap/a.h"] = "", ["src/heap/a_test.c"] = "", ["src/heap/put_b.c"] = "", ["lua/mare/x.lua"] = "",
                  ["tools/check-layers.lua"] = "local ranks = { port = 1, heap = 2, io = 3 }\n", ["ARCHITECTURE.md"] = map }
    for name, text in pairs(files or {}) do all[name] = text end
    with_tree(all, function(base) r = proc.run({ "lua5.4", "tools/check-map.lua", base }) end)
    return r
  end
  it("accepts a map that names every file, by its row, its table, its path or a pattern", function()
    local r = check(row)
    assert.same({ 0, "" }, { r.code, r.err })
    r = check(row .. "| to change | open |\n|---|---|\n| b | `src/io/run.c`, `child.c` |\n", { ["src/io/run.c"] = "", ["src/io/child.c"] = "" })
    assert.same({ 0, "" }, { r.code, r.err })
  end)
  it("names each file that is missing, and each name without a file", function()
    for _, case in ipairs {
      { row, { ["src/heap/b.c"] = "" }, "src/heap/b.c: ARCHITECTURE.md does not name it" },
      { row, { ["src/heap/b.h"] = "" }, "src/heap/b.h: ARCHITECTURE.md does not name it" },
      { row, { ["src/io/a.c"] = "" }, "src/io/a.c: ARCHITECTURE.md does not name it" },
      { row, { ["lua/mare/y.lua"] = "" }, "lua/mare/y.lua: ARCHITECTURE.md does not name it" },
      { row:gsub("`a.c`", "`a.c` `gone.c`"), nil, "there is no src/heap/gone.c" },
      { row:gsub("put_", "get_"), nil, "there is no src/heap/get_*.c" },
      { row:gsub("`x.lua` |", "`x.lua`, `y.lua` |"), nil, "there is no lua/mare/y.lua" },
      { row .. "\n| heaps | `src/heap/a.c`, `gone.c` |\n", nil, "there is no src/heap/gone.c" },
      { row, { ["docs/heap.md"] = "\nsee (src/heap/old.c)\n" }, "docs/heap.md:2: there is no src/heap/old.c" },
      { row, { ["docs/heap.md"] = "see `src/heap/old.c`\n" }, "docs/heap.md:1: there is no src/heap/old.c" },
      { "| `src/io` | `a.c` |\n" .. row, { ["src/io/a.c"] = "" }, "the row of src/heap is not where this layer belongs" },
      { row:gsub("src/heap", "src/new"), { ["src/new/a.c"] = "", ["src/new/put_b.c"] = "" }, "the row of src/new is not where this layer belongs" },
    } do
      local r = check(case[1], case[2])
      assert.equal(1, r.code)
      assert.truthy(r.err:find(case[3], 1, true), case[3] .. "\n" .. r.err)
    end
  end)
end)

describe("check-links", function()
  local function check(text)
    local r
    with_tree({ ["README.md"] = text, ["docs/a.md"] = "# A\n## `x.y(z)`, or *more*\n## Twice\n## Twice\n" }, function(base)
      r = proc.run({ "lua5.4", "tools/check-links.lua", base })
    end)
    return r
  end
  it("accepts links to files, to headings and to other hosts, and leaves code alone", function()
    local r = check("# Top\n[a](docs/a.md) [b](docs/a.md#xyz-or-more) [c](#top) [d](docs/a.md#twice-1)\n" ..
      "[e](https://x.org/y#z) `[f](g)`\n```lua\n-- [h](i)\n```\n")
    assert.same({ 0, "" }, { r.code, r.err })
  end)
  it("names each link that leads nowhere", function()
    for link, message in pairs {
      ["docs/b.md"] = "README.md:1: there is no docs/b.md",
      ["docs/a.md#xyz"] = "README.md:1: docs/a.md has no heading #xyz",
      ["docs/a.md#twice-2"] = "README.md:1: docs/a.md has no heading #twice-2",
      ["#a"] = "README.md:1: README.md has no heading #a",
    } do
      local r = check("see [it](" .. link .. ")\n")
      assert.equal(1, r.code)
      assert.truthy(r.err:find(message, 1, true), r.err)
    end
  end)
end)

describe("embed.lua", function()
  it("keeps every byte and stops at syntax errors", function()
    with_tree({ ["lua/mare/x.lua"] = "-- \"\\??/\1\0009é\t\r\nreturn 1", ["lua/mare/init.lua"] = "", ["lua/bad/x.lua"] = "x =" }, function(base)
      local r = proc.run({ "lua5.4", "tools/embed.lua", base, base .. "/e.c", base .. "/m.def", "lua/mare/x.lua", "lua/mare/init.lua" })
      assert.equal(0, r.code, r.err)
      local main = base .. "/main.c"
      local file = assert(io.open(main, "w"))
      file:write('#include <stdio.h>\n#include "e.c"\nint main(void) { for (const struct mr_embedded *e = mr_embedded; e->name; e++)',
        ' { printf("%s %s %zu\\n", e->name, e->file, e->size); fwrite(e->code, 1, e->size, stdout); } return 0; }')
      file:close()
      r = proc.run({ "cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Isrc", main, "-o", base .. "/main" })
      assert.equal(0, r.code, r.err)
      assert.equal("mare lua/mare/init.lua 0\nmare.x lua/mare/x.lua 24\n-- \"\\??/\1\0009é\t\r\nreturn 1", proc.run({ base .. "/main" }).out)
      r = proc.run({ "lua5.4", "tools/embed.lua", base, base .. "/e.c", base .. "/m.def", "lua/bad/x.lua" })
      assert.equal(1, r.code)
      assert.truthy(r.err:find("lua/bad/x.lua:1:", 1, true))
    end)
  end)
end)

describe("programs in examples and documents", function()
  -- Stands for bin/mare: these tools must work before it does.
  local function with(tool, text, f)
    with_tree({ ["x"] = text, ["mare"] = '#!/bin/sh\nshift\nexec lua5.4 "$@"\n' }, function(base)
      os.execute(("chmod +x '%s/mare'"):format(base))
      f(proc.run({ "lua5.4", tool, base .. "/x" }, { env = { MARE_BIN = base .. "/mare" } }))
    end)
  end
  local function example(text, code, message)
    with("tools/run-example.lua", text, function(r)
      assert.equal(code, r.code, r.err)
      assert.truthy(r.err:find(message or "", 1, true), r.err)
    end)
  end
  local function document(text, code, message)
    with("tools/run-doc.lua", text, function(r)
      assert.equal(code, r.code, r.err)
      assert.truthy(r.err:find(message or "", 1, true), r.err)
    end)
  end

  it("an example prints what its comments say", function()
    example("-- test: a b\nprint(...) -- expect~ a%s+b\n-- expect: c\nprint('c')\n", 0)
    example("-- test:\nprint('a')\n-- expect: b\n", 1, "line 1: expected 'b', got 'a'")
    example("-- test:\nprint('a') print('b')\n-- expect: a\n", 1, "line 2: unexpected 'b'")
    example("-- test:\n-- expect: a\n", 1, "line 1: missing 'a'")
  end)
  it("an example's lines may come in any order", function()
    example("-- test:\n-- expect any order\nprint('b') print('a')\n-- expect: a\n-- expect: b\n", 0)
    example("-- test:\n-- expect any order\nprint('b') print('b')\n-- expect: a\n-- expect: b\n", 1, "no line is 'a'")
  end)
  it("an example ends with the exit code it says", function()
    example("-- test:\n-- exit: 3\nos.exit(3)", 0)
    example("-- test:\nos.exit(3)", 1, "exit code 3, expected 0")
  end)
  it("a document's programs run, and print what follows them", function()
    document("```lua\nprint(1)\n```\ntext\n```output\n1\n```\n```sh\necho 2\n```\n```output\n2\n```\n```c\nx\n```\n", 0)
    document("```lua\nprint(1)\n```\n```output\n2\n```\n", 1, "x:4: the output differs; it is\n1")
    document("```lua\nerror('no')\n```\n", 1, "ended with 1")
    document("a\n```lua\nerror('no')\n```\n", 1, ":3: no")
    document("```sh\nfalse\ntrue\n```\n", 1, "ended with 1")
  end)
  it("a document's fragments compile", function()
    document("```lua fragment\nlocal x <const> = f(...)\n```\n```sh fragment\nfalse\n```\n", 0)
    document("```lua fragment\nx = = 1\n```\n", 1, ":2:")
  end)
  it("a document's blocks end, and output has a program", function()
    document("```lua\n", 1, "this block has no end")
    document("```output\n```\n", 1, "no program stands before this output")
  end)
end)

describe("the tools of a contributor", function()
  it("say how they are called when the arguments are none of theirs", function()
    for _, case in ipairs {
      { { "tools/test", "--help" }, "usage: tools/test" }, { { "tools/test", "spec.channel" }, "usage: tools/test" },
      { { "tools/test", "-c" }, "usage: tools/test" }, { { "tools/check-model", "--help" }, "usage: tools/check-model" },
      { { "tools/check-model", "nosuch.pml" }, "tools/check-model: there is no file nosuch.pml" },
    } do
      local r = proc.run(case[1])
      assert.same({ 2, "" }, { r.code, r.out })
      assert.equal(case[2], r.err:sub(1, #case[2]))
      assert.equal(1, select(2, r.err:gsub("\n", "\n")))
    end
  end)
end)
