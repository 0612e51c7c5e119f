-- luacheck: ignore 111 112 113 211 212 213 231 241 311 331 411 413 421 422 423 431 432 433 512
-- Links, traps and owners: whose end ends whom.
local mare = require "mare"
local process, channel = mare.process, mare.channel
local errors = require "mare.error"

local function ended(p)
  local r = table.pack(p:wait(60))
  assert.is_not_nil(r[1], "it does not end")
  return table.unpack(r, 1, r.n)
end

local function sleeper() require "mare".sleep(3600) end

-- A process that links or owns a child in the given way, sends its handle, and then does what `rest` does.
local function parent(options, child, rest)
  local c = channel.new(1)
  local p = process.spawn(function(options, child, rest, c)
    options.main = child
    return rest(require "mare".process.masked(function()       -- the child may fail at once
      local h = require "mare".process.spawn(options)
      c:send(h)
      return h
    end))
  end, options, child, rest, c)
  return p, (c:receive())
end

describe("a link", function()
  it("ends the other with an error of kind linked, whose reason is what failed first, in both directions", function()
    local p, child = parent({ linked = true }, sleeper, function() error({ code = 5 }) end)
    ended(p)
    local ok, err = ended(child)
    assert.is_false(ok)
    assert.is_true(errors.is(err, "linked"))
    assert.same({ code = 5 }, err.reason)
    assert.matches("linked process #%d+ failed", err.message)
    p, child = parent({ linked = true }, function() error "oops" end, sleeper)
    ok, err = ended(p)
    assert.is_false(ok)
    assert.equal("linked", err.kind)
    assert.matches("oops$", err.reason)
  end)

  it("tells along a row of linked ones what the first was", function()
    local function row(n, row)
      local process = require "mare".process
      if n == 0 then error "first" end
      process.spawn { main = row, args = { n - 1, row }, linked = true }
      require "mare".sleep(3600)
    end
    local ok, err = ended(process.spawn(row, 5, row))
    assert.is_false(ok)
    assert.equal("linked", err.kind)
    assert.matches("first$", err.reason)
  end)

  it("dissolves at a normal end, and by unlink", function()
    local p, child = parent({ linked = true }, sleeper, function() return "fine" end)
    assert.same({ true, "fine" }, { ended(p) })
    assert.is_nil((child:wait(0.02)))
    child:kill()
    p, child = parent({ linked = true }, sleeper, function(h)
      assert(h:unlink() == true and h:unlink() == false)
      error "oops"
    end)
    ended(p)
    assert.is_nil((child:wait(0.02)))
    child:kill()
  end)

  it("is made once, however often, and acts at once on who has failed already", function()
    local p = process.spawn(function()
      local process = require "mare".process
      local h = process.spawn(function() error("gone", 0) end)
      h:wait()
      h:link()
      return "never"
    end)
    local ok, err = ended(p)
    assert.is_false(ok)
    assert.equal("gone", err.reason)
    p = process.spawn(function()
      local mare = require "mare"
      local h = mare.process.spawn(mare.sleep, 3600)
      h:link():link():link()
      local once, again = h:unlink(), h:unlink()
      h:kill()
      mare.sleep(0.005)
      return once, again
    end)
    assert.same({ true, true, false }, { ended(p) })
    assert.is_true((ended(process.spawn(function()
      local h = require "mare".process.spawn(function() end)
      h:wait()
      h:link()
    end))))
  end)

  it("carries that one was cancelled or killed", function()
    for verb, kind in pairs { cancel = "cancelled", kill = "killed" } do
      local p, child = parent({ linked = true }, sleeper, sleeper)
      child[verb](child, "why")
      local ok, err = ended(p)
      assert.is_false(ok)
      assert.equal("linked", err.kind)
      assert.equal(kind, err.reason.kind)
    end
  end)

  it("from birth leaves no gap", function()
    for _ = 1, 100 do
      local p = process.spawn(function()
        local mare = require "mare"
        mare.process.spawn { main = function() require "mare".process.self():kill() end, linked = true }
        mare.sleep(3600)
      end)
      local ok, err = ended(p)
      assert.is_false(ok)
      assert.equal("linked", err.kind)
    end
  end)

  it("between two that fail at the same time hurts neither twice", function()
    for i = 1, 200 do
      local gate = channel.new()
      local p, child = parent({ linked = true, args = { gate } }, function(gate) gate:receive() error "one" end, function(h)
        while h:status() ~= "waiting" do require "mare".process.yield() end
        require "mare".channel.named("gate"):receive():close()
        error "two"
      end)
      channel.named "gate":send(gate)
      local ok, err = ended(p)
      assert.is_false(ok)
      assert.is_true(err.kind == "linked" or err:find "two" ~= nil)
      ok, err = ended(child)
      assert.is_false(ok)
      assert.is_true(err.kind == "linked" or err:find "one" ~= nil)
    end
  end)

  it("to oneself is an error; one of the main script of plain Lua needs a trap", function()
    assert.error_matches(function() process.self():link() end, "itself")
  end)
end)

describe("process.trap", function()
  it("turns ends of linked processes into handles on a channel, each once, failed or not", function()
    local p = process.spawn(function()
      local mare = require "mare"
      local process = mare.process
      local trap = process.trap()
      assert(rawequal(trap, process.trap()) or trap == process.trap())
      local names, n = {}, 50
      for i = 1, n do
        names[process.spawn { main = function(i) if i % 2 == 0 then error(i) end return i end, args = { i }, linked = true }] = i
      end
      local seen = 0
      while seen < n do
        local h = trap:receive(20)
        local ok, value = h:wait(0)
        local i = assert(names[h], "twice or unknown")
        names[h] = nil
        assert(ok == (i % 2 == 1) and value == i)
        seen = seen + 1
      end
      return next(names), trap:receive(0.01)
    end)
    local ok, err = ended(p)
    assert.is_true(ok, tostring(err))
  end)

  it("does not keep off a cancel, nor the end of an owner", function()
    local p, child = parent({ owned = true }, function() require "mare".process.trap():receive() end, function() return 1 end)
    ended(p)
    local ok, err = ended(child)
    assert.is_false(ok)
    assert.equal("cancelled", err.kind)
    assert.matches("owner", err.message)
    local q = process.spawn(function() require "mare".process.trap():receive() end)
    q:cancel()
    assert.is_false((ended(q)))
  end)

  it("gives what has ended before it was linked", function()
    assert.is_true((ended(process.spawn(function()
      local process = require "mare".process
      local h = process.spawn(function() end)
      h:wait()
      local trap = process.trap()
      h:link()
      assert(trap:receive(20) == h)
    end))))
  end)

  it("works in the main script", function()
    local trap = process.trap()
    local h = process.spawn { main = function() error "oops" end, linked = true }
    assert.is_true(trap:receive(20) == h)
    assert.is_false((h:wait(0)))
  end)
end)

describe("an owned process", function()
  it("is cancelled when its owner ends in whatever way", function()
    for _, how in ipairs { function() end, function() error {} end, function() require "mare".process.self():cancel() end,
                           function() require "mare".process.self():kill() end } do
      local p, child = parent({ owned = true }, sleeper, how)
      ended(p)
      local ok, err = ended(child)
      assert.is_false(ok)
      assert.equal("cancelled", err.kind)
      assert.matches("owner", tostring(err))
    end
  end)

  it("belongs to whom it was given, and only its owner gives", function()
    local c = channel.new(1)
    local other = process.spawn(function(c) return c:receive(), c:receive() end, c)
    local p, child = parent({ owned = true }, sleeper, function(h)
      assert(h:owner() == require "mare".process.self())
      require "mare".channel.named "it was tried":receive()
      return "end"
    end)
    assert.error_matches(function() child:give(other) end, "only its owner")
    channel.named "it was tried":send(true)
    ended(p)
    ended(child)
    local q
    q, child = parent({ owned = true }, sleeper, function(h)
      local other = require "mare".channel.named "to give":receive()
      h:give(other)
      return "end"
    end)
    channel.named "to give":send(other)
    assert.same({ true, "end" }, { ended(q) })
    assert.is_true(child:owner() == other)
    assert.is_nil((child:wait(0.01)))
    c:send(1)
    c:send(2)
    ended(other)
    assert.is_false((ended(child)))
    assert.same(table.pack(nil, "ended"), table.pack(child:owner()))
    assert.same(table.pack(nil), table.pack(p:owner()))
  end)

  it("that has ended may be given: who gives can't know", function()
    assert.is_true((ended(process.spawn(function()
      local process = require "mare".process
      local h = process.spawn { main = function() end, owned = true }
      h:wait()
      h:give(process.spawn(function() end))
    end))))
  end)

  it("that was cancelled before and does not listen is killed some seconds after its owner has ended, too", function()
    local p, child = parent({ owned = true }, function()
      require "mare".channel.named "it is deaf":send(true)
      while true do pcall(function() while true do end end) end
    end, function(h)
      require "mare".channel.named "it is deaf":receive()
      h:cancel("before")
      return "end"
    end)
    ended(p)
    assert.same({ nil, "ended" }, { child:owner() })
    local ok, err = child:wait(120)
    assert.is_false(ok)
    assert.equal("killed", err.kind)
  end)

  it("goes with a tree", function()
    local c = channel.new(math.huge)
    local function tree(n, tree, c)
      local mare = require "mare"
      c:send(mare.process.self())
      for _ = 1, n > 0 and 3 or 0 do mare.process.spawn { main = tree, args = { n - 1, tree, c }, owned = true } end
      mare.sleep(3600)
    end
    local top = process.spawn(tree, 3, tree, c)
    local all = {}
    for i = 1, 40 do all[i] = c:receive(60) end
    top:kill()
    for _, h in ipairs(all) do assert.is_false((ended(h))) end
  end)
end)
