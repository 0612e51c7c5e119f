-- Types and values that answer otherwise when they are asked again, metamethods that collect, marshal and drop what is being written, types that
-- were changed or never finished, TypeCodes that claim: values or errors, and nothing else.
-- needs: plain or asan
local mare = require "mare"
local c = require "spec.support.cdr"
local proc = require "spec.support.proc"
local T, both, unsent, unread = c.T, c.both, c.unsent, c.unread

-- Whatever was garbage is written over.
local function collect()
  collectgarbage() collectgarbage()
  local last
  for i = 1, 200 do last = { i, ("%d"):format(i):rep(20), { kind = i } } end
  return last
end

local function fails(what, f, ...)
  local ok, e = pcall(f, ...)
  e = type(e) == "table" and e.text or tostring(e)
  assert.is_true(not ok and e:find(what, 1, true) ~= nil, e)
end

describe("a type whose compilation failed", function()
  it("is no part of another, either", function()
    local env = c.environment()
    local node = c.struct("Node", {})
    local list = c.seq(node)
    node.members = { { name = "next", type = list }, { name = "last", type = { kind = "nonsense" } } }
    for _, type in ipairs { node, list, c.seq(list), node } do
      fails("no kind is called 'nonsense'", env.program, env, { type })
    end
    node.members[2].type = T.octet
    assert.equal(c.bytes "01000000 00000000 05", c.encode(list, c.LITTLE, { { next = {}, last = 5 } }, env))
    assert.same({ { next = { { next = {}, last = 1 } }, last = 2 } },
                c.decode(list, c.LITTLE, c.bytes "01000000 01000000 00000000 01 02", env))
  end)
end)

describe("values that change while they are written", function()
  local S = c.struct("S", { "a", T.string, "b", T.string })

  it("drop the type of an any", function()
    local any = {}
    any._anytype = c.struct("Dropped", { "a", T.long, "b", T.octet })
    any._anyval = setmetatable({ b = 2 }, { __index = function()
      any._anytype = nil
      collect()
      for i = 1, 300 do c.env:program { c.struct("Other" .. i, { "y", T.boolean, "z", T.wstring }) } end
      return 1
    end })
    local bytes = c.encode(T.any, c.LITTLE, any)
    assert.same({ a = 1, b = 2 }, c.decode(T.any, c.LITTLE, bytes)._anyval)
  end)

  it("drop the value of an any while its type is read", function()
    local any = { _anyval = { a = ("x"):rep(50) } }
    any._anytype = setmetatable({ kind = "struct", id = "IDL:X:1.0", members = { { name = "a", type = T.string } } }, { __index = function()
      any._anyval = { a = "another" }
      collect()
    end })
    assert.equal("another", c.decode(T.any, c.LITTLE, c.encode(T.any, c.LITTLE, any))._anyval.a)
  end)

  it("drop the discriminator of a union", function()
    local E = c.enum("E", "first", "second_label_of_it")
    local U = c.union("U", E, { "second_label_of_it", "x", T.long }, { "first", "y", T.long })
    local value = { _switch = "second_label_" .. "of_it", _value = 7 }
    setmetatable(value, { __index = function(t, key)
      if key == "_field" then t._switch = "fir" .. "st" collect() end
    end })
    assert.same({ _switch = "first", _field = "y", _value = 7 }, c.decode(U, c.LITTLE, c.encode(U, c.LITTLE, value)))
  end)

  it("shrink and grow the list they are in", function()
    local list = {}
    for i = 1, 100 do list[i] = { a = "a" .. i, b = "b" .. i } end
    list[50] = setmetatable({ a = "a" }, { __index = function()
      for i = #list, 2, -1 do list[i] = nil end
      for i = 1000, 1100 do list[i] = i end
      collect()
      return "b"
    end })
    unsent(c.seq(S), list, "value[51]: S expected, got nil")
    local few = { setmetatable({ a = "a" }, {}) , { a = "x", b = "y" } }
    getmetatable(few[1]).__index = function()
      for i = 3, 500 do few[i] = { a = "more", b = "more" } end
      return "b"
    end
    assert.same({ { a = "a", b = "b" }, { a = "x", b = "y" } }, c.decode(c.seq(S), c.LITTLE, c.encode(c.seq(S), c.LITTLE, few)))
  end)

  it("fail twice: the first failure is the one", function()
    local two = c.struct("Two", { "a", T.any, "b", T.any })
    local ok, e = pcall(c.encode, two, c.LITTLE, setmetatable({}, { __index = function(_, key) error({ key }, 0) end }))
    assert.same({ false, { "a" } }, { ok, e })
  end)

  it("yield: that is an error, and harms nothing", function()
    local value = setmetatable({ a = "x" }, { __index = function() coroutine.yield() return "y" end })
    local co = coroutine.wrap(function() return pcall(c.encode, S, c.LITTLE, value) end)
    local ok, e = co()
    assert.is_true(not ok and tostring(e):find "attempt to yield" ~= nil, tostring(e))
    assert.equal(c.encode(S, c.LITTLE, { a = "x", b = "y" }), c.encode(S, c.LITTLE, { a = "x", b = "y" }))
  end)

  it("wait, while others marshal", function()
    local value = setmetatable({ a = ("x"):rep(100) }, { __index = function() mare.sleep(0.02) return "y" end })
    local other = mare.process.spawn(function()
      local cdr = require "mare.orb.cdr"                   -- luacheck: ignore
      local program = cdr.environment():program { { kind = "string" } }
      for _ = 1, 2000 do assert(#program:encode(29, ("z"):rep(300)) == 305) end
    end)
    local plain = c.encode(S, c.LITTLE, { a = ("x"):rep(100), b = "y" })
    for _ = 1, 3 do assert.equal(plain, c.encode(S, c.LITTLE, value)) end
    assert(other:wait(60))
  end)

  it("have a length that is none", function()
    local fields = {}
    for i = 0, 33 do fields[#fields + 1] = ("[%d] = false"):format(1 << i) end
    local list = load("return {" .. table.concat(fields, ", ") .. "}")()
    assert.equal(1 << 33, #list)                           -- with nothing in an array
    local null = { kind = "sequence", element = T.null }
    fails("a list too long", c.encode, c.seq(T.any), c.LITTLE, list)
    assert.equal("\2\0\0\0", c.encode(null, c.LITTLE, setmetatable({ n = 2 }, { __len = function() return 1 << 40 end })))
  end)
end)

describe("types with metamethods", function()
  it("may marshal and collect while their TypeCode is written", function()
    local plain = c.struct("Inherits", { "a", T.long, "b", T.string })
    local strange = setmetatable({}, { __index = function(_, key)
      c.encode(T.string, c.BIG, ("garbage "):rep(3000))
      collect()
      return plain[key]
    end })
    for _, big in ipairs { false, true } do assert.equal(c.hex(c.env:typecode(plain, big)), c.hex(c.env:typecode(strange, big))) end
    local value = { a = 1, b = "x" }
    assert.equal(c.encode(T.any, c.LITTLE, { _anytype = plain, _anyval = value }), c.encode(T.any, c.LITTLE, { _anytype = strange, _anyval = value }))
  end)

  it("may answer otherwise the next time", function()
    for _, field in ipairs { "members", "labels" } do
      for other_from = 1, 6 do
        for _, other in ipairs { 5, "text", false, {}, { 5 }, { "x", "y", "z" }, { {} } } do
          local asked = 0
          local type = setmetatable({ id = "IDL:X:1.0", name = "X", discriminator = T.long, kind = field == "labels" and "enum" or "union" }, {
            __index = function(_, key)
              if key ~= field then return nil end
              asked = asked + 1
              if asked >= other_from then return other end
              return field == "labels" and { "a", "b" } or { { name = "a", label = 1, type = T.long }, { name = "b", label = 2, type = T.octet } }
            end })
          local env = c.environment()
          local ok, code = pcall(env.typecode, env, type)
          assert.is_true(not ok or #code >= 40)
          pcall(c.encode, T.any, c.LITTLE, { _anytype = type, _anyval = { a = 1 } }, env)
        end
      end
    end
  end)

  it("may compile themselves, well or not", function()
    local env, depth = c.environment(), 0
    local type = { kind = "struct", id = "IDL:Me:1.0" }
    setmetatable(type, { __index = function(_, key)
      depth = depth + 1
      if depth < 20 then pcall(env.program, env, { type }) end
      depth = depth - 1
      if key == "members" then return depth > 0 and 5 or { { name = "a", type = T.octet } } end
      return nil
    end })
    for _ = 1, 3 do
      local ok, bytes = pcall(c.encode, type, c.LITTLE, { a = 1 }, env)
      assert.is_true(not ok or bytes == "\1")
      ok, bytes = pcall(c.encode, T.any, c.LITTLE, { _anytype = type, _anyval = { a = 1 } }, env)
      assert.is_true(not ok or #bytes > 40, tostring(bytes))
    end
  end)

  it("may be aliases whose type they inherit", function()
    local asked
    local env = c.environment { reference_out = function(v, t) asked = t return v.ior end }
    local A = { kind = "interface", id = "IDL:A:1.0", name = "A" }
    local B = setmetatable({ kind = "alias", name = "B", id = "IDL:B:1.0" }, { __index = { type = A } })
    local ior = c.bytes "01 000000 02000000 4100 0000 00000000"
    assert.equal(ior:sub(5), c.encode(B, c.LITTLE, { ior = ior }, env))
    assert.equal(A, asked)
  end)
end)

describe("types that were changed after they had been used", function()
  local changes = {
    function(t) t.kind = "union" t.discriminator = T.long end,
    function(t) t.kind = "enum" end,
    function(t) t.kind = "enum" t.labels = { 5 } end,
    function(t) t.kind = "enum" t.labels = "abc" end,
    function(t) t.members = "abc" end,
    function(t) t.members = nil end,
    function(t) t.members[1] = 5 end,
    function(t) t.members[1].type = 5 end,
    function(t) t.members[1].type = t end,
    function(t) t.members[1].type = c.union("New", T.long, { 1, "x", T.octet }) end,
    function(t) for i = 3, 3000 do t.members[i] = { name = "m" .. i, label = i, type = T.octet } end end,
    function(t) t.kind = "alias" t.type = t end,
    function(t) t.kind = "alias" t.type = 5 end,
  }

  it("have a TypeCode or none", function()
    for _, change in ipairs(changes) do
      for _, make in ipairs { function() return c.struct("S", { "a", T.long, "b", T.octet }) end,
                              function() return c.union("U", T.long, { 1, "a", T.long }, { 2, "b", T.octet }) end } do
        local type, env = make(), c.environment()
        local program = env:program { type, T.any }
        change(type)
        pcall(env.typecode, env, type)
        pcall(program.encode, program, c.LITTLE, { a = 1, b = 2 }, { _anytype = type, _anyval = { a = 1, b = 2 } })
      end
    end
  end)

  it("are no way to write for ever", function()
    local A = { kind = "interface", id = "IDL:A:1.0", name = "A" }
    local env = c.environment { reference_out = function() return "" end }
    local program = env:program { A }
    A.kind, A.type = "alias", A
    fails("no canonical IOR", program.encode, program, c.LITTLE, {})
  end)
end)

describe("lengths that lie", function()
  it("claim the same bytes at every level of a TypeCode", function()
    local p = mare.process.spawn { memory = 24 << 20, main = function()
      local cdr, pack = require "mare.orb.cdr", string.pack    -- luacheck: ignore
      local code = ("\0"):rep(1 << 20)
      for _ = 1, 95 do
        local inside = "\1\0\0\0" .. pack("<I4", 1) .. "\0\0\0\0" .. pack("<I4", 1) .. "\0\0\0\0" ..
          pack("<I4", (#code + 8) // 8) .. pack("<I4", 1) .. "\0\0\0\0" .. code
        code = pack("<I4I4", 15, #inside) .. inside
      end
      local program = cdr.environment():program { { kind = "TypeCode" } }
      collectgarbage()
      return pcall(program.decode, program, code, 1, 29)
    end }
    local _, ok, e = p:wait(60)
    assert.is_false(ok)
    assert.is_truthy(tostring(e):find "^MARSHAL", tostring(e))
  end)

  it("are more than any number of bytes", function()
    local wide = T.octet
    for i = 1, 64 do wide = c.struct("W" .. i, { "a", wide, "b", wide }) end
    unread(c.seq(wide), "10000000" .. ("00"):rep(100), "longer than the bytes that are left")
    assert.equal("MARSHAL", c.refused(c.decode, T.any, c.LITTLE, c.env:typecode(c.seq(wide)) .. "\16\0\0\0" .. ("\0"):rep(100)).name)
    unread(c.seq(c.array(wide, 1 << 30)), "01000000" .. ("00"):rep(100), "longer than the bytes that are left")
  end)

  it("are refused in wide strings of GIOP 1.1, as twice them would fit", function()
    for _, length in ipairs { "01000080", "02000080", "00000080", "ffffff7f", "04000000" } do
      unread(T.wstring, length .. "61000000", "end before", c.ONE_ONE)
    end
    unread(T.wstring, "02000000 6100 6100", "without the zero", c.ONE_ONE)
  end)
end)

describe("what a peer makes us look for", function()
  local pack, LATE = string.pack, 10 * proc.slow

  local function enum(labels)
    local list = {}
    for i, label in ipairs(labels) do list[i] = pack("<s4", label .. "\0") .. ("\0"):rep(-(#label + 1) % 4) end
    local inside = "\1\0\0\0" .. ("\1\0\0\0\0\0\0\0"):rep(2) .. pack("<I4", #labels) .. table.concat(list)
    return pack("<I4I4", 17, #inside) .. inside
  end
  local function labels(n, make)
    local list = {}
    for i = 1, n do list[i] = make(i) end
    return list
  end
  local function quick(f, ...)
    local began = os.clock()
    local result = f(...)
    assert.is_true(os.clock() - began < LATE, ("%.1f s"):format(os.clock() - began))
    return result
  end

  it("are labels of an enum that are all the same, or long", function()
    local same = quick(c.decode, T.TypeCode, c.LITTLE, enum(labels(300000, function() return "a" end)))
    assert.equal("a", quick(c.decode, same, c.LITTLE, pack("<I4", 299999)))
    assert.equal(pack("<I4", 0), c.encode(same, c.LITTLE, "a"))
    local long = quick(c.decode, T.TypeCode, c.LITTLE, enum(labels(100000, function(i) return ("%048d"):format(i) end)))
    local values = labels(100000, function(i) return ("%048d"):format(i) end)
    local bytes = quick(c.encode, c.seq(long), c.LITTLE, values)
    assert.equal(pack("<I4I4I4", 100000, 0, 1), bytes:sub(1, 12))
    assert.equal(pack("<I4", 99999), bytes:sub(-4))
    assert.equal(pack("<I4", 7), c.encode(c.alias("A", c.alias("B", long)), c.LITTLE, ("%048d"):format(8)))
    unsent(long, ("x"):rep(60), "value: a label of enum  expected, got '" .. ("x"):rep(27) .. "...'")
  end)

  it("are types that are long when they are written, under a name we know", function()
    local known = c.struct("Known", { "a", T.long })
    local function text(s) return pack("<s4", s .. "\0") .. ("\0"):rep(-(#s + 1) % 4) end
    local function nested(level, name)                     -- two members, the second is an indirection to the first
      local head = "\1\0\0\0" .. text(level == 0 and known.id or "") .. text(name) .. pack("<I4", 2) .. text "a"
      local first = level == 10 and pack("<I4I4I4I4I4", 19, 12, 1, 10, 0) or nested(level + 1, "")
      local second = text "b" .. pack("<I4", 0xffffffff)
      local body = head .. first .. second .. pack("<i4", -#first - #second)
      return pack("<I4I4", 15, #body) .. body
    end
    local codes = {}
    for i = 1, 1000 do codes[i] = nested(0, ("n%06d"):format(i)) end
    local bytes, took = pack("<I4", #codes) .. table.concat(codes), {}
    for i, resolve in ipairs { function() return nil end, function() return known end } do
      local program = c.environment({ resolve = resolve }):program { c.seq(T.TypeCode) }
      local began = os.clock()
      assert.equal(1000, #program:decode(bytes, 1, c.LITTLE))
      took[i] = os.clock() - began
    end
    assert.is_true(took[2] < 5 * took[1] + 0.5 * proc.slow, ("%.2f s, %.2f s"):format(table.unpack(took)))
  end)

  it("are labels of a union among those of its enum", function()
    local names = labels(50000, function(i) return ("%048d"):format(i) end)
    local E, cases = c.enum("E"), {}
    E.labels = names
    for i = 1, 50000 do cases[i] = { label = names[50001 - i], name = "m" .. i, type = T.octet } end
    local U = { kind = "union", id = "IDL:U:1.0", name = "U", discriminator = E, members = cases }
    assert.equal(pack("<I4", 49999) .. "\1", quick(c.encode, U, c.LITTLE, { m1 = 1 }))
  end)

  it("are members of a union by the name it came with", function()
    local cases = {}
    for i = 1, 60000 do cases[i] = { label = i, name = ("member_%05d"):format(i), type = T.octet } end
    local U = { kind = "union", id = "IDL:U:1.0", name = "U", discriminator = T.long, members = cases }
    local bytes = pack("<I4", 60000) .. (pack("<I4", 60000) .. "\1\0\0\0"):rep(60000):sub(1, -4)
    local values = c.decode(c.seq(U), c.LITTLE, bytes)
    assert.equal("member_60000", values[1]._field)
    assert.is_true(bytes == quick(c.encode, c.seq(U), c.LITTLE, values))
  end)
end)

describe("values at the edge", function()
  it("nest as deeply one way as the other", function()
    local deepest
    local value = { _anytype = T.long, _anyval = 1 }
    for depth = 1, 20010 do
      local near = depth < 300 or depth > 19990
      local ok, bytes = true, nil
      if near then ok, bytes = pcall(c.encode, T.any, c.LITTLE, value) end
      if not ok then break end
      deepest = depth
      if near then assert.same({ true }, { (pcall(c.decode, T.any, c.LITTLE, bytes)) }) end
      value = { _anytype = T.any, _anyval = value }
    end
    assert.equal(20000, deepest)
  end)

  it("may be what we would not send", function()
    assert.same({ true, true, false }, c.decode(c.seq(T.boolean), c.LITTLE, c.bytes "03000000 02 ff 00"))
    assert.equal("a\0b", c.decode(T.string, c.LITTLE, c.bytes "04000000 61006200"))
    assert.equal("\0", c.decode(T.wstring, c.LITTLE, c.bytes "02000000 0000"))
  end)

  it("have no fixed without digits", function()
    fails("no number from 1 to 31", c.encode, { kind = "fixed", digits = 0, scale = 0 }, c.LITTLE, "0")
    fails("no number from 0 to 2147483647", c.encode, { kind = "array", element = T.long, length = 1 << 31 }, c.LITTLE, {})
    fails("no number from 0 to 4294967295", c.encode, c.bounded("string", -1), c.LITTLE, "")
    both({ kind = "fixed", digits = 2, scale = 0 }, "-7", "007d", "007d")
    unread({ kind = "fixed", digits = 2, scale = 0 }, "107c", "decimal digits")
    unread({ kind = "fixed", digits = 3, scale = 0 }, "1a7c", "decimal digits")
    unread({ kind = "fixed", digits = 3, scale = 0 }, "1270", "decimal digits")
  end)
end)
