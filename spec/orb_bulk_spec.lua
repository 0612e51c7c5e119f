-- Long messages as they come: userdata that own their bytes; and programs whose finalisers and callbacks get in between.
local mare = require "mare"
local cdr = require "mare.orb.cdr"
local core = require "mare.orb.giop.core"
local net = require "mare.net"
local sockets = require "spec.support.sockets"

local LITTLE, LAST = 1 | 2 << 1 | 8 | 16, 64
local LIMIT, SIZE = 1 << 24, 100000
local octets = { kind = "sequence", element = { kind = "octet" } }

-- The next allocation collects all garbage and runs all finalisers, f among them.
local function at_the_next_allocation(f)
  collectgarbage() collectgarbage()
  collectgarbage("incremental", 100, 1000, 24)
  collectgarbage "stop"
  setmetatable({}, { __gc = f })
  collectgarbage "restart"
end

local function request(body)
  return core.request(2, true, 3, "key", "op", nil, 1, body)
end

-- The bytes of the message are all at b.
local function send(a, b, message)
  local writer = mare.fiber.spawn(function() assert(a:write(message)) end)
  assert(writer:wait(20))
  mare.sleep(0.05)
  assert(not b:closed())
end

local function come(message)
  local a, b = sockets.pair()
  send(a, b, message)
  local bulk, kind, _, _, _, _, _, _, body = core.take(b, LIMIT, 20)
  assert.equal(0, kind)
  a:close() b:close()
  return bulk, body
end

describe("a long message", function()
  it("is its bytes, and they are freed by the last look", function()
    local message = request(string.pack("<s4", ("x"):rep(SIZE)))
    local bulk, body = come(message)
    assert.equal("userdata", type(bulk))
    assert.equal(#message, #bulk)
    assert.is_true(message == tostring(bulk))
    local program = cdr.environment():program { octets }
    assert.equal(SIZE, #program:decode(bulk, body, LITTLE))
    assert.equal(SIZE, #program:decode(bulk, body, LITTLE | LAST))
    assert.equal(0, #bulk)
    assert.is_false((pcall(program.decode, program, bulk, body, LITTLE)))
  end)

  it("keeps its bytes while they are read, whoever says meanwhile that this was the last look", function()
    local ior = string.pack("<s4xxI4", "A\0", 0)
    local message = request(string.pack("<I4", 2) .. ior .. ior .. string.pack("<s4", ("y"):rep(SIZE)))
    local bulk, body = come(message)
    local program, inner
    local env = cdr.environment { reference_in = function()
      inner = { pcall(program.decode, program, bulk, body, LITTLE | LAST) }
      return {}
    end }
    local object = { kind = "sequence", element = { kind = "interface", id = "IDL:A:1.0", name = "A" } }
    program = env:program { octets }
    local outer = env:program { object, octets }
    local list, text = outer:decode(bulk, body, LITTLE | LAST)
    assert.equal(2, list.n)
    assert.is_true(text == ("y"):rep(SIZE))
    assert.is_true(inner[1])
    assert.equal(0, #bulk)
  end)

  it("counts for the limit of its process, however many it keeps", function()
    local server = assert(net.listen "127.0.0.1:0")
    local p = mare.process.spawn { memory = 4 << 20, args = { server }, main = function(listener)
      local giop = require "mare.orb.giop.core"            -- luacheck: ignore
      local conn, kept = assert(listener:accept(20)), {}
      for i = 1, 200 do kept[i] = assert((giop.take(conn, 1 << 20, 20))) end
      return #kept
    end }
    local a = assert(net.connect(server:address()))
    local message = request(("x"):rep(SIZE))
    for _ = 1, 200 do
      if not a:write(message) then break end
    end
    local ok, why = p:wait(60)
    assert.is_false(ok)
    assert.is_truthy(tostring(why):find "memory", tostring(why))
    a:close() server:close()
  end)

  it("has no metatable that a program could call", function()
    local bulk = come(request(("x"):rep(SIZE)))
    local program = cdr.environment():program { octets }
    local head, idat = core.head(2, true, 3, "key", "op")
    local list = program:request(head, idat, 1, LITTLE | LAST, ("x"):rep(SIZE))
    assert.is_false(getmetatable(bulk))
    assert.equal("table", type(list))
    assert.is_false(getmetatable(list))
  end)
end)

describe("a finaliser", function()
  it("may close the connection while a long message is taken from it", function()
    for _, n in ipairs { 100, SIZE, 1 << 20 } do
      local a, b = sockets.pair()
      local message = request(("x"):rep(n))
      send(a, b, message)
      at_the_next_allocation(function() b:close() end)
      local got, why, code = core.take(b, LIMIT, 20)
      collectgarbage "incremental"
      assert.is_true(b:closed())
      if got then assert.is_true(tostring(got) == message) else assert.same({ "closed", "EBADF" }, { why, code }) end
      a:close()
    end
  end)

  it("may not read meanwhile what is being given", function()
    for _, n in ipairs { 100, SIZE } do
      local a, b = sockets.pair()
      local message = request(("x"):rep(n))
      send(a, b, message)
      local code
      at_the_next_allocation(function() code = select(3, b:read(1, 0)) end)
      local got = core.take(b, LIMIT, 20)
      collectgarbage "incremental"
      assert.is_true(tostring(got) == message)
      assert.equal("EBUSY", code)
      a:close() b:close()
    end
  end)

  it("may change the service contexts of a message that is made", function()
    for _, other in ipairs { ("y"):rep(50000), "y" } do
      local contexts = { { 1, ("x"):rep(2000) }, { 2, "z" } }
      at_the_next_allocation(function() contexts[2] = { 2, other } end)
      local made = core.request(2, true, 3, "key", "op", contexts, 1, "body")
      collectgarbage "incremental"
      assert.equal(("x"):rep(2000), select(9, core.parse(made))[1])
      assert.equal("z", select(9, core.parse(made))[2])
    end
  end)

  it("may make messages while another one is made of numbers", function()
    local other = core.request(2, false, 3, ("y"):rep(5000), "other", { { 9, "z" } }, 7, "body")
    for _, at in ipairs { 4, 5, 8 } do
      local arguments, made = { 2, true, 3, "key", "op", { { 1, "x" } }, 1, "body" }
      arguments[at] = 12345678 + at              -- its string is new, so it is allocated
      at_the_next_allocation(function() made = core.request(2, false, 3, ("y"):rep(5000), "other", { { 9, "z" } }, 7, "body") end)
      local got = core.request(table.unpack(arguments))
      collectgarbage "incremental"
      collectgarbage()
      arguments[at] = tostring(arguments[at])
      assert.equal(core.request(table.unpack(arguments)), got)
      assert.equal(other, made)
    end
  end)

  it("may change the pieces of a message that is joined", function()
    for _, other in ipairs { ("y"):rep(50000), ("y"):rep(20) } do
      local first = "GIOP\1\2\3\0" .. string.pack("<I4", 2036) .. ("x"):rep(2036)
      local last = "GIOP\1\2\1\7" .. string.pack("<I4I4", 1004, 1) .. ("x"):rep(1000)
      local list = { first, last }
      at_the_next_allocation(function() list[2] = other end)
      local ok, made = pcall(core.join, list)
      collectgarbage "incremental"
      if ok then assert.equal(2048 + 1000, #made) else assert.is_truthy(made:find("the list changed", 1, true), made) end
    end
  end)
end)
