-- Programs: results, limits, pipes, and that nothing of them is left: no zombie, no descriptor, no running child.
local mare = require "mare"
local file = require "mare.file"
local subprocess = require "mare.subprocess"
local proc = require "spec.support.proc"
local programs = require "spec.support.programs"
local temporary = require "spec.support.temporary"

local self = tonumber(assert(subprocess.run { "sh", "-c", "echo $PPID" }).out)

local eventually, alive = programs.eventually, programs.alive

local function children()
  local list = {}
  for _, task in ipairs((file.list("/proc/" .. self .. "/task"))) do
    for pid in (file.read(("/proc/%d/task/%s/children"):format(self, task)) or ""):gmatch "%d+" do list[#list + 1] = pid end
  end
  return list
end

local function descriptors()
  local r = subprocess.run { "sh", "-c", "ls -l /proc/$PPID/fd | grep -c pipe" }
  return tonumber(r.out)
end

describe("subprocess", function()
  local before
  setup(function() before = descriptors() end)
  after_each(function()
    collectgarbage()
    collectgarbage()
    assert.is_true(eventually(function() return #children() == 0 end), table.concat(children(), " "))
    assert.is_true(eventually(function() return descriptors() == before end))
  end)

  describe("run", function()
    it("gives code, output and errors", function()
      assert.same({ code = 0, out = "hi\n", err = "" }, subprocess.run { "echo", "hi" })
      assert.same({ code = 3, out = "out\n", err = "err\n" }, subprocess.run { "sh", "-c", "echo out; echo err >&2; exit 3" })
      assert.same({ signal = "KILL", out = "", err = "" }, subprocess.run { "sh", "-c", "kill -9 $$" })
    end)

    it("gives arguments as they are, without a shell", function()
      local r = subprocess.run { "printf", "%s|", "a b", "$HOME", "", "*", 7 }
      assert.equal("a b|$HOME||*|7|", r.out)
    end)

    it("of a missing program, folder or permission gives nil, a message and a code", function()
      local r, message, code = subprocess.run { "no such program" }
      assert.is_nil(r)
      assert.equal("no such program: No such file or directory", message)
      assert.equal("ENOENT", code)
      assert.equal("EACCES", select(3, subprocess.run { "/etc/passwd" }))
      local _, text = subprocess.run { "true", cwd = "/no/such/folder" }
      assert.equal("/no/such/folder: Not a directory", text)
    end)

    it("feeds and collects more than a pipe holds", function()
      local data = ("0123456789abcdef"):rep(1 << 17)
      local r = subprocess.run { "cat", input = data }
      assert.is_true(r.out == data)
      r = subprocess.run { "sh", "-c", "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2" }
      assert.equal(1000000, #r.out)
      assert.equal(1000000, #r.err)
    end)

    it("goes on when the program doesn't read its input", function()
      assert.same({ code = 0, out = "", err = "" }, subprocess.run { "true", input = ("x"):rep(1 << 21) })
    end)

    it("knows the folder, the environment and where output goes", function()
      assert.equal("/usr\n", subprocess.run { "pwd", cwd = "/usr" }.out)
      local r = subprocess.run { "sh", "-c", 'echo "$A,$HOME,${PATH:+set}"', env = { A = "1", HOME = false } }
      assert.equal("1,,set\n", r.out)
      assert.same({ code = 0, out = "ab" }, subprocess.run { "sh", "-c", "printf a; printf b >&2", stderr = "stdout" })
      assert.same({ code = 0, err = "" }, subprocess.run { "echo", "x", stdout = "null" })
    end)

    it("past its timeout kills the whole group and gives what there was", function()
      local limit = 0.5 * proc.slow
      local grandchild
      repeat                                     -- until it has come so far before the limit
        local r, message, code, partial = subprocess.run {
          "sh", "-c", "trap '' TERM; sleep 1000 & echo $! ; wait", timeout = limit,
        }
        assert.is_nil(r)
        assert.equal("timeout", message)
        assert.is_nil(code)
        assert.equal("KILL", partial.signal)
        grandchild, limit = partial.out:match "%d+", limit * 3
      until grandchild
      assert.is_true(eventually(function() return not alive(grandchild) end))
    end)

    it("past its timeout at once gives an empty result", function()
      assert.same({ nil, "timeout", nil, { out = "", err = "" } }, { subprocess.run { "true", timeout = 0 } })
    end)

    it("waits for who still holds the output, and past the timeout not for that either", function()
      local r = subprocess.run { "sh", "-c", "(sleep 0.2; echo late) & echo early" }
      assert.equal("early\nlate\n", r.out)
      local limit = 0.5 * proc.slow
      local code
      repeat                                     -- until the shell has ended before the limit
        local _, message, _, partial = subprocess.run { "sh", "-c", "setsid sleep 1000 & echo $!", timeout = limit }
        assert.equal("timeout", message)
        local pid = partial.out:match "%d+"
        if pid then subprocess.run { "kill", pid } end
        code, limit = partial.code, limit * 3
      until code
      assert.equal(0, code)
    end)

    it("of hundreds at once, by many processes", function()
      local workers = {}
      for w = 1, 10 do
        workers[w] = mare.process.spawn(function()
          local s = require "mare.subprocess"
          local sum = 0
          for i = 1, 10 do sum = sum + s.run { "sh", "-c", "exit " .. i }.code end
          return sum
        end)
      end
      for w = 1, 10 do assert.same({ true, 55 }, { workers[w]:wait() }) end
    end)

    it("works where Lua can't yield, and holds no worker", function()
      local list = { 2, 1 }
      table.sort(list, function(a, b) return subprocess.run { "true" }.code == 0 and a < b end)
      assert.same({ 1, 2 }, list)
      local fifo = temporary()
      os.remove(fifo)
      local r = proc.mare([[
        local mare, fifo = require "mare", ...
        local run = mare.subprocess.run
        assert(run { "mkfifo", fifo }.code == 0)
        local p = mare.process.spawn(function() return run { "sh", "-c", "read x <" .. fifo }.code end)
        for _ = 1, 4 do assert(p:wait(0.01) == nil) end
        run { "sh", "-c", "echo go >" .. fifo }
        print(p:wait())
      ]], { fifo }, { workers = 1 })
      os.remove(fifo)
      assert.equal("true\t0\n", r.out .. r.err)
    end)

    it("ends with the process that runs it", function()
      local pidfile = temporary()
      local r = proc.mare([[
        local mare, name = require "mare", ...
        local p = mare.process.spawn(function()
          local fiber = require "mare.fiber"
          fiber.spawn(function() require "mare.subprocess".run { "sh", "-c", "echo $$ > " .. name .. "; exec sleep 100" } end)
          while #(require "mare.file".read(name) or "") == 0 do mare.sleep(0.01) end
          error "over"
        end)
        print(p:wait())
        print(mare.process.count())
      ]], { pidfile }, { timeout = 30 })
      local pid = file.read(pidfile):match "%d+"
      os.remove(pidfile)
      assert.truthy(r.out:find("over", 1, true), r.out .. r.err)
      assert.is_true(eventually(function() return not alive(pid) end))
    end)
  end)

  describe("spawn", function()
    it("gives pipes to talk to it", function()
      local h = assert(subprocess.spawn { "cat" })
      assert.is_true(h.stdin:write "one\ntwo\n")
      assert.equal("one", h.stdout:read "l")
      assert.equal("two", h.stdout:read "l")
      h.stdin:close()
      assert.same({ nil, "closed", "EOF" }, { h.stdout:read() })
      assert.same({ code = 0 }, h:wait())
      assert.same({ code = 0 }, h:wait())
      h.stdout:close()
      h.stderr:close()
    end)

    it("gives only the pipes that were asked for", function()
      local h <close> = assert(subprocess.spawn { "cat", stdin = "null", stderr = "stdout" })
      assert.is_nil(h.stdin)
      assert.is_nil(h.stderr)
      assert.equal("", h.stdout:read "a")
      assert.equal("number", type(h.pid))
      assert.equal("subprocess " .. h.pid, tostring(h))
    end)

    it("tells a writer that nobody reads, without a signal", function()
      local h = assert(subprocess.spawn { "true" })
      h:wait()
      local _, _, code = h.stdin:write(("x"):rep(1 << 20))
      assert.equal("EPIPE", code)
    end)

    it("waits so long, and kills", function()
      local h = assert(subprocess.spawn { "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done" })
      assert.equal("ready", h.stdout:read "l")
      assert.is_true(h:kill())
      assert.same({ nil, "timeout" }, { h:wait(0.2) })
      assert.same({ nil, "timeout" }, { h:wait(0) })
      assert.is_true(h:kill "KILL")
      assert.same({ signal = "KILL" }, h:wait())
      assert.same({ nil, "kill: No such process", "ESRCH" }, { h:kill() })
    end)

    it("is something to select", function()
      local slow = assert(subprocess.spawn { "sleep", "100", stdin = "null", stdout = "null", stderr = "null" })
      local quick = assert(subprocess.spawn { "sh", "-c", "exit 4", stdin = "null", stdout = "null", stderr = "null" })
      local which, result = mare.select { slow, quick }
      assert.equal(2, which)
      assert.same({ code = 4 }, result)
      slow:kill()
      which, result = mare.select { slow }
      assert.equal(1, which)
      assert.same({ signal = "TERM" }, result)
    end)

    it("can be waited for by other processes, without its pipes", function()
      local h = assert(subprocess.spawn { "cat" })
      local p = mare.process.spawn(function(handle) return handle.pid, handle.stdin, handle:wait().code end, h)
      local q = mare.process.spawn(function(output) return output:read "a" end, h.stdout)
      assert.is_true(h.stdin:write "text")
      h.stdin:close()
      assert.same({ true, h.pid, nil, 0 }, { p:wait() })
      assert.same({ true, "text" }, { q:wait() })
    end)

    it("that is a to-be-closed variable doesn't outlive it; one that is forgotten is reaped", function()
      local pid
      do
        local h <close> = assert(subprocess.spawn { "sleep", "100" })
        pid = h.pid
      end
      assert.is_true(eventually(function() return not alive(pid) end))
      subprocess.spawn { "true" }
    end)

    it("that ignores everything but KILL does not hold up the end of the program", function()
      local r = proc.mare([[
        local h = require "mare.subprocess".spawn { "sh", "-c", "trap '' HUP INT TERM; exec sleep 1000", stdin = "null", stderr = "null" }
        print(h.pid)
      ]], {}, { timeout = 30 })
      assert.equal(0, r.code)
      subprocess.run { "kill", "-KILL", (r.out:match "%d+") }
    end)
  end)

  describe("and the rest of the program", function()
    it("leave each other alone: os.execute, io.popen, SIGCHLD", function()
      local h = assert(subprocess.spawn { "cat" })
      assert.same({ true, "exit", 0 }, { os.execute "true" })
      assert.same({ nil, "exit", 3 }, { os.execute "exit 3" })
      local p = io.popen "echo x; exit 5"
      assert.equal("x\n", p:read "a")
      assert.same({ nil, "exit", 5 }, { p:close() })
      h.stdin:close()
      assert.same({ code = 0 }, h:wait())
    end)

    it("share no descriptor and no blocked signal", function()
      local r = subprocess.run { "sh", "-c", "ls /proc/self/fd | wc -l; grep SigBlk /proc/self/status", input = "x" }
      local n, mask = r.out:match "(%d+)%s+SigBlk:%s+(%x+)"
      assert.equal(4, tonumber(n))                -- 0, 1, 2 and what ls itself opens
      assert.equal(0, tonumber(mask, 16))
    end)
  end)

  describe("misused", function()
    it("raises an error that says what is expected", function()
      local function fails(text, f, ...)
        local ok, message = pcall(f, ...)
        assert.is_false(ok)
        assert.truthy(message:find(text, 1, true), message)
      end
      local run, spawn = subprocess.run, subprocess.spawn
      fails("table expected", run, "ls")
      fails("names no program", run, {})
      fails("unknown option 'inptu'", run, { "ls", inptu = "x" })
      fails("unknown option 'timeout'", spawn, { "ls", timeout = 1 })
      fails("an argument must be a string, got table", run, { "ls", {} })
      fails("contains a zero byte", run, { "ls", "a\0b" })
      fails("'stdout' must be", run, { "ls", stdout = "file" })
      fails("'env' must be a table", run, { "ls", env = "A=1" })
      fails("without '='", run, { "ls", env = { ["A="] = "1" } })
      fails("'input' must be a string", run, { "ls", input = {} })
      fails("'input' needs 'stdin'", run, { "ls", input = "x", stdin = "null" })
      fails("'timeout' must be a number", run, { "ls", timeout = "soon" })
      local h <close> = spawn { "sleep", "100", stdin = "null", stdout = "null", stderr = "null" }
      fails('no signal is called "NONE"', h.kill, h, "NONE")
    end)
  end)
end)
