-- Objects: what a servant may be, how its operations are called, how objects come and go. Two brokers in this process: one serves, the other calls
-- over a connection.
local mare = require "mare"
local orb = require "mare.orb"
local giop = require "spec.support.iiop"
local proc = require "spec.support.proc"

local OMG = 0x4f4d0000
local IDL = [[
  module Spec {
    exception Refused { string why; };
    interface Named {
      attribute string name;
      readonly attribute long size;
      attribute Object friend;
    };
    interface Leaf : Named { long depth(); };
    interface Tree : Named {
      Named parent();
      void adopt(in Named child);
      Leaf grow();
      long count(in Named child);
      Object same(in Object other);
      boolean is_me(in Tree other);
    };
    interface Words {
      string upper(in string text);
      void split(in string text, out string head, out string tail);
      long swap(inout string a, inout string b);
      oneway void shout(in string text);
      long end(in long n);
      void fail(in string name);
      void refuse() raises (Refused);
    };
  };
]]

local function make(options)
  local log = {}
  options = options or {}
  options.host, options.log = "127.0.0.1", function(_, text) log[#log + 1] = text end
  local broker = orb.init(options)
  broker:load(IDL)
  return broker, log
end

-- f(server's broker, client's broker, log of the server)
local function with_brokers(f, options)
  local server, log = make(options)
  local client = make()
  local results = table.pack(pcall(f, server, client, log))
  server:shutdown(10 * proc.slow)
  client:shutdown()
  if not results[1] then error(results[2], 0) end
end

local function raised(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok, "it raised nothing")
  return err
end

local function check_system(name, minor, completed, f, ...)
  local err = raised(f, ...)
  assert.same({ "IDL:omg.org/CORBA/" .. name .. ":1.0", minor, completed }, { err._repid, err.minor, err.completed }, tostring(err))
end

describe("a servant", function()
  local words = {
    upper = function(_, text) return text:upper() end,
    split = function(_, text) return text:match("^(%S+) (.*)$") end,
    swap = function(_, a, b) return #a + #b, b, a end,
    ["end"] = function(_, n) return n + 1 end,
    refuse = function() error({ _repid = "IDL:Spec/Refused:1.0", why = "no" }, 0) end,
  }

  it("is a table: results, out and inout parameters in their order", function()
    with_brokers(function(server, client)
      local p = client:proxy(tostring(server:serve(words, "Spec::Words")))
      assert.equal("HI", p:upper("hi"))
      assert.same({ "one", "two three" }, { p:split("one two three") })
      assert.same({ 3, "b", "aa" }, { p:swap("aa", "b") })
      assert.equal(8, p:_end(7))
      local err = raised(p.refuse, p)
      assert.same({ "IDL:Spec/Refused:1.0", "no" }, { err._repid, err.why })
    end)
  end)

  it("may inherit, have a method for a keyword under another name, and change while it serves", function()
    with_brokers(function(server, client)
      local class = { upper = words.upper, _end = function(_, n) return n * 2 end }
      class.__index = class
      local servant = setmetatable({}, class)
      local p = client:proxy(tostring(server:serve(servant, "Spec::Words")))
      assert.equal("HI", p:upper("hi"))
      assert.equal(14, p:_end(7))
      function servant.upper() return "changed" end
      assert.equal("changed", p:upper("hi"))
      servant.upper, class.upper = nil, nil
      check_system("NO_IMPLEMENT", 0, "COMPLETED_NO", p.upper, p, "hi")
    end)
  end)

  it("may be a function, which gets the operation's name and the arguments", function()
    with_brokers(function(server, client)
      local seen = {}
      local p = client:proxy(tostring(server:serve(function(operation, ...)
        seen[#seen + 1] = { operation, ... }
        if operation == "swap" then return 1, "x", "y" end
        if operation == "end" then return 5 end
        return "got " .. tostring((...))
      end, "Spec::Words")))
      assert.equal("got hi", p:upper("hi"))
      assert.same({ 1, "x", "y" }, { p:swap("a", "b") })
      assert.equal(5, p:_end(1))
      assert.same({ { "upper", "hi" }, { "swap", "a", "b" }, { "end", 1 } }, seen)
      assert.is_true(p:_is_a("IDL:Spec/Words:1.0"))
      assert.equal(3, #seen)
    end)
  end)

  it("has attributes as fields, or as methods _get_ and _set_", function()
    with_brokers(function(server, client)
      local fields = { name = "oak", size = 3 }
      local p = client:proxy(tostring(server:serve(fields, "Spec::Named")))
      assert.same({ "oak", 3 }, { p:_get_name(), p:_get_size() })
      p:_set_name("elm")
      assert.equal("elm", fields.name)
      assert.is_nil(p:_get_friend())
      p:_set_friend(p)
      assert.is_true(p:_get_friend():_is_a("IDL:Spec/Named:1.0"))
      fields.name = nil
      check_system("NO_IMPLEMENT", 0, "COMPLETED_NO", p._get_name, p)
      local value = "ash"
      local q = client:proxy(tostring(server:serve({
        _get_name = function() return "the " .. value end, _set_name = function(_, v) value = v end, _get_size = function() return #value end,
      }, "Spec::Named")))
      q:_set_name("pine")
      assert.same({ "the pine", 4 }, { q:_get_name(), q:_get_size() })
    end)
  end)

  it("answers what every object answers", function()
    with_brokers(function(server, client)
      local ref = tostring(server:serve({ name = "x" }, "Spec::Tree", { key = "tree" }))
      local p = client:proxy(ref)
      for id, is in pairs { ["IDL:Spec/Tree:1.0"] = true, ["IDL:Spec/Named:1.0"] = true, ["IDL:omg.org/CORBA/Object:1.0"] = true,
                            ["IDL:Spec/Leaf:1.0"] = false } do
        assert.equal(is, p:_is_a(id), id)
      end
      assert.is_false(p:_non_existent())
      assert.is_true(p:_interface():_is_a("IDL:omg.org/CORBA/InterfaceDef:1.0"))
      server:deactivate("tree")
      assert.is_true(p:_non_existent())
    end)
  end)

  it("that raises a system exception: each arrives with its minor code and completion", function()
    with_brokers(function(server, client)
      local n, completions = 0, { "COMPLETED_YES", "COMPLETED_NO", "COMPLETED_MAYBE" }
      local raise
      local p = client:proxy(tostring(server:serve({ fail = function() error(raise, 0) end }, "Spec::Words")))
      for i, name in ipairs(orb.exception.names) do
        for j, completed in ipairs(completions) do
          local minor = j == 1 and 0 or j == 2 and OMG | i or 0x12345000 + i
          raise = orb.system(name, minor, completed)
          check_system(name, minor, completed, p.fail, p, name)
          n = n + 1
        end
        raise = { _repid = "IDL:omg.org/CORBA/" .. name .. ":1.0", minor = i, completed = "COMPLETED_NO" }
        check_system(name, i, "COMPLETED_NO", p.fail, p, name)
      end
      assert.is_true(n >= 3 * 35)
      raise = { _repid = "IDL:omg.org/CORBA/NO_SUCH_THING:1.0", minor = 1, completed = "COMPLETED_YES" }
      check_system("UNKNOWN", OMG | 2, "COMPLETED_YES", p.fail, p, "x")
      raise = { _repid = "IDL:Spec/Refused:1.0", why = "not declared here" }
      check_system("UNKNOWN", OMG | 1, "COMPLETED_YES", p.fail, p, "x")
      raise = "just text"
      check_system("UNKNOWN", 0, "COMPLETED_MAYBE", p.fail, p, "x")
    end)
  end)

  it("that is no servant, or has no interface, is an error that says so", function()
    local server <close> = make()
    assert.matches("a servant is a table or a function, not a number", raised(server.serve, server, 7, "Spec::Tree"))
    assert.matches("no interface 'Spec::Tre' was loaded; did you mean 'Spec::Tree'", tostring(raised(server.serve, server, {}, "Spec::Tre")))
    assert.matches("there is no option 'kye'; there are", raised(server.serve, server, {}, "Spec::Tree", { kye = "x" }))
    assert.matches("the key of an object is a text", raised(server.serve, server, {}, "Spec::Tree", { key = 7 }))
    server:serve({}, "Spec::Tree", { key = "tree" })
    assert.matches("an object with the key 'tree' already", raised(server.serve, server, {}, "Spec::Tree", { key = "tree" }))
  end)
end)

describe("a table passed where a reference is expected", function()
  local function tree_of(server)
    local tree = { children = {}, name = "root" }
    function tree.parent() return nil end
    function tree:adopt(child) self.children[#self.children + 1] = child end
    function tree:grow()
      self.leaf = self.leaf or { name = "leaf", depth = function() return 3 end }
      return self.leaf
    end
    function tree.count(_, child) return #child:_get_name() end
    function tree.same(_, other) return other end
    function tree:is_me(other) return other == self or tostring(other) == tostring(self.ref) end
    tree.ref = server:serve(tree, "Spec::Tree", { key = "tree" })
    return tree
  end

  it("becomes an object, the same table the same one, which can be counted and ended", function()
    with_brokers(function(server, client)
      local tree = tree_of(server)
      assert.equal(1, server:objects())
      local p = client:proxy(tostring(tree.ref))
      local leaf = p:grow()
      assert.equal(2, server:objects())
      assert.equal(tostring(leaf), tostring(p:grow()))
      assert.is_true(leaf == p:grow())
      assert.equal(2, server:objects())
      assert.same({ 3, "leaf" }, { leaf:depth(), leaf:_get_name() })
      assert.is_true(server:deactivate(tree.leaf))
      assert.equal(1, server:objects())
      assert.is_false(server:deactivate(tree.leaf))
      check_system("OBJECT_NOT_EXIST", OMG | 1, "COMPLETED_NO", leaf.depth, leaf)
      local again = p:grow()
      assert.is_false(again == leaf)
      assert.equal(3, again:depth())
      check_system("OBJECT_NOT_EXIST", OMG | 1, "COMPLETED_NO", leaf.depth, leaf)
    end)
  end)

  it("is called back over the wire by the one who got it", function()
    with_brokers(function(server, client)
      local tree = tree_of(server)
      local p = client:proxy(tostring(tree.ref))
      local child = { name = "twelve bytes" }
      assert.equal(12, p:count(child))
      assert.equal(12, p:count(child))
      assert.equal(1, client:objects())
      p:adopt(child)
      tree.children[1]:_set_name("new")
      assert.equal("new", child.name)
    end)
  end)

  it("is what it was served as, or the interface that is expected", function()
    with_brokers(function(server, client)
      local tree = tree_of(server)
      local p = client:proxy(tostring(tree.ref))
      local err = raised(p.same, p, { name = "nobody" })
      assert.matches("has no interface: serve it first", tostring(err))
      local mine = { name = "mine" }
      local ref = client:serve(mine, "Spec::Named", { key = "mine" })
      assert.is_true(p:same(mine) == ref)
      assert.is_true(p:same(ref) == ref)
      assert.equal(tostring(ref), tostring(p:same(mine)))
      assert.is_nil(p:same(nil))
      assert.is_true(p:is_me(p))
      tree.leaf = tree                           -- the same table as another interface: another object
      assert.equal(1, server:objects())
      local other = p:grow()
      assert.equal(2, server:objects())
      assert.is_true(other:_is_a("IDL:Spec/Leaf:1.0"))
      assert.is_true(server:deactivate(tree))
      assert.equal(0, server:objects())
    end)
  end)

  it("is found by its reference, by its key and by itself when it is to end", function()
    local server <close> = make()
    local a, b, c = {}, {}, {}
    local ref = server:serve(a, "Spec::Named")
    server:serve(b, "Spec::Named", { key = "b" })
    server:serve(c, "Spec::Named")
    server:serve(c, "Spec::Named", { key = "c" })
    assert.equal(4, server:objects())
    assert.is_true(server:deactivate(ref))
    assert.is_true(server:deactivate("b"))
    assert.is_true(server:deactivate(c))
    assert.equal(0, server:objects())
    assert.is_false(server:deactivate("b"))
    assert.is_false(server:deactivate({}))
  end)
end)

describe("a reference", function()
  it("that outlived its server never means another object", function()
    local function serve(port)
      local server = make { port = port }
      local first = server:serve({ name = "first of its server" }, "Spec::Named")
      return server, tostring(first), server.server.opened[1].port
    end
    local server, old, port = serve()
    local client <close> = make()
    local p = client:proxy(old)
    assert.equal("first of its server", p:_get_name())
    server:shutdown(true)
    local next_server, new = serve(port)
    assert.is_false(old == new)
    check_system("OBJECT_NOT_EXIST", OMG | 2, "COMPLETED_NO", p._get_name, p)
    assert.equal("first of its server", client:proxy(new):_get_name())
    next_server:shutdown(true)
  end)

  it("with a key of the program's choice lasts, also as corbaloc", function()
    local port
    local client <close> = make()
    local p
    for i = 1, 3 do
      local server = make { port = port }
      local ref = server:serve({ name = "life " .. i }, "Spec::Named", { key = "a name/with%odd chars" })
      port = server.server.opened[1].port
      p = p or client:proxy(tostring(ref))
      assert.equal("life " .. i, p:_get_name())
      local q = client:proxy(("corbaloc::127.0.0.1:%d/a%%20name/with%%25odd%%20chars"):format(port), "Spec::Named")
      assert.equal("life " .. i, q:_get_name())
      server:shutdown(true)
    end
  end)

  it("to an object of this broker is called directly: the arguments themselves, no connection", function()
    local server <close> = make()
    local seen
    local tree = { adopt = function(_, child) seen = child end, parent = function(self) return self end, name = "x",
                   grow = function() error({ any = "thing" }, 0) end, same = function(_, other) return other end }
    local ref = server:serve(tree, "Spec::Tree", { key = "tree" })
    local child = {}
    ref:adopt(child)
    assert.is_true(seen == child)
    assert.is_true(ref:parent() == tree)
    assert.equal("x", ref:_get_name())
    ref:_set_name("y")
    assert.equal("y", tree.name)
    assert.same({ any = "thing" }, raised(ref.grow, ref))
    assert.is_true(ref:_is_a("IDL:Spec/Named:1.0"))
    check_system("NO_IMPLEMENT", 0, "COMPLETED_NO", ref.count, ref, child)
    local p = server:proxy(tostring(ref))
    assert.is_true(p == ref)
    local q = server:proxy(("corbaloc::127.0.0.1:%d/tree"):format(server.server.opened[1].port), "Spec::Tree")
    q:adopt("no copy")
    assert.equal("no copy", seen)
    assert.equal(0, server.server.pool.accepted)
    server:deactivate(tree)
    check_system("OBJECT_NOT_EXIST", OMG | 1, "COMPLETED_NO", ref.adopt, ref, child)
  end)

  it("can be forwarded: the client goes there by itself", function()
    with_brokers(function(server, client)
      local other <close> = make()
      local ref = other:serve({ name = "over here" }, "Spec::Named", { key = "there" })
      server:serve({ name = "here" }, "Spec::Named", { key = "moving" })
      local p = client:proxy(("corbaloc::127.0.0.1:%d/moving"):format(server.server.opened[1].port), "Spec::Named")
      assert.equal("here", p:_get_name())
      server:forward("moving", client:proxy(tostring(ref)))
      assert.equal("over here", p:_get_name())
      assert.equal("over here", p:_get_name())
      assert.equal(1, other.server.pool.accepted)
    end)
  end)
end)

describe("a default servant", function()
  it("serves what no object has, and knows for which key", function()
    with_brokers(function(server, client)
      local default = {}
      function default._get_name() return "default for " .. server:current().key end
      server:default(default, "Spec::Named")
      server:serve({ name = "itself" }, "Spec::Named", { key = "own" })
      local port = server.server.opened[1].port
      local function named(key) return client:proxy(("corbaloc::127.0.0.1:%d/%s"):format(port, key), "Spec::Named") end
      assert.equal("itself", named("own"):_get_name())
      assert.equal("default for one", named("one"):_get_name())
      assert.equal("default for two", named("two"):_get_name())
      server:default(nil)
      local p = named("one")
      check_system("OBJECT_NOT_EXIST", OMG | 1, "COMPLETED_NO", p._get_name, p)
      assert.is_nil(server:current())
    end)
  end)
end)

describe("a locator", function()
  it("gives servants for keys when they are asked for, and may refuse", function()
    with_brokers(function(server, client, log)
      local asked = {}
      server:locator(function(key, operation)
        asked[#asked + 1] = key .. ":" .. tostring(operation)
        if key:match("^acc") then return { name = "account " .. key }, "Spec::Named" end
        if key == "fn" then return function(operation_) return operation_ end, "Spec::Named" end
        if key == "bad" then return 7, "Spec::Named" end
        if key == "oops" then error "oops" end
      end)
      local port = server.server.opened[1].port
      local function named(key) return client:proxy(("corbaloc::127.0.0.1:%d/%s"):format(port, key), "Spec::Named") end
      assert.equal("account acc1", named("acc1"):_get_name())
      assert.equal("account acc2", named("acc2"):_get_name())
      assert.equal("_get_name", named("fn"):_get_name())
      assert.equal("acc1:_is_a acc1:_get_name acc2:_is_a", table.concat(asked, " ", 1, 3))     -- a corbaloc has no type id: it is asked
      assert.equal(0, server:objects())
      local p = named("none")
      check_system("OBJECT_NOT_EXIST", OMG | 1, "COMPLETED_NO", p._get_name, p)
      p = named("bad")
      check_system("OBJ_ADAPTER", OMG | 2, "COMPLETED_NO", p._get_name, p)
      p = named("oops")
      check_system("UNKNOWN", 0, "COMPLETED_NO", p._get_name, p)
      assert.matches("oops", log[#log])
    end)
  end)

  it("names an interface as it was loaded last", function()
    with_brokers(function(server, client)
      local idl = "module Late { interface Part { string first(); %s }; };"
      server:load(idl:format "")
      server:locator(function() return { first = function() return "1st" end, second = function() return "2nd" end }, "Late::Part" end)
      client:load(idl:format "string second();")
      local part = client:proxy(("corbaloc::127.0.0.1:%d/part"):format(server.server.opened[1].port), "Late::Part")
      assert.equal("1st", part:first())
      check_system("BAD_OPERATION", OMG | 2, "COMPLETED_NO", part.second, part)
      server:load(idl:format "string second();", { replace = true })
      assert.equal("2nd", part:second())
    end)
  end)
end)

describe("servants", function()
  it("may call each other across brokers, to any depth that fibers allow", function()
    with_brokers(function(server, client)
      local a, b = {}, {}
      function a.count(_, child) return child:_get_size() end
      function b._get_size() return 4 end
      local ra = client:proxy(tostring(server:serve(a, "Spec::Tree")))
      assert.equal(4, ra:count(b))
      local depth = 0
      local ping, pong = {}, {}
      local pping = client:proxy(tostring(server:serve(ping, "Spec::Leaf")))
      local ppong = server:proxy(tostring(client:serve(pong, "Spec::Leaf")))
      function ping.depth() depth = depth + 1 return depth >= 40 and depth or ppong:depth() end
      function pong.depth() depth = depth + 1 return depth >= 40 and depth or pping:depth() end
      assert.equal(40, pping:depth())
    end)
  end)

  it("run side by side in their process's fibers: those that wait don't hold up others", function()
    with_brokers(function(server, client)
      local gate = mare.channel.new()
      local p = client:proxy(tostring(server:serve({ depth = function() return (gate:receive()) end }, "Spec::Leaf")))
      local calls = {}
      for i = 1, 20 do calls[i] = p._async:depth() end
      for i = 1, 20 do gate:send(i) end
      local sum = 0
      for i = 1, 20 do
        local ok, n = calls[i]:wait(20)
        assert.is_true(ok, tostring(n))
        sum = sum + n
      end
      assert.equal(210, sum)
      assert.equal(1, server.server.pool.accepted)
    end)
  end)

  it("that are cancelled while they call another object leave that connection whole", function()
    with_brokers(function(server, client)
      local gate, begun = mare.channel.new(), mare.channel.new(100)
      local far = client:serve({ depth = function() begun:send(true) return (gate:receive()) end, _get_size = function() return 6 end }, "Spec::Leaf")
      local p = server:proxy(tostring(far))
      local leaf = server:serve({ depth = function() return p:depth() end }, "Spec::Leaf", { key = "leaf" })
      assert.is_not_nil(leaf)
      local raw <close> = giop.connect(server.server.opened[1].port)
      local ids = {}
      for i = 1, 6 do
        ids[i] = raw:request("depth", "leaf")
        assert.is_true(begun:receive(20 * proc.slow))
      end
      for i = 1, 5 do raw:cancel(ids[i]) end     -- the first of them reads for the others
      for _ = 1, 6 do gate:send(42) end          -- what was cancelled is answered all the same, to nobody
      local r = assert(raw:receive())
      assert.same({ ids[6], 42 }, { r.id, (string.unpack("<i4", r.body)) })
      assert.equal(6, p:_get_size())
      assert.equal(1, client.server.pool.accepted)
    end)
  end)
end)
