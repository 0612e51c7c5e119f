--[[
mare.oil.call: one call of a proxy, with OiL's client interceptor around it.

`send` tells the interceptor that the request goes out, `exchange` lets the broker call, `receive` tells the interceptor of the reply and says
whether the
call is over: an interceptor may have sent it elsewhere. A future does the middle in a fiber; the two ends are always the caller's, whose thread the
interceptor may ask for. Without an interceptor only the middle is left.

OiL's interceptor sees one table for all of a request: mare.oil.icept says what is in it.
]]
local basic = require "mare.orb.idl.basic"
local convert = require "mare.oil.convert"
local fault = require "mare.oil.fault"
local icept = require "mare.oil.icept"
local reference = require "mare.oil.reference"
local verbose = require "mare.oil.verbose"

local pack, unpack = table.pack, table.unpack
local apply = convert.apply

local call = {}
call.__index = call

-- Operations of every object that are answered here, or that the broker doesn't know.
call.own = {
  _is_equivalent = { kind = "operation", name = "_is_equivalent", result = basic.boolean, raises = {},
                     params = { { name = "other", mode = "in", type = basic.object } } },
}

-- Two references are one object if they lead to the same place with the same key; this ORB's own place has several names.
local function equivalent(orb, self, other)
  local key = other and other.__reference and orb:key_of(self.__reference)
  if key and key == orb:key_of(other.__reference) then return true end
  local a, b = reference.profile(self.__reference), other and other.__reference and reference.profile(other.__reference)
  if not a or not b then return false end
  return a.key == b.key and a.decoded.host == b.decoded.host and a.decoded.port == b.decoded.port
end

-- The broker's proxy for one of OiL's. `ref`: where an interceptor has sent the call.
local function native_of(orb, proxy, ref, timeout)
  local bytes = reference.bytes(ref)
  local native = orb.broker:bind(bytes, proxy.__type)
  return timeout and native:_with { timeout = timeout } or native
end

-- pcall's results, with OiL's exception.
local function ended(orb, proxy, op, ok, ...)
  if ok then
    if op.def.name == "_interface" and ... then rawset((...), "__type", (...).__type.id) end   -- as OiL has it: the id
    if not op.replies then return true, ... end
    local results = apply(op.replies, pack(...))
    return true, unpack(results, 1, results.n)
  end
  local err = orb:raised(op.def, (...))
  return false, fault.inward(err, reference.profile(proxy.__reference))
end

local function with(op, method, native, ...)
  local args = pack(...)
  if args.n < op.ins then args.n = op.ins end
  apply(op.calls, args)
  return method(native, unpack(args, 1, op.ins))
end

-- -> true, results | false, exception
local function plain(orb, proxy, op, name, ref, timeout, ...)
  if name == "_is_equivalent" then return true, equivalent(orb, proxy, ...) end
  local fine, native = pcall(native_of, orb, proxy, ref, timeout)
  if not fine then return false, fault.inward(native) end
  if op.calls then return ended(orb, proxy, op, pcall(with, op, native[name], native, ...)) end
  return ended(orb, proxy, op, pcall(native[name], native, ...))
end

--- A call that is not made yet.
function call.new(orb, proxy, op, timeout, ...)
  return setmetatable({ orb = orb, proxy = proxy, op = op, timeout = timeout, args = pack(...), reference = proxy.__reference,
                        interceptor = orb.client_interceptor }, call)
end

--- False: the interceptor has answered, and `outcome` has it.
function call:send()
  verbose:say(2, "call %s", self.op.def.name)
  if not self.interceptor then return true end
  return icept.send(self)
end

function call:exchange()
  local op, args = self.op, self.args
  local tray = self.interceptor and icept.begin(self.request)
  self.outcome = pack(plain(self.orb, self.proxy, op, op.def.name, self.reference, self.timeout, unpack(args, 1, args.n)))
  if tray then self.heard = icept.stop(tray) end
end

--- True: it is over, and `outcome` is what it gives.
function call:receive()
  if not self.interceptor then return true end
  return icept.receive(self)
end

--- What remains of a call of which `send`, and `exchange` if that was to be, were done. -> true, results | false, exception
function call:finish()
  while not self:receive() do
    if self:send() then self:exchange() end
  end
  local outcome = self.outcome
  return unpack(outcome, 1, outcome.n)
end

--- A call from end to end.
function call.run(orb, proxy, op, name, timeout, ...)
  if not orb.client_interceptor and verbose.current < 2 then
    return plain(orb, proxy, op, name, proxy.__reference, timeout, ...)
  end
  local self = call.new(orb, proxy, op, timeout, ...)
  if self:send() then self:exchange() end
  return self:finish()
end

return call
