-- Large numbers: round trips, messages, processes. Smaller ones under a sanitizer.
local mare = require "mare"
local proc = require "spec.support.proc"
local process, channel = mare.process, mare.channel
local part = proc.config == "plain" and 1 or 50
local inside = arg[-1] == "run"

describe("a million", function()
  it("round trips between the main script and one process" .. (inside and "" or ": a tenth of it in plain Lua, as threads change at each"), function()
    local there, back = channel.new(), channel.new()
    local p = process.spawn(function() for v in there:each() do back:send(v + 1) end return "end" end)
    for i = 1, 1000000 // part // (inside and 1 or 10) do
      there:send(i)
      if back:receive() ~= i + 1 then error("wrong answer to " .. i) end
    end
    there:close()
    assert.same({ true, "end" }, { p:wait() })
  end)

  it("queued messages come in order, and the last costs no more than the first", function()
    local n = 1000000 // part
    local c = channel.new(math.huge)
    for i = 1, n do c:send(i, "text") end
    assert.equal(n, #c)
    local first, last
    local start = os.clock()                     -- CPU time: neighbours take none of it
    for i = 1, n do
      local v, s = c:receive()
      if v ~= i or s ~= "text" then error("message " .. i .. " is " .. tostring(v)) end
      if i == n // 10 then first = os.clock() - start end
      if i == n - n // 10 then last = os.clock() end
    end
    last = os.clock() - last
    assert.equal(0, #c)
    assert.is_true(last < 10 * first and first < 10 * last + 1, first .. " s for the first tenth, " .. last .. " s for the last")
  end)
end)

describe("a hundred thousand processes", function()
  it("live at once, each with its own closure and upvalue, and each receives", function()
    local n = 100000 // part
    local done, own = channel.new(math.huge), {}
    for i = 1, n do
      local up, c = { i }, channel.new()
      own[i] = c
      process.spawn(function()
        up[1] = up[1] + c:receive()
        done:send(up[1])
      end)
    end
    assert.is_true(process.count() >= n)
    for i = 1, n do own[i]:send(i) end
    local sum = 0
    for _ = 1, n do sum = sum + done:receive() end
    assert.equal(n * (n + 1), sum)
  end)

  it("end one after the other, and nothing grows", function()
    local function resident() return tonumber(io.open("/proc/self/statm"):read("a"):match("^%d+ (%d+)")) * 4 end
    local function round()
      for i = 1, 20000 // part do
        local ok, v = process.spawn(function(x) return { x } end, i):wait()
        if not ok or v[1] ~= i then error("wrong result") end
      end
      collectgarbage()
    end
    round()
    local before = resident()
    for _ = 1, 4 do round() end
    assert.is_true(resident() - before < 20000, "grew by KiB " .. resident() - before)
  end)
end)
