-- Dictionaries that processes share: who waits for a key, who is killed on the way, runs with a seed.
local mare = require "mare"
local proc = require "spec.support.proc"
local parked = require "spec.support.parked"
local process, channel, fiber, dict, select = mare.process, mare.channel, mare.fiber, mare.dict, mare.select

local pack = table.pack

local function script(text, ...)
  local words = { "run", ... }
  text = "local mare = require 'mare' local dict = mare.dict\n" .. text
  local r = proc.with_file(text, function(path) words[#words + 1] = path return proc.mare_command(words) end)
  assert.is_false(r.timeout, "it hangs:\n" .. r.out .. r.err)
  return r.out, r.err, r.code
end

describe("waiting for a key", function()
  it("ends when the value is another one", function()
    local d = dict.new()
    d:set("k", 1)
    assert.same(pack(1), pack(d:wait("k", 2)))
    assert.same(pack(1), pack(d:wait("k", nil)))
    assert.same(pack(nil, "timeout"), pack(d:wait("k", 1, 0.001)))
    assert.same(pack(nil, "timeout"), pack(d:wait("x", nil, 0)))
    local p = process.spawn(function() return d:wait("k", 1) end)
    parked(p)
    d:set("k", 1)
    d:set("other", 1)
    parked(p)
    d:set("k", { 2 })
    assert.same(pack(true, { 2 }), pack(p:wait()))
  end)

  it("ends for all who wait, whatever changes it", function()
    local d = dict.new()
    for _, change in ipairs { function() d:set("k", 0) end, function() d:incr "k" end, function() d:delete "k" end, function() d:take "k" end,
                              function() d:update("k", function() return "u" end) end, function() d:cas("k", 1, 2) end, function() d:clear() end,
                              function() d:replace("k", 7) end } do
      d:set("k", 1)
      local list = {}
      for i = 1, 5 do list[i] = process.spawn(function() return d:wait("k", 1) end) end
      for i = 1, 5 do parked(list[i]) end
      assert.equal(5, d:info().waiting)
      change()
      local now = d:get "k"
      for i = 1, 5 do assert.same(now ~= nil and pack(true, now) or pack(true, nil, "absent"), pack(list[i]:wait())) end
      assert.equal(0, d:info().waiting)
    end
  end)

  it("ends when the entry's time is over, also if that is set later", function()
    local d = dict.new()
    d:set("k", 1, 0.005)
    assert.same(pack(nil, "absent"), pack(d:wait("k", 1)))
    d:set("k", 1, 1000)
    local p = process.spawn(function() return d:wait("k", 1) end)
    parked(p)
    d:expire("k", 0.005)
    assert.same(pack(true, nil, "absent"), pack(p:wait()))
    d:set("k", 1, 1000)
    assert.same(pack(nil, "timeout"), pack(d:wait("k", 1, 0.000001)))
  end)

  it("without a value to compare with ends at the next change", function()
    local d = dict.new()
    d:set("t", { 1 })
    local w = d:watch "t"
    assert.same(pack(nil, "timeout"), pack(w:wait(0.001)))
    d:set("t", { 1 })
    d:set("t", { 2 })
    assert.same({ 2 }, w:wait())
    assert.same(pack(nil, "timeout"), pack(w:wait(0)))
    d:delete "t"
    assert.same(pack(nil, "absent"), pack(w:wait()))
    local f = fiber.spawn(function() return d:wait "t" end)
    fiber.yield()
    d:set("t", "again")
    assert.same(pack(true, "again"), pack(f:wait()))
    assert.error_matches(function() d:wait("t", {}) end, "table cannot be compared")
  end)

  it("is a case of select", function()
    local d, c = dict.new(), channel.new()
    local a, b = d:watch "a", d:watch("b", nil)
    assert.same(pack(nil, "timeout"), pack(select { a, b, c, timeout = 0.001 }))
    d:set("b", 2)
    assert.same(pack(2, 2), pack(select { a, b, c }))
    d:delete "b"
    local p = process.spawn(function() mare.sleep(0.002) d:set("a", "x") end)
    assert.same(pack(1, "x"), pack(select { a, b, c }))
    assert.is_true(p:wait())
    d:set("e", 1, 0.005)
    assert.same(pack(1, nil, "absent"), pack(select { d:watch("e", 1), c }))
    assert.equal(0, d:info().waiting)
    assert.error_matches(function() mare.selector { a } end, "got watch; others fit into select")
    assert.error_matches(function() c:send(a) end, "watch cannot be sent; send the dict")
  end)

  it("can be cancelled and killed", function()
    local d = dict.new()
    local f = fiber.spawn(function() return d:wait("k", nil) end)
    fiber.yield()
    f:cancel()
    assert.is_false((f:wait()))
    local p = process.spawn(function() return d:wait("k", nil) end)
    parked(p)
    p:kill()
    p:wait()
    assert.equal(0, d:info().waiting)
    d:set("k", 1)
  end)

  it("misses no change, however they fall", function()
    local d, rounds = dict.new(), 300
    local function player(mine)
      for i = 1, rounds do
        local v = d:get "ball" or 0
        while v % 2 ~= mine do v = d:wait("ball", v) end
        assert(d:cas("ball", v, v + 1), i)
      end
    end
    d:set("ball", 0)
    local a, b = process.spawn(player, 0), process.spawn(player, 1)
    assert.same(pack(true), pack(a:wait()))
    assert.same(pack(true), pack(b:wait()))
    assert.equal(2 * rounds, d:get "ball")
  end)

  it("counts as waiting where nothing can run any more", function()
    local out, err, code = script "dict.open('sessions'):wait('k', nil)"
    assert.equal("", out)
    assert.equal(1, code)
    assert.matches("deadlock", err)
    assert.matches("wait for a key.*dict 'sessions', key 'k'", err)
  end)
end)

describe("processes that are killed anywhere", function()
  it("leave a dict as it was between two steps, and nobody waiting", function()
    local d, limited = dict.new(), dict.new { limit = 20000 }
    local function busy()
      local id, big = process.self().id, { ("x"):rep(500), { 1, 2, 3 } }
      while true do
        d:incr "steps"
        d:update("list", function(t)
          t = t or { n = 0 }
          assert(t.n == #t)
          t.n = t.n % 50 + 1
          for i = #t, t.n + 1, -1 do t[i] = nil end
          t[t.n] = id
          return t
        end)
        limited:set(math.random(100), big)
        local got = limited:get(math.random(100))
        assert(not got or #got[1] == 500)
        d:wait("never", nil, 0.0001)
        for _ in d:each() do assert(d:get "steps") end
      end
    end
    for _ = 1, 15 do
      local list = {}
      for i = 1, 4 do list[i] = process.spawn(busy) end
      local before = d:get "steps" or 0
      while (d:get "steps" or 0) < before + 30 do d:wait("steps", d:get "steps", 0.001) end
      for i = 1, 4 do list[i]:kill() end
      for i = 1, 4 do
        local done, e = list[i]:wait()
        assert.is_false(done)
        assert.equal("killed", e.kind)
      end
      assert.equal(d:get("list").n, #d:get("list"))
    end
    assert.equal(0, d:info().waiting)
    assert.is_true(limited:size() <= 20000)
    d:clear()
    limited:clear()
    assert.same({ 0, 0 }, { d:size(), limited:size() })
  end)
end)

describe("runs with a seed", function()
  it("repeat the order of keys, and time", function()
    local text = [[
      local d = dict.new()
      for i = 1, 50 do d:set("key " .. i, i, i) end
      print(table.concat(d:keys(), " "))
      local t = mare.clock()
      d:set("k", 1, 3600)
      print(d:wait("k", 1), (mare.clock() - t) // 1)
      print(#d, d:purge())
    ]]
    local out, err, code = script(text, "--seed", "7")
    assert.equal(0, code, err)
    assert.equal(out, (script(text, "--seed", "7")))
    assert.matches("\nnil\t3600", out)
  end)
end)
