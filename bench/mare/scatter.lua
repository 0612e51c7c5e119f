-- scatter RECEIVERS ITEMS ROUNDS: bench/luaproc/scatter.lua with mare.collective: the sender is a member that keeps nothing.
local mare = require "mare"
local measure = require "measure"

local receivers, items, rounds = measure.arg(1), measure.arg(2), measure.arg(3)

local function member(g, count, times)
  local list, n, received, start = {}, g.size - 1, 0, nil
  for i = 1, g.rank == 1 and count or 0 do list[i] = i end
  for i = -(times // 10), times do
    if i == 1 then
      g:barrier()
      start = mare.clock()
    end
    local parts
    if g.rank == 1 then
      parts = { {} }
      for k = 1, n do parts[k + 1] = table.move(list, (k - 1) * count // n + 1, k * count // n, 1, {}) end
    end
    received = received + #g:scatter(parts)
  end
  g:barrier()
  local seconds = mare.clock() - start
  assert(g:allreduce(received, "+") == count * (times + times // 10 + 1), "items were lost")
  return seconds
end

measure.report("scatters", rounds / mare.collective.run(receivers + 1, member, items, rounds)[1], "/s")
