-- A program that is one process on one worker: it waits for bytes in the read itself. The peer is in another program: this one.
local net = require "mare.net"
local proc = require "spec.support.proc"
local process = require "mare.process"

describe("one process on one worker", function()
  local function echo(server)
    local conn = server:accept(60)
    while true do
      local text = conn:read(4)
      if text == "slow" then require "mare".sleep(0.3) end
      if not text or text == "over" then break end
      if text ~= "mute" then conn:write(text) end
    end
    conn:close()
    server:close()
  end

  local function with_echo(text, options)
    local server = assert(net.listen "127.0.0.1:0")
    local _, port = server:address()
    local peer = process.spawn { main = echo, args = { server } }
    options = options or {}
    options.workers = 1
    local r = proc.mare([[
      local mare = require "mare"
      local conn = assert(mare.net.connect("127.0.0.1", tonumber((...))))
      local function trip(text) conn:write(text) return conn:read(4) end
      for i = 1, 50 do assert(trip(("%4d"):format(i)) == ("%4d"):format(i)) end
    ]] .. text, { tostring(port) }, options)
    assert.is_true(peer:wait(60))
    return r
  end

  it("hears what comes at once, late and never", function()
    local r = with_echo [[
      assert(trip "slow" == "slow")
      for i = 1, 50 do assert(trip "fast" == "fast") end
      local begun = mare.clock()
      conn:write "mute"
      assert(select(2, conn:read(4, 0.2)) == "timeout" and mare.clock() - begun >= 0.2)
      for i = 1, 50 do assert(trip "fast" == "fast") end
      local value, message = trip "over"
      assert(value == nil and message == "closed")
      print "done"]]
    assert.equal("done\n", r.out, r.err)
    assert.is_true(r.user + r.system < 0.25 * proc.slow)
  end)

  it("goes on when its descriptor is known outside, and when it is not alone any more", function()
    local r = with_echo [[
      local helper = mare.fiber.spawn(function() mare.sleep(0.01) return "slept" end)
      assert(trip "slow" == "slow" and helper:wait() == true)
      assert(math.type(conn:fd()) == "integer")
      for i = 1, 50 do assert(trip "fast" == "fast") end
      local other = mare.process.spawn(function(c)
        for i = 1, 50 do
          c:write "sent"
          assert(c:read(4) == "sent")
        end
        return c
      end, conn)
      local _, back = assert(other:wait())
      conn = back
      assert(trip "slow" == "slow")
      print "done"]]
    assert.equal("done\n", r.out, r.err)
  end)

  it("goes on beside fibers that sleep, wait for each other, or become ready meanwhile", function()
    local r = with_echo [[
      local calls, over = mare.channel.new(), false
      mare.fiber.spawn { main = function() while true do calls:receive() end end, daemon = true }
      local sleeper = mare.fiber.spawn(function() mare.sleep(1.5) over = true end)
      local trips = 0
      while not over do
        assert(trip "fast" == "fast")
        trips = trips + 1
      end
      assert(trips > 10 and sleeper:wait())
      local third = mare.fiber.spawn(function() return trip "slow" end)
      calls:send(1)
      assert(select(2, third:wait()) == "slow")
      for i = 1, 50 do assert(trip "fast" == "fast") end
      print "done"]]
    assert.equal("done\n", r.out, r.err)
  end)

  it("ends when it is told to", function()
    local r = with_echo([[
      io.stdout:write "silence\n" io.stdout:flush()
      trip "mute"]], { signals = { { name = "TERM", after = "silence" } }, timeout = 30 })
    assert.is_false(r.timeout, r.err)
    assert.equal(15, r.signal or r.code and r.code - 128)
  end)
end)
