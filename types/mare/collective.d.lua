---@meta mare.collective
-- luacheck: ignore 212 241

---Groups of processes that compute together, with MPI's operations.
---@class mare.collectivelib
local collective = {}

---@alias mare.collective.op "+"|"*"|"max"|"min"|"band"|"bor"|"bxor"|"and"|"or"|".."|fun(a: any, b: any): any

---@class mare.collective.options
---@field members integer how many
---@field main function|string what each calls, with its member in front of the arguments
---@field args? { n?: integer, [integer]: any }
---@field name? string the processes are called "name 1", "name 2" …
---@field memory? number|mare.budget as in spawn
---@field priority? string as in spawn
---@field heap? '"own"'|'"system"' as in spawn

---Calls `f(member, …)` in n processes. The first failure ends the rest and is raised as an error object of kind `"collective"`, with `reason`, `rank`, `cause_rank`, `traceback`.
---@param n integer
---@param f fun(g: mare.collective.member, ...: any): any
---@param ... any further arguments of f
---@return any[] results the first result of each, by rank
---@overload fun(options: mare.collective.options): any[]
function collective.run(n, f, ...) end

---Members, to be sent to the processes that use them.
---@param n integer
---@return mare.collective.member[]
---@nodiscard
function collective.group(n) end

---A member of a group. It belongs to one process at a time and moves in messages.
---@class mare.collective.member
---@field rank integer from 1
---@field size integer how many members the group has
local member = {}

---Waits until all have called it.
function member:barrier() end

---@param v? any counts in root only
---@param root? integer default 1
---@return any v root's
function member:broadcast(v, root) end

---@param list? any[] one value for each member; counts in root only
---@param root? integer default 1
---@return any part
function member:scatter(list, root) end

---@param v any
---@param root? integer default 1
---@return any[]? list all values by rank, in root
function member:gather(v, root) end

---@param v any
---@return any[] list all values by rank
function member:allgather(v) end

---@param list any[] one value for each member
---@return any[] list what each has for this one
function member:alltoall(list) end

---@param v any
---@param op mare.collective.op
---@param root? integer default 1
---@param into? table|userdata gets the elements of a list or view
---@return any? result in root
function member:reduce(v, op, root, into) end

---@param v any
---@param op mare.collective.op
---@param into? table|userdata gets the elements of a list or view
---@return any result
function member:allreduce(v, op, into) end

---@param v any
---@param op mare.collective.op
---@param into? table|userdata gets the elements of a list or view
---@return any result of ranks 1 to this one
function member:scan(v, op, into) end

---@param v any
---@param op mare.collective.op
---@param into? table|userdata gets the elements of a list or view
---@return any? result of the ranks below this one; nil in rank 1
function member:exscan(v, op, into) end

---Takes part in nothing more; what the others call fails.
function member:leave() end

return collective
