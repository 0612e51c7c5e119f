---@meta mare.ludo
-- luacheck: ignore 212 241

---Objects of one Lua program called by another, without an IDL.
---@class mare.ludolib
---@field failure mare.ludo.failurelib
local ludo = {}

---@class mare.ludo.options
---@field host? string to serve at; "127.0.0.1" by default
---@field port? integer 0: any
---@field published? string the host in references
---@field timeout? number seconds each call may take
---@field classes? table<string, table> names of metatables, the same on both sides
---@field tls? mare.ludo.tls
---@field allow? fun(peer: mare.ludo.peer): boolean? may this client come in?
---@field tracebacks? boolean false: errors say nothing of the server's code
---@field log? fun(text: string)
---@field oil? boolean clients of OiL's LuDO are served, too
---@field limits? mare.ludo.limits

---@class mare.ludo.tls
---@field ca? string
---@field cert? string
---@field key? string
---@field verify? boolean
---@field client_cert? '"none"'|'"optional"'|'"required"'
---@field hostname? string|false the name servers' certificates have; false: any
---@field min_version? '"1.2"'|'"1.3"'
---@field max_version? '"1.2"'|'"1.3"'
---@field ciphers? string
---@field context? userdata of tls.context, instead of what it is made of

---@class mare.ludo.limits
---@field message? integer bytes of a message
---@field values? integer bytes its values may take
---@field memory? integer bytes of all messages in progress
---@field share? integer of one connection's
---@field connections? integer
---@field requests? integer in progress on one connection
---@field idle? number seconds
---@field handshake? number
---@field arrive? number
---@field reply? number
---@field resting? integer

---@class mare.ludo.peer who sent a request
---@field host string
---@field port integer
---@field tls? table what connection:tls() gives

---@param options? mare.ludo.options
---@return mare.ludo.broker
function ludo.init(options) end

---Serves an object by a broker of its own. Options: those of init and of serve.
---@param object any
---@param options? table
---@return string reference
---@return mare.ludo.broker
function ludo.serve(object, options) end

---@param reference string
---@param options? mare.ludo.options
---@return mare.ludo.proxy
function ludo.proxy(reference, options) end

---@param value any
---@return boolean
function ludo.is_proxy(value) end

---@class mare.ludo.failurelib
local failurelib = {}

---@param value any
---@return boolean
function failurelib.is(value) end

---What a call raises.
---@class mare.ludo.failure
---@field code '"RAISED"'|'"NO_OBJECT"'|'"NO_OPERATION"'|'"UNSENDABLE"'|'"TOO_LARGE"'|'"CONNECT"'|'"LOST"'|'"TIMEOUT"'|'"PROTOCOL"'|'"CLOSED"'
---@field message string
---@field value? any what the method raised, if it was no string
---@field traceback? string the server's

---@class mare.ludo.broker
local broker = {}

---@class mare.ludo.serving
---@field key? string
---@field processes? integer then the first argument makes the object in each of them
---@field args? { n?: integer, [integer]: any }

---@param object any a table, a userdata, or with `processes` a function (broker, index, …) -> object
---@param options? mare.ludo.serving
---@return string reference
function broker:serve(object, options) end

---@param key string
---@return boolean was there such an object?
function broker:deactivate(key) end

---@param reference string
---@return mare.ludo.proxy
function broker:proxy(reference) end

---@return { key: string, operation: string, peer: mare.ludo.peer }? what the calling fiber serves
function broker:current() end

function broker:run() end

---@param seconds? number for what is in progress, 10 by default
function broker:shutdown(seconds) end

---@param seconds? number
function broker:close(seconds) end

---A remote object: any name that does not begin with an underscore is an operation.
---@class mare.ludo.proxy
---@field _reference string
---@field _async table the same operations, which give futures: fibers
---@field [string] fun(self: mare.ludo.proxy, ...: any): ...
local proxy = {}

---@param options { timeout: number }
---@return mare.ludo.proxy
function proxy:_with(options) end

return ludo
