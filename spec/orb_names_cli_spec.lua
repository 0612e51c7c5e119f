-- mare names: the command, as a server and as a client.
-- runs under: mare
-- needs: plain
local mare = require "mare"
local foreign = require "spec.support.foreign"
local omninames = require "spec.support.omninames"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local function temporary_file(f)
  local path = temporary()
  os.remove(path)
  local fine, err = pcall(f, path)
  for _, suffix in ipairs { "", "-wal", "-shm" } do os.remove(path .. suffix) end
  if not fine then error(err, 0) end
end

local LIMIT = 30

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
      assert.same({ 0, "", "" }, { run("unbind", "--force", "trains/up") })
      assert.same({ 0, "", "" }, { run("rm", "trains") })
      assert.same({ 0, "", "" }, { run "ls" })
    end)
  end)

  it("says what is wrong, and ends with 1", function()
    with_server(function(run, url)
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
      fails("a: there are names in this context, which may be found by no other way; --force", "unbind", "a")
      fails("#b: there is no 'b'", "ls", "--at", url .. "#b")
      fails("#b: there is no 'b'", "bind", "c", url .. "#b")
      assert.same({ 0, "", "" }, { run("unbind", "--force", "a") })
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
      { "--db is for serving; --at, --host and --port say which", "--db", "x", "ls" },
      { "--at says which service is asked, and", "ls", "--at", "corbaloc::h/x", "--port", "9" },
      { "the name says which service is asked, and", "ls", "corbaname::h#x", "--host", "h" },
      { "no service is asked at port 0", "ls", "--port", "0" }, { "--at is for asking", "--at", "corbaloc::h/x" },
      { "new has no option '--replace'", "new", "--replace", "a" }, { "resolve has no option '-r'", "resolve", "-r", "a" },
      { "serving has no option '-r'", "-r" }, { "bind has no option '--force'", "bind", "--force", "a", "corbaloc::h/x" },
      { "'bogus' is no reference", "ls", "--at", "bogus" }, { "at character 10: an address begins with", "bind", "a", "corbaloc:" },
      { "NameService: corbaloc::h:1/NameService", "ls", "--at", "corbaloc::h:1" },
      { "a component has one dot", "resolve", "a.b.c" }, { "there is no option '-ORBnonsense'", "-ORBnonsense", "1" },
    } do
      local r = proc.mare_command { "names", table.unpack(case, 2) }
      assert.equal(2, r.code, case[1])
      assert.matches(case[1], r.err, 1, true)
      assert.matches("^mare names: [^\n]+\nTry 'mare names %-%-help'%.\n$", r.err)
    end
    local r = proc.mare_command { "names", "--help" }
    assert.equal(0, r.code)
    assert.matches("^  mare names %-%-port 2809", r.out)
  end)

  it("asks the service at --host and --port", function()
    with_server(function(run, url)
      run("new", "here")
      local port = url:match "%d+$"
      local r = proc.mare_command { "names", "ls", "--host", "127.0.0.1", "--port", port }
      assert.same({ 0, "here/\n", "" }, { r.code, r.out, r.err })
      r = proc.mare_command { "names", "ls", "--host=::1", "--port=1" }
      assert.equal(1, r.code)
      assert.matches("::1", r.err, 1, true)
    end)
  end)

  it("lists what answers, names what doesn't, and ends with 1", function()
    with_server(function(run)
      run("mount", "b", "corbaloc::127.0.0.1:1/NameService")
      run("new", "c")
      run("bind", "c/x", "corbaloc::127.0.0.1:9/x")
      local code, out, err = run("ls", "-r")
      assert.same({ 1, "b/\nc/\nc/x\n" }, { code, out })
      assert.matches("^mare names: b: another service doesn't answer: CORBA::TRANSIENT[^\n]*\n$", err)
      code, out, err = run("ls", "b")
      assert.same({ 1, "" }, { code, out })
      assert.matches("^mare names: b: another service doesn't answer: CORBA::TRANSIENT", err)
      assert.same({ 0, "", "" }, { run("unbind", "b") })
    end)
  end)

  it("takes away no name of an object by rm, whether that answers or not, and mounts none as a context", function()
    with_server(function(run, url)
      run("new", "a")
      run("bind", "a/x", "corbaloc::127.0.0.1:1/x")
      run("mount", "b", "corbaloc::127.0.0.1:1/NameService")
      assert.same({ 1, "", "mare names: a/x is no context; mare names unbind takes its name away\n" }, { run("rm", "a/x") })
      local code, out, err = run("rm", "b")
      assert.same({ 1, "" }, { code, out })
      assert.matches("^mare names: b: another service doesn't answer: CORBA::TRANSIENT", err)
      local object = url:gsub("corbaname", "corbaloc") .. "/InterfaceRepository"
      assert.same({ 1, "", ("mare names: %s is no naming context; mare names bind gives an object a name\n"):format(object) },
                  { run("mount", "c", object) })
      assert.same({ 0, "a/\nb/\n", "" }, { run "ls" })
    end)
  end)

  it("says that another program has the file open", function()
    local no_sqlite = foreign.no_sqlite()
    if no_sqlite then return foreign.skip(no_sqlite) end
    temporary_file(function(path)
      with_server(function()
        local r = proc.mare_command { "names", "--db", path, "--port", "0" }
        assert.equal(1, r.code)
        assert.matches(path .. ": another program has it open", r.err, 1, true)
      end, "--db=" .. path)
    end)
  end)

  it("is asked by mare call, which ends with 1 when that was in vain", function()
    with_server(function(_, url)
      local r = proc.mare_command { "call", url .. "#helo", "_non_existent" }
      assert.same({ 1, ("mare call: %s#helo: there is no 'helo'\n"):format(url) }, { r.code, r.err })
      r = proc.mare_command { "call", "corbaname::127.0.0.1:1#helo", "_non_existent" }
      assert.equal(1, r.code)
      assert.matches("TRANSIENT", r.err)
      assert.equal(2, proc.mare_command({ "call", "corbaname::127.0.0.1:1#a//b", "_non_existent" }).code)
    end)
  end)

  it("looks into omniNames", function()
    if omninames.missing then return foreign.skip(omninames.missing) end
    omninames.with(function(port)
      local at = "corbaname::127.0.0.1:" .. port
      local function run(...)
        local r = proc.mare_command { "names", ... }
        return r.code, r.out, r.err
      end
      assert.same({ 0, "", "" }, { run("new", at .. "#a%20b.c") })
      assert.same({ 0, "", "" }, { run("bind", at .. "#a%20b.c/x", "corbaloc::127.0.0.1:9/x") })
      assert.same({ 0, "a b.c/\na b.c/x\n", "" }, { run("ls", "-r", at) })
      with_server(function(_, url)
        local object = url:gsub("corbaname", "corbaloc") .. "/InterfaceRepository"
        local code, out, err = run("mount", at .. "#c", object)
        assert.same({ 1, "" }, { code, out })
        assert.matches("is no naming context; mare names bind", err)
      end)
      assert.same({ 1, "", "mare names: a b.c/x is no context; mare names unbind takes its name away\n" }, { run("rm", at .. "#a%20b.c/x") })
    end)
  end)
end)
