-- Programs that are measured still run: those of bench/ that repeat experiments, at tiny sizes. What they measure here says nothing.
-- runs under: mare
-- needs: plain
local proc = require "spec.support.proc"

local path = { LUA_PATH = "bench/mare/?.lua;;", LUA_CPATH = ";;" }

-- The figures that bench/NAME.lua prints, by name.
local function figures(name, ...)
  local env = { LUA_PATH = path.LUA_PATH:gsub("mare", name:match "^%a+"), LUA_CPATH = path.LUA_CPATH }
  local words = { proc.bin, "run", "-w", "2", "bench/" .. name .. ".lua" }
  for _, word in ipairs { ... } do words[#words + 1] = tostring(word) end
  local r = proc.run(words, { env = env })
  assert.equal("", r.err)
  assert.equal(0, r.code)
  local found = {}
  for metric, value in r.out:gmatch "([%l%d]+) (%S+) [^\n]+\n" do found[metric] = tonumber(value) end
  return found
end

describe("bench", function()
  it("solves the knapsack, whichever way tables cross, in blocks of columns of any width", function()
    for _, mode in ipairs { "direct", "packed", "text" } do
      for _, size in ipairs { { 1, 20, 5, 3 }, { 4, 60, 12, 3 }, { 3, 10, 6, 7 }, { 5, 5, 4, 2 }, { 2, 500, 30, 4 } } do
        local f = figures("mare/knapsack", mode, table.unpack(size))
        assert.truthy(f.time and f.cpu and f.cells and f.memory, mode)
      end
    end
  end)

  it("scatters with notices, with luaproc's barrier, and in a group: no item is lost", function()
    for _, size in ipairs { { 1, 1, 1 }, { 3, 10, 7 }, { 8, 100, 20 } } do
      assert.truthy(figures("luaproc/scatter", "simulated", size[1], size[2], size[3], 2).scatters)
      assert.truthy(figures("luaproc/scatter", "barrier", size[1], size[2], size[3], 2).scatters)
      assert.truthy(figures("mare/scatter", table.unpack(size)).scatters)
    end
  end)

  it("sends messages by copying, sharing, moving", function()
    for _, size in ipairs { 0, 10, 100000 } do
      assert.truthy(figures("mare/messages", "strings", size, 20).transfers)
      assert.truthy(figures("mare/messages", "frozen", size, 20).transfers)
      assert.truthy(figures("mare/messages", "buffers", size, 20).transfers)
      assert.truthy(figures("mare/moved", size, 20).transfers)
    end
  end)

  it("tells the memory of processes, channels and fibers", function()
    local f = figures("mare/memory", 50, 200, 50)
    assert.truthy(f.base <= f.channels and f.channels <= f.processes and f.processes <= f.all)
    assert.truthy(figures("mare/memory", 0, 0, 0).all)
  end)

  it("runs the heap's scripts under mare and in plain Lua", function()
    for _, name in ipairs { "tables", "strings", "json", "large" } do
      assert.truthy(figures("heap/script", name, "0.01").time, name)
    end
    assert.matches("^time ", proc.run({ "lua5.4", "bench/heap/script.lua", "json", "0.01" }).out)
  end)

  it("fits a formula to points, with intervals", function()
    local r = proc.run({ "python3", "-B", "-c", [[
import sys
sys.path.insert(0, "bench/seeds")
import fit
exact = fit.fit([((a, b), 1000 + 8.5 * a + 0.25 * b) for a in (0, 100, 201) for b in (0, 1000, 50000)])
for value, half, truth in zip(exact.coefficients, exact.half, (1000, 8.5, 0.25)):
    assert abs(value - truth) <= 1e-6 * truth and half <= 1e-6 * truth, (value, half, truth)
assert exact.points == 9 and abs(exact.at((7, 9)) - 1061.75) < 1e-3
line = fit.fit([((x,), y) for x, y in enumerate((2.1, 3.9, 6.2, 7.8, 10.1), 1)])     # 0.107 is left as sum of squares, Sxx is 10
for value, expected in zip((*line.coefficients, line.half[1], line.deviation), (0.05, 1.99, 3.182446 * (0.107 / 30) ** 0.5, (0.107 / 3) ** 0.5)):
    assert abs(value - expected) < 1e-5, (value, expected)
assert abs(line.determination - (1 - 0.107 / 39.708)) < 1e-6
for p, df, t in ((0.975, 1, 12.7062), (0.975, 5, 2.57058), (0.995, 10, 3.16927), (0.975, 76, 1.99167)):
    assert abs(fit.t_quantile(p, df) - t) < 1e-4
for bad in ([((1,), 1), ((2,), 2)], [((1, 1), 1), ((2, 2), 2), ((3, 3), 3), ((4, 4), 4)]):
    try:
        fit.fit(bad)
    except ValueError:
        continue
    raise SystemExit("no error")
print("fits")
]] })
    assert.equal("", r.err)
    assert.equal("fits\n", r.out)
  end)

  it("prints the seeds' tables beside ours", function()
    local r = proc.run({ "python3", "bench/seeds/run", "--quick", "--no-peers" }, { env = { MARE = proc.bin }, timeout = 120 })
    assert.equal(0, r.code, r.err)
    for _, title in ipairs { "Table 4.1", "Table 4.3", "Section 3.3", "Tables 6.1 and 6.12", "Formula 6%-5", "Tables 6.4, 6.5" } do
      assert.matches("## " .. title, r.out)
    end
    assert.matches("for each process | %d", r.out)
  end)
end)

describe("bench/count", function()
  local function judged(limit, compiler)
    local limits = ([[{ "made with": { "compiler": "%s", "lua": "%s" }, "counts": { "atomic add": %d } }]]):format(
      compiler or io.popen("${CC:-cc} -dumpfullversion"):read "l", io.popen("lua5.4 -v"):read "l":match "^%S+ %S+", limit)
    return proc.with_file(limits, function(file)
      return proc.run({ "bench/count", "--judge", "--limits", file, "--only", "atomic add", proc.bin })
    end)
  end

  it("finds who takes more than his limit", function()
    local high, low, foreign = judged(1000000), judged(1), judged(1, "1.2.3")
    assert.equal("", high.err)
    assert.equal(0, high.code)
    assert.no_match("exceeded", high.out)
    assert.equal(1, low.code)
    assert.matches("| one more in an atomic | [%d,]+ | 1 | [%d.]+ | exceeded |", low.out)
    assert.equal(0, foreign.code)
    assert.matches("shown, not judged", foreign.out)
  end)
end)
