---@meta mare.orb
-- luacheck: ignore 212 241

---CORBA objects as Lua objects.
---@class mare.orblib
---@field exception mare.orb.exceptionlib
local orblib = {}

---Options are these, or omniORB's as `ORBname = value`.
---@class mare.orb.options
---@field args? string[] a command line: its -ORB options are taken out
---@field port? integer to serve at; 0: any
---@field host? string to serve at, and in references
---@field timeout? number seconds each call may take
---@field connect_timeout? number
---@field log? fun(level: string|integer, text: string)
---@field pcap? string a file that keeps what goes over the network
---@field include? string[] folders for #include
---@field limits? mare.orb.limits
---@field octets? '"string"'|'"buffer"' what sequences and arrays of octets arrive as; buffers without a copy if they are long
---@field tls? mare.orb.tls
---@field user? string who we are for servers that ask for it (CSIv2, GSSUP), over TLS only
---@field password? string
---@field repository? boolean|string|{ at?: boolean|string, definitions?: integer, bytes?: integer, depth?: integer, time?: number } who is asked for interfaces without IDL: each object's server (true), an interface repository (a reference); false: nobody, and the server has none
---@field authenticate? fun(user: string, password: string, peer: mare.orb.peer): boolean? is it who it says?
---@field allow? fun(peer: mare.orb.peer): boolean? may this client come in?
---@field interceptors? (mare.orb.interceptor | fun(broker: mare.orb.broker): mare.orb.interceptor)[]
---@field context? table<string, string> properties for operations with context ("…")
---@field codeset? '"UTF-8"'|'"ISO-8859-1"' what strings go as wherever the peer can; without it what the specification's order gives

---@class mare.orb.tls
---@field ca? string whom to trust: a file, a folder/, PEM
---@field cert? string
---@field key? string
---@field verify? boolean of servers; false: any certificate will do
---@field client_cert? '"none"'|'"optional"'|'"required"' of our clients
---@field hostname? string|false the name servers' certificates have; false: any
---@field required? boolean what is not TLS is not called
---@field min_version? '"1.2"'|'"1.3"'
---@field max_version? '"1.2"'|'"1.3"'
---@field ciphers? string
---@field context? userdata of tls.context, instead of what it is made of

---@class mare.orb.peer who sent a request
---@field host string
---@field port integer
---@field unix? string of a Unix socket: its file
---@field tls? table what connection:tls() gives

---@param options? mare.orb.options
---@return mare.orb.broker
function orblib.init(options) end

---@param value any
---@return boolean
function orblib.is_proxy(value) end

---A system exception to raise with error(e, 0).
---@param name string "NO_PERMISSION" …
---@param minor? integer below 0x1000: the OMG's
---@param completed? '"COMPLETED_YES"'|'"COMPLETED_NO"'|'"COMPLETED_MAYBE"' default "COMPLETED_NO"
---@param text? string
---@return mare.orb.exception
function orblib.system(name, minor, completed, text) end

---@param proxy mare.orb.proxy
---@return table state broker, target, def
function orblib.state(proxy) end

---What a call raises. User exceptions have the members of their IDL.
---@class mare.orb.exception
---@field _repid string
---@field minor? integer
---@field completed? '"COMPLETED_YES"'|'"COMPLETED_NO"'|'"COMPLETED_MAYBE"'
---@field text? string

---@class mare.orb.exceptionlib
---@field names string[] of all system exceptions
local exceptionlib = {}

---@param value any
---@param what? string|table its repository id, name ("Mod::NotFound") or type
---@return boolean
function exceptionlib.is(value, what) end

---@param value any
---@return string? name "TRANSIENT"; nil: it is no system exception
function exceptionlib.is_system(value) end

---@param type table|string a type or a repository id
---@param members? table
---@return mare.orb.exception
function exceptionlib.user(type, members) end

---A remote object. Its other methods are the operations of its interface, its other fields the attributes.
---@class mare.orb.proxy
---@field _async table<string, fun(self: table, ...: any): mare.fiber> calls that give futures
---@field [string] any
local proxy = {}

---The same object with a time limit of its own.
---@param options { timeout?: number }
---@return mare.orb.proxy
function proxy:_with(options) end

---@param interface string a repository id, or a name that was loaded
---@return boolean
function proxy:_is_a(interface) end

---@param interface string|table
---@return mare.orb.proxy? object nil: it is none of that interface
function proxy:_narrow(interface) end

---@param interface string|table
---@return mare.orb.proxy
function proxy:_unchecked_narrow(interface) end

---@return boolean
function proxy:_non_existent() end

---@return boolean
function proxy:_not_existent() end

---@param other mare.orb.proxy?
---@return boolean
function proxy:_is_equivalent(other) end

---@param most? integer
---@return integer
function proxy:_hash(most) end

---@return string
function proxy:_interface_name() end

---A CORBA::InterfaceDef, of the server's interface repository.
---@return mare.orb.proxy
function proxy:_interface() end

---What an operation takes and gives: parameters in their order, `result`, `exceptions`, `oneway`.
---@class mare.orb.signature
---@field [integer] string|table a type, or { type, mode = "in"|"inout"|"out", name = }
---@field result? string|table
---@field exceptions? (string|table)[]
---@field oneway? boolean

---A request that is made at run time.
---@class mare.orb.request
---@field operation string
---@field target mare.orb.proxy
local request = {}

---@param operation string
---@param signature? mare.orb.signature without it IDL must say what the operation takes
---@return mare.orb.request
function proxy:_request(operation, signature) end

---@param ... any in and inout values
---@return any ... the result, then inout and out values
function request:invoke(...) end

---@param ... any
---@return mare.orb.request self
function request:send_deferred(...) end

---@return boolean there
function request:poll_response() end

---@return any ... as invoke
function request:get_response() end

---@param ... any
function request:send_oneway(...) end

---@return string ior
function proxy:_to_string() end

---What an interceptor raises to have a request sent to another object: CORBA's ForwardRequest.
---@param object table
---@return table exception
function orblib.forward_request(object) end

---@class mare.orb.broker
---@field types table what was loaded, by name: constants, labels, types, exceptions to make; of modules and interfaces also kind, id, name …
---@field repository mare.orb.idl.Repository
local broker = {}

---Registers an interceptor, or what the function gives.
---@param interceptor mare.orb.interceptor | fun(broker: mare.orb.broker): mare.orb.interceptor
function broker:intercept(interceptor) end

---@return integer slot of PICurrent
function broker:allocate_slot() end

---@return mare.orb.picurrent
function broker:pi_current() end

---Loads IDL; raises its mistakes with their places.
---@param text string
---@param options? { name?: string, include?: string[], define?: table<string, string>, replace?: boolean, lenient?: boolean }
---@return table[] definitions
function broker:load(text, options) end

---@param path string
---@param options? { include?: string[], define?: table<string, string>, replace?: boolean, lenient?: boolean }
---@return table[] definitions
function broker:loadfile(path, options) end

---A type as IDL writes it.
---@param text string
---@return table
function broker:type(text) end

---The class of a valuetype: its values get it as their metatable, and tables with that are values of the type. nil: it has none any more.
---@param type string|table a name, a repository id or a type
---@param class? table of a custom type: with the methods `write(output)` and `read(input)`
function broker:factory(type, class) end

---@param name string a name or a repository id
---@return table definition
function broker:interface(name) end

---@param reference string|mare.orb.proxy IOR:, corbaloc:, file://; another proxy: through the same interface, if none is given
---@param interface? string|table
---@return mare.orb.proxy? object nil for a nil reference
function broker:proxy(reference, interface) end

---@param reference string
---@param interface? string|table
---@return mare.orb.proxy?
function broker:string_to_object(reference, interface) end

---@param object? table a proxy or a servant
---@return string ior
function broker:object_to_string(object) end

---@param name string
---@param interface? string|table
---@return mare.orb.proxy?
function broker:resolve_initial_references(name, interface) end

---@param name string
---@param object table|string
function broker:register_initial_reference(name, object) end

---@return string[] names
function broker:list_initial_services() end

-- Serving: types/mare/orb/server.d.lua.

---Closes the client's connections. Later calls, of its references and its own, raise BAD_INV_ORDER minor 4.
function broker:close() end

return orblib
