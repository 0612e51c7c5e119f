-- Works for src/module/oom_test.c, see oom.lua: event channels, as their clients see them and as they are served; calls back over a client's own
-- connection; a client that asks the repository. What was accepted arrives, or is counted as lost; a consumer that is there stays connected.
-- Returns what ends the servers.
local mare = require "mare"
local work, begun = ...
local PATIENCE <const> = 10

-- As calls fail: NO_MEMORY is a servant's word for it; where the memory was missing for a connection is the other side's secret.
local of_memory = { ["IDL:omg.org/CORBA/NO_MEMORY:1.0"] = true, ["IDL:omg.org/CORBA/COMM_FAILURE:1.0"] = true }
local function exception(e)
  if type(e) ~= "table" then error(e, 0) end
  error((of_memory[e._repid] and "not enough memory: " or "") .. tostring(e), 0)
end

local function attempt(f, ...)
  local done, e = pcall(f, ...)
  if not done then exception(e) end
end

local function until_true(f, what)
  local limit = mare.clock() + PATIENCE
  while not f() do
    if mare.clock() > limit then error(what, 0) end
    mare.sleep(0.0005)
  end
end

-- ---- the client of a channel, whose process has memory enough ----

local channel, enough
local function publisher()
  local address
  address, enough = begun(function(place)
    local broker = require "mare.orb".init { host = "127.0.0.1", log = function() end }
    local service = require "mare.orb.services.events".serve(broker, { channels = { "c" } })
    place:send(broker:address())
    place:receive()
    service:close()
    broker:shutdown()
  end)
  local broker = require "mare.orb".init { timeout = PATIENCE, log = function() end }
  return require "mare.orb.events".channel(broker, "corbaloc::" .. address .. "/c")
end

local function value(any) return type(any) == "table" and any._anyval or any end

-- What the filterable data of a structured event say.
local function number_of(event) return type(event) == "table" and value(event.filterable_data[1].value) end

local sent = 0
local function through()
  sent = sent + 1
  channel:publish(sent)
  local got
  repeat got = channel:next(PATIENCE) or error("an event was lost", 0) until value(got) == sent     -- others are of runs without memory
  channel:notify { domain = "d", type = "t", name = "n", data = { n = sent } }
  repeat got = channel:next(PATIENCE) or error("an event was lost", 0) until number_of(value(got)) == sent
end

function work.publishing()
  if not channel then
    channel = publisher()
    channel:next(0)
  end
  attempt(through)
end

-- ---- a service and its clients, all with the memory that fails ----

local service, server, client, object
local got = { pushed = {}, chosen = {} }
local push, notify, pull
local wanted                                     -- what the supplier gives that is asked
local dropped                                    -- was somebody told of the end?

local function consumer(list)
  return { push = function(_, any) list[value(any)] = true end,
           push_structured_event = function(_, e) list[number_of(e)] = true end,
           disconnect_push_consumer = function() dropped = true end, disconnect_structured_push_consumer = function() dropped = true end,
           offer_change = function() end }
end

local function open()
  local orb = require "mare.orb"
  server = orb.init { host = "127.0.0.1", log = function() end }
  service = require "mare.orb.services.events".serve(server, { channels = { "c" }, limits = { poll = 0.002, check = 0.05, gone = 0.2 } })
  client = orb.init { host = "127.0.0.1", timeout = PATIENCE, log = function() end }
  client:load("#include <MareEvents.idl>")
  object = client:proxy("corbaloc::" .. server:address() .. "/c", "CosNotifyChannelAdmin::EventChannel")
  local consumers, suppliers = object:for_consumers(), object:for_suppliers()
  consumers:obtain_push_supplier():connect_push_consumer(consumer(got.pushed))
  pull = consumers:obtain_pull_supplier()
  pull:connect_pull_consumer(nil)
  local filter = object:_get_default_filter_factory():create_filter "EXTENDED_TCL"
  filter:add_constraints { { event_types = {}, constraint_expr = "$n > 0" } }
  local chosen = consumers:obtain_notification_push_supplier "STRUCTURED_EVENT"
  chosen = chosen:_narrow "CosNotifyChannelAdmin::StructuredProxyPushSupplier"
  chosen:add_filter(filter)
  chosen:connect_structured_push_consumer(consumer(got.chosen))
  suppliers:obtain_pull_consumer():connect_pull_supplier {
    try_pull = function() return wanted or 0, wanted ~= nil end, disconnect_pull_supplier = function() dropped = true end,
  }
  notify = suppliers:obtain_notification_push_consumer("STRUCTURED_EVENT"):_narrow "CosNotifyChannelAdmin::StructuredProxyPushConsumer"
  notify:connect_structured_push_supplier(nil)
  push = suppliers:obtain_push_consumer()
  push:connect_push_supplier(nil)
end

-- Each work has a service of its own: other works, in which every further allocation fails, end fibers of what stands beside them.
local opened
local function quit()
  if not service then return end
  local s, at, c = service, server, client
  service, server, client, opened = nil, nil, nil, nil
  local over = mare.fiber.spawn(function()
    pcall(s.close, s)
    pcall(at.shutdown, at, 0)
    pcall(c.shutdown, c, 0)
  end)
  pcall(over.wait, over, PATIENCE)
end

local function fresh(name)
  if opened == name then return end
  quit()
  opened, dropped, wanted = name, nil, nil
  got.pushed, got.chosen = {}, {}
  open()
end

local function figures() return service:figures()[1] end

-- Who is pushed to has it, or it is counted as lost.
local function arrived(list, n, before)
  until_true(function() return list[n] or figures().discarded > before end, "an event was lost, and is not counted")
  if not list[n] then error("not enough memory: an event is discarded", 0) end
end

-- What earlier runs have begun is over: what they lose would be counted in this one.
local function is_quiet()
  for _, p in pairs(service.parts) do
    if p.kind == "proxy" and p.side == "consumers" and p.way == "push" and not p.gone and (p.busy or p.queue:count() > 0) then return false end
  end
  return true
end
local function settled() until_true(is_quiet, "an event is neither delivered nor discarded") end

local number = 0
local function push_all()
  settled()
  number = number + 1
  local n, before = number, figures().discarded
  push:push(n)
  arrived(got.pushed, n, before)
  local any
  repeat any = value(pull:pull()) until any == n
end

local function connected()
  assert(#service:channels()[1].consumers == 3 and not dropped, "somebody was dropped")
end

function work.channels()
  fresh "channels"
  attempt(push_all)
  connected()
end

function work.filters()                          -- an event for those whose filter lets it through
  fresh "filters"
  attempt(function()
    settled()
    number = number + 1
    local n, before = number, figures().discarded
    notify:push_structured_event { header = { fixed_header = { event_type = { domain_name = "d", type_name = "t" }, event_name = "n" },
                                              variable_header = {} }, filterable_data = { { name = "n", value = n } }, remainder_of_body = "x" }
    arrived(got.chosen, n, before)
  end)
  connected()
end

function work.pulled()                           -- a supplier is asked, and gives the same until that has arrived
  fresh "pulled"
  attempt(function()
    number = number + 1
    wanted = number
    until_true(function() return got.pushed[wanted] end, "no event comes")
  end)
  wanted = nil
  connected()
end

-- A consumer that is no object any more is forgotten with the first event for it, or at the latest when it is asked.
function work.vanished()
  fresh "vanished"
  local servant = consumer {}
  local done, e = pcall(function()
    object:for_consumers():obtain_push_supplier():connect_push_consumer(servant)
    client:deactivate(servant)
    push:push "x"
  end)
  pcall(client.deactivate, client, servant)
  attempt(push.push, push, "y")
  until_true(function() return #service:channels()[1].consumers == 3 end, "a consumer that is gone is not forgotten")
  if not done then exception(e) end
end

-- ---- calls back over the client's own connection ----

local IDL <const> = [[
  interface Listener { string heard(in string what); };
  interface Talker { string talk(in Listener l, in string what); };
]]

local listener = { heard = function(_, what) return "heard " .. what end }

local talker, accepting
local function reference()
  if not talker then
    local broker = require "mare.orb".init { host = "127.0.0.1", ORBacceptBiDirectionalGIOP = true, ORBserverTransportRule = "localhost tcp,bidir",
                                             timeout = PATIENCE, log = function() end }
    broker:load(IDL)
    talker = tostring(broker:serve({ talk = function(_, l, what) return l:heard(what) end }, "Talker"))
    accepting = broker.server.pool
  end
  return talker
end

local function talk(broker)
  assert(broker:proxy(reference(), "Talker"):talk(listener, "a word") == "heard a word")
end

local function offering()
  local broker = require "mare.orb".init { host = "127.0.0.1", ORBofferBiDirectionalGIOP = true, timeout = PATIENCE, log = function() end }
  broker:load(IDL)
  broker:need_server():open()
  broker.server.opened[1].listener:close()       -- there is no other way to it
  return broker
end

local caller, was_short
function work.callbacks()
  caller = caller or offering()
  local done, e = pcall(talk, caller)
  -- Where memory was missing in the run before, the other side may end the connection, and only now: the next call makes a new one.
  if not done and was_short and type(e) == "table" and e._repid == "IDL:omg.org/CORBA/COMM_FAILURE:1.0" then done, e = pcall(talk, caller) end
  was_short = not done
  if not done then exception(e) end
end

function work.offers()                           -- the connection is new
  reference()
  local broker
  local done, e = pcall(function()
    broker = offering()
    talk(broker)
  end)
  local others = caller and 1 or 0
  if broker and not pcall(broker.shutdown, broker, 0) then broker:shutdown(0) end
  until_true(function() return accepting.count <= others end, "a connection stays open")
  if not done then exception(e) end
end

-- ---- a client without IDL ----

local bank, more
function work.learned()
  if not bank then
    bank, more = begun(function(place)
      local broker = require "mare.orb".init { host = "127.0.0.1", log = function() end }
      broker:load "exception Bad {}; interface Account { struct Entry { string text; }; Entry last(in long n) raises (Bad); };"
      place:send(tostring(broker:serve({ last = function(_, n) return { text = "entry " .. n } end }, "Account")))
      place:receive()
      broker:shutdown()
    end)
  end
  local asking = require "mare.orb".init { repository = true, timeout = PATIENCE, log = function() end }
  local done, e = pcall(function()
    local account = asking:proxy(bank)
    local failed = not pcall(account.last, account, 1)
    assert(account:last(7).text == "entry 7")    -- what was not learned for want of memory is asked again
    if failed then error("not enough memory, the first time", 0) end
  end)
  asking:shutdown(0)
  if not done then exception(e) end
end

-- A module that a program doesn't have: it fails, where it is needed, and nobody waits.
function work.unregistered()
  local done, e = pcall(begun, function(place) place:send(require "mare.unregistered") end)
  assert(not done)
  if not tostring(e):find("module 'mare.unregistered' not found", 1, true) then error(e, 0) end
end

-- A service would open connections of its own beside another work, whose descriptors are counted.
for name, f in pairs(work) do
  work[name] = function()
    if opened ~= name then quit() end
    return f()
  end
end

return function()
  quit()
  if enough then enough:close() end
  if more then more:close() end
end
