--[[
mare.observe.pages: the process that serves the page of `mare top --web`: asks the program in turns, and tells all pages what it has said.

Who has no token gets nothing. It stands in the path of each address, so there is no cookie, and no other site's page can make a browser send it. A
Host that is no name of this machine itself is refused: another site's name could be made to lead here.

Each fiber that asks for more than looks has a connection of its own to the program. A page that doesn't read misses looks; it holds up nobody.
]]
local mare = require "mare"
local connect = require "mare.observe.client"
local http = require "mare.http"
local json = require "mare.base.json"
local page = require "mare.observe.page"
local channel, fiber = mare.channel, mare.fiber

local PAGES = 16            -- that are open at one time
local POINTS = 480          -- of the past; when there are more, two become one
local GROUPS, PAIRS, CHANNELS, FAILURES = 40, 120, 20, 16
local WINDOW = 100          -- milliseconds in which messages are counted, of each look
local LONGEST = 30          -- seconds of a profile

local sorts = { cpu = true, heap = true, messages = true, id = true }

-- ---- who gets in ----

local own = { ["127.0.0.1"] = true, ["localhost"] = true, ["[::1]"] = true }

local function host_is_ours(host)
  local name = host and (host:match "^(%[[%x:]+%])" or host:match "^[^:]+")
  return name ~= nil and own[name:lower()] == true and host:find "^[^@/]*$" ~= nil
end

-- In a time that doesn't say how much of it is right.
local function same(given, token)
  local differs = #given ~ #token
  for i = 1, #token do differs = differs | ((given:byte(i) or 0) ~ token:byte(i)) end
  return differs == 0
end

-- ---- functions of processes without names ----

local functions = {}        -- id of the maker -> where the function begins, or how many looks it is left alone
local known = 0

-- The outermost function of the first stack: what the process was made to run.
local function function_of(text)
  local last
  for line in text:gmatch "[^\n]+" do
    local place = line:match "in function <(.-)>$"
    if place then last = place elseif last and not line:find "^\t" then break end
  end
  return last
end

-- One more in each look, of those that are not known yet: to be asked may take a process some time.
local function name_groups(client, groups)
  local asked = false
  for _, g in ipairs(groups) do
    local known_as = not g.name and g.parent and functions[g.parent]
    if type(known_as) == "string" then
      g.at = known_as
    elseif type(known_as) == "number" and known_as > 0 then
      functions[g.parent] = known_as - 1
    elseif not g.name and not g.kind and g.parent and not asked then
      asked = true
      if known > 500 then functions, known = {}, 0 end
      known = known + 1
      local answer = client:ask("traceback " .. g.example)
      g.at = answer and function_of(answer.traceback)
      functions[g.parent] = g.at or 30
    end
  end
end

-- ---- a look ----

local function load_of(now, before, seconds)
  local list = {}
  for i, w in ipairs(now.workers) do
    local old = before.workers[i]
    local busy = old and math.max(0, math.min(1, (w.busy - old.busy) / seconds)) or 0
    if w.active then list[#list + 1] = { id = w.id, busy = busy, queued = w.queued } end
  end
  return list
end

-- What changes, per second, and how much there is.
local function point_of(now, before)
  local seconds = math.max(1e-3, now.clock - before.clock)
  local function rate(field) return math.max(0, (now[field] - before[field]) / seconds) end
  local workers, busy = load_of(now, before, seconds), 0
  for _, w in ipairs(workers) do busy = busy + w.busy end
  return { t = os.time(), cpu = rate "cpu", messages = rate "messages", turns = rate "dispatches", spawned = rate "spawned", ended = rate "ended",
    live = now.spawned - now.ended, heap = now.heap, resident = now.resident, busy = #workers > 0 and busy / #workers or 0 }, workers
end

local function mean(a, b)
  local m = {}
  for name, x in pairs(a) do m[name] = name == "t" and b.t or (x + b[name]) / 2 end
  return m
end

-- The past, in at most POINTS points, each `step` looks long.
local past = { step = 1, pending = {} }

local function remember(point)
  past.pending[#past.pending + 1] = point
  if #past.pending < past.step then return end
  local all = past.pending[1]
  for i = 2, #past.pending do all = mean(all, past.pending[i]) end
  past.pending = {}
  past[#past + 1] = all
  if #past < POINTS then return end
  for i = 1, POINTS // 2 do past[i] = mean(past[2 * i - 1], past[2 * i]) end
  for i = POINTS // 2 + 1, POINTS do past[i] = nil end
  past.step = past.step * 2
end

local streams, open = {}, 0    -- channel of a page -> by what it sorts

local function need(client, request)
  local answer, why, gone = client:ask(request)
  if not answer then error({ why = why, gone = gone }, 0) end
  return answer
end

-- An older program doesn't know every request: what it doesn't give is not shown.
local function ask(client, request)
  local answer, why, gone = client:ask(request)
  if gone then error({ why = why, gone = true }, 0) end
  return answer or {}
end

local function lists(client, limit)
  local wanted, by = {}, {}
  for _, sort in pairs(streams) do wanted[sort] = true end
  for sort in pairs(wanted) do by[sort] = need(client, ("list %s %d"):format(sort, limit)) end
  return by
end

local function tell(event, text)
  for stream in pairs(streams) do
    if #stream < 2 then stream:send { event = event, text = text } end
  end
end

local function tell_look(client, settings, totals, point, workers)
  local by = lists(client, settings.limit)
  local groups = ask(client, "groups " .. GROUPS)
  name_groups(client, groups.groups or {})
  local talk = ask(client, ("talk %d %d"):format(WINDOW, PAIRS))
  local look = { point = point, workers = workers, failed = totals.failures, spawned = totals.spawned, ended = totals.ended, threads = totals.threads,
    blocked = totals.blocked, up = totals.up, groups = groups.groups, rest = groups.rest, talk = talk.talk, window = talk.seconds, unseen = talk.rest,
    channels = ask(client, "channels " .. CHANNELS).channels, failures = ask(client, "failures " .. FAILURES).failures }
  for stream, sort in pairs(streams) do
    local list = by[sort]
    if list and #stream < 2 then
      look.sort, look.processes, look.count, look.states = sort, list.processes, list.count, list.states
      stream:send { event = "look", text = json.text(look) }
    end
  end
end

local function attend(client, settings)
  local before = need(client, "totals")
  while true do
    local due = mare.clock() + settings.interval
    mare.sleep(math.min(settings.interval, 0.3))
    local totals = need(client, "totals")
    local point, workers = point_of(totals, before)
    before = totals
    remember(point)
    if next(streams) then tell_look(client, settings, totals, point, workers) end
    mare.sleep(math.max(0, due - mare.clock()))
  end
end

-- ---- what is asked for ----

local function fields_of(kind)
  return { ["Content-Type"] = kind, ["Cache-Control"] = "no-store", ["Referrer-Policy"] = "no-referrer", ["X-Content-Type-Options"] = "nosniff",
    ["Cross-Origin-Resource-Policy"] = "same-origin" }
end

local function answer_json(value) return 200, json.text(value), fields_of "application/json" end

local serve = {}

function serve.page(_, settings)
  local nonce = settings.random()
  local fields = fields_of "text/html; charset=utf-8"
  fields["Content-Security-Policy"] = ("default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; img-src data:; connect-src 'self'; " ..
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"):format(nonce, nonce)
  return 200, page(nonce), fields
end

function serve.events(request, settings)
  local sort = request.query.sort or "cpu"
  if not sorts[sort] then http.fail(400, "processes are sorted by cpu, heap, messages or id") end
  if open >= PAGES then http.fail(503, "too many pages are open") end
  local stream = channel.new(math.huge)
  open = open + 1
  local _ <close> = setmetatable({}, { __close = function() streams[stream], open = nil, open - 1 end })
  streams[stream] = sort
  request:start(200, fields_of "text/event-stream")
  request:write(("event: past\ndata: %s\n\n"):format(json.text { program = settings.program, points = table.move(past, 1, #past, 1, {}),
    interval = settings.interval, limit = settings.limit }))
  if settings.over then stream:send { event = "over", text = json.text(settings.over) } end
  while true do
    local told = stream:receive()
    request:write(("event: %s\ndata: %s\n\n"):format(told.event, told.text))
    if told.event == "over" then return end
  end
end

local function asked(settings)
  local client, why = connect(settings.pid)
  if not client then http.fail(502, why) end
  return client, setmetatable({}, { __close = function() client:close() end })
end

function serve.process(request, settings)
  local id = math.tointeger(tonumber(request.query.id))
  if not id or id < 1 then http.fail(400, "which process?") end
  local client, closing = asked(settings)
  local _ <close> = closing
  local info, why = client:ask("info " .. id)
  if not info then http.fail(404, why) end
  local trace, no_trace = client:ask("traceback " .. id)
  return answer_json { process = info.process, traceback = trace and trace.traceback, why = no_trace }
end

function serve.profile(request, settings)
  if request.method ~= "POST" then http.fail(405, "a profile is asked for by POST", { Allow = "POST" }) end
  local seconds = tonumber(request.query.seconds or 5)
  if not seconds or not (seconds >= 0.1 and seconds <= LONGEST) then http.fail(400, ("a profile takes 0.1 to %d seconds"):format(LONGEST)) end
  local client, closing = asked(settings)
  local _ <close> = closing
  local begun, why = client:ask("profile " .. seconds)
  if not begun then http.fail(409, why) end
  mare.sleep(seconds)
  local profile
  profile, why = client:ask "profile"
  if not profile then http.fail(502, why) end
  return answer_json(profile)
end

local names = { [""] = "page", events = "events", process = "process", profile = "profile" }

local function handler(settings)
  return function(request)
    if not host_is_ours(request.headers.host) then http.fail(403, "this is served to 127.0.0.1 and localhost only") end
    local token, rest = request.path:match "^/([^/]*)(.*)$"
    if not token or not same(token, settings.token) then http.fail(403, "the address that mare top has printed is needed, with all its letters") end
    if rest == "" then return 308, "", { Location = "/" .. settings.token .. "/" } end
    local what = serve[names[rest:sub(2)]]
    if not what then http.fail(404) end
    if what ~= serve.profile and request.method ~= "GET" then http.fail(405, "only GET", { Allow = "GET" }) end
    return what(request, settings)
  end
end

--- In the process that serves: asks from now on; a handler.
return function(settings)
  local client, why = connect(settings.pid)
  if not client then error(why, 0) end
  settings.program = client.program
  fiber.spawn { daemon = true, main = function()
    local ok, err = xpcall(attend, function(e) return type(e) == "table" and e or { why = debug.traceback(e) } end, client, settings)
    if ok then return end
    settings.over = { why = err.why, at = os.time() }
    tell("over", json.text(settings.over))
    settings.ended:send(err.why)
  end }
  return handler(settings)
end
