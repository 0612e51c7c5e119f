-- needs: plain
-- Object adapters in programs that do odd things: activators that activate, requests and activators that would wait for themselves, adapters that are
-- half made, ended twice or named alike, ids that are none; and limits that go on holding.
local mare = require "mare"
local orb = require "mare.orb"
local proc = require "spec.support.proc"
local serving = require "spec.support.serving"
local support = require "spec.support.poa"

local with, raised, system, far, thing = support.with, support.raised, support.system, support.far, support.thing
local channel, fiber = mare.channel, mare.fiber
local eventually = serving.eventually
local PLAIN = { "PERSISTENT", "USER_ID", interface = "Spec::Thing" }
local ACTIVATOR = { "PERSISTENT", "USER_ID", "USE_SERVANT_MANAGER", interface = "Spec::Thing" }

local function adapter(server, policies, manager, parent)
  local root = server:poa()
  local poa = (parent or root):create_POA("a", root.the_POAManager, policies)
  if manager then poa:set_servant_manager(manager) end
  return poa
end

local function remote(client, poa, id) return far(client, poa:create_reference_with_id(id)) end

-- What a function gives in a fiber of its own; it must not wait for ever.
local function in_time(f, ...)
  local done = table.pack(fiber.spawn(f, ...):wait(20 * proc.slow))
  assert(done[1] ~= nil, "it waits for ever")
  if not done[1] then error(done[2], 0) end
  return table.unpack(done, 2, done.n)
end

describe("an activator", function()
  it("may activate the object itself that it is asked for", function()
    with(function(server, client)
      local etherealized, made = channel.new(1), thing "x"
      local poa = adapter(server, ACTIVATOR, {
        incarnate = function(_, id, poa)
          poa:activate_object_with_id(id, made)
          return made
        end,
        etherealize = function(_, id) etherealized:send(id) end,
      })
      assert.equal("x", in_time(function() return remote(client, poa, "x"):who() end))
      assert.equal(made, poa:id_to_servant "x")
      poa:deactivate_object "x"
      assert.equal("x", etherealized:receive(20))
    end)
  end)

  it("that would activate the object again which it gets back is refused", function()
    with(function(server, client)
      local outcome = channel.new(1)
      local poa = adapter(server, ACTIVATOR, {
        incarnate = function(_, id) return thing(id) end,
        etherealize = function(_, id, poa) outcome:send(select(2, pcall(poa.activate_object_with_id, poa, id, thing "again"))) end,
      })
      assert.equal("x", remote(client, poa, "x"):who())
      poa:deactivate_object "x"
      raised("POA/ObjectAlreadyActive", function() error(outcome:receive(20 * proc.slow), 0) end)
      assert.equal("x", in_time(function() return remote(client, poa, "x"):who() end))
    end)
  end)

  it("that would wait for the end of its adapter, or of the broker, while it gets an object back is refused", function()
    with(function(server, client)
      local outcomes = channel.new(2)
      local poa = adapter(server, ACTIVATOR, {
        incarnate = function(_, id) return thing(id) end,
        etherealize = function(_, _, poa)
          outcomes:send(select(2, pcall(poa.destroy, poa, true, true)))
          outcomes:send(select(2, pcall(server.shutdown, server, true)))
        end,
      })
      assert.equal("x", remote(client, poa, "x"):who())
      poa:deactivate_object "x"
      for _ = 1, 2 do system("BAD_INV_ORDER", 3, function() error(outcomes:receive(20 * proc.slow), 0) end) end
      in_time(poa.destroy, poa, true, true)
    end)
  end)
end)

describe("a request", function()
  it("that has ended its own object can't activate it before it is over; others wait until then", function()
    with(function(server, client)
      local go, poa = channel.new(), nil
      local old = thing "old"
      function old.gone()
        poa:deactivate_object "x"
        raised("POA/ObjectAlreadyActive", poa.activate_object_with_id, poa, "x", thing "mine")
        go:receive()
      end
      poa = adapter(server, ACTIVATOR, { incarnate = function() return old end })
      local x = remote(client, poa, "x")
      local ends = x._async:gone()
      eventually(function() return poa.changing[next(poa.changing)] end, "the object ends")
      local other = fiber.spawn(poa.activate_object_with_id, poa, "x", thing "new")
      assert.same({ nil, "timeout" }, { other:wait(0.05) })
      go:close()
      assert.is_true(ends:wait(20))
      assert.is_true(other:wait(20))
      assert.equal("new", x:who())
    end)
  end)

  it("within the process can't wait for the end of its broker", function()
    with(function(server)
      local poa = adapter(server, ACTIVATOR, { incarnate = function()
        return { gone = function() server:shutdown(true) end }
      end })
      system("BAD_INV_ORDER", 3, in_time, function() poa:create_reference_with_id "x":gone() end)
    end)
  end)
end)

describe("an adapter that is being made", function()
  -- f(root, reference to x below a, what makes a): `a` comes to be by an activator, which goes on when `go` is closed
  local function made(policies, finish, f)
    with(function(server, client)
      local root, go = server:poa(), channel.new()
      local first = adapter(server, policies)
      local x, y = remote(client, first, "x"), remote(client, first, "y")
      first:destroy(false, true)
      root.the_activator = { unknown_adapter = function(_, parent)
        local poa = parent:create_POA("a", parent.the_POAManager, policies)
        go:receive()
        finish(poa)
        return true
      end }
      f(root, x, y, go)
    end)
  end

  it("takes no request before its activator has ended, whatever it has of policies", function()
    local ways = {
      [PLAIN] = function(poa)
        for _, id in ipairs { "x", "y" } do poa:activate_object_with_id(id, thing(id)) end
        assert.equal("x", poa:id_to_reference "x":who())                        -- the activator itself may call there
      end,
      [ACTIVATOR] = function(poa) poa:set_servant_manager { incarnate = function(_, id) return thing(id) end } end,
    }
    for policies, finish in pairs(ways) do
      made(policies, finish, function(root, x, y, go)
        local calls = { x._async:who(), y._async:who() }
        eventually(function() return root.children.a end, "it is half made")
        calls[3], calls[4] = x._async:who(), y._async:who()
        for i = 1, 4 do assert.same({ nil, "timeout" }, { calls[i]:wait(0.02) }) end
        go:close()
        for i = 1, 4 do assert.equal(i % 2 == 1 and "x" or "y", select(2, assert(calls[i]:wait(20)))) end
        assert.equal(policies == PLAIN, root.children.a.open)
      end)
    end
  end)

  it("is not there yet for its own activator, which finds none and does not wait for itself", function()
    with(function(server)
      local root = server:poa()
      root.the_activator = { unknown_adapter = function(_, parent, name)
        raised("POA/AdapterNonExistent", parent.find_POA, parent, name, true)
        return false
      end }
      raised("POA/AdapterNonExistent", in_time, root.find_POA, root, "q", true)
    end)
  end)

  it("is found by others when its activator has finished it", function()
    with(function(server)
      local root, begun, go, finished = server:poa(), channel.new(1), channel.new(), false
      root.the_activator = { unknown_adapter = function(_, parent, name)
        local child = parent:create_POA(name, nil, PLAIN)
        assert.equal(child, parent:find_POA(name, true))
        begun:send(true)
        go:receive()
        finished = true
        return true
      end }
      local first = fiber.spawn(root.find_POA, root, "q", true)
      begun:receive(20 * proc.slow)
      local second = fiber.spawn(function() return root:find_POA("q", true), finished end)
      fiber.yield()
      assert.is_nil((second:wait(0)))
      go:close()
      local _, found = assert(first:wait(20 * proc.slow))
      assert.same({ true, found, true }, { second:wait(20 * proc.slow) })
    end)
  end)
end)

describe("the end of an adapter", function()
  it("may be asked for again while it goes on; who wants to wait for it does", function()
    with(function(server, client)
      local go = channel.new()
      local poa = adapter(server, PLAIN)
      poa:activate_object_with_id("x", { wait = function(_, n) go:receive() return n end })
      local call = remote(client, poa, "x")._async:wait(7)
      eventually(function() return server.server.pool:any(function() return true end) end, "it is in progress")
      poa:destroy(false, false)
      poa:destroy(true, false)
      local waits = fiber.spawn(poa.destroy, poa, false, true)
      assert.same({ nil, "timeout" }, { waits:wait(0.05) })
      go:close()
      assert.same({ true, 7 }, { call:wait(20) })
      assert.is_true(waits:wait(20))
      system("OBJECT_NOT_EXIST", 2, poa.destroy, poa, false, true)
    end)
  end)

  it("that another has begun is waited for by the broker's", function()
    local log, server = {}, support.broker()
    local poa = adapter(server, ACTIVATOR, {
      incarnate = function(_, id) return thing(id) end,
      etherealize = function(_, id)
        mare.sleep(0.05)
        log[#log + 1] = id
      end })
    assert.equal("x", poa:create_reference_with_id "x":who())
    poa:destroy(true, false)
    server:shutdown(true)
    assert.same({ "x" }, log)
  end)

  it("leaves the limit of connections from one address as it was", function()
    with(function(server)
      local poa = adapter(server, PLAIN)
      poa:activate_object_with_id("x", { who = function()
        poa:destroy(false, false)                                             -- somebody waits for the end of requests from here on
        return "x"
      end })
      local reference = tostring(poa:id_to_reference "x")
      local hosts = server.server.door.hosts
      for i = 1, 4 do
        local client = support.broker()
        local fine, err = pcall(function() return client:proxy(reference, "Spec::Thing"):who() end)
        assert.equal(i == 1 and "nil" or "OBJECT_NOT_EXIST", tostring(not fine and orb.exception.is_system(err) or nil))
        client:close()
        eventually(function() return not hosts["127.0.0.1"] end, "the connection has gone")
      end
    end, { limits = { peer = 1 } })
  end)
end)

describe("two adapters of one name", function()
  it("below RootPOA and omniINSPOA have nothing in common, in every run", function()
    local keys = {}
    for run = 1, 2 do
      with(function(server, client)
        local root, plain = server:poa(), server:resolve_initial_references "omniINSPOA"
        local a, b = adapter(server, PLAIN), adapter(server, PLAIN, nil, plain)
        a:activate_object_with_id("x", thing "root's")
        b:activate_object_with_id("x", thing "plain's")
        assert.not_equal(a.id, b.id)
        local of_a, of_b = a:id_to_reference "x", b:id_to_reference "x"
        assert.same({ "root's", "plain's" }, { far(client, of_a):who(), far(client, of_b):who() })
        assert.equal("x", b:reference_to_id(of_b))
        raised("POA/WrongAdapter", a.reference_to_id, a, of_b)
        a:destroy(false, true)
        assert.equal("plain's", far(client, of_b):who())
        keys[run] = orb.state(of_b).target.endpoints[1].key
        b:destroy(false, true)
        plain.the_activator = { unknown_adapter = function(_, parent)
          parent:create_POA("a", root.the_POAManager, PLAIN):activate_object_with_id("x", thing "made anew")
          return true
        end }
        assert.equal("made anew", far(client, of_b):who())
        system("OBJECT_NOT_EXIST", 2, function() return far(client, of_a):who() end)
      end)
    end
    assert.equal(keys[1], keys[2])
  end)
end)

describe("what is no object id or no reference", function()
  it("is BAD_PARAM, and any bytes are an id", function()
    with(function(server, client)
      local poa = adapter(server, PLAIN)
      for _, method in ipairs { "deactivate_object", "id_to_servant", "id_to_reference", "create_reference_with_id", "activate_object_with_id" } do
        for _, id in ipairs { 5, {}, false } do system("BAD_PARAM", 0, poa[method], poa, id, thing "z") end
        system("BAD_PARAM", 0, poa[method], poa, nil, thing "z")
      end
      for _, method in ipairs { "reference_to_id", "reference_to_servant" } do
        system("BAD_PARAM", 0, poa[method], poa, nil)
        system("BAD_PARAM", 0, poa[method], poa, 5)
      end
      for _, id in ipairs { "", "\0", "\255\254", "a/b%2f", ("x"):rep(70000) } do
        poa:activate_object_with_id(id, thing "it")
        assert.equal("it", remote(client, poa, id):who())
        assert.equal(id, poa:reference_to_id(poa:id_to_reference(id)))
        poa:deactivate_object(id)
      end
    end)
  end)
end)
