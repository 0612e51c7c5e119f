---@meta mare.orb.server
-- luacheck: ignore 212 241

---The serving half of a broker; see docs/orb-serving.md.
---@class mare.orb.broker
local broker = {}

---A table with methods (and fields for attributes), or a function that gets the operation's name and the arguments.
---@alias mare.orb.servant table|fun(operation: string, ...: any): any

---@class mare.orb.serve
---@field key? string the reference lasts beyond this run, and can be written as corbaloc
---@field processes? integer the first argument is a factory: factory(broker, index, args…) makes a servant in each of so many processes
---@field args? table arguments of the factory
---@field dynamic? boolean the servant is a function(request), and needs no IDL

---A request to a servant that was made with `dynamic`.
---@class mare.orb.dynamic.request
---@field operation string
---@field id string of the object's interface
---@field key string of the object
local request = {}

---In and inout values, once; the signature is that of results and exceptions, too.
---@param signature? mare.orb.signature
---@return any ...
function request:arguments(signature) end

---@return mare.orb.Definition?
function request:definition() end

---@return string? bytes, boolean? little_endian, integer? version 10, 11 or 12
function request:bytes() end

---@class mare.orb.limits
---@field connections? integer 10000
---@field requests? integer of one connection in progress, 100
---@field message? integer bytes of one message, 64 MiB
---@field pending? integer bytes of messages of one connection whose fragments have not all come, 64 MiB
---@field unfinished? integer how many of these, 64
---@field idle? number seconds after which a quiet client is asked to leave; without it never
---@field reply? number seconds a client may take to accept a reply, 60
---@field linger? number seconds a client has to leave, 2
---@field memory? integer bytes of all messages that are being read, served or answered, 64 MiB; of replies that come the same
---@field share? integer bytes of these of one connection, 16 MiB
---@field handshake? number seconds of a handshake of TLS, 10
---@field peer? integer connections from one address; without it any number
---@field held? integer requests that wait for a POA manager that holds, 1000
---@field stall? number seconds without progress after which a client that holds memory others wait for is closed, 5
---@field arrive? number seconds a long message may take to arrive, and one more for each 64 KiB, 60
---@field resting? integer fibers kept for the next requests, 256
---@field unused? number|false seconds after which a connection to a server that nobody uses is closed, 120; false: never

---Makes an object of a servant. Listens, if the broker doesn't yet.
---@param servant mare.orb.servant|fun(broker: mare.orb.broker, index: integer, ...: any): mare.orb.servant
---@param interface string|table name, repository id or definition
---@param options? mare.orb.serve
---@return mare.orb.proxy reference tostring gives IOR:…
function broker:serve(servant, interface, options) end

---Ends objects: of a servant all that it is, of a reference or a key one.
---@param what mare.orb.servant|string
---@return boolean there_was
function broker:deactivate(what) end

---How many objects there are.
---@return integer
---@nodiscard
function broker:objects() end

---Serves all keys that belong to no object; nil ends that.
---@param servant mare.orb.servant?
---@param interface? string|table
function broker:default(servant, interface) end

---Is asked for keys that belong to no object: a servant and its interface for one request, a reference to forward to, or nothing. `operation` is
---nil when a client asks only whether there is an object.
---@param f fun(key: string, operation: string?): mare.orb.servant?, string|table?
function broker:locator(f) end

---Sends whoever asks for this key to another reference; nil ends that.
---@param key string
---@param reference table|string|nil
function broker:forward(key, reference) end

---The servant behind a reference to an object that this broker serves in this process (a servant is its own).
---@param reference table|string
---@return mare.orb.servant? servant nil: it is served elsewhere, or not at all
---@return string? why
---@nodiscard
function broker:servant(reference) end

---The request that the calling fiber serves; nil outside of one.
---@return { key: string, operation: string, peer: mare.orb.peer, user?: string }?
---@nodiscard
function broker:current() end

---The first address in references, "host:port".
---@return string
---@nodiscard
function broker:address() end

---Ends both halves of the broker: all that was read is answered.
---@param wait? boolean|number true: returns when it is over; a number: what still runs after so many seconds is cancelled; nothing: returns at once
function broker:shutdown(wait) end

---Waits until the server has been shut down.
function broker:run() end

return broker
