-- What peers make a broker keep: budgets in bytes, who waits, who is closed, and that memory is given back.
local mare = require "mare"
local net = require "mare.net"
local orb = require "mare.orb"
local subprocess = require "mare.subprocess"
local budget = require "mare.orb.budget"
local core = require "mare.orb.giop.core"
local bytes = require "spec.support.giop_bytes"
local giop = require "spec.support.iiop"
local proc = require "spec.support.proc"
local serving = require "spec.support.serving"
local fiber = mare.fiber
local with_server, echo, eventually = serving.with, serving.echo, serving.eventually

local KB, MB = 1 << 10, 1 << 20

-- Writes in a fiber of its own as much as is taken.
local function pour(client, list)
  return fiber.spawn { main = function()
    for _, message in ipairs(list) do
      if not client:write(message) then return end
    end
  end, daemon = true }
end

local function requests(c, n, size)
  local list, message = {}, c:message("say", "echo", giop.string(("x"):rep(size)))
  for i = 1, n do list[i] = message end          -- of one id, which nobody minds
  return list
end

-- The beginning of a message in fragments: its last piece never comes.
local function unfinished(c, size)
  local whole = c:message("say", "echo", giop.string(("x"):rep(size)))
  local pieces = bytes.fragments(whole, 32 * KB, 32 * KB, 32 * KB, 32 * KB, 32 * KB, 32 * KB, 32 * KB, 32 * KB, 32 * KB)
  pieces[#pieces] = nil
  return pieces
end

-- Waits until it has not changed for a moment. What must come first, however late, is waited for before.
local function settled(f)
  local last, since = f(), mare.clock()
  while mare.clock() - since < 0.3 * proc.slow do
    mare.sleep(0.02)
    local now = f()
    if now ~= last then last, since = now, mare.clock() end
  end
  return last
end

describe("a budget", function()
  it("has room for pieces, for more and for a first message, in this order", function()
    local b = budget.new(800, 300)
    local p, q, r, s = b:purse(), b:purse(), b:purse(), b:purse()
    assert.is_true(p:want(300, true))
    assert.is_true(q:want(200))
    assert.is_false(p:crowded())
    local waiting = fiber.spawn(function() return p:want(200, true) end)         -- 500 of pieces: it becomes the guest
    assert.is_true(select(2, waiting:wait(20)))
    assert.same({ p, 500, 700 }, { b.guest, b.unfinished, b.held })
    assert.same({ false, "timeout" }, { q:want(50, false, 0.01) or false, select(2, q:want(50, false, 0.01)) })
    assert.is_true(r:want(100))                                                   -- a first one has the last quarter
    local last = fiber.spawn(function() return s:want(300) end)                   -- beside the guest 600 are taken
    eventually(function() return b.nwaiting == 1 end, "one waits")
    p:close()
    assert.is_true(select(2, last:wait(20)))
    assert.same({ false, 0, 600, 0 }, { b.guest, b.unfinished, b.held, b.nwaiting })
    for _, one in ipairs { q, r, s } do one:close() end
    assert.equal(0, b.held)
  end)

  it("forgets who waits and is cancelled, and wakes who waits for a connection that is closed", function()
    local b = budget.new(100, 100)
    local p, q, r = b:purse(), b:purse(), b:purse()
    p:charge(200)
    b.guest, p.level = p, 100
    local a = fiber.spawn(function() return q:want(50) end)
    local c = fiber.spawn(function() return r:want(60) end)
    eventually(function() return b.nwaiting == 2 end, "both wait")
    a:cancel()
    r:close()
    local ok, granted, _, code = c:wait(20)
    assert.same({ true, "EBADF" }, { ok, granted == nil and code })
    eventually(function() return b.nwaiting == 0 end, "nobody waits")
    p:close()
    assert.equal(0, b.held)
  end)
end)

describe("a client that doesn't read", function()
  it("is not read from beyond its share, and gets every reply once it reads", function()
    with_server(echo, { limits = { share = 1 * MB } }, function(broker, port)
      local c <close> = giop.connect(port)
      local n, b = 200, broker.server.pool.budget
      local writer = pour(c, requests(c, n, 100 * KB))
      eventually(function() return b.held > 200 * KB end, "much is held")
      local held = settled(function() return b.held end)
      assert.is_true(held <= 1 * MB + 300 * KB, held)
      local seen = 0
      for _ = 1, n do seen = seen + #giop.text(assert(c:receive()).body) end
      assert.equal(n * (100 * KB + #"hello, "), seen)
      writer:wait()
      eventually(function() return b.held == 0 end, "nothing is held")
    end)
  end)

  it("makes a server hold no more for its small requests with long replies", function()
    local long = ("y"):rep(200 * KB)
    with_server({ say = function() return long end }, { limits = { share = 1 * MB } }, function(broker, port)
      local c <close> = giop.connect(port)
      local b = broker.server.pool.budget
      pour(c, requests(c, 300, 10))
      local held = settled(function() return b.held end)
      assert.is_true(held <= 1 * MB + 300 * KB, held)
      for _ = 1, 300 do assert.equal(#long, #giop.text(assert(c:receive()).body)) end
      eventually(function() return b.held == 0 end, "nothing is held")
    end)
  end)

  it("leaves room for the others, of whom small calls don't wait and long ones not for ever", function()
    with_server(echo, { limits = { memory = 2 * MB, share = 1 * MB, stall = 1 } }, function(broker, port, log)
      local bad, b = {}, broker.server.pool.budget
      for i = 1, 8 do
        bad[i] = giop.connect(port)
        pour(bad[i], requests(bad[i], 120, 100 * KB))
      end
      settled(function() return b.held end)
      assert.is_true(b.held <= 2 * MB + 1 * MB + 400 * KB, b.held)       -- the budget, a guest's share, and a reply beside its request
      local good <close> = giop.connect(port)
      for _ = 1, 20 do assert.equal("hello, me", giop.text(good:call("say", "echo", giop.string "me").body)) end
      assert.equal(300 * KB + 7, #giop.text(good:call("say", "echo", giop.string(("z"):rep(300 * KB))).body))
      eventually(function() return table.concat(log, "\n"):find("a client is closed: others wait", 1, true) end, "one of them is closed")
      for i = 1, 8 do bad[i]:close() end
      eventually(function() return broker.server.pool.count == 1 and b.held == 0 and b.nwaiting == 0 end, "nothing is held")
    end)
  end)

  it("leaves room for small calls beside long messages that were begun and don't come: they wait for none of these to be given up", function()
    for _, size in ipairs { 900 * KB, 1536 * KB, 4 * MB } do
      with_server(echo, { limits = { memory = 2 * MB, share = 1 * MB, message = 8 * MB, stall = 100 } }, function(broker, port)
        local bad, b = {}, broker.server.pool.budget
        for i = 1, 8 do
          bad[i] = giop.connect(port)
          bad[i]:write(bad[i]:message("say", "echo", giop.string(("x"):rep(size))):sub(1, 100 * KB))
        end
        eventually(function() return b.nwaiting > 0 end, "some wait")
        settled(function() return b.held end)
        assert.is_true(b.nwaiting > 0 and b.held <= 2 * MB + size + 10 * KB, b.held)
        local good <close> = giop.connect(port)
        for _ = 1, 20 do assert.equal("hello, me", giop.text(good:call("say", "echo", giop.string "me").body)) end
        for i = 1, 8 do bad[i]:close() end
        eventually(function() return broker.server.pool.count == 1 and b.held == 0 and b.nwaiting == 0 end, "nothing is held")
      end)
    end
  end)

  it("costs little while it lasts, and nothing when it is gone, also while calls go on", function()
    local server = subprocess.spawn { proc.bin, "run", "-w", "1", "spec/support/memory_server.lua", stdin = "pipe" }
    local port = assert(tonumber((server.stdout:read("l", 30 * proc.slow))))
    local function rss(field)
      local file <close> = assert(io.open(("/proc/%d/status"):format(server.pid)))
      return tonumber(file:read("a"):match(field .. ":%s+(%d+) kB")) / 1024
    end
    local good <close> = giop.connect(port)
    local function call() assert.equal(60 * KB + 7, #giop.text(good:call("say", "echo", giop.string(("z"):rep(60 * KB))).body)) end
    for _ = 1, 20 do call() end
    local before, bad = rss "VmRSS", {}
    for i = 1, 12 do
      bad[i] = giop.connect(port)
      pour(bad[i], requests(bad[i], 30, 1 * MB))
    end
    mare.sleep(1)
    call()
    local peak = rss "VmHWM"
    for i = 1, 12 do bad[i]:close() end
    local good_enough = proc.config == "plain" and before + 12 or math.huge       -- sanitizers keep what was freed
    eventually(function()
      call()
      return rss "VmRSS" <= good_enough
    end, "memory is given back")
    for _ = 1, 500 do call() end
    if proc.config == "plain" then
      assert.is_true(peak <= before + 90, ("%.0f MiB before, %.0f at most"):format(before, peak))
      eventually(function()                                    -- the keeper looks once a second
        call()
        return rss "VmRSS" <= before + 16
      end, ("it is near the %.0f MiB of before again"):format(before))
    end
    server:kill "KILL"
    server:wait()
  end)
end)

describe("a long message", function()
  it("goes through though it is larger than a connection's share, whole and in fragments", function()
    with_server(echo, { limits = { memory = 4 * MB, share = 256 * KB, message = 8 * MB } }, function(broker, port)
      local c <close> = giop.connect(port)
      assert.equal(3 * MB + 7, #giop.text(c:call("say", "echo", giop.string(("x"):rep(3 * MB))).body))
      local whole = c:message("say", "echo", giop.string(("x"):rep(1 * MB)))
      local sizes = {}
      for i = 1, 30 do sizes[i] = 32 * KB end
      for _, piece in ipairs(bytes.fragments(whole, 32 * KB, table.unpack(sizes))) do c:write(piece) end
      assert.equal(1 * MB + 7, #giop.text(c:receive().body))
      eventually(function() return broker.server.pool.budget.held == 0 end, "nothing is held")
    end)
  end)

  it("as long as is allowed goes through while others hold all there is", function()
    with_server(echo, { limits = { memory = 1 * MB, share = 1 * MB, message = 8 * MB, pending = 8 * MB, stall = 1 } }, function(broker, port)
      local b, others = broker.server.pool.budget, {}
      for i = 1, 3 do
        others[i] = giop.connect(port)
        pour(others[i], unfinished(others[i], 400 * KB))
      end
      eventually(function() return b.unfinished > 300 * KB end, "much of them has come")
      settled(function() return b.held end)
      assert.is_true(b.unfinished > 300 * KB and b.unfinished <= 512 * KB + 3 * 64 * KB + 400 * KB, b.unfinished)
      local c <close> = giop.connect(port)
      assert.equal(7 * MB + 7, #giop.text(c:call("say", "echo", giop.string(("x"):rep(7 * MB))).body))
      for i = 1, 3 do others[i]:close() end
      eventually(function() return b.held == 0 and b.unfinished == 0 end, "nothing is held")
    end)
  end)

  it("that others can't finish does not keep them from finishing theirs: two of half the budget each", function()
    with_server(echo, { limits = { memory = 1 * MB, share = 1 * MB, message = 8 * MB, stall = 100 } }, function(_, port)
      local a <close> = giop.connect(port)
      local b <close> = giop.connect(port)
      local lists = {}
      for _, c in ipairs { a, b } do
        local sizes = {}
        for i = 1, 27 do sizes[i] = 32 * KB end
        lists[c] = bytes.fragments((c:message("say", "echo", giop.string(("x"):rep(900 * KB)))), 32 * KB, table.unpack(sizes))
      end
      local writers = { pour(a, lists[a]), pour(b, lists[b]) }
      for _, c in ipairs { a, b } do assert.equal(900 * KB + 7, #giop.text(assert(c:receive()).body)) end
      for _, w in ipairs(writers) do w:wait() end
    end)
  end)

  it("must arrive in time once it has begun, whole or in fragments", function()
    with_server(echo, { limits = { arrive = 0.3 } }, function(broker, port)
      local whole <close> = giop.connect(port)
      local pieces <close> = giop.connect(port)
      local idle <close> = giop.connect(port)
      whole:write(whole:message("say", "echo", giop.string(("x"):rep(70 * KB))):sub(1, 66 * KB))
      pieces:write(unfinished(pieces, 400 * KB)[1])
      for _, c in ipairs { whole, pieces } do
        assert.equal("MessageError", c:receive(30 * proc.slow).type)
        assert.is_nil((c:receive()))
      end
      assert.equal("hello, you", giop.text(idle:call("say", "echo", giop.string "you").body))
      eventually(function() return broker.server.pool.budget.held == 0 and broker.server.pool.count == 1 end, "nothing is held")
    end)
  end)
end)

describe("a client's budget", function()
  -- A server that sends half of each reply, and the rest when it is told.
  local function slow_server(gate, size)
    local listener = assert(net.listen("127.0.0.1:0"))
    local _, port = listener:address()
    fiber.spawn { daemon = true, main = function()
      while true do
        local socket = listener:accept()
        if not socket then return end
        fiber.spawn { daemon = true, main = function()
          while true do
            local message = core.receive(socket, 1 << 24)
            if not message then return end
            local _, bits, _, id = core.parse(message)
            local reply = core.reply(bits >> 1, bits & 1, id, 0, nil, giop.string(("r"):rep(size)))
            socket:write(reply:sub(1, #reply // 2))
            if gate then gate:receive() end
            socket:write(reply:sub(#reply // 2 + 1))
          end
        end }
      end
    end }
    return port, listener
  end

  it("makes long replies wait for each other, and all of them arrive", function()
    local gate = mare.channel.new(10)
    local client <close> = orb.init { limits = { memory = 1 * MB } }
    client:load(serving.IDL)
    local running, listeners = {}, {}
    for i = 1, 4 do
      local port, listener = slow_server(gate, 600 * KB)
      listeners[i] = listener
      local p = client:proxy(("corbaloc::1.2@127.0.0.1:%d/k"):format(port), "Spec::Echo")
      running[i] = p._async:say "x"
    end
    eventually(function() return client.transport.budget.nwaiting >= 2 end, "some wait")
    assert.is_true(client.transport.budget.held <= 1300 * KB)
    gate:close()
    for i = 1, 4 do
      local ok, text = running[i]:wait(60 * proc.slow)
      assert.is_true(ok, text)
      assert.equal(600 * KB, #text)
    end
    assert.same({ 0, 0 }, { client.transport.budget.held, client.transport.budget.nwaiting })
    for _, listener in ipairs(listeners) do listener:close() end
  end)

  it("forgets a call that is given up while it waits for room", function()
    local gate = mare.channel.new(10)
    local client <close> = orb.init { limits = { memory = 1 * MB } }
    client:load(serving.IDL)
    local first, l1 = slow_server(gate, 900 * KB)
    local second, l2 = slow_server(nil, 900 * KB)
    local third, l3 = slow_server(nil, 900 * KB)
    local function at(port) return client:proxy(("corbaloc::1.2@127.0.0.1:%d/k"):format(port), "Spec::Echo") end
    local running = { at(first)._async:say "x" }
    eventually(function() return client.transport.budget.held > 0 end, "the first is read")
    local ok, text = at(second)._async:say("x"):wait(60 * proc.slow)       -- the guest
    assert.is_true(ok, text)
    local late = at(third)
    local brief = at(first):_with { timeout = 0.2 }
    assert.equal("IDL:omg.org/CORBA/TIMEOUT:1.0", select(2, pcall(brief.say, brief, "x"))._repid)
    assert.equal(900 * KB, #late:say "x")
    gate:close()
    ok, text = running[1]:wait(60 * proc.slow)
    assert.is_true(ok, text)
    eventually(function() return client.transport.budget.held == 0 end, "nothing is held")
    for _, l in ipairs { l1, l2, l3 } do l:close() end
  end)
end)
