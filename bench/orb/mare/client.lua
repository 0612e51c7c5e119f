-- Times calls of bench.idl's Sender on mare; arguments as cpp/client.cc.
local mare = require "mare"
local orb = require "mare.orb"

local broker = orb.init { args = arg }
broker:loadfile("bench/orb/bench.idl")
local options, names = {}, {}
for k = 2, #arg do
  local name, value = arg[k]:match("^(%l+)=(.*)$")
  if name then options[name] = value else names[#names + 1] = arg[k] end
end
local sender = broker:proxy(arg[1], "ORBTests::Sender")

local function structs(n)
  local list = {}
  for k = 1, n do
    list[k] = { ushort_value = 1234, string_value = "a string value", octet_value = 200, short_value = -1234, long_value = -123456,
                double_value = 3.14159, char_value = "c", float_value = 2.5, enum_value = "ENUM_C", boolean_value = true, ulong_value = 123456 }
  end
  return list
end

local refs = {}
for line in io.lines(options.refs) do refs[#refs + 1] = broker:proxy(line) end

local works = {
  send_void = function() sender:send_void() end,
  raise_empty = function() if pcall(sender.raise_empty, sender) then error "nothing was raised" end end,
  send_objref = function() sender:send_objref(refs[1]) end,
  send_objrefs = function() sender:send_objrefs(refs) end,
}
for _, n in ipairs { 10, 100, 1000 } do
  local list = structs(n)
  works["send_structs_" .. n] = function() sender:send_structs(list) end
end
local text, octets = ("x"):rep(1 << 20), ("\7"):rep(1 << 20)
function works.string_1m() assert(#sender:echo_string(text) == #text) end
function works.octets_1m() assert(#sender:echo_octets(octets) == #octets) end

local calls, warm, samples = tonumber(options.calls or 100), tonumber(options.warm or 10), tonumber(options.samples or 30)

for _, name in ipairs(names) do
  local call, line = works[name], { name }
  for s = 1 - warm, samples do
    local start = mare.clock()
    for _ = 1, calls do call() end
    if s > 0 then line[#line + 1] = ("%.6f"):format(1000 * (mare.clock() - start)) end
  end
  print(table.concat(line, " "))
end
io.stdout:flush()
os.exit(0)
