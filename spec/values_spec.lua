-- Values between processes, through the public interface: what arrives is what was sent, and what can't travel is refused.
local mare = require "mare"
local process, channel = mare.process, mare.channel

local function pack(...) return { n = select("#", ...), ... } end

local echo = function(...) return ... end

-- Every way a value can take: queued, straight to a parked receiver, from a waiting sender, argument and result.
local function through_queue(...)
  local c = channel.new(1)
  c:send(...)
  return c:receive()
end

local function through_process(...)
  local results = pack(process.spawn(echo, ...):wait())
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

-- An echo process that has received a table before has a place in which others unpack.
local function through_parked(...)
  local to, back = channel.new(), channel.new()
  local p = process.spawn(function()
    local _ = to:receive()
    back:send(to:receive())
  end)
  to:send({ "warm" })
  to:send({ "up" })
  assert.same({ "up" }, back:receive())
  p:wait()
  p = process.spawn(function()
    for _ = 1, 2 do to:receive() end
    back:send(to:receive())
  end)
  to:send({ "warm" })
  to:send({ "up" })
  while p:status() ~= "waiting" do process.yield() end
  to:send(...)
  local results = pack(back:receive())
  p:wait()
  return table.unpack(results, 1, results.n)
end

local ways = { { "a queue", through_queue }, { "a process", through_process }, { "a parked receiver", through_parked } }

for _, way in ipairs(ways) do
  local name, through = way[1], way[2]
  describe("through " .. name, function()
    it("booleans and nils", function()
      assert.same(pack(true, nil, false, nil), pack(through(true, nil, false, nil)))
    end)

    it("integers of 64 bits and floats keep their subtype and value, also inside tables", function()
      local numbers = { 0, -1, 1, 2^53, 9007199254740993, math.maxinteger, math.mininteger, 0.1, -0.0, 1.0, 3.0, 2^63, -2^63,
                        math.huge, -math.huge, 5e-324, 1.7976931348623157e308, 0x7ff, 255 }
      local got = through(numbers)
      local direct = pack(through(table.unpack(numbers)))
      for i, n in ipairs(numbers) do
        for _, v in ipairs { got[i], direct[i] } do
          assert.equal(math.type(n), math.type(v))
          assert.equal(("%q"):format(n), ("%q"):format(v))
        end
      end
      local nan = through({ 0 / 0 })[1]
      assert.is_true(nan ~= nan)
      local t = through({ [1.5] = "a", [9007199254740993] = "b", [-1] = "c", [2^53] = "d" })
      assert.same({ "a", "b", "c", "d" }, { t[1.5], t[9007199254740993], t[-1], t[1 << 53] })
    end)

    it("binary strings of any length", function()
      for _, length in ipairs { 0, 1, 39, 40, 41, 255, 256, 511, 512, 4095, 4096, 100000, 1 << 20 } do
        local s = ("\0\255\n\rx"):rep(length // 5 + 1):sub(1, length)
        assert.is_true(through(s) == s)
        assert.is_true(through({ s, [s] = s })[s] == s)
      end
    end)

    it("tables of any shape", function()
      local t = {
        1, "two", { 3 }, nil, 5, n = 5, [0] = "zero", [-1] = "minus", [true] = "yes", ["a b"] = {}, nested = { a = { b = { c = {} } } },
        [1e300] = 1, [""] = "empty",
      }
      assert.same(t, through(t))
      assert.same({}, through({}))
      local sparse = { [1] = 1, [1000000] = 2, [3] = 3 }
      assert.same(sparse, through(sparse))
      local records = {}
      for i = 1, 300 do records[i] = { id = i, name = "n" .. i, tags = { "a", "b", i }, [i] = i % 2 == 0 or nil } end
      assert.same(records, through(records))
      local keys = {}
      for i = 1, 1000 do keys["key" .. i] = i end
      assert.same(keys, through(keys))
      local holes = {}
      for i = 1, 100 do holes[i] = i end
      for i = 1, 100, 3 do holes[i] = nil end
      assert.same(holes, through(holes))
    end)

    it("cycles and shared references, within and between values of a message", function()
      local t, shared = {}, { "shared" }
      t.self, t.list, t[shared] = t, { shared, shared, { t } }, shared
      local got, also = through(t, shared)
      assert.equal(got, got.self)
      assert.equal(got, got.list[3][1])
      assert.equal(got.list[1], got.list[2])
      assert.equal(got.list[1], also)
      assert.equal(also, got[also])
      assert.not_equal(t, got)
      assert.equal("shared", also[1])
    end)

    it("tables as keys", function()
      local k = { "key" }
      local got = through({ [k] = k, [{ 1 }] = 2 })
      local n = 0
      for key, value in pairs(got) do
        n = n + 1
        assert.equal("table", type(key))
        if value ~= 2 then assert.equal(key, value) end
      end
      assert.equal(2, n)
    end)

    it("tables nested 100,000 levels deep", function()
      local t = {}
      local inner = t
      for _ = 1, 100000 do
        inner[1] = {}
        inner = inner[1]
      end
      inner[1] = "bottom"
      local got, depth = through(t), 0
      while type(got) == "table" do got, depth = got[1], depth + 1 end
      assert.same({ "bottom", 100001 }, { got, depth })
    end)

    it("functions with upvalues: each its own copy", function()
      local n, list = 10, { 1 }
      local function count()
        n = n + 1
        list[1] = list[1] + 1
        return n, list[1]
      end
      local got = through(count)
      assert.same({ 11, 2 }, { got() })
      assert.same({ 12, 3 }, { got() })
      assert.same({ 11, 2 }, { count() })
    end)

    it("recursive local functions", function()
      local function fib(i) return i < 2 and i or fib(i - 1) + fib(i - 2) end
      assert.equal(55, through(fib)(10))
      local even, odd
      function even(i) return i == 0 or odd(i - 1) end
      function odd(i) return i ~= 0 and even(i - 1) end
      assert.is_true(through(even)(10))
      assert.is_false(through({ f = even }).f(7))
    end)

    it("two closures over one upvalue go on sharing it", function()
      local n = 0
      local function up() n = n + 1 return n end
      local function get() return n end
      local u, g = through(up, get)
      u()
      u()
      assert.equal(2, g())
      assert.equal(0, get())
      local t = through({ up = up, get = get })
      t.up()
      assert.equal(1, t.get())
    end)

    it("the sender's globals become the receiver's; a sandbox named _ENV is copied", function()
      local f = load("return function() return _ENV end")()
      assert.equal(_G, through(f)())
      local env = { answer = 42 }
      local g = load("return function() answer = answer + 1 return answer end", "sandbox", "t", env)()
      assert.equal(43, through(g)())
      assert.equal(42, env.answer)
      assert.equal(_G, through({ _G })[1])
    end)

    it("modules by reference, as values and as upvalues", function()
      local str, ch = string, require "mare.channel"
      local function use() return str, ch end
      local s, c = through(use)()
      assert.equal(string, s)
      assert.equal(ch, c)
      assert.equal(table, through({ table })[1])
    end)

    it("C functions by their name", function()
      local list = { print, string.rep, table.concat, channel.new, io.write, math.floor, require, pcall, setmetatable, coroutine.wrap }
      local got = through(list)
      for i, f in ipairs(list) do assert.equal(f, got[i]) end
      local insert, select = table.insert, select
      assert.equal(3, through(function(...) local t = {} insert(t, 1) return select("#", ...) end)(1, 2, 3))
    end)

    it("channels and handles stay what they are", function()
      local c, p = channel.new(), process.self()
      assert.same(pack(c, p), pack(through(c, p)))
      assert.equal(c, through({ { x = c } })[1].x)
    end)

    it("an object's metatable, and back again as the original", function()
      local Class = {}
      Class.__index = Class
      function Class.get(o) return o.v end
      local o = setmetatable({ v = 5 }, Class)
      local got, second = through(o, setmetatable({ v = 6 }, Class))
      assert.equal(5, got:get())
      assert.equal(6, second:get())
      assert.equal(getmetatable(got), getmetatable(second))
      assert.equal(Class, getmetatable(got))          -- it came home
    end)

    it("weak tables and tables with __close, __call, __len", function()
      local got = through(setmetatable({ 1, 2 }, { __mode = "k", __call = function(_, x) return x + 1 end, __len = function() return 42 end }))
      assert.equal("k", getmetatable(got).__mode)
      assert.equal(3, got(2))
      assert.equal(42, #got)
    end)
  end)
end

describe("a class", function()
  it("is one table in a receiver, however many objects come in however many messages", function()
    local Class = { name = "C" }
    Class.__index = Class
    local c = channel.new(10)
    for i = 1, 10 do c:send(setmetatable({ i }, Class)) end
    local ok, same, calls = process.spawn(function()
      local first, n = nil, 0
      for _ = 1, 10 do
        local o = c:receive()
        first = first or getmetatable(o)
        if getmetatable(o) == first and o.name == "C" then n = n + 1 end
      end
      return n, first.__index == first
    end):wait()
    assert.same({ true, 10, true }, { ok, same, calls })
  end)

  it("does not change in a receiver by later changes of the sender", function()
    local Class = { v = 1 }
    Class.__index = Class
    local to, back = channel.new(1), channel.new(1)
    process.spawn(function() for o in to:each() do back:send(o.v) end end)
    to:send(setmetatable({}, Class))
    assert.equal(1, back:receive())
    Class.v = 2
    to:send(setmetatable({}, Class))
    assert.equal(1, back:receive())
    to:close()
  end)
end)

describe("an upvalue that is a module with userdata inside", function()
  it("is that module in the receiver", function()
    local io = io                                       -- holds files
    assert.equal("file", select(2, process.spawn(function() return io.type(io.stdout) end):wait()))
    local base = os.tmpname()
    os.remove(base)
    local dir, name = base:match("^(.*)/([^/]*)$")
    local f = assert(io.open(base .. ".lua", "w"))
    f:write("return { file = io.stderr, calls = 0, call = function(m) m.calls = m.calls + 1 return m.calls, io.type(m.file) end }")
    f:close()
    local path = package.path
    package.path = dir .. "/?.lua;" .. path
    local module = require(name)
    module:call()
    local results = pack(process.spawn(function() return module:call() end):wait())
    local sent = pack(process.spawn(function(c) return c:receive():call() end, (function()
      local c = channel.new(1)
      c:send(module)
      return c
    end)()):wait())
    os.remove(base .. ".lua")
    package.path, package.loaded[name] = path, nil
    assert.same(pack(true, 1, "file"), results)
    assert.same(pack(true, 1, "file"), sent)
  end)

  it("that the receiver can't find is an error there that names it, once", function()
    package.loaded["spec.only.here"] = { io.stdout }
    local c = channel.new(2)
    c:send(package.loaded["spec.only.here"])
    c:send("next")
    package.loaded["spec.only.here"] = nil
    local ok, good, err, following = process.spawn(function()
      local good, err = pcall(c.receive, c)
      return good, err, (c:receive())
    end):wait()
    assert.is_true(ok, good)
    assert.is_false(good)
    assert.matches("spec.only.here", err)
    assert.equal("next", following)
  end)
end)

describe("what can't travel", function()
  local c = channel.new(10)
  local function refuses(pattern, ...)
    local args = pack(...)
    assert.error_matches(function() c:send(table.unpack(args, 1, args.n)) end, pattern)
    assert.equal(0, #c)
  end

  it("is an error that names the path and the remedy", function()
    refuses("^message: userdata 'FILE%*' cannot be sent; .*open it in the receiver", io.stdout)
    refuses("^message%[2%]: userdata", 1, io.stdout)
    refuses("^message%.items%[3%]%.owner: userdata 'FILE%*'", { items = { 1, 2, { owner = io.stdout } } })
    refuses('^message%["a b"%]%[true%]: coroutine cannot be sent', { ["a b"] = { [true] = coroutine.create(print) } })
    refuses("^message%.f: upvalue 'file': userdata", { f = (function() local file = io.stdout return function() return file end end)() })
    refuses("key>: userdata", { [io.stdout] = 1 })
    refuses("metatable>%.x: userdata", setmetatable({}, { x = io.stdout }))
    refuses("C function cannot be sent", (("x"):gmatch(".")))
  end)

  it("changes nothing: neither the channel nor the value", function()
    local t = { 1, { 2 }, io.stdout }
    assert.error(function() c:send(t) end)
    assert.same({ 1, { 2 }, io.stdout }, t)
    assert.error(function() c:try_send(t) end)
    assert.error(function() c:send_within(1, t) end)
    assert.error(function() process.spawn(print, t) end)
    assert.equal(0, #c)
    c:send("works")
    assert.equal("works", c:receive())
  end)

  it("does not wake or disturb a waiting receiver", function()
    local d = channel.new()
    local p = process.spawn(function() return d:receive() end)
    while p:status() ~= "waiting" do process.yield() end
    assert.error(function() d:send({ io.stdout }) end)
    assert.equal("waiting", p:status())
    d:send("good")
    assert.same(pack(true, "good"), pack(p:wait()))
  end)

  it("within a process is its error alone", function()
    local ok, err = process.spawn(function() c:send({ deep = { io.stdout } }) end):wait()
    assert.is_false(ok)
    assert.matches("message%.deep%[1%]: userdata", err)
  end)
end)

describe("metamethods", function()
  it("are not called by sending or receiving", function()
    local function no() error("called") end
    local t = setmetatable({ 1, a = 2 }, { __index = no, __newindex = no, __len = no, __pairs = no, __eq = no, __gc = nil, __tostring = no,
                                           __call = no, __metatable = "locked" })
    local got = through_process(t)
    assert.equal("locked", getmetatable(got))
    assert.equal(1, rawget(got, 1))
    assert.equal(2, rawget(got, "a"))
  end)
end)

describe("a receiver whose finalisers run while it is sent to", function()
  it("gets every message whole", function()
    local to, done = channel.new(), channel.new()
    local p = process.spawn(function()
      local finalised = 0
      local function litter()
        for _ = 1, 50 do setmetatable({}, { __gc = function() finalised = finalised + 1 local _ = { {}, {} } end }) end
      end
      local n = 0
      for t in to:each() do
        litter()
        for i = 1, #t do if t[i].i ~= i then error("broken message") end end
        n = n + 1
      end
      collectgarbage()
      done:send(n, finalised)
    end)
    local t = {}
    for i = 1, 100 do t[i] = { i = i, s = "text" .. i } end
    for _ = 1, 300 do to:send(t) end
    to:close()
    assert.same({ 300, 15000 }, { done:receive() })
    assert.is_true(p:wait())
  end)

  it("is an error for a finaliser that waits, not for the sender", function()
    local to, log = channel.new(), channel.new(math.huge)
    local p = process.spawn(function()
      local never = channel.new()
      local n = 0
      for _ in to:each() do
        for _ = 1, 50 do
          setmetatable({}, { __gc = function()
            local ok, err = pcall(never.receive, never)
            if ok or not err:find("finaliser") then log:try_send("waited: " .. tostring(err)) end
          end })
        end
        n = n + 1
      end
      return n
    end)
    local t = {}
    for i = 1, 100 do t[i] = { i } end
    for _ = 1, 200 do assert.is_true(to:send(t)) end
    to:close()
    assert.same(pack(true, 200), pack(p:wait()))
    assert.equal(0, #log)
  end)
end)
