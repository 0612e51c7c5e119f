---@meta mare.select
-- luacheck: ignore 212 241

---What select can wait for: a channel (a message), `channel:sending(…)` (room for one), a process or fiber (its end), a timer.
---@alias mare.case mare.channel|mare.sending|mare.handle|mare.fiber|mare.timer|mare.waitable
---Sockets, subprocesses and signals; see their pages for what they give.
---@alias mare.waitable mare.server|mare.connection|mare.udp|mare.subprocess|mare.signal

---What `channel:sending` gives: a case for select.
---@class mare.sending
local sending = {} -- luacheck: ignore 211

---@class mare.cases
---@field [integer] mare.case
---@field default? any given at once when no case is ready; false too
---@field timeout? number seconds; nil or `math.huge`: without limit; 0 or less: doesn't wait

---Waits for several things at once, and does the one that is first ready; among ready ones each is as likely as the others.
---
---Gives the index of the case and what it gives: of a channel the message, or `nil, "closed"`; of `sending` true, or
---`nil, "closed"`; of a process or fiber what its `wait` gives; of a timer what its `wait` gives. Or `"default", value`, or
---`nil, "timeout"`.
---
---Raises an error when something in the table is no case, when a message to be sent can't travel (then nothing was sent), and in
---a finaliser when it would have to wait.
---@param cases mare.cases
---@return integer|'"default"'|nil which
---@return any ... results, the default, or "timeout"
local function select(cases) end

return select
