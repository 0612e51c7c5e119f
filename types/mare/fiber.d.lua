---@meta mare.fiber
-- luacheck: ignore 212 241

---Fibers: several threads of control in one process, which share its data and never run at the same time.
---@class mare.fiberlib
local fiberlib = {}

---A fiber. A value of its process, which can't be sent; the fiber doesn't need it to run on.
---@class mare.fiber
---@field id integer never used twice in a process
---@field name? string the name given to `spawn`
local fiber = {}

---@class mare.fiber.options
---@field main function
---@field args? { n?: integer, [integer]: any } arguments; with `n` they are `args[1]` to `args[n]`, nils among them; at most 250
---@field name? string for reports of failures and deadlocks
---@field daemon? boolean it keeps no process alive: it is ended when only such fibers are left

---Starts a fiber that calls `main` with the arguments. It begins when this one waits or yields; nothing is copied.
---
---Raises an error in a finaliser.
---@param main function
---@param ... any arguments
---@return mare.fiber
---@overload fun(options: mare.fiber.options): mare.fiber
function fiberlib.spawn(main, ...) end

---The fiber that calls; nil in the first fiber of a process.
---@return mare.fiber?
---@nodiscard
function fiberlib.self() end

---Lets the other fibers that are ready, and other processes, run first.
function fiberlib.yield() end

---Waits until a sibling calls `handle:wake()`, or until the fiber that has named this one as its relief waits.
function fiberlib.rest() end

---Names a resting fiber that is woken as soon as the caller waits or yields. Without a handle: takes that back.
---@param handle? mare.fiber
---@return boolean done the fiber rests; without a handle: it had not been woken
function fiberlib.relief(handle) end

---A table that belongs to the calling fiber alone, empty at first; the first fiber has one too.
---@return table
---@nodiscard
function fiberlib.storage() end

---How many fibers of this process have not ended, the first among them.
---@return integer
---@nodiscard
function fiberlib.count() end

---Waits for the end of the fiber: `true, results…`, or `false, error, traceback`, or `nil, "timeout"`.
---
---Any number of fibers may wait, also after the end. The values are the fiber's own, not copies. A fiber can't wait for itself.
---@param seconds? number not nan; nil or `math.huge`: without limit; 0 or less: only asks
---@return boolean|nil ok
---@return any result the first result, or the error as it was raised, or "timeout"
---@return any ... further results, or the traceback
function fiber:wait(seconds) end

---Cancels the fiber: it gets an error object (see mare.error) of kind "cancelled" where it waits, or where it waits next. It may catch that
---once to clean up, and ends at its next wait outside of `process.masked`. One that has not begun never does.
---It can't cancel the fiber that calls.
---@param reason? any the error's `reason`
---@return boolean alive false: it had ended already
function fiber:cancel(reason) end

---Wakes a fiber that rests.
---@return boolean rested
function fiber:wake() end

---What the fiber does at the moment.
---@return mare.status
---@nodiscard
function fiber:status() end

return fiberlib
