-- Marshalling through Lua's API alone, as it is where Lua's own structures aren't as mare knows them: all specs of it once more.
-- runs under: mare
local proc = require "spec.support.proc"

describe("without knowledge of Lua's structures", function()
  -- One thread does it all; so under ThreadSanitizer it is enough that there is no other way in.
  local names = proc.config == "tsan" and { "" } or { "", "_text", "_any", "_types_deep", "_flat", "_message", "_random", "_hostile" }
  for _, name in ipairs(names) do
    it("orb_cdr" .. name .. " is the same", function()
      local arguments = { "run", "spec/support/run.lua", "spec/orb_cdr" .. name .. "_spec.lua" }
      local r = proc.mare_command(arguments, { env = { MARE_LAYOUT = "0" }, timeout = 60 })
      assert.is_true(r.code == 0, r.out:sub(-3000) .. r.err)
      assert.is_truthy(r.out:find "[1-9]%d* ok, 0 failed, 0 errors", r.out:sub(-300))
    end)
  end
end)
