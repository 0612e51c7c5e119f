-- Dictionaries that processes share: keys, values, conditions, numbers, time, limits, update, waiting, names, budgets.
local mare = require "mare"
local parked = require "spec.support.parked"
local unique = require "spec.support.unique"
local proc = require "spec.support.proc"
local process, channel, dict = mare.process, mare.channel, mare.dict

local pack = table.pack

local function sorted(list)
  table.sort(list, function(a, b) return tostring(a) < tostring(b) end)
  return list
end

describe("keys of a dict", function()
  it("are no fields", function()
    local ok, e = pcall(function() dict.new().hits = 1 end)
    assert.is_false(ok)
    assert.is_true(e:find("dict_spec.lua:%d+: attempt to assign to field 'hits' of a dict: d:set%(key, value%) stores$") ~= nil, e)
  end)

  it("are strings, numbers and booleans, as in a table", function()
    local d = dict.new()
    local keys = { "", "a", "a\0b", ("long"):rep(1000), 0, -1, math.maxinteger, math.mininteger, 0.5, -1e300,
                   math.huge, -math.huge, true, false, "1" }
    for i, k in ipairs(keys) do d:set(k, i) end
    for i, k in ipairs(keys) do assert.equal(i, d:get(k)) end
    assert.equal(#keys, #d)
    assert.same(sorted { table.unpack(keys) }, sorted(d:keys()))
    for _, k in ipairs(keys) do assert.is_true(d:delete(k)) end
    assert.equal(0, #d)
  end)

  it("are one key if they are one in a table", function()
    local d = dict.new()
    d:set(1.0, "one")
    d:set(-0.0, "zero")
    d:set(2^53, "large")
    assert.equal("one", d:get(1))
    assert.equal("zero", d:get(0))
    assert.equal("large", d:get(1 << 53))
    assert.is_nil(d:get("1"))
    assert.equal("integer", math.type(sorted(d:keys())[1]))
    d:set(2^63, "float")
    assert.is_nil(d:get(math.mininteger))
    assert.equal("float", d:get(2^63))
  end)

  it("are nothing else", function()
    local d = dict.new()
    for _, k in ipairs { {}, print, d, 0 / 0 } do
      assert.error_matches(function() d:get(k) end, "a string, number or boolean expected as key")
      assert.error_matches(function() d:set(k, 1) end, "a string, number or boolean expected as key")
    end
    assert.error_matches(function() d:get(nil) end, "expected as key, got nil")
    assert.error_matches(function() d:get(0 / 0) end, "expected as key, got nan")
  end)

  it("are found among hundred thousand others, while those grow and go", function()
    local n = 100000 // proc.slow
    local d = dict.new()
    for i = 1, n do d:set(i % 2 == 0 and i or "key " .. i, i) end
    assert.equal(n, #d)
    for i = 1, n do assert(d:get(i % 2 == 0 and i or "key " .. i) == i) end
    for i = 2, n, 2 do assert(d:delete(i)) end
    assert.equal(n - n // 2, #d)
    for i = 1, n do assert(d:get(i % 2 == 0 and i or "key " .. i) == (i % 2 == 1 and i or nil)) end
    d:clear()
    assert.equal(0, #d)
    assert.equal(0, d:size())
    d:set("again", true)
    assert.is_true(d:get "again")
  end)
end)

describe("values of a dict", function()
  it("are whatever can be sent: a copy for each who asks", function()
    local d = dict.new()
    local values = { 1, 1.5, math.mininteger, "", "short", ("x"):rep(120), ("x"):rep(121), ("long"):rep(100000), true, false, { 1, { 2 } } }
    for i, v in ipairs(values) do d:set(i, v) end
    for i, v in ipairs(values) do assert.same(v, d:get(i)) end
    assert.not_equal(d:get(#values), d:get(#values))
    local t = { n = 1 }
    d:set("t", t)
    t.n = 2
    assert.equal(1, d:get("t").n)
    local n = 10
    d:set("f", function(x) return x + n end)
    assert.equal(11, d:get("f")(1))
    assert.is_true(process.spawn(function() return d:get("f")(2) == 12 and d:get("t").n == 1 end):wait())
  end)

  it("are changed in place and by others of any kind", function()
    local d = dict.new()
    local values = { 1, "text", ("x"):rep(1000), { 1 }, 2.5, "another text, which is longer", false, channel.new(), "t" }
    for _, a in ipairs(values) do
      for _, b in ipairs(values) do
        d:set("k", a)
        d:set("k", b)
        if type(b) == "table" then assert.same(b, d:get "k") else assert.equal(b, d:get "k") end
      end
    end
    assert.equal(1, #d)
    d:clear()
    assert.equal(0, d:size())
  end)

  it("are the same object for all, if they are shared", function()
    local d, c = dict.new(), channel.new(1)
    d:set("c", c)
    assert.equal(c, d:get "c")
    local p = process.spawn(function() return d:get("c"):send("hello") end)
    assert.equal("hello", c:receive())
    assert.is_true(p:wait())
    d:set("d", dict.new())
    d:get("d"):set("x", 1)
    assert.equal(1, d:get("d"):get("x"))
    d:set("t", { c, c })
    assert.equal(c, d:get("t")[2])
  end)

  it("are none that move, and none that can't be sent: the error names the place", function()
    local net = mare.net
    local server = assert(net.listen("127.0.0.1", 0))
    local client = assert(net.connect(server:address()))
    local d = dict.new()
    d:set("k", "before")
    assert.error_matches(function() d:set("k", client) end, "value: it would move to the first who reads it")
    assert.error_matches(function() d:set("k", { { conn = client } }) end, "value%[1%]%.conn: it would move to the first")
    assert.error_matches(function() d:set("k", { x = coroutine.create(print) }) end, "value%.x: coroutine cannot be sent")
    assert.error_matches(function() d:update("k", function() return { client } end) end, "value%[1%]: it would move")
    assert.equal("before", d:get "k")
    assert(client:write("still mine"))
    client:close()
    server:close()
  end)
end)

describe("conditions", function()
  it("add puts only what is absent, replace only what is there", function()
    local d = dict.new()
    assert.same(pack(nil, "absent"), pack(d:replace("k", 1)))
    assert.same(pack(true), pack(d:add("k", 1)))
    assert.same(pack(nil, "exists"), pack(d:add("k", 2)))
    assert.same(pack(true), pack(d:replace("k", 3)))
    assert.equal(3, d:get "k")
    assert.error_matches(function() d:add("k") end, "a value other than nil expected")
  end)

  it("set of nil deletes, delete tells, take gives", function()
    local d = dict.new()
    assert.is_false(d:delete "k")
    d:set("k", 1)
    assert.same(pack(true), pack(d:set("k", nil)))
    assert.same(pack(true), pack(d:set("k", nil)))
    assert.is_nil(d:get "k")
    d:set("k", { 7 })
    assert.same({ 7 }, d:take "k")
    assert.is_nil(d:take "k")
    assert.error_matches(function() d:set("k") end, "value expected")
  end)

  it("cas compares scalars, texts of any length and shared objects", function()
    local d, c = dict.new(), channel.new()
    local function step(old, new)
      assert.same(pack(nil, "changed"), pack(d:cas("k", "something else", new)))
      assert.same(pack(true), pack(d:cas("k", old, new)))
    end
    step(nil, 1)
    step(1, 2.0)
    step(2, "text")
    step("text", ("x"):rep(500))
    step(("x"):rep(500), c)
    local f = mare.freeze { part = { 1 } }
    step(c, f)
    step(f, f.part)
    assert.equal(f.part, d:get "k")
    step(f.part, true)
    step(true, nil)
    assert.is_nil(d:get "k")
    d:set("k", { 1 })
    assert.error_matches(function() d:cas("k", {}, 1) end, "table cannot be compared")
    assert.same({ 1 }, d:get "k")
  end)
end)

describe("dict:incr", function()
  it("adds as Lua does, from 0 or another number on", function()
    local d = dict.new()
    assert.equal(1, d:incr "n")
    assert.equal(6, d:incr("n", 5))
    assert.equal(4, d:incr("n", -2))
    assert.equal("integer", math.type(d:get "n"))
    assert.equal(4.5, d:incr("n", 0.5))
    assert.equal(110, d:incr("m", 10, 100))
    assert.same(pack(nil, "absent"), pack(d:incr("o", 1, false)))
    d:set("max", math.maxinteger)
    assert.equal(math.mininteger, d:incr "max")
  end)

  it("refuses what is no number", function()
    local d = dict.new()
    d:set("k", "1")
    assert.error_matches(function() d:incr "k" end, "incr: the value of 'k' is no number")
    assert.error_matches(function() d:incr("n", "1") end, "number expected")
    assert.error_matches(function() d:incr("n", 1, {}) end, "number expected")
    assert.equal("1", d:get "k")
  end)

  it("loses nothing between processes", function()
    local d, list = dict.new(), {}
    for i = 1, 4 do
      list[i] = process.spawn(function()
        for _ = 1, 5000 do
          d:incr "one"
          d:incr(math.random(100), 1)
        end
      end)
    end
    for i = 1, 4 do assert.is_true(list[i]:wait()) end
    local sum = 0
    for k, v in d:each() do if k ~= "one" then sum = sum + v end end
    assert.equal(20000, d:get "one")
    assert.equal(20000, sum)
  end)
end)

describe("time", function()
  it("ends entries, which are absent from then on for everything", function()
    local d = dict.new()
    assert.is_nil(d:ttl "k")
    d:set("k", 1)
    assert.equal(math.huge, d:ttl "k")
    d:set("k", 1, 1000)
    assert.is_true(d:ttl "k" > 900 and d:ttl "k" <= 1000)
    d:set("k", 2)
    assert.equal(math.huge, d:ttl "k")
    assert.is_true(d:expire("k", 0.001))
    mare.sleep(0.003)
    assert.is_nil(d:get "k")
    assert.is_false(d:expire("k", 1))
    for i, f in ipairs { function() return d:add("k", 5) end, function() return d:replace("k", 5) == nil end,
                         function() return d:cas("k", nil, 5) end,
                         function() return d:incr("k") == 1 end, function() return not d:delete "k" end, function() return d:take "k" == nil end,
                         function() return d:update("k", function(v) assert(v == nil) return 1 end) end, function() return #d:keys() == 0 end } do
      d:set("k", i, 1e-6)
      mare.sleep(0.0001)
      assert.is_true(f() and true, i)
    end
  end)

  it("belongs to set, add, replace, cas, and to what incr and update make", function()
    local d = dict.new()
    d:add("a", 1, 100)
    d:replace("a", 2, 200)
    assert.is_true(d:ttl "a" > 150)
    d:cas("a", 2, 3, 50)
    assert.is_true(d:ttl "a" <= 50)
    d:incr("a", 1, 0, 1000)
    assert.is_true(d:ttl "a" <= 50)
    d:incr("n", 1, 0, 100)
    assert.is_true(d:ttl "n" <= 100)
    d:update("n", function(v) return v + 1 end)
    assert.is_true(d:ttl "n" <= 100)
    d:update("n", function(v) return v + 1 end, 1000)
    assert.is_true(d:ttl "n" > 900)
    assert.is_true(d:expire "n")
    assert.equal(math.huge, d:ttl "n")
    for _, ttl in ipairs { 0, -1, 0 / 0, "x" } do assert.error(function() d:set("k", 1, ttl) end) end
    d:set("k", 1, math.huge)
    assert.equal(math.huge, d:ttl "k")
  end)

  it("leaves no memory behind: others that are put there take away what is over", function()
    local d = dict.new()
    for i = 1, 20000 do d:set("session " .. i, i, 1e-6) end
    assert.is_true(#d < 10000, #d)
    mare.sleep(0.0001)
    local left = #d
    assert.equal(left, d:purge())
    assert.equal(0, #d)
    assert.equal(20000, d:info().expired)
    assert.equal(0, d:size())
  end)
end)

describe("a limit", function()
  it("keeps what was used last", function()
    local d = dict.new { limit = 10000 }
    for i = 1, 1000 do
      d:set(i, i)
      assert(d:get(1) == 1, i)
    end
    assert.is_true(d:size() <= 10000)
    assert.is_true(#d > 30)
    assert.equal(1000 - #d, d:info().evicted)
    local n = #d
    for i = 1001 - n + 1, 1000 do assert(d:get(i) == i) end
    assert.is_nil(d:get(2))
    assert.equal(10000, d:info().limit)
  end)

  it("is kept by large dicts too, with values of all sizes", function()
    local d = dict.new { limit = 1000000 }
    for i = 1, 3000 do
      d:set(i % 500, ("x"):rep(i % 7 == 0 and 20000 or i % 300))
      assert(d:size() <= 1000000)
      assert(d:get(i % 500), i)
    end
    assert.is_true(d:info().evicted > 0)
  end)

  it("refuses what is larger alone", function()
    local d = dict.new { limit = 1000 }
    d:set("k", 1)
    assert.same(pack(nil, "too large"), pack(d:set("k", ("x"):rep(1000))))
    assert.same(pack(nil, "too large"), pack(d:add("l", ("x"):rep(1000))))
    assert.same(pack(nil, "too large"), pack(d:update("k", function() return ("x"):rep(1000) end)))
    assert.equal(1, d:get "k")
    assert.same(pack(nil, "too large"), pack(dict.new({ limit = 10 }):incr "n"))
    for _, limit in ipairs { 0, -1, 1.5, "x", {} } do
      assert.error_matches(function() dict.new { limit = limit } end, "'limit' must be a whole number")
    end
    assert.error_matches(function() dict.open("dict_spec.limits", { limit = "5" }) end, "'limit' must be a whole number of bytes, got string '5'")
    assert.error_matches(function() dict.new { limt = 1 } end, "unknown option 'limt'")
  end)
end)

describe("dict:update", function()
  it("puts what the function gives, and gives all of it", function()
    local d = dict.new()
    assert.same(pack({ n = 1 }, "more", nil), pack(d:update("k", function(v) assert(v == nil) return { n = 1 }, "more", nil end)))
    d:update("k", function(v) v.n = v.n + 1 return v end)
    assert.equal(2, d:get("k").n)
    assert.same(pack(nil), pack(d:update("k", function() return nil end)))
    assert.is_nil(d:get "k")
  end)

  it("is called again when somebody was faster", function()
    local d, calls = dict.new(), 0
    d:set("k", 1)
    assert.equal(11, d:update("k", function(v)
      calls = calls + 1
      if calls == 1 then d:set("k", 10) end
      return v + 1
    end))
    assert.equal(2, calls)
  end)

  it("loses nothing between processes, with functions that wait", function()
    local d, list = dict.new(), {}
    for i = 1, 4 do
      list[i] = process.spawn(function()
        for k = 1, 100 do
          d:update("list", function(t)
            t = t or {}
            if k % 20 == 0 then mare.sleep(0.0001) end
            t[#t + 1] = i
            return t
          end)
        end
      end)
    end
    for i = 1, 4 do assert.is_true(list[i]:wait()) end
    local n = { 0, 0, 0, 0 }
    for _, i in ipairs(d:get "list") do n[i] = n[i] + 1 end
    assert.same({ 100, 100, 100, 100 }, n)
  end)

  it("leaves the entry as it was when the function fails, gives nothing, or is killed", function()
    local d, c = dict.new(), channel.new()
    d:set("k", { 1 })
    assert.error_matches(function() d:update("k", function(v) v[1] = 2 error "no" end) end, "no")
    assert.error_matches(function() d:update("k", function() end) end, "gave nothing")
    assert.error_matches(function() d:update("k", function() return coroutine.create(print) end) end, "value: coroutine cannot be sent")
    assert.error_matches(function() d:update("k", 1) end, "function expected")
    local p = process.spawn(function() d:update("k", function() return c:receive() end) end)
    parked(p)
    p:kill()
    p:wait()
    assert.same({ 1 }, d:get "k")
    assert.is_true(d:cas("n", nil, 1))
  end)

  it("tells a function that changes the entry itself", function()
    local d = dict.new()
    assert.error_matches(function() d:update("k", function(v) d:incr "k" return v end) end, "does the function change it itself%?")
  end)
end)

describe("dict:keys and dict:each", function()
  it("give each key that is there all the time once", function()
    local d = dict.new()
    for i = 1, 1000 do d:set(i, -i) end
    local seen, n = {}, 0
    for k, v in d:each() do
      if type(k) == "number" then
        assert(not seen[k] and v == -k)
        seen[k], n = true, n + 1
      end
      d:set("new " .. n, n)
    end
    assert.equal(1000, n)
    n = 0
    for k, v in pairs(d) do n = n + (k == -v and 1 or 0) end
    assert.equal(1000, n)
    assert.equal(7, #d:keys(7))
    assert.same({}, d:keys(0))
    assert.equal(#d, #d:keys())
  end)

  it("don't give what was deleted meanwhile, and give values as they are then", function()
    local d, n = dict.new(), 0
    for i = 1, 1000 do d:set(i, "old") end
    for _, v in d:each() do
      if n == 0 then for i = 1, 1000 do d:set(i, i % 2 == 0 and "new" or nil) end end
      assert(n == 0 or v == "new")
      n = n + 1
    end
    assert.is_true(n >= 500 and n <= 501)
  end)

  it("can be mixed, left and collected, and their state is no toy", function()
    local d = dict.new()
    for i = 1, 100 do d:set(i, i) end
    for _ in d:each() do break end   -- luacheck: ignore 512
    local f, s = d:each()
    collectgarbage()
    assert.is_true(type((f(s))) == "number")
    for _, wrong in ipairs { 1, {}, io.stdout, d } do assert.error_matches(function() f(wrong) end, "what dict:each gave") end
  end)
end)

describe("names of dicts", function()
  it("lead all to one, which lives until it is dropped", function()
    local name = "dict " .. unique()
    assert.is_nil(dict.find(name))
    local d = dict.open(name)
    assert.equal(name, d:name())
    assert.equal(d, dict.open(name))
    assert.is_nil(dict.new():name())
    process.spawn(function() dict.open(name):set("k", 1) end):wait()
    d = nil   -- luacheck: ignore 311
    collectgarbage()
    assert.equal(1, dict.find(name):get "k")
    local held = dict.find(name)
    assert.is_true(dict.drop(name))
    assert.is_false(dict.drop(name))
    assert.is_nil(dict.find(name))
    assert.equal(1, held:get "k")
    assert.not_equal(held, dict.open(name))
    assert.is_nil(dict.open(name):get "k")
    assert.is_true(dict.drop(name))
  end)

  it("say when two limits don't agree", function()
    local name = "dict " .. unique()
    dict.open(name, { limit = 5000 })
    assert.equal(5000, dict.open(name):info().limit)
    assert.equal(5000, dict.open(name, { limit = 5000 }):info().limit)
    assert.error_matches(function() dict.open(name, { limit = 6000 }) end, "is there already, with a limit of 5000 bytes")
    assert.is_true(dict.drop(name))
  end)
end)

describe("memory of a dict", function()
  it("counts in the budget of who has made it, though it is empty", function()
    local prefix = unique()
    local function hoard(open)
      return process.spawn { memory = { 16 << 20, tree = true }, main = function()
        local d = require "mare.dict"
        local kept = {}
        for i = 1, 4000 do kept[i] = open and d.open(prefix .. i) or d.new() end
        return #kept
      end }:wait()
    end
    for _, open in ipairs { false, true } do
      local done, e = hoard(open)
      assert.is_false(done)
      assert.matches("not enough memory: of the 16777216 bytes", tostring(e))
      for i = 1, 4000 do dict.drop(prefix .. i) end
    end
    assert.same(pack(true), pack(process.spawn { memory = { 16 << 20, tree = true }, main = function()
      for i = 1, 8000 do                                          -- garbage, each time
        require "mare.dict".open(prefix .. i)
        require "mare.dict".drop(prefix .. i)
      end
    end }:wait()))
  end)

  it("counts in the budget of who has put it there, as long as it lies there", function()
    local d = dict.new()
    local p = process.spawn { memory = { 2000000, tree = true }, args = { d }, main = function(dd)
      for _ = 1, 100 do dd:set("k", ("x"):rep(100000)) end
      local ok, e = pcall(function() for i = 1, 100 do dd:set(i, ("x"):rep(100000)) end end)
      assert(not ok and tostring(e):find "not enough memory", e)
      dd:clear()
      for i = 1, 1000 do dd:incr(i) end
      dd:set(1, "kept")
    end }
    local ok, e = p:wait()
    assert.is_true(ok, tostring(e))
    assert.equal("kept", d:get(1))
    assert.equal(1000, #d)
  end)
end)
