-- allreduce BYTES ROUNDS [view]: 8 members add floats: of 8 bytes a single one, else a list, or a buffer. The result has a place, as in
-- bench/mpi/allreduce.c.
local mare = require "mare"
local measure = require "measure"
local collective = mare.collective

local count, rounds = measure.arg(1) // 8, measure.arg(2)

local function member(g, n, times, view)
  local value = g.rank - 1.0
  if n > 1 then
    value = {}
    for i = 1, n do value[i] = g.rank - 1.0 + i end
  end
  local result, start
  local into = n > 1 and table.move(value, 1, n, 1, {}) or nil
  if view then
    local buffer = require "mare.buffer"
    value, into = buffer.new(n * 8):doubles():put(1, value), buffer.new(n * 8):doubles()
  end
  for i = -times // 10, times do
    if i == 1 then
      g:barrier()
      start = mare.clock()
    end
    result = g:allreduce(value, "+", into)
  end
  g:barrier()
  assert((n > 1 and result[n] or result) == 28.0 + (n > 1 and 8 * n or 0))
  return mare.clock() - start
end

measure.report("rounds", rounds / collective.run(8, member, count, rounds, arg[3] == "view")[1], "/s")
