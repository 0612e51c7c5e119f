-- The thousandth call of mare.ludo costs what the tenth did, at both ends: nothing is kept of a call that is over. A record is written the same
-- whichever way Lua's tables are read.
local mare = require "mare"
local ludo = require "mare.ludo"
local proc = require "spec.support.proc"

local LIMIT = 30 * proc.slow
local CALLS, COUNTED = 5000, 640                -- some turns of the server's, which gives way to other fibers each 64th request

-- Counts the instructions of Lua's machine in the calling fiber: ends and gives their number when called.
local function counter()
  local n = 0
  debug.sethook(function() n = n + 1 end, "", 1)
  return function()
    debug.sethook()
    return n
  end
end

local function weigh()
  collectgarbage()
  collectgarbage()
  return collectgarbage "count" * 1024
end

local function size(t)
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  return n
end

-- In the server's process.
local function serve(reference, over, new_counter, weight, count)
  local server = require "mare.ludo".init {}
  local stop
  reference:send(server:serve {
    nothing = function() end,
    take = function(_, list) return #list end,
    begin = function() stop = new_counter() end,
    finish = function() return stop() end,
    state = function()
      local pool = server.pool
      return { memory = weight(), fibers = count(pool.jobs), resting = #pool.resting, peers = pool.count }
    end,
    held = function() return server.pool.budget.held end,
  })
  over:receive()
  server:shutdown(0)
end

describe("calls", function()
  local records = {}
  for i = 1, 20 do records[i] = { id = i, name = "record", at = i / 2, far = true } end

  local function measured(call)
    local reference, over = mare.channel.new(1), mare.channel.new()
    local process = mare.process.spawn(serve, reference, over, counter, weigh, size)
    local client <close> = ludo.init { timeout = LIMIT }
    local it = client:proxy(reference:receive(LIMIT))
    local function once()
      for _ = 1, COUNTED do call(it) end
      it:begin()
      for _ = 1, COUNTED do call(it) end
      local served = it:finish()
      local stop = counter()
      for _ = 1, COUNTED do call(it) end
      return stop(), served
    end
    local function look()                          -- the least of three: a machine that stands still lets calls go the longer way
      local called, served = math.huge, math.huge
      for _ = 1, 3 do
        local a, b = once()
        called, served = math.min(called, a), math.min(served, b)
      end
      local state = it:state()
      state.called, state.served, state.held = called, served, it:held()
      local _, link = next(client.links)
      state.waiting, state.links, state.own = size(link.waiting) + link.count, size(client.links), weigh()
      return state
    end
    look()
    local first = look()
    for _ = 1, CALLS do call(it) end
    local last = look()
    over:send(true)
    assert.is_true(process:wait(LIMIT))
    return first, last
  end

  local function steady(first, last)
    for _, name in ipairs { "fibers", "resting", "peers", "held", "links" } do assert.equal(first[name], last[name], name) end
    assert.equal(0, last.waiting)
    for _, name in ipairs { "called", "served" } do
      assert.is_true(last[name] > COUNTED and last[name] < 1.1 * first[name], ("%s: %d instructions, then %d"):format(name, first[name], last[name]))
    end
    for _, name in ipairs { "memory", "own" } do                -- the least that a call can leave is 16 bytes
      assert.is_true(last[name] < first[name] + 10 * CALLS, ("%s: %.0f bytes, then %.0f"):format(name, first[name], last[name]))
    end
  end

  it("without arguments cost the same after thousands, and leave nothing", function()
    steady(measured(function(it) it:nothing() end))
  end)

  it("with records do, too", function()
    steady(measured(function(it) assert(it:take(records) == 20) end))
  end)
end)

describe("a record", function()
  local SCRIPT = [[
    local core = require "mare.ludo.core"
    local world = { {}, {}, {}, print, 1 << 24 }
    local function same(a, b)
      if type(a) ~= "table" or type(b) ~= "table" then return a == b and math.type(a) == math.type(b) end
      for k, v in pairs(a) do if not same(v, b[k]) then return false end end
      for k in pairs(b) do if a[k] == nil then return false end end
      return true
    end
    local function filled(n)
      local t = {}
      for i = 1, n do t[("k%02d"):format(i)] = i % 3 == 0 and i or i % 3 == 1 and "text" or i / 4 end
      return t
    end
    local emptied = filled(8)
    for k in pairs(filled(8)) do if k ~= "k03" then emptied[k] = nil end end
    local hollow = { 1, x = 2 }
    hollow[1] = nil
    local one = { a = 1, b = "b" }
    local many = {}
    for i = 1, 100 do many[i] = { ["only" .. i] = i } end                   -- more shapes than a message has
    local long = {}
    for i = 1, 200 do long[i] = { text = ("%d"):format(i):rep(300), more = "m" .. i } end
    local all = { {}, one, filled(32), filled(33), filled(100), emptied, hollow, { one, one, { x = one } }, many, long,
                  { a = false, b = true, c = math.mininteger, d = math.huge, e = ("x"):rep(1024), f = ("y"):rep(1025), g = "", h = "\0" },
                  { [("k"):rep(100)] = 1 }, { a = { b = { c = 1 } }, d = {} }, { [1] = 1, a = 1 }, { [1.5] = 1 }, { [true] = 1, b = 2 } }
    for i, value in ipairs(all) do
      local message = core.message(core.CALL, i, world, value, { b = 1, a = 2 })
      local back, other = core.values(message, world)
      assert(same(value, back) and same({ b = 1, a = 2 }, other), i)
      print(i, #message)
    end]]

  it("comes as it went, and is as long, whether Lua's own nodes are read or not", function()
    local outputs = {}
    for _, layout in ipairs { "0", "1" } do
      local r = proc.mare(SCRIPT, {}, { env = { MARE_LAYOUT = layout } })
      assert.equal(0, r.code, r.err)
      outputs[#outputs + 1] = r.out
    end
    assert.equal(outputs[1], outputs[2])
    assert.matches("\n16\t%d+\n$", outputs[2])
  end)
end)
