-- What the server answers to requests, and to questions where an object is. The client is raw bytes: spec/support/iiop.lua.
local mare = require "mare"
local orb = require "mare.orb"
local ior = require "mare.orb.giop.ior"
local giop = require "spec.support.iiop"
local serving = require "spec.support.serving"
local fiber, channel = mare.fiber, mare.channel
local with_server, echo, system = serving.with, serving.echo, serving.system

local OMG = 0x4f4d0000

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
      assert.equal("hello, you", giop.text(c:call("say", "echo", giop.string "you").body))
    end)
  end)

  it("for its interface gets INTF_REPOS where the program wants no repository", function()
    with_server(echo, { repository = false }, function(_, port)
      local c <close> = giop.connect(port)
      assert.same({ "INTF_REPOS", OMG | 1, "NO" }, system(c, "_interface", "echo"))
      assert.same({ "OBJECT_NOT_EXIST", OMG | 1, "NO" }, system(c, "_get_def_kind", "InterfaceRepository"))
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
      assert.same({ "NO_IMPLEMENT", 0, "NO" }, system(c, "say", key, giop.string "x"))
      assert.matches("^1: operation 'say' of an object IDL:Spec/Echo:1.0: the servant's 'say' is a number, not a method", log[3])
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
