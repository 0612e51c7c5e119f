-- mare.collective: MPI's operations, and what happens to a group when a member doesn't take part.
local mare = require "mare"
local errors = require "mare.error"
local proc = require "spec.support.proc"
local collective, process, channel = mare.collective, mare.process, mare.channel
local run = collective.run

local LIMIT = 30 * proc.slow

-- The error of a run that must fail.
local function failure(...)
  local ok, err = pcall(run, ...)
  assert.is_false(ok)
  assert.is_true(errors.is(err, "collective"))
  return err
end

local function all(n, value)
  local list = {}
  for i = 1, n do list[i] = value end
  return list
end

describe("a group", function()
  it("gives the first results of its members by rank", function()
    assert.same({ 11, 21, 31 }, run(3, function(g, x) return g.rank * 10 + x, "more" end, 1))
    assert.same({ "1 of 1" }, run(1, function(g) return g.rank .. " of " .. g.size end))
  end)

  it("has members that are sent to processes, and are husks where they were", function()
    local members = collective.group(2)
    local handle = process.spawn(function(g) return g:allreduce(g.rank, "+") end, members[2])
    assert.equal(3, members[1]:allreduce(members[1].rank, "+"))
    assert.same({ true, 3 }, { handle:wait(LIMIT) })
    assert.has_error(function() return members[2].rank end, "member was moved to another process")
    assert.equal("member (moved)", tostring(members[2]))
    assert.equal("member 1 of 2", tostring(members[1]))
  end)

  it("takes options", function()
    local names = run { members = 2, name = "part", args = { 5, nil, 7, n = 3 }, memory = 4e6,
                        main = function(_, a, b, c) return ("%s %s %s %s"):format(process.self().name, a, b, c) end }
    assert.same({ "part 1 5 nil 7", "part 2 5 nil 7" }, names)
    assert.has_error(function() run { members = 0, main = print } end)
    assert.has_error(function() run { members = 1, main = print, args = {}, more = 1 } end)
    assert.has_error(function() run(2) end)
    assert.has_error(function() collective.group(0) end)
    assert.has_error(function() collective.group(1.5) end)
  end)
end)

describe("of its operations", function()
  it("barrier lets nobody go on before all are there", function()
    local log = channel.new(math.huge)
    run(5, function(g)
      for round = 1, 20 do
        log:send(round)
        g:barrier()
        if g.rank == 1 then assert(#log == 5 * round) end
        g:barrier()
      end
    end)
  end)

  it("broadcast gives everybody root's value", function()
    assert.same({ "a b", "a b", "a b" }, run(3, function(g)
      local list = g:broadcast(g.rank == 2 and { "a", "b" } or nil, 2)
      return table.concat(list, " ")
    end))
    assert.same({ 7, 7 }, run(2, function(g) return g:broadcast(g.rank == 1 and 7 or nil) end))
    assert.same({ true, true }, run(2, function(g) return g:broadcast(nil) == nil end))
  end)

  it("scatter gives each its part of root's list, gather puts the parts together", function()
    assert.same({ "2 4 6", "nothing", "nothing" }, run(3, function(g)
      local part = g:scatter(g.rank == 3 and { { 1 }, { 2 }, { 3 } } or nil, 3)
      local list = g:gather(part[1] * 2)
      return list and table.concat(list, " ") or "nothing"
    end))
  end)

  it("allgather and alltoall give lists by rank", function()
    assert.same({ "x1 x2 x3", "x1 x2 x3", "x1 x2 x3" }, run(3, function(g) return table.concat(g:allgather("x" .. g.rank), " ") end))
    assert.same({ "11 21 31", "12 22 32", "13 23 33" }, run(3, function(g)
      local list = {}
      for i = 1, 3 do list[i] = g.rank * 10 + i end
      return table.concat(g:alltoall(list), " ")
    end))
  end)

  it("reduce gives the result to root, allreduce to all", function()
    assert.same({ "nil 24", "10 24", "nil 24", "nil 24" }, run(4, function(g)
      return tostring(g:reduce(g.rank, "+", 2)) .. " " .. g:allreduce(g.rank, "*")
    end))
  end)

  it("scan gives the result up to a rank, exscan below it", function()
    assert.same({ "1 nil", "3 1", "6 3", "10 6" }, run(4, function(g)
      return g:scan(g.rank, "+") .. " " .. tostring(g:exscan(g.rank, "+"))
    end))
    assert.same({ "a -", "aa a", "aaa aa" }, run(3, function(g) return g:scan("a", "..") .. " " .. (g:exscan("a", "..") or "-") end))
    assert.same({ "1 1.5", "2 3.0", "3 4.5" }, run(3, function(g) return table.concat(g:scan({ 1, 1.5 }, "+"), " ") end))
  end)

  it("the named ones fold as Lua does", function()
    local function folded(values, op)
      return run(#values, function(g) return g:allreduce(values[g.rank], op) end)[1]
    end
    assert.equal(math.mininteger, folded({ math.maxinteger, 1 }, "+"))
    assert.equal("integer", math.type(folded({ 1, 2, 3 }, "+")))
    assert.equal("float", math.type(folded({ 1, 2.0, 3 }, "+")))
    assert.equal(math.maxinteger, folded({ math.maxinteger, 2.0 ^ 53 }, "max"))
    assert.equal(2.0 ^ 63, folded({ math.maxinteger, 2.0 ^ 63 }, "max"))
    assert.equal(math.mininteger, folded({ math.mininteger, -2.0 ^ 62 }, "min"))
    assert.equal(-math.huge, folded({ 3, -math.huge, 1 }, "min"))
    assert.equal(0x0c, folded({ 0x0f, 0x1c }, "band"))
    assert.equal(0x1f, folded({ 0x0f, 0x1c }, "bor"))
    assert.equal(0x13, folded({ 15.0, 0x1c }, "bxor"))
    assert.is_false(folded({ true, false }, "and"))
    assert.is_true(folded({ true, false }, "or"))
    assert.equal("abc", folded({ "a", "b", "c" }, ".."))
  end)

  it("lists are folded element by element", function()
    local function folded(values, op)
      return run(#values, function(g) return g:allreduce(values[g.rank], op) end)
    end
    assert.same(all(3, { 6, 60 }), folded({ { 1, 10 }, { 2, 20 }, { 3, 30 } }, "+"))
    assert.same(all(2, { 2.5, 4.0 }), folded({ { 2.5, 1.0 }, { 1.0, 4.0 } }, "max"))
    assert.same(all(2, { 3.5, 5 }), folded({ { 1, 2 }, { 2.5, 3 } }, "+"))
    assert.same(all(2, { true, false }), folded({ { true, false }, { true, true } }, "and"))
    assert.same(all(2, {}), folded({ {}, {} }, "+"))
    assert.same(all(2, { 1, 3 }), folded({ { 3.0, 3 }, { 1, 3 } }, "band"))
  end)

  it("the result of a list can be written into a table that is there", function()
    assert.same({ "true 11 22 33", "true 11 22 33" }, run(2, function(g)
      local into = g.rank == 1 and { 0, "x", {} } or {}
      local result = g:allreduce({ g.rank == 1 and 1 or 10, g.rank == 1 and 2 or 20, g.rank == 1 and 3 or 30 }, "+", into)
      return tostring(result == into) .. " " .. table.concat(into, " ")
    end))
    assert.has_error(function() collective.group(1)[1]:allreduce(1, math.max, {}) end)
  end)

  it("views of buffers are folded as lists are, into views", function()
    assert.same({ "6.0 7.5 6.0 x", "6.0 7.5 6.0 x", "6.0 7.5 6.0 x" }, run(3, function(g)
      local buffer = require "mare.buffer"
      local v = buffer.new(16):doubles():put(1, { g.rank, 2.5 })
      local sum = g:allreduce(v, "+")
      local into = buffer.new(16):doubles()
      assert(g:allreduce(v:buffer():seal():doubles(), "+", into) == into)
      local whole = g:scan(buffer.new(8):integers():put(1, { g.rank }), "+")
      assert(whole[1] == g.rank * (g.rank + 1) // 2 and g:allreduce(sum, "max", {})[2] == 7.5)
      return ("%s %s %s %s"):format(sum[1], sum[2], into[1], sum:buffer() and "x")
    end))
    local g, buffer = collective.group(1)[1], require "mare.buffer"
    local v = buffer.new(16):doubles()
    assert.has_error(function() g:allreduce(v, "band") end)
    assert.has_error(function() g:allreduce(buffer.new(8):view "f", "+") end)
    assert.has_error(function() g:allreduce(v, "+", buffer.new(16):doubles():buffer():seal():doubles()) end)
    assert.has_error(function() g:allreduce(v, "+", buffer.new(8):doubles()) end)
    assert.has_error(function() g:allreduce(v, "+", buffer.new(16):integers()) end)
    assert.has_error(function() g:allreduce(buffer.new(16), "+") end)
    assert.equal(0.0, g:allreduce(v, "+")[2])
  end)

  it("a function gets lower ranks on its left, and the brackets are the same in every run", function()
    local function brackets(n)
      return run(n, function(g) return g:allreduce(tostring(g.rank), function(a, b) return "(" .. a .. b .. ")" end) end)
    end
    for _ = 1, 20 do
      assert.same(all(8, "(((12)(34))((56)(78)))"), brackets(8))
      assert.same(all(5, "(((12)(34))5)"), brackets(5))
      assert.same(all(7, "(((12)(34))((56)7))"), brackets(7))
    end
    assert.same({ "1", "(12)", "((12)3)" }, run(3, function(g)
      return g:scan(tostring(g.rank), function(a, b) return "(" .. a .. b .. ")" end)
    end))
  end)

  it("a function may wait, and gets any values", function()
    assert.same({ "nil", "a1 a2 a3 a4", "nil", "nil" }, run(4, function(g)
      local list = g:reduce({ "a" .. g.rank }, function(a, b)
        mare.sleep(0.001)
        return table.move(b, 1, #b, #a + 1, a)
      end, 2)
      return list and table.concat(list, " ") or "nil"
    end))
  end)

  it("many follow each other, with members that are late at random", function()
    local sums = run(7, function(g)
      local sum = 0
      for i = 1, 300 do
        if math.random(20) == 1 then mare.sleep(math.random() * 0.002) end
        sum = sum + g:allreduce(i * g.rank, "+") + g:broadcast(g.rank == i % 7 + 1 and i or nil, i % 7 + 1)
        local list = g:allgather({ i, g.rank })
        for rank = 1, 7 do assert(list[rank][1] == i and list[rank][2] == rank) end
      end
      return sum
    end)
    assert.same(all(7, 29 * 300 * 301 // 2), sums)
  end)

  it("large lists go through, of every kind", function()
    local n = 20000
    assert.same(all(3, "ok"), run(3, function(g)
      local integers, floats, mixed = {}, {}, {}
      for i = 1, n do
        integers[i], floats[i] = i * g.rank, i / 2
        mixed[i] = i % 2 == 0 and i or i + 0.5
      end
      for _ = 1, 3 do
        local a, b, c = g:allreduce(integers, "+"), g:allreduce(floats, "+"), g:allreduce(mixed, "max")
        for i = 1, n do assert(a[i] == 6 * i and b[i] == 1.5 * i and c[i] == mixed[i] and math.type(c[i]) == math.type(mixed[i])) end
      end
      return "ok"
    end))
  end)

  it("move what can be moved to one, and refuse what would go to several", function()
    local members = collective.group(2)
    local inner = collective.group(1)[1]
    local handle = process.spawn(function(g) return g:scatter(nil).rank end, members[2])
    members[1]:scatter { 1, inner }
    assert.same({ true, 1 }, { handle:wait(LIMIT) })
    assert.has_error(function() return inner.rank end)
    local other = collective.group(1)[1]
    assert.has_error(function() members[1]:broadcast(other) end)
    assert.equal(1, other.rank)
  end)
end)

describe("a group fails, and wakes the rest, when a member", function()
  it("fails: its own error is the reason", function()
    local err = failure(4, function(g)
      if g.rank == 3 then error({ code = 7 }) end
      g:barrier()
    end)
    assert.equal(7, err.reason.code)
    assert.equal(3, err.rank)
    assert.truthy(err.message:find "^member 3 %(process #%d+ 'member 3'%) failed$")
    assert.truthy(err.traceback)
  end)

  it("is killed", function()
    local err = failure(3, function(g)
      if g.rank == 2 then process.self():kill() mare.sleep(1) end
      g:barrier()
    end)
    assert.equal(2, err.rank)
    assert.equal("killed", err.reason.kind)
  end)

  it("is killed while it waits for the others", function()
    local members, waits = collective.group(3), channel.new()
    local handles = {}
    for i = 1, 2 do
      handles[i] = process.spawn(function(g)
        waits:send(true)
        return g:allreduce({ 1, 2, 3 }, "+")
      end, members[i])
      waits:receive()
    end
    while handles[1]:status() ~= "waiting" do mare.sleep(0.001) end
    handles[1]:kill()
    local ok, err = handles[2]:wait(LIMIT)
    assert.is_false(ok)
    assert.equal("collective", err.kind)
    assert.has_error(function() members[3]:barrier() end)
  end)

  it("returns early", function()
    local err = failure(3, function(g) if g.rank ~= 2 then g:allreduce(1, "+") end end)
    assert.truthy(tostring(err):find "member 2 of 3 %(process #%d+ 'member 2'%) has left the group")
  end)

  it("is named in cause_rank", function()
    local err = failure(8, function(g) if g.rank ~= 5 then g:barrier() end end)
    assert.same({ 5, 5 }, { err.cause_rank, err.reason.cause_rank })
    assert.is_true(err.rank ~= 5)
    err = failure(3, function(g) if g.rank == 2 then error("mine", 0) end g:barrier() end)
    assert.same({ 2, 2 }, { err.rank, err.cause_rank })
    err = failure(2, function(g)
      if g.rank == 2 then collective.run(3, function(inner) if inner.rank == 3 then error("inside", 0) end inner:barrier() end) end
      g:barrier()
    end)
    assert.is_true(err.cause_rank <= 2)
    local members = collective.group(3)
    members[3]:leave()
    local _, reason = pcall(members[1].barrier, members[1])
    assert.equal(3, reason.cause_rank)
  end)

  it("leaves", function()
    local members = collective.group(2)
    members[2]:leave()
    assert.has_error(function() members[1]:barrier() end)
    assert.has_error(function() members[2]:barrier() end)
  end)

  it("calls another operation: the error names both", function()
    local err = failure(2, function(g)
      if g.rank == 1 then g:gather(1, 2) else g:reduce(1, "max", 2) end
    end)
    local text = tostring(err)
    assert.truthy(text:find "gather with root 2" and text:find "reduce by 'max' with root 2" and text:find "member 1" and text:find "member 2", text)
  end)

  it("calls the same one otherwise", function()
    failure(2, function(g) g:broadcast(1, g.rank) end)
    failure(2, function(g) g:allreduce(1, g.rank == 1 and "+" or "*") end)
    failure(2, function(g) g:allreduce(1, g.rank == 1 and "+" or function(a) return a end) end)
    failure(2, function(g) g:allreduce(g.rank == 1 and 1 or { 1 }, "+") end)
    local err = failure(2, function(g) g:allreduce(all(g.rank, 1), "+") end)
    assert.truthy(tostring(err):find "different lengths")
  end)

  it("waits no longer, for a deadline or a cancel", function()
    local err = failure(2, function(g)
      if g.rank == 2 then mare.sleep(3600) end
      process.deadline(0.05, g.barrier, g)
    end)
    assert.equal("deadline", err.reason.kind)
    local members = collective.group(2)
    local handle = process.spawn(function(g) g:barrier() end, members[2])
    handle:cancel()
    handle:wait(LIMIT)
    local ok, why = pcall(members[1].barrier, members[1])
    assert.is_false(ok)
    assert.equal("collective", why.kind)
  end)

  it("has an operation that fails", function()
    local err = failure(4, function(g) return g:allreduce(g.rank, function() error("can't add", 0) end) end)
    assert.equal("can't add", err.reason)
    err = failure(4, function(g) return g:scan(g.rank, function() error("can't add", 0) end) end)
    assert.equal("can't add", err.reason)
    failure(3, function(g) return g:reduce(g.rank, function() return coroutine.create(print) end) end)
  end)
end)

describe("a member", function()
  it("whose value can't be given may try again", function()
    assert.same({ "false 3", "false 3" }, run(2, function(g)
      local ok = pcall(g.allreduce, g, "x", "+")
      pcall(g.allgather, g, coroutine.create(print))
      pcall(g.alltoall, g, { 1, coroutine.create(print) })
      return tostring(ok) .. " " .. g:allreduce(g.rank, "+")
    end))
  end)

  it("is used by one fiber at a time, and stays while it is", function()
    local members = collective.group(2)
    local fiber = mare.fiber.spawn(members[1].barrier, members[1])
    mare.fiber.yield()
    local ok, err = pcall(members[1].barrier, members[1])
    assert.is_false(ok)
    assert.truthy(err:find "another fiber")
    assert.has_error(function() process.spawn(print, members[1]) end)
    members[2]:barrier()
    assert.is_true(fiber:wait(LIMIT))
  end)

  it("says what it takes", function()
    local g = collective.group(1)[1]
    assert.has_error(function() g:allreduce(1, "plus") end)
    assert.has_error(function() g:broadcast(1, 2) end)
    assert.has_error(function() g:scatter(5) end)
    assert.has_error(function() g:scatter { 1, 2 } end)
    assert.has_error(function() g:allreduce({ 1, "x" }, "+") end)
    assert.has_error(function() g:allreduce(1.5, "band") end)
    assert.has_error(function() g:allreduce({ 1.5 }, "band") end)
    assert.has_error(function() g:allreduce(1, "and") end)
    assert.has_error(function() return g.ranks end)
    assert.equal(1, g:allreduce(1, "+"))
  end)

  it("that nobody holds has left", function()
    local members = collective.group(2)
    members[2] = nil
    collectgarbage()
    collectgarbage()
    assert.has_error(function() members[1]:barrier() end)
  end)

  it("works in coroutines, comparators and metamethods", function()
    assert.same({ 6, 6, 6 }, run(3, function(g)
      local sum
      local co = coroutine.wrap(function()
        table.sort({ 2, 1 }, function(a, b)
          sum = sum or g:allreduce(g.rank, "+")
          return a < b
        end)
      end)
      co()
      return sum
    end))
  end)
end)

describe("collective.run", function()
  it("ends its members when the caller is ended", function()
    local log = channel.new(math.huge)
    local handle = process.spawn(function()
      run(2, function(g)
        log:send(process.self())
        if g.rank == 1 then mare.sleep(3600) end
        g:barrier()
      end)
    end)
    local members = { (log:receive(LIMIT)), (log:receive(LIMIT)) }
    handle:cancel()
    for _, member in ipairs(members) do assert.is_false((member:wait(LIMIT))) end
    assert.is_false((handle:wait(LIMIT)))
  end)

  it("can be nested", function()
    assert.same({ 3, 6 }, run(2, function(g)
      local inner = run(2, function(h, x) return h:allreduce(h.rank, "+") * x end, g.rank)
      return inner[1]
    end))
  end)
end)
