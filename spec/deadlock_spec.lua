-- Deadlock: when everything waits for ever, the program says who waits for what.
-- runs under: mare
local proc = require "spec.support.proc"

local function mare(text, options) return proc.mare(text, {}, options) end
local function lua(text, options) return proc.lua(text, {}, options) end

describe("a deadlock under mare run", function()
  it("ends the program with 1 and lists each process with operation, channel and place", function()
    local r = mare [[
local mare = require "mare"
local c = mare.channel.named("orders")
mare.process.spawn { name = "cook", main = function()
  c:receive()
end }
mare.process.spawn(function()
  mare.channel.new():send("x")
end)
mare.channel.new():receive()
]]
    assert.equal(1, r.code)
    assert.equal("", r.out)
    assert.matches("^mare: deadlock: every process waits", r.err)
    assert.matches("main %(#1%): receive on channel 0x%x+ at [^\n]*:9\n", r.err)
    assert.matches("'cook' %(#%d+%): receive on channel 'orders' at [^\n]*:4\n", r.err)
    assert.matches("process #%d+: send on channel 0x%x+ at [^\n]*:7\n", r.err)
    assert.not_matches("cycle", r.err)
    assert.is_false(r.timeout)
  end)

  it("shows names without control characters", function()
    local r = mare [[
local mare = require "mare"
mare.process.spawn { name = "a\27[2Jb\nmare: fine", main = function()
  mare.fiber.spawn { name = "\r", main = function() mare.channel.named("\8\226\128\174x"):receive() end }
  mare.channel.new():receive()
end }
mare.process.spawn { name = "\7bell", main = function() error "oops" end }
mare.channel.new():receive()
]]
    assert.matches("mare: process '\\x07bell' %(#%d+%) failed: [^\n]*oops\n", r.err)
    assert.matches("\n  'a\\x1b%[2Jb\\nmare: fine' %(#2%): receive on", r.err)
    assert.matches(", fiber #1 '\\r': receive on channel '\\x08\\xe2\\x80\\xaex' at", r.err)
    assert.not_matches("[\0-\8\11-\31]", r.err)
  end)

  it("names the program's lines of who waits in a call, a scope, a server; mare's own only where there is no other", function()
    local r = mare [[
local mare = require "mare"
local s = mare.server.start { name = "idle", call = function()
  mare.channel.new():receive()
end }
mare.process.spawn { name = "caller", main = function()
  s:call(1)
end }
mare.process.spawn { name = "scoped", main = function()
  mare.process.scope(function()
    mare.channel.new():receive()
  end)
end }
mare.server.start { name = "quiet" }
mare.server.named("idle"):call(2)
]]
    assert.equal(1, r.code)
    assert.matches("main %(#1%): %w+[^\n]* at [^\n]*:14\n", r.err)
    assert.matches("'idle' %(#%d+%): receive on channel 0x%x+ at [^\n]*:3\n", r.err)
    assert.matches("'caller' %(#%d+%): %w+[^\n]* at [^\n]*:6\n", r.err)
    assert.matches("'scoped' %(#%d+%): %w+[^\n]* at [^\n]*:9\n", r.err)
    assert.matches("'scoped' %(#%d+%)[^\n]*: receive on channel 0x%x+ at [^\n]*:10\n", r.err)
    assert.matches("'quiet' %(#%d+%): receive on channel 'mare.inbox:quiet' at lua/mare/server.lua:%d+\n", r.err)
  end)

  it("shows the cycle of those who wait for each other", function()
    local r = mare [[
      local mare = require "mare"
      local process, channel = mare.process, mare.channel
      local handles = channel.new(math.huge)
      local function main(next) return (next:receive()):wait() end
      local a, b = channel.new(1), channel.new(1)
      local p = process.spawn { name = "p", main = main, args = { a } }
      local q = process.spawn { name = "q", main = main, args = { b } }
      a:send(q)
      b:send(p)
      p:wait()
    ]]
    assert.equal(1, r.code)
    assert.matches("'p' %(#%d+%): wait for 'q' %(#%d+%) at ", r.err)
    local from, to = r.err:match("cycle: '([pq])' %(#%d+%) %-> '([pq])' %(#%d+%) %-> '%1' %(#%d+%)\n")
    assert.is_true(from ~= nil and from ~= to, r.err)
  end)

  it("is seen when the main process has ended and others wait", function()
    local r = mare [[
      local mare = require "mare"
      mare.process.spawn { name = "left", main = function() mare.channel.new():receive() end }
    ]]
    assert.equal(1, r.code)
    assert.matches("'left' %(#%d+%): receive", r.err)
  end)

  it("is seen when a process sends to itself", function()
    local r = mare [[
      local c = require "mare".channel.new()
      c:send(c)
    ]]
    assert.equal(1, r.code)
    assert.matches("main %(#1%): send on channel", r.err)
  end)

  it("is seen through comparators, coroutines and full queues", function()
    local r = mare [[
local mare = require "mare"
local c = mare.channel.new(1)
c:send(1)
mare.process.spawn(function()
  table.sort({ 2, 1 }, function(a, b)
    c:send(2)
    return a < b
  end)
end)
mare.process.spawn(function()
  coroutine.wrap(function()
    c:send(3)
  end)()
end)
c:send(4)
]]
    assert.equal(1, r.code)
    for _, line in ipairs { 6, 12, 15 } do
      assert.matches("send on channel 0x%x+ at [^\n]*:" .. line .. "\n", r.err)
    end
  end)

  it("of thousands lists some and counts the rest", function()
    local r = mare [[
      local mare = require "mare"
      local c = mare.channel.new()
      for _ = 1, 2000 do mare.process.spawn(function() c:receive() end) end
      c:receive(0.01)
      for _ = 1, 2000 do mare.process.spawn(function() c:send(1) c:receive() end) end
      c:receive()
      c:receive()
    ]]
    assert.equal(1, r.code)
    assert.matches("and %d+ more\n", r.err)
    assert.is_true(#r.err < 20000)
  end)

  it("is not one while a timer is set, somebody computes, or a command runs", function()
    for _, other in ipairs {
      "c:receive(0.05) c:send(1)", "mare.sleep(0.05) c:send(1)", "os.execute('sleep 0.1') c:send(1)",
      "local f = io.popen('sleep 0.1; echo x') f:read('a') f:close() c:send(1)",
      "local t = mare.clock() while mare.clock() < t + 0.1 do end c:send(1)",
      "setmetatable({}, { __gc = function() local t = mare.clock() while mare.clock() < t + 0.1 do end end }) collectgarbage() c:send(1)"
    } do
      local r = mare(([[
        local mare = require "mare"
        local c = mare.channel.new()
        mare.process.spawn(function() %s end)
        print(c:receive())
      ]]):format(other))
      assert.same({ 0, "1\n", "" }, { r.code, r.out, r.err }, other)
    end
  end)

  it("prints what was written before", function()
    local r = mare [[
      io.write("no newline")
      require "mare".channel.new():receive()
    ]]
    assert.equal(1, r.code)
    assert.equal("no newline", r.out)
  end)
end)

describe("a deadlock in plain lua", function()
  it("is an error of the host's waiting call, which can be caught", function()
    local r = lua [[
      local mare = require "mare"
      local c = mare.channel.new()
      local p = mare.process.spawn { name = "waits", main = function() return c:receive() end }
      print(pcall(p.wait, p))
      c:send("go on")
      print(p:wait())
      print(pcall(c.receive, c))
      print(pcall(c.send, c, { 1 }))
      print(pcall(coroutine.wrap(function() c:receive() end)))
    ]]
    assert.equal(0, r.code)
    assert.matches("^false\tdeadlock: every process waits.-\n  the main script: wait for 'waits' %(#%d+%) at [^\n]*\n"
      .. "  'waits' %(#%d+%): receive on channel", r.out)
    assert.matches("true\tgo on\nfalse\tdeadlock.-false\tdeadlock.-false\t[^\n]*deadlock", r.out)
    assert.equal("", r.err)
  end)

  it("at the end of the script is reported, and the program ends", function()
    local r = lua [[
      local mare = require "mare"
      mare.process.spawn { name = "left", main = function() mare.channel.new():receive() end }
    ]]
    assert.is_false(r.timeout)
    assert.matches("mare: deadlock.-'left' %(#%d+%): receive on channel", r.err)
  end)

  it("shows a cycle that the host is part of as what waits", function()
    local r = lua [[
      local mare = require "mare"
      local c = mare.channel.new()
      local p = mare.process.spawn(function(main) main:wait() end, mare.process.self())
      print(pcall(p.wait, p))
    ]]
    assert.matches("the main script: wait for process #%d+", r.out)
    assert.matches("process #%d+: wait for the main script", r.out)
    assert.matches("cycle: ", r.out)
  end)

  it("is not one when there are no processes but a deadline", function()
    local r = lua [[
      local mare = require "mare"
      print(mare.channel.new():receive(0.05))
      mare.sleep(0.02)
      print("end")
    ]]
    assert.same({ 0, "nil\ttimeout\nend\n", "" }, { r.code, r.out, r.err })
  end)
end)

describe("no deadlock is reported", function()
  it("while messages are on their way, whoever waits where", function()
    -- A ring through processes that wait in a coroutine, in a comparator, and with deadlines.
    for _, run in ipairs { mare, lua } do
      local r = run([[
        local mare = require "mare"
        local process, channel = mare.process, mare.channel
        local ring = {}
        for i = 1, 4 do ring[i] = channel.new() end
        local function pass(i, receive)
          while true do
            local v = receive(ring[i])
            if not v then return end
            ring[i + 1]:send(v + 1)
          end
        end
        process.spawn(pass, 1, function(c) return (coroutine.wrap(function() return (c:receive()) end)()) end)
        process.spawn(pass, 2, function(c)
          local v
          table.sort({ 2, 1 }, function(a, b) v = c:receive() return a < b end)
          return v
        end)
        process.spawn(pass, 3, function(c)
          while true do
            local v, why = c:receive(0.0002)
            if v or why == "closed" then return v end
          end
        end)
        for i = 1, 1000 do
          ring[1]:send(i)
          assert(ring[4]:receive() == i + 3)
        end
        for i = 1, 3 do ring[i]:close() end
        print("end")
      ]], { timeout = 60 })
      assert.same({ 0, "end\n", "" }, { r.code, r.out, r.err })
    end
  end)
end)
