-- mare.buffer: bytes that processes share; they read as strings do, and change until they are sealed.
local mare = require "mare"
local buffer = require "mare.buffer"
local temporary = require "spec.support.temporary"
local process, channel = mare.process, mare.channel

local pack = table.pack

-- contents(b): what it holds, read in another way than by tostring
local function contents(b) return b:sub(1, -1) end

-- lent(b): b, of whose store something else has a part too
local function lent(b) return b, b:slice() end

describe("buffer.new", function()
  it("makes an empty one that is open", function()
    local b = buffer.new()
    assert.equal(0, #b)
    assert.equal("", contents(b))
    assert.equal("open", buffer.is(b))
    assert.is_false(b:sealed())
  end)

  it("makes zeros, or takes the bytes of a string or buffer", function()
    assert.equal(("\0"):rep(1000), contents(buffer.new(1000)))
    assert.equal("a\0b", contents(buffer.new "a\0b"))
    assert.equal("a\0b", contents(buffer.new(buffer.of "a\0b")))
    assert.equal("", contents(buffer.new ""))
    assert.equal("", contents(buffer.new(0)))
  end)

  it("refuses what is no size", function()
    assert.error_matches(function() buffer.new(-1) end, "negative")
    assert.error_matches(function() buffer.new(1.5) end, "no integer")
    assert.error_matches(function() buffer.new {} end, "buffer or string expected, got table")
    assert.error_matches(function() buffer.new(math.maxinteger) end, "not enough memory")
    assert.error_matches(function() buffer.new(1 << 47) end, "not enough memory")
  end)

  it("leaves the buffer it was made from as it is", function()
    local sealed = buffer.of "abc"
    local b = buffer.new(sealed:slice(2)):append "d"
    b:put(1, "X")
    assert.equal("Xcd", contents(b))
    assert.equal("abc", contents(sealed))
    local open = buffer.new "abc"
    local copy = buffer.new(open)
    open:put(1, "1")
    copy:put(2, "2")
    assert.equal("1bc", contents(open))
    assert.equal("a2c", contents(copy))
  end)
end)

describe("buffer.of", function()
  it("makes a sealed one of strings, numbers and buffers", function()
    local b = buffer.of("one", 2, buffer.of "three", buffer.new "four", "")
    assert.equal("one2threefour", contents(b))
    assert.equal("sealed", buffer.is(b))
    assert.equal("", contents(buffer.of ""))
  end)

  it("gives back the only sealed buffer it is given", function()
    local b = buffer.of "abc"
    assert.is_true(rawequal(b, buffer.of(b)))
    local open = buffer.new "abc"
    local sealed = buffer.of(open)
    open:append "d"
    assert.equal("abc", contents(sealed))
  end)

  it("refuses everything else", function()
    assert.error_matches(function() buffer.of() end, "buffer or string expected")
    assert.error_matches(function() buffer.of("a", {}) end, "#2 .*buffer or string expected, got table")
    assert.error_matches(function() buffer.of(io.stdout) end, "buffer or string expected")
  end)
end)

describe("a buffer", function()
  it("is known by buffer.is", function()
    assert.is_false(buffer.is "abc")
    assert.is_false(buffer.is(nil))
    assert.is_false(buffer.is(channel.new()))
    assert.is_false(buffer.is(io.stdout))
  end)

  it("reads as a string does, whatever the positions", function()
    local edges = { math.mininteger, -11, -10, -4, -1, 0, 1, 2, 5, 9, 10, 11, 12, math.maxinteger }
    for _, text in ipairs { "", "a", "hello you!" } do
      for _, b in ipairs { buffer.of(text), buffer.new(text), buffer.of("__" .. text .. "__"):slice(3, -3) } do
        assert.equal(#text, #b)
        assert.equal(text, tostring(b))
        for _, i in ipairs(edges) do
          assert.same(pack(text:byte(i)), pack(b:byte(i)))
          assert.same(pack(text:find("o", i, true)), pack(b:find("o", i)))
          assert.same(pack(text:find("", i, true)), pack(b:find("", i)))
          for _, j in ipairs(edges) do
            assert.equal(text:sub(i, j), b:sub(i, j))
            assert.equal(text:sub(i, j), contents(b:slice(i, j)))
            assert.equal(#text:sub(i, j), #b:slice(i, j))
            assert.same(pack(text:byte(i, j)), pack(b:byte(i, j)))
          end
        end
      end
    end
  end)

  it("finds plain text, also that of a buffer", function()
    local b = buffer.of("aab%d.aaab\0x")
    assert.same({ 4, 6 }, { b:find "%d." })
    assert.same({ 8, 10 }, { b:find("aab", 2) })
    assert.same({ 11, 12 }, { b:find "\0x" })
    assert.same({ 4, 6 }, { b:find(buffer.of "%d.") })
    assert.is_nil(b:find "nothing")
    assert.is_nil((b:find("aab", 9)))
  end)

  it("equals one with the same bytes, and nothing else", function()
    assert.is_true(buffer.of "abc" == buffer.of "abc")
    assert.is_true(buffer.of "abc" == buffer.new "abc")
    assert.is_true(buffer.of "" == buffer.new())
    assert.is_false(buffer.of "abc" == buffer.of "abd")
    assert.is_false(buffer.of "abc" == buffer.of "ab")
    assert.is_false(buffer.of "abc" == "abc")
  end)

  it("says which of its methods was meant", function()
    assert.error_matches(function() return buffer.of("a").apend end, "append")
  end)

  it("can't be used after its end", function()
    local b = buffer.new "abc"
    debug.getmetatable(b).__gc(b)
    assert.error_matches(function() return #b end, "finalised")
    assert.error_matches(function() b:append "x" end, "finalised")
  end)
end)

describe("slices", function()
  it("hold the bytes, though the whole is gone", function()
    local b = buffer.of(("x"):rep(1000) .. "end")
    local s = b:slice(-3)
    b = nil                                    -- luacheck: ignore 311
    collectgarbage()
    assert.equal("end", contents(s))
    assert.equal("nd", contents(s:slice(2)))
  end)

  it("of an open buffer keep what it was", function()
    local b = buffer.new "hello"
    local s = b:slice(2, 4)
    assert.is_true(s:sealed())
    b:put(1, "HELLO"):append " world"
    assert.equal("ell", contents(s))
    assert.equal("HELLO world", contents(b))
  end)

  it("of all of a sealed one are that one", function()
    local b = buffer.of "abc"
    assert.is_true(rawequal(b, b:slice()))
    assert.is_true(rawequal(b, b:slice(1, 3)))
  end)
end)

describe("an open buffer", function()
  it("appends strings, numbers and buffers, itself as well", function()
    local b = buffer.new()
    assert.is_true(rawequal(b, b:append("a", 1, buffer.of "b", 2.5)))
    assert.equal("a1b2.5", contents(b))
    b:append(b):append(b):append(buffer.of(b), 1)
    assert.equal(("a1b2.5"):rep(8) .. "1", contents(b))
    for i = 1, 1000 do b:append(i, ",") end
    assert.equal("998,999,1000,", b:sub(-13))
  end)

  it("changes nothing when an argument is wrong", function()
    local b = buffer.new "abc"
    assert.error_matches(function() b:append("x", {}) end, "buffer or string expected, got table")
    assert.error_matches(function() b:pack("<I4I1", 7, 300) end, "unsigned overflow")
    assert.equal("abc", contents(b))
  end)

  it("is changed in place", function()
    local b = buffer.new(6)
    b:put(2, "abc"):fill(0x78, 5)
    assert.equal("\0abcxx", contents(b))
    b:put(-2, "yz"):put(1, buffer.of "0123", 2, 2)
    assert.equal("1abcyz", contents(b))
    b:put(3, b, 1, 3)
    assert.equal("1a1abz", contents(b))
    assert.error_matches(function() b:put(6, "xy") end, "does not fit")
    assert.error_matches(function() b:put(8, "") end, "outside")
    assert.error_matches(function() b:put(0, "x") end, "outside")
    assert.error_matches(function() b:fill(256) end, "0 to 255")
    assert.equal("1a1abz", contents(b:put(7, "")))
    assert.equal("", contents(buffer.new():fill(1)))
  end)

  it("gets longer with zeros, and shorter", function()
    local b = buffer.new "abc"
    assert.equal("abc\0\0", contents(b:resize(5)))
    assert.equal("ab", contents(b:resize(2)))
    assert.equal("ab\0\0\0", contents(b:resize(5)))
    assert.equal(0, #b:clear())
    assert.equal("x", contents(b:reserve(1 << 20):append "x"))
    assert.error_matches(function() b:resize(-1) end, "negative")
    assert.error_matches(function() b:reserve(1 << 47) end, "not enough memory")
    assert.error_matches(function() b:resize(math.maxinteger) end, "not enough memory")
    assert.equal("x", contents(b))
  end)

  it("is sealed for good", function()
    local b = buffer.new "abc"
    assert.is_true(rawequal(b, b:seal()))
    assert.is_true(b:sealed())
    assert.is_true(rawequal(b, b:seal()))
    assert.equal("abc", contents(b))
    for _, change in ipairs { "append", "pack", "put", "fill", "resize", "reserve", "clear", "set" } do
      local arguments = { append = { "x" }, pack = { "b", 1 }, put = { 1, "x" }, fill = { 1 }, resize = { 9 }, reserve = { 9 }, clear = {},
                          set = { "b", 1, 1 } }
      assert.error_matches(function() b[change](b, table.unpack(arguments[change])) end, "buffer is sealed: it can.t be changed any more")
    end
    assert.equal("abc", contents(b))
    assert.equal(0, #buffer.new():seal())
  end)

  it("gives up what it doesn't need when it is sealed", function()
    local b = buffer.new():reserve(1 << 20):append "abc"
    assert.equal("abc", contents(b:seal()))
    local c, slice = lent(buffer.new():reserve(1000):append "abc")
    assert.equal("abc", contents(c:seal()))
    assert.equal("abc", contents(slice))
  end)
end)

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

describe("in a message a buffer", function()
  it("that is sealed is the same one", function()
    local c = channel.new(2)
    local b = buffer.of(("x"):rep(100000))
    c:send(b, { b, { b } })
    local x, t = c:receive()
    assert.is_true(rawequal(b, x) and rawequal(b, t[1]) and rawequal(b, t[2][1]))
  end)

  it("that is sealed is read by processes at once", function()
    local b = buffer.new()
    for i = 1, 10000 do b:pack("<I4", i) end
    b:seal()
    local workers = {}
    for w = 1, 8 do
      workers[w] = process.spawn(function()
        local sum, slice = 0, b:slice(4 * w + 1)
        for i = 1, #slice // 4 do sum = sum + slice:unpack("<I4", 4 * i - 3) end
        return sum, slice
      end)
    end
    b = nil                                    -- luacheck: ignore 311
    for w = 1, 8 do
      local done, sum, slice = workers[w]:wait()
      assert.same({ true, 10000 * 10001 // 2 - w * (w + 1) // 2 }, { done, sum })
      assert.equal(w + 1, slice:unpack "<I4")
    end
  end)

  it("that is open moves", function()
    local c = channel.new(1)
    local b = buffer.new "abc"
    local slice, view = b:slice(), b:view "B"
    c:send { b }
    assert.error_matches(function() return #b end, "buffer was moved to another process")
    assert.error_matches(function() b:append "x" end, "buffer was moved to another process")
    assert.error_matches(function() buffer.of(b) end, "buffer was moved to another process")
    assert.error_matches(function() return view[1] end, "moved to another process")
    assert.error_matches(function() c:try_send(b) end, "moved to another process")
    assert.equal("buffer (moved)", tostring(b))
    assert.is_false(buffer.is(b))
    assert.is_false(b == slice)
    local got = c:receive()[1]:append "d"
    assert.equal("abcd", contents(got))
    assert.equal("abc", contents(slice))
  end)

  it("that is open comes back when the message is refused", function()
    local c = channel.new(1)
    local b = buffer.new "abc"
    assert.is_true(c:send(1))
    assert.same(pack(nil, "full"), pack(c:try_send(b)))
    assert.equal("abcd", contents(b:append "d"))
    c:close()
    assert.same(pack(nil, "closed"), pack(c:send(b)))
    assert.equal("abcde", contents(b:append "e"))
  end)

  it("that is open, and received by nobody, is freed", function()
    local c = channel.new(1)
    c:send(buffer.new(1 << 20))
    c:close()
    c = nil                                    -- luacheck: ignore 311
    collectgarbage()
  end)

  it("goes through processes that change it, and is sealed by the last", function()
    local b = buffer.new "1"
    local function pass(got, n) return got:append(",", n) end
    for n = 2, 10 do
      local done
      done, b = process.spawn(pass, b, n):wait()
      assert.is_true(done)
    end
    assert.equal("1,2,3,4,5,6,7,8,9,10", contents(b:seal()))
    assert.equal("sealed", buffer.is(b))
    local done, same = process.spawn(function() return b end):wait()
    assert.is_true(done and rawequal(b, same))
  end)

  it("is not sent as a view", function()
    local v = buffer.new(8):doubles()
    assert.error_matches(function() channel.new(1):send { list = v } end,
                         "^message%.list: userdata 'view of a buffer' cannot be sent; send the buffer and make the view in the receiver$")
  end)

  it("lives until the last of many processes drops it", function()
    for _ = 1, 20 do
      local workers, c = {}, channel.new()
      for i = 1, 4 do
        workers[i] = process.spawn(function()
          local b = c:receive()
          local first, last = b:byte(1), b:byte(-1)
          b = nil                              -- luacheck: ignore 311
          collectgarbage()
          return first == 65 and last == 65
        end)
      end
      local b = buffer.new(70000):fill(65):seal()
      for _ = 1, 4 do c:send(b) end
      b = nil                                  -- luacheck: ignore 311
      collectgarbage()
      for i = 1, 4 do assert.same({ true, true }, { workers[i]:wait() }) end
    end
  end)
end)

describe("the memory of buffers", function()
  it("is collected, though Lua sees only a few bytes of it", function()
    -- 9 GB in all: without that the system would end us
    for _ = 1, 1500 do buffer.new(1 << 22):put(1, "x") end
    local c = channel.new(1)
    for _ = 1, 800 do
      c:send(buffer.new(1 << 22):seal())
      c:receive()
    end
  end)

  it("counts in the budget of the process that made it", function()
    local function within(f, ...)
      return select(2, process.spawn { main = f, args = { ... }, memory = { 4 << 20, tree = true } }:wait())
    end
    assert.match("not enough memory", tostring(within(function() return #require "mare.buffer".new(5 << 20) end)))
    assert.equal(1 << 20, within(function() return #require "mare.buffer".new(1 << 20) end))
    assert.equal("grown", within(function()
      local b = require "mare.buffer".new()
      local done, e = pcall(function() for _ = 1, 100 do b:append(("x"):rep(1 << 16)) end end)
      assert(not done and tostring(e):find "not enough memory" and #b > 1 << 20)
      b = nil                                  -- luacheck: ignore 311
      for _ = 1, 100 do b = require "mare.buffer".new(1 << 20) end   -- what nobody has is given back
      return #b == 1 << 20 and "grown"
    end))
    -- it belongs to that budget wherever it is, until the last one drops it
    assert.equal("kept", within(function()
      local buffers, mares = require "mare.buffer", require "mare"
      local c = mares.channel.new()
      local keeper = mares.process.spawn(function()
        local b = c:receive()
        c:receive()
        return #b
      end)
      c:send(buffers.new(3 << 20):seal())
      collectgarbage()
      assert(not pcall(buffers.new, 3 << 20))
      c:send "go"
      assert(keeper:wait())
      keeper = nil                             -- luacheck: ignore 311
      collectgarbage()
      return "kept"
    end))
  end)
end)

describe("buffer.map", function()
  local path
  after_each(function()
    if path then os.remove(path) end
    path = nil
  end)

  local function file_with(text)
    path = path or temporary()
    local f = assert(io.open(path, "wb"))
    f:write(text)
    f:close()
    return path
  end

  it("has a file, or a part of it", function()
    local text = ("0123456789"):rep(2000)
    file_with(text)
    local b = buffer.map(path)
    assert.equal("sealed", buffer.is(b))
    assert.equal(text, contents(b))
    local parts = {
      { 0 }, { 1 }, { 4096 }, { 5000, 10 }, { 19999 }, { 20000 }, { 30000, 5 }, { 10, 0 }, { 19990, 100 }, { 0, math.maxinteger },
      { math.maxinteger, 1 },
    }
    for _, part in ipairs(parts) do
      local offset, length = part[1], part[2]
      local want = text:sub(offset + 1, length and length < 1 << 40 and offset + length or -1)
      assert.equal(want, contents(buffer.map(path, offset, length)))
    end
    os.remove(path)
    assert.equal("0123", b:sub(1, 4))
  end)

  it("is read by other processes", function()
    local b = buffer.map(file_with "shared by all")
    assert.same({ true, "shared by all" }, { process.spawn(function() return b:sub() end):wait() })
  end)

  it("can be the beginning of an open buffer", function()
    local b = buffer.map(file_with "hello")
    assert.equal("Hello", contents(buffer.new(b):put(1, "H")))
    assert.equal("hello", contents(b))
  end)

  it("refuses a file whose size isn't known", function()
    for _, name in ipairs { "/proc/self/status", "/dev/null" } do
      local b, message, code = buffer.map(name)
      assert.same({ nil, "ENOTSUP" }, { b, code })
      assert.matches("^" .. name .. ": a regular file is expected, whose size is known", message)
    end
  end)

  it("says what is wrong", function()
    local function fails(code, ...)
      local b, message, got = buffer.map(...)
      assert.is_nil(b)
      assert.equal(code, got)
      assert.is_string(message)
    end
    fails("ENOENT", "/tmp/mare_none/at/all")
    fails("EISDIR", "/tmp")
    fails("ENOTSUP", "/dev/zero")
    assert.equal("", contents(buffer.map(file_with "")))
    assert.error_matches(function() buffer.map("/tmp", -1) end, "negative")
    assert.error_matches(function() buffer.map("/tmp", 0, -1) end, "negative")
    assert.error_matches(function() buffer.map "a\0b" end, "zero bytes")
  end)
end)
