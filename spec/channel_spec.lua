-- Channels: what each operation returns, waits for and wakes.
local mare = require "mare"
local proc = require "spec.support.proc"
local parked = require "spec.support.parked"
local process, channel = mare.process, mare.channel

-- pack: results with their number, so that trailing nils count.
local pack = table.pack

local function seconds(f, ...)
  local start = mare.clock()
  local results = pack(f(...))
  return mare.clock() - start, results
end

describe("channel.new", function()
  it("makes a rendezvous by default: nothing is queued", function()
    local c = channel.new()
    assert.equal(0, #c)
    assert.same(pack(nil, "full"), pack(c:try_send(1)))
    assert.same(pack(nil, "empty"), pack(c:try_receive()))
  end)

  it("takes a capacity, after which it is full", function()
    local c = channel.new(2)
    assert.same(pack(true), pack(c:send(1)))
    assert.same(pack(true), pack(c:try_send(2)))
    assert.equal(2, #c)
    assert.same(pack(nil, "full"), pack(c:try_send(3)))
    assert.same(pack(1), pack(c:receive()))
    assert.same(pack(true), pack(c:try_send(3)))
    assert.same({ 2, 3 }, { c:receive(), (c:receive()) })
  end)

  it("takes math.huge for a queue without limit", function()
    local c = channel.new(math.huge)
    for i = 1, 1000 do assert.is_true(c:send(i)) end
    assert.equal(1000, #c)
    for i = 1, 1000 do assert.equal(i, c:receive()) end
    assert.equal(0, #c)
  end)

  it("refuses what is not a capacity", function()
    for _, bad in ipairs { -1, 1.5, 0 / 0, -math.huge } do
      assert.error_matches(function() channel.new(bad) end, "capacity must be")
    end
    assert.error_matches(function() channel.new("many") end, "number expected")
    assert.error_matches(function() channel.new({}) end, "number expected")
  end)
end)

describe("a message", function()
  it("holds several values, nils among them", function()
    local c = channel.new(3)
    c:send(1, nil, 3)
    c:send("a", nil)
    c:send(false)
    assert.same(pack(1, nil, 3), pack(c:receive()))
    assert.same(pack("a", nil), pack(c:receive()))
    assert.same(pack(false), pack(c:receive()))
  end)

  it("can't begin with nil", function()
    local c = channel.new(1)
    for _, send in ipairs { "send", "try_send" } do
      assert.error_matches(function() c[send](c, nil, 1) end, "first value of a message can't be nil")
      assert.error_matches(function() c[send](c) end, "first value of a message can't be nil")
    end
    assert.error_matches(function() c:send_within(1, nil) end, "first value of a message can't be nil")
    assert.equal(0, #c)
  end)

  it("holds many values", function()
    local c, values = channel.new(1), {}
    for i = 1, 5000 do values[i] = i % 7 == 0 and "s" .. i or i end
    c:send(table.unpack(values))
    assert.same(values, { c:receive() })
  end)

  it("is what it was when it was sent", function()
    local c, t = channel.new(1), { 1 }
    c:send(t)
    t[1] = 2
    assert.same({ 1 }, c:receive())
  end)
end)

describe("channel:receive", function()
  it("waits for a sender, and a sender for a receiver", function()
    local c = channel.new()
    local p = process.spawn(function() return c:receive() end)
    parked(p)
    assert.is_true(c:send("x", 1))
    assert.same(pack(true, "x", 1), pack(p:wait()))
    p = parked(process.spawn(function() return c:send({ "y" }) end))
    assert.same({ "y" }, c:receive())
    assert.same(pack(true, true), pack(p:wait()))
  end)

  it("keeps the order of one sender", function()
    for _, capacity in ipairs { 0, 1, 7, math.huge } do
      local c = channel.new(capacity)
      process.spawn(function()
        for i = 1, 500 do c:send(i, i % 3 == 0 and { i } or nil) end
        c:close()
      end)
      local n = 0
      for v, t in c:each() do
        n = n + 1
        if v ~= n or (t and t[1] ~= n) then error("out of order: " .. v .. " instead of " .. n) end
      end
      assert.equal(500, n)
    end
  end)

  it("serves waiting receivers in their order", function()
    local c, out = channel.new(), channel.new(math.huge)
    for i = 1, 5 do
      parked(process.spawn(function() out:send(i, (c:receive())) end))
    end
    for i = 1, 5 do
      c:send(10 * i)
      assert.same(pack(i, 10 * i), pack(out:receive()))
    end
  end)

  it("serves waiting senders in their order, also when places of a queue get free", function()
    for _, capacity in ipairs { 0, 2 } do
      local c = channel.new(capacity)
      for i = 1, capacity do c:send(i) end
      for i = capacity + 1, capacity + 5 do parked(process.spawn(function() c:send(i) end)) end
      for i = 1, capacity + 5 do assert.equal(i, c:receive(10)) end
    end
  end)

  it("many receivers and many senders exchange every message once", function()
    for _, capacity in ipairs { 0, 3 } do
      local c, sums = channel.new(capacity), channel.new(math.huge)
      for _ = 1, 8 do
        process.spawn(function()
          local sum, n = 0, 0
          for v in c:each() do sum, n = sum + v, n + 1 end
          sums:send(sum, n)
        end)
      end
      local senders = {}
      for s = 1, 8 do
        senders[s] = process.spawn(function() for i = 1, 500 do c:send((s - 1) * 500 + i) end end)
      end
      for _, p in ipairs(senders) do assert.is_true(p:wait()) end
      c:close()
      local sum, n = 0, 0
      for _ = 1, 8 do
        local s, k = sums:receive()
        sum, n = sum + s, n + k
      end
      assert.same({ 4000, 4000 * 4001 // 2 }, { n, sum })
    end
  end)
end)

describe("a deadline", function()
  it("ends a receive with 'timeout'", function()
    local c = channel.new()
    local time, results = seconds(c.receive, c, 0.05)
    assert.same(pack(nil, "timeout"), results)
    assert.is_true(time >= 0.05 and time < 60, time)
  end)

  it("ends a receive of a process with 'timeout'", function()
    local c = channel.new()
    local ok, value, reason, time = process.spawn(function()
      local start = mare.clock()
      local v, why = c:receive(0.05)
      return v, why, mare.clock() - start
    end):wait()
    assert.same({ true, nil, "timeout" }, { ok, value, reason })
    assert.is_true(time >= 0.05, time)
  end)

  it("ends a send, and takes the message back", function()
    local c = channel.new()
    local time, results = seconds(c.send_within, c, 0.05, { "text" })
    assert.same(pack(nil, "timeout"), results)
    assert.is_true(time >= 0.05, time)
    assert.same(pack(nil, "empty"), pack(c:try_receive()))
    local full = channel.new(1)
    full:send(1)
    assert.same(pack(true, nil, "timeout"),
      pack(process.spawn(function() return full:send_within(0.02, ("x"):rep(10000)) end):wait()))
    assert.same(pack(1), pack(full:receive()))
    assert.same(pack(nil, "empty"), pack(full:try_receive()))
  end)

  it("of 0 or less doesn't wait, but takes what is there", function()
    local c = channel.new(1)
    for _, s in ipairs { 0, -1, -math.huge, "0" } do
      assert.same(pack(nil, "timeout"), pack(c:receive(s)))
      c:send(7)
      assert.same(pack(nil, "timeout"), pack(c:send_within(s, 8)))
      assert.same(pack(7), pack(c:receive(s)))
      assert.same(pack(true), pack(c:send_within(s, 9)))
      assert.same(pack(9), pack(c:receive(s)))
    end
  end)

  it("of math.huge, 1e300 or nil is none", function()
    local c = channel.new()
    for _, s in ipairs { math.huge, 1e300, 1e10, "inf" } do
      if s == "inf" then s = nil end
      local p = parked(process.spawn(function() return c:receive(s) end))
      c:send(1)
      assert.same(pack(true, 1), pack(p:wait()))
    end
    local p = parked(process.spawn(function() return c:send_within(math.huge, 2) end))
    assert.equal(2, c:receive())
    assert.same(pack(true, true), pack(p:wait()))
  end)

  it("may be a string that is a number; nan and other values are errors", function()
    local c = channel.new()
    assert.same(pack(nil, "timeout"), pack(c:receive("0.01")))
    assert.same(pack(nil, "timeout"), pack(c:send_within("0.01", 1)))
    for _, s in ipairs { 0 / 0, "soon", true, {} } do
      assert.error(function() c:receive(s) end)
      assert.error(function() c:send_within(s, 1) end)
    end
    assert.error_matches(function() c:send_within(nil, 1) end, "number expected")
    assert.error_matches(function() c:receive(0 / 0) end, "nan")
  end)

  it("that is not reached costs nothing and wakes nobody later", function()
    local c = channel.new()
    local p = process.spawn(function()
      local sum = 0
      for _ = 1, 200 do sum = sum + c:receive(60) end
      local v, why = c:receive(0.1)
      return sum, v, why
    end)
    for _ = 1, 200 do c:send(1) end
    assert.same(pack(true, 200, nil, "timeout"), pack(p:wait()))
  end)

  it("loses no message when it is reached while somebody sends", function()
    local c = channel.new()
    local p = process.spawn(function()
      local n, timeouts = 0, 0
      while true do
        local v, why = c:receive(0.0005)
        if v then n = n + 1
        elseif why == "closed" then return n, timeouts
        else timeouts = timeouts + 1 end
      end
    end)
    local sent = 0
    for i = 1, 400 do
      if i % 4 == 0 then mare.sleep(0.0005) end
      if c:send_within(0.0005, { i }) then sent = sent + 1 end
    end
    c:close()
    local ok, n = p:wait()
    assert.same({ true, sent }, { ok, n })
  end)
end)

describe("channel:close", function()
  it("wakes every waiting receiver with 'closed'", function()
    local c, list = channel.new(), {}
    for i = 1, 20 do list[i] = process.spawn(function() return c:receive() end) end
    for i = 1, 20 do parked(list[i]) end
    c:close()
    for i = 1, 20 do assert.same(pack(true, nil, "closed"), pack(list[i]:wait())) end
  end)

  it("wakes every waiting sender with 'closed', and their messages are gone", function()
    local c, list = channel.new(), {}
    for i = 1, 20 do
      list[i] = process.spawn(function() return c:send(i % 2 == 0 and i or ("x"):rep(5000)) end)
    end
    for i = 1, 20 do parked(list[i]) end
    c:close()
    for i = 1, 20 do assert.same(pack(true, nil, "closed"), pack(list[i]:wait())) end
    assert.same(pack(nil, "closed"), pack(c:receive()))
  end)

  it("wakes the main script", function()
    local c = channel.new()
    local p = process.spawn(function()
      mare.sleep(0.02)
      c:close()
    end)
    assert.same(pack(nil, "closed"), pack(c:receive()))
    p:wait()
    c = channel.new()
    p = process.spawn(function()
      mare.sleep(0.02)
      c:close()
    end)
    assert.same(pack(nil, "closed"), pack(c:send({})))
    p:wait()
  end)

  it("lets what is queued be received", function()
    local c = channel.new(5)
    c:send(1)
    c:send({ 2 })
    c:close()
    assert.same(pack(nil, "closed"), pack(c:send(3)))
    assert.same(pack(nil, "closed"), pack(c:try_send(3)))
    assert.same(pack(nil, "closed"), pack(c:send_within(1, 3)))
    assert.equal(2, #c)
    assert.equal(1, c:receive())
    assert.same({ 2 }, c:receive(1))
    assert.same(pack(nil, "closed"), pack(c:receive()))
    assert.same(pack(nil, "closed"), pack(c:receive(1)))
    assert.same(pack(nil, "closed"), pack(c:try_receive()))
  end)

  it("can be repeated, and closed() tells", function()
    local c = channel.new()
    assert.is_false(c:closed())
    c:close()
    c:close()
    assert.is_true(c:closed())
  end)
end)

describe("channel:each", function()
  it("gives every message until the channel is closed and empty", function()
    local c = channel.new(3)
    c:send(1, "a")
    c:send(2, "b")
    c:send(false, "c")
    c:close()
    local got = {}
    for v, w in c:each() do got[#got + 1] = tostring(v) .. w end
    assert.same({ "1a", "2b", "falsec" }, got)
  end)

  it("can be used by several at once", function()
    local c, list = channel.new(), {}
    for i = 1, 4 do
      list[i] = process.spawn(function()
        local n = 0
        for _ in c:each() do n = n + 1 end
        return n
      end)
    end
    for i = 1, 100 do c:send(i) end
    c:close()
    local n = 0
    for i = 1, 4 do n = n + select(2, list[i]:wait()) end
    assert.equal(100, n)
  end)
end)

describe("a channel", function()
  it("is a value: it travels in messages, arguments, upvalues and results, and stays the same", function()
    local c, carrier = channel.new(1), channel.new(1)
    carrier:send({ deep = { c } }, c)
    local t, again = carrier:receive()
    assert.equal(c, again)
    assert.equal(c, t.deep[1])
    local p = process.spawn(function(given) return given == c, { given, c }, rawequal(given, c) end, c)
    local ok, same, list, raw = p:wait()
    assert.same({ true, true, true }, { ok, same, raw })
    assert.equal(c, list[1])
    assert.equal(c, list[2])
    assert.equal("channel", tostring(c):match("^%a+"))
  end)

  it("can be sent over itself", function()
    local c = channel.new(1)
    c:send(c)
    assert.equal(c, c:receive())
  end)

  it("can be a key of a table", function()
    local a, b = channel.new(), channel.new(1)
    b:send({ [a] = "yes" })
    assert.equal("yes", b:receive()[a])
  end)

  it("takes a message from its own process", function()
    local ok, v = process.spawn(function()
      local c = channel.new(1)
      c:send("to myself")
      return c:receive()
    end):wait()
    assert.same({ true, "to myself" }, { ok, v })
  end)

  it("dies with what it holds when nobody holds it", function()
    -- A queue that nobody can reach any more: the memory of 200 of them is not kept.
    local function resident()
      return tonumber(io.open("/proc/self/statm"):read("a"):match("^%d+ (%d+)")) * 4
    end
    local kilo = ("x"):rep(1000)
    local function round()
      for _ = 1, 20 do
        local c = channel.new(math.huge)
        for _ = 1, 10 do c:send(kilo:rep(100)) end
      end
      collectgarbage()
      collectgarbage()
    end
    round()
    local before = resident()
    for _ = 1, 10 do round() end
    local most = proc.config == "plain" and 60000 or 400000      -- sanitizers keep freed memory for a while
    assert.is_true(resident() - before < most, "memory grew by KiB " .. resident() - before)
  end)

  it("dies with the process that held it", function()
    local keep = channel.new(math.huge)
    process.spawn(function()
      local c = channel.new(math.huge)
      c:send(keep)
      c:send({ c })               -- it holds itself: such cycles end with the program
    end):wait()
    assert.equal(0, #keep)
  end)

  it("refuses to be used as something else", function()
    local c = channel.new()
    assert.error_matches(function() c.send(io.stdout, 1) end, "channel expected")
    assert.error_matches(function() c.send(process.self(), 1) end, "channel expected")
    assert.error_matches(function() c.receive({}) end, "channel expected")
    assert.error_matches(function() process.self().wait(c) end, "process expected")
    assert.equal("channel", getmetatable(c))
    assert.error_matches(function() return c.nothing end, "channel has no field 'nothing'")
    assert.error(function() c.x = 1 end)
  end)

  it("is finalised at its process's end by what a program has put into its metatable", function()
    local out = channel.named("spec.own_finaliser", math.huge)
    process.spawn(function(c)
      local meta = debug.getmetatable(c)
      local finalise = meta.__gc
      meta.__gc = function(object)
        finalise(object)
        require "mare.channel".named("spec.own_finaliser", math.huge):send("finalised")
      end
    end, channel.new()):wait()
    assert.equal("finalised", out:receive(5))
    out:close()
  end)

  it("that was finalised raises an error where another finaliser uses it", function()
    -- At the end of a state objects are finalised in the reverse order of their creation.
    local out = channel.named("spec.finalised", math.huge)
    process.spawn(function()
      local box = setmetatable({}, { __gc = function(t)
        local back = require "mare.channel".named("spec.finalised")
        back:try_send(pcall(t.c.try_send, t.c, 1))
        back:try_send(pcall(back.try_send, back, { t.c }))
        back:try_send(pcall(tostring, t.c))
      end })
      box.c = channel.new()
    end):wait()
    for _ = 1, 2 do
      local ok, err = out:receive(10)
      assert.is_false(ok)
      assert.is_string(err)
    end
    local ok, text = out:receive(10)             -- its address is all that tostring shows
    assert.is_true(ok)
    assert.matches("^channel: 0x", text)
    out:close()
  end)
end)

describe("channel.named", function()
  it("gives the same channel for the same name, everywhere", function()
    local c = channel.named("spec.same", 2)
    assert.equal(c, channel.named("spec.same"))
    assert.equal("spec.same", c:name())
    assert.is_nil(channel.new():name())
    process.spawn(function() channel.named("spec.same"):send("first") end)
    process.spawn { name = "second", main = function() require "mare.channel".named("spec.same"):send("second") end }:wait()
    c:receive()
    c:close()
  end)

  it("lives until it is closed; then the name is free", function()
    do channel.named("spec.lives", 1):send("kept") end
    collectgarbage()
    collectgarbage()
    local old = channel.named("spec.lives")
    assert.equal("kept", old:receive())
    old:close()
    local fresh = channel.named("spec.lives", 1)
    assert.not_equal(old, fresh)
    assert.is_false(fresh:closed())
    fresh:close()
  end)

  it("find gives nil where there is none", function()
    assert.same(pack(nil), pack(channel.find("spec.none")))
    local c = channel.named("spec.found")
    assert.equal(c, channel.find("spec.found"))
    c:close()
    assert.is_nil(channel.find("spec.found"))
  end)

  it("is made once when many ask at the same time", function()
    local list = {}
    for i = 1, 16 do list[i] = process.spawn(function() return channel.named("spec.race", math.huge) end) end
    local c = channel.named("spec.race")
    for i = 1, 16 do assert.equal(c, select(2, list[i]:wait())) end
    c:close()
  end)

  it("refuses what is not a name", function()
    assert.error_matches(function() channel.named() end, "string expected")
    assert.error_matches(function() channel.named("a\0b") end, "zero byte")
  end)
end)

describe("a large string", function()
  it("crosses unchanged, whoever waits for whom", function()
    local text = ("0123456789\0\255"):rep(100000)
    local c = channel.new()
    local p = process.spawn(function()
      local n = 0
      for s in c:each() do n = n + #s end
      return n
    end)
    for _ = 1, 10 do c:send(text) end
    c:close()
    assert.same(pack(true, 10 * #text), pack(p:wait()))
    local d = channel.new()
    p = process.spawn(function()
      for _ = 1, 10 do d:send(("0123456789\0\255"):rep(100000)) end
      d:send_within(5, ("a"):rep(5000), 2)
    end)
    for _ = 1, 10 do assert.is_true(d:receive() == text) end
    assert.same(pack(("a"):rep(5000), 2), pack(d:receive()))
    p:wait()
  end)

  -- Each of the three waits anew while the sender looks for one: some begin just between its look and its own wait.
  it("crosses from a script to whoever begins to wait while it is sent", function()
    local c, list, sum, n = channel.new(), {}, 0, proc.slow > 1 and 3000 or 30000
    for i = 1, 3 do
      list[i] = process.spawn(function()
        local k = 0
        for s in c:each() do k = k + (#s == 5000 and s:byte(5000) == 120 and 1 or 0) end
        return k
      end)
    end
    local text = ("x"):rep(5000)
    for _ = 1, n do c:send(text) end
    c:close()
    for i = 1, 3 do sum = sum + select(2, list[i]:wait()) end
    assert.equal(n, sum)
  end)
end)

describe("sending to oneself over a rendezvous", function()
  it("is a deadlock, and reported", function()
    local r = proc.lua [[
      local c = require "mare".channel.new()
      print(pcall(c.send, c, 1))
    ]]
    assert.matches("^false.*deadlock", r.out)
    assert.equal(0, r.code)
  end)
end)
