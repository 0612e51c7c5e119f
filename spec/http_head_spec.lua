-- Heads of requests as mare.http takes and refuses them, byte by byte; heads of answers; no connection.
-- needs: llhttp
local core = require "mare.http.core"

local KEEP, OLD, IN_CHUNKS, WAITS, CHANGES = core.KEEP, core.OLD, core.IN_CHUNKS, core.WAITS, core.CHANGES

local function lines(first, ...)
  return first .. "\r\n" .. table.concat({ ... }, "\r\n") .. (select("#", ...) > 0 and "\r\n" or "") .. "\r\n"
end

-- A request for / with these fields and a Host.
local function with(...) return lines("POST / HTTP/1.1", "Host: me", ...) end

local function status_of(head)
  local method, status = core.parse(head, 100)
  return method or status
end

describe("heads of requests", function()
  it("are read", function()
    local function same(expected, head) assert.same(expected, table.pack(core.parse(head, 100))) end
    same({ "GET", "/a?b=c", KEEP, nil, n = 4 }, lines("GET /a?b=c HTTP/1.1", "Host: me"))
    same({ "GET", "/", KEEP, nil, n = 4 }, "\r\n" .. lines("GET / HTTP/1.1", "hOST:me:80"))
    same({ "GET", "/", OLD, nil, n = 4 }, lines "GET / HTTP/1.0")
    same({ "GET", "/", OLD | KEEP, nil, n = 4 }, lines("GET / HTTP/1.0", "Connection: Keep-Alive"))
    same({ "GET", "/", 0, nil, n = 4 }, lines("GET / HTTP/1.1", "Host: me", "Connection: foo, close"))
    same({ "GET", "/", OLD, nil, n = 4 }, lines("GET / HTTP/1.0", "Connection: keep-alive, close"))   -- RFC 9112, 9.3
    same({ "POST", "/", KEEP, 12, n = 4 }, with "Content-Length: 12")
    same({ "POST", "/", KEEP | IN_CHUNKS, nil, n = 4 }, with "Transfer-Encoding: Chunked")
    same({ "POST", "/", KEEP | WAITS, 5, n = 4 }, with("Content-Length: 5", "Expect: 100-Continue "))
    same({ "GET", "/", KEEP | CHANGES, nil, n = 4 }, lines("GET / HTTP/1.1", "Host: me", "Upgrade: websocket", "Connection: upgrade"))
    for _, field in ipairs { "Range: bytes=0-1", "if-none-match: *", "If-Modified-Since: x" } do
      same({ "GET", "/", KEEP | core.ASKS, nil, n = 4 }, lines("GET / HTTP/1.1", "Host: me", field))
    end
    same({ "OPTIONS", "*", KEEP, nil, n = 4 }, lines("OPTIONS * HTTP/1.1", "Host: me"))
    same({ "GET", "http://me/x", KEEP, nil, n = 4 }, lines("GET http://me/x HTTP/1.1", "Host: me"))
  end)

  it("are refused where two readers could understand two things", function()
    for _, head in ipairs {
      with("Content-Length: 5", "Transfer-Encoding: chunked"), with("Transfer-Encoding: chunked", "Content-Length: 5"),
      with("Content-Length: 5", "Content-Length: 5"), with("Content-Length: 5", "Content-Length: 6"), with "Content-Length: 5, 5",
      with "Content-Length: +5", with "Content-Length: -5", with "Content-Length: 0x5", with "Content-Length:", with "Content-Length: 5 5",
      with "Content-Length: 99999999999999999999", with "Content-Length : 5", with "Content-Length\t: 5", with " Content-Length: 5",
      with("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), with "Transfer-Encoding: chunked, chunked",
        with "Transfer-Encoding: xchunked",
      with "Transfer-Encoding:", with "Transfer-Encoding : chunked", with "Transfer-Encoding: chunked\v", with "Transfer-Encoding:\vchunked",
      lines("POST / HTTP/1.0", "Transfer-Encoding: chunked"),
      with("A: b", " c"), with("A: b", "\tTransfer-Encoding: chunked"), with "A: b\rc", with "A: b\0c", with "A\0: b", with ": b",
        with "no colon", with "A B: c",
      with "Host: me", with "Host: other", lines "GET / HTTP/1.1", lines("GET / HTTP/1.1", "Host: a b"), lines("GET / HTTP/1.1", "Host: a/b"),
      lines("GET / HTTP/1.1", "Host: a,b"), lines("GET / HTTP/1.1", "Host: u@b"),
      "POST / HTTP/1.1\nHost: me\r\n\r\n", "POST / HTTP/1.1\r\nHost: me\nA: b\r\n\r\n", "POST / HTTP/1.1\r\nHost: me\r\n\n",
      " " .. with(), "\r\n\r\n" .. with(), "\n" .. with(),
    } do
      local status = status_of(head)
      assert.is_true(status == 400 or status == 501 and head:find "xchunked" ~= nil, ("%q: %s"):format(head, status))
    end
  end)

  it("are refused with the status that says why", function()
    local function expect(status, first, ...) assert.equal(status, status_of(lines(first, ...)), first) end
    expect(501, "FOO / HTTP/1.1", "Host: me")
    expect(501, "get / HTTP/1.1", "Host: me")
    expect(501, "CONNECT me:443 HTTP/1.1", "Host: me:443")
    expect(501, "POST / HTTP/1.1", "Host: me", "Transfer-Encoding: gzip")
    expect(505, "GET / HTTP/2.0", "Host: me")
    expect(505, "GET / HTTP/1.2", "Host: me")
    expect(505, "GET / HTTP/0.9", "Host: me")
    expect(505, "PRI * HTTP/2.0")
    expect(400, "DESCRIBE rtsp://me/ RTSP/1.0", "Host: me")
    expect(417, "GET / HTTP/1.1", "Host: me", "Expect: a miracle")
    for _, first in ipairs { "GET / HTTX/1.1", "GET  / HTTP/1.1", "GET /  HTTP/1.1", "GET / a HTTP/1.1", "GET\t/ HTTP/1.1",
      "GET /a#b HTTP/1.1", "GET / HTTP/1.1 ",
      "GET /\1 HTTP/1.1", "G(T / HTTP/1.1", "GET HTTP/1.1", "GET / HTTP/11", "/ HTTP/1.1" } do
      expect(400, first, "Host: me")
    end
    local many = {}
    for i = 1, 100 do many[i] = "A: b" end
    assert.equal(431, status_of(with(table.unpack(many))))
    assert.equal("POST", status_of(with(table.unpack(many, 2))))
  end)

  it("have a path, also where the target is a whole address", function()
    for target, path in pairs { ["/a/b?c"] = "/a/b", ["*"] = "*", ["http://me:80/x?y"] = "/x", ["h+1.-://me"] = "", ["http://me?x"] = "",
      ["1h://me/x"] = "1h://me/x", ["http:/x"] = "http:/x", ["?a"] = "", [""] = "", ["://x"] = "://x", ["/http://me/x"] = "/http://me/x" } do
      assert.equal(path, core.raw_path(target), target)
    end
  end)

  it("are waited for as long as they can become one", function()
    local whole = with("Content-Length: 5", "A: b")
    for n = 0, #whole - 1 do assert.same({ nil, "more" }, { core.parse(whole:sub(1, n), 100) }) end
    assert.equal("POST", (core.parse(whole .. "hello", 100)))
    for _, start in ipairs { "\22\3\1", " ", "\n", "GET / HTTP/1.1\n", "GET / HTTP/1.1\r\nA: b\n", "GET / HTTP/1.1\r\nA: b\r\n \r\n" } do
      assert.same({ nil, 400 }, { core.parse(start, 100) })
    end
  end)

  it("have fields, those of one name joined", function()
    assert.same({ host = "me", a = "1, 2", cookie = "x=1; y=2", empty = "" },
      core.fields(with("A: 1", "Cookie: x=1", "a:\t2 \t", "COOKIE: y=2", "Empty:")))
    assert.same({}, core.fields "")
    assert.same({}, core.fields "no head")
  end)
end)

describe("heads of answers", function()
  local function head(...) return (core.head(...):gsub("Date: %a%a%a, %d%d %a%a%a %d%d%d%d %d%d:%d%d:%d%d GMT\r\n", "", 1)) end

  it("are what was asked for", function()
    assert.equal("HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 2\r\n\r\nhi", head(200, KEEP, "text/x", 2, nil, "hi"))
    assert.equal("HTTP/1.1 299 \r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n", head(299, 0, nil, false))
    assert.equal("HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n", head(204, KEEP | OLD))
    assert.equal("HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: 2\r\n\r\n", head(200, KEEP, nil, nil, { ["Set-Cookie"] = { "a", 2 } }))
    assert.equal("HTTP/1.1 200 OK\r\ncontent-TYPE: a\r\n\r\n", head(200, KEEP, "b", nil, { ["content-TYPE"] = "a" }))
    assert.equal("HTTP/1.1 200 OK\r\nDate: now\r\n\r\n", core.head(200, KEEP, nil, nil, { Date = "now" }))
    local long = ("x"):rep(5000)
    assert.equal("HTTP/1.1 200 OK\r\nA: " .. long .. "\r\n\r\n", head(200, KEEP, nil, nil, { A = long }))
  end)

  it("have nothing in them that would be another answer", function()
    for _, fields in ipairs { { A = "b\r\nC: d" }, { A = "b\n" }, { A = "\r" }, { A = "\0" }, { ["A\r\nB"] = "c" }, { ["A B"] = "c" },
      { [""] = "c" }, { [1] = "c" },
      { A = true }, { A = { "b", "c\n" } }, { A = { {} } }, { ["Content-length"] = 5 }, { ["Transfer-Encoding"] = "chunked" },
        { Connection = "close" } } do
      assert.is_false((pcall(core.head, 200, KEEP, nil, nil, fields)))
    end
    assert.is_false((pcall(core.head, 200, KEEP, "a\r\nb")))
    assert.is_false((pcall(core.head, 99, KEEP)))
    assert.is_false((pcall(core.head, 200, KEEP, nil, -1)))
  end)

  it("are not written where a finaliser changes the fields meanwhile", function()
    local value, fields = ("x"):rep(3000), {}
    local function change() fields.A = ("y"):rep(10000) end
    for _ = 1, 300 do
      fields.A = value
      for _ = 1, 5 do setmetatable({}, { __gc = change }) end
      local ok, text = pcall(core.head, 200, KEEP, nil, nil, fields)
      if ok then assert.equal("", (text:gsub("^HTTP/1.1 200 OK\r\nA: [xy]+\r\nDate: [^\r]+\r\n\r\n$", "")))
      else assert.matches("the fields have changed", text) end
    end
  end)

  it("are dated", function()
    for at, text in pairs { [784111777] = "Sun, 06 Nov 1994 08:49:37 GMT", [951782399] = "Mon, 28 Feb 2000 23:59:59 GMT",
      [951782400] = "Tue, 29 Feb 2000 00:00:00 GMT",
      [0] = "Thu, 01 Jan 1970 00:00:00 GMT", [253402300799] = "Fri, 31 Dec 9999 23:59:59 GMT", [4107542400] = "Mon, 01 Mar 2100 00:00:00 GMT" } do
      assert.equal(text, core.date(at))
    end
  end)
end)
