-- What deadlines, cancelling and killing leave of connections, servers, sockets, files and programs.
-- luacheck: ignore 431                  (functions of processes name modules as this file does)
local mare = require "mare"
local errors = require "mare.error"
local net = require "mare.net"
local file = require "mare.file"
local socket = require "mare.socket"
local subprocess = require "mare.subprocess"
local proc = require "spec.support.proc"
local programs = require "spec.support.programs"
local temporary = require "spec.support.temporary"
local fiber, channel, process = mare.fiber, mare.channel, mare.process

local SOON, LIMIT = 0.1, 30 * proc.slow
local LARGE = ("x"):rep(16 << 20)        -- more than a socket takes when nobody reads

local pack = table.pack

local function kind(ok, e)
  assert.is_false(ok)
  return errors.is(e) and e.kind or tostring(e)
end

local function within(seconds, f, ...) return kind(pcall(process.deadline, seconds, f, ...)) end

local function eventually(f, what) assert(programs.eventually(f), "it never came to be: " .. what) end

local function pair()
  local server <close> = net.listen "127.0.0.1:0"
  local a = assert(net.connect("127.0.0.1", select(2, server:address())))
  return a, server:accept()
end

describe("a deadline", function()
  it("in the middle of a write ends writing on that connection, and only that", function()
    local a <close>, b = pair()
    assert.equal("deadline", within(SOON, a.write, a, LARGE))
    assert.same(pack(nil, "Operation canceled", "ECANCELED", 0), pack(a:write "more"))
    b:write "hello"
    assert.equal("hello", a:read(5, LIMIT))
  end)

  it("while others write leaves the connection whole", function()
    local a <close>, b = pair()
    local first = fiber.spawn(a.write, a, LARGE)
    fiber.yield()
    assert.equal("deadline", within(SOON, a.write, a, "second"))
    local reader = fiber.spawn(b.read, b, #LARGE + 5)
    assert.same(pack(true, true), pack(first:wait(LIMIT)))
    assert.is_true(a:write "third")
    local ok, data = reader:wait(LIMIT)
    assert.is_true(ok)
    assert.equal("third", data:sub(-5))
  end)

  it("while a buffer is written keeps what is left, for the next flush", function()
    local a <close>, b = pair()
    a:setvbuf("full", #LARGE)
    assert.is_true(a:write(LARGE))
    assert.equal("deadline", within(SOON, a.flush, a))
    local reader = fiber.spawn(b.read, b, #LARGE + 3)
    assert.is_true(a:write "end")
    assert.is_true(a:flush(LIMIT))
    local ok, data = reader:wait(LIMIT)
    assert.is_true(ok and data == LARGE .. "end")
  end)

  it("while bytes are awaited loses none", function()
    local a <close>, b = pair()
    a:write "half"
    assert.equal("deadline", within(SOON, b.read, b, 8))
    assert.equal("deadline", within(SOON, b.read_until, b, "\n"))
    a:write " and half\n"
    assert.equal("half and half\n", b:read_until("\n", 100, LIMIT))
  end)

  it("while clients or datagrams are awaited loses none", function()
    local server <close> = net.listen "127.0.0.1:0"
    assert.equal("deadline", within(SOON, server.accept, server))
    local a <close> = assert(net.connect("127.0.0.1", select(2, server:address())))
    local b <close> = assert(server:accept(LIMIT))
    assert.is_true(a:write "x" and b:read(1, LIMIT) == "x")
    local u <close> = assert(net.udp "127.0.0.1:0")
    assert.equal("deadline", within(SOON, u.receive, u))
    assert(u:send_to("datagram", u:address()))
    assert.equal("datagram", u:receive(LIMIT))
  end)

  it("of a handshake leaves no connection", function()
    local tls = require "mare.tls"
    local server <close> = net.listen "127.0.0.1:0"
    local _, port = server:address()
    assert.equal("deadline", within(SOON, tls.connect, "127.0.0.1", port, { verify = false }))
    local b <close> = assert(server:accept(LIMIT))
    local piece, _, code
    repeat piece, _, code = b:read(1000, LIMIT) until not piece
    assert.equal("EOF", code)
  end)

  it("of a send of mare.socket leaves a socket that can be closed", function()
    local server = assert(socket.bind("127.0.0.1", 0))
    local _, port = server:getsockname()
    local a = assert(socket.connect("127.0.0.1", port))
    local b = assert(server:accept())
    assert.equal("deadline", within(SOON, a.send, a, LARGE))
    assert.equal("deadline", within(SOON, a.receive, a, 10))
    a:close()
    local rest
    repeat rest = b:receive(1 << 20) until not rest
    b:close()
    server:close()
  end)

  it("of a program ends it, and all it has started", function()
    local pids = temporary()
    local command = { "sh", "-c", "sleep 1000 & echo $! > " .. pids .. "; wait" }
    local seconds, pid = 1
    repeat                                       -- a busy machine may not have begun with it
      assert.equal("deadline", within(seconds, subprocess.run, command))
      pid = (file.read(pids) or ""):match "%d+"
      seconds = 4 * seconds
    until pid or seconds > LIMIT
    os.remove(pids)
    eventually(function() return not programs.alive(pid) end, "the end of the program")
  end)

  it("is no end of a program that was spawned", function()
    local h <close> = assert(subprocess.spawn { "sleep", "1000" })
    assert.equal("deadline", within(SOON, h.wait, h))
    assert.same(pack(nil, "timeout"), pack(h:wait(0)))
  end)

  it("and a time-out of a program's own: the earlier one counts", function()
    local _, why = process.deadline(LIMIT, subprocess.run, { "sleep", "1000", timeout = SOON })
    assert.equal("timeout", why)
    assert.equal("deadline", within(SOON, subprocess.run, { "sleep", "1000", timeout = LIMIT }))
  end)

  it("of work with a file leaves the file to be used", function()
    local name = temporary()
    local f = assert(file.open(name, "w+"))
    pcall(process.deadline, 0, f.write, f, "lost or not")
    eventually(function() return select(3, f:write "!") ~= "EBUSY" end, "the end of what was under way")
    assert.is_true(f:close())
    assert.equal("!", file.read(name):sub(-1))
    os.remove(name)
  end)
end)

-- In a process of its own, which is ended by handle[how]: what is left of what it was doing?
local function ended(how, body, ...)
  local begun = channel.new(1)
  local p = process.spawn(body, begun, ...)
  assert.is_true(begun:receive(LIMIT))
  p[how](p)
  assert.equal(how == "kill" and "killed" or "cancelled", kind(p:wait(LIMIT)))
end

for _, how in ipairs { "cancel", "kill" } do
  describe("a process that ends by " .. how, function()
    it("closes its connections in the middle of a write", function()
      local server <close> = net.listen "127.0.0.1:0"
      local _, port = server:address()
      local peer
      local ends = fiber.spawn(function() peer = server:accept(LIMIT) end)
      ended(how, function(begun, port, size)
        local c = require "mare.net".connect("127.0.0.1", port)
        local data = ("x"):rep(size)
        begun:send(true)
        c:write(data)
      end, port, #LARGE)
      assert.is_true((ends:wait(LIMIT)))
      local n = 0
      for piece in function() return peer:read(1 << 20, LIMIT) end do n = n + #piece end
      assert.is_true(n < #LARGE)
      peer:close()
    end)

    it("leaves the clients of a server that others accept from, too", function()
      local server = net.listen "127.0.0.1:0"
      local _, port = server:address()
      local function serve(begun, server, other)
        begun:send(true)
        for c in server:connections() do
          c:write "hello"
          c:close()
          if other then other:try_send(true) end
        end
      end
      local begun, served = channel.new(1), channel.new(math.huge)
      local other = process.spawn(serve, begun, server, served)
      assert.is_true(begun:receive(LIMIT))
      ended(how, serve, server)
      for _ = 1, 20 do
        local c <close> = assert(net.connect("127.0.0.1", port))
        assert.equal("hello", c:read(5, LIMIT))
      end
      server:close()
      other:cancel()
      other:wait(LIMIT)
    end)

    it("ends the program that it runs", function()
      local pids = temporary()
      ended(how, function(begun, pids)
        local fiber, channel = require "mare.fiber", require "mare.channel"
        fiber.spawn(function() require "mare.subprocess".run { "sh", "-c", "echo $$ > " .. pids .. "; exec sleep 1000" } end)
        while #(require "mare.file".read(pids) or "") == 0 do require "mare".sleep(0.01) end
        begun:send(true)
        channel.new():receive()
      end, pids)
      local pid = file.read(pids):match "%d+"
      os.remove(pids)
      eventually(function() return not programs.alive(pid) end, "the end of the program")
    end)

    it("gives back what it was sent and had not read", function()
      local inbox = channel.new(math.huge)
      local a, b = pair()
      inbox:send(b)
      ended(how, function(begun, inbox)
        local c = inbox:receive()
        begun:send(true)
        c:read(10)
      end, inbox)
      assert.is_nil((a:read(1, LIMIT)))                -- its end is closed
      a:close()
    end)
  end)
end
