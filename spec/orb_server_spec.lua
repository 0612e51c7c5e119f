-- The server on the wire: what it answers to GIOP messages, good and bad. The client is raw bytes: spec.support.iiop.lua.
local mare = require "mare"
local orb = require "mare.orb"
local core = require "mare.orb.giop.core"
local ior = require "mare.orb.giop.ior"
local giop = require "spec.support.iiop"
local proc = require "spec.support.proc"
local fiber, channel = mare.fiber, mare.channel

local OMG = 0x4f4d0000
local IDL = [[
  module Spec {
    exception Refused { string why; long code; };
    exception Other {};
    interface Echo {
      string say(in string who);
      void nothing();
      long add(in long a, in long b);
      void refuse(in string why) raises (Refused);
      long wait(in long n);
      oneway void note(in string text);
    };
  };
]]

-- Runs f(broker, port, log) with a broker that serves `servant` as "echo"; the broker is shut down at the end.
local function with_server(servant, options, f)
  local log = {}
  options = options or {}
  options.host, options.log = options.host or "127.0.0.1", function(level, text) log[#log + 1] = level .. ": " .. text end
  local broker = orb.init(options)
  broker:load(IDL)
  broker:serve(servant or {}, "Spec::Echo", { key = "echo" })
  local results = table.pack(pcall(f, broker, broker.server.opened[1].port, log))
  broker:shutdown(10 * proc.slow)
  if not results[1] then
    if #log > 0 then print(table.concat(log, "\n")) end
    error(results[2], 0)
  end
  return table.unpack(results, 2, results.n)
end

local echo = {
  say = function(_, who) return "hello, " .. who end,
  nothing = function() end,
  add = function(_, a, b) return a + b end,
}

local function system(c, ...) return { giop.system(c:call(...)) } end

describe("a request", function()
  it("is answered in its version and byte order", function()
    with_server(echo, nil, function(_, port)
      local c <close> = giop.connect(port)
      for minor = 0, 2 do
        for _, little in ipairs { true, false } do
          local r = c:call("say", "echo", giop.string("wörld", little), { minor = minor, little = little,
            contexts = { { 1, string.pack("<I1xxxI4I4", 1, 0x05010001, 0x00010109) } } })
          assert.same({ "Reply", 0, minor, little }, { r.type, r.status, r.minor, r.little })
          assert.equal("hello, wörld", giop.text(r.body, little))
          r = c:call("add", "echo", string.pack(little and "<i4i4" or ">i4i4", 40, 2), { minor = minor, little = little })
          assert.equal(42, (string.unpack(little and "<i4" or ">i4", r.body)))
          r = c:call("nothing", "echo", nil, { minor = minor, little = little })
          assert.same({ 0, "" }, { r.status, r.body })
        end
      end
    end)
  end)

  it("that names no object, no operation, or no method gets the exception that says so", function()
    with_server(echo, nil, function(_, port)
      local c <close> = giop.connect(port)
      assert.same({ "OBJECT_NOT_EXIST", OMG | 1, "NO" }, system(c, "say", "nobody", giop.string "x"))
      assert.same({ "OBJECT_NOT_EXIST", OMG | 2, "NO" }, system(c, "say", "\xffmare12345678\0\0\0\1", giop.string "x"))
      assert.same({ "BAD_OPERATION", OMG | 2, "NO" }, system(c, "sing", "echo"))
      assert.same({ "BAD_OPERATION", OMG | 2, "NO" }, system(c, "_get_volume", "echo"))
      assert.same({ "BAD_OPERATION", OMG | 2, "NO" }, system(c, "", "echo"))
      assert.same({ "NO_IMPLEMENT", 0, "NO" }, system(c, "wait", "echo", string.pack("<i4", 1)))
      assert.same({ "INTF_REPOS", OMG | 1, "NO" }, system(c, "_interface", "echo"))
      assert.equal("hello, you", giop.text(c:call("say", "echo", giop.string "you").body))
    end)
  end)

  it("with a bad body gets MARSHAL, nothing was done, and the connection stays", function()
    with_server(echo, nil, function(_, port)
      local c <close> = giop.connect(port)
      for _, body in ipairs { "", "\0", string.pack("<I4", 1000), string.pack("<I4", 0xffffffff), string.pack("<s4", "abc"),
                              string.pack("<I4", 0) } do
        local name, _, completed = giop.system(c:call("say", "echo", body))
        assert.same({ "MARSHAL", "NO" }, { name, completed })
      end
      assert.equal("hello, you", giop.text(c:call("say", "echo", giop.string "you").body))
    end)
  end)

  it("whose servant fails gets UNKNOWN; the server's log has the traceback", function()
    with_server({ say = function(_, who) return nil .. who end, nothing = function() error(setmetatable({}, { __tostring = error })) end },
      nil, function(_, port, log)
        local c <close> = giop.connect(port)
        assert.same({ "UNKNOWN", 0, "MAYBE" }, system(c, "say", "echo", giop.string "x"))
        assert.equal(1, #log)
        assert.matches("^1: operation 'say' of the object \"echo\": .*attempt to concatenate a nil value.*stack traceback:.*orb_server_spec", log[1])
        assert.same({ "UNKNOWN", 0, "MAYBE" }, system(c, "nothing", "echo"))
        assert.equal(2, #log)
      end)
  end)

  it("whose servant lacks the method gets NO_IMPLEMENT; the server's log says what is missing", function()
    with_server({ sya = function() end }, nil, function(broker, port, log)
      local c <close> = giop.connect(port)
      assert.same({ "NO_IMPLEMENT", 0, "NO" }, system(c, "say", "echo", giop.string "x"))
      c:request("note", "echo", giop.string "x", { response = 0 })
      assert.same({ "BAD_OPERATION", OMG | 2, "NO" }, system(c, "sya", "echo"))
      assert.equal(2, #log)
      assert.matches("^1: operation 'say' of the object \"echo\": the servant has no method 'say' of IDL:Spec/Echo:1.0$", log[1])
      assert.matches("operation 'note' of the object \"echo\": the servant has no method 'note'", log[2])
      local key = ior.parse(ior.destring(tostring(broker:serve({ say = 5 }, "Spec::Echo")))).profiles[1].key
      assert.same({ "UNKNOWN", 0, "MAYBE" }, system(c, "say", key, giop.string "x"))
      assert.matches("^1: operation 'say' of an object IDL:Spec/Echo:1.0: .*attempt to call a number value", log[3])
    end)
  end)

  it("gets the declared exception, and UNKNOWN for one that is not declared", function()
    local servant = {}
    function servant.refuse(_, why)
      error({ _repid = why == "other" and "IDL:Spec/Other:1.0" or "IDL:Spec/Refused:1.0", why = why, code = why ~= "bad" and 7 or "seven" }, 0)
    end
    with_server(servant, nil, function(_, port, log)
      local c <close> = giop.connect(port)
      local r = c:call("refuse", "echo", giop.string "no")
      assert.equal(1, r.status)
      local id, why, code = string.unpack("<!4s4s4i4", r.body)
      assert.same({ "IDL:Spec/Refused:1.0\0", "no\0", 7 }, { id, why, code })
      assert.same({ "UNKNOWN", OMG | 1, "YES" }, system(c, "refuse", "echo", giop.string "other"))
      assert.matches("Spec::Other.*does not declare", log[1])
      local name, _, completed = giop.system(c:call("refuse", "echo", giop.string "bad"))
      assert.same({ "BAD_PARAM", "YES" }, { name, completed })
      assert.matches("code", log[2])
    end)
  end)

  it("gets BAD_PARAM, with all done, for a result that doesn't fit; the log says where", function()
    with_server({ say = function() return {} end, add = function() end }, nil, function(_, port, log)
      local c <close> = giop.connect(port)
      for i, call in ipairs { { "say", giop.string "x" }, { "add", string.pack("<i4i4", 1, 2) } } do
        local name, _, completed = giop.system(c:call(call[1], "echo", call[2]))
        assert.same({ "BAD_PARAM", "YES" }, { name, completed })
        assert.matches("result", log[i])
      end
    end)
  end)

  it("without a reply runs; an error of it is only logged", function()
    local notes = channel.new(10)
    local servant = {}
    function servant.note(_, text)
      notes:send(text)
      if text == "bad" then error "oops" end
      if text == "refused" then error(orb.system("NO_PERMISSION", 3)) end
    end
    with_server(servant, nil, function(_, port, log)
      local c <close> = giop.connect(port)
      c:request("note", "echo", giop.string "one", { response = 0 })
      c:request("note", "echo", giop.string "bad", { response = 0 })
      c:request("nonsense", "nobody", nil, { response = 0 })
      c:request("note", "echo", giop.string "three", { response = 0 })
      assert.same({ "one", "bad", "three" }, { notes:receive(), notes:receive(), notes:receive() })
      assert.equal(3, c:call("_is_a", "echo", giop.string "IDL:Spec/Echo:1.0").message:byte(8) + 2)
      assert.equal(1, #log)
      assert.matches("oops", log[1])
      c:request("note", "echo", giop.string "refused", { response = 0 })
      c:call("_is_a", "echo", giop.string "IDL:Spec/Echo:1.0")
      assert.matches("operation 'note' of the object \"echo\" raised CORBA::NO_PERMISSION", log[2])
    end)
  end)

  it("that wants to know only that it has arrived is answered before the servant runs", function()
    local go, done = channel.new(), channel.new(1)
    with_server({ note = function() go:receive() done:send(true) end }, nil, function(_, port)
      local c <close> = giop.connect(port)
      local r = c:call("note", "echo", giop.string "x", { response = 1 })
      assert.same({ "Reply", 0 }, { r.type, r.status })
      assert.equal(0, #done)
      go:send(true)
      assert.is_true(done:receive(20))
    end)
  end)

  it("doesn't hold up others: those that wait are answered when they are ready", function()
    local gates = { channel.new(), channel.new(), channel.new() }
    with_server({ wait = function(_, n) gates[n]:receive() return n end, say = echo.say }, nil, function(_, port)
      local c <close> = giop.connect(port)
      for n = 1, 3 do c:request("wait", "echo", string.pack("<i4", n), { id = n }) end
      assert.equal("hello, you", giop.text(c:call("say", "echo", giop.string "you", { id = 9 }).body))
      for _, n in ipairs { 2, 3, 1 } do
        gates[n]:send(true)
        local r = c:receive()
        assert.same({ n, n }, { r.id, (string.unpack("<i4", r.body)) })
      end
    end)
  end)

  it("is read on every connection, whatever the fibers of the pool did before", function()
    local gates, entered = { channel.new(), channel.new(), channel.new() }, channel.new(9)
    local function wait(_, n) entered:send(n) gates[n]:receive() return n end
    with_server({ wait = wait, say = echo.say }, nil, function(broker, port)
      local pool = broker.server.pool
      local function rest(n) while #pool.resting ~= n do mare.sleep(0.001) end end
      local function ask(c, n) c:request("wait", "echo", string.pack("<i4", n), { id = n }) entered:receive() end
      local first <close> = giop.connect(port)
      ask(first, 1)
      gates[1]:send(true)
      first:receive()
      rest(1)
      ask(first, 2)                              -- its fiber waits in the servant: the one that rested leads
      first:close()
      rest(1)                                    -- and rests again, before the other
      gates[2]:send(true)
      rest(2)
      local second <close> = giop.connect(port)
      ask(second, 3)
      local third <close> = giop.connect(port)
      assert.equal("hello, you", giop.text(third:call("say", "echo", giop.string "you").body))
      gates[3]:send(true)
      assert.equal(3, second:receive().id)
    end)
  end)

  it("costs no new fiber when others were served before", function()
    with_server(echo, nil, function(broker, port)
      local c <close> = giop.connect(port)
      for _ = 1, 10 do c:call("say", "echo", giop.string "x") end
      local fibers = broker.server.pool.fibers
      local last = fiber.spawn(function() end).id
      for _ = 1, 500 do c:call("say", "echo", giop.string "x") end
      assert.equal(fibers, broker.server.pool.fibers)
      assert.equal(last + 1, fiber.spawn(function() end).id)
    end)
  end)

  it("addressed by a profile or a reference finds its object, by something else gets NEEDS_ADDRESSING_MODE", function()
    with_server(echo, nil, function(broker, port)
      local c <close> = giop.connect(port)
      local ref = ior.destring(tostring(broker:serve({ nothing = function() end }, "Spec::Echo", { key = "other" })))
      local profile = ior.parse(ref).profiles[1]
      local function header(id, target) return string.pack("<I4I1xxx", id, 3) .. target end
      local function send(id, target)
        local body = header(id, target)
        body = body .. ("\0"):rep(-#body % 4) .. string.pack("<!4s4I4", "nothing\0", 0)
        c:write("GIOP\1\2\1\0" .. string.pack("<I4", #body) .. body)
        return c:receive()
      end
      local r = send(1, string.pack("<!4I2I4s4", 1, profile.tag, profile.data))
      assert.same({ 1, 0 }, { r.id, r.status })
      r = send(2, string.pack("<!4I2I4", 2, 0) .. ref:sub(5))
      assert.same({ 2, 0 }, { r.id, r.status })
      r = send(3, string.pack("<!4I2I4s4", 1, 12345, "no idea"))
      assert.same({ 3, 5, 0 }, { r.id, r.status, (string.unpack("<I2", r.body)) })
    end)
  end)
end)

describe("a question where an object is", function()
  it("is answered as a request would be, for every key and version", function()
    with_server(echo, nil, function(broker, port)
      local stale = "\xffmareabcdefgh\0\0\0\1"
      broker:locator(function(key)
        if key == "located" then return echo, "Spec::Echo" end
        if key == "elsewhere" then return broker:proxy("corbaloc::127.0.0.1:1/there", "Spec::Echo") end
        if key == "broken" then error(orb.system("NO_PERMISSION", 3, "COMPLETED_NO"), 0) end
      end)
      broker:forward("moved", broker:proxy("corbaloc::127.0.0.1:1/there", "Spec::Echo"))
      local c <close> = giop.connect(port)
      for minor = 0, 2 do
        for _, case in ipairs { { "echo", 1, 0 }, { "nobody", 0, "OBJECT_NOT_EXIST" }, { stale, 0, "OBJECT_NOT_EXIST" }, { "located", 1, 0 },
                                { "elsewhere", 2, 3 }, { "moved", 2, 3 }, { "", 0, "OBJECT_NOT_EXIST" } } do
          local key, here, there = table.unpack(case)
          local r = c:locate(key, { minor = minor, little = minor ~= 1 })
          assert.same({ "LocateReply", c.id, minor, minor ~= 1, here }, { r.type, r.id, r.minor, r.little, r.status })
          local reply = c:call("say", key, giop.string("x", minor ~= 1), { minor = minor, little = minor ~= 1 })
          if type(there) == "string" then assert.equal(there, (giop.system(reply))) else assert.equal(there, reply.status) end
        end
      end
      assert.equal(4, c:locate("broken").status)
      assert.same({ "NO_PERMISSION", OMG | 3, "NO" }, system(c, "say", "broken", giop.string "x"))
      assert.equal(1, c:locate("broken", { minor = 1 }).status)
      broker:default(echo, "Spec::Echo")
      assert.equal(1, c:locate("nobody").status)
      assert.equal("hello, x", giop.text(c:call("say", "nobody", giop.string "x").body))
      assert.equal(0, c:locate(stale).status)
    end)
  end)
end)

describe("a cancelled request", function()
  it("ends its servant's fiber where that waits, gets no reply, and disturbs no other", function()
    local begun, gate, ended = channel.new(1), channel.new(), channel.new(1)
    local servant = { say = echo.say }
    function servant.wait(_, n)
      local guard <close> = setmetatable({}, { __close = function(_, err) ended:send(tostring(err)) end })
      begun:send(n)
      gate:receive()
      return guard and n
    end
    with_server(servant, nil, function(broker, port, log)
      local c <close> = giop.connect(port)
      local other = c:request("wait", "echo", string.pack("<i4", 1))
      assert.equal(1, begun:receive(20))
      local id = c:request("wait", "echo", string.pack("<i4", 2))
      assert.equal(2, begun:receive(20))
      c:cancel(id)
      assert.matches("cancelled", ended:receive(20))
      assert.equal("hello, you", giop.text(c:call("say", "echo", giop.string "you").body))
      c:cancel(id)                               -- again, and one that never was
      c:cancel(77777)
      gate:send(true)
      assert.equal(other, c:receive().id)
      assert.equal("hello, you", giop.text(c:call("say", "echo", giop.string "you").body))
      assert.same({}, log)
      assert.equal(0, (next(broker.server.pool.peers)).n)
    end)
  end)
end)

-- What the server says to bytes, until it closes: the types of its messages.
local function says(port, bytes)
  local c <close> = giop.connect(port)
  c:write(bytes)
  local said = {}
  while true do
    local r, _, code = c:receive(20)
    if not r then return said, code end
    said[#said + 1] = r.type
  end
end

describe("bytes that are no GIOP", function()
  local bad = {
    ["a wrong magic"] = "GET / HTTP/1.1\r\n\r\n",
    ["a wrong major version"] = "GIOP\2\0\1\0\0\0\0\0",
    ["a higher minor version"] = "GIOP\1\3\1\0\0\0\0\0",
    ["an unknown type"] = "GIOP\1\2\1\8\0\0\0\0",
    ["a size beyond the limit"] = "GIOP\1\2\1\0\255\255\255\127",
    ["a request of no bytes"] = "GIOP\1\2\1\0\0\0\0\0",
    ["a reply"] = core.reply(2, true, 1, 0),
    ["a locate reply"] = core.locate_reply(2, true, 1, 1),
    ["a fragment of nothing"] = "GIOP\1\2\1\7\4\0\0\0\1\0\0\0",
  }
  for name, bytes in pairs(bad) do
    it(("get MessageError and the end of the connection: %s"):format(name), function()
      with_server(echo, nil, function(_, port)
        local good <close> = giop.connect(port)
        assert.equal("hello, you", giop.text(good:call("say", "echo", giop.string "you").body))
        local said = says(port, bytes)
        assert.same({ "MessageError" }, said)
        assert.equal("hello, you", giop.text(good:call("say", "echo", giop.string "you").body))
      end)
    end)
  end

  it("cut off, by any length, leave nothing behind", function()
    with_server(echo, nil, function(broker, port)
      local c <close> = giop.connect(port)
      local message = c:message("say", "echo", giop.string "you")
      for n = 0, #message - 1 do
        local half <close> = giop.connect(port)
        half:write(message:sub(1, n))
      end
      assert.equal("hello, you", giop.text(c:call("say", "echo", giop.string "you").body))
      local deadline = mare.clock() + 20 * proc.slow
      while broker.server.pool.count > 1 and mare.clock() < deadline do mare.sleep(0.001) end
      assert.equal(1, broker.server.pool.count)
    end)
  end)

  it("end a connection when the client says that it closes, or complains", function()
    with_server(echo, nil, function(_, port)
      assert.same({}, (says(port, core.close(2, true))))
      assert.same({}, (says(port, core.error(2, true))))
    end)
  end)
end)

-- Waits until f() is true; it fails after a time that only a defect needs.
local function eventually(f, what)
  local deadline = mare.clock() + 30 * proc.slow
  while not f() do
    assert(mare.clock() < deadline, "it never came to be: " .. what)
    mare.sleep(0.002)
  end
end

describe("limits", function()
  it("on requests of a connection hold back what is beyond them, and all are answered", function()
    local running, most, gate = 0, 0, channel.new()
    local servant = {}
    function servant.wait(_, n)
      running = running + 1
      most = math.max(most, running)
      gate:receive()
      running = running - 1
      return n
    end
    with_server(servant, { limits = { requests = 3 } }, function(broker, port)
      local c <close> = giop.connect(port)
      for n = 1, 20 do c:request("wait", "echo", string.pack("<i4", n), { id = n }) end
      local seen = {}
      for _ = 1, 20 do
        gate:send(true)
        seen[c:receive().id] = true
      end
      assert.equal(20, #seen)
      assert.equal(3, most)
      assert.equal(0, (next(broker.server.pool.peers)).n)
    end)
  end)

  it("on requests don't stop the others while one of them waits", function()
    local gate = channel.new()
    with_server({ wait = function(_, n) if n == 1 then gate:receive() end return n end }, { limits = { requests = 2 } }, function(_, port)
      local c <close> = giop.connect(port)
      for n = 1, 10 do c:request("wait", "echo", string.pack("<i4", n), { id = n }) end
      for n = 2, 10 do assert.equal(n, c:receive().id) end
      gate:send(true)
      assert.equal(1, c:receive().id)
    end)
  end)

  it("on connections: an idle one is closed properly for a newcomer, which waits while all are busy", function()
    local gate, begun = channel.new(), channel.new(9)
    with_server({ wait = function(_, n) begun:send(n) gate:receive() return n end, say = echo.say }, { limits = { connections = 2 } },
      function(broker, port)
        local a <close> = giop.connect(port)
        local b <close> = giop.connect(port)
        a:request("wait", "echo", string.pack("<i4", 1))
        assert.equal(1, begun:receive(20))
        assert.equal("hello, b", giop.text(b:call("say", "echo", giop.string "b").body))
        local c <close> = giop.connect(port)
        c:request("wait", "echo", string.pack("<i4", 3))
        assert.equal("CloseConnection", b:receive().type)
        b:close()
        assert.equal(3, begun:receive(20))
        local d <close> = giop.connect(port)
        d:request("say", "echo", giop.string "d")
        assert.is_nil(d:receive(0.05))
        assert.equal(2, broker.server.pool.count)
        gate:send(true)
        assert.equal("Reply", a:receive().type)
        assert.equal("CloseConnection", a:receive().type)
        a:close()
        assert.equal("hello, d", giop.text(d:receive().body))
        gate:send(true)
        assert.equal("Reply", c:receive().type)
      end)
  end)

  it("on idle time: CloseConnection, but never while a request is in progress", function()
    local gate = channel.new()
    with_server({ wait = function(_, n) gate:receive() return n end }, { limits = { idle = 0.05 } }, function(broker, port)
      local idle <close> = giop.connect(port)
      local busy <close> = giop.connect(port)
      local half <close> = giop.connect(port)
      busy:request("wait", "echo", string.pack("<i4", 1))
      half:write("GIOP\1\2\1")
      assert.equal("CloseConnection", idle:receive().type)
      assert.equal("EOF", select(3, idle:receive()))
      assert.equal("CloseConnection", half:receive().type)
      assert.is_nil(busy:receive(0.2))
      gate:send(true)
      assert.equal("Reply", busy:receive().type)
      assert.equal("CloseConnection", busy:receive().type)
      idle:close()
      busy:close()
      eventually(function() return broker.server.pool.count <= 1 end, "two connections closed")
    end)
  end)

  it("on messages are what a client may send: beyond them MessageError", function()
    with_server(echo, { limits = { message = 1000 } }, function(_, port)
      local c <close> = giop.connect(port)
      assert.equal(900 + #"hello, ", #giop.text(c:call("say", "echo", giop.string(("x"):rep(900))).body))
      c:request("say", "echo", giop.string(("x"):rep(2000)))
      assert.equal("MessageError", c:receive().type)
      assert.is_nil((c:receive()))
    end)
  end)

  it("on messages in fragments: how many, and how large together", function()
    with_server(echo, { limits = { unfinished = 3, pending = 4096, message = 100000 } }, function(_, port)
      local function fragments(c, n, size)
        for id = 1, n do
          local whole = c:message("say", "echo", giop.string(("x"):rep(size)), { id = id })
          local cut = 12 + (#whole - 12) // 2 // 8 * 8 + 4
          cut = cut - cut % 8
          c:write("GIOP\1\2\3\0" .. string.pack("<I4", cut - 12) .. whole:sub(13, cut))
        end
      end
      for _, case in ipairs { { 4, 40 }, { 2, 8000 } } do
        local c <close> = giop.connect(port)
        fragments(c, table.unpack(case))
        assert.equal("MessageError", c:receive().type)
        assert.is_nil((c:receive()))
      end
      local c <close> = giop.connect(port)
      fragments(c, 3, 40)
      local whole = c:message("say", "echo", giop.string(("x"):rep(40)), { id = 2 })
      local cut = 12 + (#whole - 12) // 2 // 8 * 8 + 4
      cut = cut - cut % 8
      local rest = whole:sub(cut + 1)
      c:write("GIOP\1\2\1\7" .. string.pack("<I4I4", #rest + 4, 2) .. rest)
      local r = c:receive()
      assert.same({ "Reply", 2, "hello, " .. ("x"):rep(40) }, { r.type, r.id, giop.text(r.body) })
    end)
  end)

  it("are checked when the broker is made", function()
    for _, limits in ipairs { { requests = 0 }, { requests = "many" }, { clients = 3 } } do
      assert.has_error(function() orb.init { limits = limits, host = "127.0.0.1" } end)
    end
  end)
end)

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

describe("the address in a reference", function()
  local function profile_of(options)
    local broker <close> = orb.init(options)
    broker:load(IDL)
    local ref = broker:serve(echo, "Spec::Echo", { key = "echo" })
    local t = ior.parse(assert(ior.destring(tostring(ref))))
    return t.profiles[1], broker.server.opened[1].port, t
  end

  it("is never that of all interfaces, and one connects there", function()
    for _, options in ipairs { {}, { port = 0 }, { host = "0.0.0.0" }, { host = "::" }, { ORBendPoint = "giop:tcp::" },
                               { args = { "-ORBendPoint", "giop:tcp::0" } } } do
      local broker = orb.init(options)
      broker:load(IDL)
      local t = ior.parse(assert(ior.destring(tostring(broker:serve(echo, "Spec::Echo", { key = "echo" })))))
      local p = t.profiles[1]
      assert.is_nil(({ ["0.0.0.0"] = 1, ["::"] = 1, [""] = 1, ["*"] = 1 })[p.host])
      assert.is_true(p.port > 0)
      local c = giop.connect(p.port, p.host)
      assert.equal("hello, x", giop.text(c:call("say", p.key, giop.string "x").body))
      c:close()
      broker:shutdown(true)
    end
  end)

  it("is the one that was asked for", function()
    local p, port = profile_of { host = "127.0.0.1" }
    assert.same({ "127.0.0.1", port }, { p.host, p.port })
    p = profile_of { ORBendPoint = "giop:tcp:localhost:" }
    assert.equal("localhost", p.host)
    p, port = profile_of { ORBendPoint = { "giop:tcp:127.0.0.1:", "giop:tcp:[::1]:" } }
    assert.same({ "127.0.0.1", port }, { p.host, p.port })
    assert.equal("::1", ior.addresses(p)[2].host)
    p, port = profile_of { ORBendPoint = "giop:tcp:127.0.0.1:", ORBendPointPublish = "giop:tcp:outside.example:4444,addr" }
    assert.same({ "outside.example", 4444 }, { p.host, p.port })
    assert.same({ { host = "outside.example", port = 4444 }, { host = "127.0.0.1", port = port } }, ior.addresses(p))
    p, port = profile_of { ORBendPoint = { "giop:tcp:[::1]:", "giop:tcp:127.0.0.1:" }, ORBendPointPublish = "all(addr)" }
    assert.equal("127.0.0.1", p.host)
    assert.is_true(port ~= p.port)
    assert.equal("::1", ior.addresses(p)[2].host)
    p = profile_of { host = "127.0.0.1", ORBendPointPublish = "ipv6|ipv4" }
    assert.equal("127.0.0.1", p.host)
    p = profile_of { host = "127.0.0.1", ORBendPointNoListen = "giop:tcp:gate.example:99" }
    assert.equal("gate.example", ior.addresses(p)[2].host)
  end)

  it("may be one of IPv6", function()
    local broker <close> = orb.init { host = "::1" }
    broker:load(IDL)
    broker:serve(echo, "Spec::Echo", { key = "echo" })
    local c <close> = giop.connect(broker.server.opened[1].port, "::1")
    assert.equal("hello, six", giop.text(c:call("say", "echo", giop.string "six").body))
  end)

  it("comes with the code sets and who made it", function()
    local p, _, t = profile_of { host = "127.0.0.1" }
    assert.equal("IDL:Spec/Echo:1.0", t.type_id)
    assert.same({ 2, "echo" }, { p.minor, p.key })
    assert.equal(0x6d617265, (ior.component(ior.TAG_ORB_TYPE, ior.find(p, ior.TAG_ORB_TYPE))))
    assert.equal(0x05010001, ior.component(ior.TAG_CODE_SETS, ior.find(p, ior.TAG_CODE_SETS)).char.native)
  end)

  it("that can't be used is an error that says what to write", function()
    local function fails(options)
      local broker <close> = orb.init(options)
      broker:load(IDL)
      local ok, err = pcall(broker.serve, broker, echo, "Spec::Echo")
      assert.is_false(ok)
      return tostring(err)
    end
    assert.matches("no transport 'ssl' yet; write giop:tcp:host:port", fails { ORBendPoint = "giop:ssl:h:1" })
    assert.matches("'x' is no port", fails { ORBendPoint = "giop:tcp:h:x" })
    assert.matches("there is no rule 'nonsense'; there are", fails { host = "127.0.0.1", ORBendPointPublish = "nonsense" })
    local holder = require "mare.net".listen("127.0.0.1:0")
    local _, port = holder:address()
    assert.matches(("cannot listen on 127.0.0.1:%d: .*EADDRINUSE"):format(port), fails { host = "127.0.0.1", port = port })
    holder:close()
  end)
end)
