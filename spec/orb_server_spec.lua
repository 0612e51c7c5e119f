-- The server on the wire: what it answers to GIOP messages, good and bad. The client is raw bytes: spec.support.iiop.lua.
local mare = require "mare"
local net = require "mare.net"
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

  it("gets the declared exception, and UNKNOWN for one that is not declared", function()
    local servant = {}
    function servant:refuse(why)
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
    with_server({ note = function(_, text) notes:send(text) if text == "bad" then error "oops" end end }, nil, function(_, port, log)
      local c <close> = giop.connect(port)
      c:request("note", "echo", giop.string "one", { response = 0 })
      c:request("note", "echo", giop.string "bad", { response = 0 })
      c:request("nonsense", "nobody", nil, { response = 0 })
      c:request("note", "echo", giop.string "three", { response = 0 })
      assert.same({ "one", "bad", "three" }, { notes:receive(), notes:receive(), notes:receive() })
      assert.equal(3, c:call("_is_a", "echo", giop.string "IDL:Spec/Echo:1.0").message:byte(8) + 2)
      assert.equal(1, #log)
      assert.matches("oops", log[1])
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
    function servant:wait(n)
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
      local ok, peer = next(broker.server.pool.peers), nil
      peer = ok
      assert.equal(0, peer.n)
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
