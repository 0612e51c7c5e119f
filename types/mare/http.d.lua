---@meta mare.http
-- luacheck: ignore 212 241

---A server for HTTP/1.1, and a client.
---@class mare.httplib
local http = {}

---What a client may take; see docs/http.md.
---@class mare.http.limits
---@field head_bytes? integer 16384
---@field fields? integer 100
---@field body_bytes? number 1048576
---@field connections? integer 10000 in each process
---@field idle? number 60 seconds
---@field head? number 10 seconds
---@field body? number 60 seconds
---@field write? number 60 seconds
---@field drain? number 2 seconds
---@field grace? number 10 seconds

---@alias mare.http.fields table<string, string|number|(string|number)[]>
---@alias mare.http.body string|mare.buffer|fun(): (string|mare.buffer)?
---@alias mare.http.handler fun(request: mare.http.request): (integer|mare.http.body)?, (mare.http.body|mare.http.fields)?, mare.http.fields?

---@class mare.http.options
---@field workers? integer processes; `process.workers()`
---@field start? fun(): mare.http.handler called in each process
---@field tls? table|userdata a context of mare.tls, or its options
---@field gzip? boolean|{ least?: integer, level?: integer, types?: string[] }
---@field limits? mare.http.limits
---@field log? fun(request: mare.http.request, status: integer, bytes: integer, seconds: number)
---@field report? fun(text: string) when a handler fails
---@field memory? number|mare.budget of each process
---@field name? string
---@field backlog? integer

---Serves there until it is stopped. Raises what goes wrong at the start of a process.
---@param where integer|string|table as for net.listen
---@param handler mare.http.handler|string|mare.http.options a function, the name of a module that returns one, or options with `start`
---@param options? mare.http.options
---@return mare.http.server? server
---@return string? message
---@return string? code
function http.serve(where, handler, options) end

---Ends the request with this status.
---@param status integer
---@param message? string the body of the answer
---@param fields? mare.http.fields
function http.fail(status, message, fields) end

---A handler that chooses one by method and path.
---@return mare.http.router
---@nodiscard
function http.router() end

---A handler: files below a folder.
---@param folder string
---@param options? { index?: string, keep?: number }
---@return mare.http.handler
---@nodiscard
function http.files(folder, options) end

---@class mare.http.router
---@operator call(mare.http.request): any
local router = {}

---@param method string
---@param pattern string "/users/:id", "/files/*path"
---@param handler mare.http.handler
---@return mare.http.router
function router:route(method, pattern, handler) end

---@param pattern string
---@param handler mare.http.handler
---@return mare.http.router
function router:get(pattern, handler) end

---@param pattern string
---@param handler mare.http.handler
---@return mare.http.router
function router:post(pattern, handler) end

---@param pattern string
---@param handler mare.http.handler
---@return mare.http.router
function router:put(pattern, handler) end

---@param pattern string
---@param handler mare.http.handler
---@return mare.http.router
function router:patch(pattern, handler) end

---@param pattern string
---@param handler mare.http.handler
---@return mare.http.router
function router:delete(pattern, handler) end

---@param f fun(request: mare.http.request, next: fun(request?: mare.http.request): ...): ...
---@return mare.http.router
function router:use(f) end

---Reads "a=1&b=%20".
---@param text string
---@return table<string, string>
---@nodiscard
function http.form(text) end

---Undoes %XX.
---@param text string
---@param plus? boolean a plus sign is a space
---@return string
---@nodiscard
function http.decode(text, plus) end

---As fields of HTTP have dates.
---@param seconds integer since 1970
---@return string
---@nodiscard
function http.date(seconds) end

---An access log, for the option `log`.
---@param file? file*|mare.file|mare.loglib stdout by default; `mare.log`: a line of it for each request; io's own files can't be sent, but stdout and stderr
---@return fun(request: mare.http.request, status: integer, bytes: integer, seconds: number)
---@nodiscard
function http.log(file) end

---For `router:use`: gives the request an `id`, from its field X-Request-Id or a new one, which is a field of all that is logged for it.
---@param request mare.http.request
---@param next fun(request: mare.http.request): ...
---@return any ... what next(request) gives
function http.identify(request, next) end

---What a request of the client says; see docs/http-client.md.
---@class mare.http.asking
---@field query? table<string, string|number|boolean|(string|number)[]>|string
---@field headers? table<string|integer, string|number|false|(string|number)[]> also pairs { name, value } in the list part
---@field body? mare.http.body
---@field length? integer bytes that the body's function gives
---@field json? any sent as JSON
---@field form? table<string, string|number|(string|number)[]>
---@field auth? string[]|{ user: string, password: string }
---@field bearer? string
---@field stream? boolean return when the head has come
---@field body_bytes? number 64 MiB
---@field timeout? number seconds for all of it
---@field connect_timeout? number 30 seconds
---@field idle_timeout? number 60 seconds
---@field redirects? integer|false 10
---@field version? "1.1"|"2"
---@field decompress? boolean
---@field proxy? string|false
---@field no_proxy? string
---@field tls? { ca?: string, cert?: string, key?: string, verify?: boolean }
---@field unix? string path of a socket

---Options of a client: those of requests, but the query and the body, and
---@class mare.http.client.options: mare.http.asking
---@field base? string
---@field cookies? boolean
---@field per_host? integer connections
---@field connections? integer
---@field kept? integer

---@class mare.http.request.options: mare.http.asking
---@field url string
---@field method? string "GET"

---@class mare.http.response
---@field status integer
---@field reason string
---@field ok boolean 200 to 299
---@field headers table<string, string> names in lower case
---@field fields string[][] { name, value } as they came
---@field body? string nil with `stream`
---@field url string
---@field method string
---@field redirects integer
---@field version string
local response = {}

---The next piece of the body; nil at its end.
---@param most? integer bytes
---@return string? piece
---@return string? message
---@return string? code
function response:read(most) end

---The rest of the body.
---@param most? number bytes
---@return string? body
---@return string? message
---@return string? code
function response:all(most) end

---for piece in response:pieces() do
---@param most? integer bytes
---@return fun(): string?
function response:pieces(most) end

---for line in response:lines() do
---@param most? integer bytes of a line
---@return fun(): string?
function response:lines(most) end

---The body as a value of JSON.
---@param options? table as for json.decode
---@return any value
---@return string? message
---@return string? code
function response:json(options) end

---@return { address: string, port: integer, opened: integer, connect: number, first_byte: number, total: number }
function response:info() end

---What has not come is not waited for.
function response:close() end

---@class mare.http.cookie
---@field name string
---@field value string
---@field domain string
---@field path string
---@field secure boolean
---@field http_only boolean
---@field subdomains boolean
---@field expires? integer

---@class mare.http.client
local client = {}

---@param options mare.http.request.options
---@return mare.http.response? response
---@return string? message
---@return string? code
function client:request(options) end

---@param url string
---@param options? mare.http.asking
---@return mare.http.response? response
---@return string? message
---@return string? code
function client:get(url, options) end

---@param url string
---@param options? mare.http.asking
---@return mare.http.response? response
---@return string? message
---@return string? code
function client:head(url, options) end

---@param url string
---@param options? mare.http.asking
---@return mare.http.response? response
---@return string? message
---@return string? code
function client:post(url, options) end

---@param url string
---@param options? mare.http.asking
---@return mare.http.response? response
---@return string? message
---@return string? code
function client:put(url, options) end

---@param url string
---@param options? mare.http.asking
---@return mare.http.response? response
---@return string? message
---@return string? code
function client:patch(url, options) end

---@param url string
---@param options? mare.http.asking
---@return mare.http.response? response
---@return string? message
---@return string? code
function client:delete(url, options) end

---@param url string
---@param options? mare.http.asking
---@return mare.http.response? response
---@return string? message
---@return string? code
function client:options(url, options) end

---@return mare.http.cookie[]
---@nodiscard
function client:cookies() end

---Ends its requests and closes its connections.
function client:close() end

---A client of its own.
---@param options? mare.http.client.options
---@return mare.http.client? client
---@return string? message
---@return string? code
function http.client(options) end

---Any method.
---@param options mare.http.request.options
---@return mare.http.response? response
---@return string? message
---@return string? code
function http.request(options) end

---@param url string
---@param options? mare.http.asking
---@return mare.http.response? response
---@return string? message
---@return string? code
function http.get(url, options) end

---@param url string
---@param options? mare.http.asking
---@return mare.http.response? response
---@return string? message
---@return string? code
function http.head(url, options) end

---@param url string
---@param options? mare.http.asking
---@return mare.http.response? response
---@return string? message
---@return string? code
function http.post(url, options) end

---@param url string
---@param options? mare.http.asking
---@return mare.http.response? response
---@return string? message
---@return string? code
function http.put(url, options) end

---@param url string
---@param options? mare.http.asking
---@return mare.http.response? response
---@return string? message
---@return string? code
function http.patch(url, options) end

---@param url string
---@param options? mare.http.asking
---@return mare.http.response? response
---@return string? message
---@return string? code
function http.delete(url, options) end

---@param url string
---@param options? mare.http.asking
---@return mare.http.response? response
---@return string? message
---@return string? code
function http.options(url, options) end

---@class mare.http.server
local server = {}

---@return string host
---@return integer port
function server:address() end

---Serves until TERM or INT, then stops.
---@return true
function server:run() end

---Accepts nothing more and waits until the requests that have begun are finished.
---@return true
function server:stop() end

---Waits until it was stopped.
---@return true
function server:wait() end

---@class mare.http.request
---@field method string
---@field target string as it came
---@field path string decoded
---@field raw_path string
---@field query table<string, string>
---@field headers table<string, string> names in lower case
---@field version "1.1"|"1.0"
---@field peer string
---@field connection mare.connection
---@field params? table<string, string> of a route
local request = {}

---The whole body.
---@param most? integer bytes
---@return string
function request:body(most) end

---The next piece of the body; nil at its end.
---@param most? integer bytes
---@return string?
function request:read(most) end

---for piece in request:pieces() do
---@return fun(): string?
function request:pieces() end

---Sends the head of an answer whose body comes by `write`.
---@param status? integer 200
---@param fields? mare.http.fields
---@param length? integer bytes that will follow
---@return mare.http.request
function request:start(status, fields, length) end

---@param ... string|mare.buffer
function request:write(...) end

---Makes a websocket of the connection, which is closed when the handler returns. Raises where the request asks for none.
---@param options? mare.http.websocket.options
---@return mare.http.websocket
---@nodiscard
function request:websocket(options) end

---Makes the answer a stream of server-sent events, which ends when the handler returns.
---@param options? { keep_alive?: number, fields?: mare.http.fields }
---@return mare.http.events
---@nodiscard
function request:events(options) end

---@class mare.http.event
---@field data? string
---@field event? string its type
---@field id? string|integer
---@field retry? number seconds

---@class mare.http.events
---@field last string|false the id of the last event that the client has seen
---@field gone mare.channel closed when nobody reads any more
---@field request mare.http.request
local stream = {}

---@param event string|mare.http.event
---@return true? sent
---@return string? message
function stream:send(event) end

---@param text? string one line
---@return true? sent
---@return string? message
function stream:comment(text) end

---Sends what comes through the channel, until it is closed or nobody reads.
---@param channel mare.channel
function stream:follow(channel) end

---@class mare.http.websocket.options
---@field origin? string|string[]|fun(origin: string, request: mare.http.request): any "same", "any", or whose pages may connect
---@field protocols? string[] best first
---@field message_bytes? integer the limit body_bytes
---@field ping? number seconds without a sign of life, 30
---@field fields? mare.http.fields of the answer 101

---@class mare.http.websocket
---@field code integer|false of the close; false: it is open
---@field reason string|false
---@field protocol string|false
---@field request mare.http.request
local ws = {}

---The next message and its kind; nil, "closed" and the code; nil, "timeout".
---@param seconds? number
---@return string? message
---@return string kind "text" or "binary"; what is wrong
---@return integer? code
function ws:receive(seconds) end

---for message, kind in ws:messages() do
---@return fun(): string?, ("text"|"binary")?
function ws:messages() end

---@param data string|mare.buffer
---@param kind? "text"|"binary"
---@return true? sent
---@return string? message
---@return integer? code
function ws:send(data, kind) end

---@param data? string at most 125 bytes
---@return true? sent
---@return string? message
---@return integer? code
function ws:ping(data) end

---@param code? integer 1000
---@param reason? string at most 123 bytes
---@return true? closed nil: the client did not answer
---@return string? message
function ws:close(code, reason) end

return http
