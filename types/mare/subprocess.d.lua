---@meta mare.subprocess
-- luacheck: ignore 212 241

---Other programs.
---@class mare.subprocesslib
local subprocess = {}

---A program that was started. Can be sent and selected; its pipes stay.
---@class mare.subprocess
---@field pid integer
---@field stdin? mare.connection
---@field stdout? mare.connection
---@field stderr? mare.connection
local handle = {}

---@class mare.subprocess.options
---@field [integer] string|number the program and its arguments
---@field cwd? string
---@field env? table<string, string|number|false> changes; false removes
---@field stdin? '"pipe"'|'"inherit"'|'"null"'
---@field stdout? '"pipe"'|'"inherit"'|'"null"'
---@field stderr? '"pipe"'|'"inherit"'|'"null"'|'"stdout"'

---@class mare.subprocess.run: mare.subprocess.options
---@field input? string|mare.buffer
---@field timeout? number seconds; then the group is killed

---@class mare.subprocess.result
---@field code? integer exit code
---@field signal? string name of the signal that ended it
---@field out? string
---@field err? string

---Runs a program to its end.
---@param options mare.subprocess.run
---@return mare.subprocess.result? result
---@return string? message
---@return string? code "ENOENT" …; nil after the timeout
---@return mare.subprocess.result? partial after the timeout: what there was
function subprocess.run(options) end

---Starts a program, with three pipes unless the options say otherwise.
---@param options mare.subprocess.options
---@return mare.subprocess? handle
---@return string? message
---@return string? code
function subprocess.spawn(options) end

---@param seconds? number
---@return { code?: integer, signal?: string }? result
---@return string? message
---@return string? code
function handle:wait(seconds) end

---Sends a signal to its process group.
---@param signal? string|integer "TERM"
---@return true? sent
---@return string? message
---@return string? code "ESRCH": it has ended
function handle:kill(signal) end

return subprocess
