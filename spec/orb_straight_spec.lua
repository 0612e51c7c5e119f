-- Ordinary calls, which go through functions in C (src/module/orb_call.c, orb_serve.c), beside the same calls through Lua alone; and what makes a
-- call stop to be ordinary in its middle.
local mare = require "mare"
local orb = require "mare.orb"
local giop = require "spec.support.iiop"
local serving = require "spec.support.serving"
local ways = require "spec.support.ways"

local fiber = mare.fiber
local with_server, eventually = serving.with, serving.eventually

describe("what a program sees of calls", function()
  it("is the same in all ways of running it, also where they go wrong", function()
    ways([[
12 0
hello, you nil
a.b 3 x
30000 30000
0
T::Thing::say: who: string expected, got true
IDL:T/Worse:1.0 no 7
UNKNOWN COMPLETED_MAYBE
BAD_PARAM COMPLETED_YES
NO_IMPLEMENT COMPLETED_NO
changed inherited
nothing after all
key-3 times
300 objects, 300 of them right
OBJECT_NOT_EXIST COMPLETED_NO
slow one
TIMEOUT COMPLETED_MAYBE
12 again
]], [==[
      local orb = require "mare.orb"
      local IDL = [[module T {
        exception Worse { string why; long n; };
        struct Point { long x; string name; };
        interface Thing {
          long add(in long a, in long b); string say(in string who); Point move(in Point p, in long by, out string note);
          string long_one(in string s); void nothing(); void bad(in long n) raises (Worse); long wrong(in long how); string missing();
          string whose(); string times(); string slow(in double seconds);
        };
      };]]
      local ready, over = channel(1), channel()
      spawn(function()
        local server = orb.init { host = "127.0.0.1", log = function() end }
        server:load(IDL)
        local base = {}
        base.__index = base
        function base.whose() return "inherited" end
        local thing = setmetatable({}, base)
        function thing.add(_, a, b) return a + b end
        function thing.say(_, who) return "hello, " .. who, "too much" end
        function thing.move(_, p, by) p.x = p.x + by return p, p.name == "a.b" and "x" or "y" end
        function thing.long_one(_, s) return s end
        function thing.nothing() end
        function thing.bad(_, n) error(server.types.T.Worse { why = "no", n = n }) end
        function thing.wrong(_, how)
          if how == 1 then error "a mistake" elseif how == 2 then return "no number" end
          if how == 3 then function thing.whose() return "changed" end elseif how == 4 then thing.whose = nil end
          return 0
        end
        function thing.times() return server:current().key .. " " .. server:current().operation end
        function thing.slow(_, seconds) mare.sleep(seconds) return "slow one" end
        local first = tostring(server:serve(thing, "T::Thing", { key = "key-3" }))
        local all = {}
        for i = 1, 300 do
          all[i] = tostring(server:serve({ add = function(_, a, b) return a * b + i end }, "T::Thing", { key = "many" .. i }))
        end
        ready:send(first, table.concat(all, " "))
        over:receive()
        server:deactivate "many7"
        ready:send "gone"
        over:receive()
        server:shutdown()
      end)
      local client = orb.init { log = function() end }
      client:load(IDL)
      local first, all = ready:receive()
      local thing = client:proxy(first, "T::Thing")
      local function failing(f, ...)
        local _, e = pcall(f, ...)
        return e._repid:match "CORBA/(%u[%u_]*)" or e._repid, e.completed or e.why, e.n or ""
      end
      local function line(...)
        local t = table.pack(...)
        for i = 1, t.n do t[i] = tostring(t[i]) end
        io.write((table.concat(t, " "):gsub(" +$", "")), "\n")
      end
      for round = 1, 3 do
        local say = round == 3 and line or function() end
        say(thing:add(5, 7), thing:add(-5, 5))
        say(thing:say "you", (select(2, thing:say "you")))
        local p, note = thing:move({ x = 1, name = "a.b" }, 2)
        say(p.name, p.x, note)
        local text = ("x"):rep(30000)
        say(#thing:long_one(text), #thing:long_one(text))
        say(select("#", thing:nothing()))
        local _, refused = pcall(thing.say, thing, true)
        say((tostring(refused):match "%): (.*)"))
        say(failing(thing.bad, thing, 7))
        say(failing(thing.wrong, thing, 1))
        say(failing(thing.wrong, thing, 2))
        say(failing(thing.missing, thing))
        thing:wrong(3)
        local changed = thing:whose()
        thing:wrong(4)
        say(changed, thing:whose())
        say(select("#", thing:nothing()) == 0 and "nothing after all")
        say(thing:times())
      end
      local right, n = 0, 0
      for _ = 1, 2 do
        right, n = 0, 0
        for ref in all:gmatch "%S+" do
          n = n + 1
          if client:proxy(ref, "T::Thing"):add(n, 2) == 3 * n then right = right + 1 end
        end
      end
      line(n, "objects,", right, "of them right")
      local seventh = client:proxy(all:match(("%S+ "):rep(6) .. "(%S+)"), "T::Thing")
      seventh:add(1, 1)
      over:send(true)
      ready:receive()
      line(failing(seventh.add, seventh, 1, 1))
      line(thing:slow(0.01))
      local quick = thing:_with { timeout = 0.05 }
      line(failing(quick.slow, quick, 30))
      line(quick:add(5, 7), "again")
      client:close()
      over:send(true)
      os.exit(0)
    ]==])
  end)
end)

local IDL = [[
  struct Pair { long a; long b; };
  interface Summer { long sum(in Pair p); long add(in long a, in long b); string long_one(in long n); long wait(in double seconds); };
]]

-- A server in a process of its own, in which a client's f(object, client, ...) finds it.
local function with_summer(f)
  local ready, over = mare.channel.new(1), mare.channel.new()
  local server = mare.process.spawn(function(idl, to, stop)
    local sleep = mare.sleep
    local broker = require "mare.orb".init { host = "127.0.0.1" }
    broker:load(idl)
    to:send(tostring(broker:serve({
      sum = function(_, p) return p.a + p.b end, add = function(_, a, b) return a + b end,
      long_one = function(_, n) return ("x"):rep(n) end, wait = function(_, seconds) sleep(seconds) return 1 end,
    }, "Summer")))
    stop:receive()
    broker:shutdown()
  end, IDL, ready, over)
  local client = orb.init {}
  client:load(IDL)
  local fine, why = pcall(f, client:proxy(ready:receive(), "Summer"), client)
  client:close()
  over:close()
  assert(server:wait())
  if not fine then error(why, 0) end
end

describe("a call that is not ordinary any more", function()
  it("because its arguments call the same object while they are read", function()
    with_summer(function(summer)
      local asked = 0
      local pair = setmetatable({}, { __index = function(_, key)
        asked = asked + 1
        return summer:add(key == "a" and 1 or 2, 10)
      end })
      for i = 1, 20 do
        assert.equal(3, summer:add(1, 2))
        assert.equal(23, summer:sum(pair))
        assert.is_true(asked >= 2 * i)
      end
    end)
  end)

  it("because others call meanwhile: each gets what it asked for, and one that gives up leads no more", function()
    with_summer(function(summer)
      summer:add(1, 1)
      local quitter = fiber.spawn(function() return summer:wait(60) end)
      local slow = fiber.spawn(function() return summer:wait(0.05) end)
      fiber.yield()
      local all = {}
      for i = 1, 50 do all[i] = fiber.spawn(function() return summer:add(i, 1) end) end
      fiber.yield()
      quitter:cancel()
      for i = 1, 50 do
        local ok, sum = all[i]:wait()
        assert.is_true(ok, sum)
        assert.equal(i + 1, sum)
      end
      assert.equal(1, select(2, slow:wait()))
      assert.is_false((quitter:wait()))
      for i = 1, 50 do assert.equal(i + 1, summer:add(i, 1)) end
    end)
  end)

  it("because its reply is long, or comes in pieces with others", function()
    with_summer(function(summer)
      for _, n in ipairs { 0, 1, 16000, 16384, 17000, 65000, 66000, 200000 } do
        assert.equal(n, #summer:long_one(n))
        assert.equal(3, summer:add(1, 2))
      end
    end)
  end)
end)

describe("requests of a client", function()
  it("that come at once, or in bits, are answered in their order", function()
    with_server(serving.echo, nil, function(_, port)
      local c <close> = giop.connect(port)
      for _ = 1, 5 do assert.equal("hello, me", giop.text(c:call("say", "echo", giop.string "me").body)) end
      local all = {}
      for i = 1, 200 do all[i] = c:message("add", "echo", string.pack("<i4i4", i, 1), { id = 1000 + i }) end
      local bytes = table.concat(all)
      c:write(bytes:sub(1, #bytes - 30))
      for i = 1, 100 do assert.equal(i + 1, (string.unpack("<i4", assert(c:receive()).body))) end
      c:write(bytes:sub(-30, -15))
      c:write(bytes:sub(-14))
      for i = 101, 200 do assert.equal(i + 1, (string.unpack("<i4", assert(c:receive()).body))) end
    end)
  end)

  it("go on when their object is another one, or has another method", function()
    local servant = { say = function() return "first" end }
    with_server(servant, nil, function(broker, port)
      local c <close> = giop.connect(port)
      local function say() return giop.text(c:call("say", "echo", giop.string "").body) end
      for _ = 1, 3 do assert.equal("first", say()) end
      servant.say = function() return "second" end
      assert.equal("second", say())
      servant.say = nil
      setmetatable(servant, { __index = function(_, name) return name == "say" and function() return "found" end end })
      assert.equal("found", say())
      broker:deactivate "echo"
      assert.equal("OBJECT_NOT_EXIST", serving.system(c, "say", "echo", giop.string "")[1])
      broker:serve({ say = function() return "third" end }, "Spec::Echo", { key = "echo" })
      for _ = 1, 3 do assert.equal("third", say()) end
    end)
  end)

  it("are counted while they are served, and not afterwards", function()
    local seen = {}
    local broker_
    with_server({ say = function(_, who)
      local b = broker_.server.pool.budget
      seen[#seen + 1] = b.held
      if who == "later" then mare.sleep(0.01) end
      return broker_:current().operation
    end }, nil, function(broker, port)
      broker_ = broker
      local c <close> = giop.connect(port)
      for _, who in ipairs { "now", "now", "now", "later", "now", "now" } do
        assert.equal("say", giop.text(c:call("say", "echo", giop.string(who)).body))
      end
      for i = 1, 6 do assert.is_true(seen[i] > 4096 and seen[i] < 4500, seen[i]) end
      eventually(function() return broker.server.pool.budget.held == 0 end, "nothing is held")
      for peer in pairs(broker.server.pool.peers) do assert.equal(0, peer.n) end
    end)
  end)
end)
