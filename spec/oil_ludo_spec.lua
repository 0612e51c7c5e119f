-- OiL's flavor "ludo": objects without IDL, by OiL's own text protocol, called and served.
-- needs: plain
local mare = require "mare"
local net = require "mare.net"
local oil = require "oil"
local codec = require "mare.ludo.oil"
local client = require "mare.ludo.oil_client"
local eventually = require "spec.support.serving".eventually

local LIMIT = 30

-- f gets a serving ORB and one that calls, in a program of OiL's.
local function with(flavor, f, more)
  oil.main(function()
    local config = { flavor = flavor, host = "127.0.0.1" }
    for name, value in pairs(more or {}) do config[name] = value end
    local server = oil.init(config)
    local caller = oil.init { flavor = flavor, host = "127.0.0.1" }
    local fine, err = pcall(f, server, caller)
    caller:shutdown()
    if server.serving then server:shutdown() end
    if not fine then error(err, 0) end
  end)
end

local function failing(f, ...)
  local fine, e = pcall(f, ...)
  assert.is_false(fine)
  return e
end

describe("flavor ludo", function()
  it("calls objects of another ORB by their references' texts", function()
    with("cooperative;ludo", function(server, caller)
      local hello = { count = 0 }
      function hello:say(name)
        self.count = self.count + 1
        return "Hello " .. name, self.count, { 1, a = "b" }
      end
      function hello._get_count(self) return self.count end
      local servant = server:newservant(hello, "hello")
      assert.equal(servant, server:newservant(hello, "hello"))
      assert.equal("Hello me", (servant:say "me"))
      assert.same({ "hello", "127.0.0.1", server.port }, (select(2, codec.decode(tostring(servant)))))
      local proxy = caller:newproxy(tostring(servant))
      assert.equal(tostring(servant), tostring(proxy))
      assert.same({ "Hello world", 2, { 1, a = "b" } }, { proxy:say "world" })
      assert.equal(2, proxy:_get_count())
      local protected = caller:newproxy(proxy, "protected")
      assert.same({ true, 2 }, { protected:_get_count() })
      assert.is_false((protected:none()))
      local future = caller:newproxy(proxy, "asynchronous"):say "later"
      assert.equal("Hello later", (future:evaluate()))
      assert.is_true(future:ready())
      server:deactivate "hello"
      assert.equal("badobjkey", failing(proxy.say, proxy, "x").error)
      assert.equal("badobjref", failing(caller.newproxy, caller, "IOR:00").error)
      assert.equal("badsetup", failing(caller.loadidl, caller, "interface I {};").error)
    end)
  end)

  it("gives what a servant raised, and says what went wrong otherwise", function()
    with("cooperative;ludo", function(server, caller)
      local proxy = caller:newproxy(tostring(server:newservant {
        text = function() error("plain", 0) end, table = function() error { "text $x", x = 5 } end, far = function() return print end,
        wait = function(_, s) oil.sleep(s) return s end }))
      assert.equal("plain", failing(proxy.text, proxy))
      local e = failing(proxy.table, proxy)
      assert.equal("text 5", tostring(e))
      assert.equal(5, e.x)
      assert.matches("function cannot be sent", tostring(failing(proxy.far, proxy)))
      assert.equal("badvalue", failing(proxy.text, proxy, print).error)
      assert.matches("illegal", tostring(failing(proxy.none, proxy)))
      proxy:__settimeout(0.02)
      assert.equal("timeout", failing(proxy.wait, proxy, 0.1).error)
      proxy:__settimeout(nil)
      assert.equal(0, proxy:wait(0))
      proxy:__setexcatch(function(_, err, operation) return "caught", err, operation end)
      assert.same({ "caught", "plain", "text" }, { proxy:text() })
      proxy:__setexcatch(nil)
      local reference = proxy.__reference
      local gone = caller:newproxy(client.text { object = "x", host = "127.0.0.1", port = 1 })
      assert.equal("badconnect", failing(gone.any, gone).error)
      assert.equal("ended", caller:newproxy(tostring(server:newservant { stop = function() server:shutdown() return "ended" end })):stop())
      eventually(function()
        local ok, why = pcall(proxy.text, proxy)
        return not ok and type(why) == "table" and why.error == "badconnect"
      end, "the server is gone")
      assert.equal("127.0.0.1", reference.host)
    end)
  end)

  it("serves calls at the same time where it is cooperative, else in run and step", function()
    with("cooperative;ludo", function(server, caller)
      local gate = mare.channel.new()
      local object = { wait = function() return gate:receive() end, echo = function(_, n) return n end }
      local proxy = caller:newproxy(caller:newproxy(tostring(server:newservant(object))), "asynchronous")
      local long, short = proxy:wait(), proxy:echo(1)
      assert.equal(1, short:evaluate())
      assert.is_false(long:ready())
      gate:send(2)
      assert.equal(2, long:evaluate())
    end)
    with("ludo", function(server, caller)
      local asked = 0
      local proxy = caller:newproxy(tostring(server:newservant { add = function(_, n) asked = asked + n return asked end }), "asynchronous")
      assert.is_false(server:pending(0.01))
      local future = proxy:add(5)
      assert.is_true(server:pending(LIMIT))
      assert.equal(0, asked)
      assert.is_true(server:step(LIMIT))
      assert.equal(5, future:evaluate())
    end)
  end)

  it("sends proxies as references, tables as copies, or with ludo.byref as objects", function()
    with("cooperative;ludo", function(server, caller)
      local Class = { __index = {} }
      local object = { set = function(self, t) self.was = t return t end, same = function(self, o) return o == self end,
                       call = function(_, o) return o:name() end }
      local proxy = caller:newproxy(tostring(server:newservant(object, "it")))
      assert.same({ a = { 1 } }, proxy:set(setmetatable({ a = { 1 } }, Class)))
      assert.is_true(proxy:same(proxy))
      local own = caller:newservant { name = function() return "the caller's" end }
      assert.equal("the caller's", proxy:call(own))
      local circle = { 1 }
      circle.self = circle
      local back = proxy:set(circle)
      assert.equal(back, back.self)
    end)
    with("cooperative;ludo;ludo.byref", function(server, caller)
      local proxy = caller:newproxy(tostring(server:newservant { invoke = function(_, object, method, ...) return object[method](object, ...) end,
                                                                 give = function(_, ...) return ... end, length = function(_, t) return #t end }))
      local mine, said = { say = function(self, name) self.said = name return "said " .. name end }
      said = proxy:invoke(mine, "say", "there")
      assert.same({ "said there", "there" }, { said, mine.said })
      assert.equal(mine, (proxy:give(mine)))
      assert.equal(2, proxy:length(setmetatable({ 1, 2 }, { __marshalcopy = true })))
    end)
  end)

  it("tells interceptors, which may change what goes and comes", function()
    with("cooperative;ludo", function(server, caller)
      local seen = {}
      local function note(text) seen[#seen + 1] = text end
      local proxy = caller:newproxy(tostring(server:newservant { add = function(_, a, b) return a + b end, fail = function() error("no", 0) end }))
      caller:setinterceptor({ sendrequest = function(_, r) note("send " .. r.operation .. r.n) r[1] = 10 end,
                              receivereply = function(_, r) note("receive " .. tostring(r.success)) end }, "client")
      server:setinterceptor({ receiverequest = function(_, r) note("request " .. r[1]) end,
                              sendreply = function(_, r) note("reply " .. tostring(r[1])) if r.success then r[1] = r[1] * 2 end end }, "server")
      assert.equal(24, proxy:add(1, 2))
      assert.same({ "send add2", "request 10", "reply 12", "receive true" }, seen)
      assert.equal("no", failing(proxy.fail, proxy, 1))
      server:setinterceptor(nil)
      caller:setinterceptor({ sendrequest = function() error("not sent", 0) end }, "client")
      assert.equal("not sent", failing(proxy.add, proxy, 1, 2))
    end)
  end)

  it("is refused beside CORBA's", function()
    assert.matches("CORBA or LuDO", tostring(failing(oil.init, { flavor = "corba;ludo" })))
  end)
end)

describe("a server of OiL's LuDO", function()
  -- Answers each connection's first request with these bytes; f gets what was asked.
  local function against(bytes, f, zero)
    local listener = assert(net.listen("127.0.0.1:0"))
    local asked
    local serving = mare.fiber.spawn(function()
      local conn = listener:accept()
      local size = tonumber(conn:read("l", LIMIT))
      asked = conn:read(size, LIMIT)
      conn:write(bytes)
      conn:close()
    end)
    local caller = client.new()
    local reference = { host = "127.0.0.1", port = select(2, listener:address()), object = "it", zero = zero }
    f(function() return asked end, caller:call(reference, "op", LIMIT, 1, "x"))
    serving:wait(LIMIT)
    listener:close()
    caller:close()
  end
  local function reply(text) return #text .. "\n" .. text end

  it("is asked as it asks, and lies in vain", function()
    against(reply "return 1,true,{2}", function(asked, ...)
      assert.same({ true, { 2 } }, { ... })
      assert.equal('return 1,"it","op",1,"x"', asked())
    end)
    against(reply "return 1,false,\"why\"\0", function(asked, ...)
      assert.same({ false, "why" }, { ... })
      assert.equal('return 1,"it","op",1,"x"\0', asked())
    end, true)
    for _, bytes in ipairs { reply "return 2,true", reply "return 1", reply "return 1,5", reply "return os.exit()", "x\n", "99999999999\n",
                             ("1"):rep(30) } do
      against(bytes, function(_, ok, _, kind)
        assert.is_nil(ok)
        assert.is_true(kind == "message" or kind == "lost")
      end)
    end
    for _, bytes in ipairs { "", "9\nreturn" } do
      against(bytes, function(_, ok, _, kind) assert.same({ nil, "lost" }, { ok, kind }) end)
    end
  end)

  it("is one of many that were called: the connections that rest are bounded", function()
    local ludo = require "mare.ludo"
    local caller, servers = client.new(), {}
    for i = 1, 70 do
      servers[i] = ludo.init { oil = true }
      servers[i]:serve({ add = function(_, a, b) return a + b end }, { key = "it" })
      assert.same({ true, i + 1 }, { caller:call({ host = "127.0.0.1", port = servers[i].port, object = "it" }, "add", LIMIT, i, 1) })
    end
    assert.equal(64, caller.kept)
    assert.same({ true, 3 }, { caller:call({ host = "127.0.0.1", port = servers[1].port, object = "it" }, "add", LIMIT, 1, 2) })
    caller:close()
    assert.equal(0, caller.kept)
    for _, server in ipairs(servers) do server:close() end
  end)
end)
