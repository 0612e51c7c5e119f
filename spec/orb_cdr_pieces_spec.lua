-- Messages whose last value is large: made in pieces, the value itself among them.
local cdr = require "mare.orb.cdr"
local core = require "mare.orb.giop.core"

local UTF8, PIECES, BULK = 8, 64, 1 << 16
local env = cdr.environment { fail = function(name, minor, text) error(name .. " " .. minor .. " " .. text, 0) end }
local long, string, octets = { kind = "long" }, { kind = "string", bound = 0 }, { kind = "sequence", element = { kind = "octet" }, bound = 0 }

-- The request as one string, and as it is made when pieces may be.
local function both(types, codec, ...)
  local program = env:program(types)
  local head, idat = core.head(codec >> 1 & 3, codec & 1 == 1, 3, "key", "op")
  return program:request(head, idat, 7, codec, ...), program:request(head, idat, 7, codec | PIECES, ...)
end

describe("a message with a large last value", function()
  it("is the same bytes in pieces, in every version and byte order", function()
    for minor = 0, 2 do
      for little = 0, 1 do
        local codec = little | minor << 1 | UTF8
        for _, n in ipairs { BULK, BULK + 1, BULK + 7, 1 << 20 } do
          local text = ("x"):rep(n)
          for _, T in ipairs { string, octets } do
            local whole, pieces = both({ long, T }, codec, 5, text)
            assert.equal("table", type(pieces))
            assert.equal(#whole, #pieces)
            assert.is_true(whole == pieces[1] .. pieces[2] .. pieces[3])
            assert.equal(text, pieces[2])
          end
        end
      end
    end
  end)

  it("can be a reply", function()
    local program, text = env:program { octets }, ("\0\255"):rep(BULK)
    local whole, pieces = program:reply(9, 5, 0, nil, text), program:reply(9, 5 | PIECES, 0, nil, text)
    assert.is_true(whole == pieces[1] .. pieces[2] .. pieces[3])
  end)

  it("is one string where the bytes are others, a value follows, or it is small", function()
    local text = ("x"):rep(BULK)
    for _, case in ipairs {
      { { string, long }, 5 | UTF8, text, 1 }, { { string }, 5 | UTF8, text:sub(2) }, { { string }, 5, text .. "é" },
      { { { kind = "string", bound = 1 << 20 } }, 5 | UTF8, text }, { {}, 5 },
    } do
      local whole, other = both(table.unpack(case))
      assert.is_true(whole == other)
    end
    assert.equal("table", type(select(2, both({ string }, 5, text))))       -- ASCII is itself in ISO 8859-1
  end)

  it("is refused as a small one is", function()
    local program = env:program({ long, string }, { "number", "text" })
    local head, idat = core.head(2, true, 3, "key", "op")
    local function why(...) return select(2, pcall(program.request, program, head, idat, 1, 5 | UTF8 | PIECES, ...)) end
    assert.equal("BAD_PARAM 0 text: string without zero bytes expected", why(1, ("x"):rep(BULK) .. "\0"))
    assert.equal("BAD_PARAM 0 number: long expected, got 'a'", why("a", ("x"):rep(BULK)))
  end)
end)
