--[[
mare.oil.names: the names under which programs written for OiL look for its modules, and for those that it was made of.

`oil.x` is mare.oil.x, `loop.x` and `cothread.x` are mare.oil.loop.x and mare.oil.cothread.x. What is OiL's, and cothread, are these from now on
(package.preload); of LOOP's classes a program's own files come first, so here is only the last of the searchers. bin/mare has the same rule for
programs that ask before they load OiL, in src/state/require.c. `socket` is mare.socket where there is no LuaSocket.
]]
local names = {}

local OURS = { "oil.Exception", "oil.assert", "oil.compat04", "oil.corba.giop", "oil.corba.idl", "oil.oo", "oil.properties", "oil.verbose",
               "cothread", "cothread.Timer", "cothread.socket" }

local function home(name)
  if name:find("^oil%.") then return "mare." .. name end
  if name:find("^loop%f[%W]") or name:find("^cothread%f[%W]") then return "mare.oil." .. name end
  if name == "socket" or name == "socket.core" then return "mare.socket" end
end

local function load_from(name, place) return require(place or home(name)) end

local function search(name)
  local place = home(name)
  if not place then return nil end
  local fine, module = pcall(require, place)
  if fine then return function() return module end, place end
  return "no module '" .. place .. "' in mare"
end

for _, name in ipairs(OURS) do package.preload[name] = package.preload[name] or function() return load_from(name) end end
local searchers = package.searchers
searchers[#searchers + 1] = search

return names
