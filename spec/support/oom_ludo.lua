-- Works for src/module/oom_test.c, see oom.lua: calls of mare.ludo; the objects' process has memory enough. Returns what ends it.
local work, begun = ...
local PATIENCE <const> = 10

local function call(object)
  local list = { 1, 2, { name = "deep", at = 2.5 }, [1e9] = true }
  list.self = list
  local back, n = object:echo(list, 7)
  assert(n == 7 and back.self == back and back[3].name == "deep" and back[1e9])
  local done, e = pcall(object.fail, object)
  assert(not done)
  if e.code ~= "RAISED" then error(e, 0) end
  assert(e.value.code == 7)
end

local remote, enough
function work.ludo()
  if not remote then
    local ludo = require "mare.ludo"
    local text
    text, enough = begun(function(place)
      local broker = require "mare.ludo".init { log = function() end }
      place:send(broker:serve { echo = function(_, ...) return ... end, fail = function() error { code = 7 } end })
      place:receive()
      broker:shutdown()
    end)
    remote = ludo.init { timeout = PATIENCE }:proxy(text)
  end
  local done, e = pcall(call, remote)
  if not done then error(tostring(e), 0) end
end

return function() if enough then enough:close() end end
