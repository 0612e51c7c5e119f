-- mare.json: values to text and back, what is refused and where, lines, hostile texts and tables.
-- needs: plain or asan
-- needs: yyjson
local mare = require "mare"
local json = require "mare.json"
local encode, decode = json.encode, json.decode

local function refused(value, options)
  local ok, message = pcall(encode, value, options)
  assert.is_false(ok)
  return message
end

local function unread(text, options)
  local value, message = decode(text, options)
  assert.is_nil(value)
  return message
end

describe("encode", function()
  it("writes scalars, integers exactly, and floats as the shortest text that gives them back", function()
    for text, value in pairs { ["true"] = true, ["false"] = false, ["9223372036854775807"] = math.maxinteger,
        ["-9223372036854775808"] = math.mininteger, ["0.1"] = 0.1, ["1.0"] = 1.0, ["-0.0"] = -0.0,
        ["0.30000000000000004"] = 0.1 + 0.2, ["1e300"] = 1e300, ["5e-324"] = 5e-324, ["0"] = 0 } do
      assert.equal(text, encode(value))
    end
    assert.equal("null", encode(nil))
    assert.equal("null", encode(json.null))
    assert.equal([["\"\\/\b\f\n\r\t\u0000\u001f]] .. '\127é€😀"', encode '"\\/\b\f\n\r\t\0\31\127é€😀')
  end)
  it("tells arrays from objects", function()
    assert.equal("[1,[2,[]],{\"a\":1}]", encode { 1, { 2, {} }, { a = 1 } })
    assert.equal("{}", encode({}, { empty = "object" }))
    assert.equal("[{},[]]", encode { json.object(), json.array() })
    assert.equal("[1,null,3]", encode(json.array { [1] = 1, [3] = 3 }))
    assert.equal([[{"1":"a","10":"b","x":"c"}]], encode(json.object { "a", [10] = "b", x = "c" }, { sorted = true }))
    assert.equal("[]", encode(setmetatable({}, { __jsontype = "array" }), { empty = "object" }))
    local long = {}
    for i = 1, 1000 do long[i] = i end
    assert.equal("[" .. table.concat(long, ",") .. "]", encode(long))
    long[500] = nil
    assert.matches("holes", refused(long))
    assert.matches("holes", refused { 1, nil, 3 })
    assert.matches("names and numbers", refused { 1, a = 2 })
    assert.matches("no string and no index", refused { [1.5] = 1 })
    assert.matches("no string and no index", refused(json.object { [true] = 1 }))
    assert.matches("nearly all holes", refused(json.array { [1 << 40] = 1 }))
    for _, sorted in ipairs { false, true } do
      assert.matches("and so is its text", refused(json.object { [1] = 1, ["1"] = 2 }, { sorted = sorted }))
    end
  end)
  it("sorts names and lays out lines", function()
    local value = { b = { 1, {} }, a = json.object(), c = { x = true, ["\0"] = 1, [""] = 2 } }
    assert.equal([=[{"a":{},"b":[1,[]],"c":{"":2,"\u0000":1,"x":true}}]=], encode(value, { sorted = true }))
    assert.equal("{\n  \"a\": {},\n  \"b\": [\n    1,\n    []\n  ]\n}", encode({ b = { 1, {} }, a = json.object() }, { sorted = true, indent = 2 }))
  end)
  it("names the path of what it refuses", function()
    assert.matches("value.items%[2%].price: JSON has no NaN", refused { items = { {}, { price = 0 / 0 } } })
    assert.matches("value%[\"a b\"%]: JSON has no infinity", refused { ["a b"] = -1 / 0 })
    assert.matches("value.a.b: a function", refused({ a = { b = print, c = 1 } }, { sorted = true }))
    assert.matches("value%[1%]: a string is no UTF%-8 from its byte 2 on %(\\xFF%)", refused { "a\255" })
    assert.matches("value: a userdata", refused(io.stdout))
    assert.matches("value.a.a: a string is no UTF%-8", refused(mare.freeze { a = { a = "\xed\xa0\x80" } }))
    local circle = {}
    circle.circle = circle
    assert.matches("more than 1000 tables in each other", refused(circle))
    assert.matches("json_value_spec.lua:%d+: value", select(2, pcall(function() encode(print) end)))
    assert.equal("[null,null,null]", encode({ 1 / 0, -1 / 0, 0 / 0 }, { nonfinite = "null" }))
    assert.equal("\"aÿ\"", encode("a\255", { invalid = "latin1" }))
    assert.equal("\"a?\"", encode("a\255", { invalid = "mark" }))
  end)
  it("refuses options that do not exist", function()
    assert.matches("has no field 'sort'; did you mean 'sorted'", refused({}, { sort = true }))
    assert.matches("'indent' must be a whole number from 0 to 16, got x", refused({}, { indent = "x" }))
    assert.matches("'empty' must be \"array\" or \"object\"", refused({}, { empty = "list" }))
    assert.matches("'into' must be a buffer", refused({}, { into = "x" }))
    assert.is_false(pcall(decode, "1", { duplicate = "first" }))
  end)
  it("takes frozen tables and buffers, and writes behind what a buffer has", function()
    local inner = mare.freeze { x = 1 }
    local frozen = mare.freeze { list = { 1, 2.5, "three", false }, names = { b = 1, a = { {} } }, bytes = mare.buffer.of "é", inner = inner }
    assert.equal([=[{"bytes":"é","inner":{"x":1},"list":[1,2.5,"three",false],"names":{"a":[[]],"b":1}}]=], encode(frozen, { sorted = true }))
    assert.equal(encode(frozen, { sorted = true }), encode(decode(encode(frozen)), { sorted = true }))
    local b = mare.buffer.new("> ")
    assert.equal(b, encode({ b, 1 }, { into = b }))
    assert.equal('> ["> ",1]', b:sub(1, -1))
    assert.matches("sealed", refused(1, { into = mare.buffer.of "x" }))
  end)
  it("lets its marks travel to other processes", function()
    local ok, there = mare.process.spawn(function(list, object)
      return require "mare.json".encode { list, object }
    end, json.array(), json.object()):wait()
    assert.is_true(ok)
    assert.equal("[[],{}]", there)
  end)
  it("takes tables and texts of any size", function()
    local deep = {}
    for _ = 1, 50000 do deep = { deep } end
    local text = encode(deep, { depth = 100000 })
    assert.equal(100002, #text)
    assert.equal(text, encode(assert(decode(text, { depth = 100000 })), { depth = 100000 }))
    local wide = { ("é"):rep(100000), ("x"):rep(100000), ("\1"):rep(5000) }
    assert.same(wide, decode(encode(wide)))
  end)
  it("survives finalisers that change what it writes", function()
    for _ = 1, 20 do
      local t = {}
      for i = 1, 200 do t["name " .. i] = { ("x"):rep(100), setmetatable({}, {}) } end
      setmetatable({}, { __gc = function() for k in pairs(t) do t[k] = nil end end })
      pcall(encode, t, { sorted = _ % 2 == 0 })
      collectgarbage()
    end
  end)
end)

describe("decode", function()
  it("reads what encode writes", function()
    for _, value in ipairs { 0, -1, math.maxinteger, math.mininteger, 0.1, 1e300, 5e-324, "", "a\0é\u{10ffff}", true,
        { 1, { 2, { "x" } } }, { a = { b = { 1.5 } }, c = {} } } do
      assert.same(value, decode(encode(value)))
      assert.equal(math.type(value), math.type(decode(encode(value))))
    end
    assert.equal([[{"a":[],"b":{},"c":null}]], encode(decode [[ { "a" : [ ] ,"b":{ },"c":null } ]], { sorted = true }))
    assert.equal("é€😀/", decode [["\u00e9\u20AC\ud83d\ude00\/"]])
    assert.same({ 1 }, decode(mare.buffer.of "[1]"))
    assert.same({ 1 }, decode(mare.buffer.new "[1]"))
  end)
  it("gives null as it is told", function()
    assert.same({ 1, json.null }, decode "[1,null]")
    assert.same({ a = false }, decode('{"a":null}', { null = false }))
    assert.same({ b = 1 }, decode('{"a":null,"b":1}', { null_as_nil = true }))
  end)
  it("says by line and column what is wrong", function()
    for text, place in pairs { [""] = "line 1, column 1", ["{"] = "line 1, column 2", ["[1,]"] = "line 1, column 3",
        ["[1 2]"] = "line 1, column 4", ['{"a":1,\n "é": tru}'] = "line 2, column 7",
        ['["é", "\255"]'] = "line 1, column 8", ["1 2"] = "line 1, column 3",
        ["NaN"] = "line 1, column 1", ["[1e999]"] = "line 1, column 2", ["[01]"] = "line 1, column 2", ['"\\ud800"'] = "line 1",
        ['"\n"'] = "line 1, column 2", ["\239\187\191[]"] = "line 1" } do
      assert.matches("^" .. place, unread(text), text)
    end
    assert.matches("line 1, column 1001: more than 1000", unread(("["):rep(2000) .. ("]"):rep(2000)))
    assert.matches("line 2, column 7: more than 2", unread('{"a":\n["]", {"b": [1]}]}', { depth = 2 }))
  end)
  it("keeps integers exact, or says that it can't", function()
    assert.equal(1.8446744073709552e19, decode "18446744073709551615")
    for _, text in ipairs { "18446744073709551615", "9223372036854775808", "-9223372036854775809", "123456789012345678901234567890" } do
      assert.equal(text, decode(text, { big = "string" }))
      assert.matches("line 2, column 3: the integer", unread("[1,\n  " .. text .. "]", { big = "error" }))
    end
    assert.matches("line 1, column 1: the number is too large", unread("1e999", { big = "string" }))
  end)
  it("treats members of one name as it is told", function()
    local text = '{"a":1,\n"b":{"a":2,"a":[3]},"a":4}'
    assert.same({ a = 4, b = { a = { 3 } } }, decode(text))
    assert.same({ a = 1, b = { a = 2 } }, decode(text, { duplicates = "first" }))
    assert.matches('line 2, column 12: the object has the name "a" already', unread(text, { duplicates = "error" }))
  end)
  it("takes or refuses any text, and nothing else", function()
    local pieces = { "{", "}", "[", "]", ",", ":", '"', "a", "\\", "1", "-", ".", "e", "null", "true", " ", "\n",
      "\\u12", "\255", "é", '"a":', "[1]" }
    math.randomseed(7)
    for _ = 1, 3000 do
      local t = {}
      for i = 1, math.random(12) do t[i] = pieces[math.random(#pieces)] end
      local text = table.concat(t)
      local value, message = decode(text)
      if message then assert.matches("^line %d+, column %d+: ", message)
      else assert.equal(encode(value, { sorted = true }), encode(decode(encode(value)), { sorted = true }), text) end
    end
  end)
  it("stays within the process's memory limit", function()
    local text = "[" .. ("[],"):rep(300000) .. "1]"
    local p = mare.process.spawn { main = function(s) return require "mare.json".decode(s) ~= nil end, args = { text }, memory = 4 << 20 }
    local ok, err = p:wait()
    assert.is_false(ok)
    assert.matches("memory", tostring(err))
  end)
  it("says where a short text goes wrong, however much it would take to read it", function()
    for n = 200, 300 do
      for _, unit in ipairs { "[", "[[],", '{"":', '["",', "[0," } do
        local text = unit:rep(n):sub(1, n)
        local value, message = decode(text)
        assert.is_nil(value)
        assert.equal(("line 1, column %d: the text ends too early"):format(n + 1), message)
      end
    end
  end)
  it("takes at most 40 times the text's size of memory", function()
    local n = 200000
    local function decodes(text)
      local p = mare.process.spawn { main = function(sealed) return require "mare.json".decode(sealed) ~= nil end,
                                     args = { mare.buffer.new(text):seal() }, memory = 40 * n + 200000 }
      return select(2, assert(p:wait()))
    end
    assert.is_false(decodes(("["):rep(n)))
    for _, unit in ipairs { "[0],", "{},", "[],", '{"a":0},' } do assert.is_true(decodes("[" .. unit:rep(n // #unit) .. "0]")) end
  end)
end)

describe("lines", function()
  local function all(...)
    local list = {}
    for value, n in json.lines(...) do list[#list + 1] = n .. "=" .. encode(value) end
    return table.concat(list, " ")
  end
  it("reads texts, functions, files and connections", function()
    local text = '{"a":1}\r\n\n[2]\nnull\n"x"'
    assert.equal('1={"a":1} 3=[2] 4=null 5="x"', all(text))
    assert.equal('1={"a":1} 3=[2] 4=null 5="x"', all(mare.buffer.new(text)))
    assert.equal('1={"a":1} 3=[2] 4=null 5="x"', all(text:gmatch "[^\n]*"))
    local file = assert(io.tmpfile())
    file:write(text)
    file:seek "set"
    assert.equal('1={"a":1} 3=[2] 4=null 5="x"', all(file))
    file:close()
    local server = assert(mare.net.listen "127.0.0.1:0")
    local a = assert(mare.net.connect(server:address()))
    local b = assert(server:accept())
    mare.fiber.spawn(function()
      a:write(text)
      a:close()
    end)
    assert.equal('1={"a":1} 3=[2] 4=null 5="x"', all(b))
    server:close()
    b:close()
  end)
  it("says in which line something is wrong, and passes on what its reader says", function()
    assert.matches("line 2, column 4: the text ends too early", select(2, pcall(all, "1\n[2,\n3")))
    assert.equal("no luck", select(2, pcall(all, function() return nil, "no luck" end)))
    assert.matches("got table", select(2, pcall(all, function() return {} end)))
    assert.equal('1=["18446744073709551616"]', all("[18446744073709551616]", { big = "string" }))
  end)
  it("never gives nil, which would end the loop", function()
    assert.equal("1=null 2=[]", all("null\n[null]", { null_as_nil = true }))
    assert.equal('1="-" 2=["-"]', all("null\n[null]", { null = "-" }))
  end)
end)
