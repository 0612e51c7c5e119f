-- TLS of brokers: who is trusted and who is let in, what references say, and peers that lie or say nothing.
local mare = require "mare"
local net, tls = require "mare.net", require "mare.tls"
local orb = require "mare.orb"
local ior = require "mare.orb.giop.ior"
local security = require "mare.orb.giop.security"
local certificates = require "spec.support.certificates"
local giop = require "spec.support.iiop"
local proc = require "spec.support.proc"
local eventually = require "spec.support.serving".eventually
local channel, fiber = mare.channel, mare.fiber

local c
setup(function() c = certificates() end)
teardown(function() c.remove() end)

local IDL = "interface Door { string who(); string user(); Door me(); long add(in long a, in long b); };"
local LIMIT = 30 * proc.slow

local function own(more)
  local o = { ca = c.ca, cert = c.cert, key = c.key }
  for k, v in pairs(more or {}) do o[k] = v end
  return o
end

-- A server in this process; f gets its reference as a text, its broker and its log.
local function with(options, f)
  local log = {}
  options.args = options.args or { "-ORBendPoint", "giop:ssl:127.0.0.1:" }
  if not options.args[3] or options.args[1] ~= "-ORBsslCAFile" then options.tls = options.tls or own() end
  options.log = function(level, text) log[#log + 1] = level .. ": " .. text end
  local broker = orb.init(options)
  broker:load(IDL)
  local servant = { add = function(_, a, b) return a + b end, me = function(self) return self end }
  function servant.who()
    local peer = broker:current().peer
    return peer.host .. " " .. (peer.tls and tostring(peer.tls.subject) or "plain")
  end
  function servant.user() return broker:current().user or "" end
  local reference = tostring(broker:serve(servant, "Door", { key = "door" }))
  local fine, err = pcall(f, reference, broker, log)
  broker:shutdown(LIMIT)
  if not fine then error(err, 0) end
end

-- What f(proxy, broker) gives, or the text of its error.
local function calling(options, reference, f)
  options.timeout = options.timeout or LIMIT
  local broker <close> = orb.init(options)
  broker:load(IDL)
  local fine, result = pcall(function() return f(broker:proxy(reference, "Door"), broker) end)
  return fine and result or tostring(result)
end

local function who(o) return o:who() end
local function call(options, reference) return calling(options, reference, who) end
local function port_of(broker) return math.tointeger(tonumber((broker:address():match ":(%d+)$"))) end

describe("a broker with TLS", function()
  it("is called over it, knows who calls, and what it returns leads back over TLS", function()
    with({ tls = own { client_cert = "optional" } }, function(reference)
      assert.equal("127.0.0.1 nil", call({ tls = { ca = c.ca } }, reference))
      assert.equal("127.0.0.1 /CN=client one", call({ tls = { ca = c.ca, cert = c.client_cert, key = c.client_key } }, reference))
      assert.equal("127.0.0.1 nil", calling({ tls = { ca = c.ca } }, reference, function(o) return o:me():who() end))
    end)
  end)

  it("tells the fingerprint of a certificate", function()
    local server = assert(tls.listen("127.0.0.1:0", own()))
    local accepted = fiber.spawn(function() return server:accept(LIMIT):handshake(LIMIT) end)
    local conn = assert(tls.connect("127.0.0.1", select(2, server:address()), { ca = c.ca }))
    local f <close> = io.popen(("openssl x509 -in '%s' -noout -fingerprint -sha256"):format(c.cert))
    assert.equal(f:read("a"):match("=([%x:]+)"):gsub(":", ""):lower(), conn:tls().fingerprint)
    accepted:wait()
    conn:close()
    server:close()
  end)

  it("verifies its server unless it is told not to", function()
    with({}, function(reference, broker)
      assert.matches("NO_PERMISSION.*COMPLETED_NO.*certificate of the server is refused: self%-signed", call({}, reference))
      assert.matches("NO_PERMISSION.*certificate", call({ tls = { ca = c.other_ca } }, reference))
      local elsewhere = call({ tls = { ca = c.ca, hostname = "elsewhere" } }, reference)
      assert.matches("NO_PERMISSION.*certificate of elsewhere is refused: hostname mismatch", elsewhere)
      assert.equal("127.0.0.1 nil", call({ tls = { ca = c.ca, hostname = "a.example.org" } }, reference))
      assert.equal("127.0.0.1 nil", call({ tls = { verify = false } }, reference))
      assert.equal("127.0.0.1 nil", call({ args = { "-ORBsslVerifyMode", "none" } }, reference))
      local port = port_of(broker)
      local at_localhost = ("corbaloc:ssliop:1.2@localhost:%d/door"):format(port)
      assert.equal("127.0.0.1 nil", call({ tls = { ca = c.ca } }, at_localhost))
    end)
    with({ tls = own { cert = c.client_cert, key = c.client_key } }, function(reference)
      assert.matches("NO_PERMISSION.*certificate", call({ tls = { ca = c.ca } }, reference))
      assert.matches("NO_PERMISSION.*certificate", call({ tls = { ca = c.ca, hostname = false } }, reference))     -- it is for clients
    end)
    with({ tls = own { cert = c.expired, key = c.expired_key } }, function(reference)
      assert.matches("NO_PERMISSION.*expired", call({ tls = { ca = c.ca, hostname = false } }, reference))
    end)
  end)

  it("asks clients for certificates, and says so in references", function()
    with({ tls = own { client_cert = "required" } }, function(reference, _, log)
      assert.matches("NO_PERMISSION.*requires a certificate of its clients", call({ tls = { ca = c.ca } }, reference))
      local strange = call({ tls = { ca = c.ca, cert = c.self, key = c.self_key } }, reference)
      assert.is_true(strange:find "COMM_FAILURE" ~= nil or strange:find "NO_PERMISSION" ~= nil, strange)
      eventually(function() return (log[1] or ""):find("refused: the certificate of the client is refused", 1, true) end, "a log")
      assert.equal("127.0.0.1 /CN=client one", call({ tls = { ca = c.ca, cert = c.client_cert, key = c.client_key } }, reference))
    end)
  end)

  it("takes omniORB's options", function()
    local both = c.folder .. "/both.pem"
    local f = assert(io.open(both, "w"))
    f:write(c.text "cert", c.text "key")
    f:close()
    local args = { "-ORBsslCAFile", c.ca, "-ORBsslKeyFile", both, "-ORBsslVerifyMode", "peer,fail", "-ORBendPoint", "giop:ssl:127.0.0.1:" }
    with({ args = args }, function(reference)
      assert.equal("127.0.0.1 /CN=localhost", call({ args = { "-ORBsslCAFile", c.ca, "-ORBsslKeyFile", both } }, reference))
    end)
  end)

  it("says what is wrong with its options", function()
    local function wrong(options, text) assert.error_matches(function() orb.init(options):close() end, text) end
    wrong({ tls = { caa = "x" } }, "tls has no option 'caa'; did you mean 'ca'")
    wrong({ tls = true }, "tls is a table")
    wrong({ tls = { ca = "/no/such.pem" } }, "tls: cannot read the certificates to trust '/no/such.pem'")
    wrong({ tls = { cert = c.cert, key = c.client_key } }, "the private key is not that of the certificate")
    wrong({ tls = { hostname = 1 } }, "hostname is the name")
    wrong({ tls = { required = 1 } }, "required is true or false")
    wrong({ args = { "-ORBsslVerifyMode", "maybe" } }, "none, peer or peer,fail")
    wrong({ args = { "-ORBserverTransportRule", "10.0.0.0/99 tcp" } }, "an address mask")
    wrong({ allow = true }, "allow is a function")
    local broker <close> = orb.init { args = { "-ORBendPoint", "giop:ssl:127.0.0.1:" } }
    broker:load(IDL)
    assert.error_matches(function() broker:serve({}, "Door") end, "needs a certificate: orb.init{ tls =")
  end)

  it("serves an object by several processes", function()
    with({ tls = own { client_cert = "optional" } }, function(_, broker)
      local function factory(mine) return { who = function() return mine:current().peer.tls.subject end } end
      local shared = broker:serve(factory, "Door", { processes = 2 })
      assert.equal("/CN=client one", call({ tls = { ca = c.ca, cert = c.client_cert, key = c.client_key } }, tostring(shared)))
      assert.matches("NO_PERMISSION", call({}, tostring(shared)))
    end)
  end)
end)

describe("a reference", function()
  local function both() return { "-ORBendPoint", "giop:tcp:127.0.0.1:", "-ORBendPoint", "giop:ssl:127.0.0.1:" } end

  it("to a server with both has one profile, and who was given options of TLS uses that", function()
    with({ args = both() }, function(reference, broker)
      local parsed = ior.parse(ior.destring(reference))
      assert.equal(1, #parsed.profiles)
      local ways = security.ways(parsed.profiles[1])
      assert.same({ { host = "127.0.0.1", port = broker.server.opened[2].port, supports = 63, requires = 0 }, demanded = false }, ways)
      assert.equal("127.0.0.1 nil", call({ tls = { ca = c.ca } }, reference))
      local plain = ("corbaloc:iiop:1.2@127.0.0.1:%d/door"):format(broker.server.opened[1].port)
      assert.equal("127.0.0.1 plain", call({ tls = { ca = c.ca } }, plain))
      assert.matches("NO_PERMISSION.*offers no TLS, and this broker requires it", call({ tls = { ca = c.ca, required = true } }, plain))
      assert.matches("NO_PERMISSION.*offers no TLS", call({ args = { "-ORBclientTransportRule", "* ssl" } }, plain))
    end)
  end)

  it("to a server with both may be called without TLS by who was given nothing of it", function()
    for _, client_cert in ipairs { "none", "required" } do
      with({ args = both(), tls = own { client_cert = client_cert } }, function(reference)
        assert.equal("127.0.0.1 plain", call({}, reference))
        assert.equal("127.0.0.1 plain", call({ tls = { ca = c.other_ca }, args = { "-ORBclientTransportRule", "* tcp" } }, reference))
        assert.equal("127.0.0.1 plain", calling({}, reference, function(o) return o:me():who() end))
        assert.matches("NO_PERMISSION.*certificate", call({ args = { "-ORBclientTransportRule", "* ssl" } }, reference))
        assert.equal("127.0.0.1 " .. (client_cert == "required" and "/CN=client one" or "nil"),
          call({ tls = { ca = c.ca, cert = c.client_cert, key = c.client_key } }, reference))
      end)
    end
    with({}, function(reference)
      assert.matches("NO_PERMISSION.*demands TLS, which %-ORBclientTransportRule leaves out",
        call({ args = { "-ORBclientTransportRule", "* tcp" } }, reference))
    end)
  end)

  it("is never followed over TCP when TLS has failed", function()
    with({ args = both() }, function(reference, broker)
      assert.matches("NO_PERMISSION", call({ tls = { ca = c.other_ca } }, reference))
      assert.equal(0, broker.server.pool.accepted)
    end)
  end)

  it("to several hosts has a profile for each that the first doesn't share", function()
    local bytes = ior.iiop { type_id = "", key = "k", tls = { supports = 62, requires = 6 }, addresses = {
      { "a", 1 }, { "b", 2, tls = true }, { "a", 3, tls = true }, { "c", 4 } } }
    local seen = {}
    for i, p in ipairs(ior.parse(bytes).profiles) do
      local ways = security.ways(p)
      seen[i] = { p.port, #ior.addresses(p), ways[1].host, ways[1].port }
    end
    assert.same({ { 1, 2, "a", 3 }, { 0, 1, "b", 2 } }, seen)
  end)

  -- A profile with port 0 and TAG_CSI_SEC_MECH_LIST, as CSIv2 has it.
  local function with_mechanisms(mechanisms, port)
    local function capsule(format, ...) return string.pack("<!4I1" .. format, 1, ...) end
    local transport = capsule("!2I2I2!4I4s4I2", 62, 6, 1, "127.0.0.1\0", port)
    local one = string.pack("<!4I2I4s4!2I2I2!4s4s4!2I2I2!4I4I4I4", 6, security.TAG_TLS_SEC_TRANS, transport, 0, 0, "", "", 0, 0, 0, 0, 0)
    local list = string.pack("<!4I1I1!4I4", 1, 0, mechanisms) .. one
    return ior.make { type_id = "IDL:Door:1.0", profiles = { { tag = 0, minor = 2, host = "127.0.0.1", port = 0, key = "door", components = {
      { security.TAG_CSI_SEC_MECH_LIST, list } } } } }
  end

  it("may say how to reach its server securely by a list of mechanisms", function()
    with({}, function(_, broker)
      local bytes = with_mechanisms(1, port_of(broker))
      assert.equal("127.0.0.1 nil", call({ tls = { ca = c.ca } }, ior.stringify(bytes)))
      local list = security.mechanisms(ior.parse(bytes).profiles[1].components[1][2])
      assert.equal(port_of(broker), list[1].transport.addresses[1].port)
      assert.same({ 6, "Integrity, Confidentiality" }, { list[1].requires, security.names(list[1].requires) })
    end)
  end)

  it("that lies about its security is an error, whatever it holds", function()
    local bytes = with_mechanisms(1 << 30, 9)
    assert.matches("TRANSIENT.*it has port 0", call({}, ior.stringify(bytes)))
    local _, why = security.mechanisms(ior.parse(bytes).profiles[1].components[1][2])
    assert.equal("1073741824 mechanisms, more than 64", why)
    local good = with_mechanisms(1, 9)
    local list = ior.parse(good).profiles[1].components[1][2]
    for n = 0, #list - 1 do
      local value
      value, why = security.mechanisms(list:sub(1, n))
      assert.is_nil(value)
      assert.equal("string", type(why))
    end
    assert.is_nil((security.ssl "\1"))
    assert.is_nil((security.tls "\1\0\1\0\1\0\0\0\255\255\255\127"))
  end)
end)

describe("a peer that never finishes its handshake", function()
  it("is closed in time and holds up nobody", function()
    with({ limits = { handshake = 0.05 } }, function(reference, broker, log)
      local silent = assert(net.connect("127.0.0.1", port_of(broker)))
      local half = assert(net.connect("127.0.0.1", port_of(broker)))
      half:write("\22\3\1\2\0\1\0")               -- the head of a ClientHello
      assert.equal("127.0.0.1 nil", call({ tls = { ca = c.ca } }, reference))
      for _, conn in ipairs { silent, half } do
        local got, _, code = conn:read("a", LIMIT)
        assert.is_true(got ~= nil or code == "ECONNRESET")
        conn:close()
      end
      eventually(function() return #log == 2 and broker.server.pool.waiting == 0 end, "both are gone")
      assert.matches("no handshake of TLS within 0.05 seconds", log[1])
    end)
  end)

  it("doesn't keep a server from stopping", function()
    local silent
    with({ limits = { handshake = LIMIT } }, function(_, broker)
      silent = assert(net.connect("127.0.0.1", port_of(broker)))
      eventually(function() return broker.server.pool.waiting == 1 end, "it is in its handshake")
    end)
    local got, _, code = silent:read("a", LIMIT)
    assert.is_true(got == "" or code == "ECONNRESET")
    silent:close()
  end)

  it("is given up by a client", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local reference = ("corbaloc:ssliop:127.0.0.1:%d/door"):format(select(2, server:address()))
    assert.matches("TRANSIENT.*no handshake of TLS within 0.05 seconds", call({ limits = { handshake = 0.05 }, tls = { ca = c.ca } }, reference))
    assert.matches("TIMEOUT.*COMPLETED_NO", call({ timeout = 0.05, tls = { ca = c.ca } }, reference))
    server:close()
  end)

  it("counts as a connection", function()
    with({ limits = { handshake = LIMIT, connections = 2 } }, function(reference, broker)
      local a = assert(net.connect("127.0.0.1", port_of(broker)))
      local b = assert(net.connect("127.0.0.1", port_of(broker)))
      eventually(function() return broker.server.pool.waiting == 2 end, "two are in their handshakes")
      local caller = fiber.spawn(call, { tls = { ca = c.ca } }, reference)
      assert.same({ nil, "timeout" }, { caller:wait(0.02) })
      a:close()
      assert.same({ true, "127.0.0.1 nil" }, { caller:wait(LIMIT) })
      b:close()
    end)
  end)
end)

describe("bytes that don't belong there", function()
  it("end a connection: plain GIOP where TLS is spoken, TLS where GIOP is", function()
    with({}, function(_, broker)
      assert.matches("COMM_FAILURE", call({}, ("corbaloc:iiop:1.2@127.0.0.1:%d/door"):format(port_of(broker))))
    end)
    with({ args = { "-ORBendPoint", "giop:tcp:127.0.0.1:" } }, function(_, broker)
      local result = call({ tls = { ca = c.ca } }, ("corbaloc:ssliop:127.0.0.1:%d/door"):format(port_of(broker)))
      assert.matches("TRANSIENT.*TLS", result)
    end)
  end)

  it("inside of TLS are refused as without it", function()
    with({}, function(_, broker, log)
      local conn = assert(tls.connect("127.0.0.1", port_of(broker), { ca = c.ca }))
      conn:write("GET / HTTP/1.0\r\n\r\n")
      assert.matches("^GIOP", conn:read("a", LIMIT))
      conn:close()
      eventually(function() return (log[1] or ""):find "a client was refused" end, "a log")
    end)
  end)
end)

describe("who may come in", function()
  it("is bounded by address", function()
    with({ limits = { peer = 2 } }, function(reference, broker, log)
      local door = broker.server.door
      calling({ tls = { ca = c.ca } }, reference, function(first)
        first:who()
        calling({ tls = { ca = c.ca } }, reference, function(second)
          second:who()
          assert.equal(2, door.hosts["127.0.0.1"])
          assert.matches("TRANSIENT", call({ tls = { ca = c.ca } }, reference))
          assert.matches("127.0.0.1 was refused: it has the 2 connections", log[1])
        end)
      end)
      eventually(function() return door.hosts["127.0.0.1"] == nil end, "all have left")
      assert.equal("127.0.0.1 nil", call({ tls = { ca = c.ca } }, reference))
    end)
  end)

  it("is said by rules, by address and by transport", function()
    local function only(rule) return { "-ORBendPoint", "giop:tcp:127.0.0.1:", "-ORBserverTransportRule", rule } end
    local function plain(broker) return call({}, ("corbaloc:iiop:1.2@127.0.0.1:%d/door"):format(port_of(broker))) end
    with({ args = only "localhost tcp" }, function(_, broker) assert.equal("127.0.0.1 plain", plain(broker)) end)
    with({ args = only "127.0.0.0/8 ssl" }, function(_, broker) assert.matches("COMM_FAILURE", plain(broker)) end)
    with({ args = only "10.0.0.0/8 tcp,ssl" }, function(_, broker, log)
      assert.matches("COMM_FAILURE", plain(broker))
      assert.matches("127.0.0.1 was refused: no rule", log[1])
    end)
  end)

  it("is said by a function of the program, which may look at certificates", function()
    local known
    local function allow(peer)
      known = known or peer.tls.fingerprint
      return peer.tls.fingerprint == known
    end
    with({ tls = own { client_cert = "required" }, allow = allow }, function(reference, _, log)
      assert.equal("127.0.0.1 /CN=client one", call({ tls = { ca = c.ca, cert = c.client_cert, key = c.client_key } }, reference))
      assert.matches("COMM_FAILURE", call({ tls = { ca = c.ca, cert = c.peer_cert, key = c.peer_key } }, reference))
      assert.matches("'allow' said no", log[1])
    end)
    with({ allow = function() error "oh" end }, function(reference, _, log)
      assert.matches("COMM_FAILURE", call({ tls = { ca = c.ca } }, reference))
      assert.matches("'allow' failed: .*oh", log[1])
    end)
  end)

  it("is not held up by who is still asked about", function()
    local gate, asked = channel.new(), channel.new(9)
    local n = 0
    local function allow()
      n = n + 1
      if n > 1 then return true end
      asked:send(true)
      return gate:receive()
    end
    with({ args = { "-ORBendPoint", "giop:tcp:127.0.0.1:" }, allow = allow }, function(_, broker)
      local first = giop.connect(port_of(broker))
      assert.is_true(asked:receive(LIMIT))
      assert.equal("127.0.0.1 plain", call({}, ("corbaloc:iiop:1.2@127.0.0.1:%d/door"):format(port_of(broker))))
      gate:send(true)
      assert.equal(1, first:request("who", "door"))
      assert.equal(1, first:receive().id)
      first:close()
    end)
  end)
end)

describe("a name and a password", function()
  local gssup = require "mare.orb.giop.gssup"

  it("go with each request, over TLS, to a server that asks for them", function()
    local asked = 0
    local function authenticate(user, password, peer)
      asked = asked + 1
      if user == "broken" then error "oh" end
      return user == "ann" and password == "s\0cret" and peer.host == "127.0.0.1"
    end
    with({ authenticate = authenticate }, function(reference, broker, log)
      local function as(user, password) return { tls = { ca = c.ca }, user = user, password = password } end
      assert.equal("127.0.0.1 nil", call(as("ann", "s\0cret"), reference))
      assert.equal("ann", calling(as("ann", "s\0cret"), reference, function(o) return o:user() end))
      assert.matches("NO_PERMISSION.*the name and the password of 'ann' were refused", call(as("ann", "wrong"), reference))
      assert.matches("NO_PERMISSION", call(as("broken", ""), reference))
      assert.matches("NO_PERMISSION.*COMPLETED_NO.*wants a name and a password", call({ tls = { ca = c.ca } }, reference))
      local bare = ("corbaloc:ssliop:127.0.0.1:%d/door"):format(port_of(broker))
      assert.matches("NO_PERMISSION.*does not ask for a name and a password, so none were sent; .*use the IOR", call(as("ann", "s\0cret"), bare))
      assert.matches("'authenticate' said no to 'ann'", table.concat(log, "\n"))
      assert.matches("'authenticate' failed: .*oh", table.concat(log, "\n"))
      assert.matches("it does not say who it is", table.concat(log, "\n"))
      asked = 0
      calling(as("ann", "s\0cret"), reference, function(o)
        for i = 1, 5 do assert.equal(i + 1, o:add(i, 1)) end
      end)
      assert.equal(1, asked)                       -- once a connection, while it says the same
    end)
  end)

  it("are confirmed to a client that would remember them", function()
    local core = require "mare.orb.giop.core"
    for _, little in ipairs { true, false } do
      for minor = 0, 2 do
        local reply = core.reply(minor, little, 7, 0, { { 4, "abc" } }, "the body")
        local kind, _, _, id, status, at, contexts = core.parse(gssup.completed(reply, 5))
        assert.same({ 1, 7, 0, "abc" }, { kind, id, status, contexts[4] })
        assert.equal(at - 32, (select(6, core.parse(reply))))
        assert.equal(string.pack((little and "<" or ">") .. "!8I1xi2I8I1xxxI4", little and 1 or 0, 1, 5, 1, 0), contexts[15])
      end
    end
  end)

  it("may be named by an id once they were said on a connection", function()
    local core, door = require "mare.orb.giop.core", require "mare.orb.door"
    local gate, refused = channel.new(), {}
    local dispatch = { note = function(_, _, text) refused[#refused + 1] = text end, refuse = function() return "refused" end }
    local guarded = door.guard(function(_, job) return core.reply(2, true, 1, 0, nil, job.user) end, function(user)
      if user == "slow" then gate:receive() end
      return user ~= "nobody"
    end)
    local socket = { peer = function() return "here", 1 end, tls = function() end }
    local peer = { connection = { socket = socket } }
    local function ask(context)
      local job = { peer = peer }
      local reply = guarded(dispatch, job, core.request(2, true, 3, "key", "op", context and { { gssup.CONTEXT, context } }, 1, ""), 1, "key", "op")
      if reply == "refused" then return reply end
      local _, _, _, _, _, at, contexts = core.parse(reply)
      return reply:sub(at), contexts ~= nil and contexts[gssup.CONTEXT] ~= nil
    end
    local function say(user, id)
      local data = gssup.establish(user, "", "")
      return ask(data:sub(1, 8) .. string.pack("<I8", id) .. data:sub(17))
    end
    local function named(id) return ask(string.pack("<!8I1xi2I8I1", 1, 5, id, 0)) end
    assert.same({ "ann", true }, { say("ann", 9) })
    assert.same({ "ann", false }, { named(9) })
    assert.same({ "eve", false }, { say("eve", 0) })
    assert.same({ "ann", false }, { named(9) })
    assert.equal("refused", (named(8)))
    assert.equal("refused", (say("nobody", 8)))
    assert.equal("refused", (named(8)))
    assert.equal("refused", (ask(nil)))
    assert.same({ "it names what it has not said on this connection", "'authenticate' said no to 'nobody'" },
                { refused[1]:match ": (.*)", refused[2]:match ": (.*)" })
    local first = fiber.spawn(say, "slow", 7)
    fiber.yield()
    local second = fiber.spawn(named, 7)
    assert.same({ nil, "timeout" }, { second:wait(0.01) })
    gate:close()
    assert.same({ true, "slow", true }, { first:wait(LIMIT) })
    assert.same({ true, "slow", false }, { second:wait(LIMIT) })
    for id = 100, 300 do say("u" .. id, id) end
    local n = 0
    for _ in pairs(peer.known) do n = n + 1 end
    assert.is_true(n <= 64 and next(peer.asking) == nil)
    assert.equal("u300", (named(300)))
  end)

  it("may be given on the command line, the password in a file", function()
    local path = c.folder .. "/password"
    local f = assert(io.open(path, "w"))
    f:write("secret\nmore\n")
    f:close()
    with({ authenticate = function(user, password) return user == "ann" and password == "secret" end }, function(reference)
      local args = { "-ORBsslCAFile", c.ca, "-ORBuser", "ann", "-ORBpasswordFile", path }
      assert.equal("ann", calling({ args = args }, reference, function(o) return o:user() end))
      assert.matches("or %-ORBuser and %-ORBpasswordFile", call({ tls = { ca = c.ca } }, reference))
    end)
    assert.error_matches(function() orb.init { args = { "-ORBuser", "ann" } } end, "belong together, as do %-ORBuser and %-ORBpasswordFile")
    assert.error_matches(function() orb.init { args = { "-ORBuser", "ann", "-ORBpasswordFile", "/no/such" } } end, "no password in '/no/such'")
  end)

  it("are asked for over TLS only", function()
    local broker <close> = orb.init { host = "127.0.0.1", authenticate = function() return true end }
    broker:load(IDL)
    assert.error_matches(function() broker:serve({}, "Door") end, "passwords go over TLS only")
    assert.error_matches(function() orb.init { user = "x" } end, "user and password belong together")
    assert.error_matches(function() orb.init { user = 1, password = "x" } end, "user is a text")
    assert.error_matches(function() orb.init { authenticate = true } end, "authenticate is a function")
  end)

  it("are read from bytes that may be anything", function()
    local data = gssup.establish("ann", "secret", gssup.exported "here")
    assert.same({ user = "ann", password = "secret", target = gssup.exported "here", id = 0 }, gssup.read(data))
    local long = gssup.establish(("u"):rep(300), ("p"):rep(300), "")
    assert.equal(("p"):rep(300), gssup.read(long).password)
    for n = 0, #data - 1 do
      local t, why = gssup.read(data:sub(1, n))
      assert.is_nil(t)
      assert.equal("string", type(why))
    end
    for i = 1, #data do
      for _, b in ipairs { 0, 1, 127, 128, 255 } do
        local t, why = gssup.read(data:sub(1, i - 1) .. string.char(b) .. data:sub(i + 1))
        assert.is_true(t ~= nil or type(why) == "string")
      end
    end
    assert.same({ nil, "it has 5000 bytes" }, { gssup.read(("x"):rep(5000)) })
  end)
end)

describe("a rule", function()
  local rules = require "mare.orb.rules"
  local function may(texts, host, transport, here)
    local list = {}
    for i, text in ipairs(texts) do list[i] = assert(rules.read(text)) end
    return rules.allow(list, host, here, transport or "tcp")
  end

  it("fits by mask; the first that fits counts", function()
    local list = { "10.1.0.0/16 none", "10.0.0.0/255.0.0.0 tcp,ssl", "192.168.7.5 ssl", "fd00::/8 tcp" }
    assert.is_false(may(list, "10.1.2.3"))
    assert.is_true(may(list, "10.2.2.3"))
    assert.is_true(may(list, "::ffff:10.2.2.3"))
    assert.is_false(may(list, "192.168.7.5"))
    assert.is_true(may(list, "192.168.7.5", "ssl"))
    assert.is_false(may(list, "192.168.7.6", "ssl"))
    assert.is_true(may(list, "fd12::1"))
    assert.is_true(may(list, "fdff:1:2:3:4:5:6:7"))
    assert.is_false(may(list, "fe80::1%eth0"))
    assert.is_false(may(list, "no address"))
    assert.is_true(may({ "172.16.0.0/12 tcp" }, "172.31.255.255"))
    assert.is_false(may({ "172.16.0.0/12 tcp" }, "172.32.0.0"))
    assert.is_true(may({ "* tcp" }, nil))
  end)

  it("knows this machine", function()
    assert.is_true(may({ "localhost tcp" }, "127.0.0.2"))
    assert.is_true(may({ "localhost tcp" }, "::1"))
    assert.is_true(may({ "localhost tcp" }, "10.0.0.7", "tcp", "10.0.0.7"))
    assert.is_false(may({ "localhost tcp" }, "10.0.0.8", "tcp", "10.0.0.7"))
  end)

  it("that is none is refused", function()
    for _, text in ipairs { "", "*", "* udp", "10.0.0.0/33 tcp", "10.0.0/8 tcp", "1.2.3.256 tcp", "10.0.0.0/255.0.255.0 tcp", "::1::2 tcp", "1:2 tcp",
                            "fd00::/129 tcp", "fd00::/255.0.0.0 tcp", "host tcp" } do
      local rule, why = rules.read(text)
      assert.is_nil(rule, text)
      assert.matches("an address mask", why)
    end
  end)
end)
