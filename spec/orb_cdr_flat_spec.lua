-- Structs of numbers, characters, labels and strings have a way of their own in both directions. Whatever is in them, it is the same as by the
-- general way, which a member more that takes no bytes leads to: bytes, values, and what is said of those that are wrong.
-- needs: plain or asan
local c = require "spec.support.cdr"
local random = require "spec.support.cdr_random"
local T = c.T

local codecs = { c.LITTLE, c.BIG, c.LATIN, c.LATIN & ~1, c.ONE_ONE, c.LITTLE & ~8 | 128, c.BIG & ~8 | 128 }
local env = c.environment()
local label = c.enum("Label", "one", "two", "three", "four", ("five"):rep(20))
local types = { T.short, T.ushort, T.long, T.ulong, T.longlong, T.ulonglong, T.octet, T.int8, T.boolean, T.char, T.float, T.double, T.string,
                c.bounded("string", 12), label, c.alias("Length", T.long) }
local odd = { 0, 1, -1, 3.0, 3.5, -0.0, 0 / 0, 1 / 0, 127, 128, 255, 256, 65535, 65536, -32769, 1 << 32, -1 << 31, 1e300, 2.0 ^ 63, true,
              false, "", "a", "one", "four", "five", ("five"):rep(20), "ab", "\0", "a\0b", "sieben b\0tes", "é", "\xe9", "日本語", ("long "):rep(30),
              ("x"):rep(40), ("x"):rep(41), ("x"):rep(41) .. "\0", ("é"):rep(30), {}, print }

local function at_random(r, kind) return random.value(r, kind, 3) end

-- Types of the same members, the second with one more, and a value of both.
local function pair(r, n)
  local list, v = {}, {}
  for i = 1, n do
    local kind = types[1 + r(#types)]
    list[2 * i - 1], list[2 * i] = "member" .. i, kind
    local value = kind == T.int8 and r(256) - 128 or kind == label and label.labels[1 + r(5)] or kind.bound == 12 and "twelve"
    v["member" .. i] = value or at_random(r, kind)
  end
  local flat = c.struct("Flat", list)
  list[2 * n + 1], list[2 * n + 2] = "nothing", T.null
  return flat, c.struct("Flat", list), v, list
end

local function outcome(f, ...)
  local r = table.pack(pcall(f, ...))
  if r[1] then return r end
  assert.is_table(r[2], tostring(r[2]))
  return { false, r[2].name, r[2].minor, r[2].text }
end

local function show(r) return (r[1] and c.hex(r[2]) or table.concat(r, " ", 2)) end

describe("structs of small members", function()
  it("are the same bytes, and come back, at any offset and in both byte orders", function()
    for seed = 1, 300 do
      local r = random.generator(seed)
      local flat, general, v = pair(r, 1 + r(12))
      local prefix = {}
      for i = 1, r(8) do prefix[i] = T.octet end
      local one = env:program { T.double, c.struct("Prefix", {}), c.array(T.octet, #prefix), flat, c.seq(flat), T.octet }
      local other = env:program { T.double, c.struct("Prefix", {}), c.array(T.octet, #prefix), general, c.seq(general), T.octet }
      for _, codec in ipairs(codecs) do
        local args = { 1.5, {}, ("\7"):rep(#prefix), v, { v, v, v }, 9 }
        local a, b = outcome(one.encode, one, codec, table.unpack(args)), outcome(other.encode, other, codec, table.unpack(args))
        assert.equal(show(b), show(a), "seed " .. seed)
        if a[1] then
          local x, y = table.pack(one:decode(a[2], 1, codec)), table.pack(other:decode(a[2], 1, codec))
          assert.same(y, x)
          assert.equal(c.hex(a[2]), c.hex(one:encode(codec, table.unpack(x))), "seed " .. seed)
        end
      end
    end
  end)

  it("refuse what the general way refuses, in the same words", function()
    local refused, taken = 0, 0
    for seed = 1, 150 do
      local r = random.generator(seed)
      local flat, general, v, list = pair(r, 1 + r(8))
      local one, other = env:program({ T.octet, c.seq(flat) }, { "o", "list" }), env:program({ T.octet, c.seq(general) }, { "o", "list" })
      for _ = 1, 30 do
        local name = list[2 * r((#list - 2) // 2) + 1]
        local changed = setmetatable({}, nil)
        for k, x in pairs(v) do changed[k] = x end
        changed[name] = odd[1 + r(#odd + 1)]
        local codec = codecs[1 + r(#codecs)]
        local a, b = outcome(one.encode, one, codec, 1, { v, changed, v }), outcome(other.encode, other, codec, 1, { v, changed, v })
        assert.equal(show(b), show(a), "seed " .. seed)
        if a[1] then taken = taken + 1 else refused = refused + 1 end
      end
    end
    assert.is_true(refused > 300 and taken > 300)
  end)

  it("are read alike from bytes that end early or were changed", function()
    for seed = 1, 100 do
      local r = random.generator(seed)
      local flat, general, v = pair(r, 1 + r(9))
      local one, other = env:program { T.octet, c.seq(flat) }, env:program { T.octet, c.seq(general) }
      local codec = codecs[1 + r(#codecs)]
      local fine, bytes = pcall(other.encode, other, codec, 1, { v, v })
      for n = 0, fine and #bytes - 1 or -1 do
        local cut, changed = bytes:sub(1, n), bytes:sub(1, n) .. string.char(({ 0, 1, 127, 128, 255, r(256) })[1 + r(6)]) .. bytes:sub(n + 2)
        for _, s in ipairs { cut, changed } do
          local a, b = outcome(one.decode, one, s, 1, codec), outcome(other.decode, other, s, 1, codec)
          if a[1] and b[1] then                  -- as bytes: what is no number is no number
            a, b = outcome(one.encode, one, codec, a[2], a[3]), outcome(other.encode, other, codec, b[2], b[3])
          end
          assert.equal(show(b), show(a), "seed " .. seed .. ", byte " .. n)
        end
      end
    end
  end)

  it("are found in tables of all shapes, one after the other", function()
    local S = c.struct("S", { "a", T.long, "b", T.string, "c", T.double })
    local more, less, gone = { a = 1, b = "x", c = 2.5 }, { c = 2.5, b = "x", a = 1 }, {}
    for i = 1, 100 do more["m" .. i] = i end
    for i = 1, 20 do gone["g" .. i] = {} end
    for i = 1, 20 do gone["g" .. i] = nil end
    collectgarbage()
    gone.a, gone.b, gone.c = 1, "x", 2.5
    local inherits = setmetatable({ a = 1 }, { __index = { b = "x", c = 2.5 } })
    local computes = setmetatable({}, { __index = function(_, k) return ({ a = 1, b = "x", c = 2.5 })[k] end })
    local one = c.encode(c.seq(S), c.LITTLE, { more })
    local all = c.decode(c.seq(S), c.LITTLE, c.encode(c.seq(S), c.LITTLE, { more, less, gone, inherits, computes, less, more, computes, more }))
    assert.equal(9, #all)
    for _, v in ipairs(all) do assert.equal(c.hex(one), c.hex(c.encode(c.seq(S), c.LITTLE, { v }))) end
    c.unsent(c.seq(S), { less, {}, more }, "value[2].a: long expected, got nil")
    c.unsent(c.seq(S), { less, setmetatable({ a = 1 }, { __index = { c = 1 } }), more }, "value[2].b: string expected, got nil")
  end)

  it("may have many members, and those of no table's size", function()
    for _, n in ipairs { 31, 32, 33, 63, 64, 65, 66, 100 } do
      local flat, general, v = pair(random.generator(n), n)
      local bytes = c.encode(c.seq(general), c.BIG, { v, v })
      assert.equal(c.hex(bytes), c.hex(c.encode(c.seq(flat), c.BIG, { v, v })))
      assert.same(c.decode(c.seq(general), c.BIG, bytes), c.decode(c.seq(flat), c.BIG, bytes))
    end
  end)

  it("give tables like any others", function()
    local S = c.struct("S", { "a", T.long, "b", T.char, "c", label })
    local list = c.decode(c.seq(S), c.LITTLE, c.encode(c.seq(S), c.LITTLE, { { a = 1, b = "x", c = "two" }, { a = 2, b = "x", c = "one" } }))
    local v = list[2]
    v.d, v.e, v.f, v.a, v.b = 4, 5, 6, nil, "y"
    for i = 1, 10 do v[i] = i end
    collectgarbage()
    assert.same({ b = "y", c = "one", d = 4, e = 5, f = 6, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, v)
    assert.same({ a = 1, b = "x", c = "two" }, list[1])
  end)

  it("have the strings that were sent, those that came lately, too", function()
    local S = c.struct("S", { "a", T.char, "b", T.string, "c", c.bounded("string", 45) })
    local program = env:program { c.seq(S), c.seq(T.string), c.seq(T.char) }
    local function made(n, salt)                 -- such that many have the same ends
      local text = {}
      for i = 1, n do text[i] = string.char(97 + ((i + 7) % 16 < 3 and 0 or i == n // 2 and salt % 7 or i == n and salt // 7 or 0)) end
      return table.concat(text)
    end
    for _, mode in ipairs { "generational", "incremental" } do
      local before = collectgarbage(mode)
      for round = 1, 6 do
        local structs, texts, chars = {}, {}, {}
        for n = 0, 45 do
          for salt = 0, 20 do
            structs[#structs + 1] = { a = string.char(32 + salt + round), b = made(n, salt), c = made(45 - n, salt * round) }
            texts[#texts + 1], chars[#chars + 1] = made(n, salt), string.char(n + salt)
          end
        end
        local bytes = program:encode(c.LITTLE, structs, texts, table.concat(chars))
        assert.same({ structs, texts, table.concat(chars) }, { program:decode(bytes, 1, c.LITTLE) })
        if round % 2 == 0 then collectgarbage() else collectgarbage "step" end
      end
      collectgarbage(before)
    end
  end)

  it("run finalisers that marshal meanwhile", function()
    local S = c.struct("S", { "a", T.long, "b", T.string, "c", T.char })
    local program = env:program { c.seq(S) }
    local list, ran = {}, 0
    for i = 1, 300 do list[i] = { a = i, b = "text " .. i, c = string.char(32 + i % 90) } end
    local bytes = program:encode(c.LITTLE, list)
    local function again()
      return setmetatable({}, { __gc = function()
        ran = ran + 1
        assert.equal(#bytes, #program:encode(c.LITTLE, (program:decode(bytes, 1, c.LITTLE))))
      end })
    end
    for _ = 1, 50 do
      for _ = 1, 3 do again() end
      assert.same(list, (program:decode(bytes, 1, c.LITTLE)))
    end
    assert.is_true(ran > 0)
  end)
end)
