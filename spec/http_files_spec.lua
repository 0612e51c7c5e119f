-- mare.http's router and its files, with requests that come from no connection: what they return is looked at.
-- runs under: mare
-- needs: llhttp
-- needs: plain
local mare = require "mare"
local http = require "mare.http"
local class = require "mare.http.request".class
local temporary = require "spec.support.temporary"

local function request(method, target, fields)
  return setmetatable({ method = method, target = target, headers = fields or {}, bits = 1, head = "" }, class)
end

-- Status, body, fields; an error that is an answer is one, too.
local function ask(handler, method, target, fields)
  local ok, status, body, more = pcall(handler, request(method, target, fields))
  if not ok then
    assert.equal("http", type(status) == "table" and status.kind or status)
    return status.status, status.message, status.fields or {}
  end
  return status, body, more or {}
end

describe("a router", function()
  local router = http.router()
  local function said(name)
    return function(req) return 200, name .. " " .. (req.params.id or "") .. (req.params.path or "") .. (req.who or "") end
  end
  router:get("/", said "front"):get("/users", said "all"):get("/users/:id", said "one"):get("/users/me", said "me"):post("/users/:id", said "change")
  router:get("/users/:id/posts", said "posts"):get("/files/*path", said "file"):delete("/users/:id", said "gone")

  it("finds the handler by method and path", function()
    for target, expected in pairs { ["/"] = "front ", ["/users"] = "all ", ["/users/7"] = "one 7", ["/users/me"] = "me ",
      ["/users/me/posts"] = "posts me",
      ["/users/a%2Fb?x=1"] = "one a/b", ["/files/a/b.txt"] = "file a/b.txt", ["/files/"] = "file ", ["http://me/users/7"] = "one 7",
        ["http://me"] = "front " } do
      assert.equal(expected, select(2, ask(router, "GET", target)), target)
    end
    assert.equal("change 7", select(2, ask(router, "POST", "/users/7")))
    assert.equal("one 7", select(2, ask(router, "HEAD", "/users/7")))
  end)

  it("says that there is none, or which methods there are", function()
    for _, target in ipairs { "/nobody", "/users/", "/users/7/", "/users/7/x", "//", "/users//posts", "/files" } do
      assert.equal(404, (ask(router, "GET", target)), target)
    end
    local status, _, fields = ask(router, "PUT", "/users/7")
    assert.same({ 405, "DELETE, GET, HEAD, POST" }, { status, fields.Allow })
  end)

  it("lets functions see every request, in their order", function()
    local seen = http.router():get("/x", said "x")
    seen:use(function(req, go)
      if req.headers.no then return 401, "no" end
      local status, body = go(req)
      return status, "<" .. body .. ">"
    end):use(function(req, go)
      req.who = "you"
      return go()
    end)
    assert.equal("<x you>", select(2, ask(seen, "GET", "/x")))
    assert.equal(401, (ask(seen, "GET", "/x", { no = "1" })))
    assert.equal(404, (ask(seen, "GET", "/y")))
  end)

  it("says what is wrong with a route", function()
    for _, wrong in ipairs { { "x", print }, { "/x" }, { "/:", print }, { "/*a/b", print }, { "/users", print } } do
      assert.is_false((pcall(router.get, router, table.unpack(wrong))))
    end
    assert.is_false((pcall(router.use, router, 1)))
  end)

  it("serves in other processes", function()
    local server = assert(http.serve("127.0.0.1:0", http.router():get("/:word", function(req) return req.params.word end), { workers = 1 }))
    local conn <close> = assert(mare.net.connect(server:address()))
    conn:write "GET /hello HTTP/1.0\r\n\r\n"
    assert.matches("hello$", conn:read("a", 60))
    server:stop()
  end)
end)

describe("files", function()
  local root = temporary()
  local handler
  setup(function()
    os.remove(root)
    assert(mare.file.mkdir(root .. "/sub/deep", "parents"))
    assert(mare.file.write(root .. "/a.txt", "0123456789"))
    assert(mare.file.write(root .. "/.secret", "secret"))
    assert(mare.file.write(root .. "/empty", ""))
    assert(mare.file.write(root .. "/sub/index.html", "<p>index"))
    assert(mare.file.write(root .. "/big.bin", ("0123456789abcdef"):rep(20000)))
    handler = http.files(root, { keep = 0 })
  end)
  teardown(function() mare.file.remove(root, "all") end)

  it("are found, with their type, and nothing outside the folder is", function()
    local status, body, fields = ask(handler, "GET", "/a.txt")
    assert.same({ 200, "0123456789", "text/plain; charset=utf-8" }, { status, body, fields["Content-Type"] })
    assert.equal("<p>index", select(2, ask(handler, "GET", "/sub/")))
    status, body, fields = ask(handler, "GET", "//sub?x")
    assert.same({ 301, "", "/sub/" }, { status, body, fields.Location })
    assert.equal("", select(2, ask(handler, "GET", "/empty")))
    local outside = root:match "[^/]+$"
    for _, target in ipairs { "/none", "/", "/sub/deep/", "/../" .. outside .. "/a.txt", "/%2e%2e/" .. outside .. "/a.txt",
      "/sub/..%2fa.txt", "/sub/../a.txt",
      "/.secret", "/./a.txt", "/a.txt%00", "/a.txt/b", "/..", "/%2e%2e" } do
      assert.equal(404, (ask(handler, "GET", target)), target)
    end
    assert.equal(405, (ask(handler, "POST", "/a.txt")))
  end)

  it("are not sent again to who has them", function()
    local _, _, fields = ask(handler, "GET", "/a.txt")
    for name, value in pairs { ["if-none-match"] = 'W/"x", ' .. fields.ETag, ["if-modified-since"] = fields["Last-Modified"] } do
      assert.equal(304, (ask(handler, "GET", "/a.txt", { [name] = value })))
    end
    assert.equal(304, (ask(handler, "GET", "/a.txt", { ["if-none-match"] = "*" })))
    assert.equal(200, (ask(handler, "GET", "/a.txt", { ["if-none-match"] = '"x"', ["if-modified-since"] = fields["Last-Modified"] })))
    assert(mare.file.write(root .. "/a.txt", "abcdefghij!"))
    assert.equal("abcdefghij!", select(2, ask(handler, "GET", "/a.txt", { ["if-none-match"] = fields.ETag })))
    assert(mare.file.write(root .. "/a.txt", "0123456789"))
  end)

  it("are found again without a look at the disk, until their time is over", function()
    local quick, slow = http.files(root, { keep = 0.01 }), http.files(root, { keep = 1e6 })
    assert(mare.file.write(root .. "/k.txt", "old"))
    local first, _, fields = slow(request("GET", "/k.txt"))
    assert.equal(200, first)
    fields["X-Own"] = "of the caller"
    assert(mare.file.write(root .. "/k.txt", "new one"))
    local status, body, more = slow(request("GET", "/k.txt"))
    assert.same({ 200, "old", nil }, { status, body, more["X-Own"] })
    assert.equal(304, (ask(slow, "GET", "/k.txt", { ["if-none-match"] = fields.ETag })))
    assert.equal("ld", (select(2, ask(slow, "GET", "/k.txt", { range = "bytes=1-2" }))))
    assert(mare.file.write(root .. "/q.txt", "old"))
    assert.equal("old", (select(2, quick(request("GET", "/q.txt")))))
    assert(mare.file.write(root .. "/q.txt", "new one"))
    repeat local _, now = quick(request("GET", "/q.txt")) until now == "new one"
    for i = 1, 300 do assert.equal(200, (ask(slow, "GET", "/" .. ("/"):rep(i) .. "a.txt"))) end        -- more names than it remembers
    assert.equal(404, (ask(slow, "GET", "/none")))
  end)

  it("come in parts", function()
    local _, _, whole = ask(handler, "GET", "/a.txt")
    for range, expected in pairs { ["bytes=0-0"] = "0", ["bytes=3-5"] = "345", ["bytes=7-"] = "789", ["bytes=-2"] = "89",
      ["bytes=-99"] = "0123456789", ["bytes=5-99"] = "56789" } do
      local status, body, fields = ask(handler, "GET", "/a.txt", { range = range })
      assert.same({ 206, expected }, { status, body })
      local first, last = fields["Content-Range"]:match "^bytes (%d+)%-(%d+)/10$"
      assert.equal(expected, ("0123456789"):sub(first + 1, last + 1))
    end
    for _, range in ipairs { "bytes=10-", "bytes=99-100", "bytes=-0" } do
      local status, _, fields = ask(handler, "GET", "/a.txt", { range = range })
      assert.same({ 416, "bytes */10" }, { status, fields["Content-Range"] })
    end
    for _, range in ipairs { "bytes=5-3", "bytes=-", "bytes=0-1,3-4", "lines=1-2", "bytes=x-", "bytes=9999999999999999-" } do
      assert.equal(200, (ask(handler, "GET", "/a.txt", { range = range })), range)
    end
    assert.equal(200, (ask(handler, "GET", "/a.txt", { range = "bytes=0-1", ["if-range"] = '"other"' })))
    assert.equal(206, (ask(handler, "GET", "/a.txt", { range = "bytes=0-1", ["if-range"] = whole.ETag })))
  end)

  it("are sent piece by piece if they are large", function()
    local server = assert(http.serve("127.0.0.1:0", handler, { workers = 1 }))
    local conn <close> = assert(mare.net.connect(server:address()))
    conn:write "GET /big.bin HTTP/1.0\r\nRange: bytes=16-300000\r\n\r\n"
    local head, body = conn:read("a", 60):match "^(.-\r\n\r\n)(.*)$"
    assert.matches("^HTTP/1.1 206 ", head)
    assert.equal(("0123456789abcdef"):rep(20000):sub(17, 300001), body)
    server:stop()
  end)
end)
