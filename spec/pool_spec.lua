-- mare.pool: warm processes that hold something, lent to whoever needs it.
local mare = require "mare"
local errors = require "mare.error"
local proc = require "spec.support.proc"
local pool, process, channel = mare.pool, mare.process, mare.channel

local LIMIT = 30 * proc.slow

local function number() return { id = process.self().id, uses = 0 } end
local function use(thing)
  thing.uses = thing.uses + 1
  return thing.uses, thing.id
end
local function id_of(thing) return thing.id end

-- Until f() is true; the moment in which that is so is nobody's promise.
local function until_true(f)
  local till = mare.clock() + LIMIT
  while not f() do
    assert(mare.clock() < till, "it never came")
    mare.sleep(0.002)
  end
end

local function failure(...)
  local ok, err = pcall(...)
  assert.is_false(ok)
  assert.is_true(errors.is(err, "pool"), tostring(err))
  return err
end

describe("a pool", function()
  it("calls functions with a thing that is made once", function()
    local p <close> = pool.new { size = 1, make = function(start) return { uses = start } end, args = { 10 } }
    assert.same({ 11 }, { p:call(function(t, a, b) t.uses = t.uses + 1 assert(a == nil and b == 2) return t.uses end, nil, 2) })
    assert.equal(12, p:call(function(t) t.uses = t.uses + 1 return t.uses end))
    assert.equal(1, p:statistics().made)
  end)

  it("lends each thing to one at a time", function()
    local p <close> = pool.new { size = 2, make = number }
    local users = {}
    for i = 1, 8 do
      users[i] = process.spawn(function()
        for _ = 1, 20 do
          p:call(function(thing)
            assert(not thing.used)
            thing.used = true
            mare.sleep(0.0005)
            thing.used = false
          end)
        end
      end)
    end
    for i = 1, 8 do assert.is_true((users[i]:wait(LIMIT))) end
    local s = p:statistics()
    assert.same({ 160, 2, 0, 2 }, { s.taken, s.made, s.waiting, s.free })
  end)

  it("keeps a loan in the process that took it", function()
    local p <close> = pool.new { size = 1, make = number }
    local loan = p:take()
    local remedy = "a loan cannot be sent, it belongs to the process that took it; send the pool and take one there"
    local box = channel.new(1)
    for _, f in ipairs { function() box:send { loan } end, function() process.spawn(function(l) l:give() end, loan) end,
                         function() process.spawn(function() loan:give() end) end } do
      local ok, err = pcall(f)
      assert.is_false(ok)
      assert.truthy(err:find(remedy, 1, true), err)
    end
    assert.same({ nil, "timeout" }, { p:take(0.01) })
    assert.equal(1, (loan:call(use)))
    loan:give()
    assert.equal(2, (p:call(use)))
  end)

  it("gets back what is on a loan that became garbage", function()
    local p <close> = pool.new { size = 1, make = number, check = function() return true end }
    do local loan = p:take() loan:call(use) end
    collectgarbage()
    collectgarbage()
    local loan <close> = p:take(LIMIT)
    assert.equal(2, (loan:call(use)))
  end)

  it("keeps what a loan does together", function()
    local p <close> = pool.new { size = 2, make = number }
    local a <close> = p:take()
    local b <close> = p:take()
    assert.is_true(a:call(id_of) ~= b:call(id_of))
    assert.equal(1, (a:call(use)))
    assert.equal(2, (a:call(use)))
    assert.equal(1, (b:call(use)))
    assert.same({ nil, "timeout" }, { p:take(0.01) })
    b:give()
    assert.has_error(function() b:call(use) end)
    local c <close> = p:take(LIMIT)
    assert.equal(2, (c:call(use)))
  end)

  it("serves those who wait in their order", function()
    local p <close> = pool.new { size = 1, make = number }
    local first, order = p:take(), channel.new(math.huge)
    local users = {}
    for i = 1, 5 do
      users[i] = process.spawn(function() p:call(function() end) order:send(i) end)
      until_true(function() return p:statistics().waiting == i end)
    end
    -- a call's end is told by its process, not by the pool: so each is let in when the one before is done
    first:give()
    local got = {}
    for i = 1, 5 do got[i] = order:receive(LIMIT) users[i]:wait(LIMIT) end
    table.sort(got)
    assert.same({ 1, 2, 3, 4, 5 }, got)
    assert.is_true(p:statistics().most_waiting == 5)
  end)

  it("travels to other processes", function()
    local p <close> = pool.new { size = 1, make = number }
    assert.same({ true, 1 }, { process.spawn(function() return (p:call(use)) end):wait(LIMIT) })
    assert.equal(2, (p:call(use)))
  end)

  it("makes things when they are needed, and ends them when they are not", function()
    local closed = channel.new(math.huge)
    local p <close> = pool.new { size = 3, idle = 0.02, make = number, close = function(thing) closed:send(thing.id) end }
    assert.equal(0, p:statistics().made)
    local a, b = p:take(), p:take()
    assert.equal(2, p:statistics().lent)
    a:give()
    b:give()
    assert.truthy(closed:receive(LIMIT))
    assert.truthy(closed:receive(LIMIT))
    assert.equal(1, (p:call(use)))
  end)

  it("replaces what is old or was used often", function()
    local p <close> = pool.new { size = 1, max_uses = 2, make = number }
    local ids = {}
    for i = 1, 5 do ids[i] = p:call(id_of) end
    assert.is_true(ids[1] == ids[2] and ids[3] == ids[4] and ids[1] ~= ids[3] and ids[3] ~= ids[5])
    local q <close> = pool.new { size = 1, max_age = 0.01, make = number }
    local first = q:call(id_of)
    until_true(function() return q:call(id_of) ~= first end)
  end)

  it("says what it takes", function()
    assert.has_error(function() pool.new {} end)
    assert.has_error(function() pool.new { make = 1 } end)
    assert.has_error(function() pool.new { make = number, size = 0 } end)
    assert.has_error(function() pool.new { make = number, sise = 1 } end)
    local p <close> = pool.new { size = 1, make = number }
    assert.has_error(function() p:call(1) end)
    assert.has_error(function() p:call(print, coroutine.create(print)) end)
    assert.has_error(function() return p.tkae end)
    assert.equal(1, (p:call(use)))
  end)
end)

describe("errors", function()
  it("of a call are raised in the caller, and the thing goes on", function()
    local p <close> = pool.new { size = 1, make = number }
    for i = 1, 3 do
      local ok, err = pcall(p.call, p, function(thing) use(thing) error({ code = i }) end)
      assert.same({ false, i }, { ok, err.code })
    end
    assert.equal(4, (p:call(use)))
    local ok, err = pcall(p.call, p, function() return coroutine.create(print) end)
    assert.is_false(ok)
    assert.truthy(tostring(err):find "cannot be sent")
  end)

  it("of make are raised by who needs the thing", function()
    local err = failure(pool.new, { make = function() error("no database", 0) end })
    assert.equal("no database", err.reason)
    local p <close> = pool.new { size = 1, least = 0, make = function() error({ code = 5 }) end }
    assert.equal(5, failure(p.call, p, use).reason.code)
  end)

  it("of make are tried again", function()
    local tries = channel.new(math.huge)
    local p <close> = pool.new { size = 1, least = 0, make = function()
      tries:send(true)
      if #tries < 3 then error("not yet", 0) end
      return { uses = 0 }
    end }
    until_true(function() return (pcall(p.call, p, use)) end)
    assert.is_true(p:statistics().failed >= 2)
  end)

  it("of a check replace the thing", function()
    local p <close> = pool.new { size = 1, make = number, check = function(thing) return not thing.broken end }
    local first = p:call(id_of)
    pcall(p.call, p, function(thing) use(thing) error "but it is well" end)
    assert.equal(first, p:call(id_of))
    pcall(p.call, p, function(thing) thing.broken = true error "broken" end)
    assert.is_true(first ~= p:call(id_of))
    assert.equal(1, p:statistics().replaced)
  end)

  it("are found by a check before a thing is lent that was idle for long", function()
    local p <close> = pool.new { size = 1, check_after = 0, make = function() return { checks = 0 } end,
                                 check = function(thing) thing.checks = thing.checks + 1 return thing.checks < 3 end }
    local got = {}
    for i = 1, 4 do got[i] = p:call(function(thing) return thing.checks end) end
    assert.same({ 1, 2, 1, 2 }, got)
  end)
end)

describe("whoever ends", function()
  it("gives back what it held", function()
    local p <close> = pool.new { size = 1, make = number, check = function() return true end }
    local told = channel.new()
    local function hold()
      local loan = p:take()
      told:send(loan:call(id_of))
      mare.sleep(3600)
    end
    for _, way in ipairs { "kill", "cancel" } do
      local user = process.spawn(hold)
      local id = told:receive(LIMIT)
      user[way](user)
      assert.equal(id, p:call(id_of))
    end
  end)

  it("while it waits leaves the queue", function()
    local p <close> = pool.new { size = 1, make = number }
    local loan = p:take()
    local users = {}
    for i = 1, 3 do users[i] = process.spawn(function() return p:call(use) end) end
    until_true(function() return p:statistics().waiting == 3 end)
    users[1]:kill()
    users[2]:cancel()
    until_true(function() return p:statistics().waiting == 1 end)
    assert.has_error(function() process.deadline(0.01, p.take, p) end)
    until_true(function() return p:statistics().waiting == 1 end)
    loan:give()
    assert.is_true((users[3]:wait(LIMIT)))
    assert.equal(2, (p:call(use)))
  end)

  it("in the middle of a call loses the thing, and another is made", function()
    local p <close> = pool.new { size = 1, make = number }
    local first = p:call(id_of)
    local ok, err = pcall(process.deadline, 0.05, p.call, p, function() mare.sleep(3600) end)
    assert.same({ false, "deadline" }, { ok, err.kind })
    assert.is_true(first ~= p:call(id_of))
  end)

  it("and holds a thing is replaced: who uses it gets an error", function()
    local p <close> = pool.new { size = 1, make = number }
    local err = failure(p.call, p, function() process.self():kill() mare.sleep(1) end)
    assert.equal("killed", err.reason.kind)
    assert.equal(1, (p:call(use)))
  end)
end)

describe("a name that doesn't exist", function()
  it("is told, with those that do", function()
    local p <close> = pool.new { size = 1, make = number }
    local loan <close> = p:take()
    assert.error_matches(function() p:stats() end, "mare.pool has no field 'stats'; there are call, close, new, statistics, take$")
    assert.error_matches(function() loan:close() end, "a loan has no field 'close'; there are call, give$")
    assert.error_matches(function() loan:giv() end, "a loan has no field 'giv'; did you mean 'give'%?")
  end)
end)

describe("its options", function()
  it("are named with the value that is wrong, and its type where that is what is wrong", function()
    for message, options in pairs {
      ["'size' must be a whole number from 1 on, got 0"] = { size = 0 },
      ["'size' must be a whole number from 1 on, got string '3'"] = { size = "3" },
      ["'size' must be a whole number from 1 on, got 1.5"] = { size = 1.5 },
      ["'size' must be a whole number from 1 on, got table"] = { size = {} },
      ["'idle' must be a number of seconds, got true"] = { idle = true },
      ["'close' must be a function, got string"] = { close = "shut" },
      ["'name' must be a string, got number"] = { name = 5 },
    } do
      options.make = number
      local ok, err = pcall(pool.new, options)
      assert.is_false(ok)
      assert.equal("pool.new: " .. message, (err:gsub("^.-:%d+: ", "")))
    end
  end)
end)

describe("its size", function()
  it("isn't less than the least", function()
    assert.error_matches(function() pool.new { make = number, size = 2, least = 3 } end,
                         "pool.new: 'least' must be at most 'size', which is 2, got 3")
    local p <close> = pool.new { make = number, least = process.workers() + 1 }
    assert.equal(process.workers() + 1, p:statistics().size)
  end)
end)

describe("its end", function()
  it("doesn't come by a call with a wrong argument", function()
    local p <close> = pool.new { size = 1, make = number }
    for _, wrong in ipairs { "x", -1, 0 / 0, {} } do
      for _, name in ipairs { "close", "take" } do
        assert.error_matches(function() p[name](p, wrong) end, "pool:" .. name .. ": a number of seconds expected, got ")
      end
    end
    assert.error_matches(function() p:take "x" end, "pool:take: a number of seconds expected, got string 'x'")
    assert.equal(1, (p:call(use)))
  end)

  it("closes the things when they are given back", function()
    local closed = channel.new(math.huge)
    local p = pool.new { size = 2, make = number, close = function(thing) closed:send(thing.id) end }
    local loan = p:take()
    local a = loan:call(id_of)
    assert.same({ nil, "timeout" }, { p:close(0.01) })
    local err = failure(p.call, p, use)
    assert.equal("the pool is closed", err.message)
    assert.is_nil(err.reason)
    assert.equal(1, (loan:call(use)))
    loan:give()
    assert.is_true(p:close(LIMIT))
    local ids = { closed:receive(0), closed:receive(0) }
    assert.is_true(ids[1] == a or ids[2] == a)
    failure(p.call, p, use)
    failure(p.statistics, p)
  end)

  it("comes with its owner", function()
    local closed, told = channel.new(math.huge), channel.new()
    local owner = process.spawn(function()
      local p = pool.new { size = 1, make = number, close = function() closed:send(true) end }
      told:send(p)
      mare.sleep(3600)
    end)
    local p = told:receive(LIMIT)
    assert.equal(1, (p:call(use)))
    owner:kill()
    assert.is_true(closed:receive(LIMIT))
    until_true(function() return p.process:status() == "failed" end)
    failure(p.call, p, use)
  end)
end)

describe("under fire", function()
  it("it loses nothing and nobody waits for ever", function()
    local p <close> = pool.new { size = 3, make = number, check = function() return math.random(4) > 1 end }
    local users = {}
    for i = 1, 12 do
      users[i] = process.spawn(function()
        for _ = 1, 15 do
          local kind = math.random(5)
          if kind == 1 then pcall(p.call, p, error, "x")
          elseif kind == 2 then pcall(process.deadline, math.random() * 0.004, p.call, p, function() mare.sleep(0.002) end)
          elseif kind == 3 then pcall(p.call, p, function() process.self():kill() mare.sleep(1) end)
          else pcall(p.call, p, use) end
        end
      end)
    end
    for i = 1, 4 do
      mare.sleep(0.004)
      users[i]:kill()
    end
    for i = 1, 12 do users[i]:wait(LIMIT) end
    for _ = 1, 20 do assert.is_true(p:call(use) >= 1) end
    until_true(function() return p:statistics().free == 3 end)
    assert.same({ 0, 0 }, { p:statistics().lent, p:statistics().waiting })
  end)
end)
