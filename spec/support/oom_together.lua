-- Works for src/module/oom_test.c, see oom.lua: computing together. Returns what ends the pool.
local work, ok = ...
local mare = require "mare"
local buffer, fiber, process = mare.buffer, mare.fiber, mare.process
local PATIENCE <const> = 10

-- Operations of one member in turn; a value that found no memory leaves the group, so that the other doesn't wait.
local function member(g)
  local sum = g:allreduce({ g.rank, 2, 3.5 }, "+")[1] + #g:allgather { g.rank } + g:alltoall({ 10, 20 })[1] + g:scan(g.rank, "+")
  g:barrier()
  sum = sum + g:allreduce({ g.rank }, function(a, b) return { a[1] + b[1] } end)[1]
  sum = sum + g:allreduce(require "mare.buffer".new(8):integers(), "+")[1]
  return sum + #g:broadcast(("x"):rep(100))
end
-- A fiber that found no memory before it could call `leave` has its member until the collector ends it; the deadline is for who waits meanwhile.
local function in_group(g)
  local done, result = pcall(process.deadline, 5, member, g)
  if done then return result end
  g:leave()
  error(result, 0)
end

function work.collectives()
  local members = mare.collective.group(2)
  mare.collective.group(1)[1]:leave()          -- the method is there, also when there is no memory
  local other = fiber.spawn(in_group, members[2])
  local done, result = pcall(in_group, members[1])
  local there, e = other:wait(done and PATIENCE or 0.2)
  local waited
  for _, pair in ipairs { { done, result }, { there, e } } do
    local why = pair[2]
    if not pair[1] and (why == "timeout" or mare.error.is(why, "deadline")) then waited = why
    elseif not pair[1] and not mare.error.is(why, "collective") then error(why, 0) end
  end
  if waited then error(waited, 0) end              -- not for want of memory
  if not done then error(result, 0) end
end

-- What computing together raises are error objects, which tell of memory in their text.
local function told(f, ...)
  local results = table.pack(pcall(f, ...))
  if not results[1] then error(tostring(results[2]), 0) end
  return table.unpack(results, 2, results.n)
end

local function twice(x) return 2 * x end

function work.parallel()
  local list = { 5, 3, 4, 1, 2 }
  assert(told(mare.parallel.map, list, twice, { workers = 2, chunk = 2 })[5] == 4)
  assert(told(mare.parallel.reduce, list, "+", { workers = 2 }) == 15)
  local some = told(mare.parallel.filter, buffer.new(32):seal():integers(), function(x) return x == 0 end, { workers = 1 })
  assert(#some == 4)
end

function work.pipelines()
  local sum = 0
  for _, v in ipairs(told(function() return mare.pipeline.new({ twice }):list { 1, 2, 3 } end)) do sum = sum + v end
  assert(sum == 12)
end

local lender
function work.pools()
  lender = lender or told(mare.pool.new, { size = 1, make = function() return { n = 1 } end })
  local p = lender
  assert(told(p.call, p, function(held) return held.n end) == 1)
  told(function()
    local loan <close> = ok(p:take(PATIENCE))
    assert(loan:call(function(held) return held.n end) == 1)
  end)
end

return function() if lender then lender:close() end end
