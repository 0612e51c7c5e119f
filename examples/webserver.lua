-- The distributed web server: one process, the controller, accepts connections and chooses services; others, the workers, serve.
--   mare run examples/webserver.lua [PORT [WORKERS [SECONDS]]]    8080 (0: any free port), one per CPU; how long to wait for a slow peer
--
--   GET /            a page that shows the load of each worker, and sorts
--   GET /events      the loads, twice a second (server-sent events)
--   GET /small       a small page
--   POST /sort?by=name|length|number|parity|sign&order=ascending|descending&algorithm=merge|quick
--                    the lines of the body, sorted:  curl --data-binary @names 'http://localhost:8080/sort?by=length'
--
-- What travels: for each connection the controller makes a closure, the service with all that was chosen in its upvalues, and
-- sends it with the connection itself to the worker that has the fewest. There a fiber serves it, request after request, until
-- the peer leaves or asks for something else: then the connection goes back to the controller, which makes another closure.
-- The seeds of this program: luaproc with moving userdata and functions, 4.3. What moves is its subject; a server that only
-- answers is simpler without a controller: its processes share the server, and each accepts (docs/net.md).
local folder = arg[0]:match("^(.*/)") or "./"
package.path = folder .. "?.lua;" .. package.path
local mare, http = require "mare", require "http"
local net, signal = require "mare.net", require "mare.signal"
local process, channel, fiber = mare.process, mare.channel, mare.fiber

----------------------------------------------------------------------------------------------------------- a worker

-- Takes (connection, its first request, service), and false to tell its load. Ends when `jobs` is closed.
local function worker(index, jobs, news, back, patience)
  local clock = mare.clock
  http.limits.idle = patience             -- a module is not copied: this is the worker's own
  local open, load = {}, { index = index, open = 0, requests = 0, busy = 0 }

  -- Serves requests for one service; gives one for another, or an error's status.
  local function serve(conn, request, service)
    local method, target = request.method, request.target
    while request.method == method and request.target == target do
      local body, refused = http.body(conn, request)
      if not body then return nil, refused end
      local start = clock()
      local fine, status, kind, text, more = pcall(service, body)
      load.requests, load.busy = load.requests + 1, load.busy + clock() - start
      if not fine then
        io.stderr:write("worker ", index, ": ", tostring(status), "\n")
        return nil, 500
      end
      if type(text) ~= "string" then return http.stream(conn, request, kind, text) end
      if not http.answer(conn, request, status, kind, text, more) or not request.keep then return nil end
      request, refused = http.head(conn)
      if not request then return nil, refused end
    end
    return request
  end

  local function connection(conn, request, service)
    local other, refused = serve(conn, request, service)
    open[conn], load.open = nil, load.open - 1
    local moved = other and back:send(index, conn, other)
    if not moved then
      if refused then http.refuse(conn, refused) else conn:close() end
      back:send(index)
    end
  end

  for conn, request, service in jobs:each() do
    if conn then
      load.open = load.open + 1
      open[conn] = fiber.spawn(connection, conn, request, service)
    else
      load.memory = process.memory()
      news:send(load)
    end
  end
  -- The end: who waits for a request reads an end, who answers may finish.
  local limit, rest = clock() + 3, {}
  for conn, serving in pairs(open) do
    rest[conn] = serving
    conn:shutdown("read")
  end
  for conn, serving in pairs(rest) do
    if serving:wait(math.max(0, limit - clock())) == nil then conn:close(0) end
  end
end

-------------------------------------------------------------------------------------------------------- the services

local function text(status, message, more)
  return function() return status, "text/plain; charset=utf-8", message, more end
end

local function page(kind, body) return function() return 200, kind, body end end

-- What is compared. nil: the line has no such thing.
local keys = {
  name = function(line) return line end,
  length = function(line) return utf8.len(line) or #line end,
  number = function(line) return tonumber(line) end,
  parity = function(line) local n = tonumber(line) return n and n % 2 end,
  sign = function(line) local n = tonumber(line) return n and (n < 0 and -1 or n > 0 and 1 or 0) end,
}

local orders = {
  ascending = function(key) return function(a, b) return key[a] < key[b] end end,
  descending = function(key) return function(a, b) return key[a] > key[b] end end,
}

local algorithms = { quick = table.sort }

-- Keeps what is equal in its order, and lets the worker's other connections go on in between.
function algorithms.merge(list, before)
  local n, done = #list, 0
  local from, to, width = list, {}, 1
  while width < n do
    for low = 1, n, 2 * width do
      local middle, high = math.min(low + width, n + 1), math.min(low + 2 * width, n + 1)
      local i, j = low, middle
      for k = low, high - 1 do
        if i < middle and (j >= high or not before(from[j], from[i])) then to[k], i = from[i], i + 1
        else to[k], j = from[j], j + 1 end
      end
      done = done + high - low
      if done > 5000 then
        done = 0
        fiber.yield()
      end
    end
    from, to, width = to, from, 2 * width
  end
  return from
end

-- A service customised: what is compared, in which order and how is in its upvalues.
local function sorter(key_of, order, sort)
  return function(body)
    local lines, key = {}, {}
    for line in body:gmatch("[^\r\n]+") do
      lines[#lines + 1], key[line] = line, key_of(line)
      if key[line] == nil then return 400, "text/plain", ("line %d is no number: %s\n"):format(#lines, line) end
    end
    lines = sort(lines, order(key)) or lines
    lines[#lines + 1] = ""
    return 200, "text/plain; charset=utf-8", table.concat(lines, "\n")
  end
end

local file <close> = assert(io.open(folder .. "webserver.html"))
local small = page("text/html", "<!DOCTYPE html><title>small</title><p>A small page, served by mare.</p>\n")
local front = page("text/html; charset=utf-8", file:read("a"))
local feeds = {}                          -- who sees the loads

local services = {
  ["/small"] = { GET = function() return small end },
  ["/"] = { GET = function() return front end },
  ["/events"] = { GET = function()
    local feed = channel.new(4)
    feeds[feed] = true
    return function() return 200, "text/event-stream", feed end
  end },
  ["/sort"] = { POST = function(query)
    local by, order, algorithm = query.by or "name", query.order or "ascending", query.algorithm or "merge"
    if keys[by] and orders[order] and algorithms[algorithm] then return sorter(keys[by], orders[order], algorithms[algorithm]) end
    return text(400, "by=name|length|number|parity|sign, order=ascending|descending, algorithm=merge|quick\n")
  end },
}

-- The service for a request: always a function, if only one that says why not.
local function choose(request)
  local path, query = request.target:gsub("^http://[^/]*", ""):match("^([^?]*)%??(.*)$")
  local service = services[path]
  if not service then return text(404, "there is nothing at " .. path .. "\n") end
  local allowed = service.GET and "GET, HEAD" or "POST"
  local make = service[request.method == "HEAD" and "GET" or request.method]
  if not make then return text(405, "only " .. allowed .. "\n", "\r\nAllow: " .. allowed) end
  return make(http.query(query))
end

------------------------------------------------------------------------------------------------------ the controller

local port, count = math.tointeger(tonumber(arg[1] or 8080)), math.tointeger(tonumber(arg[2] or process.workers()))
http.limits.idle = tonumber(arg[3]) or http.limits.idle
if not port or not count or count < 1 then
  io.stderr:write("usage: mare run examples/webserver.lua [PORT [WORKERS [SECONDS]]]\n")
  os.exit(2)
end
local server, message = net.listen("127.0.0.1:" .. port)
if not server then
  io.stderr:write("webserver: ", message, "\n")
  os.exit(1)
end
local interrupt, terminate = signal.on("INT"), signal.on("TERM")

local workers, back, news, waiting = {}, channel.new(64), channel.new(), {}
for i = 1, count do
  local jobs = channel.new(64)
  local args = { i, jobs, news, back, http.limits.idle }
  workers[i] = { jobs = jobs, open = 0, handle = process.spawn { main = worker, args = args, name = "worker " .. i } }
end

local function dispatch(conn, request)
  local best = workers[1]
  for _, w in ipairs(workers) do if w.open < best.open then best = w end end
  best.open = best.open + 1
  if not best.jobs:send(conn, request, choose(request)) then conn:close() end
end

-- The first request decides; so a fiber waits for it, and a slow peer delays nobody.
local function first(conn)
  conn:timeout(http.limits.idle)
  local request, refused = http.head(conn)
  waiting[conn] = nil
  if request then dispatch(conn, request)
  elseif refused then http.refuse(conn, refused)
  else conn:close() end
end

fiber.spawn(function()
  for conn in server:connections() do waiting[conn] = fiber.spawn(first, conn) end
end)

fiber.spawn(function()
  for index, conn, request in back:each() do
    workers[index].open = workers[index].open - 1
    if conn then dispatch(conn, request) end
  end
end)

-- Asks the workers for their loads while somebody looks.
local function tell()
  if not next(feeds) then return end
  local list, asked = {}, 0
  for _, w in ipairs(workers) do
    if w.jobs:send(false) then asked = asked + 1 end
  end
  for _ = 1, asked do
    local l = news:receive()
    list[l.index] = ('{"open":%d,"requests":%d,"busy":%.6f,"memory":%d}'):format(l.open, l.requests, l.busy, l.memory)
  end
  local event = ('data: {"time":%.6f,"workers":[%s]}\n\n'):format(mare.clock(), table.concat(list, ","))
  for feed in pairs(feeds) do
    local _, why = feed:try_send(event)
    if why == "closed" then feeds[feed] = nil end
  end
end
local ticks = mare.timer.every(0.5, tell)

print(("http://127.0.0.1:%d/  %d workers; Ctrl-C or TERM ends it"):format(select(2, server:address()), count))
io.stdout:flush()
mare.select { interrupt, terminate }
interrupt:close()                         -- a second one ends it at once
terminate:close()
ticks:cancel()
server:close()
for conn in pairs(waiting) do conn:shutdown("read") end
for feed in pairs(feeds) do feed:close() end
for _, w in ipairs(workers) do w.jobs:close() end
for _, w in ipairs(workers) do w.handle:wait() end
back:close()
