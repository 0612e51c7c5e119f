-- Marshalling programs: numbers, structures, lists and enums as bytes worked out by hand from CORBA 3.3 part 2, 9.3, in both byte orders;
-- what doesn't fit; whole messages.
local c = require "spec.support.cdr"
local T, both, unsent, unread = c.T, c.both, c.unsent, c.unread

describe("basic types", function()
  it("are integers of 8 to 64 bits", function()
    both(T.octet, 255, "ff", "ff")
    both(T.short, -2, "fe ff", "ff fe")
    both(T.ushort, 65535, "ff ff", "ff ff")
    both(T.long, -2147483648, "00 00 00 80", "80 00 00 00")
    both(T.ulong, 4294967295, "ff ff ff ff", "ff ff ff ff")
    both(T.ulong, 0x01020304, "04 03 02 01", "01 02 03 04")
    both(T.longlong, 0x0102030405060708, "08 07 06 05 04 03 02 01", "01 02 03 04 05 06 07 08")
    both(T.longlong, math.mininteger, "00 00 00 00 00 00 00 80", "80 00 00 00 00 00 00 00")
  end)

  it("keep all 64 bits of an unsigned long long", function()
    both(T.ulonglong, -1, "ff ff ff ff ff ff ff ff", "ff ff ff ff ff ff ff ff")
    both(T.ulonglong, 0x8000000000000001, "01 00 00 00 00 00 00 80", "80 00 00 00 00 00 00 01")
    both(T.ulonglong, 2.0 ^ 63, "00 00 00 00 00 00 00 80", "80 00 00 00 00 00 00 00", math.mininteger)
  end)

  it("take floats that are whole numbers", function()
    both(T.short, 3.0, "03 00", "00 03", 3)
    both(T.longlong, -1e15, "00 80 39 5b 81 72 fc ff", "ff fc 72 81 5b 39 80 00", -1000000000000000)
  end)

  it("are floats", function()
    both(T.float, 1.5, "00 00 c0 3f", "3f c0 00 00")
    both(T.float, -0.0, "00 00 00 80", "80 00 00 00")
    both(T.double, 0.1, "9a 99 99 99 99 99 b9 3f", "3f b9 99 99 99 99 99 9a")
    both(T.double, 7, "00 00 00 00 00 00 1c 40", "40 1c 00 00 00 00 00 00", 7.0)
    both(T.float, math.huge, "00 00 80 7f", "7f 80 00 00")
    local nan = c.decode(T.double, c.LITTLE, c.encode(T.double, c.LITTLE, 0 / 0))
    assert.is_true(nan ~= nan)
  end)

  it("are long doubles of 128 bits, rounded to a double", function()
    both(T.longdouble, 1.0, "00 00 00 00 00 00 00 00 00 00 00 00 00 00 ff 3f", "3f ff 00 00 00 00 00 00 00 00 00 00 00 00 00 00")
    both(T.longdouble, -0.1, "00 00 00 00 00 00 00 a0 99 99 99 99 99 99 fb bf", "bf fb 99 99 99 99 99 99 a0 00 00 00 00 00 00 00")
    both(T.longdouble, 5e-324, "00 00 00 00 00 00 00 00 00 00 00 00 00 00 cd 3b", "3b cd 00 00 00 00 00 00 00 00 00 00 00 00 00 00")
    local big = function(text) return c.decode(T.longdouble, c.BIG, c.bytes(text)) end
    assert.equal(1.0, big "3f ff 00 00 00 00 00 00 08 00 00 00 00 00 00 00")                  -- a tie, to the even one
    assert.equal(1.0 + 2 ^ -52, big "3f ff 00 00 00 00 00 00 08 00 00 00 00 00 00 01")        -- a little above it
    assert.equal(1.0 + 2 ^ -51, big "3f ff 00 00 00 00 00 00 18 00 00 00 00 00 00 00")        -- a tie, the even one is above
    assert.equal(5e-324, big "3b cc 00 00 00 00 00 00 00 00 00 00 00 00 00 01")               -- half of the smallest and a little
    assert.equal(0.0, big "3b cc 00 00 00 00 00 00 00 00 00 00 00 00 00 00")                  -- just the half: to the even one
    assert.equal(-math.huge, big "c3 ff 00 00 00 00 00 00 00 00 00 00 00 00 00 00")           -- 2^1024
    assert.equal(math.huge, big "43 fe ff ff ff ff ff ff ff ff ff ff ff ff ff ff")            -- rounds to 2^1024
    assert.equal(2.2250738585072014e-308, big "3c 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00")
    assert.equal(math.huge, big "7f ff 00 00 00 00 00 00 00 00 00 00 00 00 00 00")
    assert.equal(0.0, big "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01")
  end)

  it("are booleans", function()
    both(T.boolean, true, "01", "01")
    both(T.boolean, false, "00", "00")
    assert.is_true(c.decode(T.boolean, c.LITTLE, "\7"))
  end)

  it("refuse what doesn't fit", function()
    unsent(T.short, 32768, "value: short expected (-32768 to 32767), got 32768")
    unsent(T.octet, -1, "value: octet expected (0 to 255), got -1")
    unsent(T.ulong, 2 ^ 40, "value: ulong expected (0 to 4294967295), got 1099511627776")
    unsent(T.long, 1.5, "value: long expected (-2147483648 to 2147483647), got 1.5")
    unsent(T.longlong, 2 ^ 63, "value: longlong expected (64 bits), got 9.2233720368548e+18")
    unsent(T.ulonglong, 2 ^ 64, "value: ulonglong expected (64 bits), got 1.844674407371e+19")
    unsent(T.float, 1e39, "value: float expected (about -3.4e38 to 3.4e38), got 1e+39")
    unsent(T.long, "5", "value: long expected, got '5'")
    unsent(T.double, nil, "value: double expected, got nil")
    unsent(T.boolean, 1, "value: boolean expected, got 1")
    unsent(T.boolean, {}, "value: boolean expected, got table")
  end)
end)

describe("fixed", function()
  local function fixed(digits, scale) return { kind = "fixed", digits = digits, scale = scale } end

  it("is decimal digits, two to a byte, with the sign last", function()
    both(fixed(5, 2), "123.45", "12 34 5c", "12 34 5c")
    both(fixed(4, 2), "-3.4", "00 34 0d", "00 34 0d", "-3.40")
    both(fixed(4, 0), "-1234", "01 23 4d", "01 23 4d")
    both(fixed(3, 3), ".5", "50 0c", "50 0c", "0.500")
    both(fixed(1, 0), "0", "0c", "0c")
    both(fixed(31, 0), ("9"):rep(31), ("99"):rep(15) .. "9c", ("99"):rep(15) .. "9c")
    both(fixed(4, 2), 7, "00 70 0c", "00 70 0c", "7.00")
    both(fixed(4, 2), "-0.00", "00 00 0c", "00 00 0c", "0.00")
    both(fixed(4, 2), "+0012.3000", "01 23 0c", "01 23 0c", "12.30")
  end)

  it("refuses other numbers, and other bytes", function()
    unsent(fixed(4, 2), "123", "value: fixed<4,2> expected, '123' has too many digits before the point")
    unsent(fixed(4, 2), "1.234", "value: fixed<4,2> expected, '1.234' has too many digits behind the point")
    for _, text in ipairs { "", "-", ".", "1e5", "abc", "1.2.3", " 1", "1 " } do
      unsent(fixed(9, 4), text, "value: fixed<9,4> expected, '" .. text .. "' is no decimal number")
    end
    unsent(fixed(4, 2), true, "value: fixed (decimal digits in a string) expected, got true")
    unread(fixed(4, 2), "01 23 4f", "decimal digits")
    unread(fixed(4, 2), "11 23 4c", "decimal digits")
    unread(fixed(4, 2), "0a 23 4c", "decimal digits")
    unread(fixed(4, 2), "01 23", "end before")
  end)
end)

describe("structures", function()
  local S = c.struct("S", { "o", T.octet, "d", T.double, "s", T.short, "name", T.string, "b", T.boolean })

  it("have each member at a multiple of its size, and zero between", function()
    both(S, { o = 1, d = 2.0, s = 3, name = "ab", b = true },
      "01 00 00 00 00 00 00 00  00 00 00 00 00 00 00 40  03 00 00 00  03 00 00 00 61 62 00  01",
      "01 00 00 00 00 00 00 00  40 00 00 00 00 00 00 00  00 03 00 00  00 00 00 03 61 62 00  01")
  end)

  it("may be empty, nested, and have long or awkward names", function()
    local long = ("m"):rep(60)
    both(c.struct("E", {}), {}, "", "")
    both(c.struct("N", { "end", c.struct("I", { long, T.octet }), "n", T.ushort }), { ["end"] = { [long] = 9 }, n = 1 }, "09 00 01 00", "09 00 00 01")
  end)

  it("may have more members than one keeps in mind", function()
    local list, value, text = {}, {}, {}
    for i = 1, 300 do
      list[#list + 1], list[#list + 2] = "m" .. i, T.octet
      value["m" .. i], text[i] = i % 256, ("%02x"):format(i % 256)
    end
    both(c.struct("Many", list), value, table.concat(text), table.concat(text))
  end)

  it("read what a metatable gives", function()
    local P = c.struct("P", { "x", T.octet, "y", T.octet })
    local class = { x = 1, __index = false }
    class.__index = class
    assert.equal("\1\2", c.encode(P, c.LITTLE, setmetatable({ y = 2 }, class)))
    local by_function = setmetatable({}, { __index = function(_, k) return #k + (k == "x" and 4 or 5) end })
    assert.equal("\5\6\5\6", c.encode(c.array(P, 2), c.LITTLE, { by_function, by_function }))
    local deep = c.struct("Deep", { "p", P })
    assert.equal("\5\6", c.encode(deep, c.LITTLE, setmetatable({}, { __index = function() return by_function end })))
  end)

  it("survive a metamethod that fails, collects or marshals itself", function()
    local P = c.struct("P", { "x", T.string, "y", T.string })
    local function with(f) return setmetatable({ x = "first" }, { __index = f }) end
    local ok, e = pcall(c.encode, P, c.LITTLE, with(function() error("mine", 0) end))
    assert.same({ false, "mine" }, { ok, e })
    local inner = with(function() return c.encode(c.seq(T.octet), c.LITTLE, ("z"):rep(5000)):sub(5, 8) end)
    assert.equal(c.hex(c.bytes "06000000" .. "first\0" .. "\0\0" .. c.bytes "05000000" .. "zzzz\0"), c.hex(c.encode(P, c.LITTLE, inner)))
    local collecting = with(function() collectgarbage() return ("y"):rep(50) end)
    assert.equal(c.encode(P, c.LITTLE, { x = "first", y = ("y"):rep(50) }), c.encode(P, c.LITTLE, collecting))
  end)

  it("name the member that is wrong, by its path", function()
    local list = c.seq(c.struct("F", { "string_value", T.string, "inner", c.struct("G", { "n", c.array(T.long, 2) }) }))
    local value = {}
    for i = 1, 8 do value[i] = { string_value = "x", inner = { n = { 1, 2 } } } end
    value[7].string_value = nil
    unsent(list, value, "value[7].string_value: string expected, got nil")
    value[7].string_value = "x"
    value[3].inner.n[2] = "two"
    unsent(list, value, "value[3].inner.n[2]: long expected, got 'two'")
    value[3].inner = 5
    unsent(list, value, "value[3].inner: G expected, got 5")
    local program = c.env:program({ T.long, list }, { "count", "items" })
    assert.equal("items[1].string_value: string expected, got nil", c.refused(program.encode, program, c.LITTLE, 1, { {} }).text)
    program = c.env:program { T.long, list }
    assert.equal("value 2[1].string_value: string expected, got nil", c.refused(program.encode, program, c.LITTLE, 1, { {} }).text)
  end)

  it("cut a path that is very long at its beginning", function()
    local inner = T.long
    for _ = 1, 100 do inner = c.struct("S", { "member", inner }) end
    local value = "x"
    for _ = 1, 100 do value = { member = value } end
    local text = c.refused(c.encode, inner, c.LITTLE, value).text
    assert.is_truthy(text:find("^value%.%.%.") and text:find("%.member%.member: long expected, got 'x'$"), text)
  end)
end)

describe("enums", function()
  local E = c.enum("E", "red", "green", "blue")

  it("are labels, and accept numbers", function()
    both(E, "blue", "02 00 00 00", "00 00 00 02")
    both(E, 1, "01 00 00 00", "00 00 00 01", "green")
  end)

  it("know any number of labels of any length", function()
    local labels = {}
    for i = 0, 999 do labels[#labels + 1] = ("label_%d"):format(i) .. ("x"):rep(i % 60) end
    local big = c.enum("Big", table.unpack(labels))
    for i = 1, 1000, 37 do
      local bytes = string.pack("<I4", i - 1)
      assert.equal(bytes, c.encode(big, c.LITTLE, labels[i]))
      assert.equal(labels[i], c.decode(big, c.LITTLE, bytes))
    end
  end)

  it("refuse others", function()
    unsent(E, "pink", "value: a label of enum E expected, got 'pink'")
    unsent(E, 3, "value: a label of enum E expected, got 3")
    unsent(E, nil, "value: a label of enum E expected, got nil")
    unread(E, "03 00 00 00", "no label of its enum (at byte 5)")
  end)
end)

describe("lists", function()
  it("are sequences with a length, arrays without", function()
    both(c.seq(T.short), { 1, -1 }, "02 00 00 00 01 00 ff ff", "00 00 00 02 00 01 ff ff")
    both(c.array(T.short, 2), { 1, -1 }, "01 00 ff ff", "00 01 ff ff")
    both(c.array(c.array(T.octet, 2), 2), { "ab", "cd" }, "61 62 63 64", "61 62 63 64")
    both(c.array(c.array(T.ushort, 2), 2), { { 1, 2 }, { 3, 4 } }, "0100 0200 0300 0400", "0001 0002 0003 0004")
    both(c.seq(c.seq(T.boolean)), { {}, { true } }, "02000000 00000000 01000000 01", "00000002 00000000 00000001 01")
    both(c.seq(T.double), { 0.5 }, "01000000 00000000 000000000000e03f", "00000001 00000000 3fe0000000000000")
    both(c.seq(T.ulonglong), {}, "00000000", "00000000")
  end)

  it("of all numbers go as fast and as exactly as one", function()
    for _, kind in ipairs { "short", "ushort", "long", "ulong", "longlong", "ulonglong", "float", "double", "boolean", "longdouble" } do
      local value, one = {}, kind == "boolean" and true or 3
      for i = 1, 50 do
        if kind == "boolean" then value[i] = i % 3 == 0
        else value[i] = kind:find "[fd]" and i / 4 or i end
      end
      for _, codec in ipairs { c.LITTLE, c.BIG } do
        assert.same(value, c.decode(c.seq(T[kind]), codec, c.encode(c.seq(T[kind]), codec, value)))
      end
      value[51] = "x"
      assert.is_truthy(c.refused(c.encode, c.seq(T[kind]), c.LITTLE, value).text:find("value[51]: " .. kind, 1, true))
      value[51] = one
      c.encode(c.seq(T[kind]), c.LITTLE, value)
    end
  end)

  it("of octets and of chars are strings", function()
    both(c.seq(T.octet), "a\0\255", "03000000 6100ff", "00000003 6100ff")
    both(c.array(T.octet, 3), "a\0\255", "6100ff", "6100ff")
    both(c.seq(T.char), "abc", "03000000 616263", "00000003 616263")
    both(c.array(T.char, 3), "abc", "616263", "616263")
    both(c.seq(c.alias("byte", T.octet)), "x", "01000000 78", "00000001 78")
    unsent(c.array(T.octet, 3), "ab", "value: string of 3 bytes expected, got 2")
    unsent(c.seq(T.octet, 3), "abcd", "value: string of at most 3 expected, got 4")
    unsent(c.seq(T.octet), { 1, 2 }, "value: string of octets expected, got table")
    unread(c.seq(T.octet, 2), "03000000 616263", "longer than its type allows")
  end)

  it("keep their bounds", function()
    both(c.seq(T.octet, 2), "ab", "02000000 6162", "00000002 6162")
    unsent(c.seq(T.long, 2), { 1, 2, 3 }, "value: at most 2 elements expected, got 3")
    unsent(c.array(T.long, 2), { 1, 2, 3 }, "value: array of 2 expected, got 3 elements")
    unsent(c.array(T.long, 3), { 1 }, "value[2]: long expected, got nil (the array has 3 elements)")
    unread(c.seq(T.long, 1), "02000000 01000000 01000000", "longer than its type allows")
  end)

  it("have no holes", function()
    unsent(c.seq(T.long), { 1, 2, nil, 4 }, "value[3]: long expected, got nil")
    local list = { 1, 2 }
    list[50] = 4
    unsent(c.seq(T.long), list, "value[3]: long expected, got nil, a hole in the list")
    unsent(c.seq(T.long), { [2] = 1 }, "value[1]: long expected, got nil, a hole in the list")
    unsent(c.seq(T.any), { [2] = 1 }, "value[1]: any expected, got nil, a hole in the list: give its length as 'n'")
    unsent(c.seq(T.long), { [1 << 40] = 1 }, "value[1]: long expected, got nil, a hole in the list")
  end)

  it("whose elements may be nil have n", function()
    local null = "00000000"
    both(c.seq(T.any), { n = 2 }, "02000000" .. null .. null, "00000002" .. null .. null,
         { { _anytype = { kind = "null" } }, { _anytype = { kind = "null" } }, n = 2 })
    both(c.seq(c.object), { n = 1 }, "01000000 01000000 00 000000 00000000", "00000001 00000001 00 000000 00000000")
    unsent(c.seq(T.any), { n = -1 }, "value: its 'n' is no length")
    assert.equal(c.encode(c.seq(T.long), c.LITTLE, { 1, 2 }), c.encode(c.seq(T.long), c.LITTLE, { 1, 2, n = 1 }))
  end)

  it("may lie in the hash part of a table, and ignore its metatable", function()
    local list = {}
    for i = 5, 1, -1 do list[i] = i end
    local text = "05000000 0100 0200 0300 0400 0500"
    c.is(c.seq(T.short), c.LITTLE, list, text)
    c.is(c.seq(T.short), c.LITTLE, setmetatable(list, { __len = function() return 2 end, __index = { 6, 7, 8, 9, 10, 11 } }), text, { 1, 2, 3, 4, 5 })
  end)

  it("are refused where only metamethods hold their elements", function()
    local virtual = setmetatable({}, { __index = { 1, 2, 3 }, __len = function() return 3 end })
    local P = c.struct("P", { "l", c.seq(T.long) })
    assert.matches("value.l: a list with a metamethod __len and no elements of its own", c.refused(c.encode, P, c.LITTLE, { l = virtual }).text)
    c.is(c.seq(T.long), c.LITTLE, setmetatable({}, { __index = {} }), "00000000", {})
  end)

  it("and structs may not be frozen", function()
    local freeze = require "mare.freeze"
    local P = c.struct("P", { "l", c.seq(T.long) })
    assert.matches("value.l: sequence expected, got userdata, a frozen table: send what freeze.copy gives",
      c.refused(c.encode, P, c.LITTLE, { l = freeze { 1, 2 } }).text)
    local frozen = freeze { l = { 1, 2 } }
    assert.matches("expected, got userdata, a frozen table", c.refused(c.encode, P, c.LITTLE, frozen).text)
    c.is(P, c.LITTLE, freeze.copy(frozen), "02000000 01000000 02000000", { l = { 1, 2 } })
  end)

  it("of what takes no bytes are as long as they say, within reason", function()
    both(c.seq(c.struct("E", {})), { {}, {}, {} }, "03000000", "00000003")
    unread(c.seq(c.struct("E", {})), "ffffffff", "longer than the bytes that are left")
    unread(c.array(c.array(c.struct("E", {}), 60000), 60000), "", "longer than the bytes that are left")
    unread(c.array(c.array(c.struct("E", {}), 100), 100), "", "")
  end)
end)

describe("recursive types", function()
  local node = c.struct("Node", { "value", T.long })
  node.members[2] = { name = "next", type = c.seq(node, 1) }

  it("are of any depth up to a limit", function()
    both(node, { value = 1, next = { { value = 2, next = {} } } },
         "01000000 01000000 02000000 00000000", "00000001 00000001 00000002 00000000")
    local value = { value = 0, next = {} }
    for i = 1, 120 do value = { value = i, next = { value } } end
    assert.same(value, c.decode(node, c.LITTLE, c.encode(node, c.LITTLE, value)))
    for i = 1, 10000 do value = { value = i, next = { value } } end
    assert.is_truthy(c.refused(c.encode, node, c.LITTLE, value).text:find "nested more than 20000 levels deep")
    unread(node, ("00000000 01000000"):rep(10001), "nested more than 20000 levels deep")
  end)

  it("can't claim the same bytes at every depth", function()
    local tree = c.struct("Tree", { "value", T.long })
    tree.members[2] = { name = "next", type = c.seq(tree) }
    local claim = c.bytes "00000000 84030000"            -- 900 more, of at least 8 bytes
    unread(tree, c.hex(claim .. claim .. ("\0"):rep(8000)), "longer than the bytes that are left (at byte 17)")
    assert.equal(900, #c.decode(tree, c.LITTLE, claim .. ("\0"):rep(7200)).next)
  end)

  it("may not contain themselves but through a sequence", function()
    local bad = c.struct("Bad", {})
    bad.members[1] = { name = "self", type = bad }
    for _, T2 in ipairs { bad, c.array(bad, 2) } do
      local ok, e = pcall(c.env.program, c.env, { T2 })
      assert.is_true(not ok and e:find("'Bad' contains itself", 1, true) ~= nil, e)
    end
  end)

  it("that failed to compile fail again", function()
    local T2 = c.struct("Half", { "a", T.long, "b", { kind = "nonsense" } })
    for _ = 1, 2 do
      local ok, e = pcall(c.env.program, c.env, { c.seq(T2) })
      assert.is_true(not ok and e:find("no kind is called 'nonsense'", 1, true) ~= nil, e)
    end
    T2.members[2].type = T.octet
    assert.equal(c.bytes "01000000 02000000 03", c.encode(c.seq(T2), c.LITTLE, { { a = 2, b = 3 } }))
  end)
end)

describe("aliases", function()
  it("are what they stand for", function()
    both(c.alias("A", c.alias("B", c.seq(T.short))), { 5 }, "01000000 0500", "00000001 0005")
  end)
end)

describe("exceptions", function()
  it("begin with their repository id, and come with it", function()
    local X = c.struct("X", { "why", T.octet }, "except")
    both(X, { why = 7 }, "0a000000 49444c3a583a312e3000 07", "0000000a 49444c3a583a312e3000 07", { why = 7, _repid = "IDL:X:1.0" })
  end)
end)
