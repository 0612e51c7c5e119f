--[[
spec.support.oil.checks: what OiL's tests check with, under the names of LOOP's loop.test.checks. A check is a function(value) -> true | false, text.
]]
local checks = {}

local function show(v) return type(v) == "string" and ("%q"):format(v) or tostring(v) end

function checks.assert(value, check)
  local fine, why = check(value)
  if not fine then error("check failed: " .. tostring(why), 2) end
end

function checks.is(expected)
  return function(v) return rawequal(v, expected), ("%s expected, got %s"):format(show(expected), show(v)) end
end

function checks.equal(expected)
  return function(v) return v == expected, ("%s expected, got %s"):format(show(expected), show(v)) end
end

local function like(v, pattern, exact, path)
  if type(pattern) == "function" then return pattern(v) end
  if type(pattern) ~= "table" then return v == pattern, ("%s: %s expected, got %s"):format(path, show(pattern), show(v)) end
  if type(v) ~= "table" then return false, ("%s: a table expected, got %s"):format(path, show(v)) end
  for key, inner in pairs(pattern) do
    local fine, why = like(v[key], inner, exact, path .. "." .. tostring(key))
    if not fine then return false, why end
  end
  for key in pairs(exact and v or {}) do
    if pattern[key] == nil then return false, ("%s: unexpected field %s"):format(path, tostring(key)) end
  end
  return true
end

--- A table that has the fields of another; { isomorphic = true }: and no more.
function checks.like(pattern, _, options)
  return function(v) return like(v, pattern, options and options.isomorphic, "value") end
end

return checks
