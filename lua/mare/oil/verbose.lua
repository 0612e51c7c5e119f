--[[
mare.oil.verbose: oil.verbose, what the broker tells of itself. level(n): 0 nothing, 1 the broker's warnings, 2 its calls and requests, 3 and more
all of
its log; output(file) says where to, stderr if nothing does.
]]
local Viewer = require "mare.oil.loop.debug.Viewer"

local verbose = { current = 0, viewer = Viewer { output = io.stderr, labels = {} }, flags = {}, groups = {}, custom = {}, pause = {} }

--- Sets the level. -> the one before
function verbose:level(level)
  local before = self.current
  if level ~= nil then self.current = tonumber(level) or 0 end
  return before
end

function verbose:output(file) self.viewer.output = file end
function verbose:flag(name, value)
  if value ~= nil then self.flags[name] = value end
  return self.flags[name]
end
function verbose.newlevel() end

--- A line, if the level is at least `level`.
function verbose:say(level, format, ...)
  if self.current < level then return end
  local out = self.viewer.output
  out:write("[OiL] ", format:format(...), "\n")
  if out.flush then out:flush() end
end

return verbose
