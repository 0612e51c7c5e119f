-- gzip on answers of mare.http: who gets it, of what, and that the gzip program reads it.
-- needs: llhttp
-- needs: zlib
-- needs: plain
-- runs under: mare
local mare = require "mare"
local http = require "mare.http"
local temporary = require "spec.support.temporary"

describe("gzip", function()
  local TEXT = ("What is said again and again takes little. "):rep(200)
  local folder, server

  local function handler(req)
    local kind = req.query.type
    local fields = { ["Content-Type"] = kind, ETag = req.query.etag, ["Content-Encoding"] = req.query.encoding, Vary = req.query.vary,
      ["Cache-Control"] = req.query.cache }
    local text = ("What is said again and again takes little. "):rep(200)
    if req.path == "/text" then return 200, text, fields end
    if req.path == "/short" then return "short" end
    if req.path == "/long" then return 200, text:rep(100), fields end
    if req.path == "/buffer" then return 200, require "mare".buffer.new(text):seal(), fields end
    if req.path == "/fail" then require "mare.http".fail(404, text) end
    if req.path == "/none" then return 204 end
    if req.path == "/pieces" then
      local n = 0
      return 200, function()
        n = n + 1
        return n <= 3 and text or nil
      end, fields
    end
    if req.path == "/written" then
      req:start(200, fields, req.query.length and #text)
      return req:write(text)
    end
    if req.path == "/events" then return require "mare".sleep(0), req:events():send "one" end
    return http.files(folder)(req)
  end

  setup(function()
    folder = temporary()
    os.remove(folder)
    assert(mare.file.mkdir(folder))
    assert(mare.file.write(folder .. "/small.txt", TEXT))
    assert(mare.file.write(folder .. "/large.txt", TEXT:rep(100)))
    assert(mare.file.write(folder .. "/picture.png", TEXT))
    server = assert(http.serve("127.0.0.1:0", handler, { workers = 1, gzip = true }))
  end)
  teardown(function()
    server:stop()
    for _, name in ipairs { "small.txt", "large.txt", "picture.png" } do os.remove(folder .. "/" .. name) end
    os.remove(folder)
  end)

  local function ask(target, accept, more, method)
    local conn <close> = assert(mare.net.connect(server:address())):timeout(60)
    conn:write(("%s %s HTTP/1.0\r\n%s%s\r\n"):format(method or "GET", target, accept and "Accept-Encoding: " .. accept .. "\r\n" or "", more or ""))
    local head = assert(conn:read_until "\r\n\r\n")
    local body = conn:read "a" or ""
    local fields = {}
    for name, value in head:gmatch "\r\n([^:\r]+): ([^\r]*)" do fields[name:lower()] = value end
    if fields["content-length"] and method ~= "HEAD" then assert.equal(#body, tonumber(fields["content-length"])) end
    return fields, body
  end

  local function unpacked(body)
    local r = assert(mare.subprocess.run { "gzip", "-dc", input = body, timeout = 60 })
    assert.equal(0, r.code, r.err)
    return r.out
  end

  -- Is it compressed? And does it become that text again?
  local function compressed(text, target, accept, more)
    local fields, body = ask(target, accept or "gzip", more)
    assert.equal("gzip", fields["content-encoding"], target)
    assert.matches("Accept%-Encoding", fields.vary)
    assert.is_true(#body < #text and unpacked(body) == text, target)
    return fields
  end

  local function plain(target, accept, more, method)
    local fields, body = ask(target, accept or "gzip", more, method)
    assert.is_nil(fields["content-encoding"], target)
    return fields, body
  end

  it("is sent to who takes it", function()
    for _, accept in ipairs { "gzip", "deflate, GZIP;q=0.5", "x-gzip", "*", "br;q=1, *;q=0.1", "gzip;q=0.5, identity;q=0.5", "gzip ; q=1.0" } do
      compressed(TEXT, "/text", accept)
    end
    for _, accept in ipairs { "deflate, br", "gzip;q=0", "gzip;q=0.000, *", "identity, gzip;q=0.5", "*;q=0", "gzip;q=x", "gzip;level=1" } do
      assert.equal("Accept-Encoding", plain("/text", accept).vary, accept)
    end
    assert.equal("Accept-Encoding", ask("/text").vary)
  end)

  it("is made of what gets shorter by it", function()
    compressed(TEXT:rep(100), "/long")
    compressed(TEXT, "/buffer")
    compressed(TEXT:rep(3), "/pieces")
    compressed(TEXT, "/written")
    compressed(TEXT, "/written?length=1")
    for _, kind in ipairs { "text/css; charset=utf-8", "application/json", "image/svg+xml", "application/problem+json", "TEXT/HTML" } do
      compressed(TEXT, "/text?type=" .. kind:gsub("%+", "%%2B"):gsub(" ", "%%20"))
    end
    for _, target in ipairs { "/short", "/none", "/fail", "/events", "/text?type=image/png", "/text?encoding=br", "/text?cache=no-transform",
      "/written?type=application/zip" } do
      local fields, body = ask(target, "gzip")
      assert.is_true(fields["content-encoding"] ~= "gzip" and body:sub(1, 2) ~= "\x1f\x8b", target)
    end
    assert.equal(tostring(#TEXT), plain("/text", "gzip", nil, "HEAD")["content-length"])
    assert.same({ "Cookie, Accept-Encoding", 'W/"a"' }, { compressed(TEXT, "/text?vary=Cookie").vary, compressed(TEXT, '/text?etag="a"').etag })
  end)

  it("is sent of files, but of no part of one", function()
    local etag = compressed(TEXT, "/small.txt").etag
    compressed(TEXT:rep(100), "/large.txt")
    assert.equal(TEXT, select(2, plain "/picture.png"))
    assert.equal(TEXT:sub(1, 2000), select(2, plain("/small.txt", "gzip", "Range: bytes=0-1999\r\n")))
    assert.equal(TEXT, unpacked(select(2, ask("/small.txt", "gzip", "Range: bytes=0-1999\r\nIf-Range: " .. etag .. "\r\n"))))
    local fields, body = ask("/small.txt", "gzip", "If-None-Match: " .. etag .. "\r\n")
    assert.same({ "", "Accept-Encoding" }, { body, fields.vary })
  end)

  it("is refused with options that don't exist", function()
    for _, wrong in ipairs { 1, { level = 10 }, { least = 0 }, { types = "text/plain" }, { min = 1 } } do
      assert.is_false((pcall(http.serve, "127.0.0.1:0", function() end, { gzip = wrong })))
    end
  end)
end)
