-- Interceptors whose own calls are cancelled, or over by a deadline: the call they stand in ends with that, the others are told, and all goes on.
local mare = require "mare"
local orb = require "mare.orb"
local proc = require "spec.support.proc"
local eventually = require "spec.support.serving".eventually
local channel, fiber, process = mare.channel, mare.fiber, mare.process

local IDL = "interface Thing { string say(in string who); string hold(in string who); };"
local LIMIT = 30 * proc.slow
local POINTS = { "send_request", "receive_reply", "receive_exception", "receive_other",
                 "receive_request_service_contexts", "receive_request", "send_reply", "send_exception", "send_other" }

-- An interceptor that writes down where it is told, in `seen`; `more`: by point, what it does besides.
local function telling(seen, name, more)
  local self = { name = name }
  for _, point in ipairs(POINTS) do
    self[point] = function(_, info)
      if info.operation ~= "say" then return end                     -- `hold` is what interceptors call
      seen[#seen + 1] = name .. " " .. point
      if more and more[point] then more[point](info) end
    end
  end
  return self
end

-- f(proxy, calls, client): calls[who] is "begun" while `hold` is called with that, which lasts until it is cancelled, and "over" afterwards.
local function with(of_client, of_server, f)
  local server, client, other = orb.init { host = "127.0.0.1", log = function() end }, orb.init { log = function() end }, orb.init()
  local calls = {}
  for _, broker in ipairs { server, client, other } do broker:load(IDL) end
  local reference = tostring(server:serve({
    say = function(_, who) return "hi " .. who end,
    hold = function(_, who)
      local guard <close> = setmetatable({}, { __close = function() calls[who] = "over" end })       -- luacheck: ignore guard
      calls[who] = "begun"
      channel.new():receive()
    end,
  }, "Thing"))
  local mine, theirs = client:proxy(reference), other:proxy(reference)
  for _, make in ipairs(of_client) do client:intercept(make(mine)) end
  for _, make in ipairs(of_server) do server:intercept(make(theirs)) end
  local fine, err = pcall(f, mine, calls, client)
  client:close()
  other:close()
  server:shutdown(LIMIT)
  if not fine then error(err, 0) end
end

-- Three interceptors, `seen`, and what makes the second one call `hold` in its `point` from now on: hold(who); hold(): no more.
local function three(point)
  local seen, who = {}, nil
  local function first() return telling(seen, "first") end
  local function middle(p) return telling(seen, "middle", { [point] = function() if who then p:hold(who) end end }) end
  local function last() return telling(seen, "last") end
  return { first, middle, last }, seen, function(whom)
    for i = #seen, 1, -1 do seen[i] = nil end
    who = whom
  end
end

local function goes_on(p)
  for i = 1, 5 do assert.equal("hi " .. i, p:say(tostring(i))) end
end

describe("an interceptor of a client", function()
  -- Each begins a call, with `hold` in the interceptor, and ends it: -> the error of the call, who held it
  local ways = {
    cancelled = function(p, hold, calls)
      hold "cancelled"
      local f = fiber.spawn(p.say, p, "x")
      eventually(function() return calls.cancelled == "begun" end, "the interceptor calls")
      assert.is_true(f:cancel "enough")
      return select(2, f:wait(LIMIT)), "cancelled"
    end,
    deadline = function(p, hold, calls)
      local seconds = 0.01
      while true do                              -- until it is enough for the interceptor's call to begin
        local who = tostring(seconds)
        hold(who)
        local _, e = fiber.spawn(process.deadline, seconds, p.say, p, "x"):wait(LIMIT)
        if calls[who] then return e, who end
        seconds = 2 * seconds
      end
    end,
  }

  local function ends(point, expected)
    for kind, way in pairs(ways) do
      local interceptors, seen, hold = three(point)
      with(interceptors, {}, function(p, calls, client)
        goes_on(p)
        for round = 1, 3 do
          if round == 3 then client:allocate_slot() end              -- from here on Lua tells of calls, before C did
          local e, who = way(p, hold, calls)
          assert.equal(kind, e.kind, tostring(e))
          assert.same(expected, seen)
          eventually(function() return calls[who] == "over" end, "the server hears of it")
          calls[who] = nil
          hold()
          goes_on(p)
        end
      end)
    end
  end

  it("whose call at the start is ended ends the program's, of which those before it are told", function()
    ends("send_request", { "first send_request", "middle send_request", "first receive_exception" })
  end)

  it("whose call at the end is ended makes that the outcome", function()
    ends("receive_reply", { "first send_request", "middle send_request", "last send_request", "last receive_reply", "middle receive_reply",
                            "first receive_exception" })
  end)

  it("whose call is ended leaves the fiber its own slots", function()
    local interceptors, _, hold = three "send_request"
    with(interceptors, {}, function(p, calls, client)
      local slot, current = client:allocate_slot(), client:pi_current()
      local after
      hold "it"
      local f = fiber.spawn(function()
        current:set_slot(slot, "mine")
        local guard <close> = setmetatable({}, { __close = function() after = current:get_slot(slot) end })      -- luacheck: ignore guard
        p:say "x"
      end)
      eventually(function() return calls.it end, "the interceptor calls")
      f:cancel()
      assert.is_false(f:wait(LIMIT))
      assert.equal("mine", after)
    end)
  end)
end)

describe("an interceptor of a server", function()
  local function ends(point, expected)
    local interceptors, seen, hold = three(point)
    with({}, interceptors, function(p, calls)
      goes_on(p)
      for round = 1, 3 do
        local who = tostring(round)
        hold(who)
        local f = fiber.spawn(p.say, p, "x")
        eventually(function() return calls[who] end, "the interceptor calls")
        hold()
        goes_on(p)
        hold()                                                       -- nothing has been seen
        assert.is_true(f:cancel())                                   -- the server is told: CancelRequest
        assert.is_false(f:wait(LIMIT))
        eventually(function() return calls[who] == "over" and #seen >= #expected end, "the server hears of it")
        assert.same(expected, seen)
        goes_on(p)
      end
    end)
  end

  it("whose call before the object is looked for is ended lets those before it be told", function()
    ends("receive_request_service_contexts", { "first send_exception" })
  end)

  it("whose call before the servant is ended lets all be told", function()
    ends("receive_request", { "last send_exception", "middle send_exception", "first send_exception" })
  end)

  it("whose call before the reply is ended makes that the outcome", function()
    ends("send_reply", { "first send_exception" })
  end)
end)
