-- Random types and values, from fixed seeds: what is encoded decodes to the same, in both byte orders and all versions, alone and in an any, at any
-- offset; every prefix of the bytes is refused; bytes changed at random never do harm.
-- needs: plain or asan
local c = require "spec.support.cdr"
local random = require "spec.support.cdr_random"
local T = c.T

local codecs = { c.LITTLE, c.BIG, c.ONE_ONE, c.ONE_ONE & ~1, c.LITTLE | 32 }
local env = c.environment()

describe("random types and values", function()
  it("come back as they were, also in an any and behind other data", function()
    for seed = 1, 400 do
      local r = random.generator(seed)
      local t = random.type(r, 4)
      local program, v = env:program { T.octet, t, T.any }, random.value(r, t, 5)
      for _, codec in ipairs(codecs) do
        local bytes = program:encode(codec, 7, v, { _anytype = t, _anyval = v })
        local first, back, any = program:decode(bytes, 1, codec)
        assert.equal(7, first)
        assert.is_true(random.same(v, back), "seed " .. seed)
        assert.is_true(random.same_type(t, any._anytype, {}) and random.same(v, any._anyval), "seed " .. seed)
        assert.equal(bytes, program:encode(codec, first, back, any), "seed " .. seed)
      end
    end
  end)

  it("are refused when the bytes end early", function()
    for seed = 1, 150 do
      local r = random.generator(seed)
      local t = random.type(r, 3)
      local program = env:program { t, T.any, T.octet }
      local v = random.value(r, t, 4)
      local bytes = program:encode(c.LITTLE, v, { _anytype = t, _anyval = v }, 1)
      for n = 0, #bytes - 1, 1 + #bytes // 100 do
        local e = c.refused(program.decode, program, bytes:sub(1, n), 1, c.LITTLE)
        assert.is_truthy(e.name == "MARSHAL", e.name)
      end
    end
  end)

  it("with bytes changed at random are values or errors with a place, and nothing else", function()
    local seen = {}
    for seed = 1, 120 do
      local r = random.generator(seed)
      local t = random.type(r, 3)
      local program = env:program { t, T.any }
      local v = random.value(r, t, 4)
      local bytes = program:encode(c.LITTLE, v, { _anytype = t, _anyval = v })
      for _ = 1, 60 do
        local changed = bytes
        for _ = 1, 1 + r(4) do
          local at = 1 + r(#changed)
          changed = changed:sub(1, at - 1) .. string.char(r(2) == 0 and r(256) or ({ 0, 255, 1, 127, 128 })[1 + r(5)]) .. changed:sub(at + 1)
        end
        for _, codec in ipairs { c.LITTLE, c.BIG } do
          local ok, e = pcall(program.decode, program, changed, 1, codec)
          if not ok then
            assert.is_table(e, tostring(e))
            assert.is_truthy(e.name == "BAD_TYPECODE" or e.text:find "%(at byte %d+%)$", e.text)
            seen[e.name] = true
          end
        end
      end
    end
    assert.is_true(seen.MARSHAL and seen.BAD_TYPECODE)
  end)
end)
