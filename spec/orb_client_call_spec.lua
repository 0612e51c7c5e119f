-- mare call: one call from the command line, and values as text. The server is a broker in this process; the program is bin/mare.
-- needs: plain
local orb = require "mare.orb"
local text = require "mare.orb.text"
local peer = require "spec.support.peer"
local proc = require "spec.support.proc"
local subprocess = require "mare.subprocess"
local temporary = require "spec.support.temporary"

local IDL = [[
module Calc {
  enum Color { RED, GREEN };
  struct Point { long x; double y; };
  typedef sequence<Point> Path;
  typedef sequence<octet> Bytes;
  union Shape switch (Color) { case RED: long side; default: Point center; };
  exception DivisionByZero { string why; long value; };
  interface Adder {
    readonly attribute long calls;
    attribute string name;
    long add(in long a, in long b);
    long div(in long a, in long b) raises (DivisionByZero);
    Path move(in Path p, in Point by, out string note);
    string echo(in string s);
    Color colour(in Color c);
    any anything(in any a);
    Shape figure(in Shape s);
    Bytes octets(in Bytes b);
    unsigned long long big(in unsigned long long n);
    fixed<10,2> money(in fixed<10,2> f);
    Adder same(in Adder a);
    void nothing();
  };
};
]]

local server, idl, ref
setup(function()
  idl = temporary() .. ".idl"
  local file <close> = assert(io.open(idl, "w"))
  file:write(IDL)
  server = orb.init { host = "127.0.0.1" }
  server:load(IDL)
  local function same(_, v) return v end
  ref = tostring(server:serve({
    calls = 3, name = "first",
    add = function(_, a, b) return a + b end,
    div = function(_, a, b)
      if b == 0 then error(server.types.Calc.DivisionByZero { why = "zero", value = a }) end
      return a // b
    end,
    move = function(_, p, by)
      for _, q in ipairs(p) do q.x, q.y = q.x + by.x, q.y + by.y end
      return p, "moved " .. #p
    end,
    echo = same, colour = same, anything = same, figure = same, octets = same, big = same, money = same, same = same, nothing = same,
  }, "Calc::Adder", { key = "adder" }))
end)
teardown(function()
  os.remove(idl)
  os.remove((idl:gsub("%.idl$", "")))
  server:shutdown(peer.LIMIT)
end)

-- Runs mare call while this process serves: what it wrote, and its exit code.
local function call(...)
  local command = { proc.bin, "call", ... }
  command.timeout, command.stderr = 30, "pipe"
  local r = assert(subprocess.run(command))
  return r.out, r.code, (r.err:gsub("MARE_CHAOS=%d+\n", ""))
end

local function prints(expected, ...)
  local out, code, err = call("--idl", idl, ref, ...)
  assert.same({ expected, 0, "" }, { out, code, err })
end

local function fails(code, pattern, ...)
  local out, got, err = call(...)
  assert.equal("", out)
  assert.equal(code, got, err)
  assert.matches(pattern, err)
end

describe("mare call", function()
  it("prints what an operation gives, arguments by their types", function()
    prints("5\n", "add", "2", "3")
    prints('say "it"\n', "echo", 'say "it"')
    prints("RED\n", "colour", "RED")
    prints("12.50\n", "money", "12.5")
    prints("18446744073709551615\n", "big", "18446744073709551615")
    prints("", "nothing")
    prints('result = { { x = 11, y = 2.5 }, { x = 13, y = 4 } }\nnote = "moved 2"\n',
           "move", '[{"x": 1, "y": 2.5}, {x = 3, y = 4}]', "{ x = 10, y = 0 }")
    prints("{ _switch = RED, side = 4 }\n", "figure", "{ side = 4 }")
    prints('{ _anytype = "ulonglong", _anyval = 18446744073709551615 }\n', "anything",
           '{ _anytype = "unsigned long long", _anyval = 18446744073709551615 }')
    prints('"\\x01\\xffA"\n', "octets", "{ 1, 255, 65 }")
    prints('{ _anytype = "Calc::Point", _anyval = { x = 1, y = 2 } }\n', "anything", '{ _anytype = "Calc::Point", _anyval = { x = 1, y = 2 } }')
    prints(ref .. "\n", "same", ref)
    prints("nil\n", "same", "nil")
  end)

  it("finds the broker's options anywhere, and behind -- none", function()
    prints("5\n", "add", "2", "-ORBcodeset", "UTF-8", "3")
    prints("x\n", "echo", "x", "-ORBcodeset", "UTF-8")
    assert.equal("-ORBcodeset\n", (call("--idl", idl, "--", ref, "echo", "-ORBcodeset")))
    fails(2, "option '%-ORBcodeset' needs a value", "--idl", idl, ref, "echo", "-ORBcodeset")
  end)

  it("reads and sets attributes, and asks what every object knows", function()
    prints("first\n", "name")
    prints("", "name", "second")
    prints("second\n", "_get_name")
    prints("false\n", "_non_existent")
    prints("true\n", "_is_a", "IDL:Calc/Adder:1.0")
    local out = call(ref, "_is_a", "IDL:Calc/Adder:1.0")
    assert.equal("true\n", out)
    assert.same({ "", 0, "" }, { call(ref, "_set_name", "Bob") })                       -- without IDL its server is asked, as for any operation
    assert.same({ "Bob\n", 0, "" }, { call(ref, "_get_name") })
    fails(2, "no operation or attribute '_get_nme'", ref, "_get_nme")
  end)

  it("prints JSON", function()
    local out = call("--json", "--idl=" .. idl, ref, "move", "[{x=1,y=2}]", "{x=1,y=1}")
    assert.equal('{"result":[{"x":2,"y":3}],"note":"moved 1"}\n', out)
    out = call("--json", "--idl", idl, ref, "echo", 'a"b\n')
    assert.equal('{"result":"a\\"b\\n"}\n', out)
    out = call("--json", "--idl", idl, ref, "nothing")
    assert.equal("{}\n", out)
  end)

  it("prints an exception as JSON, with its members, and as a text to stderr", function()
    assert.same({ '{"exception":{"_repid":"IDL:Calc/DivisionByZero:1.0","why":"zero","value":1}}\n', 1,
                  'mare call: Calc::DivisionByZero: value = 1, why = "zero"\n' }, { call("--json", "--idl", idl, ref, "div", "1", "0") })
    for _, how in ipairs { { "--json", "--idl", idl }, { "--json" } } do            -- without IDL the server is asked for it, in vain
      table.move({ ("corbaloc::127.0.0.1:%d/x"):format(peer.nobody()), "add", "1", "2" }, 1, 4, #how + 1, how)
      local out, code, err = call(table.unpack(how))
      assert.equal(1, code)
      assert.matches('^{"exception":{"_repid":"IDL:omg.org/CORBA/TRANSIENT:1.0","completed":"COMPLETED_NO","minor":1330446338,"text":"[^\n]+"}}\n$',
                     out)
      assert.matches("^mare call: CORBA::TRANSIENT", err)
    end
  end)

  it("takes the interface from the reference, the option, the only one in the IDL, or the object's server, and corbaloc", function()
    local loc = ("corbaloc:iiop:1.2@127.0.0.1:%d/adder"):format(server.server.opened[1].port)
    for _, args in ipairs { { ref }, { loc }, { "--interface", "Calc::Adder", loc } } do
      local out, code, err = call("--idl", idl, table.unpack(table.move({ "add", "1", "2" }, 1, 3, #args + 1, args)))
      assert.same({ "3\n", 0, "" }, { out, code, err })
    end
    assert.same({ "3\n", 0, "" }, { call(loc, "add", "1", "2") })
  end)

  it("keeps the bytes in a capture file", function()
    local path = temporary()
    local _, code = call("--pcap", path, "--idl", idl, ref, "add", "1", "2")
    assert.equal(0, code)
    local file <close> = assert(io.open(path, "rb"))
    local bytes = file:read("a")
    assert.equal(0xa1b2c3d4, (string.unpack("<I4", bytes)))
    assert.truthy(bytes:find("GIOP\1\2", 1, true) and bytes:find("add\0", 1, true))
    os.remove(path)
  end)

  it("ends with 1 when the call failed", function()
    fails(1, '^mare call: Calc::DivisionByZero: value = 1, why = "zero"\n$', "--idl", idl, ref, "div", "1", "0")
    fails(1, "TRANSIENT", "--idl", idl, ("corbaloc::127.0.0.1:%d/x"):format(peer.nobody()), "add", "1", "2")
    local silent <close> = peer.serve(function(c) c:message() c:message() end)
    fails(1, "TIMEOUT", "--timeout", "0.05", "--idl", idl, silent.ref, "add", "1", "2")
  end)

  it("ends with 2 for a mistake, and names it", function()
    fails(2, "no reference\nusage: mare call", "--json")
    fails(2, "no operation", ref)
    fails(2, "unrecognized option '%-%-jsn'", "--jsn", ref, "add")
    fails(2, "option '%-%-idl' needs a value", "--idl")
    fails(2, "%-%-timeout takes a number of seconds, not 'soon'", "--timeout", "soon", ref, "x")
    fails(2, "add takes 2 arguments %(long a, long b%), got 1", "--idl", idl, ref, "add", "1")
    fails(2, "b: long expected, got 'x'", "--idl", idl, ref, "add", "1", "x")
    fails(2, "argument 1, Calc::Path p: at character 2: a value expected, got the end", "--idl", idl, ref, "move", "{", "{x=1,y=1}")
    fails(2, "argument 2, Calc::Point by: Point has no member 'z'", "--idl", idl, ref, "move", "{}", "{x=1,y=1,z=1}")
    fails(2, "no operation or attribute 'ad'; did you mean 'add'", "--idl", idl, ref, "ad", "1", "2")
    fails(2, "attribute 'calls' is readonly", "--idl", idl, ref, "calls", "4")
    fails(2, "^mare call: orb.init: pcap: /no/such/x: ", "--pcap", "/no/such/x", "--idl", idl, ref, "add", "1", "2")
    fails(2, "s: one member of union", "--idl", idl, ref, "figure", "{ side = 4, center = { x = 1, y = 2 } }")
    fails(2, "is no reference", "--idl", idl, "adder", "add", "1", "2")
    fails(2, "no%-such.idl", "--idl", "/tmp/no-such.idl", ref, "add", "1", "2")
    fails(2, "there is no option '%-ORBtracelevel'; did you mean '%-ORBtraceLevel'", "-ORBtracelevel", "1", ref, "x")
    local out, code = call("--help")
    assert.matches("^  mare call %-%-idl hello.idl", out)
    assert.equal(0, code)
  end)
end)

describe("a literal", function()
  local function read(T, s) return text.read(server, server:type(T), s) end

  it("nests as far as values do: a tree of 5,000 nodes is shown, on one line far inside, and read", function()
    server:load "module Deep { struct Node; typedef sequence<Node> Nodes; struct Node { long v; Nodes next; }; };"
    local node = server:type "Deep::Node"
    local t = { v = 5000, next = {} }
    for i = 4999, 1, -1 do t = { v = i, next = { t } } end
    local shown, json = text.show(node, t), text.json(node, t)
    assert.is_true(#shown < 100 * 5000 and #json < 30 * 5000)
    for _, s in ipairs { shown, json } do
      local back, n = text.read(server, node, s), 0
      while back do
        n = n + 1
        assert(back.v == n)
        back = back.next[1]
      end
      assert.equal(5000, n)
    end
  end)

  it("is JSON or a table of literals, never code", function()
    server:load "module Lit { struct S { sequence<long> a; string b; sequence<string> c; any d; }; typedef sequence<Object> Objects; };"
    assert.same({ a = { 1, -2, 0x1f }, b = "x\n\"é", c = { "y", "z" }, d = 1.5 },
                read("Lit::S", [[ { "a" : [1, -2, 0x1f], b = "x\n\"\u00e9", ["c"] = { 'y'; "z", }, d: 1.5 } ]]))
    assert.same({ _anytype = server:type("sequence<short>"), _anyval = { 1 } }, read("any", "{ _anytype = 'sequence<short>', _anyval = {1} }"))
    assert.same({ nil, nil, n = 2 }, read("Lit::Objects", "{ nil, nil }"))
    assert.equal("[1]", read("string", "[1]"))
    for s, message in pairs { ["{ 1, 2"] = "',' or '}' expected, got the end", ["{ os.exit() }"] = "at character 5: ',' or '}' expected, got \".exit",
                              ["{ 'x }"] = "the end of the string", ["{} {}"] = "the end expected, got \"{}\"" } do
      local value, err = read("sequence<string>", s)
      assert.is_nil(value)
      assert.truthy(err:find(message, 1, true), err)
    end
    assert.matches("at character 10001: nesting of at most 10000 levels expected", select(2, read("any", ("{"):rep(10001))))
  end)
end)
