-- Works for src/module/oom_test.c, see oom.lua: CORBA calls, seen from the caller and from both sides. Returns what ends the server.
local work = ...
local mare = require "mare"
local channel, process = mare.channel, mare.process
local PATIENCE <const> = 10

-- A call may also fail as one whose connection broke, or whose servant did: where the memory was missing is the other side's secret.
local function exception(e)
  if type(e) ~= "table" then error(e, 0) end
  error(e.name == nil and tostring(e) or "not enough memory: " .. tostring(e), 0)
end

local idl = [[
  exception E {};
  struct Item { string s; long n; };
  typedef sequence<Item> Items;
  interface I { Items turn(in Items list, out any a); void fail() raises (E); };
]]

local function turn(_, l) return { l[2], l[1] }, 7 end

local function call(object)
  local list, any = object:turn({ { s = "one", n = 1 }, { s = ("two"):rep(1000), n = 2 } })
  assert(list[1].n == 2 and list[2].s == "one" and any._anyval == 7)
  local done = pcall(object.fail, object)
  assert(not done)
end

local remote, enough
function work.calls()                            -- the servant's process has memory enough
  if not remote then
    local orb = require "mare.orb"               -- without it no server is begun, which nobody would end
    local place = channel.new()
    enough = place
    process.spawn(function()
      local broker = require "mare.orb".init { host = "127.0.0.1" }
      broker:load(idl)
      place:send(tostring(broker:serve({ turn = turn, fail = function() error(broker.types.E {}, 0) end }, "I")))
      place:receive()
      broker:shutdown()
    end)
    local broker = orb.init { timeout = PATIENCE }
    broker:load(idl)
    remote = broker:proxy(place:receive(), "I")
  end
  local done, e = pcall(call, remote)
  if not done then exception(e) end
end

local here
function work.servants()                         -- the servant shares the memory
  if not here then
    local broker = require "mare.orb".init { host = "127.0.0.1", log = function() end }
    broker:load(idl)
    local reference = tostring(broker:serve({ turn = turn, fail = function() error(broker.types.E {}, 0) end }, "I"))
    local client = require "mare.orb".init { timeout = PATIENCE, log = function() end }
    client:load(idl)
    here = client:proxy(reference, "I")
  end
  local done, e = pcall(call, here)
  if not done then exception(e) end
end

return function() if enough then enough:close() end end
