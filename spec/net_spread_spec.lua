-- luacheck: ignore 431 (functions of processes name modules as this file does)
-- Connections of one server go to the processes that accept from it by how many each has open.
local mare = require "mare"
local net = require "mare.net"
local unique = require "spec.support.unique"
local process, channel, fiber = mare.process, mare.channel, mare.fiber

-- A process that serves each connection in a fiber of its own, which says the process's name. Result: how many it took.
local function serve(server, name)
  local fiber, taken = require "mare.fiber", 0
  for conn in server:connections() do
    taken = taken + 1
    fiber.spawn(function()
      conn:write(name)
      conn:read()                                -- until the client ends it
      conn:close()
    end)
  end
  return taken
end

-- started(n, server, f): n processes that run f(server, name), once all of them wait
local function started(n, server, f)
  local list = {}
  for i = 1, n do
    list[i] = process.spawn(f or serve, server, tostring(i))
    while list[i]:status() ~= "waiting" do mare.sleep(0.001) end
  end
  return list
end

local function connect(server)
  local host, port = server:address()
  return assert(port and net.connect(host, port) or net.connect("unix:" .. host))
end

-- Opens n connections at once. counts[name]: how many each process has, and opened[name] the connections.
local function burst(server, n)
  local counts, opened, all = {}, {}, {}
  for i = 1, n do all[i] = connect(server) end
  for _, conn in ipairs(all) do
    local name = assert(conn:read(1, 60))
    counts[name] = (counts[name] or 0) + 1
    opened[name] = opened[name] or {}
    table.insert(opened[name], conn)
  end
  return counts, opened, all
end

local function close(list)
  for _, conn in ipairs(list) do conn:close() end
end

local function ratio(counts, n)
  local least, most = math.huge, 0
  for i = 1, n do
    least = math.min(least, counts[tostring(i)] or 0)
    most = math.max(most, counts[tostring(i)] or 0)
  end
  return most / least
end

-- Tries f until it is true. A thread that the system lets wait while connections come counts as busy, so on a loaded machine many of them may
-- go elsewhere than they should.
local function in_the_end(f, ...)
  local said = {}
  for round = 1, 50 do
    local ok, what = f(...)
    if ok then return end
    said[round] = what
    mare.sleep(0.02)
  end
  error(table.concat(said, ", "))
end

-- Bursts of 64 come in evenly.
local function evenly(server, n)
  in_the_end(function()
    local counts, _, all = burst(server, 64)
    close(all)
    local told = ratio(counts, n)
    return told <= 1.5, "max / min: " .. told
  end)
end

describe("connections of one server", function()
  local before = process.workers()
  after_each(function() process.workers(before) end)

  for _, where in ipairs { "127.0.0.1:0", "unix:@mare-spread-" .. unique() } do
    for workers = 1, 2 do
      for _, n in ipairs { 2, 4 } do
        it(("are spread over %d processes at %d worker%s, %s"):format(n, workers, workers > 1 and "s" or "", where:match "%a*"), function()
          process.workers(workers)
          local server = assert(net.listen(where))
          local list = started(n, server)
          evenly(server, n)
          server:close()
          for i = 1, n do assert.is_true((list[i]:wait())) end
        end)
      end
    end
  end

  local function fewest()
    local server = assert(net.listen("127.0.0.1:0"))
    local moved, closed = channel.new(math.huge), channel.new(math.huge)
    local list = started(3, server, function(server, name)
      local fiber = require "mare.fiber"
      for conn in server:connections() do
        conn:write(name)
        if name == "3" then moved:send(conn)
        else
          fiber.spawn(function()
            conn:read()
            conn:close()
            closed:send(true)
          end)
        end
      end
    end)
    local keep <const> = process.spawn(function()
      local all = {}
      for conn in moved:each() do all[#all + 1] = conn end
      for _, conn in ipairs(all) do conn:close() end
    end)
    local counts, opened, all = burst(server, 30)
    local one, two, three = counts["1"] or 0, counts["2"] or 0, counts["3"] or 0
    local right = one > 0 and two > 2 and three > one + two                -- it keeps none
    if right then
      close(opened["1"])
      for _ = 1, one do assert.is_true(closed:receive(60)) end
      while #moved > 0 do mare.sleep(0.001) end
      -- "1" has as few as "3" now, until it has as many as "2"
      local more, _, rest = burst(server, 2)
      right = not more["2"]
      close(rest)
    end
    close(all)
    server:close()
    moved:close()
    for _, p in ipairs(list) do assert.is_true((p:wait())) end
    assert.is_true((keep:wait()))
    return right, ("%d, %d, %d"):format(one, two, three)
  end

  it("go to who has fewest when others have ended, were closed, or were moved to another process", function() in_the_end(fewest) end)

  it("don't wait for a process that computes", function()
    process.workers(2)
    local server = assert(net.listen("127.0.0.1:0"))
    local stop = channel.new()
    local list = started(2, server, function(server, name)
      local fiber, mare = require "mare.fiber", require "mare"
      for conn in server:connections() do
        fiber.spawn(function()
          conn:write(name)
          local what = conn:read("l")
          if what == "compute" then
            while not stop:closed() do for _ = 1, 1000 do end end
          end
          conn:close()
        end)
      end
      return mare.clock()
    end)
    local _, opened, all = burst(server, 2)
    local busy = opened["1"] and "1" or "2"
    local free = busy == "1" and "2" or "1"
    opened[busy][1]:write("compute\n")
    while list[tonumber(busy)]:status() ~= "running" do mare.sleep(0.001) end
    for _ = 1, 20 do
      local conn = connect(server)
      assert.equal(free, conn:read(1, 60))         -- it computes for as long as we wait
      all[#all + 1] = conn
    end
    stop:close()
    close(all)
    server:close()
    for i = 1, 2 do assert.is_true((list[i]:wait(60))) end
  end)

  it("are all served though processes that left them to others time out, are cancelled or end", function()
    process.workers(2)
    local server = assert(net.listen("127.0.0.1:0"))
    local done = channel.new()
    local steady = started(1, server)
    local fickle = {}
    for i = 1, 3 do
      fickle[i] = process.spawn(function()
        local mare, fiber, process = require "mare", require "mare.fiber", require "mare.process"
        local function one(seconds)
          local conn = server:accept(seconds)
          if not conn then return end
          conn:write("x")
          fiber.spawn(function() conn:read() conn:close() end)
        end
        local round = 0
        while not done:closed() do
          round = round + 1
          local a = fiber.spawn(one, 0.001 * (round % 5))
          local b = fiber.spawn(one)
          local c = fiber.spawn(function()
            local k, conn = mare.select { server, timeout = 0.001 * (round % 3) }
            if k == 1 and conn then conn:write("x") conn:close() end
          end)
          mare.sleep(0.0005 * (round % 7))
          b:cancel()
          a:wait() b:wait() c:wait()
          if round % 10 == i then
            process.spawn(function()
              local conn = server:accept(0.001)
              if conn then conn:write("x") conn:close() end
            end):wait()
          end
        end
      end)
    end
    for round = 1, 40 do
      local all = {}
      for i = 1, 16 do all[i] = connect(server) end
      for i = 1, 16 do
        assert.is_truthy(all[i]:read(1, 60), "round " .. round)
        if i % 2 == 0 then all[i]:close() end
      end
      close(all)
    end
    done:close()
    server:close()
    for i = 1, 3 do assert.is_true((fickle[i]:wait(60))) end
    assert.is_true((steady[1]:wait(60)))
  end)

  it("are spread by select, too, and an answer with a default is never put off", function()
    process.workers(2)
    local server = assert(net.listen("127.0.0.1:0"))
    local stop = channel.new()
    local list = started(2, server, function(server, name)
      local mare = require "mare"
      while true do
        local i, conn = mare.select { server, stop }
        if i == 2 or not conn then break end
        mare.fiber.spawn(function() conn:write(name) conn:read() conn:close() end)
      end
    end)
    evenly(server, 2)
    stop:close()
    for i = 1, 2 do assert.is_true((list[i]:wait())) end
    -- Nobody else takes from it now; this process has some open, the others none.
    local mine = {}
    for i = 1, 5 do
      local conn = connect(server)
      local k
      repeat k, mine[i] = mare.select { server, default = 0 } until k ~= "default"
      assert.equal(1, k)
      conn:close()
    end
    close(mine)
    server:close()
  end)

  it("don't come in the way of a channel that becomes ready while select begins to wait for both", function()
    local listener <close> = net.listen("127.0.0.1:0")
    local numbers = channel.new(1)
    process.spawn(function()
      for i = 1, 30000 do numbers:send(i, ("x"):rep(i % 300)) end
      numbers:close()
    end)
    local n = 0
    repeat
      local which, value = mare.select { listener, numbers }
      assert.equal(2, which)
      if value then n = n + 1 end
    until not value
    assert.equal(30000, n)
  end)
  it("come in at a fiber of a plain script as at a process", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local list = started(1, server)
    local taken = 0
    local own = fiber.spawn(function()
      for conn in server:connections() do
        taken = taken + 1
        fiber.spawn(function() conn:write("2") conn:read() conn:close() end)
      end
    end)
    local counts, _, all = burst(server, 32)      -- it is busy with that itself, so it need not get half of them
    assert.equal(32, (counts["1"] or 0) + (counts["2"] or 0))
    close(all)
    server:close()
    assert.is_true((own:wait()))
    assert.equal(counts["2"] or 0, taken)
    assert.same({ true, counts["1"] or 0 }, { list[1]:wait() })
  end)
end)
