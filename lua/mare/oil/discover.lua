--[[
mare.oil.discover: interfaces that nobody has loaded: of an object its server is asked (`_interface`), else the repository that setIR has named.

A broker of its own asks, which knows no IDL: what a server says are references of CORBA's repository, and they are no business of the program's. What
was read becomes IDL and is loaded as any other, so the limits of mare.orb.repository.read hold, and what it says is checked by the compiler.
]]
local orb_module = require "mare.orb"
local basic = require "mare.orb.idl.basic"
local ior = require "mare.orb.giop.ior"
local learn = require "mare.orb.repository.learn"
local read = require "mare.orb.repository.read"
local serve = require "mare.orb.repository.serve"
local descriptor = require "mare.oil.descriptor"
local fault = require "mare.oil.fault"
local reference = require "mare.oil.reference"

local discover = {}

local function helper_of(orb)
  if not orb.helper then
    local tcp = orb.tcpoptions or {}
    orb.helper = orb_module.init { log = function() end, timeout = read.limits.time, connect_timeout = tcp.timeout or nil, repository = false }
  end
  return orb.helper
end

local function reader(orb, repository)
  local known = read.known(orb.broker.repository)
  return read.new(helper_of(orb), {
    repository = repository, whole = true, known = function(id, soft)
      local d = orb.broker.repository.ids[id]
      if d and d.forward and id:find "^IDL:omg%.org/CORBA/" then discover.standard(orb) end
      return known(id, soft)
    end,
  })
end

-- What was read, loaded: the definition of `id`.
local function take(orb, r, id)
  local known = orb.broker.repository.ids[id]
  if not known or known.forward then
    orb.broker:load(r:text(), { name = "interface repository" })
    orb:renew()
  end
  return orb.types:lookup_id(id)
end

-- Calls f, with OiL's exceptions.
local function attempt(f, ...)
  local fine, result, why = pcall(f, ...)
  if fine then return result, why end
  error(fault.inward(result), 0)
end

local function id_of(model) return type(model) == "table" and model.id or model end

local function by_repository(orb, name)
  local r = reader(orb, helper_of(orb):bind(reference.bytes(orb.ir.__reference), basic.object))
  local id = name:find "^%a+:.+:[%d.]+$" and name or r:lookup((name:gsub("^::", "")))
  if not id then return nil end
  r:id(id)
  return take(orb, r, id)
end

local function by_server(orb, bytes)
  local helper = helper_of(orb)
  local description, why = learn.ask(helper, helper:bind(bytes, basic.object), helper.options.timeout)
  if not description then return nil, why end
  local r = reader(orb)
  return take(orb, r, id_of(r:interface(description)))
end

--- A definition that the repository of setIR has, by its name or id | nil.
function discover.named(orb, name)
  if not orb.ir then return nil end
  local fine, def = pcall(by_repository, orb, name)
  return fine and def or nil
end

--- The interface of an object of which only the IOR is known. Raises what says why it can't be found.
function discover.object(orb, bytes)
  local id = ior.parse(bytes).type_id
  local def = id ~= "" and discover.named(orb, id)
  if def then return def end
  local found, why = attempt(by_server, orb, bytes)
  if found then return descriptor.dress(found) end
  error(fault.new("badtype", "the interface of the object is unknown: load its IDL and name it ($why)", { why = why }), 0)
end

-- CORBA's own interfaces of repositories, which are only declared until somebody asks.
function discover.standard(orb)
  orb.broker:load("#include <ir.idl>", { name = "orb" })
  orb:renew()
end

--- The repository of what an ORB has loaded, as a proxy.
function discover.repository(orb)
  local server = orb.broker.server
  local entry = orb.broker:definitions():find(serve.KEY)
  local def = orb.types:resolve "CORBA::Repository"
  return orb.kinds.synchronous:bind(reference.of(server:ior_of(entry)), def)
end

return discover
