-- Clients of event channels that are hostile, or vanish by the thousand: memory stays bounded, and others get their events.
-- runs under: mare
local orb = require "mare.orb"
local channels = require "spec.support.event_service"
local iiop = require "spec.support.iiop"
local proc = require "spec.support.proc"

local N = proc.config == "plain" and 2000 or 300

local until_true, with = channels.until_true, channels.with

local function listen(s, servant)
  local p = s.channel:for_consumers():obtain_push_supplier()
  p:connect_push_consumer(servant)
  return p
end

describe("an event channel", function()
  it("lets thousands of consumers vanish, and the one that stays gets all", function()
    with({ limits = { gone = 0.3, bytes = 4 << 20 } }, function(s)
      local got, crowd = {}, orb.init { host = "127.0.0.1", timeout = channels.LIMIT, log = function() end }
      local there = crowd:proxy("corbaloc::" .. s.server:address() .. "/EventChannel", "CosEventChannelAdmin::EventChannel")
      local admin = there:for_consumers()
      for _ = 1, N do admin:obtain_push_supplier():connect_push_consumer { push = function() end } end
      listen(s, channels.consumer(got))
      assert.equal(N + 1, s.service:figures()[1].consumers)
      crowd:shutdown(true)
      local push = channels.supplier(s)
      for i = 1, 20 do
        push:push(("x"):rep(1000) .. i)
        assert.is_true(s.service.account.bytes <= 4 << 20)
      end
      until_true(function() return #got == 20 and s.service:figures()[1].consumers == 1 end)
      local figures = s.service:figures()[1]
      assert.same({ N, 0 }, { figures.dropped, s.service.account.bytes })
      assert.equal(20, #got)
    end)
  end)

  it("takes a type that only has the id of structured events for any other", function()
    with({}, function(s)
      local got, liar = {}, orb.init { timeout = channels.LIMIT, log = function() end }
      listen(s, { push = function(_, any) table.insert(got, any._anyval.header) end })
      liar:load [[
        struct Lie { long header; };
        #pragma ID Lie "IDL:omg.org/CosNotification/StructuredEvent:1.0"
      ]]
      local there = liar:proxy("corbaloc::" .. s.server:address() .. "/EventChannel", "CosEventChannelAdmin::EventChannel")
      local p = there:for_suppliers():obtain_push_consumer()
      p:connect_push_supplier(nil)
      p:push { _anytype = liar:type "Lie", _anyval = { header = 7 } }
      until_true(function() return got[1] == 7 end)
      liar:close()
    end)
  end)

  it("takes types that nobody knows, and refuses bytes that are none", function()
    with({}, function(s)
      local got = {}
      listen(s, { push = function(_, any) table.insert(got, any._anytype.kind) end })
      local p = s.channel:for_suppliers():obtain_push_consumer()
      p:connect_push_supplier(nil)
      local origin = orb.state(p).target.origin[1]
      local c <close> = iiop.connect(origin.port)
      -- an any of tk_string, then TypeCodes of kinds that don't exist, that point nowhere, and that end too soon
      local text = string.pack("<I4I4I4z", 18, 0, 3, "hi")
      assert.equal(0, c:call("push", origin.key, text).status)
      for _, bytes in ipairs { string.pack("<I4", 4711), string.pack("<I4i4", 0xffffffff, -400), string.pack("<I4I4", 15, 100000), "",
                               string.pack("<I4I4I4", 18, 0, 0x7fffffff) } do
        assert.equal(2, c:call("push", origin.key, bytes).status)                         -- SYSTEM_EXCEPTION
      end
      p:push "still there"
      until_true(function() return #got == 2 end)
      assert.equal(2, s.service:figures()[1].received)
    end)
  end)

  it("has a bounded number of proxies: those that nobody uses any more give way", function()
    with({ limits = { proxies = 3 } }, function(s)
      local admin = s.channel:for_consumers()
      for _ = 1, 3 do admin:obtain_push_supplier() end
      assert.equal("NO_RESOURCES", channels.raised(admin.obtain_push_supplier, admin))
      for _, p in pairs(s.service.parts) do
        if p.used then p.used = p.used - 61 end
      end
      admin:obtain_push_supplier():connect_push_consumer(channels.consumer {})
      assert.equal(3, s.service.counts.proxy)
    end)
  end)
end)
