--[[
spec.support.oil.child: one of the programs of a test of OiL's, in an OS process of its own: child.lua NAME FILE FLAVOR. FILE holds the program's
text.
It finds what OiL's own harness gives: `oil.dtests` with `orb`, `init`, `resolve`, `flavor`, `hosts`, `checks`; and every process of a test is on this
machine. Exit code 0: it ran to its end.
]]
local name, file, flavor = ...
arg = {}                                         -- luacheck: ignore

-- luacheck: globals oil
oil = require "oil"
package.preload["loop.test.checks"] = function() return require "spec.support.oil.checks" end

local idl = require "oil.corba.idl"
local giop = require "oil.corba.giop"
local TRANSIENT = giop.SystemExceptionIDs.TRANSIENT

local hosts = setmetatable({}, { __index = function(_, process) return process ~= "_" and process ~= "Fake" and "127.0.0.1" or nil end })
local dtests = { checks = require "spec.support.oil.checks", timeout = 5, querytime = .1,
                 Reference = "corbaloc::%s:%d/%s", hosts = hosts, flavor = {} }
for word in flavor:gmatch "[^;]+" do dtests.flavor[word] = true end
if dtests.flavor["corba.intercepted"] then dtests.flavor.corba = true end

function dtests.init(config)
  config = config or {}
  config.flavor = flavor
  dtests.orb = oil.init(config)
  return dtests.orb
end

local function found(proxy, narrow) return narrow and dtests.orb:narrow(proxy) or proxy end

--- The object of another process, when it is there.
function dtests.resolve(process, port, key, kind, nowait, nonarrow)
  local proxy = dtests.orb:newproxy(dtests.Reference:format(hosts[process] or process, port, key), kind, idl.object)
  if nowait then return found(proxy, not nonarrow) end
  local ends = oil.time() + dtests.timeout
  repeat
    local fine, gone = pcall(proxy._non_existent, proxy)
    if fine and not gone then return found(proxy, not nonarrow) end
    if not fine and gone._repid ~= TRANSIENT then error(gone) end
    oil.sleep(dtests.querytime)
  until oil.time() > ends
  error("object not found")
end

oil.dtests = dtests
package.loaded["oil.dtests"] = dtests

local text = assert(io.open(file)):read "a"
-- One of the programs calls a variable `type`, which all of a process's modules use: names of Lua's own functions are the program's alone.
local standard = {}
for key in pairs(_G) do standard[key] = true end
local function set(t, key, value) rawset(standard[key] and t or _G, key, value) end
local env = setmetatable({}, { __index = _G, __newindex = set })
local main = assert(load(text, "=[string \"" .. name .. "\"]", "t", env))
oil.main(main)
