-- The language of filters: what constraints mean, what is wrong with them and where, and that nobody can make them cost much.
-- runs under: mare
-- needs: plain
local mare = require "mare"
local orb = require "mare.orb"
local events = require "mare.orb.events"
local grammar = require "mare.orb.services.events.grammar"
local path = require "mare.orb.services.events.path"
local patterns = require "mare.orb.services.events.patterns"

local broker = orb.init()
broker:load [[
  #include <CosNotification.idl>
  module Rail {
    enum Signal { GREEN, RED };
    union Where switch (long) { case 1: string station; default: long kilometre; };
    struct Alarm { Signal state; sequence<long> tracks; Where place; unsigned long long id; fixed<5,2> cost; sequence<octet> raw; long grid[2]; };
  };
]]
local T = broker:type "CosNotification::StructuredEvent"
local Alarm = broker.types.Rail.Alarm

local function any(type, value) return { _anytype = broker:type(type), _anyval = value } end

local function alarm(fields)
  local value = { state = "RED", tracks = { 3, 5, n = 2 }, place = { _switch = 1, _value = "Ulm", _field = "station" }, id = -1, cost = "12.50",
                  raw = "\1\2", grid = { 7, 8 } }
  for name, v in pairs(fields or {}) do value[name] = v end
  return { _anytype = Alarm, _anyval = value }
end

local structured = events.structured {
  domain = "Rail", type = "Alarm", name = "brake", header = { Priority = 3, source = "sensor" },
  data = { severity = any("short", 4), ratio = any("double", 0.5), place = "Neu-Ulm", quiet = false, level = any("Rail::Signal", "GREEN"),
           tags = any("sequence<string>", { "hot", "old" }), detail = alarm() },
  body = alarm(),
}

-- Is a constraint true of the structured event, of an any?
local function of_event(text)
  local f, err = grammar.compile(text)
  assert(f, text .. ": " .. tostring(err))
  return f { structured = structured, type = T }
end

local function of_any(text, value) return assert(grammar.compile(text)) { any = value or alarm() } end

describe("a constraint", function()
  it("compares, computes and connects as the standard says", function()
    for text, wanted in pairs {
      [""] = true, ["TRUE"] = true, ["not TRUE"] = false, ["FALSE or TRUE and FALSE"] = false, ["(FALSE or TRUE) and TRUE"] = true,
      ["1 + 2 * 3 == 7"] = true, ["(1 + 2) * 3 == 9"] = true, ["7 / 2 == 3.5"] = true, ["-1 < +1"] = true, ["1e3 == 1000"] = true, [".5 < 1."] = true,
      ["2 - 1 - 1 == 0"] = true, ["1 / 0 == 1 or TRUE"] = false, ["TRUE or 1 / 0 == 1"] = true, ["FALSE and 1 / 0 == 1"] = false,
      ["'a' < 'b'"] = true, ["'it\\'s' == 'it\\'s'"] = true, ["'a\\\\b' == 'a\\\\b'"] = true, ["'a' == 1"] = false, ["TRUE == 1"] = true,
      ["'m' ~ 'Ulm'"] = true, ["'x' ~ 'Ulm'"] = false, ["not 'x' ~ 'Ulm'"] = false, ["not ('x' ~ 'Ulm')"] = true, ["1 != 2"] = true,
      ["2 <= 2"] = true,
      ["2 >= 3"] = false, ["RED == 'RED'"] = true, ["\\and == 'and'"] = true, ["5"] = true, ["0"] = false,
    } do
      assert.equal(wanted, of_event(text), text)
    end
  end)

  it("sees the header and the data of a structured event", function()
    for text, wanted in pairs {
      ["$type_name == 'Alarm' and $domain_name == 'Rail' and $event_name == 'brake'"] = true, ["$severity > 3"] = true, ["$severity > 4"] = false,
      ["$Priority == 3 and $source == 'sensor'"] = true, ["$ratio * 2 == 1"] = true, ["'Ulm' ~ $place"] = true, ["not $quiet"] = true,
      ["'hot' in $tags and not ('new' in $tags)"] = true, ["$level == GREEN"] = true, ["exist $severity and not exist $weight"] = true,
      ["$weight > 3"] = false, ["not ($weight > 3)"] = false, ["$weight > 3 or TRUE"] = false, ["$.header.fixed_header.event_name == 'brake'"] = true,
      ["$.filterable_data(severity) == 4"] = true, ["$.header.variable_header(Priority) == 3"] = true, ["$.header.0.1 == 'brake'"] = true,
      ["$.remainder_of_body.state == RED"] = true, ["$state == RED"] = true, ["$detail.tracks[1] == 5"] = true, ["$detail.tracks[2] == 5"] = false,
      ["$detail.tracks._length == 2"] = true, ["5 in $detail.tracks and not (4 in $detail.tracks)"] = true,
      ["$.filterable_data[0]._type_id == 'Property'"] = true,
      ["$curtime > 1000000"] = true, ["exist $.header.fixed_header.nothing"] = false, ["$tags[0] == 'hot'"] = true,
    } do
      assert.equal(wanted, of_event(text), text)
    end
  end)

  it("sees what is in an any: unions, positions, big numbers, octets", function()
    for text, wanted in pairs {
      ["$.state == RED"] = true, ["$.0 == RED"] = true, ["$.place.station == 'Ulm'"] = true, ["$.place.(1) == 'Ulm'"] = true,
      ["$.place.(2) == 'Ulm'"] = false,
      ["$.place.() == 'Ulm'"] = true, ["$.place._d == 1"] = true, ["default $.place"] = false, ["$.place.kilometre == 1"] = false,
      ["$.id > 18000000000000000000"] = true, ["$.cost == 12.5"] = true, ["$.raw[1] == 2"] = true, ["$.grid[0] + $.grid[1] == 15"] = true,
      ["$._repos_id == 'IDL:Rail/Alarm:1.0'"] = true, ["$type_name == '%ANY'"] = true, ["$state == 'RED'"] = true,
    } do
      assert.equal(wanted, of_any(text), text)
    end
    assert.is_true(of_any("default $.place and $.place.kilometre == 9", alarm { place = { _switch = 4, _value = 9, _field = "kilometre" } }))
    assert.is_true(of_any("$ == 5", any("long", 5)))
    assert.is_false(of_any("$.x == 5", any("long", 5)))
    assert.is_false(of_any("$ == 5", nil))
  end)

  it("that is wrong is refused with the place", function()
    for text, err in pairs {
      ["$a >"] = "at character 5: a value expected, got the end", ["a b"] = "at character 3: an operator, or the end, expected, got 'b'",
      ["severity > 3"] = "at character 1: a component, which begins with $, expected, got 'severity'",
      ["$a == 1 and 3 == (level)"] = "at character 19: a component, which begins with $, expected, got 'level'",
      ["x != -1"] = "at character 1: a component, which begins with $, expected, got 'x'",
      ["(1"] = "at character 3: ')' expected, got the end", ["'x"] = "at character 1: a string that ends by ' expected",
      ["$.[1"] = "at character 3: a member, a position or a union's label in ( ) expected, got '['",
      ["1 == 2 == 3"] = "at character 8: an operator, or the end,",
      ["$x[a]"] = "at character 4: an index expected, got 'a'", ["1 in 2"] = "at character 6: a component, which begins with $, expected, got '2'",
      ["exist 3"] = "at character 7: a component, which begins with $, expected",
      ["1 # 2"] = "at character 3: a part of a constraint expected, got '#'",
      ["€"] = "at character 1: a part of a constraint expected, got '€'", ["- 'a'"] = "at character 3: a number expected, got ''a''",
      ["$.u.(-)"] = "at character 7: a number expected, got ')'", ["$x(3)"] = "at character 4: the name of a property expected, got '3'",
    } do
      local f, why = grammar.compile(text)
      assert.is_nil(f, text)
      assert.matches(err, why, 1, true)
    end
  end)

  it("is bounded in its length and its depth", function()
    assert.matches("at character 4097: the end", select(2, grammar.compile(("1 + "):rep(2000) .. "1")), 1, true)
    assert.matches("nesting of at most 100 levels", select(2, grammar.compile(("("):rep(2000) .. "1" .. (")"):rep(2000))), 1, true)
    assert.matches("a shorter component", select(2, grammar.compile("$" .. (".a"):rep(2000))), 1, true)
    local list, limit = {}, mare.clock() + 30
    for i = 1, 2000 do list[i] = { _anytype = broker:type "long", _anyval = i } end
    assert.is_false(of_any(("0 in $ or "):rep(300) .. "0 in $", list))
    assert.is_true(mare.clock() < limit)
    path.allow(10000)                                 -- what a filter gives them
    assert.is_true(of_any("2000 in $", list))
    assert.is_false(of_any(("0 in $ or "):rep(300) .. "2000 in $", list))
    path.allow(math.huge)
  end)

  it("never fails, whatever it says of whatever event", function()
    local words = { "$a", "$.b", "$c[0]", "$d(e)", "$.f.(1)", "'x'", "1", "-2.5", "TRUE", "RED", "+", "*", "/", "-", "and", "or", "not", "in", "~",
      "==",
                    "<", "(", ")", "exist", "default", "$", "._length", ".", "[", "]", "$severity", "$tags", "$detail" }
    math.randomseed(7)
    local understood = 0
    for _ = 1, 5000 do
      local text = {}
      for i = 1, math.random(1, 7) do text[i] = words[math.random(#words)] end
      local f, err = grammar.compile(table.concat(text, " "))
      if f then
        understood = understood + 1
        assert.equal("boolean", type(f { structured = structured, type = T }))
        assert.equal("boolean", type(f { any = alarm() }))
      else
        assert.matches("^at character %d+: ", err)
      end
    end
    assert.is_true(understood > 200)
  end)
end)

describe("types of events", function()
  local function match(domain, name, d, n)
    local list = patterns.of { { domain_name = domain, type_name = name } }
    return list == nil or patterns.match(list, d, n)
  end

  it("are named by patterns", function()
    for _, case in ipairs {
      { true, "*", "%ALL", "Rail", "Alarm" }, { true, "", "", "x", "y" }, { true, "Rail", "*", "Rail", "y" }, { false, "Rail", "*", "Road", "y" },
      { true, "Rail", "A*", "Rail", "Alarm" }, { false, "Rail", "A*", "Rail", "Note" }, { true, "*", "*arm", "Rail", "Alarm" },
      { true, "*", "A*a*m", "Rail", "Alarm" }, { false, "*", "A*a*mm", "Rail", "Alarm" }, { false, "*", "ab*ba", "x", "aba" }, { true, "*", "a.c",
      "x", "a.c" },
      { false, "*", "a.c", "x", "abc" },
    } do
      assert.equal(case[1], match(case[2], case[3], case[4], case[5]), case[2] .. "/" .. case[3] .. " " .. case[4] .. "/" .. case[5])
    end
    local limit = mare.clock() + 30
    assert.is_false(match("*", ("*a"):rep(2000) .. "b", "x", ("a"):rep(5000)))
    assert.is_true(mare.clock() < limit)
  end)

  it("change by what is added and removed", function()
    local function t(text) return { domain_name = text:match "^[^/]*", type_name = text:match "[^/]*$" } end
    local function shown(list)
      local names = {}
      for i, T2 in ipairs(list) do names[i] = T2.domain_name .. "/" .. T2.type_name end
      return table.concat(names, " ")
    end
    local list = patterns.changed({ patterns.ALL }, { t "a/b", t "a/b", t "c/d" }, {})
    assert.equal("a/b c/d", shown(list))
    list = patterns.changed(list, {}, { t "a/b" })
    assert.equal("c/d", shown(list))
    assert.same({}, patterns.subscribed(patterns.changed(list, {}, { t "c/d" })))
  end)
end)
