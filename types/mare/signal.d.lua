---@meta mare.signal
-- luacheck: ignore 212 241

---Signals of the operating system.
---@class mare.signallib
local signal = {}

---Somebody who is told of a signal. Can be selected; when it is sent it is shared.
---@class mare.signal
local listener = {}

---From now on the signal does nothing but tell its listeners.
---@param name string "INT", "TERM", "HUP" …
---@return mare.signal? listener
---@return string? message
---@return string? code
function signal.on(name) end

---@param seconds? number
---@return string? name
---@return integer|string count, or the message: "timeout", "closed"
---@return string? code
function listener:wait(seconds) end

---Ends it and wakes who waits; the last of a signal restores what that did before.
function listener:close() end

return signal
