-- Pipes that nobody reads any more: standard output ends the program by SIGPIPE, as under lua; what mare itself writes to gives EPIPE.
-- runs under: mare
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

-- How the program ended that wrote into `head -1`: 141 is SIGPIPE. The programs would write for ever.
local function into_head(words, code)
  local r = proc.run(("{ %s -e '%s' 2>&1; echo $? >&2; } | head -1 >/dev/null"):format(words, code), { timeout = 20 })
  assert.is_false(r.timeout, words .. ": " .. code)
  return tonumber(r.err)
end

-- The same with a pipe whose only reader has gone before the program starts. before: what the shell does first.
local function unread(words, code, options)
  local fifo = temporary()
  os.remove(fifo)
  local command = "%s mkfifo '%s' && exec 3<>'%s' 4>'%s' 3<&- && { %s -e '%s' >&4; echo $? >&2; }"
  local r = proc.run(command:format(options and options.before or "", fifo, fifo, fifo, words, code), options)
  os.remove(fifo)
  assert.is_false(r.timeout, words .. ": " .. code)
  return tonumber(r.err)
end

describe("output into a pipe that nobody reads", function()
  local endless = {
    print = "while true do print(1) end",
    ["io.write"] = 'while true do io.write(1, "\\n") end',
    ["io.stdout:write"] = 'while true do io.stdout:write("1\\n") end',
    ["io.stdout without a buffer"] = 'io.stdout:setvbuf "no" while true do io.stdout:write("1\\n") end',
    ["io.stderr:write"] = 'while true do io.stderr:write("1\\n") end',
    ["print in a coroutine"] = "coroutine.wrap(function() while true do print(1) end end)()",
    ["a pipe of io.popen"] = 'print(1) local f = io.popen("true", "w") while true do f:write("x\\n") f:flush() end',
  }
  for name, code in pairs(endless) do
    it("ends mare by SIGPIPE, as lua: " .. name, function()
      local want = into_head(proc.interpreter, code)
      assert.equal(141, want)
      assert.equal(want, into_head(proc.bin, code))
      assert.equal(want, into_head(proc.bin .. " run", code))
    end)
  end
  it("ends mare by SIGPIPE, as lua: what is flushed at the end", function()
    local code = 'io.stdout:setvbuf("full", 1000) io.stdout:write("x")'
    for _, words in ipairs { proc.interpreter, proc.bin, proc.bin .. " run" } do assert.equal(141, unread(words, code)) end
  end)
  it("ends mare by SIGPIPE from any process and fiber", function()
    for _, write in ipairs { "print(1)", 'io.write("1\\n")', 'io.stdout:write("1\\n")', 'io.stderr:write("1\\n")' } do
      assert.equal(141, into_head(proc.bin, ('require "mare.process".spawn(function() while true do %s end end):wait()'):format(write)))
      assert.equal(141, into_head(proc.bin, ('require "mare.fiber".spawn(function() while true do %s end end):wait()'):format(write)))
    end
  end)
  it("is an error of the write where the program was started with SIGPIPE ignored", function()
    local code = 'io.stdout:setvbuf "no" os.exit((select(3, io.write "x")))'
    for _, words in ipairs { proc.interpreter, proc.bin } do
      assert.equal(32, unread(words, code, { before = "trap '' PIPE;" }))        -- EPIPE
    end
  end)
  it("is an error of the write where the program has taken the signal", function()
    local code = 'local taken = require "mare.signal".on "PIPE" io.stdout:setvbuf "no" local _, _, code = io.write "x" os.exit(code)'
    assert.equal(32, unread(proc.bin, code))
  end)
  it("does to a process of a host what it does to the host", function()
    local env = { LUA_CPATH = proc.cpath .. ";;" }
    local code = 'require "mare.process".spawn(function() while true do print(1) end end):wait()'
    local r = proc.run(("{ %s -e '%s' 2>&1; echo $? >&2; } | head -1 >/dev/null"):format(proc.interpreter, code), { env = env })
    assert.equal("141\n", r.err)
    code = 'require "mare.process".spawn(function() io.stdout:setvbuf "no" os.exit((select(3, io.write "x"))) end):wait()'
    assert.equal(32, unread(proc.interpreter, code, { before = "trap '' PIPE;", env = env }))
  end)
end)

describe("a program that mare starts", function()
  it("has SIGPIPE neither blocked nor ignored", function()
    local r = proc.mare([[
      local mare = require "mare"
      local show = "grep -E '^Sig(Blk|Ign)' /proc/self/status"
      io.stdout:write(io.popen(show):read "a")
      io.stdout:flush()
      os.execute(show)
      io.stdout:write(require "mare.subprocess".run{ "sh", "-c", show }.out)]])
    local n = 0
    for mask in r.out:gmatch("Sig%a+:\t(%x+)") do
      n = n + 1
      assert.equal(0, tonumber(mask:sub(-8), 16) & 1 << 12, r.out)
    end
    assert.equal(6, n)
  end)
end)

describe("what mare writes to itself", function()
  it("gives EPIPE: a subprocess that reads no more, a connection", function()
    local r = proc.mare([[
      local process, subprocess, net = require "mare.process", require "mare.subprocess", require "mare.net"
      local function codes()
        local child = subprocess.spawn{ "true" }
        child:wait()
        local _, _, a = child.stdin:write "x"
        local server = assert(net.listen "127.0.0.1:0")
        local _, port = server:address()
        local c = assert(net.connect("127.0.0.1", port))
        server:accept():close()
        c:shutdown "write"
        local _, _, b = c:write "x"
        return a, b
      end
      print(codes())
      print(process.spawn(codes):wait())]])
    assert.equal("EPIPE\tEPIPE\ntrue\tEPIPE\tEPIPE\n", r.out, r.err)
    assert.equal(0, r.code)
  end)
end)
