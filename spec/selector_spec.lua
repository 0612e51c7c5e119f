local mare = require "mare"
local channel, process, timer, fiber = mare.channel, mare.process, mare.timer, mare.fiber
local selector = require "mare.selector"

describe("a selector", function()
  it("gives the index and the results of what is ready", function()
    local a, b = channel.new(1), channel.new(1)
    local s = selector { a, b }
    b:send("x", 2)
    local k, v, w = s:wait()
    assert.same({ 2, "x", 2 }, { k, v, w })
    a:send { 1, { 2 } }
    k, v = s:wait()
    assert.equal(1, k)
    assert.same({ 1, { 2 } }, v)
    assert.same({ nil, "timeout" }, { s:wait(0) })
    assert.same({ nil, "timeout" }, { s:wait(0.01) })
  end)

  it("loses and doubles nothing, whatever its senders and other receivers do", function()
    local channels, senders, n = {}, {}, 300
    for i = 1, 8 do channels[i] = channel.new(i % 3) end
    for i = 1, 8 do
      senders[i] = process.spawn(function(c, from, count)
        for k = 1, count do c:send(from * 1000 + k) end
      end, channels[i], i, n)
    end
    local other = process.spawn(function(c)
      local got = {}
      for v in c:each() do got[#got + 1] = v end
      return got
    end, channels[1])
    local s, seen, count = selector(channels), {}, 0
    while true do
      local busy = false                         -- before the wait: what was sent by then is there
      for _, p in ipairs(senders) do busy = busy or not p:wait(0) end
      local k, v = s:wait(busy and 0.05 or 0)
      if not k then
        if not busy then break end
      else
        assert.is_nil(seen[v])
        assert.equal(k, v // 1000)
        seen[v] = true
        count = count + 1
      end
    end
    channels[1]:close()
    local _, rest = other:wait()
    for _, v in ipairs(rest) do
      assert.is_nil(seen[v])
      seen[v] = true
      count = count + 1
    end
    assert.equal(8 * n, count)
  end)

  it("and a select that sends never wait for each other", function()
    local c, n = channel.new(), 20000
    local s = selector { c }
    local sender = process.spawn(function(to, count)
      local select = require "mare.select"
      for i = 1, count do select { to:sending(i) } end
    end, c, n)
    for i = 1, n do
      local k, v = s:wait(30)
      assert.same({ 1, i }, { k, v })
    end
    assert.is_true(sender:wait(30))
  end)

  it("prefers none of those that are ready", function()
    local channels, hits = {}, {}
    for i = 1, 4 do
      channels[i] = channel.new(math.huge)
      for _ = 1, 1000 do channels[i]:send(i) end
      hits[i] = 0
    end
    local s = selector(channels)
    for _ = 1, 1000 do
      local k = s:wait()
      hits[k] = hits[k] + 1
    end
    for i = 1, 4 do assert.is_true(hits[i] > 150 and hits[i] < 350, hits[i]) end
  end)

  it("sees closed channels, ended processes and fibers, and due timers, as often as it is asked", function()
    local c = channel.new()
    local p = process.spawn(function() return 7 end)
    local f = fiber.spawn(function() return 8 end)
    local s = selector { c, p, f, timer.after(0.01) }
    p:wait()
    f:wait()
    c:close()
    mare.sleep(0.02)
    local seen = {}
    for _ = 1, 200 do
      local k, x, y = s:wait(1)
      seen[k] = { x, y }
    end
    assert.same({ { nil, "closed" }, { true, 7 }, { true, 8 }, { 1 } }, seen)
  end)

  it("takes cases in and gives them up", function()
    local a, b = channel.new(), channel.new()
    local s = selector { a }
    assert.equal(2, s:add(b))
    local p = process.spawn(function(c) c:send("b") end, b)
    assert.same({ 2, "b" }, { s:wait(10) })
    p:wait()
    s:remove(2)
    assert.is_nil(b:try_send(1))
    p = process.spawn(function(c) return c:send_within(0.05, "again") end, b)
    assert.same({ nil, "timeout" }, { s:wait(0.02) })
    assert.same({ true, nil, "timeout" }, { p:wait() })
    assert.has_error(function() s:remove(2) end)
    assert.equal(3, s:add(b))
  end)

  it("that nobody waits on takes no message", function()
    local c = channel.new()
    local s = selector { c }
    assert.is_nil(s:wait(0))
    assert.is_nil(c:try_send("lost?"))
    local p = process.spawn(function(ch) ch:send("kept") end, c)
    assert.equal("kept", c:receive())
    p:wait()
    assert.same({ nil, "timeout" }, { s:wait(0) })
  end)

  it("belongs to its fiber, and refuses what can't stay linked", function()
    local s = selector { channel.new() }
    local f = fiber.spawn(function() return s:wait(0) end)
    local ok, err = f:wait()
    assert.is_false(ok)
    assert.matches("belongs to the fiber that made it", err)
    assert.has_error(function() selector { channel.new():sending(1) } end)
    assert.has_error(function() selector { 42 } end)
    assert.has_error(function() selector {}:wait() end)
  end)

  it("is collected while its channels live on, in hundreds", function()
    local c = channel.new()
    for _ = 1, 300 do
      local s = selector { c, channel.new() }
      s:wait(0)
    end
    collectgarbage()
    collectgarbage()
    local p = process.spawn(function(ch) ch:send(1) end, c)
    assert.equal(1, c:receive(10))
    p:wait()
  end)

  it("in many processes on the same channels shares the messages among them", function()
    local a, b, out = channel.new(), channel.new(2), channel.new(math.huge)
    local workers = {}
    for i = 1, 4 do
      workers[i] = process.spawn(function(x, y, to)
        local s, n = require "mare.selector" { x, y }, 0
        while true do
          local _, v = s:wait()
          if v == nil then return n end
          to:send(v)
          n = n + 1
        end
      end, a, b, out)
    end
    for i = 1, 500 do
      a:send(i)
      b:send(-i)
    end
    local sum, count = 0, 0
    while count < 1000 do
      sum = sum + out:receive()
      count = count + 1
    end
    a:close()
    b:close()
    local total = 0
    for _, w in ipairs(workers) do total = total + select(2, w:wait()) end
    assert.equal(0, sum)
    assert.equal(1000, total)
  end)
end)
