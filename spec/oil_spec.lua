-- The module `oil`: OiL's proxies, futures, exceptions and servants. Values: oil_values_spec; threads: oil_threads_spec; interceptors:
-- oil_icept_spec.
local oil = require "oil"
local server = require "spec.support.oil.server"

local HELLO = [[
  module Spec {
    exception Refused { string why; };
    interface Hello {
      attribute boolean quiet;
      readonly attribute long count;
      string say(in string who);
      void fail(in string why) raises (Refused);
      void work(inout double seconds);
      Hello itself();
      boolean same(in Object other);
    };
  };
]]

local function hello_server(oil, orb, idl)                     -- luacheck: ignore oil
  orb:loadidl(idl)
  local hello = { count = 0, quiet = true, __type = "Spec::Hello" }
  function hello:say(who)
    self.count = self.count + 1
    return "hello, " .. who
  end
  function hello:fail(why)                                     -- luacheck: ignore self
    if why == "odd" then error "an error of Lua" end
    error(orb:newexcept { "Spec::Refused", why = why })
  end
  function hello:work(seconds)                                 -- luacheck: ignore self
    oil.sleep(seconds)
    return seconds
  end
  function hello:itself() return self end
  function hello:same(other) return other == self end
  orb:setonerror(function() end)
  return orb:newservant(hello, "hello")
end

-- f(orb, a proxy of the server) in OiL's main.
local function with_hello(f, config)
  local reference <close> = server(hello_server, HELLO)
  oil.main(function()
    local orb = oil.init(config or {})
    local fine, err = xpcall(f, debug.traceback, orb, reference.text)
    orb:shutdown()
    if not fine then error(err, 0) end
  end)
end

describe("OiL's proxies", function()
  it("need no IDL: the server tells the interface", function()
    with_hello(function(orb, text)
      local hello = orb:newproxy(text)
      assert.equal("hello, Ada", hello:say "Ada")
      assert.equal("IDL:Spec/Hello:1.0", hello.__type.repID)
      assert.equal("say", hello.__type.definitions.say.name)
      assert.equal(text, tostring(hello))
      assert.equal("IDL:Spec/Hello:1.0", hello.__reference.type_id)
    end)
  end)
  it("have attributes as methods, and nil for what they lack", function()
    with_hello(function(orb, text)
      local hello = orb:newproxy(text)
      hello:say "x"
      assert.equal(1, hello:_get_count())
      hello:_set_quiet(false)
      assert.is_false(hello:_get_quiet())
      assert.is_nil(hello.count)
      assert.is_nil(hello.no_such_operation)
      assert.is_true(hello:_is_a "IDL:Spec/Hello:1.0")
      assert.is_false(hello:_non_existent())
      assert.is_true(hello:_is_equivalent(orb:newproxy(text, "protected")))
      assert.is_nil(hello:_component())
    end)
  end)
  it("are synchronous, protected or asynchronous", function()
    with_hello(function(orb, text)
      local hello = orb:newproxy(text)
      local protected, asynchronous = orb:newproxy(hello, "protected"), orb:newproxy(hello, "asynchronous", "Spec::Hello")
      assert.same({ true, "hello, x" }, { protected:say "x" })
      local fine, e = protected:fail "no"
      assert.same({ false, "IDL:Spec/Refused:1.0", "no" }, { fine, e._repid, e.why })
      local future = asynchronous:work(0.2)
      assert.is_false(future:ready())
      assert.same({ false, "timeout" }, { (future:results(0.01)), (select(2, future:results(0.01))).error })
      assert.same({ true, 0.2 }, { future:results() })
      assert.is_true(future:ready())
      assert.equal(0.2, future:evaluate())
      future = asynchronous:fail "later"
      assert.equal("later", (select(2, future:results())).why)
      assert.equal("later", (select(2, pcall(future.evaluate, future))).why)
      assert.has_error(function() orb:newproxy(text, "eager") end)
    end)
  end)
  it("hand exceptions to handlers of their own, of their interface, or of all", function()
    with_hello(function(orb, text)
      local hello = orb:newproxy(text)
      local function handler(name) return function(proxy, e, operation) return name, proxy == hello, e.why, operation.name end end
      orb:setexcatch(handler "all")
      assert.same({ "all", true, "a", "fail" }, { hello:fail "a" })
      orb:setexcatch(handler "interface", "Spec::Hello")
      assert.equal("interface", (hello:fail "b"))
      assert.same({ true, nil }, { hello:__setexcatch(handler "own") })
      assert.equal("own", (hello:fail "c"))
      hello:__setexcatch(nil)
      orb:setexcatch(nil, "Spec::Hello")
      orb:setexcatch(nil)
      assert.is_false((pcall(hello.fail, hello, "d")))
    end)
  end)
  it("have time limits of their own, of their interface, or of all", function()
    with_hello(function(orb, text)
      local hello = orb:newproxy(text)
      hello:__settimeout(0.05)
      local _, e = pcall(hello.work, hello, 5)
      assert.equal("timeout", e.error)
      hello:__settimeout(nil)
      orb:settimeout(0.05, "Spec::Hello")
      _, e = pcall(hello.work, hello, 5)
      assert.equal("IDL:omg.org/CORBA/TIMEOUT:1.0", e._repid)
      orb:settimeout(nil, "Spec::Hello")
      assert.equal(0.1, hello:work(0.1))
    end)
  end)
  it("say why nobody answers", function()
    oil.main(function()
      local orb = oil.init {}
      local nobody = orb:newproxy("corbaloc::no-such-host.invalid:1/x", nil, require("oil.corba.idl").object)
      local _, e = pcall(nobody._non_existent, nobody)
      assert.same({ "badconnect", "host not found", "no-such-host.invalid", 1, 2, "COMPLETED_NO" },
                  { e.error, e.errmsg, e.host, e.port, e.minor, e.completed })
      assert.matches("TRANSIENT", tostring(e))
      local fine = pcall(orb.newproxy, orb, "IOR:xx")
      assert.is_false(fine)
      assert.is_nil(orb:newproxy("IOR:010000000100000000000000" .. "00000000"))
      orb:shutdown()
    end)
  end)
end)

describe("OiL's exceptions", function()
  it("are tables with an id, their members and a text", function()
    with_hello(function(orb, text)
      local hello = orb:newproxy(text)
      local _, e = pcall(hello.fail, hello, "not today")
      assert.same({ "IDL:Spec/Refused:1.0", "IDL:Spec/Refused:1.0", "not today" }, { e._repid, e[1], e.why })
      assert.matches("Refused", tostring(e))
      assert.matches("^why: .*not today", "why: " .. e)
      _, e = pcall(hello.fail, hello, "odd")
      assert.same({ "IDL:omg.org/CORBA/UNKNOWN:1.0", "COMPLETED_MAYBE", 0 }, { e._repid, e.completed, e.minor })
    end)
  end)
  it("are made of names, and write their text with fields in it", function()
    oil.main(function()
      local orb = oil.init {}
      orb:loadidl "exception Late { long minutes; };"
      assert.equal("IDL:Late:1.0", orb:newexcept({ "Late", minutes = 3 })._repid)
      assert.equal("IDL:omg.org/CORBA/NO_PERMISSION:1.0", orb:newexcept({ "CORBA::NO_PERMISSION" })._repid)
      assert.equal("it is 3 o'clock", tostring(orb:newexcept { "it is $hour o'clock", hour = 3 }))
      local fine, e = pcall(oil.assert.type, 3, "string", "name")
      assert.same({ false, "3 is a illegal name (string expected, got number)" }, { fine, tostring(e) })
      orb:shutdown()
    end)
  end)
end)

describe("OiL's servants", function()
  it("resolve local references to the implementation, the servant, or a proxy", function()
    for _, kind in ipairs { "implementation", "servant", "proxy" } do
      local reference <close> = server(hello_server, HELLO, { localrefs = kind })
      oil.main(function()
        local orb = oil.init {}
        local hello = orb:newproxy(reference.text)
        assert.equal(kind == "implementation", hello:same(hello))
        assert.equal("hello, y", hello:itself():say "y")
        orb:shutdown()
      end)
    end
  end)
  it("take any table as a reference, once, and give it back", function()
    oil.main(function()
      local orb = oil.init { host = "127.0.0.1" }
      orb:loadidl "interface Item { string name(); }; interface Box { Item put(in Item i); };"
      local box = orb:newservant({ put = function(_, item) return item end }, nil, "Box")
      local client = oil.init {}
      client:loadidl "interface Item { string name(); }; interface Box { Item put(in Item i); };"
      local item = { name = function() return "mine" end }
      assert.equal(item, client:newproxy(tostring(box), nil, "Box"):put(item))
      client:shutdown()
      orb:shutdown()
    end)
  end)
  it("have keys, of which each is one object's, until they are deactivated", function()
    oil.main(function()
      local orb = oil.init { host = "127.0.0.1", keyprefix = "k" }
      orb:loadidl "interface A { string who(); }; interface B {};"
      local a = orb:newservant({ who = function() return "a" end }, "one", "A")
      assert.same({ "one", "IDL:A:1.0", "a" }, { a.__objkey, a.__type.repID, a:who() })
      local fine, e = pcall(orb.newservant, orb, {}, "one", "A")
      assert.same({ false, "badobjkey" }, { fine, e.error })
      assert.matches("^k", orb:newservant({ __type = "B" }).__objkey)
      assert.equal(a, orb:newservant(a.__servant, "one", "A"))
      assert.equal(a.__servant, orb:deactivate("one").__servant)
      fine, e = orb:deactivate "one"
      assert.same({ nil, "badobjkey" }, { fine, e.error })
      local b = orb:newservant({}, nil, "B")
      assert.truthy(b:__deactivate())
      assert.is_false((pcall(orb.newservant, orb, {}, nil, "NoSuchInterface")))
      assert.is_false((pcall(orb.newservant, orb, {}, nil, "CORBA::Object")))
      orb:shutdown()
    end)
  end)
  it("are asked for by a table with a metatable", function()
    local function asked(_, orb)
      local type = orb:loadidl "interface Echo { string key(); void gone(); };"
      setmetatable(orb.objectmap, { __index = function(_, key)
        if key:find "^_" then return nil end
        return { __servant = { key = function() return key end, gone = function() error { _repid = "IDL:omg.org/CORBA/NO_RESOURCES:1.0" } end },
                 __type = type }
      end })
      return ("corbaloc::127.0.0.1:%d/"):format(orb.port)
    end
    local reference <close> = server(asked)
    oil.main(function()
      local orb = oil.init {}
      assert.equal("any key", orb:newproxy(reference.text .. "any key"):key())
      local two = orb:newproxy(reference.text .. "two")
      assert.equal("two", two:key())
      assert.equal("IDL:omg.org/CORBA/NO_RESOURCES:1.0", (select(2, pcall(two.gone, two)))._repid)
      orb:shutdown()
    end)
  end)
  it("may have all their errors replaced where they are raised, and heard of", function()
    local function handled(_, orb)
      orb:loadidl "interface F { void fail(); string heard(); };"
      local heard = ""
      orb:setexhandler(function(err)
        heard = tostring(err)
        return { _repid = "IDL:omg.org/CORBA/INTERNAL:1.0", minor = 77, completed = "COMPLETED_YES" }
      end)
      return orb:newservant({ fail = function() error "oops" end, heard = function() return heard end }, nil, "F")
    end
    local reference <close> = server(handled)
    oil.main(function()
      local orb = oil.init {}
      local f = orb:newproxy(reference.text)
      local _, e = pcall(f.fail, f)
      assert.same({ "IDL:omg.org/CORBA/INTERNAL:1.0", 77, "COMPLETED_YES" }, { e._repid, e.minor, e.completed })
      assert.matches("oops", f:heard())
      orb:shutdown()
    end)
  end)
end)

describe("oil.init", function()
  it("gives one ORB by default, and the table it was given otherwise", function()
    oil.main(function()
      local default = oil.init()
      assert.equal(default, oil.init())
      local config = { host = "127.0.0.1" }
      assert.equal(config, oil.init(config))
      assert.is_true(config.port > 0)
      config:shutdown()
      default:shutdown()
      assert.is_true(oil.init() ~= default)
      oil.init():shutdown()
    end)
  end)
  it("says what a flavor is that it has not", function()
    for flavor, why in pairs { ["corba;ludo"] = "CORBA or LuDO", ["corba.ssl"] = "TLS", ["cobra"] = "unknown flavor 'cobra'" } do
      local fine, e = pcall(oil.init, { flavor = flavor })
      assert.is_false(fine)
      assert.equal("badinitialize", e.error)
      assert.matches(why, tostring(e))
    end
  end)
  it("keeps what files hold", function()
    local path = require "spec.support.temporary"()
    assert.is_true(oil.writeto(path, 42))
    assert.equal("42", oil.readfrom(path))
    os.remove(path)
    assert.is_false((oil.writeto("/no/such/folder/x", "")))
    assert.is_nil((oil.readfrom(path)))
  end)
end)
