---@meta mare.process
-- luacheck: ignore 212 241

---Spawning processes, their handles, and the number of workers.
---@class mare.processlib
local process = {}

---A process. A value that can be sent, compared and used as a key; the process doesn't need it to run on.
---@class mare.handle
---@field id integer never used twice in a program
---@field name? string the name given to `spawn`
local handle = {}

---@alias mare.status
---| '"ready"'   # it could run
---| '"running"' # a worker runs it
---| '"waiting"' # it waits in some call
---| '"done"'    # it has returned
---| '"failed"'  # it has ended with an error

---@alias mare.priority
---| '"high"'   # its turn comes before all others'
---| '"normal"' # what a process has that was told nothing
---| '"low"'    # its turn comes when there is no other; at least a 16th of the time

---@class mare.budget
---@field [1] number bytes
---@field tree? boolean true: the process, its children, theirs, and what all of them have queued keep the limit together

---@class mare.spawn.options
---@field main function|string the function, or Lua code
---@field args? { n?: integer, [integer]: any } arguments; with `n` they are `args[1]` to `args[n]`, nils among them; at most 250
---@field name? string for reports of failures and deadlocks
---@field memory? number|mare.budget the most bytes it may have in use; beyond, it alone gets "not enough memory"
---@field linked? boolean linked with the caller from birth, as by `handle:link()`
---@field owned? boolean it is cancelled when the caller's process ends, in whatever way
---@field heap? '"own"'|'"system"' an arena of its own (default), or `malloc`
---@field priority? mare.priority of the ready ones the highest run first

---Starts a process that calls `main` with the arguments. Never waits.
---
---Function, upvalues and arguments are copied at once; globals are not. Raises an error, and starts nothing, when code does
---not compile, an option is wrong, or a value can't travel; the message names the path of the value.
---@param main function|string the function, or Lua code that finds the arguments in `...`
---@param ... any arguments
---@return mare.handle
---@overload fun(options: mare.spawn.options): mare.handle
function process.spawn(main, ...) end

---Calls `f(scope, …)`; what is begun with the scope has ended when this returns. See `mare.scope`.
---@param f fun(scope: mare.scope, ...: any): ...
---@param ... any further arguments of f
---@return any ... results of f
function process.scope(f, ...) end

---The handle of the process that calls.
---@return mare.handle
---@nodiscard
function process.self() end

---Lets other processes that are ready run first. Never needed for fairness.
function process.yield() end

---The number of workers; with `n` sets it, at any time.
---@param n? integer 1 to 256
---@return integer before the change
function process.workers(n) end

---How many finished states each worker keeps to use again; with `n` sets it.
---@param n? integer 0 or more; above 64 means 64
---@return integer before the change
function process.recycle(n) end

---Gives a process a name, by which `whereis` finds it until it ends. It may have several. Raises an error when another
---process has that name, or the same one, and when the process has ended.
---@param name string without zero bytes
---@param handle? mare.handle by default the process that calls
function process.register(name, handle) end

---Frees a name, whoever has it.
---@param name string
---@return boolean had somebody had it
function process.unregister(name) end

---The process of that name, or nil.
---@param name string
---@return mare.handle?
---@nodiscard
function process.whereis(name) end

---How many processes have not ended.
---@return integer
---@nodiscard
function process.count() end

---What is seen of a process.
---@class mare.record
---@field id integer
---@field name? string cut after 59 bytes
---@field status mare.status
---@field waits? string in what it waits: "receive", "sleep"
---@field priority mare.priority
---@field cpu number seconds of CPU time, by sampling
---@field heap integer bytes that its heap holds
---@field sent integer messages
---@field received integer messages
---@field parent? integer the id of the process that has made it
---@field owner? integer the id of its owner
---@field fibers integer that have not ended
---@field restarts integer how often a supervisor had started this child again before
---@field kind? '"main"'|'"host"' of the first process of a program
---@field handle? mare.handle if it was asked for

---@class mare.info: mare.record
---@field where? string "file:line" of the program's code
---@field there? integer of several fibers none of which runs: how many stand there
---@field on? string what it waits for: "channel 'results'"
---@field memory? integer bytes that its Lua state uses; not while a finaliser of it waits, which only a host's can
---@field links integer[] ids of the processes it is linked with
---@field names string[]

---@class mare.list.options
---@field sort? '"id"'|'"cpu"'|'"heap"'|'"messages"'|'"sent"'|'"received"'|'"restarts"' by default "id"; of others the greatest first
---@field limit? integer at most so many
---@field handles? boolean with handles

---All processes that have not ended, or have failed and still have a handle. None is stopped.
---@param options? mare.list.options
---@return mare.record[]
---@nodiscard
function process.list(options) end

---@class mare.totals.worker
---@field id integer
---@field dispatches integer
---@field steals integer
---@field busy number seconds
---@field queued integer

---@class mare.totals
---@field up number seconds since the start
---@field busy number seconds, of all workers together
---@field cpu number seconds that processes have had
---@field spawned integer
---@field ended integer
---@field failed integer of the ended
---@field processes integer that have not ended
---@field hosts integer
---@field sent integer
---@field received integer
---@field dispatches integer how often a worker took up a process
---@field steals integer
---@field threads integer
---@field blocked integer threads that wait where Lua can't yield
---@field memory integer bytes
---@field workers mare.totals.worker[]

---Counts of the whole program, from its start on.
---@return mare.totals
---@nodiscard
function process.totals() end

---Memory of the process that calls.
---@return integer used bytes that its Lua state uses: the measure of `memory =`
---@return integer held bytes that its heap holds for it
---@return integer|nil counted with `tree = true`, its own or an ancestor's: bytes that count for that budget now
---@return integer|nil budget how many it has
---@nodiscard
function process.memory() end

---Waits for the end of the process: `true, results…`, or `false, error, traceback`, or `nil, "timeout"`.
---
---Any number of processes may wait, also after the end. A process can't wait for itself. Raises an error in a finaliser
---unless the process has ended or `seconds` is 0 or less.
---@param seconds? number not nan; nil or `math.huge`: without limit; 0 or less: only asks
---@return boolean|nil ok
---@return any result the first result, or the error as it was raised, or "timeout"
---@return any ... further results, or the traceback
function handle:wait(seconds) end

---The record of the process, with where it is and what it waits for. Waits for its answer.
---@param seconds? number by default 1
---@return mare.info
---@nodiscard
function handle:info(seconds) end

---The stacks of all fibers of the process, as text. Waits for its answer. Of one that has ended: the traceback of its failure, or nil.
---@param seconds? number by default 1
---@return string? text
---@return string? reason "timeout"
---@nodiscard
function handle:traceback(seconds) end

---What the process does at the moment.
---@return mare.status
---@nodiscard
function handle:status() end

---The priority of the process; with `word` sets it, at any time.
---@param word? mare.priority
---@return mare.priority before the change
function handle:priority(word) end

---Calls f. Each wait in it, of the calling fiber, ends `seconds` from now at the latest, by an error of kind "deadline"; of nested deadlines the
---earliest counts. A call's own limit of time still gives `nil, "timeout"`.
---@param seconds number not nan
---@param f function
---@param ... any arguments of f
---@return any ... results of f
function process.deadline(seconds, f, ...) end

---Seconds until the earliest deadline in force, 0 if it is over.
---@return number? seconds nil: there is none
---@nodiscard
function process.remaining() end

---Calls f. Cancelling, and deadlines around it, don't end what f waits for, before `seconds` have passed since then.
---@param seconds number 5 if it is left out
---@param f function
---@param ... any arguments of f
---@return any ... results of f
---@overload fun(f: function, ...: any): ...
function process.masked(seconds, f, ...) end

---Has f(ok, err) called when the process ends, however but by kill; those given last come first. It is masked. Raises in the main script of plain Lua.
---@param f fun(ok: boolean, err?: any)
function process.on_exit(f) end

---From now on the end of a linked process ends nobody here: its handle arrives on this channel.
---@return mare.channel ends the same each time
function process.trap() end

---Cancels the process: all its fibers get an error object (see mare.error) of kind "cancelled" where they are. They may catch it once. A process that cancels
---itself gets it at once. Raises for the main script of plain Lua, and if the reason can't travel.
---@param reason? any the error's `reason`
---@return boolean alive false: it had ended already
function handle:cancel(reason) end

---Kills the process: nothing of its Lua code runs any more, finalisers in C do. Raises for the main script of plain Lua.
---@return boolean alive false: it had ended already
function handle:kill() end

---Links the caller with the process: when one fails the other is cancelled with an error of kind "linked". Raises for itself, and in the main script of
---plain Lua before `process.trap()`.
---@return mare.handle self
function handle:link() end

---Takes a link back.
---@return boolean linked they were
function handle:unlink() end

---Makes another process the owner of this one, which the caller owns. Raises when it doesn't, or the other has ended.
---@param other mare.handle
---@return mare.handle self
function handle:give(other) end

---Whose end ends this process.
---@return mare.handle? owner nil: none, or it has ended
---@return '"ended"'|nil reason it had one, which has ended
---@nodiscard
function handle:owner() end

return process
