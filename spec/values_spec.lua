-- Values: what a message carries, that it is the same on the other side, and what can't travel. Each way a message can go is tried:
-- to a parked process (copied straight in), into a queue (packed), as an argument and as a result.
local mare = require "mare"
local parked = require "spec.support.parked"
local process, channel = mare.process, mare.channel

local pack = table.pack

local function results(p)
  local r = pack(p:wait())
  if not r[1] then error(r[2], 0) end
  return table.unpack(r, 2, r.n)
end

-- Calls judge(values…) in another process, to which they went in each of the ways; all its results must be true.
local function everyway(judge, ...)
  local function receive(c) return judge(c:receive()) end
  assert.is_true(results(process.spawn(judge, ...)), "as an argument")
  local queue = channel.new(1)
  queue:send(...)
  assert.is_true(results(process.spawn(receive, queue)), "queued")
  local direct = channel.new()
  local p = process.spawn(function(c, f)
    c:receive()                                  -- a first message, so that the second is copied straight into a parked process
    return f(c:receive())
  end, direct, judge)
  direct:send({ "first" })
  direct:send(...)
  assert.is_true(results(p), "direct")
  p = process.spawn(function(c) return c:receive() end, queue)
  parked(p)
  queue:send(...)
  assert.is_true(judge(results(p)), "as a result")
end

describe("values", function()
  it("keep their type and every bit", function()
    everyway(function(a, b, c, d, e, f, g, h)
      return a == true and b == nil and c == (1 << 53) + 1 and math.type(c) == "integer" and 1 / d == -math.huge and
             math.type(d) == "float" and e ~= e and f == "a\0b" and g == ("x"):rep(100000) and h == math.mininteger
    end, true, nil, (1 << 53) + 1, -0.0, 0 / 0, "a\0b", ("x"):rep(100000), math.mininteger)
    everyway(function(t) return t[1] == (1 << 53) + 1 and math.type(t[1]) == "integer" and math.type(t[2]) == "float" end,
      { (1 << 53) + 1, 1.0 })
  end)

  it("keep identity within a message: cycles, shared tables, tables as keys", function()
    local shared, t = { "s" }, {}
    t.self, t[t], t.a, t.b = t, "key", shared, { shared }
    everyway(function(x, y) return x.self == x and x[x] == "key" and x.a == x.b[1] and y == x.a and #x.a == 1 end, t, shared)
  end)

  it("may be nested 100,000 levels deep", function()
    local t = {}
    for i = 1, 100000 do t = { t, i } end
    everyway(function(x)
      local n = 0
      while x[1] do
        x = x[1]
        n = n + 1
      end
      return n == 100000
    end, t)
  end)

  it("are read raw: no metamethod of the sender runs", function()
    local function never() error "a metamethod ran" end
    local t = setmetatable({ 1, x = 2 },
      { __index = never, __newindex = never, __len = never, __pairs = never, __eq = never, __call = never })
    everyway(function(o) return rawget(o, 1) == 1 and rawget(o, "x") == 2 and rawget(o, "y") == nil end, t)
  end)
end)

describe("functions", function()
  it("travel with their upvalues, recursive ones too", function()
    local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
    everyway(function(f) return f(15) == 610 end, fib)
  end)

  it("share upvalues as they did", function()
    local n = 0
    local function add() n = n + 1 end
    local function get() return n end
    everyway(function(a, g) a() a() return g() == 2 end, add, get)
    assert.equal(0, n)
  end)

  it("use the receiver's globals, whatever their upvalue is called", function()
    local env = _G
    everyway(function(f) _G.G = 5 return f() == 5 end, function() return env.G end)
    everyway(function(f) _G.G = 6 return f() == 6 end, function() return G end) -- luacheck: ignore
  end)

  it("keep a sandbox as their environment", function()
    local box = { value = 7 }
    local f = load("return value", "box", "t", box)
    everyway(function(g) _G.value = 8 return g() == 7 end, f)
  end)

  it("of C go by name, also if neither side has used their library yet", function()
    local p, t, c, s = print, table.concat, coroutine.wrap, setmetatable
    everyway(function(f)
      local a, b, d, e = f()
      return a == print and b == table.concat and d == coroutine.wrap and e == setmetatable
    end, function() return p, t, c, s end)
    assert.is_true(results(process.spawn(function()
      local select = select
      local h = require "mare.process".spawn(function(...) return select("#", ...) == 2 end, 1, 2)
      local _, ok = h:wait()
      return ok
    end)))
  end)

  for _, lib in ipairs { "_G", "coroutine", "debug", "io", "math", "os", "package", "string", "table", "utf8" } do
    it("of " .. lib .. " are all found", function()
      local names, functions = {}, {}
      for name, f in pairs(package.loaded[lib]) do
        local what = type(f) == "function" and debug.getinfo(f, "S").what
        if what == "C" and (lib ~= "_G" or name ~= "module") then names[#names + 1], functions[#functions + 1] = name, f end
      end
      everyway(function(l, ns, fs)
        for i, f in ipairs(fs) do if f ~= package.loaded[l][ns[i]] then return ns[i] end end
        return #fs > 0
      end, lib, names, functions)
    end)
  end
end)

describe("modules", function()
  it("go by reference and are required by the receiver", function()
    local m = { here = io.stdout }
    package.loaded["spec.values.module"] = m
    package.preload["spec.values.module"] = function() return { there = true } end
    everyway(function(x) return x.there or x.here ~= nil end, m)
    everyway(function(f) return f() end, function() return m.there or m.here ~= nil end)
    package.loaded["spec.values.module"] = nil
    package.preload["spec.values.module"] = nil
  end)

  it("are known from when they are loaded, whatever was sent before", function()
    local c, list = channel.new(1), {}
    for i = 1, 10 do list[i] = { i } end
    c:send(list)                                          -- of so many the packer learns the modules in another way
    c:receive()
    for i = 1, 100 do
      local m = { i }
      package.loaded["spec.values.module"] = m
      c:send(m)
      assert.equal(m, c:receive())
    end
    package.loaded["spec.values.module"] = nil
  end)

  it("that the receiver can't find are an error there", function()
    package.loaded["spec.values.nowhere"] = {}
    local ok, err = process.spawn(function() end, package.loaded["spec.values.nowhere"]):wait()
    package.loaded["spec.values.nowhere"] = nil
    assert.is_false(ok)
    assert.matches("module 'spec.values.nowhere' not found", err)
  end)
end)

describe("metatables", function()
  local Point = { __name = "Point" }
  Point.__index = Point
  function Point.__add(a, b) return setmetatable({ x = a.x + b.x }, Point) end
  function Point:twice() return self + self end

  it("are one per class and receiver, and methods work", function()
    everyway(function(a, b) return getmetatable(a) == getmetatable(b) and (a + b):twice().x == 6 end,
      setmetatable({ x = 1 }, Point), setmetatable({ x = 2 }, Point))
  end)

  it("stay one over many messages, and come home as the original", function()
    local to, from = channel.new(), channel.new()
    process.spawn(function(c, back)
      local class
      for o in c:each() do
        class = class or getmetatable(o)
        back:send(o, getmetatable(o) == class)
      end
    end, to, from)
    for i = 1, 100 do
      to:send(setmetatable({ x = i }, Point))
      local o, same = from:receive()
      assert.equal(i, o.x)
      assert.is_true(same)
      assert.equal(Point, getmetatable(o))
    end
    to:close()
  end)

  it("with __gc are an error that says so", function()
    local ok, err = pcall(channel.new(1).send, channel.new(1), { a = { setmetatable({}, { __gc = function() end }) } })
    assert.is_false(ok)
    assert.matches("message%.a%[1%]: table with a __gc metamethod cannot be sent", err)
  end)
end)

describe("what can't travel", function()
  local function refuses(text, ...)
    local c = channel.new(4)
    local ok, err = pcall(c.send, c, ...)
    assert.is_false(ok)
    assert.equal(text, (err:gsub("^[^:]+:%d+: ", "")))
    assert.equal(0, #c)
  end

  it("is named with its path and the remedy", function()
    refuses("message[2].items[3].owner: userdata 'FILE*' cannot be sent; close over its name and open it in the receiver",
      1, { items = { 1, 2, { owner = io.stdout } } })
    refuses("message.x[\"a b\"]: coroutine cannot be sent; send its function and create the coroutine in the receiver",
      { x = { ["a b"] = coroutine.create(print) } })
    local file = io.stdout
    refuses("message: upvalue 'file': userdata 'FILE*' cannot be sent; close over its name and open it in the receiver",
      function() return file end)
    refuses("message: C function cannot be sent, no module in package.loaded has it; get it in the receiver from what made it here",
      (string.gmatch("a", "a")))
    refuses("message: method 'send' of 'channel' cannot be sent by itself; send a Lua function that calls it", channel.new().send)
    refuses("message.write: method 'write' of 'FILE*' cannot be sent by itself; send a Lua function that calls it", { write = io.stdout.write })
    local wait = process.self().wait
    refuses("message: upvalue 'wait': method 'wait' of 'process' cannot be sent by itself; send a Lua function that calls it",
      function() return wait end)
  end)

  it("is refused as an argument and as a result, too", function()
    assert.error_matches(function() process.spawn(print, 1, io.stdout) end, "argument%[3%]: userdata 'FILE%*'")
    local ok, err = process.spawn(function() return { f = io.stdout } end):wait()
    assert.is_false(ok)
    assert.matches("result%.f: userdata 'FILE%*'", err)
  end)

  it("is what moves, in a class: who knows the class would not take it", function()
    local buffer = require "mare.buffer"
    local Class = { __index = { log = buffer.new "kept" } }
    refuses("message.<metatable>.__index.log: object moves, and belongs to a class, which all its receivers keep", setmetatable({}, Class))
    assert.equal("kept", Class.__index.log:sub())
    local c = channel.new(1)
    c:send(setmetatable({ log = Class.__index.log }, Class))               -- it is the object's, too
    assert.equal("kept", c:receive().log:sub())
  end)

  it("leaves both sides as they were", function()
    local c = channel.new()
    local p = process.spawn(function(ch) return ch:receive() end, c)
    parked(p)
    assert.is_false(pcall(c.send, c, { io.stdout }))
    c:send("after")
    assert.equal("after", results(p))
  end)

  it("is not mistaken for a channel", function()
    local forged = io.tmpfile()
    local original = debug.getmetatable(forged)
    debug.setmetatable(forged, debug.getmetatable(channel.new()))
    local c = channel.new(1)
    local ok, err = pcall(c.send, c, forged)
    debug.setmetatable(forged, original)
    forged:close()
    assert.is_false(ok)
    assert.matches("userdata 'channel' cannot be sent", err)
  end)
end)

describe("a copy into a parked process", function()
  it("may meet finalisers of that process that send and spawn", function()
    local c, done = channel.new(), channel.new(math.huge)
    local p = process.spawn(function(inbox, out)
      local proc = require "mare.process"
      collectgarbage("incremental", 100, 400)
      local function litter()
        setmetatable({}, { __gc = function()
          out:send { 1, 2, { "sent" } }
          proc.spawn(function(o, t) o:send(t) end, out, { 1, 2, { "spawned" } })
        end })
      end
      local sum = 0
      while true do
        for _ = 1, 5 do litter() end
        local m = inbox:receive()
        if not m then return sum end
        for i, r in ipairs(m) do
          if r.id ~= i or r.name ~= "n" .. i or r.list[1] ~= i then return "corrupt" end
          sum = sum + 1
        end
      end
    end, c, done)
    for _ = 1, 100 do
      local m = {}
      for i = 1, 200 do m[i] = { id = i, name = "n" .. i, list = { i } } end
      c:send(m)
    end
    c:close()
    assert.equal(100 * 200, results(p))
    assert.equal(2, done:receive()[2])
  end)
end)
