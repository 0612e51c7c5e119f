-- mare.server: a process that keeps a state and answers.
-- time limit: 240 s
local mare = require "mare"
local errors = require "mare.error"
local proc = require "spec.support.proc"
local process, channel, server, supervisor = mare.process, mare.channel, mare.server, mare.supervisor

local pack, LIMIT = table.pack, 30 * proc.slow

-- What a counter is started with.
local function counter(more)
  local options = {
    init = function(n) return { n = n or 0 } end,
    call = function(state, question)
      if question == "fail" then error("no such thing", 0) end
      if question == "sleep" then mare.sleep(math.huge) end
      state.n = state.n + 1
      return state.n
    end,
    cast = function(state, n) state.n = state.n + n end,
  }
  for name, value in pairs(more or {}) do options[name] = value end
  return options
end

describe("a server", function()
  it("answers calls in order and takes casts", function()
    local s <close> = server.start(counter { args = { 5 } })
    assert.equal(6, s:call("next"))
    assert.is_true(s:cast(10))
    assert.equal(17, s:call("next"))
    assert.is_true(s:stop(LIMIT))
    assert.equal("done", s.process:status())
  end)

  it("answers nil and false, and what init, call and cast give as the state", function()
    local s <close> = server.start {
      init = function() return 1 end,
      call = function(n, q)
        if q == "nil" then return nil end
        if q == "false" then return false end
        return n, n * 2
      end,
      cast = function(_, n) return n end,
    }
    assert.same(pack(nil), pack(s:call "nil"))
    assert.same(pack(false), pack(s:call "false"))
    assert.equal(1, s:call "double")
    assert.equal(2, s:call "double")
    s:cast(100)
    assert.equal(100, s:call "double")
  end)

  it("can be sent", function()
    local s <close> = server.start(counter())
    assert.same(pack(true, 1), pack(process.spawn(function() return s:call("next") end):wait()))
    assert.same(pack(true, 2), pack(process.spawn(function(its) return its:call("next") end, s):wait()))
    assert.equal(3, s:call("next"))
  end)

  it("tells its caller that it died, with the reason", function()
    local s = server.start(counter())
    local ok, err = pcall(s.call, s, "fail")
    assert.is_false(ok)
    assert.is_true(errors.is(err, "down"))
    assert.equal("no such thing", err.reason)
    assert.truthy(tostring(err):find("ended before it answered", 1, true))
    ok, err = pcall(s.call, s, "next")
    assert.same({ false, "down" }, { ok, err.kind })
    assert.same(pack(nil, "down"), pack(s:cast(1)))
  end)

  it("tells all its callers when it is killed, those in its mailbox too", function()
    local s = server.start(counter { mailbox = 3 })
    local callers = {}
    for i = 1, 8 do callers[i] = process.spawn(function() return pcall(s.call, s, "sleep") end) end
    while #s.inbox < 3 do mare.sleep(0.001) end
    s.process:kill()
    for i = 1, 8 do
      local fine, ok, err = callers[i]:wait(LIMIT)
      assert.same({ true, false, "down" }, { fine, ok, err.kind })
    end
  end)

  it("can be asked for so long, and a late answer reaches nobody", function()
    local gate = channel.new(math.huge)
    local s <close> = server.start { call = function(_, q)
      if q == "wait" then gate:receive() end
      return q
    end }
    assert.same(pack(nil, "timeout"), pack(s:call("wait", 0.01)))
    assert.same(pack(nil, "timeout"), pack(s:call("never", 0.01)))
    gate:send(true)
    for i = 1, 20 do assert.equal(i, s:call(i)) end
  end)

  it("is asked by a deadline too", function()
    local s <close> = server.start(counter())
    local ok, err = pcall(process.deadline, 0.02, s.call, s, "sleep")
    assert.same({ false, "deadline" }, { ok, err.kind })
    s.process:kill()
  end)

  it("has a bounded mailbox: who tells it more waits", function()
    local gate = channel.new()
    local s = server.start { mailbox = 2, cast = function() gate:receive() end }
    local told = channel.new(math.huge)
    local p = process.spawn(function() for i = 1, 4 do s:cast(i) told:send(i) end end)
    for i = 1, 3 do assert.equal(i, (told:receive(LIMIT))) end       -- one is dealt with, two wait
    assert.same(pack(nil, "timeout"), pack(told:receive(0.02)))
    gate:send(true)
    assert.equal(4, (told:receive(LIMIT)))
    assert.is_true(p:wait(LIMIT))
    s.process:kill()
    assert.same(pack(nil, "down"), pack(s:cast(5)))
  end)

  it("wakes who waits for room when it ends", function()
    local s = server.start { mailbox = 0, cast = function() mare.sleep(math.huge) end }
    s:cast(1)
    local p = process.spawn(function() return s:cast(2) end)
    while p:status() ~= "waiting" do mare.sleep(0.001) end
    s.process:kill()
    assert.same(pack(true, nil, "down"), pack(p:wait(LIMIT)))
  end)

  it("raises what its init raises", function()
    local ok, err = pcall(server.start, { init = function() error({ code = 3 }) end })
    assert.same({ false, 3 }, { ok, err.code })
  end)

  it("may answer later", function()
    local s <close> = server.start {
      init = function() return {} end,
      call = function(waiting, q, from)
        if q == "wait" then
          waiting[#waiting + 1] = from
          return server.later
        end
        for i, other in ipairs(waiting) do server.reply(other, q .. i) end
        return #waiting
      end,
    }
    local list = {}
    for i = 1, 3 do list[i] = process.spawn(function() return s:call "wait" end) end
    repeat mare.sleep(0.001) until list[1]:status() == "waiting" and list[2]:status() == "waiting" and list[3]:status() == "waiting"
    local answered = s:call "go"
    if answered < 3 then s:call "go" end
    local got = {}
    for i = 1, 3 do
      local _, answer = list[i]:wait(LIMIT)
      got[answer] = true
    end
    assert.is_true(got.go1 and got.go2 and got.go3)
  end)

  it("is told what its sources give", function()
    local news, log = channel.new(), channel.new(math.huge)
    local child = process.spawn(function() return "result" end)
    local s <close> = server.start {
      init = function() return {}, { news, child, mare.timer.after(0) } end,
      info = function(_, source, ...) log:send(tostring(source):match "^%a+", ...) end,
      call = function() return "served" end,
    }
    news:send("one", 2)
    news:close()
    local got = {}
    for _ = 1, 4 do
      local kind, a, b = log:receive(LIMIT)
      got[#got + 1] = ("%s %s %s"):format(kind, a, b)
    end
    table.sort(got)
    assert.same({ "channel nil closed", "channel one 2", "process true result", "timer 1 nil" }, got)
    assert.equal("served", s:call(1))
    assert.equal(0, #log)                       -- what is ready for ever was told once
  end)

  it("calls terminate with why it ended, but not when it is killed", function()
    local log = channel.new(math.huge)
    local function start() return server.start(counter { terminate = function(state, err)
      mare.sleep(0.001)
      log:send(state.n, type(err) == "table" and err.kind or err)
    end }) end
    start():stop()
    assert.same(pack(0, nil), pack(log:receive(LIMIT)))
    local s = start()
    pcall(s.call, s, "fail")
    assert.same(pack(0, "no such thing"), pack(log:receive(LIMIT)))
    s = start()
    s.process:cancel("over")
    assert.same(pack(0, "cancelled"), pack(log:receive(LIMIT)))
    s = start()
    s.process:kill()
    s.process:wait()
    assert.equal(0, #log)
  end)

  it("says what it can't do", function()
    local message = select(2, pcall(server.start, { cal = print }))
    assert.truthy(message:find("server.start: unknown field 'cal'; did you mean 'call'?", 1, true))
    message = select(2, pcall(server.start, { call = 7 }))
    assert.truthy(message:find("'call' must be a function, got number", 1, true))
    message = select(2, pcall(server.start, { mailbox = -1 }))
    assert.truthy(message:find("'mailbox' must be a whole number", 1, true))
    message = select(2, pcall(server.child, { call = print }))
    assert.truthy(message:find("it needs a name", 1, true))
  end)

  it("lives on when it is asked what it has no function for: who calls is told, what is cast is dropped", function()
    local r = proc.mare [[
      local server = require "mare.server"
      local s = server.start { name = "deaf" }
      print(select(2, pcall(function() s:call(1) end)))
      for i = 1, 3 do print(s:cast(i)) end
      print(s:stop())
      print(select(2, pcall(server.start, { init = function() return 1, { require "mare.timer".after(0) } end })))]]
    assert.matches("^[^\n]*:3: server 'deaf' has no function 'call'\ntrue\ntrue\ntrue\ntrue\n", r.out)
    assert.matches("\n'init' gave things to listen to, but there is no function 'info'\n$", r.out)
    assert.equal("mare: server 'deaf' has no function 'cast'; what is cast to it is dropped\n", r.err)
  end)

  it("deals with requests although who asked is gone", function()
    local gate, log = channel.new(), channel.new(math.huge)
    local s <close> = server.start { call = function(_, q)
      if q == "wait" then gate:receive() end
      log:send(q)
    end }
    assert.same(pack(nil, "timeout"), pack(s:call("wait", 0.01)))
    assert.same(pack(nil, "timeout"), pack(s:call("late", 0.01)))
    local asker = process.spawn(function() s:call "killed" end)
    while #s.inbox < 2 do mare.sleep(0.001) end
    asker:kill()
    asker:wait()
    gate:send(true)
    for _, q in ipairs { "wait", "late", "killed" } do assert.equal(q, (log:receive(LIMIT))) end
  end)

  it("that has ended can be stopped, waited for and killed: no error", function()
    local s = server.start(counter())
    assert.is_true(s:stop())
    assert.is_true(s:stop())
    assert.same(pack(true), pack(s:wait(0)))
    assert.is_false(s:kill())
    s = server.start(counter())
    pcall(s.call, s, "fail")
    assert.is_true(s:stop())
    local ok, err = s:wait(0)
    assert.same({ false, "no such thing" }, { ok, err })
    assert.is_true(server.named("server_spec.nobody"):stop())
    -- two at once
    s = server.start { call = function() mare.sleep(0.01) end }
    local askers = {}
    for i = 1, 4 do askers[i] = process.spawn(function() return s:stop() end) end
    for i = 1, 4 do assert.same(pack(true, true), pack(askers[i]:wait(LIMIT))) end
  end)

  it("that fails before it comes to stop raises why", function()
    local gate, told = channel.new(), channel.new()
    local s = server.start { call = function()
      told:send(true)
      gate:receive()
      error("oh", 0)
    end }
    local first = process.spawn(function() return pcall(s.call, s, 1) end)
    told:receive(LIMIT)
    local second = process.spawn(function() return pcall(s.stop, s) end)
    while #s.inbox == 0 do mare.sleep(0.001) end
    gate:send(true)
    first:wait(LIMIT)
    local _, ok, err = second:wait(LIMIT)
    assert.same({ false, "down", "oh" }, { ok, err.kind, err.reason })
  end)

  it("is waited for, killed and linked as its process is", function()
    local s = server.start(counter { name = "server_spec.w" })
    assert.same(pack(nil, "timeout"), pack(s:wait(0)))
    local ends = process.spawn(function()
      local trap = process.trap()
      local named = server.named "server_spec.w"
      assert(named:link() == named and named:kill() == true)
      return trap:receive()
    end)
    assert.same(pack(true, s.process), pack(ends:wait(LIMIT)))
    assert.equal("killed", select(2, s:wait(LIMIT)).kind)
    local none = server.named "server_spec.w"
    assert.same({ pack(nil, "down"), false }, { pack(none:wait()), none:kill() })
    local ok, err = pcall(none.link, none)
    assert.same({ false, "down" }, { ok, err.kind })
  end)

  it("prints as what it is", function()
    local s <close> = server.start(counter { name = "server_spec.shown" })
    assert.equal("server 'server_spec.shown'", tostring(s))
    assert.equal("server 'x'", tostring(server.named "x"))
  end)
end)

describe("a named server", function()
  it("is found by its name, and by whereis", function()
    local s <close> = server.start(counter { name = "server_spec.a" })
    assert.equal(1, server.named("server_spec.a"):call("next"))
    assert.equal(s.process, process.whereis "server_spec.a")
    assert.is_false((pcall(server.start, counter { name = "server_spec.a" })))
    assert.equal(2, s:call("next"))
  end)

  it("is down when there is none", function()
    local ok, err = pcall(server.named("server_spec.none").call, server.named "server_spec.none", 1)
    assert.same({ false, "down", "'server_spec.none' is not running" }, { ok, err.kind, err.message })
    assert.truthy(tostring(err):find("server_spec.lua:%d+: 'server_spec.none' is not running$"))
    assert.same(pack(nil, "down"), pack(server.named("server_spec.none"):cast(1)))
  end)

  it("can be started again with the same name, by the same handle", function()
    local s = server.start(counter { name = "server_spec.b" })
    assert.equal(1, s:call("next"))
    s.process:kill()
    s.process:wait()
    assert.is_false((pcall(s.call, s, "next")))
    local again <close> = server.start(counter { name = "server_spec.b" })
    assert.equal(1, s:call("next"))
    assert.equal(2, again:call("next"))
  end)

  it("is started again by a supervisor, and callers find the new one", function()
    local sup <close> = supervisor.start { intensity = math.huge, report = false, children = { server.child(counter { name = "server_spec.c" }) } }
    local s = server.named "server_spec.c"
    local function ask()                        -- of one that runs
      local till = mare.clock() + LIMIT
      while mare.clock() < till do
        local ok, answer = pcall(s.call, s, "next")
        if ok then return answer end
        assert.equal("down", answer.kind)
        mare.sleep(0.001)
      end
      error("it was not started again")
    end
    for _ = 1, 20 do
      assert.equal(1, ask())
      assert.equal(2, ask())
      local handle = process.whereis "server_spec.c"
      handle:kill()
      handle:wait(LIMIT)
    end
    assert.equal(1, ask())
    assert.equal("running", sup:child("server_spec.c").status)
  end)

  it("answers 'down' to those who were in the mailbox of the one before, and never leaves them waiting", function()
    local name = "server_spec.d"
    local _ <close> = supervisor.start { intensity = math.huge, report = false, children = { server.child(counter { name = name }) } }
    local callers = {}
    for i = 1, 8 do
      callers[i] = process.spawn(function()
        local s, answered, down = server.named(name), 0, 0
        while answered < 200 do
          local ok, err = pcall(s.call, s, "next")
          if ok then answered = answered + 1
          else
            assert(require "mare.error".is(err, "down"), tostring(err))
            down = down + 1
            mare.sleep(0.0005)
          end
        end
        return down
      end)
    end
    for _ = 1, 20 do
      mare.sleep(0.002)
      local handle = process.whereis(name)
      if handle then handle:kill() end
    end
    for i = 1, 8 do assert.is_true((callers[i]:wait(LIMIT))) end
  end)
end)
