-- The tests and demos of OiL's own source, which OIL_SRC names: see spec/support/oil/tests.lua and demos.lua. Programs of the same kind that
-- always run are in the other oil specs.
-- runs under: mare
-- time limit: 900 s
-- needs: plain
local foreign = require "spec.support.foreign"
local source = os.getenv "OIL_SRC"

local tests = require "spec.support.oil.tests"

-- What OiL's files of tests say.
local function test(client)
  return { master = "Client", programs = { Client = client, Server = [[
    orb = oil.dtests.init { port = 2809 }
    orb:loadidl "interface Adder { long add(in long a, in long b); };"
    orb:newservant({ add = function(_, a, b) return a + b end }, "adder", "Adder")
    orb:run()
  ]] } }
end

describe("the harness of OiL's tests", function()
  it("lets the programs of a test meet, and tells what fails", function()
    local calls = [[
      orb = oil.dtests.init()
      adder = oil.dtests.resolve("Server", 2809, "adder")
      oil.dtests.checks.assert(adder:add(1, 2), oil.dtests.checks.equal(%d))
      orb:shutdown()
    ]]
    for _, flavor in ipairs { "cooperative;corba", "corba" } do
      assert.is_true(tests.run(test(calls:format(3)), flavor))
      local fine, why = tests.run(test(calls:format(4)), flavor)
      assert.is_false(fine)
      assert.matches("4 expected, got 3", why)
    end
  end)
end)

describe("OiL's own", function()
  if not source then
    foreign.skip("tests and demos need OIL_SRC, a checkout of github.com/renatomaia/oil (tag OIL_0_6_1)")
    return
  end
  local demos = require "spec.support.oil.demos"
  for _, t in ipairs(tests.list(source)) do
    for _, flavor in ipairs(tests.flavors(t)) do
      it(("test %s/%s passes with flavor %s"):format(t.group, t.name, flavor), function()
        local fine, why = tests.run(t, flavor)
        assert.is_true(fine, why)
      end)
    end
  end
  for _, demo in ipairs(demos.list) do
    it("demo " .. demo[1] .. " runs", function()
      local fine, why = demos.run(source, demo)
      assert.is_true(fine, why)
    end)
  end
end)
