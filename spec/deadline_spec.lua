-- luacheck: ignore 111 112 113 211 212 213 231 241 311 331 411 413 421 422 423 431 432 433 512
-- process.deadline: everything that a function waits for ends by then.
local mare = require "mare"
local process, channel, fiber = mare.process, mare.channel, mare.fiber
local errors = require "mare.error"

-- It raises kind "deadline", and not before its time.
local function over(seconds, f, ...)
  local begun = mare.clock()
  local ok, err = pcall(process.deadline, seconds, f, ...)
  assert.is_false(ok)
  assert.is_true(errors.is(err, "deadline"), tostring(err))
  assert.is_true(mare.clock() - begun >= seconds)
  return err
end

describe("process.deadline", function()
  it("ends whatever is waited for, with an error that says where", function()
    local c = channel.new()
    for _, f in ipairs {
      function() mare.sleep(3600) end,
      function() mare.sleep(math.huge) end,
      function() c:receive() end,
      function() c:send(1) end,
      function() c:send(("x"):rep(10000)) end,
      function() c:send {} end,
      function() mare.select { c, mare.timer.after(100) } end,
      function() mare.selector { c }:wait() end,
      function() process.spawn(mare.sleep, 0.3):wait() end,
      function() fiber.spawn(mare.sleep, 0.3):wait() end,
      function() assert(require "mare.net".listen "127.0.0.1:0"):accept() end,
      function() require "mare.subprocess".run { "sleep", "1" } end,
      function() table.sort({ 2, 1 }, function() mare.sleep(3600) end) end,
      function() coroutine.wrap(function() mare.sleep(3600) end)() end,
    } do
      over(0.01, f)
    end
    local err = over(0.001, function() mare.sleep(1) end)
    assert.matches("deadline_spec.lua:%d+", err.where)
    assert.is_nil((c:try_receive()))
  end)

  it("gives the function's results and its errors, and is over then", function()
    assert.same({ 1, nil, 3, n = 3 }, table.pack(process.deadline(100, function(...) mare.sleep(0.001) return ... end, 1, nil, 3)))
    assert.error_matches(function() process.deadline(100, error, "oops", 0) end, "^oops$")
    process.deadline(0.005, function() end)
    mare.sleep(0.01)
    pcall(process.deadline, 0.005, error)
    mare.sleep(0.01)
    assert.is_nil(process.remaining())
  end)

  it("nested, the earliest counts", function()
    over(0.005, function() process.deadline(100, mare.sleep, 100) end)
    process.deadline(100, function()
      over(0.005, mare.sleep, 100)
      mare.sleep(0.001)
      assert.is_true(process.remaining() > 50)
    end)
  end)

  it("is kept apart from a time limit of the operation, which returns", function()
    local c = channel.new()
    process.deadline(100, function()
      assert.same({ nil, "timeout" }, { c:receive(0.001) })
      assert.same({ nil, "timeout" }, { process.spawn(mare.sleep, 0.05):wait(0.001) })
    end)
    over(0.003, c.receive, c, 100)
  end)

  it("lets everything pass that need not wait", function()
    local c = channel.new(1)
    process.deadline(0, function()
      c:send(1)
      assert.equal(1, (c:receive()))
      assert.same({ nil, "timeout" }, { c:receive(0) })
    end)
    over(0, c.receive, c)
    assert.error_matches(function() process.deadline(0 / 0, print) end, "nan")
  end)

  it("says how much is left", function()
    process.deadline(100, function()
      local left = process.remaining()
      assert.is_true(left > 10 and left <= 100)
      process.deadline(1000, function() assert.is_true(process.remaining() <= left) end)
      process.deadline(5, function() assert.is_true(process.remaining() <= 5) end)
    end)
    process.deadline(math.huge, function() assert.is_nil(process.remaining()) end)
  end)

  it("goes with a coroutine across its yields, and does not limit others meanwhile", function()
    local co = coroutine.wrap(function()
      return pcall(process.deadline, 0.01, function()
        coroutine.yield "in it"
        mare.sleep(3600)
      end)
    end)
    assert.equal("in it", co())
    assert.is_nil(process.remaining())
    mare.sleep(0.02)
    local ok, err = co()
    assert.is_false(ok)
    assert.equal("deadline", err.kind)
    mare.sleep(0.001)
  end)

  it("of a coroutine that is closed, or forgotten, is over", function()
    local function inside() process.deadline(0.001, coroutine.yield) end
    local co = coroutine.create(inside)
    coroutine.resume(co)
    coroutine.close(co)
    for _ = 1, 20 do coroutine.resume(coroutine.create(inside)) end
    mare.sleep(0.002)
    collectgarbage()
    collectgarbage()
    mare.sleep(0.002)
  end)

  it("of a fiber does not limit its siblings, and outlives nobody", function()
    local left
    local f = fiber.spawn(function()
      left = coroutine.create(function() process.deadline(0.001, coroutine.yield) return "went on" end)
      coroutine.resume(left)
      process.deadline(100, mare.sleep, 0.005)
    end)
    fiber.yield()
    mare.sleep(0.003)
    assert.is_nil(process.remaining())
    assert.is_true((f:wait()))
    f = nil
    collectgarbage()
    collectgarbage()
    assert.same({ true, "went on" }, { coroutine.resume(left) })
    left = nil
    collectgarbage()
  end)

  it("does not reach what is masked, until the mask's grace is over", function()
    process.deadline(0.001, function() process.masked(100, mare.sleep, 0.005) end)
    local begun = mare.clock()
    local ok, err = pcall(process.deadline, 0.001, process.masked, 0.02, mare.sleep, 100)
    assert.is_false(ok)
    assert.equal("deadline", err.kind)
    assert.is_true(mare.clock() - begun >= 0.02)
    over(0.001, function() process.masked(100, process.deadline, 0.001, mare.sleep, 100) end)
  end)

  it("does not keep off a cancel", function()
    local p = process.spawn(function() require "mare".process.deadline(1000, require "mare".sleep, 1000) end)
    repeat mare.sleep(0.0005) until p:status() == "waiting"
    p:cancel "now"
    local ok, err = p:wait(60)
    assert.is_false(ok)
    assert.equal("cancelled", err.kind)
  end)

  it("ends a fiber's part in a shared connection of the object broker, and nobody else's", function()
    local orb = require "mare.orb"
    local idl = "interface I { long slow(in double seconds); };"
    local place = channel.new()
    local server = process.spawn(function(idl, place)
      local mare = require "mare"
      local broker = require "mare.orb".init { host = "127.0.0.1" }
      broker:load(idl)
      place:send(tostring(broker:serve({ slow = function(_, s) mare.sleep(s) return 7 end }, "I")))
      place:receive()
      broker:shutdown()
    end, idl, place)
    local broker = orb.init {}
    broker:load(idl)
    local object = broker:proxy(place:receive(), "I")
    assert.equal(7, object:slow(0))
    for _ = 1, 3 do
      local first = fiber.spawn(function() return pcall(process.deadline, 0.02, object.slow, object, 0.3) end)
      fiber.yield()
      local second = fiber.spawn(function() return object:slow(0.1) end)
      local ok, done, err = first:wait(60)
      assert.is_true(ok)
      assert.is_false(done)
      assert.equal("deadline", err.kind)
      assert.same({ true, 7 }, { second:wait(60) })
    end
    assert.equal(7, object:slow(0))
    place:close()
    server:wait(60)
  end)
end)

describe("mare.error", function()
  it("is the same class in every process, and keeps further fields", function()
    local e = errors.new { kind = "mine", message = "text", extra = { 1 } }
    local ok, err = process.spawn(function(e)
      local errors = require "mare.error"
      assert(errors.is(e, "mine") and errors.is(e) and not errors.is(e, "other") and not errors.is {} and not errors.is(nil))
      error(e)
    end, e):wait(60)
    assert.is_false(ok)
    assert.is_true(errors.is(err, "mine"))
    assert.same({ 1 }, err.extra)
    assert.matches("text", tostring(err))
  end)
end)
