-- Userdata of other libraries in messages: who has it, what the sender keeps, what is finalised and when.
local mare = require "mare"
local channel, process, select_, fiber = mare.channel, mare.process, mare.select, mare.fiber
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"
local unique = require "spec.support.unique"

package.cpath = proc.bin:gsub("bin/mare$", "embed/") .. "?.so;" .. package.cpath
local cargo, old, luaproc = require "cargomodule", require "oldmodule", require "luaproc"

local function counts()
  local made, ended, packed, back = cargo.counts()
  return { made = made, ended = ended, packed = packed, back = back }
end

local function collect() for _ = 1, 4 do collectgarbage() end end

-- In the end: processes and their states end when they do.
local function in_the_end(what, f)
  local limit = mare.clock() + 100
  repeat
    collect()
    if f() then return end
    mare.sleep(0.01)
  until mare.clock() > limit
  error(what, 2)
end

local function all_ended()
  in_the_end("something is left, or was ended twice", function()
    local c = counts()
    assert(c.ended <= c.made, "ended twice")
    return c.ended == c.made
  end)
end

-- pass(v): v in another process, asked for its value there
local function value_elsewhere(v)
  local ok, value = process.spawn(function(u) return u:get() end, v):wait()
  assert(ok, value)
  return value
end

local function fails(text, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  err = tostring(err)
  assert.is_truthy(err:find(text, 1, true), err)
end

describe("a userdata with a rule", function()
  after_each(all_ended)

  it("moves by what is taken out of it, by its block, or is shared", function()
    assert.equal(7, value_elsewhere(cargo.box(7)))
    assert.equal(8, value_elsewhere(cargo.plain(8)))
    local s = cargo.shared(9)
    assert.equal(9, value_elsewhere(s))
    assert.equal(9, s:get())
  end)

  it("leaves a husk whose every use says who has it", function()
    local b, c = cargo.box(1), channel.new(1)
    c:send(b)
    fails("cargo.box was moved to another process, which has not received it yet", function() return b:get() end)
    local done = channel.new()
    local p = process.spawn { name = "worker", main = function() local u = c:receive() done:send(true) done:receive() return u:get() end }
    done:receive()
    local text = ("cargo.box was moved to process #%d 'worker'"):format(p.id)
    fails(text, function() return b.get end)
    fails(text, function() b.x = 1 end)
    fails(text, function() return b() end)
    fails(text, function() return b + 1 end)
    fails(text, function() return 1 .. b end)
    fails(text, function() return #b end)
    fails(text, function() return b < b end)
    fails(text, function() for _ in pairs(b) do end end)
    fails("cargo.box expected, got cargo.box that was moved to another process", cargo.get, b)
    fails("message[2].x: userdata 'cargo.box' cannot be sent: it was moved to process #" .. p.id, c.send, c, 1, { x = b })
    assert.equal(("cargo.box (moved to process #%d 'worker')"):format(p.id), tostring(b))
    assert.is_false(b == cargo)
    assert.equal("moved", getmetatable(b))
    do local closed <close> = cargo.plain and b end      -- luacheck: ignore 211
    done:send(true)
    assert.same({ true, 1 }, { p:wait() })
  end)

  it("travels in arguments, upvalues, tables, results, and twice in one message as one", function()
    local b, p = cargo.box(3), cargo.plain(4)
    local h = process.spawn(function(t)
      assert(t.list[1] == t.list[2] and t[t.list[1]] == b and t.list[1] == b)
      return { b, b, p }, p
    end, { list = { b, b }, [b] = b })
    local ok, t, q = h:wait()
    assert(ok, t)
    assert.is_true(t[1] == t[2] and t[3] == q)
    assert.same({ 3, 4 }, { t[1]:get(), q:get() })
    fails("was moved to process", function() return b:get() end)
  end)

  it("can be sent to oneself, and back; the old one stays a husk", function()
    local b, c = cargo.box(5), channel.new(1)
    c:send(b)
    local again = c:receive()
    assert.is_false(rawequal(b, again))
    assert.equal(5, again:get())
    fails("was moved to", function() return b:get() end)
    for _ = 1, 3 do
      local _, back = process.spawn(function(u) return u end, again):wait()
      fails("was moved to", function() return again:get() end)
      again = back
    end
    assert.equal(5, again:get())
  end)

  it("takes its user values along", function()
    local b, c = cargo.box(6), channel.new(1)
    debug.setuservalue(b, { b, "text" }, 1)
    debug.setuservalue(b, c, 2)
    c:send(b)
    local u = c:receive()
    local t = debug.getuservalue(u, 1)
    assert.is_true(t[1] == u and t[2] == "text" and debug.getuservalue(u, 2) == c)
    debug.setuservalue(u, { x = coroutine.create(print) }, 2)
    fails("message[2].<user value 2>.x: coroutine cannot be sent", c.send, c, 1, u)
    assert.equal(6, u:get())
  end)

  it("is what it was where the message could not be sent", function()
    local b, p, c = cargo.box(1), cargo.plain(2), channel.new(1)
    local before = counts()
    fails("message[3].x: coroutine cannot be sent", c.send, c, b, p, { x = coroutine.create(print) })
    assert.equal(before.packed, counts().packed)
    c:send(1)
    assert.same({ nil, "full" }, { c:try_send(b, p) })
    assert.same({ nil, "timeout" }, { c:send_within(0.01, { b, p }) })
    assert.equal(before.back + 2, counts().back)
    c:close()
    assert.same({ nil, "closed" }, { c:send(b, p) })
    assert.same({ 1, 2 }, { b:get(), p:get() })
    local rendezvous = channel.new()
    local f = fiber.spawn(function() rendezvous:send(b) end)
    fiber.yield()
    fails("has not received it yet", function() return b:get() end)
    f:cancel()
    f:wait()
    assert.equal(1, b:get())
    assert.equal(2, value_elsewhere(p))
  end)

  it("comes back from a case of select that was not chosen", function()
    local b, full, ready = cargo.box(1), channel.new(), channel.new(1)
    ready:send("here")
    assert.equal(1, (select_ { ready, full:sending(b) }))
    assert.equal(1, b:get())
    assert.is_nil((select_ { full:sending(b), timeout = 0.01 }))
    assert.equal(1, b:get())
  end)

  it("is finalised once if nobody receives it", function()
    local c = channel.new(10)
    for i = 1, 3 do c:send(cargo.box(i), cargo.plain(i), { cargo.shared(i) }) end
    local kept = cargo.plain(4)
    c:send(kept)
    c:close()
    c = nil                                                -- luacheck: ignore 311
    all_ended()
    fails("was moved to another process, but nobody has received it", function() return kept:get() end)
  end)

  it("is finalised once if its receiver is killed, before it begins or with it in its hands", function()
    for _ = 1, 20 do
      local c = channel.new(1)
      local h = process.spawn(function(a, b) c:send(a:get()) c:send(b:get()) mare.sleep(3600) end, cargo.box(1), cargo.plain(2))
      h:kill()
      h:wait()
    end
    local c = channel.new()
    local h = process.spawn(function(a, b) c:send(a:get()) mare.sleep(3600) return b end, cargo.box(1), cargo.plain(2))
    assert.equal(1, c:receive())
    h:kill()
    h:wait()
  end)

  it("is finalised once if its sender is killed while it waits", function()
    for _ = 1, 20 do
      local c, begun = channel.new(), channel.new()
      local h = process.spawn(function()
        local lib = require "cargomodule"
        begun:send(true)
        c:send(lib.box(1), lib.plain(2))
      end)
      begun:receive()
      h:kill()
      h:wait()
    end
  end)

  it("goes to the first of several who wait for one result", function()
    local h = process.spawn(function() return require "cargomodule".box(11) end)
    local _, first = h:wait()
    local _, second = h:wait()
    assert.equal(11, first:get())
    fails("was moved to", function() return second:get() end)
    local go, seen = channel.new(), channel.new(8)
    local common = process.spawn(function() go:receive() return require "cargomodule".plain(12) end)
    local all = {}
    for i = 1, 8 do
      all[i] = process.spawn(function() local _, u = common:wait() seen:send((pcall(u.get and u.get or error, u))) end)
    end
    go:send(1)
    for i = 1, 8 do all[i]:wait() end
  end)

  it("is refused by its rule with a place and a reason", function()
    local c, b = channel.new(1), cargo.box(-1)
    fails("message.x: userdata 'cargo.box' cannot be sent: it is negative", c.send, c, { x = b })
    assert.equal(-1, b:get())
    local Class = { __index = function() end, lib = cargo.box(2) }
    fails("message.<metatable>.lib: userdata 'cargo.box' cannot be sent: it belongs to a class", c.send, c, setmetatable({}, Class))
    local h = process.spawn(mare.sleep, 3600)
    fails("reason.x: userdata 'cargo.box' cannot be sent: this is no message that one process receives", h.cancel, h, { x = Class.lib })
    h:kill()
    assert.equal(2, Class.lib:get())
  end)

  it("can't be frozen, nor a function with it, whatever lies beside", function()
    local b = cargo.box(5, "a user value")
    fails("value.a: userdata 'cargo.box' cannot be frozen", mare.freeze, { a = b, sub = { {} } })
    local f = function() return b end
    fails("value.f: upvalue 'b': userdata 'cargo.box' cannot be frozen", mare.freeze, { f = f, sub = { 1, { 2, { 3, { 4 } } } } })
    assert.equal(5, b:get())
  end)

  it("is one in each state, if it is shared", function()
    local s, c, answers = cargo.shared(21), channel.new(4), channel.new()
    c:send({ s, s })
    c:send(s)
    process.spawn(function()
      local t, u = c:receive(), c:receive()
      answers:send(t[1] == t[2] and t[1] == u, u)
      local again = c:receive()
      answers:send(again == u)
    end)
    local same, back = answers:receive()
    assert.is_true(same and rawequal(back, s))
    c:send(s)
    assert.is_true(answers:receive())
    assert.equal(21, s:get())
  end)

  it("can have its rule registered by the name of its metatable", function()
    local u, c = cargo.plain(31, "cargo.foreign"), channel.new(1)
    fails("message: userdata 'cargo.foreign' cannot be sent; send what it is made from", c.send, c, u)
    cargo.rule "cargo.foreign"
    assert.equal(31, value_elsewhere(u))
    fails("version 99", cargo.future)
  end)

  it("without a rule stays, and the error names the remedy", function()
    local u, c = cargo.plain(41, "cargo.unknown"), channel.new(1)
    fails("message[2]: userdata 'cargo.unknown' cannot be sent; send what it is made from and make it in the receiver", c.send, c, 1, u)
    assert.equal(41, u:get())
  end)

  it("is lost to nobody in a crowd", function()
    local c, sum = channel.new(8), channel.new(100)
    local workers = {}
    for i = 1, 4 do
      workers[i] = process.spawn(function()
        for a, b in c:each() do sum:send(a:get() + b[1]:get()) end
      end)
    end
    process.spawn(function()
      local total = 0
      for _ = 1, 400 do total = total + sum:receive() end
      return total
    end)
    local senders = {}
    for i = 1, 4 do
      senders[i] = process.spawn(function()
        local lib = require "cargomodule"
        for k = 1, 100 do c:send(lib.box(k), { lib.plain(k) }) end
      end)
    end
    for i = 1, 4 do assert(senders[i]:wait()) end
    c:close()
    for i = 1, 4 do assert(workers[i]:wait()) end
  end)

  it("is finalised once where processes are killed at any moment", function()
    local c, d = channel.new(2), channel.new()
    local function pass_on(from, to)
      local lib = require "cargomodule"
      for i = 1, math.huge do
        if i % 3 == 0 then to:send_within(0.001, lib.box(i), { lib.plain(i) }) end
        local a, b = from:receive(0.001)
        if a then to:send_within(0.001, a, b, lib.shared(i)) end
      end
    end
    local function begin(i) return process.spawn(pass_on, i % 2 == 0 and c or d, i % 2 == 0 and d or c) end
    local handles = {}
    for i = 1, 6 do handles[i] = begin(i) end
    for i = 1, 60 do
      mare.sleep(0.002)
      local k = i % 6 + 1
      handles[k]:kill()
      handles[k] = begin(k)
    end
    for i = 1, 6 do handles[i]:kill() end
    for i = 1, 6 do handles[i]:wait() end
    c:close()
    d:close()
    repeat local left = c:receive(0) until left == nil
  end)
end)

describe("luaproc.regudata", function()
  it("takes a library's two transfer functions", function()
    local c, u = channel.new(1), old.new(51)
    fails("message: userdata 'old.thing' cannot be sent; send what it is made from", c.send, c, u)
    assert.is_true(luaproc.regudata(old))
    assert.same({ nil, "userdata - old.thing - already registered" }, { luaproc.regudata(old) })
    local h = process.spawn(function(v) local lib = require "oldmodule" return lib.get(v), v end, u)
    fails("old.thing' is registered", error, "old.thing' is registered")
    local ok, value = h:wait()
    if not ok then                                         -- as in the original, the receiver has to have the library
      assert.is_truthy(tostring(value):find("userdata's metatable must be registered", 1, true), value)
    end
    local ready, go = channel.new(), channel.new()
    h = process.spawn(function()
      local lib = require "oldmodule"
      ready:send(true)
      local v = go:receive()
      require "luaproc".regudata(lib)
      return lib.get(v), v
    end)
    ready:receive()
    u = old.new(52)
    go:send(u)
    local _, number, back = assert(h:wait())
    assert.equal(52, number)
    assert.equal(52, old.get(back))
    fails("was moved to process", function() return u.x end)
    fails("message[2]: userdata 'old.thing' cannot be sent: 13 does not travel", c.send, c, 1, old.new(13))
    local before = old.ended()
    c:send(old.new(53))
    c:close()
    c = nil                                                -- luacheck: ignore 311
    in_the_end("it was not finalised", function() return old.ended() > before end)
  end)

  it("has transffuncs for files and sockets, whose rules are known anyway", function()
    local names = {}
    for name in pairs(luaproc.transffuncs()) do names[#names + 1] = name end
    table.sort(names)
    assert.same({ "FILE*", "tcp{client}", "tcp{master}", "tcp{server}" }, names)
    assert.is_true(luaproc.regudata(luaproc))
    assert.same({ nil, "the first parameter must be a table" }, { luaproc.regudata(1) })
    assert.same({ nil, "the table passed as a parameter has no function 'transffuncs'" }, { luaproc.regudata {} })
    assert.same({ nil, "the function 'transffuncs' must return a table" },
      { luaproc.regudata { transffuncs = function() end } })
    local f <close> = assert(io.tmpfile())
    f:write("text")
    local _, g = process.spawn(function(file) file:seek("set") return file end, f):wait()
    assert.equal("text", g:read("a"))
    g:close()
  end)

  it("copies the block of a userdata that has no functions", function()
    assert.is_true(luaproc.regudata { transffuncs = function() return { ["cargo.unknown"] = {} } end })
    local c, u = channel.new(1), cargo.plain(61, "cargo.unknown")
    c:send(u)
    assert.equal("cargo.unknown", getmetatable(c:receive()).__name)
    fails("was moved to", function() return u:get() end)
  end)
end)

describe("files of io", function()
  it("move, with what was not yet flushed", function()
    local name = temporary()
    local f, c = assert(io.open(name, "w")), channel.new(1)
    f:write("one ")
    local h = process.spawn(function() local g = c:receive() g:write("two ") g:close() end)
    c:send(f)
    assert(h:wait())
    local lines <close> = assert(io.open(name))
    assert.equal("one two ", lines:read("a"))
    assert.is_nil(io.type(f))
    os.remove(name)
  end)

  it("of popen move, and the receiver gets the exit status", function()
    local p = assert(io.popen("read x; echo $x; exit 3", "w"))
    local ok, a, b, code = process.spawn(function(pipe) pipe:write("\n") return pipe:close() end, p):wait()
    assert.same({ true, nil, "exit", 3 }, { ok, a, b, code })
  end)

  it("that are closed, or the program's own, stay", function()
    local c, f = channel.new(1), assert(io.tmpfile())
    f:close()
    fails("message: userdata 'FILE*' cannot be sent: the file is closed", c.send, c, f)
    fails("message: userdata 'FILE*' cannot be sent; close over its name and open it in the receiver", c.send, c, io.stderr)
  end)

  it("are closed if nobody receives them", function()
    local name = temporary()
    local f, c = assert(io.open(name, "w")), channel.new(1)
    f:write("flushed")
    c:send(f)
    c:close()
    c = nil                                                -- luacheck: ignore 311
    in_the_end("it was not closed", function()
      local g <close> = assert(io.open(name))
      return g:read("a") == "flushed"
    end)
    os.remove(name)
  end)

  it("leave io.output and io.lines with an error", function()
    local c, f, name = channel.new(1), assert(io.tmpfile()), temporary()
    io.output(f)
    c:send(f)
    fails("closed", io.write, "x")
    io.output(io.stdout)
    c:receive():close()
    local g = assert(io.open(name, "w"))
    g:write("1\n2\n")
    g:close()
    g = assert(io.open(name))
    local nextline = g:lines()
    assert.equal("1", nextline())
    c:send(g)
    fails("closed", nextline)
    assert.equal("2", c:receive():read())
    os.remove(name)
  end)
end)

describe("LuaSocket's sockets", function()
  local socket = require "socket"

  it("move: servers, and clients with what they have read ahead", function()
    local server = assert(socket.bind("127.0.0.1", 0))
    local ip, port = server:getsockname()
    local client = assert(socket.connect(ip, port))
    local accepted, peer = process.spawn(function(s) return s:accept() end, server):wait()
    assert(accepted, peer)
    assert(client:send("line 1\nline 2\nrest"))
    assert.equal("line 1", peer:receive())
    local answered = channel.new()
    local h = process.spawn(function(p)
      p:settimeout(30)
      local a, b = p:receive(), p:receive(4)
      p:send(a .. "," .. b .. "\n")
      answered:send(p:getstats())
      return p
    end, peer)
    answered:receive()
    assert.equal("line 2,rest", client:receive())
    local _, back = h:wait()
    assert(client:send("again\n"))
    assert.equal("again", back:receive())
    fails("tcp{client} was moved to process", function() return peer:receive() end)
    fails("tcp{client} was moved to process", socket.select, { peer }, nil, 0)
    back:close()
    assert.equal("closed", (select(2, client:receive())))
    client:close()
    fails("tcp{server} was moved to process", function() return server:close() end)
  end)

  it("of UDP and of Unix move", function()
    local a, b = assert(socket.udp()), assert(socket.udp())
    assert(a:setsockname("127.0.0.1", 0))
    local ip, port = a:getsockname()
    local h = process.spawn(function(u) return u:receive(), u end, a)
    assert(b:sendto("datagram", ip, port))
    assert.same({ true, "datagram" }, { (h:wait()), (select(2, h:wait())) })
    b:close()
    local unix = require "socket.unix"
    local path = temporary() .. "." .. unique()
    local server = unix.stream()
    assert(server:bind(path))
    assert(server:listen())
    local worker = process.spawn(function(s) local c = s:accept() c:send(c:receive() .. "!\n") c:close() s:close() end, server)
    local client = unix.stream()
    assert(client:connect(path))
    client:send("hello\n")
    assert.equal("hello!", client:receive())
    client:close()
    assert(worker:wait())
    os.remove(path)
    os.remove((path:gsub("%.[^.]*$", "")))
  end)

  it("are closed if nobody receives them", function()
    local server = assert(socket.bind("127.0.0.1", 0))
    local ip, port = server:getsockname()
    local client = assert(socket.connect(ip, port))
    client:settimeout(60)
    local c = channel.new(1)
    c:send(assert(server:accept()))
    c:close()
    c = nil                                                -- luacheck: ignore 311
    collect()
    assert.equal("closed", (select(2, client:receive())))
    client:close()
    server:close()
  end)

  it("of another version are refused", function()
    local s, c = socket.tcp(), channel.new(1)
    local tcp, udp = debug.getmetatable(s), debug.getmetatable(socket.udp())
    debug.setmetatable(s, udp)
    fails("userdata 'udp{unconnected}' cannot be sent: it has 8320 bytes, and 40 in the version", c.send, c, s)
    debug.setmetatable(s, tcp)
    s:close()
  end)
end)

describe("LuaSec's connections", function()
  it("move when their handshake is done", function()
    local ssl, socket, folder = require "ssl", require "socket", temporary()
    local key, cert = folder .. ".key", folder .. ".pem"
    local r = proc.run { "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost",
                         "-days", "2", "-keyout", key, "-out", cert }
    assert.equal(0, r.code, r.err)
    local server = assert(socket.bind("127.0.0.1", 0))
    local ip, port = server:getsockname()
    local client = process.spawn(function()
      local tls = require "ssl"
      local c = assert(tls.wrap(assert(require "socket".connect(ip, port)), { mode = "client", protocol = "any", verify = "none" }))
      assert(c:dohandshake())
      c:send("hello\n")
      return c:receive()
    end)
    local c = channel.new(1)
    local peer = assert(ssl.wrap(assert(server:accept()), { mode = "server", protocol = "any", key = key, certificate = cert }))
    fails("userdata 'SSL:Connection' cannot be sent: its handshake is not done", c.send, c, peer)
    assert(peer:dohandshake())
    local worker = process.spawn(function(p) p:send(p:receive() .. ", from a worker\n") p:close() end, peer)
    assert.same({ true, "hello, from a worker" }, { (client:wait()), (select(2, client:wait())) })
    assert(worker:wait())
    server:close()
    for _, name in ipairs { key, cert, folder } do os.remove(name) end
  end)
end)

describe("luv's handles", function()
  it("stay with their loop, and the error says so", function()
    local c, t = channel.new(1), require "luv".new_timer()
    fails("message: userdata 'uv_timer' cannot be sent: it belongs to the event loop", c.send, c, t)
    t:close()
  end)
end)
