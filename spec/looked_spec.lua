-- luacheck: ignore 211 212 411 421 431 432 512
-- Those who are looked at don't notice.
local mare = require "mare"
local process, channel, fiber = mare.process, mare.channel, mare.fiber
local proc = require "spec.support.proc"
local parked = require "spec.support.parked"
local looking = require "spec.support.looking"
local soon, busy, finish = looking.soon, looking.busy, looking.finish

local gate                                       -- closed after each test: what waits there ends
local function waiter(name) return looking.waiter(gate, name) end

before_each(function() gate = channel.new() end)
after_each(function() gate:close() end)

describe("who is looked at", function()
  -- Looks at all of them until `over` is closed.
  local function looker(over, ...)
    return process.spawn(function(over, ...)
      local mare = require "mare"
      local n = 0
      while over:try_receive() == nil do
        for _, p in ipairs { ... } do
          p:traceback(60)
          p:info(60)
          n = n + 1
        end
        mare.process.list { sort = "cpu", limit = 5 }
        mare.sleep(0.0002)
      end
      return n
    end, over, ...)
  end

  it("loses no message, and none comes twice", function()
    for _, capacity in ipairs { 0, 1, 100 } do
      local a, b, over = channel.new(capacity), channel.new(capacity), channel.new(1)
      local n = 600
      local function value(i, kind) return kind == 1 and i or kind == 2 and { i } or ("x"):rep(5000) .. i end
      local source = process.spawn(function(a, n, value)
        for i = 1, n do a:send(value(i, i % 3)) end
      end, a, n, value)
      local middle = process.spawn(function(a, b, n)
        local mare = require "mare"
        for i = 1, n do
          local v
          if i % 2 == 0 then v = a:receive() else v = select(2, mare.select { a }) end
          if i % 5 == 0 then mare.select { b:sending(v) } else b:send(v) end
        end
      end, a, b, n)
      local look = looker(over, source, middle, process.self())
      for i = 1, n do
        local v = b:receive(60 * proc.slow)
        assert.same(value(i, i % 3), v)
      end
      over:send(1)
      assert.is_true(source:wait() and middle:wait())
      assert.is_true((select(2, look:wait())) > 0)
    end
  end)

  it("keeps its deadline", function()
    local over = channel.new(1)
    local p = process.spawn(function()
      local mare = require "mare"
      local began = mare.clock()
      local a, b = mare.channel.new():receive(0.3)
      mare.sleep(0.1)
      local ok, err = pcall(mare.process.deadline, 0.1, mare.sleep, 3600)
      return mare.clock() - began, a, b, ok, err.kind
    end)
    local look = looker(over, p)
    local ok, took, a, b, fine, kind = p:wait(60)
    assert.same({ true, nil, "timeout", false, "deadline" }, { ok, a, b, fine, kind })
    assert.is_true(took >= 0.49)
    over:send(1)
    look:wait()
  end)

  it("waits on, wherever it does", function()
    local waits = {
      ["send of a table"] = function() require "mare".channel.new():send {} end,
      ["under a deadline"] = function() require "mare".process.deadline(3600, require "mare".sleep, 3600) end,
    }
    for name, f in pairs(require "spec.support.waits") do waits[name] = f end
    local all = {}
    for name, f in pairs(waits) do all[name] = parked(process.spawn(f)) end
    for _, p in pairs(all) do
      for _ = 1, 5 do                             -- some wait more than once until they are there
        soon(function()
          local i = p:info(60)
          return i.status == "waiting" and i.where
        end)
        soon(function() return p:traceback(60):find ": waiting" end)
      end
    end
    for name, p in pairs(all) do
      assert.equal("waiting", parked(p):status(), name)
      p:kill()
      p:wait()
    end
  end)

  it("may have a debug hook", function()
    for _, mask in ipairs { "c", "r", "l" } do
      local p = busy(function(up)
        debug.sethook(function() end, mask)
        local function f() return 1 end
        up:send(1)
        while true do f() end
      end)
      assert.matches("looked_spec", p:traceback(60))
      finish(p)
    end
  end)

  it("may have its looker killed", function()
    local p, q = busy(), waiter()
    for i = 1, 30 do
      local look = process.spawn(function(p, q)
        while true do
          p:traceback(60)
          q:info(60)
        end
      end, p, q)
      if i % 2 == 0 then mare.sleep(0.001) end
      if i % 3 == 0 then look:cancel() else look:kill() end
      look:wait()
    end
    assert.matches("waiting", q:traceback(60))
    finish(p)
  end)

  it("rests until it is woken", function()
    local over = channel.new(1)
    local p = process.spawn(function()
      local mare = require "mare"
      local fiber = mare.fiber
      local woken = 0
      local f = fiber.spawn(function()
        for _ = 1, 300 do
          fiber.rest()
          woken = woken + 1
        end
      end)
      while woken < 300 do
        local before = woken
        if f:wake() then
          local limit = mare.clock() + 60         -- who looks may have it in hand for a moment
          while woken == before and mare.clock() < limit do mare.sleep(0) end
          assert(woken == before + 1)
        else
          mare.sleep(0)
        end
      end
      return true
    end)
    local look = looker(over, p)
    assert.same({ true, true }, { p:wait(60) })
    over:send(1)
    look:wait()
  end)

  it("may look at others that look at it", function()
    local all, n = channel.new(10), 4
    local ps = {}
    for k = 1, n do
      ps[k] = process.spawn(function(inbox, i)
        local others = inbox:receive()
        for _ = 1, 50 do
          for _, p in ipairs(others) do p:traceback(60) end
        end
        return i
      end, all, k)
    end
    for _ = 1, n do all:send(ps) end
    for i = 1, n do assert.same({ true, i }, { ps[i]:wait(60 * proc.slow) }) end
  end)

  it("ends as it should while it is looked at", function()
    local over = channel.new(1)
    local ps = {}
    for k = 1, 40 do
      ps[k] = process.spawn(function(c, i)
        if i % 4 == 0 then error "x" end
        if i % 4 == 1 then while true do end end
        c:receive()
      end, gate, k)
    end
    local look = looker(over, table.unpack(ps))
    for i, p in ipairs(ps) do
      if i % 2 == 0 then p:cancel() else p:kill() end
      assert.is_false((p:wait(60)))
    end
    over:send(1)
    look:wait()
  end)
end)

it("without memory a look is an error, and nothing else", function()
  local p = waiter()
  local q = process.spawn { memory = 300000, main = function(p)
    local t, n = {}, 0
    local ok, err = pcall(function()
      while true do
        t[#t + 1] = p:traceback()
        t[#t + 1] = require "mare.process".list()
      end
    end)
    t = nil
    collectgarbage()
    return ok, tostring(err), type(p:traceback())
  end, args = { p } }
  local ok, fine, err, kind = q:wait()
  assert.same({ true, false, "string" }, { ok, fine, kind })
  assert.matches("not enough memory", err)
end)
