-- mare.socket beside LuaSocket, and what mare adds: its calls hold up nobody.
local mare = require "mare"
local socket = require "mare.socket"
local proc = require "spec.support.proc"
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

  it("keeps what select accepted until accept is called", function()
    local server = assert(socket.bind("127.0.0.1", 0))
    local _, port = server:getsockname()
    local a = assert(socket.connect("127.0.0.1", port))
    local r = socket.select({ server }, nil, 10)
    assert.equal(server, r[1])
    r = socket.select({ server }, nil, 0)
    assert.equal(server, r[1])
    server:settimeout(0)
    local b = assert(server:accept())
    local none, why = server:accept()
    assert.is_nil(none)
    assert.equal("timeout", why)
    a:close()
    b:close()
    server:close()
  end)
end)
