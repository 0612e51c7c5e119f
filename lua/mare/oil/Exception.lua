--[[
mare.oil.Exception: OiL's exceptions.

A table whose first element is its text, with `$field` where a field's value comes, or nothing; `error` is OiL's word for what happened
("badconnect", "timeout" …), `_repid` and the members are those of CORBA's exception. Nothing but this metatable makes them exceptions of OiL:
a servant may raise any table with `_repid`.
]]
local oo = require "mare.oil.loop"
local exception = require "mare.orb.exception"

local Exception = oo.class()

--- Exception{ "text $value", value = 3 }; the id of one of CORBA's may follow.
function Exception.__new(class, fields, repid)
  local self = oo.rawnew(class, type(fields) == "table" and fields or { fields })
  if repid then self._repid = repid end
  return self
end

local function expand(self, text)
  return (text:gsub("%$([%a_][%w_]*)", function(name)
    local value = self[name]
    if value == nil then return "<no " .. name .. ">" end
    return tostring(value)
  end))
end

function Exception:__tostring()
  local text = rawget(self, 1)
  local repid = rawget(self, "_repid")
  if type(text) == "string" and text ~= repid then return expand(self, text) end
  if repid then return exception.__tostring(self) end
  return type(text) == "string" and text or "unknown exception"
end

function Exception.__concat(a, b) return tostring(a) .. tostring(b) end

return Exception
