-- mare.http over TLS: connections that go on, bodies and files that take many records, clients that never finish their handshake.
-- needs: llhttp
-- needs: plain
-- runs under: mare
local mare = require "mare"
local http = require "mare.http"
local certificates = require "spec.support.certificates"
local temporary = require "spec.support.temporary"

local SIZE = 3000000

describe("mare.http over TLS", function()
  local c, folder, server, content
  setup(function()
    c, folder = certificates(), temporary()
    os.remove(folder)
    assert(mare.file.mkdir(folder))
    local parts = {}
    for i = 1, SIZE // 8 do parts[i] = ("<I8"):pack(i * 0x9E3779B97F4A7C15) end
    content = table.concat(parts)
    assert(mare.file.write(folder .. "/large.bin", content))
    local app, files = http.router(), http.files(folder)
    app:get("/files/*path", files)
    app:post("/echo", function(request) return request:body() end)
    app:get("/tls", function(request)
      local about = request.connection:tls()
      return about.version .. " " .. tostring(about.server)
    end)
    server = assert(http.serve("127.0.0.1:0", app, { workers = 1, tls = { cert = c.cert, key = c.key },
      limits = { head = 60, drain = 60, body_bytes = SIZE } }))
  end)
  teardown(function()
    server:stop()
    for _, name in ipairs { "/large.bin", "/got" } do os.remove(folder .. name) end
    os.remove(folder)
    c.remove()
  end)

  local function connect() return assert(mare.tls.connect("localhost", select(2, server:address()), { ca = c.ca, timeout = 60 })):timeout(60) end

  local function ask(conn, first, body)
    assert(conn:write(first, " HTTP/1.1\r\nHost: localhost\r\n", body and ("Content-Length: %d\r\n"):format(#body) or "", "\r\n", body or ""))
    local head = assert(conn:read_until "\r\n\r\n")
    local length = tonumber(head:match "\r\nContent%-Length: (%d+)")
    return tonumber(head:match "^HTTP/1.1 (%d+)"), length > 0 and conn:read(length) or "", head
  end

  it("answers request after request on one connection, also long ones", function()
    local conn <close> = connect()
    for _ = 1, 3 do assert.equal("TLSv1.3 true", select(2, ask(conn, "GET /tls"))) end
    local status, body = ask(conn, "GET /files/large.bin")
    assert.is_true(status == 200 and body == content)
    status, body = ask(conn, "POST /echo", content)
    assert.is_true(status == 200 and body == content)
    conn:write(("GET /tls HTTP/1.1\r\nHost: localhost\r\n\r\n"):rep(10))
    for _ = 1, 10 do
      assert.matches("^HTTP/1.1 200 OK\r\n", conn:read_until "\r\n\r\n")
      assert.equal("TLSv1.3 true", conn:read(12))
    end
    assert.equal(404, (ask(conn, "GET /none")))
  end)

  it("is not held up by who speaks no TLS, or never ends his handshake", function()
    local silent <close> = assert(mare.net.connect(server:address()))
    local other <close> = assert(mare.net.connect(server:address())):timeout(60)
    other:write "GET / HTTP/1.1\r\nHost: me\r\n\r\n"
    local conn <close> = connect()
    assert.equal(200, (ask(conn, "GET /tls")))
    local data = other:read "a"                          -- an alert of TLS, then the end
    assert.is_true(data == nil or not data:find "HTTP")
    assert.equal(0, silent:buffered())
    local short = assert(http.serve("127.0.0.1:0", function() return "" end,
      { workers = 1, tls = { cert = c.cert, key = c.key }, limits = { head = 0.02 } }))
    local late <close> = assert(mare.net.connect(short:address())):timeout(60)
    assert.is_true((late:read "a" or "") == "")
    short:stop()
  end)

  it("is understood by curl", function()
    local r = mare.subprocess.run { "curl", "-sS", "--cacert", c.ca, "--max-time", "60", "-w", "%{num_connects} %{http_code}\n",
      "-o", "/dev/null", "-o", folder .. "/got", ("https://localhost:%d/tls"):format(select(2, server:address())),
      ("https://localhost:%d/files/large.bin"):format(select(2, server:address())) }
    if not r then return pending "no curl here" end
    assert.same({ 0, "1 200\n0 200\n" }, { r.code, r.out }, r.err)
    assert.is_true(mare.file.read(folder .. "/got") == content)
  end)
end)
