-- POA managers and the end of adapters: what happens to requests that wait, that are in progress, and that come afterwards.
local mare = require "mare"
local orb = require "mare.orb"
local giop = require "spec.support.iiop"
local proc = require "spec.support.proc"
local serving = require "spec.support.serving"
local support = require "spec.support.poa"

local with, raised, system, far, thing = support.with, support.raised, support.system, support.far, support.thing
local channel, fiber = mare.channel, mare.fiber
local eventually = serving.eventually

-- An adapter with a manager of its own that holds, and an object "x" in it.
local function held(server, policies, servant)
  local poa = server:poa():create_POA("a", nil, policies or { "PERSISTENT", "USER_ID" })
  poa:activate_object_with_id("x", servant or thing "x", "Spec::Thing")
  return poa, poa.the_POAManager, poa:id_to_reference "x"
end

-- A request to such an object that has begun, and goes on when the gate is closed: the call, the gate, the adapter, its manager, a proxy.
local function begun(server, client, policies)
  local gate, told = channel.new(), channel.new(1)
  local poa, manager, ref = held(server, policies, { who = function() return "x" end, wait = function(_, n)
    told:send(true)
    gate:receive()
    return n
  end })
  manager:activate()
  local x = far(client, ref)
  local call = x._async:wait(1)
  told:receive()
  return call, gate, poa, manager, x
end

local KINDS = { { "PERSISTENT", "USER_ID" }, { "USER_ID", "SINGLE_THREAD_MODEL" }, { "USER_ID", "MULTIPLE_ID" } }

local function is(future, name, minor) system(name, minor, function() error(select(2, assert(not future:wait(20) and future):wait()), 0) end) end

describe("a manager", function()
  it("holds requests from its beginning, then lets them through in their order", function()
    for _, policies in ipairs(KINDS) do
      with(function(server, client)
        local order = {}
        local poa, manager, ref = held(server, policies, { wait = function(_, n)
          order[#order + 1] = n
          return n
        end })
        assert.equal("HOLDING", manager:get_state())
        local x, calls = far(client, ref), {}
        for i = 1, 50 do
          calls[i] = x._async:wait(i)
          eventually(function() return manager.waiting == i end, "it waits")
        end
        local here = fiber.spawn(function() return ref:wait(51) end)          -- a local call waits, too
        eventually(function() return manager.waiting == 51 end, "the local one waits")
        manager:activate()
        for i = 1, 50 do assert.equal(i, select(2, calls[i]:wait(20))) end
        assert.equal(51, select(2, here:wait(20)))
        for i = 1, 51 do assert.equal(i, order[i]) end
        assert.equal(0, manager.waiting)
        assert.equal(52, x:wait(52))
        assert.equal("ACTIVE", manager:get_state())
        assert.equal(0, poa.active)
      end)
    end
  end)

  it("holds so many and no more: the others get TRANSIENT", function()
    with(function(server, client)
      local _, manager, ref = held(server)
      local x, calls = far(client, ref), {}
      for i = 1, 10 do calls[i] = x._async:who() end
      eventually(function() return manager.waiting == 10 end, "ten wait")
      system("TRANSIENT", 1, x.who, x)
      manager:activate()
      for i = 1, 10 do assert.equal("x", select(2, calls[i]:wait(20))) end
    end, { limits = { held = 10 } })
  end)

  it("holds them for as long as an option says", function()
    with(function(server, client)
      local _, manager, ref = held(server)
      local x = far(client, ref)
      system("TRANSIENT", 1, x.who, x)
      system("TRANSIENT", 1, ref.who, ref)
      assert.equal(0, manager.waiting)
    end, { ORBpoaHoldRequestTimeout = 20 })
  end)

  it("forgets those that are cancelled or whose client has gone", function()
    with(function(server, client)
      local _, manager, ref = held(server)
      local x = far(client, ref):_with { timeout = 0.02 }
      for _ = 1, 3 do system("TIMEOUT", 0, x.who, x) end
      eventually(function() return manager.waiting == 0 end, "the cancelled ones are gone")
      local here = fiber.spawn(function() return ref:who() end)
      eventually(function() return manager.waiting == 1 end, "a local one waits")
      here:cancel()
      eventually(function() return manager.waiting == 0 end, "it waits no more")
      manager:activate()
      assert.equal("x", x:_with { timeout = 0 }:who())
    end)
  end)

  it("discards a thousand requests that it holds", function()
    with(function(server, client)
      local _, manager, ref = held(server)
      local x, calls = far(client, ref), {}
      for i = 1, 1000 do calls[i] = x._async:who() end
      eventually(function() return manager.waiting == 1000 end, "all wait")
      manager:discard_requests(true)
      for i = 1, 1000 do is(calls[i], "TRANSIENT", 1) end
      assert.equal(0, manager.waiting)
      system("TRANSIENT", 1, x.who, x)
      system("TRANSIENT", 1, ref.who, ref)
      manager:activate()
      assert.equal("x", x:who())
    end, { limits = { requests = 2000 } })
  end)

  it("takes nothing more when it is inactive, and stays so", function()
    for _, policies in ipairs(KINDS) do
      with(function(server, client)
        local _, manager, ref = held(server, policies)
        local x = far(client, ref)
        local waits = x._async:who()
        eventually(function() return manager.waiting == 1 end, "it waits")
        manager:deactivate(false, true)
        is(waits, "OBJ_ADAPTER", 1)
        system("OBJ_ADAPTER", 1, x.who, x)
        system("OBJ_ADAPTER", 1, ref.who, ref)
        raised("POAManager/AdapterInactive", manager.activate, manager)
        raised("POAManager/AdapterInactive", manager.hold_requests, manager, false)
        raised("POAManager/AdapterInactive", manager.deactivate, manager, true, true)
        assert.equal("INACTIVE", manager:get_state())
      end)
    end
  end)

  it("changes its state around requests in progress, and waits for them if it is told to", function()
    for _, policies in ipairs(KINDS) do
      with(function(server, client)
        local gates, began = { channel.new(), channel.new() }, channel.new(math.huge)
        local _, manager, ref = held(server, policies, { who = function() return "x" end, wait = function(_, n)
          began:send(n)
          gates[n]:receive()
          return n
        end })
        manager:activate()
        local x = far(client, ref)
        for n, change in ipairs { "hold_requests", "discard_requests" } do
          local call = x._async:wait(n)
          assert.equal(n, (began:receive()))
          local changed = fiber.spawn(function() manager[change](manager, true) end)
          eventually(function() return manager:get_state() ~= "ACTIVE" end, "it has changed")
          assert.equal("waiting", changed:status())
          gates[n]:close()
          assert.equal(n, select(2, call:wait(20)))                           -- what has begun goes on to its end
          assert.is_true((changed:wait(20)))
          manager:activate()
          assert.equal("x", x:who())
        end
      end)
    end
  end)

  it("waits no more when another changes the state again", function()
    with(function(server, client)
      local call, gate, _, manager = begun(server, client)
      local changed = fiber.spawn(function() manager:hold_requests(true) end)
      eventually(function() return manager:get_state() == "HOLDING" end, "it holds")
      manager:activate()
      assert.is_true((changed:wait(20)))
      gate:close()
      assert.equal(1, select(2, call:wait(20)))
    end)
  end)

  it("can't be waited for in a request", function()
    with(function(server, client)
      for i, policies in ipairs(KINDS) do
        local poa = server:poa():create_POA("p" .. i, nil, policies)
        local manager = poa.the_POAManager
        poa:activate_object_with_id("x", { who = function()
          for _, f in ipairs { manager.hold_requests, manager.discard_requests } do system("BAD_INV_ORDER", 3, f, manager, true) end
          system("BAD_INV_ORDER", 3, manager.deactivate, manager, false, true)
          system("BAD_INV_ORDER", 3, poa.destroy, poa, false, true)
          return "not there"
        end }, "Spec::Thing")
        manager:activate()
        assert.equal("not there", far(client, poa:id_to_reference "x"):who())
        assert.equal("ACTIVE", manager:get_state())
      end
    end)
  end)

  it("gives objects back when it is deactivated so, after their last requests", function()
    with(function(server, client)
      local log, gate = {}, channel.new()
      local poa = server:poa():create_POA("a", nil, { "USER_ID", "USE_SERVANT_MANAGER", interface = "Spec::Thing" })
      poa:set_servant_manager {
        incarnate = function(_, id)
          return { who = function() return id end, wait = function(_, n)
            log[#log + 1] = "in"
            gate:receive()
            log[#log + 1] = "out"
            return n
          end }
        end,
        etherealize = function(_, id, _, _, cleanup) log[#log + 1] = id .. tostring(cleanup) end,
      }
      poa.the_POAManager:activate()
      local x = far(client, poa:create_reference_with_id("x", "Spec::Thing"))
      local call = x._async:wait(1)
      eventually(function() return log[1] end, "it is in")
      local ends = fiber.spawn(function() poa.the_POAManager:deactivate(true, true) end)
      eventually(function() return poa.the_POAManager:get_state() == "INACTIVE" end, "it is inactive")
      gate:close()
      assert.is_true((ends:wait(20)))
      assert.same({ "in", "out", "xtrue" }, log)
      assert.equal(1, select(2, call:wait(20)))
    end)
  end)

  it("that holds does not hold up the end of the broker", function()
    local server, client = support.broker { limits = { linger = 0.1 } }, support.broker()
    local _, manager, ref = held(server)
    local call = far(client, ref)._async:who()
    eventually(function() return manager.waiting == 1 end, "it waits")
    server:shutdown(20 * proc.slow)
    is(call, "TRANSIENT", 4)
    client:close()
  end)
end)

describe("destroying an adapter", function()
  it("lets requests in progress end, then is over; later ones find nothing", function()
    for _, policies in ipairs(KINDS) do
      with(function(server, client)
        local call, gate, poa, _, x = begun(server, client, policies)
        local ends = fiber.spawn(function() poa:destroy(true, true) end)
        eventually(function() return poa.destroyed end, "it is being destroyed")
        system("OBJECT_NOT_EXIST", 2, x.who, x)
        system("OBJECT_NOT_EXIST", 2, poa.id_to_reference, poa, "x")
        assert.equal("waiting", ends:status())
        local anew = fiber.spawn(function() return server:poa():create_POA("a", server:poa().the_POAManager, { "PERSISTENT", "USER_ID" }) end)
        gate:close()
        assert.equal(1, select(2, call:wait(20)))
        assert.is_true((ends:wait(20)))
        local second = select(2, anew:wait(20))                               -- the name is free when the first is gone
        second:activate_object_with_id("x", thing "second", "Spec::Thing")
        if policies[1] == "PERSISTENT" then assert.equal("second", x:who())
        else system("OBJECT_NOT_EXIST", 2, x.who, x) end
        assert.equal(1, server:objects())
      end)
    end
  end)

  it("goes on to its end when who waits for that is cancelled", function()
    with(function(server, client)
      local call, gate, poa = begun(server, client)
      local ends = fiber.spawn(function() poa:destroy(true, true) end)
      eventually(function() return poa.destroyed and ends:status() == "waiting" end, "it waits")
      ends:cancel()
      ends:wait(20)
      gate:close()
      assert.equal(1, select(2, call:wait(20)))
      eventually(function() return not next(server:poa().ending) end, "it is over")
      assert.equal(0, server:objects())
    end)
  end)

  it("refuses those that wait for it, and those on the way to it", function()
    with(function(server, client)
      local poa, manager, ref = held(server)
      local x = far(client, ref)
      local waits = x._async:who()
      eventually(function() return manager.waiting == 1 end, "it waits")
      poa:destroy(false, true)
      is(waits, "TRANSIENT", 4)
      local one = server:poa():create_POA("one", server:poa().the_POAManager, { "USER_ID", "SINGLE_THREAD_MODEL" })
      local gate = channel.new()
      one:activate_object_with_id("x", { wait = function(_, n)
        gate:receive()
        return n
      end }, "Spec::Thing")
      local y = far(client, one:id_to_reference "x")
      local first = y._async:wait(1)
      eventually(function() return one.active == 1 end, "the first is in")
      local second = y._async:wait(2)
      eventually(function() return one.active == 2 end, "the second waits for its turn")
      one:destroy(false, false)
      gate:close()
      assert.equal(1, select(2, first:wait(20)))
      is(second, "TRANSIENT", 4)
    end)
  end)

  it("may be asked for by its own request; its children go first", function()
    with(function(server, client)
      local root, log = server:poa(), {}
      local activator = { incarnate = function(_, id)
        return { gone = function() root:find_POA("a"):destroy(true, false) log[#log + 1] = "asked in " .. id end, who = function() return id end }
      end, etherealize = function(_, id, poa) log[#log + 1] = poa.the_name .. " " .. id end }
      local at, refs = root, {}
      for _, name in ipairs { "a", "b", "c" } do
        at = at:create_POA(name, root.the_POAManager, { "USER_ID", "USE_SERVANT_MANAGER", interface = "Spec::Thing" })
        at:set_servant_manager(activator)
        refs[name] = far(client, at:create_reference_with_id(name .. "1", "Spec::Thing"))
        refs[name]:who()
      end
      refs.b:gone()
      eventually(function() return #log == 4 end, "all are given back")
      assert.same({ "asked in b1", "c c1", "b b1", "a a1" }, log)
      system("OBJECT_NOT_EXIST", 2, refs.c.who, refs.c)
      assert.equal(0, server:objects())
    end)
  end)

  it("with many objects, and many adapters, leaves nothing behind", function()
    with(function(server, client)
      local root = server:poa()
      for round = 1, 3 do
        for i = 1, 50 do
          local poa = root:create_POA("p" .. i, root.the_POAManager, { "USER_ID", round == 1 and "UNIQUE_ID" or "MULTIPLE_ID" })
          for k = 1, 20 do poa:activate_object_with_id(tostring(k), thing(tostring(k)), "Spec::Thing") end
        end
        assert.equal("7", far(client, root:find_POA("p3"):id_to_reference "7"):who())
        assert.equal(1000, server:objects())
        for _, poa in ipairs(root.the_children) do poa:destroy(false, round == 2) end
        assert.equal(0, server:objects())
      end
      local tree = server.server.tree
      assert.is_nil(next(tree.by_prefix))
      assert.is_nil(next(root.ending))
      assert.is_nil(next(server.server.adapter.objects))
      local n = 0
      for _ in pairs(root.the_POAManager.adapters) do n = n + 1 end
      assert.equal(1, n)
    end)
  end)
end)

describe("a stranger's key", function()
  it("finds no object, and nothing else happens", function()
    with(function(server, _, log)
      local root = server:poa()
      local asked = 0
      root.the_activator = { unknown_adapter = function()
        asked = asked + 1
        return true                                                           -- it lies
      end }
      local a = root:create_POA("a", root.the_POAManager, { "PERSISTENT", "USER_ID", "MULTIPLE_ID", "USE_DEFAULT_SERVANT" })
      a:set_servant(thing "default", "Spec::Thing")
      server:serve(thing "x", "Spec::Thing", { key = "x" })
      local key = orb.state(a:create_reference_with_id("", "Spec::Thing")).target.endpoints[1].key
      local stamp = server.server.adapter.stamp
      local connection = giop.connect(tonumber(server:address():match(":(%d+)$")))
      local function outcome(k)
        local reply = connection:call("who", k)
        return reply.status == 0 and "served" or giop.system(reply)
      end
      assert.equal("served", outcome(key))
      for i = 1, #key - 1 do assert.truthy(outcome(key:sub(1, i)):find "^OBJECT_NOT_EXIST", "cut at " .. i) end
      local path = string.pack(">s2", "a")
      for _, k in ipairs {
        "\xffpoa", "\xffpoa\0", "\xffpoa\xff\xff", "\xffpoa\0\0", "\xffpoa\0\0x", "\xffpoa\0\2\0\5x", "\xffpoa" .. string.pack(">s2", path .. "\0"),
        "\xffpoa" .. string.pack(">s2", path .. path), "\xffpoa" .. string.pack(">s2", ("\0\0"):rep(20000)), stamp, stamp .. "\0\0\0\0",
        stamp .. "\0\0\0\0\0\3\0\1a\0\0\0\1x", stamp .. "\0\0\0\0\0\3", "\xffpoa\0\2\0\0x",
        "\xffpoa\0\3\0\1bx", stamp .. "\0\0\0\7", stamp:sub(1, 5) .. ("\0"):rep(20), ("\xff"):rep(70000),
      } do
        assert.truthy(outcome(k):find "^OBJECT_NOT_EXIST", k)
      end
      assert.equal("served", outcome "x")
      assert.equal(1, asked)
      assert.equal(0, #log)
      connection:close()
    end)
  end)
end)
