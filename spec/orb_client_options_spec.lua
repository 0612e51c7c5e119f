-- What a broker is started with: the command line as omniORB spells it, the table, the environment, and mistakes.
local orb = require "mare.orb"
local options = require "mare.orb.options"
local proc = require "spec.support.proc"

describe("the command line", function()
  it("gives its -ORB options to the broker and keeps the rest", function()
    local args = { [0] = "script", [-1] = "mare", "one", "-ORBtraceLevel", "5", "two", "-ORBInitRef", "A=corbaloc::h/a", "-ORBInitRef", "B=IOR:00",
                   "-ORBendPoint", "giop:tcp::2809", "-ORBclientCallTimeOutPeriod", "1500", "--three" }
    local o = options.read { args = args }
    assert.same({ [0] = "script", [-1] = "mare", "one", "two", "--three" }, args)
    assert.equal(5, o.traceLevel)
    assert.same({ { name = "A", uri = "corbaloc::h/a" }, { name = "B", uri = "IOR:00" } }, o.InitRef)
    assert.same({ "giop:tcp::2809" }, o.endPoint)
    assert.equal(1.5, o.timeout)
  end)

  it("comes before the program's own options, and these before the environment", function()
    local script = [[
      local o = require "mare.orb.options".read { args = arg, ORBtraceLevel = 20, ORBgiopMaxMsgSize = 5000 }
      print(o.traceLevel, o.giopMaxMsgSize, o.clientConnectTimeOutPeriod, #arg)
    ]]
    local r = proc.lua(script, { "-ORBtraceLevel", "30" },
      { env = { ORBtraceLevel = "40", ORBgiopMaxMsgSize = "60000", ORBclientConnectTimeOutPeriod = "250" } })
    assert.equal("30\t5000\t250\t0\n", r.out, r.err)
  end)

  it("may hold what only omniORB knows", function()
    local args = { "-ORBthreadPerConnectionPolicy", "0", "-ORBid", "omniORB4", "x" }
    local lines = {}
    orb.init { args = args, log = function(level, line) lines[#lines + 1] = level .. ": " .. line end }
    assert.same({ "x" }, args)
    assert.same({ "info: option -ORBthreadPerConnectionPolicy has no effect here", "info: option -ORBid has no effect here" }, lines)
  end)
end)

describe("-ORBendPoint", function()
  it("on the command line replaces the program's port and host", function()
    local broker = orb.init { port = 1, host = "no.such.host.invalid", args = { "-ORBendPoint", "giop:tcp:127.0.0.1:" } }
    assert.matches("^127%.0%.0%.1:%d+$", broker:address())
    assert.equal(1, #broker.server.opened)
    broker:shutdown(true)
  end)
end)

describe("loading IDL", function()
  it("says what it takes", function()
    local broker <close> = orb.init()
    assert.error_matches(function() broker:load() end, "^load takes IDL as a text, not a nil")
    assert.error_matches(function() broker:loadfile(5) end, "^loadfile takes the path of an IDL file, not a number")
    assert.error_matches(function() broker:loadfile("x.idl", { includes = {} }) end, "there is no option 'includes'; did you mean 'include'?")
    assert.error_matches(function() broker:load("", { xyzzy = 1 }) end, "no option 'xyzzy'; there are define, include, lenient, name, read, replace")
    assert.error_matches(function() broker:load("", "x") end, "the options are a table")
    assert.matches("^spec/orb_client_options_spec.lua:%d+: load takes", (select(2, pcall(function() broker:load() end))))
  end)
end)

describe("a mistake", function()
  local function wrong(given, text) assert.error_matches(function() orb.init(given) end, text) end

  it("in a name says which was meant", function()
    wrong({ args = { "-ORBInitref", "x" } }, "there is no option '%-ORBInitref'; did you mean '%-ORBInitRef'")
    wrong({ args = { "-ORBendpoint", "x" } }, "did you mean '%-ORBendPoint'")
    wrong({ args = { "-ORBclientCallTimeout", "x" } }, "did you mean '%-ORBclientCallTimeOutPeriod'")
    wrong({ args = { "-ORBxyzzy", "x" } }, "there is no option '%-ORBxyzzy'; docs/orb.md lists what there is")
    wrong({ prot = 1 }, "there is no option 'prot'; did you mean 'port'")
    wrong({ timout = 1 }, "did you mean 'timeout'")
    wrong({ ORBtracelevel = 1 }, "did you mean 'ORBtraceLevel'")
    wrong("x", "orb.init takes a table")
  end)

  it("in a value says what is taken", function()
    wrong({ args = { "-ORBtraceLevel", "high" } }, "option '%-ORBtraceLevel' takes a number from 0 on, not 'high'")
    wrong({ args = { "-ORBtraceLevel" } }, "option '%-ORBtraceLevel' needs a value")
    wrong({ args = { "-ORBInitRef", "NameService" } }, "takes Name=reference, not 'NameService'")
    wrong({ ORBmaxGIOPVersion = "2.0" }, "takes 1.0, 1.1 or 1.2, not '2.0'")
    wrong({ ORBverifyObjectExistsAndType = "maybe" }, "takes 0 or 1, not 'maybe'")
    wrong({ port = "2809" }, "port is a number from 0 to 65535, not '2809'")
    wrong({ port = 70000 }, "port is a number")
    wrong({ timeout = -1 }, "timeout is a number of seconds, not '%-1'")
    wrong({ log = "x" }, "log is a function")
    wrong({ host = 5 }, "host is a text, not '5'")
    wrong({ limits = 5 }, "limits is a table")
    wrong({ limits = { conections = 5 } }, "there is no limit 'conections'; there are arrive, connections, handshake, held, idle")
    wrong({ limits = { idle = "x" } }, "the limit 'idle' is a number above 0, not 'x'")
  end)
end)

describe("the log", function()
  it("goes to stderr up to traceLevel, or to a file, or to a function", function()
    local script = [[
      local orb = require "mare.orb"
      local quiet, loud = orb.init { ORBtraceLevel = 0 }, orb.init { ORBtraceLevel = 10 }
      for _, broker in ipairs { quiet, loud } do broker.log("error", "an error") broker.log("debug", "a detail") broker.log(25, "too much") end
      orb.init { log = function(level, text) print(level, text) end }.log("info", "mine")
    ]]
    local r = proc.lua(script)
    assert.equal("mare.orb: an error\nmare.orb: a detail\n", r.err)
    assert.equal("info\tmine\n", r.out)
  end)
end)
