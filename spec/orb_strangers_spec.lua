-- What strangers' messages leave behind in a broker: nothing that grows with what they think of.
local mare = require "mare"
local orb = require "mare.orb"
local core = require "mare.orb.giop.core"
local cdr = require "mare.orb.cdr"
local connection = require "mare.orb.giop.connection"
local ior = require "mare.orb.giop.ior"
local giop = require "spec.support.iiop"
local sockets = require "spec.support.sockets"

local IDL = "interface Known { void f(); }; interface I { void take(in any a); void pass(in Object o); void meet(in Known k); };"

local function serving(test)
  local broker = orb.init { host = "127.0.0.1", log = function() end }
  broker:load(IDL)
  local got = 0
  local function count() got = got + 1 end
  broker:serve({ take = count, pass = count, meet = count }, "I", { key = "i" })
  local client <close> = giop.connect(tonumber(broker:address():match("%d+$")))
  test(broker, client, function() return got end)
  client:close()
  broker:shutdown(true)
end

local function reference(id, data) return ior.make { type_id = id, profiles = { { tag = 77, data = data } } } end
local function entries(t)
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  return n
end
local function kilobytes()
  collectgarbage()
  collectgarbage()
  return collectgarbage("count")
end

describe("a broker remembers of strangers' references", function()
  it("no type ids that it has no IDL of", function()
    serving(function(broker, client, got)
      for i = 1, 50 do assert.equal(0, client:call("pass", "i", reference("IDL:stranger" .. i .. ":1.0", "x"):sub(5)).status) end
      for _ = 1, 2 do client:call("meet", "i", reference("IDL:Known:1.0", "x"):sub(5)) end
      assert.equal(52, got())
      assert.is_true(entries(broker.known) <= 2)
    end)
  end)

  it("no interfaces that only a TypeCode names", function()
    serving(function(broker, client, got)
      local env = cdr.environment {}
      for i = 1, 50 do
        local code = env:typecode { kind = "interface", id = "IDL:stranger" .. i .. ":1.0", name = "s" }
        code = code .. ("\0"):rep(-#code % 4)
        assert.equal(0, client:call("take", "i", code .. reference("", "x" .. i):sub(5)).status)
      end
      assert.equal(50, got())
      assert.is_true(entries(broker.typed) <= 2 and entries(broker.classes) <= 3)
    end)
  end)

  it("no large ones when the program has let them go", function()
    serving(function(_, client, got)
      local large = ("x"):rep(1 << 18)
      client:call("pass", "i", reference("IDL:a:1.0", large):sub(5))
      local before = kilobytes()
      for i = 1, 40 do client:call("pass", "i", reference("IDL:a:1.0", i .. large):sub(5)) end
      assert.equal(41, got())
      local grown = kilobytes() - before
      assert.is_true(grown < 2048, grown .. " KiB")
    end)
  end)
end)

describe("a long message", function()
  -- Alive are those the collector has not found: it doesn't see how long they are.
  it("that nobody decodes does not stay", function()
    local a, b = sockets.pair()
    local reader = connection.new(b, { role = "server" })
    local message, alive, most = core.request(2, true, 3, "key", "op", nil, 1, ("x"):rep(1 << 20)), setmetatable({}, { __mode = "v" }), 0
    local writer = mare.fiber.spawn(function()
      for _ = 1, 100 do assert(a:write(message)) end
    end)
    for i = 1, 100 do
      local came = assert(reader:receive(60))
      assert.equal(#message, #came)
      if type(came) == "userdata" then alive[i] = came end
      most = math.max(most, entries(alive))
    end
    assert.is_true(writer:wait(60))
    assert.is_true(most > 0 and most < 50, most .. " of 100 MiB")
    a:close()
    b:close()
  end)
end)
