-- Connections that carry requests both ways: mare with mare, and with peers that lie.
local mare = require "mare"
local orb = require "mare.orb"
local bidir = require "mare.orb.giop.bidir"
local core = require "mare.orb.giop.core"
local ior = require "mare.orb.giop.ior"
local giop = require "spec.support.iiop"
local peer = require "spec.support.peer"
local proc = require "spec.support.proc"
local eventually = require "spec.support.serving".eventually

local IDL = [[
  interface Listener { string heard(in string what); void wait(in long id); };
  interface Talker { string talk(in Listener l, in string what); void keep(in Listener l); string tell(in string what); void wait(in long id); };
]]
local LOCAL = "localhost tcp,bidir"

-- f(broker, talker, log): a server that accepts whom `rule` names. The talker's `kept` is whom it was told to keep.
local function serve(rule, options, f)
  local log, talker = {}, { gate = mare.channel.new() }
  function talker.talk(_, l, what) return l:heard(what) end
  function talker:keep(l) self.kept = l end
  function talker:tell(what) return self.kept:heard(what) end
  function talker:wait(id) self.kept:wait(id) end
  options.host = options.host or "127.0.0.1"
  options.ORBacceptBiDirectionalGIOP, options.ORBserverTransportRule = true, rule
  options.log = function(level, text) log[#log + 1] = level .. ": " .. text end
  local broker = orb.init(options)
  broker:load(IDL)
  local ref = broker:serve(talker, "Talker", { key = "talker" })
  local results = table.pack(pcall(f, broker, talker, log, ref))
  broker:shutdown(5 * proc.slow)
  if not results[1] then
    if #log > 0 then print(table.concat(log, "\n")) end
    error(results[2], 0)
  end
end

-- f(talker's proxy, listener, broker): a client that offers its connections. Nobody can connect to it.
local function call(ref, options, f)
  options.host, options.ORBofferBiDirectionalGIOP = "127.0.0.1", true
  local broker = orb.init(options)
  broker:load(IDL)
  broker:need_server():open()
  broker.server.opened[1].listener:close()
  local listener = { heard = function(_, what) return "heard " .. what end }
  local results = table.pack(pcall(f, broker:proxy(tostring(ref), "Talker"), listener, broker))
  broker:shutdown(5 * proc.slow)
  if not results[1] then error(results[2], 0) end
end

local function name_of(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  return orb.exception.is_system(e) or e
end

describe("a connection that carries requests both ways", function()
  it("takes calls back to whom nobody could connect to", function()
    serve(LOCAL, {}, function(broker, talker, _, ref)
      call(ref, {}, function(proxy, listener, client)
        assert.equal("heard 5 €", proxy:talk(listener, "5 €"))
        proxy:keep(listener)
        assert.equal("heard later", talker.kept:heard("later"))
        assert.equal("heard long " .. ("x"):rep(200000), proxy:tell("long " .. ("x"):rep(200000)))
        assert.same({ 0, 1, 0 }, { broker.transport.opened, client.transport.opened, client.server.pool.accepted })
      end)
      eventually(function() return name_of(talker.kept.heard, talker.kept, "too late") == "TRANSIENT" end, "the client has gone")
    end)
  end)

  it("takes many of both at once, in any order", function()
    serve(LOCAL, {}, function(_, talker, _, ref)
      call(ref, {}, function(proxy, listener)
        local done = mare.channel.new()
        function listener.wait(_, id)
          if id % 2 == 1 then mare.sleep(0.001 * (id % 7)) end
          done:try_send(id)
        end
        proxy:keep(listener)
        local calls = {}
        for i = 1, 60 do calls[i] = i % 3 == 0 and talker.kept._async:heard("s" .. i) or proxy._async:wait(i) end
        for i, one in ipairs(calls) do
          local ok, what = one:wait(60 * proc.slow)
          assert.is_true(ok)
          if i % 3 == 0 then assert.equal("heard s" .. i, what) end
        end
      end)
    end)
  end)

  it("is not there where no rule says so: the server connects then", function()
    for _, rule in ipairs { { "* tcp" }, { "10.0.0.0/8 tcp,bidir", "* tcp" }, { "127.0.0.1 none,bidir", "* tcp" } } do
      serve({ table.unpack(rule) }, {}, function(_, _, log, ref)
        if rule[1]:find "none" then return end
        call(ref, {}, function(proxy, listener)
          assert.equal("TRANSIENT", name_of(proxy.talk, proxy, listener, "x"))
          assert.equal("TRANSIENT", name_of(proxy.talk, proxy, listener, "x"))
        end)
        assert.equal(1, #log)
        assert.truthy(log[1]:find("no rule of -ORBserverTransportRule says 'bidir' of it", 1, true))
      end)
    end
  end)

  it("is offered only to those whom a rule for clients names", function()
    serve(LOCAL, {}, function(_, _, _, ref)
      call(ref, { ORBclientTransportRule = { "10.0.0.0/8 tcp,bidir", "* tcp" } }, function(proxy, listener)
        assert.equal("TRANSIENT", name_of(proxy.talk, proxy, listener, "x"))
      end)
      call(ref, { ORBclientTransportRule = { "127.0.0.0/8 tcp,bidir" } }, function(proxy, listener)
        assert.equal("heard x", proxy:talk(listener, "x"))
      end)
    end)
  end)

  it("ends a call back in its time, and tells the client", function()
    serve(LOCAL, {}, function(_, talker, _, ref)
      call(ref, {}, function(proxy, listener)
        local ended = mare.channel.new(1)
        function listener.wait()
          local guard <close> = setmetatable({}, { __close = function() ended:try_send(true) end })
          mare.channel.new():receive()
          return guard
        end
        proxy:keep(listener)
        assert.equal("TIMEOUT", name_of(talker.kept.wait, talker.kept:_with { timeout = 0.05 }, 1))
        assert.is_true(ended:receive(60 * proc.slow))
        assert.equal("heard x", proxy:tell("x"))
      end)
    end)
  end)

  it("that is lost in the middle of a call back is a COMM_FAILURE for who called", function()
    serve(LOCAL, {}, function(_, talker, _, ref)
      local outcome
      call(ref, {}, function(proxy, listener, client)
        function listener.wait() client.server.pool:abort() end
        proxy:keep(listener)
        outcome = mare.fiber.spawn(function() return name_of(talker.kept.wait, talker.kept, 1) end)
        assert.equal("COMM_FAILURE", select(2, outcome:wait(60 * proc.slow)))
      end)
      call(ref, {}, function(proxy, listener) assert.equal("heard again", proxy:talk(listener, "again")) end)
    end)
  end)

  it("goes on while more requests than there may be wait for calls back", function()
    serve(LOCAL, { limits = { requests = 4 } }, function(_, _, _, ref)
      call(ref, {}, function(proxy, listener)
        local gate, inside = mare.channel.new(), 0
        function listener.wait()
          inside = inside + 1
          gate:receive()
        end
        proxy:keep(listener)
        local calls = {}
        for i = 1, 4 do calls[i] = proxy._async:wait(i) end
        eventually(function() return inside == 4 end, "four calls back")
        assert.equal("TRANSIENT", name_of(proxy.tell, proxy, "the fifth"))
        gate:close()
        for i = 1, 4 do assert.is_true((calls[i]:wait(60 * proc.slow))) end
        assert.equal("heard fifth", proxy:tell("fifth"))
      end)
    end)
  end)

  it("is closed by neither side for idleness, and ends with a call back in progress when a side is shut down", function()
    serve(LOCAL, { ORBinConScanPeriod = 1, limits = { idle = 0.05 } }, function(broker, talker, _, ref)
      call(ref, { limits = { unused = 0.05 } }, function(proxy, listener, client)
        local gate, inside = mare.channel.new(), false
        function listener.wait()
          inside = true
          gate:receive()
        end
        proxy:keep(listener)
        mare.sleep(0.2)
        assert.equal("heard x", talker.kept:heard("x"))
        assert.equal(1, client.transport.opened)
        local late = talker.kept._async:wait(1)
        eventually(function() return inside end, "the call back")
        local ending = mare.fiber.spawn(function() broker:shutdown(true) end)
        eventually(function() return broker.server.state ~= "open" end, "the end")
        gate:close()
        assert.is_true((late:wait(60 * proc.slow)))
        assert.is_true((ending:wait(60 * proc.slow)))
      end)
    end)
  end)
end)

describe("an object that several processes serve", function()
  it("calls its clients back over their connections, too", function()
    local broker = orb.init { host = "127.0.0.1", ORBacceptBiDirectionalGIOP = true, ORBserverTransportRule = LOCAL }
    broker:load(IDL)
    local ref = broker:serve(function() return { talk = function(_, l, what) return l:heard(what) end } end, "Talker", { processes = 2 })
    for i = 1, 3 do
      call(ref, {}, function(proxy, listener, client)
        assert.equal("heard " .. i, proxy:talk(listener, tostring(i)))
        assert.equal(0, client.server.pool.accepted)
      end)
    end
    broker:shutdown(true)
  end)
end)

-- ---- raw peers ----

local PLACE = { "192.0.2.7", 999 }

local function reference(point, key)
  return ior.iiop { type_id = "IDL:Listener:1.0", addresses = { point }, key = key, minor = 2 }:sub(5)
end

local function offer(...) return { contexts = { { bidir.CONTEXT, bidir.make { ... } } } } end

-- The id of the next request that a raw client gets.
local function asked(c)
  local kind, _, _, id = core.parse(assert(core.receive(c.socket, 1 << 20, 60 * proc.slow)))
  assert.equal(core.REQUEST, kind)
  return id
end

describe("a client that offers its connection", function()
  it("gets requests with odd ids, and answers them", function()
    serve(LOCAL, {}, function(broker, talker, _, _)
      local c = giop.connect(broker.server.opened[1].port)
      c:request("keep", "talker", reference(PLACE, "l"), offer(PLACE))
      assert.equal("Reply", assert(c:receive()).type)
      for i = 1, 5, 2 do
        local call_ = talker.kept._async:heard("x")
        assert.equal(i, asked(c))
        assert(c:write(core.reply(2, true, i, 0, nil, giop.string("raw"))))
        assert.same({ true, "raw" }, { call_:wait(60 * proc.slow) })
      end
      c:close()
    end)
  end)

  it("in GIOP 1.1, or with what can't be read, offers nothing", function()
    serve(LOCAL, {}, function(broker, talker, log)
      local many = {}
      for i = 1, bidir.MOST + 1 do many[i] = { "h", i } end
      for _, bad in ipairs { "", "\1", "\1\0\0\0\1\0\0\0", bidir.make(many), bidir.make { { "", 1 } }, bidir.make { { "h", 0 } },
                             bidir.make { { "h\n\27[31m", 1 } }, bidir.make { { "h h", 1 } }, bidir.make {},
                             "\1\0\0\0\255\255\255\255", { 1, bidir.make { PLACE } } } do
        local c = giop.connect(broker.server.opened[1].port)
        local old = type(bad) == "table"
        c:request("keep", "talker", reference(PLACE, "l"), { minor = old and bad[1] or 2, contexts = { { 5, old and bad[2] or bad } } })
        assert.equal("Reply", assert(c:receive()).type)
        assert.equal("TRANSIENT", name_of(talker.kept.heard, talker.kept:_with { timeout = 0.05 }, "x"):gsub("TIMEOUT", "TRANSIENT"))
        c:close()
      end
      assert.truthy(#log >= 8)
      assert.is_nil(table.concat(log):find "%c")  -- nor does a stranger write in it
    end)
  end)

  it("again and again under other addresses fills neither log nor memory", function()
    serve(LOCAL, {}, function(broker, _, log)
      local c = giop.connect(broker.server.opened[1].port)
      for i = 1, 100 do
        c:request("_non_existent", "talker", "", offer({ "192.0.2." .. i % 50, i }, { "127.0.0.1", broker.server.opened[1].port }))
        assert(c:receive())
      end
      assert.equal(16, #log)
      c:close()
    end)
  end)

  it("and answers what it was never asked is closed; others are unharmed", function()
    for _, id in ipairs { 2, 1, 7, 0xffffffff } do
      serve(LOCAL, {}, function(broker, _, log, ref)
        local c = giop.connect(broker.server.opened[1].port)
        c:request("keep", "talker", reference(PLACE, "l"), offer(PLACE))
        assert(c:receive())
        c:write(core.reply(2, true, id, 0, nil, giop.string "gift"))
        assert.equal("MessageError", assert(c:receive()).type)
        assert.is_nil((c:receive()))
        assert.truthy(log[#log]:find "never made")
        call(ref, {}, function(proxy, listener) assert.equal("heard x", proxy:talk(listener, "x")) end)
        c:close()
      end)
    end
  end)

  it("gets no calls that are another client's, nor the server's own", function()
    serve({ "* tcp,bidir" }, { host = "::" }, function(broker, talker, log)
      local port = broker.server.opened[1].port
      local honest, liar = giop.connect(port, "::1"), giop.connect(port, "127.0.0.1")
      honest:request("keep", "talker", reference(PLACE, "l"), offer(PLACE))
      assert(honest:receive())
      liar:request("_non_existent", "talker", "", offer(PLACE, { "127.0.0.1", port }))
      assert(liar:receive())
      assert.truthy(table.concat(log, "\n"):find("that one is believed while it is connected", 1, true))
      assert.truthy(table.concat(log, "\n"):find("which is our own address", 1, true))
      local call_ = talker.kept._async:heard("x")
      honest:write(core.reply(2, true, asked(honest), 0, nil, giop.string "honest"))
      assert.same({ true, "honest" }, { call_:wait(60 * proc.slow) })
      assert.is_nil((liar:receive(0)))
      local again = giop.connect(port, "::1")    -- its new connection counts more than its old one
      again:request("_non_existent", "talker", "", offer(PLACE))
      assert(again:receive())
      call_ = talker.kept._async:heard("x")
      again:write(core.reply(2, true, asked(again), 0, nil, giop.string "again"))
      assert.same({ true, "again" }, { call_:wait(60 * proc.slow) })
      again:close()                              -- and when that goes the old one is used again
      eventually(function() return broker.server.pool.count == 2 end, "it has gone")
      call_ = talker.kept._async:heard("x")
      honest:write(core.reply(2, true, asked(honest), 0, nil, giop.string "old"))
      assert.same({ true, "old" }, { call_:wait(60 * proc.slow) })
      honest:close()
      liar:close()
    end)
  end)

  it("leaves nothing behind when it goes, however many come", function()
    serve(LOCAL, {}, function(broker, talker)
      for i = 1, 50 do
        local c = giop.connect(broker.server.opened[1].port)
        c:request("keep", "talker", reference({ "192.0.2.7", i }, "l"), offer({ "192.0.2.7", i }, { "192.0.2.8", i }))
        assert(c:receive())
        if i % 2 == 0 then mare.fiber.spawn(pcall, talker.kept.heard, talker.kept, "x") end
        c:close()
      end
      eventually(function() return next(broker.transport.duplex.claims) == nil and broker.server.pool.count == 0 end, "all have gone")
    end)
  end)
end)

describe("a server to which a connection is offered", function()
  it("is asked with even ids, and gets answers to its own requests", function()
    local seen, body = {}, nil
    local server <close> = peer.serve(function(conn)
      local q = conn:request()
      seen[1], seen.points = q.id, bidir.read(q.contexts[bidir.CONTEXT])
      conn:write(core.request(2, true, 3, "listener", "heard", nil, 1, peer.string "raw"))
      local m = conn:message()
      seen[2], body = m.id, m.type == "Reply" and m.message:match "heard %a+"
      conn:reply(q, "")
      q = conn:request()
      seen[3], seen.again = q.id, q.contexts and q.contexts[bidir.CONTEXT]
      conn:reply(q, "")
      conn:request()
    end)
    local broker = orb.init { host = "127.0.0.1", ORBofferBiDirectionalGIOP = true, ORBverifyObjectExistsAndType = false }
    broker:load(IDL)
    local listener = broker:serve({ heard = function(_, what) return "heard " .. what end }, "Listener", { key = "listener" })
    local proxy = broker:proxy(server.ref, "Talker")
    proxy:keep(listener)
    proxy:keep(listener)
    assert.same({ 2, 1, 4 }, { table.unpack(seen) })
    assert.equal("heard raw", body)
    assert.same({ { "127.0.0.1", broker.server.opened[1].port } }, seen.points)
    assert.is_nil(seen.again)
    broker:shutdown(5)
  end)

  it("that says CloseConnection, or is lost, is asked again or not, as ever", function()
    local server <close> = peer.serve(function(conn, n)
      local q = conn:request()
      if n == 1 then conn:bye() return conn:close() end
      if n == 2 then conn:reply(q, "") conn:request() return conn:close() end
      conn:reply(q, "")
      conn:request()
    end)
    local broker = orb.init { host = "127.0.0.1", ORBofferBiDirectionalGIOP = true, ORBverifyObjectExistsAndType = false }
    broker:load(IDL)
    local proxy = broker:proxy(server.ref, "Talker")
    proxy:keep(nil)
    assert.equal(2, broker.transport.opened)
    assert.equal("COMM_FAILURE", name_of(proxy.keep, proxy, nil))
    proxy:keep(nil)
    assert.equal(3, broker.transport.opened)
    broker:shutdown(5)
  end)
end)
