-- Names of processes: register, unregister, whereis.
local mare = require "mare"
local proc = require "spec.support.proc"
local process, channel = mare.process, mare.channel

-- A process that lives until the gate is closed, called by these names.
local function living(gate, ...)
  local names = table.pack(...)
  local there = channel.new()
  local p = process.spawn { name = "worker", main = function()
    for i = 1, names.n do process.register(names[i]) end
    there:send(true)
    gate:receive()
  end }
  there:receive()
  return p
end

describe("process.register", function()
  it("gives the caller a name, by which others find it", function()
    local gate = channel.new()
    local p = living(gate, "a", "b")
    assert.is_true(process.whereis "a" == p)
    assert.is_true(process.whereis "b" == p)
    assert.is_true(select(2, process.spawn(function() return process.whereis "a" end):wait()) == p)
    assert.is_nil(process.whereis "c")
    gate:close()
    assert.is_true(p:wait())
    assert.is_nil(process.whereis "a")
    assert.is_nil(process.whereis "b")
  end)

  it("gives another process a name, also one that has not begun", function()
    local gate = channel.new()
    local p = process.spawn(function() gate:receive() end)
    process.register("other", p)
    assert.is_true(process.whereis "other" == p)
    gate:close()
    p:wait()
    assert.is_nil(process.whereis "other")
  end)

  it("works for the main script", function()
    process.register "main script"
    assert.is_true(process.whereis "main script" == process.self())
    assert.is_true(process.unregister "main script")
    assert.is_nil(process.whereis "main script")
  end)

  it("says by whom a name is taken", function()
    local gate = channel.new()
    local p = living(gate, "taken")
    for _, name in ipairs { "taken" } do
      assert.error_matches(function() process.register(name) end, ("the name 'taken' is taken by process #%d 'worker'"):format(p.id))
      assert.error_matches(function() process.register(name, p) end, "is taken by process #")
    end
    gate:close()
    p:wait()
    process.register "taken"
    assert.error_matches(function() process.register "taken" end, "the name 'taken' is taken by process #" .. process.self().id)
    process.unregister "taken"
  end)

  it("refuses a process that has ended, names that are none, and handles that are none", function()
    local p = process.spawn { name = "gone", main = function() end }
    p:wait()
    assert.error_matches(function() process.register("x", p) end, "process #%d+ 'gone' has ended, so it can't be called 'x'")
    assert.is_nil(process.whereis "x")
    for _, f in ipairs { process.register, process.unregister, process.whereis } do
      assert.error_matches(function() f() end, "string expected")
      assert.error_matches(function() f(7) end, "string expected")
      assert.error_matches(function() f "a\0b" end, "can't contain a zero byte")
    end
    assert.error_matches(function() process.register("x", channel.new()) end, "process expected")
    process.register ""
    assert.is_true(process.unregister "")
  end)

  it("finds a name free as soon as the end of its process is told", function()
    for i = 1, 200 do
      local p = process.spawn(function()
        process.register "again"
        if i % 3 == 0 then error "on purpose" end
      end)
      p:wait()
      assert.is_nil(process.whereis "again")
    end
  end)
end)

describe("process.unregister", function()
  it("frees a name, whoever has it, and tells whether somebody had", function()
    local gate = channel.new()
    local p = living(gate, "u", "v")
    assert.is_true(process.unregister "u")
    assert.is_false(process.unregister "u")
    process.register("u")
    gate:close()
    p:wait()
    assert.is_true(process.whereis "u" == process.self())
    assert.is_true(process.unregister "u")
    assert.is_nil(process.whereis "v")
  end)
end)

describe("a name", function()
  it("of a plain Lua state goes when the state closes", function()
    local r = proc.lua([[
      local mare
      Kept = setmetatable({}, { __gc = function() print(mare.process.whereis "host", pcall(mare.process.register, "host")) end })
      mare = require "mare"                         -- after the table, so it is closed before that is collected
      mare.process.register "host"
      assert(mare.process.whereis "host" == mare.process.self())
      mare.process.spawn(function() assert(mare.process.whereis "host", "it waits for us") end)
    ]])
    assert.equal("", r.err)
    assert.equal(0, r.code)
    assert.matches("^nil\tfalse\tprocess #%d+ has ended, so it can't be called 'host'\n$", r.out)
  end)

  it("does not keep a deadlock from being noticed", function()
    local r = proc.mare([[
      local mare = require "mare"
      mare.process.register "stuck"
      mare.channel.new():receive()
    ]])
    assert.equal(1, r.code)
    assert.matches("deadlock", r.err)
  end)
end)

describe("processes that register, look, and die at random", function()
  it("leave no name behind", function()
    local n = proc.config == "plain" and 2000 or 300
    local all = {}
    for i = 1, n do
      all[#all + 1] = process.spawn(function()
        math.randomseed(i)
        for _ = 1, 10 do
          local name = "random " .. math.random(20)
          local p = process.whereis(name)
          if not p then pcall(process.register, name)
          elseif math.random(4) == 1 then process.unregister(name)
          else
            pcall(process.register, "random " .. math.random(20), p)
            if math.random(3) == 1 then process.yield() end
          end
        end
        if i % 7 == 0 then error "on purpose" end
      end)
      if #all == 50 then
        for k = 1, 50 do all[k]:wait() end
        all = {}
      end
    end
    for _, p in ipairs(all) do p:wait() end
    for i = 1, 20 do assert.is_nil(process.whereis("random " .. i)) end
  end)
end)
