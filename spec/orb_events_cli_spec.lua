-- mare events: the command, as a server and as a client.
-- runs under: mare
-- needs: plain
local mare = require "mare"
local channels = require "spec.support.event_service"
local command = require "spec.support.event_command"
local proc = require "spec.support.proc"

-- f(run, port): run(words…) -> code, out, err
local function with_server(f, ...)
  local child, port = command.serve(...)
  local function run(...)
    local r = proc.mare_command { "events", "--host", "127.0.0.1", "--port", port, ... }
    return r.code, r.out, r.err
  end
  local fine, err = pcall(f, run, port)
  child:kill "TERM"
  local ended = child:wait()
  if not fine then error(err, 0) end
  assert.equal(0, ended.code)
end

local function heard(child)
  local text = child.stdout:read("a", channels.LIMIT)
  return child:wait().code, text
end

describe("mare events", function()
  it("publishes values and structured events, and prints those that are listened to", function()
    with_server(function(run, port)
      local all = command.listen(port, "--count", "4")
      local json = command.listen(port, "--count", "2", "--json")
      local filtered = command.listen(port, "--structured", "--count", "1", "--filter", "$severity > 3")
      assert.same({ 0, "", "" }, { run("push", "the kettle boils", "42", "1.5", '{ _anytype = "short", _anyval = 7 }') })
      assert.same({ 0, "", "" }, { run("notify", "Rail/Alarm", "weak", "severity=2") })
      assert.same({ 0, "", "" }, { run("notify", "Rail/Alarm", "brake", "severity=4", "place=Ulm") })
      assert.same({ 0, "the kettle boils\n42\n1.5\n7\n" }, { heard(all) })
      assert.same({ 0, '{"type":"string","value":"the kettle boils"}\n{"type":"long","value":42}\n' }, { heard(json) })
      assert.same({ 0, "Rail/Alarm brake place=Ulm severity=4\n" }, { heard(filtered) })
      local _, text = run("ls", "--json")
      assert.matches('"dropped":0,"name":"EventChannel","received":6', text, 1, true)
    end)
  end)

  it("makes channels and ends them; who listens is told", function()
    with_server(function(run, port)
      assert.matches("^IOR:%x+\n$", (select(2, run("new", "other"))))
      assert.matches("there is such a channel", select(3, run("new", "other")), 1, true)
      assert.matches("\nother  ", (select(2, run "ls")))
      local child = command.listen(port, "--channel", "other")
      assert.same({ 0, "", "" }, { run("rm", "other") })
      assert.equal(1, (heard(child)))
      assert.same({ 1, "", "mare events: there is no channel 'other'\n" }, { run("rm", "other") })
      assert.same({ 1, "", "mare events: there is no channel 'none'\n" }, { run("push", "--channel", "none", "x") })
      local code, _, err = run("listen", "--filter", "$a >")
      assert.equal(1, code)
      assert.matches("$a >   <-- at character 5: a value expected, got the end", err, 1, true)
    end)
  end)

  it("takes mistakes on the command line for what they are, and ends with 2", function()
    for _, case in ipairs {
      { "no command is called 'lissen'; did you mean 'listen'", "lissen" }, { "push needs a value", "push" }, { "notify needs a type", "notify" },
      { "new needs a name", "new" }, { "ls takes no 'x'", "ls", "x" }, { "serve takes no 'x'", "serve", "x" },
      { "unrecognized option '--filtr'; did you mean '--filter'", "--filtr", "x" },
      { "--count takes a whole number from 1 on, not '0'", "--count", "0" },
      { "--slow takes discard or drop, not 'x'", "--slow", "x" }, { "ls has no option '--filter'", "ls", "--filter", "x" },
      { "serving has no option '--count'", "--count", "1" }, { "--at is for asking", "--at", "x" },
      { "no service is asked at port 0", "ls", "--port", "0" },
      { "--at says which service is asked, and", "ls", "--at", "corbaloc::h/x", "--port", "9" },
      { "there is no option '-ORBnonsense'", "-ORBnonsense", "1" },
    } do
      local r = proc.mare_command { "events", table.unpack(case, 2) }
      assert.equal(2, r.code, case[1])
      assert.matches(case[1], r.err, 1, true)
      assert.matches("^mare events: [^\n]+\nTry 'mare events %-%-help'%.\n$", r.err)
    end
    local r = proc.mare_command { "events", "--help" }
    assert.equal(0, r.code)
    assert.matches("^  mare events %-%-db events.db", r.out)
    r = proc.mare_command { "events", "ls", "--at", "corbaloc::127.0.0.1:1/x" }
    assert.equal(1, r.code)
    assert.matches("TRANSIENT", r.err)
  end)

  it("binds its channel and its factory in a naming service", function()
    local names = assert(mare.subprocess.spawn { proc.bin, "names", "--port", "0", "--host", "127.0.0.1", stderr = "null" })
    local at = "corbaname::127.0.0.1:" .. assert(names.stdout:read("l", channels.LIMIT)):match ":(%d+)/"
    with_server(function()
      assert.equal(0, proc.mare_command({ "events", "push", "--channel", at .. "#plant/events", "x" }).code)
      local r = proc.mare_command { "events", "ls", "--at", at .. "#EventChannelFactory", "--json" }
      assert.matches('"received":1', r.out, 1, true)
    end, "--name", at .. "#plant/events", "--factory", "EventChannelFactory", "-ORBInitRef", "NameService=" .. at)
    names:kill "TERM"
    names:wait()
  end)
end)
