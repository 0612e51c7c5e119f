---@meta mare.log
-- luacheck: ignore 212 241

---The log of the program; see docs/log.md.
---@class mare.loglib
local log = {}

---@alias mare.log.level "trace"|"debug"|"info"|"warn"|"error"|"off"

---Writes a line, if the level is on. Never waits; values never make it fail.
---@param message any a string; else as tostring shows it
---@param fields? table<string, any> names and values
function log.trace(message, fields) end

---@param message any
---@param fields? table<string, any>
function log.debug(message, fields) end

---@param message any
---@param fields? table<string, any>
function log.info(message, fields) end

---@param message any
---@param fields? table<string, any>
function log.warn(message, fields) end

---@param message any
---@param fields? table<string, any>
function log.error(message, fields) end

---The level of this process until now. A new one is that of all it spawns from now on, too; false: the program's.
---@param level? mare.log.level|false
---@return mare.log.level before
function log.level(level) end

---Would a line of that level be written?
---@param level mare.log.level
---@return boolean
---@nodiscard
function log.enabled(level) end

---@class mare.log.options
---@field level? mare.log.level of the program; MARE_LOG in the environment goes before it
---@field file? string a path; without it standard error
---@field format? "auto"|"text"|"colour"|"json"
---@field queue? integer bytes that may wait to be written; 1048576
---@field hup? boolean false: HUP does not open the file anew

---Settings of the whole program.
---@param options mare.log.options
---@return true? ok nil: the file can't be opened, and nothing was changed
---@return string? message
---@return string? code
function log.setup(options) end

---Calls f(...), and what this fiber logs meanwhile has these fields, too. Without f: until what is returned is closed.
---@param fields table<string, any>
---@param f? fun(...): ...
---@param ... any
---@return any ... what f gives; else a value for `local _ <close> =`
function log.with(fields, f, ...) end

---A copy of the fields that this fiber carries.
---@return table<string, any>
---@nodiscard
function log.fields() end

---Waits until what was logged before is written.
---@param seconds? number
---@return true? done
---@return "timeout"? message
function log.flush(seconds) end

---Opens the file anew: it has been moved away.
function log.reopen() end

---@class mare.log.statistics
---@field lines integer that were taken
---@field lost integer that found the queue full
---@field failed integer that could not be written
---@field queued integer bytes that wait

---@return mare.log.statistics
---@nodiscard
function log.statistics() end

return log
