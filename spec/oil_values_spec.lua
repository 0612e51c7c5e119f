-- OiL's values: what the program may give, and what it gets; IDL by constructors; encoders and decoders.
-- needs: plain
local oil = require "oil"
local idl = require "oil.corba.idl"
local server = require "spec.support.oil.server"

local IDL = [[
  struct Point { long x; long y; };
  typedef sequence<Point> Points;
  typedef sequence<octet> Bytes;
  union Choice switch (short) { case 1: string one; case 2: long two; case 3: double three; };
  enum Colour { red, green };
  valuetype Base { public string name; };
  valuetype Derived : Base { public long more; };
  interface Echo {
    any a(in any v);            long l(in long v);         boolean b(in boolean v);  Points p(in Points v);
    Choice u(in Choice v);      Colour c(in Colour v);     Base v(in Base v);        CORBA::TypeCode t(in CORBA::TypeCode v);
    Bytes o(in Bytes v);        void outs(in long v, out string s, inout double d);
    string kind(in any v);
  };
]]

local function echo_server(_, orb, text)
  orb:loadidl(text)
  local echo = { __type = "Echo" }
  for name in ("albpucvto"):gmatch "." do echo[name] = function(_, v) return v end end
  function echo.outs(_, v, d) return "got " .. v, d * 2 end
  function echo.kind(_, v) return v._anytype._type end
  return orb:newservant(echo)
end

local function with_echo(f)
  local reference <close> = server(echo_server, IDL)
  oil.main(function()
    local orb = oil.init {}
    orb:loadidl(IDL)
    local fine, err = xpcall(f, debug.traceback, orb:newproxy(reference.text, nil, "Echo"), orb)
    orb:shutdown()
    if not fine then error(err, 0) end
  end)
end

describe("OiL's values", function()
  it("are what programs of OiL give: floats for integers, anything for booleans, numbers of labels", function()
    with_echo(function(echo)
      assert.same({ 22, -22 }, { echo:l(22.7), echo:l(-22.7) })
      assert.same({ true, false, true }, { echo:b "yes", echo:b(nil), echo:b(0) })
      assert.same({ "green", "red" }, { echo:c(1), echo:c "red" })
      assert.equal("AB", echo:o { 65, "B" })
      assert.same({ "got 7", 3.0 }, { echo:outs(7, 1.5) })
      assert.same({ n = 1, { x = 1, y = 2 } }, echo:p { { x = 1.9, y = 2 } })
    end)
  end)
  it("of unions are written in six ways, and have their member's name", function()
    with_echo(function(echo)
      for _, v in ipairs { { _switch = 2, _value = 5 }, { _switch = 2, two = 5 }, { _field = "two", _value = 5 }, { _field = "two", two = 5 },
                           { two = 5 } } do
        local got = echo:u(v)
        assert.same({ 2, "two", 5, 5 }, { got._switch, got._field, got._value, got.two })
      end
      assert.equal(9, echo:u { _switch = 9 }._switch)
    end)
  end)
  it("in anys are doubles if they are plain numbers, and themselves if they are tables", function()
    with_echo(function(echo)
      assert.same({ "double", "string", "boolean", "null" }, { echo:kind(3), echo:kind "x", echo:kind(true), echo:kind(nil) })
      assert.equal("long", echo:kind { _anytype = idl.long, _anyval = 3 })
      assert.equal("long", echo:kind(setmetatable({ _anyval = 4 }, idl.long)))
      local P = idl.struct { repID = "IDL:P:1.0", name = "P", { name = "x", type = idl.double } }
      local got = echo:a(setmetatable({ x = 1.5 }, P))
      assert.same({ 1.5, 1.5, "IDL:P:1.0", "struct" }, { got.x, got._anyval.x, got._anytype.repID, got._anytype._type })
      assert.equal("struct", echo:kind(setmetatable({}, { __index = { x = 2 }, __type = P })))
      got = echo:a(setmetatable({ 1, "two" }, idl.sequence { idl.any }))
      assert.same({ 1.0, "two", 2 }, { got[1]._anyval, got[2]._anyval, got.n })
      assert.equal("sequence", echo:t(idl.sequence { idl.string, maxlength = 3 })._type)
    end)
  end)
  it("of valuetypes say their type, and go through their factory", function()
    with_echo(function(echo, orb)
      local Derived = orb.types:lookup "Derived"
      orb.valuefactories["IDL:Derived:1.0"] = function(v) v.greet = function(self) return "I am " .. self.name end end
      local got = echo:v { __type = Derived, name = "Ada", more = 3 }
      assert.same({ "I am Ada", 3 }, { got:greet(), got.more })
      got = echo:v(setmetatable({ name = "B", more = 1 }, { __type = Derived }))
      assert.equal(1, got.more)
      assert.is_nil(echo:v(nil))
      assert.equal("plain", echo:v({ name = "plain" }).name)
    end)
  end)
end)

describe("OiL's IDL", function()
  it("is made by constructors, too, and served", function()
    local function made(_, orb)
      local types = require "oil.corba.idl"
      local iface = types.interface { repID = "IDL:Made/Counter:1.0", name = "Counter", definitions = {
        count = types.attribute { types.long, readonly = true },
        add = types.operation { parameters = { { type = types.long, name = "n" }, { type = types.long, name = "more", mode = "PARAM_INOUT" } },
                                result = types.long },
      } }
      orb:getLIR()
      orb.types:register(iface)
      return orb:newservant({ count = 7, add = function(_, n, more) return n + more, -more end }, nil, iface)
    end
    local reference <close> = server(made)
    oil.main(function()
      local orb = oil.init {}
      local counter = orb:newproxy(reference.text)
      assert.same({ 7, 5, -3 }, { counter:_get_count(), counter:add(2, 3) })
      orb:shutdown()
    end)
  end)
  it("has OiL's names for what it defines", function()
    oil.main(function()
      local orb = oil.init {}
      local M, S = orb:loadidl "module M { interface I { readonly attribute long n; oneway void go(in string s); }; }; struct S { long a; };"
      local I = M.definitions.I
      assert.same({ "module", "interface", "IDL:M/I:1.0", "::M::I" }, { M._type, I._type, I.repID, I.absolute_name })
      local n, go = I.definitions.n, I.definitions.go
      assert.same({ "attribute", true, "operation", true }, { n._type, n.readonly, go._type, go.oneway })
      assert.same({ "s", "PARAM_IN", idl.string }, { go.parameters[1].name, go.parameters[1].mode, go.inputs[1] })
      assert.equal(I, go.defined_in)
      assert.same({ "a", idl.long }, { S.fields[1].name, S[1].type })
      assert.equal(I, orb.types:lookup "::M::I")
      assert.equal(I, orb.types:resolve "IDL:M/I:1.0")
      assert.is_nil((orb.types:resolve "M::None"))
      assert.is_true(I:is_a "IDL:omg.org/CORBA/Object:1.0")
      assert.has_error(function() orb:loadidl "interface {" end)
      assert.has_error(function() idl.struct { { name = "x" } } end)
      orb:shutdown()
    end)
  end)
  it("comes from the repository of setIR", function()
    local function repository(_, orb)
      orb:loadidl "module Far { struct Place { long n; }; interface Away { Place where(); }; };"
      return orb:getLIR()
    end
    local reference <close> = server(repository)
    oil.main(function()
      local orb = oil.init {}
      orb:setIR(orb:newproxy(reference.text))
      assert.equal("IDL:Far/Away:1.0", orb.types:resolve("Far::Away").repID)
      assert.equal("struct", orb.types:resolve("IDL:Far/Place:1.0")._type)
      assert.is_nil((orb.types:resolve "Far::Nowhere"))
      assert.is_true(orb:getIR() ~= nil)
      orb:shutdown()
    end)
  end)
end)

describe("OiL's encoders", function()
  it("make encapsulations that its decoders, and others, read", function()
    oil.main(function()
      local orb = oil.init {}
      local T = orb:loadidl "struct Auth { string user; long level; sequence<double> marks; };"
      local encoder = orb:newencoder()
      encoder:put({ user = "ada", level = 3.9, marks = { 1.5 } }, T)
      encoder:put(true, idl.boolean)
      local data = encoder:getdata()
      assert.equal("\1\0\0\0\4\0\0\0ada\0\3\0\0\0", data:sub(1, 16))
      local decoder = orb:newdecoder(data)
      local auth = decoder:get(T)
      assert.same({ "ada", 3, 1.5, 1 }, { auth.user, auth.level, auth.marks[1], auth.marks.n })
      assert.is_true(decoder:get(idl.boolean))
      assert.has_error(function() decoder:get(T) end)
      assert.has_error(function() encoder:put("x", idl.long) end)
      assert.equal(7, orb:newdecoder("\0\0\0\0\0\0\0\7"):get(idl.long))
      orb:shutdown()
    end)
  end)
end)
