--[[
mare.oil.assert: oil.assert, checks that raise OiL's exceptions.
]]
local Exception = require "mare.oil.Exception"

local assert = { Exception = Exception, TypeCheckers = {} }

--- The arguments; if the first is nil the second is raised.
function assert.results(...)
  if ... == nil then error(select(2, ...), 2) end
  return ...
end

--- Raises that `value` is no `description`.
function assert.illegal(value, description, name)
  error(Exception { "$value is a illegal $valuekind", error = name or "badvalue", value = tostring(value), valuekind = description }, 2)
end

local function matches(value, expected)
  if type(value) == expected then return true end
  local check = assert.TypeCheckers[expected]
  if check then return check(value) end
  for pattern, f in pairs(assert.TypeCheckers) do
    local word = expected:match(pattern)
    if word then return f(value, word) end
  end
  return false
end

--- Raises unless `value` is of a type of Lua's, or one of TypeCheckers.
function assert.type(value, expected, description, name)
  local is = matches(value, expected)
  if is then return is end
  error(Exception { "$value is a illegal $valuekind ($expectedtype expected, got $actualtype)", error = name or "badvalue", value = tostring(value),
                    valuekind = description, expectedtype = expected, actualtype = type(value) }, 2)
end

--- Raises an exception: { repository id or text, members }. OiL 0.4's.
function assert.exception(body)
  local id = type(body[1]) == "string" and body[1]:find "^IDL:" and body[1] or nil
  error(Exception(body, id), 2)
end

return assert
