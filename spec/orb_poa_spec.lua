-- Object adapters: their policies, their tree, ids, references and servants, and what is known within a request.
local orb = require "mare.orb"
local support = require "spec.support.poa"

local with, raised, system, far, thing = support.with, support.raised, support.system, support.far, support.thing

describe("an adapter's policies", function()
  it("are CORBA's values in a list; what does not fit is InvalidPolicy with its place", function()
    with(function(server)
      local root = server:poa()
      local function index(...) return raised("POA/InvalidPolicy", root.create_POA, root, "a", nil, { ... }).index end
      assert.equal(2, index("PERSISTENT", "TRANSIENT"))
      assert.equal(1, index("NON_RETAIN"))
      assert.equal(3, index("PERSISTENT", "USER_ID", "USE_DEFAULT_SERVANT"))
      assert.equal(2, index("MULTIPLE_ID", "NON_RETAIN"))
      assert.equal(2, index("USER_ID", "IMPLICIT_ACTIVATION"))
      assert.equal(3, index("USE_SERVANT_MANAGER", "IMPLICIT_ACTIVATION", "NON_RETAIN"))
      assert.equal(3, index("USE_ACTIVE_OBJECT_MAP_ONLY", "PERSISTENT", "NON_RETAIN"))
      local e = raised("POA/InvalidPolicy", root.create_POA, root, "a", nil, { "PERSISTANT" })
      assert.equal(1, e.index)
      assert.truthy(e.reason:find("did you mean 'PERSISTENT'?", 1, true))
      system("BAD_PARAM", 0, root.create_POA, root, "a", nil, "PERSISTENT")
      raised("POA/AdapterNonExistent", root.find_POA, root, "a")             -- nothing was made
    end)
  end)

  it("may be made as other languages make them", function()
    with(function(server)
      local root = server:resolve_initial_references "RootPOA"
      assert.equal(root, server:poa())
      local a = root:create_POA("a", root.the_POAManager, { root:create_lifespan_policy "PERSISTENT",
        root:create_id_assignment_policy "USER_ID", root:create_thread_policy "SINGLE_THREAD_MODEL" })
      assert.equal("PERSISTENT", a.policies.lifespan)
      assert.equal("UNIQUE_ID", a.policies.id_uniqueness)
      assert.equal(root.the_POAManager, a.the_POAManager)
      local e = system("BAD_PARAM", 0, root.create_thread_policy, root, "SINGLE_THREAD")
      assert.truthy(e.text:find("did you mean 'SINGLE_THREAD_MODEL'?", 1, true))
      system("BAD_PARAM", 0, root.create_POA, root, "b", {}, {})
    end)
  end)
end)

describe("the tree of adapters", function()
  it("has names, parents, children", function()
    with(function(server)
      local root = server:poa()
      local a = root:create_POA("a", nil, {})
      local b, c = a:create_POA("b", nil, {}), a:create_POA("c", a.the_POAManager, {})
      assert.equal("RootPOA", root.the_name)
      assert.is_nil(root.the_parent)
      assert.equal(root, a.the_parent)
      assert.equal(b, root:find_POA("a"):find_POA("b"))
      assert.same({ b, c }, a.the_children)
      assert.are_not.equal(a.the_POAManager, b.the_POAManager)
      assert.equal(a.the_POAManager, c.the_POAManager)
      raised("POA/AdapterAlreadyExists", a.create_POA, a, "b", nil, {})
      raised("POA/AdapterNonExistent", a.find_POA, a, "x")
      assert.are_not.equal(a.id, b.id)
      system("BAD_PARAM", 0, a.create_POA, a, "", nil, {})
      system("BAD_PARAM", 0, a.create_POA, a, ("x"):rep(70000), nil, {})
      a:destroy(false, true)
      assert.same({}, root.the_children)
      system("OBJECT_NOT_EXIST", 2, b.create_POA, b, "d", nil, {})
      assert.equal("a", root:create_POA("a", nil, {}).the_name)              -- the name is free again
    end)
  end)

  it("may be very deep; objects at its end are found, and it ends as a whole", function()
    with(function(server, client)
      local at = server:poa()
      local manager = at.the_POAManager
      for i = 1, 500 do at = at:create_POA("n" .. i, manager, { "PERSISTENT", "USER_ID" }) end
      at:activate_object_with_id("leaf", thing "at the end", "Spec::Thing")
      local leaf = far(client, at:id_to_reference "leaf")
      assert.equal("at the end", leaf:who())
      assert.equal(1, server:objects())
      server:poa():find_POA("n1"):destroy(true, true)
      assert.equal(0, server:objects())
      system("OBJECT_NOT_EXIST", 2, leaf.who, leaf)
      assert.is_true(at.destroyed)
    end)
  end)

  it("grows when an activator makes what a reference or find_POA asks for", function()
    local first = support.broker()
    local port = tonumber(first:address():match(":(%d+)$"))
    local a = first:poa():create_POA("a", nil, { "PERSISTENT", "USER_ID" })
    local b = a:create_POA("b", nil, { "PERSISTENT", "USER_ID" })
    local text = tostring(b:create_reference_with_id("x", "Spec::Thing"))
    first:shutdown(true)

    with(function(server, client, log)
      local root, asked = server:poa(), {}
      root.the_POAManager:activate()
      local activator = {}
      function activator:unknown_adapter(parent, name)
        asked[#asked + 1] = parent.the_name .. "/" .. name
        if name == "bad" then error "no such name" end
        if name ~= "a" and name ~= "b" then return false end
        local made = parent:create_POA(name, root.the_POAManager, { "PERSISTENT", "USER_ID" })
        made.the_activator = self
        if name == "b" then made:activate_object_with_id("x", thing "x of b", "Spec::Thing") end
        return true
      end
      local x = far(client, text)
      system("OBJECT_NOT_EXIST", 2, x.who, x)                                 -- nobody makes it
      root.the_activator = activator

      local calls = {}
      for i = 1, 20 do calls[i] = x._async:who() end                          -- all at once
      for i = 1, 20 do assert.equal("x of b", select(2, calls[i]:wait(20))) end
      assert.same({ "RootPOA/a", "a/b" }, asked)
      raised("POA/AdapterNonExistent", root.find_POA, root, "c", true)
      system("OBJ_ADAPTER", 1, root.find_POA, root, "bad", true)
      assert.truthy(log[#log]:find("no such name", 1, true))
    end, { port = port })
  end)
end)

describe("an object's id", function()
  it("is the adapter's, or the program's", function()
    with(function(server, client)
      local root = server:poa()
      local manager = root.the_POAManager
      local systems, users = root:create_POA("s", manager, {}), root:create_POA("u", manager, { "USER_ID" })
      local one, two = systems:activate_object(thing "1", "Spec::Thing"), systems:activate_object(thing "2", "Spec::Thing")
      assert.are_not.equal(one, two)
      assert.equal("2", far(client, systems:id_to_reference(two)):who())
      raised("POA/WrongPolicy", users.activate_object, users, thing "x", "Spec::Thing")
      raised("POA/WrongPolicy", users.create_reference, users, "Spec::Thing")
      users:activate_object_with_id("a\0b\xff", thing "any bytes", "Spec::Thing")
      assert.equal("any bytes", far(client, users:id_to_reference "a\0b\xff"):who())
      raised("POA/ObjectAlreadyActive", users.activate_object_with_id, users, "a\0b\xff", thing "x", "Spec::Thing")
      system("BAD_PARAM", 14, systems.activate_object_with_id, systems, "mine", thing "x", "Spec::Thing")
      system("BAD_PARAM", 14, systems.activate_object_with_id, systems, string.pack(">I4", 99), thing "x", "Spec::Thing")
      systems:deactivate_object(one)
      systems:activate_object_with_id(one, thing "again", "Spec::Thing")
      assert.equal("again", far(client, systems:id_to_reference(one)):who())
      raised("POA/ObjectNotActive", users.deactivate_object, users, "nobody")
      raised("POA/ObjectNotActive", users.id_to_reference, users, "nobody")
      raised("POA/ObjectNotActive", users.id_to_servant, users, "nobody")
    end)
  end)

  it("is the servant's only one, or one of many", function()
    with(function(server, client)
      local root = server:poa()
      local manager, same = root.the_POAManager, thing "same"
      local unique, many = root:create_POA("u", manager, {}), root:create_POA("m", manager, { "MULTIPLE_ID", "USER_ID" })
      local id = unique:activate_object(same, "Spec::Thing")
      raised("POA/ServantAlreadyActive", unique.activate_object, unique, same, "Spec::Thing")
      assert.equal(id, unique:servant_to_id(same))
      assert.equal(unique:id_to_reference(id), unique:servant_to_reference(same))
      raised("POA/ServantNotActive", unique.servant_to_id, unique, thing "other")
      local current = server:resolve_initial_references "POACurrent"
      local servant = { who = function() return current:get_object_id() end }
      many:activate_object_with_id("a", servant, "Spec::Thing")
      many:activate_object_with_id("b", servant, "Spec::Thing")
      raised("POA/WrongPolicy", many.servant_to_id, many, servant)
      for _, name in ipairs { "a", "b", "a" } do
        assert.equal(name, far(client, many:id_to_reference(name)):who())
        assert.equal(name, many:id_to_reference(name):who())                 -- a local call, too
      end
      unique:deactivate_object(id)
      unique:activate_object(same, "Spec::Thing")                            -- it may be one again
    end)
  end)
end)

describe("a reference", function()
  it("leads to id and servant, in its own adapter only", function()
    with(function(server, client)
      local root = server:poa()
      local a, b = root:create_POA("a", root.the_POAManager, { "USER_ID" }), root:create_POA("b", nil, { "USER_ID" })
      local servant = thing "x"
      a:activate_object_with_id("x", servant, "Spec::Thing")
      local ref = a:id_to_reference "x"
      assert.equal("x", a:reference_to_id(ref))
      assert.equal(servant, a:reference_to_servant(ref))
      assert.equal(servant, a:id_to_servant "x")
      assert.equal(servant, server:servant(ref))
      raised("POA/WrongAdapter", b.reference_to_id, b, ref)
      raised("POA/WrongAdapter", root.reference_to_servant, root, ref)
      raised("POA/WrongAdapter", a.reference_to_id, a, client:serve({}, "Spec::Thing"))
      local later = a:create_reference_with_id("later", "Spec::Thing")
      raised("POA/ObjectNotActive", a.reference_to_servant, a, later)
      assert.equal("later", a:reference_to_id(later))
      local remote = far(client, later)
      system("OBJECT_NOT_EXIST", 1, remote.who, remote)
      a:activate_object_with_id("later", thing "later", "Spec::Thing")
      assert.equal("later", remote:who())
      assert.equal("Spec::Thing", later:_interface_name())
      local none = root:create_POA("n", nil, { "NON_RETAIN", "USE_SERVANT_MANAGER" })
      raised("POA/WrongPolicy", none.id_to_servant, none, "x")
      raised("POA/WrongPolicy", none.id_to_reference, none, "x")
      raised("POA/WrongPolicy", none.activate_object, none, servant, "Spec::Thing")
      raised("POA/WrongPolicy", none.deactivate_object, none, "x")
    end)
  end)

  it("of a persistent object holds over a restart; that of a transient one never means another object", function()
    local port
    local function run(f)
      local server = support.broker { port = port }
      local root = server:poa()
      local lasting = root:create_POA("lasting", root.the_POAManager, { "PERSISTENT", "USER_ID" })
      local numbered = root:create_POA("numbered", root.the_POAManager, { "PERSISTENT" })
      local passing = root:create_POA("passing", root.the_POAManager, { "USER_ID" })
      local results = table.pack(pcall(f, server, lasting, passing, numbered))
      port = tonumber(server:address():match(":(%d+)$"))
      server:shutdown(true)
      assert(table.unpack(results, 1, results.n))
      return table.unpack(results, 2, results.n)
    end
    local one, two, three, id = run(function(_, lasting, passing, numbered)
      lasting:activate_object_with_id("x", thing "first", "Spec::Thing")
      passing:activate_object_with_id("x", thing "first", "Spec::Thing")
      local number = numbered:activate_object(thing "first", "Spec::Thing")
      return tostring(lasting:id_to_reference "x"), tostring(passing:id_to_reference "x"), tostring(numbered:id_to_reference(number)), number
    end)
    local client = support.broker()
    run(function(_, lasting, passing, numbered)
      lasting:activate_object_with_id("x", thing "second", "Spec::Thing")
      passing:activate_object_with_id("x", thing "second", "Spec::Thing")
      assert.equal("second", far(client, one):who())
      assert.equal(one, tostring(lasting:id_to_reference "x"))
      local old = far(client, two)
      system("OBJECT_NOT_EXIST", 2, old.who, old)
      assert.are_not.equal(id, numbered:activate_object(thing "second", "Spec::Thing"))
      numbered:activate_object_with_id(id, thing "the same again", "Spec::Thing")
      assert.equal("the same again", far(client, three):who())
      local again = far(client, passing:id_to_reference "x")
      passing:destroy(false, true)
      local anew = passing.the_parent:create_POA("passing", passing.the_POAManager, { "USER_ID" })
      anew:activate_object_with_id("x", thing "of another adapter", "Spec::Thing")
      system("OBJECT_NOT_EXIST", 2, again.who, again)
    end)
    client:close()
  end)

  it("is made for a servant that is used as one: implicit activation", function()
    with(function(server, client)
      local root = server:poa()
      local servant = thing "implicit"
      local ref = root:servant_to_reference(servant, "Spec::Thing")
      assert.equal("implicit", far(client, ref):who())
      assert.equal(ref, root:servant_to_reference(servant))
      assert.equal(servant, root:reference_to_servant(ref))
      local typed = root:create_POA("typed", root.the_POAManager, { "IMPLICIT_ACTIVATION", interface = "Spec::Thing" })
      assert.equal("again", far(client, typed:servant_to_reference(thing "again")):who())
      local ok, err = pcall(root.servant_to_reference, root, thing "untyped")
      assert.is_false(ok)
      assert.truthy(tostring(err):find("of which interface is the servant?", 1, true))
    end)
  end)
end)

describe("what broker:serve makes", function()
  it("are objects of omniINSPOA and of RootPOA", function()
    with(function(server, client)
      local plain, root = server:resolve_initial_references "omniINSPOA", server:poa()
      local named, unnamed = thing "named", thing "unnamed"
      local a, b = server:serve(named, "Spec::Thing", { key = "name" }), server:serve(unnamed, "Spec::Thing")
      assert.equal("name", plain:reference_to_id(a))
      assert.equal(named, plain:id_to_servant "name")
      assert.equal(unnamed, root:reference_to_servant(b))
      assert.equal(root:servant_to_id(unnamed), root:reference_to_id(b))
      raised("POA/WrongAdapter", root.reference_to_id, root, a)
      plain:activate_object_with_id("other", thing "other", "Spec::Thing")
      assert.equal("other", client:proxy("corbaloc::" .. server:address() .. "/other", "Spec::Thing"):who())
      assert.is_true(server:deactivate "other")
      plain:set_servant(thing "all the rest", "Spec::Thing")
      assert.equal("all the rest", client:proxy("corbaloc::" .. server:address() .. "/any", "Spec::Thing"):who())
      local other = root:create_POA("a", nil, { "PERSISTENT", "USER_ID" }):create_reference_with_id("x", "Spec::Thing")
      local key = orb.state(other).target.endpoints[1].key
      system("BAD_PARAM", 0, plain.activate_object_with_id, plain, key, thing "hidden", "Spec::Thing")
    end)
  end)

  it("are held, discarded and destroyed as others are", function()
    with(function(server, client)
      local plain, root = server:resolve_initial_references "omniINSPOA", server:poa()
      server:serve(thing "named", "Spec::Thing", { key = "name" })
      local named, unnamed = client:proxy("corbaloc::" .. server:address() .. "/name", "Spec::Thing"),
        far(client, server:serve(thing "unnamed", "Spec::Thing"))
      assert.equal("named", named:who())
      plain.the_POAManager:discard_requests(true)
      system("TRANSIENT", 1, named.who, named)
      assert.equal("unnamed", unnamed:who())
      plain.the_POAManager:activate()
      root.the_POAManager:hold_requests(true)
      local held = unnamed._async:who()
      assert.equal("named", named:who())
      assert.are_not.equal("done", held:status())
      root.the_POAManager:activate()
      assert.equal("unnamed", select(2, held:wait(20)))
      root:destroy(true, true)
      system("OBJECT_NOT_EXIST", 1, unnamed.who, unnamed)
      assert.equal("named", named:who())
      assert.equal("after", far(client, server:serve(thing "after", "Spec::Thing")):who())
    end)
  end)
end)

describe("POACurrent", function()
  it("tells which object a request is for, however it was found; outside of one it raises NoContext", function()
    with(function(server, client)
      local root = server:poa()
      local current = server:resolve_initial_references "POACurrent"
      local manager = root.the_POAManager
      local seen = {}
      local servant = {}
      function servant.who()
        seen = { id = current:get_object_id(), poa = current:get_POA(), servant = current:get_servant(), ref = current:get_reference() }
        return seen.id
      end
      local mapped = root:create_POA("mapped", manager, { "USER_ID" })
      local default = root:create_POA("default", manager,
        { "USER_ID", "MULTIPLE_ID", "NON_RETAIN", "USE_DEFAULT_SERVANT", interface = "Spec::Thing" })
      mapped:activate_object_with_id("m", servant, "Spec::Thing")
      default:set_servant(servant)
      for _, case in ipairs { { mapped, "m" }, { default, "d" }, { default, "e" } } do
        local ref = case[1]:create_reference_with_id(case[2], "Spec::Thing")
        assert.equal(case[2], far(client, ref):who())
        assert.same({ id = case[2], poa = case[1], servant = servant, ref = ref }, seen)
      end
      assert.equal("d", default:create_reference_with_id("d", "Spec::Thing"):who())
      assert.equal(default, seen.poa)
      server:serve(servant, "Spec::Thing", { key = "plain" })
      assert.equal("plain", client:proxy("corbaloc::" .. server:address() .. "/plain", "Spec::Thing"):who())
      for _, what in ipairs { "get_object_id", "get_POA", "get_servant", "get_reference" } do
        raised("Current/NoContext", current[what], current)
      end
    end)
  end)

  it("is each fiber's own, and what it was after a call within", function()
    with(function(server, client)
      local root = server:poa()
      local current = server:resolve_initial_references "POACurrent"
      local poa = root:create_POA("a", root.the_POAManager, { "USER_ID", "MULTIPLE_ID", "USE_DEFAULT_SERVANT", interface = "Spec::Thing" })
      local gate = require "mare".channel.new()
      local servant = {}
      function servant.who() return current:get_object_id() end
      function servant.wait()
        local id = current:get_object_id()
        gate:receive()
        local inner = poa:create_reference_with_id("inner", "Spec::Thing"):who()
        assert(inner == "inner" and current:get_object_id() == id)
        return tonumber(id)
      end
      poa:set_servant(servant)
      local calls = {}
      for i = 1, 10 do calls[i] = far(client, poa:create_reference_with_id(tostring(i), "Spec::Thing"))._async:wait(0) end
      for _ = 1, 10 do gate:send(true) end
      for i = 1, 10 do assert.equal(i, select(2, calls[i]:wait(20))) end
    end)
  end)
end)
