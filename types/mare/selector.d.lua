---@meta mare.selector

---Waits for the same things again and again; a wait costs what became ready, not how many cases there are. Belongs to the fiber that made it.
---@class mare.Selector
local Selector = {}

---Waits until a case is ready. Raises "interrupted!" and deadlock errors, as every wait.
---@param seconds? number limit; absent: none, 0: only look
---@return integer? index place of the case, or nil
---@return any ... its results, or "timeout"
function Selector:wait(seconds) end

---@param case mare.Channel|mare.Process|mare.Fiber|mare.Timer
---@return integer index
function Selector:add(case) end

---@param index integer of a case that was not removed yet; others raise
function Selector:remove(index) end

---@param cases table channels (to receive from), processes, fibers, timers
---@return mare.Selector
local function selector(cases) end

return selector
