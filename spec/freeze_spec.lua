-- mare.freeze: tables that never change again. They read as the tables they were made of; they are the same one in every process; what could
-- change is refused. That a frozen table reads as the plain one is tried with random tables, too: FREEZE_SEED repeats one.
local mare = require "mare"
local proc = require "spec.support.proc"
local freeze, process, channel = mare.freeze, mare.process, mare.channel

local function results(p)
  local r = table.pack(p:wait())
  if not r[1] then error(r[2], 0) end
  return table.unpack(r, 2, r.n)
end

local function refused(text, value)
  local ok, e = pcall(freeze, value)
  assert.is_false(ok)
  assert.are.equal(text, e)
end

-- Reads often enough that a small part is laid out.
local function heat(f)
  for _ = 1, 40 do local _ = f.warm end
  return f
end

local function large(t)
  for i = 1, 100 do t["filler" .. i] = i end
  return t
end

-- Cold, laid out, and too large for that.
local function everyhow(make, judge)
  judge(freeze(make()))
  judge(heat(freeze(make())))
  judge(freeze(large(make())))
end

local function collected()
  for _ = 1, 3 do collectgarbage() end
end

describe("a frozen table", function()
  it("gives what the table had under every kind of key", function()
    local c = channel.new()
    everyhow(function()
      return { 10, "b", 3.5, false, x = "text", [2.5] = "float", [true] = "yes", [false] = "no", [-7] = "negative", [c] = "channel",
               [("k"):rep(500)] = "long key", empty = {}, [math.mininteger] = 1, [1 << 40] = 2, [""] = "", z = "a\0b", inf = math.huge }
    end, function(f)
      assert.are.equal("userdata", type(f))
      assert.are.same({ 10, "b", 3.5, false }, { f[1], f[2], f[3], f[4] })
      assert.are.equal("text", f.x)
      assert.are.equal("float", f[2.5])
      assert.are.equal("yes", f[true])
      assert.are.equal("no", f[false])
      assert.are.equal("negative", f[-7])
      assert.are.equal("channel", f[c])
      assert.are.equal("long key", f[("k"):rep(500)])
      assert.are.equal("a\0b", f.z)
      assert.are.equal("", f[""])
      assert.are.equal(1, f[math.mininteger])
      assert.are.equal(2, f[1 << 40])
      assert.are.equal(math.huge, f.inf)
      assert.is_nil(next(freeze.copy(f.empty)))
    end)
  end)

  it("takes keys as Lua does: 2.0 is 2, and nil and NaN are nobody's", function()
    everyhow(function() return { "a", "b", [4.0] = "d", [2 ^ 53] = "far" } end, function(f)
      assert.are.equal("b", f[2.0])
      assert.are.equal("d", f[4])
      assert.are.equal("far", f[1 << 53])
      assert.is_nil(f["2"])
      assert.is_nil(f[2.5])
      assert.is_nil(f[nil])
      assert.is_nil(f[0 / 0])
      assert.is_nil(f[-0.0])
      assert.is_nil(f[f])
      assert.is_nil(f[print])
      assert.is_nil(f[{}])
      assert.is_nil(f.nothing)
    end)
    assert.are.equal("zero", freeze { [0] = "zero" }[-0.0])
  end)

  it("keeps NaN, -0.0 and both types of numbers", function()
    everyhow(function() return { n = 0 / 0, z = -0.0, i = 1, f = 1.0, big = math.maxinteger } end, function(f)
      assert.is_true(f.n ~= f.n)
      assert.are.equal(-math.huge, 1 / f.z)
      assert.are.equal("integer", math.type(f.i))
      assert.are.equal("float", math.type(f.f))
      assert.are.equal(math.maxinteger, f.big)
    end)
  end)

  it("is one value for each table: the same part is the same value", function()
    everyhow(function()
      local t = { a = { b = { 1 } } }
      t.self, t.again, t.a.up = t, t.a, t
      t[t.a] = "part as key"
      return t
    end, function(f)
      assert.is_true(f.a == f.a and f.a == f.again and f.self == f and f.a.up == f and f.a.b == f.again.b)
      assert.are.equal("part as key", f[f.a])
      local kept = setmetatable({ [f.a] = true }, { __mode = "k" })
      local a = f.a
      collected()
      assert.is_true(kept[a] and kept[f.a])
    end)
  end)

  it("has the length that its table had, holes or not", function()
    for _, make in ipairs {
      function() return {} end, function() return { 1, 2, 3 } end, function() return { 1, nil, 3 } end, function() return { nil, nil, 3 } end,
      function() return { [1] = 1, [2] = 2, [4] = 4 } end, function() return { n = 1, [1] = 1 } end,
      function() local t = {} for i = 1, 100 do t[i] = i end for i = 60, 100 do t[i] = nil end return t end,
      function() local t = { 1, 2, 3, 4 } t[5], t[6], t[7] = 5, 6, 7 return t end,
    } do
      local t = make()
      assert.are.equal(#t, #freeze(t))
    end
  end)

  it("works with ipairs, pairs, table.concat, table.unpack, table.move, select", function()
    everyhow(function() return { "a", "b", "c", key = { 1 } } end, function(f)
      local list = {}
      for i, v in ipairs(f) do list[i] = v end
      assert.are.same({ "a", "b", "c" }, list)
      assert.are.equal("a,b,c", table.concat(f, ","))
      assert.are.same({ "a", "b", "c" }, { table.unpack(f) })
      assert.are.same({ "b", "c" }, table.move(f, 2, 3, 1, {}))
      local seen = {}
      for k, v in pairs(f) do seen[k] = v end
      assert.are.equal("b", seen[2])
      assert.is_true(seen.key == f.key)
      local n = 0
      for _ in pairs(freeze {}) do n = n + 1 end
      assert.are.equal(0, n)
    end)
  end)

  it("can be walked by two loops at once, and from any key", function()
    local f = freeze(large { 1, 2, 3 })
    local n = 0
    for k in pairs(f) do for l in pairs(f) do if k == l then n = n + 1 end end end
    assert.are.equal(103, n)
    local step, state = pairs(f)
    local rest = 0
    local k = step(state, 2)
    while k ~= nil do rest, k = rest + 1, step(state, k) end
    assert.are.equal(101, rest)
    assert.has_error(function() step(state, "not there") end)
    assert.has_error(function() step({}, 1) end)
  end)

  it("can't be changed, by nothing", function()
    everyhow(function() return { 3, 1, 2, a = { 1 } } end, function(f)
      for _, change in ipairs {
        function() f.x = 1 end, function() f[1] = 2 end, function() f.a.x = 1 end, function() rawset(f, 1, 2) end, function() next(f) end,
        function() rawget(f, 1) end, function() table.sort(f) end, function() table.insert(f, 4) end, function() table.remove(f) end,
        function() setmetatable(f, {}) end, function() setmetatable({}, f) end, function() table.move({ 1 }, 1, 1, 1, f) end,
      } do
        local ok, e = pcall(change)
        assert.is_false(ok)
        assert.is_true(tostring(e):find("frozen table", 1, true) ~= nil or tostring(e):find("table expected", 1, true) ~= nil, e)
      end
      assert.are.equal("frozen table", getmetatable(f))
      for _, v in pairs(f) do assert.are_not.equal("table", type(v)) end
    end)
    assert.has_error(function() table.sort(freeze { 1 }) end)     -- nothing to do, and an error all the same
  end)

  it("does not change with the table it was made of", function()
    local t = { a = { 1 }, list = { 1, 2 } }
    local f = freeze(t)
    t.a[1], t.b, t.list[3] = 2, 3, 3
    assert.are.equal(1, f.a[1])
    assert.is_nil(f.b)
    assert.are.equal(2, #f.list)
  end)

  it("serves as __index of a class, as a class's methods", function()
    local Account = { __index = freeze { deposit = function(self, n) self.balance = self.balance + n return self end, kind = "account" } }
    local function check(a) return a:deposit(5):deposit(2).balance, a.kind, a.nothing end
    assert.are.same({ 8, "account" }, { check(setmetatable({ balance = 1 }, Account)) })
    for _ = 1, 40 do check(setmetatable({ balance = 1 }, Account)) end
    local inbox = channel.new(1)
    inbox:send(setmetatable({ balance = 2 }, Account))
    assert.are.same({ 9, "account" }, { results(process.spawn(function(c) local a = c:receive() return a:deposit(7).balance, a.kind end, inbox)) })
  end)

  it("is shown with its address, and has a size", function()
    local f = freeze { a = { 1 }, b = 2 }
    assert.is_true(tostring(f):find("^frozen table: 0x%x+$") ~= nil)
    assert.is_true(tostring(f) ~= tostring(f.a))
    assert.are.equal(freeze.size(f), freeze.size(f.a))
    assert.is_true(freeze.size(freeze { ("x"):rep(1e6) }) > 1e6)
    assert.is_true(freeze.is(f) and freeze.is(f.a) and not freeze.is {} and not freeze.is(nil) and not freeze.is(io.stdout))
    assert.has_error(function() freeze.size {} end)
  end)

  it("holds records with the same fields by their values alone", function()
    local list = {}
    for i = 1, 10000 do list[i] = { id = i, name = "n", x = 1.5, y = 2.5 } end
    assert.is_true(freeze.size(freeze(list)) / 10000 < 110)
  end)

  it("is no empty object to a JSON writer", function()
    local f = freeze { a = 1, list = { 1, 2 } }
    for _, name in ipairs { "dkjson", "cjson" } do
      local json = require(name)
      local ok, text = pcall(json.encode, f)
      assert.is_true(not ok or text == nil, name .. " wrote " .. tostring(text))
      local copy = json.decode(json.encode(freeze.copy(f)))
      assert.are.equal(2, copy.list[2])
    end
  end)
end)

describe("mare.freeze", function()
  it("gives back what can't change anyway, and what is frozen", function()
    local c, f = channel.new(), freeze { 1 }
    for _, v in ipairs { 1, 1.5, "text", true, c, f } do assert.is_true(freeze(v) == v) end
    assert.is_nil(freeze(nil))
    assert.is_true(select(2, pcall(freeze)):find("bad argument #1 to 'mare.freeze' (value expected)", 1, true) ~= nil)
  end)

  it("refuses what could change, and names it", function()
    refused("value.items[3].owner: userdata 'FILE*' cannot be frozen", { items = { "a", "b", { owner = io.stdout } } })
    refused("value[1]: coroutine cannot be frozen", { coroutine.create(print) })
    refused("value.p: table with a metatable cannot be frozen; freeze what it holds, in a table without one", { p = setmetatable({}, {}) })
    refused("value.t.g: the globals cannot be frozen, as each process has its own", { t = { g = _G } })
    refused("value.s: module cannot be frozen, as each process has its own; keep its name, and require it where it is used", { s = string })
    refused("value.<key>: function that is a key cannot be frozen; make it a value", { [print] = 1 })
    local cache = {}
    refused("value.f: upvalue 'cache': table outside the value cannot be frozen with a function; freeze it first, or pass it as an argument",
            { f = function() return cache end })
    refused("value: function cannot be frozen by itself; freeze a table that holds it", print)
    refused("value: userdata cannot be frozen", io.stdout)
    refused("value: coroutine cannot be frozen", coroutine.create(print))
    local f <close> = assert(mare.file.open("/dev/null"))
    refused("value.f: object that one process owns cannot be frozen; send it by itself", { f = f })
    refused("value: userdata cannot be frozen", f)
  end)

  it("takes what a module has, and a module may give a frozen table", function()
    package.loaded["freeze.config"] = { limit = 10, name = "x" }
    local f = freeze(package.loaded["freeze.config"])
    assert.are.equal(10, f.limit)
    package.loaded["freeze.config"] = f
    assert.is_true(results(process.spawn(function(same) return f.limit == 10 and f == same and freeze.is(f) end, f)))
    package.loaded["freeze.config"] = nil
  end)

  it("takes tables of any depth, and copies them", function()
    local deep = {}
    for _ = 1, 100000 do deep = { deep } end
    local f = freeze(deep)
    local copy, n = freeze.copy(f), 0
    while copy[1] do copy, n = copy[1], n + 1 end
    assert.are.equal(100000, n)
  end)

  it("shares what is frozen already, in chains of any length", function()
    local inner = freeze { ("x"):rep(100000) }
    local outer = freeze { inner = inner, again = { inner } }
    assert.is_true(outer.inner == inner and outer.again[1] == inner)
    assert.is_true(freeze.size(outer) < 10000)
    assert.are.equal("of another whole", freeze { [inner] = "of another whole" }[inner])
    local chain
    for i = 1, 30000 do chain = freeze { next = chain, i = i } end   -- luacheck: ignore 311
    collected()
    assert.are.equal(29999, chain.next.i)
    chain = nil                                                       -- luacheck: ignore 311
    collected()
  end)

  it("holds channels and other shared objects", function()
    local c = channel.new(1)
    local f = freeze { c = c, timers = { mare.timer.after(0) } }
    local p = process.spawn(function() f.c:send("through") return f.timers[1]:wait() end)
    assert.are.equal("through", c:receive())
    assert.are.equal(1, results(p))
  end)

  it("thaws: tables that can be changed, the same one for the same part", function()
    local t = { 1, 2, a = { b = {} }, [2.5] = "x", long = ("y"):rep(5000), inner = freeze { deep = { 1 } }, f = function() return 1 end }
    t.self, t.a.up, t[t.a] = t, t, "key"
    local f = freeze(t)
    local copy = freeze.copy(f)
    assert.is_true(copy.self == copy and copy.a.up == copy and copy[copy.a] == "key" and copy.long == t.long and #copy == 2)
    copy.a.b[1], copy.inner.deep[2], copy.new = 1, 2, 3
    assert.are.equal(2, #copy.inner.deep)
    assert.are.equal(1, copy.f())
    assert.is_nil(f.new)
    assert.are.equal(1, #freeze.copy(f.inner.deep))
    local plain = {}
    assert.is_true(freeze.copy(plain) == plain and freeze.copy(5) == 5 and freeze.copy(nil) == nil)
  end)
end)

describe("frozen functions", function()
  local function module()
    local M = { k = 10 }
    local count = 0
    local prefix = "p"
    local shared = freeze { 1, 2 }
    local function helper(x) if x == 0 then return prefix end return helper(x - 1) end
    function M.add() count = count + 1 return count end
    function M.count() return count end
    function M.helper() return helper(3) .. tostring(M.k) .. #shared end
    function M.globals() return _ENV == _G and string.format("%d", 3) end    -- luacheck: ignore
    M.print, M.format = print, string.format
    return M
  end

  it("work, with what they refer to, in every process", function()
    local f = freeze(module())
    local function check(g)
      return g.helper() == "p102" and g.globals() == "3" and g.helper == g.helper and g.print == print and g.format("%d", 5) == "5"
    end
    assert.is_true(check(f))
    assert.is_true(results(process.spawn(check, f)))
    assert.is_true(results(process.spawn(function() return check(f) end)))
    assert.is_true(check(heat(f)))
    assert.is_true(check(freeze(large(module()))))
  end)

  it("share variables among each other in a process, not with other processes", function()
    local f = freeze(module())
    f.add()
    f.add()
    collected()
    assert.are.equal(2, f.count())
    assert.are.equal(1, results(process.spawn(function() f.add() return f.count() end)))
    assert.are.equal(2, f.count())
  end)

  it("see the frozen table that they are in, and errors name their lines", function()
    local M = { sub = {} }
    function M.sub.f() return M.sub.g() end
    function M.sub.g() return M end
    function M.boom() error("boom") end
    local f = freeze(M)
    assert.is_true(f.sub.f() == f)
    local ok, e = pcall(f.boom)
    assert.is_true(not ok and e:find("freeze_spec.lua:%d+: boom$") ~= nil)
  end)

  it("can use modules, which each process has itself", function()
    local text = require "string"
    local f = freeze { f = function(s) return text.upper(s) end }
    assert.are.equal("A", f.f "a")
    assert.are.equal("B", results(process.spawn(function() return f.f "b" end)))
  end)
end)

describe("a frozen table in messages", function()
  it("is the same one everywhere, as are its parts", function()
    local f = freeze { a = { b = { 1 } }, big = ("x"):rep(100000) }
    local c = channel.new(4)
    c:send(f, f.a)
    c:send { f, f.a.b }
    local p = process.spawn(function()
      local x, a = c:receive()
      local m = c:receive()
      assert(x.a == a and m[1] == x and m[2] == a.b and rawequal(a.b, x.a.b))
      c:send(a, tostring(a))
      return x
    end)
    assert.is_true(results(p) == f)
    local a, shown = c:receive()
    assert.is_true(a == f.a and shown == tostring(f.a))
    local tables = { [f] = 1 }
    assert.are.equal(1, results(process.spawn(function() return tables[f] end)))
  end)

  it("keeps the whole as long as a part is kept, and no longer", function()
    local before = collectgarbage "count"
    local part = (function() return freeze { { 1 }, other = { "o" } }[1] end)()
    collected()
    assert.are.equal(1, part[1])
    local c = channel.new(1)
    c:send(part)
    part = nil                                   -- luacheck: ignore 311
    collected()
    assert.are.equal(1, c:receive()[1])
    for i = 1, 50 do freeze { ("x"):rep(1e6) .. i } end
    collected()
    assert.is_true(collectgarbage "count" < before + 5000)
  end)

  it("lets go of what it has laid out, when nobody has anything of the whole", function()
    local known = setmetatable({}, { __mode = "k" })
    local root = freeze(large { part = { 1 }, small = { x = 1, sub = { 1 }, text = ("x"):rep(2000), f = function() return 1 end } })
    do
      local f = heat(root.small)
      known[f], known[debug.getmetatable(f).__index], known[f.sub], known[root.part], known[f.f] = 1, 2, 3, 4, 5
      assert.is_true(#f.text == 2000 and f.sub == f.sub and f.f == f.f)
    end
    collected()
    assert.are.equal(1, root.part[1])
    root = nil                                   -- luacheck: ignore 311
    collected()
    assert.is_nil(next(known))
  end)

  it("outlives the process that made it, also one that was killed", function()
    local c = channel.new()
    local p = process.spawn(function()
      c:send(freeze { list = { 1, 2, 3 }, f = function() return "alive" end })
      mare.sleep(3600)
    end)
    local f = c:receive()
    p:kill()
    p:wait()
    assert.are.equal(3, #f.list)
    assert.are.equal("alive", f.f())
  end)

  it("is read by many processes at once, killed ones among them", function()
    local t = {}
    for i = 1, 500 do t["key" .. i] = { id = i, list = { i, i + 1 }, name = ("n"):rep(i) } end
    local f = freeze(t)
    local readers = {}
    for r = 1, 16 do
      readers[r] = process.spawn(function()
        local sum = 0
        repeat
          for _, v in pairs(f) do sum = sum + v.list[2] - v.id + #v.name - v.id end
          for i = 1, 500 do sum = sum + f["key" .. i].id - i end
        until r % 4 ~= 0
        return sum
      end)
    end
    f = nil                                      -- luacheck: ignore 311
    collected()
    for r = 4, 16, 4 do readers[r]:kill() end
    for r = 1, 16 do if r % 4 ~= 0 then assert.are.equal(500, results(readers[r])) end end
  end)

  it("is dropped by many processes at the same moment", function()
    for _ = 1, 20 do
      local c = channel.new(8)
      local readers = {}
      for r = 1, 8 do
        readers[r] = process.spawn(function()
          local part, other = c:receive()
          local ok = part[1] == 1 and other.x == 2
          part, other = nil, nil                 -- luacheck: ignore 311
          collectgarbage()
          return ok
        end)
      end
      do
        local f = freeze { a = { 1 }, b = { x = 2 } }
        for _ = 1, 8 do c:send(f.a, f.b) end
      end
      collectgarbage()
      for r = 1, 8 do assert.is_true(results(readers[r])) end
    end
  end)

  it("counts in the memory budget of the process that made it", function()
    local p = process.spawn { memory = { 32 << 20, tree = true }, main = function()
      local kept = {}
      for i = 1, 100 do kept[i] = freeze { ("x"):rep(1 << 20) .. i } end
      return #kept
    end }
    local done, e = p:wait()
    assert.is_false(done)
    assert.is_true(tostring(e):find("not enough memory", 1, true) ~= nil, e)
    assert.is_true(results(process.spawn { memory = { 32 << 20, tree = true }, main = function()
      local kib = ("x"):rep(1024)
      for i = 1, 200 do freeze { kib:rep(1024) .. i } end      -- garbage, each time
      return true
    end }))
  end)
end)

describe("what a program does to the userdata", function()
  it("can't make it read what is gone", function()
    local f = freeze { a = { 1 }, f = function() return 1 end, long = ("x"):rep(5000) }
    local raw = debug.getmetatable(f)
    local index = raw.__index
    assert.has_error(function() index({}, 1) end)
    assert.has_error(function() index(io.stdout, 1) end)
    local layout = debug.getmetatable(heat(f)).__index
    assert.are.equal("table", type(layout))
    debug.setuservalue(f, { "rubbish" }, 1)
    assert.are.equal(1, f.f())
    debug.setuservalue(f, nil, 1)
    assert.are.equal(5000, #f.long)
    raw.__gc(f)
    assert.has_error(function() index(f, "a") end, "bad argument #1 to 'index' (it was finalised already)")
    assert.is_nil(layout.nothing)
    assert.is_false(freeze.is(f))
    local c = channel.new(1)
    assert.has_error(function() c:send(f) end)
    raw.__gc(f)
  end)

  it("works in finalisers, and after them", function()
    local seen
    do
      local f = freeze { a = { 1 }, n = 1 }
      setmetatable({}, { __gc = function()
        local ok, v = pcall(function() return f.n end)
        seen = not ok or v == 1
      end })
    end
    collected()
    assert.is_true(seen)
  end)
end)

-- ---- random tables: everything that can be asked gives the same as of the plain one ----

local function generator(seed)
  local state = seed
  local function random(n)
    state = (state * 6364136223846793005 + 1442695040888963407) & 0x7fffffffffffffff
    return (state >> 33) % n + 1
  end
  local all = {}
  local function scalar()
    local k = random(9)
    if k == 1 then return random(20) elseif k == 2 then return -random(1000) elseif k == 3 then return random(100) / 8 elseif k == 4 then return true
    elseif k == 5 then return "s" .. random(50) elseif k == 6 then return ("l"):rep(random(60)) .. random(9)
    elseif k == 7 then return ("long"):rep(random(600)) elseif k == 8 then return false else return 1 << random(62) end
  end
  local function value() return random(3) == 1 and all[random(#all)] or scalar() end
  for i = 1, random(60) do all[i] = {} end
  for i = 1, #all do
    local t = all[i]
    for j = 1, random(random(30)) do t[j] = value() end
    for _ = 1, random(random(100)) do t[value()] = value() end
    if random(4) == 1 then for _ = 1, random(10) do t[random(30)] = nil end end
  end
  local root = { table.unpack(all) }
  return root
end

local function compare(seed)
  local t = generator(seed)
  local f = freeze(t)
  local frozen_of = {}                           -- plain table -> frozen part
  for i = 1, #t do frozen_of[t[i]] = f[i] end
  frozen_of[t] = f
  local function same(a, b) return (type(a) == "table" and rawequal(frozen_of[a], b)) or rawequal(a, b) end
  local function table_is(plain, part)
    assert(#plain == #part, "length")
    local n, m = 0, 0
    for k, v in next, plain do
      n = n + 1
      assert(same(v, part[type(k) == "table" and frozen_of[k] or k]), "value")
    end
    for k, v in pairs(part) do
      m = m + 1
      assert(rawequal(part[k], v), "pairs")
    end
    assert(n == m, "count")
    for i = -2, 70 do assert(same(plain[i], part[i]), "integer") end
    for _, k in ipairs { "s1", "s7", "l1", 2.5, true, false, 0.125, "" } do assert(same(plain[k], part[k]), "probe") end
  end
  for round = 1, 3 do
    for plain, part in pairs(frozen_of) do
      local ok, e = pcall(table_is, plain, part)
      if not ok then error(("seed %d, round %d: %s"):format(seed, round, e), 0) end
    end
  end
  local copy = freeze.copy(f)
  local plain_of = { [t] = copy }
  for i = 1, #t do plain_of[t[i]] = copy[i] end
  for plain, thawed in pairs(plain_of) do
    local n = 0
    for k, v in next, plain do
      n = n + 1
      local got = rawget(thawed, plain_of[k] or k)
      assert(rawequal(got, plain_of[v] or v) or v ~= v, ("seed %d: copy"):format(seed))
    end
    for _ in next, thawed do n = n - 1 end
    assert(n == 0, "copy's count")
  end
  return f, t
end

describe("a random table", function()
  it("reads the same frozen, here and in another process", function()
    local seed = tonumber(os.getenv "FREEZE_SEED") or os.time()
    for i = 0, 40 // proc.slow - 1 do compare(seed + i) end
    local p = process.spawn(function(first) for i = 1, 10 do compare(first + i) end return true end, seed + 100)
    assert.is_true(results(p))
  end)
end)
