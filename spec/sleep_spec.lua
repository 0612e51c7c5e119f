-- mare.sleep: how long it waits, and who runs meanwhile.
local mare = require "mare"
local proc = require "spec.support.proc"
local process = mare.process

local function seconds(f, ...)
  local start = mare.clock()
  f(...)
  return mare.clock() - start
end

describe("mare.sleep", function()
  it("waits at least as long as it says, the main script and processes", function()
    assert.is_true(seconds(mare.sleep, 0.03) >= 0.03)
    local _, time = process.spawn(function()
      local start = mare.clock()
      mare.sleep(0.03)
      return mare.clock() - start
    end):wait()
    assert.is_true(time >= 0.03 and time < 60, time)
  end)

  it("of 0 or less lets others run", function()
    mare.sleep(0)
    mare.sleep(-1)
    assert.is_true(process.spawn(function() mare.sleep(0) mare.sleep(-5) end):wait())
    assert.error_matches(function() mare.sleep(0 / 0) end, "nan")
    assert.error_matches(function() mare.sleep() end, "number expected")
  end)

  it("ends sleepers in the order of their deadlines", function()
    -- Each is asleep before the first is due, or it is tried again; and on one worker nobody overtakes after that: with a long quantum it is taken
    -- from none that the system lets wait.
    local r = proc.mare([[
      local mare = require "mare"
      local out, start, asleep
      repeat
        local list = {}
        out, start = mare.channel.new(math.huge), mare.clock()
        for i, ms in ipairs { 60, 20, 40, 80 } do
          list[i] = mare.process.spawn(function()
            mare.sleep(start + 0.1 + ms / 1000 - mare.clock())
            out:send(ms)
          end)
        end
        for i = 1, 4 do while list[i]:status() == "ready" do mare.process.yield() end end
        asleep = mare.clock() < start + 0.1
        for i = 1, 4 do list[i]:wait() end
      until asleep
      print(out:receive(), out:receive(), out:receive(), (out:receive()))
    ]], {}, { workers = 1, env = { MARE_QUANTUM = "10000" } })
    assert.equal("20\t40\t60\t80\n", r.out, r.err)
  end)
end)
