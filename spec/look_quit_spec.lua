-- SIGQUIT: a program under `mare run` says on stderr what all of it does, and goes on.
-- runs under: mare
local subprocess = require "mare.subprocess"
local proc = require "spec.support.proc"

local LIMIT = 60 * proc.slow

-- Runs a script; f gets it and a function that sends SIGQUIT and gives what it says then, up to a text.
local function script(code, workers, f)
  proc.with_file(code, function(path)
    local command = { proc.bin, "run", "-w", tostring(workers), path, stdout = "pipe", stderr = "pipe", stdin = "null" }
    local child <close> = assert(subprocess.spawn(command))
    assert.equal("up\n", child.stdout:read("L", LIMIT))
    f(child, function(last)
      assert(child:kill "QUIT")
      local text, why = child.stderr:read_until(last, nil, LIMIT)
      assert(text, why)
      return text
    end)
  end)
end

local UP = "io.stdout:write('up\\n') io.stdout:flush()\n"

describe("SIGQUIT", function()
  it("shows workers and processes while all workers are busy", function()
    script([[
      local mare = require "mare"
      local c = mare.channel.named "jobs"
      for i = 1, 3 do mare.process.spawn { name = "loop", main = function() while true do end end } end
      local p = mare.process.spawn { name = "waits", main = function(c) c:receive() end, args = { c } }
      repeat mare.sleep(0.01) until p:status() == "waiting"
    ]] .. UP .. "mare.channel.new():receive()", 2, function(child, quit)
      local wanted = { "mare: SIGQUIT: 5 processes, up ",
                       "\n  worker 1: runs [^\n]+, %d+ queued, busy %d+ %% of the time\n  worker 2: runs [^\n]+\nprocesses:\n",
                       "\n  #%d 'loop': %a+ at [^\n]+:3; cpu %d", "\n  #5 'waits': waiting %(receive, channel 'jobs'%) at [^\n]+:4; cpu ",
                       "\n  #1 main: [^\n]+ at [^\n]+; cpu ", "\nprocess #%d 'loop': %a+\nstack traceback:\n\t[^\n]+:3: in function$" }
      local text, missing
      for _ = 1, 20 do                           -- who gets no turn in two seconds, on a loaded machine, is shown without its place
        text, missing = quit "\nstack traceback:\n" .. child.stderr:read_until("in function", nil, LIMIT), nil
        for _, pattern in ipairs(wanted) do
          if not text:find(pattern) then missing = pattern end
        end
        if not missing then break end
      end
      assert.is_nil(missing, text)
      assert.is_nil((child:wait(0)))                           -- it goes on
    end)
  end)

  it("shows some hundred processes at most", function()
    script([[
      local mare = require "mare"
      local c = mare.channel.new()
      for i = 1, 400 do mare.process.spawn(function(c) c:receive() end, c) end
    ]] .. UP .. "mare.sleep(3600)", 1, function(_, quit)
      local text = quit "… and 101 more\n"
      local _, n = text:gsub("\n  #", "")
      assert.equal(300, n)
    end)
  end)

  it("works while all processes wait, and ends no wait", function()
    script([[
      local mare = require "mare"
      mare.process.spawn(function() require "mare".sleep(3600) end)
      local s = require "mare.signal".on "USR1"
    ]] .. UP .. [[
      io.stdout:setvbuf "no"
      local name, n = s:wait()
      print(name, n)
      os.exit(0)
    ]], 2, function(child, quit)
      for _ = 1, 3 do
        quit "waiting (sleep)"
      end
      child:kill "USR1"
      assert.equal("USR1\t1\n", child.stdout:read("L", LIMIT))
      assert.equal(0, child:wait(LIMIT).code)
    end)
  end)

  it("works while nobody reads what the program writes", function()
    proc.with_file([[
      io.stderr:write "up\n"
      local s = ("x"):rep(1000)
      while true do io.stdout:write(s) end
    ]], function(path)
      local child <close> = assert(subprocess.spawn { proc.bin, "run", path, stdout = "pipe", stderr = "pipe", stdin = "null" })
      assert.truthy(child.stderr:read_until("up\n", nil, LIMIT))
      for _ = 1, 2 do
        child:kill "QUIT"
        assert.truthy(child.stderr:read_until("#1 main: ", nil, LIMIT))
      end
      child:kill "KILL"
    end)
  end)

  describe("of a run that can be repeated", function()
    local program = [[
      local mare = require "mare"
      local c, t = mare.channel.named "jobs", setmetatable({}, { __mode = "k" })
      mare.process.spawn { name = "waits", main = function(c) while c:receive() do end end, args = { c } }
      mare.process.spawn { name = "loop", main = function(c)
        mare.fiber.spawn { name = "idle", main = function() mare.sleep(1e6) end }
        mare.fiber.yield()
        io.stdout:write "up\n"
        io.stdout:flush()
        for i = 1, 200 do
          table.sort({ 3, 1, 2 }, function(a, b) for _ = 1, 3e4 do end return a < b end)
          for _ = 1, 3e4 do end
          c:send(i)
        end
        c:close()
        os.exit(0)
      end, args = { c } }
      for i = 1, 100 do t[{}] = i end
      for k, v in pairs(t) do io.stdout:write(tostring(k), v, " ") end
      print(math.random(1e9))
      mare.sleep(100)
    ]]

    it("shows the same and changes nothing in it", function()
      proc.with_file(program, function(path)
        local command = { proc.bin, "run", "--seed", "12", path, stdout = "pipe", stderr = "pipe", stdin = "null" }
        local undisturbed = proc.mare_command({ "run", "--seed", "12", path }, { timeout = LIMIT }).out
        local child <close> = assert(subprocess.spawn(command))
        local out = child.stdout:read_until("up\n", nil, LIMIT)
        for _ = 1, 3 do
          child:kill "QUIT"
          local text = assert(child.stderr:read_until("process #3 'loop'\n", nil, LIMIT))
          assert.matches("mare: SIGQUIT: 3 processes, ", text)
          assert.matches("\n  worker 1: runs #3 'loop'\n", text)
          assert.matches("\n  #3 'loop': running at [^\n]+:%d+; heap [^\n]+, 2 fibers\n", text)
          assert.matches("\n  #1 main: waiting %(sleep%) at [^\n]+:20; heap", text)
          assert.matches("\n  #2 'waits': %a+[^\n]* at [^\n]+:3; heap", text)
          text = assert(child.stderr:read_until("fiber #1 'idle': waiting (sleep)\n", nil, LIMIT))
          assert.matches("main fiber: running\nstack traceback:\n\t.*:%d+: in function <", text)   -- perhaps at the end of a send
        end
        out = out .. assert(child.stdout:read("a", LIMIT))
        assert.equal(0, child:wait(LIMIT).code)
        if proc.config == "plain" then assert.equal(undisturbed, out) end
      end)
    end)

    it("is seen in a C function, too", function()
      proc.with_file([[
        io.stdout:write "up\n"
        io.stdout:flush()
        local function slow(s) return (s:find((".-"):rep(30) .. "b")) end
        coroutine.wrap(function() slow(("a"):rep(60)) end)()
      ]], function(path)
        local command = { proc.bin, "run", "--seed", "1", path, stdout = "pipe", stderr = "pipe", stdin = "null" }
        local child <close> = assert(subprocess.spawn(command))
        assert.equal("up\n", child.stdout:read("L", LIMIT))
        for _ = 1, 20 do                                      -- it may not be there yet
          child:kill "QUIT"
          local text = assert(child.stderr:read_until("in main chunk", nil, LIMIT))
          if text:find("[C]: in function 'string.find'", 1, true) then
            assert.matches("#1 main: running at [^\n]+:3;", text)
            return
          end
        end
        error "never seen there"
      end)
    end)
  end)

  it("is the program's own while it listens", function()
    script([[
      local s = require "mare.signal".on "QUIT"
    ]] .. UP .. [[
      print((s:wait()))
      s:close()
      print "closed"
      io.stdout:flush()
      require "mare".sleep(3600)
    ]], 1, function(child, quit)
      child:kill "QUIT"
      assert.equal("QUIT\n", child.stdout:read("L", LIMIT))
      assert.equal("closed\n", child.stdout:read("L", LIMIT))
      local text
      repeat text = quit ", received " until text:find("waiting (sleep)", 1, true)     -- it says "closed" before it sleeps
      assert.matches("SIGQUIT: 1 process, ", text)
    end)
  end)
end)
