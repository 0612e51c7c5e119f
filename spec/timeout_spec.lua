-- One shape for a time limit that is over, whatever is waited for.
local mare = require "mare"
local proc = require "spec.support.proc"
local pack = table.pack

describe("a time limit that is over", function()
  local net = mare.net
  local server, client, peer, closing

  before_each(function()
    server = assert(net.listen "127.0.0.1:0")
    local host, port = server:address()
    client = assert(net.connect(host, port))
    peer = assert(server:accept(20))
    closing = { client, peer, server }
  end)

  after_each(function()
    for _, c in ipairs(closing) do c:close() end
  end)

  local function waits(name, make)
    for _, seconds in ipairs { 0, 0.02 } do
      it(("of %s s gives nil and \"timeout\", and nothing else: %s"):format(seconds, name), function()
        assert.same(pack(nil, "timeout"), pack(make(seconds)))
      end)
    end
  end

  waits("channel:receive", function(s) return mare.channel.new():receive(s) end)
  waits("channel:send_within", function(s) return mare.channel.new():send_within(s, 1) end)
  waits("timer:wait", function(s) return mare.timer.after(60):wait(s) end)
  waits("select", function(s) return mare.select { mare.timer.after(60), timeout = s } end)
  waits("selector:wait", function(s) return mare.selector { mare.timer.after(60) }:wait(s) end)
  waits("process:wait", function(s)
    local stop = mare.channel.new()
    local p = mare.process.spawn(function(c) c:receive() end, stop)
    local r = pack(p:wait(s))
    stop:close()
    return table.unpack(r, 1, r.n)
  end)
  waits("fiber:wait", function(s)
    local stop = mare.channel.new()
    local f = mare.fiber.spawn(function() stop:receive() end)
    local r = pack(f:wait(s))
    stop:close()
    return table.unpack(r, 1, r.n)
  end)
  waits("signal:wait", function(s)
    local usr2 <close> = assert(mare.signal.on "USR2")
    return usr2:wait(s)
  end)
  waits("subprocess:wait", function(s)
    local h <close> = assert(mare.subprocess.spawn { "sleep", "100" })
    return h:wait(s)
  end)
  waits("server:accept", function(s) return server:accept(s) end)
  waits("connection:read", function(s) return client:read(1, s) end)
  waits("connection:read_until", function(s) return client:read_until("x", 10, s) end)
  waits("udp:receive", function(s)
    local u = assert(net.udp "127.0.0.1:0")
    closing[#closing + 1] = u
    return u:receive(s)
  end)
  waits("mare.wait_fd", function(s) return mare.wait_fd(client:fd(), "r", s) end)

  it("of a request that other threads work on gives nil and \"timeout\", and nothing else", function()
    assert.same(pack(nil, "timeout"), pack(mare.file.read("/dev/null", 0)))
    assert.same(pack(nil, "timeout"), pack(net.resolve("name.invalid", 0)))
  end)

  it("leaves what a call says beside it in its place, behind a code that is nil", function()
    local chunk = ("x"):rep(1 << 20)
    local r
    client:timeout(0.02)
    repeat r = pack(client:write(chunk)) until not r[1]
    assert.same({ 4, "timeout", nil }, { r.n, r[2], r[3] })
    assert.is_true(math.type(r[4]) == "integer" and r[4] < #chunk)
    r = pack(mare.subprocess.run { "sh", "-c", "echo begun; sleep 100", timeout = proc.slow })
    assert.same({ 4, "timeout", nil, "KILL" }, { r.n, r[2], r[3], r[4].signal })
  end)

  it("is not what the system says when it has given up itself: that has a code", function()
    local _, message, code = net.connect("127.0.0.1", 1)
    assert.same({ "127.0.0.1:1: Connection refused", "ECONNREFUSED" }, { message, code })
  end)
end)
