-- Unions, TypeCodes and anys: bytes by hand (CORBA 3.3 part 2, 9.3.2.2, 9.3.5), what peers send, and what must be refused.
local c = require "spec.support.cdr"
local T, both, unsent, unread = c.T, c.both, c.unsent, c.unread

describe("unions", function()
  local E = c.enum("E", "red", "green", "blue")
  local B = c.union("B", T.boolean, { true, "yes", T.long }, { false, "no", T.string })
  local D = c.union("D", T.short, { -1, "neg", T.octet }, { 0, "zero", T.octet }, { 1, "zero", T.octet }, { nil, "other", T.octet, default = true })

  it("are a discriminator and what it selects", function()
    both(B, { _switch = true, _field = "yes", _value = 5 }, "01000000 05000000", "01000000 00000005")
    both(B, { _switch = false, _field = "no", _value = "x" }, "00000000 02000000 7800", "00000000 00000002 7800")
    both(D, { _switch = -1, _field = "neg", _value = 7 }, "ffff 07", "ffff 07")
    both(D, { _switch = 300, _field = "other", _value = 7 }, "2c01 07", "012c 07")
  end)

  it("take a member by its name, with its first label", function()
    both(B, { yes = 5 }, "01000000 05000000", "01000000 00000005", { _switch = true, _field = "yes", _value = 5 })
    both(B, { _field = "no", _value = "x" }, "00000000 02000000 7800", "00000000 00000002 7800", { _switch = false, _field = "no", _value = "x" })
    both(D, { zero = 1 }, "0000 01", "0000 01", { _switch = 0, _field = "zero", _value = 1 })
    both(D, { _field = "zero", zero = 2 }, "0000 02", "0000 02", { _switch = 0, _field = "zero", _value = 2 })
  end)

  it("give a default member the smallest label that is free", function()
    both(D, { other = 9 }, "0200 09", "0002 09", { _switch = 2, _field = "other", _value = 9 })
    local ByE = c.union("ByE", E, { "red", "r", T.octet }, { nil, "d", T.octet, default = true })
    both(ByE, { d = 1 }, "01000000 01", "00000001 01", { _switch = "green", _field = "d", _value = 1 })
    local Full = c.union("Full", T.boolean, { true, "t", T.octet }, { false, "f", T.octet }, { nil, "d", T.octet, default = true })
    unsent(Full, { d = 1 }, "value: _switch expected: no value is left for the default member 'd'")
  end)

  it("send a received discriminator back unchanged", function()
    for _, text in ipairs { "2c01 07", "ffff 07", "0100 01" } do
      local bytes = c.bytes(text)
      assert.equal(bytes, c.encode(D, c.LITTLE, c.decode(D, c.LITTLE, bytes)))
    end
  end)

  it("may select nothing", function()
    local Some = c.union("Some", T.long, { 1, "one", T.long })
    both(Some, { _switch = 5 }, "05000000", "00000005")
  end)

  it("have discriminators of every kind", function()
    both(c.union("C", T.char, { "a", "x", T.octet }, { "\0", "y", T.octet }), { _switch = "\0", _field = "y", _value = 1 }, "00 01", "00 01")
    both(c.union("W", T.wchar, { "€", "x", T.octet }), { _switch = "€", _field = "x", _value = 1 }, "02 20ac 01", "02 20ac 01")
    both(c.union("W", T.wchar, { "€", "x", T.octet }), { x = 1 }, "02 20ac 01", "02 20ac 01", { _switch = "€", _field = "x", _value = 1 })
    both(c.union("L", T.longlong, { math.mininteger, "x", T.octet }), { x = 1 }, "0000000000000080 01", "8000000000000000 01",
         { _switch = math.mininteger, _field = "x", _value = 1 })
    both(c.union("Q", T.ulonglong, { -1, "x", T.octet }), { x = 1 }, "ffffffffffffffff 01", "ffffffffffffffff 01",
         { _switch = -1, _field = "x", _value = 1 })
    both(c.union("U", T.ulong, { 4000000000, "x", T.octet }), { x = 1 }, "00286bee 01", "ee6b2800 01",
         { _switch = 4000000000, _field = "x", _value = 1 })
    both(c.union("A", c.alias("EA", E), { "blue", "x", T.octet }), { x = 1 }, "02000000 01", "00000002 01",
         { _switch = "blue", _field = "x", _value = 1 })
  end)

  it("refuse what contradicts itself", function()
    unsent(B, {}, "value: _switch, _field or a member of union B expected")
    unsent(B, 5, "value: B expected, got 5")
    unsent(B, { _switch = 1, _value = 1 }, "value._switch: boolean expected, got 1")
    unsent(B, { _switch = true, _value = "x" }, "value.yes: long expected, got 'x'")
    unsent(B, { _field = "maybe" }, "value._field: a member's name expected, got 'maybe'")
    unsent(B, { _switch = true, _field = "no", _value = "x" }, "value: _switch selects 'yes', but _field is 'no'")
    local ok, e = pcall(c.env.program, c.env, { c.union("Twice", T.long, { 1, "a", T.octet }, { 1, "b", T.octet }) })
    assert.is_true(not ok and e:find("has the same label twice", 1, true) ~= nil, e)
    ok, e = pcall(c.env.program, c.env, { c.union("F", T.float, { 1, "a", T.octet }) })
    assert.is_true(not ok and e:find("a union's discriminator can't be a float", 1, true) ~= nil, e)
    ok, e = pcall(c.env.program, c.env, { c.union("F", T.long, { "x", "a", T.octet }) })
    assert.is_true(not ok and e:find("the label 'x' is no long", 1, true) ~= nil, e)
  end)

  it("with thousands of labels are still quick", function()
    local labels = {}
    for i = 1, 5000 do labels[i] = { 3 * i - 7000, "m" .. i, T.octet } end
    local big = c.union("Big", T.long, table.unpack(labels))
    for i = 1, 5000, 499 do
      local bytes = c.encode(big, c.BIG, { _switch = 3 * i - 7000, _value = 1 })
      assert.same({ _switch = 3 * i - 7000, _field = "m" .. i, _value = 1 }, c.decode(big, c.BIG, bytes))
    end
  end)
end)

describe("TypeCodes", function()
  local S = c.struct("S", { "a", T.long })
  local S_little = "0f000000 2c000000 01 000000 0a000000 49444c3a533a312e3000 0000 02000000 5300 0000 01000000 02000000 6100 0000 03000000"

  it("of simple kinds are a number", function()
    for kind, n in pairs { null = 0, void = 1, short = 2, long = 3, ushort = 4, ulong = 5, float = 6, double = 7, boolean = 8, char = 9, octet = 10,
                           any = 11, TypeCode = 12, longlong = 23, ulonglong = 24, longdouble = 25, wchar = 26 } do
      both(T.TypeCode, T[kind], ("%02x000000"):format(n), ("000000%02x"):format(n))
    end
  end)

  it("have their parameters", function()
    both(T.TypeCode, T.string, "12000000 00000000", "00000012 00000000")
    both(T.TypeCode, c.bounded("string", 7), "12000000 07000000", "00000012 00000007")
    both(T.TypeCode, c.bounded("wstring", 7), "1b000000 07000000", "0000001b 00000007")
    both(T.TypeCode, { kind = "fixed", digits = 5, scale = 2 }, "1c000000 0500 0200", "0000001c 0005 0002")
    both(T.TypeCode, c.seq(T.long, 0), "13000000 0c000000 01 000000 03000000 00000000", "00000013 0000000c 00 000000 00000003 00000000")
    both(T.TypeCode, c.array(T.long, 2), "14000000 0c000000 01 000000 03000000 02000000", "00000014 0000000c 00 000000 00000003 00000002")
    both(T.TypeCode, S, S_little,
      "0000000f 0000002c 00 000000 0000000a 49444c3a533a312e3000 0000 00000002 5300 0000 00000001 00000002 6100 0000 00000003")
    both(T.TypeCode, c.enum("E", "x"), "11000000 26000000 01 000000 0a000000 49444c3a453a312e3000 0000 02000000 4500 0000 01000000 02000000 7800",
      "00000011 00000026 00 000000 0000000a 49444c3a453a312e3000 0000 00000002 4500 0000 00000001 00000002 7800")
    both(T.TypeCode, c.alias("A", T.octet), "15000000 20000000 01 000000 0a000000 49444c3a413a312e3000 0000 02000000 4100 0000 0a000000",
      "00000015 00000020 00 000000 0000000a 49444c3a413a312e3000 0000 00000002 4100 0000 0000000a")
    both(T.TypeCode, { kind = "interface", id = "IDL:O:1.0", name = "O" },
      "0e000000 1a000000 01 000000 0a000000 49444c3a4f3a312e3000 0000 02000000 4f00",
      "0000000e 0000001a 00 000000 0000000a 49444c3a4f3a312e3000 0000 00000002 4f00")
    both(T.TypeCode, c.union("U", T.boolean, { true, "t", T.long }, { nil, "f", T.octet, default = true }),
      [[10000000 48000000 01 000000 0a000000 49444c3a553a312e3000 0000 02000000 5500 0000 08000000 01000000 02000000
        01 000000 02000000 7400 0000 03000000 00 000000 02000000 6600 0000 0a000000]],
      [[00000010 00000048 00 000000 0000000a 49444c3a553a312e3000 0000 00000002 5500 0000 00000008 00000001 00000002
        01 000000 00000002 7400 0000 00000003 00 000000 00000002 6600 0000 0000000a]])
  end)

  it("of exceptions, and of interfaces of other kinds", function()
    for kind, T2 in pairs { ["16"] = c.struct("X", {}, "except"), ["20"] = { kind = "interface", id = "IDL:X:1.0", name = "X", abstract = true },
                            ["21"] = { kind = "interface", id = "IDL:X:1.0", name = "X", ["local"] = true } } do
      local count = kind == "16" and "0000 00000000" or ""
      local length = kind == "16" and "20" or "1a"
      both(T.TypeCode, T2, kind .. "000000" .. length .. "000000 01 000000 0a000000 49444c3a583a312e3000 0000 02000000 5800" .. count,
        "000000" .. kind .. "000000" .. length .. "00 000000 0000000a 49444c3a583a312e3000 0000 00000002 5800" .. count)
    end
  end)

  it("of recursive types have an indirection", function()
    local node = c.struct("N", {})
    node.members[1] = { name = "n", type = c.seq(node, 0) }
    local little = [[0f000000 40000000 01 000000 0a000000 49444c3a4e3a312e3000 0000 02000000 4e00 0000 01000000 02000000 6e00 0000
      13000000 10000000 01 000000 ffffffff c0ffffff 00000000]]
    assert.equal(c.hex(c.bytes(little)), c.hex(c.encode(T.TypeCode, c.LITTLE, node)))
    local back = c.decode(T.TypeCode, c.LITTLE, c.bytes(little))
    assert.equal("N", back.name)
    assert.equal(back, back.members[1].type.element)
    assert.equal(c.bytes(little), c.encode(T.TypeCode, c.LITTLE, back))
    assert.same({ n = { { n = {} } } }, c.decode(back, c.BIG, c.encode(back, c.BIG, { n = { { n = {} } } })))
  end)

  it("read an indirection to any earlier TypeCode as the same table", function()
    local pair = c.bytes [[0f000000 60000000 01 000000 0a000000 49444c3a503a312e3000 0000 02000000 5000 0000 02000000 02000000 6100 0000
      13000000 0c000000 01 000000 02000000 00000000
      02000000 6200 0000 ffffffff e0ffffff]]
    pair = pair:gsub("^(....)....", "%1" .. string.pack("<I4", #pair - 8))
    local t = c.decode(T.TypeCode, c.LITTLE, pair)
    assert.equal(t.members[1].type, t.members[2].type)
    assert.equal("sequence", t.members[2].type.kind)
  end)

  it("refuse an indirection to elsewhere, and cycles that can't be", function()
    unread(T.TypeCode, "ffffffff fcffffff", "where no TypeCode begins", nil, "BAD_TYPECODE")
    unread(T.TypeCode, "13000000 10000000 01 000000 ffffffff 08000000 00000000", "where no TypeCode begins", nil, "BAD_TYPECODE")
    unread(T.TypeCode, "13000000 10000000 01 000000 ffffffff fdffffff 00000000", "where no TypeCode begins", nil, "BAD_TYPECODE")
    unread(T.TypeCode, "14000000 10000000 01 000000 ffffffff f0ffffff 02000000", "contains itself", nil, "BAD_TYPECODE")
    unread(T.TypeCode, "15000000 24000000 01 000000 0a000000 49444c3a413a312e3000 0000 02000000 4100 0000 ffffffff d8ffffff", "contains itself",
           nil, "BAD_TYPECODE")
  end)

  it("refuse kinds there aren't, and lengths that are lies", function()
    unread(T.TypeCode, "63000000 00000000", "no known kind")
    unread(T.TypeCode, "0d000000 00000000", "no known kind")
    unread(T.TypeCode, "13000000 ffffffff 01", "end before")
    unread(T.TypeCode, "13000000 00000000", "without its byte order")
    unread(T.TypeCode, "13000000 04000000 01 000000", "end before")
    unread(T.TypeCode, "11000000 1e000000 01 000000 02000000 4500 0000 02000000 4500 0000 ffffffff 02000000 7800", "more members than bytes")
    unread(T.TypeCode, "1c000000 2000 0200", "can't exist", nil, "BAD_TYPECODE")
    unread(T.TypeCode, "1d000000 04000000 01 000000", "end before")
    unread(T.TypeCode, "1d000000 16000000 01 000000 02000000 5600 0000 02000000 5600 0400 00000000", "of no known sort", nil, "BAD_TYPECODE")
    unread(T.TypeCode, "1d000000 1a000000 01 000000 02000000 5600 0000 02000000 5600 0000 03000000 00000000", "whose base is none", nil,
           "BAD_TYPECODE")
    unread(T.TypeCode, "1d000000 20000000 01 000000 02000000 5600 0000 02000000 5600 0000 ffffffff e0ffffff 00000000", "too many valuetypes", nil,
           "BAD_TYPECODE")
  end)

  it("of types that repeat stay small when written", function()
    local t = c.struct("Leaf", { "a", T.long })
    for i = 1, 24 do t = c.struct("S" .. i, { "a", t, "b", t }) end
    local bytes = c.encode(T.TypeCode, c.LITTLE, t)
    assert.is_true(#bytes < 100000)
    local back = c.decode(T.TypeCode, c.LITTLE, bytes)
    for _ = 1, 24 do
      assert.equal(back.members[1].type, back.members[2].type)
      back = back.members[1].type
    end
    assert.equal("Leaf", back.name)
  end)

  it("name members that have no name, or one that belongs to the mapping", function()
    for _, name in ipairs { "\1\0\0\0\0\0", "\2\0\0\0_\0" } do
      local t = c.decode(T.TypeCode, c.LITTLE, (c.bytes(S_little):gsub("\2\0\0\0a\0", name)))
      assert.equal("_1", t.members[1].name)
    end
  end)

  it("of unions have a label for the default as each peer writes it", function()
    local omniorb = [[100000005400000001d4a26b0a00000049444c3a553a312e30000000020000005500d0281700000001000000020000000100000000000000
      02000000610000000a00000002000000000000000000000002000000640000000a000000]]
    local jacorb = [[000000100000004c000000000000000a49444c3a553a312e3000000000000002550000000000001700000001000000020000000000000001
      00000002610000000000000a0000000000000002640000000000000a]]
    for bytes, codec in pairs { [omniorb] = c.LITTLE, [jacorb] = c.BIG } do
      local u = c.decode(T.TypeCode, codec, c.bytes(bytes))
      assert.same({ 2, 1, "a", nil, "d" }, { u.default, u.members[1].label, u.members[1].name, u.members[2].label, u.members[2].name })
      assert.same({ "longlong", "octet" }, { u.discriminator.kind, u.members[2].type.kind })
    end
  end)

  it("can be asked for, and are only given for types", function()
    assert.equal(c.bytes(S_little), c.env:typecode(S))
    assert.equal("\0\0\0\15", c.env:typecode(S, true):sub(1, 4))
    unsent(T.TypeCode, nil, "value: a type expected, got nil")
    unsent(T.TypeCode, "long", "value: a type expected, got 'long': broker:type makes one of such a text")
    local ok, e = pcall(c.encode, T.TypeCode, c.LITTLE, { kind = "nonsense" })
    assert.is_true(not ok and tostring(e):find("no kind is called 'nonsense'", 1, true) ~= nil, tostring(e))
  end)
end)

describe("any", function()
  it("takes plain values by what they are", function()
    local function any(value, little, big, kind) both(T.any, value, little, big, { _anytype = { kind = kind }, _anyval = value }) end
    any(nil, "00000000", "00000000", "null")
    any(true, "08000000 01", "00000008 01", "boolean")
    any(-5, "03000000 fbffffff", "00000003 fffffffb", "long")
    any(1 << 31, "17000000 00000000 0000008000000000", "00000017 00000000 0000000080000000", "longlong")
    any(0.5, "07000000 00000000 000000000000e03f", "00000007 00000000 3fe0000000000000", "double")
    any("ab", "12000000 00000000 03000000 616200", "00000012 00000000 00000003 616200", "string")
    unsent(T.any, {}, "value: _anytype and _anyval, as this table needs a type expected, got table")
    unsent(T.any, print, "value: a table with _anytype and _anyval, or a plain value expected, got function")
  end)

  it("takes any value with its type, and gives it back so", function()
    local S = c.struct("S", { "list", c.seq(c.alias("Name", T.string), 0), "any", T.any })
    local value = { _anytype = S, _anyval = { list = { "a", "b" }, any = { _anytype = c.alias("Number", T.short), _anyval = 7 } } }
    for _, codec in ipairs { c.LITTLE, c.BIG } do
      local bytes = c.encode(T.any, codec, value)
      local back = c.decode(T.any, codec, bytes)
      assert.same(value, back)
      assert.equal(bytes, c.encode(T.any, codec, back))
    end
  end)

  it("aligns its value in the message, whatever its TypeCode is", function()
    local value = { o = 1, a = { _anytype = T.octet, _anyval = 2 }, d = { _anytype = T.double, _anyval = 1.0 } }
    both(c.struct("S", { "o", T.octet, "a", T.any, "d", T.any }), value,
      "01 000000 0a000000 02 000000 07000000 000000000000f03f", "01 000000 0000000a 02 000000 00000007 3ff0000000000000")
  end)

  it("keeps a type's table as long as it comes again", function()
    local S = c.struct("Kept", { "a", T.long })
    local bytes = c.encode(T.any, c.LITTLE, { _anytype = S, _anyval = { a = 1 } })
    assert.equal(c.decode(T.any, c.LITTLE, bytes)._anytype, c.decode(T.any, c.LITTLE, bytes)._anytype)
    for i = 1, 1000 do
      local other = c.struct("Other" .. i, { "a", T.long })
      local value = { _anytype = other, _anyval = { a = i } }
      assert.same(value, c.decode(T.any, c.LITTLE, c.encode(T.any, c.LITTLE, value)))
    end
    assert.same({ _anytype = S, _anyval = { a = 1 } }, c.decode(T.any, c.LITTLE, bytes))
  end)

  it("has the environment's own table where that is the same type", function()
    local S, other = c.struct("S", { "a", T.long }), c.struct("Other", { "a", T.long })
    local env = c.environment { resolve = function(id) return id == S.id and S or id == other.id and S or nil end }
    local function through(T2) return c.decode(T.any, c.LITTLE, c.encode(T.any, c.LITTLE, { _anytype = T2, _anyval = { a = 1 } }), env)._anytype end
    assert.equal(S, through(c.struct("S", { "a", T.long })))
    local mine = c.struct("S", { "b", T.octet })
    local back = c.decode(T.any, c.LITTLE, c.encode(T.any, c.LITTLE, { _anytype = mine, _anyval = { b = 1 } }), env)
    assert.same({ _anytype = mine, _anyval = { b = 1 } }, back)
    assert.same(other, through(other))
  end)

  it("carries exceptions, types and anys", function()
    local X = c.struct("X", { "n", T.octet }, "except")
    for _, value in ipairs { { _anytype = T.TypeCode, _anyval = T.long }, { _anytype = T.any, _anyval = { _anytype = T.long, _anyval = 1 } },
                             { _anytype = X, _anyval = { n = 1, _repid = X.id } } } do
      assert.same(value, c.decode(T.any, c.BIG, c.encode(T.any, c.BIG, value)))
    end
  end)

  it("says where it is wrong", function()
    unsent(T.any, { _anytype = T.long, _anyval = "x" }, "value._anyval: long expected, got 'x'")
    unsent(T.any, { _anytype = 5 }, "value._anytype: a type expected, got 5")
    unsent(c.seq(T.any), { { _anytype = c.seq(T.long), _anyval = { 1, "x" } } }, "value[1]._anyval[2]: long expected, got 'x'")
    local nested = { _anytype = T.long, _anyval = 1 }
    for _ = 1, 20000 do nested = { _anytype = T.any, _anyval = nested } end
    assert.is_truthy(c.refused(c.encode, T.any, c.LITTLE, nested).text:find "nested more than 20000")
    unread(T.any, ("0b000000"):rep(20001), "nested more than 20000 levels deep (at byte 80001)")
  end)

  it("makes no more than its bytes allow", function()
    local empty = c.struct("E", {})
    local huge = c.array(c.array(c.array(empty, 1000), 1000), 1000)
    local bytes = c.env:typecode(huge)
    assert.equal("MARSHAL", c.refused(c.decode, T.any, c.LITTLE, bytes).name)
    local wide = empty
    for i = 1, 40 do wide = c.struct("W" .. i, { "a", wide, "b", wide }) end
    assert.is_truthy(c.refused(c.decode, T.any, c.LITTLE, c.env:typecode(wide)).text:find "more values than a message of this size can hold")
  end)

  it("pays for every field of a table", function()
    local list = {}
    for i = 1, 3000 do list[2 * i - 1], list[2 * i] = "m" .. i, T.null end
    local bytes = c.env:typecode(c.seq(c.struct("Wide", list))) .. string.pack("<I4", 1000)
    assert.is_truthy(c.refused(c.decode, T.any, c.LITTLE, bytes).text:find "more values than a message of this size can hold")
  end)

  it("costs the types it met nothing when they are forgotten", function()
    local env = c.environment()
    local program = env:program { T.any }
    local function some(first)
      for i = first, first + 2000 do
        local S = c.struct("S" .. i, { "a", T.long, "b", T.string })
        program:decode(program:encode(c.LITTLE, { _anytype = S, _anyval = { a = i, b = "x" } }), 1, c.LITTLE)
      end
      collectgarbage() collectgarbage()
      return collectgarbage "count"
    end
    some(1)                                        -- tables that types come and go in have grown then
    local before = some(10000)
    assert.is_true(some(20000) - before < 300)
  end)
end)
