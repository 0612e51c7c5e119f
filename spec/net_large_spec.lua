-- Large reads: the system is told to wake the reader only for much at once. What came is there all the same, and small reads afterwards are quick.
local mare = require "mare"
local net = require "mare.net"
local fiber = mare.fiber

local MANY = 1 << 20
local text = ("0123456789abcdef"):rep(MANY // 16)

local function pair()
  local server <close> = net.listen("127.0.0.1:0")
  local a = net.connect(server:address())
  local b = server:accept(10)
  return a, b
end

-- Waits until the reader has something and is waiting for the rest.
local function settle(b) fiber.yield() while b:buffered() == 0 do mare.sleep(0.001) end end

describe("a large read", function()
  it("gives the short rest when the peer ends", function()
    local a, b = pair()
    local reader = fiber.spawn(function() return b:read(MANY, 20) end)
    a:write(text:sub(1, 300000))
    settle(b)
    a:close()
    assert.same({ true, text:sub(1, 300000) }, { reader:wait() })
    b:close()
  end)

  it("loses nothing to its time limit, and a small one then waits for little", function()
    local a, b = pair()
    a:write(text:sub(1, 300000))
    assert.same({ nil, "timeout" }, { b:read(MANY, 0.2) })
    assert.equal(text:sub(1, 300000), b:read(300000, 20))
    local reader = fiber.spawn(function() return b:read(3, 20) end)
    fiber.yield()
    a:write("abc")
    assert.same({ true, "abc" }, { reader:wait() })
    a:close()
    b:close()
  end)

  it("leaves nothing behind when its fiber is cancelled", function()
    local a, b = pair()
    local reader = fiber.spawn(function() return b:read(MANY, 20) end)
    a:write(text:sub(1, 200000))
    settle(b)
    reader:cancel()
    reader:wait()
    b:read(200000, 20)
    local waiter = fiber.spawn(function() return (mare.select { b, timeout = 20 }) end)
    fiber.yield()
    a:write("x")
    assert.same({ true, 1 }, { waiter:wait() })
    assert.equal("x", b:read(1, 20))
    a:close()
    b:close()
  end)

  it("is whole, time after time, with small ones between", function()
    local a, b = pair()
    local writer = fiber.spawn(function()
      for _ = 1, 20 do
        a:write(text)
        a:write("small")
      end
    end)
    for _ = 1, 20 do
      assert.is_true(b:read(MANY, 20) == text)
      assert.equal("small", b:read(5, 20))
    end
    assert.is_true((writer:wait()))
    a:close()
    b:close()
  end)
end)

describe("a large write", function()
  it("that is cancelled in the middle is the last: what followed would be taken for its rest", function()
    local a, b = pair()
    local writer = fiber.spawn(function() a:write(text:rep(16)) end)
    b:read(1, 20)                                -- it has begun
    while writer:status() ~= "waiting" do mare.sleep(0.001) end
    writer:cancel()
    assert.is_false((writer:wait()))
    assert.same({ nil, "Operation canceled", "ECANCELED", 0 }, { a:write("x") })
    a:close()
    b:close()
  end)
end)
