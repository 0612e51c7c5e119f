-- Values far inside other values: as many levels as the documentation says, of every kind, on threads with little stack, with the bytes and the
-- errors that the same values have elsewhere.
-- needs: plain or asan
local c = require "spec.support.cdr"
local proc = require "spec.support.proc"
local random = require "spec.support.cdr_random"
local T = c.T

local LEVELS = 20000

-- A tree of n nodes, each in the list of the one before it.
local function tree_type()
  local node = c.struct("Node", { "v", T.long })
  node.members[2] = { name = "children", type = c.seq(node) }
  return node
end
local function tree(n, last)
  local t = { v = last or n, children = {} }
  for i = n - 1, 1, -1 do t = { v = i, children = { t } } end
  return t
end
local function depth_of(t)
  local n = 0
  while t do
    n = n + 1
    assert(t.v == n)
    t = t.children[1]
  end
  return n
end

describe("a tree", function()
  local node = tree_type()

  for _, n in ipairs { 15, 16, 17, 150, 5000, LEVELS // 2 } do
    it(("of %d nodes in each other comes back as it was"):format(n), function()
      for _, codec in ipairs { c.LITTLE, c.BIG } do
        local bytes = c.encode(node, codec, tree(n))
        assert.equal(8 * n, #bytes)
        local back = c.decode(node, codec, bytes)
        assert.equal(n, depth_of(back))
        assert.is_true(bytes == c.encode(node, codec, back))
      end
    end)
  end

  it("with one node more than allowed is refused, with the limit and the place", function()
    local e = c.refused(c.encode, node, c.LITTLE, tree(LEVELS // 2 + 1))
    assert.equal("BAD_PARAM", e.name)
    assert.is_truthy(e.text:find "^value%.%.%.")
    assert.is_truthy(e.text:find "%.children%[1%]: nested more than 20000 levels deep$")
    c.unread(node, ("00000000 01000000"):rep(LEVELS // 2 + 1), "a value nested more than 20000 levels deep (at byte 80001)")
  end)

  it("says where far inside it is wrong", function()
    local e = c.refused(c.encode, node, c.LITTLE, tree(3000, "x"))
    assert.is_truthy(e.text:find "%.children%[1%]%.children%[1%]%.v: long expected, got 'x'$")
    c.unread(node, ("00000000 01000000"):rep(3000), "the bytes that are left (at byte 24001)")
    c.unread(node, ("00000000 01000000"):rep(2999) .. "00000000 02000000" .. ("00"):rep(15), "bytes that are left (at byte 24001)")
  end)

  it("whose nodes inherit their members is read through their metatables", function()
    local t = tree(100)
    local plain = c.encode(node, c.LITTLE, t)
    local function inherit(x)
      local children = x.children
      for i, child in ipairs(children) do children[i] = inherit(child) end
      return setmetatable({}, { __index = function(_, name)
        collectgarbage "step"
        return name == "v" and x.v or children
      end })
    end
    assert.equal(plain, c.encode(node, c.LITTLE, inherit(t)))
  end)

  it("may be written by a metamethod while another is being written", function()
    local inner = c.encode(node, c.LITTLE, tree(400))
    local function value()
      assert(c.encode(node, c.LITTLE, tree(400)) == inner)
      collectgarbage()
      return 1000
    end
    local t = setmetatable({ children = {} }, { __index = value })
    for i = 999, 1, -1 do t = { v = i, children = { t } } end
    assert.equal(1000, depth_of(c.decode(node, c.LITTLE, c.encode(node, c.LITTLE, t))))
    local failing = setmetatable({ children = {} }, { __index = function() error("no", 0) end })
    for i = 999, 1, -1 do failing = { v = i, children = { failing } } end
    local ok, e = pcall(c.encode, node, c.LITTLE, failing)
    assert.same({ false, "no" }, { ok, e })
    assert.equal(inner, c.encode(node, c.LITTLE, tree(400)))
  end)
end)

describe("values of every kind", function()
  -- 40 anys around it: their bytes are 40 times the kind of an any, and a multiple of 16.
  local LAYERS = 40
  local before = ("\11\0\0\0"):rep(LAYERS)
  local function wrap(v)
    for _ = 1, LAYERS do v = { _anytype = T.any, _anyval = v } end
    return v
  end
  local function unwrap(v)
    for _ = 1, LAYERS do v = v._anyval end
    return v
  end

  it("have the same bytes far inside as elsewhere", function()
    local deep = 0
    for seed = 1, 300 do
      local r = random.generator(seed)
      local t = random.type(r, 4)
      local v = { _anytype = t, _anyval = random.value(r, t, 5) }
      local flat, inside = c.encode(T.any, c.LITTLE, v), c.encode(T.any, c.LITTLE, wrap(v))
      assert.is_true(inside == before .. flat, "seed " .. seed)
      local back = unwrap(c.decode(T.any, c.LITTLE, inside))
      assert.is_true(random.same(v._anyval, back._anyval), "seed " .. seed)
      assert.is_true(c.encode(T.any, c.LITTLE, back) == flat, "seed " .. seed)
      if #flat > 8 then deep = deep + 1 end
    end
    assert.is_true(deep > 150)
  end)

  it("are refused there when the bytes end early", function()
    for seed = 1, 60 do
      local r = random.generator(seed)
      local t = random.type(r, 3)
      local bytes = c.encode(T.any, c.LITTLE, wrap { _anytype = t, _anyval = random.value(r, t, 4) })
      for n = #before, #bytes - 1, 1 + #bytes // 40 do
        assert.equal("MARSHAL", c.refused(c.decode, T.any, c.LITTLE, bytes:sub(1, n)).name)
      end
    end
  end)

  it("are exceptions, unions and anys without a value, too", function()
    local X = c.struct("X", { "n", T.long, "s", T.string }, "except")
    local U = c.union("U", T.long, { 1, "a", T.string }, { 2, "b", c.seq(T.any) })
    local object = { _anytype = X, _anyval = { n = 1, s = "s", _repid = X.id } }
    local none = { _anytype = U, _anyval = { _switch = 7 } }
    local list = { _anytype = U, _anyval = { _switch = 2, _field = "b", _value = { n = 4, object, nil, "text", none } } }
    for _, v in ipairs { object, none, list, 5, "text", true } do
      local inside = c.encode(T.any, c.LITTLE, wrap(v))
      assert.is_true(inside == before .. c.encode(T.any, c.LITTLE, v))
      assert.same(c.decode(T.any, c.LITTLE, c.encode(T.any, c.LITTLE, v)), unwrap(c.decode(T.any, c.LITTLE, inside)))
    end
  end)

  it("name the place of what is wrong", function()
    local U = c.union("U", T.long, { 1, "a", c.struct("S", { "l", c.seq(T.short) }) })
    local function wrong(v, text)
      local e = c.refused(c.encode, T.any, c.LITTLE, wrap(v))
      assert.equal("BAD_PARAM", e.name)
      assert.equal(text, e.text:sub(-#text))
    end
    wrong({ _anytype = U, _anyval = { _switch = 1, _value = { l = { 1, "x" } } } }, "_anyval._anyval.a.l[2]: short expected, got 'x'")
    wrong({ _anytype = U, _anyval = { _switch = "x" } }, "_anyval._anyval._switch: long expected, got 'x'")
    wrong({ _anytype = 5 }, "_anyval._anytype: a type expected, got 5")
    wrong({}, "_anyval: _anytype and _anyval, as this table needs a type expected, got table")
    wrong({ _anytype = c.array(T.any, 2), _anyval = { 1, {} } },
          "_anyval._anyval[2]: _anytype and _anyval, as this table needs a type expected, got table")
    wrong({ _anytype = c.seq(c.seq(T.long), 1), _anyval = { {}, {} } }, "_anyval._anyval: at most 1 elements expected, got 2")
  end)
end)

describe("messages that nest", function()
  it("take no more than their bytes are worth", function()
    local S = c.struct("Wide", {})
    for i = 1, 60 do S.members[i] = { name = "m" .. i, type = T.octet } end
    S.members[61] = { name = "next", type = c.seq(S) }
    local level = ("01"):rep(60) .. "01000000"
    collectgarbage()
    local start = collectgarbage "count"
    c.unread(S, level:rep(LEVELS // 2 + 1), "nested")
    c.unread(S, level:rep(9000), "bytes that are left")
    collectgarbage()
    assert.is_true(collectgarbage "count" - start < 2000)
  end)

  it("beyond what Lua's stack can hold are refused as such", function()
    local S = c.struct("Wider", {})
    for i = 1, 300 do S.members[i] = { name = "m" .. i, type = T.octet } end
    S.members[301] = { name = "next", type = c.seq(S) }
    c.unread(S, (("01"):rep(300) .. "01000000"):rep(LEVELS // 2), "Lua's stack can't hold it")
  end)

  it("need no stack of C's: a process on a thread with 64 KiB reads and writes them", function()
    local script = [[
      local cdr = require "mare.orb.cdr"
      local mare = require "mare"
      local p = mare.process.spawn(function()
        local cdr = require "mare.orb.cdr"
        local node = { kind = "struct", id = "IDL:N:1.0", name = "N", members = { { name = "v", type = { kind = "long" } } } }
        node.members[2] = { name = "next", type = { kind = "sequence", element = node } }
        node.members[3] = { name = "a", type = { kind = "any" } }
        local p = cdr.environment():program { node }
        local t = { v = 1, next = {} }
        for i = 1, 5000 do t = i % 2 == 0 and { v = i, next = { t } } or { v = i, next = {}, a = { _anytype = node, _anyval = t } } end
        local bytes = p:encode(29, t)
        assert(p:encode(29, p:decode(bytes, 1, 29)) == bytes)
        print("5000 in", #bytes)
      end)
      assert(p:wait())
    ]]
    local kib = ({ asan = 512, tsan = 1024 })[proc.config] or 64      -- with less the sanitizers' programs don't even begin
    local r = proc.with_file(script, function(name)
      return proc.run { "sh", "-c", ('ulimit -s %d && exec "$0" run "$1"'):format(kib), proc.bin, name }
    end)
    assert.equal(0, r.code, ("signal %s: %s"):format(tostring(r.signal), r.err))
    assert.is_truthy(r.out:find "^5000 in%s+%d+")
  end)
end)
