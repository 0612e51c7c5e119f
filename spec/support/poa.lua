-- poa: what specs of object adapters share: a broker that serves, one that calls it over a connection, and an interface.
--
--   local poa = require "spec.support.poa"
--   poa.with(function(server, client, log) … end, options of the server)
--   poa.raised("POA/WrongPolicy", f, ...) -> the user exception        poa.system("TRANSIENT", 1, f, ...) -> the system exception
--   poa.far(client, reference) -> a proxy of the client's
local orb = require "mare.orb"
local proc = require "spec.support.proc"

local poa = {}

local OMG = 0x4f4d0000

poa.IDL = [[
  module Spec {
    interface Thing { string who(); long wait(in long n); void fail(in string name); void gone(); };
    interface Other { void nothing(); };
  };
]]

local function make(options)
  local log = {}
  options = options or {}
  options.host, options.log = "127.0.0.1", function(_, text) log[#log + 1] = text end
  local broker = orb.init(options)
  broker:load(poa.IDL)
  return broker, log
end

poa.broker = make

function poa.with(f, options)
  local server, log = make(options)
  local client = make()
  local results = table.pack(pcall(f, server, client, log))
  server:shutdown(10 * proc.slow)
  client:shutdown()
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

function poa.raised(name, f, ...)
  local ok, err = pcall(f, ...)
  assert(not ok, "it raised nothing; expected " .. name)
  assert(type(err) == "table" and err._repid == "IDL:omg.org/PortableServer/" .. name .. ":1.0", "expected " .. name .. ", got " .. tostring(err))
  return err
end

function poa.system(name, minor, f, ...)
  local ok, err = pcall(f, ...)
  assert(not ok, "it raised nothing; expected " .. name)
  assert(orb.exception.is_system(err) == name and err.minor == (minor == 0 and 0 or OMG | minor),
    ("expected %s minor %d, got %s"):format(name, minor, tostring(err)))
  return err
end

function poa.far(client, reference) return client:proxy(tostring(reference), "Spec::Thing") end

--- A servant that says a name.
function poa.thing(name) return { who = function() return name end } end

return poa
