-- The client of mare.http against its own server: what is asked, what is answered, redirects, cookies, many at once.
-- needs: llhttp
-- needs: curl
-- runs under: mare
local mare = require "mare"
local http = require "mare.http"
local fiber = mare.fiber

-- A server of one process, so that what it counts is all there is. `peer` tells connections apart.
local function handler()
  local connections, known = 0, setmetatable({}, { __mode = "k" })
  local app = {}
  local function number(req)
    if not known[req.connection] then
      connections = connections + 1
      known[req.connection] = connections
    end
    return known[req.connection]
  end
  function app.what(req)
    return ("%s %s %s"):format(req.method, req.target, req:body())
  end
  function app.fields(req)
    local list = {}
    for name, value in pairs(req.headers) do list[#list + 1] = name .. "=" .. value end
    table.sort(list)
    return table.concat(list, "\n")
  end
  function app.connection() return "" end
  function app.json() return 200, '{"list":[1,2.5,"x"]}', { ["Content-Type"] = "application/json" } end
  function app.status(req) return tonumber(req.query.n), "as you like", { ["X-A"] = { "1", "2" } } end
  function app.to(req) return tonumber(req.query.n or 302), "elsewhere", { Location = req.query.to } end
  function app.loop() return 302, "", { Location = "/loop" } end
  function app.set() return 200, "", { ["Set-Cookie"] = { "a=1; Path=/", "b=two; Path=/; HttpOnly" } } end
  function app.cookie(req) return tostring(req.headers.cookie) end
  function app.chunks(req)
    req:start(200)
    for i = 1, 5 do req:write("line ", tostring(i), i % 2 == 0 and "\r\n" or "\n") end
    req:write "the end"
  end
  return function(req)
    local n = number(req)
    if req.path == "/connection" then return tostring(n) end
    local f = app[req.path:sub(2)]
    if f then return f(req) end
    return 404
  end
end

describe("the client", function()
  local server, base
  setup(function()
    server = assert(http.serve("127.0.0.1:0", { start = handler, workers = 1 }))
    local host, port = server:address()
    base = ("http://%s:%d"):format(host, port)
  end)
  teardown(function() server:stop() end)

  local function lines(path, options) return assert(http.get(base .. path, options)).body end

  it("sends methods, queries and bodies", function()
    local a = assert(http.get(base .. "/what", { query = { b = { 1, "x y" }, a = "&" } }))
    assert.same({ 200, "OK", true, "1.1", "GET /what?a=%26&b=1&b=x%20y " }, { a.status, a.reason, a.ok, a.version, a.body })
    assert.equal("text/plain; charset=utf-8", a.headers["content-type"])
    assert.equal("GET /what?x=1&y=2 ", lines("/what?x=1#part", { query = "y=2" }))
    for _, method in ipairs { "post", "put", "patch", "delete", "options" } do
      assert.equal(method:upper() .. " /what body\0.", http[method](base .. "/what", { body = "body\0." }).body)
    end
    assert.equal("POST /what ", http.post(base .. "/what").body)
    assert.equal("", http.head(base .. "/what").body)
    assert.equal("PROPFIND /what x", http.request { url = base .. "/what", method = "PROPFIND", body = mare.buffer.new("x"):seal() }.body)
    assert.equal("POST /what b=2&c=%C3%A4", http.post(base .. "/what", { form = { c = "ä", b = 2 } }).body)
  end)

  it("takes a body from a function that may wait", function()
    local function pieces(n)
      return function()
        n = n - 1
        mare.sleep(0.001)
        return n >= 0 and tostring(n) .. "," or nil
      end
    end
    assert.equal("POST /what 2,1,0,", http.post(base .. "/what", { body = pieces(3) }).body)
    assert.equal("PUT /what 1,0,", http.put(base .. "/what", { body = pieces(2), length = 4 }).body)
    assert.matches("transfer%-encoding=chunked", http.post(base .. "/fields", { body = pieces(1) }).body)
    assert.error_matches(function() http.post(base .. "/what", { body = function() error "no more ink" end }) end, "no more ink")
    assert.error_matches(function() http.post(base .. "/what", { body = function() return 7 end }) end, "strings, buffers")
  end)

  it("sends fields in their order, repeated, empty or not at all", function()
    local got = lines("/fields", { headers = { { "X-A", "1" }, { "X-A", "2" }, ["X-B"] = { "3", 4 }, ["X-Empty"] = "", ["User-Agent"] = false } })
    assert.matches("x%-a=1, 2", got)
    assert.matches("x%-b=3, 4", got)
    assert.matches("x%-empty=$", got)
    assert.is_nil(got:find("user-agent", 1, true))
    assert.matches("authorization=Basic dTpwOnc=", lines("/fields", { auth = { "u", "p:w" } }))
    assert.matches("authorization=Bearer t0ken", lines("/fields", { bearer = "t0ken" }))
    assert.matches("authorization=Basic dTpw", assert(http.get(base:gsub("//", "//u:p@", 1) .. "/fields")).body)
    for _, headers in ipairs { { ["X"] = "a\r\nY: b" }, { ["X Y"] = "" }, { X = {} , [1] = "X: y" }, { X = print } } do
      assert.has_error(function() http.get(base .. "/fields", { headers = headers }) end)
    end
  end)

  it("gives fields as they came, and taken together", function()
    local a = assert(http.get(base .. "/status", { query = { n = 418 } }))
    assert.same({ 418, false, "1, 2" }, { a.status, a.ok, a.headers["x-a"] })
    local seen = {}
    for _, f in ipairs(a.fields) do if f[1] == "X-A" then seen[#seen + 1] = f[2] end end
    assert.same({ "1", "2" }, seen)
    assert.equal(204, http.get(base .. "/status?n=204").status)
  end)

  it("follows redirects as browsers do", function()
    local a = assert(http.get(base .. "/to", { query = { to = "/what?x=1" } }))
    assert.same({ "GET /what?x=1 ", 1, base .. "/what?x=1" }, { a.body, a.redirects, a.url })
    assert.equal("GET /what ", http.post(base .. "/to?n=302&to=/what", { body = "b" }).body)
    assert.equal("GET /what ", http.put(base .. "/to?n=303&to=/what", { body = "b" }).body)
    assert.equal("POST /what b", http.post(base .. "/to?n=307&to=/what", { body = "b" }).body)
    assert.equal("PUT /what b", http.put(base .. "/to?n=301&to=/what", { body = "b" }).body)
    assert.equal(302, http.get(base .. "/loop", { redirects = false }).status)
    local none, message, code = http.get(base .. "/loop")
    assert.same({ nil, "ELOOP" }, { none, code })
    assert.matches("/loop: more than 10 redirects", message)
    code = select(3, http.get(base .. "/to?to=ftp://x/"))
    assert.equal("EPROTO", code)
    code = select(3, http.post(base .. "/to?n=308&to=/what", { body = function() end }))
    assert.equal("EPROTO", code)
  end)

  it("gives another server no secrets", function()
    local other = base:gsub("127%.0%.0%.1", "localhost")
    local function asked(to, options) return assert(http.get(base .. "/to", { query = { to = to }, headers = options.headers, auth = options.auth,
                                                                              bearer = options.bearer })).body end
    for _, options in ipairs { { bearer = "secret" }, { auth = { "me", "secret" } }, { headers = { Authorization = "x", Cookie = "y" } } } do
      assert.matches("authorization=", asked(base .. "/fields", options))
      assert.is_nil(asked(other .. "/fields", options):find("authorization=", 1, true))
      assert.is_nil(asked(other .. "/fields", options):find("cookie=", 1, true))
    end
  end)

  it("gives another server no secrets of a client with a base, but those of the request", function()
    local other = base:gsub("127%.0%.0%.1", "localhost") .. "/fields"
    for _, secret in ipairs { { bearer = "secret" }, { auth = { "me", "secret" } }, { headers = { Authorization = "secret", ["X-A"] = "a" } },
                              { headers = { { "Authorization", "secret" }, { "X-A", "a" } } } } do
      secret.base = base
      local client <close> = assert(http.client(secret))
      assert.matches("authorization=", client:get("/fields").body)
      for _, body in ipairs { "text", function() end } do
        local seen = assert(client:post(other, { body = body })).body
        assert.is_nil(seen:find("authorization=", 1, true))
        assert.equal(secret.headers ~= nil, seen:find("x-a=a", 1, true) ~= nil)
      end
      assert.matches("authorization=Bearer its own", client:get(other, { bearer = "its own" }).body)
    end
  end)

  it("uses a connection again", function()
    local client = assert(http.client { base = base })
    local first = client:get("/connection").body
    for _ = 1, 5 do assert.equal(first, client:get("connection").body) end
    assert.equal(0, client:get("/connection"):info().opened)
    assert.not_equal(first, assert(http.client()):get(base .. "/connection").body)
    client:close()
    assert.error_matches(function() client:get "/connection" end, "closed")
  end)

  it("keeps cookies in a client", function()
    local client <close> = assert(http.client { base = base })
    assert.equal("nil", client:get("/cookie").body)
    assert.equal("a=1; Path=/\nb=two; Path=/; HttpOnly", client:get("/set").headers["set-cookie"])
    local sent = client:get("/cookie").body
    assert(sent == "a=1; b=two" or sent == "b=two; a=1", sent)
    local jar = client:cookies()
    table.sort(jar, function(a, b) return a.name < b.name end)
    assert.same({ 2, "a", "1", false, "/", "two", true },
      { #jar, jar[1].name, jar[1].value, jar[1].http_only, jar[1].path, jar[2].value, jar[2].http_only })
    assert.equal("nil", lines "/cookie")
    http.get(base .. "/set")
    assert.equal("nil", lines "/cookie")
  end)

  it("has a hundred requests on their way beside each other", function()
    local client <close> = assert(http.client { base = base, per_host = 10 })
    local running = {}
    for i = 1, 100 do running[i] = fiber.spawn(function() return assert(client:get("/what?n=" .. i)).body end) end
    for i, f in ipairs(running) do assert.same({ true, "GET /what?n=" .. i .. " " }, { f:wait() }) end
    assert.equal(1, fiber.count())
  end)

  it("gives bodies piece by piece, as lines and as JSON", function()
    local a <close> = assert(http.get(base .. "/chunks", { stream = true }))
    assert.is_nil(a.body)
    local list = {}
    for line in a:lines() do list[#list + 1] = line end
    assert.same({ "line 1", "line 2", "line 3", "line 4", "line 5", "the end" }, list)
    assert.same({}, { a:read() })
    assert.same({ 1, 2.5, "x" }, http.get(base .. "/json"):json().list)
    local value, message, code = http.get(base .. "/what"):json()
    assert.same({ nil, "EPROTO" }, { value, code })
    assert.matches("no JSON: line 1", message)
    assert.equal('POST /what {"a":[1]}', http.post(base .. "/what", { json = { a = { 1 } } }).body)
  end)

  it("gives answers that can be sent", function()
    local c = mare.channel.new(1)
    c:send(assert(http.get(base .. "/json")))
    local a = c:receive()
    assert.same({ 200, "x", "application/json" }, { a.status, a:json().list[3], a.headers["content-type"] })
  end)

  it("raises what is written wrong, and returns what is wrong outside", function()
    assert.error_matches(function() http.get(base, { tiemout = 1 }) end, "timeout")
    assert.error_matches(function() http.get(base, { timeout = "1" }) end, "timeout")
    assert.error_matches(function() http.get() end, "URL expected")
    assert.error_matches(function() http.post(base, { body = "x", json = 1 }) end, "one of the options")
    assert.error_matches(function() http.request { url = base, method = "G T" } end, "no method")
    assert.error_matches(function() mare.channel.new():send(http.client()) end, "cannot be sent")
    assert.same({ nil, "ftp://h/x: neither http:// nor https://", "EINVAL" }, { http.get "ftp://me:secret@h/x" })
    assert.same({ nil, "http://h:x/: no URL", "EINVAL" }, { http.get "http://me:secret@h:x/" })
    assert.same({ nil, "http://127.0.0.1:1/: Connection refused", "ECONNREFUSED" }, { http.get "http://me:secret@127.0.0.1:1/" })
  end)
end)
