-- References, whole requests and replies, programs and environments as such.
local c = require "spec.support.cdr"
local cdr = require "mare.orb.cdr"
local core = require "mare.orb.giop.core"
local T, both, unsent, unread = c.T, c.both, c.unsent, c.unread

-- A canonical IOR: type id "IDL:A:1.0", a profile of 3 octets, one of none.
local IOR = c.bytes "01 000000 0a000000 49444c3a413a312e3000 0000 02000000 00000000 03000000 616263 00 07000000 00000000"
local LITTLE = c.bytes "0a000000 49444c3a413a312e3000 0000 02000000 00000000 03000000 616263 00 07000000 00000000"
local BIG = c.bytes "0000000a 49444c3a413a312e3000 0000 00000002 00000000 00000003 616263 00 00000007 00000000"

describe("references", function()
  local A = { kind = "interface", id = "IDL:A:1.0", name = "A" }
  local asked
  local function environment()
    asked = {}
    return c.environment {
      reference_in = function(ior, T2) asked[#asked + 1] = T2 return { ior = ior } end,
      reference_out = function(value, T2) asked[#asked + 1] = T2 return value.ior end,
    }
  end

  it("are IORs, byte for byte, in both orders", function()
    local env = environment()
    assert.equal(c.hex(LITTLE), c.hex(c.encode(A, c.LITTLE, { ior = IOR }, env)))
    assert.equal(c.hex(BIG), c.hex(c.encode(A, c.BIG, { ior = IOR }, env)))
    assert.equal(c.hex(IOR), c.hex(c.decode(A, c.LITTLE, LITTLE, env).ior))
    assert.equal(c.hex(IOR), c.hex(c.decode(A, c.BIG, BIG, env).ior))
    for i = 1, 4 do assert.equal(A, asked[i]) end
    assert.equal(c.hex(IOR), c.hex(c.decode(A, c.LITTLE, (LITTLE:gsub("abc\0", "abc\255")), env).ior))    -- what the padding holds doesn't matter
  end)

  it("are asked for by the type behind the aliases", function()
    local env = environment()
    c.encode(c.alias("B", c.alias("C", A)), c.LITTLE, { ior = IOR }, env)
    c.decode(c.alias("B", A), c.LITTLE, LITTLE, env)
    assert.same({ A, A }, asked)
  end)

  it("are nil without type id and profiles", function()
    both(A, nil, "01000000 00 000000 00000000", "00000001 00 000000 00000000")
    local env = environment()
    assert.is_table(c.decode(A, c.LITTLE, c.bytes "02000000 4100 0000 00000000", env))
  end)

  it("that are known ask nobody", function()
    local env = environment()
    local value = {}
    env.iors[value] = IOR
    env.proxies[IOR] = value
    for _ = 1, 3 do
      assert.equal(LITTLE, c.encode(A, c.LITTLE, value, env))
      assert.equal(BIG, c.encode(A, c.BIG, value, env))
      assert.equal(value, c.decode(A, c.LITTLE, LITTLE, env))
      assert.equal(value, c.decode(A, c.BIG, BIG, env))
    end
    assert.same({}, asked)
    local program = env:program { c.seq(A) }
    local many = { n = 300 }
    for i = 1, 300 do
      local v, ior = {}, (IOR:gsub("abc", ("%03d"):format(i)))
      many[i], env.iors[v], env.proxies[ior] = v, ior, v
    end
    for _ = 1, 2 do
      local back = program:decode(program:encode(c.LITTLE, many), 1, c.LITTLE)
      for i = 1, 300 do assert.equal(many[i], back[i]) end
    end
  end)

  it("are forgotten with their values", function()
    local env = environment()
    env.proxies[IOR] = {}
    env.iors[{}] = IOR
    collectgarbage() collectgarbage()
    assert.is_nil(next(env.proxies))
    assert.is_nil(next(env.iors))
  end)

  it("go into an any as CORBA::Object when they are known", function()
    local env = environment()
    local value = setmetatable({}, { __index = error })
    env.iors[value], env.proxies[IOR] = IOR, value
    local back = c.decode(T.any, c.LITTLE, c.encode(T.any, c.LITTLE, value, env), env)
    assert.same({ "interface", "IDL:omg.org/CORBA/Object:1.0" }, { back._anytype.kind, back._anytype.id })
    assert.equal(value, back._anyval)
  end)

  it("are refused when nobody knows them, or they are no IOR", function()
    unsent(A, {}, "value: object reference expected, got table")
    unsent(A, 5, "value: object reference expected, got 5")
    local env = environment()
    local e = c.refused(c.encode, c.seq(A), c.LITTLE, { { ior = IOR }, {} }, env)
    assert.same({ name = "INV_OBJREF", minor = 0, text = "value[2]: the reference has no canonical IOR" }, e)
    e = c.refused(c.encode, A, c.BIG, { ior = IOR:sub(1, -6) }, env)
    assert.equal("INV_OBJREF", e.name)
    env = c.environment { reference_out = function() error({ "mine" }, 0) end }
    assert.same({ "mine" }, c.refused(c.encode, A, c.LITTLE, {}, env))
    unread(A, "0a000000 49444c3a413a312e3000 0000 ffffffff 00000000 03000000", "more profiles than bytes")
    unread(A, "0a000000 49444c3a413a312e3000 0000 01000000 00000000 04000000 616263", "end before")
    unread(A, "0a000000 49444c3a413a312e3041 0000 00000000", "without the zero")
  end)

  it("may be made by functions that marshal and collect", function()
    local env
    env = c.environment { reference_out = function(v)
      collectgarbage()
      assert(#env:program({ T.string }):encode(c.LITTLE, ("x"):rep(100000)) == 100005)
      return v.ior
    end }
    local program = env:program { T.string, A, T.string }
    local ok = program:encode(c.LITTLE, "before", { ior = IOR }, "after")
    assert.equal(c.hex(c.bytes "07000000" .. "before\0\0" .. LITTLE .. c.bytes "06000000" .. "after\0"), c.hex(ok))
  end)
end)

describe("requests", function()
  local HEAD = "GIOP\1\2\1\0....IDEN" .. ("h"):rep(10)

  it("are the head with id and size, padded to 8 where there are values", function()
    local program = c.env:program { T.octet, T.double }
    local got = program:request(HEAD, 12, 0x01020304, c.LITTLE, 5, 1.0)
    local body = ("\0"):rep(6) .. "\5" .. ("\0"):rep(7) .. string.pack("<d", 1)
    assert.equal(c.hex("GIOP\1\2\1\0" .. "\36\0\0\0" .. "\4\3\2\1" .. ("h"):rep(10) .. body), c.hex(got))
    assert.same({ 5, 1.0 }, { program:decode(got, 33, c.LITTLE) })
    assert.equal(#HEAD, #c.env:program({}):request(HEAD, 12, 1, c.LITTLE))
    assert.equal("\14\0\0\0", c.env:program({}):request(HEAD, 12, 1, c.LITTLE):sub(9, 12))
  end)

  it("of GIOP 1.0 and 1.1 have no padding but what the values need", function()
    local program = c.env:program { T.octet, T.double }
    local got = program:request(HEAD, 12, 1, c.ONE_ONE, 5, 1.0)
    assert.equal(c.hex("\5" .. ("\0"):rep(5) .. string.pack("<d", 1)), c.hex(got:sub(#HEAD + 1)))
  end)

  it("refuse a head that is none", function()
    local program = c.env:program {}
    assert.has_error(function() program:request("short", 12, 1, c.LITTLE) end)
    assert.has_error(function() program:request(HEAD, 24, 1, c.LITTLE) end)
    assert.has_error(function() program:request(HEAD, -1, 1, c.LITTLE) end)
    assert.has_error(function() program:request(HEAD, 12, 1, 6) end)
  end)
end)

describe("replies", function()
  it("of GIOP 1.2 have id, status, contexts, and the body at a multiple of 8", function()
    local program = c.env:program { T.long }
    assert.equal(c.hex(c.bytes "47494f50 01020101 10000000 07000000 00000000 00000000 2a000000"), c.hex(program:reply(7, c.LITTLE, 0, nil, 42)))
    assert.equal(c.hex(c.bytes "47494f50 01020001 00000010 00000007 00000000 00000000 0000002a"), c.hex(program:reply(7, c.BIG, 0, nil, 42)))
    assert.equal(c.hex(c.bytes "47494f50 01020101 0c000000 07000000 03000000 00000000"), c.hex(c.env:program({}):reply(7, c.LITTLE, 3)))
    assert.equal(c.hex(c.bytes "47494f50 01020101 17000000 07000000 01000000 01000000 05000000 03000000 616263"),
                 c.hex(c.env:program({}):reply(7, c.LITTLE, 1, { { 5, "abc" } })))
  end)

  it("of GIOP 1.0 and 1.1 have the contexts first", function()
    local program = c.env:program { T.octet }
    assert.equal(c.hex(c.bytes "47494f50 01010101 0d000000 00000000 07000000 00000000 2a"), c.hex(program:reply(7, c.ONE_ONE, 0, nil, 42)))
    assert.equal(c.hex(c.bytes "47494f50 01000101 18000000 01000000 05000000 01000000 78 000000 07000000 00000000"),
                 c.hex(c.env:program({}):reply(7, c.ONE_ZERO, 0, { { 5, "x" } })))
  end)

  it("carry exceptions", function()
    local X = c.struct("X", { "n", T.long }, "except")
    local got = c.env:program({ X }):reply(1, c.LITTLE, 1, nil, { n = 5 })
    assert.equal(c.hex(c.bytes "0a000000 49444c3a583a312e3000 0000 05000000"), c.hex(got:sub(25)))
    assert.same({ n = 5, _repid = "IDL:X:1.0" }, c.env:program({ X }):decode(got, 25, c.LITTLE))
  end)

  it("refuse contexts that are none", function()
    local program = c.env:program {}
    assert.has_error(function() program:reply(1, c.LITTLE, 0, { 5 }) end)
    assert.has_error(function() program:reply(1, c.LITTLE, 0, { { "x", 5 } }) end)
    assert.has_error(function() program:reply(1, c.LITTLE, 0, 5) end)
    for _, id in ipairs { -1, 1 << 32 } do
      local text = "service context 2 must be { id, data }: a number and a string"
      assert.has_error(function() program:reply(1, c.LITTLE, 0, { { 1, "x" }, { id, "x" } }) end, text)
      assert.has_error(function() core.reply(2, true, 1, 0, { { 1, "x" }, { id, "x" } }) end, text)
    end
  end)
end)

describe("programs", function()
  it("take as many values as they have types", function()
    local program = c.env:program({ T.octet, T.any }, { "a", "b" })
    assert.equal("\1\0\0\0\0\0\0\0", program:encode(c.LITTLE, 1))
    assert.equal("\1\0\0\0\0\0\0\0", program:encode(c.LITTLE, 1, nil, 3, 4))
    assert.equal("a: octet expected, got nil", c.refused(program.encode, program, c.LITTLE).text)
    assert.equal(0, select("#", c.env:program({}):decode("", 1, c.LITTLE)))
  end)

  it("refuse to begin behind the end", function()
    local program = c.env:program { T.octet }
    assert.equal("MARSHAL", c.refused(program.decode, program, "abc", 5, c.LITTLE).name)
    assert.equal(99, program:decode("abc", 3, c.LITTLE))
    assert.has_error(function() program:decode("abc", 0, c.LITTLE) end)
  end)

  it("outlive the names of their types and their environment", function()
    local program
    local number = os.time()                       -- the texts made of it are nobody else's
    do
      local env = c.environment()
      program = env:program({ c.struct("S", { "member_" .. number, T.long }) }, { "v" .. number })
    end
    collectgarbage() collectgarbage()
    assert.equal("\5\0\0\0", program:encode(c.LITTLE, { ["member_" .. number] = 5 }))
  end)

  it("are nothing else", function()
    local program = c.env:program {}
    assert.has_error(function() program.encode(c.env, 0) end)
    assert.has_error(function() program.encode(io.stdout, 0) end)
    assert.has_error(function() program.encode({}, 0) end)
    assert.has_error(function() c.env.program(program, {}) end)
    assert.has_error(function() c.env:program({ 5 }) end)
    assert.has_error(function() c.env:program({ T.long }, {}) end)
    assert.has_error(function() cdr.environment { fail = 5 } end)
  end)

  it("refuse native types", function()
    unsent({ kind = "native", id = "IDL:V:1.0", name = "V" }, {}, "value: values of kind 'native' can't be sent", c.LITTLE, "NO_IMPLEMENT")
    unread({ kind = "native", id = "IDL:V:1.0", name = "V" }, "00", "can't be received", c.LITTLE, "NO_IMPLEMENT")
  end)

  it("tell their failure function what the call has done, as the codec says", function()
    local told
    local env = require "mare.orb.cdr".environment { fail = function(_, _, _, done) told = done error("failed", 0) end }
    local program = env:program { T.any }
    for bits, done in pairs { [0] = "COMPLETED_NO", [512] = "COMPLETED_YES", [1024] = "COMPLETED_MAYBE" } do
      for _, bytes in ipairs { "", "\21\0\0\0\24\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0" } do
        assert.is_false((pcall(program.decode, program, bytes, 1, c.LITTLE | bits)))
        assert.equal(done, told)
      end
    end
    assert.is_false((pcall(program.encode, program, c.LITTLE, print)))
    assert.equal("COMPLETED_NO", told)
  end)

  it("work without a failure function", function()
    local program = cdr.environment():program { T.octet }
    local ok, e = pcall(program.encode, program, c.LITTLE, "x")
    assert.same({ false, "BAD_PARAM: value: octet expected, got 'x'" }, { ok, e })
  end)
end)
