-- mare call: calls one operation of a CORBA object and prints what it gives.
local orb = require "mare.orb"
local interface = require "mare.orb.interface"
local invoke = require "mare.orb.invoke"
local json = require "mare.base.json"
local naming = require "mare.cli.naming"
local near = require "mare.orb.near"
local text = require "mare.orb.text"
local unknown = require "mare.cli.unknown"
local words = require "mare.cli.words"

local usage = [==[
  mare call --idl hello.idl corbaloc::localhost:2809/hello say world    calls hello:say("world")

usage: mare call [options] REFERENCE OPERATION [ARGUMENT...]

REFERENCE is IOR:..., corbaloc:..., corbaname:... or file:///path of a file that holds one. OPERATION is the name of an operation, or of an
attribute: without an argument it is read, with one it is set. Without --idl the object's server is asked for its interface, or the interface
repository of -ORBInitRef InterfaceRepository=REF; _is_a ID, _non_existent and _interface need no IDL at all. An argument is written as its
type requires: a number, a text, true, a label; structs and sequences as { x = 1, y = 2 }, { 1, 2, 3 } or in JSON; a reference as REFERENCE or
nil; a union as { member = value }.

Options are:
  --idl FILE         loads IDL; can be repeated
  -I DIR             looks for included files there; can be repeated
  -D NAME[=VALUE]    defines a macro of the preprocessor
  --interface NAME   the object's interface; by default that of the reference, or the only one in the IDL
  --timeout SECONDS  how long the call may take (30)
  --json             prints one JSON object: the results, or { "exception": {...} }, with its members, of a call that failed
  --pcap FILE        keeps what goes over the network, for Wireshark
  -ORBname VALUE     any option of the broker; anywhere before "--"
  --help             shows this

Exit codes: 0, 1 if the call failed, 2 for a mistake on the command line or in the IDL.
]==]

local function mistake(message) return unknown.mistake("call", usage, message) end

local function fail(code, message)
  io.stderr:write("mare call: ", tostring(message), "\n")
  return code
end

-- ---- the command line ----

local takes = {
  ["--idl"] = words.list "idl", ["-I"] = words.list "include",
  ["-D"] = function(o, v)
    local name, value = v:match("^([%a_][%w_]*)=(.*)$")
    o.define[name or v] = value or "1"
  end,
  ["--interface"] = words.text "interface",
  ["--timeout"] = words.timeout,
  ["--pcap"] = words.text "pcap",
}

local flags = { ["--json"] = "json", ["--help"] = "help", ["-h"] = "help" }
local long = { "--idl", "--interface", "--timeout", "--pcap", "--json", "--help" }

-- The broker's options, with their values, may stand anywhere, as in every program with CORBA; behind "--" they are arguments.
local function take_broker_options(o, argv)
  local rest, i = {}, 1
  while argv[i] and argv[i] ~= "--" do
    if argv[i]:find "^%-ORB%a" then
      if not argv[i + 1] then return nil, ("option '%s' needs a value"):format(argv[i]) end
      table.move(argv, i, i + 1, #o.orb + 1, o.orb)
      i = i + 2
    else
      rest[#rest + 1] = argv[i]
      i = i + 1
    end
  end
  return table.move(argv, i, #argv, #rest + 1, rest)
end

-- Options stand before the reference; what follows the operation is arguments, whatever it begins with.
local function read(argv)
  local o = { idl = {}, include = {}, define = {}, orb = {}, timeout = 30 }
  local rest, why = take_broker_options(o, argv)
  if not rest then return nil, why end
  local i = 1
  argv = rest
  while argv[i] and argv[i]:sub(1, 1) == "-" do
    if argv[i] == "--" then
      i = i + 1
      break
    end
    local short, value = argv[i]:match "^(%-[ID])(.+)$"
    if short then
      argv[i] = value
      table.insert(argv, i, short)
    end
    local after, err = words.option(o, argv, i, takes, flags, long)
    if not after then return nil, err end
    i = after
  end
  o.reference, o.operation, o.arguments = argv[i], argv[i + 1], table.move(argv, i + 2, #argv, 1, {})
  if o.help then return o end
  if not o.reference then return nil, "no reference" end
  if not o.operation then return nil, "no operation" end
  return o
end

-- ---- what is to be called ----

local function interfaces_of(definitions, found)
  for _, def in ipairs(definitions) do
    if def.kind == "interface" and not def.included then found[#found + 1] = def end
    if def.kind == "module" then interfaces_of(def.contents, found) end
  end
  return found
end

-- The object; raises { failure = words, raised = exception } when its server or a naming service was asked in vain.
local function reach(broker, o)
  local fine, object = pcall(broker.proxy, broker, o.reference, not broker.teacher and o.interface or nil)
  if fine and broker.teacher and o.interface and object then fine, object = pcall(broker.proxy, broker, object, o.interface) end
  if fine then return object end
  if naming.is_mistake(object) then error(object, 0) end
  error({ failure = naming.words(object, o.reference), raised = object }, 0)
end

-- Is the operation every object's? Then nothing need be known of its interface.
local function is_everywhere(o) return interface.everywhere[o.operation] ~= nil end

-- Whom to ask for the interface: nobody, if there is IDL or it doesn't matter.
local function repository_of(o)
  if #o.idl > 0 or is_everywhere(o) then return nil end
  for _, word in ipairs(o.orb) do
    if word:find "^InterfaceRepository=" then return { at = "corbaloc:rir:/InterfaceRepository", time = o.timeout > 0 and o.timeout or nil } end
  end
  return { time = o.timeout > 0 and o.timeout or nil }
end

-- How a naming service can be asked by one who has no IDL of it; "": that is not what is wanted.
local function advice(broker, o)
  local name = "CosNaming::NamingContextExt"
  local is = broker.repository:operations(broker:interface(name))[o.operation]
  return is and ("; of a naming service --interface %s is enough"):format(name) or ""
end

-- Loads the IDL, finds the interface, makes the proxy.
local function prepare(o)
  local broker = orb.init { args = o.orb, pcap = o.pcap, timeout = o.timeout, repository = repository_of(o) }
  local loaded = {}
  for _, path in ipairs(o.idl) do
    for _, def in ipairs(broker:loadfile(path, { include = o.include, define = o.define })) do loaded[#loaded + 1] = def end
  end
  local object = reach(broker, o)
  if object == nil then error("the reference is nil", 0) end
  if not o.interface and object:_interface_name() == "CORBA::Object" then
    local found = interfaces_of(loaded, {})
    if #found == 1 then object = broker:proxy(object, found[1].scoped)
    elseif #found > 1 and not is_everywhere(o) then
      local names = {}
      for i, def in ipairs(found) do names[i] = def.scoped end
      error("the reference does not tell its interface: add --interface with one of " .. table.concat(names, ", "), 0)
    elseif not is_everywhere(o) then
      local why = orb.state(object).unlearned
      if why and tostring(why):find("NO_PERMISSION", 1, true) then error({ failure = tostring(why) }, 0) end   -- IDL would not help
      error(("nothing is known of the object's interface: %sadd --idl with the file that defines it%s")
        :format(why and why .. "; " or "", advice(broker, o)), 0)
    end
  end
  return broker, object
end

local function known_names(operations)
  local names = {}
  for name in pairs(operations) do names[#names + 1] = (name:gsub("^_[gs]et_", "")) end
  return names
end

local function definition(broker, object, o)
  local def = orb.state(object).def
  local operations, name = broker.repository:operations(def), o.operation
  local found = operations[name] or interface.everywhere[name] or operations[(#o.arguments > 0 and "_set_" or "_get_") .. name]
  if found then return interface.operation(broker.env, object:_interface_name(), found) end
  if operations["_get_" .. name] then error(("attribute '%s' is readonly"):format(name), 0) end
  local meant = near(name, known_names(operations))
  error(("interface '%s' has no operation or attribute '%s'%s"):format(object:_interface_name(), name,
    meant and "; did you mean " .. meant .. "?" or ""), 0)
end

local CODEC = 1 | 2 << 1 | 8 | 16            -- little-endian, GIOP 1.2, UTF-8, UTF-16

-- The arguments as values, in a table with n.
local function values(broker, operation, o)
  local op, ins, args = operation.def, {}, { n = 0 }
  for _, p in ipairs(op.params or {}) do if p.mode ~= "out" then ins[#ins + 1] = p end end
  if #ins ~= #o.arguments then
    local names = {}
    for i, p in ipairs(ins) do names[i] = text.type_name(p.type) .. " " .. p.name end
    error(("%s takes %d argument%s (%s), got %d"):format(op.name, #ins, #ins == 1 and "" or "s", table.concat(names, ", "), #o.arguments), 0)
  end
  for i, p in ipairs(ins) do
    local value, err = text.read(broker, p.type, o.arguments[i])
    if err then error(("argument %d, %s %s: %s"):format(i, text.type_name(p.type), p.name, err), 0) end
    args[i] = value
  end
  args.n = #ins
  if operation.contexts then args.n, args[#ins + 1] = #ins + 1, {} end
  operation.request:encode(CODEC, table.unpack(args, 1, args.n))       -- what doesn't fit is a mistake, not a failure of the call
  return args
end

-- ---- what comes back ----

local function outputs(op)
  local list = {}
  if op.result and op.result.kind ~= "void" then list[1] = { name = "result", type = op.result } end
  for _, p in ipairs(op.params or {}) do if p.mode ~= "in" then list[#list + 1] = p end end
  return list
end

local function show(op, o, ...)
  local list = outputs(op)
  local results = { ... }
  if o.json then
    local parts = {}
    for i, p in ipairs(list) do parts[i] = ('"%s":%s'):format(p.name, text.json(p.type, results[i])) end
    io.stdout:write("{", table.concat(parts, ","), "}\n")
  elseif #list == 1 then
    io.stdout:write(text.show(list[1].type, results[1], true), "\n")
  else
    for i, p in ipairs(list) do io.stdout:write(p.name, " = ", text.show(p.type, results[i]), "\n") end
  end
end

-- For programs that read --json: what a call raised, as they have it in Lua; the text for people is on stderr. `operation`: nil if it did not come to
-- the call.
local function show_exception(operation, e)
  if not orb.exception.is(e) then return end
  local T = operation and operation.raises[e._repid]
  local shown = T and text.json(T, e) or json.text { _repid = e._repid, minor = e.minor, completed = e.completed, text = e.text }
  io.stdout:write('{"exception":', shown, "}\n")
end

return function(...)
  local o, err = read { ... }
  if not o then return mistake(err) end
  if o.help then
    io.stdout:write(usage)
    return 0
  end
  local ok, broker, object = pcall(prepare, o)
  if not ok and type(broker) == "table" and broker.failure then
    if o.json then show_exception(nil, broker.raised) end
    return fail(1, broker.failure)
  end
  if not ok then return fail(2, broker) end
  local operation
  ok, operation = pcall(definition, broker, object, o)
  local args = operation
  if ok then ok, args = pcall(values, broker, operation, o) end
  if not ok then return fail(2, args) end
  local results = table.pack(pcall(invoke.run, orb.state(object), operation, table.unpack(args, 1, args.n)))
  broker:close()
  if not results[1] then
    if o.json then show_exception(operation, results[2]) end
    return fail(1, results[2])
  end
  show(operation.def, o, table.unpack(results, 2, results.n))
  return 0
end
