-- LuDO: values from bytes that may be anything. What could be read must be written, and from then on stay the same, as far as bytes can say that.
local core = require "mare.ludo.core"
local reference = require "mare.ludo.reference"
local Class = {}
Class.__index = Class
local far = setmetatable({}, { __mode = "k" })

local function resolve(text)
  local t = { text }
  far[t] = text
  return t
end
local world = { far, { [Class] = "Class" }, { Class = Class }, resolve, 1 << 22 }

return function(data)
  local r = reference.parse(data)
  if r then assert(reference.parse(reference.make(r.host, r.port, r.key, r.tls)).key == r.key) end
  local values = table.pack(pcall(core.values, ("\0"):rep(12) .. data, world))
  if not values[1] then return end
  local message = core.message(core.CALL, 1, world, table.unpack(values, 2, values.n))
  local again = table.pack(core.values(message, world))
  assert(again.n == values.n - 1, "there are more values, or fewer")
  assert(#core.message(core.CALL, 1, world, table.unpack(again, 1, again.n)) <= #message + 64, "it grows")
end
