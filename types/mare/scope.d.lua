---@meta mare.scope
-- luacheck: ignore 212 241

---What a function that `process.scope` calls begins processes and fibers with. It can't be sent.
---@class mare.scope
local scope = {}

---A process of the scope; the caller owns it.
---@param main function|string
---@param ... any arguments
---@return mare.handle
---@overload fun(self: mare.scope, options: mare.spawn.options): mare.handle
function scope:spawn(main, ...) end

---A fiber of the scope.
---@param main function
---@param ... any arguments
---@return mare.fiber
---@overload fun(self: mare.scope, options: mare.fiber.options): mare.fiber
function scope:fiber(main, ...) end

---Calls `f(item, index)` for each item in a process of its own, and waits for all.
---@param list any[]
---@param f fun(item: any, index: integer): any
---@param options? { at_most?: integer } how many at a time; `process.workers()` by default
---@return any[] results the first result of each, in the order of the items
function scope:map(list, f, options) end

---Calls `f(scope, …)`. All that was begun with the scope has ended when this returns. The first failure ends the rest and is raised as an error object of
---kind `"scope"`: `reason` is the error itself, `traceback` where it was raised, `scope` where the scope stands.
---@param f fun(scope: mare.scope, ...: any): ...
---@param ... any further arguments of f
---@return any ... results of f
local function run(f, ...) end

return run
