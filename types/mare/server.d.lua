---@meta mare.server
-- luacheck: ignore 212 241

---Processes that keep a state and answer, one request after the other.
---@class mare.serverlib
---@field later table what `call` gives to answer later, with `server.reply`
local server = {}

---A server, or the name of one. A value that can be sent. To be closed: it ends with its block.
---@class mare.server: mare.serverlib
---@field process? mare.handle its process, when it was started; of a named one another may have taken its place
---@field name? string
local object = {}

---@class mare.server.options
---@field init? fun(...): any, table? gives the state, and a list of what else it listens to
---@field call? fun(state: any, question: any, from: table): any, any gives the answer, and perhaps a new state
---@field cast? fun(state: any, message: any): any gives nothing, or a new state
---@field info? fun(state: any, source: any, ...: any): any what a further source gave; gives nothing, or a new state
---@field terminate? fun(state: any, error: any) is called at its end, unless it is killed; runs masked
---@field args? { n?: integer, [integer]: any } arguments of init
---@field mailbox? integer|number how many requests may wait: 1000; `math.huge`: any number
---@field name? string by which it is found
---@field linked? boolean as in spawn
---@field owned? boolean as in spawn
---@field priority? string as in spawn
---@field memory? number|mare.budget as in spawn
---@field heap? '"own"'|'"system"' as in spawn

---Starts a server and waits until its `init` has returned; raises what that raises.
---@param options mare.server.options
---@return mare.server
function server.start(options) end

---The server of that name, whoever has it when it is asked.
---@param name string
---@return mare.server
---@nodiscard
function server.named(name) end

---An entry of a supervisor's `children`.
---@param options mare.server.options with a name
---@param more? table further fields of the entry
---@return mare.supervisor.child
---@nodiscard
function server.child(options, more) end

---Answers a call for which `call` has given `server.later`, from any process.
---@param from table the third argument of `call`
---@param answer any
function server.reply(from, answer) end

---Asks and waits for the answer. Raises an error of kind `"down"` when there is no server, or it ends before it has answered.
---@param question any
---@param seconds? number
---@return any answer nil: also at a timeout
---@return '"timeout"'|nil reason
function object:call(question, seconds) end

---Tells it something. Waits only while its mailbox is full.
---@param message any
---@return true|nil told
---@return '"down"'|nil reason there is no server
function object:cast(message) end

---Waits for the end of its process, as `handle:wait`.
---@param seconds? number
---@return boolean|nil ok
---@return any error nil, "timeout" after so many seconds; nil, "down": nobody has the name
---@return string? traceback
function object:wait(seconds) end

---Kills its process.
---@return boolean killed false: there was none any more
function object:kill() end

---Links the calling process with its process, as `handle:link`. Raises an error of kind `"down"` when nobody has the name.
---@return mare.server self
function object:link() end

---Lets it deal with what came before and end, and waits for that. One that has ended is no error.
---@param seconds? number
---@return true|nil ended
---@return '"timeout"'|nil reason
function object:stop(seconds) end

return server
