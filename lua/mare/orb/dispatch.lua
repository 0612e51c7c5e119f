--[[
mare.orb.dispatch: from a request to its reply.

A request is served by the fiber that read it, and its state is that fiber's *job* (see pool): `id`, `codec` and `response` of the request, `phase`.
So serving makes no table and no closure: what a servant gets are the decoded values, what it returns goes into the encoder as it is.

How an operation of an interface is called is worked out at its first use and kept in a table of *calls* that all objects of the interface
share. A call has `run(job, call, entry, message, at)`, which gives the reply, programs for its arguments, results (`reply` is their method)
and exceptions.
An unknown operation leaves nothing behind: a stranger's inventions take no memory.

`phase` tells how far a request got when something goes wrong: before the servant COMPLETED_NO, in it COMPLETED_MAYBE, after it COMPLETED_YES.

A servant that ends because its fiber or its process is to end gets no reply made: the fiber goes on ending, and its connection is closed.
]]
local fiber = require "mare".fiber
local errors = require "mare.error"
local core = require "mare.orb.giop.core"
local context = require "mare.orb.context"
local exception = require "mare.orb.exception"
local ior = require "mare.orb.giop.ior"
local signature = require "mare.orb.signature"
local tracing = require "mare.trace.core"

local BULK = 64                                  -- of a codec: long messages need not be strings, see src/cdr/bulk.h
local BEFORE, DURING, AFTER = 1, 2, 3
local NO_FACTORY = 0x4f4d0001                    -- MARSHAL's minor code for a value whose type is not known
local COMPLETED = { "COMPLETED_NO", "COMPLETED_MAYBE", "COMPLETED_YES" }
local NO_EXCEPTION, USER_EXCEPTION, SYSTEM_EXCEPTION = core.NO_EXCEPTION, core.USER_EXCEPTION, core.SYSTEM_EXCEPTION
local LOCATION_FORWARD, OBJECT_FORWARD = core.LOCATION_FORWARD, core.OBJECT_FORWARD
local UNKNOWN_OBJECT, OBJECT_HERE, LOC_SYSTEM_EXCEPTION = core.UNKNOWN_OBJECT, core.OBJECT_HERE, core.LOC_SYSTEM_EXCEPTION
local OBJECT = { kind = "interface", id = "IDL:omg.org/CORBA/Object:1.0", name = "Object" }
local ENDINGS = { cancelled = true, linked = true }        -- kinds of errors (mare.error)
local NONE, ALWAYS_LATER = 0, 1                  -- of `response`: one-way; a reply as soon as the request has arrived

local system = exception.system

local dispatch = {}
dispatch.__index = dispatch

---@param broker table
function dispatch.new(broker)
  local env = broker.env
  local self = setmetatable({                    -- the pool adds how a reply goes ahead of its servant: arrived(job, reply)
    broker = broker, repository = broker.repository, env = env, interfaces = {},
    system_body = env:program({ { kind = "string", bound = 0 }, { kind = "ulong" }, { kind = "ulong" } }),
    nothing = env:program({}),
  }, dispatch)
  self:forget()
  return self
end

------------------------------------------------------------------------------------------------- the ways to be called

local function answer(job, call, ...)
  job.phase = AFTER
  if job.silent then return nil end
  return call.reply(call.results, job.id, job.codec | BULK, NO_EXCEPTION, job.contexts, ...)
end

local function invoke(job, method, servant, ...)
  job.phase = DURING
  return method(servant, ...)
end

local function is_callable(value)
  if type(value) == "function" then return true end
  local meta = debug.getmetatable(value)
  return type(meta) == "table" and rawget(meta, "__call") ~= nil
end

-- `found`: what stands where a method should.
local function lacks(call, entry, found)
  local what = found ~= nil and ("the servant's '%s' is a %s, not a method"):format(call.operation, type(found))
    or call.attribute and ("the servant has neither a field '%s' nor a method '%s'"):format(call.attribute, call.operation)
    or ("the servant has no method '%s'"):format(call.operation)
  local err = system("NO_IMPLEMENT", 0, "COMPLETED_NO", what .. " of " .. entry.id)
  err.lacking = true                             -- the program's mistake: its log says so
  error(err, 0)
end

local function run_method(job, call, entry, message, at)
  local servant = entry.servant
  local method = servant[call.operation]
  if method == nil and call.other then method = servant[call.other] end
  if type(method) ~= "function" and not is_callable(method) then lacks(call, entry, method) end
  if not call.arguments then return answer(job, call, invoke(job, method, servant)) end
  return answer(job, call, invoke(job, method, servant, call.arguments:decode(message, at, job.codec | BULK)))
end

-- An attribute is a method _get_x, or the field x.
local function run_get(job, call, entry)
  local servant = entry.servant
  local method = servant[call.operation]
  if method ~= nil and not is_callable(method) then lacks(call, entry, method) end
  if method ~= nil then return answer(job, call, invoke(job, method, servant)) end
  local value = servant[call.attribute]
  if value == nil and not call.may_be_nil then lacks(call, entry) end
  return answer(job, call, value)
end

local function store(job, servant, name, value)
  job.phase = DURING
  servant[name] = value
end

local function run_set(job, call, entry, message, at)
  local servant = entry.servant
  local method = servant[call.operation]
  if method ~= nil and not is_callable(method) then lacks(call, entry, method) end
  if method ~= nil then return answer(job, call, invoke(job, method, servant, call.arguments:decode(message, at, job.codec | BULK))) end
  store(job, servant, call.attribute, call.arguments:decode(message, at, job.codec | BULK))
  return answer(job, call)
end

-- A servant that is a function gets the operation's name and the arguments.
local function run_dynamic(job, call, entry, message, at)
  if not call.arguments then return answer(job, call, invoke(job, entry.servant, call.operation)) end
  return answer(job, call, invoke(job, entry.servant, call.operation, call.arguments:decode(message, at, job.codec | BULK)))
end

-------------------------------------------------------------------------------------- what every object answers by itself

local implicit = {
  _is_a = { params = { { kind = "string", bound = 0 } }, result = { kind = "boolean" },
            give = function(self, entry, id) return self:is_a(entry.interface, id) end },
  _non_existent = { result = { kind = "boolean" }, give = function() return false end },
  _interface = { result = OBJECT, give = function(self, entry)
    local repository = self.broker:definitions()
    if not repository then error(system("INTF_REPOS", 1, "COMPLETED_NO", "there is no interface repository"), 0) end
    return repository:interface(entry.interface)
  end },
  _repository_id = { result = { kind = "string", bound = 0 }, give = function(_, entry) return entry.id end },
  _component = { result = OBJECT, give = function() return nil end },
}
implicit._not_existent = implicit._non_existent

local function run_implicit(job, call, entry, message, at)
  if not call.arguments then return answer(job, call, call.give(call.dispatch, entry)) end
  return answer(job, call, call.give(call.dispatch, entry, call.arguments:decode(message, at, job.codec | BULK)))
end

function dispatch:is_a(interface, id)
  return interface.id == id or id == OBJECT.id or self.repository:is_a(interface, id)
end

------------------------------------------------------------------------------------------------------------- compiling

local KEYWORDS = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true until while"):gmatch("%a+") do
  KEYWORDS[word] = "_" .. word
end

local function is_reference(T)
  while T.kind == "alias" do T = T.type end
  return T.kind == "interface" or T.kind == "any" or T.kind == "value" or T.kind == "valuebox"
end

local function compile_implicit(self, interface, name)
  local rule = implicit[name]
  local call = { operation = name, owner = interface.id, run = run_implicit, dynamic = run_implicit, give = rule.give, dispatch = self, def = rule }
  if rule.params then call.arguments = self.env:program(rule.params) end
  call.results = self.env:program({ rule.result }, { "result" })
  call.reply = call.results.reply
  return call
end

-- Types and names of what goes in one direction; the result comes first.
local function collect(operation, other)
  local types, names = {}, {}
  if other == "out" and operation.result and operation.result.kind ~= "void" then types[1], names[1] = operation.result, "result" end
  for _, p in ipairs(operation.params or {}) do
    if p.mode == other or p.mode == "inout" then types[#types + 1], names[#names + 1] = p.type, p.name end
  end
  return types, names
end

local function compile_operation(self, interface, name, operation)
  local call = { operation = name, owner = interface.id, run = run_method, dynamic = run_dynamic, other = KEYWORDS[name], raises = {},
                 declares = operation.raises, oneway = operation.oneway, def = operation,
                 plain = not operation.oneway }   -- a method is called, and its results are the reply: see src/module/orb_serve.c
  local types, names = collect(operation, "in")
  if operation.context and #operation.context > 0 then
    call.plain, call.contexts = false, #types
    types[#types + 1], names[#names + 1] = context.TYPE, "context"
    call.arguments = context.arguments(self.env:program(types, names), call.contexts)
  elseif #types > 0 then call.arguments = self.env:program(types, names) end
  types, names = collect(operation, "out")
  call.results = self.env:program(types, names)
  call.reply = call.results.reply
  local kind, attribute = name:match("^_([gs]et)_(.+)$")
  if kind then
    call.plain = false
    call.attribute, call.run = attribute, kind == "get" and run_get or run_set
    call.may_be_nil = kind == "get" and is_reference(types[1])
  end
  return call
end

local function compile(self, interface, name)
  if implicit[name] then return compile_implicit(self, interface, name) end
  local operations = self.operations[interface]
  if not operations then
    operations = self.repository:operations(interface)
    self.operations[interface] = operations
  end
  local operation = operations[name]
  return operation and compile_operation(self, interface, name, operation)
end

--- The call of an operation that every object answers by itself, or nil.
function dispatch:implicit(interface, name) return implicit[name] and compile_implicit(self, interface, name) end

--- operation -> call of an interface; nil for what it doesn't have.
function dispatch:calls_of(interface)
  local calls = self.interfaces[interface]
  if not calls then
    calls = setmetatable({}, { __index = function(known, name)
      local call = compile(self, interface, name)
      if call then rawset(known, name, call) end
      return call
    end })
    self.interfaces[interface] = calls
  end
  return calls
end

local function exception_program(self, call, id)
  local program = call.raises and call.raises[id]
  if program then return program end
  for _, T in ipairs(call.declares or {}) do
    if T.id == id then
      program = self.env:program({ T }, { T.name })
      call.raises[id] = program
      return program
    end
  end
end

------------------------------------------------------------------------------------------------------------ going wrong

-- To-be-closed variables of the servant see it.
local accident_class = { __tostring = function(e) return e.text end }

-- What is raised: exceptions as they are; of the rest the text and where it was raised, while its stack still stands. `kind`: an error of mare's.
local function trace(err)
  if type(err) == "table" and (rawget(err, "_repid") or getmetatable(err) == accident_class) then return err end
  local fine, text = pcall(tostring, err)
  if not fine then text = ("(error object is a %s value)"):format(type(err)) end
  return setmetatable({ text = text, traceback = debug.traceback(text, 2), kind = errors.is(err) and err.kind }, accident_class)
end

dispatch.trace = trace

local function plain(text, most) return (tostring(text):sub(1, most or 100):gsub("[^%g ]", ".")) end      -- a stranger may have written it

-- Keys that the adapter made say nothing to people; the interface does.
local function where(job)
  local object = job.call and job.key:find("^\xff") and "an object " .. job.call.owner or ('the object "%s"'):format(plain(job.key))
  return ("operation '%s' of %s"):format(plain(job.operation), object)
end

-- `job.contexts`: service contexts that interceptors have added.
local function system_reply(self, job, e)
  return self.system_body:reply(job.id, job.codec, SYSTEM_EXCEPTION, job.contexts, e._repid, (e.minor or 0) & 0xffffffff, exception.completion(e))
end

--- To the log; one that fails is no reason to fail.
function dispatch:note(level, text) pcall(self.broker.log, level, text) end

-- A Lua error in a servant; lack of memory is said as such, and that a deadline of the servant's own was over.
local function accident(self, job, err)
  self:note(1, ("%s: %s"):format(where(job), err.traceback or err.text))
  local name = type(err.text) == "string" and err.text:find "not enough memory$" and "NO_MEMORY" or err.kind == "deadline" and "TIMEOUT" or "UNKNOWN"
  return system(name, 0, COMPLETED[job.phase], err.text)
end

local function undeclared(self, job, e)
  self:note(1, ("%s raised %s, which its interface does not declare"):format(where(job), exception.__tostring(e)))
  return system("UNKNOWN", 1, "COMPLETED_YES")
end

local function user_reply(self, job, e)
  local program = job.call and exception_program(self, job.call, e._repid) or nil
  if not program then return system_reply(self, job, undeclared(self, job, e)) end
  job.phase = AFTER
  local fine, reply = pcall(program.reply, program, job.id, job.codec, USER_EXCEPTION, job.contexts, e)
  if fine then return reply end
  self:note(1, ("%s: its exception can't be sent: %s"):format(where(job), tostring(reply)))
  local unfit = exception.is_system(reply) and reply or system("MARSHAL", 0)
  unfit.completed = "COMPLETED_YES"
  return system_reply(self, job, unfit)
end

-- That the arguments can't be read is a mistake of the program's if it lacks a type; else it may be a stranger's bytes, and those fill no log.
local function unread(self, job, e)
  local level = e.minor == NO_FACTORY and 1 or 2
  self:note(level, ("%s: its arguments can't be read: %s"):format(where(job), plain(e.text, 400)))
end

--- The exception that the client is told of, of an error as `trace` gives it; the log is told, too.
function dispatch:exception_of(job, err)
  if type(err) ~= "table" then err = { text = tostring(err) } end
  if err.lacking and exception.is_system(err) then self:note(1, ("%s: %s"):format(where(job), err.text))
  elseif not err._repid then err = accident(self, job, err)
  elseif job.silent and job.phase == DURING then self:note(1, ("%s raised %s"):format(where(job), exception.__tostring(err))) end
  if job.phase == BEFORE and err.text and exception.is_system(err) == "MARSHAL" then unread(self, job, err) end
  if exception.is_system(err) then
    if job.phase == AFTER and not job.silent then self:note(1, ("%s: its results can't be sent: %s"):format(where(job), tostring(err))) end
    if job.phase ~= DURING then err.completed = COMPLETED[job.phase] end     -- our own failures tell how far the request got, whatever raised them
    return err
  end
  if err._repid:find("^IDL:omg%.org/CORBA/") then return system("UNKNOWN", 2, err.completed) end
  if job.silent or job.call and exception_program(self, job.call, err._repid) then return err end
  return undeclared(self, job, err)
end

--- The reply that tells of an exception.
function dispatch:exception_reply(job, e)
  if exception.is_system(e) then return system_reply(self, job, e) end
  return user_reply(self, job, e)
end

-- The reply that tells of an error, or nil.
local function failure(self, job, err)
  local e = self:exception_of(job, err)
  return not job.silent and self:exception_reply(job, e) or nil
end

-- The reply of an exception that the operation declares and has raised before, which is the way of nearly all errors; nil for all else.
local function declared(job, err)
  local raises = type(err) == "table" and job.call and job.call.raises
  local program = raises and raises[err._repid]
  if not program or job.silent then return nil end
  local phase = job.phase
  job.phase = AFTER
  local fine, reply = pcall(program.reply, program, job.id, job.codec, USER_EXCEPTION, job.contexts, err)
  if fine then return reply end
  job.phase = phase
end

---------------------------------------------------------------------------------------------------------------- serving

-- A canonical IOR as the body of a message in this byte order, at a multiple of 4.
local function reference_body(bytes, bits)
  if bits & 1 == 1 then return bytes:sub(5) end
  local t = ior.parse(bytes)
  local body = string.pack(">!4s4I4", t.type_id .. "\0", #t.profiles)
  for _, p in ipairs(t.profiles) do
    body = body .. ("\0"):rep(-#body % 4) .. string.pack(">I4s4", p.tag, p.data)
  end
  return body
end

local function find(self, key, operation)
  local entry = key and self.adapter:find(key, operation)
  if entry then return entry end
  if key and self.adapter:stale(key) then
    error(system("OBJECT_NOT_EXIST", 2, "COMPLETED_NO", "the server that made this reference is gone"), 0)
  end
  error(system("OBJECT_NOT_EXIST", 1, "COMPLETED_NO", "there is no object with this key"), 0)
end

local function no_operation(entry, operation)
  error(system("BAD_OPERATION", 2, "COMPLETED_NO", ("%s has no operation '%s'"):format(entry.id, operation)), 0)
end

--- The reply that sends a client elsewhere.
function dispatch.forward_reply(_, job, bytes)
  local bits = job.codec & 7
  return core.reply(bits >> 1, bits & 1, job.id, LOCATION_FORWARD, job.contexts, reference_body(bytes, bits))
end

--- What an object has under an operation's name; raises if that is nothing.
function dispatch.call_of(_, entry, operation) return entry.calls[operation] or no_operation(entry, operation) end

--- Goes on with a request whose entry was found: its reply, or, with interceptors, to where they are told of it (`job.info`).
function dispatch:proceed(job, entry, message, at, operation)
  if entry.forward then
    if job.info then return self.intercept.forwarded(job, entry.forward) end
    return self:forward_reply(job, entry.forward)
  end
  local call = entry.calls[operation] or no_operation(entry, operation)
  job.call = call
  if job.response == ALWAYS_LATER then
    local reply = self.nothing:reply(job.id, job.codec, NO_EXCEPTION, nil)
    job.silent = true
    self.arrived(job, reply)
  end
  if job.info then return self.intercept.run(job, call, entry, message, at) end
  if entry.dynamic then return call.dynamic(job, call, entry, message, at) end
  return call.run(job, call, entry, message, at)
end

-- From a request to its reply.
local function execute(self, job, message, at, key, operation)
  local entry = self.objects[key]
  if not entry then
    entry = find(self, key, operation)
    if entry.ticket then return self.adapter.tree:serve(job, message, at, entry.poa) end
  end
  return self:proceed(job, entry, message, at, operation)
end

dispatch.execute = execute

--- Serves a request: the reply, or nil if there is to be none. Raises nothing, unless there is no memory even to say that.
function dispatch:serve(job, message, at, key, operation)
  job.phase, job.call, job.key, job.operation, job.silent = BEFORE, false, key, operation, job.response == NONE
  local fine, reply = xpcall(execute, trace, self, job, message, at, key, operation)
  if fine then return reply end
  return self:failed(job, reply)
end

--- The reply that tells of what `trace` made of an error, or nil. Raises nothing, unless there is no memory even to say that.
function dispatch:failed(job, reply)
  if job.cancelled then return nil end
  if ENDINGS[reply.kind] then fiber.yield() end  -- who is to end is not heard of again; others have such an error from somebody they waited for
  local told = declared(job, reply)
  if told then return told end
  told, reply = pcall(failure, self, job, reply)
  if told then return reply end
  self:note(1, ("%s: no reply could be made: %s"):format(where(job), tostring(reply)))
  return not job.silent and system_reply(self, job, system("UNKNOWN", 0, "COMPLETED_MAYBE")) or nil
end

if tracing.serve then                              -- a trace is on
  local serve = dispatch.serve
  function dispatch:serve(job, message, at, key, operation)
    local id = job.id
    tracing.serve(job, id, operation)
    local reply = serve(self, job, message, at, key, operation)
    tracing.served(job, id)
    return reply
  end
end

--- Refuses a request without looking for its object.
function dispatch:refuse(job, name, minor, text)
  job.phase, job.silent = BEFORE, job.response == NONE
  return failure(self, job, system(name, minor, "COMPLETED_NO", text))
end

-- The answer to "is it here?".
local function located(self, key, bits)
  local fine, entry = pcall(find, self, key, nil)
  if fine and entry.forward then return OBJECT_FORWARD, reference_body(entry.forward, bits) end
  if fine then return OBJECT_HERE end
  if exception.is_system(entry) == "OBJECT_NOT_EXIST" then return UNKNOWN_OBJECT end
  if bits >> 1 < 2 or not exception.is_system(entry) then return OBJECT_HERE end   -- the request will tell what is wrong
  return LOC_SYSTEM_EXCEPTION, self.system_body:encode(bits, entry._repid, (entry.minor or 0) & 0xffffffff, exception.completion(entry))
end

--- The answer to "is it here?": status and body of a LocateReply; the same as a request would find.
function dispatch:locate(key, bits)
  local fine, status, body = pcall(located, self, key, bits)
  if fine then return status, body end
  return OBJECT_HERE                             -- the request will tell what is wrong
end

----------------------------------------------------------------------------------------------------------- local callers

-- Arguments are shared, not copied; an attribute that is a field needs no method.
local function call_field(call, servant, ...)
  if call.run == run_get then return servant[call.attribute] end
  servant[call.attribute] = ...
end

--- What was found of interfaces may be out of date: IDL was loaded.
function dispatch:forget()
  self.operations = {}
  self.programs, self.signatures = setmetatable({}, { __mode = "k" }), signature.kept_none()      -- of servants that are dynamic
end

--- Calls an object of this process directly: results, or the servant's own error.
function dispatch:call(entry, operation, ...)
  if entry.ticket then return self.adapter.tree:call(entry.key, operation, ...) end
  if entry.gone then error(system("OBJECT_NOT_EXIST", 1, "COMPLETED_NO", "the object was deactivated"), 0) end
  return self:perform(entry, entry.calls[operation] or no_operation(entry, operation), ...)
end

--- What the servant of an object gives for an operation: from values to values.
function dispatch:perform(entry, call, ...)
  local servant, operation = entry.servant, call.operation
  if call.give then return call.give(self, entry, ...) end
  if entry.dynamic then
    if call.locally then return call:locally(entry, ...) end
    return servant(operation, ...)
  end
  local method = servant[operation]
  if method == nil and call.other then method = servant[call.other] end
  if type(method) == "function" or is_callable(method) then return method(servant, ...) end
  if call.attribute and method == nil then return call_field(call, servant, ...) end
  lacks(call, entry, method)
end

return dispatch
