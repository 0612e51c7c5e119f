-- JSON, as the command line writes it and mare top reads it.
-- runs under: mare
-- needs: plain
local json = require "mare.base.json"

describe("json", function()
  it("writes values, names in their order", function()
    assert.equal([[{"a":[1,2.5,"x"],"b":{"c":true},"d":[]}]], json.text { b = { c = true }, a = { 1, 2.5, "x" }, d = {} })
    assert.equal([["\"\\\n\t\u0000\u001b€ÿ"]], json.text '"\\\n\t\0\27€ÿ')
    assert.equal([["aÿ"]], json.text "a\255")                 -- no UTF-8: taken as Latin-1
    assert.equal("[null,null,null]", json.text { 1 / 0, -1 / 0, 0 / 0 })
  end)

  it("reads what it writes", function()
    for _, v in ipairs { { 1, -2, 0.25, 1e300, math.maxinteger, "", "a\"\\/\b\f\n\r\t\0€\u{10ffff}" }, { a = { b = { {}, false } } }, { "x" } } do
      assert.same(v, json.read(json.text(v)))
    end
    assert.same({ a = 1, b = { true, false } }, json.read ' {\r\n\t"a" : 1 , "b":[ true,false ] , "n" : null } ')
    assert.equal("é€\u{1f600}/", json.read [["\u00e9\u20AC\ud83d\ude00\/"]])
    assert.equal("integer", math.type(json.read "12"))
    assert.equal(1200.0, json.read "1.2e3")
  end)

  it("refuses what is no JSON, and says where", function()
    for text, where in pairs {
      [""] = 1, ["{"] = 2, ["[1,]"] = 4, ["[1 2]"] = 4, ['{"a"}'] = 5, ["{a:1}"] = 2, ['"x'] = 3, ['"\\x"'] = 2, ['"\\u12"'] = 4, ["1 2"] = 3,
      ["nul"] = 1, ["+1"] = 1, ["1..2"] = 2, ["1."] = 2, ["1e"] = 2, ["-"] = 1, ['"\n"'] = 2, ["NaN"] = 1, ["[1}"] = 3,
    } do
      local v, err = json.read(text)
      assert.is_nil(v, text)
      assert.matches("^at byte " .. where .. ": ", err, text)
    end
    assert.matches("too deep", select(2, json.read(("["):rep(1e6))))
  end)
end)
