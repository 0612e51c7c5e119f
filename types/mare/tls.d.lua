---@meta mare.tls
-- luacheck: ignore 212 241

---TLS on connections of mare.net.
---@class mare.tlslib
local tlslib = {}

---What many connections have in common. Shared by reference.
---@class mare.tlscontext

---@class mare.tlsoptions
---@field cert? string file or PEM, with the chain behind it
---@field key? string file or PEM
---@field ca? string file, folder/ or PEM; absent: the system's authorities
---@field verify? boolean of clients, default true
---@field client_cert? '"none"'|'"optional"'|'"required"' of servers
---@field alpn? string[]
---@field min_version? '"1.2"'|'"1.3"'
---@field max_version? '"1.2"'|'"1.3"'
---@field ciphers? string

---@class mare.tlsclient: mare.tlsoptions
---@field context? mare.tlscontext instead of the options of one
---@field server? string the name the certificate must have
---@field session? string of `connection:session()`
---@field timeout? number
---@field bind? string
---@field nodelay? boolean

---@param options? mare.tlsoptions
---@return mare.tlscontext? context
---@return string? message
---@return string? code
function tlslib.context(options) end

---@param host string
---@param port integer
---@param options? mare.tlsclient
---@return mare.connection? connection
---@return string? message
---@return string? code
---@overload fun(where: mare.where, options?: mare.tlsclient): mare.connection?, string?, string?
function tlslib.connect(host, port, options) end

---@param connection mare.connection closed when the handshake fails
---@param options mare.tlsclient
---@return mare.connection? connection
---@return string? message
---@return string? code
function tlslib.client(connection, options) end

---@param connection mare.connection
---@param context mare.tlscontext|mare.tlsoptions
---@param seconds? number
---@return mare.connection? connection
---@return string? message
---@return string? code
function tlslib.server(connection, context, seconds) end

---@overload fun(host: string, port: integer, options: table): mare.server?, string?, string?
---@param where mare.where
---@param options table those of `net.listen`, and `context` or those of a context
---@return mare.server? server
---@return string? message
---@return string? code
function tlslib.listen(where, options) end

return tlslib
