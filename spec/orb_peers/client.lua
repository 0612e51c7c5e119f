-- Checks the rich interface with mare: a line "ok NAME", "FAIL NAME<tab>why" or "skip NAME<tab>why" for every feature.
--   bin/mare run spec/orb_peers/client.lua REFERENCE [ORB options] [only=TEXT] [without=wide,callback,more] [pause=SECONDS] [overlap=1]
local mare = require "mare"
local orb = require "mare.orb"

local given = { table.unpack(arg) }
local broker = orb.init { args = arg, host = "127.0.0.1", timeout = 20 }
broker:loadfile("spec/orb_peers/rich.idl")
local samples = require "spec.orb_peers.samples"(broker)
local shore = broker.types.Shore

local options, failed = {}, 0
for k = 2, #arg do
  local name, value = arg[k]:match("^(%l+)=(.*)$")
  options[name or arg[k]] = value
end
io.stdout:setvbuf("line")

local function feature(name, body)
  if not name:find(options.only or "", 1, true) then return end
  local good, why = pcall(body)
  if good then return print("ok " .. name) end
  failed = failed + 1
  if type(why) == "table" and why.why then why = why.why end
  print("FAIL " .. name .. "\t" .. tostring(why):gsub("\n", " "):sub(1, 400))
end

local function left_out(what)
  if not ("," .. (options.without or "") .. ","):find("," .. what .. ",", 1, true) then return false end
  print("skip " .. what .. "\twithout " .. what)
  return true
end

local function expect(got, want, what)
  if not samples.same(got, want) then
    error(("%s: got %s, want %s"):format(what or "answer", samples.text(got), samples.text(want)), 0)
  end
end

local function check(object, name, i)
  local want = samples.list[name][i + 1]
  local method = object["t_" .. name]
  expect(method(object, i, want), want, "[" .. i .. "]")
end

local function sample_features(object, names)
  for name in names:gmatch("%S+") do
    feature("t_" .. name, function()
      for i = 0, samples.count(name) - 1 do check(object, name, i) end
    end)
  end
end

local function any_features(rich, type, names)
  for i, name in ipairs(names) do
    feature("any: " .. name, function() check(rich, type, i - 1) end)
  end
end

local function all_samples(rich)
  sample_features(rich, [[short long longlong ushort ulong ulonglong float double boolean char octet tide string name8 money digits part point
    onlytrue byushort cube names six four corners octets chars booleans shorts longlongs doubles strings atmost4 table cubes tides mixed mixeds deep
    keywords tree byboolean bychar byshort bylong byulong bytide expr anys]])
  feature("char beyond ASCII", function()                  -- or that UTF-8 has no single octet for it
    local good, result = pcall(rich.t_char, rich, 2, "á")
    if good then return expect(result, "á") end
    expect(result._repid, "IDL:omg.org/CORBA/DATA_CONVERSION:1.0")
  end)
  feature("discriminators without a label", function()
    for name, i in pairs { byushort = 2, bychar = 3, byshort = 3, bylong = 2, byulong = 1 } do check(rich, name, i) end
  end)
  feature("fixed with leading zeros", function()
    for _, one in ipairs { { "money", 3 }, { "money", 4 }, { "digits", 2 }, { "part", 1 }, { "part", 2 } } do check(rich, one[1], one[2]) end
  end)
  any_features(rich, "any", samples.any_names)
  if left_out("wide") then return end
  sample_features(rich, "wchar wstring wide8 wstrings")
  any_features(rich, "wideany", samples.wide_names)
end

local function more_samples(rich)
  local object = rich:more()
  if not object then return print("skip more\tthe server has none") end
  sample_features(object:_narrow("Shore::More"), "byfarushort bylonglong byfarulong byulonglong longdouble typecode")
end

local function names(rich)
  feature("void", function() rich:ping() end)
  feature("inherited operations", function()
    expect(rich:grow(1), 2)
    expect(rich:leftward("left"), "<left")
  end)
  feature("attributes", function()
    rich:_set_name("olá")
    rich:_set_place { x = 3, y = 4.5 }
    expect({ rich:_get_count(), rich:_get_name(), rich:_get_place() }, { 42, "olá", { x = 3, y = 4.5 } })
    expect({ rich.count, rich.name }, { 42, "olá" })
  end)
  feature("Lua keywords as names", function()
    expect({ rich:_end(1), rich:_function(2), rich:_repeat(3), rich:_nil(4), rich:_and(5), rich:_local(6) }, { 1, 2, 3, 4, 5, 6 })
  end)
  feature("oneway", function()
    rich:poked()
    for k = 1, 10 do rich:poke(k) end
    local sum = 0
    for _ = 1, 200 do                                       -- other threads of the server may still be at it
      sum = sum + rich:poked()
      if sum == 55 then break end
      mare.sleep(0.005)
    end
    expect(sum, 55)
  end)
  feature("8 threads at once", function()
    local futures = {}
    for t = 1, 8 do
      futures[t] = mare.fiber.spawn(function()
        for k = 1, 50 do expect(rich:grow(1000 * t + k), 1000 * t + k + 1) end
      end)
    end
    for t = 1, 8 do
      local good, why = futures[t]:wait()
      if not good then error(why, 0) end
    end
  end)
end

local function swap(rich, name, type, i, k)
  feature("inout and out: " .. name, function()
    local a, b = samples.list[type][i + 1], samples.list[type][k + 1]
    local result, both, out = rich["swap_" .. name](rich, a, b)
    expect({ result, both, out }, { a, a, b })
  end)
end

local function modes(rich)
  swap(rich, "long", "long", 1, 2)
  swap(rich, "boolean", "boolean", 0, 1)
  swap(rich, "string", "string", 1, 2)
  swap(rich, "money", "money", 0, 1)
  swap(rich, "point", "point", 0, 1)
  swap(rich, "octets", "octets", 1, 0)
  swap(rich, "mixed", "mixed", 1, 0)
  swap(rich, "bytide", "bytide", 2, 3)
  swap(rich, "any", "any", 18, 12)
  swap(rich, "cube", "cube", 0, 1)
  swap(rich, "names", "names", 0, 0)
  feature("inout and out: reference", function()
    local result, both, out = rich:swap_base(rich:myself(), nil)
    expect({ result:grow(1), both:grow(2), out == nil }, { 2, 3, true })
  end)
end

local function raised(body, ...)
  local good, why = pcall(body, ...)
  if good then error("nothing was raised", 0) end
  if type(why) ~= "table" then error(why, 0) end
  return why
end

local function failures(rich, reference)
  feature("exception without members", function() expect(raised(rich.raise_nothing, rich)._repid, shore.Nothing.id) end)
  feature("exception with members", function()
    local e = raised(rich.raise_full, rich, -7)
    expect(e._repid, shore.Full.id)
    expect({ e.t, e.n, e.s, e.p, e.list }, { "HIGH", -7, "full", samples.list.point[1], samples.list.strings[2] })
  end)
  feature("system exception", function()
    local e = raised(rich.refuse, rich)
    expect({ e._repid, e.minor, e.completed }, { "IDL:omg.org/CORBA/NO_PERMISSION:1.0", 42, "COMPLETED_YES" })
  end)
  feature("unknown operation", function()
    local other <close> = orb.init { args = { table.unpack(given) }, ORBverifyObjectExistsAndType = false }
    other:load "interface Odd { void no_such_thing(); };"
    local odd = other:proxy(reference, "Odd")
    expect(raised(odd.no_such_thing, odd)._repid, "IDL:omg.org/CORBA/BAD_OPERATION:1.0")
  end)
end

local function references(rich)
  feature("reference to itself", function()
    local me = rich:myself()
    expect({ rich:is_myself(me), me:grow(41) }, { true, 42 })
  end)
  feature("nil reference", function() expect(rich:none() == nil, true) end)
  feature("reference passed on", function()
    local o = rich:keep(rich)
    expect({ o == rich, rich:keep(nil) == nil }, { true, true })
    expect(broker:object_to_string(o), broker:object_to_string(rich))
  end)
  feature("sequence of references", function()
    local list = rich:keep_all { n = 3, rich, nil, rich }
    expect({ list.n, list[1] == rich, list[2] == nil, list[3] == rich }, { 3, true, true, true })
  end)
  feature("reference in an any", function()
    local back = rich:swap_any({ _anytype = broker:type "Shore::Rich", _anyval = rich }, { _anytype = broker:type "long", _anyval = 1 })
    expect(back._anyval:grow(1), 2)
  end)
  feature("_is_a", function()
    for _, name in ipairs { "Shore::Rich", "Shore::Right", "Shore::Base", "IDL:omg.org/CORBA/Object:1.0" } do expect(rich:_is_a(name), true, name) end
    expect(rich:_is_a "Shore::More", false)
  end)
  feature("_non_existent", function() expect(rich:_non_existent(), false) end)
  feature("narrow to a base", function()
    local o = rich:keep(rich)
    expect({ o:_narrow "Shore::Right" ~= nil, o:_narrow "Shore::More" == nil }, { true, true })
  end)
  if not left_out("callback") then
    feature("callback", function() expect(rich:call_back({ grow = function(_, n) return n * 10 end }, 5), 50) end)
  end
  local other = rich:forwarder()
  if not other then return print("skip forward\tthe server has no forwarder") end
  feature("forward", function()
    for k = 0, 2 do expect(other:grow(k), k + 1) end
    expect(#other:t_octets(2, samples.list.octets[3]), 300000)
  end)
end

-- A quick call is answered while a slow one is under way.
local function overlap(rich)
  feature("replies out of order", function()
    rich:ping()
    local slow = rich._async:slow(1500)
    for k = 1, 5 do expect(rich:grow(k), k + 1) end
    expect(select(2, slow:wait(0)), "timeout")
    expect((slow:wait()), true)
  end)
end

local function pauses(rich, seconds)
  feature("calls after idle closing", function()
    for k = 0, 2 do
      if k > 0 then mare.sleep(seconds) end
      expect(rich:grow(k), k + 1)
    end
  end)
end

local good, rich = pcall(broker.proxy, broker, arg[1], "Shore::Rich")
if not good then
  print("FAIL start\t" .. tostring(rich))
  os.exit(1)
end
if options.pause then pauses(rich, tonumber(options.pause))
elseif options.overlap then overlap(rich)
else
  names(rich)
  modes(rich)
  failures(rich, arg[1])
  references(rich)
  all_samples(rich)
  if not left_out("more") then more_samples(rich) end
end
broker:shutdown(5)
os.exit(failed > 0 and 1 or 0)
