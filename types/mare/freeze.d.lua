---@meta mare.freeze
-- luacheck: ignore 212 241

---Tables that never change again, in memory once for all processes. The module can be called: `freeze(value)`.
---@class mare.freezelib
---@overload fun(value: any): any
local freezelib = {}

---A frozen table: reads as the table did, also with `pairs`, `ipairs`, `#`, `table.concat`, `table.unpack`. It can be sent, and is the same one everywhere.
---@class mare.frozen: userdata
---@field [any] any

---Tables like the frozen one, deep, that can be changed. Other values are given back as they are.
---@param value any
---@return any
---@nodiscard
function freezelib.copy(value) end

---Is that a frozen table?
---@param value any
---@return boolean
---@nodiscard
function freezelib.is(value) end

---Bytes of all that was frozen together with it, outside all heaps.
---@param frozen mare.frozen
---@return integer bytes
---@nodiscard
function freezelib.size(frozen) end

return freezelib
