---@meta mare.dict
-- luacheck: ignore 212 241

---Dictionaries that processes share.
---@class mare.dictlib
local dictlib = {}

---@alias mare.key string|number|boolean

---A dictionary. A value that travels by reference, can be compared and used as a key.
---@class mare.dict
---@operator len: integer
local dict = {}

---What is ready when the value of a key has changed: alone, or in `select`. It stays in its process.
---@class mare.watch
local watch = {}

---@class mare.dictinfo
---@field entries integer those too whose time is over and that nobody has met since
---@field bytes integer
---@field limit? integer
---@field hits integer
---@field misses integer
---@field evicted integer
---@field expired integer
---@field waiting integer fibers that wait for a key; 1000 means that many or more

---A new dict without a name. It lives as long as somebody has it.
---@param options? { limit: integer? } limit: bytes
---@return mare.dict
---@nodiscard
function dictlib.new(options) end

---The dict of that name, made if there is none. It lives until it is dropped, or until the program ends.
---
---Raises an error when there is one with another limit.
---@param name string
---@param options? { limit: integer? }
---@return mare.dict
function dictlib.open(name, options) end

---The dict of that name, if there is one.
---@param name string
---@return mare.dict?
---@nodiscard
function dictlib.find(name) end

---Takes the name away. Who has the dict goes on using it.
---@param name string
---@return boolean dropped
function dictlib.drop(name) end

---The value; nil: there is none.
---@param key mare.key
---@return any
---@nodiscard
function dict:get(key) end

---Puts a value there; nil deletes.
---
---Raises an error when the value can't travel, or moves.
---@param key mare.key
---@param value any
---@param ttl? number seconds from now on until it ends; nil: never
---@return true? done
---@return '"too large"'? reason
function dict:set(key, value, ttl) end

---The same, only if there is none.
---@param key mare.key
---@param value any not nil
---@param ttl? number
---@return true? done
---@return '"exists"'|'"too large"'|nil reason
function dict:add(key, value, ttl) end

---The same, only if there is one.
---@param key mare.key
---@param value any not nil
---@param ttl? number
---@return true? done
---@return '"absent"'|'"too large"'|nil reason
function dict:replace(key, value, ttl) end

---The same, only if the value is `old`.
---@param key mare.key
---@param old any what can be compared: nil, a string, number or boolean, something shared
---@param new any nil deletes
---@param ttl? number
---@return true? done
---@return '"changed"'|'"too large"'|nil reason
function dict:cas(key, old, new, ttl) end

---Adds to a number.
---
---Raises an error when the value is no number.
---@param key mare.key
---@param n? number default 1
---@param initial? number|false from which an absent key counts, default 0; false: it stays absent
---@param ttl? number of an entry that is made
---@return number? sum
---@return '"absent"'|'"too large"'|nil reason
function dict:incr(key, n, initial, ttl) end

---Deletes an entry.
---@param key mare.key
---@return boolean deleted false: there was none
function dict:delete(key) end

---Deletes an entry and gives its value.
---@param key mare.key
---@return any
function dict:take(key) end

---Puts what `f` makes of the value in its place, in one step: if somebody was faster, `f` is called again with what is there then.
---@param key mare.key
---@param f fun(value: any): any, ... nil deletes
---@param ttl? number nil: as before
---@return any value what f has given
---@return any ...
function dict:update(key, f, ttl) end

---Seconds until the entry ends; `math.huge`: never; nil: there is none.
---@param key mare.key
---@return number?
---@nodiscard
function dict:ttl(key) end

---Sets when an entry ends.
---@param key mare.key
---@param ttl? number seconds from now on; nil: never
---@return boolean done false: there is none
function dict:expire(key, ttl) end

---Waits until the value is another one than `old`; without `old`, until it changes.
---@param key mare.key
---@param old? any what can be compared
---@param seconds? number
---@return any value nil: see reason
---@return '"absent"'|'"timeout"'|nil reason
function dict:wait(key, old, seconds) end

---What `wait` waits for, for `select` or to be waited for again and again.
---@param key mare.key
---@param old? any
---@return mare.watch
---@nodiscard
function dict:watch(key, old) end

---Waits until it is ready.
---@param seconds? number
---@return any value nil: see reason
---@return '"absent"'|'"timeout"'|nil reason
function watch:wait(seconds) end

---A list of keys.
---@param most? integer
---@return mare.key[]
---@nodiscard
function dict:keys(most) end

---For a loop over all entries.
---@return fun(state: userdata): mare.key?, any
---@return userdata state
function dict:each() end

---How many entries there are, those too whose time is over and that nobody has met since.
---@return integer
---@nodiscard
function dict:len() end

---Bytes of all entries.
---@return integer
---@nodiscard
function dict:size() end

---@return mare.dictinfo
---@nodiscard
function dict:info() end

---Deletes all entries.
function dict:clear() end

---Frees all entries whose time is over.
---@return integer freed
function dict:purge() end

---@return string? name
---@nodiscard
function dict:name() end

return dictlib
