-- mare names: a naming service, and a client of any.
local orb = require "mare.orb"
local corbaloc = require "mare.orb.giop.corbaloc"
local corbaname = require "mare.orb.giop.corbaname"
local cosnaming = require "mare.orb.services.cosnaming"
local json = require "mare.base.json"
local naming = require "mare.orb.services.naming"
local said = require "mare.cli.naming"
local serving = require "mare.cli.serving"
local unknown = require "mare.cli.unknown"
local words = require "mare.cli.words"

local usage = [==[
  mare names --port 2809 --db names.db                       serves a naming service
  mare names ls -r                                           lists what is in the one on this machine
  mare names resolve corbaname::host#trains/red.engine       the reference of a name, anywhere

usage: mare names [options]                      serves until it is interrupted or terminated
       mare names ls [-r] [NAME]                 lists the names of a context, with / after those that are contexts
       mare names resolve NAME                   prints the reference
       mare names bind [--replace] NAME REF      gives an object a name
       mare names mount [--replace] NAME REF     binds a context, which may be one of another service
       mare names new NAME                       makes a context
       mare names unbind [--force] NAME          removes a name
       mare names rm NAME                        ends an empty context and removes its name

NAME is a/b.kind, or corbaname:...#a/b.kind of another service; a dot, a slash or a backslash inside a component has a backslash before it.
REF is IOR:..., corbaloc:..., corbaname:... or file:///path.
The service is given by --at, by --host and --port, or by -ORBInitRef NameService=REF; otherwise it is the one at localhost:2809.

Options are:
  --port N           serves there (2809), 0: at any free port; with a command: asks the service there
  --host NAME        serves only at this address; with a command: asks the service there
  --db FILE          keeps the names in a file of SQLite; without it they last as long as the program
  --at REF           the naming context to ask
  --timeout SECONDS  how long each call may take (10)
  -r                 ls: also lists what is in the contexts
  --replace          bind, mount: replaces what has the name
  --force            unbind: even a context that has names; these may be lost with it
  --json             prints JSON, one object per line
  -ORBname VALUE     any option of the broker
  --help             shows this

Exit codes: 0, 1 if it failed, 2 for a mistake on the command line.
]==]

local mistake, fail = words.told "names"

-- ---- the command line ----

local takes = {
  ["--port"] = words.port,
  ["--host"] = words.text "host", ["--db"] = words.text "db", ["--at"] = words.text "at",
  ["--timeout"] = words.timeout,
}
local flags = { ["-r"] = "deep", ["--replace"] = "replace", ["--force"] = "force", ["--json"] = "json", ["--help"] = "help", ["-h"] = "help" }
local long = { "--port", "--host", "--db", "--at", "--timeout", "--replace", "--force", "--json", "--help" }

-- ---- asking ----

local CONTEXT = "CosNaming::NamingContext"

local function shown(name) return corbaname.text(name) end

-- As broker:proxy; raises { mistake = } or { text = }.
local function reach(broker, reference, interface)
  local fine, object = pcall(broker.proxy, broker, reference, interface)
  if fine then return object end
  if said.is_mistake(object) then error({ mistake = tostring(object) }, 0) end
  error({ text = said.words(object, reference) }, 0)
end

local function asked(o, broker)
  local at = o.at or broker.references.list.NameService or "corbaloc::localhost/NameService"
  if at:lower():find "^corbaname:" and not at:find "#" then return at .. "#" end
  if at:lower():find "^corbaloc:[^/]+$" then
    error({ mistake = ("%s: the key is missing; that of a naming service is often NameService: %s/NameService"):format(at, at) }, 0)
  end
  return at
end

-- Where a word leads: a context and a name in it, nil: the context itself. Raises what is wrong with it.
local function place(o, broker, word)
  local at, text = asked(o, broker), word
  if word and word:lower():find "^corbaname:" then
    local fragment, err
    at, fragment = word:match "^([^#]*)#?(.*)$"
    text, err = corbaloc.unescape(fragment, 1)
    if not text then error({ mistake = err }, 0) end
  end
  local context = reach(broker, at, CONTEXT)
  if not context then error({ text = at .. ": the naming context is a nil reference" }, 0) end
  return context, text
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
  if type(result) == "table" and (result.text or result.mistake) then error(result, 0) end
  error({ text = said.words(result, text) }, 0)
end

local BATCH = 500

-- Calls f with each binding, until it says true.
local function each(context, f)
  local list, more = context:list(BATCH)
  while true do
    for _, b in ipairs(list) do
      if f(b) then
        if more then more:destroy() end
        return
      end
    end
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

local list

-- What is in a context that is listed, too. One that doesn't answer is said, and the rest is listed.
local function list_inner(o, context, name, path, seen)
  local done, err = pcall(function()
    local child = context:resolve(name)
    child = child and child:_narrow(CONTEXT)
    local known = child and identity(child)
    if child and not seen[known] then
      seen[known] = true
      list(o, child, path .. "/", seen)
    end
  end)
  if not done then o.failed = fail(said.unreachable(err, path)) end
end

-- Contexts may be bound in circles: each is shown once.
function list(o, context, prefix, seen)
  local inner = {}
  each(context, function(b)
    local path = prefix .. shown(b.binding_name)
    print_binding(o, path, b, o.deep and prefix or "")
    if o.deep and b.binding_type == "ncontext" then inner[#inner + 1] = { b.binding_name, path } end
  end)
  for _, one_of in ipairs(inner) do list_inner(o, context, one_of[1], one_of[2], seen) end
end

local verbs = {}

-- The context of that name, in the one that is asked.
local function context_of(context, text)
  local found = context:resolve(parsed(text))
  local done, inner = pcall(function() return found and found:_narrow(CONTEXT) end)
  if not done then error({ text = said.unreachable(inner, text) }, 0) end
  return inner or error({ text = text .. " is an object, no context; mare names resolve prints it" }, 0)
end

function verbs.ls(o, broker, word)
  local context, text = place(o, broker, word)
  if text == "" then text = nil end
  local done, err = pcall(function()
    if text then context = context_of(context, text) end
    list(o, context, "", { [identity(context)] = true })
  end)
  if done then return end
  if type(err) == "table" and (err.text or err.mistake) then error(err, 0) end
  error({ text = text and said.unreachable(err, text) or said.words(err, word or "") }, 0)
end

function verbs.resolve(o, broker, word)
  local object = with_name(o, broker, word, function(context, name) return context:resolve(name) end)
  local text = broker:object_to_string(object)
  if o.json then io.stdout:write(json.text { name = word, reference = text }, "\n") else io.stdout:write(text, "\n") end
end

-- Some services bind anything as a context. One that doesn't answer may be another service that is not there just now.
local function check_context(object, reference)
  local answered, is = pcall(object._is_a, object, "IDL:omg.org/CosNaming/NamingContext:1.0")
  if answered and not is then
    error({ text = reference .. " is no naming context; mare names bind gives an object a name" }, 0)
  end
end

local function binder(plain, replacing, interface)
  return function(o, broker, word, reference)
    local object = reach(broker, reference, interface)
    if not object then error({ text = "the reference is nil" }, 0) end
    if interface == CONTEXT then check_context(object, reference) end
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

-- A context whose last name goes lives on with all names in it, and nobody finds it. Whether it has another name, or is another service's, can't be
-- seen from here. One that doesn't answer may go.
local function check_unbind(context, name, text)
  local object = context:resolve(name)
  local answered, list_of = pcall(function()
    local child = object and object:_narrow(CONTEXT)
    if not child then return {} end
    local some, more = child:list(1)
    if more then more:destroy() end
    return some
  end)
  if answered and #list_of > 0 then
    error({ text = text .. ": there are names in this context, which may be found by no other way; --force takes its name away all the same" }, 0)
  end
end

function verbs.unbind(o, broker, word)
  with_name(o, broker, word, function(context, name, text)
    if not o.force then check_unbind(context, name, text) end
    context:unbind(name)
  end)
end

-- Is this the name of an object? Whoever it leads to isn't asked.
local function is_object(context, name)
  local parent, is = context, false
  if #name > 1 then parent = context:resolve(table.move(name, 1, #name - 1, 1, {})):_unchecked_narrow(CONTEXT) end
  local last = name[#name]
  each(parent, function(b)
    local part = b.binding_name[1]
    local found = part.id == last.id and part.kind == last.kind
    is = found and b.binding_type == "nobject"
    return found
  end)
  return is
end

function verbs.rm(o, broker, word)
  with_name(o, broker, word, function(context, name, text)
    local object = context:resolve(name)
    local answered, child = pcall(function() return object and object:_narrow(CONTEXT) end)
    if not answered and not is_object(context, name) then error({ text = said.unreachable(child, text) }, 0) end
    if not answered or not child then error({ text = text .. " is no context; mare names unbind takes its name away" }, 0) end
    child:destroy()
    context:unbind(name)
  end)
end

-- How many words each takes, and which options beside those of all.
local counts = { ls = { 0, 1, deep = true }, resolve = { 1, 1 }, bind = { 2, 2, replace = true }, mount = { 2, 2, replace = true }, new = { 1, 1 },
                 unbind = { 1, 1, force = true }, rm = { 1, 1 } }

local function ask(o, verb)
  local made, broker = pcall(orb.init, { args = o.orb, timeout = o.timeout or 10, connect_timeout = o.timeout or 10 })
  if not made then return mistake(broker) end
  local guard <close> = broker                   -- luacheck: ignore guard
  broker:load(cosnaming, { name = "CosNaming.idl" })
  local done, err = pcall(verbs[verb], o, broker, o.words[2], o.words[3])
  if done then return o.failed or 0 end
  if type(err) == "table" and err.mistake then return mistake(err.mistake) end
  return fail(type(err) == "table" and not err._repid and err.text or said.words(err, o.words[2] or ""))
end

-- ---- serving ----

local function announce(o, broker, service)
  local reference = tostring(service.root.proxy)
  local address = serving.corbaloc(broker, "NameService")
  if o.json then io.stdout:write(json.text { corbaloc = address, reference = reference, names = service:count(), db = o.db }, "\n")
  else io.stdout:write(("serving %d names%s at %s\n"):format(service:count(), o.db and " of " .. o.db or ", kept nowhere,", address)) end
  io.stdout:flush()
end

local function serve(o)
  local broker, wrong = serving.broker(o, corbaloc.PORT)
  if not broker then return mistake(wrong) end
  local done, service = pcall(naming.serve, broker, { db = o.db })
  if not done then return fail((tostring(service):gsub("^naming%.serve: ", ""))) end
  announce(o, broker, service)
  serving.wait(broker)
  service:close()
  return 0
end

-- ---- which of both ----

-- Options that this command doesn't have. -> what is wrong | nil
local function strange(o, verb)
  for _, flag in ipairs { { "deep", "-r" }, { "replace", "--replace" }, { "force", "--force" } } do
    if o[flag[1]] and not (verb and counts[verb][flag[1]]) then return ("%s has no option '%s'"):format(verb or "serving", flag[2]) end
  end
  if not verb then return o.at and "--at is for asking; --host and --port say where to serve" or nil end
  if o.db then return "--db is for serving; --at, --host and --port say which service is asked" end
end

-- --host and --port of one who asks. -> what is wrong | nil
local function address(o)
  if not (o.host or o.port) then return nil end
  if o.at then return "--at says which service is asked, and --host or --port says it again" end
  if (o.words[2] or ""):lower():find "^corbaname:" then return "the name says which service is asked, and --host or --port says it again" end
  if o.port == 0 then return "no service is asked at port 0" end
  local host = o.host or "localhost"
  if host:find(":", 1, true) and not host:find "^%[" then host = "[" .. host .. "]" end
  o.at = ("corbaloc::%s:%d/NameService"):format(host, o.port or corbaloc.PORT)
end

-- -> what is wrong with a command and its words | nil
local function check(o, verb)
  local n = counts[verb]
  if not n then
    local names = {}
    for name in pairs(counts) do names[#names + 1] = name end
    return unknown.command(verb, names)
  end
  if #o.words - 1 < n[1] then return ("%s needs a name%s"):format(verb, n[1] == 2 and " and a reference" or "") end
  if #o.words - 1 > n[2] then return ("%s takes no '%s'"):format(verb, o.words[n[2] + 2]) end
  return strange(o, verb) or address(o)
end

return words.command(usage, mistake, { takes = takes, flags = flags, long = long }, function(o)
  local verb = o.words[1]
  local err
  if verb then err = check(o, verb) else err = strange(o) end
  if err then return mistake(err) end
  return verb and ask(o, verb) or serve(o)
end)
