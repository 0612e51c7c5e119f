--[[
mare.http: a server for HTTP/1.1, and the door to its client, mare.http.client, which comes with libcurl when it is first used. Several processes
accept from one listener; each serves its connections in fibers (mare.http.worker). What a handler gets is in mare.http.request, what is read and
written below it in src/module/http.c.

A server is a plain table { listener =, workers =, seen =, plan = } of the process that started it; `seen` are workers that get a successor.
]]
local core = require "mare.http.core"
local mare = require "mare"
local errors = require "mare.error"
local request = require "mare.control.request"
local say = require "mare.base.say"
local process, channel = mare.process, mare.channel

local http = {}

local Server = {}
Server.__index = Server
Server.__name = "http server"
Server.__stays = "a server of mare.http cannot be sent: it belongs to the process that started it"

-- What a stranger may take. Seconds: `idle` between two requests, `head` for a head once it has begun, `body` for a whole body or a piece of a
-- streamed one, `write` until a peer takes what is written, `drain` for one that is refused to read why, `grace` for requests when the server stops.
local LIMITS = { head_bytes = 16384, fields = 100, body_bytes = 1 << 20, connections = 10000,
                 idle = 60, head = 10, body = 60, write = 60, drain = 2, grace = 10 }

local function whole(n) if math.type(n) ~= "integer" or n < 1 then return "a whole number from 1 on" end end
local function most(n) if type(n) ~= "number" or n ~= n or n < 0 then return "a number, at least 0" end end
local function head(n) if math.type(n) ~= "integer" or n < 64 or n > 1 << 20 then return "a whole number from 64 to 1048576" end end
local CHECKS = { head_bytes = head, fields = whole, connections = whole }
for name in pairs(LIMITS) do CHECKS[name] = CHECKS[name] or most end

local function limits_of(given)
  request.check(given or {}, CHECKS, "http.serve: limits")
  local limits = {}
  for name, usual in pairs(LIMITS) do limits[name] = given and given[name] or usual end
  return limits
end

local function gzip(g)
  if type(g) == "boolean" then return end
  if type(g) ~= "table" then return "true, or a table of its options" end
  local function level(n) if math.type(n) ~= "integer" or n < 1 or n > 9 then return "a whole number from 1 to 9" end end
  request.check(g, { least = whole, level = level, types = "table" }, "http.serve: gzip")
end

local OPTIONS = { gzip = gzip, workers = whole, start = "function", limits = "table", tls = function() end, log = "function", report = "function",
                  memory = function() end, backlog = whole, name = "string" }

-- A process that serves; it has begun, or it raises.
local function worker(self)
  local plan, ready = self.plan, channel.new(1)
  local handle = request.pass("^argument%[2%]%.", "", pcall(process.spawn, {
    main = 'require "mare.http.worker"(...)', args = { self.listener, plan, ready }, name = plan.name, owned = true, memory = plan.memory }))
  local which, _, err = mare.select { ready, handle }
  if which == 2 then error(err, 0) end
  return handle
end

--- Serves there until it is stopped. The handler is a function of a request, or the name of a module that is one; every process has its own copy.
function http.serve(where, handler, options)
  if type(handler) == "table" and not options and not (getmetatable(handler) or {}).__call then handler, options = nil, handler end
  options = options or {}
  request.check(options, OPTIONS, "http.serve")
  local start = options.start
  if (handler == nil) == (start == nil) then request.fail "http.serve: a handler is needed, or option 'start', which gives one" end
  local kind = type(handler)
  if handler ~= nil and kind ~= "function" and kind ~= "string" and not (kind == "table" and (getmetatable(handler) or {}).__call) then
    request.fail("http.serve: a handler is a function, a router or the name of a module, got %s", kind)
  end
  local limits = limits_of(options.limits)
  if options.gzip then require "mare.http.deflate" end
  local listener, err, code
  if options.tls then
    local tls = require "mare.tls"
    local context = options.tls
    if type(context) == "table" then context, err, code = tls.context(context) end
    if not context then return nil, err, code end
    listener, err, code = tls.listen(where, { context = context, backlog = options.backlog })
  else
    listener, err, code = mare.net.listen(where, { backlog = options.backlog })
  end
  if not listener then return nil, err, code end
  local plan = { handler = handler, start = start, limits = limits, tls = options.tls and true, log = options.log, report = options.report,
                 memory = options.memory, gzip = options.gzip, name = options.name or "http" }
  local self = setmetatable({ listener = listener, plan = plan, workers = {}, seen = {} }, Server)
  local unfinished <close> = setmetatable({}, { __close = function(u) if not u.done then self:stop() end end })
  for i = 1, options.workers or process.workers() do self.workers[i] = worker(self) end
  unfinished.done = true
  return self
end

--- Where it listens.
function Server:address() return self.listener:address() end

local function place_of(list, handle)
  for i, h in ipairs(list) do
    if h == handle then return i end
  end
end

-- Waits until all have ended. One that fails while the server is open gets a successor. Several fibers may wait, one in `stop`: the list may have
-- changed meanwhile, and the first of them that sees an end has it to do.
function Server:wait()
  local workers, seen = self.workers, self.seen
  while #workers > 0 do
    local known = table.move(workers, 1, #workers, 1, {})
    local i, ok, err = mare.select(known)
    local handle = known[i]
    if ok or self.listener:closed() then
      local at = place_of(workers, handle)
      if at then table.remove(workers, at) end
    elseif seen[handle] then
      mare.sleep(0.1)
    elseif place_of(workers, handle) then
      seen[handle] = true
      local _ <close> = setmetatable({}, { __close = function() seen[handle] = nil end })
      say("mare.http: a process of the server has ended, another one takes its place: " .. tostring(err))
      mare.sleep(0.1)
      local successor = not self.listener:closed() and worker(self)
      if successor then workers[place_of(workers, handle) or #workers + 1] = successor end
    end
  end
  return true
end

--- Accepts nothing more, finishes what was asked, and waits for that: at most the limit `grace`.
function Server:stop()
  self.listener:close()
  return self:wait()
end

--- Serves until the program gets TERM or INT, then stops. A second signal ends the program at once.
function Server:run()
  local signal = require "mare.signal"
  local term, int = assert(signal.on "TERM"), assert(signal.on "INT")
  local waiting = mare.fiber.spawn(self.wait, self)
  local which, ok, err = mare.select { term, int, waiting }
  term:close()
  int:close()
  self.listener:close()
  if which ~= 3 then ok, err = waiting:wait() end
  if not ok then error(err, 0) end
  return true
end

--- Ends the request with this status: raises an error of kind "http".
function http.fail(status, message, fields)
  if math.type(status) ~= "integer" or status < 200 or status > 999 then
    error(("http.fail: a status is a whole number from 200 to 999, got %s"):format(tostring(status)), 2)
  end
  error(errors.new { kind = "http", status = status, message = message or core.phrase(status), fields = fields }, 0)
end

--- A router: a handler that chooses one by method and path.
function http.router() return require "mare.http.router".new() end

--- A handler: files below a folder. What is asked for is request.params.path if there is that, else the path.
function http.files(root, options)
  if type(root) ~= "string" or root == "" then request.fail("http.files: a folder expected, got %s", tostring(root)) end
  request.check(options or {}, { index = "string", keep = most }, "http.files")
  options = options or {}
  local shelf = {}                                 -- each process has a copy
  return function(req)
    if req.method ~= "GET" and req.method ~= "HEAD" then
      error(errors.new { kind = "http", status = 405, message = "Method Not Allowed", fields = { Allow = "GET, HEAD" } }, 0)
    end
    local params = req.params
    return (package.loaded["mare.http.files"] or require "mare.http.files").answer(req, shelf, root, params and params.path or req.path, options)
  end
end

--- "a=1&b=%20" -> { a = "1", b = " " }; of a name that is there more than once the first.
http.form = require "mare.http.request".form
http.decode = core.decode
http.date = core.date

-- A line of mare.log for each request. It needs nothing of the process that made it, so it can be sent to the server's processes.
local function to_log(req, status, bytes, seconds)
  require "mare.log".info("request", { peer = tostring(req.peer), method = req.method, target = req.target, version = req.version, status = status,
                                       bytes = bytes, seconds = seconds, request = req.id })
end

-- Files of io can't be sent; these two every process has.
local STREAMS = { [io.stdout] = "stdout", [io.stderr] = "stderr" }

--- An access log: a line for each request, as many servers write it, and the seconds it took; or a line of mare.log, with the same as fields.
function http.log(stream)
  if stream == require "mare.log" then return to_log end
  local name = stream == nil and "stdout" or STREAMS[stream]
  if name then stream = nil
  elseif type(stream) ~= "userdata" or io.type(stream) then
    request.fail("http.log: mare.log, a file that mare.file has opened, io.stdout or io.stderr expected, got %s%s", tostring(stream),
      io.type(stream) and ", which can't be sent to the server's processes" or "")
  end
  return function(req, status, bytes, seconds)
    local target = req.target:gsub('["\\]', { ['"'] = "\\x22", ["\\"] = "\\x5C" })       -- it must not end where the client wants
    local line = ('%s - - [%s] "%s %s HTTP/%s" %d %d %.6f\n'):format(tostring(req.peer), os.date("!%d/%b/%Y:%H:%M:%S +0000"), req.method, target,
      req.version, status, bytes, seconds)
    local file = stream or io[name]
    file:write(line)
    file:flush()
  end
end

--- For router:use: the request gets an `id`, and so has what is logged for it. It is the one that the client, or a proxy, has given in X-Request-Id.
function http.identify(req, go)
  local given = req.headers["x-request-id"]
  req.id = given and #given <= 128 and given:find "^[%w._:/+=@-]+$" and given or ("%016x"):format(math.random(0))
  local _ <close> = require "mare.log".with { request = req.id }
  return go(req)
end

-- The client: get, head, post, put, patch, delete, options and request ask with a client of this process; `client` makes others.
for _, name in ipairs { "client", "request", "get", "head", "post", "put", "patch", "delete", "options" } do
  http[name] = function(...) return require "mare.http.client"[name](...) end
end

return require "mare.near".guard(http)
