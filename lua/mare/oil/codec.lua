--[[
mare.oil.codec: what newencoder and newdecoder give: values as CDR encapsulations, one after the other. The first byte says the byte order.
]]
local basic = require "mare.orb.idl.basic"
local exception = require "mare.orb.exception"
local Exception = require "mare.oil.Exception"
local fault = require "mare.oil.fault"

local codec = {}

local function check(T, what)
  if type(T) == "table" and rawget(T, "kind") then return T end
  error(Exception { "$value is a illegal $valuekind", error = "badvalue", value = tostring(T), valuekind = what }, 3)
end

-- The program of some types, one for each list of them.
local function program(orb, types) return orb.broker.env:program(types) end

-- ---- encoding ----

local encoder = {}
encoder.__index = encoder

--- Adds a value of a type; without one, an any's content would be lost, so it must be given.
function encoder:put(value, T)
  check(T, "IDL type")
  local out = self.orb.convert:out(T)
  if out then value = out(value, {}) end
  local n = #self.types + 1
  self.types[n], self.values[n] = T, value
  local fine, err = pcall(self.bytes, self)
  if fine then return end
  self.types[n], self.values[n] = nil, nil
  error(fault.inward(err), 2)
end

-- The order's octet is part of what is aligned.
function encoder:bytes()
  local types, values = { basic.boolean }, { true }
  for i, T in ipairs(self.types) do types[i + 1], values[i + 1] = T, self.values[i] end
  return program(self.orb, types):encode(1 | 2 << 1, table.unpack(values, 1, #types))
end

--- The encapsulation.
function encoder:getdata() return self:bytes() end
function encoder:getlength() return #self:bytes() end

for kind, T in pairs(basic) do
  encoder[kind] = encoder[kind] or function(self, value) return self:put(value, T) end
end

function codec.encoder(orb) return setmetatable({ orb = orb, types = {}, values = {} }, encoder) end

-- ---- decoding ----

local decoder = {}
decoder.__index = decoder

--- The next value, of this type.
function decoder:get(T)
  check(T, "IDL type")
  local types = { basic.octet }
  for i, before in ipairs(self.types) do types[i + 1] = before end
  types[#types + 1] = T
  local last = #types
  local fine, values = pcall(function()
    return table.pack(program(self.orb, types):decode(self.data, 1, self.order | 2 << 1))
  end)
  if not fine then
    if exception.is(values) then error(fault.inward(values), 2) end
    error(values, 0)
  end
  self.types[#self.types + 1] = T
  local value = values[last]
  local into = self.orb.convert:into(T)
  if into then return into(value, {}) end
  return value
end

function decoder:getdata() return self.data end

for kind, T in pairs(basic) do
  decoder[kind] = decoder[kind] or function(self) return self:get(T) end
end

function codec.decoder(orb, data)
  return setmetatable({ orb = orb, data = data, order = data:byte(1) or 0, types = {} }, decoder)
end

return codec
