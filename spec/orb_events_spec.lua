-- Event channels: push and pull, what is raised when, what becomes of clients that are slow or gone, what lasts.
local mare = require "mare"
local orb = require "mare.orb"
local channels = require "spec.support.event_service"
local foreign = require "spec.support.foreign"
local temporary = require "spec.support.temporary"

local with, raised, until_true, consumer, supplier, value = channels.with, channels.raised, channels.until_true, channels.consumer,
  channels.supplier, channels.value
local no_sqlite = foreign.no_sqlite()

-- A connected push consumer's proxy.
local function listen(s, servant)
  local p = s.channel:for_consumers():obtain_push_supplier()
  p:connect_push_consumer(servant)
  return p
end

local function puller(s)
  local p = s.channel:for_consumers():obtain_pull_supplier()
  p:connect_pull_consumer(nil)
  return p
end

local function text(list) return table.concat(list, " ") end

describe("an event channel", function()
  it("takes from suppliers that push or are pulled, and gives to consumers that are pushed to or pull", function()
    with({ limits = { poll = 0.01 } }, function(s)
      local pushed, source = {}, {}
      listen(s, consumer(pushed))
      local pull = puller(s)
      local push = supplier(s)
      channels.source(s, source)
      push:push "a"
      push:push(7)
      until_true(function() return text(pushed) == "a 7" end)
      table.insert(source, "b")
      table.insert(source, 8)
      until_true(function() return text(pushed) == "a 7 b 8" end)
      assert.same({ "a", 7, "b", 8 }, { value(pull:pull()), value(pull:pull()), value(pull:pull()), value(pull:pull()) })
      local _, has = pull:try_pull()
      assert.is_false(has)
      local any
      push:push(true)
      any, has = pull:try_pull()
      assert.same({ true, true }, { value(any), has })
    end)
  end)

  it("keeps the type of an event, and of what it holds", function()
    with({}, function(s)
      s.client:load "module Rail { struct Alarm { long level; sequence<string> places; }; };"
      local pull = puller(s)
      supplier(s):push { _anytype = s.client.types.Rail.Alarm, _anyval = { level = 3, places = { "Ulm", "Hof" } } }
      local any = pull:pull()
      assert.equal("IDL:Rail/Alarm:1.0", any._anytype.id)
      assert.same({ level = 3, places = { "Ulm", "Hof" } }, any._anyval)
    end)
  end)

  it("makes a pull wait for an event, for several pulls in turn, and ends it with the connection", function()
    with({}, function(s)
      local pull, push = puller(s), supplier(s)
      local first, second = pull._async:pull(), pull._async:pull()
      local id = next(s.service.parts)
      until_true(function()
        for _, p in pairs(s.service.parts) do
          if p.waiting == 2 then id = p end
        end
        return type(id) == "table"
      end)
      push:push(1)
      push:push(2)
      local _, a = first:wait()
      local _, b = second:wait()
      local got = { value(a), value(b) }
      table.sort(got)
      assert.same({ 1, 2 }, got)
      local third = pull._async:pull()
      until_true(function() return id.waiting == 1 end)
      pull:disconnect_pull_supplier()
      local fine, e = third:wait()
      assert.is_false(fine)
      assert.equal("IDL:omg.org/CosEventComm/Disconnected:1.0", e._repid)
    end)
  end)

  it("gives up an event to nobody whose pull was cancelled", function()
    with({}, function(s)
      local pull, push = puller(s), supplier(s)
      assert.equal("TIMEOUT", orb.exception.is_system(select(2, pcall(pull.pull, pull:_with { timeout = 0.05 }))))
      until_true(function()
        for _, p in pairs(s.service.parts) do
          if p.waiting then return false end
        end
        return true
      end)
      push:push "kept"
      assert.equal("kept", value(pull:pull()))
    end)
  end)

  it("raises AlreadyConnected, Disconnected and BAD_PARAM as the standard says", function()
    with({}, function(s)
      local suppliers, consumers = s.channel:for_suppliers(), s.channel:for_consumers()
      local pc, pl = suppliers:obtain_push_consumer(), suppliers:obtain_pull_consumer()
      local ps, pu = consumers:obtain_push_supplier(), consumers:obtain_pull_supplier()
      assert.equal("Disconnected", raised(pc.push, pc, 1))
      assert.equal("Disconnected", raised(pu.pull, pu))
      assert.equal("Disconnected", raised(pu.try_pull, pu))
      assert.equal("BAD_PARAM", raised(ps.connect_push_consumer, ps, nil))
      assert.equal("BAD_PARAM", raised(pl.connect_pull_supplier, pl, nil))
      pc:connect_push_supplier(nil)
      assert.equal("AlreadyConnected", raised(pc.connect_push_supplier, pc, nil))
      pu:connect_pull_consumer(nil)
      assert.equal("AlreadyConnected", raised(pu.connect_pull_consumer, pu, nil))
      ps:connect_push_consumer(consumer {})
      assert.equal("AlreadyConnected", raised(ps.connect_push_consumer, ps, consumer {}))
      pl:connect_pull_supplier { try_pull = function() return 0, false end, disconnect_pull_supplier = function() end }
      assert.equal("AlreadyConnected", raised(pl.connect_pull_supplier, pl, { try_pull = function() return 0, false end }))
      pc:disconnect_push_consumer()
      assert.equal("OBJECT_NOT_EXIST", raised(pc.push, pc, 1))
    end)
  end)

  it("tells the other end once when one disconnects, or the channel ends", function()
    with({}, function(s)
      local a, b, source, over = {}, {}, {}, 0
      local p = listen(s, consumer(a))
      listen(s, consumer(b))
      channels.source(s, source)
      local push = s.channel:for_suppliers():obtain_push_consumer()
      push:connect_push_supplier { disconnect_push_supplier = function() over = over + 1 end }
      p:disconnect_push_supplier()
      until_true(function() return text(a) == "end" end)
      supplier(s):push "x"
      until_true(function() return text(b) == "x" end)
      s.channel:destroy()
      until_true(function() return text(b) == "x end" and source.over and over == 1 end)
      assert.equal("end", text(a))
      assert.equal("OBJECT_NOT_EXIST", raised(s.channel.for_consumers, s.channel))
      assert.equal("OBJECT_NOT_EXIST", raised(push.push, push, 1))
      assert.equal(3, s.server:objects())                            -- the factories
    end)
  end)

  it("leads into another channel, and what that raises is its own", function()
    with({ channels = { "EventChannel", "Second" } }, function(s)
      local second = s.client:proxy("corbaloc::" .. s.server:address() .. "/Second", "CosEventChannelAdmin::EventChannel")
      local from, to = s.channel:for_consumers():obtain_push_supplier(), second:for_suppliers():obtain_push_consumer()
      to:connect_push_supplier(from)
      from:connect_push_consumer(to)
      local got = {}
      local p = second:for_consumers():obtain_push_supplier()
      p:connect_push_consumer(consumer(got))
      supplier(s):push "over two"
      until_true(function() return text(got) == "over two" end)
      second:destroy()
      until_true(function() return s.service:figures()[1].consumers == 0 end)
    end)
  end)
end)

describe("a consumer that is slow", function()
  it("is dropped with a word when its queue is full, and holds up nobody", function()
    with({ limits = { queue = 20 } }, function(s)
      local gate, got = mare.channel.new(), {}
      local slow = { push = function() gate:receive() end, disconnect_push_consumer = function() gate:close() end }
      listen(s, slow)
      listen(s, consumer(got))
      local push = supplier(s)
      for i = 1, 30 do
        push:push(i)
        until_true(function() return #got == i end)
      end
      local figures = s.service:figures()[1]
      assert.same({ 1, 1, 30 }, { figures.consumers, figures.dropped, figures.received })
      assert.matches("a PushConsumer of channel 'EventChannel' was dropped: 20 events wait for it", table.concat(s.lines, "\n"), 1, true)
      assert.equal(0, s.service.account.bytes)
      assert.is_nil((gate:receive(channels.LIMIT)))                  -- it was told
    end)
  end)

  it("loses its oldest events instead where the service says so", function()
    with({ slow = "discard", limits = { queue = 5 } }, function(s)
      local gate, got = mare.channel.new(math.huge), {}
      listen(s, { push = function(_, v) gate:receive() table.insert(got, value(v)) end, disconnect_push_consumer = function() end })
      local push = supplier(s)
      for i = 1, 10 do push:push(i) end
      for _ = 1, 10 do gate:send(true) end
      until_true(function() return got[#got] == 10 end)
      assert.equal("1 6 7 8 9 10", text(got))
      assert.equal(4, s.service:figures()[1].discarded)
      assert.matches("is slow: of 5 events that wait for it some are discarded", table.concat(s.lines, "\n"), 1, true)
    end)
  end)

  it("is dropped when it doesn't answer in time", function()
    with({ limits = { answer = 0.1 } }, function(s)
      local never = mare.channel.new()
      listen(s, { push = function() never:receive() end, disconnect_push_consumer = function() end })
      supplier(s):push(1)
      until_true(function() return s.service:figures()[1].consumers == 0 end)
      assert.matches("it didn't answer for 0.1 seconds", table.concat(s.lines, "\n"), 1, true)
      never:close()
    end)
  end)

  it("that pulls has the newest events", function()
    with({ limits = { queue = 3 } }, function(s)
      local pull, push = puller(s), supplier(s)
      for i = 1, 7 do push:push(i) end
      assert.same({ 5, 6, 7 }, { value(pull:pull()), value(pull:pull()), value(pull:pull()) })
    end)
  end)

  it("gives way when all queues together take too much memory; one event can't", function()
    with({ limits = { bytes = 1 << 20 } }, function(s)
      local never, got = mare.channel.new(), {}
      listen(s, { push = function() never:receive() end, disconnect_push_consumer = function() end })
      listen(s, consumer(got))
      local push = supplier(s)
      local long = ("x"):rep(100000)
      for i = 1, 20 do
        push:push(long)
        until_true(function() return #got == i end)
        assert.is_true(s.service.account.bytes <= 1 << 20)
      end
      assert.equal(1, s.service:figures()[1].consumers)
      assert.matches("memory is short", table.concat(s.lines, "\n"), 1, true)
      assert.equal("IMP_LIMIT", raised(push.push, push, ("x"):rep(300000)))
      never:close()
    end)
  end)
end)

describe("a client that has died", function()
  it("is noticed when there is an event for it; one that says that its object is no more, at once", function()
    with({ limits = { gone = 0.2 } }, function(s)
      local got, other = {}, orb.init { host = "127.0.0.1" }
      local servant = consumer {}
      local there = other:proxy("corbaloc::" .. s.server:address() .. "/EventChannel", "CosEventChannelAdmin::EventChannel")
      there:for_consumers():obtain_push_supplier():connect_push_consumer(servant)
      local gone = consumer {}
      listen(s, gone)
      listen(s, consumer(got))
      other:shutdown(true)
      s.client:deactivate(gone)
      local push = supplier(s)
      push:push(1)
      until_true(function() return s.service:figures()[1].consumers == 1 end)
      assert.equal("1", text(got))
      assert.equal(1, s.service:figures()[1].dropped)
      assert.matches("it can't be reached for 0.2 seconds", table.concat(s.lines, "\n"), 1, true)
    end)
  end)

  it("is noticed without an event when it is asked", function()
    with({ limits = { check = 0.05, lost = 0.2 } }, function(s)
      local other = orb.init { host = "127.0.0.1" }
      local there = other:proxy("corbaloc::" .. s.server:address() .. "/EventChannel", "CosEventChannelAdmin::EventChannel")
      there:for_suppliers():obtain_push_consumer():connect_push_supplier { disconnect_push_supplier = function() end }
      there:for_consumers():obtain_pull_supplier():connect_pull_consumer { disconnect_pull_consumer = function() end }
      local gone, stays = consumer {}, {}
      listen(s, gone)
      listen(s, consumer(stays))
      s.client:deactivate(gone)
      until_true(function() return s.service:figures()[1].consumers == 2 end)
      other:shutdown(true)
      until_true(function()
        local f = s.service:figures()[1]
        return f.consumers == 1 and f.suppliers == 0
      end)
      supplier(s):push "still"
      until_true(function() return text(stays) == "still" end)
    end)
  end)

  it("that raises what is its own loses that event, no other", function()
    with({}, function(s)
      local got = {}
      listen(s, { push = function(_, v) if value(v) == 1 then error "no" end table.insert(got, value(v)) end })
      local push = supplier(s)
      push:push(1)
      push:push(2)
      until_true(function() return text(got) == "2" end)
      assert.equal(1, s.service:figures()[1].discarded)
    end)
  end)
end)

describe("a channel that is kept", function()
  it("is there after a restart with those who were connected", function()
    if no_sqlite then return foreign.skip(no_sqlite) end
    local path = temporary()
    os.remove(path)
    local client = orb.init { host = "127.0.0.1", timeout = channels.LIMIT }
    local got, source = {}, {}
    local s = channels.serve({ db = path, limits = { poll = 0.01 } })
    local port = math.tointeger(tonumber((s.server:address():match ":(%d+)$")))
    s.client = client
    s.channel = client:proxy("corbaloc::" .. s.server:address() .. "/EventChannel", "CosNotifyChannelAdmin::EventChannel")
    local proxy = listen(s, consumer(got))
    local push, pull = supplier(s), puller(s)
    channels.source(s, source)
    local left = listen(s, consumer {})
    left:disconnect_push_supplier()
    local unconnected = s.channel:for_consumers():obtain_push_supplier()
    push:push "before"
    until_true(function() return text(got) == "before" end)
    s.service:close()
    s.server:shutdown(true)

    s = channels.serve({ db = path, channels = {}, limits = { poll = 0.01 } }, { port = port })
    local figures = s.service:figures()[1]
    assert.same({ "EventChannel", 2, 2 }, { figures.name, figures.consumers, figures.suppliers })
    push:push "after"
    table.insert(source, "pulled")
    until_true(function() return text(got) == "before after pulled" end)
    assert.equal("after", value(pull:pull()))
    assert.equal("OBJECT_NOT_EXIST", raised(unconnected.connect_push_consumer, unconnected, consumer {}))
    proxy:disconnect_push_supplier()
    until_true(function() return text(got) == "before after pulled end" end)
    s.service:close()
    s.server:shutdown(true)
    client:shutdown(1)
    for _, suffix in ipairs { "", "-wal", "-shm" } do os.remove(path .. suffix) end
  end)

  it("says what is wrong with its file, and with its options", function()
    local broker <close> = orb.init { host = "127.0.0.1" }
    local events = require "mare.orb.services.events"
    if not no_sqlite then
      assert.matches("events.serve: /no/such/folder/x", select(2, pcall(events.serve, broker, { db = "/no/such/folder/x" })), 1, true)
    end
    assert.matches("there is no option 'dv'", select(2, pcall(events.serve, broker, { dv = "x" })), 1, true)
    assert.matches("there is no limit 'que'", select(2, pcall(events.serve, broker, { limits = { que = 1 } })), 1, true)
    assert.matches("option 'slow' is", select(2, pcall(events.serve, broker, { slow = "x" })), 1, true)
  end)
end)
