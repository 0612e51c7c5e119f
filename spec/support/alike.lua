-- alike: are two values the same? Tables by what is in them and by their metatables, where they point in circles, too; NaN is itself; an integer is
-- no float.
--
--   local alike = require "spec.support.alike"
--   assert.is_true(alike(a, b))
local function same(a, b, met)
  if math.type(a) ~= math.type(b) or type(a) ~= type(b) then return false end
  if type(a) ~= "table" then return a == b or a ~= a and b ~= b end
  if met[a] then return met[a] == b end
  met[a] = b
  if getmetatable(a) ~= getmetatable(b) then return false end
  for k, v in next, a do
    if not same(v, rawget(b, k), met) then return false end
  end
  for k in next, b do
    if rawget(a, k) == nil then return false end
  end
  return true
end

return function(a, b) return same(a, b, {}) end
