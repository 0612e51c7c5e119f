-- Checks values.idl with mare: a line "ok NAME", "FAIL NAME<tab>why" or "skip NAME<tab>why" for every feature.
--   bin/mare run spec/orb_peers/values_client.lua REFERENCE [ORB options]
local orb = require "mare.orb"

local broker = orb.init { args = arg, host = "127.0.0.1", timeout = 20 }
broker:loadfile("spec/orb_peers/values.idl", { define = { NO_CAT = "1" } })
local classes = require "spec.orb_peers.values"(broker)
local tide = broker.types.Tide
local failed = 0
io.stdout:setvbuf("line")

local function feature(name, body)
  local good, why = pcall(body)
  if good then return print("ok " .. name) end
  failed = failed + 1
  print("FAIL " .. name .. "\t" .. tostring(why):gsub("\n", " "):sub(1, 400))
end

local function expect(good, what) if not good then error(what or "another answer", 2) end end
local function is(v, class) return getmetatable(v) == classes[class] end

local function plain(values)
  feature("null", function() expect(values:t_node(nil) == nil) end)
  feature("value", function()
    local r = values:t_node(classes.node(7, "seven"))
    expect(r.n == 7 and r.weight == 7.5 and r.text == "seven" and r.next == nil and is(r, "Node"))
  end)
  feature("values in a circle", function() expect(classes.is_circle(values:t_node(classes.circle()))) end)
  feature("shared value", function()
    local a = { n = 1, text = "a", weight = 1 }
    local r = values:t_nodes { a, classes.circle(), a, nil, n = 4 }
    expect(r.n == 4 and r[1] == r[3] and classes.is_circle(r[2]) and r[4] == nil)
  end)
  feature("shared by parameters", function()
    local a, b = classes.node(1, "a"), classes.node(2, "b")
    local one, x, y = values:swap(a, a)
    expect(one == 1 and x == y)
    one, x, y = values:swap(a, b)
    expect(one == 0 and x.n == 1 and y.n == 2)
  end)
  feature("long list of values", function()
    local first
    for i = 500, 1, -1 do first = classes.node(i, "one of many", first) end
    local n, p = 0, values:t_node(first)
    while p do
      n = n + 1
      expect(p.n == n)
      p = p.next
    end
    expect(n == 500)
  end)
end

local function derived(values)
  feature("derived value", function()
    local r = values:t_animal(classes.make "Bird")
    expect(is(r, "Bird") and r.wings == 2.5 and r.name == "Tweety")
  end)
  feature("truncatable value", function()
    local r = values:t_animal(classes.make "Dog")
    expect(is(r, "Dog") and r.bark == "wow" and classes.is_circle(r.bone))
    r = values:t_dog(classes.make "Puppy")
    expect(is(r, "Puppy") and r.weeks == 7 and classes.is_circle(r.bone))
  end)
  feature("type at the server", function()
    expect(values:kind(classes.make "Bird") == "Bird" and values:kind(classes.make "Puppy") == "Puppy" and values:kind(nil) == "nobody")
  end)
  feature("value of an unknown type", function()
    local r = values:make "Cat"
    expect(is(r, "Dog") and r.name == "Tom" and r.bark == "purr" and classes.is_circle(r.bone) and r.meow == nil)
    expect(is(values:make "Puppy", "Puppy"))
  end)
  feature("abstract value", function()
    local r = values:t_thing(classes.new "Stone" { carats = 0.25 })
    expect(is(r, "Stone") and r.carats == 0.25)
  end)
  feature("ValueBase", function()
    local r = values:t_base(classes.make "Dog")
    expect(is(r, "Dog") and classes.is_circle(r.bone))
  end)
  feature("box as ValueBase", function()
    local r = values:t_base { _repid = tide.Place.id, x = 3, y = 4.5 }
    expect(r.x == 3 and r.y == 4.5 and r._repid == tide.Place.id)
    r = values:t_base { _repid = tide.Text.id, _value = "boxed" }
    expect(r._repid == tide.Text.id and r._value == "boxed")
  end)
end

local function boxes(values)
  feature("boxed string", function() expect(values:t_text "boxed" == "boxed" and values:t_text(nil) == nil) end)
  feature("boxed sequence and struct", function()
    local list, place = values:t_numbers { 0, 0, 5 }, values:t_place { x = 3, y = 4.5 }
    expect(#list == 3 and list[3] == 5 and place.x == 3 and place.y == 4.5)
  end)
  feature("values in a struct", function()
    local dog = classes.make "Dog"
    local r = values:t_mixed { before = "b", one = dog, between = 7, two = dog, label = "label", after = 0.125 }
    expect(r.before == "b" and is(r.one, "Dog") and r.one == r.two and r.between == 7 and r.label == "label" and r.after == 0.125)
  end)
  feature("value in an any", function()
    local r = values:t_any { _anytype = tide.Animal, _anyval = classes.make "Dog" }
    expect(is(r._anyval, "Dog") and classes.is_circle(r._anyval.bone))
    r = values:t_any(classes.make "Bird")
    expect(is(r._anyval, "Bird") and r._anyval.wings == 2.5)
  end)
  feature("box in an any", function() expect(values:t_any({ _anytype = tide.Text, _anyval = "boxed" })._anyval == "boxed") end)
  feature("value in an exception", function()
    local good, e = pcall(values.lose, values, classes.make "Bird")
    expect(not good and e._repid == tide.Lost.id and is(e.who, "Bird") and e.why == "gone", tostring(e))
  end)
  feature("abstract interface", function()
    local r = values:t_shown(classes.new "Poster" { words = "hello" })
    expect(is(r, "Poster") and r.words == "hello", "the value")
    expect(values:t_shown(values:hang()):show() == "screen" and values:t_shown(nil) == nil, "the object")
  end)
end

local values = broker:proxy(arg[1], "Tide::Values")
plain(values)
derived(values)
boxes(values)
local crafts = values:crafts()
if not crafts then print("skip custom value\tthe server has none")
else
  feature("custom value", function()
    local odd = classes.new "Odd" { a = 7, b = "seven", c = classes.circle() }
    local r = crafts:_narrow "Tide::Crafts":t_odd(odd)
    expect(is(r, "Odd") and r.a == 7 and r.b == "seven" and classes.is_circle(r.c))
  end)
end
broker:shutdown(5)
os.exit(failed > 0 and 1 or 0)
