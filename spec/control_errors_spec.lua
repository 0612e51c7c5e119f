-- What errors of scopes, servers and supervisors say: the program's line, its own names of things, what may have been meant.
-- time limit: 240 s
local mare = require "mare"
local proc = require "spec.support.proc"
local process, server, supervisor = mare.process, mare.server, mare.supervisor

local LIMIT = 30 * proc.slow
local function echo(_, q) return q end

-- The text of the error that f raises, which must not name a file of mare's.
local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  local text = tostring(err)
  assert.is_nil(text:find("lua/mare/", 1, true), text)
  return text
end

local function line() return ("spec/control_errors_spec.lua:%d: "):format(debug.getinfo(2, "l").currentline) end

describe("an error of control", function()
  it("names the line of the program that made the call", function()
    local s <close> = server.start { call = echo }
    local sup <close> = supervisor.start {}
    for _, case in ipairs {
      { line(), function() s:call(io.stdout) end }, { line(), function() s:call(1, "x") end }, { line(), function() s.call(1) end },
      { line(), function() s.cast("x", 1) end }, { line(), function() server.start { args = { io.stdout } } end },
      { line(), function() server.start { call = 7 } end }, { line(), function() local _ = server.child {} end },
      { line(), function() server.named(nil) end }, { line(), function() supervisor.named({}) end },
      { line(), function() supervisor.start { children = {{}} } end }, { line(), function() supervisor.run { childern = {} } end },
      { line(), function() sup:add {} end }, { line(), function() sup:spawn(io.stdout) end },
      { line(), function() supervisor.start { report = function() return s, io.stdout end, args = 1 } end },
      { line(), function() process.scope(nil) end }, { line(), function() server.named("none"):call() end },
    } do
      local text = message(case[2])
      assert.is_truthy(text:find(case[1], 1, true), ("%s in: %s"):format(case[1], text))
    end
  end)

  it("in a scope names the line there", function()
    for _, case in ipairs {
      { line(), function(s) s:spawn() end }, { line(), function(s) s:spawn { mian = print } end }, { line(), function(s) s:fiber(7) end },
      { line(), function(s) s:spawn(print, io.stdout) end }, { line(), function(s) s:map({ 1 }, print, { at_most = 0 }) end },
      { line(), function(s) s:map({ io.stdout }, print) end },
    } do
      local ok, err = pcall(process.scope, case[2])
      assert.is_false(ok)
      assert.is_truthy(tostring(err.reason):find(case[1], 1, true), tostring(err.reason))
    end
    local kept
    process.scope(function(s) kept = s end)
    local here = line()
    local text = message(function() kept:spawn(print) end)
    assert.is_truthy(text:find(here:gsub("%d+", function(n) return n + 1 end), 1, true), text)
  end)

  it("of a name that is taken names no line of mare's", function()
    local s <close> = server.start { name = "control_errors_spec.taken" }
    assert.equal(("the name 'control_errors_spec.taken' is taken by %s"):format(s.process), message(server.start, { name = s.name }))
    assert.is_truthy(message(supervisor.start, { name = s.name }):find("^the name"))
  end)

  it("names what can't be sent as the program does", function()
    local bad, f = io.stdout, io.stderr
    local s = server.start { call = function() return { a = io.stdout } end, cast = echo, mailbox = 0 }
    local sup <close> = supervisor.start { template = { start = print } }
    local gets = {
      ["question.x: userdata"] = function() s:call { x = bad } end,
      ["question: userdata"] = function() s:call(bad) end,
      ["message[1].x: userdata"] = function() s:cast { { x = bad } } end,
      ["server.start: args[2].y: userdata"] = function() server.start { args = { 1, { y = bad } } } end,
      ["server.start: init: upvalue 'f': userdata"] = function() server.start { init = function() return f end } end,
      ["supervisor.start: children[1].args[1]: userdata"] = function()
        supervisor.start { children = { { id = 1, start = print, args = { bad } } } }
      end,
      ["child.args[1]: userdata"] = function() sup:add { id = 1, start = print, args = { bad } } end,
      ["child: userdata"] = function() sup:stop(bad) end,
      ["argument[2].z: userdata"] = function() sup:spawn(1, { z = bad }) end,
      ["list[2]: userdata"] = function() process.scope(function(sc) sc:map({ 1, bad }, echo) end) end,
    }
    for text, call in pairs(gets) do assert.is_truthy(message(call):find(text, 1, true), message(call)) end
    assert.is_truthy(message(s.call, s, 1):find("answer.a: userdata", 1, true))
  end)

  it("names what was meant by a misspelt field", function()
    local sup <close> = supervisor.start {}
    for text, call in pairs {
      ["server.start: unknown field 'nmae'; did you mean 'name'?"] = function() server.start { nmae = "x" } end,
      ["server.child: unknown field 'mialbox'; did you mean 'mailbox'?"] = function() return (server.child { mialbox = 1 }) end,
      ["server.child: second table: unknown field 'restrat'; did you mean 'restart'?"] = function()
        return (server.child({ name = "x" }, { restrat = "temporary" }))
      end,
      ["supervisor.start: unknown field 'intesity'; did you mean 'intensity'?"] = function() supervisor.start { intesity = 1 } end,
      ["sup:add: unknown field 'strat'; did you mean 'start'?"] = function() sup:add { strat = print } end,
      ["scope:map: unknown field 'atmost'; did you mean 'at_most'?"] = function()
        process.scope(function(s) s:map({}, print, { atmost = 1 }) end)
      end,
      ["unknown field '5'; there are args, call, cast"] = function() server.start { [5] = 1 } end,
      ["unknown field 'qqq'; there are args, call, cast"] = function() server.start { qqq = 1 } end,
    } do
      assert.is_truthy(message(call):find(text, 1, true), message(call))
    end
  end)

  it("is raised when a server asks itself, or a supervisor in its report", function()
    local name = "control_errors_spec.self"
    local s = server.start { name = name, call = function() return (server.named(name):call(1)) end }
    local ok, err = pcall(s.call, s, 1)
    assert.same({ false, "down" }, { ok, err.kind })
    assert.is_truthy(err.reason:find("'control_errors_spec.self' asks itself and would wait for ever", 1, true), err.reason)
    -- another fiber of its process may ask
    local z <close> = server.start { name = name, init = function()
      mare.fiber.spawn(function() mare.channel.named(name .. ".got"):send(server.named(name):call("fiber")) end)
    end, call = echo }
    assert.equal("fiber", (mare.channel.named(name .. ".got"):receive(LIMIT)))
    assert.equal("still", z:call "still")
    local got = mare.channel.new(1)
    local sup <close> = supervisor.start { name = name .. ".sup", intensity = math.huge,
      report = function() got:try_send(select(2, pcall(function() return supervisor.named(name .. ".sup"):count() end))) end,
      children = { { id = 1, restart = "temporary", start = function() error "x" end } } }
    assert.is_truthy(got:receive(LIMIT):find("asks itself", 1, true))
    assert.equal(0, sup:count().active)
  end)

  it("is raised when supervisor.ready is called by no child", function()
    if not process.self():owner() then
      assert.is_truthy(message(supervisor.ready):find("supervisor.ready: this process is no supervisor's child", 1, true))
    end
    assert.same({ true, false }, { process.spawn(function() return (pcall(require "mare".supervisor.ready)) end):wait() })
    local said = mare.channel.new(1)
    local _ <close> = supervisor.start { children = { { id = 1, start = function()       -- nobody waits: no matter
      supervisor.ready()
      said:send(true)
      mare.sleep(math.huge)
    end } } }
    assert.is_true((said:receive(LIMIT)))
  end)
end)
