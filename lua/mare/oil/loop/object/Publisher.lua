--[[
mare.oil.loop.object.Publisher: what is called of it is called of all its elements.
]]
local oo = require "mare.oil.loop"

local Publisher = oo.class()

function Publisher:__index(name)
  local own = rawget(Publisher, name)
  if own ~= nil then return own end
  return function(_, ...)
    for _, object in pairs(self) do
      local method = object[name]
      if method then method(object, ...) end
    end
  end
end

return Publisher
