-- Many fibers on one connection, with replies in any order, time limits and cancellations: everyone gets his own reply or his own error.
-- The server is a script: spec/support/peer.lua. Deterministic but for the scheduler: seeded.
-- luacheck: ignore 211/broker   (they are kept to be closed)
local mare = require "mare"
local orb = require "mare.orb"
local calling = require "spec.support.calling"
local peer = require "spec.support.peer"
local proc = require "spec.support.proc"
local fiber = mare.fiber

local FIBERS, CALLS = 60, proc.slow > 1 and 15 or 50

local function client(ref) return calling.proxy("interface Echo { string say(in string who); };", "Echo", ref) end

-- Keeps up to `most` requests and answers them in random order; what begins with "never" gets no answer.
local function shuffling(random, most)
  return function(c)
    local held = {}
    local function answer() local q = table.remove(held, random(#held)) c:reply(q, q.body) end
    while true do
      local q, err = c:request(#held > 0 and 0.001 or nil)
      if q then
        if not peer.text(q.body):find("^never") then held[#held + 1] = q end
        if #held >= most then answer() end
      elseif err == "timeout" then
        while #held > 0 do answer() end
      else
        return
      end
    end
  end
end

local function random_of(seed)
  local state = seed
  return function(n)
    state = (state * 6364136223846793005 + 1442695040888963407)
    return ((state >> 33) % n) + 1
  end
end

describe("many fibers on one connection", function()
  it("get their own replies, in whatever order these come", function()
    local server <close> = peer.serve(shuffling(random_of(1), 20))
    local broker <close>, hello = client(server.ref)
    local list = {}
    for i = 1, FIBERS do
      list[i] = fiber.spawn(function()
        for j = 1, CALLS do
          local text = i .. ":" .. j
          local got = hello:say(text)
          if got ~= text then error(("%s got %s"):format(text, got), 0) end
        end
        return i
      end)
    end
    for i = 1, FIBERS do assert.same({ true, i }, { list[i]:wait(peer.LIMIT) }) end
    assert.equal(1, server.accepted)
    local link = calling.link(broker, server)
    assert.same({ 0, false, nil }, { link.count, link.leader, next(link.waiting) })
  end)

  it("also when some give up and some are cancelled", function()
    local random = random_of(2)
    local server <close> = peer.serve(shuffling(random_of(3), 10))
    local broker <close>, hello = client(server.ref)
    local hasty = hello:_with { timeout = 0.005 }
    local list, kinds = {}, {}
    for i = 1, FIBERS do
      kinds[i] = random(4)
      list[i] = fiber.spawn(function()
        for j = 1, CALLS // 5 do
          local text = i .. ":" .. j
          if kinds[i] == 1 then                               -- waits in vain, and says so
            local ok, e = pcall(hasty.say, hasty, "never " .. text)
            if ok or orb.exception.is_system(e) ~= "TIMEOUT" then error("no TIMEOUT but " .. tostring(e), 0) end
          elseif kinds[i] == 2 then                           -- is cancelled below
            hello:say("never " .. text)
          else
            local got = hello:say(text)
            if got ~= text then error(("%s got %s"):format(text, got), 0) end
          end
        end
        return i
      end)
      if i % 7 == 0 then fiber.yield() end
    end
    mare.sleep(0.01)
    for i = 1, FIBERS do
      if kinds[i] == 2 then list[i]:cancel() end
    end
    for i = 1, FIBERS do
      local ok, value = list[i]:wait(peer.LIMIT)
      if kinds[i] == 2 then
        assert.is_false(ok)
        assert.matches("cancelled", tostring(value))
      else
        assert.same({ true, i }, { ok, value })
      end
    end
    assert.equal("after", hello:say("after"))
    assert.equal(1, server.accepted)
    local link = calling.link(broker, server)
    assert.same({ 0, false, nil }, { link.count, link.leader, next(link.waiting) })
  end)

  it("lose nothing when the server closes properly again and again", function()
    local server <close> = peer.serve(function(c)
      for _ = 1, 25 do
        local q = c:request()
        if not q then return end
        c:reply(q, q.body)
      end
      c:bye()
      c:close()
    end)
    local broker <close>, hello = client(server.ref)
    local list, calls = {}, 0
    for i = 1, 10 do
      list[i] = fiber.spawn(function()
        for j = 1, CALLS do
          local text = i .. ":" .. j
          -- A call that met two closing connections has said that it was not processed.
          local ok, got
          repeat ok, got = pcall(hello.say, hello, text) until ok or orb.exception.is_system(got) ~= "TRANSIENT"
          if got ~= text then error(("%s got %s"):format(text, tostring(got)), 0) end
          calls = calls + 1
        end
        return true
      end)
    end
    for i = 1, 10 do assert.same({ true, true }, { list[i]:wait(peer.LIMIT) }) end
    assert.equal(10 * CALLS, calls)
    assert.is_true(server.accepted >= 10 * CALLS // 25)
  end)
end)
