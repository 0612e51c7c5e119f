---@meta mare.supervisor
-- luacheck: ignore 212 241

---Processes that start others, watch them, and start them again when they end.
---@class mare.supervisorlib
local supervisor = {}

---A supervisor, or the name of one. A value that can be sent. To be closed: it is shut down with its block.
---@class mare.supervisor: mare.supervisorlib
---@field process? mare.handle its process, when it was started
---@field name? string
local object = {}

---@class mare.supervisor.child
---@field id? string|integer
---@field start? function what its process calls
---@field args? { n?: integer, [integer]: any } arguments of start
---@field supervisor? mare.supervisor.options in place of start: the child is a supervisor
---@field restart? '"permanent"'|'"transient"'|'"temporary"' always (default), when it failed, never
---@field shutdown? number|'"kill"' seconds from cancel to kill: 5, of a supervisor `math.huge`; or at once
---@field ready? number seconds to wait until it calls `supervisor.ready`
---@field backoff? false|number|number[] as the supervisor's, which it has by default
---@field type? '"worker"'|'"supervisor"'
---@field name? string as in spawn; the id by default
---@field memory? number|mare.budget as in spawn
---@field heap? '"own"'|'"system"' as in spawn
---@field priority? string as in spawn

---@class mare.supervisor.options
---@field children? mare.supervisor.child[] with ids; started in this order
---@field strategy? '"one_for_one"'|'"one_for_all"'|'"rest_for_one"' one_for_one by default
---@field intensity? integer|number more restarts within `period` are too many: 1; `math.huge`: no number is
---@field period? number seconds: 5
---@field template? mare.supervisor.child what `spawn` starts
---@field name? string by which it is found
---@field backoff? false|number|number[] seconds before a restart, or { first, most }: doubled after each failure in a row; none by default
---@field report? false|fun(event: mare.supervisor.event) is told of failures; printed on stderr without it
---@field linked? boolean as in spawn
---@field owned? boolean as in spawn
---@field priority? string as in spawn
---@field memory? number|mare.budget as in spawn

---@class mare.supervisor.event
---@field supervisor string who tells
---@field child string
---@field id? string|integer
---@field process? mare.handle
---@field what string "failed", "failed, is started again", "was stopped" …
---@field error any
---@field traceback? string

---@class mare.supervisor.state
---@field id? string|integer
---@field process? mare.handle
---@field type '"worker"'|'"supervisor"'
---@field restart '"permanent"'|'"transient"'|'"temporary"'
---@field status '"running"'|'"restarting"'|'"stopped"'

---Starts a supervisor and its children, and gives it when all run. Raises what kept one of them from starting.
---@param options mare.supervisor.options
---@return mare.supervisor
function supervisor.start(options) end

---The supervisor of that name, whoever has it when it is asked.
---@param name string
---@return mare.supervisor
---@nodiscard
function supervisor.named(name) end

---In a child with `ready`: the supervisor may go on with the next. Raises in a process that nobody owns.
function supervisor.ready() end

---Starts a supervisor, or takes one, and waits for its end. In the main script TERM and INT shut it down in order and end the program with 0. Raises
---what the supervisor failed of.
---@param options mare.supervisor.options|mare.supervisor
---@param exit? boolean false: the program goes on
---@return string? signal that ended it
function supervisor.run(options, exit) end

---Adds a child and starts it.
---@param child mare.supervisor.child
---@return mare.handle?
---@return any why it did not start, or there is one of that id
function object:add(child) end

---Starts a child of the template, with these arguments behind the template's.
---@param ... any
---@return mare.handle?
---@return any why
function object:spawn(...) end

---Ends a child. Its entry stays, unless it is temporary or has no id.
---@param child string|integer|mare.handle
---@return true|nil
---@return string? message there is none
function object:stop(child) end

---Ends a child if it runs, and starts it.
---@param child string|integer|mare.handle
---@return mare.handle?
---@return any why
function object:restart(child) end

---Ends a child and forgets it.
---@param child string|integer|mare.handle
---@return true|nil
---@return string? message there is none
function object:remove(child) end

---@param child string|integer|mare.handle
---@return mare.supervisor.state?
---@return string? message there is none
---@nodiscard
function object:child(child) end

---All children in the order of their start.
---@return mare.supervisor.state[]
---@nodiscard
function object:children() end

---@return { specs: integer, active: integer, supervisors: integer, workers: integer }
---@nodiscard
function object:count() end

---Ends all children in the reverse order of their start, then the supervisor, and waits for that.
---@param seconds? number
---@return true|nil ended
---@return '"timeout"'|nil reason
function object:shutdown(seconds) end

---Waits for its end, as `handle:wait`.
---@param seconds? number
---@return boolean|nil ok
---@return any error
---@return string? traceback
function object:wait(seconds) end

return supervisor
