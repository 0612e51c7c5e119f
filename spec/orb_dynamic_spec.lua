-- Requests and servants made at run time (CORBA's DII and DSI), where no IDL was loaded.
local mare = require "mare"
local orb = require "mare.orb"
local proc = require "spec.support.proc"

local IDL = [[
  module M {
    struct Point { long x; };
    exception Bad { long code; };
    interface Calc {
      long add(in long a, inout long b, out string text);
      Point move(in Point p, in long by);
      void fail(in long code) raises (Bad);
      oneway void note(in long n);
      void slow();
      readonly attribute string name;
    };
  };
]]
local LONG = { kind = "long" }
local POINT = { kind = "struct", id = "IDL:M/Point:1.0", name = "Point", members = { { name = "x", type = LONG } } }
local CIRCLE = { kind = "alias", id = "IDL:Circle:1.0", name = "Circle" }
CIRCLE.type = CIRCLE
local BAD = { kind = "except", id = "IDL:M/Bad:1.0", name = "Bad", members = { { name = "code", type = LONG } } }
local ADD = { "long", { "long", mode = "inout", name = "b" }, { "string", mode = "out" }, result = "long" }

-- f(client, server); nobody knows IDL but the server, which shows none.
local function with_brokers(f)
  local server, client = orb.init { host = "127.0.0.1", repository = false, log = function() end }, orb.init()
  local results = table.pack(pcall(f, client, server))
  client:close()
  server:shutdown(5)
  if not results[1] then error(results[2], 0) end
end

-- f(object, noted: what `note` was told, gate that `slow` waits for)
local function with_calc(f)
  with_brokers(function(client, server)
    server:load(IDL)
    local noted, gate = mare.channel.new(10), mare.channel.new()
    local servant = { name = "calc" }
    function servant.add(_, a, b) return a + b, b * 2, "text" end
    function servant.move(_, p, by) return { x = p.x + by } end
    function servant.fail(_, code) error(server.types.M.Bad { code = code }, 0) end
    function servant.note(_, n) noted:send(n) end
    function servant.slow() gate:receive() end
    f(client:proxy(tostring(server:serve(servant, "M::Calc"))), noted, gate, client)
  end)
end

local function raised(name, f, ...)
  local fine, err = pcall(f, ...)
  assert.is_false(fine)
  assert.equal(name, orb.exception.is_system(err) or type(err) == "table" and err._repid, tostring(err))
  return err
end

describe("a request that is made at run time", function()
  it("has the types that it says, and is sent as often as wanted", function()
    with_calc(function(object)
      local add = object:_request("add", ADD)
      for i = 1, 3 do assert.same({ i + 5, 10, "text" }, { add:invoke(i, 5) }) end
      assert.same({ x = 7 }, object:_request("move", { POINT, "long", result = POINT }):invoke({ x = 3 }, 4))
      assert.equal("calc", object:_request("_get_name", { result = "string" }):invoke())
      assert.is_true(object:_request("_is_a"):invoke("IDL:M/Calc:1.0"))
      local err = raised("BAD_PARAM", add.invoke, add, 1, "two")
      assert.matches("b: ", err.text)
    end)
  end)

  it("raises the exceptions it names, and UNKNOWN for others", function()
    with_calc(function(object)
      local fail = object:_request("fail", { "long", exceptions = { BAD } })
      assert.equal(9, raised("IDL:M/Bad:1.0", fail.invoke, fail, 9).code)
      fail = object:_request("fail", { "long" })
      raised("UNKNOWN", fail.invoke, fail, 9)
      fail = object:_request("nothing", {})
      raised("BAD_OPERATION", fail.invoke, fail)
    end)
  end)

  it("may be sent without waiting for its reply, or without one", function()
    with_calc(function(object, noted, gate)
      local slow, add = object:_request("slow", {}), object:_request("add", ADD)
      slow:send_deferred()
      add:send_deferred(1, 2)
      assert.same({ 3, 4, "text" }, { add:get_response() })
      assert.is_false(slow:poll_response())
      raised("BAD_INV_ORDER", slow.send_deferred, slow)
      gate:send(true)
      local deadline = mare.clock() + 30 * proc.slow
      while not slow:poll_response() and mare.clock() < deadline do mare.sleep(0.002) end
      assert.is_nil(slow:get_response())
      raised("BAD_INV_ORDER", slow.get_response, slow)
      raised("BAD_INV_ORDER", slow.poll_response, slow)
      object:_request("note", { "long" }):send_oneway(7)
      assert.equal(7, (noted:receive(30 * proc.slow)))
      local fail = object:_request("fail", { "long", exceptions = { BAD } }):send_deferred(4)
      assert.equal(4, raised("IDL:M/Bad:1.0", fail.get_response, fail).code)
    end)
  end)

  it("takes what IDL says where there is some, and is told what is wrong", function()
    with_calc(function(object, _, _, client)
      assert.has_error(function() object:_request("add") end)
      for text, signature in pairs {
        ["parameter 1: 'lung' is no type"] = { "lung" }, ["there is no field 'results'"] = { results = "long" },
        ["the mode is in, out or inout, not 'up'"] = { { "long", mode = "up" } }, ["'X' is no exception"] = { exceptions = { "X" } },
        ["there is no field 'type'"] = { { type = "long" } }, ["parameter 1 is missing"] = { nil, "long" },
        ["'exceptions' is a list"] = { exceptions = 5 },
        ["_request: bad type: its 'members' is a nil"] = { { kind = "struct" } }, ["contains itself"] = { CIRCLE },
      } do
        local fine, err = pcall(object._request, object, "add", signature)
        assert.is_false(fine)
        assert.truthy(err:find(text, 1, true), err)
      end
      client:load(IDL)
      assert.same({ 3, 4, "text" }, { client:proxy(object, "M::Calc"):_request("add"):invoke(1, 2) })
    end)
  end)
end)

describe("a servant of requests", function()
  it("serves an interface that no IDL was loaded of", function()
    with_brokers(function(client, server)
      local bytes = {}
      local function handler(request)
        if request.operation == "none" then return end
        if request.operation == "some" then return 5 end
        local who = request:arguments { "string", result = "string", exceptions = { BAD } }
        bytes[1], bytes[2], bytes[3] = request:bytes()
        if who == "bad" then error(orb.exception.user(BAD, { code = 3 }), 0) end
        return ("hello, %s, of %s"):format(who, request.key)
      end
      local own = server:serve(handler, "IDL:X/Hello:1.0", { dynamic = true, key = "hello" })
      local object = client:proxy(tostring(own))
      local say = { "string", result = "string", exceptions = { BAD } }
      assert.equal("hello, you, of hello", object:_request("say", say):invoke("you"))
      assert.same({ string.pack("<s4", "you\0"), true, 12 }, bytes)
      assert.equal("hello, me, of hello", own:_request("say", say):invoke("me"))              -- within the process
      local bad = object:_request("say", say)
      assert.equal(3, raised("IDL:M/Bad:1.0", bad.invoke, bad, "bad").code)
      assert.is_nil(object:_request("none", {}):invoke())
      local some = object:_request("some", { result = "long" })
      raised("BAD_OPERATION", some.invoke, some)
      assert.is_true(object:_is_a("IDL:X/Hello:1.0"))
      assert.is_false(object:_is_a("IDL:X/Other:1.0"))
      assert.is_false(object:_non_existent())
      local short = object:_request("say", { result = "string" })
      raised("MARSHAL", short.invoke, short)
      object:_request("say", { "string" }):send_oneway("nobody")
      assert.equal("hello, you, of hello", object:_request("say", say):invoke("you"))
    end)
  end)

  it("can read the arguments as long as its handler runs, not in another request", function()
    with_brokers(function(client, server)
      local kept
      local own = server:serve(function(request)
        if request.operation == "keep" then kept = request return end
        local fine, err = pcall(kept.arguments, kept, { "string" })
        assert(not fine and tostring(err):find("the request is over", 1, true), err)
        error(orb.system("NO_PERMISSION"), 0)
      end, "IDL:X/Late:1.0", { dynamic = true })
      local object = client:proxy(tostring(own))
      object:_request("keep", { "string" }):invoke("text")
      local later = object:_request("later", {})
      raised("NO_PERMISSION", later.invoke, later)
    end)
  end)

  it("needs no signature where there is IDL", function()
    with_brokers(function(client, server)
      server:load(IDL)
      client:load(IDL)
      local own = server:serve(function(request)
        local def = request:definition()
        if request.operation == "add" then
          local a, b = request:arguments()
          return a + b, #def.params, request.id
        elseif request.operation == "fail" then
          error(server.types.M.Bad { code = request:arguments() }, 0)
        end
        return "name of " .. request.operation
      end, "M::Calc", { dynamic = true })
      local object = client:proxy(tostring(own))
      assert.same({ 3, 3, "IDL:M/Calc:1.0" }, { object:add(1, 2) })
      assert.same({ 3, 3, "IDL:M/Calc:1.0" }, { own:add(1, 2) })
      assert.equal("name of _get_name", object.name)
      assert.equal(8, raised("IDL:M/Bad:1.0", object.fail, object, 8).code)
      assert.has_error(function() server:serve({}, "M::Calc", { dynamic = true }) end)
      assert.has_error(function() server:serve(function() end, "M::Calc", { dynamic = true, processes = 2 }) end)
      assert.has_error(function() server:serve(function() end, "M::Unknown", { dynamic = true }) end)
    end)
  end)

  it("knows a signature again, until IDL says something else of its types", function()
    with_brokers(function(client, server)
      server:load "struct Size { long x; };"
      local own = server:serve(function(request)
        local given = { "long", { "Size", mode = "inout", name = "size" }, result = "string" }
        local n, size = request:arguments(given)
        return ("%d %s"):format(n, size.x), size
      end, "IDL:Sized:1.0", { dynamic = true })
      local object = client:proxy(tostring(own))
      local function sized(T, x)
        local size = { kind = "struct", id = "IDL:Size:1.0", name = "Size", members = { { name = "x", type = { kind = T, bound = 0 } } } }
        return object:_request("sized", { "long", { size, mode = "inout" }, result = "string" }):invoke(7, { x = x })
      end
      for i = 1, 2 do assert.same({ "7 " .. i, { x = i } }, { sized("long", i) }) end
      server:load("struct Size { string x; };", { replace = true })
      assert.same({ "7 text", { x = "text" } }, { sized("string", "text") })
    end)
  end)

  it("keeps a bounded number of signatures, and none that is wrong", function()
    local signature = require "mare.orb.signature"
    local broker, kept = orb.init(), signature.kept_none()
    local function of(given) return signature.kept(kept, broker, "op", given) end
    local first = of { "long", { "string", mode = "out" }, result = "long" }
    assert.equal(first, of { "long", { "string", mode = "out" }, result = "long" })
    for _, other in ipairs { { "long", "string", result = "long" }, { "long", { "string", mode = "inout" }, result = "long" }, { "long" },
                             { "long", { "string", mode = "out" } }, { "long", { "string", mode = "out" }, result = "long", oneway = true } } do
      assert.not_equal(first, of(other))
    end
    for _ = 1, 2 do
      for _, wrong in ipairs { { "long", mode = "in" }, { "longer" }, { { "long", mode = "both" } }, { result = 1 }, { "long", nil, "long" } } do
        assert.has_error(function() of(wrong) end)
      end
    end
    for i = 1, 600 do of { ("sequence<long, %d>"):format(i) } end
    assert.is_true(kept.n <= 256)
    assert.not_equal(first, of { "long", { "string", mode = "out" }, result = "long" })
    broker:close()
  end)
end)
