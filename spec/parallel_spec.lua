-- mare.parallel: functions over lists and files on all cores.
local mare = require "mare"
local temporary = require "spec.support.temporary"
local parallel, process, channel = mare.parallel, mare.process, mare.channel

local together = require "spec.support.together"
local numbers, failure = together.numbers, together.failure("parallel")

-- A file of these bytes.
local function file_of(text)
  local path = temporary()
  local f = assert(io.open(path, "w"))
  f:write(text)
  f:close()
  return path
end

-- f(path of such a file), which is removed.
local function with_file(text, f)
  local path = file_of(text)
  local guard <close> = setmetatable({}, { __close = function() os.remove(path) end })   -- luacheck: ignore guard
  return f(path)
end

describe("parallel.map", function()
  it("gives the results in the order of the items, with their index", function()
    for _, n in ipairs { 0, 1, 2, 3, 17, 1000 } do
      local list = parallel.map(numbers(n), function(x, i)
        assert(x == i)
        if x % 100 == 1 then mare.sleep(0.002) end
        return { x * x }
      end)
      assert.equal(n, #list)
      for i = 1, n do assert(i * i == list[i][1]) end
    end
  end)

  it("takes a number of workers, and of items in a chunk", function()
    local most, now = channel.new(math.huge), channel.new(math.huge)
    parallel.map(numbers(40), function()
      now:send(true)
      most:send(#now)
      mare.sleep(0.001)
      now:receive()
    end, { workers = 3, chunk = 1 })
    local largest = 0
    for _ = 1, 40 do largest = math.max(largest, (most:receive())) end
    assert.is_true(largest <= 3 and largest >= 1)
    local ids = parallel.map(numbers(20), function() return process.self().id end, { chunk = 10, workers = 2 })
    for i = 2, 10 do assert.equal(ids[1], ids[i]) end
    for i = 12, 20 do assert.equal(ids[11], ids[i]) end
  end)

  it("makes chunks of cheap items large, and of dear ones small", function()
    local ids, changes = parallel.map(numbers(20000), function() return process.self().id end, { workers = 1 }), 0
    for i = 2, #ids do if ids[i] ~= ids[i - 1] then changes = changes + 1 end end
    assert.equal(0, changes)
    local seen = channel.new(math.huge)
    local worker = process.spawn(function()
      parallel.each(numbers(8), function() mare.sleep(0.02) seen:send(process.self().id) end, { workers = 4 })
    end)
    assert.is_true((worker:wait()))
    local who = {}
    for _ = 1, 8 do who[seen:receive()] = true end
    local n = 0
    for _ in pairs(who) do n = n + 1 end
    assert.is_true(n > 1)
  end)

  it("sends the function and its upvalues along, and finds modules", function()
    local factor = { 3 }
    assert.same({ 3, 6 }, parallel.map({ 1, 2 }, function(x) return x * factor[1] end))
    local moved = coroutine.create(print)
    local ok, err = pcall(parallel.map, { 1 }, function() return moved end)
    assert.is_false(ok)
    assert.truthy(tostring(err):find("f", 1, true))
  end)

  it("names the item that can't be sent", function()
    local list = numbers(10)
    list[7] = { x = coroutine.create(print) }
    local ok, err = pcall(parallel.map, list, tostring)
    assert.is_false(ok)
    assert.truthy(tostring(err):find("list[7].x", 1, true), tostring(err))
  end)

  it("reads a frozen list where it is; what has no items is no list", function()
    local list = mare.freeze(numbers(100))
    assert.same(numbers(100), parallel.map(list, function(x, i) return x == i and x end))
    assert.same({ 99, 100 }, parallel.filter(list, function(x) return x > 98 end))
    assert.equal(5050, parallel.reduce(list, "+"))
    assert.same({}, parallel.map(mare.freeze {}, tostring))
    local open = mare.buffer.new "abc"
    for _, v in ipairs { open, mare.buffer.of "abc" } do
      assert.error_matches(function() parallel.map(v, tostring) end, "parallel.map: a list expected, got a buffer; b:view%(type%) has its numbers")
    end
    assert.equal("abc", open:sub())
    local d = mare.dict.new()
    d:set("key", 1)
    assert.error_matches(function() parallel.map(d, tostring) end, "parallel.map: a list expected, got a userdata whose %[1%] is nil")
  end)

  it("takes the numbers of a buffer: shared when it is sealed, copied when it is open", function()
    for _, sealed in ipairs { false, true } do
      for _, type in ipairs { "d", "j", "B" } do
        local list, v = {}, mare.buffer.new(100 * string.packsize(type)):view(type)
        for i = 1, 100 do list[i] = type == "d" and i / 4 or i end
        v:put(1, list)
        if sealed then v:buffer():seal() end
        assert.same(list, parallel.map(v, function(x, i) assert(type ~= "j" or x == i) return x end, { chunk = 7 }))
        assert.same({ list[99], list[100] }, parallel.filter(v, function(_, i) return i > 98 end))
        assert.equal(type == "d" and 1262.5 or 5050, parallel.reduce(v, "+"))
        assert.equal(100, parallel.each(v, tostring))
        local err = failure(parallel.map, v, function(_, i) assert(i ~= 42, "no") end)
        assert.equal(42, err.index)
        assert.equal(100, #v)
      end
    end
    assert.same({}, parallel.map(mare.buffer.new():integers(), print))
  end)

  it("sorts the numbers of an open buffer", function()
    local v = mare.buffer.new(8000):integers()
    for i = 1, #v do v[i] = i * 7919 % 1009 end
    local sorted = v:table()
    table.sort(sorted)
    assert.equal(v, parallel.sort(v))
    assert.same(sorted, v:table())
    v:buffer():seal()
    assert.error_matches(function() parallel.sort(v) end, "parallel.sort: the buffer is sealed")
  end)

  it("says what it takes", function()
    assert.has_error(function() parallel.map(1, print) end)
    assert.has_error(function() parallel.map({}, 1) end)
    assert.has_error(function() parallel.map({}, print, { worker = 1 }) end)
    assert.has_error(function() parallel.map({}, print, { workers = 0 }) end)
    assert.has_error(function() parallel.map({}, print, { chunk = 1.5 }) end)
    assert.has_error(function() parallel.lines(1) end)
    assert.has_error(function() parallel.lines "/no/such/file" end)
    assert.has_error(function() return parallel.mpa end)
  end)
end)

describe("an error in an item", function()
  it("is raised with its index, and the function's own error as reason", function()
    local err = failure(parallel.map, numbers(500), function(x) if x == 321 then error({ code = x }) end return x end)
    assert.same({ 321, 321 }, { err.index, err.reason.code })
    assert.truthy(tostring(err):find "item 321 failed")
    assert.truthy(err.traceback)
  end)

  it("leaves the next call alone", function()
    for _ = 1, 5 do
      failure(parallel.each, numbers(50), function(x) if x == 20 then error "no" end mare.sleep(0.001) end)
      assert.same({ 2, 4 }, parallel.map({ 1, 2 }, function(x) return 2 * x end))
    end
  end)

  it("is one when a result can't travel", function()
    local err = failure(parallel.map, { 1, 2 }, function() return coroutine.create(print) end)
    assert.truthy(tostring(err.reason):find "cannot be sent")
  end)

  it("names the item whose result, or whose error, can't travel", function()
    for _, options in ipairs { { chunk = 1 }, { chunk = 10 }, {} } do
      local err = failure(parallel.map, numbers(20), function(x) return x == 13 and { out = io.stdout } or x end, options)
      assert.equal(13, err.index)
      assert.matches("^result%.out: userdata 'FILE%*' cannot be sent", err.reason)
      assert.truthy(tostring(err):find("item 13 failed", 1, true), tostring(err))
    end
    local err = failure(parallel.each, numbers(20), function(x)
      if x == 13 then error(setmetatable({ io.stdout }, { __tostring = function() return "bad file" end })) end
    end)
    assert.same({ 13, "bad file" }, { err.index, err.reason })
    err = failure(parallel.reduce, numbers(200), function() return io.stdout end)
    assert.matches("^result: userdata 'FILE%*' cannot be sent", err.reason)
  end)

  it("is one when a worker is killed", function()
    local err = failure(parallel.map, numbers(10), function(x)
      if x == 5 then process.self():kill() mare.sleep(1) end
      return x
    end)
    assert.equal("killed", err.reason.kind)
    assert.same({ 1 }, parallel.map({ 1 }, function(x) return x end))
  end)

  it("names the offset of a line", function()
    with_file(("ok\n"):rep(5000) .. "bad\n" .. ("ok\n"):rep(5000), function(path)
      local err = failure(parallel.each, parallel.lines(path), function(line) assert(line == "ok") end)
      assert.equal(15000, err.index)
    end)
  end)
end)

describe("the other functions", function()
  it("filter keeps the order", function()
    assert.same({ 3, 6, 9 }, parallel.filter(numbers(10), function(x) return x % 3 == 0 end))
    assert.same({}, parallel.filter({}, function() return true end))
    local list = parallel.filter(numbers(3000), function(x) return x % 2 == 0 end)
    for i = 1, 1500 do assert.equal(2 * i, list[i]) end
  end)

  it("each counts", function()
    local log = channel.new(math.huge)
    assert.equal(7, parallel.each(numbers(7), function(x) log:send(x) end))
    assert.equal(7, #log)
    assert.equal(0, parallel.each({}, print))
  end)

  it("reduce folds from the left, with the same brackets in every run", function()
    local words, text = {}, {}
    for i = 1, 300 do words[i] = "w" .. i end
    assert.equal(table.concat(words), parallel.reduce(words, ".."))
    for _ = 1, 5 do
      text[#text + 1] = parallel.reduce(words, function(a, b) return "(" .. a .. b .. ")" end, { workers = 1 + #text })
    end
    for i = 2, 5 do assert.equal(text[1], text[i]) end
    assert.equal(500500, parallel.reduce(numbers(1000), "+"))
    assert.same({ 9, 1 }, { parallel.reduce({ 3, 9, 1 }, "max"), parallel.reduce({ 3, 9, 1 }, "min") })
    assert.is_nil(parallel.reduce({}, "+"))
    assert.equal("x", parallel.reduce({ "x" }, ".."))
  end)

  it("reduce by start, step and merge", function()
    local sum = parallel.reduce(numbers(1000), {
      start = function() return { n = 0, sum = 0 } end,
      step = function(s, x) s.n, s.sum = s.n + 1, s.sum + x return s end,
      merge = function(a, b) return { n = a.n + b.n, sum = a.sum + b.sum } end,
    })
    assert.same({ n = 1000, sum = 500500 }, sum)
    assert.same({}, parallel.reduce({}, { start = function() return {} end, step = print, merge = print }))
    assert.has_error(function() parallel.reduce({}, { step = print }) end)
  end)

  it("reduce names the operators there are", function()
    assert.error_matches(function() parallel.reduce({ 1, 2 }, "-") end,
                         "parallel.reduce: there is no operator '%-'; there are '%+', '%*', '%.%.', 'max', 'min', and functions")
  end)

  it("reduce says at which item folding failed", function()
    local err = failure(parallel.reduce, { 1, "x" }, "+")
    assert.same({ "parallel", 2 }, { err.kind, err.index })
    assert.truthy(tostring(err):find("item 2 failed", 1, true))
    assert.matches("attempt to add", err.reason)
    local list = numbers(1000)
    list[700] = {}
    err = failure(parallel.reduce, list, "+")
    assert.is_true(err.index >= 690 and err.index <= 701)
    err = failure(parallel.reduce, numbers(100), { step = function() return 1 end, merge = function() error("no merge", 0) end }, { chunk = 10 })
    assert.same({ 11, "no merge" }, { err.index, err.reason })
    assert.truthy(tostring(err):find("joining the items from 11 on failed", 1, true))
  end)

  it("reduce is ended by a deadline in its merge", function()
    local _, err = pcall(process.deadline, 0.05, parallel.reduce, numbers(2), function() mare.sleep(3600) end)
    assert.equal("deadline", err.kind)
  end)

  it("sort sorts in place", function()
    for _, n in ipairs { 0, 1, 2, 3, 10, 5000 } do
      local list, same = {}, {}
      for i = 1, n do list[i] = math.random(n) same[i] = list[i] end
      table.sort(same)
      assert.equal(list, parallel.sort(list))
      assert.same(same, list)
      parallel.sort(list, function(a, b) return a > b end, { workers = 3 })
      for i = 1, n do assert.equal(same[n + 1 - i], list[i]) end
    end
    failure(parallel.sort, { 1, "x", 2, "y" })
  end)
end)

describe("a list of parallel's functions", function()
  it("has no holes", function()
    local list = { 1, 2, nil, 4, 5 }
    for _, name in ipairs { "map", "filter", "each", "reduce", "sort" } do
      local ok, err = pcall(parallel[name], list, name == "reduce" and "+" or name ~= "sort" and print or nil)
      assert.is_false(ok)
      assert.truthy(tostring(err):find(("parallel.%s: list[3] is nil; a list without holes expected"):format(name), 1, true), tostring(err))
    end
  end)

  it("is no buffer", function()
    for _, b in ipairs { mare.buffer.of "abc", mare.buffer.new() } do
      assert.error_matches(function() parallel.map(b, print) end,
                           "parallel.map: a list expected, got a buffer")
    end
  end)
end)

describe("parallel.lines", function()
  it("refuses what has no size of its own", function()
    assert.error_matches(function() parallel.lines "/proc/self/status" end, "/proc/self/status: a regular file expected, whose size is known")
    assert.error_matches(function() parallel.lines "/dev/null" end, "got a character device")
    assert.error_matches(function() parallel.lines "/tmp" end, "got a directory")
    local path = temporary()
    assert(os.execute("rm -f '" .. path .. "' && mkfifo '" .. path .. "'"))
    assert.error_matches(function() parallel.lines(path) end, "a regular file expected")
    os.remove(path)
  end)

  local function check(lines, last)
    with_file(table.concat(lines, "\n") .. (last and "\n" or ""), function(path)
      local got = parallel.map(parallel.lines(path), function(line) return line end)
      local all = mare.buffer.of(table.concat(lines, "\n") .. (last and "\n" or ""))
      assert.same(got, parallel.map(parallel.lines(all), function(line) return line end))
      assert.equal(#lines, #got)
      for i = 1, #lines do assert(lines[i] == got[i], i) end
      local at = parallel.map(parallel.lines(path), function(_, offset) return offset end)
      local offset = 0
      for i = 1, #lines do
        assert(offset == at[i], i)
        offset = offset + #lines[i] + 1
      end
    end)
  end

  it("gives each line once, wherever it is cut", function()
    for _, longest in ipairs { 3, 60, 3000 } do
      local lines, bytes = {}, 0
      while bytes < 60000 do
        lines[#lines + 1] = ("x"):rep(math.random(0, longest))
        bytes = bytes + #lines[#lines] + 1
      end
      lines[#lines + 1] = "the end"
      check(lines, true)
      check(lines, false)
    end
  end)

  it("copes with one long line, empty lines, an empty file", function()
    check({ ("y"):rep(300000) }, true)
    check({ ("y"):rep(100000), "z", ("y"):rep(100000) }, false)
    local empty = {}
    for i = 1, 20000 do empty[i] = "" end
    check(empty, true)
    with_file("", function(path) assert.same({}, parallel.map(parallel.lines(path), print)) end)
    assert.same({}, parallel.map(parallel.lines(mare.buffer.of ""), print))
    assert.error_matches(function() parallel.lines(mare.buffer.new "open") end, "parallel.lines: a sealed buffer expected")
  end)

  it("filters and reduces", function()
    local text = {}
    for i = 1, 5000 do text[i] = ("%d %s"):format(i, i % 7 == 0 and "seven" or "other") end
    with_file(table.concat(text, "\n"), function(path)
      local list = parallel.filter(parallel.lines(path), function(line) return line:find "seven" end)
      assert.equal(714, #list)
      assert.same({ "7 seven", "4998 seven" }, { list[1], list[714] })
      local longest = parallel.reduce(parallel.lines(path), function(a, b) return #a < #b and b or a end)
      assert.equal(10, #longest)
    end)
  end)
end)

describe("workers", function()
  it("are kept for the next call, and end when there is none", function()
    local handle = process.spawn(function()
      local function ids()
        local found = {}
        local function who() mare.sleep(0.005) return process.self().id end
        for _, id in ipairs(parallel.map(numbers(4), who, { chunk = 1 })) do found[id] = true end
        return found
      end
      local first, second = ids(), ids()
      for id in pairs(second) do if not first[id] then return "another" end end
      for id in pairs(first) do
        for _, p in ipairs(process.list()) do
          while p.id == id and p.process and p.process:status() == "waiting" do mare.sleep(0.01) end
        end
      end
      return parallel.map({ 1 }, function(x) return x + 1 end)[1]
    end)
    local ok, result = handle:wait()
    assert.is_true(ok)
    assert.truthy(result == 2 or result == "another")
  end)

  it("end with the caller", function()
    local log = channel.new(math.huge)
    local handle = process.spawn(function()
      parallel.each({ 1, 2 }, function() log:send(process.self()) mare.sleep(3600) end, { workers = 2, chunk = 1 })
    end)
    local a, b = (log:receive()), (log:receive())
    handle:cancel()
    assert.is_false((handle:wait()))
    assert.is_false((a:wait()))
    assert.is_false((b:wait()))
  end)

  it("are stopped by a deadline", function()
    local log = channel.new(math.huge)
    local ok, err = pcall(process.deadline, 0.1, parallel.each, { 1 }, function() log:send(process.self()) mare.sleep(3600) end)
    assert.is_false(ok)
    assert.equal("deadline", err.kind)
    local worker = log:try_receive()
    if worker then assert.is_false((worker:wait())) end
  end)

  it("serve several fibers, and calls inside calls", function()
    local fibers = {}
    for i = 1, 4 do fibers[i] = mare.fiber.spawn(function() return parallel.reduce(numbers(100 * i), "+") end) end
    for i = 1, 4 do assert.same({ true, 100 * i * (100 * i + 1) // 2 }, { fibers[i]:wait() }) end
    assert.same({ 6, 10 }, parallel.map({ 3, 4 }, function(n)
      local list = {}
      for i = 1, n do list[i] = i end
      return mare.parallel.reduce(list, "+")
    end))
  end)

  it("tell how far they are", function()
    local told = {}
    parallel.each(numbers(100), function() end, { progress = function(done, total) told[#told + 1] = done assert(total == 100) end })
    for i = 2, #told do assert.is_true(told[i] >= told[i - 1]) end
    assert.equal(100, told[#told])
    parallel.each({ 1 }, function() end, { progress = true })
  end)
end)
