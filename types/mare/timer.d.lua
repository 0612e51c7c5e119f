---@meta mare.timer
-- luacheck: ignore 212 241

---Timers: moments to wait for.
---@class mare.timerlib
local timerlib = {}

---A timer. A value that can be sent; several processes and fibers can wait for the same one.
---@class mare.timer
local timer = {}

---A timer that is due once, so many seconds from now. With a function, a new fiber waits for it and then calls the function.
---@param seconds number 0 to 9e9
---@param f? function
---@param ... any arguments of the function
---@return mare.timer
function timerlib.after(seconds, f, ...) end

---A timer that is due again and again at equal distances, the first time so many seconds from now. With a function, a new fiber
---calls that each time, until the timer is cancelled.
---@param seconds number 1e-6 to 9e9
---@param f? function
---@param ... any arguments of the function
---@return mare.timer
function timerlib.every(seconds, f, ...) end

---Waits until the timer is due. One that is due once stays due: everybody gets 1. Of a repeated one each moment is given to one of
---those who wait; the result says how many have passed since somebody was last told.
---
---Raises an error in a finaliser when it would have to wait.
---@param seconds? number not nan; nil or `math.huge`: without limit; 0 or less: only asks
---@return integer? moments nil: timeout or cancelled
---@return '"timeout"'|'"cancelled"'|nil reason
function timer:wait(seconds) end

---Ends the timer, unless it was due once and for all: who waits gets `nil, "cancelled"`; a function is called no more.
function timer:cancel() end

---Seconds until it is due; 0: it is.
---@return number? seconds nil: cancelled
---@nodiscard
function timer:left() end

return timerlib
