--[[
mare.orb.interface: from the definition of an interface to functions.

A *class* maps names to functions for one interface of one broker. It is filled when a name is asked for: an operation, `_get_x` and `_set_x` of an
attribute, or one of what every object has (`_is_a` …). What was looked up once is a plain field from then on.

An *operation*, as the functions know it:
  name, qualified ("Hello::say"), oneway, response (what the request's header says)
  request   the program of its in parameters, with their names for error messages; `encode` is its method
  reply     that of result and out parameters, or nil if there are none; `decode` is its method
  raises    repository id -> type of the exceptions it declares; excepts: their programs, as they were needed
  contexts  how many in parameters there are before the context that the IDL declares, else false
]]
local basic = require "mare.orb.idl.basic"
local context = require "mare.orb.context"
local invoke = require "mare.orb.invoke"
local proxy = require "mare.orb.proxy"
local straight = require "mare.orb.core"
local tracing = require "mare.trace.core"

local interface = {}

--- What every object understands, beside what its IDL says.
interface.everywhere = {
  _is_a = { kind = "operation", name = "_is_a", result = basic.boolean, params = { { name = "id", mode = "in", type = basic.string } } },
  _non_existent = { kind = "operation", name = "_non_existent", result = basic.boolean, params = {} },
  _interface = { kind = "operation", name = "_interface", result = basic.object, params = {} },
  _component = { kind = "operation", name = "_component", result = basic.object, params = {} },
}

--- Makes ready what a call needs of an operation's definition.
function interface.operation(env, owner, def)
  local ins, in_names, outs, out_names, raises = {}, {}, {}, {}, {}
  if def.result and def.result.kind ~= "void" then outs[1], out_names[1] = def.result, "result" end
  for _, p in ipairs(def.params or {}) do
    if p.mode ~= "out" then ins[#ins + 1], in_names[#in_names + 1] = p.type, p.name end
    if p.mode ~= "in" then outs[#outs + 1], out_names[#out_names + 1] = p.type, p.name end
  end
  for _, T in ipairs(def.raises or {}) do raises[T.id] = T end
  local contexts = def.context and #def.context > 0 and #ins
  if contexts then ins[#ins + 1], in_names[#in_names + 1] = context.TYPE, "context" end
  local qualified = owner .. "::" .. def.name
  local request, reply = env:program(ins, in_names, qualified), #outs > 0 and env:program(outs, out_names) or nil
  if contexts then request = context.request(request, contexts) end
  return {
    name = def.name, qualified = qualified, oneway = def.oneway or false, response = def.oneway and 0 or 3,
    request = request, encode = request.request, reply = reply, decode = reply and reply.decode, raises = raises, excepts = {},
    def = def, contexts = contexts,
  }
end

local record = not tracing.call and straight.calling()

-- A function for an operation. Nothing is made for a call but its results, and its message if it is no ordinary one (src/module/orb_call.c).
local function call(broker, operation)
  local run, states, adopt = broker.invoke, proxy.states, proxy.state
  local contexts = operation.contexts
  if contexts then                                -- what `context ("…")` in its IDL asks for
    local patterns, default = operation.def.context, broker.options.context
    return function(self, ...)
      local args = { ... }
      args[contexts + 1] = context.matching(patterns, args[contexts + 1], default)
      return run(states[self] or adopt(self), operation, table.unpack(args, 1, contexts + 1))
    end
  end
  local told = run ~= invoke.run and record and require "mare.orb.intercept.client".operation(broker, record, operation)
  if told then return told end
  if not record or operation.oneway or run ~= invoke.run then
    return function(self, ...) return run(states[self] or adopt(self), operation, ...) end
  end
  local function slow(self, ...) return run(states[self] or adopt(self, 4), operation, ...) end
  return straight.call(record, states, operation, slow, invoke.resume)
end

--- The class of an interface: see above.
function interface.class(broker, def)
  local operations = broker.repository:operations(def)
  local owner = def.scoped or def.name
  return setmetatable({}, { __index = function(class, name)
    local found = broker.everywhere[name]
    if type(found) ~= "function" then
      found = operations[name] or interface.everywhere[name]
      if not found then return nil end
      found = call(broker, interface.operation(broker.env, owner, found))
    end
    class[name] = found
    return found
  end })
end

return interface
