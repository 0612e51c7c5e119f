-- Unix sockets (giop:unix:), which way to a server is taken, and by which rules.
-- runs under: mare
local mare = require "mare"
local orb = require "mare.orb"
local ior = require "mare.orb.giop.ior"
local machine = require "mare.orb.machine"
local both = require "spec.orb_peers.both"
local proc = require "spec.support.proc"
local subprocess = require "mare.subprocess"
local foreign = require "spec.support.foreign"
local temporary = require "spec.support.temporary"

local IDL = "interface Door { string who(); long process(); string peer(); };"

-- f(folder), a folder for sockets that is removed again; it must be empty then.
local function with_folder(f)
  local folder = temporary()
  os.remove(folder)
  assert(mare.file.mkdir(folder))
  local results = table.pack(pcall(f, folder))
  local left = mare.file.list(folder)
  assert(mare.file.remove(folder, "all"))
  if not results[1] then error(results[2], 0) end
  assert.same({}, left)
end

-- f(reference, broker): of a server with these options.
local function with_server(options, f)
  local broker = orb.init(options)
  broker:load(IDL)
  local ref = broker:serve({
    who = function() return "me" end,
    peer = function() return ("%s %d %s"):format(broker:current().peer.host, broker:current().peer.port, broker:current().peer.unix) end,
  }, "Door", { key = "door" })
  local results = table.pack(pcall(f, tostring(ref), broker))
  broker:shutdown(5 * proc.slow)
  if not results[1] then error(results[2], 0) end
end

local function call(options, reference, f)
  local broker <close> = orb.init(options)
  broker:load(IDL)
  local ok, what = pcall(f or function(door) return door:who() end, broker:proxy(reference, "Door"))
  return ok and what or tostring(what), broker
end

local function first(reference) return ior.parse(ior.destring(reference)).profiles[1] end

describe("a Unix socket", function()
  it("serves and is called; its file has the mode that was asked for, and goes with the server", function()
    with_folder(function(folder)
      local path = folder .. "/s"
      for _, mode in ipairs { "0600", "770" } do
        with_server({ args = { "-ORBendPoint", "giop:unix:" .. path, "-ORBunixTransportPermission", mode } }, function(reference, broker)
          assert.equal(tonumber(mode, 8), mare.file.stat(path).mode)
          local p = first(reference)
          assert.same({ machine.name(), 0 }, { p.host, p.port })
          assert.same({ { host = machine.name(), path = path } }, ior.unix_addresses(p))
          assert.equal("me", call({}, reference))
          assert.equal("localhost 0 " .. path, call({}, reference, function(d) return d:peer() end))
          assert.equal("unix:" .. path, broker:address())
          assert.equal("me", broker:proxy(reference):who())
        end)
      end
    end)
  end)

  it("takes the place of one that was left behind, but of no server and no file", function()
    with_folder(function(folder)
      local path = folder .. "/s"
      local script = ("local orb = require 'mare.orb' local b = orb.init { ORBendPoint = 'giop:unix:%s' } b:load 'interface A {};' " ..
        "b:serve({}, 'A') io.write 'here' io.flush() mare.sleep(60)"):format(path)
      proc.mare("local mare = require 'mare' " .. script, {}, { signals = { { after = "here", name = "KILL" } } })
      assert.equal("socket", mare.file.stat(path).type)
      with_server({ ORBendPoint = "giop:unix:" .. path }, function(reference)
        assert.equal("me", call({}, reference))
        local other <close> = orb.init { ORBendPoint = "giop:unix:" .. path }
        other:load(IDL)
        assert.matches("cannot listen on giop:unix:.*EADDRINUSE", tostring(select(2, pcall(other.serve, other, {}, "Door"))))
        assert.equal("me", call({}, reference))
      end)
      assert(mare.file.write(path, "a file"))
      local other <close> = orb.init { ORBendPoint = "giop:unix:" .. path }
      other:load(IDL)
      assert.matches("cannot listen on giop:unix:.*EEXIST", tostring(select(2, pcall(other.serve, other, {}, "Door"))))
      assert.equal("a file", mare.file.read(path))
      assert(mare.file.remove(path))
    end)
  end)

  it("without a name gets one of its own", function()
    with_folder(function(folder)
      with_server({ ORBendPoint = "giop:unix:", ORBunixTransportDirectory = folder .. "/in/here" }, function(reference)
        assert.matches(folder .. "/in/here/%d+", ior.unix_addresses(first(reference))[1].path)
        assert.equal("me", call({}, reference))
      end)
      assert(mare.file.remove(folder .. "/in", "all"))
    end)
  end)

  it("stands beside other addresses, and is used first where it is", function()
    with_folder(function(folder)
      local path = folder .. "/s"
      with_server({ ORBendPoint = { "giop:tcp:127.0.0.1:", "giop:unix:" .. path, "giop:tcp:[::1]:" } }, function(reference, broker)
        local p = first(reference)
        assert.same({ { host = "127.0.0.1", port = broker.server.opened[1].port }, { host = "::1", port = broker.server.opened[3].port } },
          ior.addresses(p))
        local peer = function(d) return (d:peer():gsub(" %d+ ", " ", 1)) end
        assert.equal("localhost " .. path, call({}, reference, peer))
        assert.matches("^127.0.0.1 ", call({ ORBclientTransportRule = "* tcp" }, reference, peer))
        assert.matches("^::1 ", call({ ORBclientTransportRule = { "::1 tcp", "* unix,tcp" } }, reference, peer))
        assert.equal("localhost " .. path, call({ ORBclientTransportRule = "* unix,tcp" }, reference, peer))
        assert.matches("^127.0.0.1 ", call({ ORBclientTransportRule = "* tcp,unix" }, reference, peer))
        assert(mare.file.remove(path))           -- nobody can connect there now, so the next one is taken
        assert.matches("^127.0.0.1 ", call({}, reference, peer))
      end)
    end)
  end)

  it("on another machine is none of ours", function()
    local elsewhere = ior.stringify(ior.make { type_id = "IDL:Door:1.0", profiles = {
      { tag = 0, minor = 2, host = "elsewhere", port = 0, key = "door", components = { ior.unix_component("elsewhere", "/tmp/s") } } } })
    assert.matches("TRANSIENT.*a Unix socket on the machine 'elsewhere', which is not this one", call({}, elsewhere))
    local odd = ior.stringify(ior.make { type_id = "IDL:Door:1.0", profiles = {
      { tag = 0, minor = 2, host = "unix:/tmp/s", port = 0, key = "door", components = { { ior.TAG_OMNIORB_UNIX_TRANS, "\1\0\0" } } } } })
    assert.matches("TRANSIENT.*it has port 0", call({}, odd))
  end)

  it("is served by several processes, which have sockets of their own", function()
    with_folder(function(folder)
      local broker = orb.init { ORBendPoint = "giop:unix:" .. folder .. "/s", ORBunixTransportDirectory = folder }
      broker:load(IDL)
      local ref = tostring(broker:serve(function(_, index) return { process = function() return index end } end, "Door", { processes = 2 }))
      local seen = {}
      for _ = 1, 2 do seen[call({}, ref, function(d) return d:process() end)] = true end
      broker:shutdown(true)
      assert.same({ true, true }, seen)
    end)
  end)

  it("is asked for by who it is: rules, and the number of connections from one machine", function()
    with_folder(function(folder)
      local path = folder .. "/s"
      with_server({ ORBendPoint = "giop:unix:" .. path, ORBserverTransportRule = "* tcp" }, function(reference)
        assert.matches("COMM_FAILURE", call({}, reference))
      end)
      with_server({ ORBendPoint = "giop:unix:" .. path, ORBserverTransportRule = "localhost unix", limits = { peer = 1 } }, function(reference)
        local holds, broker = call({}, reference)
        assert.equal("me", holds)
        broker:close()
        assert.equal("me", call({}, reference))
      end)
      with_server({ ORBendPoint = "giop:unix:" .. path, allow = function(peer) return peer.unix == path end }, function(reference)
        assert.equal("me", call({}, reference))
      end)
    end)
  end)

  it("is written by hand as omniORB writes it", function()
    with_folder(function(folder)
      local path = folder .. "/s"
      with_server({ ORBendPoint = "giop:unix:" .. path }, function()
        assert.equal("me", call({}, "corbaloc:omniunix:" .. path .. ":/door"))
        assert.equal("me", call({}, ("corbaloc:omniunix:/none,omniunix:1.2@%s:/door"):format(path)))
        assert.equal("me", call({}, ("corbaloc:iiop:1.2@127.0.0.1:1,omniunix:%s:/door"):format(path)))
      end)
    end)
  end)

  it("whose path is too long is an address that does not answer, and none to listen at", function()
    with_folder(function(folder)
      local path, long = folder .. "/s", "/" .. ("x"):rep(107)
      with_server({ ORBendPoint = "giop:unix:" .. path }, function()
        assert.equal("me", call({}, ("corbaloc:omniunix:%s,omniunix:1.2@%s:/door"):format(long, path)))
      end)
      local told = call({}, ("corbaloc:omniunix:%s:/door"):format(long))
      assert.truthy(told:find "TRANSIENT" and told:find("a Unix socket can have", 1, true), told)
      local fine, err = pcall(with_server, { ORBendPoint = "giop:unix:" .. long }, function() end)
      assert.is_false(fine)
      assert.truthy(tostring(err):find("cannot listen on giop:unix:" .. long .. ": the path of a Unix socket", 1, true), tostring(err))
    end)
  end)
end)

describe("rules for what is called", function()
  it("hold by address: what none lets be called raises NO_PERMISSION", function()
    with_server({ host = "127.0.0.1" }, function(reference, server)
      local loc = ("corbaloc:iiop:1.2@localhost:%d/door"):format(server.server.opened[1].port)
      for _, good in ipairs { "127.0.0.0/8 tcp", "localhost tcp,ssl", "* ssl,tcp" } do
        assert.equal("me", call({ ORBclientTransportRule = { "10.0.0.0/8 none", good } }, reference))
        assert.equal("me", call({ ORBclientTransportRule = { "10.0.0.0/8 none", good } }, loc))
      end
      for _, bad in ipairs { "10.0.0.0/8 tcp", "127.0.0.1 ssl", "127.0.0.1 none", "localhost unix", "* none" } do
        local args = { "-ORBclientTransportRule", bad, "-ORBclientTransportRule", "* none" }
        assert.matches("NO_PERMISSION.*ORBclientTransportRule", call({ args = args }, loc))
      end
    end)
  end)
end)

describe("omniORB over a Unix socket", function()
  it("calls mare's server", function()
    local missing = foreign.built "bidir-cpp"
    if missing then return foreign.skip(missing) end
    with_folder(function(folder)
      local broker = orb.init { ORBendPoint = "giop:unix:" .. folder .. "/s" }
      broker:loadfile(both.idl)
      local ref = tostring(broker:serve(both.talker(), "Both::Talker"))
      local r = assert(subprocess.run { "build/orb_peers/bidir-cpp/client", ref, "2", "5", "-ORBendPoint", "giop:unix:" .. folder .. "/c",
                                        stderr = "null", timeout = 60 * proc.slow })
      broker:shutdown(true)
      assert(mare.file.remove(folder .. "/c"))
      assert.equal("talk heard one\nchatter 10 of 10, heard 11\nprovoke TIMEOUT\n", r.out)
    end)
  end)

  it("serves mare's client", function()
    local missing = foreign.built "bidir-cpp"
    if missing then return foreign.skip(missing) end
    with_folder(function(folder)
      local handle = assert(subprocess.spawn { "build/orb_peers/bidir-cpp/server", "-ORBendPoint", "giop:unix:" .. folder .. "/s", stdin = "pipe",
                                               stderr = "null" })
      local ref = assert(handle.stdout:read("l", 30 * proc.slow))
      local broker = orb.init { ORBendPoint = "giop:unix:" .. folder .. "/c" }
      broker:loadfile(both.idl)
      local fine, out = pcall(both.run, broker, ref, 2, 5)
      broker:shutdown(5)
      handle:kill "KILL"
      handle:wait()
      mare.file.remove(folder .. "/s")
      assert(fine, out)
      assert.equal("talk heard one\nchatter 10 of 10, heard 11\nprovoke nothing\n", out)
    end)
  end)
end)
