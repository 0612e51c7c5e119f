-- mare.pipeline: stages with processes of their own, bounded connectors between them.
local mare = require "mare"
local temporary = require "spec.support.temporary"
local proc = require "spec.support.proc"
local pipeline, process, channel = mare.pipeline, mare.process, mare.channel

local LIMIT = 30 * proc.slow

local together = require "spec.support.together"
local numbers, failure = together.numbers, together.failure("pipeline")

local function add(x) return x + 1 end
local function slow(x)
  mare.sleep(math.random() * 0.002)
  return x
end

describe("a pipeline", function()
  it("sends items through its stages, in order", function()
    local p = pipeline.new { add, { run = slow, processes = 5 }, { run = add, processes = 2, capacity = 1 } }
    for _, n in ipairs { 0, 1, 2, 300 } do
      local list = p:list(numbers(n))
      assert.equal(n, #list)
      for i = 1, n do assert.equal(i + 2, list[i]) end
    end
  end)

  it("without order gives each item as soon as it is there", function()
    local p = pipeline.new { ordered = false, { run = function(x)
      if x == 1 then mare.sleep(0.1) end
      return x
    end, processes = 2 } }
    local list = p:list(numbers(20))
    assert.equal(20, #list)
    assert.is_true(list[1] ~= 1)
    table.sort(list)
    assert.same(numbers(20), list)
  end)

  it("drops items, and makes several of one", function()
    local function even(x) if x % 2 == 0 then return x end end
    local function twice(x, emit)
      emit(x)
      emit(-x)
    end
    for _, ordered in ipairs { true, false } do
      local p = pipeline.new { ordered = ordered, even, { run = twice, processes = 3 }, { run = twice, processes = 2 },
                               function(x, emit) emit(x) return x end }
      local list = p:list(numbers(40))
      assert.equal(20 * 4 * 2, #list)
      if ordered then assert.same({ 2, 2, -2, -2, -2, -2, 2, 2, 4 }, table.move(list, 1, 9, 1, {})) end
    end
    assert.same({}, pipeline.new { function() end }:list(numbers(100)))
  end)

  it("takes lists, iterators, channels and files by lines", function()
    local p = pipeline.new { add }
    assert.same({ 2, 3 }, p:list { 1, 2 })
    local i = 0
    assert.same({ 2, 3, 4 }, p:list(function() if i < 3 then i = i + 1 return i end end))
    local source = channel.new(3)
    for k = 1, 3 do source:send(k) end
    source:close()
    assert.same({ 2, 3, 4 }, p:list(source))
    local path = temporary()
    local f = assert(io.open(path, "w"))
    f:write "1\n22\n\n333"
    f:close()
    assert.same({ 1, 2, 0, 3 }, pipeline.new { function(line) return #line end }:list(pipeline.lines(path)))
    os.remove(path)
    assert.has_error(function() p:list(5) end)
    assert.has_error(function() pipeline.lines "/no/such/file" end)
  end)

  it("has results as an iterator, which may be left", function()
    local p, got = pipeline.new { { run = add, processes = 2 } }, {}
    for x in p:each(numbers(1000)) do
      got[#got + 1] = x
      if x == 5 then break end
    end
    assert.same({ 2, 3, 4, 5 }, got)
    local run <close> = p:run(numbers(3))
    assert.equal(2, run:receive())
    local rest = {}
    for x in run:each() do rest[#rest + 1] = x end
    assert.same({ 3, 4 }, rest)
    assert.is_nil(run:receive())
    assert.equal(3, p:run(numbers(3)):wait())
  end)

  it("runs several times, also at once", function()
    local p = pipeline.new { add, add }
    local a <close> = p:run(numbers(50))
    local b <close> = p:run(numbers(60))
    for i = 1, 50 do assert.same({ i + 2, i + 2 }, { a:receive(), b:receive() }) end
    assert.equal(10, b:wait())
    assert.equal(0, a:wait())
  end)

  it("is bounded: the source is asked for no more than there is room for", function()
    local asked = 0
    local run <close> = pipeline.new { { run = add, capacity = 2 }, { run = add, capacity = 2 } }:run(function()
      asked = asked + 1
      return asked
    end)
    assert.equal(3, run:receive())
    for _ = 1, 50 do mare.sleep(0.002) end
    assert.is_true(asked < 30, asked)
  end)

  it("has stages that hold something", function()
    local log = channel.new(math.huge)
    local list = pipeline.new { { processes = 2, init = function() return { n = 100 } end, run = function(x, _, held) return x + held.n end,
                                  close = function(held) log:send(held.n) end } }:list(numbers(10))
    assert.equal(110, list[10])
    assert.same({ 100, 100 }, { log:receive(LIMIT), log:receive(LIMIT) })
  end)

  it("says what it takes", function()
    assert.has_error(function() pipeline.new {} end)
    assert.has_error(function() pipeline.new { 5 } end)
    assert.has_error(function() pipeline.new { {} } end)
    assert.has_error(function() pipeline.new { { run = add, processes = 0 } } end)
    assert.has_error(function() pipeline.new { add, order = true } end)
    assert.has_error(function() pipeline.new { add, on_error = "ignore" } end)
    assert.has_error(function() pipeline.new { { run = add, proceses = 2 } } end)
    local thread = coroutine.create(print)
    local ok, err = pcall(function() pipeline.new { add, function() return thread end }:list { 1 } end)
    assert.is_false(ok)
    assert.truthy(tostring(err):find("stage 2", 1, true), tostring(err))
  end)
end)

describe("a stage that fails", function()
  it("ends the pipeline with its error and the item", function()
    local p = pipeline.new { add, { name = "check", processes = 3, run = function(x)
      if x == 50 then error { code = x } end
      return x
    end }, add }
    local err = failure(p.list, p, numbers(200))
    assert.same({ 50, 50, 2 }, { err.reason.code, err.item, err.stage })
    assert.truthy(tostring(err):find("stage 2 'check' failed", 1, true))
    assert.truthy(err.traceback)
    assert.same({ 3, 4 }, p:list { 1, 2 })
  end)

  it("may skip the item instead", function()
    local skipped = {}
    local p = pipeline.new { on_error = "skip", on_skip = function(err, item, stage) skipped[#skipped + 1] = { err, item, stage } end,
      { processes = 2, run = function(x)
        if x % 10 == 0 then error("round", 0) end
        return x
      end } }
    local run <close> = p:run(numbers(100))
    assert.equal(90, #run:list())
    assert.equal(10, #skipped)
    assert.same({ "round", 1 }, { skipped[1][1], skipped[1][3] })
    assert.same({ 100, 10 }, { run:statistics()[1].items, run:statistics()[1].skipped })
  end)

  it("ends it when it is killed, or its init fails", function()
    local err = failure(function()
      pipeline.new { add, { name = "victim", run = function(x)
        if x == 5 then process.self():kill() mare.sleep(1) end
        return x
      end } }:list(numbers(50))
    end)
    assert.same({ "killed", 2 }, { err.reason.kind, err.stage })
    err = failure(function() pipeline.new { { run = add, init = function() error("no init", 0) end } }:list { 1 } end)
    assert.equal("no init", err.reason)
  end)

  it("ends it when what it gives can't travel", function()
    for _, ordered in ipairs { true, false } do
      local err = failure(function() pipeline.new { ordered = ordered, function() return coroutine.create(print) end }:list { 1 } end)
      assert.truthy(tostring(err.reason):find "cannot be sent")
    end
  end)

  it("is named by its number, and by its name if it has one", function()
    local function bad() error("no", 0) end
    assert.equal("stage 2 failed", failure(function() pipeline.new { add, bad }:list { 1 } end).message)
    assert.equal("stage 2 'bad' failed", failure(function() pipeline.new { add, { run = bad, name = "bad" } }:list { 1 } end).message)
  end)

  it("is told apart from a list with a hole", function()
    local err = failure(function() pipeline.new { add }:list { 1, 2, nil, 4, 5 } end)
    assert.equal("list[3] is nil; a list without holes expected", err.reason)
    assert.is_nil(err.stage)
  end)

  it("is told apart from a source that fails", function()
    local err = failure(function() pipeline.new { add }:list(function() error("no more", 0) end) end)
    assert.same({ "no more", "the source failed" }, { err.reason, err.message })
    assert.is_nil(err.stage)
  end)
end)

describe("its end", function()
  it("takes all processes along, however it comes", function()
    local log = channel.new(math.huge)
    local function held(x)
      log:send(process.self())
      mare.sleep(3600)
      return x
    end
    local function gone(begin, finish)
      local p = pipeline.new { { run = held, processes = 2 } }
      local thing = begin(p)
      local a, b = (log:receive(LIMIT)), (log:receive(LIMIT))
      finish(thing)
      assert.is_false((a:wait(LIMIT)))
      assert.is_false((b:wait(LIMIT)))
    end
    gone(function(p) return p:run { 1, 2, 3 } end, function(run) run:stop() end)
    gone(function(p) return process.spawn(function() p:list { 1, 2, 3 } end) end, function(handle) handle:cancel() end)
    gone(function(p) return process.spawn(function() p:list { 1, 2, 3 } end) end, function(handle) handle:kill() end)
  end)

  it("comes with a deadline", function()
    local ok, err = pcall(process.deadline, 0.05, function() return pipeline.new { function() mare.sleep(3600) end }:list { 1 } end)
    assert.is_false(ok)
    assert.equal("deadline", err.kind)
  end)
end)

describe("its statistics", function()
  it("show the bottleneck", function()
    local function waits(x) mare.sleep(0.003) return x end
    local run <close> = pipeline.new { { name = "fast", run = add }, { name = "slow", run = waits } }:run(numbers(60))
    run:wait()
    local fast, slowest = table.unpack(run:statistics())
    assert.same({ "fast", "slow", 60, 60, 1 }, { fast.name, slowest.name, fast.items, slowest.items, slowest.processes })
    assert.is_true(slowest.busy >= 0.1 and fast.blocked > fast.busy)
    assert.equal(0, slowest.queued)
  end)
end)
