-- Thousands of connections, and every way to end one.
local mare = require "mare"
local net = require "mare.net"
local proc = require "spec.support.proc"
local sockets = require "spec.support.sockets"
local process, fiber, channel = mare.process, mare.fiber, mare.channel

local function descriptors()
  collectgarbage()
  collectgarbage()
  return sockets.descriptors()
end

local few = proc.slow > 1 and 5 or 1              -- sanitizers: a fifth of it

-- What a peer may do to a connection. Each gets a random number.
local function mischief(conn, kind)
  if kind == 1 then conn:write("half a li") conn:close()
  elseif kind == 2 then conn:option("linger", 0) conn:close()
  elseif kind == 3 then conn:write("line\n") conn:option("linger", 0) conn:close()
  elseif kind == 4 then conn:shutdown("write") conn:read("a", 60) conn:close()
  elseif kind == 5 then conn:shutdown("both") conn:close()
  else
    conn:write("line\n")
    local answer = conn:read("l", 60)
    conn:close()
    return answer == "LINE"
  end
  return true
end

describe("thousands of connections", function()
  it("that end in every way leave nothing behind", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local _, port = server:address()
    local first = assert(net.connect("127.0.0.1", port))   -- what polling needs is there from now on
    first:read(1, 0.02)
    first:close()
    server:accept(10):close()
    local before = descriptors()
    local each = 1000 // few
    local servers, clients = {}, {}
    for i = 1, 2 do
      servers[i] = process.spawn(function()
        local n = 0
        local function serve(conn)
          for line in function() return (conn:read("l", 60)) end do
            if not conn:write(line:upper(), "\n") then break end
          end
          conn:close()
        end
        local running = {}
        for conn in server:connections() do
          n = n + 1
          running[#running + 1] = mare.fiber.spawn(serve, conn)
        end
        for _, f in ipairs(running) do assert(f:wait()) end
        return n
      end)
    end
    for i = 1, 4 do
      clients[i] = process.spawn(function()
        math.randomseed(i)
        local good = 0
        for _ = 1, each do
          local conn, message, code = net.connect("127.0.0.1", port, { timeout = 60 })
          assert(conn, tostring(message) .. tostring(code))
          if mischief(conn, math.random(6)) then good = good + 1 end
        end
        return good
      end)
    end
    for i = 1, 4 do
      local ok, good = clients[i]:wait()
      assert.is_true(ok, good)
      assert.equal(each, good)
    end
    server:close()
    local served = 0
    for i = 1, 2 do
      local ok, n = servers[i]:wait()
      assert.is_true(ok, n)
      served = served + n
    end
    -- Those that were reset before they were accepted may not have been.
    assert.is_true(served <= 4 * each and served > each, served)
    collectgarbage()
    collectgarbage()
    assert.is_true(sockets.descriptors_fall_to(before - 1))        -- the server's own is gone, too
  end)

  it("are open at once, each in a fiber, and cost little", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local _, port = server:address()
    local n = 400 // few
    local idle = {}
    local serving = fiber.spawn(function()
      for i = 1, n do
        local conn = server:accept(60)
        idle[i] = fiber.spawn(function()
          local line = conn:read("l", 60)
          conn:write(line, "\n")
          conn:close()
        end)
      end
    end)
    local conns = {}
    for i = 1, n do conns[i] = assert(net.connect("127.0.0.1", port)) end
    assert.is_true((serving:wait()))
    for i = n, 1, -1 do conns[i]:write("number ", i, "\n") end
    for i = 1, n do
      assert.equal("number " .. i, conns[i]:read("l", 60))
      conns[i]:close()
    end
    for i = 1, n do assert.is_true((idle[i]:wait())) end
    server:close()
  end)

  it("are moved from hand to hand", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local _, port = server:address()
    local jobs = channel.new(4)
    local workers = {}
    for i = 1, 3 do
      workers[i] = process.spawn(function()
        local n = 0
        for conn in jobs:each() do
          conn:write(conn:read("l", 60), "\n")
          conn:close()
          n = n + 1
        end
        return n
      end)
    end
    local n = 600 // few
    local controller = process.spawn(function()
      for _ = 1, n do jobs:send(server:accept(60)) end
      jobs:close()
    end)
    for i = 1, n do
      local conn = assert(net.connect("127.0.0.1", port))
      conn:write(i, "\n")
      assert.equal(tostring(i), conn:read("a", 60):sub(1, -2))
      conn:close()
    end
    assert.is_true((controller:wait()))
    local all = 0
    for i = 1, 3 do all = all + select(2, workers[i]:wait()) end
    assert.equal(n, all)
    server:close()
  end)

  it("end with the process that had them, whatever it was doing", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local _, port = server:address()
    for _ = 1, 50 // few do
      local p = process.spawn(function()
        local conn = net.connect("127.0.0.1", port)
        mare.fiber.spawn(pcall, function() return conn:read("l") end)
        mare.fiber.spawn(pcall, function() return conn:write(("x"):rep(1 << 24)) end)
        mare.sleep(0)
        error("the end", 0)
      end)
      local other = assert(server:accept(60))
      assert.same({ false, "the end" }, { p:wait(), (select(2, p:wait())) })
      local _, _, code = other:read("a", 60)
      assert.is_true(code == nil or code == "ECONNRESET", code)
      other:close()
    end
    server:close()
  end)

  it("learn of the end of their peer in the middle of anything", function()
    local server = assert(net.listen("127.0.0.1:0"))
    local _, port = server:address()
    for i = 1, 60 // few do
      local p = process.spawn(function()
        local conn = net.connect("127.0.0.1", port)
        if not conn then return true end          -- reset already
        local reader = mare.fiber.spawn(function() return conn:read("l", 60) end)
        local writer = mare.fiber.spawn(function() return conn:write(("x"):rep(1 << 24)) end)
        reader:wait()
        writer:wait()
        conn:close()
        return true
      end)
      local other = assert(server:accept(60))
      if i % 3 == 0 then other:read(100000, 60) end
      if i % 2 == 0 then other:option("linger", 0) end
      other:close()
      assert.same({ true, true }, { p:wait() })
    end
    server:close()
  end)
end)
