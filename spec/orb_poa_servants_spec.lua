-- Servant managers and default servants: who is asked for objects that are not active, how often, and when they are given back.
local mare = require "mare"
local support = require "spec.support.poa"
local serving = require "spec.support.serving"

local with, raised, system, far, thing = support.with, support.raised, support.system, support.far, support.thing
local channel = mare.channel
local ACTIVATOR = { "PERSISTENT", "USER_ID", "USE_SERVANT_MANAGER", interface = "Spec::Thing" }
local LOCATOR = { "PERSISTENT", "USER_ID", "NON_RETAIN", "USE_SERVANT_MANAGER", interface = "Spec::Thing" }

local function adapter(server, policies, manager)
  local root = server:poa()
  local poa = root:create_POA("a", root.the_POAManager, policies)
  if manager then poa:set_servant_manager(manager) end
  return poa
end

local function remote(client, poa, id) return far(client, poa:create_reference_with_id(id, "Spec::Thing")) end

-- An activator that writes down what it was asked.
local function recorder()
  local activator = { log = {} }
  function activator:incarnate(id)
    self.log[#self.log + 1] = "incarnate " .. id
    return self.make and self.make(id) or thing(id)
  end
  function activator:etherealize(id, _, servant, cleanup, remaining)
    self.log[#self.log + 1] = ("etherealize %s %s %s %s"):format(id, servant.who(), cleanup, remaining)
  end
  return activator
end

describe("a servant activator", function()
  it("makes an object when it is first called, and gets it back when it is deactivated", function()
    with(function(server, client)
      local activator = recorder()
      local poa = adapter(server, ACTIVATOR, activator)
      local x = remote(client, poa, "x")
      for _ = 1, 3 do assert.equal("x", x:who()) end
      assert.equal("x", poa:id_to_servant("x").who())
      assert.equal(1, server:objects())
      poa:deactivate_object "x"
      raised("POA/ObjectNotActive", poa.deactivate_object, poa, "x")
      assert.equal("x", x:who())                                              -- made anew, after it was given back
      assert.same({ "incarnate x", "etherealize x x false false", "incarnate x" }, activator.log)
      assert.equal("x", poa:create_reference_with_id("x", "Spec::Thing"):who())   -- from here, too
      assert.equal(3, #activator.log)
    end)
  end)

  it("makes one object for requests that come together, however long that takes", function()
    with(function(server, client)
      local go, activator = channel.new(), recorder()
      activator.make = function(id)
        go:receive()
        return thing(id)
      end
      local poa = adapter(server, ACTIVATOR, activator)
      local calls = {}
      for i = 1, 50 do calls[i] = remote(client, poa, "x")._async:who() end
      local other = remote(client, poa, "y")._async:who()
      serving.eventually(function() return #activator.log == 2 end, "both ids are asked for")
      go:close()
      for i = 1, 50 do assert.equal("x", select(2, calls[i]:wait(20))) end
      assert.equal("y", select(2, other:wait(20)))
      assert.equal(2, #activator.log)
    end)
  end)

  it("that fails fails for those who wait for the same object, once; the next call asks again", function()
    with(function(server, client, log)
      local go, activator, fails = channel.new(), recorder(), true
      activator.make = function(id)
        go:receive()
        if fails then error "out of order" end
        return thing(id)
      end
      local poa = adapter(server, ACTIVATOR, activator)
      local x, calls = remote(client, poa, "x"), {}
      for i = 1, 20 do calls[i] = x._async:who() end
      serving.eventually(function() return poa.active == 20 end, "all wait")
      go:close()
      for i = 1, 20 do system("UNKNOWN", 0, function() error(select(2, calls[i]:wait(20)), 0) end) end
      assert.equal(1, #activator.log)
      assert.truthy(log[1]:find("out of order", 1, true))
      fails = false
      assert.equal("x", x:who())
      assert.equal(0, poa.active)
    end)
  end)

  it("may refuse by an exception, send the client elsewhere, or be wrong", function()
    with(function(server, client, log)
      local activator = {}
      local poa = adapter(server, ACTIVATOR)
      local elsewhere = server:serve(thing "elsewhere", "Spec::Thing", { key = "elsewhere" })
      local shared = thing "shared"
      function activator.incarnate(_, id)
        if id == "refused" then error(require "mare.orb".system("NO_PERMISSION", 7), 0) end
        if id == "raised" then error({ _repid = "IDL:omg.org/PortableServer/ForwardRequest:1.0", forward_reference = elsewhere }, 0) end
        if id == "returned" then return elsewhere end
        if id == "empty" then error({ _repid = "IDL:omg.org/PortableServer/ForwardRequest:1.0" }, 0) end
        if id == "wrong" then return 17 end
        if id:find "^shared" then return shared end
        if id == "other" then return {}, "Spec::Other" end
      end
      system("OBJ_ADAPTER", 4, function() return remote(client, poa, "x"):who() end)      -- there is none yet
      system("OBJ_ADAPTER", 4, poa.set_servant_manager, poa, { preinvoke = function() end })
      poa:set_servant_manager(activator)
      system("BAD_INV_ORDER", 6, poa.set_servant_manager, poa, activator)
      assert.equal(activator, poa:get_servant_manager())
      system("NO_PERMISSION", 7, function() return remote(client, poa, "refused"):who() end)
      for _, id in ipairs { "raised", "returned" } do
        assert.equal("elsewhere", remote(client, poa, id):who())
        assert.equal("elsewhere", poa:create_reference_with_id(id, "Spec::Thing"):who())
      end
      system("OBJ_ADAPTER", 2, function() return remote(client, poa, "empty"):who() end)
      system("OBJ_ADAPTER", 2, function() return remote(client, poa, "wrong"):who() end)
      system("OBJ_ADAPTER", 7, function() return remote(client, poa, "nobody"):who() end)
      assert.equal("shared", remote(client, poa, "shared1"):who())
      system("OBJ_ADAPTER", 5, function() return remote(client, poa, "shared2"):who() end)
      system("BAD_OPERATION", 2, function() return remote(client, poa, "other"):who() end)
      assert.equal(0, #log)
    end)
  end)

  it("that has lost its client goes on for the others", function()
    with(function(server, client)
      local go, activator, asked = channel.new(), {}, 0
      function activator.incarnate(_, id)
        asked = asked + 1
        go:receive()
        return thing(id)
      end
      local poa = adapter(server, ACTIVATOR, activator)
      local first = remote(client, poa, "x"):_with { timeout = 0.05 }
      local early = first._async:who()
      serving.eventually(function() return asked == 1 end, "the first is asked")
      local late = remote(client, poa, "x")._async:who()
      assert.is_false((early:wait(20)))                                       -- its CancelRequest ends the activator there
      serving.eventually(function() return asked == 2 end, "the second asks anew")
      go:close()
      assert.equal("x", select(2, late:wait(20)))
      serving.eventually(function() return poa.active == 0 and not next(poa.changing) end, "nothing is left")
    end)
  end)

  it("gets an object back after its last request, and makes it anew only then", function()
    with(function(server, client)
      local go, activator = channel.new(), recorder()
      activator.make = function(id)
        return { who = function() return id end, wait = function(_, n) go:receive() return n end }
      end
      local poa = adapter(server, ACTIVATOR, activator)
      local x = remote(client, poa, "x")
      local calls = { x._async:wait(1) }
      calls[2] = x._async:wait(2)
      serving.eventually(function() return poa.active == 2 end, "two are in it")
      poa:deactivate_object "x"
      local third = x._async:who()
      serving.eventually(function() return poa.active == 3 end, "the third waits")
      assert.same({ "incarnate x" }, activator.log)
      go:close()
      assert.equal(1, select(2, calls[1]:wait(20)))
      assert.equal(2, select(2, calls[2]:wait(20)))
      assert.equal("x", select(2, third:wait(20)))
      assert.same({ "incarnate x", "etherealize x x false false", "incarnate x" }, activator.log)
    end)
  end)

  it("is told whether the servant is other objects still; what it fails with is only logged", function()
    with(function(server, client, log)
      local activator, shared = recorder(), thing "shared"
      activator.make = function() return shared end
      local poa = adapter(server, { "USER_ID", "MULTIPLE_ID", "USE_SERVANT_MANAGER", interface = "Spec::Thing" }, activator)
      for _, id in ipairs { "a", "b" } do remote(client, poa, id):who() end
      poa:deactivate_object "a"
      serving.eventually(function() return #activator.log == 3 end, "the first is given back")
      poa:deactivate_object "b"
      serving.eventually(function() return #activator.log == 4 end, "both are given back")
      assert.same({ "etherealize a shared false true", "etherealize b shared false false" }, { activator.log[3], activator.log[4] })
      function activator.etherealize() error "cannot save" end
      remote(client, poa, "c"):who()
      poa:destroy(true, true)
      assert.truthy(log[1]:find("cannot save", 1, true))
      assert.equal(0, server:objects())
    end)
  end)

  it("gets all back at the end of the broker", function()
    local activator = recorder()
    with(function(server, client)
      local poa = adapter(server, ACTIVATOR, activator)
      for _, id in ipairs { "a", "b" } do remote(client, poa, id):who() end
    end)
    table.sort(activator.log)
    assert.same({ "etherealize a a true false", "etherealize b b true false", "incarnate a", "incarnate b" }, activator.log)
  end)

  it("gets no request of an object that its own request has ended, when that calls it again", function()
    with(function(server, client)
      local activator = recorder()
      local poa
      activator.make = function(id)
        return { who = function() return id end, gone = function()
          local me = poa:id_to_reference(id)
          poa:deactivate_object(id)
          return me:who()                                                     -- it would wait for its own end
        end }
      end
      poa = adapter(server, ACTIVATOR, activator)
      local x = remote(client, poa, "x")
      system("OBJECT_NOT_EXIST", 1, x.gone, x)
      assert.equal("x", x:who())
      assert.equal(3, #activator.log)
    end)
  end)
end)

describe("a servant locator", function()
  it("gives a servant for each request, and is told its end with its own cookie", function()
    with(function(server, client)
      local locator, log = {}, {}
      function locator.preinvoke(_, id, poa, operation)
        log[#log + 1] = ("pre %s %s %s"):format(id, poa.the_name, operation)
        return thing(id), nil, { number = #log }
      end
      function locator.postinvoke(_, id, _, operation, cookie, servant)
        log[#log + 1] = ("post %s %s %d %s"):format(id, operation, cookie.number, servant.who())
      end
      local poa = adapter(server, LOCATOR, locator)
      assert.equal("x", remote(client, poa, "x"):who())
      assert.equal("y", poa:create_reference_with_id("y", "Spec::Thing"):who())
      assert.same({ "pre x a who", "post x who 1 x", "pre y a who", "post y who 3 y" }, log)
      assert.equal(0, server:objects())
      local x = remote(client, poa, "x")
      system("NO_IMPLEMENT", 0, x.fail, x, "what is missing")
      assert.same({ "pre x a fail", "post x fail 5 x" }, { log[5], log[6] })
    end)
  end)

  it("ends a request that was cancelled or failed, and what postinvoke raises is its outcome", function()
    with(function(server, client)
      local posts, wrong = 0, false
      local locator = {}
      function locator.preinvoke(_, id)
        return { who = function() return id end, wait = function() mare.sleep(3600) end, fail = function() error "failed" end }
      end
      function locator.postinvoke()
        posts = posts + 1
        if wrong then error(require "mare.orb".system("PERSIST_STORE", 3), 0) end
      end
      local poa = adapter(server, LOCATOR, locator)
      local x = remote(client, poa, "x")
      system("UNKNOWN", 0, x.fail, x, "")
      assert.equal(1, posts)
      local slow = x:_with { timeout = 0.02 }
      system("TIMEOUT", 0, slow.wait, slow, 1)
      serving.eventually(function() return posts == 2 end, "the cancelled one ends")
      wrong = true
      system("PERSIST_STORE", 3, x.who, x)
      assert.equal(0, poa.active)
    end)
  end)

  it("may send clients elsewhere, refuse, or be wrong", function()
    with(function(server, client)
      local elsewhere = server:serve(thing "elsewhere", "Spec::Thing")
      local poa = adapter(server, LOCATOR, { preinvoke = function(_, id)
        if id == "there" then return elsewhere end
        if id == "raised" then error({ _repid = "IDL:omg.org/PortableServer/ForwardRequest:1.0", forward_reference = elsewhere }, 0) end
        if id == "wrong" then return "text" end
        if id == "cancelled" then error(require "mare.orb".system("TRANSIENT", 0), 0) end
      end })
      assert.equal("elsewhere", remote(client, poa, "there"):who())
      assert.equal("elsewhere", remote(client, poa, "raised"):who())
      system("OBJ_ADAPTER", 2, function() return remote(client, poa, "wrong"):who() end)
      system("OBJ_ADAPTER", 7, function() return remote(client, poa, "none"):who() end)
      system("TRANSIENT", 0, function() return remote(client, poa, "cancelled"):who() end)
    end)
  end)
end)

describe("a default servant", function()
  it("serves the ids that are not active, by POACurrent's word", function()
    with(function(server, client)
      local current = server:resolve_initial_references "POACurrent"
      local poa = adapter(server, { "PERSISTENT", "USER_ID", "MULTIPLE_ID", "USE_DEFAULT_SERVANT", interface = "Spec::Thing" })
      local x = remote(client, poa, "x")
      system("OBJ_ADAPTER", 3, x.who, x)
      raised("POA/NoServant", poa.get_servant, poa)
      local default = {}
      function default.who() return "default " .. current:get_object_id() end
      poa:set_servant(default)
      assert.equal(default, poa:get_servant())
      poa:activate_object_with_id("own", thing "own", "Spec::Thing")
      assert.equal("default x", x:who())
      assert.equal("own", remote(client, poa, "own"):who())
      assert.equal(default, poa:id_to_servant "anything")
      assert.equal(default, poa:reference_to_servant(poa:create_reference_with_id("y")))
      raised("POA/ServantNotActive", poa.servant_to_id, poa, default)
      function default.who() return poa:servant_to_id(default) .. " " .. poa:reference_to_id(poa:servant_to_reference(default)) end
      assert.equal("x x", x:who())
      poa:set_servant(nil)
      system("OBJ_ADAPTER", 3, x.who, x)
      raised("POA/WrongPolicy", server:poa().set_servant, server:poa(), default)
    end)
  end)
end)

describe("a single-thread adapter", function()
  -- How many were served at the same time, at most. Where there should be several, each waits until that many have been there.
  local function crowd(client, poas, several)
    local inside, most, servant = 0, 0, {}
    local till = mare.clock() + 30
    function servant.who()
      inside = inside + 1
      most = math.max(most, inside)
      repeat mare.sleep(0.002) until most >= (several or 1) or mare.clock() > till
      inside = inside - 1
      return "done"
    end
    local calls = {}
    for i = 1, 20 do
      local poa = poas[i % #poas + 1]
      if not poa.entries[poa.prefix .. "x"] then poa:activate_object_with_id("x", servant, "Spec::Thing") end
      calls[i] = far(client, poa:id_to_reference "x")._async:who()
    end
    for i = 1, 20 do assert.equal("done", select(2, calls[i]:wait(60))) end
    return most
  end

  it("serves one request at a time, others beside it; in the main-thread model all such adapters together", function()
    with(function(server, client)
      local root = server:poa()
      local function make(name, model) return root:create_POA(name, root.the_POAManager, { "USER_ID", model }) end
      assert.equal(1, crowd(client, { make("one", "SINGLE_THREAD_MODEL") }))
      assert.equal(2, crowd(client, { make("two", "SINGLE_THREAD_MODEL"), make("three", "SINGLE_THREAD_MODEL") }, 2))
      assert.equal(1, crowd(client, { make("four", "MAIN_THREAD_MODEL"), make("five", "MAIN_THREAD_MODEL") }))
      assert.truthy(crowd(client, { make("free", "ORB_CTRL_MODEL") }, 3) > 2)
    end)
  end)

  it("lets a request call itself; one that is cancelled gives its turn away", function()
    with(function(server, client)
      local root = server:poa()
      local poa = root:create_POA("one", root.the_POAManager, { "USER_ID", "SINGLE_THREAD_MODEL" })
      local me
      poa:activate_object_with_id("x", { who = function() return "inner" end, fail = function(_, name) assert(me:who() == name) end,
                                         wait = function() mare.sleep(3600) end }, "Spec::Thing")
      me = poa:id_to_reference "x"
      local x = far(client, me)
      x:fail "inner"
      local slow = x:_with { timeout = 0.02 }
      local waiting = {}
      for i = 1, 5 do waiting[i] = slow._async:wait(i) end
      for i = 1, 5 do assert.is_false((waiting[i]:wait(20))) end
      assert.equal("inner", x:who())
      assert.equal(0, poa.active)
      assert.is_false(poa.one.owner)
    end)
  end)
end)

describe("interceptors", function()
  it("are told of a request after its object was found, whoever found it, here and over a connection", function()
    with(function(server, client)
      local seen = {}
      server:intercept { name = "watch", send_request = function() end, receive_request = function(_, info)
        seen[#seen + 1] = info.operation .. " " .. tostring(info.adapter_id == server:poa():find_POA "a".id)
      end, send_other = function(_, info) seen[#seen + 1] = "sent " .. tostring(info.reply_status) end }
      local elsewhere, order = server:serve(thing "elsewhere", "Spec::Thing", { key = "elsewhere" }), {}
      local poa = adapter(server, LOCATOR, {
        preinvoke = function(_, id)
          order[#order + 1] = "pre"
          if id == "moved" then return elsewhere end
          return thing(id)
        end,
        postinvoke = function() order[#order + 1] = "post" end,
      })
      assert.equal("x", remote(client, poa, "x"):who())
      assert.equal("y", poa:create_reference_with_id("y", "Spec::Thing"):who())
      assert.same({ "who true", "who true" }, seen)
      assert.same({ "pre", "post", "pre", "post" }, order)
      assert.equal("elsewhere", remote(client, poa, "moved"):who())
      assert.equal("elsewhere", poa:create_reference_with_id("moved", "Spec::Thing"):who())
      assert.same({ "sent LOCATION_FORWARD", "who false", "sent LOCATION_FORWARD", "who false" }, { table.unpack(seen, 3) })
    end)
  end)
end)
