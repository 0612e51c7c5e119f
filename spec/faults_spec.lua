-- Memory of long messages is used again: each page that the system has to give anew costs more than the bytes in it.
-- needs: plain
-- runs under: mare
local mare = require "mare"
local net = require "mare.net"

local SIZE, TIMES = 1 << 20, 60

-- Page faults of this program up to now that needed no disk.
local function faults()
  local file <close> = assert(io.open "/proc/self/stat")
  return math.tointeger(tonumber((file:read("a"):match("%) %S+ %S+ %S+ %S+ %S+ %S+ %S+ (%d+)"))))
end

describe("a megabyte that comes by a connection", function()
  it("again and again, takes no new pages", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local sender = mare.fiber.spawn(function()
      local out <close> = server:accept()
      local text = ("x"):rep(SIZE)
      for _ = 1, 2 * TIMES do assert(out:write(text)) end
    end)
    local conn <close> = assert(net.connect("127.0.0.1", (select(2, server:address()))))
    local function take()
      for _ = 1, TIMES do
        assert(#assert(conn:read_buffer(SIZE)) == SIZE)
        collectgarbage()
      end
    end
    take()
    local before = faults()
    take()
    local each = (faults() - before) / TIMES
    assert.is_true(each < SIZE / 4096 / 4, ("%.0f page faults for each of them"):format(each))
    assert.is_true((sender:wait()))
    server:close()
  end)
end)
