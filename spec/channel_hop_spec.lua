-- Messages that go the shortest way: small values, from one process to another that waits for them.
-- runs under: mare
local proc = require "spec.support.proc"
local ways = require "spec.support.ways"

describe("a message to a process that waits", function()
  it("may be any value, alone or with others", function()
    ways("1\n-9007199254740993\n0.5\n1.0\n-0.0\ntrue\nfalse\ntext\n1 2\nfalse nil\n1 2 3\n", [[
      local c = channel()
      local p = spawn(function() for _ = 1, 11 do print(c:receive()) end end)
      spawn(function()
        for _, v in ipairs { 1, -9007199254740993, 0.5, 1.0, -0.0, true, false, "text" } do c:send(v) end
        c:send(1, 2)
        c:send(false, nil)
        c:send(1, 2, 3)
      end)
      p:wait()
    ]])
  end)

  it("goes round a ring, through coroutines, pcalls, iterators and comparators", function()
    ways("300\n", [[
      local c = {}
      for i = 1, 6 do c[i] = channel() end
      local function pass(i, take) return function() for _ = 1, 300 do c[i + 1]:send(take(c[i]) + 1) end end end
      spawn(pass(1, function(from) return coroutine.wrap(function() return from:receive() end)() end))
      spawn(pass(2, function(from) return select(2, pcall(from.receive, from)) end))
      spawn(pass(3, function(from) for v in from:each() do return v end end))
      spawn(pass(4, function(from)
        local v
        table.sort({ 1, 2 }, function(a, b) v = v or from:receive() return a < b end)
        return v
      end))
      spawn(pass(5, function(from) return (from:receive()) end))
      local n = 0
      for i = 1, 300 do
        c[1]:send(i)
        if c[6]:receive() == i + 5 then n = n + 1 end
      end
      print(n)
    ]])
  end)

  it("is the same for one that selects", function()
    ways("1 5\n2 false\n1 text\n", [[
      local a, b = channel(), channel()
      local p = spawn(function() for _ = 1, 3 do print(mare.select { a, b }) end end)
      spawn(function() a:send(5) b:send(false) a:send "text" end)
      p:wait()
    ]])
  end)

  it("is counted, at both ends", function()
    ways("1001 1000\n", [[
      local c, done, over = channel(), channel(), channel()
      local to = spawn(function() for _ = 1, 1000 do c:receive() end done:send(true) over:receive() end)
      local from = spawn(function() for i = 1, 1000 do c:send(i) end done:send(true) over:receive() end)
      for _ = 1, 2 do done:receive() end
      while to:status() ~= "waiting" or from:status() ~= "waiting" do mare.process.yield() end
      local counts = {}
      for _, p in ipairs(mare.process.list()) do counts[p.id] = p end
      print(counts[from.id].sent, counts[to.id].received)
      over:close()
    ]])
  end)
end)

describe("send and receive", function()
  it("say what is wrong with their arguments", function()
    ways([[
false channel expected, got no value
false channel expected, got number
false channel expected, got table
false channel expected, got FILE*
false channel expected, got buffer
false the first value of a message can't be nil
false the first value of a message can't be nil
false number expected, got table
nil timeout
nil timeout
nil closed
nil closed
]], [[
      local c = channel()
      local p = spawn(function()
        local function fails(f, ...)
          local ok, err = pcall(f, ...)
          print(ok, err:match "[%a]+ expected, got [%a* ]+" or err:match "the first value of a message can't be nil" or err)
        end
        fails(c.send)
        fails(c.receive, 1)
        fails(c.send, {}, 1)
        fails(c.send, io.stdout, 1)
        fails(c.receive, mare.buffer.new(1))
        fails(c.send, c)
        fails(c.send, c, nil)
        fails(c.receive, c, {})
        print(c:receive(0))
        print(c:receive(0.001))
        c:close()
        print(c:send(1))
        print(c:receive())
      end)
      p:wait()
    ]])
  end)
end)

describe("a wait for a message", function()
  it("ends when the process is cancelled, by an error that it can catch once", function()
    ways("false cancelled\nfailed\n", [[
      local c, begun = channel(), channel()
      local p = spawn(function()
        begun:send(true)
        local ok, err = pcall(c.receive, c)
        print(ok, tostring(err):match "cancelled")
        c:receive()
      end)
      begun:receive()
      while p:status() ~= "waiting" do mare.process.yield() end
      p:cancel()
      p:wait()
      print(p:status())
    ]])
  end)

  it("ends at the deadline around it, where it began before and where it begins later", function()
    ways("false\nfalse\n5\n", [[
      local c = channel()
      local p = spawn(function()
        print((pcall(mare.process.deadline, 0.01, function() return c:receive() end)))
        print((pcall(mare.process.deadline, 0.01, function() while true do c:receive() end end)))
        print(c:receive())
      end)
      while p:status() ~= "waiting" do mare.process.yield() end
      mare.sleep(0.1)
      c:send(5)
      p:wait()
    ]])
  end)

  it("ends when the channel is closed", function()
    ways("nil closed\n", [[
      local c = channel()
      local p = spawn(function() print(c:receive()) end)
      while p:status() ~= "waiting" do mare.process.yield() end
      c:close()
      p:wait()
    ]])
  end)

  it("that nobody ends is reported", function()
    local r = proc.mare [[
      local mare = require "mare"
      local c = mare.channel.named "nothing"
      mare.process.spawn(function() for _ = 1, 3 do c:receive() end end)
      c:send(1)
      c:send(2)
      c:receive()
    ]]
    assert.equal(1, r.code)
    assert.matches("receive on channel 'nothing'", r.err)
  end)
end)
