-- The example server as strangers see it: real sockets, well-behaved and other peers, and the page in a browser.
-- runs under: mare
-- needs: plain
local mare = require "mare"
local net, subprocess = require "mare.net", require "mare.subprocess"
local proc = require "spec.support.proc"
local browser = require "spec.support.browser"

local LIMIT = 30

local function start_as(command)
  command.stdin = "null"
  local child = assert(subprocess.spawn(command))
  local line = assert(child.stdout:read("l", LIMIT), "the server did not start")
  return { child = child, port = math.tointeger(tonumber(line:match(":(%d+)/"))), line = line }
end

local function start(...) return start_as { proc.bin, "run", "examples/webserver.lua", ... } end

-- Ends it as Ctrl-C does; it must end by itself, and have had nothing to complain about.
local function stop(server, how)
  server.child:kill(how or "INT")
  local result = server.child:wait(LIMIT)
  if not result then server.child:kill("KILL") end
  local complaints = server.child.stderr:read("a", LIMIT):gsub("MARE_CHAOS=%d+\n", "")
  server.child.stdout:close()
  server.child.stderr:close()
  assert.equal("", complaints)
  assert.same({ code = 0 }, result)
end

-- What `method` was: an answer to HEAD has no body, whatever its length says.
local function answer(conn, method)
  local head, why = conn:read_until("\r\n\r\n", 65536, LIMIT)
  if not head then return nil, why end
  local a = { status = tonumber(head:match("^HTTP/1%.1 (%d%d%d) [^\r]+\r\n")), head = head, fields = {} }
  for name, value in head:gmatch("\r\n([^:\r]+): ([^\r]*)") do a.fields[name:lower()] = value end
  local length = tonumber(a.fields["content-length"])
  a.body = method ~= "HEAD" and length and length > 0 and conn:read(length, LIMIT) or ""
  return a
end

local function get(target, more, method) return ("%s %s HTTP/1.1\r\nHost: me\r\n%s\r\n"):format(method or "GET", target, more or "") end
local function post(target, body, more) return get(target, "Content-Length: " .. #body .. "\r\n" .. (more or ""), "POST") .. body end

describe("the web server", function()
  local server
  setup(function() server = start("0", "2") end)
  teardown(function() stop(server) end)

  local function connect() return assert(net.connect("127.0.0.1", server.port, { timeout = LIMIT })) end

  -- One request on a connection of its own; the answer, and what the server does afterwards.
  local function ask(text)
    local conn <close> = connect()
    assert(conn:write(text))
    local a = assert(answer(conn))
    return a, conn:read(nil, a.fields.connection == "close" and LIMIT or 0)
  end

  local function alive() assert.equal(200, (ask(get "/small")).status) end

  it("answers request after request on one connection", function()
    local conn <close> = connect()
    local first
    for _ = 1, 50 do
      conn:write(get "/small")
      local a = answer(conn)
      assert.equal(200, a.status)
      assert.matches("^%a%a%a, %d%d %a%a%a %d%d%d%d %d%d:%d%d:%d%d GMT$", a.fields.date)
      assert.equal("text/html", a.fields["content-type"])
      first = first or a.body
      assert.equal(first, a.body)
    end
    assert.matches("small page", first)
  end)

  it("answers HEAD as GET without the body", function()
    local conn <close> = connect()
    conn:write(get("/small", nil, "HEAD"), get "/small")
    local head, whole = answer(conn, "HEAD"), answer(conn)
    assert.equal(whole.fields["content-length"], head.fields["content-length"])
    assert.equal(tonumber(head.fields["content-length"]), #whole.body)
  end)

  it("answers pipelined requests in their order, also for different services", function()
    local conn <close> = connect()
    local requests = {}
    for i = 1, 60 do
      requests[#requests + 1] = post("/sort?by=number", ("%d\n%d\n"):format(i + 1, i))
      requests[#requests + 1] = get(i % 2 == 0 and "/small" or "/nothing")
    end
    conn:write(table.concat(requests))
    for i = 1, 60 do
      assert.equal(("%d\n%d\n"):format(i, i + 1), answer(conn).body)
      assert.equal(i % 2 == 0 and 200 or 404, answer(conn).status)
    end
  end)

  it("sorts by each comparison, in both orders and by both algorithms", function()
    local function sorted(query, lines) return (ask(post("/sort?" .. query, lines))).body end
    assert.equal("10\n2\na\n", sorted("by=name", "a\n10\n2"))
    assert.equal("2\n10\n", sorted("by=number", "10\r\n2\r\n"))
    assert.equal("1e3\n10\n2\n", sorted("by=number&order=descending", "10\n2\n1e3"))
    assert.equal("è\nbb\naa\nccc\n", sorted("by=length", "bb\naa\nccc\nè\n"))       -- equal ones keep their order
    assert.equal("4\n2\n3\n1\n", sorted("by=parity", "3\n4\n1\n2\n"))
    assert.equal("5\n0\n-7\n-1\n", sorted("by=sign&order=descending", "-7\n0\n5\n-1\n"))
    assert.equal("", sorted("", ""))
    local numbers, expected = {}, {}
    for i = 1, 20000 do numbers[i], expected[i] = (i * 7919) % 20011, (i * 7919) % 20011 end
    table.sort(expected)
    for _, algorithm in ipairs { "merge", "quick" } do
      assert.equal(table.concat(expected, "\n") .. "\n", sorted("by=number&algorithm=" .. algorithm, table.concat(numbers, "\n")))
    end
  end)

  it("says what it can't sort, and goes on", function()
    local conn <close> = connect()
    conn:write(post("/sort?by=number", "1\nx\n"), post("/sort?by=size", ""), get "/small")
    local a = answer(conn)
    assert.same({ 400, "line 2 is no number: x\n" }, { a.status, a.body })
    a = answer(conn)
    assert.equal(400, a.status)
    assert.matches("^by=name|", a.body)
    assert.equal(200, answer(conn).status)
  end)

  it("takes bodies in chunks, and says that it will", function()
    local conn <close> = connect()
    conn:write(get("/sort?by=number", "Transfer-Encoding: chunked\r\n", "POST"), "3\r\n10\n\r\n4;x=y\r\n9\n8\n\r\n0\r\nLast: one\r\n\r\n")
    assert.equal("8\n9\n10\n", answer(conn).body)
    conn:write(get("/sort", "Content-Length: 4\r\nExpect: 100-continue\r\n", "POST"))
    assert.equal(100, answer(conn).status)
    conn:write("b\na\n")
    assert.equal("a\nb\n", answer(conn).body)
  end)

  it("ends connections as it was asked to", function()
    local a, rest = ask(get("/small", "Connection: close\r\n"))
    assert.same({ 200, "close", nil }, { a.status, a.fields.connection, rest })
    a = ask("GET /small HTTP/1.0\r\n\r\n")
    assert.equal("close", a.fields.connection)
    local conn <close> = connect()
    for _ = 1, 2 do
      conn:write("GET /small HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")
      assert.equal("keep-alive", answer(conn).fields.connection)
    end
  end)

  it("answers a peer that has ended its side", function()
    local conn <close> = connect()
    conn:write(get "/small", get "/", post("/sort", "b\na\n"))
    conn:shutdown("write")
    assert.equal(200, answer(conn).status)
    assert.matches("</html>", answer(conn).body)
    assert.equal("a\nb\n", answer(conn).body)
    assert.equal("", conn:read("a", LIMIT))
  end)

  it("says what is wrong with a request", function()
    local cases = {
      { 404, get "/nothing" }, { 404, get "/small/" }, { 404, get "/../etc/passwd" },
      { 405, get("/small", nil, "DELETE") }, { 405, get "/sort" },
      { 400, "hello\r\n\r\n" }, { 400, "GET /small\r\n\r\n" }, { 400, "\r\n\r\n" }, { 400, "GET  /small HTTP/1.1\r\nHost: me\r\n\r\n" },
      { 400, "GET /small HTTP/1.1\r\n\r\n" }, { 400, get("/small", "no colon\r\n") }, { 400, get("/small", " folded: x\r\n") },
      { 400, get("/small", "Space : x\r\n") }, { 400, get("/small", "Zero: \0\r\n") }, { 400, get("/sort", "Content-Length: -1\r\n", "POST") },
      { 400, get("/sort", "Content-Length: 1\r\nContent-Length: 2\r\n", "POST") },
      { 400, get("/sort", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", "POST") },
      { 400, get("/sort", "Transfer-Encoding: chunked\r\n", "POST") .. "zz\r\n" },
      { 400, get("/sort", "Transfer-Encoding: chunked\r\n", "POST") .. "1\r\nabc" },
      { 413, get("/sort", "Content-Length: 99999999999999999999\r\n", "POST") },
      { 413, get("/sort", "Transfer-Encoding: chunked\r\n", "POST") .. "fffffff\r\n" },
      { 417, get("/sort", "Content-Length: 1\r\nExpect: a miracle\r\n", "POST") },
      { 431, get("/small", "Long: " .. ("x"):rep(20000) .. "\r\n") },
      { 501, get("/sort", "Transfer-Encoding: gzip\r\n", "POST") }, { 505, "GET /small HTTP/2.0\r\n\r\n" },
    }
    for _, case in ipairs(cases) do
      local a, rest = ask(case[2])
      assert.equal(case[1], a.status, case[2])
      if a.fields.connection == "close" then assert.is_nil(rest) end
      if case[1] == 405 then assert.truthy(a.fields.allow) end
    end
    assert.equal("GET, HEAD", ask(get("/small", nil, "POST")).fields.allow)
  end)

  it("is not moved by garbage, resets and peers that leave, and keeps no descriptor of theirs", function()
    local function descriptors()
      return tonumber(subprocess.run({ "sh", "-c", ("ls /proc/%d/fd | wc -l"):format(server.child.pid) }).out)
    end
    alive()
    local before = descriptors()
    local state = 1
    local function noise(n)
      local bytes = {}
      for i = 1, n do
        state = (state * 1103515245 + 12345) % 2147483648
        bytes[i] = string.char(state // 65536 % 256)
      end
      return table.concat(bytes)
    end
    for i = 1, 100 do
      local conn = connect()
      conn:write(i % 4 == 0 and get "/small" or i % 4 == 1 and "POST /sort HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf" or
        i % 4 == 2 and noise(200) .. "\r\n\r\n" or "GET /sma")
      if i % 3 == 0 then conn:option("linger", 0) end      -- a reset instead of an end
      conn:close(0)
    end
    alive()
    local limit = mare.clock() + LIMIT
    while descriptors() > before and mare.clock() < limit do mare.sleep(0.05) end
    assert.is_true(descriptors() <= before)
  end)

  it("waits when it has no descriptors left, and then goes on", function()
    local command = 'ulimit -n 40; exec "$@"'
    local small = start_as({ "sh", "-c", command, "sh", proc.bin, "run", "examples/webserver.lua", "0", "2" })
    local peers = {}
    for i = 1, 60 do
      peers[i] = assert(net.connect("127.0.0.1", small.port, { timeout = LIMIT }))
      peers[i]:write(get "/small")
    end
    for i = 1, 60 do
      assert.equal(200, answer(peers[i]).status)
      peers[i]:close()
    end
    stop(small)
  end)

  it("delays nobody for a slow writer or a peer that does not read", function()
    local slow <close> = connect()
    local deaf <close> = connect()
    local body = ("a line of some length\n"):rep(40000)
    local sender = mare.fiber.spawn(function() return deaf:write(post("/sort", body):rep(8)) end)
    for byte in get("/small"):gmatch(".") do
      slow:write(byte)
      alive()
    end
    assert.equal(200, answer(slow).status)
    for _ = 1, 8 do assert.equal(#body, #answer(deaf).body) end
    assert.same({ true, true }, { sender:wait() })
  end)

  it("tells the loads of its workers, among which connections are shared out", function()
    local watcher <close> = connect()
    watcher:write(get "/events")
    assert.equal("text/event-stream", answer(watcher).fields["content-type"])
    -- What the two have open, once it is so many.
    local function loads(n)
      local limit = mare.clock() + LIMIT
      repeat
        local event = assert(watcher:read_until("\n\n", 65536, LIMIT))
        local open = {}
        for count in event:gmatch('"open":(%d+)') do open[#open + 1] = tonumber(count) end
        assert.equal(2, #open)
        if open[1] + open[2] == n then return open[1], open[2] end
      until mare.clock() > limit
      error(("they never had %d connections"):format(n))
    end
    local tries = 0
    local a, b
    repeat                                         -- a worker that the system lets wait meanwhile gets fewer
      local peers = {}
      for i = 1, 10 do
        peers[i] = connect()
        peers[i]:write(get "/small")
        answer(peers[i])
      end
      tries = tries + 1
      a, b = loads(11)
      for i = 1, 10 do peers[i]:close() end
      loads(1)
    until math.abs(a - b) == 1 or tries == 20
    assert.equal(1, math.abs(a - b))
  end)

  it("has a page that shows the loads live, and sorts", function()
    if not browser.find() then return pending("Chromium is not installed (tools/setup test)") end
    local page <close> = browser.open(("http://127.0.0.1:%d/"):format(server.port))
    page:wait "document.querySelectorAll('.card .rate').length == 2"
    page:wait "$('state').textContent == 'live'"
    assert.equal("31\n-4\n1592\n65\n-358\n979", page:eval "$('sort').elements.lines.value")
    page:eval "$('sort').requestSubmit()"
    page:wait "$('sorted').textContent != ''"
    assert.equal("-358\n-4\n31\n65\n979\n1592\n", page:eval "$('sorted').textContent")
    page:eval "$('busy').click()"
    page:wait "[...document.querySelectorAll('.rate span')].some(r => Number(r.textContent) > 0)"
    page:wait "document.querySelector('polyline').getAttribute('points').split(' ').length == 80"
    assert.equal("1", page:eval "document.documentElement.scrollWidth <= innerWidth ? 1 : 0")
    assert.same({}, page.log)
  end)
end)

describe("the web server with little patience", function()
  local server
  setup(function() server = start("0", "1", "0.3") end)
  teardown(function() stop(server) end)

  local function connect() return assert(net.connect("127.0.0.1", server.port)) end

  -- A connection on which that was written in time, and its first answer: a loaded machine may keep us longer than the server is patient.
  local function asked(text)
    local limit = mare.clock() + LIMIT
    repeat
      local conn = connect()
      conn:write(text)
      local a = answer(conn)
      if a then return conn, a end
      conn:close()
    until mare.clock() > limit
    error "it was never answered"
  end

  it("closes connections that ask nothing, at the start and between two requests", function()
    local a <close> = connect()
    assert.equal("", a:read("a", LIMIT))
    local b <close>, first = asked(get "/small")
    assert.equal(200, first.status)
    assert.equal("", b:read("a", LIMIT))
  end)

  it("answers 408 to half a request, be it the head or the body", function()
    for _, half in ipairs { "GET /small HT", get "/small" .. "GET /small HT", post("/sort", "12345"):sub(1, -2),
                            get("/sort", "Transfer-Encoding: chunked\r\n", "POST") .. "5\r\nab" } do
      local conn <close>, a = asked(half)
      if a.status == 200 then a = answer(conn) end
      assert.equal(408, a.status)
      assert.equal("", conn:read("a", LIMIT))
    end
  end)
end)

describe("the web server at its start and end", function()
  it("ends by itself with idle, watching and half-way peers", function()
    local server = start("0", "2")
    local peers = {}
    for i, text in ipairs { "", "GET /sm", get "/small", get "/events", post("/sort", "abc"):sub(1, -2) } do
      peers[i] = assert(net.connect("127.0.0.1", server.port))
      peers[i]:write(text)
    end
    assert.equal(200, answer(peers[3]).status)
    assert.equal(200, answer(peers[4]).status)
    stop(server)
    for i = 1, 5 do peers[i]:close() end
  end)

  it("ends by TERM as by INT: what is being answered is answered in full", function()
    local lines = ("9\n8\n7\n"):rep(100000)
    local function ended(how, pause)
      local server = start("0", "2")
      local conn <close> = assert(net.connect("127.0.0.1", server.port))
      conn:write(post("/sort?by=number", lines))
      mare.sleep(pause)
      stop(server, how)
      local got = answer(conn)
      if not got or got.status ~= 200 then return false end      -- on a loaded machine it may not have read the request by then
      assert.equal(#lines, #got.body)
      assert.equal("", conn:read("a", LIMIT))
      return true
    end
    for _, how in ipairs { "TERM", "INT" } do
      assert.is_true(ended(how, 0.05) or ended(how, 0.5) or ended(how, 5))
    end
  end)

  it("says what is wrong with its arguments or the port", function()
    local server <close> = assert(net.listen("127.0.0.1:0"))
    local _, port = server:address()
    local r = proc.mare_command { "run", "examples/webserver.lua", tostring(port) }
    assert.equal(1, r.code)
    assert.matches("^webserver: .*127%.0%.0%.1:" .. port .. ": Address already in use\n$", r.err)
    r = proc.mare_command { "run", "examples/webserver.lua", "http" }
    assert.equal(2, r.code)
    assert.matches("^usage: ", r.err)
  end)
end)
