-- The queue of a consumer: which event is next and which gives way, by whatever rules, and that a step takes no longer because many wait.
-- runs under: mare
-- needs: plain
local mare = require "mare"
local orb = require "mare.orb"
local events = require "mare.orb.services.events"
local made = require "mare.orb.services.events.event"
local queue = require "mare.orb.services.events.queue"

local ORDERS, DISCARDS = { "fifo", "priority", "deadline" }, { "drop", "fifo", "lifo", "priority", "deadline" }

local function event(name, priority, lifetime, age)
  return { name = name, priority = priority, lifetime = lifetime, born = mare.clock() - (age or 0), size = 100, holders = 0 }
end

local function rules(order, discard, limit, lifetime)
  return { limit = limit or 100, order = order, discard = discard, priority = 0, lifetime = lifetime }
end

-- Puts them all, then takes all: their names.
local function through(list, r)
  local account = { bytes = 0 }
  local q, names = queue.new(account), {}
  for _, e in ipairs(list) do q:put(e, r) end
  for e in function() return q:take(r) end do names[#names + 1] = e.name end
  assert.same({ 0, 0 }, { q:count(), account.bytes })
  return table.concat(names, " "), q.discarded
end

describe("a queue", function()
  it("gives events as they came, by priority or by deadline; of equals the one that came first", function()
    local function list() return { event("a", 1), event("b", 5, 9), event("c", nil, 3), event("d", 5, 7), event("e", -1) } end
    assert.equal("a b c d e", through(list(), rules("fifo", "drop")))
    assert.equal("b d a c e", through(list(), rules("priority", "drop")))
    assert.equal("c d b a e", through(list(), rules("deadline", "drop")))
    assert.equal("c a e d b", through(list(), rules("deadline", "drop", 100, 5)))
  end)

  it("that is full lets the oldest, the newest, the least or the first to be over go", function()
    local function list() return { event("a", 1), event("b", 5, 9), event("c", -3, 50), event("d", 2, 20), event("e", 1) } end
    for _, case in ipairs { { "fifo", "fifo", "c d e" }, { "fifo", "lifo", "a b c" }, { "fifo", "priority", "a b d" },
                            { "fifo", "deadline", "a c e" },
                            { "priority", "fifo", "d e c" }, { "priority", "lifo", "b a c" }, { "deadline", "priority", "b d a" } } do
      local names, gone = through(list(), rules(case[1], case[2], 3))
      assert.equal(case[3], names, case[1] .. " " .. case[2])
      assert.equal(2, gone)
    end
    local q = queue.new { bytes = 0 }
    for i = 1, 3 do assert.is_true(q:put(event(i), rules("fifo", "drop", 3))) end
    assert.is_false(q:put(event(4), rules("fifo", "drop", 3)))
  end)

  it("loses what is over, when it is full or asked, and counts it", function()
    local r = rules("fifo", "drop", 3)
    local q = queue.new { bytes = 0 }
    for i = 1, 3 do q:put(event(i, 0, i ~= 2 and 1 or nil, 5), r) end
    assert.is_true(q:put(event(4), r))
    assert.same({ 2, 2 }, { q:count(), q.discarded })
    assert.same({ 2, 4 }, { q:take(r).name, q:take(r).name })
    assert.is_nil(q:take(r))
    assert.equal("2", (through({ event(1, 0, 1, 5), event("2") }, rules("priority", "drop"))))
  end)

  it("takes an event back as the next of its kind, and lets the oldest half go", function()
    for _, order in ipairs(ORDERS) do
      local r, q = rules(order, "drop"), queue.new { bytes = 0 }
      for i = 1, 6 do q:put(event(i), r) end
      local e = q:take(r)
      q:put_back(e, r)
      assert.equal(1, e.name)
      assert.equal(3, q:halve())
      local names = {}
      for one in function() return q:take(r) end do names[#names + 1] = one.name end
      assert.same({ 4, 5, 6 }, names)
    end
  end)

  it("obeys new rules at once, for what waits, too", function()
    local q = queue.new { bytes = 0 }
    for i = 1, 4 do q:put(event(i, i), rules("fifo", "drop")) end
    assert.equal(1, q:take(rules("fifo", "drop")).name)
    assert.equal(4, q:take(rules("priority", "drop")).name)
    assert.is_true(q:put(event(5, 9), rules("fifo", "priority", 2)))
    assert.same({ 3, 5 }, { q:take(rules("fifo", "drop")).name, q:take(rules("priority", "fifo")).name })
    q:put(event(6), rules("fifo", "drop"))
    assert.equal(6, q:take(rules("fifo", "drop")).name)
  end)
end)

-- The same, as plainly as it can be said: a list that is searched.
local function simple()
  local list, self = {}, {}
  local function over(e, r)
    local lifetime = e.lifetime or r.lifetime
    return lifetime and e.born + lifetime or math.huge
  end
  local function key(e, r, by)
    if by == "deadline" then return over(e, r) end
    return by == "priority" and -(e.priority or 0) or by == "least" and (e.priority or 0) or 0
  end
  local function best(r, by)
    local at
    for i, e in ipairs(list) do
      if not at or key(e, r, by) < key(list[at], r, by) then at = i end
    end
    return at
  end
  local function expire(r)
    for i = #list, 1, -1 do
      if over(list[i], r) < mare.clock() then table.remove(list, i) end
    end
  end
  function self.put(e, r)
    if #list >= r.limit then expire(r) end
    if #list >= r.limit then
      local by = r.discard == "priority" and "least" or r.discard
      if by == "drop" then return false end
      if by == "lifo" then return true end
      local at = best(r, by)
      if by ~= "fifo" and key(list[at], r, by) >= key(e, r, by) then return true end
      table.remove(list, at)
    end
    list[#list + 1] = e
    return true
  end
  function self.take(r)
    expire(r)
    return table.remove(list, best(r, r.order) or 1)
  end
  function self.count() return #list end
  return self
end

it("a queue does what a list does that is searched, whatever comes", function()
  math.randomseed(7)
  for _ = 1, 40 do
    local account = { bytes = 0 }
    local q, model, r = queue.new(account), simple(), nil
    for step = 1, 200 do
      if step % 40 == 1 then
        r = rules(ORDERS[math.random(3)], DISCARDS[math.random(5)], math.random(30), math.random(3) == 1 and 50 or nil)
      end
      if math.random(5) < 4 then
        local lifetime = math.random(3) == 1 and math.random(20, 90) or nil
        local e = event(step, math.random(4) > 1 and math.random(-3, 3) or nil, lifetime, math.random(0, 30))
        assert.equal(model.put(e, r), q:put(e, r))
      else
        assert.equal(model.take(r), q:take(r))
      end
      assert.equal(model.count(), q:count())
    end
    q:clear()
    assert.equal(0, account.bytes)
  end
end)

-- Lua's instructions that f takes, by the hundred.
local function steps(f)
  local n = 0
  debug.sethook(function() n = n + 1 end, "", 100)
  f()
  debug.sethook()
  return n
end

-- What 100 more events take, put and taken, when so many wait: in the order that is worst for a list.
local function cost(r, waiting)
  local q = queue.new { bytes = 0 }
  for i = 1, waiting do q:put(event(i, i // 4, 1e6 - i), r) end
  return steps(function()
    for i = 1, 100 do q:put(event(i, waiting + i, 1e5 - i), r) end
    for _ = 1, 100 do q:take(r) end
  end)
end

describe("a step at a queue", function()
  for _, order in ipairs(ORDERS) do
    for _, discard in ipairs(DISCARDS) do
      it(("takes no longer where many wait: %s, %s"):format(order, discard), function()
        local few, many = cost(rules(order, discard, 125), 125), cost(rules(order, discard, 8000), 8000)
        assert.is_true(few > 10 and many < 3 * few, ("%d and %d"):format(few, many))
      end)
    end
  end

  it("takes no longer where all are over at once", function()
    local r = rules("fifo", "drop", 20000)
    local function over(n)
      local q = queue.new { bytes = 0 }
      for i = 1, n do q:put(event(i, 0, 1 + i % 7, 100), r) end
      return steps(function() assert.is_nil(q:take(r)) end)
    end
    local few, many = over(500), over(8000)
    assert.is_true(many < 16 * 3 * few, ("%d and %d"):format(few, many))
  end)

  it("is one of few where many short queues give way for the memory of all", function()
    local function pressed(n)
      local broker <close> = orb.init { host = "127.0.0.1", log = function() end }
      local service <close> = events.serve(broker, { channels = { "c" }, slow = "discard" })
      local admin = service:channels()[1].consumer_admin
      for i = 1, n do
        admin:obtain_pull_supplier()
        local p = admin.proxies[i]
        p:connect_pull_consumer(nil)
        for _ = 1, 1 + i % 4 do p:take(made.of_any("x", service.T)) end
      end
      service.limits.bytes = service.account.bytes // 2
      local n_steps = steps(function() service:press() end)
      assert.is_true(service.account.bytes <= service.limits.bytes)
      for i = 1, n do assert.is_true(admin.proxies[i].queue:count() <= 2) end    -- the longest ones have given way
      return n_steps
    end
    local few, many = pressed(50), pressed(800)
    assert.is_true(many < 16 * 3 * few, ("%d and %d"):format(few, many))
  end)
end)
