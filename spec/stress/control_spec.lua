-- time limit: 2000 s
-- Processes that are cancelled, killed, linked, owned, given away and resized around, at random, from several processes: no message is lost or
-- comes twice, all end, and nothing is left: no process, no descriptor, no memory.
-- The seed of a failing run is in the message: SEED=n repeats its choices (not its timing). SOAK=seconds: so long instead of a moment.
local proc = require "spec.support.proc"

local seed = tonumber(os.getenv "SEED") or os.time()
local soak = tonumber(os.getenv "SOAK")

local text = [[
  local mare = require "mare"
  local process, channel, fiber = mare.process, mare.channel, mare.fiber
  local seed, seconds, fast = tonumber(arg[1]), tonumber(arg[2]), arg[3] == "fast"
  local R = math.random
  local base = process.count()

  -- A sender tells at its end how many it tried and how many it knows to have arrived; a receiver what it has got. Cancelled in the middle, one
  -- of them may be unknown.
  local function sender(c, told, who, n)
    local process = require "mare".process
    local tried, known = 0, 0
    process.on_exit(function() told:send { who = who, tried = tried, known = known } end)
    for i = 1, n do
      tried = i
      if i % 5 == 0 then c:send(who * 100000 + i, ("x"):rep(i * 50))
      elseif i % 7 == 0 then require "mare".select { c:sending { who * 100000 + i } }
      else c:send(who * 100000 + i) end
      known = i
      if i % 11 == 0 then process.yield() end
    end
  end
  local function receiver(c, told, how)
    local mare = require "mare"
    local got, n = {}, 0
    mare.process.on_exit(function(ok) told:send { got = got, cut = not ok } end)
    while true do
      local v
      if how == 1 then v = c:receive()
      elseif how == 2 then local case, value = mare.select { c, mare.timer.after(3600) } v = value
      elseif how == 3 then v = mare.process.deadline(3600, c.receive, c)
      else v = coroutine.wrap(function() return c:receive() end)() end
      if v == nil then return end
      n = n + 1
      got[n] = type(v) == "table" and v[1] or v
    end
  end

  -- What is only there to be hurt. It ends, as everybody who has its handle ends it.
  local function fodder(box, seed, depth, again)
    local mare = require "mare"
    local process, channel, fiber, timer = mare.process, mare.channel, mare.fiber, mare.timer
    math.randomseed(seed)
    local R = math.random
    local function option() return R(3) == 1 end
    if option() then TRAP = process.trap() end
    if option() then process.on_exit(function() if option() then mare.sleep(R() * 0.001) end end) end
    if option() then FINAL = setmetatable({}, { __gc = function() box:try_send(1) end }) end
    local guard <close> = setmetatable({}, { __close = function()
      if option() then process.masked(0.005, mare.sleep, R() * 0.001) end
      if option() then pcall(mare.sleep, 1) end
    end })
    local children, own = {}, channel.new(R(3) - 1)
    local ops
    local function op() return ops[R(#ops)]() end
    ops = {
      function() mare.sleep(R() * 0.001) end,
      function() own:receive(R() * 0.001) end,
      function() own:send_within(R() * 0.001, { 1, { 2 } }) end,
      function() own:send_within(R() * 0.001, ("x"):rep(6000)) end,
      function() mare.select { own, own:sending(3), timer.after(R() * 0.002), timeout = R() * 0.002 } end,
      function() process.masked(R() * 0.003, op) end,
      function() process.deadline(R() * 0.003, op) end,
      function() process.deadline(R() * 0.003, function() process.masked(R() * 0.002, op) op() end) end,
      function() local co = coroutine.wrap(function() process.deadline(R() * 0.002, function() coroutine.yield() op() end) end) co() op() co() end,
      function() coroutine.wrap(op)() end,
      function() table.sort({ 3, 2, 1 }, function(a, b) mare.sleep(R() * 0.0005) return a < b end) end,
      function() for _ = 1, R(20000) do end end,
      function() collectgarbage() end,
      function() if TRAP then local h = TRAP:receive(R() * 0.001) if h then h:wait(0) end end end,
      function() fiber.spawn(function() for _ = 1, R(5) do pcall(op) end end) end,
      function() local f = fiber.spawn(function() while true do pcall(op) end end) f:wait(R() * 0.002) f:cancel { R() } end,
      function() error(R(2) == 1 and "oops" or {}) end,
      function() process.yield() end,
      function()
        if depth > 2 or #children > 3 then return end
        local h = process.spawn { main = again, args = { box, R(1 << 40), depth + 1, again }, linked = option(), owned = true }
        children[#children + 1] = h
        box:try_send(h)
      end,
      function() local h = children[R(4)] if h then h:cancel(R(5)) end end,
      function() local h = children[R(4)] if h then h:kill() end end,
      function() local h = children[R(4)] if h then h:wait(R() * 0.002) end end,
      function() local h = box:receive(0) if type(h) == "userdata" then
        local k = R(5)
        if k == 1 then h:cancel { by = process.self() } elseif k == 2 then h:kill() elseif k == 3 then h:link():unlink()
        elseif k == 4 then h:link() elseif children[1] then pcall(children[1].give, children[1], h) end
        h:owner()
      end end,
      function() if R(20) == 1 then process.self():cancel "tired" elseif R(20) == 1 then process.self():kill() end end,
      function()
        local net = require "mare.net"
        local server = net.listen "127.0.0.1:0"
        if not server then return end
        fiber.spawn(function() local c = server:accept(0.01) if c then c:read(10, R() * 0.01) end end)
        local c = net.connect(server:address())
        if c then c:write "1" c:read(1, R() * 0.002) end
      end,
      function() require "mare.file".stat("/") end,
    }
    for _ = 1, R(3) - 1 do fiber.spawn(function() while true do op() end end) end
    while true do if option() then pcall(op) else op() end end
  end

  -- Ends others, from a process of its own.
  local function meddler(list, seed, rounds, workers)
    local mare = require "mare"
    math.randomseed(seed)
    local R = math.random
    local box = mare.channel.new(8)
    for _ = 1, rounds do
      local h = list[R(#list)]
      if h.killable then
        local k = R(4)
        if k == 1 then h.handle:kill() elseif k == 2 then h.handle:cancel("meddler") elseif k == 3 then h.handle:wait(0) else h.handle:owner() end
      elseif R(3) == 1 then
        h.handle:cancel { "meddler", mare.process.self() }
      end
      if R(4) == 1 then mare.sleep(R() * 0.001) end
      if R(10) == 1 then mare.process.workers(R(workers)) end
    end
  end

  local function must(ok, what) if not ok then print(what) os.exit(9) end end
  local function drain(c) return function() return (c:try_receive()) end end
  local function ends(p) must(p:wait(120) ~= nil, "hangs: " .. tostring(p) .. " " .. p:status()) end

  local function round(seed)
    math.randomseed(seed)
    local told, chans, list, all = channel.new(math.huge), {}, {}, {}
    local senders, receivers = {}, {}
    local box = channel.new(16)
    for i, capacity in ipairs { 0, 1, 5, math.huge } do chans[i] = channel.new(capacity) end
    for i = 1, 8 do
      senders[i] = process.spawn(sender, chans[(i - 1) % 4 + 1], told, i, R(fast and 200 or 60))
      receivers[i] = process.spawn(receiver, chans[(i - 1) % 4 + 1], told, R(4))
      list[#list + 1] = { handle = senders[i] }
      if i > 4 then list[#list + 1] = { handle = receivers[i] } end
    end
    for _ = 1, 8 do
      local h = process.spawn { main = fodder, args = { box, R(1 << 40), 1, fodder }, owned = R(2) == 1 }
      list[#list + 1] = { handle = h, killable = true }
      all[#all + 1] = h
    end
    local meddlers = {}
    for i = 1, 3 do meddlers[i] = process.spawn(meddler, list, R(1 << 40), fast and 150 or 60, 4) end
    for _ = 1, 20 do
      if R(2) == 1 then mare.sleep(R() * 0.001) end
      local h = box:receive(0)
      if type(h) == "userdata" then all[#all + 1] = h if R(2) == 1 then h:kill() end end
    end
    for _, p in ipairs(meddlers) do ends(p) end
    for _, p in ipairs(senders) do ends(p) end
    for _, c in ipairs(chans) do c:close() end
    for _, p in ipairs(receivers) do ends(p) end
    for _, p in ipairs(all) do if R(2) == 1 then p:cancel("end") else p:kill() end end
    -- their children belong to them, or to somebody who has them by now; who loops on in spite of a cancel is killed
    local begun, patience = mare.clock(), 120
    while process.count() > base do
      for _, p in ipairs(all) do p:kill() end
      for h in drain(box) do if type(h) == "userdata" then h:kill() all[#all + 1] = h end end
      must(mare.clock() - begun < patience, "left: " .. process.count() - base)
      mare.sleep(0.001)
    end
    for _, p in ipairs(all) do p:wait() end
    -- the accounts
    local got, cut, tried, known, n = {}, 0, {}, {}, 0
    for v in drain(told) do
      n = n + 1
      if v.got then
        if v.cut then cut = cut + 1 end
        for _, id in ipairs(v.got) do
          must(not got[id], "twice: " .. id)
          got[id] = true
        end
      else
        tried[v.who], known[v.who] = v.tried, v.known
      end
    end
    local lost = 0
    for who, most in pairs(tried) do
      must(most - known[who] <= 1, "tried")
      for i = 1, known[who] do if not got[who * 100000 + i] then lost = lost + 1 end end
      for i = most + 1, most + 3 do must(not got[who * 100000 + i], "got what nobody sent") end
    end
    must(lost <= cut, ("lost: %d, receivers that were ended: %d"):format(lost, cut))
    return n
  end

  local function descriptors()
    local pipe, n = io.popen("ls /proc/" .. (io.open("/proc/self/stat"):read("n")) .. "/fd 2>/dev/null | wc -l"), 0
    n = pipe:read("n")
    pipe:close()
    return n or 0
  end
  local function resident() return tonumber(io.open("/proc/self/statm"):read("a"):match("%d+ (%d+)")) * 4096 end

  local begun, rounds, files, memory = mare.clock(), 0, nil, nil
  repeat
    round(seed * 100000 + rounds)
    rounds = rounds + 1
    if rounds == 3 then collectgarbage() files, memory = descriptors(), resident() end
  until mare.clock() - begun >= seconds and rounds >= 4
  process.workers(2)
  collectgarbage()
  collectgarbage()
  must(descriptors() <= files + 4, ("descriptors: %d, at first %d"):format(descriptors(), files))
  if fast then must(resident() <= memory * 2 + (64 << 20), ("memory: %d, at first %d"):format(resident(), memory)) end
  io.stderr:write(("%d rounds, %d descriptors, %d KiB, at first %d KiB\n"):format(rounds, descriptors(), resident() >> 10, memory >> 10))
  print "fine"]]

local function runs(start)
  local seconds = soak or (proc.slow > 1 and 3 or 2)
  local r = start(text, { tostring(seed), tostring(seconds), proc.config == "plain" and "fast" or "slow" }, { timeout = seconds + 200 })
  if r.code ~= 0 or r.out ~= "fine\n" then
    local how = r.timeout and "time limit" or r.code or "signal " .. r.signal
    error(("SEED=%d: %s\n%s%s"):format(seed, how, r.out, r.err:sub(-6000)), 0)
  end
  if soak then print(r.err:match("[^\n]*\n$")) end
end

describe("processes that others cancel, kill, link and own at random", function()
  it("lose no message and leave nothing behind", function() runs(proc.mare) end)
  it("lose no message and leave nothing behind, started by a plain Lua script", function() runs(proc.lua) end)
end)
