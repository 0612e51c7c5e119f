-- OiL's own LuDO: Lua source that is read and never run; clients of it are served where that is asked for.
local mare = require "mare"
local ludo = require "mare.ludo"
local net = require "mare.net"
local oil = require "mare.ludo.oil"
local proc = require "spec.support.proc"
local eventually = require "spec.support.serving".eventually

local LIMIT = 30 * proc.slow

local function refused(text, most)
  local n, why = oil.decode(text, most)
  assert.is_nil(n)
  return why
end

describe("a message of OiL's", function()
  it("is read: literals, tables, and tables that come again", function()
    local n, list, zero = oil.decode [[return 1,"a key",'op',nil,true,false,-2.5,1e+20,0x10,"q\"\\\10\0651\
x",inf,-inf,{1,2,x=3,[4]="four",["end"]=5;{}}]]
    assert.equal(13, n)
    assert.is_false(zero)
    local t = { 1, 2, {}, x = 3, [4] = "four", ["end"] = 5 }
    assert.same({ 1, "a key", "op", nil, true, false, -2.5, 1e+20, 16, 'q"\\\nA1\nx', math.huge, -math.huge, t }, list)
    n, list = oil.decode("return serial:value(77,'table',{[\"self\"]=serial:value(77),[\"other\"]=" ..
      "serial:value(78,'table',{[1]=serial:value(77),},LuDOReference),}),serial:value(78)\0")
    assert.equal(2, n)
    assert.equal(list[1], list[1].self)
    assert.equal(list[2], list[1].other)
    assert.equal(list[1], list[2][1])
    assert.equal(0, (oil.decode "return "))
    assert.is_true(select(3, oil.decode "return 1\0"))
  end)

  it("is written so that it is read again, and so that Lua would read it", function()
    local t = { 1, "two\n\0\"", { deep = true }, [-1] = 0.1, [true] = 2 ^ 60 }
    t.self, t.again = t, t[3]
    local n, list = oil.decode(oil.encode(7, nil, t, "x"))
    assert.equal(4, n)
    assert.equal(list[3], list[3].self)
    assert.equal(list[3].again, list[3][3])
    assert.equal("two\n\0\"", list[3][2])
    assert.equal(0.1, list[3][-1])
    assert.equal("x", list[4])
    assert.is_function(load(oil.encode(1, "a\\b", t)))
  end)

  it("that has code in it is refused, and none of it is run", function()
    for _, text in ipairs {
      "return os.exit()", "return (function() end)()", "return function() end", "return serial:value(1,'function','x')", "return print", "x = 1",
      "return 1 + 1", "return \"a\"..\"b\"", "return {f()}", "return serial:setup(1)", "return setmetatable({},{})", "return 1; os.exit()",
      "return serial", "return [[x]]", "return -", "return {", "return {[nil]=1", "return \"abc", "return 'a\nb'", "return \"\\300\"",
      "return \"\\q\"", "return 1 2", "return ,", "", "return 1e", "return 0x", "return serial:value(", "return serial:value(1,'table',1)",
      "return {[1]}",
    } do
      assert.matches("no message of OiL", refused(text))
    end
    assert.matches("nest too deep", refused("return " .. ("{"):rep(300)))
    assert.matches("more memory", refused("return " .. ("{},"):rep(10000) .. "1", 1 << 16))
    local keys, near = {}, {}
    for i = 1, 1 << 16 do keys[i] = ("[%d]=true"):format(i * ((1 << 17) - 1)) end
    for i = 1, 10000 do near[i] = ("[%d]=1"):format(-3 * i) end
    assert.matches("4096 keys that are numbers", refused("return {" .. table.concat(keys, ",") .. "}"))
    assert.matches("4096 keys that are numbers", refused("return " .. ("{[2.5]=1},"):rep(5000) .. "1"))
    assert.equal(1, (oil.decode("return {" .. table.concat(near, ",") .. "}")))
    math.randomseed(3)
    local source = oil.encode(1, "key", "operation", { 1, 2, { a = "b" } })
    for _ = 1, 1000 do
      local at = math.random(#source)
      local n, why = oil.decode(source:sub(1, at - 1) .. string.char(math.random(0, 255)) .. source:sub(at + 1))
      assert.is_true(n ~= nil or type(why) == "string")
    end
  end)
end)

describe("a client of OiL's", function()
  local function with(options, f)
    local log = {}
    options.log = function(text) log[#log + 1] = text end
    local server <close> = ludo.init(options)
    server:serve({ add = function(_, a, b) return a + b, { sum = a + b } end, fail = function() error("no", 0) end, far = function() return print end,
                   _own = function() return 1 end }, { key = "it" })
    local conn = assert(net.connect("127.0.0.1", server.port))
    f(conn, server, log)
    conn:close()
  end
  local function send(conn, text) conn:write(#text .. "\n" .. text) end
  local function receive(conn)
    local size = assert(conn:read("l", LIMIT))
    return oil.decode(assert(conn:read(tonumber(size), LIMIT)))
  end
  local function call(conn, ...)
    send(conn, oil.encode(...))
    local _, list = receive(conn)
    return list
  end

  it("is served where it is wished: calls, errors, and the zero at the end of LOOP 3", function()
    with({ oil = true }, function(conn, server)
      assert.same({ 1, true, 5, { sum = 5 } }, call(conn, 1, "it", "add", 2, 3))
      assert.same({ 2, false, "no" }, call(conn, 2, "it", "fail"))
      assert.matches("no object 'other'", call(conn, 3, "other", "x")[3])
      assert.matches("no operation '_own'", call(conn, 4, "it", "_own")[3])
      assert.matches("function cannot be sent", call(conn, 5, "it", "far")[3])
      send(conn, oil.encode(6, "it", "add", 1, 1) .. "\0")
      local _, list, zero = receive(conn)
      assert.same({ 6, true, 2, { sum = 2 } }, list)
      assert.is_true(zero)
      assert.equal(3, ludo.proxy(("ludo://127.0.0.1:%d/it"):format(server.port)):add(1, 2))
    end)
  end)

  it("is answered what it asked before a shutdown, and the servant knows who calls", function()
    local log, server = {}
    server = ludo.init { oil = true, log = function(text) log[#log + 1] = text end }
    server:serve({ wait = function(_, s) mare.sleep(s) return server:current().peer.host, server:current().operation end, n = 1 }, { key = "it" })
    local conn, idle = assert(net.connect("127.0.0.1", server.port)), assert(net.connect("127.0.0.1", server.port))
    assert.same({ 1, true, "127.0.0.1", "wait" }, call(idle, 1, "it", "wait", 0))
    assert.matches("no operation 'n'", call(idle, 2, "it", "n")[3])
    send(conn, oil.encode(7, "it", "wait", 0.1))
    eventually(function()
      for peer in pairs(server.pool.peers) do if peer.n > 0 then return true end end
    end, "it is served")
    server:shutdown(LIMIT)
    assert.same({ 7, true, "127.0.0.1", "wait" }, select(2, receive(conn)))
    assert.equal("", conn:read("a", LIMIT) or "")
    assert.equal(0, server.pool.budget.held)
    conn:close()
    idle:close()
    assert.same({}, log)
  end)

  it("that has nothing to do gives its place to others at the limit, one that is served does not", function()
    local server <close> = ludo.init { oil = true, limits = { connections = 2 } }
    local gate = mare.channel.new()
    server:serve({ wait = function() return gate:receive() end, add = function(_, a, b) return a + b end }, { key = "it" })
    local idle <close> = assert(net.connect("127.0.0.1", server.port))
    local busy <close> = assert(net.connect("127.0.0.1", server.port))
    assert.same({ 1, true, 3 }, call(idle, 1, "it", "add", 1, 2))
    send(busy, oil.encode(2, "it", "wait"))
    eventually(function()
      for peer in pairs(server.pool.peers) do if peer.n > 0 then return true end end
    end, "it is served")
    for i = 1, 5 do
      local other <close> = assert(net.connect("127.0.0.1", server.port))
      assert.same({ i, true, i + 1 }, call(other, i, "it", "add", i, 1))
    end
    assert.equal("", idle:read("a", LIMIT) or "")
    gate:send "waited"
    assert.same({ 2, true, "waited" }, select(2, receive(busy)))
  end)

  it("whose call a shutdown does not wait for any longer is cancelled, and nothing of it counts", function()
    local ended
    local server = ludo.init { oil = true }
    server:serve({ wait = function()
      local guard <close> = setmetatable({}, { __close = function() ended = true end })   -- luacheck: ignore guard
      mare.sleep(60)
    end }, { key = "it" })
    local conn <close> = assert(net.connect("127.0.0.1", server.port))
    send(conn, oil.encode(1, "it", "wait"))
    eventually(function() return server.pool.budget.held > 0 end, "it is served")
    server:shutdown(0.01)
    eventually(function() return ended end, "it is cancelled")
    assert.equal("", conn:read("a", LIMIT) or "")
    assert.equal(0, server.pool.budget.held)
  end)

  it("is closed where it is not, and where it sends what is too long or is code", function()
    with({}, function(conn)
      send(conn, oil.encode(1, "it", "add", 2, 3))
      assert.is_true((conn:read("a", LIMIT) or "") == "")
    end)
    for _, bytes in ipairs { "99999999\n", "12345678901234567890", "7\nprint()", "9\nreturn 1,", "3x\nabc" } do
      with({ oil = true }, function(conn, _, log)
        conn:write(bytes)
        assert.is_true((conn:read("a", LIMIT) or "") == "")
        assert.matches("OiL's LuDO was closed", log[1])
      end)
    end
  end)
end)
