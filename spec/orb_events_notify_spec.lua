-- The notification service: structured events, admins, filters and subscriptions, properties of quality, what of them lasts.
-- runs under: mare
-- needs: plain
local mare = require "mare"
local orb = require "mare.orb"
local events = require "mare.orb.events"
local channels = require "spec.support.event_service"
local foreign = require "spec.support.foreign"
local temporary = require "spec.support.temporary"

local with, raised, until_true, consumer = channels.with, channels.raised, channels.until_true, channels.consumer
local no_sqlite = foreign.no_sqlite()

local function structured_consumer(s, servant, admin, prepare)
  local proxy, id = (admin or s.channel:_get_default_consumer_admin()):obtain_notification_push_supplier "STRUCTURED_EVENT"
  proxy = proxy:_narrow "CosNotifyChannelAdmin::StructuredProxyPushSupplier"
  if prepare then prepare(proxy) end
  proxy:connect_structured_push_consumer(servant)
  return proxy, id
end

local function structured_supplier(s, admin)
  local proxy = (admin or s.channel:_get_default_supplier_admin()):obtain_notification_push_consumer "STRUCTURED_EVENT"
  proxy = proxy:_narrow "CosNotifyChannelAdmin::StructuredProxyPushConsumer"
  proxy:connect_structured_push_supplier(nil)
  return proxy
end

local function event(s, name, data, header, kind)
  local e = events.structured { domain = "Rail", type = kind or "Alarm", name = name, data = data, header = header }
  for _, p in ipairs(e.header.variable_header) do p.value._anytype = s.client:type(p.value._anytype) end
  return e
end

local function filter(s, ...)
  local f = s.channel:_get_default_filter_factory():create_filter "EXTENDED_TCL"
  local list = {}
  for i, text in ipairs { ... } do list[i] = { event_types = {}, constraint_expr = text } end
  f:add_constraints(list)
  return f
end

local function text(list) return table.concat(list, " ") end

local function property(s, name, kind, value) return { name = name, value = { _anytype = s.client:type(kind), _anyval = value } } end

local function property_of(list, name)
  for _, p in ipairs(list) do
    if p.name == name then return p.value._anyval end
  end
end

-- A consumer that takes an event only when it is told to, so that others wait: the consumer, the gate.
local function gated(got)
  local gate, c = mare.channel.new(math.huge), consumer(got)
  local take = c.push_structured_event
  c.push_structured_event = function(self, e)
    gate:receive()
    take(self, e)
  end
  return c, gate
end

describe("a structured event", function()
  it("arrives as it was sent, is an any for others, and comes out of one", function()
    with({}, function(s)
      local got, anys = {}, {}
      structured_consumer(s, { push_structured_event = function(_, e) table.insert(got, events.plain(e)) end, offer_change = function() end })
      local plain = s.channel:for_consumers():obtain_push_supplier()
      plain:connect_push_consumer { push = function(_, any) table.insert(anys, any) end }
      structured_supplier(s):push_structured_event(event(s, "brake", { severity = 4, place = "Ulm" }, { Priority = 2 }))
      until_true(function() return #got == 1 and #anys == 1 end)
      assert.same({ domain = "Rail", type = "Alarm", name = "brake", header = { Priority = 2 }, data = { severity = 4, place = "Ulm" } }, got[1])
      assert.equal("IDL:omg.org/CosNotification/StructuredEvent:1.0", anys[1]._anytype.id)
      local push = channels.supplier(s)
      push:push(anys[1])
      push:push "plain"
      until_true(function() return #got == 3 end)
      assert.same({ "brake", "%ANY", "plain" }, { got[2].name, got[3].type, got[3].body })
    end)
  end)

  it("can be pulled, and waited for", function()
    with({}, function(s)
      local proxy = s.channel:_get_default_consumer_admin():obtain_notification_pull_supplier "STRUCTURED_EVENT"
      proxy = proxy:_narrow "CosNotifyChannelAdmin::StructuredProxyPullSupplier"
      proxy:connect_structured_pull_consumer(nil)
      assert.is_false(select(2, proxy:try_pull_structured_event()))
      local future = proxy._async:pull_structured_event()
      structured_supplier(s):push_structured_event(event(s, "a"))
      local _, e = future:wait()
      assert.equal("a", e.header.fixed_header.event_name)
    end)
  end)

  it("is pulled from a supplier that has some", function()
    with({ limits = { poll = 0.01 } }, function(s)
      local got, n = {}, 0
      structured_consumer(s, consumer(got))
      local proxy = s.channel:_get_default_supplier_admin():obtain_notification_pull_consumer "STRUCTURED_EVENT"
      proxy = proxy:_narrow "CosNotifyChannelAdmin::StructuredProxyPullConsumer"
      proxy:connect_structured_pull_supplier { subscription_change = function() end, try_pull_structured_event = function()
        n = n + 1
        return event(s, "e" .. n), n <= 3
      end }
      until_true(function() return text(got) == "e1 e2 e3" end)
    end)
  end)
end)

describe("a filter", function()
  it("lets through what one of its constraints is true for, at a consumer, a supplier, or an admin", function()
    with({}, function(s)
      local a, b, c = {}, {}, {}
      structured_consumer(s, consumer(a), nil, function(p) p:add_filter(filter(s, "$n > 3", "$n == 1")) end)
      local admin = s.channel:new_for_consumers "AND_OP"
      admin:add_filter(filter(s, "$n > 1"))
      structured_consumer(s, consumer(b), admin, function(p) p:add_filter(filter(s, "$n < 4")) end)
      local either = s.channel:new_for_consumers "OR_OP"
      either:add_filter(filter(s, "$n == 1"))
      structured_consumer(s, consumer(c), either, function(p) p:add_filter(filter(s, "$n == 5")) end)
      local supplier = structured_supplier(s)
      supplier:add_filter(filter(s, "$n != 2"))
      for i = 1, 6 do supplier:push_structured_event(event(s, "e" .. i, { n = i })) end
      until_true(function() return #a == 4 and #b == 1 and #c == 2 end)
      assert.same({ "e1 e4 e5 e6", "e3", "e1 e5" }, { text(a), text(b), text(c) })
    end)
  end)

  it("is changed, asked and taken away while events flow", function()
    with({}, function(s)
      local got, f = {}, filter(s, "$n == 1")
      local proxy = structured_consumer(s, consumer(got))
      local id = proxy:add_filter(f)
      assert.same({ id }, proxy:get_all_filters())
      assert.equal(f, proxy:get_filter(id))
      local infos = f:get_all_constraints()
      assert.equal("$n == 1", infos[1].constraint_expression.constraint_expr)
      local after = { event_types = {}, constraint_expr = "$n == 2" }
      f:modify_constraints({}, { { constraint_id = infos[1].constraint_id, constraint_expression = after } })
      assert.is_true(f:match_structured(event(s, "x", { n = 2 })))
      assert.is_true(f:match_typed { { name = "n", value = 2 } })
      assert.is_false(f:match(1))
      assert.equal("ConstraintNotFound", raised(f.get_constraints, f, { 99 }))
      assert.equal("ConstraintNotFound", raised(f.modify_constraints, f, { 99 }, {}))
      assert.equal("InvalidConstraint", raised(f.add_constraints, f, { { event_types = {}, constraint_expr = "$n ==" } }))
      assert.equal("FilterNotFound", raised(proxy.remove_filter, proxy, 99))
      local supplier = structured_supplier(s)
      for i = 1, 3 do supplier:push_structured_event(event(s, "e" .. i, { n = i })) end
      f:destroy()
      assert.same({}, proxy:get_all_filters())
      supplier:push_structured_event(event(s, "e4"))
      until_true(function() return text(got) == "e2 e4" end)
      local factory = s.channel:_get_default_filter_factory()
      assert.equal("InvalidGrammar", raised(factory.create_filter, factory, "SQL"))
      assert.equal("NO_IMPLEMENT", raised(factory.create_mapping_filter, factory, "EXTENDED_TCL", 1))
    end)
  end)

  it("is no mapping filter: there are none, at admins and proxies neither, and who asks to be told of changes is refused", function()
    with({}, function(s)
      local f, admin = filter(s, ""), s.channel:_get_default_consumer_admin()
      for _, object in ipairs { admin, (structured_consumer(s, consumer {})) } do
        for _, name in ipairs { "priority_filter", "lifetime_filter" } do
          assert.is_nil(object["_get_" .. name](object))
          assert.equal("NO_IMPLEMENT", raised(object["_set_" .. name], object, nil))
        end
      end
      assert.equal("NO_IMPLEMENT", raised(f.attach_callback, f, nil))
      assert.equal("CallbackNotFound", raised(f.detach_callback, f, 1))
    end)
  end)

  it("has types of events in its constraints, a subscription has some, too", function()
    with({}, function(s)
      local a, b = {}, {}
      local f = s.channel:_get_default_filter_factory():create_filter "EXTENDED_TCL"
      f:add_constraints { { event_types = { { domain_name = "Rail", type_name = "N*" } }, constraint_expr = "" } }
      structured_consumer(s, consumer(a), nil, function(p) p:add_filter(f) end)
      local proxy = structured_consumer(s, consumer(b))
      proxy:subscription_change({ { domain_name = "*", type_name = "Alarm" } }, {})
      local supplier = structured_supplier(s)
      supplier:offer_change({ { domain_name = "Rail", type_name = "Note" } }, {})
      assert.equal("Note", proxy:obtain_offered_types("ALL_NOW_UPDATES_OFF")[1].type_name)
      assert.equal("Alarm", supplier:obtain_subscription_types("ALL_NOW_UPDATES_OFF")[1].type_name)
      assert.equal("NO_IMPLEMENT", raised(proxy.obtain_offered_types, proxy, "ALL_NOW_UPDATES_ON"))
      for i, kind in ipairs { "Alarm", "Note", "Nothing", "Other" } do supplier:push_structured_event(event(s, "e" .. i, {}, {}, kind)) end
      until_true(function() return text(a) == "e2 e3" and text(b) == "e1" end)
    end)
  end)
end)

describe("quality", function()
  it("that isn't there is refused, each with what is wrong", function()
    with({}, function(s)
      local done, e = pcall(s.channel.set_qos, s.channel, {
        property(s, "Priority", "short", 5), property(s, "PacingInterval", "unsigned long long", 1),
        property(s, "EventReliability", "short", 1), property(s, "OrderPolicy", "string", "x"), property(s, "ConnectionReliability", "short", 1) })
      assert.is_false(done)
      assert.equal("IDL:omg.org/CosNotification/UnsupportedQoS:1.0", e._repid)
      local codes = {}
      for i, err in ipairs(e.qos_err) do codes[i] = err.name .. " " .. err.code end
      assert.equal("PacingInterval UNSUPPORTED_PROPERTY, EventReliability UNSUPPORTED_VALUE, OrderPolicy BAD_TYPE, " ..
        "ConnectionReliability UNSUPPORTED_VALUE", table.concat(codes, ", "))
      assert.equal(0, property_of(s.channel:get_qos(), "Priority"))                     -- nothing was set
      local admin = s.channel:_get_default_consumer_admin()
      s.channel:set_qos { property(s, "Priority", "short", 5) }
      assert.equal(5, property_of(admin:get_qos(), "Priority"))
      assert.is_true(#s.channel:validate_qos { property(s, "Timeout", "unsigned long long", 5) } > 5)
      assert.equal("UnsupportedAdmin", raised(s.channel.set_admin, s.channel, { property(s, "MaxQueueLength", "long", 5) }))
    end)
  end)

  it("orders and limits what waits", function()
    with({}, function(s)
      local by_priority, newest, brief = {}, {}, {}
      local c1, gate1 = gated(by_priority)
      local c2, gate2 = gated(newest)
      local c3, gate3 = gated(brief)
      structured_consumer(s, c1, nil, function(p) p:set_qos { property(s, "OrderPolicy", "short", 2) } end)
      structured_consumer(s, c2, nil, function(p)
        p:set_qos { property(s, "MaxEventsPerConsumer", "long", 2), property(s, "DiscardPolicy", "short", 1) }
      end)
      structured_consumer(s, c3, nil, function(p) p:set_qos { property(s, "Timeout", "unsigned long long", 500000) } end)
      local supplier = structured_supplier(s)
      supplier:push_structured_event(event(s, "e0"))
      until_true(function() return s.service:figures()[1].waiting == 0 end)
      for i, priority in ipairs { 1, 5, 3, 5 } do supplier:push_structured_event(event(s, "e" .. i, {}, { Priority = priority })) end
      mare.sleep(0.06)                               -- longer than the timeout, which is what is tested
      for _ = 1, 9 do
        gate1:send(true)
        gate2:send(true)
        gate3:send(true)
      end
      until_true(function() return #by_priority == 5 and #newest == 3 and #brief == 1 end)
      assert.same({ "e0 e2 e4 e3 e1", "e0 e3 e4", "e0" }, { text(by_priority), text(newest), text(brief) })
    end)
  end)

  it("leaves out no operation of a part", function()
    with({}, function(s)
      local admin = s.channel:_get_default_consumer_admin()
      structured_consumer(s, consumer {})
      structured_supplier(s)
      admin:obtain_notification_pull_supplier "ANY_EVENT"
      s.channel:_get_default_supplier_admin():obtain_notification_pull_consumer "ANY_EVENT"
      filter(s, "")
      local missing, n = {}, 0
      for _, entry in pairs(s.server.server.adapter.objects) do
        for name in pairs(s.server.repository:operations(s.server:interface(entry.id))) do
          n = n + 1
          if not name:find "^_" and type(entry.servant[name]) ~= "function" then missing[#missing + 1] = entry.id .. " " .. name end
        end
      end
      assert.same({}, missing)
      assert.is_true(n > 100)
    end)
  end)

  it("limits who is connected", function()
    with({}, function(s)
      s.channel:set_admin { property(s, "MaxConsumers", "long", 1) }
      local admin = s.channel:_get_default_consumer_admin()
      admin:obtain_notification_push_supplier "STRUCTURED_EVENT"
      assert.equal("AdminLimitExceeded", raised(admin.obtain_notification_push_supplier, admin, "STRUCTURED_EVENT"))
      assert.equal("IMP_LIMIT", raised(admin.obtain_push_supplier, admin))
      assert.equal("NO_IMPLEMENT", raised(s.channel.default_supplier_admin.obtain_notification_push_consumer, s.channel.default_supplier_admin,
        "SEQUENCE_EVENT"))
    end)
  end)
end)

describe("an admin", function()
  it("knows its proxies and its channel, and ends with them", function()
    with({}, function(s)
      local admin, id = s.channel:new_for_consumers "AND_OP"
      local got = {}
      local proxy, number = structured_consumer(s, consumer(got), admin)
      assert.same({ number }, admin.push_suppliers)
      assert.equal(proxy, admin:get_proxy_supplier(number):_unchecked_narrow "CosNotifyChannelAdmin::StructuredProxyPushSupplier")
      assert.equal("ProxyNotFound", raised(admin.get_proxy_supplier, admin, 99))
      assert.same({ id, "AND_OP" }, { admin.MyID, admin.MyOperator })
      assert.equal("PUSH_STRUCTURED", proxy.MyType)
      assert.equal(admin, proxy.MyAdmin)
      assert.is_true(admin.MyChannel:_is_equivalent(s.channel))
      assert.equal(admin, s.channel:get_consumeradmin(id))
      assert.same({ 0, id }, s.channel:get_all_consumeradmins())
      assert.equal("AdminNotFound", raised(s.channel.get_supplieradmin, s.channel, id))
      assert.equal("NO_PERMISSION", raised(s.channel.default_consumer_admin.destroy, s.channel.default_consumer_admin))
      admin:destroy()
      until_true(function() return text(got) == "end" end)
      assert.equal("AdminNotFound", raised(s.channel.get_consumeradmin, s.channel, id))
    end)
  end)

  it("has proxies that pause", function()
    with({}, function(s)
      local got = {}
      local proxy = structured_consumer(s, consumer(got))
      proxy:suspend_connection()
      assert.equal("ConnectionAlreadyInactive", raised(proxy.suspend_connection, proxy))
      local supplier = structured_supplier(s)
      supplier:push_structured_event(event(s, "a"))
      assert.equal(1, s.service:figures()[1].waiting)
      proxy:resume_connection()
      until_true(function() return text(got) == "a" end)
      assert.equal("ConnectionAlreadyActive", raised(proxy.resume_connection, proxy))
    end)
  end)
end)

describe("a factory", function()
  it("makes channels, and finds them", function()
    with({ limits = { channels = 3 } }, function(s)
      local factory = s.channel.MyFactory
      local made, id = factory:create_channel({ property(s, "Priority", "short", 7) }, { property(s, "MaxSuppliers", "long", 2) })
      assert.equal(7, property_of(made:get_qos(), "Priority"))
      assert.equal(2, property_of(made:get_admin(), "MaxSuppliers"))
      assert.equal(2, #factory:get_all_channels())
      assert.equal(made, factory:get_event_channel(id))
      assert.equal("ChannelNotFound", raised(factory.get_event_channel, factory, 99999))
      factory:create_channel({}, {})
      assert.equal("NO_RESOURCES", raised(factory.create_channel, factory, {}, {}))
      assert.equal("UnsupportedQoS", raised(factory.create_channel, factory, { property(s, "StartTimeSupported", "boolean", true) }, {}))
    end)
  end)
end)

describe("what is kept", function()
  it("are filters, subscriptions and quality, too", function()
    if no_sqlite then return foreign.skip(no_sqlite) end
    local path = temporary()
    os.remove(path)
    local s = channels.serve { db = path }
    local port = math.tointeger(tonumber((s.server:address():match ":(%d+)$")))
    s.client = orb.init { host = "127.0.0.1", timeout = channels.LIMIT, log = function() end }
    s.channel = s.client:proxy("corbaloc::" .. s.server:address() .. "/EventChannel", "CosNotifyChannelAdmin::EventChannel")
    local got = {}
    local admin = s.channel:new_for_consumers "AND_OP"
    admin:set_qos { property(s, "Priority", "short", 9), property(s, "ConnectionReliability", "short", 1) }
    local proxy = structured_consumer(s, consumer(got), admin, function(p)
      p:add_filter(filter(s, "$n > 1"))
      p:subscription_change({ { domain_name = "Rail", type_name = "Alarm" } }, {})
    end)
    local supplier = structured_supplier(s)
    s.service:close()
    s.server:shutdown(true)
    s.service, s.server = nil, nil
    local again = channels.serve({ db = path }, { port = port })
    assert.equal(9, property_of(proxy:get_qos(), "Priority"))
    assert.equal(9, property_of(admin:get_qos(), "Priority"))
    for i = 1, 3 do supplier:push_structured_event(event(s, "e" .. i, { n = i })) end
    supplier:push_structured_event(event(s, "no", { n = 5 }, {}, "Note"))
    until_true(function() return #got == 2 end)
    assert.equal("e2 e3", text(got))
    local f = proxy:get_filter(proxy:get_all_filters()[1])
    assert.equal("$n > 1", f:get_all_constraints()[1].constraint_expression.constraint_expr)
    again.service:close()
    again.server:shutdown(true)
    s.client:shutdown(1)
    for _, suffix in ipairs { "", "-wal", "-shm" } do os.remove(path .. suffix) end
  end)
end)
