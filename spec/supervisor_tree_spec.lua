-- mare.supervisor: trees, children that come and go, programs that are supervisors, and parts that are killed at any moment.
-- time limit: 300 s
local mare = require "mare"
local proc = require "spec.support.proc"
local supervised = require "spec.support.supervised"
local process, channel, supervisor = mare.process, mare.channel, mare.supervisor
local worker, entry, start, words = supervised.worker, supervised.entry, supervised.start, supervised.words
local sorted, pack, LIMIT = supervised.sorted, table.pack, supervised.LIMIT

describe("a tree", function()
  it("ends from the leaves to the root", function()
    local log = channel.new(math.huge)
    local sup = start { children = {
      entry(log, "a"),
      { id = "s", supervisor = { children = { entry(log, "b"), { id = "t", supervisor = { children = { entry(log, "c") } } } } } },
      entry(log, "d") } }
    words(log, 4)
    assert.same({ specs = 3, active = 3, supervisors = 1, workers = 2 }, sup:count())
    sup:shutdown()
    assert.same({ "end d", "end c", "end b", "end a" }, words(log, 4))
  end)

  it("comes back when a supervisor in it is killed", function()
    local log = channel.new(math.huge)
    local sup <close> = start { intensity = math.huge, children = { { id = "s", supervisor = { report = false, children = { entry(log, "b") } } } } }
    words(log, 1)
    for _ = 1, 5 do
      sup:child("s").process:kill()
      assert.same({ "begin b", "end b" }, sorted(words(log, 2)))
      while sup:child("s").status ~= "running" do mare.sleep(0.001) end    -- its child runs before it says that it is ready
    end
  end)

  it("passes on what a supervisor can't mend", function()
    local log, orders = channel.new(math.huge), channel.new()
    local sup = start { intensity = 1, children = {
      { id = "s", supervisor = { intensity = 0, report = false, children = { entry(log, "b", { args = { log, "b", orders } }) } } } } }
    words(log, 1)
    orders:send "fail"
    assert.same({ "end b", "begin b" }, words(log, 2))
    orders:send "fail"
    words(log, 1)
    local ok, err = sup:wait(LIMIT)
    assert.is_false(ok)
    assert.same({ "intensity", "intensity", "b" }, { err.kind, err.reason.kind, err.reason.reason.failed })
  end)

  it("has supervisors that are found by name, also after they were started again", function()
    local sup <close> = start { intensity = math.huge, children = { { id = "s", supervisor = { name = "supervisor_spec.sub", report = false } } } }
    local sub = supervisor.named "supervisor_spec.sub"
    for i = 1, 3 do
      assert.equal(0, sub:count().specs)
      assert.truthy(sub:add { id = "x" .. i, start = mare.sleep, args = { 100 } })
      assert.equal(1, sub:count().specs)
      sup:restart "s"
    end
  end)
end)

describe("children that come and go", function()
  it("are added, stopped, started again, removed", function()
    local log = channel.new(math.huge)
    local sup <close> = start {}
    local first = sup:add(entry(log, "a"))
    words(log, 1)
    assert.equal("waiting", first:status())
    assert.same(pack(nil, "there is a child 'a' already"), pack(sup:add(entry(log, "a"))))
    assert.is_true(sup:stop "a")
    assert.same({ "end a" }, words(log, 1))
    assert.same({ id = "a", type = "worker", restart = "permanent", status = "stopped" }, sup:child "a")
    local second = sup:restart "a"
    assert.not_equal(first, second)
    words(log, 1)
    local third = sup:restart "a"
    assert.same({ "end a", "begin a" }, words(log, 2))
    assert.equal(third, sup:child("a").process)
    assert.is_true(sup:remove "a")
    assert.same(pack(nil, "there is no child 'a'"), pack(sup:stop "a"))
    assert.same(pack(nil, "there is no child 'a'"), pack(sup:restart "a"))
    assert.same(pack(nil, "there is no child 'a'"), pack(sup:remove "a"))
    assert.same({ specs = 0, active = 0, supervisors = 0, workers = 0 }, sup:count())
  end)

  it("are made from a template, without ids", function()
    local log, orders = channel.new(math.huge), channel.new()
    local sup = start { intensity = math.huge, template = { start = worker, args = { log }, restart = "transient" } }
    for i = 1, 10 do sup:spawn("w" .. i, orders) end
    words(log, 10)
    assert.equal(10, sup:count().active)
    orders:send "fail"
    local list = words(log, 2)
    assert.equal(list[1]:match "%w+$", list[2]:match "%w+$")       -- the same arguments
    orders:send "return"
    words(log, 1)
    while sup:count().specs ~= 9 do mare.sleep(0.001) end
    local running = sup:children()[1].process
    assert.is_true(sup:stop(running))
    words(log, 1)
    assert.equal(8, sup:count().specs)
    sup:shutdown()
    words(log, 8)
    assert.same(pack(nil, "this supervisor has no template"), pack(start({}):spawn()))
  end)

  it("end together, within one time", function()
    local log = channel.new(math.huge)
    local sup = start { template = { shutdown = 0.3, start = function()
      process.masked(1000, function()
        log:send("begin", "deaf")
        mare.sleep(math.huge)
      end)
    end } }
    for _ = 1, 20 do sup:spawn() end
    words(log, 20)
    local from = mare.clock()
    sup:shutdown()
    assert.is_true(mare.clock() - from < 20 * 0.3)
  end)

  it("are as many as one likes", function()
    local n = proc.config == "plain" and 5000 or 500
    local sup = start { intensity = math.huge, template = { start = mare.sleep, args = { math.huge } } }
    local handles = {}
    for i = 1, n do handles[i] = sup:spawn() end
    for i = 1, n, 10 do handles[i]:kill() end
    for i = 1, n, 10 do handles[i]:wait() end
    for i = 1, n, 10 do                          -- one whose end it has not seen counts as active
      while sup:child(handles[i]) do mare.sleep(0.001) end
    end
    while sup:count().active < n do mare.sleep(0.001) end
    assert.equal(n, sup:count().specs)
    local before = process.count()
    sup:shutdown()
    local patience = mare.clock() + LIMIT        -- an end is told a moment before it is counted
    while process.count() > before - n and mare.clock() < patience do mare.sleep(0.001) end
    assert.is_true(process.count() <= before - n)
  end)
end)

describe("supervisor.run", function()
  local program = [[
    local mare = require "mare"
    local function worker(name)
      local _ <close> = setmetatable({}, { __close = function()
        mare.process.masked(function()
          mare.sleep(0.05)
          io.stdout:write("end ", name, "\n")
        end)
      end })
      io.stdout:write("begin ", name, "\n")
      mare.supervisor.ready()
      mare.sleep(math.huge)
    end
    mare.process.spawn(mare.sleep, math.huge)            -- nobody's
    local options = { children = { { id = "a", start = worker, args = { "a" }, ready = 60 }, { id = "b", ready = 60, start = function()
      mare.supervisor.ready()
      io.stdout:write("ready\n")
      io.stdout:flush()
      mare.sleep(math.huge)
    end } } }
    %s]]

  for _, name in ipairs { "TERM", "INT" } do
    it("shuts the tree down in order at SIG" .. name .. ", and ends the program with 0", function()
      for _, host in ipairs { "mare", "lua" } do
        local r = proc[host](program:format "mare.supervisor.run(options)", {}, { signals = { { after = "ready", name = name } } })
        assert.same({ 0, false }, { r.code, r.timeout }, r.out .. r.err)
        assert.equal("begin a\nready\nend a\n", r.out)
      end
    end)
  end

  it("takes a supervisor that runs, and gives the signal with exit = false", function()
    local r = proc.mare(program:format [[
      options.children[2].start = function() mare.supervisor.ready() mare.sleep(math.huge) end
      local sup = mare.supervisor.start(options)
      mare.fiber.spawn(function() print "ready" io.stdout:flush() end)        -- when the main script waits
      print(mare.supervisor.run(sup, false))
      print(sup:wait())
      os.exit(3)]], {}, { signals = { { after = "ready", name = "TERM" } } })
    assert.equal(3, r.code)
    assert.equal("begin a\nready\nend a\nTERM\ntrue\n", r.out)
  end)

  it("raises what the supervisor failed of", function()
    local r = proc.mare [[
      local ok, err = pcall(require "mare.supervisor".run, { report = false, children = { { id = "w", start = function() error "oh" end } } })
      print(ok, err.kind)]]
    assert.equal("false\tintensity\n", r.out)
  end)

  it("in a process that is not the main one ends with its tree when that is cancelled", function()
    local log = channel.new(math.huge)
    local p = process.spawn(function() supervisor.run { children = { entry(log, "a"), entry(log, "b") } } end)
    words(log, 2)
    p:cancel()
    assert.same({ "end b", "end a" }, words(log, 2))
    assert.is_false((p:wait(LIMIT)))
  end)
end)

describe("any part killed at any moment", function()
  -- Leaves say hello to the log with their path; supervisors are named, so that they can be found.
  local function leaf(log, path)
    log:send(path, process.self())
    mare.sleep(math.huge)
  end

  local function tree(log, depth, path)
    local children = {}
    for i = 1, 3 do
      local here = path .. "." .. i
      if depth > 1 and i > 1 then
        children[i] = { id = i, supervisor = tree(log, depth - 1, here) }
      else
        children[i] = { id = i, start = leaf, args = { log, here } }
      end
    end
    local strategies = { "one_for_one", "one_for_all", "rest_for_one" }
    return { name = path, strategy = strategies[#path % 3 + 1], intensity = math.huge, report = false, children = children }
  end

  local function whole(path, depth)
    local s = supervisor.named(path)
    local ok, list = pcall(s.children, s)
    if not ok or #list ~= 3 then return false end
    for i, child in ipairs(list) do
      if child.id ~= i or child.status ~= "running" or child.process:status() == "failed" then return false end
      if child.type == "supervisor" and not whole(path .. "." .. i, depth - 1) then return false end
    end
    return true
  end

  local function handles(path, list)
    local s = supervisor.named(path)
    local ok, children = pcall(s.children, s)
    for i, child in ipairs(ok and children or {}) do
      list[#list + 1] = child.process
      if child.type == "supervisor" then handles(path .. "." .. i, list) end
    end
    return list
  end

  it("the tree comes back as it was", function()
    local log = channel.new(math.huge)
    local seed = tonumber(os.getenv "MARE_SEED") or os.time()
    local random = function(n) seed = (seed * 1103515245 + 12345) % (1 << 31) return (seed >> 8) % n + 1 end
    local name = "supervisor_spec.random"
    local sup = supervisor.start(tree(log, 3, name))
    local reader = process.spawn(function() for _ in log:each() do end end)
    local till = mare.clock() + (proc.config == "plain" and 3 or 6)
    local rounds = 0
    while mare.clock() < till do
      rounds = rounds + 1
      local list = handles(name, {})
      for _ = 1, random(4) do
        local h = #list > 0 and list[random(#list)]
        if h then
          if random(2) == 1 then h:kill() else h:cancel("at random") end
        end
        if random(3) == 1 then mare.sleep(random(10) / 5000) end
      end
      if rounds % 5 == 0 then
        local limit = mare.clock() + LIMIT
        while not whole(name, 3) do
          assert(mare.clock() < limit, "the tree did not come back; seed " .. seed)
          mare.sleep(0.001)
        end
      end
    end
    local limit = mare.clock() + LIMIT
    while not whole(name, 3) do
      assert(mare.clock() < limit, "the tree did not come back")
      mare.sleep(0.001)
    end
    local leaves = handles(name, {})
    sup:shutdown()
    for _, h in ipairs(leaves) do assert.not_nil((h:wait(LIMIT))) end
    log:close()
    assert.is_true((reader:wait(LIMIT)))
  end)
end)
