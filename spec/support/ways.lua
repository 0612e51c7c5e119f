-- ways(expected, script): what a program prints is the same the usual way, through Lua's API only, on one worker, and in a run that can be repeated.
-- `script` finds mare, channel and spawn, and a print that writes spaces.
local proc = require "spec.support.proc"

local head = [[
local mare = require "mare"
local channel, spawn = mare.channel.new, mare.process.spawn
local function print(...)
  local t = table.pack(...)
  for i = 1, t.n do t[i] = tostring(t[i]) end
  io.write(table.concat(t, " "), "\n")
end
]]

local all = { {}, { env = { MARE_LAYOUT = "0" } }, { arguments = { "-w", "1" } }, { arguments = { "--seed", "7" } } }

return function(expected, script)
  proc.with_file(head .. script, function(path)
    for _, way in ipairs(all) do
      local arguments = { "run", table.unpack(way.arguments or {}) }
      arguments[#arguments + 1] = path
      local r = proc.mare_command(arguments, { env = way.env })
      assert.equal(expected, r.out, r.err)
      assert.equal(0, r.code)
    end
  end)
end
