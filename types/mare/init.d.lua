---@meta mare
-- luacheck: ignore 212 241

---Isolated Lua processes on all cores, and channels between them.
---@class mare
---@field version string version of the library
---@field process mare.processlib what `require "mare.process"` gives
---@field channel mare.channellib what `require "mare.channel"` gives
---@field select fun(cases: mare.cases): ... what `require "mare.select"` gives
---@field fiber mare.fiberlib what `require "mare.fiber"` gives
---@field timer mare.timerlib what `require "mare.timer"` gives
---@field file mare.filelib what `require "mare.file"` gives
---@field subprocess mare.subprocesslib what `require "mare.subprocess"` gives
---@field signal mare.signallib what `require "mare.signal"` gives
local mare = {}

---Seconds of a clock that never jumps, of the same origin in all processes. Only differences mean something.
---@return number seconds
---@nodiscard
function mare.clock() end

---Waits so many seconds, at least. 0 or less lets others run. Raises an error in a finaliser unless 0 or less.
---@param seconds number not nan; `math.huge`: for ever
function mare.sleep(seconds) end

return mare
