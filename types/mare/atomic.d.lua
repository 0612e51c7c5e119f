---@meta mare.atomic
-- luacheck: ignore 212 241

---Integers that processes share, and what is done once.
---@class mare.atomiclib
local atomiclib = {}

---An integer. A value that travels by reference, can be compared and used as a key.
---@class mare.atomic
local atomic = {}

---What is done once: calling it gives the results. A value that travels by reference.
---@class mare.once
---@operator call: any
local once = {}

---@param n? integer default 0
---@return mare.atomic
---@nodiscard
function atomiclib.new(n) end

---The atomic of that name, made if there is none. It lives until it is dropped, or until the program ends.
---@param name string
---@param n? integer counts only for whoever makes it
---@return mare.atomic
function atomiclib.named(name, n) end

---Takes the name away: of an atomic, of what was done once, or of both.
---@param name string
---@return boolean dropped
function atomiclib.drop(name) end

---Calls `f` once in the program for that name; others wait for its end. All get its results, or its error.
---@overload fun(f: function): mare.once
---@param name string
---@param f function
---@param ... any arguments of the function
---@return any ... results
function atomiclib.once(name, f, ...) end

---@return integer
---@nodiscard
function atomic:get() end

---@param n integer
function atomic:set(n) end

---@param n? integer default 1
---@return integer sum
function atomic:add(n) end

---@param n? integer default 1
---@return integer difference
function atomic:sub(n) end

---@param n integer
---@return integer before
function atomic:exchange(n) end

---Sets it to `new` if it is `old`.
---@param old integer
---@param new integer
---@return boolean done
---@return integer? now when it was another one
function atomic:cas(old, new) end

---Raises it to n, if it is less.
---@param n integer
---@return integer now
function atomic:max(n) end

---Lowers it to n, if it is more.
---@param n integer
---@return integer now
function atomic:min(n) end

---Waits until it is another one than `old`.
---@param old integer
---@param seconds? number
---@return integer? now nil: timeout
---@return '"timeout"'? reason
function atomic:wait(old, seconds) end

---A case for `select`: it is ready when the value is another one than `old`.
---@param old integer
---@return userdata
---@nodiscard
function atomic:changing(old) end

---@return string? name
---@nodiscard
function atomic:name() end

---Was it done?
---@return boolean
---@nodiscard
function once:done() end

return atomiclib
