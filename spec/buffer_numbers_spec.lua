-- Numbers in buffers (mare.buffer): packed and unpacked one by one, and rows of them.
local buffer = require "mare.buffer"

local pack = table.pack

-- contents(b): what it holds, read in another way than by tostring
local function contents(b) return b:sub(1, -1) end

describe("pack and unpack", function()
  local formats = {
    { "<i1>i2=i4!8i8", -1, -2, -3, math.mininteger }, { ">I1<I2I3I16", 255, 65535, 0xffffff, math.maxinteger }, { "fdn", 0.5, -1e300, 2.5 },
    { "zs1s2s", "text", "one", "two", ("long"):rep(100) }, { "c3xc5Xi4!4", "abc", "d" }, { "bBhHiIlLjJT", -1, 1, -2, 2, -3, 3, -4, 4, -5, 5, 6 },
    { " < ! i2 > i16 i12", 1, -1, math.mininteger }, { "", },
  }

  it("agree with string.pack and string.unpack", function()
    for _, f in ipairs(formats) do
      local text = string.pack(table.unpack(f))
      local b = buffer.new():pack(table.unpack(f))
      assert.equal(text, contents(b))
      assert.same(pack(string.unpack(f[1], text)), pack(b:unpack(f[1])))
      b:seal()
      assert.same(pack(string.unpack(f[1], text)), pack(b:unpack(f[1])))
    end
  end)

  it("refuse what those refuse, with the same words", function()
    local wrong = {
      { "i17", 1 }, { "i0", 1 }, { "c", "a" }, { "y", 1 }, { "Xz" }, { "X" }, { "i1", 128 }, { "I2", 65536 }, { "I2", -1 },
      { "c2", "abc" }, { "z", "a\0b" },
      { "s1", ("x"):rep(256) },
      { "!3i3i2", 1, 2 }, { "i4" }, { "i4", "x" }, { "z", {} }, { "i4", 1.5 }, { "!17" },
      { "Xc1" },
    }
    for _, f in ipairs(wrong) do
      local _, expected = pcall(string.pack, f[1], f[2], f[3])
      local b = buffer.new "kept"
      local done, e = pcall(b.pack, b, f[1], f[2], f[3])
      assert.is_false(done)
      assert.equal(expected:match "%((.-)%)$" or expected, e:match "%((.-)%)$" or e)
      assert.equal("kept", contents(b))
    end
  end)

  it("agree whatever the format and the bytes", function()
    local letters = { "b", "B", "h", "H", "i", "I", "l", "j", "J", "T", "f", "d", "n", "s1", "s2", "s", "z", "x", "X", "c0", "c3", "c9", "<", ">",
                      "=", "!",
                      "!2", "!4", "i3", "I5", "i9", "i16", " ", "i17", "y", "!3" }
    local seed = os.time()
    math.randomseed(seed)
    for round = 1, 3000 do
      local f, bytes = {}, {}
      for i = 1, math.random(0, 6) do f[i] = letters[math.random(#letters)] end
      for i = 1, math.random(0, 40) do bytes[i] = string.char(math.random(4) == 1 and math.random(0, 255) or math.random(0, 2)) end
      local format, text = table.concat(f), table.concat(bytes)
      local at = math.random(5) == 1 and math.random(-50, 50) or 1
      local expected = pack(pcall(string.unpack, format, text, at))
      for _, b in ipairs { buffer.new(text), buffer.of("\1" .. text .. "\1"):slice(2, -2) } do
        local got = pack(pcall(b.unpack, b, format, at))
        local where = ("seed %d, round %d: %q, %q, %d"):format(seed, round, format, text, at)
        assert.equal(expected[1], got[1], where)
        if expected[1] then
          assert.equal(expected.n, got.n, where)
          for i = 2, expected.n do
            assert.is_true(expected[i] == got[i] or (expected[i] ~= expected[i] and got[i] ~= got[i]), where)
            assert.equal(math.type(expected[i]), math.type(got[i]), where)
          end
        else
          assert.equal(expected[2]:match "%((.-)%)$" or expected[2], got[2]:match "%((.-)%)$" or got[2], where)
        end
      end
    end
  end)

  it("unpack takes the extremes of positions and lengths", function()
    local b = buffer.of(("\xff"):rep(40))
    for _, at in ipairs { math.mininteger, math.maxinteger, 42, 41 } do
      assert.same(pcall(string.unpack, "i4", tostring(b), at), (pcall(b.unpack, b, "i4", at)))
    end
    assert.error_matches(function() b:unpack "s8" end, "too short")
    assert.error_matches(function() b:unpack "z" end, "unfinished string")
    assert.error_matches(function() b:unpack "c41" end, "too short")
    assert.error_matches(function() b:unpack("!16" .. ("Xi16"):rep(10) .. "c2147483647") end, "too short")
    assert.error_matches(function() b:unpack("i4", 42) end, "out of string")
  end)
end)

describe("numbers", function()
  local samples = {
    b = { -128, 127 }, B = { 0, 255 }, h = { -32768, 32767 }, H = { 0, 65535 }, i = { -1 << 31, (1 << 31) - 1 }, I = { 0, (1 << 32) - 1 },
    j = { math.mininteger, math.maxinteger }, J = { 0, -1 }, f = { 0.5, -2.25 }, d = { 1e300, -0.1 }, n = { math.huge, 0.1 },
    l = { math.mininteger, 7 }, L = { 5, -1 },
  }

  it("of every type are set and got by index", function()
    for type, values in pairs(samples) do
      local b = buffer.new(64)
      b:set(type, 2, values[1], values[2])
      assert.equal(values[1], b:get(type, 2))
      assert.equal(values[2], b:get(type, 3))
      assert.same(pack(string.unpack(type, tostring(b), 1 + string.packsize(type))), pack(b:unpack(type, 1 + string.packsize(type))))
      assert.equal(math.type(values[1]), math.type(b:get(type, 2)))
      local v = b:view(type)
      assert.equal(64 // string.packsize(type), #v)
      assert.equal(values[2], v[3])
      v[1] = values[2]
      assert.equal(values[2], b:get(type, 1))
    end
  end)

  it("out of bounds are nil, or an error", function()
    local b = buffer.new(20)
    local v = b:doubles()
    assert.equal(2, #v)
    for _, i in ipairs { 0, -1, 3, math.maxinteger, math.mininteger } do
      assert.is_nil(b:get("d", i))
      assert.is_nil(v[i])
      assert.error_matches(function() b:set("d", i, 1) end, "outside of the buffer")
      assert.error_matches(function() v[i] = 1 end, "outside of the view, which has 2")
    end
    assert.error_matches(function() b:set("d", 2, 1, 2) end, "outside of the buffer")
    assert.error_matches(function() b:set("d", math.maxinteger, 1, 2) end, "outside of the buffer")
    assert.is_nil(v[1.5])
    assert.error_matches(function() v[1.5] = 1 end, "no integer")
    assert.equal(("\0"):rep(20), contents(b))
  end)

  it("that don't fit are errors", function()
    local b = buffer.new(16)
    assert.error_matches(function() b:set("B", 1, 256) end, "unsigned overflow")
    assert.error_matches(function() b:set("b", 1, 128) end, "integer overflow")
    assert.error_matches(function() b:integers()[1] = 1.5 end, "no integer")
    assert.error_matches(function() b:doubles()[1] = "x" end, "number expected")
    assert.error_matches(function() b:set("q", 1, 1) end, "type of numbers expected.*got \"q\"")
    assert.error_matches(function() b:get("dd", 1) end, "type of numbers expected")
    assert.error_matches(function() b:view "" end, "type of numbers expected")
  end)

  it("go from and to tables", function()
    local v = buffer.new(80):doubles()
    assert.is_true(rawequal(v, v:put(3, { 1, 2.5, 3 })))
    assert.same({ 0, 0, 1, 2.5, 3, 0 }, v:table(1, 6))
    v:put(1, { 7, 8, 9 }, 2):put(10, { 1, 2 }, -1)
    assert.same({ 8, 9, 1 }, v:table(1, 3))
    assert.same({ 0, 2 }, v:table(-2))
    v:fill(4.5, 2, -2)
    assert.same({ 8, 4.5, 4.5, 4.5, 4.5, 4.5, 4.5, 4.5, 4.5, 2 }, v:table())
    assert.same({}, v:table(5, 4))
    assert.error_matches(function() v:put(9, { 1, 2, 3 }) end, "outside of the buffer")
    assert.error_matches(function() v:put(0, { 1 }) end, "outside of the buffer")
    assert.error_matches(function() v:put(1, { 1, "2" }) end, "element 2 is no number")
    assert.error_matches(function() v:put(1, { "x" }) end, "element 1 is no number")
  end)

  it("are walked through as lists are", function()
    local v = buffer.new(24):integers()
    for i = 1, #v do v[i] = i * i end
    local all = {}
    for i, x in ipairs(v) do all[i] = x end
    assert.same({ 1, 4, 9 }, all)
    assert.equal("1 4 9", table.concat(v, " "))
    assert.same({ 1, 4, 9 }, { table.unpack(v) })
    table.sort(v, function(a, b) return a > b end)
    assert.same({ 9, 4, 1 }, v:table())
  end)

  it("of a sealed buffer can't be changed", function()
    local b = buffer.new(16)
    local v = b:doubles()
    v[1] = 7
    b:seal()
    assert.equal(7, v[1])
    assert.error_matches(function() v[1] = 8 end, "buffer is sealed")
    assert.error_matches(function() v:fill(1) end, "buffer is sealed")
    assert.is_true(rawequal(b, v:buffer()))
  end)

  it("in a view follow a buffer that grows", function()
    local b = buffer.new(8)
    local v = b:integers()
    b:pack("jj", 5, 6)
    assert.same({ 0, 5, 6 }, v:table())
    b:clear()
    assert.equal(0, #v)
    assert.is_nil(v[1])
  end)
end)
