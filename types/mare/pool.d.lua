---@meta mare.pool
-- luacheck: ignore 212 241

---Warm processes that hold something, lent to whoever needs it.
---@class mare.poollib
local pool = {}

---@class mare.pool.options
---@field make fun(...: any): any gives the thing, in the process that will hold it
---@field args? { n?: integer, [integer]: any }
---@field close? fun(thing: any)
---@field check? fun(thing: any): any true: it is well
---@field size? integer `process.workers()` by default
---@field least? integer `size`, or 0 where `idle` is given
---@field idle? number seconds
---@field max_age? number seconds
---@field max_uses? integer loans
---@field check_after? number seconds without use, 30 by default
---@field wait? number seconds for `call` and `take`
---@field name? string
---@field memory? number|mare.budget as in spawn

---Waits until `least` things are made; raises kind `"pool"` when one can't be.
---@param options mare.pool.options
---@return mare.pool
function pool.new(options) end

---A value that can be sent. To be closed.
---@class mare.pool
---@field process mare.handle its own process
local object = {}

---`f(thing, …)` with the next thing that is free.
---@param f fun(thing: any, ...: any): ...
---@param ... any
---@return any ... results
function object:call(f, ...) end

---@param seconds? number
---@return mare.pool.loan? loan
---@return "timeout"?
function object:take(seconds) end

---@return { size: integer, free: integer, lent: integer, starting: integer, checking: integer, waiting: integer, most_waiting: integer, taken: integer, waited: number, made: integer, failed: integer, replaced: integer }
function object:statistics() end

---Lends nothing more and waits until all is given back, closed and ended.
---@param seconds? number
---@return boolean? ended
---@return "timeout"?
function object:close(seconds) end

---A thing on loan, of the process that took it; it can't be sent. To be closed.
---@class mare.pool.loan
local loan = {}

---@param f fun(thing: any, ...: any): ...
---@param ... any
---@return any ... results
function loan:call(f, ...) end

function loan:give() end

return pool
