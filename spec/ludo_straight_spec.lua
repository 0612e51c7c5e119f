-- Ordinary calls of mare.ludo go through functions in C (src/module/ludo_call.c, ludo_serve.c); whatever becomes unusual on the way ends as it
-- does in Lua. A connection's first calls are Lua's: so here others go before those that are looked at.
local mare = require "mare"
local ludo = require "mare.ludo"
local certificates = require "spec.support.certificates"
local proc = require "spec.support.proc"
local eventually = require "spec.support.serving".eventually

local fiber = mare.fiber
local LIMIT = 30 * proc.slow

local function failing(f, ...)
  local fine, e = pcall(f, ...)
  assert.is_false(fine)
  return e
end

-- f gets a proxy that has been called just now, and makes it so again when called; the server, the client.
local function with(object, f, options, calling)
  local server = ludo.init(options or {})
  object.warm = function() end
  local text = server:serve(object, { key = "it" })
  local client = ludo.init(calling or { timeout = LIMIT })
  local it = client:proxy(text)
  local function warm()
    for _ = 1, 5 do it:warm() end
  end
  warm()
  local fine, err = pcall(f, it, warm, server, client)
  client:close()
  server:shutdown(LIMIT)
  assert.equal(0, server.pool.budget.held)
  if not fine then error(err, 0) end
end

describe("a call among many", function()
  local echo = { echo = function(_, ...) return ... end, count = function(_, ...) return select("#", ...) end }

  it("carries what the first one does", function()
    with(echo, function(it, warm)
      local long, list = ("x"):rep(100000), { 1, { a = "b" }, [2.5] = false }
      list.self = list
      for _ = 1, 3 do
        assert.same({ n = 5, 1, nil, "echo", 2.5, nil }, table.pack(it:echo(1, nil, "echo", 2.5, nil)))
        assert.equal(0, select("#", it:echo()))
        assert.equal(150, it:count(table.unpack({}, 1, 150)))
        assert.same({ "it", "echo", "it" }, { it:echo("it", "echo", "it") })
        local back = it:echo(list)
        assert.equal(back, back.self)
        assert.equal("b", back[2].a)
        warm()
        assert.equal(long, it:echo(long))
        assert.equal(3000, #it:echo(long:sub(1, 3000)))
        assert.equal(it, (it:echo(it)))
        assert.same({ false, true, ("k"):rep(40) }, { it:echo(false, true, ("k"):rep(40)) })
      end
    end)
  end)

  it("with many strings, long ones and such that come again, carries each", function()
    with(echo, function(it)
      local sent = {}
      for i = 1, 90 do sent[i] = i % 7 == 0 and ("long"):rep(20) .. i or "s" .. i % 40 end
      assert.same(sent, { it:echo(table.unpack(sent)) })
      assert.same({ sent, sent }, { it:echo(sent, sent) })
      local records = {}
      for i = 1, 20 do records[i] = { name = "s" .. i % 3, at = i } end
      assert.same(records, (it:echo(records)))
    end)
  end)

  it("finds methods wherever Lua does, and none that is no function", function()
    local Base = { inherited = function() return "Base" end, _own = function() end, value = 5 }
    local object = setmetatable({ called = setmetatable({}, { __call = function() end }) }, { __index = setmetatable({}, { __index = Base }) })
    with(object, function(it, _, server)
      local made = setmetatable({}, { __index = function(_, name) return function() return name end end })
      local other = ludo.init {}
      local far = other:proxy(server:serve(made, { key = "made, with a key that is longer than short strings are" }))
      for _ = 1, 3 do
        assert.equal("Base", it:inherited())
        assert.equal("any", far:any())
        for _, name in ipairs { "none", "value", "called" } do assert.equal("NO_OPERATION", failing(it[name], it).code) end
      end
      object.value = function() return "now it is" end
      assert.equal("now it is", it:value())
      server:deactivate "it"
      assert.equal("NO_OBJECT", failing(it.value, it).code)
      other:close()
    end)
  end)

  it("fails as the first one does, and nothing of it stays", function()
    local function deep() error "deep in it" end
    local object = { fail = function() deep() return 1 end, table = function() error { reason = "a" } end, far = function() return 1, print end,
                     echo = function(_, v) return v end, wide = function() return table.unpack({}, 1, 2000) end,
                     big = function(_, n) return ("x"):rep(n) end }
    with(object, function(it, warm)
      for _ = 1, 3 do
        local e = failing(it.fail, it)
        assert.equal("RAISED", e.code)
        assert.matches("straight_spec.lua:%d+: deep in it$", e.message)
        assert.matches("in .*deep", e.traceback)
        assert.is_nil(e.traceback:find("mare[/.]ludo") or e.traceback:find "%[C%]: in %?")
        assert.equal("a", failing(it.table, it).value.reason)
        assert.matches("^UNSENDABLE: result 2: a function", tostring(failing(it.far, it)))
        assert.equal("UNSENDABLE", failing(it.wide, it).code)
        e = failing(it.echo, it, 1, print)
        assert.matches("^UNSENDABLE: argument 2: a function", tostring(e))
        assert.is_true(e["local"])
        assert.matches("needs its object", failing(it.echo))
        assert.equal("TOO_LARGE", failing(it.big, it, 1 << 16).code)
        assert.equal("TOO_LARGE", failing(it.echo, it, ("x"):rep(1 << 16)).code)
        assert.equal(7, it:echo(7))
        warm()
      end
    end, { limits = { message = 1 << 15 } }, { timeout = LIMIT, limits = { message = 1 << 15 } })
  end)

  it("whose results mean nothing here is an error of that call alone", function()
    local Point = {}
    with({ point = function() return setmetatable({ x = 1 }, Point) end, add = function(_, a, b) return a + b end }, function(it)
      for _ = 1, 3 do
        assert.matches("^PROTOCOL: .*class 'Point'", tostring(failing(it.point, it)))
        assert.equal(3, it:add(1, 2))
      end
    end, { classes = { Point = Point } })
  end)

  it("holds up nobody while it waits, and is cancelled at the server with its caller", function()
    local ended, broker = 0
    local object = { add = function(_, a, b) return a + b end, who = function() return broker:current().operation end }
    function object.wait(_, s)
      local guard <close> = setmetatable({}, { __close = function() ended = ended + 1 end })   -- luacheck: ignore guard
      mare.sleep(s)
      return s, broker:current().operation
    end
    with(object, function(it, warm, server, client)
      broker = server
      for round = 1, 3 do
        assert.equal("who", it:who())
        local waiting, short = fiber.spawn(it.wait, it, 60), fiber.spawn(it.wait, it, 0.001)
        assert.equal(3, it:add(1, 2))
        assert.same({ true, 0.001, "wait" }, { short:wait() })
        waiting:cancel()
        waiting:wait()
        eventually(function() return ended == 3 * round - 1 end, "it has ended")
        warm()
        assert.equal("TIMEOUT", failing(function() return it:_with { timeout = 0.01 }:wait(60) end).code)
        eventually(function() return ended == 3 * round end, "this one, too")
        warm()
        local _, link = next(client.links)
        assert.same({ false, 0 }, { link.leader, link.count })
      end
      assert.is_nil(broker:current())
    end)
  end)

  it("may call its caller back, and its own object", function()
    local client
    local object = { twice = function(_, f, n) return f:call(n) + f:call(n) end }
    with(object, function(it, warm, _, calling)
      client = calling
      local back = client:proxy(client:serve { call = function(_, n) return n > 0 and it:twice(client:proxy(object.back), n - 1) or 1 end })
      object.back = back._reference
      for _ = 1, 3 do
        assert.equal(8, it:twice(back, 2))
        warm()
      end
    end)
  end)

  it("that a shutdown finds in progress is answered; the next one finds nobody", function()
    local gate = mare.channel.new()
    with({ wait = function(_, at_once) return at_once or gate:receive() end }, function(it, warm, server)
      warm()
      local call = fiber.spawn(it.wait, it)
      eventually(function()
        for peer in pairs(server.pool.peers) do if peer.n > 0 then return true end end
      end, "it is served")
      local over = fiber.spawn(server.shutdown, server, LIMIT)
      gate:send "answered"
      assert.same({ true, "answered" }, { call:wait() })
      over:wait()
      assert.equal("CONNECT", failing(it.wait, it).code)
    end)
  end)

  it("goes over TLS", function()
    local c = certificates()
    with(echo, function(it)
      for i = 1, 20 do assert.equal(i, it:echo(i)) end
      assert.equal(100000, #it:echo(("x"):rep(100000)))
      assert.matches("function", tostring(failing(it.echo, it, print)))
      assert.equal(1, it:echo(1))
    end, { tls = { cert = c.cert, key = c.key } }, { timeout = LIMIT, tls = { ca = c.ca } })
    c.remove()
  end)
end)
