-- Signals: told to everybody who listens, and given back. Each test is a program of its own: signals concern a whole one.
-- runs under: mare
local proc = require "spec.support.proc"

local hosts = { proc.mare }
if proc.config == "plain" then hosts[2] = proc.lua end     -- sanitizers are not in the interpreter there

-- Runs text under mare run and in plain lua: the same output.
local function both(expected, text, options)
  for _, run in ipairs(hosts) do
    local r = run([[
      local mare = require "mare"
      local signal, subprocess = require "mare.signal", require "mare.subprocess"
      local self = tonumber(subprocess.run { "sh", "-c", "echo $PPID" }.out)
      local function raise(name) assert(subprocess.run { "kill", "-" .. name, tostring(self) }.code == 0) end
      io.stdout:setvbuf "no"
    ]] .. text, {}, options)
    assert.equal(expected, r.out .. r.err .. (r.signal and "signal " .. r.signal or "") .. (r.timeout and "time limit" or ""))
  end
end

describe("signal", function()
  it("is waited for, with and without a limit", function()
    both("signal USR1\nnil\ttimeout\nnil\ttimeout\nUSR1\t1\nUSR1\t1\n", [[
      local s = signal.on "USR1"
      print(s)
      print(s:wait(0))
      print(s:wait(0.01))
      raise "USR1"
      print(s:wait())
      mare.process.spawn(function(pid) mare.sleep(0.05) require "mare.subprocess".run { "kill", "-USR1", pid } end, tostring(self))
      print(s:wait(30))
    ]])
  end)

  it("counts while nobody waits", function()
    both("USR2\ttrue\n", [[
      local s = signal.on "SIGUSR2"
      for i = 1, 3 do raise "USR2" end
      local name, n = s:wait()
      while n < 3 do                              -- the system may deliver two that are pending as one
        local came, more = s:wait(0.05)
        if not came then break end
        n = n + more
      end
      print(name, n >= 1 and n <= 3)
    ]])
  end)

  it("reaches every listener, in two processes", function()
    both("true\tUSR1\t1\ntrue\tUSR1\t1\nUSR1\t1\n", [[
      local ready = mare.channel.new(math.huge)
      local function listen()
        local s = require "mare.signal".on "USR1"
        ready:send(true)
        return s:wait()
      end
      local own = signal.on "USR1"
      local a, b = mare.process.spawn(listen), mare.process.spawn(listen)
      ready:receive()
      ready:receive()
      raise "USR1"
      print(a:wait())
      print(b:wait())
      print(own:wait())
    ]])
  end)

  it("is taken once from a listener that was sent", function()
    both("USR1\nnil\ttimeout\nfalse\n", [[
      local s = signal.on "USR1"
      local results, list = mare.channel.new(math.huge), {}
      for i = 1, 2 do list[i] = mare.process.spawn(function() results:send(s:wait() or false) end) end
      for i = 1, 2 do while list[i]:status() ~= "waiting" do mare.process.yield() end end
      raise "USR1"
      print((results:receive()))
      print(results:receive(0.1))                 -- the other one still waits
      s:close()
      print(results:receive())
    ]])
  end)

  it("is something to select", function()
    both("2\tUSR2\t1\ndefault\n", [[
      local one, two = signal.on "USR1", signal.on "USR2"
      raise "USR2"
      print(mare.select { one, two })
      print((mare.select { one, two, default = true }))
    ]])
  end)

  it("wakes who waits when it is closed", function()
    both("true\tnil\tclosed\tEBADF\nnil\tclosed\tEBADF\n", [[
      local s = signal.on "USR1"
      local p = mare.process.spawn(function() return s:wait() end)
      while p:status() ~= "waiting" do mare.sleep(0.001) end
      s:close()
      s:close()
      print(p:wait())
      print(s:wait())
    ]])
  end)

  it("that was given back ends the program as ever", function()
    for _, run in ipairs(hosts) do
      local r = run([[
        local signal, subprocess = require "mare.signal", require "mare.subprocess"
        do local s <close> = signal.on "USR1" end
        do signal.on "USR1" end
        collectgarbage() collectgarbage()
        subprocess.run { "sh", "-c", "kill -USR1 $PPID" }
        require "mare".sleep(60)
      ]])
      assert.equal(10, r.signal)
    end
  end)

  it("INT keeps its meaning under mare run until it is taken, and gets it back", function()
    local text = [[
      local mare, signal = require "mare", require "mare.signal"
      local s = signal.on "INT"
      print "taken" io.stdout:flush()
      print(s:wait()) io.stdout:flush()
      s:close()
      print(pcall(function() print "given back" io.stdout:flush() mare.sleep(60) end))
    ]]
    local r = proc.mare(text, {}, { timeout = 60, signals = { { after = "taken", name = "INT" }, { after = "given back", name = "INT" } } })
    assert.truthy(r.out:find("^taken\nINT\t1\ngiven back\nfalse\t.*interrupted!"), r.out .. r.err)
  end)

  it("hides no deadlock when nobody waits for it", function()
    local r = proc.mare([[
      local s = require "mare.signal".on "USR1"
      require "mare.channel".new():receive()
      s:close()
    ]])
    assert.equal(1, r.code)
    assert.truthy(r.err:find("deadlock", 1, true), r.err)
  end)

  it("refuses what can't be had", function()
    both([[
false	bad argument #1 to 'mare.signal.on' (signal "KILL" can't be waited for)
false	bad argument #1 to 'mare.signal.on' (no signal is called "FOO"; there are "INT", "TERM", "HUP" …)
]], [[
      print(pcall(signal.on, "KILL"))
      print(pcall(signal.on, "FOO"))
    ]])
  end)
end)
