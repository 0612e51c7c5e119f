-- The bytes of mare.ludo: each value there is goes there and back, and bytes that anybody may have made give an error, never anything else.
local mare = require "mare"
local core = require "mare.ludo.core"
local reference = require "mare.ludo.reference"
local alike = require "spec.support.alike"

local Class = {}
Class.__index = Class
local far = {}
local function world(memory)
  return { { [far] = "ludo://there:1/far" }, { [Class] = "Class" }, { Class = Class }, function(text) return "to " .. text end, memory or 1 << 26 }
end
local function back(...) return core.values(core.message(core.CALL, 1, world(), ...), world()) end

local function equal(a, b) assert.is_true(alike(a, b)) end

local function refused(f, ...)
  local fine, why = pcall(f, ...)
  assert.is_false(fine)
  return why
end

-- Some value, of some depth; all that were made so far may come again.
local function anything(all, depth)
  local kind = math.random(depth > 5 and 8 or 14)
  if kind == 1 then return math.random(-200, 200) end
  if kind == 2 then return math.random(0) end
  if kind == 3 then return math.random() end
  if kind == 4 then return kind < math.random(8) end
  if kind == 5 then return "key " .. math.random(40) end
  if kind == 6 then return ("x"):rep(math.random(0, 80)) .. math.random(1000) end
  if kind == 7 then return all[math.random(#all + 1)] or 1 / 0 end
  if kind == 8 then return 2 ^ 53 end
  local t = setmetatable({}, kind == 9 and Class or nil)
  all[#all + 1] = t
  for i = 1, math.random(0, 4) do t[i] = anything(all, depth + 1) end
  for _ = 1, math.random(0, 4) do t["field" .. math.random(8)] = anything(all, depth + 1) end
  if kind == 10 then t[math.random(100)] = 1 end
  if kind == 11 then t[math.random() * 10], t[math.random(2) == 1] = "float", "boolean" end
  return t
end

describe("a message", function()
  it("brings each number, string and boolean as it was", function()
    for _, v in ipairs { 0, 1, -1, -16, -17, 111, 112, 127, 128, 255, 1 << 31, -(1 << 31), math.maxinteger, math.mininteger, 0.5, 1 / 0, -1 / 0,
                         2.0 ^ 60, 1e-310, "", "a", "\0", ("x"):rep(31), ("x"):rep(32), ("x"):rep(127), ("x"):rep(128), ("x"):rep(70000),
                         true, false } do
      local got = back(v)
      assert.equal(v, got)
      assert.equal(math.type(v), math.type(got))
    end
    assert.equal("-0.0", tostring((back(-0.0))))
    local nan = back(0 / 0)
    assert.is_true(nan ~= nan)
    assert.same({ n = 4, nil, 1, nil, nil }, table.pack(back(nil, 1, nil, nil)))
    assert.equal(0, select("#", back()))
  end)

  it("brings tables of any form, one table as one", function()
    local t = { 1, 2, nil, 4, x = 1, [{}] = "a table as key", [1.5] = 1, [-1] = 2, [1 << 40] = 3 }
    t.self, t[t] = t, t
    local key = back(t)
    assert.equal(key, key.self)
    assert.equal(key, key[key])
    assert.equal(4, key[4])
    assert.equal(3, key[1 << 40])
    local holes = { [1] = 1, [2] = 2, [4] = 4, [8] = 8, [16] = 16, [512] = 512 }
    equal(holes, back(holes))
    local wide = {}
    for i = 1, 100 do wide["k" .. i] = i end
    equal(wide, back(wide))
    local deep = {}
    local d = deep
    for _ = 1, 990 do
      d.next = {}
      d = d.next
    end
    equal(deep, back(deep))
    equal(setmetatable({ list = { setmetatable({}, Class) } }, Class), back(setmetatable({ list = { setmetatable({}, Class) } }, Class)))
    assert.equal("to ludo://there:1/far", back({ far })[1])
    assert.equal("bytes", tostring(back(mare.buffer.new("bytes"):seal())))
  end)

  it("names keys that many tables have once", function()
    local list = {}
    for i = 1, 100 do list[i] = { a_long_name = i, another_long_name = i } end
    assert.is_true(#core.message(core.CALL, 1, world(), list) < 600)
    equal(list, back(list))
  end)

  it("brings what was made up as it was", function()
    math.randomseed(7)
    for _ = 1, 400 do
      local v = anything({}, 0)
      equal(v, (back(v)))
    end
  end)

  it("does not carry code, nor what has no meaning elsewhere, and says where that was", function()
    assert.matches("value 1.items%[2%].owner: a function", refused(back, { items = { 1, { owner = print } } }))
    assert.matches("value 2: thread cannot", refused(back, 1, coroutine.create(print)))
    assert.matches("has no name", refused(back, setmetatable({}, {})))
    assert.matches("FILE%*|file", (refused(back, io.stdout):gsub("file %(", "FILE*|file")))
    assert.matches("seal it first", refused(back, mare.buffer.new "open"))
    local deep = {}
    local d = deep
    for _ = 1, 1001 do
      d[1] = {}
      d = d[1]
    end
    assert.matches("nest deeper than 1000", refused(back, deep))
    local m = core.message(core.CALL, 1, world(), setmetatable({}, Class))
    assert.matches("class 'Class' came", refused(core.values, m, { {}, {}, {}, print, 1 << 20 }))
  end)

  it("can't make Lua compare each key with all before it: numbers that were chosen to collide are refused", function()
    local function keys(n, key)
      local t = {}
      for i = 1, n do t[key(i)] = true end
      return core.message(core.CALL, 1, world(), t)
    end
    assert.matches("too many of its keys are made to collide", refused(core.values, keys(3000, function(i) return i * 4095 end), world()))
    for _, key in ipairs { function(i) return i * 3600 end, function(i) return i << 20 end, function(i) return 1 << 40 | i * 7 end,
                           function(i) return i / 8 + 0.01 end, function() return math.random(0) end, function() return math.random() * 1e9 end,
                           function(i) return -i * 86400 end } do
      core.values(keys(20000, key), world())
    end
    local many = {}
    for i = 1, 5000 do many[i] = { [-1] = i, [1 << 40] = i, [0.5] = i } end          -- the same few keys in many tables are no crowd
    equal(many, back(many))
  end)
end)

describe("bytes that anybody may have made", function()
  local function read(body, memory) return core.values(("\0"):rep(12) .. body, world(memory)) end
  local function why(body, memory) return refused(read, body, memory) end

  it("are refused where they say what is not so", function()
    assert.equal(0, select("#", read ""))
    assert.matches("no such flag", why "\2\0")
    assert.matches("ends before what it counts", why "\0\1")
    assert.matches("more follows", why "\0\0\0")
    assert.matches("no such kind", why "\0\1\x20")
    assert.matches("too many values", why("\0\xe9\7" .. ("\0"):rep(1001)))
    assert.matches("longer than the message", why "\0\1\5\x7f")
    assert.matches("string that has not come", why "\0\1\x60")
    assert.matches("string that has not come", why "\0\1\6\1")
    assert.matches("says that it does not", why "\0\1\10\0")
    assert.matches("table that has not come", why "\1\1\10\0")
    assert.matches("shape that has not come", why "\0\1\8\0\0")
    assert.matches("too many keys or none", why "\0\1\9\0\0")
    assert.matches("key of a shape is no string", why "\0\1\9\0\1\0\0")
    assert.matches("ends before what it counts", why "\0\1\7\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0")
    assert.matches("number is too", why "\0\1\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
    assert.matches("ends in a number", why "\0\1\4\0")
    assert.matches("key is nil", why "\0\1\7\0\1\0\x90")
    assert.matches("key is nil or not a number", why("\0\1\7\0\1\4" .. string.pack("<d", 0 / 0) .. "\x90"))
    assert.matches("what has a class is no table", why "\0\1\11\x41x\0")
    assert.matches("class 'x' came", why "\0\1\11\x41x\7\0\0")
    assert.matches("buffer is longer", why "\0\1\13\5x")
  end)

  it("take no more memory than is allowed, whatever they claim", function()
    assert.matches("nest too deep", why("\0\1" .. ("\7\1\0"):rep(1001) .. "\0"))
    assert.matches("more memory than is allowed", why("\0\1\7\xa0\x8d\6\0" .. ("\x90"):rep(100000), 1 << 20))
    assert.matches("more memory than is allowed", why("\0\1\7\xff\x7f\0" .. ("\7\0\0"):rep(16383), 1 << 20))
    local before = collectgarbage "count"
    for _ = 1, 50 do pcall(read, "\0\1\7\xa0\x8d\6\0" .. ("\x90"):rep(100000), 1 << 20) end
    collectgarbage()
    assert.is_true(collectgarbage "count" - before < 4096)
  end)

  it("that were a message before a byte of it was changed, or its end was cut, are a message or an error", function()
    math.randomseed(11)
    local n = 0
    for _ = 1, 300 do
      local m = core.message(core.CALL, 1, world(), anything({}, 2), anything({}, 2))
      for _ = 1, 20 do
        local at = math.random(13, #m)
        local fine, e = pcall(core.values, m:sub(1, at - 1) .. string.char(math.random(0, 255)) .. m:sub(at + 1), world(1 << 20))
        if not fine then
          n = n + 1
          assert.is_true((e:find("no LuDO message", 1, true) or e:find("a table of class", 1, true)) ~= nil, e)
        end
        assert.is_false((pcall(core.values, m:sub(1, math.random(13, #m - 1)), world(1 << 20))))
      end
    end
    assert.is_true(n > 100)
  end)
end)

describe("a reference", function()
  it("is read as it was written", function()
    for _, r in ipairs { { "127.0.0.1", 80, "x" }, { "host.example.org", 65535, "a b/c%\0\255" },
                           { "::1", 1, "~._-:" }, { "fe80::1%eth0", 2, "k", true } } do
      local p = assert(reference.parse(reference.make(table.unpack(r))))
      assert.same({ r[1], r[2], r[3], r[4] or false }, { p.host, p.port, p.key, p.tls })
    end
    for _, text in ipairs { "", "ludo:", "ludo://", "ludo://h/k", "ludo://h:0/k", "ludo://h:65536/k", "ludo://h:1", "ludo://h:1/a b",
                            "ludo://h:1/%", "ludo://h:1/%4", "ludo://a b:1/k", "http://h:1/k", "ludo://h:99999999999999999999/k" } do
      local r, err = reference.parse(text)
      assert.is_nil(r)
      assert.equal("string", type(err))
    end
  end)
end)
