-- luaproc on mare: results, error returns, and the programs of the two works in small.
-- Processes are made from code strings, as programs of that time do, and from functions.
local luaproc = require "luaproc"
local process = require "mare.process"

local fresh, results = require "spec.support.channels" "spec", table.pack

-- Deletes a channel once we wait.
local function delete_under_us(name)
  local us = process.self()
  process.spawn(function()
    while us:status() ~= "waiting" do process.yield() end
    luaproc.delchannel(name)
  end)
end

local function collect(name, count)
  local got = {}
  for i = 1, count do got[i] = luaproc.receive(name) end
  return got
end

describe("luaproc.newchannel and delchannel", function()
  it("say that a channel exists already or does not", function()
    local name = fresh()
    assert.same(results(nil, "channel '" .. name .. "' already exists"), results(luaproc.newchannel(name)))
    assert.same(results(true), results(luaproc.delchannel(name)))
    assert.same(results(nil, "channel '" .. name .. "' does not exist"), results(luaproc.delchannel(name)))
    assert.same(results(true), results(luaproc.newchannel(name)))
  end)

  it("refuse what is not a name", function()
    assert.error_matches(function() luaproc.newchannel() end,
      "bad argument #1 to 'newchannel' %(string expected, got no value%)")
    assert.error_matches(function() luaproc.delchannel({}) end,
      "bad argument #1 to 'delchannel' %(string expected, got table%)")
  end)

  it("keep an asynchronous channel that still stores messages", function()
    local name = fresh(true)
    luaproc.send(name, 1)
    assert.same(results(nil, "asynchronous channel '" .. name .. "' still stores messages"),
      results(luaproc.delchannel(name)))
    assert.equal(1, luaproc.receive(name))
    assert.is_true(luaproc.delchannel(name))
  end)

  it("tell a waiting receiver and a waiting sender that the channel was destroyed", function()
    for _, case in ipairs { { "receive", "sender" }, { "send", "receiver" } } do
      local name, out = fresh(), fresh()
      luaproc.newproc(([[
        luaproc.send("%s", "about to")
        luaproc.send("%s", luaproc.%s("%s"))
      ]]):format(out, out, case[1], name))
      luaproc.receive(out)
      -- the process may or may not wait already: until it does, deleting finds nobody, so make sure by trying again
      local reply
      assert.is_true(luaproc.delchannel(name))
      reply = results(luaproc.receive(out))
      assert.is_nil(reply[1])
      assert.is_truthy(reply[2] == ("channel '%s' destroyed while waiting for %s"):format(name, case[2])
        or reply[2] == ("channel '%s' does not exist"):format(name), reply[2])
    end
  end)

  it("wake the main script too", function()
    local name = fresh()
    delete_under_us(name)
    assert.same(results(nil, ("channel '%s' destroyed while waiting for sender"):format(name)),
      results(luaproc.receive(name)))
  end)

  it("let a name be used again for another channel that everybody sees", function()
    local name, out = fresh(), fresh()
    luaproc.newproc(([[
      luaproc.send("%s", (luaproc.receive("%s")))
      luaproc.send("%s", "ready")
      luaproc.send("%s", (luaproc.receive("%s")))
    ]]):format(out, name, out, out, name))
    luaproc.send(name, 1)
    assert.equal(1, luaproc.receive(out))
    luaproc.delchannel(name)
    luaproc.newchannel(name)
    luaproc.receive(out)
    luaproc.send(name, 2)
    assert.equal(2, luaproc.receive(out))
  end)
end)

describe("luaproc.send and receive", function()
  it("say that a channel does not exist", function()
    assert.same(results(nil, "channel 'none' does not exist"), results(luaproc.send("none", 1)))
    assert.same(results(nil, "channel 'none' does not exist"), results(luaproc.receive("none")))
    assert.same(results(nil, "channel 'none' does not exist"), results(luaproc.receive("none", true)))
  end)

  it("carry nil first, nil last, and nothing at all", function()
    local name = fresh()
    luaproc.newproc(('luaproc.send("%s", nil, 2, nil) luaproc.send("%s")'):format(name, name))
    assert.same(results(nil, 2, nil), results(luaproc.receive(name)))
    assert.same(results(), results(luaproc.receive(name)))
  end)

  it("keep integers, floats, booleans and binary strings as they are", function()
    local name = fresh(true)
    luaproc.send(name, math.maxinteger, 1.5, 2.0, false, "a\0b")
    local got = results(luaproc.receive(name))
    assert.same(results(math.maxinteger, 1.5, 2.0, false, "a\0b"), got)
    assert.equal("float", math.type(got[3]))
  end)

  it("send from a synchronous channel returns only after the message was received", function()
    local name, log = fresh(), fresh(true)
    luaproc.newproc(('luaproc.send("%s", 1) luaproc.send("%s", "sent")'):format(name, log))
    assert.same(results(nil, ("no senders waiting on channel '%s'"):format(log)), results(luaproc.receive(log, true)))
    assert.equal(1, luaproc.receive(name))
    assert.equal("sent", luaproc.receive(log))
  end)

  it("receive with the flag does not wait", function()
    local name = fresh()
    assert.same(results(nil, ("no senders waiting on channel '%s'"):format(name)),
      results(luaproc.receive(name, true)))
  end)

  it("carry tables, functions with upvalues, and refuse coroutines", function()
    local name = fresh(true)
    local step = 3
    luaproc.send(name, { 1, { x = "y" } }, function(n) return n + step end)
    local list, add = luaproc.receive(name)
    assert.same({ 1, { x = "y" } }, list)
    assert.equal(5, add(2))
    assert.same(results(nil, "failed to send value of unsupported type 'thread'"),
      results(luaproc.send(name, coroutine.create(function() end))))
  end)

  it("deliver asynchronous messages in order", function()
    local name = fresh(true)
    for i = 1, 1000 do assert.is_true(luaproc.send(name, i)) end
    for i = 1, 1000 do assert.equal(i, luaproc.receive(name)) end
  end)
end)

describe("luaproc.newproc", function()
  it("refuses what is neither code nor a Lua function", function()
    assert.same(results(nil, "cannot use 'number' to create a new process"), results(luaproc.newproc(7)))
    assert.same(results(nil, "cannot use 'no value' to create a new process"), results(luaproc.newproc()))
    assert.same(results(nil, "error 1 dumping function to binary string"), results(luaproc.newproc(print)))
  end)

  it("raises what the compiler says", function()
    assert.error_matches(function() luaproc.newproc("x =") end, '%[string "x ="%]:1: unexpected symbol')
  end)

  it("refuses a function with an upvalue that can't travel", function()
    local co = coroutine.create(function() end)
    assert.same(results(nil, "failed to copy upvalue of unsupported type 'thread'"),
      results(luaproc.newproc(function() return co end)))
  end)

  it("runs a function with its upvalues", function()
    local name, value = fresh(), 42
    assert.is_true(luaproc.newproc(function() luaproc.send(name, value) end))
    assert.equal(42, luaproc.receive(name))
  end)

  it("makes luaproc a global of the process", function()
    local name = fresh()
    luaproc.newproc(('luaproc.send("%s", luaproc == require "luaproc")'):format(name))
    assert.is_true(luaproc.receive(name))
  end)
end)

describe("luaproc.wait, workers and recycle", function()
  it("wait returns when every process has ended, also those that processes made", function()
    local log = fresh(true)
    luaproc.newproc(([[
      for i = 1, 3 do
        luaproc.newproc('require "mare".sleep(0.02) luaproc.send("%s", 1)')
      end
    ]]):format(log))
    luaproc.wait()
    for _ = 1, 3 do assert.equal(1, luaproc.receive(log, true)) end
  end)

  it("wait returns although a process failed", function()
    local quiet = 'io.stderr = { write = function() end } error("on purpose")'
    assert.is_true(luaproc.newproc(quiet))
    luaproc.wait()
  end)

  it("set and get the number of workers", function()
    local before = luaproc.getnumworkers()
    luaproc.setnumworkers(3)
    assert.equal(3, luaproc.getnumworkers())
    luaproc.setnumworkers(before)
    assert.error_matches(function() luaproc.setnumworkers(0) end,
      "bad argument #1 to 'setnumworkers' %(number of workers must be positive%)")
    assert.error_matches(function() luaproc.setnumworkers("many") end, "number expected, got string")
  end)

  it("recycle takes a limit, and a recycled process finds no globals of the last one", function()
    assert.same(results(), results(luaproc.recycle(10)))
    assert.error_matches(function() luaproc.recycle(-1) end, "recycle limit must be positive")
    local log = fresh(true)
    for _ = 1, 50 do
      luaproc.newproc(('luaproc.send("%s", left == nil) left = true'):format(log))
      luaproc.wait()
    end
    for _, clean in ipairs(collect(log, 50)) do assert.is_true(clean) end
  end)
end)

describe("luaproc.barrier", function()
  it("lets nobody through before the last has come, round after round", function()
    local name, log = fresh(), fresh(true)
    for _ = 1, 4 do
      luaproc.newproc(function()
        for round = 1, 3 do
          luaproc.send(log, round)
          luaproc.barrier(name, 5)
        end
      end)
    end
    for round = 1, 3 do
      local before = collect(log, 4)
      assert.same({ round, round, round, round }, before)
      assert.is_true(luaproc.barrier(name, 5))
    end
  end)

  it("says that a channel does not exist, and that it was destroyed", function()
    assert.same(results(nil, "channel 'none' does not exist"), results(luaproc.barrier("none", 2)))
    local name = fresh()
    delete_under_us(name)
    assert.same(results(nil, ("channel '%s' destroyed while waiting at a barrier"):format(name)),
      results(luaproc.barrier(name, 2)))
  end)

  it("leaves the channel free for messages", function()
    local name = fresh(true)
    luaproc.newproc(function()
      luaproc.send(name, "hello")
      luaproc.barrier(name, 2)
    end)
    luaproc.barrier(name, 2)
    assert.equal("hello", luaproc.receive(name))
  end)
end)

describe("the programs of the two works", function()
  it("processes that each wait for one message (C, G)", function()
    local log, names = fresh(true), {}
    for i = 1, 200 do
      names[i] = fresh()
      luaproc.newproc(('luaproc.receive("%s") luaproc.send("%s", 1)'):format(names[i], log))
    end
    for i = 1, 200 do luaproc.send(names[i], "go") end
    assert.equal(200, #collect(log, 200))
    luaproc.wait()
  end)

  it("messages of 10 bytes to 10 MiB (D)", function()
    local name, sizes = fresh(), { 10, 104, 1048, 10485, 104857, 1048576, 10485760 }
    luaproc.newproc(function()
      for i = 1, #sizes do luaproc.send(name, ("x"):rep(sizes[i])) end
    end)
    for i = 1, #sizes do assert.equal(sizes[i], #luaproc.receive(name)) end
  end)

  it("a ring (E)", function()
    local size, cycles, names, over = 50, 20, {}, fresh()
    for i = 1, size do names[i] = fresh() end
    for i = 1, size do
      luaproc.newproc(function()
        for _ = 1, cycles do
          local message = luaproc.receive(names[i])
          if i < size then luaproc.send(names[i + 1], message + 1) else luaproc.send(over, message + 1) end
        end
      end)
    end
    for _ = 1, cycles do
      luaproc.send(names[1], 0)
      assert.equal(size, luaproc.receive(over))
    end
    luaproc.wait()
  end)

  it("processes that end at once, with and without recycling (F)", function()
    for _, limit in ipairs { 0, 1, 10, 100 } do
      luaproc.recycle(limit)
      for _ = 1, 300 do assert.is_true(luaproc.newproc("local _ = 1")) end
      luaproc.wait()
    end
  end)

  it("a master and workers that search texts (H)", function()
    local work, found = fresh(), fresh()
    local texts = { "the tide comes in", "moon and tide, tide and moon", "nothing", "tide" }
    for _ = 1, 2 do
      luaproc.newproc(function()
        while true do
          local number, text = luaproc.receive(work)
          if not number then break end
          local count, at = 0, 1
          while true do
            local first, last = text:find("tide", at, true)
            if not first then break end
            count, at = count + 1, last + 1
          end
          luaproc.send(found, number, count)
        end
      end)
    end
    luaproc.newproc(function()
      for i = 1, #texts do luaproc.send(work, i, texts[i]) end
      for _ = 1, 2 do luaproc.send(work, false) end
    end)
    local counts = {}
    for _ = 1, #texts do
      local number, count = luaproc.receive(found)
      counts[number] = count
    end
    assert.same({ 1, 2, 0, 1 }, counts)
    luaproc.wait()
  end)

  it("knapsack: rows shared as tables between workers (Millán 4.1)", function()
    local capacity, workers, out = 60, 3, fresh()
    local objects = {}
    for i = 1, 25 do objects[i] = { weight = 3, value = i % 2 == 1 and 50 or 5 } end
    local rows = {}
    for w = 1, workers do rows[w] = fresh(true) end
    for w = 1, workers do
      luaproc.newproc(function()
        -- worker w owns a block of columns and needs those to its left of the row before
        local first, last = (w - 1) * 21, w * 21 - 1
        if last > capacity then last = capacity end
        local row = {}
        for c = 0, last do row[c] = 0 end
        for _, object in ipairs(objects) do
          local fragment = {}
          for c = first, last do
            local with = c >= object.weight and row[c - object.weight] + object.value or 0
            fragment[c] = with > row[c] and with or row[c]
          end
          for other = w + 1, workers do luaproc.send(rows[other], first, fragment) end
          local before = {}
          for _ = 1, w - 1 do
            local from, part = luaproc.receive(rows[w])
            before[from] = part
          end
          for _, part in pairs(before) do
            for c, value in pairs(part) do row[c] = value end
          end
          for c, value in pairs(fragment) do row[c] = value end
          luaproc.barrier(out, workers)
        end
        if last == capacity then luaproc.send(out, row[capacity]) end
      end)
    end
    -- 60 units hold 20 objects of weight 3: 13 worth 50, 7 worth 5
    assert.equal(13 * 50 + 7 * 5, luaproc.receive(out))
    luaproc.wait()
  end)

  it("providers and consumers that sort arrays (Millán 4.2)", function()
    for _, async in ipairs { false, true } do
      local arrays, summary, sorted = fresh(async), fresh(true), fresh(true)
      for p = 1, 2 do
        luaproc.newproc(function()
          local smallest, largest = 1000, 0
          for i = 1, 10 do
            local array = {}
            for k = 1, 30 do array[k] = (k * 37 + i * 11 + p * 5) % 101 end
            for k = 1, 30 do
              if array[k] < smallest then smallest = array[k] end
              if array[k] > largest then largest = array[k] end
            end
            luaproc.send(arrays, array)
          end
          luaproc.send(summary, smallest, largest)
        end)
      end
      for _ = 1, 3 do
        luaproc.newproc([[
          local arrays, sorted = "]] .. arrays .. '", "' .. sorted .. [["
          while true do
            local array = luaproc.receive(arrays)
            if not array then break end
            table.sort(array, function(a, b) return a < b end)
            luaproc.send(sorted, array)
          end
        ]])
      end
      for _ = 1, 2 do
        local smallest, largest = luaproc.receive(summary)
        assert.is_true(smallest >= 0 and largest <= 100)
      end
      for _ = 1, 20 do
        local array = luaproc.receive(sorted)
        for k = 2, #array do assert.is_true(array[k - 1] <= array[k]) end
      end
      for _ = 1, 3 do luaproc.send(arrays, false) end
      luaproc.wait()
    end
  end)
end)
