---@meta mare.net
-- luacheck: ignore 212 241

---Sockets: TCP, UDP, Unix. Whatever can fail gives `nil, message, code`.
---@class mare.netlib
local netlib = {}

---A port, "host:port", "[ipv6]:port", ":port", "unix:/path", or a table.
---@alias mare.where integer|string|{ host?: string, port?: integer, path?: string }

---A listening socket. Shared: several processes may accept from it.
---@class mare.server
local server = {}

---A connection. It belongs to one process and is moved in messages.
---@class mare.connection
local connection = {}

---A socket of datagrams. Moved as connections are.
---@class mare.udp
local udp = {}

---@overload fun(host: string, port: integer, options?: { backlog?: integer, reuseport?: boolean, v6only?: boolean, mode?: integer }): mare.server?, string?, string?
---@param where mare.where port 0: any free one; without a host: every interface
---@param options? { backlog?: integer, reuseport?: boolean, v6only?: boolean }
---@return mare.server? server
---@return string? message
---@return string? code
function netlib.listen(where, options) end

---Connects; several addresses of a name are tried as in RFC 8305.
---@param where mare.where
---@param options? { timeout?: number, bind?: string, nodelay?: boolean }
---@return mare.connection? connection
---@return string? message
---@return string? code
---@overload fun(host: string, port: integer, options?: { timeout?: number, bind?: string, nodelay?: boolean }): mare.connection?, string?, string?
function netlib.connect(where, options) end

---@param where? mare.where absent: not bound; both families
---@return mare.udp? socket
---@return string? message
---@return string? code
function netlib.udp(where) end

---The addresses of a name, in the order in which to try them.
---@param host string
---@param seconds? number
---@return string[]? addresses
---@return string? message
---@return string? code
function netlib.resolve(host, seconds) end

---@param seconds? number
---@return mare.connection? connection
---@return string? message
---@return string? code
function server:accept(seconds) end

---`for connection in server:connections() do`, until the server is closed.
---@return fun(s: mare.server): mare.connection?
---@return mare.server
function server:connections() end

---For every process that has it.
---@return true
function server:close() end

---@return boolean
function server:closed() end

---@return string? host or path
---@return integer|string|nil port
function server:address() end

---How long `accept` waits unless it says otherwise.
---@param seconds? number
---@return mare.server
function server:timeout(seconds) end

---@param name string
---@param value? boolean|integer
---@return boolean|integer|nil value
---@return string? message
---@return string? code
function server:option(name, value) end

---@return integer?
function server:fd() end

---@param what? integer|'"l"'|'"L"'|'"a"' absent: whatever there is, at least a byte
---@param seconds? number
---@return string? data
---@return string? message
---@return string? code "EOF": the end of the stream
function connection:read(what, seconds) end

---The same as a buffer; from some 16 KB on its bytes are not copied.
---@param what? integer|'"l"'|'"L"'|'"a"'
---@param seconds? number
---@return mare.buffer? data sealed
---@return string? message
---@return string? code
function connection:read_buffer(what, seconds) end

---@param pattern string plain
---@param most? integer bytes; beyond them: nil, message, "EMSGSIZE"
---@param seconds? number
---@return string? data up to and with the pattern
---@return string? message
---@return string? code
function connection:read_until(pattern, most, seconds) end

---Sends all of it; waits while the peer takes no more.
---@param ... string|number|mare.buffer
---@return true? sent
---@return string? message
---@return string? code
---@return integer? bytes sent, of a failure
function connection:write(...) end

---@param seconds? number
---@return true? sent
---@return string? message
---@return string? code
function connection:flush(seconds) end

---@param mode '"full"'|'"no"'
---@param bytes? integer default 8192
---@return true
function connection:setvbuf(mode, bytes) end

---@param way? '"write"'|'"read"'|'"both"' default: both
---@return true? done
---@return string? message
---@return string? code
function connection:shutdown(way) end

---Nothing more is written from now on. Doesn't wait.
---@return true
function connection:cut() end

---Sends what is buffered and closes. It is closed in any case.
---@param seconds? number
---@return true? done
---@return string? message
---@return string? code
function connection:close(seconds) end

---@return boolean
function connection:closed() end

---How long each operation may wait unless it says otherwise.
---@param seconds? number
---@return mare.connection
function connection:timeout(seconds) end

---@return string? host or path
---@return integer|string|nil port
function connection:peer() end

---@return string? host or path
---@return integer|string|nil port
function connection:address() end

---@param name string nodelay keepalive reuseaddr reuseport rcvbuf sndbuf linger broadcast v6only ttl
---@param value? boolean|integer
---@return boolean|integer|nil value
---@return string? message
---@return string? code
function connection:option(name, value) end

---Bytes that were received and not read yet.
---@return integer
function connection:buffered() end

---A case of `mare.select`: a write would not wait.
---@return table
function connection:writing() end

---@return integer?
function connection:fd() end

---With TLS: shakes hands now instead of with the first read or write.
---@param seconds? number
---@return true? done
---@return string? message
---@return string? code
function connection:handshake(seconds) end

---With TLS: the session, for a later `tls.connect`.
---@return string?
function connection:session() end

---About the TLS of it; nil: it has none.
---@return { version: string, cipher: string, alpn?: string, server_name?: string, subject?: string, issuer?: string, valid_until?: string, fingerprint?: string, resumed: boolean, server: boolean, verified: boolean }?
function connection:tls() end

---@param data string
---@param host string
---@param port integer
---@return true? sent
---@return string? message
---@return string? code
---@overload fun(self: mare.udp, data: string, where: mare.where): true?, string?, string?
function udp:send_to(data, host, port) end

---@param seconds? number
---@return string? data
---@return string? host or message
---@return integer|string|nil port or code
function udp:receive_from(seconds) end

---@param host? string an address; absent: undoes it
---@param port? integer
---@return true? done
---@return string? message
---@return string? code
function udp:connect(host, port) end

---@param data string
---@return true? sent
---@return string? message
---@return string? code
function udp:send(data) end

---@param seconds? number
---@return string? data
---@return string? message
---@return string? code
function udp:receive(seconds) end

---@return true
function udp:close() end

---@return boolean
function udp:closed() end

---@param seconds? number
---@return mare.udp
function udp:timeout(seconds) end

---@return string? host or path
---@return integer|string|nil port
function udp:address() end

---@return string? host or path
---@return integer|string|nil port
function udp:peer() end

---@param name string
---@param value? boolean|integer
---@return boolean|integer|nil value
---@return string? message
---@return string? code
function udp:option(name, value) end

---@return integer?
function udp:fd() end

return netlib
