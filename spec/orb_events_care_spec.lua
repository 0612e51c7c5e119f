-- Event channels: who leaves is forgotten at once, who is left is told, and mistakes are refused where they are made.
-- runs under: mare
-- needs: plain
local mare = require "mare"
local orb = require "mare.orb"
local events = require "mare.orb.events"
local channels = require "spec.support.event_service"
local command = require "spec.support.event_command"
local foreign = require "spec.support.foreign"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local with, until_true = channels.with, channels.until_true
local no_sqlite = foreign.no_sqlite()

local function figures(s) return s.service:figures()[1] end

-- -> exit code, the rest of stderr
local function over(child)
  local err = child.stderr:read("a", channels.LIMIT)
  return child:wait().code, err
end

describe("who leaves a channel", function()
  it("has no queue there any more, in whatever order they leave", function()
    with({ limits = { queue = 5 } }, function(s)
      local channel = events.channel(s.client, s.channel)
      local got = {}
      local subscriptions = {}
      for i = 1, 6 do subscriptions[i] = channel:subscribe(function() end) end
      for _, i in ipairs { 6, 1, 3, 5, 2, 4 } do subscriptions[i]:close() end
      for _ = 1, 20 do channel:subscribe(function() end):close() end
      local live <close> = channel:subscribe(function(any) got[#got + 1] = any end)
      for i = 1, 20 do
        channel:publish(i)
        until_true(function() return #got == i end)
      end
      local f = figures(s)
      assert.same({ 1, 0, 20, 0 }, { f.consumers, f.waiting, f.delivered, f.dropped })
      live:close()
    end)
  end)

  it("also leaves if it never came in: a refused filter, or type", function()
    with({}, function(s)
      local channel = events.channel(s.client, s.channel)
      for _ = 1, 3 do
        local done, err = pcall(channel.subscribe, channel, { filter = "$severity >> 3" }, function() end)
        assert.is_false(done)
        assert.matches("the channel doesn't understand the filter: $severity >> 3   <-- at character 12", err, 1, true)
      end
      assert.equal(0, figures(s).consumers)
      assert.equal(0, s.service.counts.filter)
    end)
  end)
end)

describe("the end of a service", function()
  it("is told to its clients if nothing is kept, and who doesn't answer holds it up for a second at most", function()
    local s = channels.serve {}
    local client = orb.init { host = "127.0.0.1", timeout = channels.LIMIT, log = function() end }
    local channel = events.channel(client, "corbaloc::" .. s.server:address() .. "/EventChannel")
    local told, gate = {}, mare.channel.new()
    channel:subscribe({ on_end = function() gate:receive() end }, function() end)
    channel:subscribe({ structured = true, on_end = function() told[#told + 1] = "structured" end }, function() end)
    channel:subscribe({ on_end = function() told[#told + 1] = "any" end }, function() end)
    local began = mare.clock()
    s.service:close()
    local took = mare.clock() - began
    s.server:shutdown(true)
    table.sort(told)
    assert.same({ "any", "structured" }, told)
    assert.is_true(took < 1.5 * proc.slow, tostring(took))
    gate:close()
    client:shutdown(1)
  end)

  it("ends mare events listen: told so, or because the service is gone", function()
    local server, port = command.serve()
    local child = command.listen(port)
    server:kill "TERM"
    assert.equal(0, server:wait().code)
    assert.same({ 1, "mare events: the channel has ended\n" }, { over(child) })

    server, port = command.serve()
    child = command.listen(port, "--check", "0.1")
    mare.sleep(0.3)                               -- some questions that are answered
    server:kill "KILL"
    server:wait()
    assert.same({ 1, "mare events: the service can't be reached any more\n" }, { over(child) })
  end)

  it("tells nobody if its clients are kept", function()
    if no_sqlite then return foreign.skip(no_sqlite) end
    local path = temporary()
    local s = channels.serve { db = path }
    local client = orb.init { host = "127.0.0.1", timeout = channels.LIMIT, log = function() end }
    local told = false
    events.channel(client, "corbaloc::" .. s.server:address() .. "/EventChannel"):subscribe({ on_end = function() told = true end }, function() end)
    s.service:close()
    s.server:shutdown(true)
    assert.is_false(told)
    client:shutdown(1)
    os.remove(path)
  end)
end)

describe("a mistake of the program", function()
  local function refused(wanted, f)
    local done, err = pcall(f)
    assert.is_false(done, wanted)
    assert.matches("^[^\n]*orb_events_care_spec.lua:%d+: ", err)
    assert.matches(wanted, err, 1, true)
  end

  it("is refused at its line", function()
    with({}, function(s)
      local ch, f = events.channel(s.client, s.channel), function() end
      refused("a structured event is a table, not a string", function() ch:notify "x" end)
      refused("a structured event is a table, not a nil", function() ch:notify() end)
      refused("an event without a field", function() ch:notify {} end)
      refused("an event has no field 'sort'", function() ch:notify { sort = "x" } end)
      refused("header field 'Priority' is a whole number from -32767 to 32767, not 'high'", function()
        ch:notify { header = { Priority = "high" } }
      end)
      refused("header field 'Priority' is", function() ch:notify { header = { Priority = 40000 } } end)
      refused("header field 'Timeout' is a number of seconds, not '-1'", function() ch:notify { header = { Timeout = -1 } } end)
      refused("header has 'Priorty'; did you mean 'Priority'?", function() ch:notify { header = { Priorty = 1 } } end)
      refused("has a name, not 1", function() ch:notify { header = { 1 } } end)
      refused("a structured event is a table", function() events.structured(1) end)
      refused("'types' is a list of texts", function() ch:subscribe({ types = { 5 } }, f) end)
      refused("it has [Rail] = true", function() ch:subscribe({ types = { Rail = true } }, f) end)
      refused("'types' is an empty list", function() ch:subscribe({ types = {} }, f) end)
      refused("subscribe takes a table of options", function() ch:subscribe("x", f) end)
      refused("next takes a number of seconds, not 'x'", function() ch:next "x" end)
      assert.same({ 0, 0 }, { figures(s).consumers, figures(s).received })
      ch:notify { type = "Alarm", header = { Priority = 1, Timeout = 2.5, source = "sensor", time = 3 } }
      ch:notify { name = "alone", header = { Priority = { _anytype = "short", _anyval = 2 } } }
      assert.equal(2, figures(s).received)
    end)
  end)
end)

describe("a mistake on the command line of mare events", function()
  it("is found before anything is published, and says what was meant", function()
    local server, port = command.serve()
    local at = "corbaloc::127.0.0.1:" .. port .. "/"
    local function refused(wanted, ...)
      local r = proc.mare_command { "events", ... }
      assert.equal(2, r.code, wanted)
      assert.matches(wanted, r.err, 1, true)
    end
    local here = { "--host", "127.0.0.1", "--port", port }
    refused("'{a=1}' has no type: { _anytype =", "push", here[1], here[2], here[3], here[4], "hello", "{a=1}")
    refused("short expected (-32768 to 32767), got 70000", "push", here[1], here[2], here[3], here[4], "hello", '{_anytype="short", _anyval=70000}')
    refused("'{1}' has no type", "notify", here[1], here[2], here[3], here[4], "Alarm", "list={1}")
    for _, verb in ipairs { "ls", "listen" } do
      refused("--at " .. at .. "EventChannel: that is a channel; name it by --channel", verb, "--at", at .. "EventChannel")
      refused("NotificationService: that is no factory of channels as omniEvents has it; mare's is", verb, "--at", at .. "NotificationService")
    end
    local r = proc.mare_command { "events", "ls", "--json", "--at", at .. "omniEvents" }
    assert.matches('"received":0', r.out, 1, true)
    server:kill "TERM"
    server:wait()
  end)
end)
