-- luacheck: ignore 211 311 331 542 631
-- Debug hooks of programs while mare interrupts them: they see what plain Lua shows.
-- runs under: mare
local proc = require "spec.support.proc"

-- A function that runs the same work under hooks of all kinds and tells all they saw; text of a program.
local watched = [[
  local function work()
    local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
    local function tail(n, ...) if n == 0 then return select("#", ...) end return tail(n - 1, n, ...) end
    local function gen(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end end) end
    local mt = { __add = function(a, b) return a.v + b.v end, __close = function() end, __index = function(_, k) return k end,
      __lt = function(a, b) return a.v
        < b.v end }
    local x = 0
    for round = 1, SCALE do
      x = x + fib(9) + tail(12)
      for v in gen(6) do x = x + v end
      local t = { 5, 3, 9, 1, 7, 2 }
      table.sort(t, function(a, b) return a > b end)
      local o = setmetatable({ v = round }, mt)
      x = x + (o + o) + #o.foo
      if o
        < o then x = 0 end
      do local _ <close> = o end
      for i = 1, 60 do x = x + i end
      local i = 0
      while i < 40 do i = i + 1 end
      repeat i = i - 1 until i == 0
      x = x + #(("abc"):gsub("%w", function(c) return c .. c end))
      pcall(function() error({}) end)
    end
    return x
  end
  local function see(mask, count, inside)
    local n, sum, names = 0, 0, {}
    local function hook(event, line)
      n = n + 1
      names[event] = (names[event] or 0) + 1
      local code = event:byte(1) * 7 + event:byte(-1) + (line or 0) * 31
      sum = (sum * 33 + code) % 1000000007
      for _ = 1, inside do code = code + 1 end
    end
    debug.sethook(hook, mask, count)
    local x = work()
    local f, m, c = debug.gethook()
    debug.sethook()
    local list = {}
    for k, v in pairs(names) do list[#list + 1] = k .. "=" .. v end
    table.sort(list)
    return table.concat({ mask, count, inside, n, sum, tostring(f == hook), m, c, x, table.concat(list, " ") }, " ")
  end
  local function all()
    local out = {}
    collectgarbage("stop")
    for _, mask in ipairs { "c", "r", "l", "cr", "cl", "rl", "crl", "" } do
      for _, count in ipairs { 0, 1, 2, 3, 7, 100, 12345 } do
        for _, inside in ipairs { 0, 5 } do
          if mask ~= "" or count > 0 then out[#out + 1] = see(mask, count, inside) end
        end
      end
    end
    return table.concat(out, "\n")
  end
]]

local function scaled(scale) return (watched:gsub("SCALE", scale)) end

-- Text that both Luas print.
local function agree(text, options)
  local plain = proc.run({ proc.interpreter, "-e", text })
  local ours = proc.mare(text, {}, options)
  assert.same({ 0, "" }, { plain.code, plain.err })
  assert.same({ 0, plain.out, "" }, { ours.code, ours.out, ours.err })
end

describe("a program's debug hook", function()
  it("gets each event that plain Lua gives it, and no other, beside two busy processes", function()
    local text = scaled(proc.config == "tsan" and 1 or 8 // proc.slow + 2)
    local plain = proc.run({ proc.interpreter, "-e", text .. "io.write(all())" }, { timeout = 60 })
    assert.same({ 0, "" }, { plain.code, plain.err })
    local _, lines = plain.out:gsub("\n", "")
    assert.equal(109, lines)
    for _, quantum in ipairs { "1", "3" } do
      local r = proc.mare([[
        local mare = require "mare"
        for _ = 1, 2 do mare.process.spawn(function() while true do end end) end
        local list = {}
        for i = 1, 2 do list[i] = mare.process.spawn(function(text) return load(text, "=(command line)")() end, ...) end
        for i = 1, 2 do
          local ok, got = list[i]:wait()
          print(ok, got)
        end
        os.exit(0)
      ]], { text .. "return all()" }, { workers = 2, timeout = 100, env = { MARE_QUANTUM = quantum } })
      assert.same({ 0, "" }, { r.code, r.err })
      assert.equal(("true\t%s\n"):format(plain.out):rep(2), r.out)
    end
  end)

  it("doesn't keep others from their turns, whatever it asks for", function()
    for _, hook in ipairs { '"c"', '"r"', '"l"', '"crl"', '"", 1', '"", 100', '"", 1000000', '"", 2147483647', '"l", 3' } do
      local r = proc.mare(([[
        local mare = require "mare"
        local hog = mare.process.spawn(function() debug.sethook(function() end, %s) while true do local x = 1 end end)
        local other = mare.process.spawn(function() debug.sethook(function() end, %s) coroutine.wrap(function() while true do end end)() end)
        for i = 1, 10 do mare.sleep(0.001) end
        print(hog:status() ~= "failed", other:status() ~= "failed")
        io.stdout:flush()
        os.exit(0)
      ]]):format(hook, hook), {}, { workers = 1, timeout = 30 })
      assert.same({ 0, "true\ttrue\n", "" }, { r.code, r.out, r.err }, hook)
    end
  end)

  it("gives way by yielding, so a process beside it runs on the same thread", function()
    local r = proc.mare([[
      local mare = require "mare"
      local function threads()
        local n = 0
        for line in assert(io.popen "ls /proc/$PPID/task"):lines() do n = n + 1 end
        return n
      end
      local before
      for _, how in ipairs { { "c" }, { "l" }, { "r", 0 }, { "", 1000 }, { "", 50000000 } } do
        for _ = 1, 4 do
          mare.process.spawn(function(mask, count) debug.sethook(function() end, mask, count) while true do end end, how[1], how[2])
        end
      end
      for i = 1, 5 do mare.sleep(0.01) end
      print(threads() < 16)
      io.stdout:flush()
      os.exit(0)
    ]], {}, { workers = 1, timeout = 30 })
    assert.same({ 0, "true\n", "" }, { r.code, r.out, r.err })
  end)

  it("is shown by gethook as it was set, and is nobody else's", function()
    agree([[
      local function show(...) print(...) end
      local function f() end
      for _, how in ipairs { { "c" }, { "crl", 5 }, { "", 7 }, { "l", 0 }, { "", 0 }, { "r", -3 }, { "xyz", 2 } } do
        debug.sethook(f, table.unpack(how))
        local g, m, c = debug.gethook()
        local co = coroutine.create(function() return debug.gethook() end)
        local n = select("#", debug.gethook(co))
        local values = { debug.gethook(co) }
        debug.sethook()
        show(g == f, m, c, n, values[1], values[2], values[3])
        show(select(2, coroutine.resume(co)))
      end
      show(select("#", debug.gethook()), debug.gethook())
      local co = coroutine.create(function() coroutine.yield() local x = 1 x = 2 return x end)
      local events = {}
      debug.sethook(co, function(e, l) events[#events + 1] = e .. (l or "") end, "crl")
      show(debug.gethook(co) ~= nil, debug.gethook())
      coroutine.resume(co) coroutine.resume(co)
      show(table.concat(events, " "))
      show(pcall(debug.sethook, 1, "l")) show(pcall(debug.sethook, f)) show(pcall(debug.sethook, f, "l", "x"))
      show(getmetatable(debug.getregistry()._HOOKKEY).__mode)
      show(pcall(function()
        debug.sethook(function() debug.sethook() error("in the hook", 0) end, "", 2)
        local x = 1
      end))
      local n = 0
      debug.sethook(function() n = n + 1 if n == 3 then debug.sethook() end end, "l")
      local a
      a = 1
      a = 2
      a = 3
      show(n, debug.gethook())
      local seen = {}
      debug.sethook(function(e) seen[#seen + 1] = e .. ":" .. tostring(debug.getinfo(2, "n").name) end, "c")
      string.rep("x", 2) math.floor(1.5) utf8.char(65) tostring(1) coroutine.wrap(function() end)()
      debug.sethook()
      show(table.concat(seen, " "))
    ]])
  end)

  it("is not seen where there is none, though the process is interrupted", function()
    local r = proc.mare(([[
      local mare = require "mare"
      for _ = 1, 2 do mare.process.spawn(function() while true do end end) end
      local p = mare.process.spawn(function()
        for i = 1, %d do
          if debug.gethook() ~= nil then return i, debug.gethook() end
        end
        return "none"
      end)
      print(p:wait())
      io.stdout:flush()
      os.exit(0)
    ]]):format(3000000 // proc.slow), {}, { workers = 1, timeout = 60, env = { MARE_QUANTUM = "1" } })
    assert.same({ 0, "true\tnone\n", "" }, { r.code, r.out, r.err })
  end)

  it("may send and receive while a message is unpacked, or a long string handed over", function()
    local r = proc.mare([[
      local mare = require "mare"
      local c = mare.channel.new(100)
      print(mare.process.spawn(function()
        local net = require "mare.net"                 -- its functions travel by name, so they are looked up by calls
        for i = 1, 60 do c:send({ net.listen, ("x"):rep(300), i }) end
        c:close()
        local busy, got = false, {}
        local function note(t)
          if not t then return end
          assert(t[1] == net.listen and t[2] == ("x"):rep(300))
          got[#got + 1] = t[3]
        end
        debug.sethook(function()
          if busy then return end
          busy = true
          note((c:try_receive()))
          busy = false
        end, "cr")
        for _ = 1, 20 do note((c:try_receive())) end
        debug.sethook()
        while true do
          local t = c:receive()
          if not t then break end
          note(t)
        end
        table.sort(got)
        for i = 1, 60 do assert(got[i] == i, i) end
        return #got
      end):wait())
      local d, other = mare.channel.new(), mare.channel.new(math.huge)
      local long = ("long"):rep(5000)
      local receiver = mare.process.spawn(function()
        local n = 0
        for s in function() return d:receive() end do
          assert(s == long)
          n = n + 1
          if n % 3 == 0 then mare.process.yield() end
        end
        return n
      end)
      local busy
      local sender = mare.process.spawn(function()
        debug.sethook(function()
          if busy then return end
          busy = true
          other:send({ "from the hook" })
          busy = false
        end, "cr")
        for _ = 1, 300 do d:send(long) end
        debug.sethook()
        d:close()
      end)
      print(sender:wait(60))
      print(receiver:wait(60))
    ]], {}, { timeout = 120 })
    assert.equal("true\t60\ntrue\ntrue\t300\n", r.out .. r.err)
  end)

  it("works, or is refused by the memory error, however little memory there is", function()
    local r = proc.mare([[
      local mare = require "mare"
      local function hooked()
        local before, n = debug.sethook, 0                  -- the library is made
        local function hook() n = n + 1 end
        debug.sethook(hook, "crl", 3)
        local co = coroutine.create(function() debug.sethook(hook, "l") return coroutine.running() end)
        debug.sethook(co, hook, "c")
        local ok, value = coroutine.resume(co)
        local seen, mask, count = debug.gethook()
        debug.sethook(co)
        debug.sethook()
        if not ok then error(value, 0) end
        return seen == hook and mask == "crl" and count == 3 and n > 3 and debug.gethook() == nil
      end
      local function tried(limit) return mare.process.spawn { main = hooked, memory = limit }:wait() end
      local least = 1000
      while not tried(least) do least = least + 1000 end    -- about what it needs
      local worked, refused = 0, 0
      for limit = least - 12000 > 0 and least - 12000 or 1, least + 1000, 16 do
        local ok, value = tried(limit)
        if ok then worked = worked + 1 assert(value == true) else refused = refused + 1 assert(tostring(value):find "not enough memory", value) end
      end
      print(worked > 10 and refused > 300)
    ]], {}, { timeout = 120 })
    assert.equal("true\n", r.out, r.err)
  end)
end)
