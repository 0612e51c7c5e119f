--[[
mare.oil.properties: oil.properties, tables that look up what they lack in a parent, else in defaults: Properties(parent, defaults).
]]
local oo = require "mare.oil.loop"

local Properties = oo.class()
local rest = setmetatable({}, { __mode = "k" })

function Properties.__new(class, parent, defaults)
  local self = setmetatable({}, class)
  rest[self] = { parent, defaults }
  return self
end

function Properties:__index(key)
  local parent, defaults = rest[self][1], rest[self][2]
  local value = parent and parent[key]
  if value == nil and defaults then value = defaults[key] end
  if value ~= nil then rawset(self, key, value) end
  return value
end

return Properties
