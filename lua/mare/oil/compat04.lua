--[[
mare.oil.compat04: oil.compat04, what programs for OiL 0.4 and 0.5 expect beside: `mare -l oil.compat04 program.lua` runs one unchanged.

The module is a global variable, `oil`, and has functions for a default ORB (oil.newproxy …), made of oil.Config; `oil.tasks` is the scheduler,
`oil.pcall` is pcall. All proxies have `proxy.__deferred`, which is the asynchronous one of the same object, and `proxy.__try`, the protected one.
newproxy and newservant also take the interface as second argument.
]]
local cothread = require "mare.oil.cothread"
local oil = require "mare.oil"
local ORB = oil.ORB

rawset(_G, "oil", oil)

-- The proxy of another kind that a proxy brings along.
local function companion(kind)
  local known = setmetatable({}, { __mode = "k" })
  return { of = function(proxy, orb)
    if not known[proxy] then known[proxy] = orb:newproxy(proxy, kind) end
    return known[proxy]
  end }
end

ORB.more = { __deferred = companion "asynchronous", __try = companion "protected" }

local KINDS = { synchronous = true, asynchronous = true, protected = true }
local newproxy, newservant = ORB.newproxy, ORB.newservant

function ORB:newproxy(what, kind, interface)
  if kind ~= nil and interface == nil and not KINDS[kind] then kind, interface = nil, kind end
  return newproxy(self, what, kind, interface)
end

-- 0.4: (implementation, interface, key). A first word that was loaded as an interface is one.
function ORB:newservant(impl, key, interface)
  local first = key ~= nil and (type(key) == "table" and key or self.types:lookup(key) or self.types:lookup_id(key))
  if first and first.kind == "interface" then key, interface = interface, key end
  return newservant(self, impl, key, interface)
end

ORB.newobject, ORB.createservant, ORB.createproxy = ORB.newservant, ORB.newservant, ORB.newproxy
function ORB.getreference(_, object) return tostring(object) end

-- ---- the default ORB ----

oil.Config = {}
local init, default = oil.init, nil

--- An ORB; without a table the default one, with the fields of oil.Config; a new one after that was shut down.
function oil.init(config)
  if config ~= nil then return init(config) end
  if not default or not default.serving then
    local fields = {}                            -- the table becomes the ORB, and oil.Config is for the next one, too
    for name, value in pairs(oil.Config) do fields[name] = value end
    default = init(fields)
  end
  return default
end

for _, name in ipairs { "loadidl", "loadidlfile", "getLIR", "getIR", "setIR", "newproxy", "narrow", "newservant", "newobject", "createservant",
                        "createproxy", "getreference", "deactivate", "tostring", "pending", "step", "run", "shutdown", "newencoder", "newdecoder",
                        "newexcept", "setexcatch", "setclientinterceptor", "setserverinterceptor" } do
  oil[name] = oil[name] or function(...)
    local orb = oil.init()
    return orb[name](orb, ...)
  end
end

oil.pcall = pcall
function oil.writeIOR(object, path) return oil.writeto(path, tostring(object)) end
oil.readIOR = oil.readfrom

-- ---- the scheduler ----

local tasks = { verbose = oil.verbose }

--- Lets a coroutine run as a thread.
function tasks:register(thread)
  cothread.schedule(thread)
  return self and thread
end
tasks.resume, tasks.start = tasks.register, function(_, f, ...) return oil.newthread(f, ...) end

--- Waits so many seconds; without a number, until somebody resumes this thread.
function tasks.suspend(_, seconds)
  if seconds then return cothread.delay(seconds) end
  return cothread.suspend()
end
function tasks.remove(_, thread) return cothread.unschedule(thread) end
function tasks.time() return oil.time() end
function tasks.current() return cothread.running() end
function tasks.run() return cothread.run() end
tasks.pcall = pcall
oil.tasks = tasks

return oil
