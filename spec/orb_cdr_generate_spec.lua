-- Generated marshalling: the same bytes and values as the programs in C, for the types it supports; the others refused by name.
-- needs: plain or asan
local c = require "spec.support.cdr"
local random = require "spec.support.cdr_random"
local generate = require "spec.support.generate"
local T = c.T

local function refused(f, ...) return c.refused(f, ...).text end

describe("generated marshalling", function()
  it("has the same bytes for random types and values, and the same values", function()
    for seed = 1, 300 do
      local r = random.generator(seed)
      local t = random.type(r, 4, true)
      local program, generated, v = c.env:program { T.octet, t }, generate.program({ T.octet, t }, c.fail), random.value(r, t, 5)
      for _, codec in ipairs { c.LITTLE, c.BIG } do
        local bytes = program:encode(codec, 7, v)
        assert.equal(c.hex(bytes), c.hex(generated:encode(codec, 7, v)), "seed " .. seed)
        local first, back = generated:decode(bytes, 1, codec)
        assert.equal(7, first)
        assert.is_true(random.same(v, back), "seed " .. seed)
        assert.is_true(random.same(select(2, program:decode(bytes, 1, codec)), back), "seed " .. seed)
      end
    end
  end)

  it("refuses what the programs refuse", function()
    local cases = {
      { T.short, 40000 }, { T.octet, -1 }, { T.long, "5" }, { T.long, 1.5 }, { T.ulonglong, 2 ^ 64 }, { T.float, 1e39 }, { T.double, true },
      { T.boolean, 1 }, { T.char, "ab" }, { T.string, 5 }, { T.string, "a\0" }, { c.bounded("string", 2), "abc" }, { c.enum("E", "a"), "b" },
      { c.enum("E", "a"), 1 }, { c.seq(T.long, 1), { 1, 2 } }, { c.array(T.long, 2), { 1 } }, { c.array(T.octet, 2), "abc" }, { c.seq(T.octet), {} },
      { c.struct("S", { "a", T.long }), {} }, { c.struct("S", { "a", T.long }), 5 }, { c.seq(T.long), 5 },
    }
    for i, case in ipairs(cases) do
      assert.equal("BAD_PARAM", c.refused(c.encode, case[1], c.LITTLE, case[2]).name)
      local program = generate.program({ case[1] }, c.fail)
      assert.equal("BAD_PARAM", c.refused(program.encode, program, c.LITTLE, case[2]).name, "case " .. i)
    end
    local program = generate.program({ T.short }, c.fail)
    assert.equal("short expected, got 'x'", refused(program.encode, program, c.LITTLE, "x"))
  end)

  it("takes the numbers that the programs take", function()
    for _, case in ipairs { { T.short, 3.0 }, { T.ulonglong, 2.0 ^ 63 }, { T.ulonglong, -1 }, { T.double, 1 }, { T.float, 1 / 0 },
                            { c.enum("E", "a", "b"), 1 } } do
      local program = generate.program { case[1] }
      assert.equal(c.encode(case[1], c.BIG, case[2]), program:encode(c.BIG, case[2]))
    end
  end)

  it("refuses every prefix, and lengths that are lies", function()
    for seed = 1, 60 do
      local r = random.generator(seed)
      local t = random.type(r, 3, true)
      local program = generate.program({ t, T.octet }, c.fail)
      local bytes = program:encode(c.LITTLE, random.value(r, t, 4), 1)
      for n = 0, #bytes - 1, 1 + #bytes // 50 do
        assert.equal("MARSHAL", c.refused(program.decode, program, bytes:sub(1, n), 1, c.LITTLE).name)
      end
    end
    local program = generate.program({ c.seq(T.long) }, c.fail)
    assert.equal("a list longer than the bytes that are left (at byte 5)", refused(program.decode, program, "\255\255\255\255", 1, c.LITTLE))
    program = generate.program({ c.seq(c.struct("E", {})) }, c.fail)
    assert.same({ {}, {} }, program:decode("\2\0\0\0", 1, c.LITTLE))
    assert.is_truthy(refused(program.decode, program, "\255\255\255\255", 1, c.LITTLE):find "longer than the bytes that are left")
    local node = c.struct("N", {})
    node.members[1] = { name = "n", type = c.seq(node) }
    program = generate.program({ node }, c.fail)
    assert.is_truthy(refused(program.decode, program, ("\1\0\0\0"):rep(10001), 1, c.LITTLE):find "nested more than 10000 levels deep")
    assert.is_table(program:decode(("\1\0\0\0"):rep(9999) .. "\0\0\0\0", 1, c.LITTLE))
    assert.same({ n = {} }, program:decode("\0\0\0\0", 1, c.LITTLE))
  end)

  it("refuses kinds it doesn't have, by their names, and another code set", function()
    for _, t in ipairs { T.any, T.TypeCode, T.wchar, T.wstring, T.longdouble, { kind = "fixed", digits = 3, scale = 1 }, c.object,
                         c.union("U", T.long, { 1, "a", T.long }) } do
      local ok, e = pcall(generate.program, { c.seq(c.struct("S", { "m", t })) })
      assert.is_false(ok)
      assert.equal(("generated marshalling has no values of kind '%s': use a program of mare.orb.cdr"):format(t.kind), e)
    end
    local ok, e = pcall(generate.program({ T.string }).encode, generate.program({ T.string }), c.LATIN, "x")
    assert.same({ false, "generated marshalling sends text in UTF-8 only" }, { ok, e })
  end)

  it("lets nothing of a type's names become code", function()
    local name = 'x"] = os.exit(1) --\n]]'
    local S = c.struct(name, { name, T.long, "end", c.enum("E", name) })
    local program, v = generate.program { S }, { [name] = 5, ["end"] = name }
    assert.same(v, program:decode(program:encode(c.LITTLE, v), 1, c.LITTLE))
  end)
end)
