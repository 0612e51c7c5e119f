---@meta luaproc
-- luacheck: ignore 212

---For programs written for luaproc: processes, and channels known by their names in the whole program.
---@class luaproc
local luaproc = {}

---Starts a process. It finds `luaproc` among its globals. Code that doesn't compile is an error.
---@param code string|function a Lua function travels with its upvalues
---@return true? ok
---@return string? message
function luaproc.newproc(code) end

---@param name string
---@param asynchronous? boolean sending never waits: messages are stored
---@return true? ok nil: there is one
---@return string? message
function luaproc.newchannel(name, asynchronous) end

---Whoever waits on the channel gets nil and a message. An asynchronous one that stores messages stays.
---@param name string
---@return true? ok
---@return string? message
function luaproc.delchannel(name) end

---Waits until the message is received; on an asynchronous channel it doesn't wait.
---@param name string
---@param ... any what a message of mare can hold; also nothing, or nil first
---@return true? ok
---@return string? message
function luaproc.send(name, ...) end

---@param name string
---@param asynchronous? boolean don't wait
---@return any ... the message, or nil and why there is none
function luaproc.receive(name, asynchronous) end

---Waits until n processes have called it. The first to arrive decides n.
---@param name string
---@param n integer
---@return true? ok
---@return string? message
function luaproc.barrier(name, n) end

---Waits until all processes of luaproc have ended; in one of them, all others but those that wait here too.
function luaproc.wait() end

---@param n integer 1 to 256
function luaproc.setnumworkers(n) end

---@return integer
---@nodiscard
function luaproc.getnumworkers() end

---How many finished states each worker keeps for reuse, 64 at most.
---@param n integer
function luaproc.recycle(n) end

---Registers a library's transfer functions for its userdata, by the names of their metatables; all of them, or none.
---@param library { transffuncs: fun(): table<string, { send: function, recv: function }> }
---@return true? ok
---@return string? message
function luaproc.regudata(library) end

---What `regudata(luaproc)` registers: files of io and LuaSocket's TCP sockets. They move anyway.
---@return table<string, table>
---@nodiscard
function luaproc.transffuncs() end

return luaproc
