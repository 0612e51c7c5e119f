-- Works for src/module/oom_test.c, see oom.lua: CORBA calls, seen from the caller and from both sides. Returns what ends the server.
local work, begun = ...
local PATIENCE <const> = 10

-- A call may also fail as one whose connection broke, or whose servant did: where the memory was missing is the other side's secret.
local function exception(e)
  if type(e) ~= "table" then error(e, 0) end
  error(e.name == nil and tostring(e) or "not enough memory: " .. tostring(e), 0)
end

local idl = [[
  exception E {};
  valuetype Link { public long n; public Link next; };
  valuetype Named : truncatable Link { public string name; };
  struct Item { string s; long n; };
  typedef sequence<Item> Items;
  interface I { Items turn(in Items list, out any a); Link pass(in Link v, in any a, out any b); void fail() raises (E); };
]]

local function turn(_, l) return { l[2], l[1] }, 7 end

local function call(object)
  local list, any = object:turn({ { s = "one", n = 1 }, { s = ("two"):rep(1000), n = 2 } })
  assert(list[1].n == 2 and list[2].s == "one" and any._anyval == 7)
  local done = pcall(object.fail, object)
  assert(not done)
end

local reference, enough
local function served()                          -- an object whose process has memory enough
  if not reference then
    reference, enough = begun(function(place)
      local broker = require "mare.orb".init { host = "127.0.0.1" }
      broker:load(idl)
      place:send(tostring(broker:serve({ turn = turn, fail = function() error(broker.types.E {}, 0) end }, "I")))
      place:receive()
      broker:shutdown()
    end)
  end
  return reference
end

local function proxy_of(options)
  local text, broker = served(), require "mare.orb".init(options)
  broker:load(idl)
  return broker:proxy(text, "I")
end

local remote
function work.calls()
  remote = remote or proxy_of { timeout = PATIENCE }
  local done, e = pcall(call, remote)
  if not done then exception(e) end
end

local asked
function work.requests()                         -- made while the program runs
  asked = asked or proxy_of { timeout = PATIENCE }
  local done, e = pcall(function()
    local request = asked:_request("turn", { "Items", { "any", mode = "out" }, result = "Items" })
    local list, any = request:invoke { { s = "one", n = 1 }, { s = ("two"):rep(1000), n = 2 } }
    assert(list[1].n == 2 and any._anyval == 7)
    assert(not pcall(function() asked:_request("fail", { exceptions = { "E" } }):invoke() end))
  end)
  if not done then exception(e) end
end

local watched
local watcher = { name = "watcher" }
function watcher.send_request(_, info) info:add_request_service_context(0x4d415245, "who calls") end
function watcher:receive_reply(info) self.seen = info.result end
function watcher:receive_exception(info) self.seen = info.received_exception_id end

function work.interceptors()
  watched = watched or proxy_of { timeout = PATIENCE, interceptors = { watcher } }
  watcher.seen = nil
  local done, e = pcall(call, watched)
  if not done then exception(e) end
  assert(watcher.seen)
end

-- An object and its caller, both with the memory that fails.
local function both(servant, know, options)
  options = options or { host = "127.0.0.1" }
  options.log = function() end
  local broker = require "mare.orb".init(options)
  broker:load(idl)
  know(broker)
  local text = tostring(broker:serve(servant(broker), "I"))
  local client = require "mare.orb".init { timeout = PATIENCE, log = function() end }
  client:load(idl)
  know(client)
  return client:proxy(text, "I"), client
end

local function answering(broker) return { turn = turn, fail = function() error(broker.types.E {}, 0) end } end

local here
function work.servants()                         -- the servant shares the memory
  here = here or both(answering, function() end)
  local done, e = pcall(call, here)
  if not done then exception(e) end
end

local gated
local gate = { name = "gate" }
function gate:receive_request(info) self.seen = info.operation end
function gate.send_reply(_, info) info:add_reply_service_context(0x4d415245, "who answers") end
function gate:send_exception(info) self.raised = info.sending_exception end

function work.gates()                            -- interceptors of the server
  gated = gated or both(answering, function() end, { host = "127.0.0.1", interceptors = { gate } })
  gate.seen = nil
  local done, e = pcall(call, gated)
  if not done then exception(e) end
  assert(gate.seen)
end

local near, place
function work.places()                           -- the endpoint is a Unix socket
  if not near then
    place = os.tmpname()
    os.remove(place)
    near = both(answering, function() end, { ORBendPoint = "giop:unix:" .. place })
  end
  local done, e = pcall(call, near)
  if not done then exception(e) end
end

-- A value with a class, which is twice in the message, once in an any, and comes in a circle.
local named = {}
named.__index = named
local function pass_values(object, client)
  local v = setmetatable({ n = 1, name = ("name"):rep(40) }, named)
  v.next = { n = 2, next = v }
  local back, any = object:pass(v, { _anytype = client:type "Link", _anyval = v })
  assert(getmetatable(back) == named and back.name == v.name and back.next.next == back and any._anyval == back)
end

local holder, caller
function work.values()
  if not holder then
    holder, caller = both(function() return { pass = function(_, v, a) return v, a end } end, function(broker) broker:factory("Named", named) end)
  end
  local done, e = pcall(pass_values, holder, caller)
  if not done then exception(e) end
end

-- Adapters come and go, their objects are made when they are called, one request at a time.
local owner
local function use_adapter(root)
  local poa = root:create_POA("a", root.the_POAManager, { "USER_ID", "USE_SERVANT_MANAGER", "SINGLE_THREAD_MODEL", interface = "I" })
  poa:set_servant_manager { incarnate = function() return { turn = turn } end, etherealize = function() end }
  for i = 1, 2 do assert(poa:create_reference_with_id("x" .. i):turn({ { s = "one", n = 1 }, { s = "two", n = 2 } })[1].n == 2) end
  poa:deactivate_object "x1"
end

function work.adapters()
  if not owner then
    owner = require "mare.orb".init { host = "127.0.0.1", log = function() end }
    owner:load(idl)
    owner:address()
  end
  local root = owner:poa()
  local old = root.children.a
  if old then old:destroy(true, true) end
  assert(not next(root.ending))
  local done, e = pcall(use_adapter, root)
  if not done then exception(e) end
end

return function()
  if enough then enough:close() end
  if place then os.remove(place) end
end
