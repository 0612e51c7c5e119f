-- mare names: the command, as a server and as a client.
-- runs under: mare
local mare = require "mare"
local omninames = require "spec.support.omninames"
local proc = require "spec.support.proc"

local LIMIT = 30 * proc.slow

-- f(run, corbaname of it): run(words…) -> code, out, err
local function with_server(f, ...)
  local child = assert(mare.subprocess.spawn { proc.bin, "names", "--port", "0", "--host", "127.0.0.1", ..., stderr = "null" })
  local line = assert(child.stdout:read("l", LIMIT))
  local port = line:match ":(%d+)/NameService$"
  local function run(...)
    local r = proc.mare_command { "names", "--at", "corbaloc::127.0.0.1:" .. port .. "/NameService", ... }
    return r.code, r.out, r.err
  end
  local fine, err = pcall(f, run, "corbaname::127.0.0.1:" .. port, line)
  child:kill "TERM"
  local ended = child:wait()
  if not fine then error(err, 0) end
  assert.equal(0, ended.code)
end

describe("mare names", function()
  it("serves names until it is told to end, and looks at them", function()
    with_server(function(run, url, line)
      assert.matches("^serving 0 names, kept nowhere, at corbaloc::127%.0%.0%.1:%d+/NameService$", line)
      assert.same({ 0, "", "" }, { run "ls" })
      assert.same({ 0, "", "" }, { run("new", "trains") })
      assert.same({ 0, "", "" }, { run("bind", "trains/red.engine", "corbaloc::127.0.0.1:9/x") })
      assert.same({ 0, "trains/\n", "" }, { run "ls" })
      assert.same({ 0, "trains/\ntrains/red.engine\n", "" }, { run("ls", "-r") })
      assert.same({ 0, "red.engine\n", "" }, { run("ls", "trains") })
      assert.same({ 0, '{"id":"red","kind":"engine","name":"red.engine","type":"object"}\n', "" }, { run("ls", "--json", "trains") })
      local _, ior = run("resolve", "trains/red.engine")
      assert.matches("^IOR:%x+\n$", ior)
      assert.equal(ior, (select(2, run("resolve", url .. "#trains/red.engine"))))
      assert.equal(ior, (select(2, run("resolve", "-ORBInitRef", "NameService=" .. url, "trains/red.engine"))))
      local _, json = run("resolve", "--json", "trains/red.engine")
      assert.equal('{"name":"trains/red.engine","reference":"' .. ior:sub(1, -2) .. '"}\n', json)
      assert.same({ 0, "", "" }, { run("mount", "trains/up", url) })
      assert.same({ 0, "trains/\ntrains/red.engine\ntrains/up/\n", "" }, { run("ls", "-r") })       -- each context once
      assert.same({ 0, "", "" }, { run("bind", "--replace", "trains/red.engine", "corbaloc::127.0.0.1:9/y") })
      assert.same({ 0, "", "" }, { run("unbind", "trains/red.engine") })
      assert.same({ 0, "", "" }, { run("unbind", "trains/up") })
      assert.same({ 0, "", "" }, { run("rm", "trains") })
      assert.same({ 0, "", "" }, { run "ls" })
    end)
  end)

  it("says what is wrong, and ends with 1", function()
    with_server(function(run)
      local function fails(text, ...)
        local code, out, err = run(...)
        assert.same({ 1, "" }, { code, out })
        assert.matches(text, err, 1, true)
      end
      run("new", "a")
      run("bind", "a/x", "corbaloc::127.0.0.1:9/x")
      fails("mare names: b/c: there is no 'b'\n", "resolve", "b/c")
      fails("a/x/y: 'x' is no context", "resolve", "a/x/y")
      fails("a/x: there is such a name already; --replace", "bind", "a/x", "corbaloc::127.0.0.1:9/x")
      fails("a: 'a' is a context, no object", "bind", "--replace", "a", "corbaloc::127.0.0.1:9/x")
      fails("a: this context is not empty", "rm", "a")
      fails("at character 10: an address begins with", "bind", "a/z", "corbaloc:")
      fails("TRANSIENT", "ls", "--at", "corbaloc::127.0.0.1:1/NameService")
    end)
    local r = proc.mare_command { "names", "--db", "/no/such/folder/x", "--port", "0" }
    assert.equal(1, r.code)
    assert.matches("mare names: ", r.err, 1, true)
  end)

  it("takes mistakes on the command line for what they are, and ends with 2", function()
    for _, case in ipairs {
      { "no command is called 'lst'; did you mean 'ls'", "lst" }, { "resolve needs a name", "resolve" },
      { "bind needs a name and a reference", "bind", "x" },
      { "ls takes no 'y'", "ls", "x", "y" }, { "unrecognized option '--prot'; did you mean '--port'", "--prot", "1" },
      { "--port takes a number from 0 to 65535, not 'x'", "--port", "x" }, { "option '--db' needs a value", "--db" },
      { "a component has one dot", "resolve", "a.b.c" }, { "there is no option '-ORBnonsense'", "-ORBnonsense", "1" },
    } do
      local r = proc.mare_command { "names", table.unpack(case, 2) }
      assert.equal(2, r.code, case[1])
      assert.matches(case[1], r.err, 1, true)
      assert.matches("usage: mare names", r.err, 1, true)
    end
    local r = proc.mare_command { "names", "--help" }
    assert.equal(0, r.code)
    assert.matches("^  mare names %-%-port 2809", r.out)
  end)

  it("looks into omniNames", function()
    if omninames.missing then return pending(omninames.missing) end
    omninames.with(function(port)
      local at = "corbaname::127.0.0.1:" .. port
      local function run(...)
        local r = proc.mare_command { "names", ... }
        return r.code, r.out, r.err
      end
      assert.same({ 0, "", "" }, { run("new", at .. "#a%20b.c") })
      assert.same({ 0, "", "" }, { run("bind", at .. "#a%20b.c/x", "corbaloc::127.0.0.1:9/x") })
      assert.same({ 0, "a b.c/\na b.c/x\n", "" }, { run("ls", "-r", at) })
    end)
  end)
end)
