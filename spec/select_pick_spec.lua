-- mare.select of nothing but channels, in processes: the short way (src/module/pick.c), and where it is left.
-- runs under: mare
local proc = require "spec.support.proc"
local ways = require "spec.support.ways"

describe("select of channels", function()
  it("gives what is queued, what a sender offers, and what comes later", function()
    ways("1 5\n2 6\n1 7 8\n2 text\n1 nil closed\n2 table\n", [[
      local a, b, go = channel(1), channel(), channel()
      a:send(5)
      local p = spawn(function()
        print(mare.select { a, b })
        go:send(1)
        print(mare.select { a, b })
        go:send(2)
        print(mare.select { a, b })
        go:send(3)
        print(mare.select { a, b })
        go:send(4)
        print(mare.select { a, b })
        go:send(5)
        local i, t = mare.select { channel(), b }
        print(i, type(t))
      end)
      go:receive() b:send(6)
      go:receive() a:send(7, 8)
      go:receive() b:send "text"
      go:receive() a:close()
      go:receive() b:send { 1 }
      p:wait()
    ]])
  end)

  it("gives every message once, to several that select the same ones", function()
    ways("6000 6000\n", [[
      local c, done = {}, channel()
      for i = 1, 3 do c[i] = channel(i - 1) end
      for i = 1, 3 do
        spawn(function() for k = 1, 2000 do c[i]:send(k) end done:send(true) end)
      end
      local counts = channel()
      local over = channel()
      for _ = 1, 4 do
        spawn(function()
          local n, sum = 0, 0
          while true do
            local i, v = mare.select { c[1], c[2], c[3], over }
            if i == 4 then break end
            n, sum = n + 1, sum + v
          end
          counts:send(n, sum)
        end)
      end
      for _ = 1, 3 do done:receive() end
      while #c[2] + #c[3] > 0 do mare.process.yield() end
      over:close()
      local n, sum = 0, 0
      for _ = 1, 4 do
        local k, s = counts:receive()
        n, sum = n + k, sum + s
      end
      print(n, sum == 3 * 2000 * 2001 // 2 and n or sum)
    ]])
  end)

  it("prefers none of those that are ready", function()
    local r = proc.mare [[
      local mare = require "mare"
      for _, n in ipairs { 2, 3, 8 } do
        local c, counts = {}, {}
        for i = 1, n do
          c[i], counts[i] = mare.channel.new(math.huge), 0
          for k = 1, 4000 do c[i]:send(k) end
        end
        for _ = 1, 2000 do
          local i = mare.select(c)
          counts[i] = counts[i] + 1
        end
        for i = 1, n do
          if math.abs(counts[i] - 2000 / n) > 2000 / n * 0.4 then print(n, i, counts[i]) end
        end
        -- of two that are ready among many
        counts = {}
        for i = 1, n do counts[i], c[i] = 0, mare.channel.new(math.huge) end
        for k = 1, 4000 do c[1]:send(k) c[2]:send(k) end
        for _ = 1, 2000 do
          local i = mare.select(c)
          counts[i] = counts[i] + 1
        end
        if math.abs(counts[1] - 1000) > 200 then print(n, "of two", counts[1]) end
      end
    ]]
    assert.equal("", r.out .. r.err)
  end)

  it("goes by what the table was when it was called", function()
    ways("2 1\n1 2\n", [[
      local t, a, b = {}, channel(), channel()
      t[1], t[2] = a, b
      local p = spawn(function()
        local list = { a, b }
        mare.fiber.spawn(function()
          list[1], list[2] = nil, nil
          collectgarbage()
        end)
        print(mare.select(list))
        print(mare.select { a, b })
      end)
      while p:status() ~= "waiting" do mare.process.yield() end
      b:send(1)
      a:send(2)
      p:wait()
    ]])
  end)

  it("takes one channel twice, one alone, and many", function()
    ways("true 1\n1 2\n9 3\n", [[
      local a, more = channel(), {}
      for i = 1, 8 do more[i] = channel() end
      more[9] = a
      local p = spawn(function()
        local i, v = mare.select { a, a }
        print(i == 1 or i == 2, v)
        print(mare.select { a })
        print(mare.select(more))
      end)
      for i = 1, 3 do a:send(i) end
      p:wait()
    ]])
  end)

  it("keeps fibers of one process apart", function()
    ways("3000 3000\n", [[
      local a, b = channel(), channel()
      local p = spawn(function()
        local n, sum, fibers = 0, 0, {}
        for k = 1, 3 do
          fibers[k] = mare.fiber.spawn(function()
            for _ = 1, 1000 do
              local _, v = mare.select { a, b }
              n, sum = n + 1, sum + v
            end
          end)
        end
        for k = 1, 3 do fibers[k]:wait() end
        print(n, sum)
      end)
      spawn(function() for _ = 1, 1500 do a:send(1) end end)
      spawn(function() for _ = 1, 1500 do b:send(1) end end)
      p:wait()
    ]])
  end)

  it("says what is wrong with a list", function()
    ways([[
false select: case 2: a channel, timer, process, fiber or other waitable expected, got number
false select: case 1: a channel, timer, process, fiber or other waitable expected, got nil
false select: unknown field 'timout'; there are default, timeout
false select: nothing to wait for: the table has no cases, no default and no timeout
nil timeout
default 7
default 8
]], [[
      local c = channel()
      local p = spawn(function()
        local function fails(t)
          local ok, err = pcall(mare.select, t)
          print(ok, err:gsub("^.-:%d+: ", "") .. "")
        end
        fails { c, 5 }
        fails { nil, c }
        fails { c, timout = 5 }
        fails {}
        print(mare.select { c, timeout = 0.01 })
        print(mare.select { c, default = 7 })
        print(mare.select(setmetatable({ c }, { __index = { default = 8 } })))
      end)
      p:wait()
    ]])
  end)
end)

describe("a wait in select of channels", function()
  local wait = "while p:status() ~= 'waiting' do mare.process.yield() end\n"

  it("ends by cancelling, as an error; the fiber lets go of the channels, and may select again", function()
    ways("false cancelled\n1 5\n0\n", [[
      local a, b, out = channel(), channel(), channel(1)
      local p = spawn(function()
        local ok, err = pcall(mare.select, { a, b })
        print(ok, tostring(err):match "cancelled")
        out:send(5)
        print(mare.select { out, a })
      end)
      ]] .. wait .. [[
      p:cancel()
      p:wait()
      local tried = 0
      if a:try_send(1) then tried = tried + 1 end
      if b:try_send(1) then tried = tried + 1 end
      print(tried)
    ]])
  end)

  it("of one that is killed leaves nothing behind", function()
    ways("failed nil full nil full\n", [[
      local a, b = channel(), channel()
      local p = spawn(function() while true do mare.select { a, b } end end)
      ]] .. wait .. [[
      p:kill()
      p:wait()
      print(p:status(), select(1, a:try_send(1)), select(2, a:try_send(1)), b:try_send(2))
    ]])
  end)

  it("ends at a deadline around it", function()
    ways("false\n1 5\n", [[
      local a, b = channel(), channel()
      local p = spawn(function()
        print((pcall(mare.process.deadline, 0.01, mare.select, { a, b })))
        print(mare.select { a, b })
      end)
      mare.sleep(0.05)
      a:send(5)
      p:wait()
    ]])
  end)

  it("goes on when somebody has looked at the process", function()
    ways("true\n1 5\n", [[
      local a, b = channel(), channel()
      local p = spawn(function() print(mare.select { a, b }) end)
      ]] .. wait .. [[
      print((p:traceback():find("select", 1, true)) ~= nil)
      ]] .. wait .. [[
      a:send(5)
      p:wait()
    ]])
  end)

  it("in a process with a memory limit, and in a comparator", function()
    ways("2 x\n1 y\n", [[
      local a, b = channel(), channel()
      local p = spawn { memory = { 4 << 20, tree = true }, main = function()
        print(mare.select { a, b })
        table.sort({ 1, 2 }, function(x, y)
          if a then print(mare.select { a, b }) a = nil end
          return x < y
        end)
      end }
      b:send "x"
      a:send "y"
      p:wait()
    ]])
  end)

  it("that nobody ends is reported", function()
    local r = proc.mare [[
      local mare = require "mare"
      local a, b = mare.channel.new(), mare.channel.new()
      mare.process.spawn(function() mare.select { a, b } end)
      mare.select { a, b }
    ]]
    assert.equal(1, r.code)
    local _, n = r.err:gsub("select", "")
    assert.is_true(n >= 2, r.err)
  end)
end)
