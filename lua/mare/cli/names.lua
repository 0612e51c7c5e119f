-- mare names: a naming service, and a client of any.
local mare = require "mare"
local orb = require "mare.orb"
local corbaloc = require "mare.orb.giop.corbaloc"
local corbaname = require "mare.orb.giop.corbaname"
local cosnaming = require "mare.orb.services.cosnaming"
local json = require "mare.base.json"
local naming = require "mare.orb.services.naming"
local unknown = require "mare.cli.unknown"

local usage = [==[
  mare names --port 2809 --db names.db                       serves a naming service
  mare names ls -r                                           what is in the one on this machine
  mare names resolve corbaname::host#trains/red.engine       the reference of a name, anywhere

usage: mare names [options]                      serves until it is interrupted or terminated
       mare names ls [-r] [NAME]                 names of a context, with / behind those that are contexts
       mare names resolve NAME                   prints the reference
       mare names bind [--replace] NAME REF      gives an object a name
       mare names mount [--replace] NAME REF     makes a context, of another service perhaps, reachable here
       mare names new NAME                       makes a context
       mare names unbind NAME                    takes a name away
       mare names rm NAME                        ends an empty context and takes its name away

NAME is a/b.kind, or corbaname:...#a/b.kind of another service; a dot, a slash or a backslash inside of a component has a backslash before it.
REF is IOR:..., corbaloc:..., corbaname:... or file:///path. The service asked is --at, -ORBInitRef NameService=REF, or the one at localhost:2809.

Options are:
  --port N           serves there (2809); 0: at any free port
  --host NAME        serves at this address alone
  --db FILE          keeps the names in a file of SQLite; without it they last as long as the program
  --at REF           the naming context to ask
  --timeout SECONDS  how long each call may take (10)
  -r                 ls: what is in the contexts, too
  --replace          bind, mount: instead of what has the name
  --json             prints JSON, one object a line
  -ORBname VALUE     any option of the broker
  --help             shows this

Exit codes: 0, 1 if it failed, 2 for a mistake on the command line.
]==]

local function mistake(text) return unknown.mistake("names", usage, text) end

local function fail(text)
  io.stderr:write("mare names: ", tostring(text), "\n")
  return 1
end

-- ---- the command line ----

local function number(text, least)
  local n = tonumber(text)
  return n and n >= least and n or nil
end

local takes = {
  ["--port"] = function(o, v)
    o.port = math.tointeger(number(v, 0))
    if not o.port or o.port > 65535 then return ("--port takes a number from 0 to 65535, not '%s'"):format(v) end
  end,
  ["--host"] = function(o, v) o.host = v end,
  ["--db"] = function(o, v) o.db = v end,
  ["--at"] = function(o, v) o.at = v end,
  ["--timeout"] = function(o, v)
    o.timeout = number(v, 0)
    if not o.timeout then return ("--timeout takes a number of seconds, not '%s'"):format(v) end
  end,
}
local flags = { ["-r"] = "deep", ["--replace"] = "replace", ["--json"] = "json", ["--help"] = "help", ["-h"] = "help" }
local long = { "--port", "--host", "--db", "--at", "--timeout", "--replace", "--json", "--help" }

-- One word from i on. -> where the next is | nil, what is wrong
local function one(o, argv, i)
  local word = argv[i]
  local name, value = word:match "^(%-%-%a+)=(.*)$"
  name = name or word
  if flags[word] then
    o[flags[word]] = true
    return i + 1
  end
  if word:find "^%-ORB%a" then
    if not argv[i + 1] then return nil, ("option '%s' needs a value"):format(word) end
    table.move(argv, i, i + 1, #o.orb + 1, o.orb)
    return i + 2
  end
  if not takes[name] then return nil, unknown.option(word, long) end
  if not value then
    i = i + 1
    value = argv[i]
    if not value then return nil, ("option '%s' needs a value"):format(name) end
  end
  local err = takes[name](o, value)
  if err then return nil, err end
  return i + 1
end

local function read(argv)
  local o, i = { orb = {}, words = {} }, 1
  while argv[i] do
    if argv[i]:sub(1, 1) ~= "-" or o.plain then
      table.insert(o.words, argv[i])
      i = i + 1
    elseif argv[i] == "--" then
      o.plain, i = true, i + 1
    else
      local after, err = one(o, argv, i)
      if not after then return nil, err end
      i = after
    end
  end
  return o
end

-- ---- asking ----

local CONTEXT = "CosNaming::NamingContext"

local function shown(name) return corbaname.text(name) end

local NOT_FOUND = { missing_node = "%s: there is no '%s'", not_context = "%s: '%s' is no context", not_object = "%s: '%s' is a context, no object" }

-- What a naming service raised, in words.
local function words_of(err, name)
  local id = type(err) == "table" and err._repid and err._repid:match "^IDL:omg%.org/CosNaming/[%a]+/(%a+):1%.0$"
  if not id then return tostring(err) end
  if id == "NotFound" then
    local at = err.rest_of_name[1] and shown({ err.rest_of_name[1] }) or name
    return NOT_FOUND[err.why]:format(name, at)
  end
  if id == "CannotProceed" then
    return ("%s: another service doesn't answer; ask it for '%s' yourself: %s"):format(name, shown(err.rest_of_name), tostring(err.cxt))
  end
  return ({ AlreadyBound = "%s: there is such a name already; --replace binds it anew", NotEmpty = "%s: this context is not empty",
            InvalidName = "%s: the service takes this for no name" })[id]:format(name)
end

-- Where a word leads: a context and a name in it, nil: the context itself. Raises what is wrong with it.
local function place(o, broker, word)
  if word and word:lower():find "^corbaname:" then
    local at, fragment = word:match "^([^#]*)#?(.*)$"
    local text, err = corbaloc.unescape(fragment, 1)
    if not text then error({ mistake = err }, 0) end
    return broker:proxy(at, CONTEXT), text
  end
  local at = o.at or broker.references.list.NameService or "corbaloc::localhost/NameService"
  if at:lower():find "^corbaname:" and not at:find "#" then at = at .. "#" end
  return broker:proxy(at, CONTEXT), word
end

local function parsed(text)
  local name, err = corbaname.name(text)
  if not name then error({ mistake = err }, 0) end
  return name
end

-- Calls f(context, name, the name as a text).
local function with_name(o, broker, word, f)
  local context, text = place(o, broker, word)
  if not text or text == "" then error({ mistake = "a name is missing" }, 0) end
  local name = parsed(text)
  local done, result = pcall(f, context, name, text)
  if done then return result end
  error({ text = words_of(result, text) }, 0)
end

local BATCH = 500

local function each(context, f)
  local list, more = context:list(BATCH)
  while true do
    for _, b in ipairs(list) do f(b) end
    if not more then return end
    local any
    any, list = more:next_n(BATCH)
    if not any then break end
  end
  more:destroy()
end

local function print_binding(o, path, b, prefix)
  local part = b.binding_name[1]
  local is = b.binding_type == "ncontext"
  if o.json then io.stdout:write(json.text { name = path, id = part.id, kind = part.kind, type = is and "context" or "object" }, "\n")
  else io.stdout:write(prefix, shown(b.binding_name), is and "/" or "", "\n") end
end

-- Where it leads; references to one context may differ.
local function identity(context)
  local e = orb.state(context).target.origin[1]
  return e and ("%s:%d/%s"):format(e.host, e.port, e.key) or tostring(context)
end

-- Contexts may be bound in circles: each is shown once.
local function list(o, context, prefix, seen)
  local inner = {}
  each(context, function(b)
    local path = prefix .. shown(b.binding_name)
    print_binding(o, path, b, o.deep and prefix or "")
    if o.deep and b.binding_type == "ncontext" then inner[#inner + 1] = { b.binding_name, path } end
  end)
  for _, one_of in ipairs(inner) do
    local child = context:resolve(one_of[1])
    child = child and child:_narrow(CONTEXT)
    local known = child and identity(child)
    if child and not seen[known] then
      seen[known] = true
      list(o, child, one_of[2] .. "/", seen)
    end
  end
end

local verbs = {}

function verbs.ls(o, broker, word)
  local context, text = place(o, broker, word)
  local done, err = pcall(function()
    if text and text ~= "" then
      local object = context:resolve(parsed(text))
      context = object and object:_narrow(CONTEXT)
      if not context then error({ text = text .. " is an object, no context; mare names resolve prints it" }, 0) end
    end
    list(o, context, "", { [identity(context)] = true })
  end)
  if not done then error(type(err) == "table" and (err.text or err.mistake) and err or { text = words_of(err, text or "") }, 0) end
end

function verbs.resolve(o, broker, word)
  local object = with_name(o, broker, word, function(context, name) return context:resolve(name) end)
  local text = broker:object_to_string(object)
  if o.json then io.stdout:write(json.text { name = word, reference = text }, "\n") else io.stdout:write(text, "\n") end
end

local function binder(plain, replacing, interface)
  return function(o, broker, word, reference)
    local fine, object = pcall(broker.proxy, broker, reference, interface)
    if not fine then error({ text = tostring(object) }, 0) end
    if not object then error({ text = "the reference is nil" }, 0) end
    with_name(o, broker, word, function(context, name)
      local operation = o.replace and replacing or plain
      context[operation](context, name, object)
    end)
  end
end

verbs.bind = binder("bind", "rebind")
verbs.mount = binder("bind_context", "rebind_context", CONTEXT)

function verbs.new(o, broker, word)
  with_name(o, broker, word, function(context, name) context:bind_new_context(name) end)
end

function verbs.unbind(o, broker, word)
  with_name(o, broker, word, function(context, name) context:unbind(name) end)
end

function verbs.rm(o, broker, word)
  with_name(o, broker, word, function(context, name, text)
    local object = context:resolve(name)
    local child = object and object:_narrow(CONTEXT)
    if not child then error({ text = text .. " is no context; mare names unbind takes its name away" }, 0) end
    child:destroy()
    context:unbind(name)
  end)
end

local words = { ls = { 0, 1 }, resolve = { 1, 1 }, bind = { 2, 2 }, mount = { 2, 2 }, new = { 1, 1 }, unbind = { 1, 1 }, rm = { 1, 1 } }

local function ask(o, verb)
  local made, broker = pcall(orb.init, { args = o.orb, timeout = o.timeout or 10, connect_timeout = o.timeout or 10 })
  if not made then return mistake(broker) end
  local guard <close> = broker                   -- luacheck: ignore guard
  broker:load(cosnaming, { name = "CosNaming.idl" })
  local done, err = pcall(verbs[verb], o, broker, o.words[2], o.words[3])
  if done then return 0 end
  if type(err) == "table" and err.mistake then return mistake(err.mistake) end
  return fail(type(err) == "table" and not err._repid and err.text or words_of(err, o.words[2] or ""))
end

-- ---- serving ----

local function announce(o, broker, service)
  local reference = tostring(service.root.proxy)
  local here = broker.server.opened[1]
  local address = ("corbaloc:%s:%s/NameService"):format(here.tls and "ssliop" or "", broker:address())
  if o.json then io.stdout:write(json.text { corbaloc = address, reference = reference, names = service:count(), db = o.db }, "\n")
  else io.stdout:write(("serving %d names%s at %s\n"):format(service:count(), o.db and " of " .. o.db or ", kept nowhere,", address)) end
  io.stdout:flush()
end

-- Until SIGINT or SIGTERM; what was asked is answered.
local function wait(broker)
  local listeners = {}
  for i, name in ipairs { "INT", "TERM" } do listeners[i] = mare.signal.on(name) end
  mare.select(listeners)
  broker:shutdown(5)
end

local function serve(o)
  local given = { args = o.orb, port = o.port, host = o.host }
  local elsewhere = false
  for _, word in ipairs(o.orb) do elsewhere = elsewhere or word:find "^%-ORBendPoint$" ~= nil end
  if not elsewhere then given.port = o.port or corbaloc.PORT end
  local made, broker = pcall(orb.init, given)
  if not made then return mistake(broker) end
  local done, service = pcall(naming.serve, broker, { db = o.db })
  if not done then return fail((tostring(service):gsub("^naming%.serve: ", ""))) end
  announce(o, broker, service)
  wait(broker)
  service:close()
  return 0
end

return function(...)
  local o, err = read { ... }
  if not o then return mistake(err) end
  if o.help then
    io.stdout:write(usage)
    return 0
  end
  local verb = o.words[1]
  if not verb then return serve(o) end
  local n = words[verb]
  if not n then
    local names = {}
    for name in pairs(words) do names[#names + 1] = name end
    return mistake(unknown.command(verb, names))
  end
  if #o.words - 1 < n[1] then return mistake(("%s needs a name%s"):format(verb, n[1] == 2 and " and a reference" or "")) end
  if #o.words - 1 > n[2] then return mistake(("%s takes no '%s'"):format(verb, o.words[n[2] + 2])) end
  return ask(o, verb)
end
