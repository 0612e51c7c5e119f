-- Where a server listens, and which address its references have.
local orb = require "mare.orb"
local ior = require "mare.orb.giop.ior"
local giop = require "spec.support.iiop"
local serving = require "spec.support.serving"
local echo, IDL = serving.echo, serving.IDL

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
    assert.equal(0x00010001, ior.component(ior.TAG_CODE_SETS, ior.find(p, ior.TAG_CODE_SETS)).char.native)
    p = profile_of { host = "127.0.0.1", codeset = "UTF-8" }
    assert.equal(0x05010001, ior.component(ior.TAG_CODE_SETS, ior.find(p, ior.TAG_CODE_SETS)).char.native)
  end)

  it("that can't be used is an error that says what to write, of orb.init's where it is the option that is wrong", function()
    local function fails(options)
      local ok, err = pcall(orb.init, options)
      assert.is_false(ok)
      return tostring(err)
    end
    assert.matches("no transport 'htiop'; write giop:tcp:host:port", fails { ORBendPoint = "giop:htiop:h:1" })
    assert.matches("no transport 'tls'; write giop:tcp:host:port.* ssl for tcp", fails { args = { "-ORBendPoint", "giop:tls:127.0.0.1:" } })
    assert.matches("does not begin with giop:tcp:", fails { ORBendPoint = { "giop:tcp:127.0.0.1:", "tcp:127.0.0.1:0" } })
    assert.matches("'x' is no port", fails { ORBendPoint = "giop:tcp:h:x" })
    assert.matches("there is no rule 'nonsense'; there are", fails { host = "127.0.0.1", ORBendPointPublish = "nonsense" })
    assert.matches("there is no rule 'foo%(bar%)'; there are", fails { ORBendPointPublish = "addr|ipv4,foo(bar)" })
    assert.matches("'giop:tcp::': an address that clients use has a host", fails { ORBendPointNoListen = "giop:tcp::" })
    orb.init { ORBendPoint = "giop:unix:", ORBendPointPublish = { "all(addr),fqdn", "giop:tcp:door:|giop:ssl:door:7" } }:close()
    local holder = require "mare.net".listen("127.0.0.1:0")
    local _, port = holder:address()
    local broker <close> = orb.init { host = "127.0.0.1", port = port }
    broker:load(IDL)
    local ok, err = pcall(broker.serve, broker, echo, "Spec::Echo")
    assert.is_false(ok)
    assert.matches(("cannot listen on 127.0.0.1:%d: .*EADDRINUSE"):format(port), tostring(err))
    holder:close()
  end)
end)
