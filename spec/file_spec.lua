-- Files and folders: contents, errors, one call at a time, nothing held up, no descriptor left.
local mare = require "mare"
local file = require "mare.file"
local proc = require "spec.support.proc"
local process = require "mare.process"
local temporary = require "spec.support.temporary"

local root

local function path(name) return root .. "/" .. name end

-- Descriptors of this program on something below root: none may be left.
local function open_below()
  local n = 0
  local list = assert(io.popen("ls -l /proc/$PPID/fd 2>/dev/null"))
  for line in list:lines() do
    if line:find(root, 1, true) then n = n + 1 end
  end
  list:close()
  return n
end

describe("files", function()
  setup(function()
    root = temporary()
    os.remove(root)
    assert(file.mkdir(root))
  end)
  teardown(function() assert(file.remove(root, "all")) end)

  after_each(function()
    collectgarbage()
    collectgarbage()
    local limit = mare.clock() + 60               -- closing is done by another thread
    while open_below() > 0 and mare.clock() < limit do mare.sleep(0.01) end
    assert.equal(0, open_below())
  end)

  describe("whole", function()
    it("are written and read", function()
      assert.is_true(file.write(path "a", "one\0two\n"))
      assert.equal("one\0two\n", file.read(path "a"))
      assert.is_true(file.write(path "a", "three", "append"))
      assert.equal("one\0two\nthree", file.read(path "a"))
      assert.is_true(file.write(path "a", ""))
      assert.equal("", file.read(path "a"))
    end)

    it("may be large", function()
      local data = ("0123456789abcdef"):rep(1 << 18)
      assert.is_true(file.write(path "large", data))
      assert.equal(#data, file.stat(path "large").size)
      assert.is_true(file.read(path "large") == data)
    end)

    it("may be such that seem to be empty", function()
      assert.truthy(file.read("/proc/self/status"):find("Name:", 1, true))
    end)

    it("that are missing give nil, a message with the path and a code", function()
      local data, message, code = file.read(path "missing")
      assert.is_nil(data)
      assert.equal(path "missing" .. ": No such file or directory", message)
      assert.equal("ENOENT", code)
      assert.equal("EISDIR", select(3, file.read(root)))
      assert.equal("EISDIR", select(3, file.write(root, "x")))
      assert.equal("ENOTDIR", select(3, file.read("/dev/null/x")))
    end)

    it("that are pipes or endless are refused at once", function()
      os.execute("mkfifo " .. path "pipe")
      for _, name in ipairs { path "pipe", "/dev/zero" } do
        local data, message, code = file.read(name)
        assert.is_nil(data)
        assert.truthy(message:find("a file is expected", 1, true), message)
        assert.equal("ENOTSUP", code)
      end
      assert.equal("ENOTSUP", select(3, file.write(path "pipe", "x")))
      assert.equal("ENOTSUP", select(3, file.open(path "pipe")))
    end)

    it("can be thousands, by many processes at once", function()
      assert(file.mkdir(path "many"))
      local folder = path "many"
      local each = 500
      local workers = {}
      for w = 1, 8 do
        workers[w] = process.spawn(function()
          local f = require "mare.file"
          for i = 1, each do assert(f.write(("%s/%d_%d"):format(folder, w, i), ("%d:%d"):format(w, i))) end
          for i = 1, each do assert(f.read(("%s/%d_%d"):format(folder, w, i)) == ("%d:%d"):format(w, i)) end
          return true
        end)
      end
      for w = 1, 8 do assert.same({ true, true }, { workers[w]:wait() }) end
      assert.equal(8 * each, #file.list(folder))
      assert.is_true(file.remove(folder, "all"))
      assert.is_nil(file.stat(folder))
    end)
  end)

  describe("open", function()
    it("are read by count, line and whatever there is", function()
      assert(file.write(path "lines", "one\ntwo\n\nlast"))
      local f <close> = assert(file.open(path "lines"))
      assert.equal("one", f:read "l")
      assert.equal("t", f:read(1))
      assert.equal("wo\n", f:read "L")
      assert.equal("", f:read "l")
      assert.equal("last", f:read())
      for _, format in ipairs { "l", "L", 5, 0 } do
        local line, message, code = f:read(format)
        assert.is_nil(line)
        assert.equal("end of file", message)
        assert.equal("EOF", code)
      end
      assert.equal("", f:read "a")
    end)

    it("are read in lines of any length", function()
      local long = ("x"):rep(300000)
      assert(file.write(path "long", long .. "\n\n" .. long .. "\nend\n"))
      local f <close> = assert(file.open(path "long"))
      local lengths = {}
      for line in f:lines() do lengths[#lengths + 1] = #line end
      assert.same({ 300000, 0, 300000, 3 }, lengths)
    end)

    it("give all that is left", function()
      local data = ("line\n"):rep(100000)
      assert(file.write(path "rest", data))
      local f <close> = assert(file.open(path "rest"))
      assert.equal("line", f:read "l")
      assert.is_true(f:read "a" == data:sub(6))
    end)

    it("keep one position for reading and writing", function()
      assert(file.write(path "both", "abcdef"))
      local f <close> = assert(file.open(path "both", "r+"))
      assert.equal("ab", f:read(2))
      assert.is_true(f:write "XY")
      assert.equal("ef", f:read "a")
      assert.equal(6, f:seek())
      assert.equal(1, f:seek("set", 1))
      assert.equal("bXYe", f:read(4))
      assert.equal(4, f:seek("end", -2))
      assert.equal("ef", f:read(10))
      assert.equal("EINVAL", select(3, f:seek("set", -1)))
    end)

    it("append wherever the position is, and are made or emptied as the mode says", function()
      assert(file.write(path "log", "1"))
      local f <close> = assert(file.open(path "log", "a+"))
      assert.is_true(f:write "2")
      assert.equal(0, f:seek "set")
      assert.equal("12", f:read(10))
      assert.is_true(f:write "3")
      assert.equal("123", file.read(path "log"))
      local g <close> = assert(file.open(path "log", "w"))
      assert.equal(0, file.stat(path "log").size)
      assert.is_true(g:sync())
      assert.equal("EEXIST", select(3, file.open(path "log", "wx")))
      assert.equal("EBADF", select(3, g:read()))
    end)

    it("are closed once", function()
      local f = assert(file.open(path "closed", "w"))
      assert.is_true(f:close())
      for _, call in ipairs { f.close, f.read, f.sync, f.seek } do
        local ok, message, code = call(f)
        assert.is_nil(ok)
        assert.equal("closed", message)
        assert.equal("EBADF", code)
      end
      assert.equal("EBADF", select(3, f:write "x"))
      assert.truthy(tostring(f):find("(closed)", 1, true))
    end)

    it("can be temporary", function()
      local f, name = assert(file.temp(path "tmp_"))
      assert.truthy(name:find("^" .. path "tmp_" .. "......$"))
      assert.is_true(f:write "x")
      assert.equal("x", file.read(name))
      assert.equal(6 * 64, file.stat(name).mode)
      f:close()
      local g, other = assert(file.temp())
      g:close()
      assert.is_true(file.remove(other))
    end)

    it("move with a message", function()
      assert(file.write(path "moved", "one\ntwo\n"))
      local f = assert(file.open(path "moved"))
      assert.equal("one", f:read "l")
      local p = process.spawn(function(g) return g:read "l", g:close() end, f)
      assert.same({ true, "two", true }, { p:wait() })
      local ok, message = pcall(f.read, f)
      assert.is_false(ok)
      assert.truthy(message:find("moved", 1, true), message)
      assert.equal("file (moved)", tostring(f))
      do local _ <close> = f end              -- no use: its receiver closes it
    end)

    it("stay open however often they have moved, and whatever is left of them is collected then", function()
      local f = assert(file.open(path "often", "w"))
      local there, back = mare.channel.new(), mare.channel.new()
      local other = mare.process.spawn(function()
        collectgarbage "stop"                              -- all that was left of the file goes at the end, at once
        for v in there:each() do back:send(v) end
        collectgarbage()
        return true
      end)
      collectgarbage "stop"
      local first = f
      for i = 1, 16387 do                                  -- a userdata was known by 16 bits of a count that goes up by four in each turn
        there:send(f)
        f = back:receive()
        if i == 16384 then assert.is_false(pcall(first.write, first, "no")) end
      end
      collectgarbage "restart"
      collectgarbage()
      assert.is_true(f:write "still here")
      there:close()
      assert.is_true(select(2, other:wait()))
      assert.is_true(f:close())
      assert.equal("still here", file.read(path "often"))
    end)

    it("are used by one call at a time", function()
      local fiber = require "mare.fiber"
      assert(file.write(path "busy", ("x"):rep(1 << 23)))
      local f <close> = assert(file.open(path "busy"))
      local other = fiber.spawn(function() return #f:read "a" end)
      local code
      repeat                                      -- until one of ours meets the other's
        mare.process.yield()
        code = select(3, f:read(0))
      until code or f:seek() == 1 << 23
      local ok, n = other:wait()
      assert.is_true(ok)
      assert.is_true(n <= 1 << 23)
      assert.is_true(code == nil or code == "EBUSY" or code == "EOF", code)
    end)
  end)

  describe("misused", function()
    it("raise an error that says what is expected", function()
      local function fails(text, f, ...)
        local ok, message = pcall(f, ...)
        assert.is_false(ok)
        assert.truthy(message:find(text, 1, true), message)
      end
      fails("without zero bytes", file.read, "a\0b")
      fails("string expected", file.read, nil)
      fails("string expected", file.write, path "x", nil)
      fails('"append" or nothing', file.write, path "x", "y", "a")
      fails('mode "r", "w" or "a"', file.open, path "x", "rw")
      fails("got nan", file.read, path "x", 0 / 0)
      assert(file.write(path "x", ""))
      local f <close> = assert(file.open(path "x"))
      fails('"l", "L", "a" or nothing', f.read, f, "n")
      fails("not a negative number", f.read, f, -1)
      fails("file expected", f.read, io.stdout)
    end)
  end)

  describe("in folders", function()
    it("are listed, with their types", function()
      assert(file.mkdir(path "d/e/f", "parents"))
      assert.is_true(file.mkdir(path "d/e/f", "parents"))
      assert(file.write(path "d/b", ""))
      os.execute("ln -s /nowhere " .. path "d/a")
      assert.same({ { "a", "b", "e" }, { "link", "file", "directory" } }, { file.list(path "d") })
      assert.equal("EEXIST", select(3, file.mkdir(path "d")))
      assert.equal("ENOENT", select(3, file.mkdir(path "no/d")))
      assert.equal("ENOTDIR", select(3, file.mkdir(path "d/b/c", "parents")))
      assert.equal("ENOENT", select(3, file.list(path "no")))
      assert.equal("ENOTDIR", select(3, file.list(path "d/b")))
    end)

    it("are told apart by stat", function()
      assert(file.write(path "s", "four"))
      os.execute("ln -sf s " .. path "l")
      local s = assert(file.stat(path "l"))
      assert.equal("file", s.type)
      assert.equal(4, s.size)
      assert.is_true(math.abs(s.modified - os.time()) < 3600)
      assert.equal("link", file.stat(path "l", "link").type)
      assert.equal("directory", file.stat(root).type)
      assert.equal("character device", file.stat("/dev/null").type)
      assert.equal("ENOENT", select(3, file.stat(path "none")))
    end)

    it("are renamed and removed", function()
      assert(file.write(path "old", "x"))
      assert.is_true(file.rename(path "old", path "new"))
      assert.equal("ENOENT", select(3, file.rename(path "old", path "new")))
      assert.is_true(file.remove(path "new"))
      assert.equal("ENOENT", select(3, file.remove(path "new")))
      assert(file.mkdir(path "full/sub", "parents"))
      assert.equal("ENOTEMPTY", select(3, file.remove(path "full")))
      assert(file.mkdir(path "outside"))
      assert(file.write(path "outside/kept", "x"))
      os.execute("ln -s ../outside " .. path "full/link")
      assert.is_true(file.remove(path "full", "all"))
      assert.is_true(file.remove(path "full", "all"))
      assert.equal("x", file.read(path "outside/kept"))
    end)
  end)

  describe("that can't be written", function()
    it("for want of room give nil, a message and EFBIG or ENOSPC", function()
      local ok, message, code = file.write("/dev/full", "x")
      assert.is_nil(ok)
      assert.equal("/dev/full: No space left on device", message)
      assert.equal("ENOSPC", code)
      local f <close> = assert(file.open("/dev/full", "w"))
      assert.equal("ENOSPC", select(3, f:write "x"))
      assert(file.write(path "limited.lua", [[
        local file = require "mare.file"
        local name = ...
        print(select(3, file.write(name, ("x"):rep(1 << 20))))
        local f = assert(file.open(name, "w"))
        local n, code = 0
        repeat n = n + 1 code = select(3, f:write(("x"):rep(1000))) until code
        print(code, n < 20, f:close())
      ]]))
      local r = proc.run({ "sh", "-c", "ulimit -f 8; trap '' XFSZ; exec \"$@\"", "sh", proc.bin, "run", path "limited.lua", path "limited" })
      assert.equal("EFBIG\nEFBIG\ttrue\ttrue\n", r.out .. r.err)
    end)

    it("for want of permission give EACCES", function()
      assert(file.write(path "mine", "x"))
      os.execute("chmod 000 " .. path "mine")
      local _, _, code = file.open(path "mine", "r+")
      -- root may do everything
      if io.open(path "mine") then assert.is_nil(code) else assert.equal("EACCES", code) end
    end)

    it("for want of descriptors give EMFILE, and go on after one was closed", function()
      local r = proc.run({ "sh", "-c", "ulimit -n 40; exec \"$@\"", "sh", proc.bin, "run", "-e", [[
        local file = require "mare.file"
        local open, code = {}
        for i = 1, 100 do
          open[i], _, code = file.open("/dev/null")
          if not open[i] then break end
        end
        print(code)
        open[1]:close()
        print(file.read("/dev/null/x"), file.open("/dev/null"))
      ]] })
      assert.equal("EMFILE\nnil\tfile '/dev/null'\n", (r.out .. r.err))
    end)
  end)

  describe("while they are read", function()
    it("hold nobody up", function()
      -- One worker, which readers of a large file leave to others while the system reads: there are many turns of these for each read.
      local name = path "big"
      assert(file.write(name, ("x"):rep(1 << 24)))
      local r = proc.mare([[
        local mare = require "mare"
        local name = ...
        local done = mare.channel.new(math.huge)
        for i = 1, 4 do
          mare.process.spawn(function()
            local file = require "mare.file"
            for _ = 1, 5 do assert(#file.read(name) == 1 << 24) end
            done:send(true)
          end)
        end
        local turns, finished = 0, 0
        while finished < 4 do
          if done:try_receive() then finished = finished + 1 end
          turns = turns + 1
          mare.process.yield()
        end
        print(turns > 200 or turns)                          -- tens of thousands; one for each of the 20 if they held it
      ]], { name }, { workers = 1, timeout = 60 })
      assert.equal("true\n", r.out .. r.err)
    end)

    it("may take longer than is waited: the call gives up, the file stays whole", function()
      assert(file.write(path "slow", ("x"):rep(1 << 24)))
      local f <close> = assert(file.open(path "slow"))
      local data, message, code = f:read("a", 1e-9)
      if data then
        assert.equal(1 << 24, #data)
      else
        assert.equal("timeout", message)
        assert.is_nil(code)
        local limit = mare.clock() + 60
        repeat
          mare.sleep(0.001)
          data, message, code = f:read("a")
        until data or code ~= "EBUSY" or mare.clock() > limit
        assert.equal(1 << 24, data and #data, message)
      end
      assert.same(table.pack(nil, "timeout"), table.pack(file.read(path "slow", 0)))
    end)

    it("can be left by a program that ends", function()
      local name = path "left"
      assert(file.write(name, ("x"):rep(1 << 24)))
      local text = [[
        local mare = require "mare"
        local name = ...
        for _ = 1, 8 do mare.process.spawn(function() while true do require "mare.file".read(name) end end) end
        mare.sleep(0.05)
        os.exit(3)
      ]]
      for _, run in ipairs { proc.mare, proc.config == "plain" and proc.lua or proc.mare } do
        local r = run(text, { name }, { timeout = 30 })
        assert.equal("", r.err)
        assert.equal(3, r.code)
      end
    end)
  end)

  describe("waited for where Lua can't yield", function()
    it("are read all the same", function()
      assert(file.write(path "cmp", "x"))
      local list = { 3, 1, 2 }
      table.sort(list, function(a, b) return #file.read(path "cmp") == 1 and a < b end)
      assert.same({ 1, 2, 3 }, list)
      local co = coroutine.wrap(function() coroutine.yield(file.read(path "cmp")) return "end" end)
      assert.equal("x", co())
      assert.equal("end", co())
    end)
  end)
end)
