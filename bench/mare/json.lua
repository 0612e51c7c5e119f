-- json DOCUMENT SECONDS: mare.json beside lua-cjson in one run, by turns: texts written and read a second, and how often the one is the other.
-- DOCUMENT: records (objects of names, numbers and lists), numbers (an array of floats and integers), texts (strings of prose), small (one object).
--   json count WHO WHAT DOCUMENT ROUNDS    only so many rounds of one, for valgrind --tool=callgrind; WHO: mare or cjson, WHAT: encode or decode
local mare = require "mare"
local measure = require "measure"

local makers = {}

function makers.records()
  local list = {}
  for i = 1, 500 do
    list[i] = { id = i * 1000003, name = "customer number " .. i, email = ("c%d@example.org"):format(i), active = i % 3 == 0, balance = i * 1.25,
      tags = { "new", "north", "tag" .. i }, address = { street = "Long Street " .. i, zip = ("%05d"):format(i), city = "Bremen" } }
  end
  return list
end

function makers.numbers()
  local list = {}
  for i = 1, 5000 do list[i] = i % 2 == 0 and i * 7919 or i / 7 end
  return list
end

function makers.texts()
  local list = {}
  for i = 1, 200 do list[i] = ("The %dth line of some prose, as people write it, says \"so\" and goes on.\n"):format(i):rep(4) end
  return list
end

function makers.small() return { id = 17, method = "lookup", params = { "customer", 42 }, ok = true } end

local codecs = { mare = require "mare.json", cjson = require "cjson" }

if arg[1] == "count" then
  local codec, value = codecs[arg[2]], makers[arg[4]]()
  local f = codec[arg[3]]
  local given = arg[3] == "decode" and codec.encode(value) or value
  for _ = 1, measure.arg(5) do f(given) end
  return
end

local value, seconds = makers[arg[1]](), tonumber(arg[2])
local text = codecs.mare.encode(value)
assert(#codecs.cjson.encode(value) > 0)

-- rounds(f, given): how many a second, of some milliseconds
local function rounds(f, given)
  local n, began = 0, mare.clock()
  repeat
    f(given)
    n = n + 1
  until mare.clock() - began > 0.02
  return n / (mare.clock() - began)
end

for _, what in ipairs { "encode", "decode" } do
  local given, best = what == "encode" and value or text, { mare = 0, cjson = 0 }
  local till = mare.clock() + seconds / 2
  repeat
    for who, codec in pairs(codecs) do best[who] = math.max(best[who], rounds(codec[what], given)) end
    collectgarbage()
  until mare.clock() > till
  for _, who in ipairs { "mare", "cjson" } do measure.report(("%s-%s"):format(what, who), best[who] * #text / 1e6, "MB/s") end
  measure.report(what .. "-ratio", best.mare / best.cjson, "×")
end
