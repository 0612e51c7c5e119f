-- What clients of event services can make them keep, compute and send: constraints, filters and lists of types have limits.
-- runs under: mare
-- needs: plain
local mare = require "mare"
local channels = require "spec.support.event_service"
local grammar = require "mare.orb.services.events.grammar"
local path = require "mare.orb.services.events.path"
local patterns = require "mare.orb.services.events.patterns"
local filter = require "mare.orb.services.events.filter"
local foreign = require "spec.support.foreign"
local temporary = require "spec.support.temporary"

local with, raised = channels.with, channels.raised
local no_sqlite = foreign.no_sqlite()

local function types(n, name)
  local list = {}
  for i = 1, n do list[i] = { domain_name = name or "D", type_name = "T" .. i } end
  return list
end

local function constraint(text, list) return { event_types = list or {}, constraint_expr = text } end

local function new_filter(s) return s.channel:_get_default_filter_factory():create_filter "EXTENDED_TCL" end

local function proxy(s, admin) return (admin or s.channel:_get_default_consumer_admin()):obtain_notification_push_supplier "ANY_EVENT" end

-- A filter's servant, without calls.
local function servant_of(s, f) return s.server:servant(s.server:string_to_object(s.client:object_to_string(f))) end

-- How many names f reads in lists of types: they count it.
local function reads(list, f)
  local n = 0
  local counted = {}
  for i, T in ipairs(list) do
    counted[i] = setmetatable({}, { __index = function(_, name)
      n = n + 1
      return T[name]
    end })
  end
  f(counted)
  return n
end

describe("a list of types", function()
  it("changes in steps that grow as the list does", function()
    local function change(n) return reads(types(n), function(list) patterns.changed(list, list, list) end) end
    assert.is_true(change(1000) <= 11 * change(100))
  end)

  it("has a limit at proxies and admins, in subscriptions, offers and constraints", function()
    with({ limits = { types = 10 } }, function(s)
      local consumers, suppliers = s.channel:_get_default_consumer_admin(), s.channel:_get_default_supplier_admin()
      local supplier = suppliers:obtain_notification_push_consumer "ANY_EVENT"
      for _, change in ipairs { { proxy(s), "subscription_change" }, { consumers, "subscription_change" }, { supplier, "offer_change" },
                                { suppliers, "offer_change" } } do
        local object, name = change[1], change[2]
        object[name](object, types(10), {})
        assert.equal("NO_RESOURCES", raised(object[name], object, types(1, "other"), {}))
        object[name](object, types(1, "other"), types(1))
        assert.equal("IMP_LIMIT", raised(object[name], object, { { domain_name = ("x"):rep(1025), type_name = "" } }, types(9)))
      end
      local f = new_filter(s)
      f:add_constraints { constraint("", types(10)) }
      assert.equal("NO_RESOURCES", raised(f.add_constraints, f, { constraint("", types(11)) }))
      assert.equal("NO_RESOURCES", raised(f.modify_constraints, f, {}, { { constraint_id = 1, constraint_expression = constraint("", types(11)) } }))
      assert.equal(10, #f:get_all_constraints()[1].constraint_expression.event_types)
    end)
  end)

  it("is matched against names of any length at no great cost", function()
    local limit = mare.clock() + channels.LIMIT
    local list = {}
    for i = 1, 200 do list[i] = { domain_name = "*", type_name = "*" .. ("a"):rep(1000) .. "b*" .. i } end
    assert.is_false(patterns.match(patterns.of(list), "", ("a"):rep(10000000)))
    assert.is_true(mare.clock() < limit)
    assert.is_true(patterns.match(patterns.of { { domain_name = "*", type_name = "*" .. ("a"):rep(100) .. "*" } } or {}, "", ("a"):rep(1024)))
  end)
end)

describe("a filter", function()
  local ones = ("1+"):rep(1000) .. "1==0"

  it("is bounded in what it computes for an event, whatever its constraints are made of", function()
    for _, text in ipairs { ones, ("1<2 and "):rep(500) .. "FALSE", ("1>2 or "):rep(500) .. "FALSE", ("not 1 and "):rep(400) .. "FALSE",
                            ("1==1 and "):rep(400) .. "FALSE", ("2*"):rep(1000) .. "0" } do
      local f = assert(grammar.compile(text))
      path.allow(10000)
      f { any = 1 }
      local spent = 0
      while path.afford(1) do spent = spent + 1 end
      assert.is_true(spent < 10000, text:sub(1, 20))
      path.allow(100)
      f { any = 1 }
      assert.is_false(path.afford(1), text:sub(1, 20))
    end
    path.allow(math.huge)
  end)

  it("takes steps for what ~ has to compare", function()
    local f = assert(grammar.compile("'" .. ("a"):rep(2000) .. "b' ~ $"))
    path.allow(10000)
    assert.is_false(f { any = ("a"):rep(100000) })
    assert.is_false(path.afford(1))
    path.allow(10000)
    assert.is_true(assert(grammar.compile "'warn' ~ $") { any = ("a"):rep(100000) .. "warn" })
    path.allow(math.huge)
  end)

  it("stops at its last step, in the middle of whatever is long", function()
    local read = 0
    local function long(n, make)                       -- a list that counts what is read of it
      return setmetatable({}, { __len = function() return n end, __index = function(_, i)
        read = read + 1
        return make(i)
      end })
    end
    local function property(i) return { name = "p" .. i, value = i } end
    local members = long(1e6, function(i) return { name = "m" .. i, type = { kind = "long" } } end)
    local function body(e) return { structured = { header = { variable_header = {} }, filterable_data = {}, remainder_of_body = e } } end
    for text, e in pairs {
      ["exist $p0 or exist $p0"] = { structured = { header = { variable_header = long(1e6, property) }, filterable_data = {} } },
      ["exist $.filterable_data(p0)"] = { structured = { filterable_data = long(1e6, property) } },
      ["0 in $"] = { any = { _anytype = { kind = "sequence" }, _anyval = long(1e6, function(i) return i end) } },
      ["1 in $"] = { any = { n = 1 << 60 } }, ["2 in $"] = { any = { n = "x" } }, ["$._length > 1"] = { any = { n = "x" } },
      ["$x.y == 1"] = body { _anytype = { kind = "struct", members = members }, _anyval = { x = { y = 1 } } },
      ["$.() == 1"] = { any = { _anytype = { kind = "union", members = members }, _anyval = { _field = "x", _value = 1 } } },
    } do
      local f = assert(grammar.compile(text))
      read = 0
      path.allow(1000)
      assert.is_false(f(e), text)
      assert.is_true(read <= 8000, text .. ": " .. read)
    end
    local strings = {}
    for i = 1, 100 do strings[i] = ("x"):rep(64000) .. i end
    path.allow(10000)
    assert.is_false(assert(grammar.compile "$[0] in $[1]") { any = { ("x"):rep(64001) .. 0, strings } })
    assert.is_false(path.afford(1))
    path.allow(math.huge)
  end)

  it("is read in one walk, and has no place in an event that is no number", function()
    local began = os.clock()
    for _ = 1, 100 do assert.is_nil((grammar.compile(("1"):rep(4090) .. "e"))) end
    assert.is_true(os.clock() - began < 5)             -- it took half a second each
    for _, text in ipairs { "$[99999999999999999999] == 1", "$.99999999999999999999 == 1" } do
      assert.equal("at character 3: a position below 1000000000 expected", select(2, grammar.compile(text)))
    end
  end)

  it("leaves a subscription so many steps, too", function()
    local name = ("a"):rep(1024)
    local wanted = patterns.of(types(1000, "*a*" .. ("a"):rep(500) .. "*b*"))
    local part = { filters = {}, admin = { filters = {}, MyOperator = "AND_OP" }, wanted = wanted }
    part.wanted[1001] = { name = { is = "x" } }
    assert.is_false(filter.wants(part, { any = 1 }, name, "x"))
    assert.is_false(path.afford(1))
    assert.is_true(filter.wants(part, { any = 1 }, "a", "x"))
    path.allow(math.huge)
  end)

  it("takes steps for the types its constraints are for, and stops when there are no more", function()
    with({}, function(s)
      local f = new_filter(s)
      local list, types_of_none = {}, types(1000)
      for i = 1, 20 do list[i] = constraint("TRUE", types_of_none) end
      f:add_constraints(list)
      local servant = servant_of(s, f)
      local asked = 0
      for _, c in ipairs(servant.constraints) do
        local inner = c.types
        c.types = setmetatable({}, { __len = function() return #inner end, __index = function(_, i)
          asked = asked + 1
          return inner[i]
        end })
      end
      assert.is_false(f:match(1))
      assert.is_true(asked > 1000 and asked < 60000, asked)                -- 20,000 patterns, each read some times
    end)
  end)

  it("that is attached already keeps its id", function()
    with({}, function(s)
      local f, p = new_filter(s), proxy(s)
      local id = p:add_filter(f)
      assert.equal(id, p:add_filter(f))
      assert.same({ id }, { table.unpack(p:get_all_filters()) })
      p:remove_filter(id)
      assert.is_true(p:add_filter(f) ~= id)
    end)
  end)

  it("tells of each constraint once", function()
    with({}, function(s)
      local f = new_filter(s)
      f:add_constraints { constraint "1 == 1", constraint "2 == 2" }
      local ids = {}
      for i = 1, 20000 do ids[i] = 1 end
      assert.equal("NO_RESOURCES", raised(f.get_constraints, f, ids))
      assert.equal("ConstraintNotFound", raised(f.get_constraints, f, { 3 }))
      local list = f:get_constraints { 2, 1 }
      assert.same({ 2, 1 }, { list[1].constraint_id, list[2].constraint_id })
      f:modify_constraints(ids, {})
      assert.equal(2, f:get_all_constraints()[1].constraint_id)
    end)
  end)
end)

describe("what filters and types take", function()
  it("is bounded for all together, and given back", function()
    with({ limits = { kept = 100000 } }, function(s)
      local filters = {}
      local done                                     -- of the last one
      repeat
        local f = new_filter(s)
        filters[#filters + 1] = f
        done = raised(f.add_constraints, f, { constraint("$a == 1", types(30)) })
      until done ~= "nothing" or #filters > 100
      assert.equal("NO_RESOURCES", done)
      assert.is_true(#filters > 3 and #filters < 10)
      assert.is_true(s.service.kept > 80000 and s.service.kept <= 100000)
      local p = proxy(s)
      assert.equal("NO_RESOURCES", raised(p.subscription_change, p, types(300), {}))
      filters[1]:remove_all_constraints()
      for i = 2, #filters do filters[i]:destroy() end
      assert.equal(0, s.service.kept)
      p:subscription_change(types(100), {})
      p:add_filter(filters[1])
      assert.is_true(s.service.kept > 40000)
      p:subscription_change({}, types(100))
      p:remove_all_filters()
      assert.equal(0, s.service.kept)
      p:subscription_change(types(100), {})
      p:disconnect_push_supplier()
      assert.equal(0, s.service.kept)
    end)
  end)

  it("is at least what it takes in memory", function()
    with({}, function(s)
      local list = {}
      for i = 1, 50 do list[i] = constraint(("1+"):rep(500) .. i, types(100, "D" .. i)) end
      local f = servant_of(s, new_filter(s))
      collectgarbage()
      local before = collectgarbage "count"
      f:add_constraints(list)
      collectgarbage()
      assert.is_true((collectgarbage "count" - before) * 1024 < s.service.kept)
    end)
  end)

  it("is known again after a restart", function()
    if no_sqlite then return foreign.skip(no_sqlite) end
    local file, kept = temporary(), nil
    with({ db = file }, function(s)
      local f, p = new_filter(s), proxy(s)
      f:add_constraints { constraint("$a == 1", types(30)) }
      p:subscription_change(types(5), {})
      p:add_filter(f)
      p:connect_any_push_consumer(channels.consumer {})
      kept = s.service.kept
      assert.is_true(kept > 1000)
    end)
    with({ db = file }, function(s) assert.equal(kept, s.service.kept) end)
    for _, suffix in ipairs { "", "-wal", "-shm" } do os.remove(file .. suffix) end
  end)
end)
