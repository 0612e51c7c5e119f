-- Values in bytes: what is written, what is read of what others write, what is refused.
-- needs: plain or asan
local c = require "spec.support.cdr"
local idl = require "mare.orb.idl"
local T, bytes = c.T, c.bytes

local repo = idl.repository()
assert(repo:load [[
  #include <orb.idl>
  module M {
    valuetype Node; typedef Node Again;
    valuetype Node { public long n; public Again next; };
    valuetype A { public octet aa; };
    valuetype B : truncatable A { public octet bb; };
    valuetype C : truncatable B { public Node cc; public octet dd; };
    valuetype D : A { public octet e; };
    valuetype None {};
    abstract valuetype Abs {};
    abstract interface Shown {};
    valuetype Con : Abs supports Shown { public short s; };
    typedef sequence<long> Longs;
    valuetype List Longs;
    struct Pair { Node first; Node second; };
    valuetype Box Pair;
    custom valuetype Odd { public long x; };
    struct Row { octet o; A one; octet p; double q; };
    typedef sequence<A> As;
  };
]])
local function type_of(name) return assert(repo:type(name)) end

local function environment(known)
  return c.environment {
    resolve = function(id) return (known or repo):lookup(id) end,
    custom_out = function(v, t) return v.write(v, t) end,
    custom_in = function(v, next, t) return v.read(v, next, t) end,
    reference_in = function(ior) return { ior = ior } end,
    reference_out = function(v) return v.ior end,
  }
end
local env = environment()

local function class(name)
  local t = {}
  t.__index = t
  env.classes[t], env.classes[type_of(name).id] = type_of(name), t
  return t
end

local function encode(name, v, codec) return env:program({ type_of(name) }, { "v" }):encode(codec or c.LITTLE, v) end
local function decode(name, s, codec, e) return (e or env):program({ type_of(name) }):decode(s, 1, codec or c.LITTLE) end
local function is(name, v, text, codec)
  assert.equal(c.hex(bytes(text)), c.hex(encode(name, v, codec)))
  local back = decode(name, bytes(text), codec)
  assert.equal(c.hex(bytes(text)), c.hex(encode(name, back, codec)))
  return back
end
local function unread(name, text, what, exception, minor)
  local e = c.refused(decode, name, bytes(text))
  assert.same({ exception or "MARSHAL", minor or 0 }, { e.name, e.minor })
  assert.is_truthy(e.text:find(what, 1, true), e.text)
  assert.is_truthy(e.text:find "at byte %d+", e.text)
end
local function unsent(name, v, text)
  local e = c.refused(encode, name, v)
  assert.same({ "BAD_PARAM", text }, { e.name, e.text })
end

local A, B, NODE = "0c000000 49444c3a4d2f413a312e3000", "0c000000 49444c3a4d2f423a312e3000",
                   "0f000000 49444c3a4d2f4e6f64653a312e3000 00"
local N = "02ffff7f" .. NODE                               -- how a Node begins
local LIST = "02000000" .. B .. A                          -- { B, A }

describe("a value", function()
  it("of the declared type is its members behind a tag, null a zero", function()
    local v = is("M::Node", { n = 7 }, N .. "07000000 00000000")
    assert.same({ n = 7 }, v)
    is("M::Node", { n = 7 }, "7fffff02 0000000f 49444c3a4d2f4e6f64653a312e3000 00 00000007 00000000", c.BIG)
    is("M::Node", { n = 7 }, N .. "07000000 00000000", c.ONE_ZERO)
    assert.is_nil(is("M::Node", nil, "00000000"))
    assert.same({}, is("M::None", {}, "02ffff7f 0f000000 49444c3a4d2f4e6f6e653a312e3000"))
  end)

  it("that was written already is an indirection to where that was: sharing and circles stay", function()
    local a = { n = 1 }
    a.next = { n = 2, next = a }
    local back = is("M::Node", a, N .. "01000000 02ffff7f ffffffff e0ffffff 02000000 ffffffff d0ffffff")
    assert.equal(back, back.next.next)
    local pair = is("M::Pair", { first = a, second = a }, N .. "01000000 02ffff7f ffffffff e0ffffff 02000000 ffffffff d0ffffff ffffffff c8ffffff")
    assert.equal(pair.first, pair.second)
    local p = env:program { type_of "M::Node", T.long, type_of "M::Node" }       -- all values of a message
    local x, _, y = p:decode(p:encode(c.LITTLE, a, 5, a), 1, c.LITTLE)
    assert.equal(x, y)
  end)

  it("has its class, or says its type where that is not the declared one", function()
    local D = class "M::D"
    local v = is("M::A", setmetatable({ aa = 1, e = 2 }, D), "02ffff7f 0c000000 49444c3a4d2f443a312e3000 01 02")
    assert.equal(D, getmetatable(v))
    v = is("M::A", { _repid = type_of "M::B".id, aa = 1, bb = 2 }, "0effff7f" .. LIST .. "02000000 01 02 0000 ffffffff")
    assert.same({ _repid = "IDL:M/B:1.0", aa = 1, bb = 2 }, v)
    is("M::A", setmetatable({ aa = 1 }, { __index = { bb = 5 } }), "02ffff7f" .. A .. "01")   -- any other table is what is declared
    is("M::B", setmetatable({ aa = 1, bb = 2 }, D), "02ffff7f" .. B .. "01 02")              -- a class of something else, too
    v = is("CORBA::ValueBase", { _repid = type_of "M::A".id, aa = 3 }, "02ffff7f" .. A .. "03")
    assert.same({ _repid = "IDL:M/A:1.0", aa = 3 }, v)
    unsent("M::A", { _repid = "IDL:M/Node:1.0", n = 1 }, "v: A expected, got a value with the id 'IDL:M/Node:1.0'")
    unsent("M::A", { _repid = "IDL:What:1.0" }, "v._repid: no valuetype with the id 'IDL:What:1.0' was loaded")
    unsent("M::Abs", {}, "v: Abs is abstract: a table whose class broker:factory knows, or with _repid, expected")
    unsent("M::A", 5, "v: A expected, got 5")
    unsent("M::Node", { n = 1, next = { n = "x" } }, "v.next.n: long expected, got 'x'")
    env.classes[D], env.classes[type_of "M::D".id] = nil, nil
  end)

  it("writes each repository id, or list of them, once", function()
    local one = "02ffff7f 0c000000 49444c3a4d2f443a312e3000 01 02 0000"
    is("M::As", { { _repid = "IDL:M/D:1.0", aa = 1, e = 2 }, { _repid = "IDL:M/D:1.0", aa = 3, e = 4 } },
       "02000000" .. one .. "02ffff7f ffffffff e4ffffff 03 04")
    is("M::As", { { _repid = "IDL:M/B:1.0", aa = 1, bb = 2 }, { _repid = "IDL:M/B:1.0", aa = 3, bb = 4 } },
       "02000000 0effff7f" .. LIST .. "02000000 01 02 0000 ffffffff 0effff7f ffffffff c8ffffff 02000000 03 04 0000 ffffffff")
  end)

  it("that can be truncated is chunked, and so are those inside", function()
    local v = { _repid = "IDL:M/C:1.0", aa = 1, bb = 2, cc = { n = 5, next = { n = 6 } }, dd = 3 }
    local text = "0effff7f 03000000 0c000000 49444c3a4d2f433a312e3000" .. B .. A ..
      "02000000 01 02 0000 0affff7f" .. NODE .. "04000000 05000000 0affff7f ffffffff dcffffff 08000000 06000000 00000000 feffffff" ..
      "01000000 03 000000 ffffffff"
    local back = is("M::A", v, text)
    assert.same({ 6, 3 }, { back.cc.next.n, back.dd })
    back = is("M::Row", { o = 1, one = v, p = 2, q = 0.5 },
              "01 000000" .. text .. "02 000000" .. (#bytes(text) % 8 == 0 and "" or "00000000") .. "00000000 0000e03f")
    assert.same({ 2, 0.5, 3 }, { back.p, back.q, back.one.dd })
  end)

  it("of a type that is not known here is cut down to one that is, at any depth, and what follows is read", function()
    local small = idl.repository()
    assert(small:load "module M { valuetype Node; valuetype Node { public long n; public Node next; }; valuetype A { public octet aa; }; };")
    local few = environment(small)
    local v = { _repid = "IDL:M/C:1.0", aa = 1, bb = 2, cc = { n = 5, next = { n = 6 } }, dd = 3 }
    local types = { "M::A", "M::A", "M::Node", "M::A" }
    local all, some = {}, {}
    for i, name in ipairs(types) do all[i], some[i] = type_of(name), assert(small:type(name)) end
    for _, codec in ipairs { c.LITTLE, c.BIG, c.ONE_ONE } do
      local s = env:program(all):encode(codec, v, { _repid = "IDL:M/B:1.0", aa = 7, bb = 8 }, { n = 9 }, v)
      local a, b, n, again = few:program(some):decode(s, 1, codec)
      assert.same({ { aa = 1 }, { aa = 7 }, { n = 9 } }, { a, b, n })
      assert.equal(a, again)
    end
  end)

  it("of a type that nobody knows, or without one, is refused", function()
    unread("M::A", "02ffff7f 0c000000 49444c3a4d2f5a3a312e3000 01", "a value of type 'IDL:M/Z:1.0', which is not known", nil, 1)
    unread("M::A", "02ffff7f 04000000 0a0b0c00 01", "type '???'", nil, 1)
    unread("M::A", "06ffff7f 01000000 0c000000 49444c3a4d2f5a3a312e3000 01", "which is not known", nil, 1)
    unread("M::A", "06ffff7f 02000000 0c000000 49444c3a4d2f5a3a312e3000" .. A .. "01", "unknown type without chunks")
    unread("M::A", "02ffff7f" .. NODE .. "01000000 00000000", "another type than is declared")
    unread("M::Abs", "00ffff7f 01", "does not say which type")
    unread("CORBA::ValueBase", "00ffff7f 01", "does not say which type")
    unread("M::A", "04ffff7f 01", "tag means nothing")
    unread("M::A", "01000000 01", "a value's tag expected")
    unread("M::A", "feffffff 01", "a value's tag expected")
  end)

  it("may come with the place of its code, its ids elsewhere, and more chunks than are needed", function()
    assert.same({ aa = 1 }, decode("M::A", bytes("01ffff7f 05000000 66747000 00 000000 01"):gsub("%z%z%z\1$", "\1")))
    local as = decode("M::As", bytes("03000000 03ffff7f 04000000 61626300" .. A .. "01 000000" ..
                                     "03ffff7f ffffffff dcffffff ffffffff dcffffff 02 000000" ..
                                     "02ffff7f ffffffff ccffffff 03"))
    assert.same({ { aa = 1 }, { aa = 2 }, { aa = 3 }, n = 3 }, as)
    local v = decode("M::Node", bytes "08ffff7f 04000000 05000000 04000000 00000000 ffffffff")
    assert.same({ n = 5 }, v)
    v = decode("M::Node", bytes "08ffff7f 04000000 05000000 00000000 ffffffff")     -- null outside of chunks
    assert.same({ n = 5 }, v)
    v = decode("M::Node", bytes "08ffff7f 04000000 05000000 08ffff7f 04000000 06000000 ffffffff e4ffffff feffffff ffffffff")
    assert.equal(v, v.next.next)
    v = decode("M::Node", bytes "08ffff7f 04000000 05000000 08ffff7f 08000000 06000000 00000000 ffffffff")   -- one tag ends both
    assert.equal(6, v.next.n)
  end)
end)

describe("a box", function()
  it("is what it holds, nil is null", function()
    assert.equal("abc", is("CORBA::StringValue", "abc",
                           "02ffff7f 22000000 49444c3a6f6d672e6f72672f434f5242412f537472696e6756616c75653a312e3000 0000 04000000 61626300"))
    assert.is_nil(is("CORBA::StringValue", nil, "00000000"))
    assert.same({ 1, 2 }, is("M::List", { 1, 2 }, "02ffff7f 0f000000 49444c3a4d2f4c6973743a312e3000 00 02000000 01000000 02000000"))
    unsent("CORBA::StringValue", 5, "v: string expected, got 5")
  end)

  it("with a struct may be in a circle with what it holds", function()
    local box = { first = { n = 1 }, second = nil }
    box.second = box.first
    local back = is("M::Box", box, "02ffff7f 0e000000 49444c3a4d2f426f783a312e3000 0000" .. N .. "01000000 00000000 ffffffff dcffffff")
    assert.equal(back.first, back.second)
  end)

  it("says what it is where no box is declared", function()
    local v = decode("CORBA::ValueBase", encode("CORBA::ValueBase", { _repid = type_of "CORBA::StringValue".id, _value = "abc" }))
    assert.same({ _repid = "IDL:omg.org/CORBA/StringValue:1.0", _value = "abc" }, v)
    v = decode("CORBA::ValueBase", encode("CORBA::ValueBase", { _repid = type_of "M::Box".id, first = { n = 1 } }))
    assert.same({ _repid = "IDL:M/Box:1.0", first = { n = 1 } }, v)
  end)
end)

describe("an abstract interface", function()
  it("is a value that supports it, or a reference", function()
    local v = is("M::Shown", { _repid = "IDL:M/Con:1.0", s = 5 }, "00 000000 02ffff7f 0e000000 49444c3a4d2f436f6e3a312e3000 0500")
    assert.equal(5, v.s)
    assert.is_nil(is("M::Shown", nil, "00 000000 00000000"))
    local ior = "\1\0\0\0\2\0\0\0X\0\0\0\0\0\0\0"
    v = decode("M::Shown", encode("M::Shown", { ior = ior }))
    assert.equal(ior, v.ior)
    unread("M::Shown", "00 000000 02ffff7f" .. A .. "01", "another type than is declared")
  end)
end)

describe("a custom value", function()
  local Odd = class "M::Odd"
  local function numbers(list)
    local out = { n = #list }
    for i, v in ipairs(list) do out[2 * i - 1], out[2 * i] = T.long, v end
    return out
  end
  function Odd:write() return numbers(self.list) end
  function Odd:read(next)
    self.list = {}
    for i = 1, self.most or 2 do self.list[i] = next(T.long) end
  end

  it("is what its class writes and reads, chunked", function()
    local v = is("M::Odd", setmetatable({ list = { 1, 2 } }, Odd),
                 "0affff7f 0e000000 49444c3a4d2f4f64643a312e3000 0000 08000000 01000000 02000000 ffffffff")
    assert.same({ 1, 2 }, v.list)
    assert.equal(Odd, getmetatable(v))
  end)

  it("may read less than is there, and no more", function()
    local p = env:program { type_of "M::Odd", T.octet }
    local v, after = p:decode(bytes "08ffff7f 10000000 01000000 02000000 03000000 04000000 08ffff7f 04000000 01000000 ffffffff 07", 1, c.LITTLE)
    assert.same({ { 1, 2 }, 7 }, { v.list, after })
    unread("M::Odd", "08ffff7f 04000000 01000000 ffffffff 02000000", "ends before its state does")
    unread("M::Odd", "08ffff7f 04000000 01000000 04000000", "a chunk longer than the bytes that are left")
  end)

  it("tells what its class did wrong", function()
    unsent("M::Odd", setmetatable({ list = { "x" } }, Odd), "v[1]: long expected, got 'x'")
    local write, read, kept = Odd.write, Odd.read, nil
    function Odd.write() return "it would not" end
    unsent("M::Odd", setmetatable({}, Odd), "v: it would not")
    function Odd.write() return 5 end
    unsent("M::Odd", setmetatable({}, Odd), "v: what a custom value wrote is no list")
    function Odd.write() return { n = 1, 7, 7 } end
    unsent("M::Odd", setmetatable({}, Odd), "v[1]: type expected, got 7")
    function Odd.write() error("oh", 0) end
    assert.equal("oh", select(2, pcall(encode, "M::Odd", setmetatable({}, Odd))))
    function Odd.read() return "it can't" end
    unread("M::Odd", "08ffff7f 04000000 01000000 ffffffff", "it can't")
    function Odd.read(_, next) kept = next end
    decode("M::Odd", bytes "08ffff7f 04000000 01000000 ffffffff")
    assert.has_error(function() kept(T.long) end, "a custom value reads only inside its method 'read'")
    function Odd.read(_, next)
      kept = next
      pcall(next, T.string)                                -- a length that lies
      return coroutine.wrap(function() assert(next(T.long) == 0x7fffffff) end)()
    end
    decode("M::Odd", bytes "08ffff7f 04000000 ffffff7f ffffffff")
    function Odd.read(_, next) kept = next; error "no" end
    assert.is_false((pcall(decode, "M::Odd", bytes "08ffff7f 04000000 07000000 ffffffff")))
    collectgarbage()
    assert.equal(7, kept(T.long))                          -- after an error: what is still there
    Odd.write, Odd.read = write, read
    env.classes[type_of "M::Odd".id] = nil
    unread("M::Odd", "08ffff7f 04000000 01000000 ffffffff", "whose class is not known", nil, 1)
    env.classes[type_of "M::Odd".id] = Odd
  end)

  it("inside custom values is bounded", function()
    local read = Odd.read
    function Odd:read(next) self.inner = next(type_of "M::Odd") end
    local function nest(n) return ("\8\255\255\127"):rep(n) .. "\4\0\0\0\0\0\0\0\255\255\255\255" end
    assert.is_table(decode("M::Odd", nest(50)))
    local e = c.refused(decode, "M::Odd", nest(51))
    assert.is_truthy(e.text:find "nested too deeply", e.text)
    Odd.read = read
  end)
end)

describe("bytes that lie about values", function()
  it("have indirections to where nothing begins, or something else", function()
    unread("M::Node", "00ffff7f 01000000 ffffffff 00000000", "outside of what was read")
    unread("M::Node", "00ffff7f 01000000 ffffffff fcffffff", "outside of what was read")
    unread("M::Node", "00ffff7f 01000000 ffffffff 10000000", "outside of what was read")
    unread("M::Node", "00ffff7f 01000000 ffffffff 00ffffff", "outside of what was read")
    unread("M::Node", "00ffff7f 01000000 ffffffff f8ffffff", "where no value begins")
    unread("M::Node", "00ffff7f 01000000 ffffffff f6ffffff", "where no value begins")
    unread("M::A", "02ffff7f ffffffff f8ffffff 01", "where no repository id stands")
    unread("M::A", "02ffff7f ffffffff 08000000 01", "outside of what was read")
    unread("M::A", "06ffff7f ffffffff f8ffffff 01", "where no list of repository ids stands")
    unread("M::A", "06ffff7f ffffff7f 01", "of a wrong length")
    unread("M::A", "06ffff7f 00000000 01", "of a wrong length")
    local p = env:program { type_of "M::Node", type_of "M::A" }
    local e = c.refused(p.decode, p, bytes "00ffff7f 01000000 00000000 ffffffff f0ffffff", 1, c.LITTLE)
    assert.is_truthy(e.text:find("a value of another type", 1, true), e.text)
    p = env:program { { kind = "valuebox", id = "IDL:Own:1.0", name = "Own", type = c.seq(type_of "CORBA::ValueBase") } }
    e = c.refused(p.decode, p, bytes "00ffff7f 01000000 ffffffff f4ffffff", 1, c.LITTLE)
    assert.is_truthy(e.text:find("not closed yet", 1, true), e.text)
  end)

  it("have chunks that lie", function()
    unread("M::Node", "08ffff7f 04000000 05000000 ffffffff", "end")
    unread("M::Node", "08ffff7f 02000000 05000000 00000000 ffffffff", "a chunk that ends inside of a value")
    unread("M::Node", "08ffff7f 0c000000 05000000 00000000 07000000 ffffffff", "more in it than its type has")
    unread("M::Node", "08ffff7f 08000000 05000000 00000000 04000000 07000000 ffffffff", "more in it than its type has")
    unread("M::Node", "08ffff7f 08000000 05000000 00000000 feffffff", "the end of a value that has not begun")
    unread("M::Node", "08ffff7f 08000000 05000000 00000000 00000080", "the end of a value that has not begun")
    unread("M::Node", "08ffff7f ffff0000 05000000 00000000 ffffffff", "a chunk longer than the bytes that are left")
    unread("M::Node", "08ffff7f 00000000 05000000 00000000 ffffffff", "ends before its state does")
    unread("M::Node", "08ffff7f feffffff 05000000 00000000 ffffffff", "ends before its state does")
    unread("M::Node", "08ffff7f 08000000 05000000 08ffff7f 08000000 06000000 00000000 ffffffff", "begins inside of a chunk")
    unread("M::Node", "08ffff7f 04000000 05000000 00ffff7f 06000000 00000000 ffffffff", "without chunks in one that has them")
    -- the inner value's end is that of the outer, which has not had all its members
    unread("M::A", "0effff7f 03000000 0c000000 49444c3a4d2f433a312e3000" .. B .. A ..
           "02000000 01 02 0000 08ffff7f 08000000 06000000 00000000 ffffffff 01000000 03 000000 ffffffff", "ends before its state does")
  end)

  it("end early, wherever", function()
    local v = { _repid = "IDL:M/C:1.0", aa = 1, bb = 2, cc = { n = 5, next = { n = 6 } }, dd = 3 }
    for _, codec in ipairs { c.LITTLE, c.BIG } do
      local s = encode("CORBA::ValueBase", v, codec)
      for n = 0, #s - 1 do
        local e = c.refused(decode, "CORBA::ValueBase", s:sub(1, n), codec)
        assert.equal("MARSHAL", e.name)
      end
    end
  end)

  it("or are changed at random, are values or errors with a place", function()
    local v = { _repid = "IDL:M/C:1.0", aa = 1, bb = 2, cc = { n = 5, next = { n = 6 } }, dd = 3 }
    v.cc.next.next = v.cc
    local p = env:program { type_of "CORBA::ValueBase", type_of "M::Node", T.any }
    local s = p:encode(c.LITTLE, v, v.cc, { _anytype = type_of "M::Box", _anyval = { first = v.cc } })
    math.randomseed(1)
    for _ = 1, 4000 do
      local at, n = math.random(#s), math.random(4)
      local bad = s:sub(1, at - 1) .. s:sub(at, at + n - 1):gsub(".", function() return string.char(math.random(0, 255)) end) .. s:sub(at + n)
      local good, e = pcall(p.decode, p, bad, 1, c.LITTLE)
      assert.is_truthy(good or (type(e) == "table" and e.text:find "at byte %d+" or e.name:find "TYPECODE"), tostring(e))
    end
  end)

  it("make no more than they are worth: ids that are looked for, tables, time", function()
    local many = {}
    for i = 1, 3000 do many[i] = "\6\0\0\0IDL:" .. string.char(65 + i % 26) .. "\0\0\0" end
    local list = "\14\255\255\127" .. string.pack("<I4", 3000) .. table.concat(many)
    local e = c.refused(decode, "M::A", list)
    assert.equal("MARSHAL", e.name)
    local long, at = ("x"):rep((1 << 20) - 1) .. "\0", 8
    local parts = { "\6\255\255\127", string.pack("<I4", 20000), string.pack("<s4", long) }
    for i = 2, 20000 do parts[i + 2] = string.pack("<I4i4", 0xffffffff, at - (12 + #long + 8 * (i - 2) + 4)) end
    e = c.refused(decode, "M::A", table.concat(parts))
    assert.is_truthy(e.text:find("which is not known", 1, true), e.text)
    assert.equal("MARSHAL", e.name)
  end)
end)

describe("values", function()
  it("nest 20000 levels deep, whatever is between them, and no deeper", function()
    local function chain(n)
      local v
      for i = 1, n do v = { n = i, next = v } end
      return v
    end
    local s = encode("M::Node", chain(20000))
    local v, n = decode("M::Node", s), 0
    while v do v, n = v.next, n + 1 end
    assert.equal(20000, n)
    assert.equal("BAD_PARAM", c.refused(encode, "M::Node", chain(20001)).name)
    local e = c.refused(decode, "M::Node", ("\0\255\255\127\0\0\0\0"):rep(20001) .. "\0\0\0\0")
    assert.is_truthy(e.text:find("nested more than 20000 levels", 1, true), e.text)
    local any
    for _ = 1, 3000 do any = { _anytype = type_of "M::List", _anyval = { 1 } } end
    assert.is_table(any)
  end)

  it("are in anys, by their class or _repid too, and their TypeCodes go both ways", function()
    local Class = class "M::B"
    local p = env:program { T.any }
    for _, v in ipairs { { _anytype = type_of "M::A", _anyval = { aa = 1 } },
                         setmetatable({ aa = 1, bb = 2 }, Class),
                         { _repid = "IDL:M/Con:1.0", s = 1 },
                         { _anytype = type_of "M::List", _anyval = { 1 } }, { _anytype = type_of "M::Node" } } do
      local s = p:encode(c.LITTLE, v)
      local back = p:decode(s, 1, c.LITTLE)
      assert.equal(c.hex(s), c.hex(p:encode(c.LITTLE, back)))
      if getmetatable(v) then assert.equal(Class, getmetatable(back._anyval)) end
    end
    env.classes[Class], env.classes[type_of "M::B".id] = nil, nil
    local nobody = environment(idl.repository())
    for _, name in ipairs { "M::Node", "M::C", "M::List", "M::Odd", "M::Abs", "M::Shown", "M::Con", "CORBA::ValueBase", "M::None" } do
      for _, e in ipairs { env, nobody } do
        local code = e:program { T.TypeCode }
        local s = env:program({ T.TypeCode }):encode(c.BIG, type_of(name))
        local t = code:decode(s, 1, c.BIG)
        assert.equal(c.hex(s), c.hex(code:encode(c.BIG, t)))
        assert.equal(e == env or name == "CORBA::ValueBase", t == type_of(name))
      end
    end
    local s = p:encode(c.LITTLE, { _anytype = type_of "M::C", _anyval = { aa = 1, bb = 2, cc = { n = 3 }, dd = 4 } })
    local any = nobody:program({ T.any }):decode(s, 1, c.LITTLE)                -- all that is known is in the TypeCode
    assert.same({ 1, 2, 3, 4 }, { any._anyval.aa, any._anyval.bb, any._anyval.cc.n, any._anyval.dd })
    assert.equal(c.hex(s), c.hex(nobody:program({ T.any }):encode(c.LITTLE, any)))
  end)

  it("of types that inherit without end are refused", function()
    local base
    for i = 1, 66 do
      base = { kind = "value", id = ("IDL:V%d:1.0"):format(i), name = "V", state = { { name = "m" .. i, type = T.octet } }, bases = { base } }
      if i == 65 then assert.is_string(env:program({ base }):encode(c.LITTLE, nil)) end
    end
    assert.has_error(function() env:program { base } end, "bad type: valuetype 'V' inherits from too many valuetypes")
    local large = { kind = "value", id = "IDL:L:1.0", name = "L", state = {}, bases = {} }
    for i = 1, 40000 do large.state[i] = { name = "m" .. i, type = T.octet } end
    local pair = { kind = "value", id = "IDL:P:1.0", name = "P", bases = { large }, state = {} }
    pair.state[1] = { name = "other", type = { kind = "value", id = "IDL:Q:1.0", name = "Q", bases = { large }, state = {} } }
    assert.has_error(function() env:program { pair } end, "bad type: valuetype 'Q' has, with others, inherited too many members")
  end)
end)
