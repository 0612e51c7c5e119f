--[[
mare.oil.loop.compiler.Arguments: options of a command line. The fields of the object are the options with their defaults, whose types the arguments
become; a function is called with (object, name, value). `_optpat` is the pattern of an option: name, "=" or "", value; `_alias` other names.

  local index, err = args(...)       -- where the arguments begin that are no options
]]
local oo = require "mare.oil.loop"

local Arguments = oo.class { _optpat = "^%-(%-?%w+)(=?)(.-)$" }

local function value_of(default, text)
  if type(default) == "number" then return tonumber(text) end
  if type(default) == "boolean" then return text ~= "false" and text ~= "no" end
  return text
end

local function take(self, name, value)
  local default = self[name]
  if type(default) == "function" then return default(self, name, value) end
  if type(default) == "table" then
    default[#default + 1] = value
    return
  end
  local result = value_of(default, value)
  if result == nil then return ("invalid value for option '%s', got '%s'"):format(name, value) end
  self[name] = result
end

function Arguments:__call(...)
  local count, i = select("#", ...), 1
  while i <= count do
    local name, sign, value = (select(i, ...)):match(self._optpat)
    if not name then break end
    name = self._alias and self._alias[name] or name
    local default = self[name]
    if default == nil then return nil, ("unknown option '%s'"):format(name) end
    if sign == "" then
      if type(default) == "boolean" then
        value = value ~= "" and value or "true"
      elseif value == "" then
        i = i + 1
        value = select(i, ...)
        if value == nil then return nil, ("missing value for option '%s'"):format(name) end
      end
    end
    local err = take(self, name, value)
    if err then return nil, err end
    i = i + 1
  end
  return i
end

return Arguments
