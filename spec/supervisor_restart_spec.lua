-- mare.supervisor: what happens between the end of a child and its next start: names that are still taken, pauses, children that are not ready yet.
-- time limit: 300 s
local mare = require "mare"
local proc = require "spec.support.proc"
local supervised = require "spec.support.supervised"
local process, channel, supervisor, server = mare.process, mare.channel, mare.supervisor, mare.server
local start, words, LIMIT = supervised.start, supervised.words, supervised.LIMIT

describe("the name of a child whose supervisor was killed", function()
  -- It has a name and does not listen: only kill ends it.
  local function deaf(log, name)
    process.register(name)
    process.masked(1000, function()
      log:send("begin", name, process.self())
      supervisor.ready()
      mare.sleep(math.huge)
    end)
  end

  for _, ready in ipairs { false, LIMIT } do
    it("is taken from it when the new supervisor starts the child" .. (ready and ", which says when it is ready" or ""), function()
      local log, name = channel.new(math.huge), "supervisor_spec.deaf"
      local child = { id = name, start = deaf, args = { log, name }, ready = ready or nil }
      local sup <close> = start { intensity = 1, period = 1000, children = {      -- no try may fail
        { id = "s", supervisor = { intensity = 0, report = false, children = { child } } } } }
      local _, first = words(log, 1)
      sup:child("s").process:kill()
      local _, second = words(log, 1)
      assert.equal(second[name], process.whereis(name))
      assert.same({ "killed", nil, "ended" }, { select(2, first[name]:wait(0)).kind, first[name]:owner() })
      second[name]:kill()                         -- it would take 5 s to end
    end)
  end

  it("is taken from a server, and from a supervisor, too", function()
    local log = channel.new(math.huge)
    local function busy() process.masked(1000, mare.sleep, math.huge) end
    local function stuck() log:send("end", "stuck") busy() end
    local sup <close> = start { intensity = 1, period = 1000, children = { { id = "s", supervisor = { intensity = 0, report = false, children = {
      { id = "x", supervisor = { name = "supervisor_spec.x", children = { { id = "y", shutdown = 1000, start = stuck } } } },
      server.child { name = "supervisor_spec.z", call = function(_, q) if q == "stick" then stuck() end return process.self() end },
    } } } } }
    words(log, 1)
    local z = server.named "supervisor_spec.z"
    local x, old = process.whereis "supervisor_spec.x", z:call "who"
    process.spawn(function() pcall(z.call, z, "stick") end)
    words(log, 1)
    sup:child("s").process:kill()
    local again
    repeat
      local ok, handle = pcall(z.call, z, "who", LIMIT)
      again = ok and handle ~= old and handle
    until again or mare.sleep(0.001)
    assert.equal(again, process.whereis "supervisor_spec.z")
    assert.not_equal(x, process.whereis "supervisor_spec.x")
    assert.equal("killed", select(2, x:wait(0)).kind)
    while sup:child("s").status ~= "running" do mare.sleep(0.001) end    -- its children serve before it says that it is ready
    process.whereis("supervisor_spec.x"):kill()
  end)

  it("waits for its clean-up if that is short", function()
    local log, name = channel.new(math.huge), "supervisor_spec.tidy"
    local sup <close> = start { intensity = 1, period = 1000, children = { { id = "s", supervisor = { intensity = 0, report = false, children = {
      { id = name, start = function()
        process.register(name)
        local _ <close> = setmetatable({}, { __close = function() log:try_send("end", name) end })
        log:send("begin", name)
        mare.sleep(math.huge)
      end } } } } } }
    words(log, 1)
    sup:child("s").process:kill()
    assert.same({ "end " .. name, "begin " .. name }, words(log, 2))
  end)

  it("stays with a process that nobody owned: the error counts", function()
    local name = "supervisor_spec.foreign"
    local sup = start { intensity = 3, period = 1000, children = { server.child { name = name, call = print } } }
    local child = sup:child(name).process
    local foreign = process.spawn(mare.sleep, math.huge)
    process.unregister(name)
    process.register(name, foreign)
    child:kill()
    local ok, err = sup:wait(LIMIT)
    assert.same({ false, "intensity" }, { ok, err.kind })
    assert.truthy(tostring(err.reason):find("is taken by process #" .. foreign.id, 1, true))
    assert.equal(foreign, process.whereis(name))
    foreign:kill()
  end)
end)

describe("while a child is not ready at a restart, its supervisor", function()
  -- Each that begins is ready when it gets a word.
  local function slow(log, name, words_for_it)
    log:send("begin", name, process.self())
    if words_for_it:receive() == "fail" then error("not ready", 0) end
    supervisor.ready()
    log:send("ready", name)
    mare.sleep(math.huge)
  end

  local function tree(options)
    local log, go = channel.new(math.huge), channel.new(math.huge)
    go:send(true)
    table.insert(options.children, options.at or 1, { id = "slow", ready = LIMIT * 10, start = slow, args = { log, "slow", go } })
    options.at, options.intensity = nil, options.intensity or math.huge
    return start(options), log, go
  end

  it("deals with requests, and with the ends of others", function()
    local sup <close>, log, go = tree { template = { start = supervised.worker, args = { channel.new(math.huge) } }, children = {} }
    local _, handles = words(log, 2)
    sup:add(supervised.entry(log, "b"))
    local first = select(2, words(log, 1)).b
    handles.slow:kill()
    words(log, 1)
    assert.equal("restarting", sup:child("slow").status)
    first:kill()
    assert.same({ "begin b" }, words(log, 1))
    assert.truthy(sup:add(supervised.entry(log, "c")))
    assert.truthy(sup:spawn("t"))
    assert.same({ "begin c" }, words(log, 1))
    assert.is_true(sup:remove "c")
    words(log, 1)
    go:send(true)
    assert.same({ "ready slow" }, words(log, 1))
    while sup:child("slow").status ~= "running" do mare.sleep(0.001) end
  end)

  it("keeps the order of rest_for_one: those that come later wait", function()
    local log2 = channel.new(math.huge)
    local sup <close>, log, go = tree { strategy = "rest_for_one", children = { supervised.entry(log2, "later") } }
    words(log, 2)
    words(log2, 1)
    for _ = 1, 3 do
      sup:child("slow").process:kill()
      words(log, 1)
      assert.same({ "end later" }, words(log2, 1))
      assert.same({ "restarting", "restarting" }, { sup:child("slow").status, sup:child("later").status })
      go:send "fail"                              -- and once more
      words(log, 1)
      assert.same({ "restarting", "restarting" }, { sup:child("slow").status, sup:child("later").status })
      go:send(true)
      assert.same({ "ready slow" }, words(log, 1))
      assert.same({ "begin later" }, words(log2, 1))
    end
  end)

  it("can start all of one_for_all anew", function()
    local log2 = channel.new(math.huge)
    local sup <close>, log, go = tree { strategy = "one_for_all", at = 2, children = { supervised.entry(log2, "a") } }
    local handles = select(2, words(log, 2))
    words(log2, 1)
    handles.slow:kill()
    local _, others = words(log2, 2)
    words(log, 1)
    others.a:kill()                               -- the one that is awaited is ended
    assert.same({ "begin a" }, words(log2, 1))
    assert.same({ "begin slow" }, words(log, 1))
    go:send(true)
    assert.same({ "ready slow" }, words(log, 1))
    while sup:child("slow").status ~= "running" do mare.sleep(0.001) end
  end)

  it("stops it, starts it again, forgets it when it is asked to", function()
    local sup <close>, log, go = tree { children = {} }
    local _, handles = words(log, 2)
    handles.slow:kill()
    words(log, 1)
    assert.is_true(sup:stop "slow")
    assert.same({ "stopped" }, { sup:child("slow").status, sup:child("slow").process })
    local asker = process.spawn(function() return sup:restart "slow" end)
    words(log, 1)
    go:send(true)
    local ok, handle = asker:wait(LIMIT)
    assert.is_true(ok)
    assert.equal(handle, sup:child("slow").process)
    handle:kill()
    words(log, 2)
    assert.is_true(sup:remove "slow")
    assert.equal(0, sup:count().specs)
    assert.is_true(sup:shutdown())
  end)

  it("deals with requests also while one that was late doesn't end", function()
    local lives, limit = channel.new(math.huge), 0.5 * proc.slow
    local sup <close> = start { intensity = math.huge, children = { { id = "late", ready = limit, shutdown = math.huge, start = function()
      lives:send(true)
      if #lives == 2 then process.masked(100000, mare.sleep, math.huge) end
      supervisor.ready()
      mare.sleep(math.huge)
    end } } }
    sup:child("late").process:kill()
    while #lives < 2 do mare.sleep(0.001) end
    mare.sleep(limit + 0.02)
    local child = sup:child "late"
    if #lives == 2 then assert.equal("restarting", child.status) end
    child.process:kill()
    while #lives < 3 or sup:child("late").status ~= "running" do mare.sleep(0.001) end
  end)
end)

describe("with a backoff, a child that fails", function()
  -- Children that fail at once, and tell when they began.
  local function fails(log)
    log:send(mare.clock())
    error("again", 0)
  end

  local function gaps(log, n)
    local list, last = {}, log:receive(LIMIT)
    for i = 1, n do
      local now = log:receive(LIMIT)
      list[i], last = now - last, now
    end
    return list
  end

  it("pauses before it is started again, longer each time up to the most", function()
    local log = channel.new(math.huge)
    local _ <close> = start { intensity = math.huge, period = 1000, backoff = { 0.01, 0.04 }, children = {
      { id = "a", start = fails, args = { log } } } }
    local list = gaps(log, 5)
    for i, least in ipairs { 0.01, 0.02, 0.04, 0.04, 0.04 } do assert.is_true(list[i] >= least, ("%d: %g"):format(i, list[i])) end
  end)

  it("pauses for the same time each time if that is a number; a child may have its own", function()
    local log, other = channel.new(math.huge), channel.new(math.huge)
    local _ <close> = start { intensity = math.huge, backoff = 1000, children = {
      { id = "a", start = fails, args = { log }, backoff = 0.02 }, { id = "b", start = fails, args = { other }, backoff = false } } }
    for i, gap in ipairs(gaps(log, 3)) do assert.is_true(gap >= 0.02, ("%d: %g"):format(i, gap)) end
    gaps(other, 50)
  end)

  it("is restarting meanwhile, and holds up nobody", function()
    local log, begun = channel.new(math.huge), channel.new(math.huge)
    local sup <close> = start { intensity = math.huge, backoff = 1000, children = {
      { id = "a", start = fails, args = { begun } }, supervised.entry(log, "b", { backoff = false }) } }
    local _, handles = words(log, 1)
    while sup:child("a").status ~= "restarting" do mare.sleep(0.001) end
    assert.is_nil(sup:child("a").process)
    handles.b:kill()
    assert.same({ "begin b" }, words(log, 1))
    assert.truthy(begun:receive(LIMIT))
    assert.truthy(sup:restart "a")                -- without the pause
    assert.truthy(begun:receive(LIMIT))
    while sup:child("a").status ~= "restarting" do mare.sleep(0.001) end
    assert.is_true(sup:stop "a")
    assert.equal("stopped", sup:child("a").status)
    assert.is_true(sup:remove "a")
    assert.is_true(sup:shutdown())
  end)

  it("begins anew with the first pause when it has lived longer than the period", function()
    local log, orders = channel.new(math.huge), channel.new()
    local sup <close> = start { intensity = math.huge, period = 0.01, backoff = { 0.001, 1000 }, children = {
      supervised.entry(log, "a", { args = { log, "a", orders } }) } }
    words(log, 1)
    for _ = 1, 20 do                              -- doubled 20 times it would be many minutes
      mare.sleep(0.02)
      orders:send "fail"
      assert.same({ "end a", "begin a" }, words(log, 2))
    end
    assert.equal("running", sup:child("a").status)
  end)

  it("counts for the intensity as usual", function()
    local log = channel.new(math.huge)
    local sup = start { intensity = 3, period = 1000, backoff = 0.001, children = { { id = "a", start = fails, args = { log } } } }
    local ok, err = sup:wait(LIMIT)
    assert.same({ false, "intensity", "again", 4 }, { ok, err.kind, err.reason, #log })
  end)

  it("lets those that come after it wait, with rest_for_one", function()
    local log, orders = channel.new(math.huge), channel.new()
    local sup <close> = start { strategy = "rest_for_one", intensity = math.huge, backoff = 1000, children = {
      supervised.entry(log, "a"), supervised.entry(log, "b", { args = { log, "b", orders } }), supervised.entry(log, "c") } }
    words(log, 3)
    orders:send "fail"
    assert.same({ "end b", "end c" }, words(log, 2))
    while sup:child("b").status ~= "restarting" do mare.sleep(0.001) end
    assert.same({ "running", "restarting" }, { sup:child("a").status, sup:child("c").status })
    supervised.quiet(log)
    assert.is_true(sup:stop "b")
    assert.same({ "begin c" }, words(log, 1))
    assert.same({ "stopped", "running" }, { sup:child("b").status, sup:child("c").status })
  end)

  it("is told what is wrong with it", function()
    for _, value in ipairs { -1, "x", {}, { 1 }, { 2, 1 }, { 0, math.huge }, 0 / 0, math.huge, true } do
      local ok, err = pcall(start, { backoff = value })
      assert.is_false(ok)
      assert.truthy(err:find("'backoff' must be false, a number of seconds, or { first, most }", 1, true), err)
      ok, err = pcall(start, { children = { { id = 1, start = print, backoff = value } } })
      assert.truthy(not ok and err:find("children[1]: 'backoff' must be false, a number", 1, true), err)
    end
  end)
end)
