---@meta mare.file
-- luacheck: ignore 212 241

---Files and folders, without holding a worker.
---
---All functions wait, and give `nil, message, code` when they fail; with `seconds`, `nil, "timeout"`.
---@class mare.filelib
local filelib = {}

---An open file. Sent, it moves: the sender's raises errors from then on. One call at a time: else `nil, message, "EBUSY"`.
---@class mare.file
local file = {}

---@class mare.filestat
---@field type '"file"'|'"directory"'|'"link"'|'"pipe"'|'"socket"'|'"character device"'|'"block device"'
---@field size integer bytes
---@field modified number seconds since 1970
---@field accessed number
---@field changed number
---@field mode integer permission bits
---@field user integer
---@field group integer
---@field device integer
---@field inode integer
---@field links integer

---The whole content.
---@param path string
---@param seconds? number
---@return string? content
---@return string? message
---@return string? code "ENOENT", "EACCES", "ENOTSUP": no file …
function filelib.read(path, seconds) end

---The same as a buffer, without a copy.
---@param path string
---@param seconds? number
---@return mare.buffer? content sealed
---@return string? message
---@return string? code
function filelib.read_buffer(path, seconds) end

---Makes the file, or replaces or continues it.
---@param path string
---@param data string|mare.buffer
---@param how? '"append"'
---@param seconds? number
---@return true? written
---@return string? message
---@return string? code "ENOSPC" …
function filelib.write(path, data, how, seconds) end

---@param path string
---@param mode? '"r"'|'"w"'|'"a"'|'"r+"'|'"w+"'|'"a+"'|'"wx"'
---@param seconds? number
---@return mare.file? file
---@return string? message
---@return string? code
---@nodiscard
function filelib.open(path, mode, seconds) end

---A new file that nobody else can read, open for reading and writing.
---@param prefix? string of its path; without it in TMPDIR or /tmp
---@param seconds? number
---@return mare.file? file
---@return string path or message
---@return string? code
function filelib.temp(prefix, seconds) end

---@param path string
---@param about? '"link"' of a link itself, not of what it points to
---@param seconds? number
---@return mare.filestat? stat
---@return string? message
---@return string? code
---@nodiscard
function filelib.stat(path, about, seconds) end

---@param path string
---@param seconds? number
---@return string[]? names in the order of their bytes
---@return string[]|string types, or the message
---@return string? code
---@nodiscard
function filelib.list(path, seconds) end

---@param path string
---@param how? '"parents"' makes those too; a directory that is there is fine
---@param seconds? number
---@return true? made
---@return string? message
---@return string? code
function filelib.mkdir(path, how, seconds) end

---@param path string a file, a link or an empty directory
---@param how? '"all"' with everything in it; nothing there is fine
---@param seconds? number
---@return true? removed
---@return string? message
---@return string? code
function filelib.remove(path, how, seconds) end

---@param from string
---@param to string
---@param seconds? number
---@return true? renamed
---@return string? message
---@return string? code
function filelib.rename(from, to, seconds) end

---@param format? integer|'"l"'|'"L"'|'"a"' a count of bytes, a line, a line with its end, all; nothing: what is there
---@param seconds? number
---@return string? data
---@return string? message "end of file" …
---@return string? code "EOF" …
function file:read(format, seconds) end

---The same as a buffer.
---@param format? integer|'"l"'|'"L"'|'"a"'
---@param seconds? number
---@return mare.buffer? data sealed
---@return string? message
---@return string? code
function file:read_buffer(format, seconds) end

---@param format? integer|'"l"'|'"L"'
---@return fun(file: mare.file): string?
---@return mare.file
---@nodiscard
function file:lines(format) end

---@param data string|mare.buffer
---@param seconds? number
---@return true? written
---@return string? message
---@return string? code
function file:write(data, seconds) end

---@param whence? '"set"'|'"cur"'|'"end"'
---@param offset? integer
---@return integer? position
---@return string? message
---@return string? code
function file:seek(whence, offset) end

---Waits until everything is on the disk.
---@param seconds? number
---@return true? done
---@return string? message
---@return string? code
function file:sync(seconds) end

---@param seconds? number
---@return true? closed
---@return string? message
---@return string? code
function file:close(seconds) end

---@return string
---@nodiscard
function file:path() end

return filelib
