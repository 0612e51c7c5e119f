-- Server-sent events of mare.http: what is sent, and who is told that nobody reads.
-- needs: llhttp
-- needs: plain
-- runs under: mare
local mare = require "mare"
local http = require "mare.http"

local told, orders = mare.channel.new(math.huge), mare.channel.new()

local function handler(req)
  local path = req.path
  if path == "/all" then
    local stream = req:events { fields = { ["X-Y"] = "z" } }
    stream:send "one\ntwo\r\nthree\r\n"
    stream:send { event = "news", id = 7, data = "", retry = 1.5 }
    stream:send { id = "" }
    stream:comment "nobody reads this"
    stream:send(tostring(stream.last))
    for _, wrong in ipairs { 1, {}, "\xff", { data = 1 }, { event = "a\nb" }, { id = "a\0b" }, { retry = "1" }, { date = "x" } } do
      if pcall(stream.send, stream, wrong) then stream:send "it is taken" end
    end
    if pcall(function() return stream.sned end) then stream:send "it is there" end
  elseif path == "/follow" then
    req:events():follow(orders)
  elseif path == "/quiet" then
    local stream = req:events { keep_alive = 0.01 }
    told:send(select(2, stream.gone:receive()))
    told:send(select(2, stream:send "nobody"))
  elseif path == "/fails" then
    req:events():send "half"
    error "a bug of the handler"
  end
end

describe("a stream of events", function()
  local server, reports = nil, mare.channel.new(math.huge)
  local function serve()
    return assert(http.serve("127.0.0.1:0", handler, { workers = 1, limits = { head = 60, drain = 60, grace = 60 },
      report = function(text) reports:send(text) end }))
  end
  setup(function() server = serve() end)
  teardown(function() server:stop() end)

  local function ask(path, fields, version, where)
    local conn = assert(mare.net.connect((where or server):address())):timeout(60)
    assert(conn:write(("GET %s HTTP/%s\r\nHost: me\r\n%s\r\n"):format(path, version or "1.1", fields or "")))
    return conn, assert(conn:read_until "\r\n\r\n")
  end

  -- The body, without what says how long its chunks are.
  local function whole(conn)
    local parts = {}
    while true do
      local n = tonumber(assert(conn:read "l"), 16)
      parts[#parts + 1] = n > 0 and conn:read(n) or ""
      assert.equal("", conn:read "l")
      if n == 0 then break end
    end
    assert.equal("", conn:read "a")
    return table.concat(parts)
  end

  local ALL = "data: one\ndata: two\ndata: three\ndata: \n\n" .. "event: news\nid: 7\nretry: 1500\ndata: \n\n" .. "id: \n\n" ..
    ": nobody reads this\n\n" .. "data: %s\n\n"

  it("is written as the standard has it", function()
    local conn <close>, head = ask("/all", "Last-Event-ID: 6\r\n")
    for _, field in ipairs { "Content%-Type: text/event%-stream\r\n", "Cache%-Control: no%-store\r\n", "X%-Y: z\r\n", "Connection: close\r\n" } do
      assert.matches(field, head)
    end
    assert.equal(ALL:format "6", whole(conn))
    local old <close> = ask("/all", "", "1.0")
    assert.equal(ALL:format "false", old:read "a")
  end)

  it("follows a channel", function()
    local conn <close> = ask "/follow"
    orders:send "first"
    orders:send { event = "e", data = "second" }
    for _, wanted in ipairs { "data: first\n\n", "event: e\ndata: second\n\n" } do
      assert.equal(#wanted, tonumber(conn:read "l", 16))
      assert.equal(wanted .. "\r\n", conn:read(#wanted + 2))
    end
  end)

  it("keeps alive, and knows when its client has gone", function()
    local conn = ask "/quiet"
    for _ = 1, 3 do assert.equal("3\r\n:\n\n\r\n", conn:read_until "\n\n\r\n") end
    conn:close()
    assert.equal("closed", (told:receive()))
    assert.equal("closed", (told:receive()))
  end)

  it("is cut off when its handler fails", function()
    local conn <close> = ask "/fails"
    assert.equal("c\r\ndata: half\n\n\r\n", conn:read "a")
    assert.matches("a bug of the handler", reports:receive())
  end)

  it("ends when the server stops", function()
    local other = serve()
    local following <close> = ask("/follow", "", "1.1", other)
    local quiet <close> = ask("/quiet", "", "1.0", other)
    local stopping = mare.fiber.spawn(other.stop, other)
    assert.equal("0\r\n\r\n", following:read "a")
    assert.matches("^[:\n]*$", quiet:read "a")
    following:close()
    quiet:close()
    assert.same({ "closed", "closed" }, { (told:receive()), (told:receive()) })
    assert.same({ true, true }, { stopping:wait() })
  end)
end)
