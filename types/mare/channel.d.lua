---@meta mare.channel
-- luacheck: ignore 212 241

---Channels: where values of one process meet another.
---@class mare.channellib
local channellib = {}

---A channel. A value that travels by reference, can be compared and used as a key.
---@class mare.channel
---@operator len: integer
local channel = {}

---A new channel.
---@param capacity? number 0 (default): rendezvous, `send` waits for a receiver; n: places in the queue; `math.huge`: no limit
---@return mare.channel
---@nodiscard
function channellib.new(capacity) end

---The channel of that name, made if there is none. It lives until it is closed; then the name is free.
---@param name string without zero bytes
---@param capacity? number as for `new`; counts only for whoever makes it
---@return mare.channel
function channellib.named(name, capacity) end

---The channel of that name, if there is one.
---@param name string without zero bytes
---@return mare.channel?
---@nodiscard
function channellib.find(name) end

---Sends a message; waits while there is no room. The values are copied.
---
---Raises an error when the first value is nil or a value can't travel, and in a finaliser when it would have to wait.
---@param value any not nil
---@param ... any
---@return true? sent nil: closed
---@return '"closed"'? reason
function channel:send(value, ...) end

---As `send`, but waits at most so long; then the message is taken back.
---@param seconds number not nan; `math.huge`: without limit; 0 or less: doesn't wait
---@param value any not nil
---@param ... any
---@return true? sent nil: closed or timeout
---@return '"closed"'|'"timeout"'|nil reason
function channel:send_within(seconds, value, ...) end

---As `send`, but never waits; can be used in finalisers.
---@param value any not nil
---@param ... any
---@return true? sent nil: closed or full
---@return '"closed"'|'"full"'|nil reason
function channel:try_send(value, ...) end

---A case for `select`, which is ready when the message can be sent. Nothing is copied or checked before `select`.
---@param value any not nil
---@param ... any
---@return mare.sending
---@nodiscard
function channel:sending(value, ...) end

---Takes the oldest message, or waits for one.
---
---Raises an error in a finaliser when it would have to wait, and "not enough memory" when the message doesn't fit into the
---process's limit: it comes again with the next receive.
---@param seconds? number not nan; nil or `math.huge`: without limit; 0 or less: doesn't wait
---@return any value nil: closed or timeout
---@return any ... further values, or the reason: "closed" or "timeout"
function channel:receive(seconds) end

---Takes the oldest message if there is one; never waits.
---@return any value nil: closed or empty
---@return any ... further values, or the reason: "closed" or "empty"
function channel:try_receive() end

---A loop over `receive`, until the channel is closed and empty: `for v, … in c:each() do`.
---@return fun(c: mare.channel): any, ...
---@return mare.channel
---@nodiscard
function channel:each() end

---Says that there will be no more. Wakes all who wait, with "closed"; what is queued can still be received.
function channel:close() end

---Whether it was closed; it may still hold messages.
---@return boolean
---@nodiscard
function channel:closed() end

---The name given to `channel.named`.
---@return string?
---@nodiscard
function channel:name() end

return channellib
