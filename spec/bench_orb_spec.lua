-- The seeds' experiment with CORBA still runs: mare alone, few samples. What it measures here says nothing.
-- runs under: mare
-- needs: plain
local proc = require "spec.support.proc"

local function python(program)
  return proc.run({ "python3", "-B", "-c", "import sys; sys.path[:0] = ['bench/orb', 'bench']\n" .. program }, { timeout = 60 })
end

describe("bench/orb/seeds", function()
  it("measures calls on one machine and over a network, memory, and from the first call on", function()
    local r = proc.run({ "bench/orb/seeds", "--quick", "--peers", "mare", "calls", "network", "memory", "warmup" },
                       { env = { MARE = proc.bin }, timeout = 120 })
    assert.equal(0, r.code, r.err)
    for _, work in ipairs { "send_void", "raise_empty", "send_objref", "send_objrefs", "send_structs_10" } do
      assert.matches("`" .. work .. "`%), one machine | [%d.]+ ± [%d.]+ |", r.out)
      if not r.err:find "no networks can be made here" then assert.matches("`" .. work .. "`%), network | [%d.]+ ± [%d.]+ |", r.out) end
    end
    assert.matches("| mare | [%d.]+ | [%d.]+ | [%d.]+ |", r.out)
    assert.matches("the text %(2008", r.out)
  end)

  it("delays what goes through its network, each way", function()
    local r = python [[
import importlib.machinery, importlib.util
loader = importlib.machinery.SourceFileLoader("seeds", "bench/orb/seeds")
seeds = importlib.util.module_from_spec(importlib.util.spec_from_loader("seeds", loader))
loader.exec_module(seeds)
try:
    network = seeds.Network(1)
except RuntimeError as why:
    print("none:", why)
else:
    with network:
        print(network.round_trips())
]]
    if r.out:find "^none: no networks can be made here" then return pending(r.out) end
    assert.equal(0, r.code, r.err)
    assert.is_true(tonumber(r.out) >= 200, r.out)         -- 100 times there and back
  end)

  it("says no figure that it has not", function()
    local r = python [[
import seeds_page as page
taken = [{"omniORB": {"send_void": [1.0, 3.0]}, "mare": {"send_void": [3.0, 5.0]}}, {"mare": {"send_void": [9.0]}}]
results = {"calls": taken}
taken.append({"omniORB": {"send_void": [1.0]}, "mare": {"send_void": [8.0]}})
mean, least, greatest = page.ratio(results, "calls", "send_void", "mare", "omniORB")
assert abs(mean - 4) < 1e-9 and (least, greatest) == (2, 8)
assert page.ratio(results, "calls", "send_void", "mare", "JacORB") is None
assert page.settled([9.0, 9.0, 9.0] + [3.0] * 20) == (3.0, 300)
text = page.tables(results)
assert "| 5.4 no parameter (`send_void`), one machine | 1.5 ± 0.5 | 7 ± 0.333 |" in text, text
assert "takes 4 × (2–8) omniORB's time, over the network not measured" in text, text
assert "Virtual memory" not in text and "JacORB" not in text.split("the text (2008")[0], text
print("said")
]]
    assert.equal("", r.err)
    assert.equal("said\n", r.out)
  end)
end)
