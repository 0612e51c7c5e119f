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
