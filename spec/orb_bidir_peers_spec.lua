-- Calls back over the connection that the client opened: mare with omniORB and JacORB, each as client and as server, with TLS and without.
-- The clients' own ports take no connection, where the client can be told so; and nobody tries.
-- runs under: mare
-- needs: plain
local orb = require "mare.orb"
local subprocess = require "mare.subprocess"
local both = require "spec.orb_peers.both"
local foreign = require "spec.support.foreign"

local THREADS, TIMES = 4, 25
local GOOD = ("talk heard one\nchatter %d of %d, heard %d\nprovoke "):format(THREADS * TIMES, THREADS * TIMES, THREADS * TIMES + 1)
local cpp = "build/orb_peers/bidir-cpp/"
local classes = "build/orb_peers/bidir-java/classes:build/orb_peers/jars/*"

local function words(...)
  local all = {}
  for _, list in ipairs { ... } do table.move(list, 1, #list, #all + 1, all) end
  return all
end

local function missing(what)
  return foreign.built(what)
end

local function java(class, properties)
  return words({ "java", "-XX:+UseSerialGC", "-cp", classes, "-DOAIAddr=127.0.0.1" }, properties, { class })
end

-- Options of mare as a server and as a client; with TLS those that its certificates need, too.
local function options_of(role, tls)
  local args = tls and tls:words("mare", role) or { "-ORBendPoint", "giop:tcp:127.0.0.1:" }
  local more = role == "server" and { "-ORBacceptBiDirectionalGIOP", "1", "-ORBserverTransportRule", "localhost tcp,ssl,bidir" } or
    { "-ORBofferBiDirectionalGIOP", "1" }
  return { args = words(args, more), log = function() end }
end

-- A client's program against mare: what it prints. Nothing was connected to.
local function against_mare(command, tls)
  local broker = orb.init(options_of("server", tls))
  broker:loadfile(both.idl)
  local reference = tostring(broker:serve(both.talker(), "Both::Talker"))
  for i, word in ipairs(command) do command[i] = word == "REF" and reference or word end
  command.stderr, command.timeout = "null", 60
  local r, err, _, partial = subprocess.run(command)
  local opened = broker.transport.opened
  broker:shutdown(5)
  assert(r, tostring(err) .. (partial and partial.out or ""))
  assert.equal(0, opened)
  return r.out
end

-- mare against a server's program. Nothing connects to mare, whose port is closed.
local function against(command, tls)
  command.stderr, command.stdin = "null", "pipe"
  local handle = assert(subprocess.spawn(command))
  local reference = assert(handle.stdout:read("l", 30))
  local broker = orb.init(options_of("client", tls))
  broker:loadfile(both.idl)
  broker:need_server():open()
  broker.server.opened[1].listener:close()
  local fine, out = pcall(both.run, broker, reference, THREADS, TIMES)
  broker:shutdown(5)
  handle:kill "KILL"
  handle:wait()
  assert(fine, tostring(out))
  return out
end

local function omniORB(role, tls)
  local transport = tls and "ssl" or "tcp"
  local args = tls and tls:words("omniORB", role) or { "-ORBendPoint", "giop:tcp:127.0.0.1:" }
  local rule = ("* %s,bidir"):format(transport)
  if role == "client" then
    return words({ cpp .. "client", "REF", tostring(THREADS), tostring(TIMES) }, args,
      { "-ORBofferBiDirectionalGIOP", "1", "-ORBclientTransportRule", rule, "-ORBserverTransportRule", "* none" })
  end
  return words({ cpp .. "server" }, args, { "-ORBacceptBiDirectionalGIOP", "1", "-ORBserverTransportRule", rule, "-ORBclientTransportRule", rule })
end

local function JacORB(role, tls)
  local command = java(role == "client" and "BothClient" or "BothServer", tls and tls:properties(role) or {})
  return role == "client" and words(command, { "REF", tostring(THREADS), tostring(TIMES) }) or command
end

local function cases(tls_of)
  it("omniORB's client, mare's server", function()
    if missing "bidir-cpp" then return foreign.skip(missing "bidir-cpp") end
    assert.equal(GOOD .. "TIMEOUT\n", against_mare(omniORB("client", tls_of()), tls_of()))
  end)
  it("mare's client, omniORB's server", function()
    if missing "bidir-cpp" then return foreign.skip(missing "bidir-cpp") end
    assert.equal(GOOD .. "nothing\n", against(omniORB("server", tls_of()), tls_of()))
  end)
  it("JacORB's client, mare's server", function()
    if missing "bidir-java" then return foreign.skip(missing "bidir-java") end
    assert.equal(GOOD .. "TIMEOUT\n", against_mare(JacORB("client", tls_of()), tls_of()))
  end)
  it("mare's client, JacORB's server", function()
    if missing "bidir-java" then return foreign.skip(missing "bidir-java") end
    assert.equal(GOOD .. "nothing\n", against(JacORB("server", tls_of()), tls_of()))
  end)
end

describe("callbacks over the client's connection:", function() cases(function() end) end)

describe("callbacks over the client's connection with TLS:", function()
  local tls
  setup(function() tls = require "spec.orb_peers.tls".new() end)
  teardown(function() tls:remove() end)
  cases(function() return tls end)
end)
