-- What long messages become is told to the collector later than it is allocated: memory stays within bounds all the same.
-- needs: plain or asan
local c = require "spec.support.cdr"
local T = c.T

local S = c.struct("S", { "a", T.long, "b", T.string, "c", T.double, "d", T.char, "e", T.boolean })
local program = c.env:program { c.seq(S), T.octet }
local list = {}
for i = 1, 1000 do list[i] = { a = i, b = "text " .. i % 10, c = i / 3, d = "x", e = true } end
local bytes = program:encode(c.LITTLE, list, 1)

-- KiB at most while f runs, over and over; what one value takes; what is there without any.
local function most(f)
  collectgarbage()
  collectgarbage()
  local base = collectgarbage "count"
  local value = program:decode(bytes, 1, c.LITTLE)
  collectgarbage()
  local size, peak = collectgarbage "count" - base, 0
  assert.equal(1000, #value)
  value = nil                                    -- luacheck: ignore value
  collectgarbage()
  for _ = 1, 100 do
    f()
    peak = math.max(peak, collectgarbage "count")
  end
  return peak, size, base
end

local function bounded(f)
  for _, mode in ipairs { "generational", "incremental" } do
    local before = collectgarbage(mode)
    local peak, size, base = most(f)
    collectgarbage(before)
    assert.is_true(peak < 2 * base + 3 * size, ("%s: %.0f KiB beside %.0f, values of %.0f"):format(mode, peak, base, size))
  end
end

describe("values of long messages", function()
  it("that are dropped are collected", function()
    bounded(function() program:decode(bytes, 1, c.LITTLE) end)
  end)

  it("that are kept for one call more are collected, too", function()
    local kept
    bounded(function() kept = program:decode(bytes, 1, c.LITTLE) end)
    assert.equal(1000, #kept)
  end)

  it("that end in an error are collected", function()
    local cut = bytes:sub(1, -2)
    bounded(function() assert.is_false((pcall(program.decode, program, cut, 1, c.LITTLE))) end)
  end)

  it("that end in an error are collected by what else is allocated", function()
    assert.is_false((pcall(program.decode, program, bytes:sub(1, -2), 1, c.LITTLE)))
    local seen = setmetatable({ {} }, { __mode = "v" })
    for i = 1, 200000 do seen.last = { i } end
    assert.is_nil(seen[1])
  end)

  it("leave a collector alone that was stopped", function()
    local ran = false
    collectgarbage()
    collectgarbage "stop"
    setmetatable({}, { __gc = function() ran = true end })
    for _ = 1, 20 do program:decode(bytes, 1, c.LITTLE) end
    assert.is_false(ran)
    assert.is_false(collectgarbage "isrunning")
    collectgarbage "restart"
    for _ = 1, 50 do program:decode(bytes, 1, c.LITTLE) end
    assert.is_true(ran)
  end)

  it("may be decoded in finalisers, and those run while others are", function()
    local ran = 0
    local function again()
      setmetatable({}, { __gc = function()
        ran = ran + 1
        assert.equal(1000, #program:decode(bytes, 1, c.LITTLE))
      end })
    end
    bounded(function()
      again()
      assert.equal(1000, #program:decode(bytes, 1, c.LITTLE))
    end)
    assert.is_true(ran > 20)
  end)
end)
