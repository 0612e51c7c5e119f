-- Types far inside other types, and their TypeCodes: as many levels as the documentation says, of every kind, on threads with little stack, at a cost
-- that grows with their bytes.
-- needs: plain or asan
local mare = require "mare"
local c = require "spec.support.cdr"
local nest = require "spec.support.nest"
local proc = require "spec.support.proc"
local T = c.T

local LEVELS = 10000
local LONG = "\3\0\0\0"
local MIXED = "stluasltas"

local function mixed(n) return (MIXED:rep(n // #MIXED + 1)):sub(1, n) end

-- The same as a table of types, innermost first.
local function type_of(letters)
  local t = T.long
  for i = #letters, 1, -1 do
    local letter = letters:sub(i, i)
    if letter == "s" then t = { kind = "sequence", element = t }
    elseif letter == "a" then t = { kind = "array", element = t, length = 1 }
    elseif letter == "l" then t = { kind = "alias", id = "", name = "", type = t }
    elseif letter == "u" then
      t = { kind = "union", id = "", name = "", discriminator = T.long, members = { { name = "m", label = 7, type = t } } }
    else t = { kind = letter == "t" and "struct" or "except", id = "", name = "", members = { { name = "m", type = t } } }
    end
  end
  return t
end

describe("TypeCodes in each other", function()
  for _, n in ipairs { 99, 100, 101, 5000, LEVELS } do
    it(("of %d levels are read, and written as they were"):format(n), function()
      for letter in ("satulx"):gmatch "." do
        local bytes = nest.typecode(letter:rep(n), LONG)
        local t = c.decode(T.TypeCode, c.LITTLE, bytes)
        assert.is_true(bytes == c.encode(T.TypeCode, c.LITTLE, t), letter)
      end
      local bytes = nest.typecode(mixed(n), LONG)
      local t = c.decode(T.TypeCode, c.LITTLE, bytes)
      local big = c.encode(T.TypeCode, c.BIG, t)
      assert.is_true(bytes == c.encode(T.TypeCode, c.LITTLE, c.decode(T.TypeCode, c.BIG, big)))
    end)

    it(("of %d levels are those of the tables that describe them, and their values go in anys"):format(n), function()
      local letters = mixed(n)
      local t = type_of(letters)
      assert.is_true(nest.typecode(letters, LONG) == c.environment():typecode(t))
      local value = 5
      for i = n, 1, -1 do
        local letter = letters:sub(i, i)
        if letter == "s" or letter == "a" then value = { value }
        elseif letter == "t" then value = { m = value }
        elseif letter == "u" then value = { _switch = 7, _field = "m", _value = value }
        end
      end
      local bytes = c.encode(T.any, c.LITTLE, { _anytype = t, _anyval = value })
      local back = c.decode(T.any, c.LITTLE, bytes)
      assert.is_true(bytes == c.encode(T.any, c.LITTLE, back))
      local v = back._anyval
      while type(v) == "table" do v = v[1] or v.m or v._value end
      assert.equal(5, v)
    end)
  end

  it("with one level more are refused, wherever they come from", function()
    for letter in ("satulx"):gmatch "." do
      local e = c.refused(c.decode, T.TypeCode, c.LITTLE, nest.typecode(letter:rep(LEVELS + 1), LONG))
      assert.same({ "BAD_TYPECODE", true }, { e.name, e.text:find "a TypeCode nested more than 10000 levels deep" ~= nil })
      local t = type_of(letter:rep(LEVELS + 1))
      for _, f in ipairs { function() c.env:program { t } end, function() c.env:typecode(t) end } do
        local ok, text = pcall(f)
        assert.is_true(not ok and tostring(text):find "bad type: nested more than 10000 levels deep" ~= nil, tostring(text))
      end
    end
  end)

  it("say where far inside they are wrong, and end where their bytes do", function()
    c.unread(T.TypeCode, c.hex(nest.typecode(("s"):rep(3000), "\99\0\0\0")), "no known kind (at byte 36005)")
    local bytes = nest.typecode(mixed(3000), LONG)
    for _, cut in ipairs { 1, 4, #bytes // 3, #bytes // 2, #bytes - 4 } do
      assert.equal("MARSHAL", c.refused(c.decode, T.TypeCode, c.LITTLE, bytes:sub(1, -cut - 1)).name)
    end
  end)

  it("reach out of any depth by indirections: types that recur, and parts that were met", function()
    local n = 5000
    local letters = ("t"):rep(n) .. "s"
    local inner = #nest.typecode(letters, LONG) - 8               -- where the element of the innermost sequence begins
    local bytes = nest.typecode(letters, string.pack("<I4i4", 0xffffffff, -inner - 4))
    local t = c.decode(T.TypeCode, c.LITTLE, bytes)
    local inside = t
    for _ = 1, n do inside = inside.members[1].type end
    assert.equal("sequence", inside.kind)
    assert.equal(t, inside.element)
    assert.is_true(bytes == c.encode(T.TypeCode, c.LITTLE, t))
    local empty = {}
    for _ = 1, n do empty = { m = empty } end
    assert.equal("\0\0\0\0", c.encode(t, c.LITTLE, empty))
    for _, off in ipairs { -inner, -inner - 8, 4 } do
      local e = c.refused(c.decode, T.TypeCode, c.LITTLE, nest.typecode(letters, string.pack("<I4i4", 0xffffffff, off)))
      assert.equal("BAD_TYPECODE", e.name)
    end
  end)
end)

describe("what deep types cost", function()
  -- CPU time, the least of some, as other programs run, too.
  local function least(f, ...)
    local best = math.huge
    for _ = 1, 5 do
      collectgarbage()
      local began = os.clock()
      f(...)
      best = math.min(best, os.clock() - began)
    end
    return best
  end

  it("grows with their bytes, not with their square: to read, to compile, to write", function()
    for letter in ("satulx"):gmatch "." do
      local small, large = nest.typecode(letter:rep(LEVELS // 4), LONG), nest.typecode(letter:rep(LEVELS), LONG)
      local function read(bytes)
        local env = c.environment()
        env:typecode(c.decode(T.TypeCode, c.LITTLE, bytes, env), true)
      end
      local few, many = least(read, small), least(read, large)
      assert.is_true(many < 10 * few + 0.02, ("%s: %.4f s, %.4f s"):format(letter, few, many))
    end
  end)

  it("is no more memory than 400 times their bytes", function()
    local bytes = nest.typecode(mixed(LEVELS), LONG)
    local claims = string.pack("<I4", 1)                         -- each level says that all bytes that are left are its members
    local lying = {}
    local empty = claims .. "\0\0\0\0"
    for i = 1, LEVELS do
      local left = (LEVELS - i) * 36
      lying[i] = "\15\0\0\0" .. string.pack("<I4", left + 32) .. "\1\0\0\0" .. empty .. empty .. string.pack("<I4", (left + 12) // 8) .. empty
    end
    lying = table.concat(lying) .. LONG
    for _, code in ipairs { bytes, lying } do
      local p = mare.process.spawn { memory = 400 * #code, main = function()
        local cdr = require "mare.orb.cdr"                        -- luacheck: ignore
        local program = cdr.environment():program { { kind = "TypeCode" } }
        return pcall(program.decode, program, code, 1, 29)
      end }
      local _, ok, e = p:wait(60)
      assert.is_true(ok or tostring(e):find "^MARSHAL" ~= nil or tostring(e):find "^BAD_TYPECODE" ~= nil, tostring(e))
    end
  end)

  it("is one step for a reference, however many names its interface has", function()
    local asked = 0
    local code = nest.typecode(("l"):rep(LEVELS - 2), "\14\0\0\0\20\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0")
    local env = c.environment { reference_in = function(_, t) asked = asked + (t.kind == "interface" and 1 or 0) return asked end }
    local ior = "\2\0\0\0A\0\0\0\0\0\0\0"
    local n = 20000
    local sequence = nest.typecode("s", code)
    local began = os.clock()
    c.decode(T.any, c.LITTLE, sequence .. string.pack("<I4", n) .. ior:rep(n), env)
    assert.is_true(os.clock() - began < 10 * proc.slow)
    assert.equal(n, asked)
  end)

  it("is no stack of C's: a process on a thread with 64 KiB reads, compiles and writes them", function()
    local script = ([[
      local mare = require "mare"
      package.path = "./?.lua;" .. package.path
      local p = mare.process.spawn(function(code)
        local cdr = require "mare.orb.cdr"
        local p = cdr.environment():program { { kind = "TypeCode" } }
        local t = p:decode(code, 1, 29)
        assert(p:encode(29, t) == code)
        print("levels in", #code)
      end, require "spec.support.nest".typecode(("%s"):rep(%d), "\3\0\0\0"))
      assert(p:wait())
    ]]):format(MIXED, LEVELS // #MIXED)
    local kib = ({ asan = 512, tsan = 1024 })[proc.config] or 64      -- with less the sanitizers' programs don't even begin
    local r = proc.with_file(script, function(name)
      return proc.run { "sh", "-c", ('ulimit -s %d && exec "$0" run "$1"'):format(kib), proc.bin, name }
    end)
    assert.equal(0, r.code, ("signal %s: %s"):format(tostring(r.signal), r.err))
    assert.is_truthy(r.out:find "^levels in%s+%d+")
  end)
end)
