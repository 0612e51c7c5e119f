-- GIOP: messages read and made, received whole from a connection, put together from fragments; code sets; captures.
local mare = require "mare"
local tls = require "mare.tls"
local cdr = require "mare.orb.cdr"
local core = require "mare.orb.giop.core"
local connection = require "mare.orb.giop.connection"
local codesets = require "mare.orb.giop.codesets"
local pcap = require "mare.orb.giop.pcap"
local giop = require "spec.support.giop_bytes"
local sockets = require "spec.support.sockets"
local proc = require "spec.support.proc"
local certificates = require "spec.support.certificates"
local temporary = require "spec.support.temporary"
local fiber = mare.fiber
local pack, pair = sockets.pack, sockets.pair

-- f(minor, little, bits) for every version and byte order.
local function every(f)
  for minor = 0, 2 do
    for _, little in ipairs { true, false } do f(minor, little, (little and 1 or 0) | minor << 1) end
  end
end

local function aligned(at, minor, message)
  local to = minor == 2 and (at - 1) % 8 ~= 0
  assert.is_false(to)
  return message:sub(at)
end

describe("a request", function()
  it("is read in every version and byte order", function()
    every(function(minor, little, bits)
      for _, response in ipairs(minor == 2 and { 0, 1, 3 } or { 0, 3 }) do
        local m = giop.request { minor = minor, little = little, id = 0xfedcba98, response = response, key = "a\0key", operation = "echo",
          contexts = { { 1, "one" }, { 0x41545400, "" }, { 1, "again" } }, body = "the body" }
        local r = pack(core.parse(m))
        assert.same({ 0, bits, false, 0xfedcba98, response, "a\0key", "echo" }, table.move(r, 1, 7, 1, {}))
        assert.equal("the body", aligned(r[8], minor, m))
        assert.same({ [1] = "one", [0x41545400] = "" }, r[9])
        assert.is_nil(r[10])
      end
    end)
  end)

  it("without a body has its place at the end", function()
    every(function(minor, little)
      local m = giop.request { minor = minor, little = little, id = 1, key = "", operation = "x" }
      local r = pack(core.parse(m))
      assert.equal(#m + 1, r[8])
      assert.is_nil(r[9])
    end)
  end)

  it("is addressed by a profile or a whole reference, too", function()
    local profile = string.pack("<!4I1I1I1s4I2s4", 1, 1, 0, "host\0", 77, "its key")
    for _, little in ipairs { true, false } do
      local r = pack(core.parse(giop.request { minor = 2, little = little, id = 5, profile = { 0, profile }, operation = "x" }))
      assert.equal("its key", r[6])
      assert.same({ tag = 0, data = profile }, r[10])
      r = pack(core.parse(giop.request { minor = 2, little = little, id = 5, profile = { 99, "what?" }, operation = "x" }))
      assert.is_nil(r[6])
      assert.same({ tag = 99, data = "what?" }, r[10])
      local m = giop.request { minor = 2, little = little, id = 5, operation = "x",
        reference = { 1, "IDL:T:1.0", { { 99, "odd" }, { 0, profile } } } }
      r = pack(core.parse(m))
      assert.equal("its key", r[6])
      assert.equal(2, r[10].index)
      assert.equal("\1\0\0\0" .. string.pack("<!4s4I4I4s4I4s4", "IDL:T:1.0\0", 2, 99, "odd", 0, profile), r[10].ior)
    end
  end)

  it("is made as it is read", function()
    every(function(minor, little)
      for _, response in ipairs(minor == 2 and { 0, 1, 3 } or { 0, 3 }) do
        local contexts = { { 1, "12345" }, { 2, "" } }
        local t = { minor = minor, little = little, id = 77, response = response, key = "key", operation = "op_name", contexts = contexts,
          body = "body" }
        assert.equal(giop.request(t), core.request(minor, little, response, "key", "op_name", contexts, 77, "body"))
        local head, at = core.head(minor, little, response, "key", "op_name", contexts)
        head = head:sub(1, at) .. string.pack(little and "<I4" or ">I4", 77) .. head:sub(at + 5)
        t.body = nil
        assert.equal(giop.request(t), head)
        t.contexts = nil
        assert.equal(giop.request(t), core.request(minor, little, response, "key", "op_name", nil, 77))
      end
    end)
  end)

  it("with arguments that make no sense is refused", function()
    assert.has_error(function() core.head(3, true, 3, "k", "op") end)
    assert.has_error(function() core.head(2, true, 2, "k", "op") end)
    assert.has_error(function() core.request(2, true, 3, "k", "op", nil, -1) end)
    assert.has_error(function() core.head(2, true, 3, "k", "op", { { "x", 1 } }) end)
    assert.has_error(function() core.head(2, true, 3, "k", "op", { 1 }) end)
    assert.has_error(function() core.join {} end)
    assert.has_error(function() core.join { "GIOP" } end)
  end)
end)

describe("replies and the others", function()
  it("are read and made in every version and byte order", function()
    every(function(minor, little, bits)
      for status = 0, minor == 2 and 5 or 3 do
        local t = { minor = minor, little = little, id = 9, status = status, contexts = { { 3, "abc" } }, body = "result" }
        local m = giop.reply(t)
        assert.equal(m, core.reply(minor, little, 9, status, t.contexts, "result"))
        local r = pack(core.parse(m))
        assert.same({ 1, bits, false, 9, status }, table.move(r, 1, 5, 1, {}))
        assert.equal("result", aligned(r[6], minor, m))
        assert.same({ [3] = "abc" }, r[7])
      end
      for status = 0, minor == 2 and 5 or 2 do
        local m = core.locate_reply(minor, little, 4, status, "body")
        assert.equal(giop.message(4, minor, little, giop.writer(little):ulong(4):ulong(status):raw "body"), m)
        assert.same(pack(4, bits, false, 4, status, 21), pack(core.parse(m)))
      end
      local m = core.locate_request(minor, little, 6, "a key")
      assert.equal(giop.locate_request { minor = minor, little = little, id = 6, key = "a key" }, m)
      assert.same(pack(3, bits, false, 6, "a key", nil), pack(core.parse(m)))
      assert.same(pack(2, bits, false, 8), pack(core.parse(core.cancel(minor, little, 8))))
      assert.same(pack(5, bits, false), pack(core.parse(core.close(minor, little))))
      assert.same(pack(6, bits, false), pack(core.parse(core.error(minor, little))))
      assert.equal(12, #core.error(minor, little))
    end)
  end)

  it("may say they go on in fragments", function()
    local m = giop.request { minor = 2, little = true, id = 3, key = "k", operation = "op", body = ("x"):rep(100) }
    local list = giop.fragments(m, 64, 48)
    assert.same(pack(0, 5, true, 3, 17), pack(core.parse(list[1])))
    assert.same(pack(7, 5, true, 3, 17), pack(core.parse(list[2])))
    assert.same(pack(7, 5, false, 3, 17), pack(core.parse(list[3])))
    assert.equal(m, core.join(list))
    m = giop.reply { minor = 1, little = false, id = 3, status = 0, body = "hello" }
    list = giop.fragments(m, 20)
    assert.same(pack(1, 2, true, nil, 13), pack(core.parse(list[1])))
    assert.same(pack(7, 2, false, nil, 13), pack(core.parse(list[2])))
    assert.equal(m, core.join(list))
  end)
end)

describe("receiving", function()
  it("gives whole messages, however the bytes come", function()
    local a, b = pair()
    local list = {}
    for i = 1, 40 do list[i] = core.request(2, i % 2 == 0, 3, "key", "op", nil, i, ("b"):rep(i * 37 % 400)) end
    local all, steps = table.concat(list), { 1, 3, 11, 12, 13, 200, 1000 }
    local writer = fiber.spawn(function()
      local at, i = 1, 0
      while at <= #all do
        i = i % #steps + 1
        a:write(all:sub(at, at + steps[i] - 1))
        at = at + steps[i]
        fiber.yield()
      end
    end)
    for i = 1, #list do assert.equal(list[i], core.receive(b, 1000, 10)) end
    writer:wait()
    assert.equal(0, b:buffered())
    a:close()
    assert.same(pack(nil, "closed", "EOF"), pack(core.receive(b, 1000, 10)))
    b:close()
  end)

  it("takes large messages, from memory in proportion to what came", function()
    local a, b = pair()
    local m = core.reply(2, true, 1, 0, nil, ("0123456789abcdef"):rep(1 << 17))
    local writer = fiber.spawn(function() a:write(m, "GIOP") end)
    assert.equal(m, core.receive(b, 1 << 24, 20))
    writer:wait()
    assert.same(pack(nil, "timeout"), pack(core.receive(b, 1 << 24, 0)))
    a:write(core.close(2, true):sub(5))
    assert.equal(core.close(2, true), core.receive(b, 1 << 24, 10))
    a:close()
    b:close()
  end)

  it("keeps what came before its time was over", function()
    local a, b = pair()
    local m = core.cancel(1, false, 7)
    for i = 1, #m - 1 do
      a:write(m:sub(i, i))
      assert.same(pack(nil, "timeout"), pack(core.receive(b, 100, 0)))
    end
    a:write(m:sub(-1), "rest")
    assert.equal(m, core.receive(b, 100, 10))
    assert.equal("rest", b:read(4, 10))
    a:close()
    b:close()
  end)

  it("tells a broken stream from one that ended", function()
    local a, b = pair()
    a:write("GIOP\1\2\1\0\100")
    a:close()
    assert.same(pack(nil, "the stream ended inside a GIOP message", "EOF"), pack(core.receive(b, 100, 10)))
    b:close()
  end)

  it("refuses what is no GIOP at the first byte that tells", function()
    for bytes, why in pairs {
      ["H"] = 'it does not begin with "GIOP"', ["GIOX"] = 'it does not begin with "GIOP"', ["GIOP\2"] = "its major version is not 1",
      ["GIOP\1\3"] = "its version is above 1.2", ["GET / HTTP/1.1\r\n\r\n"] = 'it does not begin with "GIOP"',
    } do
      local a, b = pair()
      a:write(bytes)
      for _ = 1, 2 do assert.same(pack(nil, "what came is no GIOP message: " .. why, "EPROTO"), pack(core.receive(b, 100, 10))) end
      a:close()
      b:close()
    end
  end)

  it("refuses messages above the limit when it has seen their header", function()
    local a, b = pair()
    a:write(core.cancel(2, true, 1), "GIOP\1\0\0\0\0\0\1\0")
    assert.equal(16, #core.receive(b, 16, 10))
    assert.same(pack(nil, "a GIOP message of 268 bytes came, the limit is 267", "EMSGSIZE"), pack(core.receive(b, 267, 10)))
    assert.same(pack(nil, "timeout"), pack(core.receive(b, 268, 0)))
    a:close()
    b:close()
  end)

  it("has one fiber at a time, and checks its arguments", function()
    local a, b = pair()
    local other = fiber.spawn(function() return core.receive(b, 100) end)
    fiber.yield()
    assert.same(pack(nil, "another fiber reads from this connection", "EBUSY"), pack(core.receive(b, 100)))
    a:write(core.close(2, true))
    assert.equal(core.close(2, true), select(2, other:wait()))
    assert.has_error(function() core.receive(b, 11) end)
    assert.has_error(function() core.receive({}, 100) end)
    a:close()
    b:close()
    assert.same(pack(nil, "closed", "EBADF"), pack(core.receive(b, 100)))
  end)

  it("works in other processes, and through TLS", function()
    local c = certificates()
    local server = assert(tls.listen("127.0.0.1:0", { cert = c.cert, key = c.key }))
    local _, port = server:address()
    local p = mare.process.spawn(function()
      local core = require "mare.orb.giop.core"      -- luacheck: ignore
      local conn = server:accept(20)
      local sizes = {}
      for i = 1, 3 do
        local m = assert(core.receive(conn, 1 << 22, 20))
        sizes[i] = #m
        assert(conn:write(m))
      end
      conn:close()
      return table.unpack(sizes)
    end)
    local conn = assert(tls.connect("localhost", port, { ca = c.ca }))
    local list = { core.close(2, true), core.reply(2, true, 1, 0, nil, ("x"):rep(300000)), core.error(0, false) }
    local writer = fiber.spawn(function() conn:write(table.unpack(list)) end)
    for _, m in ipairs(list) do assert.equal(m, core.receive(conn, 1 << 22, 20)) end
    writer:wait()
    assert.same(pack(true, 12, #list[2], 12), pack(p:wait(20)))
    conn:close()
    server:close()
    c.remove()
  end)
end)

-- A 1.1 message that was put together, without the list of seams behind it.
local function bare(message, whole)
  return (message:sub(1, 6) .. message:sub(7, 7):gsub(".", function(c) return string.char(c:byte() & 1) end) .. message:sub(8, #whole))
end

-- Two connections of one stream.
local function peers(options, other)
  local a, b = pair()
  return connection.new(a, options), connection.new(b, other or { role = "server" })
end

describe("fragments", function()
  local function shuffled(lists)
    local out = {}
    for i = 1, 10 do
      for _, list in ipairs(lists) do out[#out + 1] = list[i] end
    end
    return out
  end

  it("of 1.2 are put together, interleaved and beside other messages", function()
    local c, s = peers()
    local whole, lists = {}, {}
    for id = 1, 4 do
      whole[id] = giop.request { minor = 2, little = id % 2 == 0, id = id, key = "k", operation = "op", body = ("%d"):format(id):rep(100 * id) }
      lists[id] = giop.fragments(whole[id], 48, 16, 8 * id, 24)
    end
    local pieces = shuffled(lists)
    table.insert(pieces, 7, core.locate_request(2, true, 99, "k"))
    assert(c:send(table.concat(pieces)))
    local seen = {}
    for _ = 1, 5 do
      local r = pack(s:receive(10))
      seen[r[4]] = r
    end
    assert.equal(3, seen[99][2])
    for id = 1, 4 do
      local m = seen[id][1]
      assert.equal(#whole[id], #m)
      assert.equal(whole[id], m)
      assert.same(pack(core.parse(whole[id])), pack(core.parse(m)))
      assert.same({ 0, (id % 2 == 0 and 1 or 0) | 4, id, 3, "k", "op" }, table.move(seen[id], 2, 7, 1, {}))
    end
    c:close()
    s:close()
  end)

  it("may cut the header of a request anywhere", function()
    local m = giop.request { minor = 2, little = true, id = 5, key = "some key", operation = "operation", contexts = { { 1, "context" } },
      body = "body" }
    for cut = 16, #m - 1, 8 do
      local c, s = peers()
      c:send(table.concat(giop.fragments(m, cut)))
      assert.same({ 0, 5, 5, 3, "some key", "operation" }, table.move(pack(s:receive(10)), 2, 7, 1, {}))
      c:close()
      s:close()
    end
  end)

  it("of 1.1 follow their message", function()
    local c, s = peers()
    local m = giop.reply { minor = 1, little = false, id = 5, status = 0, body = ("0123456789"):rep(30) }
    c:send(table.concat(giop.fragments(m, 20, 3, 100, 5)) .. core.close(1, false))
    assert.equal(m, bare((s:receive(10)), m))
    assert.equal(5, select(2, s:receive(10)))
    c:close()
    s:close()
  end)

  it("end with a CancelRequest", function()
    for minor = 1, 2 do
      local c, s = peers()
      local m = giop.request { minor = minor, little = true, id = 5, key = "some key", operation = "operation", body = ("x"):rep(64) }
      local list = giop.fragments(m, 40, 24)
      c:send(list[1] .. list[2] .. core.cancel(minor, true, 5) .. table.concat(list))
      assert.equal(2, select(2, s:receive(10)))
      assert.equal(m, bare((s:receive(10)), m))
      c:close()
      s:close()
    end
  end)

  it("of 1.1 are read with the alignment of each piece", function()
    local env = cdr.environment { fail = function(name, _, text) error(name .. ": " .. text, 0) end }
    local double, long, octet = { kind = "double" }, { kind = "long" }, { kind = "octet" }
    local pair_of = { kind = "struct", id = "IDL:P:1.0", name = "P", members = { { name = "a", type = long }, { name = "b", type = double } } }
    local program = env:program { { kind = "string", bound = 0 }, { kind = "sequence", element = pair_of, bound = 0 },
      { kind = "sequence", element = long, bound = 0 }, octet, double, { kind = "sequence", element = double, bound = 0 } }
    for _, little in ipairs { true, false } do
      for size = 40, 120, 8 do                 -- pieces are cut where a peer with a buffer of so many bytes would
        local order = little and "<" or ">"
        local pieces, piece = {}, giop.writer(little):ulong(0):ulong(9):ulong(0)
        local function flush(more)
          local kind = #pieces == 0 and 1 or 7
          pieces[#pieces + 1] = giop.message(kind, 1, little, piece, more and 2 or 0)
          piece = giop.writer(little)
        end
        local function put(format, value)      -- a number is in one piece, aligned from the piece's header
          local n = string.packsize(format)
          if piece.at + -piece.at % n + n > size then flush(true) end
          piece:align(n):raw(string.pack(order .. format, value))
        end
        put("I4", 31)
        for c in (("x"):rep(30) .. "\0"):gmatch(".") do put("c1", c) end
        put("I4", 9)
        for i = 1, 9 do put("i4", i) put("d", i + 0.5) end
        put("I4", 20)
        for i = 1, 20 do put("i4", -i) end
        put("B", 7)
        put("d", 0.125)
        put("I4", 15)
        for i = 1, 15 do put("d", i / 4) end
        flush(false)
        local c, s = peers()
        c:send(table.concat(pieces))
        local message, kind, bits, id, status, at = s:receive(10)
        assert.same({ 1, 9, 0, 25 }, { kind, id, status, at })
        local text, list, longs, seven, eighth, doubles = program:decode(message, at, bits)
        assert.same({ ("x"):rep(30), 7, 0.125 }, { text, seven, eighth })
        for i = 1, 9 do assert.same({ a = i, b = i + 0.5 }, list[i]) end
        for i = 1, 20 do assert.equal(-i, longs[i]) end
        for i = 1, 15 do assert.equal(i / 4, doubles[i]) end
        for cut = #message - 12, #message do   -- the list of seams itself may be broken by who made the message so
          pcall(program.decode, program, message:sub(1, cut - 1) .. "\255" .. message:sub(cut + 1), at, bits)
          pcall(program.decode, program, message:sub(1, cut - 1), at, bits)
        end
        c:close()
        s:close()
      end
    end
  end)

  it("time out together", function()
    local c, s = peers()
    local list = giop.fragments(giop.reply { minor = 2, little = true, id = 5, status = 0, body = ("x"):rep(64) }, 40)
    c:send(list[1])
    assert.same({ nil, "timeout" }, { s:receive(0.01) })
    c:send(list[2])
    assert.equal(64, #s:receive(10) - 24)
    c:close()
    s:close()
  end)
end)

describe("code sets", function()
  local function component(char, conversions, wchar, wide)
    return string.pack(">I1xxxI4I4" .. ("I4"):rep(#conversions) .. "I4I4" .. ("I4"):rep(#wide), 0, char, #conversions,
      table.unpack(table.move(wide, 1, #wide, #conversions + 3, table.move({ wchar, #wide }, 1, 2, #conversions + 1, { table.unpack(conversions) }))))
  end
  local L1, U8, U16 = codesets.LATIN1, codesets.UTF8, codesets.UTF16
  local HAS = codesets.HAS_UTF8
  local function plain(bits) return bits and bits & ~HAS end

  it("are chosen in the order of CORBA 3.3 part 2, 7.10.2.6: the server's own, the client's, a common one, else UTF-8", function()
    for _, case in ipairs {
      { component(U8, { L1 }, U16, {}), U8, U16, 24 }, { component(L1, { U8 }, U16, {}), L1, U16, 16 | HAS },
      { component(L1, {}, U16, {}), L1, U16, 16 }, { component(L1, {}, 0, {}), L1, 0, 0 },
      { component(0x10002, { L1, U8 }, U16, {}), U8, U16, 24 }, { component(0x10002, { 0x10020, L1 }, U16, {}), L1, U16, 16 },
      { component(0x10002, {}, 0x10100, { U16 }), U8, U16, 24 }, { codesets.component, L1, U16, 16 | HAS },
    } do
      local data, bits = codesets.choose(case[1])
      assert.equal(case[4], bits)
      assert.same({ case[2], case[3], 13 }, { string.unpack("<I4I4", data, 5) })
      assert.equal(plain(bits), plain(codesets.accept(data)))
    end
    assert.is_nil(codesets.choose(component(L1, { U8 }, U16, {}):sub(1, -2)))
    assert.is_nil(codesets.choose("\1\0\0\0" .. ("\255"):rep(8)))
  end)

  it("are the one that the program wishes for where the server can, against that order", function()
    for _, case in ipairs {
      { component(L1, { U8 }, U16, {}), nil, U8, U8, 24 }, { component(L1, {}, U16, {}), nil, U8, L1, 16 },
      { component(U8, { L1 }, U16, {}), nil, L1, L1, 16 | HAS }, { component(L1, { U8 }, U16, {}), L1, U8, U8, 16 | 128 },
    } do
      local data, bits = codesets.choose(case[1], case[2], case[3])
      assert.same({ case[4], case[5] }, { string.unpack("<I4", data, 5), bits })
      assert.equal(plain(bits), plain(codesets.accept(data, case[2])))
    end
  end)

  it("are those of a program with ISO 8859-1 where it says so", function()
    local AS_IS, WIDE, FROM_LATIN = codesets.AS_IS, codesets.WIDE_UTF16, codesets.FROM_LATIN
    assert.same({ native = L1, U8 }, codesets.parse(codesets.component_of()).char)
    assert.same({ native = U8, L1 }, codesets.parse(codesets.component_of(U8)).char)
    for _, case in ipairs {
      { component(U8, { L1 }, U16, {}), U8, FROM_LATIN | WIDE }, { component(0x10002, { L1, U8 }, U16, {}), L1, AS_IS | WIDE },
      { component(L1, {}, 0, {}), L1, AS_IS }, { codesets.component, L1, AS_IS | WIDE },
      { component(U8, {}, U16, {}), U8, FROM_LATIN | WIDE }, { component(0x10002, {}, U16, {}), U8, FROM_LATIN | WIDE },
    } do
      local data, bits = codesets.choose(case[1], L1)
      assert.same({ case[2], case[3] }, { string.unpack("<I4", data, 5), bits })
      assert.equal(bits, codesets.accept(data, L1))
    end
    assert.equal(AS_IS | WIDE, codesets.accept(string.pack("<I4I4I4", 1, 0, U16), L1))
    assert.same({ 0, AS_IS }, { codesets.silent(), codesets.silent(L1) })
    assert.same({ U8, L1, L1 }, { codesets.read "UTF-8", codesets.read "ISO-8859-1", codesets.read "iso8859_1" })
    assert.is_nil(codesets.read "KOI8-R")
  end)

  it("tell a server whether its references could make the client choose UTF-8", function()
    local latin, utf8 = string.pack("<I4I4I4", 1, L1, U16), string.pack("<I4I4I4", 1, U8, U16)
    assert.same({ 16 | HAS, 16 | HAS, 16 }, { codesets.accept(latin), (codesets.accept(latin, nil, L1)), (codesets.accept(latin, nil, U8)) })
    assert.same({ 24, 24, 16 }, { codesets.accept(utf8), (codesets.accept(latin, L1)), (codesets.accept(string.pack("<I4I4I4", 1, 0, U16))) })
  end)

  it("go with the first request that has a choice, once", function()
    local c, s = peers()
    assert.equal(0, c.codec)
    assert.equal(32, s.codec)
    assert.is_nil(c:contexts(nil))
    local contexts = c:contexts(component(L1, { U8 }, U16, {}))
    assert.equal(1, contexts[1][1])
    assert.equal(16 | HAS, c.codec)
    assert.is_nil(c:contexts(codesets.component))
    c:send(core.request(2, true, 3, "k", "op", contexts, 1))
    c:send(core.request(2, true, 3, "k", "op", nil, 2))
    s:receive(10)
    assert.equal(32 | 16 | HAS, s.codec)
    s:receive(10)
    assert.equal(32 | 16 | HAS, s.codec)
    c:close()
    s:close()
  end)

  it("in big-endian, in GIOP 1.0, and none that we know", function()
    local c, s = peers()
    c:send(core.request(0, false, 3, "k", "op", { { 1, string.pack(">I4I4I4", 0, L1, U16) } }, 1))
    s:receive(10)
    assert.equal(32 | 16 | HAS, s.codec)
    c:send(core.request(2, false, 3, "k", "op", { { 1, string.pack(">I4I4I4", 0, 0x10002, U16) } }, 1))
    s:receive(10)
    assert.equal(32 | 16 | HAS, s.codec)
    assert.equal("char as ISO 8859-2: UTF-8 and ISO 8859-1 are known here", s.incompatible)
    assert.is_nil((codesets.accept("\0\0\0")))
    assert.equal("0x00000042", codesets.name(0x42))
    c:close()
    s:close()
  end)
end)

describe("a connection", function()
  it("says goodbye in the version of its peer", function()
    local c, s = peers()
    c:send(core.locate_request(1, false, 1, "k"))
    s:receive(10)
    s:goodbye()
    assert.same({ core.close(1, false), 5, 2 }, { c:receive(10) })
    s:close()
    assert.same(pack(nil, "closed", "EOF"), pack(c:receive(10)))
    c:close()
  end)

  it("shows what goes over it", function()
    local seen = {}
    local c, s = peers({ tap = function(direction, bytes) seen[#seen + 1] = { direction, bytes } end })
    local list = giop.fragments(giop.reply { minor = 2, little = true, id = 5, status = 0, body = ("x"):rep(64) }, 40)
    c:send(core.close(2, true))
    s:send(table.concat(list))
    c:receive(10)
    assert.same({ { "out", core.close(2, true) }, { "in", list[1] }, { "in", list[2] } }, seen)
    c:close()
    s:close()
  end)
end)

-- The TCP segments of a capture: { from, to, seq, ack, flags, data }
local function segments(path)
  local file = assert(io.open(path, "rb"))
  local all = file:read "a"
  file:close()
  local magic, major, minor, _, _, _, link, at = string.unpack("<I4I2I2i4I4I4I4", all)
  assert.same({ 0xa1b2c3d4, 2, 4, 1 }, { magic, major, minor, link })
  local list = {}
  while at <= #all do
    local _, _, size, full, next = string.unpack("<I4I4I4I4", all, at)
    assert.equal(size, full)
    local frame = all:sub(next, next + size - 1)
    local kind = string.unpack(">I2", frame, 13)
    local ip = kind == 0x800 and 20 or 40
    if kind == 0x800 then assert.equal(#frame - 14, (string.unpack(">I2", frame, 17))) end
    local from, to, seq, ack, _, flags = string.unpack(">I2I2I4I4I1I1", frame, 15 + ip)
    list[#list + 1] = { from = from, to = to, seq = seq, ack = ack, flags = flags, data = frame:sub(15 + ip + 20) }
    at = next + size
  end
  return list
end

describe("a capture", function()
  local function record(where)
    local path = temporary()
    local a, b = pair(where)
    local capture = assert(pcap.open(path))
    local c, s = connection.new(a, { tap = capture:tap(a, "client") }), connection.new(b, { role = "server" })
    local question, answer = core.request(2, true, 3, "key", "echo", nil, 7, ("x"):rep(40000)), core.reply(2, true, 7, 0, nil, "hello")
    local writer = fiber.spawn(function() c:send(question) end)
    s:receive(10)
    writer:wait()
    s:send(answer)
    c:receive(10)
    c:close()
    s:close()
    capture:close()
    return path, question, answer
  end

  it("is a stream of TCP segments that follow each other", function()
    for _, where in ipairs { "127.0.0.1:0", "[::1]:0" } do
      local path, question, answer = record(where)
      local next, streams, first = {}, {}, nil
      for i, segment in ipairs(segments(path)) do
        first = first or segment.from
        if next[segment.from] then assert.equal(next[segment.from], segment.seq) end
        if i > 1 then assert.equal(next[segment.to], segment.ack) end
        next[segment.from] = segment.seq + #segment.data + (segment.flags & 3 ~= 0 and 1 or 0)
        streams[segment.from] = (streams[segment.from] or "") .. segment.data
        if i == 2 then streams.server = segment.from end
      end
      assert.equal(question, streams[first])
      assert.equal(answer, streams[streams.server])
      os.remove(path)
    end
  end)

  it("is understood by tshark, where there is one", function()
    if not os.execute("command -v tshark >/dev/null 2>&1") then return pending("no tshark here") end
    local path = record()
    local r = proc.run({ "tshark", "-n", "-r", path, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE" }, { timeout = 60 })
    os.remove(path)
    assert.matches("GIOP 1.2 Request, s=%d+ id=7: op=echo", r.out)
    assert.matches("GIOP 1.2 Reply, s=%d+ id=7: No Exception", r.out)
    assert.is_nil(r.out:lower():find("incorrect") or r.out:find("Retransmission") or r.out:find("unseen"))
  end)
end)
