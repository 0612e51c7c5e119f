-- Event channels between mare and others: clients over omniORB and omniEvents' tools at mare's channels, mare's clients at omniEvents'.
-- runs under: mare
-- needs: plain
local mare = require "mare"
local orb = require "mare.orb"
local events = require "mare.orb.events"
local exception = require "mare.orb.exception"
local naming = require "mare.orb.services.naming"
local channels = require "spec.support.event_service"
local foreign = require "spec.support.foreign"
local omnievents = require "spec.support.omnievents"

local until_true, with = channels.until_true, channels.with

local function at(s, name) return "corbaloc::" .. s.server:address() .. "/" .. (name or "EventChannel") end

local function figures(s) return s.service:figures()[1] end

describe("at mare's channel a client over omniORB", function()
  if omnievents.missing then
    it("can't be tried", function() return foreign.skip(omnievents.missing) end)
    return
  end

  it("pushes, and is pushed to", function()
    with({}, function(s)
      local heard = {}
      local channel = events.channel(s.client, at(s))
      local subscription = channel:subscribe(function(any) table.insert(heard, any._anyval) end)
      local listener = omnievents.client("listen", at(s), "5")
      assert.equal("ready", listener.line())
      assert.matches("^pushed 3 in", omnievents.client("push", at(s), "3").wait())
      channel:publish(4)
      channel:publish(5)
      assert.matches("^1 2 3 4 5 heard 5 in", listener.wait())
      until_true(function() return #heard == 5 end)
      assert.same({ 1, 2, 3, 4, 5 }, heard)
      subscription:close()
      until_true(function() return figures(s).consumers == 0 end)
      assert.equal(0, figures(s).dropped)
    end)
  end)

  it("pulls, and is pulled from", function()
    with({ limits = { poll = 0.01 } }, function(s)
      local puller = omnievents.client("pull", at(s), "4")
      assert.equal("ready", puller.line())
      assert.equal("supplied", (omnievents.client("supply", at(s), "4").wait():gsub("^disconnected ", ""):gsub(" disconnected$", "")))
      assert.equal("1 2 3 4 no more", puller.wait())
    end)
  end)

  it("gets the exceptions of the standard", function()
    with({}, function(s)
      assert.equal("Disconnected Disconnected BAD_PARAM AlreadyConnected OBJECT_NOT_EXIST", omnievents.client("refused", at(s)).wait())
    end)
  end)

  it("publishes structured events, and gets those that its filter lets through", function()
    with({}, function(s)
      local heard = {}
      local channel = events.channel(s.client, at(s))
      channel:subscribe({ structured = true, types = { "Rail/Al*" } }, function(e) table.insert(heard, e.name .. e.data.place .. e.data.severity) end)
      local listener = omnievents.client("filter", at(s), "2", "$severity > 2 and $type_name == 'Alarm' and 'm' ~ $place")
      assert.equal("ready", listener.line())
      omnievents.client("notify", at(s), "5").wait()
      assert.matches("^e3 e5", (listener.wait()))
      until_true(function() return #heard == 3 end)
      assert.same({ "e1Ulm1", "e3Ulm3", "e5Ulm5" }, heard)
      assert.matches("^%$a =   <%-%- at character %d+: ", (omnievents.client("filter", at(s), "1", "$a =").wait()))
    end)
  end)

  it("that is killed is noticed, and others go on", function()
    with({ limits = { gone = 0.3 } }, function(s)
      local child = assert(mare.subprocess.spawn { "build/orb_peers/events-cpp/client", "listen", at(s), "9", "-ORBendPoint", "giop:tcp:127.0.0.1:" })
      assert.equal("ready", child.stdout:read("l", channels.LIMIT))
      local other = omnievents.client("listen", at(s), "3")
      assert.equal("ready", other.line())
      child:kill "KILL"
      child:wait()
      omnievents.client("push", at(s), "3").wait()
      assert.matches("^1 2 3 heard", (other.wait()))
      until_true(function() return figures(s).consumers == 0 end)
      assert.equal(1, figures(s).dropped)
    end)
  end)
end)

describe("omniEvents' tools", function()
  if omnievents.missing then
    it("can't be tried", function() return foreign.skip(omnievents.missing) end)
    return
  end

  it("make, connect, record and end channels of mare", function()
    with({}, function(s)
      local names = naming.serve(s.server)
      local ref = { "-ORBInitRef", "NameService=corbaloc::" .. s.server:address() .. "/NameService" }
      local function run(tool, ...)
        local words = table.pack(...)
        return omnievents.run(tool, table.unpack(table.move(ref, 1, 2, words.n + 1, words)))
      end
      names.root.proxy:bind({ { id = "EventChannelFactory", kind = "" } }, s.service.factory)
      assert.equal(0, run("eventc", "-i", "one", "-n", "first.channel", "-q", "50"))
      assert.equal(0, run("eventc", "-i", "two", "-n", "second.channel", at(s, "omniEvents")))
      assert.is_true(run("eventc", "-i", "two", "-n", "third", at(s, "omniEvents")) ~= 0)          -- there is one
      assert.equal(0, run("eventf", at(s, "one"), at(s, "two")))
      local heard = {}
      local to = events.channel(s.client, at(s, "two"))
      to:subscribe(function(any) table.insert(heard, any._anyval) end)
      local from = events.channel(s.client, "corbaname::" .. s.server:address() .. "#first.channel")
      from:publish "over both"
      until_true(function() return heard[1] == "over both" end)
      assert.equal(0, run("rmeventc", at(s, "two")))
      until_true(function() return #s.service:figures() == 2 and s.service:figures()[2].consumers == 0 end)
      names:close()
    end)
  end)
end)

describe("at omniEvents' channel mare", function()
  if omnievents.missing then
    it("can't be tried", function() return foreign.skip(omnievents.missing) end)
    return
  end

  it("publishes and subscribes, pulls and is pulled from, beside a client over omniORB", function()
    omnievents.with(function(port)
      local client = orb.init { host = "127.0.0.1", timeout = channels.LIMIT, log = function() end }
      client:load "#include <omniEvents.idl>"
      local factory = client:proxy(("corbaloc::127.0.0.1:%d/omniEvents"):format(port), "omniEvents::EventChannelFactory")
      local made = factory:create_object({ { id = "EventChannel", kind = "object interface" } },
        { { name = "CyclePeriod_ns", value = { _anytype = client:type "unsigned long", _anyval = 1000000 } },
          { name = "InsName", value = "there" } })
      assert.is_true(made:_is_a "IDL:omg.org/CosEventChannelAdmin/EventChannel:1.0")
      local there = ("corbaloc::127.0.0.1:%d/there"):format(port)
      local channel = events.channel(client, there)
      local heard, told = {}, false
      local subscription = channel:subscribe({ on_end = function() told = true end }, function(any) table.insert(heard, any._anyval) end)
      channel:next(0)
      local listener = omnievents.client("listen", there, "3")
      assert.equal("ready", listener.line())
      omnievents.client("push", there, "2").wait()
      channel:publish { _anytype = client:type "long", _anyval = 77 }
      assert.matches("77", (listener.wait()))
      until_true(function() return #heard == 3 end)
      table.sort(heard)
      assert.same({ 1, 2, 77 }, heard)
      local pulled = { channel:next(channels.LIMIT)._anyval, channel:next(channels.LIMIT)._anyval, channel:next(channels.LIMIT)._anyval }
      table.sort(pulled)
      assert.same({ 1, 2, 77 }, pulled)
      assert.matches("it has no structured events", select(2, pcall(channel.notify, channel, { type = "x" })), 1, true)
      -- omniEvents' destroy walks through its proxies to strike them out of its log, and asks an adapter for their names. If a client has just left,
      -- its object may be gone, and the answer is UNKNOWN; if the channel's thread was faster, the adapter is, and it is OBJECT_NOT_EXIST.
      made = made:_unchecked_narrow "CosEventChannelAdmin::EventChannel"
      local done, err = pcall(made.destroy, made)
      if done then until_true(function() return told end)
      else assert.is_true(exception.is_system(err) == "UNKNOWN" or exception.is_system(err) == "OBJECT_NOT_EXIST", tostring(err)) end
      subscription:close()
      channel:close()
      client:shutdown(1)
    end)
  end)
end)
