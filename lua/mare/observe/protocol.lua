-- mare.observe.protocol: what the observer (src/module/observe.c) says to those who have connected.
--
--   local protocol = require "mare.observe.protocol"(observed)
--   answer, last = protocol(kind, text)
--
-- `kind` is "hello" (a tool has connected), "line" (a request of it), "long" (a line without an end), "http" (the head of a request for metrics) or
-- "httplong". `last`: nothing is said to this one any more. It runs in the observer's own state, which has none of mare's modules; what it can see of
-- the program comes from `observed` (src/module/observed.c). docs/internals/observe.md has the protocol.
local json = require "mare.base.json"
local prometheus = require "mare.observe.prometheus"

local observed         -- set once: there is one observer

local VERSION = 1
local MOST = 10000

local keys = { cpu = true, heap = true, messages = true, id = true }

-- ---- requests: they get their words, and give the fields of the answer, or nil and what is wrong ----

local function whole(text, least, most, usual)
  if text == nil then return usual end
  local n = math.tointeger(tonumber(text))
  return n and n >= least and n <= most and n or nil
end

local function no_process(id) return nil, ("there is no process #%d"):format(id) end

-- An answer about one process: f(id) gives it, or nil, or nil and a reason.
local function about(f)
  return function(text)
    local id = whole(text, 1, math.maxinteger)
    if not id then return nil, "which process? A number is expected" end
    local result, why = f(id)
    if result then return result end
    if why then return nil, why end
    return no_process(id)
  end
end

local requests = {}

function requests.list(key, n)
  if key and not keys[key] then return nil, "a list is sorted by cpu, heap, messages or id" end
  n = whole(n, 0, MOST, 50)
  if not n then return nil, ("a list has from 0 to %d processes"):format(MOST) end
  return observed.list(key or "cpu", n)
end

function requests.totals()
  local totals, own = observed.totals(), observed.resources()
  totals.resident, totals.cpu, totals.clock = own.resident, own.cpu, own.clock
  return totals
end

requests.info = about(function(id)
  local info, why = observed.info(id)
  return info and { process = info }, why
end)

requests.traceback = about(function(id)
  local text, why = observed.traceback(id)
  return text and { traceback = text }, why
end)

requests.cancel = about(function(id)
  local done, why = observed.cancel(id)
  return done and { cancelled = id }, why
end)

requests.kill = about(function(id)
  local done, why = observed.kill(id)
  return done and { killed = id }, why
end)

function requests.failures(n)
  n = whole(n, 0, MOST, 16)
  if not n then return nil, "how many failures?" end
  return { failures = observed.failures(n) }
end

function requests.channels(n)
  n = whole(n, 0, MOST, 10)
  if not n then return nil, "how many channels?" end
  return { channels = observed.channels(n) }
end

function requests.groups(n)
  n = whole(n, 0, MOST, 30)
  if not n then return nil, "how many groups?" end
  return observed.groups(n)
end

-- Of messages that woke somebody, for so many milliseconds.
function requests.talk(ms, n)
  ms, n = whole(ms, 1, 500, 100), whole(n, 0, 1000, 200)
  if not ms then return nil, "messages are counted for 1 to 500 milliseconds" end
  if not n then return nil, "how many pairs?" end
  return observed.talk(ms, n)
end

-- With a number of seconds a profile begins; without, it ends.
function requests.profile(seconds)
  if not seconds then return observed.profile_end() end
  seconds = tonumber(seconds)
  if not seconds or not (seconds > 0 and seconds <= 60) then return nil, "a profile takes up to 60 seconds" end
  local begun, why = observed.profile_begin(seconds)
  return begun and { profiling = seconds }, why
end

-- ---- lines ----

local function refuse(why) return json.text { error = why } .. "\n" end

local function line(text)
  local words = {}
  for word in text:gmatch "[^ ]+" do words[#words + 1] = word end
  local request = requests[words[1]]
  if not request then return refuse "requests are list, totals, info, traceback, cancel, kill, failures, channels, groups, talk and profile" end
  if #words > 3 then return refuse "too many words" end
  local answer, why = request(words[2], words[3])
  if not answer then return refuse(why) end
  answer.ok = true
  return json.text(answer) .. "\n"
end

local function hello()
  local program = observed.program()
  program.protocol = VERSION
  return json.text(program) .. "\n"
end

-- ---- HTTP ----

local function response(status, kind, text, body)
  return ("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n"):format(status, kind, #text,
    status:sub(1, 3) == "405" and "Allow: GET, HEAD\r\n" or "") .. (body == false and "" or text)
end

local function say(status, text, body) return response(status, "text/plain; charset=utf-8", text .. "\n", body) end

local function http(head)
  local method, target = head:match "^(%u+) (%S+) HTTP/1%.[01]\r?\n"
  if not method then return say("400 Bad Request", "this is no request of HTTP/1.1") end
  if method ~= "GET" and method ~= "HEAD" then return say("405 Method Not Allowed", "only GET and HEAD are served") end
  local body = method == "GET"
  local path = target:gsub("^%a+://[^/]*", ""):match "^[^?#]*"
  if path == "/" then return say("200 OK", "mare: the metrics are at /metrics", body) end
  if path ~= "/metrics" then return say("404 Not Found", "there is only /metrics", body) end
  return response("200 OK", prometheus.type, prometheus.text(observed), body)
end

-- ---- who asks ----

local function protocol(kind, text)
  if kind == "line" then return line(text) end
  if kind == "hello" then return hello() end
  if kind == "long" then return refuse "the line is too long", true end
  if kind == "http" then return http(text), true end
  return say("431 Request Header Fields Too Large", "the head of the request is too long"), true
end

return function(from)
  observed = from
  return protocol
end
