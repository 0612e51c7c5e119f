--[[
mare.oil.idioms: what programs written for Lua 5.1 and 5.2 expect of Lua and can have without harm: names that are gone, and arguments of
math.random with
fractions. What is there already stays. `module` and `setfenv` can't be given: see docs/oil.md.
]]
-- luacheck: ignore 122 142 143
local absent = {
  unpack = table.unpack,
  loadstring = load,
}
for name, f in pairs(absent) do
  if rawget(_G, name) == nil then rawset(_G, name, f) end
end

table.getn = table.getn or function(t) return #t end
table.maxn = table.maxn or function(t)
  local most = 0
  for k in pairs(t) do
    if type(k) == "number" and k > most then most = k end
  end
  return most
end
math.pow = math.pow or function(a, b) return a ^ b end
math.mod = math.mod or math.fmod
string.gfind = string.gfind or string.gmatch

local random = math.random
local function whole(v)
  if math.type(v) == "float" then return math.floor(v) end
  return v
end

function math.random(low, high)
  if low == nil then return random() end
  if high == nil then return random(whole(low)) end
  return random(whole(low), whole(high))
end
