-- The world outside: descriptors that are not mare's, and the loops of others.
local mare = require "mare"
local fiber, process, channel = mare.fiber, mare.process, mare.channel
local net = require "mare.net"
local proc = require "spec.support.proc"

local function pair()                         -- two connected sockets, of which we use the numbers
  local server = net.listen("127.0.0.1:0")
  local _, port = server:address()
  local a = net.connect("127.0.0.1:" .. port)
  local b = server:accept(10)
  server:close()
  return a, b
end

describe("wait_fd", function()
  it("tells which directions are ready", function()
    local a, b = pair()
    assert.equal("w", mare.wait_fd(a:fd(), "w"))
    assert.equal("w", mare.wait_fd(a:fd(), "rw"))
    assert.same({ nil, "timeout" }, { mare.wait_fd(a:fd(), "r", 0) })
    assert.same({ nil, "timeout" }, { mare.wait_fd(a:fd(), "r", 0.01) })
    b:write("x")
    assert.equal("r", mare.wait_fd(a:fd(), "r", 10))
    assert.equal("rw", mare.wait_fd(a:fd(), "rw", 10))
    a:close()
    b:close()
  end)

  it("asks objects for their descriptor", function()
    local a, b = pair()
    assert.equal("w", mare.wait_fd(a, "w"))
    assert.error_matches(function() mare.wait_fd(mare.channel.new(), "w") end, "or an object with a method getfd or fd, expected")
    assert.equal("w", mare.wait_fd({ getfd = function() return b:fd() end }, "w"))
    assert.equal("w", mare.wait_fd({ getfd = function() return b:fd() + 0.0 end }, "w"))     -- as LuaSocket's
    a:close()
    b:close()
  end)

  it("wakes all who wait for the same descriptor, in fibers and processes", function()
    local a, b = pair()
    local function wait(fd) return require "mare".wait_fd(fd, "r", 10) end
    local waiters = { fiber.spawn(wait, a:fd()), fiber.spawn(wait, a:fd()), process.spawn(wait, a:fd()), process.spawn(wait, a:fd()) }
    mare.sleep(0.05)
    b:write("x")
    for _, w in ipairs(waiters) do assert.same({ true, "r" }, { w:wait(10) }) end
    a:close()
    b:close()
  end)

  it("works in coroutines and comparators", function()
    local a, b = pair()
    fiber.spawn(function() mare.sleep(0.02) b:write("x") end)
    local got
    table.sort({ 2, 1 }, function(x, y)
      got = coroutine.wrap(function() return mare.wait_fd(a:fd(), "r", 10) end)()
      return x < y
    end)
    assert.equal("r", got)
    a:close()
    b:close()
  end)

  it("says what is wrong", function()
    assert.same({ nil, "Bad file descriptor", "EBADF" }, { mare.wait_fd(999999, "r") })
    assert.has_error(function() mare.wait_fd({}, "r") end)
    assert.has_error(function() mare.wait_fd(0, "x") end)
    assert.has_error(function() mare.wait_fd(0, "r", 0 / 0) end)
    local f = assert(io.open("/etc/passwd"))
    f:close()
    local r = proc.mare("print(require 'mare'.wait_fd(0, 'r', 10))", {}, { stdin = "" })
    assert.equal("r\n", r.out)                  -- an end of file is something to read
  end)

  it("keeps a program alive, as no deadlock is", function()
    local r = proc.mare([[
      local mare = require "mare"
      mare.process.spawn(function()
        local socket <close> = mare.net.udp("127.0.0.1:0")     -- to which nobody sends
        print(mare.wait_fd(socket:fd(), "r", 0.2))
      end)
    ]])
    assert.same({ 0, "nil\ttimeout\n", "" }, { r.code, r.out, r.err })
  end)
end)

describe("a host's loop", function()
  it("runs fibers with step, when the descriptor is readable", function()
    local r = proc.lua([[
      local mare = require "mare"
      local c, sum = mare.channel.new(), 0
      local f = mare.fiber.spawn(function() for v in c:each() do sum = sum + v end end)
      mare.process.spawn(function(ch) for i = 1, 100 do ch:send(i) end ch:close() end, c)
      local bell, turns = mare.descriptor(), 0
      local socket = require "socket"                -- a loop of somebody else's: a wait of mare's would run the fibers itself
      local watched = { getfd = function() return bell end, dirty = function() return false end }
      while f:status() ~= "done" do
        assert(socket.select({ watched }, nil, 10)[watched], "nothing to do for 10 s")
        turns = turns + mare.step()
      end
      print(sum, turns > 0, mare.step())
    ]])
    assert.equal("5050\ttrue\t0\n", r.out, r.err)
  end)

  it("is for hosts", function()
    local ok, err = process.spawn(function() require "mare".step() end):wait()
    assert.is_false(ok)
    assert.matches("only a host", err)
  end)
end)

it("channels of a host's fibers are theirs while it waits", function()
  local c = channel.new()
  local f = fiber.spawn(function() return c:receive() end)
  fiber.yield()
  c:send(5)
  assert.same({ true, 5 }, { f:wait() })
end)
