-- Values between brokers: classes by broker:factory, what they share, custom ones with streams, what goes wrong.
local orb = require "mare.orb"

local IDL = [[
  #include <orb.idl>
  module M {
    valuetype Point { public double x; private double y; };
    valuetype Deep : truncatable Point { public double z; };
    valuetype Node { public string name; public Node left; public Node right; };
    abstract interface Shown { string show(); };
    interface Window : Shown {};
    valuetype Poster supports Shown { public string words; };
    custom valuetype Log { public long n; };
    exception Bad { Point where; };
    interface Echo {
      Point a_point(in Point v);
      Node a_node(in Node v);
      any a_any(in any v);
      ValueBase base(in ValueBase v);
      Shown a_shown(in Shown v);
      Log a_log(in Log v);
      CORBA::StringValue text(in CORBA::StringValue v);
      void fail(in Point v) raises (Bad);
      long both(in Node a, in Node b);
      attribute Point where;
    };
  };
]]

local server, client, echo, servant
local function class(broker, name, methods)
  local c = methods or {}
  c.__index = c
  broker:factory("M::" .. name, c)
  return c
end

describe("values", function()
  before_each(function()
    server, client = orb.init { host = "127.0.0.1", log = function() end }, orb.init { timeout = 20 }
    server:load(IDL)
    client:load(IDL)
    local function same(_, v) return v end
    servant = { a_point = same, a_node = same, a_any = same, base = same, a_shown = same, a_log = same, text = same }
    function servant.fail(_, v) error(server.types.M.Bad { where = v }, 0) end
    function servant.both(_, a, b) return rawequal(a, b) and 1 or 0 end
    echo = client:proxy(tostring(server:serve(servant, "M::Echo")))
  end)
  after_each(function()
    client:close()
    server:shutdown(true)
  end)

  it("are tables, and objects of the class that was registered for their type", function()
    local p = echo:a_point { x = 1, y = 2 }
    assert.same({ 1.0, 2.0 }, { p.x, p.y })
    local Point = class(client, "Point")
    function Point:sum() return self.x + self.y end
    p = echo:a_point(setmetatable({ x = 1, y = 2 }, Point))
    assert.equal(3.0, p:sum())
    assert.is_nil(echo:a_point(nil))
    echo.where = p
    assert.equal(3.0, echo.where:sum())
    echo.where = nil
    assert.is_nil(echo.where)
    local good, e = pcall(echo.fail, echo, p)
    assert.is_false(good)
    assert.equal(3.0, e.where:sum())
    client:factory("M::Point", nil)
    assert.is_nil(getmetatable(echo:a_point { x = 1, y = 2 }))
  end)

  it("share and point in circles as they did", function()
    local a = { name = "a" }
    a.left, a.right = a, { name = "b", left = a }
    local r = echo:a_node(a)
    assert.is_true(r.left == r and r.right.left == r and r.right.right == nil)
    assert.equal(1, echo:both(a, a))
    assert.equal(0, echo:both(a, a.right))
  end)

  it("of a derived type keep that, with a class or with _repid", function()
    local Deep = class(client, "Deep")
    local r = echo:a_point(setmetatable({ x = 1, y = 2, z = 3 }, Deep))          -- the server has no class for it
    assert.equal(Deep, getmetatable(r))
    assert.equal(3.0, r.z)
    assert.equal(3.0, echo:base(r).z)
    r = echo:a_any(r)
    assert.same({ "IDL:M/Deep:1.0", 3.0 }, { r._anytype.id, r._anyval.z })
    client:factory("M::Deep", nil)
    r = echo:a_point { _repid = "IDL:M/Deep:1.0", x = 1, y = 2, z = 3 }
    assert.same({ _repid = "IDL:M/Deep:1.0", x = 1.0, y = 2.0, z = 3.0 }, r)
  end)

  it("are cut down where their type is not known, if they allow it", function()
    local small <close> = orb.init {}
    small:load((IDL:gsub("valuetype Deep.-\n", "")))
    local view = small:proxy(tostring(echo), "M::Echo")
    echo.where = { _repid = "IDL:M/Deep:1.0", x = 1, y = 2, z = 3 }
    assert.same({ x = 1.0, y = 2.0 }, view.where)
    local good, e = pcall(view.base, view, { _repid = "IDL:M/Deep:1.0" })
    assert.is_false(good)
    assert.equal("CORBA::BAD_PARAM (COMPLETED_NO): M::Echo::base: v._repid: no valuetype with the id 'IDL:M/Deep:1.0' was loaded", tostring(e))
  end)

  it("are abstract interfaces, which objects are, too", function()
    local Poster = class(client, "Poster", { show = function(self) return self.words end })
    class(server, "Poster")
    local p = echo:a_shown(setmetatable({ words = "hello" }, Poster))
    assert.equal("hello", p:show())
    local window = server:serve({ show = function() return "window" end }, "M::Window")
    function servant.a_shown() return window end
    assert.equal("window", echo:a_shown(nil):show())
    function servant.a_shown() return nil end
    assert.is_nil(echo:a_shown(p))
  end)

  it("are boxes, which are what they hold", function()
    assert.equal("abc", echo:text "abc")
    assert.is_nil(echo:text(nil))
    assert.same({ _repid = "IDL:omg.org/CORBA/StringValue:1.0", _value = "abc" },
      echo:base { _repid = "IDL:omg.org/CORBA/StringValue:1.0", _value = "abc" })
  end)

  it("that are custom write and read themselves", function()
    local methods = {}
    function methods:write(out)
      out:write_long(self.n)
      out:write_string "text"
      out:write_boolean(true)
      out:write_octet_array "\1\2\3"
      out:write_double_array { 0.5, 1.5 }
      out:write_double_array {}
      out:write("M::Node", self.node)
      out:write_value(self.node)
      out:write_value(nil, "M::Node")
      out:write_any(5)
      out:write_object(nil)
      out:write_abstract(nil)
      out:write_TypeCode(client.types.M.Node)
    end
    function methods:read(input)
      self.n = input:read_long()
      self.all = { input:read_string(), input:read_boolean(), input:read_octet_array(3), input:read_double_array(2), input:read_double_array(0) }
      self.node, self.again = input:read "M::Node", input:read_value()
      assert(input:read_value "M::Node" == nil)
      self.any = input:read_any()._anyval
      assert(input:read_object() == nil and input:read_abstract() == nil)
      self.type = input:read_TypeCode().kind
    end
    local Log, write, read = class(client, "Log", methods), methods.write, methods.read
    class(server, "Log", { write = write, read = read })
    class(server, "Node")
    local node = setmetatable({ name = "x" }, class(client, "Node"))
    node.left = node
    local r = echo:a_log(setmetatable({ n = 7, node = node }, Log))
    assert.same({ "text", true, "\1\2\3", { 0.5, 1.5 }, {} }, r.all)
    assert.is_true(r.n == 7 and r.node.left == r.node and r.again == r.node and r.any == 5 and r.type == "value")

    local log = setmetatable({ n = 1, node = node }, Log)
    local function why() return tostring(select(2, pcall(echo.a_log, echo, log))) end
    function Log.write() error("it broke", 0) end
    assert.equal("CORBA::BAD_PARAM (COMPLETED_NO): M::Echo::a_log: v: 'write' of M::Log failed: it broke", why())
    function Log.write(_, out) out:write_long "x" end
    assert.equal("CORBA::BAD_PARAM (COMPLETED_NO): M::Echo::a_log: v[1]: long expected, got 'x'", why())
    Log.write = nil
    assert.equal("CORBA::BAD_PARAM (COMPLETED_NO): M::Echo::a_log: v: the class of M::Log has no method 'write', which a custom value needs", why())
    Log.write = write
    function Log.read() error("it broke", 0) end
    assert.is_truthy(why():find "^CORBA::MARSHAL %(COMPLETED_YES%): .*'read' of M::Log failed: it broke %(at byte %d+%)", why())
    local kept
    function Log.read(_, input)
      kept = input
      error({ "it broke" }, 0)             -- no text: it goes on as it is
    end
    why()
    collectgarbage()
    assert.equal(1, kept:read_long())                 -- the message is gone: what is read is a copy
    Log.read = nil
    assert.is_truthy(why():find("has no method 'read'", 1, true), why())
    function Log.read(_, input) input:read_double_array(1 << 20) end
    assert.is_truthy(why():find("MARSHAL", 1, true), why())
    Log.read = read
    assert.equal(7, echo:a_log(setmetatable({ n = 7, node = node }, Log)).n)      -- the connection is as it was
    client:factory("M::Log", nil)
    assert.equal("CORBA::BAD_PARAM (COMPLETED_NO): M::Echo::a_log: v: M::Log is custom: its class must be known, broker:factory(type, class)",
      tostring(select(2, pcall(echo.a_log, echo, { n = 1 }))))
  end)

  it("that a server can't read are named in its log, and to the client by their exception", function()
    local log = {}
    local other = orb.init { host = "127.0.0.1", log = function(level, text) log[#log + 1] = level .. " " .. text end }
    local idl = "custom valuetype Log { public long n; }; interface Zoo { void see(in ValueBase v); void keep(in Log v); };"
    other:load("#include <orb.idl>\n" .. idl)
    local there = orb.init { timeout = 20 }
    there:load("#include <orb.idl>\n" .. idl .. " valuetype Horse { public long legs; };")
    local Log = { write = function(_, out) out:write_long(1) end }
    Log.__index = Log
    there:factory("Log", Log)
    local theirs = { read = function(_, input) input:read_double_array(2) end }
    theirs.__index = theirs
    other:factory("Log", theirs)
    local zoo = there:proxy(tostring(other:serve({ see = print, keep = print }, "Zoo")))
    assert.error_matches(function() zoo:see { legs = 4, _repid = "IDL:Horse:1.0" } end, "MARSHAL %(OMG minor 1, COMPLETED_NO")
    assert.matches("^1 operation 'see' of an object IDL:Zoo:1.0: its arguments can't be read: " ..
      ".*a value of type 'IDL:Horse:1.0', which is not known: load its IDL %(at byte %d+%)", log[1])
    assert.error_matches(function() zoo:keep(setmetatable({}, Log)) end, "MARSHAL")
    assert.matches("^2 operation 'keep' of an object IDL:Zoo:1.0: its arguments can't be read: .*%(at byte %d+%)", log[2])
    there:close()
    other:shutdown(true)
  end)

  it("are read from texts and shown in them, each once", function()
    local text = require "mare.orb.text"
    local T = client.types.M.Node
    local v = text.read(client, T, "{ name = 'a', left = { name = 'b' }, _repid = 'IDL:M/Node:1.0' }")
    v.right = v
    assert.equal([[{ _repid = "IDL:M/Node:1.0", name = "a", left = { name = "b", left = nil, right = nil }, right = <shown above> }]],
      (text.show(T, v):gsub("%s+", " ")))
    assert.equal('{"x":1,"y":2}', text.json(client.types.M.Point, { x = 1, y = 2 }))
    assert.equal('"abc"', text.show(client:type "CORBA::StringValue", "abc"))
    assert.equal("abc", text.read(client, client:type "CORBA::StringValue", "'abc'"))
  end)

  it("know their classes by broker:factory, which refuses what can't be one", function()
    local function why(...) return (select(2, pcall(client.factory, client, ...)):gsub("^%S+:%d+: ", "")) end
    assert.equal("no valuetype 'M::Piont' was loaded; did you mean 'M::Point'?", why("M::Piont", {}))
    assert.equal("'M::Echo' is of kind interface, not a valuetype", why("M::Echo", {}))
    assert.equal("factory takes a class, the metatable of its values, not a function", why("M::Point", print))
    local c = class(client, "Point")
    assert.equal("this class is that of 'M::Point' already: 'M::Deep' needs one of its own", why("M::Deep", c))
    client:factory(client.types.M.Point, c)
    client:factory("IDL:M/Point:1.0", { __index = {} })
    client:factory("M::Deep", c)                       -- it is Point's no longer
    client:load "abstract valuetype Abs {};"
    assert.equal("'Abs' is abstract: there are no values of it", why("Abs", {}))
  end)
end)
