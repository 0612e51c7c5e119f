-- The client on the wire, with a server that does what the test says, true or not: spec/support/peer.lua.
-- luacheck: ignore 211/broker   (they are kept to be closed)
local mare = require "mare"
local orb = require "mare.orb"
local ior = require "mare.orb.giop.ior"
local core = require "mare.orb.giop.core"
local calling = require "spec.support.calling"
local peer = require "spec.support.peer"
local fiber, channel = mare.fiber, mare.channel
local LIMIT, raised = peer.LIMIT, calling.raised

local IDL = [[
  module Spec {
    exception Refused { string why; };
    interface Base { void nothing(); };
    interface Echo : Base {
      string say(in string who);
      long add(in long a, in long b);
      void refuse() raises (Refused);
      oneway void note(in string text);
      readonly attribute long count;
      wstring wide(in wstring w);
      sequence<octet> bytes(in sequence<octet> data);
      Base next();
    };
  };
]]

local pack = table.pack

local function client(options) return calling.broker(IDL, calling.limited(options)) end
local function echo_of(ref, options) return calling.proxy(IDL, "Spec::Echo", ref, calling.limited(options)) end

describe("connections", function()
  it("are shared by all proxies and fibers of a broker, one for each address", function()
    local server <close> = peer.serve(peer.echo)
    local broker <close> = client()
    local a = broker:proxy(server.ref, "Spec::Echo")
    local b = broker:proxy(server.ref:gsub("key$", "other"), "Spec::Echo")
    local list = {}
    for i = 1, 20 do list[i] = fiber.spawn(function() return (i % 2 == 0 and a or b):say("x" .. i) end) end
    for i = 1, 20 do assert.same(pack(true, "x" .. i), pack(list[i]:wait(LIMIT))) end
    assert.equal("y", a:_with { timeout = LIMIT }:say("y"))
    assert.equal(1, server.accepted)
  end)

  it("are one even when many fibers make the first call at once, and when that fails all know at once", function()
    local broker <close> = client()
    local nobody = broker:proxy(("corbaloc:iiop:1.2@127.0.0.1:%d/key"):format(peer.nobody()), "Spec::Echo")
    local list = {}
    for i = 1, 10 do list[i] = fiber.spawn(nobody.say, nobody, "x") end
    for i = 1, 10 do
      local ok, e = list[i]:wait(LIMIT)
      assert.is_false(ok)
      assert.matches("^CORBA::TRANSIENT %(OMG minor 2: no address of the reference answers, COMPLETED_NO%): .*Connection refused", tostring(e))
    end
  end)

  it("carry replies out of order to who waits for them", function()
    local server <close> = peer.serve(function(c)
      local q = {}
      for i = 1, 10 do q[i] = c:request() end
      for i = 10, 1, -1 do c:reply(q[i], q[i].body) end
      peer.echo(c)
    end)
    local broker <close>, hello = echo_of(server.ref)
    local list = {}
    for i = 1, 10 do list[i] = hello._async:say("n" .. i) end
    for i = 1, 10 do assert.same(pack(true, "n" .. i), pack(list[i]:wait(LIMIT))) end
    assert.equal("then", hello:say("then"))
    assert.equal(1, server.accepted)
  end)

  it("drop replies to ids that nobody waits for", function()
    local server <close> = peer.serve(function(c)
      local q = c:request()
      c:reply(q.id + 1000, q.body)
      c:reply(0, q.body)
      c:reply(q, q.body)
      peer.echo(c)
    end)
    local broker <close>, hello = echo_of(server.ref)
    assert.equal("a", hello:say("a"))
    assert.equal("b", hello:say("b"))
  end)

  it("use no request id whose reply may still come, also when ids begin again", function()
    local ids, gate = {}, channel.new()
    local server <close> = peer.serve(function(c)
      local waiting = {}
      for q in function() return c:request() end do
        ids[#ids + 1] = q.id
        if peer.text(q.body) == "wait" then waiting[#waiting + 1] = q else c:reply(q, q.body) end
        if #ids == 7 then break end
      end
      gate:receive()
      for _, q in ipairs(waiting) do c:reply(q, q.body) end
      peer.echo(c)
    end)
    local broker <close>, hello = echo_of(server.ref)
    local first = hello._async:say("wait")
    assert.equal("x", hello:say("x"))
    local third = hello._async:say("wait")
    local link = calling.link(broker, server)
    link.id = 0x7ffffffe                               -- nearly all were used
    for _ = 1, 4 do assert.equal("x", hello:say("x")) end
    gate:close()
    assert.same(pack(true, "wait"), pack(first:wait(LIMIT)))
    assert.same(pack(true, "wait"), pack(third:wait(LIMIT)))
    assert.same({ 1, 2, 3, 0x7fffffff, 2, 4, 5 }, ids)
  end)
end)

describe("addresses", function()
  it("are tried in order: profiles, and after each its alternatives", function()
    local server <close> = peer.serve(peer.echo)
    local broker <close> = client()
    local _, ref = peer.reference({ { "127.0.0.1", peer.nobody() }, { "127.0.0.1", server.port } })
    assert.equal("x", broker:proxy(ref, "Spec::Echo"):say("x"))
    local first = ior.parse(ior.iiop { type_id = "", addresses = { { "127.0.0.1", peer.nobody() } }, key = "key" }).profiles[1]
    local second = ior.parse(ior.iiop { type_id = "", addresses = { { "127.0.0.1", server.port } }, key = "key2" }).profiles[1]
    local two = ior.stringify(ior.make { type_id = "", profiles = { first, { tag = 99, data = "unknown" }, second } })
    assert.equal("y", broker:proxy(two, "Spec::Echo"):say("y"))
    assert.equal(1, server.accepted)
  end)

  it("that don't answer are named in TRANSIENT", function()
    local broker <close> = client()
    local a, b = peer.nobody(), peer.nobody()
    local _, ref = peer.reference({ { "127.0.0.1", a }, { "127.0.0.1", b } })
    local what, e = raised(function() broker:proxy(ref, "Spec::Echo"):say("x") end)
    assert.equal("TRANSIENT 2 COMPLETED_NO", what)
    assert.matches(":" .. a .. ".*:" .. b, tostring(e))
  end)

  it("say what they need when they can't be used", function()
    local broker <close> = client()
    local _, zero = peer.reference({ { "localhost", 0 } }, "k")
    local _, e = raised(function() broker:proxy(zero, "Spec::Echo"):say("x") end)
    assert.matches("localhost:0: it has port 0", tostring(e))
    local none = ior.stringify(ior.make { type_id = "IDL:Spec/Echo:1.0", profiles = { { tag = 99, data = "x" } } })
    assert.matches("no address that can be used", tostring(select(2, raised(function() broker:proxy(none):say("x") end))))
  end)
end)

describe("versions", function()
  it("are the lower of the reference's and the broker's", function()
    local seen = {}
    local server <close> = peer.serve(function(c)
      for q in function() return c:request() end do
        seen[#seen + 1] = q.minor
        c:reply(q, q.body)
      end
    end)
    local broker <close> = client()
    local old <close> = client { ORBmaxGIOPVersion = "1.1" }
    for minor = 0, 2 do
      local ref = ("corbaloc:iiop:1.%d@127.0.0.1:%d/key"):format(minor, server.port)
      assert.equal("x", broker:proxy(ref, "Spec::Echo"):say("x"))
      assert.equal("x", old:proxy(ref, "Spec::Echo"):say("x"))
    end
    assert.equal("x", broker:proxy(("corbaloc:iiop:1.9@127.0.0.1:%d/key"):format(server.port), "Spec::Echo"):say("x"))
    assert.same({ 0, 0, 1, 1, 2, 1, 2 }, seen)
  end)

  it("and byte order of replies are the server's choice", function()
    local server <close> = peer.serve(function(c)
      local q = c:request()
      c:write(core.reply(2, false, q.id, 0, nil, string.pack(">i4", 42)))
      peer.echo(c)
    end)
    local broker <close> = client()
    assert.equal(42, broker:proxy(server.ref, "Spec::Echo"):add(1, 2))
  end)
end)

describe("code sets", function()
  it("are told once, with the first request that could be written", function()
    local contexts = {}
    local server <close> = peer.serve(function(c)
      for q in function() return c:request() end do
        contexts[#contexts + 1] = q.contexts and q.contexts[1] and "yes" or "no"
        c:reply(q, q.body)
      end
    end)
    local broker <close> = client()
    local _, ref = peer.reference({ { "127.0.0.1", server.port } })
    local hello = broker:proxy(ref, "Spec::Echo")
    assert.equal("BAD_PARAM 0 COMPLETED_NO", (raised(hello.say, hello, 12)))
    assert.equal("wörld", hello:say("wörld"))
    assert.equal("a", hello:say("a"))
    assert.equal("wide", hello:wide("wide"))
    assert.same({ "yes", "no", "no" }, contexts)
  end)

  it("without any, wide characters are INV_OBJREF before a byte is sent", function()
    local server <close> = peer.serve(peer.echo)
    local broker <close>, hello = echo_of(server.ref)
    assert.equal("INV_OBJREF 1 COMPLETED_NO", (raised(hello.wide, hello, "x")))
  end)
end)

describe("a server that closes", function()
  it("with CloseConnection gets what it left unanswered again, once, on a new connection", function()
    local seen = {}
    local server <close> = peer.serve(function(c, n)
      for _ = 1, n == 1 and 3 or 100 do
        local q = c:request()
        if not q then return end
        seen[#seen + 1] = q.id
        if n > 1 then c:reply(q, q.body) end
      end
      c:bye()
      c:close()
    end)
    local broker <close>, hello = echo_of(server.ref)
    local list = {}
    for i = 1, 3 do list[i] = hello._async:say("n" .. i) end
    for i = 1, 3 do assert.same(pack(true, "n" .. i), pack(list[i]:wait(LIMIT))) end
    assert.equal(6, #seen)
    assert.equal(2, server.accepted)
  end)

  it("with CloseConnection each time gets no request a third time", function()
    local seen = 0
    local server <close> = peer.serve(function(c)
      if c:request() then seen = seen + 1 end
      c:bye()
      c:close()
    end)
    local broker <close>, hello = echo_of(server.ref)
    assert.equal("TRANSIENT 0 COMPLETED_NO", (raised(hello.say, hello, "x")))
    assert.equal(2, seen)
  end)

  it("without a word makes COMM_FAILURE COMPLETED_MAYBE for all who wait, and nothing is sent again", function()
    local seen = 0
    local server <close> = peer.serve(function(c, n)
      if n > 1 then return peer.echo(c) end
      for _ = 1, 3 do
        c:request()
        seen = seen + 1
      end
      c:close()
    end)
    local broker <close>, hello = echo_of(server.ref)
    local list = {}
    for i = 1, 3 do list[i] = hello._async:say("n" .. i) end
    for i = 1, 3 do
      local ok, e = list[i]:wait(LIMIT)
      assert.is_false(ok)
      assert.equal("COMM_FAILURE COMPLETED_MAYBE", orb.exception.is_system(e) .. " " .. e.completed)
    end
    assert.equal(3, seen)
    assert.equal("again", hello:say("again"))          -- a call of its own, on a new connection
    assert.equal(2, server.accepted)
  end)

  it("in the middle of a reply makes COMM_FAILURE", function()
    local server <close> = peer.serve(function(c)
      local q = c:request()
      c:write(core.reply(2, true, q.id, 0, nil, peer.string(("x"):rep(1000))):sub(1, 500))
      c:close()
    end)
    local broker <close>, hello = echo_of(server.ref)
    assert.equal("COMM_FAILURE 0 COMPLETED_MAYBE", (raised(hello.say, hello, "x")))
  end)

  it("while nothing is asked is noticed before the next call, with CloseConnection or without", function()
    for _, properly in ipairs { true, false } do
      local closed = channel.new(1)
      local server <close> = peer.serve(function(c, n)
        if n > 1 then return peer.echo(c) end
        local q = c:request()
        c:reply(q, q.body)
        if properly then c:bye() end
        c:close()
        closed:send(true)
      end)
      local broker <close>, hello = echo_of(server.ref)
      assert.equal("a", hello:say("a"))
      closed:receive()
      calling.link(broker, server).used = 0        -- as if long ago
      assert.equal("b", hello:say("b"))
      assert.equal(2, server.accepted)
    end
  end)
end)

describe("a server that lies", function()
  local function answered(bytes_of, expected, more)
    local server <close> = peer.serve(function(c, n)
      if n > 1 then return peer.echo(c) end
      local q = c:request()
      c:write(bytes_of(q))
      peer.echo(c)
    end)
    local broker <close>, hello = echo_of(server.ref, more)
    assert.equal(expected, (raised(hello.say, hello, "x")))
    assert.equal("y", hello:say("y"))
  end

  it("with bytes that are no GIOP loses its connection", function()
    answered(function() return "HTTP/1.1 400 Bad Request\r\n\r\n" end, "COMM_FAILURE 0 COMPLETED_MAYBE")
  end)

  it("with a MessageError loses its connection", function()
    answered(function() return core.error(2, true) end, "COMM_FAILURE 0 COMPLETED_MAYBE")
  end)

  it("with a request loses its connection", function()
    answered(function() return core.request(2, true, 3, "key", "say", nil, 1, peer.string("x")) end, "COMM_FAILURE 0 COMPLETED_MAYBE")
  end)

  it("with a reply that is too large gets MARSHAL, and its connection ends", function()
    answered(function(q) return core.reply(2, true, q.id, 0, nil, ("x"):rep(5000)) end, "MARSHAL 0 COMPLETED_MAYBE", { ORBgiopMaxMsgSize = 4096 })
  end)

  it("with a length beyond the end gets MARSHAL, and the connection stays", function()
    local server <close> = peer.serve(function(c)
      local q = c:request()
      c:reply(q, string.pack("<I4", 1000) .. "short")
      peer.echo(c)
    end)
    local broker <close>, hello = echo_of(server.ref)
    assert.matches("^MARSHAL %d+ COMPLETED_YES", (raised(hello.say, hello, "x")))
    assert.equal("y", hello:say("y"))
    assert.equal(1, server.accepted)
  end)

  it("with an unknown status gets MARSHAL", function()
    local server <close> = peer.serve(function(c)
      local q = c:request()
      c:reply(q, "", 77)
      peer.echo(c)
    end)
    local broker <close>, hello = echo_of(server.ref)
    local ok, e = pcall(hello.say, hello, "x")
    assert.is_false(ok)
    assert.is_truthy(orb.exception.is_system(e))
  end)
end)

describe("a request", function()
  it("beyond giopMaxMsgSize is MARSHAL before a byte is sent", function()
    local server <close> = peer.serve(peer.echo)
    local broker <close>, hello = echo_of(server.ref, { ORBgiopMaxMsgSize = 4096 })
    assert.equal("MARSHAL 0 COMPLETED_NO", (raised(hello.say, hello, ("x"):rep(5000))))
    assert.equal("y", hello:say("y"))
  end)

  it("of a oneway operation wants no reply and doesn't wait", function()
    local got = channel.new(1)
    local server <close> = peer.serve(function(c)
      local q = c:request()
      got:send({ q.response, q.operation, q.body })
      peer.echo(c)
    end)
    local broker <close>, hello = echo_of(server.ref)
    assert.same(pack(), pack(hello:note("text")))
    assert.same({ 0, "note", peer.string("text") }, got:receive())
    assert.equal("y", hello:say("y"))
  end)

  it("of an operation with a context carries it behind its arguments, empty where none is given", function()
    local body
    local server <close> = peer.serve(function(c)
      for _ = 1, 2 do
        local q = c:request()
        body = q.body
        c:reply(q, q.body)
      end
    end)
    local broker <close> = client()
    broker:load "interface Old { string say(in string who) context (\"LANG\", \"X*\"); };"
    local old = broker:proxy(server.ref, "Old")
    assert.equal("abc", old:say("abc"))
    assert.equal(string.pack("<!4s4I4", "abc\0", 0), body)
    assert.equal("abc", old:say("abc", { LANG = "de", SHELL = "sh" }))
    assert.equal(string.pack("<!4s4I4s4s4", "abc\0", 2, "LANG\0", "de\0"), body)
  end)

  it("of many megabytes arrives while others are answered", function()
    local server <close> = peer.serve(peer.echo)
    local broker <close>, hello = echo_of(server.ref)
    local big = ("0123456789abcdef"):rep(1 << 17)
    local f = hello._async:bytes(big)
    assert.equal("small", hello:say("small"))
    assert.is_true(select(2, f:wait(LIMIT)) == big)
    assert.equal(1, server.accepted)
  end)
end)
