--[[
mare.oil.loop.table: what LOOP adds to tables.
]]
local tables = {}

function tables.copy(from, to)
  to = to or {}
  for k, v in pairs(from) do to[k] = v end
  return to
end

function tables.clear(t)
  for k in pairs(t) do t[k] = nil end
  return t
end

--- A table that asks `f` once for what it lacks.
function tables.memoize(f, mode)
  return setmetatable({}, { __mode = mode, __index = function(self, key)
    local value = f(key)
    if value ~= nil then rawset(self, key, value) end
    return value
  end })
end

return tables
