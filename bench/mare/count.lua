-- count.lua WORK N: one of the works whose instructions bench/count counts, N times. Without WORK: their names.
local mare = require "mare"
local work, n = arg[1], math.tointeger(tonumber(arg[2]))
local works = {}

--- A number goes round ten processes.
function works.ring()
  local c = {}
  for i = 1, 10 do c[i] = mare.channel.new() end
  for i = 1, 9 do
    local from, to = c[i], c[i + 1]
    mare.process.spawn(function()
      for v in from:each() do to:send(v) end
      to:close()
    end)
  end
  local from, to = c[10], c[1]
  mare.process.spawn(function()
    for i = 1, n do
      to:send(i)
      from:receive()
    end
    to:close()
  end)
end

--- Two processes answer each other.
function works.pingpong()
  local a, b = mare.channel.new(), mare.channel.new()
  mare.process.spawn(function() for v in a:each() do b:send(v) end end)
  mare.process.spawn(function()
    for i = 1, n do
      a:send(i)
      b:receive()
    end
    a:close()
  end)
end

--- One process selects what two others send.
function works.select()
  local a, b = mare.channel.new(), mare.channel.new()
  for _, c in ipairs { a, b } do
    mare.process.spawn(function() for i = 1, n // 2 do c:send(i) end end)
  end
  mare.process.spawn(function() for _ = 1, n // 2 * 2 do mare.select { a, b } end end)
end

--- A buffer of a megabyte goes from one process to another: the same one, and each time another.
local function buffers(fresh)
  local c, whole = mare.channel.new(), mare.buffer.new(1 << 20):seal()
  mare.process.spawn(function() for _ in c:each() do end end)
  mare.process.spawn(function()
    for _ = 1, n do c:send(fresh and whole:slice(2) or whole) end
    c:close()
  end)
end
function works.buffers() buffers(false) end
function works.slices() buffers(true) end

--- A table goes from one process to another.
local function tables(value)
  local c = mare.channel.new()
  mare.process.spawn(function() for _ in c:each() do end end)
  mare.process.spawn(function()
    for _ = 1, n do c:send(value) end
    c:close()
  end)
end
function works.integers()
  local list = {}
  for i = 1, 1000 do list[i] = i end
  tables(list)
end
function works.records()
  local list = {}
  for i = 1, 100 do
    list[i] = { id = i, name = tostring(i), place = { x = i + 0.5, y = i - 0.5 }, tags = { "red", "green", "blue" } }
  end
  tables(list)
end

--- One token goes round ten thousand processes, n hops.
works["ring lines"] = function()
  local size, c = 10000, {}
  for i = 1, size do c[i] = mare.channel.new() end
  local over = mare.channel.new()
  for i = 1, size do
    mare.process.spawn(function(from, to)
      for left in from:each() do
        if left > 0 then to:send(left - 1) else over:send(true) end
      end
    end, c[i], c[i % size + 1])
  end
  c[1]:send(n)
  over:receive()
  for i = 1, size do c[i]:close() end
end

--- Reads of tables, plain and frozen.
local function field(t) for _ = 1, n do local _ = t.id end end
function works.plain() field { id = 1, name = "x" } end
function works.frozen() field(mare.freeze { id = 1, name = "x" }) end
function works.searched()
  local t = { id = { count = 1 } }
  for i = 1, 100 do t["key" .. i] = i end
  local f = mare.freeze(t)
  local held = f.id
  for _ = 1, n do local _ = f.id.count end
  return held
end

--- A process that does nothing is born and waited for.
function works.spawn()
  local function nothing() end
  for _ = 1, n do mare.process.spawn(nothing):wait() end
end

-- A hundred records of eleven fields, as structs of CORBA and as tables.
local FIELDS = "a ushort b string c octet d short e long f double g char h float i string j boolean k ulong"
local function hundred(class)
  local list = {}
  for i = 1, 100 do
    list[i] = setmetatable({ a = i, b = "some text", c = 2, d = -3, e = 4, f = 5.5, g = "c", h = 6.5, i = "second", j = true, k = 7 }, class)
  end
  return list
end

local counted = { add = function(_, a, b) return a + b end, take = function(_, list) return #list end }
local function call(object, list)
  if list then
    for _ = 1, n do assert(object:take(list) == 100) end
  else
    for i = 1, n do assert(object:add(i, 1) == i + 1) end
  end
end

-- An operation of an object in another process, over a connection: caller and object together. `serving`, `calling`: options of the two brokers;
-- `list`: what is sent, without it two numbers are.
local function called(serving, calling, list)
  local idl = "struct Record { unsigned short a; string b; octet c; short d; long e; double f; char g; float h; string i; boolean j; " ..
    "unsigned long k; }; typedef sequence<Record> Records; interface Counted { long add(in long a, in long b); long take(in Records list); };"
  local reference, over = mare.channel.new(1), mare.channel.new()
  local broker = mare.orb.init(calling)           -- first, so that the other process finds the modules compiled, each time
  broker:load(idl)
  mare.process.spawn(function()
    local server = mare.orb.init(serving)
    server:load(idl)
    reference:send(tostring(server:serve(counted, "Counted")))
    over:receive()
    server:shutdown()
  end)
  local object = broker:proxy(reference:receive(), "Counted")
  call(object, list)
  broker:close()
  over:send(true)
end

function works.call() called({ host = "127.0.0.1" }, {}) end
works["call structs"] = function() called({ host = "127.0.0.1" }, {}, hundred()) end

-- The same over LuDO.
local function called_ludo(list)
  local ludo = require "mare.ludo"
  local reference, over = mare.channel.new(1), mare.channel.new()
  mare.process.spawn(function()
    local server = require "mare.ludo".init {}
    reference:send(server:serve(counted))
    over:receive()
    server:shutdown()
  end)
  local broker = ludo.init {}
  local object = broker:proxy(reference:receive())
  call(object, list)
  broker:close()
  over:send(true)
end
function works.ludo() called_ludo() end
works["ludo records"] = function() called_ludo(hundred()) end

--- A client's and a server's interceptor, which look at each call; `mark`: and give it a service context, both ways.
local function told(mark)
  local seen = 0
  local function look(_, info) if info.response_expected then seen = seen + 1 end end
  local client, server = { send_request = look, receive_reply = look }, { receive_request = look, send_reply = look }
  if mark then
    function client.send_request(_, info) info:add_request_service_context(0x4d415245, "who calls") end
    function server.receive_request(_, info) seen = seen + #info:get_request_service_context(0x4d415245) end
    function server.send_reply(_, info) info:add_reply_service_context(0x4d415245, "who answers") end
    function client.receive_reply(_, info) seen = seen + #info:get_reply_service_context(0x4d415245) end
  end
  called({ host = "127.0.0.1", interceptors = { server } }, { interceptors = { client } })
end

works["call told"] = function() told(false) end
works["call marked"] = function() told(true) end

works["call tls"] = function()
  local folder = os.tmpname()
  local self_signed = ([[rm %s && mkdir %s && cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -out cert \
    -days 9 -subj /CN=here -addext subjectAltName=IP:127.0.0.1 2>log]]):format(folder, folder, folder)
  assert(os.execute(self_signed))
  called({ args = { "-ORBendPoint", "giop:ssl:127.0.0.1:" }, tls = { cert = folder .. "/cert", key = folder .. "/key", verify = false } },
    { tls = { ca = folder .. "/cert" } })
  os.execute("rm -r " .. folder)
end

--- A hundred records to bytes and back by CORBA's rules: structs, or values of a class.
local function marshalled(kind)
  return function()
    local cdr = require "mare.orb.cdr"
    local record = { kind = kind, id = "IDL:Record:1.0", name = "Record" }
    local members, class = {}, kind == "value" and {} or nil
    for name, T in FIELDS:gmatch "(%l) (%l+)" do
      members[#members + 1] = { name = name, type = { kind = T, bound = T == "string" and 0 or nil } }
    end
    record.members, record.state, record.bases = members, members, {}
    local env = cdr.environment { resolve = function() return record end }
    if class then env.classes[class], env.classes[record.id] = record, class end
    local program = env:program { { kind = "sequence", element = record } }
    local list = hundred(class)
    local codec = 1 | 2 << 1 | 8
    for _ = 1, n do
      local back = program:decode(program:encode(codec, list), 1, codec)
      assert(#back == 100 and getmetatable(back[1]) == class)
    end
  end
end
works.structs = marshalled "struct"
works.values = marshalled "value"

--- Operations of a dict on one key with a short text: by a function each, so that no other work is counted.
local function of_dict(f)
  return function()
    local d = mare.dict.new()
    d:set("hits", 1)
    f(d)
  end
end
works["dict incr"] = of_dict(function(d) for _ = 1, n do d:incr "hits" end end)
works["dict get"] = of_dict(function(d) for _ = 1, n do d:get "hits" end end)
works["dict set"] = of_dict(function(d) for i = 1, n do d:set("hits", i) end end)
works["dict update"] = of_dict(function(d)
  local function more(v) return v + 1 end
  for _ = 1, n do d:update("hits", more) end
end)

--- An integer that is shared.
works["atomic add"] = function()
  local a = mare.atomic.new()
  for _ = 1, n do a:add() end
end

if not work then
  for name in pairs(works) do print(name) end
  return
end
works[work]()
