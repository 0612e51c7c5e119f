---@meta mare
-- luacheck: ignore 212 241

---Isolated Lua processes on all cores, and channels between them.
---@class mare
---@field version string version of the library
---@field process mare.processlib what `require "mare.process"` gives
---@field buffer mare.bufferlib what `require "mare.buffer"` gives
---@field channel mare.channellib what `require "mare.channel"` gives
---@field select fun(cases: mare.cases): ... what `require "mare.select"` gives
---@field selector fun(cases: table): mare.Selector what `require "mare.selector"` gives
---@field fiber mare.fiberlib what `require "mare.fiber"` gives
---@field error mare.errorlib what `require "mare.error"` gives
---@field timer mare.timerlib what `require "mare.timer"` gives
---@field dict mare.dictlib what `require "mare.dict"` gives
---@field atomic mare.atomiclib what `require "mare.atomic"` gives
---@field freeze mare.freezelib what `require "mare.freeze"` gives
---@field json mare.jsonlib what `require "mare.json"` gives
---@field net mare.netlib what `require "mare.net"` gives
---@field tls mare.tlslib what `require "mare.tls"` gives
---@field socket mare.socket what `require "mare.socket"` gives
---@field ludo mare.ludolib what `require "mare.ludo"` gives
---@field orb mare.orblib what `require "mare.orb"` gives
---@field file mare.filelib what `require "mare.file"` gives
---@field subprocess mare.subprocesslib what `require "mare.subprocess"` gives
---@field scope fun(f: fun(scope: mare.scope, ...: any): ..., ...: any): ... what `require "mare.scope"` gives: `process.scope`
---@field server mare.serverlib what `require "mare.server"` gives
---@field supervisor mare.supervisorlib what `require "mare.supervisor"` gives
---@field collective mare.collectivelib what `require "mare.collective"` gives
---@field parallel mare.parallellib what `require "mare.parallel"` gives
---@field pipeline mare.pipelinelib what `require "mare.pipeline"` gives
---@field pool mare.poollib what `require "mare.pool"` gives
---@field log mare.loglib what `require "mare.log"` gives
---@field http mare.httplib what `require "mare.http"` gives
---@field signal mare.signallib what `require "mare.signal"` gives
local mare = {}

---Seconds of a clock that never jumps, of the same origin in all processes. Only differences mean something.
---@return number seconds
---@nodiscard
function mare.clock() end

---Waits so many seconds, at least. 0 or less lets others run. Raises an error in a finaliser unless 0 or less.
---@param seconds number not nan; `math.huge`: for ever
function mare.sleep(seconds) end

---Waits until a descriptor that is not mare's is ready. Holds no worker.
---@param descriptor integer|table|userdata the number, or an object with a method `getfd` or `fd`
---@param events? "r"|"w"|"rw" default "r"
---@param seconds? number limit; absent: none
---@return "r"|"w"|"rw"|nil ready
---@return string? message "timeout" when the time is over
---@return string? code "EBADF" …; nil at a timeout
function mare.wait_fd(descriptor, events, seconds) end

---For a host with an event loop of its own: readable while `mare.step` has something to do. Raises in a process.
---@return integer descriptor not to be closed
function mare.descriptor() end

---Runs this host's fibers that are ready; never waits. Raises in a process.
---@return integer fibers how many ran
function mare.step() end

return mare
