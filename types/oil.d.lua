---@meta oil
-- luacheck: ignore 212

---For programs written for OiL, the ORB in Lua: docs/oil.md. What is new uses mare.orb.
---@class oil
---@field VERSION string
---@field verbose { level: (fun(self: table, level?: integer): integer), output: fun(self: table, file: file*) }
local oil = {}

---@class oil.Config
---@field flavor? string layers, with ";" between them: "cooperative;corba"
---@field host? string
---@field port? integer
---@field keyprefix? string
---@field objectmap? table<string, oil.Entry>
---@field localrefs? "implementation"|"servant"|"proxy"
---@field valuefactories? table<string, fun(value: table)>
---@field extraproxies? string[]
---@field idlpaths? string[]
---@field tcpoptions? { timeout?: number }
---@field options? table what mare.orb's init takes beside that

---@class oil.Entry
---@field __servant any
---@field __objkey? string
---@field __type any

---Makes an ORB of a table of options. Without one always the same.
---@param config? oil.Config
---@return oil.ORB
function oil.init(config) end

---Runs a function; returns when all threads have ended and all ORBs were shut down.
---@param main function
---@param ... any
function oil.main(main, ...) end

---@param f function
---@param ... any
function oil.newthread(f, ...) end

---@param seconds number
function oil.sleep(seconds) end

---@return number seconds
function oil.time() end

---@param path string
---@param data any its text is written
---@param mode? string
---@return boolean ok
---@return string? message
function oil.writeto(path, data, mode) end

---@param path string
---@param binary? boolean
---@return string? content
---@return string? message
function oil.readfrom(path, binary) end

---@class oil.ORB
---@field types { lookup: function, lookup_id: function, resolve: function, register: function }
---@field broker mare.orb.Broker
local ORB = {}

---@param text string
---@param paths? string[]
---@return table ... definitions
function ORB:loadidl(text, paths) end

---@param path string
---@param paths? string[]
---@return table ... definitions
function ORB:loadidlfile(path, paths) end

---@param reference string|table IOR:…, corbaloc:…, or a proxy
---@param kind? "synchronous"|"asynchronous"|"protected"
---@param interface? string|table its name, id or definition
---@return table? proxy
function ORB:newproxy(reference, kind, interface) end

---@param proxy? table
---@param interface? string|table
---@return table? proxy
function ORB:narrow(proxy, interface) end

---@param implementation any
---@param key? string
---@param interface? string|table
---@return table servant
function ORB:newservant(implementation, key, interface) end

---@param object any a key, a servant or an implementation
---@param interface? string|table
---@return oil.Entry?
---@return table? exception
function ORB:deactivate(object, interface) end

---@param seconds? number
---@return boolean
function ORB:pending(seconds) end

---@param seconds? number
---@return true? ok
---@return table? exception
function ORB:step(seconds) end

function ORB:run() end
function ORB:shutdown() end

---@param body table { name or repository id, members … }
---@return table exception
function ORB:newexcept(body) end

---@param handler? fun(proxy: table, exception: any, operation: table): ...
---@param interface? string|table
function ORB:setexcatch(handler, interface) end

---@param seconds? number
---@param interface? string|table
function ORB:settimeout(seconds, interface) end

---@param handler? fun(error: any): any
function ORB:setexhandler(handler) end

---@param callback? fun(error: any, tag: string)
function ORB:setonerror(callback) end

---@param interceptor? table
---@param where? "corba"|"corba.client"|"corba.server"|"client"|"server"
function ORB:setinterceptor(interceptor, where) end

---@param where? string
---@return table?
function ORB:getinterceptor(where) end

---@param interceptor? table
function ORB:setclientinterceptor(interceptor) end

---@param interceptor? table
function ORB:setserverinterceptor(interceptor) end

---@return table encoder put(value, type), getdata()
function ORB:newencoder() end

---@param data string
---@return table decoder get(type)
function ORB:newdecoder(data) end

---@return table repository
function ORB:getLIR() end

---@return table? repository
function ORB:getIR() end

---@param repository? table
function ORB:setIR(repository) end

---What a call of an asynchronous proxy gives.
---@class oil.Future
local Future = {}

---@return boolean
function Future:ready() end

---@param seconds? number
---@return boolean ok
---@return any ... results, or the exception
function Future:results(seconds) end

---@param seconds? number
---@return any ... results; exceptions are raised
function Future:evaluate(seconds) end

return oil
