-- mare.ludo: objects of one Lua program called by another, as a user sees them. The bytes are ludo_wire_spec's matter, limits and bad peers
-- ludo_limits_spec's.
local mare = require "mare"
local ludo = require "mare.ludo"
local certificates = require "spec.support.certificates"
local proc = require "spec.support.proc"
local eventually = require "spec.support.serving".eventually

local channel, fiber, process = mare.channel, mare.fiber, mare.process
local LIMIT = 30 * proc.slow

-- A broker that serves `object` in this process; f gets a proxy, the broker, another broker that calls it, and the log.
local function with(object, f, options, calling)
  local log = {}
  options = options or {}
  options.log = function(text) log[#log + 1] = text end
  local server = ludo.init(options)
  local client = ludo.init(calling or { timeout = LIMIT, classes = options.classes })
  local text = server:serve(object, { key = "it" })
  local fine, err = pcall(f, client:proxy(text), server, client, log)
  client:close()
  server:shutdown(LIMIT)
  if not fine then error(err, 0) end
end

local function failing(f, ...)
  local fine, e = pcall(f, ...)
  assert.is_false(fine)
  return e
end

describe("a call", function()
  it("gives what the object's method returns, whatever that is", function()
    local Point = {}
    Point.__index = Point
    function Point:length() return (self.x ^ 2 + self.y ^ 2) ^ 0.5 end
    local object = { echo = function(_, ...) return ... end, count = function(_, ...) return select("#", ...) end,
                     text = function(self) return self.name end, name = "me" }
    with(object, function(it)
      assert.same({ n = 4, 1, nil, "two", nil }, table.pack(it:echo(1, nil, "two", nil)))
      assert.equal(0, select("#", it:echo()))
      assert.equal(3, it:count(nil, nil, nil))
      assert.equal("me", it:text())
      local list = { 1, 2, { a = { b = { c = "deep" } } }, [2.5] = true, [false] = "no" }
      list.self, list.again = list, list[3]
      local copy = it:echo(list)
      assert.equal(copy, copy.self)
      assert.equal(copy[3], copy.again)
      assert.equal("deep", copy[3].a.b.c)
      assert.equal("no", copy[false])
      local point = it:echo(setmetatable({ x = 3, y = 4 }, Point))
      assert.equal(5.0, point:length())
      local long = ("0123456789"):rep(100000)
      assert.equal(long, it:echo(long))
      local buffer = mare.buffer.new("bytes"):seal()
      assert.equal("bytes", tostring(it:echo(buffer)))
    end, { classes = { Point = Point } })
  end)

  it("finds methods as Lua does, also inherited ones, and never those that begin with an underscore", function()
    local base = { hello = function(self) return "hello from " .. self.name end, _secret = function() return "secret" end }
    base.__index = base
    with(setmetatable({ name = "child", field = 1 }, base), function(it, server)
      assert.equal("hello from child", it:hello())
      assert.equal("NO_OPERATION", failing(it.nothing, it).code)
      assert.matches("underscore", failing(function() return it._secret end))
      local core, link = require "mare.ludo.core", require "mare.ludo.link"
      local conn = assert(mare.net.connect("127.0.0.1", server.port))
      conn:write(link.HELLO, core.message(core.CALL, 1, server.world, "it", "_secret"))
      assert.equal(link.HELLO, conn:read(8, LIMIT))
      assert.equal("NO_OPERATION", (core.values(core.receive(conn, 1 << 20, LIMIT), server.world)))
      conn:close()
      local e = failing(it.field, it)              -- only functions are operations
      assert.same({ "NO_OPERATION", "object 'it' has no operation 'field'" }, { e.code, e.message })
    end)
  end)

  it("of an object that was served with a misspelt option is never made", function()
    local server <close> = ludo.init {}
    local function refused(wanted, options)
      local done, err = pcall(function() server:serve({}, options) end)
      assert.is_false(done)
      assert.matches("^[^\n]*ludo_spec.lua:%d+: serve: " .. wanted, err)
    end
    refused("there is no option 'kee'; there are args, key, processes", { kee = "x" })
    refused("options are a table, not a string", "x")
  end)

  it("of what is not there says so", function()
    with({}, function(it, server, client)
      assert.equal("NO_OBJECT", failing(function() client:proxy((it._reference:gsub("/it", "/other"))):x() end).code)
      server:deactivate "it"
      assert.equal("NO_OBJECT", failing(it.x, it).code)
      local dead = client:proxy "ludo://127.0.0.1:1/it"
      assert.equal("CONNECT", failing(dead.x, dead).code)
      assert.matches("no reference", failing(client.proxy, client, "IOR:00"))
    end)
  end)
end)

describe("an error", function()
  it("of the servant comes with its value, and the place where it was raised", function()
    local Refused = {}
    Refused.__index = Refused
    local function deep() error "too deep" end
    with({ text = function() deep() end, value = function() error { code = 7, why = "no" } end,
           object = function() error(setmetatable({ n = 3 }, Refused)) end,
           worse = function() error(print) end, result = function() return { { print } } end, nothing = function() error() end }, function(it)
      local e = failing(it.text, it)
      assert.equal("RAISED", e.code)
      assert.matches("ludo_spec.lua:%d+: too deep", e.message)
      assert.matches("at the server:\n", tostring(e))
      assert.matches("in .*deep", e.traceback)
      assert.is_nil(e.traceback:find("mare/ludo", 1, true))
      assert.same({ code = 7, why = "no" }, failing(it.value, it).value)
      assert.equal(Refused, getmetatable(failing(it.object, it).value))
      assert.matches("function", failing(it.worse, it).message)
      e = failing(it.result, it)
      assert.equal("UNSENDABLE", e.code)
      assert.matches("result 1%[1%]%[1%]: a function", e.message)
      assert.equal("RAISED", failing(it.nothing, it).code)
      e = failing(it.text, it, { a = { print } })
      assert.is_true(e["local"])
      assert.matches("argument 1.a%[1%]: a function cannot be sent", e.message)
    end, { classes = { Refused = Refused } })
  end)

  it("says nothing of the server's code where that is not wished", function()
    with({ fail = function() error "no" end }, function(it) assert.is_nil(failing(it.fail, it).traceback) end, { tracebacks = false })
  end)

  it("of a server that called another one names both", function()
    with({ fail = function() error "at the end" end }, function(inner)
      with({ pass = function(_, other) return other:fail() end }, function(outer)
        local e = failing(outer.pass, outer, inner)
        assert.equal("RAISED", e.code)
        assert.matches("at the end", e.message)
      end)
    end)
  end)
end)

describe("references", function()
  it("travel: an object that is served, or a proxy of one, arrives as what leads to it, and as itself where it lives", function()
    local counter = { n = 0 }
    function counter:up() self.n = self.n + 1 return self.n end
    local object = { same = function(_, x) return rawequal(x, counter) end, get = function() return counter end,
                     use = function(_, x) return x:up() end }
    with(object, function(it, server, client)
      server:serve(counter, { key = "a counter/with %" })
      local remote = it:get()
      assert.is_true(ludo.is_proxy(remote))
      assert.equal(1, remote:up())
      assert.is_true(it:same(remote))
      assert.is_true(it:same(client:proxy(tostring(remote))))
      local own = { up = function() return "called back" end }
      client:serve(own)
      assert.equal("called back", it:use(own))
    end)
  end)

  it("may be sent to another process, which calls by its own broker", function()
    with({ add = function(_, a, b) return a + b end }, function(it)
      local fine, sum = process.spawn(function(p)
        local own <close> = require "mare.ludo".init {}   -- luacheck: ignore own
        return p:add(2, 3)
      end, it):wait()
      assert.is_true(fine)
      assert.equal(5, sum)
    end)
  end)
end)

describe("calls at once", function()
  it("share a connection, and none waits for another", function()
    local gate = channel.new()
    with({ wait = function(_, s) gate:receive(LIMIT) return s end, add = function(_, a, b) return a + b end }, function(it, server)
      local slow = it._async:wait(0.2)
      local all = {}
      for i = 1, 200 do all[i] = it._async:add(i, 1) end
      for i = 1, 200 do assert.same({ true, i + 1 }, { all[i]:wait() }) end
      assert.same({ nil, "timeout" }, { slow:wait(0) })
      gate:send("now", LIMIT)
      assert.same({ true, 0.2 }, { slow:wait() })
      assert.equal(1, server.pool.count)
    end)
  end)

  it("end at their limit, and are cancelled at the server", function()
    local ended = channel.new(10)
    local object = { add = function(_, a, b) return a + b end }
    function object.wait(_, s)
      local guard <close> = setmetatable({}, { __close = function() ended:send "ended" end })   -- luacheck: ignore guard
      mare.sleep(s)
    end
    with(object, function(it, server)
      assert.equal("TIMEOUT", failing(function() it:_with { timeout = 0.02 }:wait(60) end).code)
      assert.equal("ended", ended:receive(LIMIT))
      local future = it._async:wait(60)
      eventually(function() return server.pool.budget.held > 0 end, "it is served")
      future:cancel()
      assert.is_false((future:wait()))
      assert.equal("ended", ended:receive(LIMIT))
      assert.equal(3, it:add(1, 2))
      eventually(function() return server.pool.budget.held == 0 end, "nothing counts any more")
    end)
  end)

  it("go on when another fiber, which reads for all, gives up", function()
    with({ wait = function(_, s) mare.sleep(s) return s end }, function(it)
      it:wait(0)
      local quitter = fiber.spawn(function() return it:wait(60) end)
      fiber.yield()
      local all = {}
      for i = 1, 20 do all[i] = fiber.spawn(function() return it:wait(i / 1000) end) end
      fiber.yield()
      quitter:cancel()
      for i = 1, 20 do assert.same({ true, i / 1000 }, { all[i]:wait() }) end
    end)
  end)
end)

describe("a server", function()
  it("knows who calls", function()
    local broker
    with({ who = function() return broker:current().peer.host, broker:current().key, broker:current().operation end }, function(it, server)
      broker = server
      assert.same({ "127.0.0.1", "it", "who" }, { it:who() })
      assert.is_nil(server:current())
    end)
  end)

  it("speaks TLS, verified, and asks for certificates if it is told to", function()
    local c = certificates()
    local broker
    local object = { who = function() local t = broker:current().peer.tls return t and t.subject or "nobody" end }
    with(object, function(it, server, client)
      broker = server
      assert.matches("^ludos://", it._reference)
      assert.matches("a peer", it:who())
      local text = it._reference
      local stranger <close> = ludo.init { timeout = LIMIT, tls = { ca = c.other_ca } }
      local e = failing(function() stranger:proxy(text):who() end)
      assert.equal("CONNECT", e.code)
      assert.matches("certificate", e.message)
      local plain = client:proxy((text:gsub("^ludos", "ludo")))
      assert.is_true(({ CONNECT = true, LOST = true })[failing(plain.who, plain).code])
      assert.matches("a peer", it:who())
    end, { tls = { ca = c.ca, cert = c.cert, key = c.key, client_cert = "required" } },
      { timeout = LIMIT, tls = { ca = c.ca, cert = c.peer_cert, key = c.peer_key } })
    c.remove()
  end)

  it("lets in whom `allow` says", function()
    local asked = 0
    with({ x = function() return 1 end }, function(it)
      assert.equal(1, it:x())
      assert.equal(1, asked)
    end, { allow = function(peer) asked = asked + 1 return peer.host == "127.0.0.1" end })
    with({ x = function() return 1 end }, function(it, _, _, log)
      assert.equal("CONNECT", failing(it.x, it).code)
      eventually(function() return (log[1] or ""):find "allow" end, "a log")
    end, { allow = function() return false end })
  end)

  it("serves an object in several processes, each with a state of its own, and starts one that failed anew", function()
    local log = channel.new(100)
    local server = ludo.init { log = function(text) log:send(text) end }
    local text = server:serve(function(_, index)
      local n = 0
      return { up = function() n = n + 1 return index, n end, fail = function() require("mare.process").self():kill() end }
    end, { processes = 2, key = "many" })
    local seen = {}
    local function one(f)
      local client <close> = ludo.init { timeout = LIMIT }
      return f(client:proxy(text))
    end
    eventually(function()
      return one(function(it)
        local index, n = it:up()
        assert.same({ index, n + 1 }, { it:up() })
        seen[index] = true
        return seen[1] and seen[2]
      end)
    end, "both have answered")
    assert.equal("LOST", one(function(it) return failing(it.fail, it) end).code)
    assert.matches("process %d of object 'many' failed", log:receive(LIMIT))
    for _ = 1, 10 do one(function(it) it:up() end) end
    server:shutdown(LIMIT)
    assert.is_false((pcall(one, function(it) it:up() end)))
  end)

  it("answers what it has begun when it ends, and says to others that they were not touched", function()
    local log = {}
    local server = ludo.init { log = function(t) log[#log + 1] = t end }
    local text = server:serve({ wait = function(_, s) mare.sleep(s) return "done" end })
    local client <close> = ludo.init { timeout = LIMIT }
    local it = client:proxy(text)
    it:wait(0)
    local last = it._async:wait(0.1)
    eventually(function() return server.pool.budget.held > 0 end, "it is served")
    server:shutdown(LIMIT)
    assert.same({ true, "done" }, { last:wait() })
    assert.equal("CONNECT", failing(it.wait, it, 0).code)
    assert.same({}, log)
  end)

  it("may be there again: a connection that it closed while nobody called costs nobody a call", function()
    local first = ludo.init {}
    local object = { x = function() return 1 end }
    local text = first:serve(object, { key = "it" })
    local client <close> = ludo.init { timeout = LIMIT }
    local it = client:proxy(text)
    assert.equal(1, it:x())
    local port = first.port
    first:shutdown(1)
    local second = ludo.init { port = port }
    second:serve(object, { key = "it" })
    for _, link in pairs(client.links) do link.used = link.used - 1 end      -- one is looked at when it was idle
    assert.equal(1, it:x())
    second:shutdown(1)
  end)
end)

describe("options", function()
  it("that are wrong are named", function()
    assert.matches("did you mean 'timeout'", failing(ludo.init, { timout = 1 }))
    assert.matches("'port' is a number", failing(ludo.init, { port = "1" }))
    assert.matches("no limit 'mesage'.*'message'", failing(ludo.init, { limits = { mesage = 1 } }))
    assert.matches("between 1 KiB", failing(ludo.init, { limits = { message = 1 } }))
    assert.matches("certificate", failing(ludo.init, { tls = { cert = "no-such-file" } }))
    local broker <close> = ludo.init {}
    assert.matches("a table or a userdata", failing(broker.serve, broker, "x"))
    broker:serve({}, { key = "a" })
    assert.matches("an object 'a' already", failing(broker.serve, broker, {}, { key = "a" }))
    assert.matches("'processes' is a number", failing(broker.serve, broker, print, { processes = 0 }))
  end)
end)
