---@meta mare.error
-- luacheck: ignore 212 241

---An error that mare has raised, or one of a program's own; it prints as one line, and can be joined to texts.
---@class mare.error
---@field kind "cancelled"|"killed"|"deadline"|"linked"|"scope"|string
---@field message? string a sentence
---@field reason? any what `cancel` was given; of "linked": the error of the process that failed
---@field where? string "file:line" where it was raised
---@field process? string in which process
---@field spawned_by? string who has spawned that
---@field [string] any
---@operator concat(any): string

---The errors' metatable, so it is the same class in every process.
---@class mare.errorlib
local errors = {}

---Makes an error. `where` and `process` are filled in.
---@param fields { kind: string, message?: string, reason?: any, [string]: any }
---@return mare.error
---@nodiscard
function errors.new(fields) end

---Is it such an error, and of this kind?
---@param value any
---@param kind? string
---@return boolean
---@nodiscard
function errors.is(value, kind) end

return errors
