-- mare.socket beside LuaSocket, and what mare adds: its calls hold up nobody.
local mare = require "mare"
local socket = require "mare.socket"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"
local process, fiber, channel = mare.process, mare.fiber, mare.channel

local SCRIPT = (os.getenv("MARE_ROOT") or ".") .. "/spec/support/luasocket.lua"

local function slurp(path)
  local file <close> = assert(io.open(path))
  return file:read("a")
end

describe("mare.socket", function()
  it("says what LuaSocket says", function()
    local text = slurp(SCRIPT)
    local path = os.getenv("LUA_PATH")
    local theirs = proc.run({ "lua5.4", SCRIPT, "socket" }, { timeout = 60 })
    assert.equal("", theirs.err)
    assert.equal(0, theirs.code)
    local inside = proc.mare(text, { "mare.socket" }, { timeout = 60 })
    assert.equal("", inside.err)
    assert.equal(theirs.out, inside.out)
    local host = proc.lua(text, { "mare.socket" }, { timeout = 60, env = path and { LUA_PATH = path } or nil })
    assert.equal("", host.err)
    assert.equal(theirs.out, host.out)
  end)

  it("lets the other fibers run", function()
    local server = assert(socket.bind("127.0.0.1", 0))
    local _, port = server:getsockname()
    local log = {}
    local serving = fiber.spawn(function()
      for _ = 1, 3 do
        local c = assert(server:accept())
        c:send((c:receive() or "?"):upper() .. "\n")
        c:close()
      end
    end)
    local clients = {}
    for i = 1, 3 do
      clients[i] = fiber.spawn(function()
        local c = assert(socket.connect("127.0.0.1", port))
        socket.sleep(0.001)
        assert(c:send("hello\n"))
        local line = c:receive("*l")
        log[#log + 1] = line
        c:close()
      end)
    end
    for i = 1, 3 do assert.is_true((clients[i]:wait())) end
    assert.is_true((serving:wait()))
    assert.same({ "HELLO", "HELLO", "HELLO" }, log)
    server:close()
  end)

  it("works in processes of their own", function()
    local ports = channel.new(1)
    local p = process.spawn(function()
      local mine = require "mare.socket"
      local s = mine.bind("127.0.0.1", 0)
      ports:send((select(2, s:getsockname())))
      local c = s:accept()
      local got = c:receive("*a")
      c:close()
      s:close()
      return got
    end)
    local c = assert(socket.connect("127.0.0.1", ports:receive()))
    assert.equal(5, c:send("bytes"))
    c:close()
    local ok, got = p:wait()
    assert.is_true(ok)
    assert.equal("bytes", got)
  end)

  -- A connection's two ends.
  local function pair()
    local server = assert(socket.bind("127.0.0.1", 0))
    local _, port = server:getsockname()
    local c = assert(socket.connect("127.0.0.1", port))
    local s = assert(server:accept())
    server:close()
    return c, s
  end

  it("leaves a connection in the queue when select tells of it", function()
    local server = assert(socket.bind("127.0.0.1", 0))
    local _, port = server:getsockname()
    local a = assert(socket.connect("127.0.0.1", port))
    for _ = 1, 2 do assert.equal(server, (socket.select({ server }, nil, 10))[1]) end
    server:settimeout(0)
    local b = assert(server:accept())
    local none, why = server:accept()
    assert.is_nil(none)
    assert.equal("timeout", why)
    for _, s in ipairs { a, b, server } do s:close() end
  end)

  it("has no descriptor before bind and after close, and select leaves those out", function()
    local it = socket.tcp()
    assert.equal(-1, it:getfd())
    assert.equal(1, it:bind("127.0.0.1", 0))
    assert.is_true(it:getfd() >= 0)
    assert.equal(1, it:listen(0))
    it:close()
    assert.equal(-1, it:getfd())
    local r, w, why = socket.select({ it }, { it }, 0.01)
    assert.same({ 0, 0, "timeout" }, { #r, #w, why })
    assert.has_error(function() socket.select("wrong", 1) end)
  end)

  it("waits for the first byte in receive(0)", function()
    local c, s = pair()
    s:settimeout(0)
    assert.same({ nil, "timeout", "" }, { s:receive(0) })
    s:settimeout(10)
    c:send("x")
    assert.equal("", (s:receive(0)))
    assert.is_true(s:dirty())
    assert.equal("x", (s:receive(1)))
    c:close()
    assert.same({ nil, "closed", "" }, { s:receive(0) })
    s:close()
  end)

  it("selects objects that only have getfd, also of a socket that it watches itself", function()
    local c, s = pair()
    s:settimeout(0.01)
    s:receive()                                  -- it is watched from now on, perhaps
    local wrapped = { getfd = function() return s:getfd() end }
    assert.equal(3, select("#", socket.select({ wrapped }, nil, 0.02)))
    fiber.spawn(function()
      socket.sleep(0.02)
      c:send("now\n")
    end)
    local r = socket.select({ wrapped }, nil, 10)
    assert.equal(wrapped, r[1])
    c:close()
    s:close()
  end)

  it("gives fibers that receive from one object their turns", function()
    local c, s = pair()
    local got = {}
    local readers = {}
    for i = 1, 3 do
      readers[i] = fiber.spawn(function()
        local line = s:receive()
        got[#got + 1] = line
      end)
    end
    socket.sleep(0.01)
    c:send("a\nb\n")
    socket.sleep(0.01)
    c:send("c\n")
    for i = 1, 3 do assert.is_true((readers[i]:wait())) end
    table.sort(got)
    assert.same({ "a", "b", "c" }, got)
    c:close()
    s:close()
  end)

  it("ends calls that wait when the object is closed", function()
    local c, s = pair()
    local results = {}
    local first = fiber.spawn(function() results[1] = { s:receive() } end)
    local second = fiber.spawn(function() results[2] = { s:receive() } end)
    socket.sleep(0.01)
    s:close()
    assert.is_true((first:wait()))
    assert.is_true((second:wait()))
    for i = 1, 2 do assert.same({ nil, "closed", "" }, results[i]) end
    c:close()
  end)

  it("lets a cancelled fiber leave its turn to the next", function()
    local c, s = pair()
    local first = fiber.spawn(function() s:receive() end)
    local got
    local second = fiber.spawn(function() got = s:receive() end)
    socket.sleep(0.01)
    first:cancel()
    first:wait()
    c:send("for the second\n")
    assert.is_true((second:wait()))
    assert.equal("for the second", got)
    c:close()
    s:close()
  end)

  it("speaks over paths as socket.unix does", function()
    local unix = require "mare.socket.unix"
    local path = temporary()
    os.remove(path)
    local server = assert(unix.stream())
    assert.equal(1, server:bind(path))
    assert.equal(1, server:listen())
    local c = assert(unix.stream())
    assert.equal(1, c:connect(path))
    local s = assert(server:accept())
    c:send("over a path\n")
    assert.equal("over a path", (s:receive()))
    for _, it in ipairs { c, s, server } do it:close() end
    os.remove(path)
  end)

  it("carries LuaSocket's own http", function()
    local server = assert(socket.bind("127.0.0.1", 0))
    local _, port = server:getsockname()
    local serving = fiber.spawn(function()
      local c = server:accept()
      repeat local line = c:receive() until line == "" or not line
      c:send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
      c:close()
    end)
    local before = package.loaded.socket
    package.loaded.socket = socket
    local ok, http = pcall(require, "socket.http")
    local body, code
    if ok then body, code = http.request(("http://127.0.0.1:%d/"):format(port)) end
    for name in pairs(package.loaded) do
      if type(name) == "string" and name:find("^socket%.") then package.loaded[name] = nil end
    end
    package.loaded.socket = before
    if not ok then return pending("no socket.http here: " .. tostring(http):match("[^\n]*")) end
    assert.equal("hello", body)
    assert.equal(200, code)
    assert.is_true((serving:wait()))
    server:close()
  end)

  it("takes no harm from functions of its core that are called with anything", function()
    local core = require "mare.socket.core"
    local it = socket.tcp()
    for name, f in pairs(core) do
      if type(f) == "function" and name ~= "select" then
        for _, a in ipairs { false, 1, "x", {}, it, io.stdout } do
          for _, b in ipairs { false, -1, 1e300, "x", ("x"):rep(500), {} } do
            pcall(f, a, b)
            pcall(f, a, b, b)
          end
        end
      end
    end
    local meta = debug.getmetatable(socket.tcp())
    for _, v in ipairs { false, 1, "x", {}, io.stdout, channel.new() } do
      pcall(meta.__gc, v)
      assert.is_false((pcall(meta.__tostring, v)))
    end
    local u = socket.udp4()
    meta.__gc(u)
    assert.same({ nil, "closed" }, { u:receive() })
    local swapped = debug.setmetatable(socket.tcp(), debug.getmetatable(u))
    assert.is_false((pcall(swapped.send, swapped, "x")))
  end)

  it("interrupts a program that waits for an answer", function()
    local r = proc.mare([[
      local socket = require "mare.socket"
      local server = socket.bind("127.0.0.1", 0)
      print "waits"
      io.stdout:flush()
      server:accept()
    ]], {}, { timeout = 20, signals = { { after = "waits", name = "INT" } } })
    assert.is_false(r.timeout)
    assert.is_truthy(r.err:find("interrupted", 1, true))
  end)

  it("a finaliser may close the socket whose bytes are just being given", function()
    local ok, err = process.spawn(function()
      local server = assert(socket.bind("127.0.0.1", 0))
      local _, port = server:getsockname()
      local closed = 0
      for i = 1, 60 do
        local c, s = assert(socket.connect("127.0.0.1", port)), nil
        s = assert(server:accept())
        c:send(("x"):rep(5000) .. (i % 2 == 0 and "\ry\nz" or ""))
        assert(s:receive(1) == "x")
        s:settimeout(0)
        collectgarbage("incremental", 100, 1000, 40)         -- one step is a whole cycle
        collectgarbage()
        collectgarbage("stop")
        setmetatable({}, { __gc = function() closed = closed + 1 s:close() end })
        collectgarbage("restart")
        if i % 2 == 0 then
          local line = s:receive("*l")
          assert(not line or line == ("x"):rep(4999) .. "y", line)
        else
          local all, why, part = s:receive(1e6)
          assert(not all and (why == "timeout" or why == "closed") and (part == "" or part == ("x"):rep(4999)), part)
        end
        c:close()
      end
      assert(closed > 30, closed)
    end):wait(60)
    assert.is_true(ok, err)
  end)

  it("read their descriptor when a value's metamethods have run, which may close them", function()
    local function closing(s, fields)
      return setmetatable({}, { __index = function(_, key)
        s:close()
        return fields[key]
      end })
    end
    local fields = { on = true, timeout = 1, multiaddr = "224.0.0.251", interface = "127.0.0.1" }
    for option, make in pairs { linger = socket.tcp, ["ip-add-membership"] = socket.udp } do
      local s = make()
      if option == "linger" then s:bind("127.0.0.1", 0) else s:setsockname("127.0.0.1", 0) end
      local fd = s:getfd()
      local other
      local value = closing(s, setmetatable({}, { __index = function(_, key)
        other = other or socket.udp4 and socket.udp4() or socket.udp()     -- may get the number that was closed
        if key then other:setsockname("127.0.0.1", 0) end
        return fields[key]
      end }))
      assert.is_true(fd >= 0)
      assert.same({ nil, "setsockopt failed" }, { s:setoption(option, value) })
      assert.equal(-1, s:getfd())
      other:close()
    end
  end)

  it("an interface's number out of range is refused as any other that there isn't", function()
    local u = socket.udp6()
    if not u then return pending("no IPv6 here") end
    for _, n in ipairs { -1, 1e300, 0 / 0, 1 << 40 } do
      local ok, err = pcall(u.setoption, u, "ipv6-add-membership", { multiaddr = "ff02::1234", interface = n })
      assert.is_true(ok, err)
    end
    u:close()
  end)
end)
