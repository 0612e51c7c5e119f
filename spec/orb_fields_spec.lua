-- The fields that the straight functions (src/module/orb_call.c, orb_serve.c) find by their names in the tables of lua/mare/orb. Nobody else would
-- notice that one was renamed: its calls would only go the slow way. So this is the list to which both sides are held: C reads no other names, and
-- the records that Lua makes have them.
-- runs under: mare
local mare = require "mare"
local orb = require "mare.orb"
local straight = require "mare.orb.core"
local serving = require "spec.support.serving"

-- Record -> its fields; behind the | those that may be nil. Those of interceptors are there only with one.
local CALLER = {
  state = "class target | check timeout",
  target = "link heads idat bits limit ready endpoint | entry",
  endpoint = "| sas",
  link = "over dead leader leading hurried tap count id used conn socket | wrapped",
  conn = "asked nunfinished passed codec limit bits",
  info = "_contexts _message",
}
local OBJECT = {
  pool = "standby",
  peer = "n closing gone full patience purse connection",
  connection = "asked nunfinished passed codec bits limit | incompatible",
  purse = "held closed budget",
  budget = "held share busy guest nwaiting",
  job = "fiber peer id slot size response phase call key operation silent cancelled codec | told",
  entry = "servant calls dynamic | forward",
  call = "plain results | arguments def",
  interceptors = "n fast flat",
  info = "request_id _point _reached _at _args _results _contexts _message _heard _job _entry _call _def _key",
  class = "__index",
}

-- The names that a record of the straight functions has: those of fields are the first texts in its list.
local function names_of(record)
  local names = {}
  for i, name in ipairs(debug.getuservalue(record, 1)) do
    if type(name) ~= "string" then break end
    names[i] = name
  end
  table.sort(names)
  return names
end

local function all_of(records)
  local seen, names = {}, {}
  for _, text in pairs(records) do
    for name in text:gmatch "[%w_]+" do
      if not seen[name] then names[#names + 1] = name end
      seen[name] = true
    end
  end
  table.sort(names)
  return names
end

local function check(record, text, what)
  for name in text:match("^[^|]*"):gmatch "[%w_]+" do assert(rawget(record, name) ~= nil, ("%s has no field '%s'"):format(what, name)) end
end

describe("the straight functions and the tables of Lua", function()
  it("know the same fields", function()
    local record = straight.calling()
    if not record then return pending "Lua's layout is not known here, or every step is recorded" end
    assert.same(all_of(CALLER), names_of(record))
    assert.same(all_of(OBJECT), names_of(straight.serving {}))
  end)

  it("have them where the other side made them", function()
    if not straight.calling() then return pending "Lua's layout is not known here, or every step is recorded" end
    local class = { add = function(_, a, b) return a + b end, wait = function(_, n) mare.sleep(0.01) return n end }
    class.__index = class
    serving.with(setmetatable({}, class), {}, function(broker, port)
      local client <close> = orb.init()
      client:load(serving.IDL)
      local proxy = client:proxy(("corbaloc:iiop:1.2@127.0.0.1:%d/echo"):format(port), "Spec::Echo")
      assert.same({ 3, 7, 3 }, { proxy:add(1, 2), proxy:wait(7), proxy:add(1, 2) })
      local state = orb.state(proxy)
      for what, record in pairs { state = state, target = state.target, endpoint = state.target.endpoint, link = state.target.link,
                                  conn = state.target.link.conn } do
        check(record, CALLER[what], what)
      end
      local pool = broker.server.pool
      local peer = next(pool.peers)
      local _, job = next(pool.jobs)
      local entry = broker.server.adapter.objects.echo
      for what, record in pairs { pool = pool, peer = peer, connection = peer.connection, purse = peer.purse, budget = peer.purse.budget, job = job,
                                  entry = entry, call = entry.calls.add, class = class } do
        check(record, OBJECT[what], what)
      end
    end)
  end)
end)
