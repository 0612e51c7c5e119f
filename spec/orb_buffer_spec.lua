-- Sequences of octets from buffers, and as buffers.
local mare = require "mare"
local orb = require "mare.orb"
local buffer = require "mare.buffer"
local cdr = require "mare.orb.cdr"
local core = require "mare.orb.giop.core"
local sockets = require "spec.support.sockets"
local c = require "spec.support.cdr"

local LAST = 64                                -- of a codec: the last look at a long message, or a long one may be made in pieces
local octets, bounded, array = c.seq(c.T.octet), c.seq(c.T.octet, 4), c.array(c.T.octet, 3)

describe("octets of a buffer", function()
  it("are those of the string", function()
    local program = c.env:program { c.struct("S", { "a", octets, "b", c.T.long, "c", array, "d", bounded }) }
    for _, codec in ipairs { c.LITTLE, c.BIG } do
      local expected = program:encode(codec, { a = "hello", b = 7, c = "xyz", d = "" })
      assert.equal(expected, program:encode(codec, { a = buffer.of "hello", b = 7, c = buffer.of "_xyz_":slice(2, 4), d = buffer.new() }))
      assert.equal(expected, program:encode(codec, { a = buffer.new "hello", b = 7, c = buffer.new "xyz", d = buffer.of "" }))
    end
  end)

  it("are held to their type", function()
    local program = c.env:program { c.seq(c.struct("S", { "a", bounded, "b", array })) }
    assert.match("of at most 4 expected, got 5", c.refused(program.encode, program, c.LITTLE, { { a = buffer.of "12345", b = "xyz" } }).text)
    local short = c.refused(program.encode, program, c.LITTLE, { { a = "", b = buffer.of "xy" } }).text
    assert.match("value%[1%].b: string of 3 bytes expected, got 2", short)
    local text = c.env:program { c.T.string }
    assert.match("string expected", c.refused(text.encode, text, c.LITTLE, buffer.of "x").text)
    local moved = buffer.new "abc"
    mare.channel.new(1):send(moved)
    assert.match("string of octets expected", c.refused(program.encode, program, c.LITTLE, { { a = moved, b = "xyz" } }).text)
  end)
end)

describe("octets as buffers", function()
  local env = cdr.environment { buffers = true }

  it("arrive sealed, wherever they are", function()
    local program = env:program { c.seq(c.struct("S", { "a", octets, "b", array })), octets, c.T.string }
    local bytes = program:encode(c.LITTLE, { { a = "hello", b = "xyz" }, { a = "", b = "123" } }, "last", "text")
    local list, last, text = program:decode(bytes, 1, c.LITTLE)
    assert.equal("sealed", buffer.is(list[1].a))
    assert.is_true(list[1].a == buffer.of "hello" and list[1].b == buffer.of "xyz")
    assert.is_true(list[2].a == buffer.of "" and last == buffer.of "last")
    assert.equal("text", text)
  end)

  it("share the memory of a long message, whoever forgets it", function()
    local n = 200000
    local program = env:program { c.T.string, octets, octets, octets }
    local writer = c.env:program { c.T.string, octets, octets, octets }
    local a, b = sockets.pair()
    local large = ("0123456789"):rep(n // 10)
    local message = core.request(2, true, 3, "key", "op", nil, 1, writer:encode(c.LITTLE, "text", large, "small", buffer.of(large:reverse())))
    local sender = mare.fiber.spawn(function() assert(a:write(message)) end)
    local bulk, _, _, _, _, _, _, _, body = core.take(b, 1 << 24, 20)
    sender:wait()
    local _, one, small, two = program:decode(bulk, body, c.LITTLE)
    local _, again = program:decode(bulk, body, c.LITTLE | LAST)
    assert.equal(0, #bulk)
    bulk = nil                                 -- luacheck: ignore 311
    collectgarbage()
    assert.is_true(one:sub() == large and again == one)
    one, again = nil, nil                      -- luacheck: ignore 311
    collectgarbage()
    assert.equal("small", small:sub())
    assert.is_true(two:sub() == large:reverse())
    a:close() b:close()
  end)
end)

describe("a broker with octets as buffers", function()
  local IDL = [[
    typedef sequence<octet> Bytes;
    interface Store { Bytes twice(in Bytes data); unsigned long size(in Bytes data); string kind(in Bytes data); };
  ]]

  local servant = {
    twice = function(_, data) return buffer.of(data, data) end,
    size = function(_, data) return #data end,
    kind = function(_, data) return buffer.is(data) or type(data) end,
  }

  -- f(proxy, the broker that serves): a client and a server with these options
  local function between(client_options, server_options, f)
    server_options.host = "127.0.0.1"
    local server, client = orb.init(server_options), orb.init(client_options)
    server:load(IDL)
    client:load(IDL)
    local reference = server:serve(servant, "Store")
    local done, e = pcall(f, client:proxy(tostring(reference)), server, reference)
    client:close()
    server:shutdown(10)
    if not done then error(e, 0) end
  end

  it("sends and gets buffers, short and long", function()
    between({ octets = "buffer" }, { octets = "buffer" }, function(store)
      for _, n in ipairs { 0, 5, 70000, 1000000 } do
        local text = ("abcde"):rep(n // 5)
        for _, data in ipairs { text, buffer.of(text), buffer.new(text) } do
          assert.equal(n, store:size(data))
          assert.equal("sealed", store:kind(data))
          local back = store:twice(data)
          assert.equal("sealed", buffer.is(back))
          assert.is_true(back:sub() == text .. text)
        end
      end
    end)
  end)

  it("understands one with strings, both ways", function()
    between({}, { octets = "buffer" }, function(store)
      assert.equal("sealed", store:kind "x")
      assert.equal("xyxy", store:twice "xy")
      assert.is_true(store:twice(buffer.of(("x"):rep(100000))) == ("x"):rep(200000))
    end)
    between({ octets = "buffer" }, {}, function(store)
      assert.equal("string", store:kind(buffer.of "x"))
      assert.equal("xyxy", store:twice("xy"):sub())
    end)
  end)

  it("takes no other word for them", function()
    assert.error_matches(function() orb.init { octets = "buffers" } end, 'orb.init: octets are a "string" or a "buffer", not \'buffers\'')
  end)
end)
