---@meta mare.buffer
-- luacheck: ignore 212 241

---Bytes outside of all heaps: sealed, they are shared between processes; open, they change, grow, and move.
---@class mare.bufferlib
local bufferlib = {}

---@class mare.buffer
---@operator len: integer
local buffer = {}

---@alias mare.numbertype '"b"'|'"B"'|'"h"'|'"H"'|'"i"'|'"I"'|'"l"'|'"L"'|'"j"'|'"J"'|'"f"'|'"d"'|'"n"'

---A buffer as a list of numbers of one type. It isn't sent; the buffer is.
---@class mare.bufferview
---@field [integer] number
---@operator len: integer
local view = {}

---An open buffer: empty, of so many zeros, or with what a string or buffer holds.
---@param from? integer|string|mare.buffer
---@return mare.buffer
---@nodiscard
function bufferlib.new(from) end

---A sealed buffer with all of them, one behind the other.
---@param first string|number|mare.buffer
---@param ... string|number|mare.buffer
---@return mare.buffer
---@nodiscard
function bufferlib.of(first, ...) end

---A file, or a part of it, as a sealed buffer. Who makes the file shorter ends the program (SIGBUS).
---@param path string
---@param offset? integer from 0
---@param length? integer to the end without it
---@return mare.buffer? buffer
---@return string? message
---@return string? code
---@nodiscard
function bufferlib.map(path, offset, length) end

---@param value any
---@return '"open"'|'"sealed"'|false
---@nodiscard
function bufferlib.is(value) end

---@return integer bytes
---@nodiscard
function buffer:len() end

---@param i? integer
---@param j? integer
---@return integer ...
---@nodiscard
function buffer:byte(i, j) end

---@param i? integer
---@param j? integer
---@return string
---@nodiscard
function buffer:sub(i, j) end

---A sealed buffer with that part of the bytes; nothing is copied.
---@param i? integer
---@param j? integer
---@return mare.buffer
---@nodiscard
function buffer:slice(i, j) end

---@param text string|mare.buffer plain
---@param init? integer
---@return integer? first
---@return integer? last
---@nodiscard
function buffer:find(text, init) end

---As string.unpack.
---@param format string
---@param position? integer
---@return any ... values, and the position behind them
function buffer:unpack(format, position) end

---@return boolean
---@nodiscard
function buffer:sealed() end

---The i-th number of a buffer of numbers of that type; nil: there is none.
---@param type mare.numbertype
---@param i integer
---@return number?
---@nodiscard
function buffer:get(type, i) end

---@param type mare.numbertype
---@param i integer
---@param ... number for that place and those behind it
---@return mare.buffer self
function buffer:set(type, i, ...) end

---@return mare.bufferview
---@nodiscard
function buffer:doubles() end

---Of 64 bits.
---@return mare.bufferview
---@nodiscard
function buffer:integers() end

---@param type mare.numbertype
---@return mare.bufferview
---@nodiscard
function buffer:view(type) end

---@param ... string|number|mare.buffer
---@return mare.buffer self
function buffer:append(...) end

---Appends what string.pack would give.
---@param format string
---@param ... any
---@return mare.buffer self
function buffer:pack(format, ...) end

---Puts that, or its part from i to j, over what is there.
---@param position integer
---@param what string|number|mare.buffer
---@param i? integer
---@param j? integer
---@return mare.buffer self
function buffer:put(position, what, i, j) end

---@param byte integer 0 to 255
---@param i? integer
---@param j? integer
---@return mare.buffer self
function buffer:fill(byte, i, j) end

---@param bytes integer what is new of it is zero
---@return mare.buffer self
function buffer:resize(bytes) end

---@param bytes integer so many more
---@return mare.buffer self
function buffer:reserve(bytes) end

---Makes it empty; the memory is kept.
---@return mare.buffer self
function buffer:clear() end

---From now on it never changes.
---@return mare.buffer self
function buffer:seal() end

---@return mare.buffer
---@nodiscard
function view:buffer() end

---The letter it was made with.
---@return string
---@nodiscard
function view:type() end

---@param i? integer
---@param j? integer
---@return number[]
---@nodiscard
function view:table(i, j) end

---Numbers of the list, or those from first to last, stand in the view from i on.
---@param i integer
---@param list number[]
---@param first? integer
---@param last? integer
---@return mare.bufferview self
function view:put(i, list, first, last) end

---@param number number
---@param i? integer
---@param j? integer
---@return mare.bufferview self
function view:fill(number, i, j) end

return bufferlib
