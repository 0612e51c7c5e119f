-- Proxies: what a remote object is to a program. The server is a second broker of the same process, reached over the network.
local mare = require "mare"
local orb = require "mare.orb"
local ior = require "mare.orb.giop.ior"
local peer = require "spec.support.peer"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"
local LIMIT = peer.LIMIT

local IDL = [[
  module Spec {
    const long MAX = 42;
    const string NAME = "spec";
    enum Color { RED, GREEN };
    struct Point { long x; long y; };
    typedef sequence<Point> Path;
    exception Refused { string why; };
    interface Base {
      const short SMALL = 7;
      string who();
    };
    interface Echo : Base {
      string say(in string who);
      Point move(in Point p, in long by, out long distance, inout string label);
      Path all(in Path p);
      Color other(in Color c);
      void refuse(in string why) raises (Refused);
      any anything(in any a);
      Base one(in Base b);
      Object other_object(in Object o);
      oneway void note(in string text);
      void end(in long n);
      attribute string name;
      readonly attribute long count;
    };
    interface Other { void nothing(); };
  };
]]

local function servant(broker, notes)
  return {
    name = "first", count = 3,
    who = function() return "echo" end,
    say = function(_, who) return "hello, " .. who end,
    move = function(_, p, by, label) return { x = p.x + by, y = p.y + by }, 2 * by, label .. "!" end,
    all = function(_, p) return p end,
    other = function(_, c) return c == "RED" and "GREEN" or "RED" end,
    refuse = function(_, why) error(broker.types.Spec.Refused { why = why }) end,
    anything = function(_, a) return a end,
    one = function(_, b) return b end,
    other_object = function(_, o) return o end,
    note = function(_, text) notes:send(text) end,
    ["end"] = function(_, n) notes:send(n) end,
  }
end

local server, client, notes, port
local references = {}
setup(function()
  notes = mare.channel.new(10)
  server = orb.init { host = "127.0.0.1" }
  server:load(IDL)
  references.echo = tostring(server:serve(servant(server, notes), "Spec::Echo", { key = "echo" }))
  references.base = tostring(server:serve({ who = function() return "base" end }, "Spec::Base", { key = "base" }))
  port = server.server.opened[1].port
  client = orb.init { timeout = LIMIT }
  client:load(IDL)
end)
teardown(function()
  client:close()
  server:shutdown(LIMIT)
end)

local function echo(key) return client:proxy(("corbaloc:iiop:1.2@127.0.0.1:%d/%s"):format(port, key or "echo"), "Spec::Echo") end
local function reference(key) return references[key] end

local function fails(text, f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(text, tostring(e))
  return e
end

describe("a proxy", function()
  it("has the operations of its interface and those of its bases", function()
    local o = echo()
    assert.equal("hello, world", o:say("world"))
    assert.equal("echo", o:who())
    assert.same({ { x = 11, y = 12 }, 20, "text!" }, { o:move({ x = 1, y = 2 }, 10, "text") })
    assert.same({ { x = 1, y = 2 }, { x = 3, y = 4 } }, o:all { { x = 1, y = 2 }, { x = 3, y = 4 } })
    assert.same({}, o:all {})
    assert.equal("GREEN", o:other("RED"))
    assert.equal("GREEN", o:other(client.types.Spec.RED))
    assert.equal(0, select("#", o:note("a note")))
    assert.equal("a note", notes:receive(LIMIT))
  end)

  it("reads and sets attributes as fields, and by _get_ and _set_", function()
    local o = echo()
    assert.equal("first", o.name)
    o.name = "second"
    assert.equal("second", o:_get_name())
    o:_set_name("first")
    assert.equal("first", o.name)
    assert.equal(3, o.count)
    fails("spec/orb_client_spec.lua:%d+: attribute 'count' is readonly", function() o.count = 1 end)
    fails("interface 'Spec::Echo' has no attribute 'cuont'; did you mean 'count'%?", function() o.cuont = 1 end)
    fails("has no attribute 'say'", function() o.say = print end)
  end)

  it("calls an operation that is a Lua keyword with an underscore", function()
    echo():_end(7)
    assert.equal(7, notes:receive(LIMIT))
    echo()["end"](echo(), 8)
    assert.equal(8, notes:receive(LIMIT))
  end)

  it("raises an unknown name where it stands, with names that are near", function()
    local o = echo()
    fails("spec/orb_client_spec.lua:%d+: interface 'Spec::Echo' has no operation or attribute 'sey'; did you mean 'say'%?", function() o:sey("x") end)
    fails("has no operation or attribute 'xyzzy'$", function() o:xyzzy() end)
    fails("did you mean '_narrow'", function() o:_narow("x") end)
    fails("has no operation or attribute '1'", function() return o[1] end)
    fails("with a colon", function() o.say("world") end)
  end)

  it("raises BAD_PARAM with the path of a wrong argument", function()
    local o = echo()
    local e = fails("^CORBA::BAD_PARAM %(.*COMPLETED_NO%): Spec::Echo::move: p%.y: ", o.move, o, { x = 1 }, 1, "x")
    assert.equal("BAD_PARAM", orb.exception.is_system(e))
    fails("p%[2%]%.x: ", o.all, o, { { x = 1, y = 2 }, { x = "one", y = 2 } })
    fails("who: string expected, got nil", o.say, o)
  end)

  it("raises what the operation raises", function()
    local o = echo()
    local e = fails('^Spec::Refused: why = "because"$', o.refuse, o, "because")
    assert.equal(client.types.Spec.Refused.id, e._repid)
    assert.equal("because", e.why)
  end)

  it("of an object that is not there raises OBJECT_NOT_EXIST, and _non_existent is true", function()
    local o = echo("nobody")
    fails("^CORBA::OBJECT_NOT_EXIST", o.say, o, "x")
    assert.is_true(o:_non_existent())
    assert.is_true(o:_not_existent())
    assert.is_false(echo():_non_existent())
  end)

  it("is asked for its interface", function()
    local o = echo()
    assert.is_true(o:_interface():_is_a("IDL:omg.org/CORBA/InterfaceDef:1.0"))
    assert.equal("Spec::Echo", o:_interface_name())
  end)
end)

describe("references", function()
  it("come from IOR:, corbaloc:, file:// and other proxies", function()
    local path = temporary()
    local text = reference("echo")
    local file <close> = assert(io.open(path, "w"))
    file:write(text, "\n")
    file:close()
    for _, ref in ipairs { text, "  " .. text .. "\n", ("corbaloc::127.0.0.1:%d/echo"):format(port), "file://" .. path, echo() } do
      assert.equal("hello, x", client:proxy(ref, "Spec::Echo"):say("x"))
      assert.equal("hello, x", client:string_to_object(ref):_narrow("Spec::Echo"):say("x"))
    end
    os.remove(path)
  end)

  it("that are wrong raise BAD_PARAM with the reason", function()
    fails("OMG minor 7.*'localhost' is no reference: it begins with IOR:, corbaloc:, corbaname: or file://", client.proxy, client, "localhost")
    fails("OMG minor 9.*at character", client.proxy, client, "corbaloc::host:port/x")
    fails("OMG minor 9.*No such file", client.proxy, client, "file:///no/such/file")
    fails("OMG minor 10.*digits", client.proxy, client, "IOR:0")
    fails("OMG minor 10.*hexadecimal", client.proxy, client, "IOR:zz")
    fails("not a number", client.proxy, client, 12)
    fails("no interface 'Spec::Ecko' was loaded; did you mean 'Spec::Echo'", client.proxy, client, reference("echo"), "Spec::Ecko")
    fails("'Spec::Point' is a struct, not an interface", client.proxy, client, reference("echo"), "Spec::Point")
  end)

  it("are nil when they are nil", function()
    local null = ior.stringify(ior.null)
    assert.is_nil(client:proxy(null))
    assert.is_nil(client:proxy(null, "Spec::Echo"))
    assert.equal(null, client:object_to_string(nil))
    assert.is_nil(echo():one(nil))
  end)

  it("are one proxy as long as somebody has it", function()
    local text = reference("echo")
    local o = client:proxy(text)
    assert.equal("Spec::Echo", o:_interface_name())
    assert.is_true(rawequal(o, client:proxy(text)))
    assert.is_true(rawequal(o, client:proxy(text, "Spec::Base")))
    assert.is_true(rawequal(o, echo():one(o)))
    assert.is_true(rawequal(o, echo():other_object(o)))
  end)

  it("come back byte for byte, also those of others", function()
    local strange = ior.stringify(ior.make { type_id = "IDL:Spec/Base:1.0", profiles = {
      { tag = 77, data = "what\0ever" }, { tag = 0, minor = 2, host = "elsewhere", port = 1, key = "\0\1", components = { { 1234, "data" } } } } })
    local o = client:proxy(strange)
    assert.equal(strange, tostring(o))
    assert.equal(strange, client:object_to_string(echo():other_object(o)))
    assert.equal(strange, client:object_to_string(echo():one(o)))
  end)

  it("are equal when their bytes are, and equivalent when they lead to one object", function()
    local a, b, c = echo(), client:proxy(reference("echo")), client:proxy(reference("base"))
    assert.is_true(a == echo() and a == a:_with { timeout = 1 })
    assert.is_false(a == b or a == c or a == "x")
    assert.is_true(a:_is_equivalent(b) and b:_is_equivalent(a))
    assert.is_false(a:_is_equivalent(c) or a:_is_equivalent(nil))
    assert.equal(a:_hash(), echo():_hash())
    assert.is_true(a:_hash(9) <= 9)
    assert.equal(tostring(a), a:_to_string())
  end)

  it("are narrowed", function()
    local object = client:proxy(("corbaloc:iiop:1.2@127.0.0.1:%d/echo"):format(port))
    assert.equal("CORBA::Object", object:_interface_name())
    assert.is_true(object:_is_a("Spec::Base") and object:_is_a("IDL:Spec/Echo:1.0") and object:_is_a("Object"))
    assert.is_false(object:_is_a("Spec::Other") or object:_is_a("IDL:Nobody/Knows:1.0"))
    assert.equal("hello, x", object:_narrow("Spec::Echo"):say("x"))
    assert.is_nil(object:_narrow("Spec::Other"))
    fails("has no operation or attribute 'say'", function() object:say("x") end)
    fails("BAD_OPERATION", function() object:_unchecked_narrow("Spec::Other"):nothing() end)
    assert.equal("base", client:proxy(reference("base")):_narrow("Spec::Base"):who())
    assert.is_nil(client:proxy(reference("base")):_narrow("Spec::Echo"))
  end)

  it("of the options are found by their names", function()
    local uri = ("corbaloc:iiop:1.2@127.0.0.1:%d/echo"):format(port)
    local default = ("corbaloc:iiop:1.2@127.0.0.1:%d"):format(port)
    local broker <close> = orb.init { args = { "-ORBInitRef", "Echo=" .. uri, "-ORBDefaultInitRef", default } }
    broker:load(IDL)
    assert.equal("hello, x", broker:resolve_initial_references("Echo", "Spec::Echo"):say("x"))
    assert.equal("base", broker:resolve_initial_references("base", "Spec::Base"):who())
    assert.equal("hello, y", broker:proxy("corbaloc:rir:/Echo", "Spec::Echo"):say("y"))
    broker:register_initial_reference("Mine", broker:proxy(uri))
    assert.same({ "Echo", "Mine", "POACurrent", "RootPOA", "omniINSPOA" }, broker:list_initial_services())
    local e = fails("^CORBA::ORB::InvalidName: name = \"Nobody\", remedy = ", client.resolve_initial_references, client, "Nobody")
    assert.equal("IDL:omg.org/CORBA/ORB/InvalidName:1.0", e._repid)
  end)
end)

describe("values of any", function()
  it("keep their type, and may be proxies", function()
    local o = echo()
    for _, value in ipairs { 1, 1 << 40, 1.5, "text", true } do assert.equal(value, o:anything(value)._anyval) end
    local point = { _anytype = client.types.Spec.Point, _anyval = { x = 1, y = 2 } }
    assert.same({ x = 1, y = 2 }, o:anything(point)._anyval)
    assert.equal("IDL:Spec/Point:1.0", o:anything(o:anything(point))._anytype.id)
    local got = o:anything { _anytype = client:type("Object"), _anyval = client:proxy(reference("base")) }
    assert.equal("base", got._anyval:_narrow("Spec::Base"):who())
  end)
end)

describe("a proxy in a channel", function()
  it("is its reference, and works where there is a broker", function()
    local requests, answers = mare.channel.new(1), mare.channel.new(1)
    local worker = mare.process.spawn(function(idl)
      local object = requests:receive()
      local ok, err = pcall(function() return object:say("x") end)
      answers:send(ok, tostring(err))
      local before = require "mare.orb".init()
      local broker <close> = require "mare.orb".init { timeout = 60 }
      before:close()                                     -- the first one that is open counts
      ok, err = pcall(function() return object:say("x") end)
      answers:send(ok, tostring(err))
      broker:load(idl)
      answers:send(object:say("from elsewhere"), object)
    end, IDL)
    local o = echo()
    requests:send(o)
    local ok, text = answers:receive(LIMIT)
    assert.is_false(ok)
    assert.matches("this process has no broker for the proxy it was sent: call orb.init first", text)
    ok, text = answers:receive(LIMIT)
    assert.is_false(ok)
    assert.matches("no interface 'IDL:Spec/Echo:1.0' was loaded", text)
    local hello, back = answers:receive(LIMIT)
    assert.equal("hello, from elsewhere", hello)
    assert.is_true(back == o)
    assert.equal("hello, again", back:say("again"))
    assert.is_true((worker:wait(LIMIT)))
  end)
end)

describe("a local object", function()
  it("is called directly through its reference, with the arguments themselves", function()
    local opened = server.transport.opened
    local o = server:proxy(reference("echo"), "Spec::Echo")
    local path = { { x = 1, y = 2 } }
    assert.is_true(rawequal(path, o:all(path)))
    assert.equal("hello, x", o:say("x"))
    assert.equal("first", o.name)
    assert.same({ true, "hello, y" }, { o._async:say("y"):wait(LIMIT) })
    fails('^Spec::Refused: why = "so"', o.refuse, o, "so")
    assert.equal(opened, server.transport.opened)
  end)
end)

describe("types", function()
  it("are found by their names", function()
    local types = client.types
    assert.equal(42, types.Spec.MAX)
    assert.equal("spec", types.Spec.NAME)
    assert.equal(7, types.Spec.Base.SMALL)
    assert.equal("GREEN", types.Spec.GREEN)
    assert.equal("enum", types.Spec.Color.kind)
    assert.equal("IDL:Spec/Point:1.0", types.Spec.Point.id)
    assert.equal("sequence", client:type("sequence<long>").kind)
    assert.equal("Echo", client:interface("Spec::Echo").name)
    fails("there is no 'Spec::MAXX' in the IDL that was loaded; did you mean 'MAX'", function() return types.Spec.MAXX end)
    fails("there is no 'Nothing'", function() return types.Nothing end)
    fails("can't be set", function() types.Spec.MAX = 1 end)
    fails("", client.type, client, "sequence<nothing>")
  end)

  it("that are wrong raise the mistakes with their places", function()
    fails("IDL:\nbad.idl:1:%d+: ", client.load, client, "interface X { strin say(); };", { name = "bad.idl" })
    fails("no%-such%-file.idl", client.loadfile, client, "/tmp/no-such-file.idl")
  end)
end)

describe("the example of the README", function()
  it("works as it stands, between two programs", function()
    local listener = assert(require "mare.net".listen("127.0.0.1:0"))
    local _, free = listener:address()
    listener:close()
    local example = [[
      local orb = require "mare.orb"
      local broker = orb.init{ port = 2809, args = arg }               -- -ORBInitRef, -ORBendPoint, -ORBendPointPublish … as omniORB spells them
      broker:load 'interface Hello { string say(in string who); };'  -- or broker:loadfile("hello.idl", { include = {…} })
      local ref = broker:serve({ say = function(self, who) return "hello, " .. who end }, "Hello", { key = "hello" })
      print(ref)                                                      -- IOR:…
    ]]
    local elsewhere = [[
      local hello = broker:proxy("corbaloc::localhost:2809/hello", "Hello")   -- IOR, corbaloc, file://
      print(hello:say("world"))
      print(hello:_with{ timeout = 1 }:say("world"))
      local f = hello._async:say("world"); print(f:wait(1))           -- futures are waitables
    ]]
    local function at(text) return (text:gsub("2809", tostring(free))) end
    local client_program = 'local broker = require "mare.orb".init() broker:load "interface Hello { string say(in string who); };"' .. elsewhere
    local script = at(example) .. "local client = " .. ("%q"):format(at(client_program)) .. [[
      require "mare".process.spawn(function() load(client)() end):wait()
      broker:shutdown()
    ]] .. "\n"
    for _, run in ipairs { proc.mare, proc.lua } do
      local r = run(script, {}, { timeout = 30 })
      assert.equal("", r.err)
      assert.matches("^IOR:%x+\nhello, world\nhello, world\ntrue\thello, world\n$", r.out)
      assert.equal(0, r.code)
    end
    -- In one program the same lines call the object directly.
    local r = proc.mare(at(example) .. at(elsewhere) .. "broker:shutdown()", {}, { timeout = 30 })
    assert.matches("^IOR:%x+\nhello, world\nhello, world\ntrue\thello, world\n$", r.out .. r.err)
  end)
end)
