---@meta mare.parallel
-- luacheck: ignore 212 241

---Functions over lists and files on all cores.
---@class mare.parallellib
local parallel = {}

---@class mare.parallel.options
---@field workers? integer `process.workers()` by default
---@field chunk? integer items a worker takes at a time; measured by default
---@field progress? boolean|fun(done: integer, total: integer)

---The lines of a file, in place of a list.
---@class mare.parallel.lines
---@field path? string
---@field buffer? mare.buffer
---@field size integer bytes

---@alias mare.parallel.list any[]|userdata|mare.bufferview|mare.parallel.lines

---A list of the first results of `f(item, index)`. An error is raised as an error object of kind `"parallel"`, with `index`, `reason`, `traceback`.
---@param list mare.parallel.list
---@param f fun(item: any, index: integer): any
---@param options? mare.parallel.options
---@return any[]
function parallel.map(list, f, options) end

---The items for which `f(item, index)` is true.
---@param list mare.parallel.list
---@param f fun(item: any, index: integer): boolean
---@param options? mare.parallel.options
---@return any[]
function parallel.filter(list, f, options) end

---Calls `f(item, index)` for each item.
---@param list mare.parallel.list
---@param f fun(item: any, index: integer)
---@param options? mare.parallel.options
---@return integer count
function parallel.each(list, f, options) end

---All items folded, with the same brackets in every run; nil if there are none.
---@param list mare.parallel.list
---@param op "+"|"*"|".."|"max"|"min"|fun(a: any, b: any): any|{ start?: fun(): any, step: fun(sum: any, item: any, index: integer): any, merge: fun(a: any, b: any): any }
---@param options? mare.parallel.options
---@return any
function parallel.reduce(list, op, options) end

---Sorts the list in place.
---@param list any[]
---@param less? fun(a: any, b: any): boolean
---@param options? mare.parallel.options
---@return any[] list
function parallel.sort(list, less, options) end

---The lines of a file: workers read it, and get a line and its offset.
---@param path string
---@return mare.parallel.lines
---@nodiscard
function parallel.lines(path) end

return parallel
