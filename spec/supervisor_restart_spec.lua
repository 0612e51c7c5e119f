-- mare.supervisor: what happens between the end of a child and its next start: names that are still taken, pauses, children that are not ready yet.
-- time limit: 300 s
local mare = require "mare"
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
    assert.equal("running", sup:child("s").status)
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
