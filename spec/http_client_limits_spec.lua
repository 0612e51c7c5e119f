-- The client of mare.http where it is slow, large, secure or hostile: streams both ways, limits, TLS, cancelling, servers that lie.
-- needs: llhttp
-- needs: curl
-- runs under: mare
local mare = require "mare"
local http = require "mare.http"
local net, fiber, process, channel = mare.net, mare.fiber, mare.process, mare.channel
local certificates, temporary = require "spec.support.certificates", require "spec.support.temporary"

local LIMIT = 60
local PIECE = ("0123456789abcdef"):rep(4096)
local MANY = 640                               -- of 64 KiB: more than all buffers on the way hold
local FEW = 32

local function address(server, host)
  local _, port = server:address()
  return ("http://%s:%d/"):format(host or "127.0.0.1", port)
end

-- A server that is none: f(connection, request's head) for each connection, in a fiber of this process; then the connection is closed.
local function strange(f)
  local listener = assert(net.listen "127.0.0.1:0")
  local running = fiber.spawn(function()
    for conn in listener:connections() do
      fiber.spawn { daemon = true, main = function()
        local head = conn:read_until("\r\n\r\n", 65536, LIMIT)
        if head then pcall(f, conn, head) end
        conn:close()
      end }
    end
  end)
  local self = { url = address(listener) }
  function self.close()
    listener:close()
    assert(running:wait(LIMIT))
  end
  return self
end

local function answers(bytes)
  local s = strange(function(conn)
    conn:write(bytes)
    conn:shutdown "write"
    conn:read(1, LIMIT)
  end)
  local results = table.pack(http.get(s.url, { timeout = LIMIT }))
  s.close()
  return table.unpack(results)
end

describe("a stream", function()
  local server, sent
  setup(function()
    local count = mare.atomic.new(0)
    sent = count
    server = assert(http.serve("127.0.0.1:0", function(req)
      if req.path == "/big" or req.path == "/many" then
        req:start(200)
        for _ = 1, req.path == "/many" and MANY or FEW do
          req:write(PIECE)
          count:add(1)
        end
        return
      end
      if req.path == "/count" then
        local n = 0
        for piece in req:pieces() do n = n + #piece end
        return tostring(n)
      end
      req:start(200)
      for piece in req:pieces() do req:write(piece) end
    end, { workers = 1 }))
  end)
  teardown(function() server:stop() end)

  it("waits for who reads slowly", function()
    local a <close> = assert(http.get(address(server) .. "many", { stream = true, decompress = false }))
    assert.equal(PIECE:sub(1, 100), a:read(100))
    local before = sent:get()                    -- what the way holds is full when nothing is sent any more
    for _ = 1, 100 do
      mare.sleep(0.02)
      if sent:get() == before and before > 0 then break end
      before = sent:get()
    end
    assert(sent:get() < MANY, "the server has sent all of it")
    local total = 100
    while total < FEW * #PIECE do total = total + #a:read(FEW * #PIECE - total) end
  end)

  it("goes out as slowly as it is taken, and both ways at once", function()
    local n = 0
    local function pieces()
      n = n + 1
      return n <= FEW and PIECE or nil
    end
    assert.equal(tostring(FEW * #PIECE), assert(http.post(address(server) .. "count", { body = pieces })).body)
    n = 0
    local a <close> = assert(http.post(address(server) .. "echo", { body = pieces, stream = true, decompress = false }))
    assert.equal(PIECE, a:read(10) .. a:all():sub(1, #PIECE - 10))
  end)

  it("has a limit of size where it is taken whole", function()
    local all, message, code = http.get(address(server) .. "big", { body_bytes = 100000 })
    assert.same({ nil, "EMSGSIZE" }, { all, code })
    assert.matches("longer than 100000 bytes$", message)
    assert.equal(#PIECE * FEW, #http.get(address(server) .. "big").body)
  end)

  it("that nobody wants any more is closed", function()
    do
      local a = assert(http.get(address(server) .. "big", { stream = true, decompress = false }))
      a:close()
      assert.same({ nil, address(server) .. "big: closed", "EBADF" }, { a:read() })
      http.get(address(server) .. "big", { stream = true, decompress = false })
    end
    collectgarbage()
    collectgarbage()
    local others = fiber.count()
    while fiber.count() == others do fiber.yield() end   -- the driver sees that nothing runs
    local _ <close> = assert(http.get(address(server) .. "big", { stream = true, decompress = false }))
    assert.equal(others, fiber.count())
  end)
end)

describe("limits of time", function()
  it("are told as everywhere", function()
    local there = channel.new(1)
    local silent = strange(function(conn)
      there:try_send(true)
      conn:read(1, LIMIT)
    end)
    assert.same({ nil, "timeout" }, { http.get(silent.url, { timeout = 0.05 }) })
    assert.same({ nil, "timeout" }, { http.get(silent.url, { idle_timeout = 0.05 }) })
    there:receive(LIMIT)
    there:receive(0)
    local waiting = fiber.spawn(http.get, silent.url)
    there:receive(LIMIT)
    waiting:cancel()
    local ok, err = waiting:wait(LIMIT)
    assert.same({ false, "cancelled" }, { ok, err.kind })
    ok, err = pcall(process.deadline, 0.05, http.get, silent.url)
    assert.same({ false, "deadline" }, { ok, err.kind })
    silent.close()
  end)

  it("count from the last byte, and not while the program itself is slow", function()
    local steps = channel.new()
    local slow = strange(function(conn)
      conn:write "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
      for _ = 1, 3 do
        steps:receive(LIMIT)
        conn:write "x"
      end
      conn:read(1, LIMIT)
    end)
    local a <close> = assert(http.get(slow.url, { stream = true, idle_timeout = LIMIT }))
    for _ = 1, 3 do
      steps:send(true)
      assert.equal("x", a:read())
    end
    assert.is_nil(a:read())
    slow.close()
  end)
end)

describe("a server that lies", function()
  local function fails(code, bytes)
    local a, message, got = answers(bytes)
    assert.same({ nil, code }, { a, got })
    assert.matches("^http://127%.0%.0%.1:%d+/: .", message)
  end

  it("is a failure with a name", function()
    fails("EOF", "")
    fails("EPROTO", "SSH-2.0-OpenSSH\r\n\r\n")
    fails("EOF", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
    fails("EPROTO", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    fails("EPROTO", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd")
    fails("EPROTO", "HTTP/1.1 302 Found\r\nLocation: gopher://x/\r\nContent-Length: 0\r\n\r\n")
  end)

  it("gets no more memory than it may have", function()
    local field = "X-Y: " .. ("y"):rep(1000) .. "\r\n"
    local a, _, code = answers("HTTP/1.1 200 OK\r\n" .. field:rep(300) .. "\r\n")
    assert.same({ nil, "EMSGSIZE" }, { a, code })
    assert.equal("body", answers("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nbody").body)
  end)
end)

describe("TLS", function()
  local c, server, url
  setup(function()
    c = certificates()
    server = assert(http.serve("127.0.0.1:0", function(req) return "secret for " .. req.path end,
      { workers = 1, tls = { cert = c.cert, key = c.key } }))
    url = address(server):gsub("^http", "https")
  end)
  teardown(function()
    server:stop()
    c.remove()
  end)

  local function fails(code, ...)
    local a, message, got = http.get(...)
    assert.same({ nil, code }, { a, got }, message)
  end

  it("looks at certificates, unless it is told not to", function()
    fails("CERT_UNKNOWN_CA", url)
    fails("CERT_UNKNOWN_CA", url, { tls = { ca = c.other_ca } })
    assert.equal("secret for /", assert(http.get(url, { tls = { ca = c.ca } })).body)
    local client <close> = assert(http.client { tls = { ca = c.text "ca" } })
    assert.equal("secret for /", assert(client:get(url)).body)
    assert.equal("secret for /", assert(client:get((url:gsub("127%.0%.0%.1", "localhost")))).body)
    assert.equal("secret for /", assert(http.get(url, { tls = { verify = false } })).body)
    fails("TLS_SETUP", url, { tls = { ca = "/nowhere.pem" } })
  end)

  it("is not spoken where there is none", function()
    local a, message, code = http.get((url:gsub("^https", "http")))
    assert(not a and (code == "EOF" or code == "ECONNRESET"), message)
  end)
end)

describe("a client", function()
  it("goes by a proxy, a Unix socket, and HTTP/1.1 alone where it is told so", function()
    local heads = {}
    local proxy = strange(function(conn, head)
      heads[#heads + 1] = head
      conn:write "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    end)
    assert.equal("ok", assert(http.get("http://far.invalid/x", { proxy = proxy.url, version = "1.1" })).body)
    assert.matches("^GET http://far%.invalid/x HTTP/1%.1\r\n", heads[1])
    assert.equal("ECONNREFUSED", select(3, http.get(proxy.url, { proxy = "http://127.0.0.1:1/" })))
    assert.equal("ok", assert(http.get(proxy.url, { proxy = "http://127.0.0.1:1/", no_proxy = "127.0.0.1" })).body)
    proxy.close()
    local folder = temporary()
    os.remove(folder)
    local server = assert(http.serve("unix:" .. folder, function(req) return "at " .. req.path end, { workers = 1 }))
    assert.equal("at /x", assert(http.get("http://here/x", { unix = folder })).body)
    server:stop()
    os.remove(folder)
  end)

  it("that is closed ends its requests", function()
    local silent = strange(function(conn) conn:read(1, LIMIT) end)
    local client = assert(http.client())
    local waiting = fiber.spawn(client.get, client, silent.url)
    fiber.yield()
    client:close()
    local _, a, _, code = waiting:wait(LIMIT)
    assert.same({ nil, "EBADF" }, { a, code })
    silent.close()
  end)

  it("and whatever it has open ends with its process", function()
    local silent = strange(function(conn)
      conn:write "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"
      conn:read(1, LIMIT)
    end)
    local p = process.spawn(function(url)
      local a = assert(require "mare.http.client".get(url, { stream = true, decompress = false }))
      return a:read()
    end, silent.url)
    assert.same({ true, "x" }, { p:wait(LIMIT) })
    local ready = channel.new()
    p = process.spawn(function(url)
      local a = assert(require "mare.http.client".get(url, { stream = true, decompress = false }))
      ready:send(a:read())
      a:read()
    end, silent.url)
    ready:receive(LIMIT)
    p:kill()
    assert.is_false((p:wait(LIMIT)))
    silent.close()
  end)
end)
