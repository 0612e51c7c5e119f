-- mare.ludo beside peers that ask too much, say nothing, lie or end in the middle: an error or a closed connection, bounded memory, others
-- unharmed.
local mare = require "mare"
local ludo = require "mare.ludo"
local net = require "mare.net"
local core = require "mare.ludo.core"
local link = require "mare.ludo.link"
local proc = require "spec.support.proc"
local eventually = require "spec.support.serving".eventually

local fiber = mare.fiber
local LIMIT = 30 * proc.slow

local function with(limits, f, object)
  local log = {}
  local server = ludo.init { limits = limits, log = function(text) log[#log + 1] = text end }
  local usual = { add = function(_, a, b) return a + b end, size = function(_, s) return #s end, big = function(_, n) return ("x"):rep(n) end,
                  wait = function(_, s) mare.sleep(s) end }
  local text = server:serve(object or usual, { key = "it" })
  local client = ludo.init { timeout = LIMIT }
  local fine, err = pcall(f, client:proxy(text), server, log)
  client:close()
  server:shutdown(LIMIT)
  if not fine then error(err, 0) end
end

local function failing(f, ...)
  local fine, e = pcall(f, ...)
  assert.is_false(fine)
  return e
end

-- A connection on which nothing is right but what is written.
local function raw(server, bytes)
  local conn = assert(net.connect("127.0.0.1", server.port))
  if bytes then conn:write(bytes) end
  return conn
end
local function call(id, ...) return core.message(core.CALL, id, { {}, {}, {}, print, 1 << 20 }, "it", ...) end
local function ended(conn)
  local got, _, code = conn:read("a", LIMIT)
  return got ~= nil or code == "ECONNRESET" or code == "EOF"
end

describe("what is too long", function()
  it("is refused where it is made, and closes the connection of who sends it all the same", function()
    with({ message = 4096 }, function(it, server, log)
      local e = failing(it.big, it, 5000)
      assert.equal("TOO_LARGE", e.code)
      assert.equal(4000, #it:big(4000))
      it:add(1, 2)
      local conn = raw(server, link.HELLO .. string.pack("<I4I4I4", 5000, 1, core.CALL))
      assert.is_true(ended(conn))
      conn:close()
      eventually(function() return (log[1] or ""):find "5000 bytes came, the limit is 4096" end, "a log")
      assert.equal(3, it:add(1, 2))
      for early = 0, 6, 6 do                     -- the first call, and one where C serves
        local large <close> = ludo.init { timeout = LIMIT }
        local far = large:proxy(it._reference)
        for _ = 1, early do far:add(1, 2) end
        local logged = #log
        failing(far.size, far, ("x"):rep(5000))
        eventually(function() return (log[logged + 1] or ""):find "the limit is 4096" end, "a log")
      end
    end)
    local small <close> = ludo.init { limits = { message = 2048 }, timeout = LIMIT }
    with({}, function(it)
      local own = small:proxy(it._reference)
      local e = failing(own.size, own, ("x"):rep(3000))
      assert.equal("TOO_LARGE", e.code)
      assert.is_true(e["local"])
      assert.equal("TOO_LARGE", failing(own.big, own, 3000).code)
      assert.equal(3, own:add(1, 2))
    end)
  end)

  it("or would become too much is refused", function()
    with({ values = 1 << 16 }, function(it)
      local many = {}
      for i = 1, 3000 do many[i] = {} end
      local e = failing(it.size, it, many)
      assert.equal("PROTOCOL", e.code)
      assert.matches("more memory than is allowed", e.message)
      assert.equal(3, it:add(1, 2))
    end)
  end)

  it("waits for room beside others, and is served", function()
    with({ message = 1 << 20, memory = 3 << 20, share = 2 << 20 }, function(it, server)
      local text, all, most = ("x"):rep(1 << 19), {}, 0
      for i = 1, 20 do
        all[i] = fiber.spawn(function()
          local client <close> = ludo.init { timeout = LIMIT }
          return client:proxy(it._reference):keep(text)
        end)
      end
      for i = 1, 20 do
        assert.same({ true, #text }, { all[i]:wait() })
        most = math.max(most, server.pool.budget.held)
      end
      assert.is_true(most <= 4 << 20)
      eventually(function() return server.pool.budget.held == 0 end, "nothing counts any more")
    end, { keep = function(_, s) mare.sleep(0.01) return #s end })
  end)
end)

describe("clients that are too many", function()
  it("wait until one that does nothing has given way", function()
    with({ connections = 3 }, function(it, server)
      for i = 1, 10 do
        local client <close> = ludo.init { timeout = LIMIT }
        assert.equal(i + 1, client:proxy(it._reference):add(i, 1))
        assert.is_true(server.pool.count <= 3)
      end
      assert.equal(3, it:add(1, 2))
    end)
  end)

  it("with too many requests on one connection have them served in turn", function()
    with({ requests = 2 }, function(it, server)
      local all = {}
      for i = 1, 20 do all[i] = it._async:wait(0.005) end
      local most = 0
      for i = 1, 20 do
        assert.is_true((all[i]:wait()))
        for peer in pairs(server.pool.peers) do most = math.max(most, peer.n) end
      end
      assert.is_true(most <= 2)
    end)
  end)

  it("and do nothing are told to go after a while", function()
    with({ idle = 0.05 }, function(it, server)
      assert.equal(3, it:add(1, 2))
      eventually(function() return server.pool.count == 0 end, "it is closed")
      assert.equal(3, it:add(1, 2))
    end)
  end)
end)

describe("clients that don't speak LuDO", function()
  it("are closed, in time and with a word about why", function()
    with({ handshake = 0.05 }, function(it, server, log)
      for _, bytes in ipairs { "", "L", "GET / HTTP/1.0\r\n\r\n", "LuDO\2\0\0\0", "12\nreturn 1,'it'" } do
        local conn = raw(server, bytes)
        assert.is_true(ended(conn))
        conn:close()
      end
      eventually(function() return #log == 5 and server.pool.count == 0 end, "all are gone")
      assert.matches("said nothing in time", log[1])
      assert.matches("does not speak LuDO", log[3])
      assert.equal(3, it:add(1, 2))
    end)
  end)

  it("learn which version is spoken", function()
    with({}, function(_, server)
      local conn = raw(server, "LuDO\2\0\0\0")
      assert.equal(link.HELLO, conn:read(8, LIMIT))
      conn:close()
    end)
  end)

  it("any more, or end in the middle, harm nobody", function()
    with({}, function(it, server)
      local request = call(1, "add", 1, 2)
      for _, bytes in ipairs { ("\255"):rep(12), string.pack("<I4I4I4", 12, 1, 9), string.pack("<I4I4I4", 3, 1, 1),
                               string.pack("<I4I4I4", 12, 1, core.REPLY), request:sub(1, 20), "" } do
        local conn = raw(server, link.HELLO .. bytes)
        if bytes == request:sub(1, 20) or bytes == "" then conn:shutdown "write" end
        assert.is_true(ended(conn))
        conn:close()
      end
      local conn = raw(server, link.HELLO .. string.pack("<I4I4I4", 16, 5, core.CALL) .. "\1\1\7\255" .. call(6, "add", 1, 2))
      assert.equal(link.HELLO, conn:read(8, LIMIT))
      local world = { {}, {}, {}, print, 1 << 20 }
      local bad = core.receive(conn, 1 << 20, LIMIT)
      assert.same({ core.RAISED, 5 }, { core.head(bad) })
      assert.equal("PROTOCOL", (core.values(bad, world)))
      assert.equal(3, core.values(core.receive(conn, 1 << 20, LIMIT), world))
      conn:write(core.message(core.CANCEL, 77, world), call(7, "wait", 60), core.message(core.CANCEL, 7, world), call(8, "add", 2, 2))
      assert.equal(4, core.values(core.receive(conn, 1 << 20, LIMIT), world))
      conn:close()
      eventually(function() return server.pool.budget.held == 0 and server.pool.count <= 1 end, "nothing is left")
      assert.equal(3, it:add(1, 2))
    end)
  end)
end)

describe("a server that is none", function()
  local function against(script, check)
    local listener = assert(net.listen("127.0.0.1:0"))
    local text = ("ludo://127.0.0.1:%d/it"):format(select(2, listener:address()))
    local serving = fiber.spawn(function()
      while true do
        local conn = listener:accept()
        if not conn then return end
        script(conn)
        conn:close(0)
      end
    end)
    local client <close> = ludo.init { timeout = LIMIT, limits = { message = 4096 } }
    local it = client:proxy(text)
    check(failing(it.add, it, 1, 2), client)
    listener:close()
    serving:wait()
  end
  local world = { {}, {}, {}, print, 1 << 20 }
  local function taken(conn)
    conn:read(8, LIMIT)
    return core.receive(conn, 1 << 20, LIMIT)
  end

  it("gives an error that says what it did", function()
    against(function(conn) conn:read(8, LIMIT) end, function(e) assert.equal("CONNECT", e.code) end)
    against(function(conn) taken(conn) end, function(e) assert.matches("CONNECT.*without a word: it does not speak LuDO", tostring(e)) end)
    against(function(conn) taken(conn) conn:write(link.HELLO) end, function(e) assert.equal("LOST", e.code) end)
    against(function(conn) taken(conn) conn:write "HTTP/1.0 400 no\r\n\r\n" end, function(e)
      assert.matches("CONNECT.*does not speak LuDO", tostring(e))
    end)
    against(function(conn) taken(conn) conn:write "LuDO\7\0\0\0" end, function(e) assert.matches("version 7 of LuDO", tostring(e)) end)
    against(function(conn) taken(conn) conn:write(link.HELLO, string.pack("<I4I4I4", 5000, 1, core.REPLY)) end, function(e)
      assert.equal("TOO_LARGE", e.code)
    end)
    against(function(conn) taken(conn) conn:write(link.HELLO, string.pack("<I4I4I4", 15, 1, core.REPLY), "\0\1\32") end, function(e)
      assert.equal("PROTOCOL", e.code)
    end)
    against(function(conn) taken(conn) conn:write(link.HELLO, core.message(core.RAISED, 1, world, 5)) end, function(e)
      assert.equal("PROTOCOL", e.code)
    end)
    against(function(conn) taken(conn) conn:write(link.HELLO, core.message(core.CALL, 1, world)) end, function(e) assert.equal("LOST", e.code) end)
    against(function(conn) taken(conn) conn:write(link.HELLO, core.message(core.CLOSE, 0, world)) end, function(e, client)
      assert.equal("UNSENT", e.code)               -- asked once more, and told the same again
      assert.matches("was not sent, or not touched", e.message)
      assert.is_nil(next(client.links))
    end)
  end)

  it("is not waited for longer than was said", function()
    local listener = assert(net.listen("127.0.0.1:0"))
    local client <close> = ludo.init { timeout = 0.05 }
    local it = client:proxy(("ludo://127.0.0.1:%d/it"):format(select(2, listener:address())))
    assert.equal("TIMEOUT", failing(it.add, it, 1, 2).code)
    assert.equal("TIMEOUT", failing(it.size, it, ("x"):rep(1 << 20)).code)
    listener:close()
  end)
end)
