-- Characters and strings: what the code sets of orb_cdr make of them in each version of GIOP, bytes by hand.
local c = require "spec.support.cdr"
local T, is, both, unsent, unread = c.T, c.is, c.both, c.unsent, c.unread

describe("strings", function()
  it("have their length with a zero, and the zero", function()
    both(T.string, "", "01000000 00", "00000001 00")
    both(T.string, "abc", "04000000 61626300", "00000004 61626300")
    local long = ("x"):rep(70000)
    assert.equal(string.pack("<I4", 70001) .. long .. "\0", c.encode(T.string, c.LITTLE, long))
    assert.equal(long, c.decode(T.string, c.BIG, string.pack(">I4", 70001) .. long .. "\0"))
  end)

  it("hold no zero byte and keep their bound", function()
    unsent(T.string, "a\0b", "value: string without zero bytes expected")
    both(c.bounded("string", 3), "abc", "04000000 61626300", "00000004 61626300")
    unsent(c.bounded("string", 3), "abcd", "value: string of at most 3 expected, got 4")
    unread(c.bounded("string", 2), "04000000 61626300", "longer than its type allows")
  end)

  it("are refused without their zero, or longer than the message", function()
    unread(T.string, "00000000", "without the zero")
    unread(T.string, "03000000 616263", "without the zero that ends it (at byte 1)")
    unread(T.string, "05000000 616200", "end before the value does (at byte 1)")
    unread(T.string, "ffffffff 616200", "end before")
  end)

  it("are nothing else", function()
    unsent(T.string, 5, "value: string expected, got 5")
    unsent(T.string, false, "value: string expected, got false")
    unsent(T.string, print, "value: string expected, got function")
  end)

  it("go as they are in UTF-8, and are converted in ISO 8859-1", function()
    both(T.string, "é€", "06000000 c3a9e282ac00", "00000006 c3a9e282ac00")
    is(T.string, c.LITTLE, "\xff", "02000000 ff00")
    is(T.string, c.LATIN, "aéÿ", "04000000 61e9ff00")
    is(c.bounded("string", 3), c.LATIN, "éüß", "04000000 e9fcdf00")
    is(T.string, c.LATIN, ("é"):rep(20), "15000000" .. ("e9"):rep(20) .. "00")
  end)

  it("that ISO 8859-1 has not all characters of are refused, with what would help against this peer, if anything would", function()
    local what, SERVER, HAS_UTF8 = "value: the peer takes ISO 8859-1, and not every character of this string exists there; ", 32, 256
    local wish = 'orb.init{ codeset = "UTF-8" }'
    for codec, advice in pairs {
      [c.LATIN] = "its reference offers no UTF-8",
      [c.LATIN | HAS_UTF8] = wish .. ", or -ORBcodeset UTF-8, helps if its own set has them all",
      [c.LATIN | SERVER] = "the client chose it",
      [c.LATIN | SERVER | HAS_UTF8] = "the client chose it, and may choose UTF-8 where " .. wish .. " names that first",
    } do
      unsent(T.string, "a€", what .. advice, codec, "DATA_CONVERSION", 1)
      unsent(T.string, "\xe9", what .. advice, codec, "DATA_CONVERSION", 1)
      unsent(c.seq(T.char), "a€", what .. advice, codec, "DATA_CONVERSION", 1)
    end
  end)
end)

describe("strings of a program with ISO 8859-1", function()
  local FROM_LATIN = (c.LITTLE & ~8) | 128

  it("are UTF-8 on the wire", function()
    is(T.string, FROM_LATIN, "abc", "04000000 61626300")
    is(T.string, FROM_LATIN, "a\xe9\xff", "06000000 61c3a9c3bf00")
    is(T.string, FROM_LATIN, ("\xe9"):rep(2000), "a10f0000" .. ("c3a9"):rep(2000) .. "00")
    is(c.bounded("string", 4), FROM_LATIN, "\xe9\xff", "05000000 c3a9c3bf00")
    unsent(c.bounded("string", 3), "\xe9\xff", "value: string of at most 3 expected, got 4", FROM_LATIN)
    is(T.wstring, FROM_LATIN, "é", "02000000 00e9")        -- wide ones stay UTF-8
  end)

  it("have no more characters than that", function()
    unread(T.string, "04000000 e282ac00", "beyond ISO 8859-1", FROM_LATIN, "DATA_CONVERSION", 1)
    unread(T.string, "02000000 e900", "not UTF-8", FROM_LATIN, "DATA_CONVERSION", 1)
  end)

  it("have chars of one octet, however the peer means them", function()
    is(T.char, FROM_LATIN, "a", "61")
    assert.equal("\xe9", c.decode(T.char, FROM_LATIN, "\xe9"))
    assert.equal("a\xe9", c.decode(c.seq(T.char), FROM_LATIN, c.bytes "02000000 61e9"))
    for _, type in ipairs { T.char, c.seq(T.char), c.array(T.char, 1) } do
      unsent(type, "\xe9", "value: a char is one byte, and UTF-8 has none for this character; a string or a wchar can hold it", FROM_LATIN,
             "DATA_CONVERSION", 1)
    end
    unsent(T.char, "ab", "value: char (a string of one character) expected, got 'ab'", FROM_LATIN)
  end)
end)

describe("characters", function()
  it("are one byte on the wire", function()
    both(T.char, "a", "61", "61")
    both(T.char, "\0", "00", "00")
    is(T.char, c.LITTLE, "\xe9", "e9")
    is(T.char, c.LATIN, "é", "e9")
    is(c.seq(T.char), c.LATIN, "aé", "02000000 61e9")
    is(c.array(T.char, 2), c.LATIN, "aé", "61e9")
  end)

  it("are refused otherwise", function()
    unsent(T.char, "", "value: char (a string of one character) expected, got ''")
    unsent(T.char, "ab", "value: char (a string of one character) expected, got 'ab'")
    unsent(T.char, 97, "value: char expected, got 97")
    for set, text in pairs { ["UTF-8"] = "é", ["ISO 8859-1"] = "€" } do
      unsent(T.char, text, ("value: a char is one byte, and %s has none for this character; a string or a wchar can hold it"):format(set),
             set == "UTF-8" and c.LITTLE or c.LATIN | 256, "DATA_CONVERSION", 1)
    end
  end)
end)

describe("wide data in GIOP 1.2", function()
  it("is big-endian UTF-16 with its length in octets, whatever the message's order", function()
    both(T.wchar, "é", "02 00e9", "02 00e9")
    both(T.wchar, "€", "02 20ac", "02 20ac")
    both(T.wstring, "", "00000000", "00000000")
    both(T.wstring, "aé€", "06000000 006100e920ac", "00000006 006100e920ac")
    both(T.wstring, "𝄞", "04000000 d834dd1e", "00000004 d834dd1e")
    both(c.seq(T.wchar), { "a", "b" }, "02000000 02 0061 02 0062", "00000002 02 0061 02 0062")
  end)

  it("honours a mark of its order", function()
    assert.equal("aé", c.decode(T.wstring, c.LITTLE, c.bytes "06000000 fffe 6100 e900"))
    assert.equal("aé", c.decode(T.wstring, c.LITTLE, c.bytes "06000000 feff 0061 00e9"))
    assert.equal("", c.decode(T.wstring, c.BIG, c.bytes "00000002 fffe"))
    assert.equal("é", c.decode(T.wchar, c.BIG, c.bytes "04 fffe e900"))
    assert.equal("é", c.decode(T.wchar, c.BIG, c.bytes "04 feff 00e9"))
  end)

  it("has a mark before what would be taken for one", function()
    both(T.wchar, "\u{feff}", "04 feff feff", "04 feff feff")
    both(T.wstring, "\u{feff}a", "06000000 feff feff 0061", "00000006 feff feff 0061")
    assert.equal("\u{feff}", c.decode(T.wchar, c.LITTLE, c.bytes "02 feff"))     -- no room for a mark there
    assert.equal("ab", c.decode(c.bounded("wstring", 2), c.LITTLE, c.bytes "06000000 feff 00610062"))
    unread(c.bounded("wstring", 2), "06000000 006100620063", "longer than its type allows")
  end)

  it("is refused when it is no such thing", function()
    unread(T.wstring, "03000000 006100", "odd number")
    unread(T.wstring, "02000000 d834", "half of a pair", c.LITTLE, "DATA_CONVERSION", 1)
    unread(T.wstring, "04000000 dd1ed834", "half of a pair", c.LITTLE, "DATA_CONVERSION", 1)
    unread(T.wchar, "00", "one unit")
    unread(T.wchar, "04 d834dd1e", "one unit")
    unread(T.wstring, "ffffffff 0061", "end before")
    unread(c.bounded("wstring", 1), "06000000 006100610061", "longer than its type allows")
    for _, no_utf8 in ipairs { "\xff", ("\xa0"):rep(12), "\xff" .. ("\x80"):rep(12), "\xc1\x80", "\xf5\x80\x80\x80" } do
      unsent(T.wstring, no_utf8, "value: a wstring must be UTF-8", c.LITTLE, "DATA_CONVERSION", 1)
    end
    unsent(T.wstring, "a\0", "value: wstring without zero characters expected")
    unsent(c.bounded("wstring", 2), "abc", "value: wstring of at most 2 expected, got 3")
    unsent(T.wchar, "𝄞", "value: a wchar holds no character above U+FFFF", c.LITTLE, "DATA_CONVERSION", 1)
    unsent(T.wchar, "ab", "value: wchar (a string of one character in UTF-8) expected, got 'ab'")
    unsent(T.wchar, "", "value: wchar (a string of one character in UTF-8) expected, got ''")
  end)
end)

describe("wide data in GIOP 1.1 and 1.0", function()
  local BIG = c.ONE_ONE & ~1

  it("has the message's order, its length in characters, and a zero", function()
    is(T.wstring, c.ONE_ONE, "aé", "03000000 6100e9000000")
    is(T.wstring, BIG, "aé", "00000003 006100e90000")
    is(c.struct("S", { "o", T.octet, "w", T.wchar }), c.ONE_ONE, { o = 1, w = "é" }, "01 00 e900")
    is(c.struct("S", { "o", T.octet, "w", T.wchar }), BIG, { o = 1, w = "é" }, "01 00 00e9")
    unread(T.wstring, "00000000", "without the zero", c.ONE_ONE)
    unread(T.wstring, "01000000 6100", "without the zero", c.ONE_ONE)
    unread(T.wstring, "ffffffff 6100", "end before", c.ONE_ONE)
  end)

  it("doesn't exist in 1.0", function()
    unsent(T.wstring, "a", "value: GIOP 1.0 has no wide characters", c.ONE_ZERO, "MARSHAL")
    unsent(T.wchar, "a", "value: GIOP 1.0 has no wide characters", c.ONE_ZERO, "MARSHAL")
    unread(T.wchar, "0061", "GIOP 1.0", c.ONE_ZERO)
  end)
end)

describe("wide data without a code set", function()
  it("is the reference's fault at the client, the client's at the server", function()
    local none = c.LITTLE & ~16
    unsent(T.wstring, "a", "value: the reference names no code set for wide characters", none, "INV_OBJREF", 1)
    unsent(T.wchar, "a", "value: the client named no code set for wide characters", none | 32, "BAD_PARAM", 23)
    unread(T.wstring, "02000000 0061", "names no code set", none, "INV_OBJREF", 1)
    unread(T.wchar, "02 0061", "named no code set", none | 32, "BAD_PARAM", 23)
  end)
end)
