---@meta mare.json
-- luacheck: ignore 212 241

---Values as JSON, and JSON as values.
---@class mare.jsonlib
---@field null lightuserdata null, the same in every process
local json = {}

---@class mare.json.writing
---@field sorted? boolean names of objects in order
---@field indent? integer spaces a level, 0 to 16; 0: all on one line
---@field empty? '"array"'|'"object"' what an empty table without a mark is
---@field nonfinite? '"error"'|'"null"' NaN and infinity
---@field invalid? '"error"'|'"latin1"'|'"mark"' bytes that are no UTF-8
---@field depth? integer arrays and objects in each other: 1000, up to 100000
---@field into? mare.buffer where the text is appended

---@class mare.json.reading
---@field null? any what null becomes
---@field null_as_nil? boolean null becomes nil
---@field big? '"float"'|'"string"'|'"error"' integers of more than 64 bits
---@field duplicates? '"last"'|'"first"'|'"error"' members of one name
---@field depth? integer arrays and objects in each other: 1000, up to 100000

---The text of a value. Raises an error that names the place of what can't be written.
---@param value any
---@param options? mare.json.writing
---@return string|mare.buffer text
---@nodiscard
function json.encode(value, options) end

---@param text string|mare.buffer
---@param options? mare.json.reading
---@return any value
---@return string? message what is wrong, with line and column
---@nodiscard
function json.decode(text, options) end

---Values that come one a line, and the numbers of their lines.
---@param reader string|mare.buffer|table|userdata|fun(): string?, string?
---@param options? mare.json.reading
---@return fun(): any, integer?
---@nodiscard
function json.lines(reader, options) end

---The table, marked as an array.
---@generic T: table
---@param table? T
---@return T
function json.array(table) end

---The table, marked as an object.
---@generic T: table
---@param table? T
---@return T
function json.object(table) end

return json
