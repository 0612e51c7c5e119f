-- mare.http as well-behaved and other clients see it: real sockets, one server for most of it.
-- needs: llhttp
-- runs under: mare
local mare = require "mare"
local http, net = require "mare.http", require "mare.net"

local LIMIT = 60

local function serve(handler, options)
  if type(handler) == "table" then return assert(http.serve("127.0.0.1:0", handler)) end
  options = options or {}
  options.workers = options.workers or 1
  return assert(http.serve("127.0.0.1:0", handler, options))
end

local function connect(server) return assert(net.connect("127.0.0.1", select(2, server:address()), { timeout = LIMIT })) end

local function chunks(conn)
  local parts = {}
  while true do
    local n = tonumber(assert(conn:read("l", LIMIT)), 16)
    local data = n > 0 and conn:read(n, LIMIT) or ""
    assert.equal("", conn:read("l", LIMIT))
    if n == 0 then return table.concat(parts), #parts end
    parts[#parts + 1] = data
  end
end

-- The next answer; nil when the connection has ended.
local function answer(conn, method)
  local head, _, code = conn:read_until("\r\n\r\n", 65536, LIMIT)
  if not head then return nil, code end
  local a = { status = tonumber(head:match "^HTTP/1%.1 (%d%d%d) "), head = head, fields = {} }
  for name, value in head:gmatch "\r\n([^:\r]+): ([^\r]*)" do a.fields[name:lower()] = value end
  local length = tonumber(a.fields["content-length"])
  a.body = ""
  if method == "HEAD" or a.status < 200 or a.status == 204 then return a
  elseif a.fields["transfer-encoding"] then a.body, a.chunks = chunks(conn)
  elseif length then a.body = length > 0 and conn:read(length, LIMIT) or ""
  elseif a.fields.connection == "close" then a.body = conn:read("a", LIMIT) end
  return a
end

local function get(target, more, method) return ("%s %s HTTP/1.1\r\nHost: me\r\n%s\r\n"):format(method or "GET", target, more or "") end
local function post(target, body, more) return get(target, "Content-Length: " .. #body .. "\r\n" .. (more or ""), "POST") .. body end
local function chunked(target, raw) return get(target, "Transfer-Encoding: chunked\r\n", "POST") .. raw end

local function handler(req)
  local path = req.path
  if path == "/hello" then return "hello" end
  if path == "/echo" then return 200, req:body(), { ["Content-Type"] = "application/octet-stream" } end
  if path == "/length" then
    local n = 0
    for piece in req:pieces() do n = n + #piece end
    return tostring(n)
  end
  if path == "/what" then
    local q = req.query
    return ("%s %s %s %s %s %s"):format(req.method, req.raw_path, req.version, q.a, q.b, req.headers["x-y"])
  end
  if path == "/unread" then return "not read" end
  if path == "/big" then return ("x"):rep(3000000) end
  if path == "/long" then return ("0123456789abcdef"):rep(16000) end
  if path == "/head" then return 200, "body", { ["X-Long"] = ("x"):rep(5000) } end
  if path == "/buffer" then return require "mare".buffer.new("bytes"):seal() end
  if path == "/none" then return 204 end
  if path == "/made" then return 201, "made", { Location = "/made/1", ["Set-Cookie"] = { "a=1", "b=2" } } end
  if path == "/stream" then
    req:start(200, { ["Content-Type"] = "text/x" })
    for i = 1, 3 do req:write("part ", tostring(i), ";") end
    return
  end
  if path == "/counted" then
    req:start(200, nil, 6)
    req:write "abc"
    req:write "def"
    return
  end
  if path == "/iterator" then
    local i = 0
    return function()
      i = i + 1
      require "mare".sleep(0.001)
      return i <= 3 and "x" .. i or nil
    end
  end
  if path == "/fail" then http.fail(418, "a teapot", { ["X-Pot"] = 1 }) end
  if path == "/raise" then error "a bug of the handler" end
  if path == "/half" then
    req:start(200, nil, 10)
    req:write "half"
    return
  end
  if path == "/nothing" then return end
  if path == "/split" then return 200, "", { ["X-Evil"] = "a\r\nSet-Cookie: b" } end
  http.fail(404)
end

describe("mare.http", function()
  local server
  local reports = mare.channel.new(math.huge)
  setup(function() server = serve(handler, { report = function(text) reports:send(text) end }) end)
  teardown(function() server:stop() end)

  -- Sends that on a connection of its own: the answer, and whether the connection goes on.
  local function ask(text, method)
    local conn <close> = connect(server)
    assert(conn:write(text))
    local a = assert(answer(conn, method))
    if a.fields.connection == "close" then
      a.rest = conn:read("a", LIMIT)
    else
      conn:write(get "/hello")
      assert.equal("hello", assert(answer(conn)).body)
    end
    return a
  end

  it("answers request after request on one connection, also those that come together", function()
    local conn <close> = connect(server)
    conn:write(get "/hello", post("/echo", "one"), get("/hello", nil, "HEAD"), chunked("/echo", "3\r\ntwo\r\n0\r\n\r\n"), get "/none", get "/hello")
    local got = {}
    for i, method in ipairs { "GET", "POST", "HEAD", "POST", "GET", "GET" } do
      local a = answer(conn, method)
      got[i] = a.status .. " " .. a.body
      assert.matches("^%a%a%a, %d%d %a%a%a %d%d%d%d %d%d:%d%d:%d%d GMT$", a.fields.date)
    end
    assert.same({ "200 hello", "200 one", "200 ", "200 two", "204 ", "200 hello" }, got)
  end)

  it("sends all of its answers to a client that reads them late", function()
    local conn <close> = connect(server)
    for _ = 1, 40 do assert(conn:write(get "/long", get "/head", get "/hello")) end
    for _ = 1, 40 do
      assert.equal(("0123456789abcdef"):rep(16000), answer(conn).body)
      local a = answer(conn)
      assert.same({ "body", 5000 }, { a.body, #a.fields["x-long"] })
      assert.equal("hello", answer(conn).body)
    end
  end)

  it("tells a handler what was asked", function()
    assert.equal("PUT /wh%61t 1.1 1 x y z w", ask(get("/wh%61t?a=1&b=x+y%20z&a=2", "X-Y: w\r\n", "PUT")).body)
    assert.equal("GET /what 1.1 nil nil nil", ask(get "http://me/what").body)
  end)

  it("sends what a handler returns", function()
    local a = ask(get "/made")
    assert.same({ 201, "made", "/made/1", "text/plain; charset=utf-8" }, { a.status, a.body, a.fields.location, a.fields["content-type"] })
    assert.matches("Set%-Cookie: a=1\r\nSet%-Cookie: b=2\r\n", a.head)
    assert.equal(3000000, #ask(get "/big").body)
    assert.equal("bytes", ask(get "/buffer").body)
    assert.is_nil(ask(get "/none").fields["content-length"])
    a = ask(get("/hello", nil, "HEAD"), "HEAD")
    assert.equal("5", a.fields["content-length"])
  end)

  it("streams", function()
    local a = ask(get "/stream")
    assert.same({ "part 1;part 2;part 3;", 3, "text/x" }, { a.body, a.chunks, a.fields["content-type"] })
    assert.equal("x1x2x3", ask(get "/iterator").body)
    a = ask(get "/counted")
    assert.same({ "abcdef", "6" }, { a.body, a.fields["content-length"] })
    assert.equal("", ask(get("/stream", nil, "HEAD"), "HEAD").body)
  end)

  it("speaks HTTP/1.0", function()
    local a = ask "GET /hello HTTP/1.0\r\n\r\n"
    assert.same({ "hello", "close", "" }, { a.body, a.fields.connection, a.rest })
    a = ask "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    assert.equal("keep-alive", a.fields.connection)
    a = ask "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    assert.same({ "part 1;part 2;part 3;", "close" }, { a.body, a.fields.connection })
    assert.is_nil(a.fields["transfer-encoding"])
  end)

  it("reads bodies in all their ways", function()
    local long = ("0123456789abcdef"):rep(20000)
    assert.equal(long, ask(post("/echo", long)).body)
    assert.equal(tostring(#long), ask(post("/length", long)).body)
    assert.equal("hello world", ask(chunked("/echo", "5;a=b\r\nhello\r\n06 ; c\r\n world\r\n000\r\nTrailer: x\r\n\r\n")).body)
    assert.equal("11", ask(chunked("/length", "5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n"):gsub("A\r\n0123456789", "6\r\n world")).body)
    assert.equal("", ask(post("/echo", "")).body)
    assert.equal("", ask(get "/echo").body)
    assert.equal("not read", ask(post("/unread", "short")).body)
    assert.equal("not read", ask(chunked("/unread", "5\r\nhello\r\n0\r\n\r\n")).body)
    local conn <close> = connect(server)
    for c in post("/echo", "slow"):gmatch "." do conn:write(c) end
    assert.equal("slow", answer(conn).body)
  end)

  it("lets a client wait for 100 Continue", function()
    local conn <close> = connect(server)
    conn:write(get("/echo", "Content-Length: 4\r\nExpect: 100-continue\r\n", "POST"))
    assert.equal(100, answer(conn).status)
    conn:write "body"
    assert.equal("body", answer(conn).body)
    conn:write(get("/unread", "Content-Length: 4\r\nExpect: 100-continue\r\n", "POST"))
    local a = answer(conn)
    assert.same({ "not read", "close" }, { a.body, a.fields.connection })
  end)

  it("takes no status that an answer can't have", function()
    assert.error_matches(function() http.fail(50) end, "^http.fail: a status is a whole number from 200 to 999, got 50")
  end)

  it("refuses what is no HTTP, with the status that says why", function()
    for text, status in pairs {
      ["\22\3\1\0\1"] = 400, ["GET / HTTP/1.1\nHost: me\n\n"] = 400, [get("/", "A : b\r\n")] = 400, [get("/", nil, "BREW")] = 501,
      [get("/"):gsub("1%.1", "3.0")] = 505, [get("/", "A: " .. ("x"):rep(17000) .. "\r\n")] = 431, [get("/" .. ("x"):rep(17000))] = 414,
      [get("/", ("A: b\r\n"):rep(200))] = 431, [get("/", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", "POST")] = 400,
      [post("/echo", "", "Expect: 1\r\n")] = 417,
      [get("/echo", "Content-Length: 1048577\r\n", "POST")] = 413, [chunked("/echo", "100001\r\n")] = 413,
      [chunked("/echo", "x\r\n")] = 400, [chunked("/echo", "-1\r\n")] = 400, [chunked("/echo", "5 \r\nhello\r\n0\r\n\r\n")] = 400,
      [chunked("/echo", "0x5\r\nhello\r\n0\r\n\r\n")] = 400, [chunked("/echo", "5\r\nhello!\r\n0\r\n\r\n")] = 400, [chunked("/echo", "\r\n")] = 400,
      [chunked("/echo", "fffffffffffffffff\r\n")] = 400, [chunked("/echo", "5;" .. ("x"):rep(2000) .. "\r\n")] = 400,
      [chunked("/echo", ("1;" .. ("x"):rep(900) .. "\r\ny\r\n"):rep(20))] = 400, [chunked("/echo", "0\r\nno field\r\n\r\n")] = 400,
      [chunked("/echo", "0\r\n" .. ("A: b\r\n"):rep(4000) .. "\r\n")] = 431, [chunked("/echo", "5;\n\r\nhello\r\n0\r\n\r\n")] = 400,
    } do
      local a = ask(text)
      assert.same({ status, "close", "" }, { a.status, a.fields.connection, a.rest }, text:sub(1, 100))
    end
    assert.equal("hello", ask(get "/hello").body)
  end)

  it("answers in place of a handler that fails, and goes on", function()
    local a = ask(get "/fail")
    assert.same({ 418, "a teapot\n", "1" }, { a.status, a.body, a.fields["x-pot"] })
    assert.equal(404, ask(get "/no/such").status)
    for path, text in pairs { ["/raise"] = "^GET /raise: spec/http_spec%.lua:%d+: a bug of the handler\nstack traceback:",
      ["/nothing"] = "returned no answer",
      ["/split"] = "'X%-Evil' has a line's end" } do
      a = ask(get(path))
      assert.matches(text, (reports:receive(LIMIT)))
      assert.same({ 500, "Internal Server Error\n" }, { a.status, a.body })
      assert.is_nil(a.fields["set-cookie"])
    end
    local conn <close> = connect(server)
    conn:write(get "/half")
    assert.matches("Content%-Length: 10\r\n", conn:read_until("\r\n\r\n", 4096, LIMIT))
    assert.equal("half", conn:read("a", LIMIT))
    assert.matches("GET /half: the answer has 4 bytes, 10 were said", (reports:receive(LIMIT)))
    assert.is_nil((reports:try_receive()))
  end)
end)

describe("limits of mare.http", function()
  it("end what takes too long", function()
    local server = serve(handler, { limits = { idle = 0.1 } })
    local idle <close> = connect(server)
    assert.same({ nil, "EOF" }, { answer(idle) })
    server:stop()
    server = serve(handler, { limits = { head = 0.1, body = 0.1, drain = 0.1 } })
    for _, text in ipairs { "GET", "GET / HTTP/1.1\r\nHost: me\r\n", get("/echo", "Content-Length: 5\r\n", "POST") .. "1234",
      chunked("/length", "5\r\nhell"), chunked("/echo", "") } do
      local conn <close> = connect(server)
      conn:write(text)
      assert.equal(408, answer(conn).status)
      assert.equal("", conn:read("a", LIMIT))
    end
    server:stop()
  end)

  it("end a client that never reads", function()
    local begun = mare.channel.new(1)
    local server = serve(function()
      begun:send(true)
      return ("x"):rep(12000000)
    end, { limits = { write = 0.2, grace = math.huge } })
    local conn <close> = connect(server)
    conn:option("rcvbuf", 4096)
    conn:write(get "/")
    begun:receive()
    server:stop()                                    -- waits for it: for ever, but for `write`
  end)

  -- A process of its own sends what `text` says again and again, behind `first`, and reads what comes.
  local function with_flood(first, text, f)
    local server, stop, begun = serve(handler, { limits = { grace = 0.1 } }), mare.channel.new(1), mare.channel.new(1)
    local port = select(2, server:address())
    local flood = mare.process.spawn(function()
      local m = require "mare"
      local conn = assert(m.net.connect("127.0.0.1", port))
      conn:option("sndbuf", 16384)                   -- else the last of it waits until a megabyte is served
      m.fiber.spawn(function() while conn:read() do end end)
      conn:write(first)
      repeat
        conn:write(text)
        begun:try_send(true)
      until stop:try_receive()
      conn:close(0)                                  -- what is on its way need not be served
    end)
    begun:receive(LIMIT)
    f(server)
    stop:send(true)
    assert.is_true((flood:wait(LIMIT)))
    server:stop()
  end

  it("leave others their turn beside a client that sends without an end", function()
    for _, flood in ipairs { { "", get("/hello"):rep(1000) }, { chunked("/length", ""), ("1\r\nx\r\n"):rep(1000) } } do
      with_flood(flood[1], flood[2], function(server)
        for _ = 1, 5 do
          local conn <close> = connect(server)
          conn:write(get "/hello")
          assert.equal("hello", answer(conn).body)
        end
      end)
    end
  end)

  it("let an idle connection go for a new one", function()
    local server = serve(handler, { limits = { connections = 2 } })
    local open = {}
    for i = 1, 5 do
      open[i] = connect(server)
      open[i]:write(get "/hello")
      assert.equal("hello", answer(open[i]).body)
    end
    local ended, cases = 0, table.move(open, 1, 5, 1, {})
    while ended < 3 do                               -- three of them have, and no more
      local i = mare.select(cases)
      assert.equal("EOF", select(3, cases[i]:read()))
      table.remove(cases, i)
      ended = ended + 1
    end
    for _, conn in ipairs(cases) do
      conn:write(get "/hello")
      assert.equal("hello", answer(conn).body)
    end
    for i = 1, 5 do open[i]:close() end
    server:stop()
  end)

  it("are told where they are wrong", function()
    for _, options in ipairs { { limits = { heads = 1 } }, { limits = { idle = -1 } }, { limits = { head_bytes = 1 } }, { worker = 1 },
      { workers = 0 } } do
      assert.is_false((pcall(http.serve, "127.0.0.1:0", handler, options)))
    end
    assert.is_false((pcall(http.serve, "127.0.0.1:0")))
    assert.is_false((pcall(http.serve, "127.0.0.1:0", 1)))
    local ok, err = pcall(http.serve, "127.0.0.1:0", { start = function() error "no database" end, workers = 1 })
    assert.is_false(ok)
    assert.matches("no database", tostring(err))
    assert.is_nil((http.serve("127.0.0.1:0", handler, { tls = { cert = "/no/such", key = "/no/such" } })))
  end)
end)

describe("a server of mare.http", function()
  it("finishes what was asked when it stops", function()
    local gate, begun = mare.channel.new(), mare.channel.new(8)
    local server = serve(function(req)
      begun:send(req.path)
      return gate:receive()
    end, { limits = { grace = LIMIT } })
    local asked <close> = connect(server)
    local idle <close> = connect(server)
    asked:write(get "/")
    begun:receive(LIMIT)
    local stopping = mare.fiber.spawn(server.stop, server)
    assert.equal("EOF", select(3, idle:read(nil, LIMIT)))
    gate:send "finished"
    local a = answer(asked)
    assert.same({ "finished", "close" }, { a.body, a.fields.connection })
    assert.is_true((stopping:wait(LIMIT)))
  end)

  it("cuts off what takes longer than it waits for", function()
    local begun = mare.channel.new(1)
    local server = serve(function()
      begun:send(true)
      require "mare".sleep(3600)
    end, { limits = { grace = 0.1 } })
    local hanging <close> = connect(server)
    hanging:write(get "/")
    begun:receive(LIMIT)
    assert.is_true(server:stop())
    assert.is_nil((answer(hanging)))
  end)

  -- Connections until both processes of the server have some: the first may take several before the second comes. Which has the newest says talk().
  local function open_in_both(server, talk)
    local conns, seen, n = {}, {}, 0
    repeat
      conns[#conns + 1] = connect(server)
      local process = talk(conns[#conns])
      if not seen[process] then seen[process], n = true, n + 1 end
    until n == 2 or #conns == 1000
    assert.equal(2, n)
    return conns
  end

  it("is waited for by as many as want, each until all its processes have ended", function()
    local gate, begun = mare.channel.new(math.huge), mare.channel.new()
    local server = serve(function()
      begun:send(require "mare".process.self().id)
      return gate:receive()
    end, { workers = 2, limits = { grace = LIMIT } })
    local processes = table.move(server.workers, 1, 2, 1, {})
    local conns = open_in_both(server, function(conn)
      conn:write(get "/")
      return begun:receive(LIMIT)
    end)
    local waiting, stopping = mare.fiber.spawn(server.wait, server), mare.fiber.spawn(server.stop, server)
    mare.fiber.yield()
    processes[1]:kill()
    assert.same({ nil, "timeout" }, { stopping:wait(0.1) })
    for _ = 1, #conns do gate:send "x" end
    assert.is_true((stopping:wait(LIMIT)))
    assert.is_true((waiting:wait(LIMIT)))
    assert.is_true((processes[2]:wait(0)))
    for _, conn in ipairs(conns) do conn:close() end
  end)

  it("uses all its processes, each with what `start` gives it, and logs", function()
    local log = mare.channel.new(math.huge)
    local server = serve({ start = function()
      local id = require "mare".process.self().id
      return function() return tostring(id) end
    end, workers = 2, log = function(req, status, bytes) log:send(("%s %s %d %d"):format(req.method, req.target, status, bytes)) end })
    local conns = open_in_both(server, function(conn)
      conn:write(get "/1")
      return answer(conn).body
    end)
    for _ = 1, #conns do assert.matches("^GET /1 200 %d+$", (log:receive(LIMIT))) end
    for _, conn in ipairs(conns) do conn:close() end
    server:stop()
  end)
end)

describe("mare.http with mare.log", function()
  it("has its access log there, as fields with the request's id, and what handlers report", function()
    local proc = require "spec.support.proc"
    local read = require "mare.base.json".read
    local r = proc.mare [[
      local mare = require "mare"
      local http, log = mare.http, mare.log
      local app = http.router():use(http.identify)
      app:get("/", function(request) log.info("inside") return request.id end)
      app:get("/bug", function() error "a bug" end)
      local server = assert(http.serve("127.0.0.1:0", app, { workers = 1, log = http.log(log) }))
      for _, target in ipairs { "/", "/bug" } do
        local conn = mare.net.connect(server:address())
        conn:write("GET ", target, " HTTP/1.0\r\nX-Request-Id: r7\r\n\r\n")
        print(conn:read "a":match "[^\n]*$")
        conn:close()
      end
      server:stop()
      log.flush()
      server = assert(http.serve("127.0.0.1:0", app, { workers = 1, log = http.log(io.stderr) }))
      local conn = mare.net.connect(server:address())
      conn:write "GET / HTTP/1.0\r\nX-Request-Id: {\r\n\r\n"
      print(conn:read "a":match "(%x+)$")
      server:stop()
      print(pcall(http.log, 1)) ]]
    local lines = {}
    for line in r.err:gmatch "[^\n]+" do lines[#lines + 1] = line:sub(1, 1) == "{" and read(line) or { message = line } end
    local inside, first, bug, second = lines[1], lines[2], lines[3], lines[4]
    assert.same({ "inside", "r7", "http" }, { inside.message, inside.request, inside.process_name })
    assert.same({ "request", "GET", "/", 200, 2, "r7" }, { first.message, first.method, first.target, first.status, first.bytes, first.request })
    assert.matches("^mare.http: GET /bug %[r7%]: .-: a bug$", bug.message)
    assert.same({ "/bug", 500 }, { second.target, second.status })
    assert.matches("127.0.0.1 %- %- %[.-%] \"GET / HTTP/1.0\" 200 16", r.err)
    assert.matches("^r7\n[^\n]*\n%x+\nfalse\t[^\n]*http.log: mare.log, a file", r.out)
  end)
end)
