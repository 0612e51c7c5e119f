-- References to the broker's own objects: what they are in an any, which servant is behind them, what is left of them when the broker is closed;
-- and what the types of a broker tell.
local mare = require "mare"
local orb = require "mare.orb"
local proc = require "spec.support.proc"

local OMG = 0x4f4d0000
local IDL = [[
  module Here {
    enum Colour { red, green };
    interface Base { string name(); };
    interface Derived : Base {
      const long kind = 7;
      typedef sequence<long> Longs;
      readonly attribute string id;
      any echo(in any value);
      void wait_for();
    };
    interface Other { any give(); Object plain(); };
    abstract interface Shape { long area(); };
  };
]]

local function make(text)
  local broker = orb.init { host = "127.0.0.1", log = function() end }
  broker:load(text or IDL)
  return broker
end

local function with_broker(f, ...)
  local broker = make()
  local results = table.pack(pcall(f, broker, ...))
  broker:shutdown(10 * proc.slow)
  if not results[1] then error(results[2], 0) end
end

local function ended(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, "it raised nothing")
  assert.same({ "IDL:omg.org/CORBA/BAD_INV_ORDER:1.0", OMG | 4, "COMPLETED_NO" }, { e._repid, e.minor, e.completed }, tostring(e))
end

local function servant() return { name = function() return "me" end, echo = function(_, v) return v end, id = "x" } end

-- What a value is in an any, by way of the wire.
local function typed(broker, value)
  local program = broker.env:program { broker:type "any" }
  return program:decode(program:encode(29, value), 1, 29)
end

describe("a reference in an any", function()
  it("is typed by its most derived known interface", function()
    with_broker(function(server)
      local p = server:serve(servant(), "Here::Derived")
      local client = make()
      for _, seen in ipairs { client:proxy(tostring(p)), client:proxy(tostring(p), "Here::Base"), client:proxy(tostring(p), "Object"),
                              client:proxy(tostring(p)):_narrow "Here::Base" } do
        local any = typed(client, seen)
        assert.same({ "interface", "IDL:Here/Derived:1.0", "Derived" }, { any._anytype.kind, any._anytype.id, any._anytype.name })
        assert.equal("me", any._anyval:name())
      end
      client:close()
    end)
  end)

  it("is of the interface it is used through where its type id is a base of that, or unknown", function()
    with_broker(function(server)
      local text = tostring(server:serve(servant(), "Here::Derived"))
      local ior = require "mare.orb.giop.ior"
      local client = make "module Here { interface Base { string name(); }; interface Mine : Base {}; interface Alone {}; };"
      assert.equal("IDL:omg.org/CORBA/Object:1.0", typed(client, client:proxy(text))._anytype.id)
      assert.equal("IDL:Here/Alone:1.0", typed(client, client:proxy(text, "Here::Alone"))._anytype.id)
      local as_base = ior.iiop { type_id = "IDL:Here/Base:1.0", addresses = { { "127.0.0.1", 9 } }, key = "k", minor = 2 }
      local mine = client:proxy(ior.stringify(as_base)):_unchecked_narrow "Here::Mine"
      assert.equal("IDL:Here/Mine:1.0", typed(client, mine)._anytype.id)
      client:close()
    end)
  end)

  it("may be a servant that is an object already; another table still needs a type", function()
    with_broker(function(broker)
      local s = servant()
      assert.is_truthy(select(2, pcall(typed, broker, s)).text:find "_anytype and _anyval, as this table needs a type")
      broker:serve(s, "Here::Derived")
      local any = typed(broker, s)
      assert.equal("IDL:Here/Derived:1.0", any._anytype.id)
      assert.equal("me", any._anyval:name())
      local f = function() return "from a function" end
      assert.is_truthy(select(2, pcall(typed, broker, f)).text:find "plain value expected, got function")
      broker:serve(f, "Here::Base")
      assert.equal("IDL:Here/Base:1.0", typed(broker, f)._anytype.id)
    end)
  end)

  it("keeps its type when it is sent on, alone and in lists", function()
    with_broker(function(server)
      local p = server:serve(servant(), "Here::Derived")
      local client = make()
      local seen = client:proxy(tostring(p))
      local back = seen:echo(typed(client, seen))
      assert.equal("IDL:Here/Derived:1.0", back._anytype.id)
      local list = seen:echo { _anytype = client:type "sequence<any>", _anyval = { seen, 1, seen } }
      assert.equal("IDL:Here/Derived:1.0", list._anyval[3]._anytype.id)
      client:close()
    end)
  end)

  it("of an abstract interface is an object, as abstract ones are marshalled otherwise", function()
    with_broker(function(broker)
      local p = broker:serve({ area = function() return 1 end }, "Here::Shape")
      assert.equal("IDL:omg.org/CORBA/Object:1.0", typed(broker, p)._anytype.id)
    end)
  end)

  it("may come from another process, which says what it is when it is used", function()
    with_broker(function(broker)
      local p = broker:serve(servant(), "Here::Derived")
      local stranger = setmetatable({ _ior = rawget(p, "_ior"), _type = rawget(p, "_type") }, getmetatable(p))
      assert.equal("IDL:Here/Derived:1.0", typed(broker, stranger)._anytype.id)
    end)
  end)
end)

describe("a broker gives the servant", function()
  it("behind a reference to its own object, however that was got", function()
    with_broker(function(broker)
      local s, f = servant(), function() end
      local p, q = broker:serve(s, "Here::Derived"), broker:serve(f, "Here::Base", { key = "named" })
      assert.is_true(broker:servant(p) == s)
      assert.is_true(broker:servant(tostring(p)) == s)
      assert.is_true(broker:servant(p:_narrow "Here::Base") == s)
      assert.is_true(broker:servant(s) == s)
      assert.is_true(broker:servant(q) == f)
      assert.is_true(broker:servant(("corbaloc::%s/named"):format(broker:address())) == f)
    end)
  end)

  it("and for others nil and why", function()
    with_broker(function(server)
      local p = server:serve(servant(), "Here::Derived")
      local client = make()
      assert.same({ nil, "this broker serves no objects" }, { client:servant(tostring(p)) })
      client:serve(servant(), "Here::Base")
      assert.same({ nil, "the object is served elsewhere" }, { client:servant(tostring(p)) })
      server:deactivate(p)
      assert.same({ nil, "there is no such object" }, { server:servant(p) })
      assert.same({ nil, "there is no such object" }, { server:servant("corbaloc::" .. server:address() .. "/nobody") })
      local any = servant()
      server:default(any, "Here::Base")
      assert.is_true(server:servant("corbaloc::" .. server:address() .. "/nobody") == any)
      assert.same({ nil, "there is no such object" }, { server:servant(p) })
      server:forward("moved", "corbaloc::127.0.0.1:9/there")
      assert.same({ nil, "the object is served elsewhere" }, { server:servant("corbaloc::" .. server:address() .. "/moved") })
      for _, wrong in ipairs { 5, {}, "what" } do
        local ok, e = pcall(server.servant, server, wrong)
        assert.is_true(not ok and e._repid == "IDL:omg.org/CORBA/BAD_PARAM:1.0")
      end
      client:shutdown(true)
    end)
  end)
end)

describe("a proxy of a proxy", function()
  it("is used through the same interface", function()
    with_broker(function(server)
      local p = server:serve(servant(), "Here::Derived")
      local unknown = make "module Here { interface Base { string name(); }; };"
      local narrowed = unknown:proxy(tostring(p)):_narrow "Here::Base"
      assert.equal("Here::Base", narrowed:_interface_name())
      assert.equal("Here::Base", unknown:proxy(narrowed):_interface_name())
      assert.equal("me", unknown:proxy(narrowed):name())
      assert.equal("CORBA::Object", unknown:proxy(narrowed, "Object"):_interface_name())
      assert.equal("Here::Derived", server:proxy(narrowed):_interface_name())
      assert.equal("Here::Base", unknown:proxy(unknown:proxy(p)):_narrow("Here::Base"):_interface_name())
      unknown:close()
    end)
  end)
end)

describe("when the broker is closed", function()
  local function check(close)
    local broker = make()
    local s = servant()
    s.wait_for = function() mare.sleep(0.2) end
    local p = broker:serve(s, "Here::Derived")
    assert.equal("me", p:name())
    local wide = p:_narrow "Here::Base"
    local address = broker:address()
    close(broker)
    for _, ref in ipairs { p, wide, p } do
      ended(ref.name, ref)
      ended(ref._narrow, ref, "Here::Base")
      ended(ref._is_a, ref, "Here::Base")
      ended(ref._is_a, ref, "Object")
      ended(ref._with, ref, { timeout = 1 })
      ended(ref._non_existent, ref)
    end
    ended(function() return p.id end)
    local fine, e = p._async:name():wait()
    assert.same({ false, "IDL:omg.org/CORBA/BAD_INV_ORDER:1.0" }, { fine, e._repid })
    assert.is_truthy(tostring(p):find "^IOR:")
    assert.is_true(p:_is_equivalent(wide))
    for name, args in pairs { load = { "" }, loadfile = { "x.idl" }, type = { "long" }, interface = { "Object" }, proxy = { tostring(p) },
                              string_to_object = { tostring(p) }, object_to_string = { p }, resolve_initial_references = { "X" },
                              register_initial_reference = { "X", "corbaloc::a/b" }, list_initial_services = {}, servant = { p },
                              serve = { {}, "Here::Base" }, deactivate = { p }, forward = { "a", "corbaloc::" .. address .. "/b" }, objects = {},
                              default = {}, locator = { print }, current = {}, address = {} } do
      ended(broker[name], broker, table.unpack(args))
    end
    broker:close()
    broker:shutdown()
    broker:shutdown(true)
    assert.equal("broker (closed)", tostring(broker))
  end

  it("calls through local proxies raise BAD_INV_ORDER, and so does all else of it", function() check(function(broker) broker:close() end) end)
  it("by shutdown(true), too", function() check(function(broker) broker:shutdown(true) end) end)

  it("a call that is in its servant goes on to its result; a future begun later raises", function()
    local broker = make()
    local entered, go = false, mare.channel.new()
    local p = broker:serve({ name = function() entered = true go:receive() return "done" end }, "Here::Base")
    local running = p._async:name()
    while not entered do mare.sleep(0.001) end
    broker:close()
    local ok, e = p._async:name():wait()
    go:send(1)
    assert.same({ false, "IDL:omg.org/CORBA/BAD_INV_ORDER:1.0" }, { ok, e._repid })
    assert.same({ true, "done" }, { running:wait() })
  end)
end)

describe("what a broker's types tell", function()
  it("of modules and interfaces is kind, id and the rest, where IDL has no such name", function()
    with_broker(function(broker)
      local M = broker.types.Here
      assert.same({ "module", "Here", "IDL:Here:1.0" }, { M.kind, M.name, M.id })
      assert.same({ "interface", "IDL:Here/Base:1.0", "Here::Base" }, { M.Base.kind, M.Base.id, M.Base.scoped })
      assert.equal(0, #M.Base.bases)
      assert.is_nil(M.Base.abstract)
      assert.is_true(M.Shape.abstract)
      assert.equal(7, M.Derived.kind)
      assert.equal("sequence", M.Derived.Longs.type.kind)
      assert.equal("enum", M.Colour.kind)
      local ok, e = pcall(function() return M.Base.nothing end)
      assert.is_true(not ok and e:find("there is no 'Here::Base::nothing'", 1, true) ~= nil)
      ok, e = pcall(function() return broker.types.kind end)
      assert.is_true(not ok and e:find("there is no 'kind'", 1, true) ~= nil)
    end)
  end)

  it("serves wherever a definition does", function()
    with_broker(function(broker)
      local M = broker.types.Here
      local p = broker:serve(servant(), M.Base)
      assert.equal("Here::Base", p:_interface_name())
      assert.equal("Here::Base", broker:proxy(tostring(p), M.Base):_interface_name())
      assert.is_true(p:_is_a(M.Base))
      assert.equal("Here::Base", p:_narrow(M.Base):_interface_name())
      assert.equal("IDL:Here/Base:1.0", typed(broker, { _anytype = M.Base, _anyval = p })._anytype.id)
      local ok, e = pcall(broker.serve, broker, servant(), M)
      assert.is_true(not ok and e._repid == "IDL:omg.org/CORBA/BAD_PARAM:1.0")
    end)
  end)
end)
