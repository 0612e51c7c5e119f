-- mare with omniORB, JacORB and GlassFish's ORB, as client and as server, over one rich interface. Calls that overtake each other, connections
-- that are closed and messages that are counted: orb_interop_time_spec.lua
-- runs under: mare
-- runs first
local agrees = require "spec.orb_peers.agrees"
local fiber = require "mare".fiber
local matrix = require "spec.orb_peers.matrix"
local proc = require "spec.support.proc"
local record = require "spec.orb_peers.record"
local temporary = require "spec.support.temporary"

-- Under sanitizers only what concerns them: mare's own halves with the nearest peer.
agrees(function(pair)
  if pair.table == 3 or pair.control then return false end
  return proc.config == "plain" or pair.table ~= 2 and (pair.id == "mare → omniORB" or pair.id == "omniORB → mare")
end)

describe("the matrix", function()
  it("has a reason for every no, and mare with itself passes everything", function()
    local text = assert(io.open(matrix.path)):read("a")
    assert.is_nil(text:find("not known", 1, true))
    local count = 0
    for feature, cells in pairs(matrix.read()[1]) do
      count = count + 1
      assert.equal("yes", cells["mare → mare"], feature)
    end
    assert.is_true(count > 120)
  end)
end)

-- The recorder itself: what it passes on and what its files hold.
describe("the recorder", function()
  it("keeps whole messages of both sides and reads its files back", function()
    local path = temporary()
    local messages = {
      { from = "C", connection = 1, message = "GIOP\1\2\1\0" .. string.pack("<I4", 12) .. "123456789012" },
      { from = "S", connection = 1, message = "GIOP\1\2\0\1" .. string.pack(">I4", 4) .. "abcd" },
      { from = "S", connection = 1, message = "GIOP\1\0\0\5" .. string.pack(">I4", 0) },
    }
    record.write(path, messages)
    assert.same(messages, record.read(path))
    os.remove(path)
  end)

  it("stands between a client and a server", function()
    local net = require "mare.net"
    local server = assert(net.listen("127.0.0.1:0"))
    local _, port = server:address()
    local ior = require "mare.orb.giop.ior"
    local reference = ior.stringify(ior.iiop { type_id = "IDL:X:1.0", addresses = { { "127.0.0.1", port } }, key = "k", minor = 2 })
    local message = "GIOP\1\2\1\6" .. string.pack("<I4", 0)
    local echo = fiber.spawn(function()
      local c = assert(server:accept(10))
      local text = c:read(12, 10)
      c:write(text)
      c:close()
    end)
    local r = record.start(reference)
    local client = assert(net.connect("127.0.0.1", ior.parse(ior.destring(r.ior)).profiles[1].port))
    client:write(message)
    assert.equal(message, client:read(12, 10))
    client:close()
    assert.is_true((echo:wait()))
    local kept = r:stop()
    assert.same({ { from = "C", connection = 1, message = message }, { from = "S", connection = 1, message = message } }, kept)
    server:close()
  end)
end)
