--[[
mare.orb.dynamic: servants that take every request as an object (CORBA's DSI); no IDL need be loaded of what they serve.

  broker:serve(function(request)
    local who = request:arguments { "string", result = "string" }        -- without a signature IDL must say it
    return "hello, " .. who
  end, "IDL:Hello:1.0", { dynamic = true })

A *request* is { operation =, id = repository id, key = }. Its arguments can be read once, and that also says of which types the results and the
exceptions are, so a handler of an operation without arguments asks for them, too. What is returned and raised is as of any servant.

A call is made for each request: strangers' operations leave nothing behind. What is compiled for a definition is kept in dispatch.programs while the
definition is there; definitions that signatures describe are in dispatch.signatures (see signature.lua). Loading IDL drops both.
]]
local exception = require "mare.orb.exception"
local signature = require "mare.orb.signature"

local BULK = 64
local BEFORE, DURING, AFTER = 1, 2, 3             -- see dispatch.lua

local NOTHING = { result = { kind = "void" }, params = {} }

local dynamic = {}

local request = { __name = "request" }
request.__index = request

local function refuse(name, text) error(exception.system(name, 0, "COMPLETED_NO", text), 0) end

-- Types and names of one direction; the result comes first.
local function collect(def, other)
  local types, names = {}, {}
  if other == "out" and def.result.kind ~= "void" then types[1], names[1] = def.result, "result" end
  for _, p in ipairs(def.params) do
    if p.mode == other or p.mode == "inout" then types[#types + 1], names[#names + 1] = p.type, p.name end
  end
  return types, names
end

-- The programs of a definition; `arguments` is false if there are none.
local function programs_of(dispatch, def)
  local made = dispatch.programs[def]
  if not made then
    local types, names = collect(def, "in")
    made = { arguments = #types > 0 and dispatch.env:program(types, names), results = dispatch.env:program(collect(def, "out")) }
    dispatch.programs[def] = made
  end
  return made
end

-- The operation's definition: the signature given, else what IDL has.
local function definition(self, given)
  local dispatch = self._call.dispatch
  if given ~= nil then return signature.kept(dispatch.signatures, dispatch.broker, self.operation, given) end
  return dispatch.repository:operations(self._interface)[self.operation]
    or refuse("BAD_OPERATION", ("no IDL says what '%s' takes: give arguments a signature"):format(self.operation))
end

local function decode(self, def)
  if self._values then return table.unpack(self._values, 1, self._values.n) end       -- a call within this process
  local arguments = programs_of(self._call.dispatch, def).arguments
  if not arguments then return end
  local job = self._job
  job.phase = BEFORE
  local results = table.pack(arguments:decode(self._message, self._at, job.codec | BULK))
  job.phase = DURING
  return table.unpack(results, 1, results.n)
end

--- The in and inout arguments, in their order. `given`: a signature, as in signature.lua.
function request:arguments(given)
  if self._def then error("the arguments of a request can be read once", 2) end
  local job = self._job
  if job and not (job.id and job.call == self._call) then error("the request is over: its arguments can be read as long as its handler runs", 2) end
  local def = definition(self, given)
  self._def, self._call.declares = def, def.raises
  return decode(self, def)
end

--- What IDL says of the operation, or nil: { result =, params = { { name =, mode =, type = } … }, raises = { … }, oneway = }.
function request:definition() return self._call.dispatch.repository:operations(self._interface)[self.operation] end

--- The arguments as they came: bytes, whether they are little-endian, and the version of GIOP (12: 1.2). Nothing for a call within this process.
function request:bytes()
  if self._values then return nil end
  local bits = self._job.codec & 7
  return tostring(self._message):sub(self._at), bits & 1 == 1, 10 + (bits >> 1)
end

local function new(call, entry, job, message, at, values)
  return setmetatable({ operation = call.operation, id = entry.id, key = entry.key, _interface = entry.interface, _call = call, _job = job,
                        _message = message, _at = at, _values = values }, request)
end

-- The reply of what a handler returned.
local function answer(job, call, made, ...)
  if job.silent then return nil end
  local def = made._def or made:definition()
  if not def then
    if select("#", ...) == 0 then def = NOTHING
    else refuse("BAD_OPERATION", ("nothing says of which types the results of '%s' are: ask for its arguments"):format(call.operation)) end
  end
  job.phase = AFTER
  return programs_of(call.dispatch, def).results:reply(job.id, job.codec | BULK, 0, job.contexts, ...)
end

local function run(job, call, entry, message, at)
  local made = new(call, entry, job, message, at)
  job.phase = DURING
  return answer(job, call, made, entry.servant(made))
end

--- Calls of such an object: operation -> a call of its own for each request. `fixed`: those that every object answers by itself.
function dynamic.calls(dispatch, interface, fixed)
  return setmetatable({}, { __index = function(_, operation)
    local known = operation:sub(1, 1) == "_" and fixed(operation)
    return known or { operation = operation, owner = interface.id, run = run, dynamic = run, raises = {}, dispatch = dispatch,
                      locally = function(call, entry, ...) return entry.servant(new(call, entry, nil, nil, nil, table.pack(...))) end }
  end })
end

--- The interface of an id that no IDL was loaded of.
function dynamic.interface(id)
  return { kind = "interface", id = id, name = id, scoped = id, bases = {}, contents = {}, members = {}, forward = true }
end

return dynamic
