-- `mare lab`: hands over to the laboratory's own program. What that does is tested in lab/tests.
-- runs under: mare
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

describe("mare lab", function()
  it("says what to do where the laboratory is not built", function()
    local r = proc.mare_command({ "lab", "choose" }, { env = { MARE_LAB = "/nonexistent" } })
    assert.equal(2, r.code)
    assert.truthy(r.err:find("/nonexistent/venv/bin/marelab", 1, true))
    assert.truthy(r.err:find("make lab", 1, true))
  end)
  it("passes its arguments on, as they are", function()
    local dir = temporary()
    os.remove(dir)
    os.execute("mkdir -p " .. dir .. "/venv/bin")
    local file = assert(io.open(dir .. "/venv/bin/marelab", "w"))
    file:write("#!/bin/sh\nfor a; do printf '<%s>' \"$a\"; done\nexit 7\n")
    file:close()
    os.execute("chmod +x " .. dir .. "/venv/bin/marelab")
    local r = proc.mare_command({ "lab", "choose", "--", "a b", "", "*" }, { env = { MARE_LAB = dir } })
    os.execute("rm -r " .. dir)
    assert.equal(7, r.code)
    assert.equal("<choose><--><a b><><*>", r.out)
  end)
end)
