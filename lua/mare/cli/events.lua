-- mare events: event channels, and a client of any.
local mare = require "mare"
local orb = require "mare.orb"
local corbaname = require "mare.orb.giop.corbaname"
local exception = require "mare.orb.exception"
local helper = require "mare.orb.events"
local json = require "mare.base.json"
local said = require "mare.cli.naming"
local service = require "mare.orb.services.events"
local text = require "mare.orb.text"
local serving = require "mare.cli.serving"
local unknown = require "mare.cli.unknown"
local words = require "mare.cli.words"

local usage = [==[
  mare events --db events.db                                 serves the channel EventChannel at port 11169
  mare events listen                                         prints what is published there
  mare events push "the kettle boils"                        publishes a text

usage: mare events [options]                     serves until it is interrupted or terminated
       mare events ls                            lists the channels: who is connected, what waits and what was lost
       mare events new NAME | rm NAME            makes a channel; ends one
       mare events push VALUE...                 publishes values: 42, 1.5, true, a text, { _anytype = "long", _anyval = 1 }
       mare events notify [DOMAIN/]TYPE [NAME] [FIELD=VALUE...]   publishes a structured event
       mare events listen                        prints events until it is interrupted

The service is given by --at, or by --host and --port; otherwise it is the one at localhost:11169. omniEvents has push, listen, new, rm.

Options are:
  --port N           serves there (11169), 0: at any free port; with a command: asks the service there
  --host NAME        serves only at this address; with a command: asks the service there
  --channel NAME     the channel (EventChannel); with a command also a reference: IOR:..., corbaloc:..., corbaname:...; serving: can be repeated
  --db FILE          keeps channels and who is connected in a file of SQLite; without it they last as long as the program
  --name NAME        serving: binds the first channel in the naming service of -ORBInitRef NameService=REF; or corbaname:...#NAME
  --factory NAME     serving: binds the factory there, as clients of omniEvents want it (EventChannelFactory)
  --queue N          serving: events that may wait for a consumer (10000)
  --slow discard     serving: a consumer whose queue is full loses the oldest events; without it, it is dropped
  --at REF           the service to ask, by its factory: corbaloc::host:11169/omniEvents
  --idl FILE         loads IDL; can be repeated
  --type TYPE        push: what the values are, "Mod::Alarm"
  --filter TEXT      listen: only events for which that is true, "$severity > 3 and $type_name == 'Alarm'"
  --structured       listen: prints structured events
  --count N          listen: ends after N events
  --check SECONDS    listen: asks every SECONDS whether the service is there (5); ends with 1 if two questions in a row fail
  --timeout SECONDS  how long each call may take (10)
  --json             prints JSON, one object per line
  -ORBname VALUE     any option of the broker
  --help             shows this

Exit codes: 0, 1 if it failed, 2 for a mistake on the command line.
]==]

local PORT = 11169

local mistake, fail = words.told "events"

-- ---- the command line ----

local function whole(name)
  return function(o, v)
    o[name] = math.tointeger(words.number(v, 1))
    if not o[name] then return ("--%s takes a whole number from 1 on, not '%s'"):format(name, v) end
  end
end

local takes = {
  ["--port"] = words.port, ["--timeout"] = words.timeout, ["--count"] = whole "count", ["--queue"] = whole "queue",
  ["--host"] = words.text "host", ["--db"] = words.text "db", ["--at"] = words.text "at",
  ["--name"] = words.text "name", ["--factory"] = words.text "factory",
  ["--check"] = function(o, v)
    o.check = words.number(v, 0.01)
    if not o.check then return ("--check takes a number of seconds above 0, not '%s'"):format(v) end
  end,
  ["--type"] = words.text "type", ["--filter"] = words.text "filter",
  ["--channel"] = words.list "channel", ["--idl"] = words.list "idl",
  ["--slow"] = function(o, v)
    o.slow = v
    if v ~= "discard" and v ~= "drop" then return ("--slow takes discard or drop, not '%s'"):format(v) end
  end,
}
local flags = { ["--structured"] = "structured", ["--json"] = "json", ["--help"] = "help", ["-h"] = "help" }
local long = { "--structured", "--json", "--help" }
for name in pairs(takes) do long[#long + 1] = name end

-- ---- asking ----

-- Raises { mistake = } or { text = }.
local function reach(broker, reference, interface)
  local fine, object = pcall(broker.proxy, broker, reference, interface)
  if fine and object then return object end
  if fine then error({ text = reference .. ": a nil reference" }, 0) end
  if said.is_mistake(object) then error({ mistake = tostring(object) }, 0) end
  error({ text = said.words(object, reference) }, 0)
end

local function address(o)
  local host = o.host or "localhost"
  if host:find(":", 1, true) and not host:find "^%[" then host = "[" .. host .. "]" end
  return ("corbaloc::%s:%d/"):format(host, o.port or PORT)
end

-- The factory that is asked for channels. Other objects of a service are taken for it.
local function factory(o, broker)
  local reference = o.at or address(o) .. "omniEvents"
  local object = reach(broker, reference)
  local fine, found = pcall(object._narrow, object, "omniEvents::EventChannelFactory")
  if not fine then error({ text = said.words(found, reference) }, 0) end
  if found then return found end
  if object:_is_a "IDL:omg.org/CosEventChannelAdmin/EventChannel:1.0" then
    error({ mistake = ("--at %s: that is a channel; name it by --channel"):format(reference) }, 0)
  end
  error({ mistake = ("--at %s: that is no factory of channels as omniEvents has it; mare's is corbaloc::HOST:PORT/omniEvents"):format(reference) }, 0)
end

local function called(o) return o.channel and o.channel[1] or "EventChannel" end

-- The reference of a channel: it is one, or a name of the service's.
local function reference_of(o, broker, name)
  if name:find "^%a+:" then return name end
  if not o.at then return address(o) .. name end
  return broker:object_to_string(factory(o, broker):join_channel(name))
end

local function channel(o, broker, name)
  local object = reach(broker, reference_of(o, broker, name))
  local done, found = pcall(helper.channel, broker, object)
  if done then return found end
  if exception.is(found, "IDL:omg.org/CORBA/OBJECT_NOT_EXIST:1.0") then error({ text = ("there is no channel '%s'"):format(name) }, 0) end
  error({ text = type(found) == "string" and found:gsub("^.-:%d+: ", "") or tostring(found) }, 0)
end

local verbs = {}

local LINE = "%-24s %9s %9s %9s %11s %11s %9s %7s\n"

function verbs.ls(o, broker)
  local asked = factory(o, broker)
  if not asked:_is_a "IDL:MareEvents/Factory:1.0" then error({ text = "this service doesn't tell which channels it has; only mare's does" }, 0) end
  local list = asked:_unchecked_narrow("MareEvents::Factory"):list()
  if not o.json and #list > 0 then
    io.stdout:write(LINE:format("channel", "suppliers", "consumers", "waiting", "received", "delivered", "discarded", "dropped"))
  end
  for _, c in ipairs(list) do
    c.reference = tostring(c.reference)
    if o.json then io.stdout:write(json.text(c), "\n")
    else
      local name = c.name ~= "" and c.name or "-"
      io.stdout:write(LINE:format(name, c.suppliers, c.consumers, c.waiting, c.received, c.delivered, c.discarded, c.dropped))
    end
  end
end

verbs["new"] = function(o, broker, name)
  local criteria = { { name = "InsName", value = name } }
  if o.queue then criteria[2] = { name = "MaxQueueLength", value = { _anytype = broker:type "unsigned long", _anyval = o.queue } } end
  local made = factory(o, broker):create_object({ { id = "EventChannel", kind = "object interface" } }, criteria)
  io.stdout:write(o.json and json.text { name = name, reference = tostring(made) } or tostring(made), "\n")
end

function verbs.rm(o, broker, name) channel(o, broker, name).object:destroy() end

-- A value as it is written: a literal if it looks like one, else a text.
local function read(o, broker, written)
  if o.type then
    local known, T = pcall(broker.type, broker, o.type)
    if not known then error({ mistake = ("--type %s: %s"):format(o.type, tostring(T)) }, 0) end
    local value, err = text.read(broker, T, written)
    if err then error({ mistake = err }, 0) end
    return { _anytype = T, _anyval = value }
  end
  if not (written:find "^%s*[{%['\"]" or tonumber(written) or written == "true" or written == "false") then return written end
  local value, err = text.read(broker, broker:type "any", written)
  if err then error({ mistake = err }, 0) end
  return value
end

-- It is known that it can be sent before the first one is.
local function literal(o, broker, written)
  local value, T = read(o, broker, written), broker:type "any"
  if type(value) == "table" and not rawget(value, "_anytype") then
    error({ mistake = ("'%s' has no type: { _anytype = \"Mod::Alarm\", _anyval = %s }, or --type"):format(written, written) }, 0)
  end
  local program = broker.env:program { T }
  local fine, err = pcall(program.encode, program, 0, value)
  if not fine then error({ mistake = ("'%s': %s"):format(written, tostring(err)) }, 0) end
  return value
end

function verbs.push(o, broker, ...)
  local list = {}
  for i, written in ipairs { ... } do list[i] = literal(o, broker, written) end
  local to <close> = channel(o, broker, called(o))
  for _, value in ipairs(list) do to:publish(value) end
end

function verbs.notify(o, broker, kind, ...)
  local domain, name = kind:match "^(.-)/(.*)$"
  local e = { domain = domain or "", type = name or kind, data = {} }
  for i, word in ipairs { ... } do
    local field, value = word:match "^([%w_.]+)=(.*)$"
    if field then e.data[field] = literal(o, broker, value)
    elseif i == 1 then e.name = word
    else error({ mistake = ("a field is FIELD=VALUE, not '%s'"):format(word) }, 0) end
  end
  local to <close> = channel(o, broker, called(o))
  to:notify(e)
end

local function shown(broker, value)
  local T = broker:type "any"
  if type(value) == "table" and rawget(value, "_anytype") then T, value = value._anytype, value._anyval end
  if type(value) ~= "table" and T.kind == "any" then return tostring(value) end
  return text.show(T, value, true)
end

local function shown_fields(broker, e)
  local names, parts = {}, { ("%s/%s %s"):format(e.domain, e.type, e.name) }
  for field in pairs(e.data) do names[#names + 1] = field end
  table.sort(names)
  for _, field in ipairs(names) do parts[#parts + 1] = field .. "=" .. shown(broker, e.data[field]) end
  return table.concat(parts, " ")
end

local function any_json(value)
  if type(value) ~= "table" or not rawget(value, "_anytype") then return json.text(value) end
  return ('{"type":%s,"value":%s}'):format(json.text(text.type_name(value._anytype)), text.json(value._anytype, value._anyval))
end

local UNREACHED = { TRANSIENT = true, COMM_FAILURE = true, TIMEOUT = true }

-- A service that was killed tells nobody. One that keeps its channels may be back when it is asked the second time.
local function watch(o, proxy, stop)
  local failed = 0
  repeat
    mare.sleep(o.check or 5)
    local done, gone = pcall(proxy._non_existent, proxy)
    local name = not done and exception.is_system(gone)
    if done and gone or name == "OBJECT_NOT_EXIST" then return stop:try_send "ended" end
    failed = UNREACHED[name] and failed + 1 or 0
  until failed == 2
  stop:try_send "lost"
end

-- Events until there were enough, the channel ends, its service is gone, or a signal comes.
function verbs.listen(o, broker)
  local stop, n = mare.channel.new(1), 0
  local from = channel(o, broker, called(o))
  local options = { structured = o.structured, filter = o.filter, on_end = function() stop:try_send "ended" end }
  local function one(e)
    if o.count and n >= o.count then return end
    n = n + 1
    if o.structured then io.stdout:write(o.json and json.text(e) or shown_fields(broker, e), "\n")
    else io.stdout:write(o.json and any_json(e) or shown(broker, e), "\n") end
    io.stdout:flush()
    if n == o.count then stop:try_send "enough" end
  end
  local done, subscription = pcall(from.subscribe, from, options, one)
  if not done then error(type(subscription) == "table" and subscription or { text = subscription }, 0) end
  io.stderr:write("listening\n")
  mare.fiber.spawn { main = watch, args = { o, subscription.proxy, stop }, daemon = true }
  local _, why = mare.select(serving.signals(stop))
  if why == "lost" then error({ text = "the service can't be reached any more" }, 0) end
  if why == "ended" then error({ text = "the channel has ended" }, 0) end
  subscription:close()
end

-- How many words each takes, and which options beside those of all.
local counts = { ls = { 0, 0 }, new = { 1, 1, queue = true }, rm = { 1, 1 }, push = { 1, math.huge, channel = true, type = true, idl = true },
                 notify = { 1, math.huge, channel = true, idl = true },
                 listen = { 0, 0, channel = true, filter = true, structured = true, count = true, check = true,
                            idl = true } }

local function ask(o, verb)
  local made, broker = pcall(orb.init, { args = o.orb, timeout = o.timeout or 10, connect_timeout = o.timeout or 10 })
  if not made then return mistake(broker) end
  local done, err = pcall(function()
    broker:load("#include <MareEvents.idl>", { name = "events" })
    for _, path in ipairs(o.idl or {}) do
      local fine, why = pcall(broker.loadfile, broker, path)
      if not fine then error({ mistake = tostring(why) }, 0) end
    end
    verbs[verb](o, broker, table.unpack(o.words, 2))
  end)
  broker:shutdown(1)
  if done then return 0 end
  if type(err) == "table" and err.mistake then return mistake(err.mistake) end
  if exception.is(err, "IDL:openorb.org/event/EventChannelNotFound:1.0") then return fail(("there is no channel '%s'"):format(called(o))) end
  if exception.is(err, "IDL:omg.org/CosLifeCycle/CannotMeetCriteria:1.0") then
    return fail(("there is such a channel, or another object called so: '%s'"):format(o.words[2]))
  end
  return fail(type(err) == "table" and not err._repid and err.text or tostring(err))
end

-- ---- serving ----

-- Gives an object a name, in the service that is named or the broker's; contexts on the way are made.
local function bind(broker, written, object)
  local context, name
  if written:lower():find "^corbaname:" then
    local at, fragment = written:match "^([^#]*)#?(.*)$"
    context, name = broker:proxy(at .. "#", "CosNaming::NamingContext"), fragment
  else
    context, name = broker:resolve_initial_references("NameService", "CosNaming::NamingContext"), written
  end
  local parts, err = corbaname.name(name)
  if not parts then error(err, 0) end
  for i = 1, #parts - 1 do
    local done, why = pcall(context.bind_new_context, context, table.move(parts, 1, i, 1, {}))
    if not done and not exception.is(why, "IDL:omg.org/CosNaming/NamingContext/AlreadyBound:1.0") then error(why, 0) end
  end
  context:rebind(parts, object)
end

local function announce(o, broker, s)
  local at = serving.corbaloc(broker, "")
  local names = {}
  for i, c in ipairs(s:channels()) do names[i] = c.name end
  if o.json then
    io.stdout:write(json.text { corbaloc = at .. "omniEvents", channels = names, db = o.db, reference = tostring(s.factory) }, "\n")
  else
    io.stdout:write(("serving %s%s at %s\n"):format(table.concat(names, ", "), o.db and " of " .. o.db or ", kept nowhere,", at .. names[1]))
  end
  io.stdout:flush()
end

local function serve(o)
  local broker, wrong = serving.broker(o, PORT)
  if not broker then return mistake(wrong) end
  local done, s = pcall(service.serve, broker, { db = o.db, channels = o.channel or { "EventChannel" }, slow = o.slow,
                                                 limits = o.queue and { queue = o.queue } })
  if not done then return fail((tostring(s):gsub("^events%.serve: ", ""))) end
  for _, b in ipairs { { o.name, s:channels()[1].proxy }, { o.factory, s.factory } } do
    local fine, err = true, nil
    if b[1] then fine, err = pcall(bind, broker, b[1], b[2]) end
    if not fine then
      s:close()
      broker:shutdown(1)
      return fail(("%s can't be bound: %s"):format(b[1], said.words(err, b[1])))
    end
  end
  announce(o, broker, s)
  serving.wait(broker, function() s:close() end)   -- who is connected is told, if nothing is kept
  return 0
end

-- ---- which of both ----

local SERVING = { db = true, name = true, factory = true, slow = true, queue = true, channel = true }
-- Options that not all have.
local SOME = { "channel", "type", "filter", "structured", "count", "check", "idl", "db", "name", "factory", "slow", "queue" }

-- -> what is wrong with a command and its words | nil
local function check(o, verb)
  local n = verb and counts[verb]
  if verb and not n then
    local names = {}
    for name in pairs(counts) do names[#names + 1] = name end
    return unknown.command(verb, names)
  end
  for _, option in ipairs(SOME) do
    if o[option] and not (n or SERVING)[option] then return ("%s has no option '--%s'"):format(verb or "serving", option) end
  end
  if not verb then return o.at and "--at is for asking; --host and --port say where to serve" or nil end
  if #o.words - 1 < n[1] then return ("%s needs %s"):format(verb, verb == "push" and "a value" or verb == "notify" and "a type" or "a name") end
  if #o.words - 1 > n[2] then return ("%s takes no '%s'"):format(verb, o.words[n[2] + 2]) end
  if o.at and (o.host or o.port) then return "--at says which service is asked, and --host or --port says it again" end
  if o.port == 0 then return "no service is asked at port 0" end
end

return words.command(usage, mistake, { takes = takes, flags = flags, long = long }, function(o)
  local verb = o.words[1]
  if verb == "serve" then
    verb = nil
    if o.words[2] then return mistake(("serve takes no '%s'"):format(o.words[2])) end
  end
  local err = check(o, verb)
  if err then return mistake(err) end
  return verb and ask(o, verb) or serve(o)
end)
