-- Many clients of one server, good ones and others.
local mare = require "mare"
local giop = require "spec.support.iiop"
local proc = require "spec.support.proc"
local serving = require "spec.support.serving"
local fiber, channel = mare.fiber, mare.channel
local with_server, echo, eventually = serving.with, serving.echo, serving.eventually

describe("many clients", function()
  it("may be connected: two thousand, of which sixteen are active", function()
    local count, calls = 2000, 50
    with_server(echo, nil, function(broker, port)
      local all = {}
      for i = 1, count do
        local c, err = giop.connect(port)
        all[i] = assert(c, err)
      end
      eventually(function() return broker.server.pool.count == count end, "2000 connections")
      local active = {}
      for i = 1, 16 do
        local c = all[i * (count // 16)]
        active[i] = fiber.spawn(function()
          for n = 1, calls do
            local r = c:call("add", "echo", string.pack("<i4i4", n, i))
            assert(string.unpack("<i4", r.body) == n + i)
          end
          return calls
        end)
      end
      local done = 0
      for i = 1, 16 do
        local ok, n = active[i]:wait(60 * proc.slow)
        assert.is_true(ok, n)
        done = done + n
      end
      assert.equal(16 * calls, done)
      assert.equal(count, broker.server.pool.count)
      assert.is_true(broker.server.pool.fibers <= count + 16 + 16)
      for i = 1, count do all[i]:close() end
      eventually(function() return broker.server.pool.count == 0 end, "no connection")
    end)
  end)

  it("that ask and don't read hold up nobody else, and are dropped", function()
    local big = ("x"):rep(1 << 20)
    with_server({ say = function(_, who) return who == "big" and big or who end }, { limits = { reply = 0.2, requests = 4 } }, function(broker, port)
      local bad = {}
      for i = 1, 5 do
        bad[i] = giop.connect(port)
        for _ = 1, 20 do bad[i]:request("say", "echo", giop.string "big") end
      end
      local good <close> = giop.connect(port)
      for n = 1, 50 do assert.equal(tostring(n), giop.text(good:call("say", "echo", giop.string(tostring(n))).body)) end
      eventually(function() return broker.server.pool.count == 1 end, "the others are gone")
      for i = 1, 5 do bad[i]:close() end
      assert.equal("on", giop.text(good:call("say", "echo", giop.string "on").body))
    end)
  end)

  it("that ask without a pause leave the others their turns", function()
    local noted = 0
    with_server({ note = function() noted = noted + 1 end, say = echo.say }, nil, function(_, port)
      local quit = channel.new(1)
      local flood = mare.process.spawn(function(to, stop)
        local c = require "spec.support.iiop".connect(to)
        local one = c:message("note", "echo", string.pack("<s4", "x\0"), { response = 0 })
        local batch = one:rep(500)
        repeat c:write(batch) until #stop > 0
        c:close()
      end, port, quit)
      local good <close> = giop.connect(port)
      eventually(function() return noted > 1000 end, "the flood")
      for n = 1, 50 do assert.equal("hello, " .. n, giop.text(good:call("say", "echo", giop.string(tostring(n))).body)) end
      local late <close> = giop.connect(port)
      assert.equal("hello, late", giop.text(late:call("say", "echo", giop.string "late").body))
      quit:send(true)
      assert.is_true((flood:wait(20 * proc.slow)))
    end)
  end)

  it("that send garbage, half messages and floods leave a server that goes on", function()
    with_server(echo, { limits = { message = 4096 } }, function(broker, port)
      local good <close> = giop.connect(port)
      math.randomseed(42)
      local sample = good:message("say", "echo", giop.string "x")
      local held = {}
      for i = 1, 300 do
        local c = giop.connect(port)
        local kind = i % 6
        if kind == 0 then c:write("GIOP\1\2\1\0\255\255\0\0" .. ("y"):rep(5000))
        elseif kind == 1 then c:write(sample:sub(1, i % #sample))
        elseif kind == 2 then c:write((sample:gsub("()", { [math.random(#sample)] = string.char(math.random(0, 255)) })))
        elseif kind == 3 then for _ = 1, 50 do c:request("nonsense", ("k"):rep(i), nil, { response = 0 }) end
        elseif kind == 4 then c:write("GIOP\1\2\3\0\20\0\0\0" .. ("\0"):rep(20))
        else c:write(string.pack("<I8I8I8", math.random(0), math.random(0), math.random(0))) end
        if kind % 2 == 0 then c:close() else held[#held + 1] = c end
        if i % 50 == 0 then assert.equal("hello, you", giop.text(good:call("say", "echo", giop.string "you").body)) end
      end
      for _, c in ipairs(held) do c:close() end
      eventually(function() return broker.server.pool.count == 1 end, "only the good one is left")
      assert.equal("hello, you", giop.text(good:call("say", "echo", giop.string "you").body))
    end)
  end)
end)

-- Writes the same bytes again and again, in a process of its own, until a channel says that it is enough.
local function flood(port, bytes)
  local quit, going = channel.new(1), channel.new(1)
  local p = mare.process.spawn(function(to, what, stop, on)
    local c = require "spec.support.iiop".connect(to)
    local batch = what:rep((1 << 16) // #what)
    repeat
      local more = c:write(batch)
      on:try_send(true)
    until not more or #stop > 0
    c:close()
    return true
  end, port, bytes, quit, going)
  assert(going:receive(20 * proc.slow))
  return function()
    quit:send(true)
    assert(p:wait(20 * proc.slow))
  end
end

describe("a client that floods", function()
  local core = require "mare.orb.giop.core"
  local piece = string.pack("<c4BBBBI4I4", "GIOP", 1, 2, 3, 7, 4, 1)
  local first = "GIOP\1\2\3\0" .. string.pack("<I4I4I1xxxI2xxI4", 36, 1, 3, 0, 4) .. "echo" .. string.pack("<!4s4I4I4", "say\0", 0, 0)
  for name, bytes in pairs { ["cancellations"] = core.cancel(2, true, 77), ["questions"] = core.locate_request(2, true, 7, "echo") } do
    it("with " .. name .. " leaves the others their turns", function()
      with_server(echo, nil, function(_, port)
        local good <close> = giop.connect(port)
        local enough = flood(port, bytes)
        for n = 1, 50 do assert.equal("hello, " .. n, giop.text(good:call("say", "echo", giop.string(tostring(n))).body)) end
        enough()
      end)
    end)
  end

  it("with pieces of a message that hold next to nothing is refused before they take much memory", function()
    with_server(echo, nil, function(_, port, log)
      local good, bad <close> = giop.connect(port), giop.connect(port)
      assert.equal(48, #first)
      assert(bad:write(first .. piece:rep(900)))
      assert.equal("hello, you", giop.text(good:call("say", "echo", giop.string "you").body))
      assert.is_nil(bad:receive(0.05))
      bad:write(piece:rep(200))
      assert.equal("MessageError", bad:receive().type)
      assert.matches("in more than 1000 pieces of less than 64 bytes", log[1])
      assert.equal("hello, you", giop.text(good:call("say", "echo", giop.string "you").body))
      good:close()
    end)
  end)

  it("and doesn't leave can't hold up the end", function()
    local enough
    with_server(echo, nil, function(broker, port)
      local good <close> = giop.connect(port)
      local one = good:message("say", "echo", giop.string "x", { id = 1 })
      enough = flood(port, one)
      local began = mare.clock()
      broker:shutdown(true)
      assert.is_true(mare.clock() - began < 40 * proc.slow)
    end)
    enough()
  end)
end)

describe("a server that has no memory for a connection", function()
  it("says so, and serves the next one", function()
    with_server(echo, nil, function(broker, port, log)
      local pool, calls = broker.server.pool, 0
      local give = pool.give
      function pool.give(...)
        calls = calls + 1
        if calls == 1 then error("not enough memory", 0) end
        return give(...)
      end
      local a <close> = giop.connect(port)
      assert.is_nil((a:receive()))
      local b <close> = giop.connect(port)
      assert.equal("hello, you", giop.text(b:call("say", "echo", giop.string "you").body))
      assert.same({ "2: cannot serve a connection: not enough memory" }, log)
      assert.equal(1, pool.count)
    end)
  end)
end)

describe("what can't be told", function()
  it("is UNKNOWN: the client doesn't wait for ever, whatever was raised, and though the log fails", function()
    local servant = { say = function() error({ _repid = 5 }, 0) end, nothing = function() error(setmetatable({}, { __index = error }), 0) end,
                      add = function() error({ _repid = "IDL:omg.org/CORBA/NO_PERMISSION:1.0", minor = 1.5 }, 0) end }
    with_server(servant, nil, function(broker, port)
      broker.log = function() error "the log is broken" end
      local c <close> = giop.connect(port)
      for _, name in ipairs { "say", "nothing", "add" } do
        local r = c:call(name, "echo", name == "say" and giop.string "x" or name == "add" and string.pack("<i4i4", 1, 2) or nil)
        assert.equal("UNKNOWN", (giop.system(r)))
      end
      broker:locator(function() error({ _repid = "IDL:omg.org/CORBA/NO_PERMISSION:1.0", minor = 1.5 }, 0) end)
      assert.equal(1, c:locate("anything").status)
      assert.equal("UNKNOWN", (giop.system(c:call("nothing", "anything"))))
    end)
  end)
end)
