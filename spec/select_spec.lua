-- select: what a case gives, which one is chosen, that nothing is lost or doubled, and how a call ends.
local mare = require "mare"
local proc = require "spec.support.proc"
local parked = require "spec.support.parked"
local process, channel, select_, fiber, timer = mare.process, mare.channel, mare.select, mare.fiber, mare.timer

local pack = table.pack

local function results(p)
  local r = pack(p:wait())
  if not r[1] then error(r[2], 0) end
  return table.unpack(r, 2, r.n)
end

local function full(...)
  local c = channel.new(1)
  c:send(...)
  return c
end

describe("select", function()
  it("gives the index of the case and the message", function()
    local a, b = channel.new(), full("x", nil, 3)
    assert.same(pack(2, "x", nil, 3), pack(select_ { a, b }))
    assert.equal(0, #b)
  end)

  it("sends the message of the case that can go, and only that", function()
    local a, b, c = full(1), channel.new(1), channel.new()
    assert.same(pack(2, true), pack(select_ { a:sending "a", b:sending("b", nil, { 1 }), c:sending "c" }))
    assert.same(pack("b", nil, { 1 }), pack(b:receive()))
    assert.equal(1, #a)
  end)

  it("waits for whichever is first", function()
    local a, b = channel.new(), channel.new()
    local p = parked(process.spawn(function() return select_ { a, b } end))
    b:send("late", { 1 })
    assert.same(pack(2, "late", { 1 }), pack(results(p)))
    assert.same(pack(nil, "full"), pack(a:try_send(1)))      -- nobody waits there any more
    p = parked(process.spawn(function() return select_ { a:sending(1), b:sending(2) } end))
    assert.equal(1, a:receive())
    assert.same(pack(1, true), pack(results(p)))
    assert.same(pack(nil, "empty"), pack(b:try_receive()))
  end)

  it("takes a default when nothing is ready, false too", function()
    local c = channel.new()
    assert.same(pack("default", 7), pack(select_ { c, default = 7 }))
    assert.same(pack("default", false), pack(select_ { c, c:sending(1), default = false }))
    assert.same(pack("default", true), pack(select_ { default = true }))
    assert.same(pack(1, 5), pack(select_ { full(5), default = true }))
  end)

  it("ends with nil, timeout", function()
    local c, start = channel.new(), mare.clock()
    assert.same(pack(nil, "timeout"), pack(select_ { c, c:sending { 1 }, timeout = 0.02 }))
    assert.is_true(mare.clock() - start >= 0.02)
    assert.same(pack(nil, "timeout"), pack(select_ { c, timeout = 0 }))
    assert.same(pack(nil, "timeout"), pack(select_ { c, timeout = -1 }))
    assert.same(pack(nil, "timeout"), pack(select_ { timeout = 0.001 }))
    assert.same(pack(1, 5), pack(select_ { full(5), timeout = 0 }))
  end)

  it("tells of a closed channel, on which it waits or not, receiving or sending", function()
    local c = channel.new()
    local r = parked(process.spawn(function() return select_ { channel.new(), c } end))
    local s = process.spawn(function() return select_ { channel.new(), c:sending { 1 } } end)
    -- The two wait for each other only on c: one of them gets the other's message.
    local first, second = pack(results(r)), pack(results(s))
    assert.same({ pack(2, { 1 }), pack(2, true) }, { first, second })
    r = parked(process.spawn(function() return select_ { channel.new(), c } end))
    c:close()
    assert.same(pack(2, nil, "closed"), pack(results(r)))
    assert.same(pack(1, nil, "closed"), pack(select_ { c }))
    assert.same(pack(1, nil, "closed"), pack(select_ { c:sending(1) }))
  end)

  it("waits for processes, fibers and timers", function()
    local p = process.spawn(function() return "done", nil, 2 end)
    assert.same(pack(1, true, "done", nil, 2), pack(select_ { p }))
    assert.same(pack(2, true, "done", nil, 2), pack(select_ { channel.new(), p }))
    local bad = process.spawn(function() error({ 1 }) end)
    local r = pack(select_ { bad })
    assert.same({ 1, false, { 1 } }, { r[1], r[2], r[3] })
    assert.is_string(r[4])
    assert.same(pack(1, true, 4, 5), pack(select_ { (fiber.spawn(function() return 4, 5 end)) }))
    assert.same(pack(2, 1), pack(select_ { channel.new(), timer.after(0.005), timeout = 60 }))
  end)

  it("gives a message once, although a channel stands in it many times", function()
    local c, cases = channel.new(), {}
    for i = 1, 50 do cases[i] = c end
    local p = parked(process.spawn(function() return (select(2, select_(cases))) end))
    c:send(9)
    assert.equal(9, results(p))
    assert.same(pack(nil, "full"), pack(c:try_send(1)))
  end)

  it("does not answer itself, receiving and sending on one channel", function()
    local c = channel.new()
    assert.same(pack(nil, "timeout"), pack(select_ { c, c:sending(1), c, c:sending(2), timeout = 0.01 }))
    local p = parked(process.spawn(function() return select_ { c, c:sending "out" } end))
    assert.equal("out", c:receive())
    assert.same(pack(2, true), pack(results(p)))
    p = parked(process.spawn(function() return select_ { c, c:sending "out" } end))
    c:send "in"
    assert.same(pack(1, "in"), pack(results(p)))
  end)

  it("waits for 1000 things in one call, whichever comes, and forgets the others", function()
    local cases = {}
    for i = 1, 1000 do cases[i] = i % 10 == 0 and timer.after(1000) or i % 10 == 5 and channel.new():sending(i) or channel.new() end
    for _, at in ipairs { 1, 501, 999 } do
      local f = parked(fiber.spawn(function() return select_(cases) end))
      cases[at]:send("x")
      assert.same(pack(true, at, "x"), pack(f:wait()))
    end
    for i = 1, 1000 do if i % 10 ~= 0 and i % 10 ~= 5 then assert.equal("full", select(2, cases[i]:try_send(1))) end end
  end)

  it("can be changed while it waits: what was in the table at the call counts", function()
    local cases = { channel.new(), channel.new(), timeout = 0.05 }
    local f = parked(fiber.spawn(function() return select_(cases) end))
    cases[1], cases[2], cases.timeout = nil, nil, nil
    for _ = 1, 3 do collectgarbage() end
    assert.same(pack(true, nil, "timeout"), pack(f:wait()))
  end)

  it("is fair among ready cases", function()
    local n, rounds, count, cases = 8, 16000, {}, {}
    for i = 1, n do cases[i], count[i] = full(i), 0 end
    cases[3] = channel.new(math.huge):sending(3)
    for _ = 1, rounds do
      local i, v = select_(cases)
      count[i] = count[i] + 1
      if i ~= 3 then cases[i]:send(v) end
    end
    local chi = 0
    for i = 1, n do chi = chi + (count[i] - rounds / n) ^ 2 / (rounds / n) end
    assert.is_true(chi < 40, "chi-square of " .. table.concat(count, " ") .. " is " .. chi)   -- 7 degrees: p < 1e-6
  end)
end)

describe("select carries", function()
  local long = ("0123456789"):rep(10000)
  it("messages of all kinds, received and sent, in queues and at rendezvous", function()
    for _, capacity in ipairs { 0, 1 } do
      local to, from = channel.new(capacity), channel.new(capacity)
      local echo = process.spawn(function()
        while true do
          local i, f, a, b = select_ { channel.new(), to }
          if f == nil then return a end
          if type(f) == "function" then f = f() end
          assert(i == 2 and select_ { from:sending(f, a, b), channel.new() } == 1)
        end
      end)
      local t = { 1, { "deep" } }
      t.self = t
      for _, m in ipairs { pack(1), pack(false, nil, 2), pack(long), pack(long, long, 1), pack(("x"):rep(4096)), pack({ a = { 1 } }, "b", 1.5) } do
        assert.is_true(to:send(table.unpack(m, 1, m.n)))
        local i, v, a, b = select_ { from }
        assert.same({ 1, m[1], m[2], m[3] }, { i, v, a, b })
      end
      to:send(t)
      local _, back = select_ { from }
      assert.equal(back, back.self)
      to:send(function() return #long end)
      assert.same(pack(1, #long), { n = 2, select_ { from } })
      assert.same(pack(1, true), pack(select_ { to:sending(to, echo, 3) }))
      local _, c, h, x = select_ { from }
      assert.is_true(c == to and h == echo and x == 3)
      to:close()
      assert.equal("closed", results(echo))
    end
  end)

  it("a long string that a parked sender lends, taken at once or from a wait", function()
    local c = channel.new()
    local p = parked(process.spawn(function() return c:send(long) end))
    assert.same(pack(1, long), pack(select_ { c }))
    assert.is_true(results(p))
    p = parked(process.spawn(function() local _, s = select_ { channel.new(), c } return #s end))
    c:send(long)
    assert.equal(#long, results(p))
  end)

  it("nothing when the message can't be unpacked: an error, and the channel goes on", function()
    local c = channel.new(2)
    package.preload["spec.no.such"] = function() return { f = function() end } end
    local module = require "spec.no.such"
    local p = parked(process.spawn(function()
      package.preload["spec.no.such"] = nil
      local ok, err = pcall(select_, { channel.new(), c })
      return ok, err, select_ { c }
    end))
    package.preload["spec.no.such"], package.loaded["spec.no.such"] = nil, nil
    package.loaded["spec.no.such"] = module
    c:send(module)
    c:send("next")
    package.loaded["spec.no.such"] = nil
    local ok, err, i, v = results(p)
    assert.same({ false, 1, "next" }, { ok, i, v })
    assert.matches("spec.no.such", err)
  end)

  it("a message that does not fit into the memory limit again at the next call", function()
    local c = channel.new(1)
    local p = process.spawn { memory = 200 * 1024, main = function()
      local ok, err = pcall(select_, { channel.new(), c })
      local fill = ok
      return ok, err, fill, pcall(select_, { c })
    end }
    parked(p)
    c:send(("x"):rep(1000000))
    local ok, err, _, again, same = results(p)
    assert.same({ false, "not enough memory", false, "not enough memory" }, { ok, err, again, same })
    assert.equal(1000000, #c:receive(10))                   -- given back when the process ended
  end)
end)

describe("select in", function()
  local function waits(f, ...)
    local c = channel.new()
    local p = parked(process.spawn(f, c, ...))
    c:send(3)
    return results(p)
  end

  it("coroutines suspends the fiber, not the coroutine", function()
    assert.same({ 1, 3, "end" }, { waits(function(c)
      local co = coroutine.wrap(function() coroutine.yield(select_ { c }) return "end" end)
      local i, v = co()
      return i, v, co()
    end) })
  end)

  it("a sort comparator, a gsub callback and a metamethod", function()
    assert.equal(3, (waits(function(c)
      local got
      table.sort({ 2, 1 }, function(a, b) if not got then got = select(2, select_ { channel.new(), c }) end return a < b end)
      return got
    end)))
    assert.equal("3", (waits(function(c) return (("x"):gsub("x", function() return (select(2, select_ { c })) end)) end)))
    assert.equal(3, (waits(function(c) return setmetatable({}, { __index = function() return (select(2, select_ { c })) end }).x end)))
  end)

  it("a finaliser works without waiting, and refuses to wait", function()
    local p = process.spawn(function(c, d)
      local a, b
      setmetatable({}, { __gc = function() a = pack(pcall(select_, { c })) b = pack(pcall(select_, { d, timeout = 5 })) end })
      collectgarbage()
      return a[2], a[3], b[1], b[2]
    end, full(8), channel.new())
    local i, v, ok, err = results(p)
    assert.same({ 1, 8, false }, { i, v, ok })
    assert.matches("cannot wait in a finaliser", err)
  end)

  it("a place where Lua can't yield gives its worker back: a timeout there ends", function()
    local p = process.spawn(function()
      local got
      table.sort({ 2, 1 }, function(a, b) got = got or pack(select_ { channel.new(), timeout = 0.01 }) return a < b end)
      return table.unpack(got, 1, 2)
    end)
    assert.same(pack(nil, "timeout"), pack(results(p)))
  end)
end)

describe("select refuses", function()
  local c = channel.new()
  for what, case in pairs {
    ["no table"] = { "x", "table expected" },
    ["an empty table, which would wait for ever"] = { {}, "nothing to wait for" },
    ["what can't be waited for, by its place"] = { { c, 5 }, "case 2: a channel, timer, process, fiber or other waitable expected, got number" },
    ["a table that is no case"] = { { {} }, "case 1: .* got table" },
    ["another userdata"] = { { io.stdout }, "case 1: .* got userdata" },
    ["a hole"] = { { c, [3] = c }, "case 2 is nil" },
    ["an unknown field"] = { { c, timout = 1 }, "unknown field 'timout'; there are default, timeout" },
    ["a timeout that is no number"] = { { c, timeout = "soon" }, "'timeout' must be a number of seconds" },
    ["nan"] = { { c, timeout = 0 / 0 }, "'timeout' must be a number of seconds" },
  } do
    it(what, function() assert.error_matches(function() select_(case[1]) end, case[2]) end)
  end

  it("a message that can't travel, by its path, and then sends nothing", function()
    local a = channel.new(1)
    assert.error_matches(function() select_ { a:sending(1), c:sending { x = io.stdout } } end, "message%.x: userdata 'FILE%*' cannot be sent")
    assert.equal(0, #a)
    assert.error_matches(function() a:sending(nil, 1) end, "first value of a message can't be nil")
  end)

  it("to let a program change an operation", function()
    local op = full(1):sending(2)
    assert.is_false(pcall(function() op[1] = timer.after(0) end))
    assert.error_matches(function() channel.new(1):send(op) end, "cannot be sent")
  end)
end)

describe("many select at the same time:", function()
  it("two in opposite directions on two channels always meet, and each message arrives once", function()
    local a, b, rounds = channel.new(), channel.new(), proc.slow > 1 and 3000 or 60000
    local function side(out, into, n)
      local sent, got, sum = 0, 0, 0
      while sent < n or got < n do
        local cases = { got < n and into or out:sending(sent + 1), sent < n and out:sending(sent + 1) or nil }
        local i, v = select_(cases)
        if got < n and i == 1 then
          got, sum = got + 1, sum + v
          if v ~= got then return "out of order: " .. v .. " instead of " .. got end
        elseif v then sent = sent + 1
        else return "nothing sent" end
      end
      return sum
    end
    local p, q = process.spawn(side, a, b, rounds), process.spawn(side, b, a, rounds)
    assert.equal(rounds * (rounds + 1) // 2, results(p))
    assert.equal(rounds * (rounds + 1) // 2, results(q))
  end)

  it("every message is received exactly once, whatever way it is sent and received", function()
    local per, ways = proc.slow > 1 and 300 or 6000, 4
    for _, capacity in ipairs { 0, 3 } do
      local c, other, sums = channel.new(capacity), channel.new(), channel.new(math.huge)
      local producers = {}
      for w = 1, ways do
        producers[w] = process.spawn(function()
          for i = 1, per do
            local v = (w - 1) * per + i
            local m = v % 3 == 0 and { v } or v
            if w == 1 then c:send(m)
            elseif w == 2 then repeat local sent = select_ { other, c:sending(m), timeout = 0.0002 } until sent
            elseif w == 3 then while not c:send_within(0.0002, m) do end
            else while not c:try_send(m) do process.yield() end end
          end
        end)
      end
      for w = 1, ways do
        process.spawn(function()
          local seen = {}
          while true do
            local v, why
            if w == 1 then v, why = c:receive()
            elseif w == 2 then
              local i
              i, v, why = select_ { c, other, c, timeout = 0.0003 }
              if i == nil then v, why = nil, "timeout" end
            elseif w == 3 then v, why = c:receive(0.0001)
            else
              v, why = c:try_receive()
              if why == "empty" then process.yield() end
            end
            if v == nil and why == "closed" then break end
            if v ~= nil then seen[#seen + 1] = type(v) == "table" and v[1] or v end
          end
          sums:send(seen)
        end)
      end
      for w = 1, ways do results(producers[w]) end
      c:close()
      local count, all = {}, 0
      for _ = 1, ways do
        for _, v in ipairs((sums:receive())) do
          count[v] = (count[v] or 0) + 1
          all = all + 1
          if count[v] > 1 then error("received twice: " .. v) end
        end
      end
      assert.equal(per * ways, all)
    end
  end)

  it("close reaches all who select on a channel, and ends no other wait", function()
    local c, d, list = channel.new(), channel.new(), {}
    for i = 1, 30 do list[i] = parked(process.spawn(function() return select_ { d, i % 2 == 0 and c or d, c } end)) end
    c:close()
    for i = 1, 30 do
      local _, v, why = results(list[i])
      assert.same({ nil, "closed" }, { v, why })
    end
    assert.same(pack(nil, "full"), pack(d:try_send(1)))
  end)
end)

it("a deadlock in select is reported", function()
  local r = proc.mare [[local mare = require "mare" mare.select { mare.channel.new(), mare.channel.new():sending(1) }]]
  assert.equal(1, r.code)
  assert.matches("deadlock.-main %(#1%): select at ", r.err)
end)

it("an interrupt reaches a main process that selects", function()
  local r = proc.mare([[
    local mare = require "mare"
    print(pcall(function()
      print "waits" io.flush()
      mare.select { mare.channel.new(), mare.timer.after(100) }
    end))]], {}, { signals = { { after = "waits", name = "INT" } } })
  assert.matches("false\t.*interrupted!", r.out)
  assert.equal(0, r.code)
end)
