-- Forwards, addressing modes and exceptions in replies; the server does what the test says: spec/support/peer.lua.
-- luacheck: ignore 211/broker   (they are kept to be closed)
local orb = require "mare.orb"
local ior = require "mare.orb.giop.ior"
local core = require "mare.orb.giop.core"
local calling = require "spec.support.calling"
local peer = require "spec.support.peer"
local raised = calling.raised

local IDL = [[
  module Spec {
    exception Refused { string why; long code; };
    interface Base { void nothing(); };
    interface Echo : Base {
      string say(in string who);
      void refuse() raises (Refused);
      Base next();
      attribute string name;
    };
  };
]]

local function client(options) return calling.broker(IDL, calling.limited(options)) end
local function echo_of(ref, options) return calling.proxy(IDL, "Spec::Echo", ref, calling.limited(options)) end

-- Answers every request with a forward to the reference in place[1].
local function forwards(place, status)
  return function(c)
    for q in function() return c:request() end do c:reply(q, place[1], status or 3) end
  end
end

describe("a forward", function()
  it("is followed, and remembered", function()
    local place, asked = {}, 0
    local there <close> = peer.serve(peer.echo)
    place[1] = peer.reference({ { "127.0.0.1", there.port } }, "other")
    local here <close> = peer.serve(function(c)
      for q in function() return c:request() end do
        asked = asked + 1
        c:reply(q, place[1], 3)
      end
    end)
    local broker <close>, hello = echo_of(here.ref)
    for i = 1, 3 do assert.equal("x" .. i, hello:say("x" .. i)) end
    assert.equal(1, asked)
    assert.equal("corbaloc", here.ref:sub(1, 8))
    assert.equal(broker:object_to_string(broker:proxy(here.ref)), tostring(hello))      -- the reference stays what it was
  end)

  it("is forgotten when its address doesn't answer any more, unless it is permanent", function()
    for _, status in ipairs { 3, 4 } do
      local place, asked = {}, 0
      local here <close> = peer.serve(function(c)
        for q in function() return c:request() end do
          asked = asked + 1
          if asked == 1 then c:reply(q, place[1], status) else c:reply(q, q.body) end
        end
      end)
      local broker <close>, hello = echo_of(here.ref)
      do
        local there <close> = peer.serve(peer.echo)
        place[1] = peer.reference({ { "127.0.0.1", there.port } })
        assert.equal("x", hello:say("x"))
      end
      hello:_with {}                                                                    -- the other server is gone now
      if status == 3 then
        pcall(hello.say, hello, "y")                                                    -- this one may be lost with it
        assert.equal("z", hello:say("z"))
        assert.is_true(asked >= 2)
      else
        pcall(hello.say, hello, "y")
        assert.equal("TRANSIENT 2 COMPLETED_NO", (raised(hello.say, hello, "z")))
        assert.equal(1, asked)
      end
    end
  end)

  it("in a circle ends after eight", function()
    local place, asked = {}, 0
    local a <close> = peer.serve(function(c)
      for q in function() return c:request() end do
        asked = asked + 1
        c:reply(q, place[1], 3)
      end
    end)
    place[1] = peer.reference({ { "127.0.0.1", a.port } })
    local broker <close>, hello = echo_of(a.ref)
    local what, e = raised(hello.say, hello, "x")
    assert.equal("TRANSIENT 0 COMPLETED_NO", what)
    assert.matches("forwarded more than 8 times", tostring(e))
    assert.equal(9, asked)
  end)

  it("to nil or to nonsense is an error", function()
    local place = { ior.null:sub(5) }
    local a <close> = peer.serve(forwards(place))
    local broker <close>, hello = echo_of(a.ref)
    assert.equal("INV_OBJREF 0 COMPLETED_NO", (raised(hello.say, hello, "x")))
    place[1] = "\1\2"
    assert.matches("^MARSHAL", (raised(hello.say, hello, "x")))
  end)
end)

describe("NEEDS_ADDRESSING_MODE", function()
  it("gets the profile, or the whole reference", function()
    for mode = 1, 2 do
      local seen = {}
      local server <close> = peer.serve(function(c)
        local q = c:request()
        c:reply(q, string.pack("<i2", mode), 5)
        for m in function() return c:request() end do
          seen[#seen + 1] = { m.operation, peer.text(m.body), select(10, core.parse(m.message)) }
          c:reply(m, m.body)
        end
      end)
      local broker <close> = client()
      local _, ref = peer.reference({ { "127.0.0.1", server.port } }, "the key", { id = "IDL:Spec/Echo:1.0" })
      local hello = broker:proxy(ref)
      assert.equal("x", hello:say("x"))
      assert.equal("longer text", hello:say("longer text"))
      local canonical = assert(ior.destring(ref))
      local profile = ior.parse(canonical).profiles[1]
      for i, text in ipairs { "x", "longer text" } do
        assert.same({ "say", text }, { seen[i][1], seen[i][2] })
        local target = seen[i][3]
        if mode == 1 then assert.same({ tag = 0, data = profile.data }, target)
        else assert.same({ index = 1, ior = canonical }, target) end
      end
    end
  end)
end)

describe("an exception in a reply", function()
  local function answering(body, status)
    return peer.serve(function(c)
      for q in function() return c:request() end do c:reply(q, body, status) end
    end)
  end

  it("of the operation is an object with its members", function()
    local body = string.pack("<!4s4s4i4", "IDL:Spec/Refused:1.0\0", "no reason\0", -7)
    local server <close> = answering(body, 1)
    local broker <close>, hello = echo_of(server.ref)
    local ok, e = pcall(hello.refuse, hello)
    assert.is_false(ok)
    assert.same({ "IDL:Spec/Refused:1.0", "no reason", -7 }, { e._repid, e.why, e.code })
    assert.equal('Spec::Refused: code = -7, why = "no reason"', tostring(e))
    assert.is_true(orb.exception.is(e, broker.types.Spec.Refused.id))
  end)

  it("that the operation doesn't declare is UNKNOWN minor 1", function()
    local server <close> = answering(peer.string("IDL:Other/Thing:1.0"), 1)
    local broker <close>, hello = echo_of(server.ref)
    local what, e = raised(hello.refuse, hello)
    assert.equal("UNKNOWN 1 COMPLETED_YES", what)
    assert.matches("IDL:Other/Thing:1.0", tostring(e))
  end)

  it("of the system keeps minor code and completion", function()
    for completed, word in pairs { [0] = "COMPLETED_YES", "COMPLETED_NO", "COMPLETED_MAYBE" } do
      local server <close> = answering(peer.system("NO_RESOURCES", 0x41540003, completed), 2)
      local broker <close>, hello = echo_of(server.ref)
      local what, e = raised(hello.say, hello, "x")
      assert.equal("NO_RESOURCES 3 " .. word, what)
      assert.matches(("^CORBA::NO_RESOURCES %%(omniORB minor 3, %s%%): Spec::Echo::say at 127.0.0.1:%%d+$"):format(word), tostring(e))
      assert.equal(0x41540003, e.minor)
    end
  end)

  it("that is cut off is MARSHAL", function()
    local server <close> = answering(peer.system("NO_RESOURCES", 1, 1):sub(1, -6), 2)
    local broker <close>, hello = echo_of(server.ref)
    assert.matches("^MARSHAL", (raised(hello.say, hello, "x")))
  end)
end)

describe("the interface of a reference", function()
  local function asked(answer, log)
    return peer.serve(function(c)
      for q in function() return c:request() end do
        log[#log + 1] = q.operation
        if q.operation == "_is_a" then
          log[#log] = log[#log] .. " " .. peer.text(q.body)
          c:reply(q, answer)
        else c:reply(q, q.body) end
      end
    end)
  end

  it("is asked for once where the type id doesn't tell it", function()
    local log = {}
    local server <close> = asked("\1", log)
    local broker <close>, hello = echo_of(server.ref, { ORBverifyObjectExistsAndType = 1 })
    assert.same({}, log)
    for _ = 1, 2 do assert.equal("x", hello:say("x")) end
    assert.equal("x", hello:_with { timeout = peer.LIMIT }:say("x"))
    assert.same({ "_is_a IDL:Spec/Echo:1.0", "say", "say", "say" }, log)
    assert.is_true(hello:_is_a("Spec::Echo"))
    assert.is_true(hello:_is_a("CORBA::Object"))
    assert.equal(4, #log)
  end)

  it("that it hasn't is INV_OBJREF", function()
    local server <close> = asked("\0", {})
    local broker <close>, hello = echo_of(server.ref, { ORBverifyObjectExistsAndType = 1 })
    local what, e = raised(hello.say, hello, "x")
    assert.equal("INV_OBJREF 0 COMPLETED_NO", what)
    assert.matches("the object is no 'Spec::Echo'", tostring(e))
  end)

  it("costs nothing where the type id tells it, also of a base", function()
    local log = {}
    local server <close> = asked("\0", log)
    local broker <close> = client { ORBverifyObjectExistsAndType = 1 }
    local _, ref = peer.reference({ { "127.0.0.1", server.port } }, "key", { id = "IDL:Spec/Echo:1.0" })
    assert.equal("x", broker:proxy(ref):say("x"))
    assert.equal("x", broker:proxy(ref, "Spec::Base"):say("x"))         -- the reference tells more
    assert.equal("x", broker:proxy(ref, "Spec::Echo"):say("x"))
    assert.same({ "say", "say", "say" }, log)
  end)
end)
