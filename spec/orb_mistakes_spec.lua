-- Mistakes of programs that would be hard to find if nobody said so.
local orb = require "mare.orb"

local IDL = [[
  interface Odd { long twice(in long n); oneway void note(in string text); attribute long size; long none(); };
  valuetype Pair { public long a; };
  custom valuetype Own { public long a; };
  interface Bag { Own keep(in Own o); };
]]

local function with(servant, interface, f)
  local log = {}
  local server, client = orb.init { host = "127.0.0.1", log = function(_, text) log[#log + 1] = text end }, orb.init()
  server:load(IDL)
  client:load(IDL)
  local reference = server:serve(servant, interface)
  local fine, err = pcall(f, client:proxy(tostring(reference)), reference, log, client)
  client:close()
  server:shutdown(20)
  if not fine then error(err, 0) end
end

local function raises(name, text, f, ...)
  local fine, e = pcall(f, ...)
  assert.is_false(fine)
  assert.equal(name, orb.exception.is_system(e), tostring(e))
  if text then assert.truthy(tostring(e):find(text, 1, true), tostring(e)) end
end

describe("a call", function()
  it("with more arguments than its operation has is refused, however it is made; nil is nothing", function()
    local servant = { twice = function(_, n) return 2 * n, "more" end, note = function() end, none = function() return 1, nil, 3 end }
    with(servant, "Odd", function(odd)
      for _ = 1, 3 do                                                         -- the first call goes another way than those that follow
        raises("BAD_PARAM", "1 argument expected, got 2", odd.twice, odd, 1, 2)
        raises("BAD_PARAM", "0 arguments expected, got 2", odd.none, odd, nil, false)
        raises("BAD_PARAM", "1 argument expected, got 3", odd.note, odd, "a", nil, "c")
        raises("BAD_PARAM", "1 argument expected, got 2", odd._set_size, odd, 1, 2)
        assert.equal(8, odd:twice(4, nil))
        assert.equal(1, odd:none(nil, nil))                                   -- of results those too many are left out
      end
      local future = odd._async:twice(1, 2)
      assert.is_false((future:wait(20)))
    end)
  end)
end)

describe("a broker", function()
  it("refuses an interceptor that is not in a list, and a file's reference without a whole path", function()
    local function f() end
    for _, wrong in ipairs { { name = "t", send_request = f }, { foo = 1 }, { { send_request = f }, name = "t" } } do
      local fine, e = pcall(orb.init, { interceptors = wrong })
      assert.is_false(fine)
      assert.matches("interceptors is a list of them.*it has '%a", tostring(e))
    end
    local broker <close> = orb.init()
    for _, wrong in ipairs { "file:ref.ior", "file:" } do raises("BAD_PARAM", wrong, broker.proxy, broker, wrong) end
    raises("BAD_PARAM", "/no/such/file", broker.proxy, broker, "file:/no/such/file")
  end)
end)

describe("a servant", function()
  it("whose method is no function lacks it, and the log says what is there", function()
    with({ twice = 7, none = {}, _get_size = "three", note = setmetatable({}, { __index = {} }) }, "Odd", function(odd, here, log)
      for i, p in ipairs { odd, here } do
        raises("NO_IMPLEMENT", i == 2 and "the servant's 'twice' is a number, not a method" or nil, p.twice, p, 1)
        raises("NO_IMPLEMENT", nil, p.none, p)
        raises("NO_IMPLEMENT", nil, function() return p.size end)
      end
      assert.truthy(log[1]:find("operation 'twice' of an object IDL:Odd:1.0: the servant's 'twice' is a number, not a method", 1, true), log[1])
      assert.truthy(log[2]:find("'none' is a table", 1, true), log[2])
      assert.truthy(log[3]:find("'_get_size' is a string", 1, true), log[3])
    end)
  end)

  it("may have what can be called as a function", function()
    local double = setmetatable({}, { __call = function(_, _, n) return 2 * n end })
    with({ twice = double }, "Odd", function(odd, here)
      for _ = 1, 3 do assert.equal(6, odd:twice(3)) end
      assert.equal(6, here:twice(3))
    end)
  end)
end)

describe("what a program says of values", function()
  it("is found where it says it", function()
    local here = "orb_mistakes_spec.lua:"
    with({ keep = function(_, o) return o end }, "Bag", function(bag, _, _, client)
      for _, f in ipairs {
        function() client:factory("Pear", {}) end, function() client:factory("Pair", 5) end, function() client:factory("Bag", {}) end,
      } do
        local fine, err = pcall(f)
        assert.is_false(fine)
        assert.truthy(err:find(here, 1, true), err)
        assert.is_nil(err:find("mare/orb", 1, true), err)
      end
      local own = {}
      own.__index = own
      function own.write(_, out) out:write("sequenze<long>", {}) end
      client:factory("Own", own)
      local fine, err = pcall(bag.keep, bag, setmetatable({ a = 1 }, own))
      assert.is_false(fine)
      assert.truthy(tostring(err):find(here, 1, true), tostring(err))
      assert.is_nil(tostring(err):find("value.lua", 1, true), tostring(err))
    end)
  end)
end)
