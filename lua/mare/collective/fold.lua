--[[
mare.collective.fold: reductions and scans by a function of the program. Who comes second to a node of the tree calls the function; whatever keeps
it from giving a value fails the group, so that nobody waits for it.
]]
local core = require "mare.collective.core"

local CONCAT = 10                              -- FOLD_CONCAT in src/channel/collective.h

local function concat(a, b) return a .. b end

local function scan(g, f)
  local sum = core.place(g, 1)
  for rank = 2, g.size do
    sum = f(sum, core.place(g, rank))
    core.place(g, rank, sum)
  end
  core.finish(g)
end

local function climb(g, f, value, step)
  if step == "scan" then return scan(g, f) end
  repeat
    local other, left = core.other(g)
    if left then value = f(other, value) else value = f(value, other) end
    step = core.carry(g, value)
  until not step
end

return function(g, value, f, what, fold, root)
  if fold == CONCAT then f = concat end
  local step = core.enter(g, value, what, fold, root)
  if step then
    local ok, err = pcall(climb, g, f, value, step)
    if not ok then
      core.fail(g, "failed in its operation: " .. tostring(err))
      error(err, 0)
    end
  end
  return core.result(g)
end
