-- time limit: 1000 s
-- Everything that waits, at random, in processes whose main function fails while their fibers are in the middle of it.
-- The seed of a failing run is in the message: SEED=n repeats its choices (not its timing).
-- runs under: mare
local proc = require "spec.support.proc"

local seed = tonumber(os.getenv "SEED") or os.time()

-- Both programs: some channels and timers; op() does one thing that may wait, wherever it may wait.
local common = [[
  local mare = require "mare"
  local process, channel, timer, fiber = mare.process, mare.channel, mare.timer, mare.fiber
  local seed, rounds = tonumber(arg[1]), tonumber(arg[2])
  local chans, timers = {}, {}
  for i, capacity in ipairs { 0, 0, 1, 2, math.huge, 0 } do chans[i] = channel.new(capacity) end
  for i = 1, 4 do timers[i] = timer.every(0.0003 * i) end

  local long, R = ("x"):rep(5000), math.random
  local function message()
    local all = { R(100), { R(100), {} }, long, function() return 1 end, chans[R(6)], "s" }
    return all[R(6)]
  end
  local function case()
    local k = R(8)
    if k <= 3 then return chans[R(6)] end
    if k <= 6 then return chans[R(6)]:sending(message(), R(3)) end
    return k == 7 and timer.after(R() * 0.001) or timers[R(#timers)]
  end
  local ops = {
    function() local t = { timeout = R() * 0.002 } for i = 1, R(5) do t[i] = case() end return mare.select(t) end,
    function() return chans[R(6)]:receive(R() * 0.001) end,
    function() return chans[R(6)]:send_within(R() * 0.001, message()) end,
    function() return chans[R(6)]:try_receive() end,
    function() return chans[R(6)]:try_send(message()) end,
    function() return fiber.yield() end,
    function() table.sort({ 3, 2, 1 }, function(a, b) chans[R(6)]:receive(R() * 0.0005) return a < b end) end,
    function() coroutine.wrap(function() chans[R(6)]:send_within(R() * 0.001, message()) coroutine.yield() end)() end,
    function() return timers[R(4)]:wait(R() * 0.001) end,
    function()
      local f = fiber.spawn(function() if R(3) == 1 then error {} end return mare.select { chans[R(6)], timeout = R() * 0.001 } end)
      if R(2) == 1 then f:wait(R() * 0.001) end
    end,
  }
  local function op() return ops[R(#ops)]() end
  local function body(seed)
    math.randomseed(seed)
    for _ = 1, R(6) do
      fiber.spawn(function()
        local guard <close> = setmetatable({}, { __close = function() chans[1]:try_send(1) end })
        for _ = 1, R(40) do
          if R(2) == 1 then pcall(op) else op() end
          if R(30) == 1 then collectgarbage() end
        end
        if R(4) == 1 then while true do pcall(op) end end
      end)
    end
    for _ = 1, R(20) do op() end
    error("end", 0)
  end
  local function ended(p)
    local ok = p:wait(100)
    if ok == nil then print("hangs", p:status()) os.exit(9) end
  end
  math.randomseed(seed)
]]

local processes = common .. [[
  local list = {}
  for r = 1, rounds do
    list[#list + 1] = process.spawn { main = body, args = { seed * 1000000 + r }, memory = r % 7 == 0 and 200000 or nil }
    if #list >= 12 then ended(table.remove(list, R(#list))) end
  end
  for _, p in ipairs(list) do ended(p) end
  print "fine"]]

local fibers = common .. [[
  local others = {}
  for r = 1, rounds do
    local list = {}
    for i = 1, 6 do list[i] = fiber.spawn(function() for _ = 1, R(10) do pcall(op) end end) end
    others[#others + 1] = process.spawn(body, seed * 1000000 + r)
    for _ = 1, 5 do pcall(op) end
    for i = 1, 6 do ended(list[i]) end
  end
  for _, p in ipairs(others) do ended(p) end
  fiber.spawn(function() while true do pcall(op) end end)
  for _ = 1, 20 do op() end
  print "fine"
  if seed % 2 == 0 then os.exit(0, seed % 4 == 0) end]]

local function runs(start, text, rounds)
  for i = 1, 3 do
    local r = start(text, { tostring(seed + i), tostring(rounds) }, { timeout = 300 })
    if r.code ~= 0 or r.out ~= "fine\n" then
      local how = r.timeout and "time limit" or r.code or "signal " .. r.signal
      error(("SEED=%d: %s\n%s%s"):format(seed + i, how, r.out, r.err:sub(-6000)), 0)
    end
  end
end

describe("processes that fail while their fibers wait in all sorts of places", function()
  it("end, and hurt nobody", function() runs(proc.mare, processes, proc.slow > 1 and 40 or 600) end)
  it("end, and hurt nobody, started by a plain Lua script", function() runs(proc.lua, processes, proc.slow > 1 and 40 or 600) end)
end)

describe("the fibers of a plain Lua script", function()
  it("wait in all sorts of places beside processes, and end with it", function() runs(proc.lua, fibers, proc.slow > 1 and 20 or 150) end)
end)
